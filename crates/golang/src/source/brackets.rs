//! Brackets that belong together.

use super::GoSource;

/// Which brackets are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brackets {
    /// Those of blocks and literals: `{` and `}`.
    Braces,
    All,
}

impl Brackets {
    fn opens(self, word: &str) -> bool {
        word == "{" || self == Self::All && matches!(word, "(" | "[")
    }

    fn closes(self, word: &str) -> bool {
        word == "}" || self == Self::All && matches!(word, ")" | "]")
    }
}

impl GoSource {
    /// The bracket that is open at a token.
    pub(super) fn opening_before(&self, token: usize, of: Brackets) -> Option<usize> {
        let mut depth = 0_usize;
        (0..token).rev().find(|&at| match self.word(at) {
            word if of.closes(word) => {
                depth += 1;
                false
            }
            word if of.opens(word) && depth == 0 => true,
            word if of.opens(word) => {
                depth -= 1;
                false
            }
            _ => false,
        })
    }

    /// The bracket that closes the one at `open`.
    pub(super) fn closing(&self, open: usize, of: Brackets) -> Option<usize> {
        let mut depth = 0_usize;
        (open..self.places.len()).find(|&at| {
            match self.word(at) {
                word if of.opens(word) => depth += 1,
                word if of.closes(word) => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }
}
