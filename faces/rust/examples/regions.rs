//! What two ways to join words allocate: a case of `mallow test` each.

use std::hint::black_box;

const WORDS: [&str; 4] = ["how", "many", "allocations", "?"];

fn main() {
    let operations = mallow_measure::operations(1000);
    mallow_measure::measure("join", || {
        for _ in 0..operations {
            black_box(WORDS.join(" "));
        }
        operations
    });
    mallow_measure::measure("push", || {
        for _ in 0..operations {
            let mut text = String::new();
            for word in WORDS {
                text = text + word + " ";
            }
            black_box(text);
        }
        operations
    });
}
