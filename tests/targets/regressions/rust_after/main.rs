// A program after it was changed: tests/end_to_end/diff_regressions.rs describes the change.
use std::hint::black_box;

#[inline(never)]
fn append_field(line: &mut String, number: usize) {
    let field = number.to_string();
    line.push_str(black_box(&field));
}

#[inline(never)]
fn format_line(number: usize) -> usize {
    let mut line = String::with_capacity(64);
    append_field(&mut line, number);
    black_box(&line).len()
}

#[inline(never)]
fn count_words(text: &str) -> usize {
    let copy = text.to_owned();
    black_box(&copy).split(' ').count()
}

fn main() {
    let text = "one two three four ".repeat(20);
    let total: usize = (1..=800).map(|number| format_line(number) + count_words(&text)).sum();
    black_box(total);
}
