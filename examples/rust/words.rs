//! words [SCALE]: counts words, as a small text tool would.
//!
//! - `lower_case` makes a `String` for every word it sees: most of the allocations, nearly all temporary.
//! - `Counts::add` keeps one `String` for each new word: live until the end of `main`.
//! - `remember` leaks one boxed title in each round, SCALE in all (default 10).

use std::collections::HashMap;

const TEXT: &str = "The sea is calm to-night. The tide is full, the moon lies fair Upon the straits; on the French coast \
                    the light Gleams and is gone; the cliffs of England stand, Glimmering and vast, out in the \
                    tranquil bay.";

/// How often each word was seen.
#[derive(Default)]
struct Counts {
    words: HashMap<String, usize>,
}

impl Counts {
    #[inline(never)]
    fn add(&mut self, word: &str) {
        let word = lower_case(word);
        match self.words.get_mut(word.as_str()) {
            Some(count) => *count += 1,
            None => {
                self.words.insert(word.clone(), 1);
            }
        }
    }

    fn most_frequent(&self) -> Option<(&str, usize)> {
        self.words.iter().map(|(word, count)| (word.as_str(), *count)).max_by_key(|&(word, count)| (count, word))
    }
}

#[inline(never)]
fn lower_case(word: &str) -> String {
    word.to_lowercase()
}

#[inline(never)]
fn remember(title: &str) -> &'static str {
    std::hint::black_box(Box::leak(title.to_owned().into_boxed_str()))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty())
}

fn main() {
    let scale = match std::env::args().nth(1).map(|argument| argument.parse::<usize>()) {
        None => 10,
        Some(Ok(scale)) => scale,
        Some(Err(_)) => {
            eprintln!("usage: words [SCALE]");
            std::process::exit(2);
        }
    };
    let mut counts = Counts::default();
    let mut titles = 0;
    for round in 0..scale {
        titles += remember(&format!("Dover Beach, reading {round}")).len();
        words(TEXT).for_each(|word| counts.add(word));
    }
    if let Some((word, count)) = counts.most_frequent() {
        println!("{} words, most frequent: {word}, {count} times; {titles} bytes of titles", counts.words.len());
    }
}
