//! What is benchmarked.

/// The words of a text, each once, in their order.
pub fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if !words.iter().any(|there| there == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// How often each letter is in it: allocates nothing.
pub fn letters(text: &str) -> [u32; 26] {
    let mut letters = [0; 26];
    for byte in text.bytes().filter(u8::is_ascii_alphabetic) {
        letters[usize::from(byte.to_ascii_lowercase() - b'a')] += 1;
    }
    letters
}

/// A text.
pub const TEXT: &str = "how many words are in how many words of a text of words";

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_measure::Region;

    /// Tests run side by side: this thread's allocations alone are this test's.
    #[test]
    fn each_word_is_there_once() {
        let region = Region::this_thread("words_once");
        let words = words(TEXT);
        region.end(1);
        assert_eq!(words, ["how", "many", "words", "are", "in", "of", "a", "text"]);
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!(letters("abA "), std::array::from_fn(|i| [2, 1].get(i).copied().unwrap_or(0)));
    }
}
