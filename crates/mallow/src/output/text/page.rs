//! Lines of styled text. This is the one place where text from a recording becomes text for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::look::Look;

/// A line, made of pieces with styles. Its text is harmless: no piece can hold a control character.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pieces: Vec<(Style, String)>,
}

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text as it is.
    pub fn plain(self, text: impl AsRef<str>) -> Self {
        self.with(Style::new(), text)
    }

    /// Adds text that matters.
    pub fn strong(self, text: impl AsRef<str>) -> Self {
        self.with(Style::new().bold(), text)
    }

    /// Adds text that may be passed over.
    pub fn faint(self, text: impl AsRef<str>) -> Self {
        self.with(Style::new().dimmed(), text)
    }

    /// Adds text that must not be overlooked.
    pub fn warning(self, text: impl AsRef<str>) -> Self {
        self.with(Style::new().fg_color(Some(AnsiColor::Yellow.into())), text)
    }

    /// Adds another line's pieces.
    pub fn then(mut self, other: Line) -> Self {
        self.pieces.extend(other.pieces);
        self
    }

    /// Adds text in a style of its own.
    pub fn styled(self, style: Style, text: impl AsRef<str>) -> Self {
        self.with(style, text)
    }

    fn with(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.pieces.push((style, clean(text.as_ref()).into_owned()));
        self
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.width()).sum()
    }

    /// Cuts it to `width` columns, the last of them an ellipsis where something was cut.
    fn cut(&mut self, width: usize) {
        if self.width() <= width {
            return;
        }
        let mut left = width.saturating_sub(1);
        let mut kept = 0;
        for (_, text) in &mut self.pieces {
            kept += 1;
            if let Some(end) = end_of_columns(text, left) {
                text.truncate(end);
                text.push('…');
                break;
            }
            left -= text.width();
        }
        self.pieces.truncate(kept);
    }
}

/// Where the first `columns` columns of `text` end; None where it is not wider.
fn end_of_columns(text: &str, columns: usize) -> Option<usize> {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return Some(at);
        }
    }
    None
}

/// Text under construction.
#[derive(Clone, Debug)]
pub struct Page {
    look: Look,
    text: String,
}

impl Page {
    /// An empty page.
    pub fn new(look: Look) -> Self {
        Self { look, text: String::new() }
    }

    /// A page that goes on from text.
    pub fn from_text(text: String, look: Look) -> Self {
        Self { look, text }
    }

    /// Adds a line, cut to the terminal's width.
    pub fn line(&mut self, mut line: Line) {
        if let Some(width) = self.look.width {
            line.cut(width);
        }
        while let Some((_, last)) = line.pieces.last_mut() {
            last.truncate(last.trim_end().len());
            if !last.is_empty() {
                break;
            }
            line.pieces.pop();
        }
        for (style, text) in &line.pieces {
            // Writing into a string cannot fail.
            let _ = if self.look.colour && *style != Style::new() {
                write!(self.text, "{style}{text}{style:#}")
            } else {
                write!(self.text, "{text}")
            };
        }
        self.text.push('\n');
    }

    /// Adds lines of text, indented, and broken between words where the terminal ends.
    pub fn paragraph(&mut self, indent: usize, text: &str) {
        self.hanging(Line::new().plain(" ".repeat(indent)), text);
    }

    /// Adds lines of text behind `first`, and below its end.
    pub fn hanging(&mut self, first: Line, text: &str) {
        const NARROWEST: usize = 20;
        let indent = first.width();
        let room = self.look.width.map(|width| width.saturating_sub(indent).max(NARROWEST));
        let mut before = first;
        let mut row = String::new();
        for word in text.split(' ') {
            if !row.is_empty() && room.is_some_and(|room| row.width() + 1 + word.width() > room) {
                let next = Line::new().plain(" ".repeat(indent));
                self.line(std::mem::replace(&mut before, next).plain(std::mem::take(&mut row)));
            }
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        self.line(before.plain(row));
    }

    /// Adds an empty line, unless the page is empty or ends with one.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// The text with everything made visible that a terminal would obey or hide: control characters (escapes among them),
/// line ends, and Unicode's invisible and direction-changing characters. A function name is data, and so is a path.
pub fn clean(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    if !text.chars().any(harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harmful(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{Line, Page, clean};
    use crate::output::text::Look;

    fn shown(look: Look, line: Line) -> String {
        let mut page = Page::new(look);
        page.line(line);
        page.into_text()
    }

    #[test]
    fn nothing_from_a_recording_reaches_the_terminal_as_a_command() {
        for (text, expected) in [
            ("f\x1b[31mred", "f\\u{1b}[31mred"),
            ("a\nb\r\tc", "a\\u{a}b\\u{d}\\u{9}c"),
            ("c1 \u{9b}2J", "c1 \\u{9b}2J"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("größe 日本", "größe 日本"),
        ] {
            assert_eq!(clean(text), expected);
            let line = shown(Look { colour: true, ..Look::default() }, Line::new().plain(text));
            assert_eq!(line, format!("{expected}\n"));
        }
    }

    #[test]
    fn lines_are_cut_to_the_terminal() {
        let look = |width| Look { width: Some(width), ..Look::default() };
        let line = || Line::new().plain("abc").faint("日本語").strong("xyz");
        assert_eq!(shown(look(12), line()), "abc日本語xyz\n");
        assert_eq!(shown(look(11), line()), "abc日本語x…\n");
        assert_eq!(shown(look(7), line()), "abc日…\n");
        assert_eq!(shown(look(3), line()), "ab…\n");
    }

    #[test]
    fn paragraphs_are_broken_at_the_terminals_end() {
        let shown = |width, text| {
            let mut page = Page::new(Look { width, ..Look::default() });
            page.paragraph(2, text);
            page.into_text()
        };
        assert_eq!(shown(None, "one two\x1b three"), "  one two\\u{1b} three\n");
        assert_eq!(shown(Some(22), "twelve letters and more letters"), "  twelve letters and\n  more letters\n");
        assert_eq!(shown(Some(22), "abcdefghijklmnopqrstuvwxyz a"), "  abcdefghijklmnopqrs…\n  a\n");
        let mut page = Page::new(Look { width: Some(25), ..Look::default() });
        page.hanging(Line::new().strong("größe").plain("  "), "as many letters as fit");
        assert_eq!(page.into_text(), "größe  as many letters as\n       fit\n");
    }

    #[test]
    fn colours_are_closed_and_optional() {
        let line = || Line::new().strong("a").plain(" b");
        assert_eq!(shown(Look { colour: true, ..Look::default() }, line()), "\x1b[1ma\x1b[0m b\n");
        assert_eq!(shown(Look::default(), line().plain("  ").faint(" ")), "a b\n");
        assert_eq!(shown(Look::default(), line()), "a b\n");
    }
}
