use std::collections::BTreeMap;

fn main() {
    let mut m: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for i in 0..20000 {
        m.entry(i % 977).or_default().push(format!("text {i}"));
    }
    println!("{}", m.len());
}
