//! Texts with brackets, as Swift's demangler prints them.

/// Position of the first `part` that is in no bracket.
pub fn find(text: &str, part: &str) -> Option<usize> {
    let mut open = Open::default();
    for (at, what) in Brackets::new(text) {
        match what {
            Some(bracket) => {
                open.take(bracket);
            }
            None if open.0.is_empty() && text[at..].starts_with(part) => return Some(at),
            None => {}
        }
    }
    None
}

/// Length of the bracketed group that `text` begins with.
pub fn group(text: &str) -> Option<usize> {
    let mut open = Open::default();
    for (at, bracket) in Brackets::new(text).filter_map(|(at, bracket)| Some((at, bracket?))) {
        if !open.take(bracket) {
            return None;
        }
        if open.0.is_empty() {
            return Some(at + 1);
        }
    }
    None
}

/// Brackets that are open. The demangler leaves some square ones open (`[Closure Propagated : f, Argument Types :
/// []>`): what closes an outer one closes them as well.
#[derive(Default)]
struct Open(Vec<u8>);

impl Open {
    /// False for a bracket that closes nothing.
    fn take(&mut self, bracket: u8) -> bool {
        let opens = match bracket {
            b'<' | b'(' | b'[' => {
                self.0.push(bracket);
                return true;
            }
            b'>' => b'<',
            b')' => b'(',
            _ => b'[',
        };
        let at = self.0.iter().rposition(|&open| open == opens);
        self.0.truncate(at.unwrap_or(self.0.len()));
        at.is_some()
    }
}

/// The positions of a text's characters, with the brackets. Those of arrows and operators (`Swift.Int.< infix`) are
/// none.
struct Brackets<'a> {
    text: &'a str,
    at: usize,
    operator: bool,
}

impl<'a> Brackets<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, operator: false }
    }
}

impl Iterator for Brackets<'_> {
    type Item = (usize, Option<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let c = self.text[at..].chars().next()?;
        let before = self.text[..at].bytes().next_back();
        self.at += c.len_utf8();
        self.operator = is_operator(c) && (self.operator || before == Some(b'.') && c != '.');
        let arrow = c == '>' && before == Some(b'-');
        let bracket = !self.operator && !arrow && matches!(c, '<' | '>' | '(' | ')' | '[' | ']');
        Some((at, bracket.then_some(c as u8)))
    }
}

pub fn is_operator(c: char) -> bool {
    "+-*/%=<>!&|^~?.".contains(c)
}
