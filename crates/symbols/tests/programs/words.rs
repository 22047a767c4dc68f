use std::collections::HashMap;

trait Weigh {
    fn weigh(&self) -> usize;
}

impl Weigh for String {
    #[inline(never)]
    fn weigh(&self) -> usize {
        self.bytes().map(usize::from).sum()
    }
}

mod count {
    #[inline(never)]
    pub fn words<'a, I: Iterator<Item = &'a str>>(words: I) -> std::collections::HashMap<String, usize> {
        let mut counts = std::collections::HashMap::new();
        for word in words {
            *counts.entry(word.to_uppercase()).or_default() += 1;
        }
        counts
    }
}

fn main() {
    let text: String = std::env::args().collect::<Vec<_>>().join(" ");
    let counts: HashMap<String, usize> = count::words(text.split_whitespace());
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort();
    let weights: Vec<Box<dyn Weigh>> = sorted.iter().map(|(w, _)| Box::new(w.to_string()) as Box<dyn Weigh>).collect();
    println!("{} {:?}", weights.iter().map(|w| w.weigh()).sum::<usize>(), sorted);
}
