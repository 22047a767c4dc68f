//! Suppression files in LeakSanitizer's format: the leaks that a team has decided to live with.

use thiserror::Error;

use crate::analysis::stacks::functions::{Frame, Stack};

/// The patterns of a suppression file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressions {
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}; write leak:PATTERN, or # and a comment")]
pub struct Malformed {
    /// Number of the line, from 1.
    pub line: usize,
    pub what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The pattern as written, without `leak:`.
    pub text: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// Texts between the asterisks.
    parts: Vec<String>,
    from_start: bool,
    to_end: bool,
}

impl Suppressions {
    /// Reads a file's text. Suppressions of other kinds (`race:`, `vptr:`, …) are for other tools and passed over.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::parse_kind("leak", text)
    }

    /// Reads the patterns of lines that begin with this kind. Those of others are passed over.
    pub fn parse_kind(wanted: &str, text: &str) -> Result<Self, Malformed> {
        let mut patterns = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let malformed = |what| Malformed { line: index + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (kind, pattern) = line.split_once(':').ok_or(malformed("no kind before the pattern"))?;
            if kind.is_empty() || !kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                return Err(malformed("no kind before the pattern"));
            }
            if kind != wanted {
                continue;
            }
            if pattern.trim_matches(['*', '^', '$', ' ']).is_empty() {
                return Err(malformed("a pattern that is empty or matches everything"));
            }
            patterns.push(Pattern::new(pattern, index + 1));
        }
        Ok(Self { patterns })
    }

    /// Whether a pattern matches a function, a file or a module of the stack.
    pub fn covers(&self, stack: &Stack) -> bool {
        let names = |frame: &Frame| {
            let parts = [Some(frame.function.clone()), frame.file.clone(), frame.module.clone()];
            parts.into_iter().flatten().collect::<Vec<_>>()
        };
        let names: Vec<String> = stack.frames.iter().flat_map(names).collect();
        self.find(&names).is_some()
    }

    /// Index of the first pattern that matches one of the names.
    pub(crate) fn find(&self, names: &[String]) -> Option<usize> {
        self.patterns.iter().position(|p| names.iter().any(|name| p.matches(name)))
    }

    pub(crate) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }
}

impl Pattern {
    fn new(text: &str, line: usize) -> Self {
        let from_start = text.starts_with('^');
        let to_end = text.ends_with('$');
        let bare = text.strip_prefix('^').unwrap_or(text);
        let bare = bare.strip_suffix('$').unwrap_or(bare);
        let parts = bare.split('*').map(str::to_owned).collect();
        Self { text: text.to_owned(), line, parts, from_start, to_end }
    }

    /// Taking the first place for each part leaves the most room for those that follow; the last one of an anchored
    /// pattern is looked for at the end alone. So no search goes back.
    fn matches(&self, name: &str) -> bool {
        let (Some(last), mut rest) = (self.parts.len().checked_sub(1), name) else { return false };
        for (index, part) in self.parts.iter().enumerate() {
            let first = index == 0 && self.from_start;
            if index == last && self.to_end {
                return if first { rest == part } else { rest.ends_with(part.as_str()) };
            }
            match rest.find(part.as_str()) {
                Some(at) if !first || at == 0 => rest = &rest[at + part.len()..],
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Malformed, Suppressions};

    fn matches(pattern: &str, name: &str) -> bool {
        let s = Suppressions::parse(&format!("leak:{pattern}")).expect("a good pattern");
        s.patterns[0].matches(name)
    }

    #[test]
    fn patterns_match_as_in_leak_sanitizer() {
        for (pattern, name, expected) in [
            ("load", "cache::load_all", true),
            ("load", "lode", false),
            ("^load", "load_all", true),
            ("^load", "cache::load", false),
            ("load$", "cache::load", true),
            ("load$", "load_load", true),
            ("load$", "load_all", false),
            ("^load$", "load", true),
            ("^load$", "load_all", false),
            ("cache::*load", "cache::Table::load_all", true),
            ("cache::*load", "load cache::", false),
            ("^cache::*load$", "cache::reload", true),
            ("^cache::*load$", "cache::reloaded", false),
            ("ab*ba$", "aba", false),
            ("libfoo.so", "/usr/lib/libfoo.so.1", true),
            ("x", "", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn comments_and_other_kinds_are_passed_over() {
        let s =
            Suppressions::parse("# ours\r\n\n  leak:a \nrace:b\ncalled_from_lib:c\nleak:^d$\n").expect("a good file");
        let lines: Vec<_> = s.patterns.iter().map(|p| (p.line, p.text.as_str())).collect();
        assert_eq!(lines, [(3, "a"), (6, "^d$")]);
    }

    #[test]
    fn a_malformed_line_is_reported_by_its_number() {
        for (text, line) in [("leak:a\nfoo", 2), (":x", 1), ("leak:", 1), ("\nleak:**", 2), ("a b:c", 1)] {
            let Err(Malformed { line: found, .. }) = Suppressions::parse(text) else { panic!("{text:?} was accepted") };
            assert_eq!(found, line, "{text:?}");
        }
        let error = Suppressions::parse("leak:a\nfoo").unwrap_err().to_string();
        assert_eq!(error, "line 2: no kind before the pattern; write leak:PATTERN, or # and a comment");
    }
}
