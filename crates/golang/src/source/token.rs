//! Tokens of a Go source, with the positions that the compiler prints.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Text of the token in the source.
    pub text: &'a str,
    /// Bytes from the beginning of the source.
    pub offset: usize,
    /// Line number, counted from 1.
    pub line: u32,
    /// Column in bytes, counted from 1.
    pub column: u32,
    /// Whether this is a name or a keyword.
    pub word: bool,
}

/// A source without comments. Damaged text ends early or has strange tokens: it fails nowhere.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut begin = 0;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = length(rest, c);
        let end = (at + length).min(text.len());
        let written = &text[at..end];
        if !c.is_whitespace() && !rest.starts_with("//") && !rest.starts_with("/*") {
            tokens.push(Token { text: written, offset: at, line, column: (at - begin) as u32 + 1, word: is_name(c) });
        }
        if let Some(last) = written.rfind('\n') {
            line += written.matches('\n').count() as u32;
            begin = at + last + 1;
        }
        at = end;
    }
    tokens
}

fn is_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// Bytes of the token, comment or space that begins with `c`.
fn length(rest: &str, c: char) -> usize {
    let until = |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    match c {
        '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
        '/' if rest.starts_with("/*") => until("*/", 2),
        '`' => until("`", 1),
        '"' | '\'' => quoted(rest, c),
        c if is_name(c) || c.is_ascii_digit() => {
            rest.find(|c: char| !is_name(c) && !c.is_numeric()).unwrap_or(rest.len())
        }
        ':' if rest.starts_with(":=") => 2,
        c => c.len_utf8(),
    }
}

/// Length of a literal between quotes, which ends with its line at the latest.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_positions() {
        let text = "a := `\n{`+ \"\\\"{\" // {\n\tdéfer/* \n */'\\''go1";
        let all: Vec<_> = tokens(text).iter().map(|t| (t.text, t.line, t.column, t.word)).collect();
        let expected = [
            ("a", 1, 1, true),
            (":=", 1, 3, false),
            ("`\n{`", 1, 6, false),
            ("+", 2, 3, false),
            ("\"\\\"{\"", 2, 5, false),
            ("défer", 3, 2, true),
            ("'\\''", 4, 4, false),
            ("go1", 4, 8, true),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn damaged_sources_end() {
        for text in ["", "\"", "'\\", "/*", "`", "//", "\u{feff}func", "/* \u{2028}", "a\"é"] {
            assert!(tokens(text).len() < 3, "{text:?}");
        }
    }
}
