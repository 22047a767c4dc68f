//! Time by divan, allocations by Mallow, of the same functions.

use benches::{TEXT, letters, words};
use divan::black_box;

fn main() {
    case("words", || {
        black_box(words(black_box(TEXT)));
    });
    case("letters", || {
        black_box(letters(black_box(TEXT)));
    });
    divan::main();
}

/// A case of `mallow test`. It stands beside the benchmark and not within it: between its runs the harness allocates for
/// itself, and how many there are depends on the machine.
fn case(name: &str, mut function: impl FnMut()) {
    mallow_measure::measure(name, || {
        let operations = mallow_measure::operations(100);
        (0..operations).for_each(|_| function());
        operations
    });
}

#[divan::bench(name = "words")]
fn time_of_words() -> Vec<String> {
    words(black_box(TEXT))
}

#[divan::bench(name = "letters")]
fn time_of_letters() -> [u32; 26] {
    letters(black_box(TEXT))
}
