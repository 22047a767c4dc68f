//! Lines of styled text. This is the one place where text from a recording becomes text for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::look::Look;
use super::names::elided;

/// A line, made of pieces with styles. Its text is harmless: no piece can hold a control character.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    style: Style,
    text: String,
    /// A function's name: where it is cut, its end is kept.
    is_name: bool,
}

impl Line {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text without style.
    pub fn plain(self, text: impl AsRef<str>) -> Self {
        self.with(Style::new(), text)
    }

    /// Adds text in bold.
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

    /// Adds the name of a function that matters: where the terminal is too narrow, its middle is left out.
    pub fn strong_name(self, name: impl AsRef<str>) -> Self {
        self.name(Style::new().bold(), name)
    }

    /// Adds a less important name, as [`Line::name`] does.
    pub fn faint_name(self, name: impl AsRef<str>) -> Self {
        self.name(Style::new().dimmed(), name)
    }

    fn name(mut self, style: Style, name: impl AsRef<str>) -> Self {
        self.pieces.push(Piece { style, text: clean(name.as_ref()).into_owned(), is_name: true });
        self
    }

    pub fn then(mut self, other: Line) -> Self {
        self.pieces.extend(other.pieces);
        self
    }

    /// Adds text in a style of its own.
    pub fn styled(self, style: Style, text: impl AsRef<str>) -> Self {
        self.with(style, text)
    }

    fn with(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.pieces.push(Piece { style, text: clean(text.as_ref()).into_owned(), is_name: false });
        self
    }

    /// The text without styles.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// Width of the text in columns.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|piece| piece.text.width()).sum()
    }

    /// Removes spaces at the end of the line.
    fn trim_end(&mut self) {
        while let Some(Piece { text: last, .. }) = self.pieces.last_mut() {
            last.truncate(last.trim_end().len());
            if !last.is_empty() {
                break;
            }
            self.pieces.pop();
        }
    }

    /// Cuts it to `width` columns, the last of them an ellipsis where something was cut. A name that does not fit loses
    /// its middle, and leaves room for the place that is behind it.
    fn cut(&mut self, width: usize) {
        /// Fewer columns show nothing of a name.
        const NAME: usize = 12;
        /// A wider place is left out.
        const PLACE: usize = 24;
        if self.width() <= width {
            return;
        }
        let mut left = width.saturating_sub(1);
        for at in 0..self.pieces.len() {
            let behind = &self.pieces[at + 1..];
            let place: usize = behind.iter().take_while(|piece| !piece.is_name).map(|piece| piece.text.width()).sum();
            // A space stands between a name and the ellipsis for what follows.
            let reserved = match place {
                0 if behind.is_empty() => 0,
                place if place <= PLACE && place + NAME <= left => place,
                _ => 1,
            };
            let Some(piece) = self.pieces.get_mut(at) else { break };
            let room = if piece.is_name { left.saturating_sub(reserved) } else { left };
            let end = match end_of_columns(&piece.text, room) {
                None => None,
                Some(_) if piece.is_name && room >= NAME => {
                    piece.text = elided(&piece.text, room);
                    None
                }
                Some(_) if piece.is_name => end_of_columns(&piece.text, left).map(|_| 0),
                Some(end) => Some(before_number(&piece.text, end)),
            };
            let Some(end) = end else {
                left -= piece.text.width();
                continue;
            };
            piece.text.truncate(end);
            piece.text.push('…');
            self.pieces.truncate(at + 1);
            return;
        }
    }
}

/// Byte offset behind the first `columns` columns of `text`; None where it is not wider.
pub fn end_of_columns(text: &str, columns: usize) -> Option<usize> {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return Some(at);
        }
    }
    None
}

/// Byte offset at or before `end` at which no number loses digits or its unit: what is left of it would be another one.
pub fn before_number(text: &str, end: usize) -> usize {
    const UNITS: [&str; 14] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "%", "k", "M", "G", "ms", "s", "min"];
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let (kept, cut) = text.split_at(end);
    // The word that the end is in, or at.
    let word = kept.len() - kept.rsplit(' ').next().unwrap_or_default().len();
    let (before, unit) = match cut.strip_prefix(' ') {
        Some(next) if word < end => (kept, next),
        _ => (kept[..word].trim_end(), &text[word..]),
    };
    let unit = unit.split([' ', ',', ';', ':', '.']).next().unwrap_or_default();
    let number = match cut.trim_start_matches(['.', ',']) {
        _ if UNITS.contains(&unit) && before.ends_with(is_of_number) && end < before.len() + 1 + unit.len() => before,
        digits if digits.starts_with(|c: char| c.is_ascii_digit()) => kept,
        _ => return end,
    };
    number.trim_end_matches(is_of_number).trim_end_matches(['-', '+', '<', '>', '±']).len()
}

#[derive(Clone, Debug)]
pub struct Page {
    look: Look,
    text: String,
}

impl Page {
    pub fn new(look: Look) -> Self {
        Self { look, text: String::new() }
    }

    /// A page that goes on from text.
    pub fn from_text(text: String, look: Look) -> Self {
        Self { look, text }
    }

    /// Adds a line, cut to the terminal's width.
    pub fn line(&mut self, mut line: Line) {
        line.trim_end();
        if let Some(width) = self.look.width {
            line.cut(width);
        }
        for Piece { style, text, .. } in &line.pieces {
            // Writing into a string cannot fail.
            let _ = if self.look.colour && *style != Style::new() {
                write!(self.text, "{style}{text}{style:#}")
            } else {
                write!(self.text, "{text}")
            };
        }
        self.text.push('\n');
    }

    /// Adds the text of another page.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a line of prose: broken between words where the terminal ends, and never cut. What goes on has the line's
    /// own indent.
    pub fn sentence(&mut self, line: Line) {
        let Some(width) = self.look.width.filter(|&width| line.width() > width) else { return self.line(line) };
        let first = line.pieces.iter().find(|piece| !piece.text.is_empty()).map_or("", |piece| &piece.text);
        let indent = (first.len() - first.trim_start_matches(' ').len()).min(width / 2);
        let mut row = Line::new();
        // Pieces since the last space.
        let mut word = Line::new();
        for Piece { style, text, is_name } in &line.pieces {
            for part in text.split_inclusive(' ') {
                word.pieces.push(Piece { style: *style, text: part.to_owned(), is_name: *is_name });
                if part.ends_with(' ') {
                    self.add_word(&mut row, std::mem::take(&mut word), width, indent);
                }
            }
        }
        self.add_word(&mut row, word, width, indent);
        self.line(row);
    }

    fn add_word(&mut self, row: &mut Line, word: Line, width: usize, indent: usize) {
        let used = word.width() - usize::from(word.pieces.last().is_some_and(|piece| piece.text.ends_with(' ')));
        let is_begun = row.pieces.iter().any(|piece| !piece.text.trim().is_empty());
        if is_begun && row.width() + used > width {
            self.line(std::mem::replace(row, Line::new().plain(" ".repeat(indent))));
        }
        for piece in word.pieces {
            match row.pieces.last_mut() {
                Some(last) if last.style == piece.style && last.is_name == piece.is_name => last.text += &piece.text,
                _ => row.pieces.push(piece),
            }
        }
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
    fn sentences_are_broken_between_words() {
        let sentence = |width| {
            let look = Look { width: Some(width), colour: true, ..Look::default() };
            let mut page = Page::new(look);
            page.sentence(Line::new().plain("  one ").strong("two").plain(": three four").plain("five"));
            let text = page.into_text();
            assert!(text.contains("\x1b[1mtwo\x1b[0m"), "{text}");
            text.replace("\x1b[1m", "").replace("\x1b[0m", "")
        };
        assert_eq!(sentence(80), "  one two: three fourfive\n");
        assert_eq!(sentence(17), "  one two: three\n  fourfive\n");
        // The space behind a word that fits exactly is no reason to cut it.
        assert_eq!(sentence(16), "  one two: three\n  fourfive\n");
        assert_eq!(sentence(11), "  one two:\n  three\n  fourfive\n");
        // A word that is wider than the terminal is cut as lines are.
        assert_eq!(sentence(8), "  one\n  two:\n  three\n  fourf…\n");
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
    fn a_number_is_whole_or_not_there() {
        let line = "calls: malloc 1,818, realloc 15,362, calloc -3.40 MB at main.c:123";
        let cut = |width| shown(Look { width: Some(width), ..Look::default() }, Line::new().plain(line));
        for (width, expected) in [
            (37, "calls: malloc 1,818, realloc 15,362,…"),
            (36, "calls: malloc 1,818, realloc 15,362…"),
            (35, "calls: malloc 1,818, realloc …"),
            (30, "calls: malloc 1,818, realloc …"),
            (29, "calls: malloc 1,818, realloc…"),
            (20, "calls: malloc 1,818…"),
            (19, "calls: malloc …"),
            (54, "calls: malloc 1,818, realloc 15,362, calloc -3.40 MB …"),
            (53, "calls: malloc 1,818, realloc 15,362, calloc -3.40 MB…"),
            (52, "calls: malloc 1,818, realloc 15,362, calloc …"),
            (51, "calls: malloc 1,818, realloc 15,362, calloc …"),
            (50, "calls: malloc 1,818, realloc 15,362, calloc …"),
            (46, "calls: malloc 1,818, realloc 15,362, calloc …"),
            (65, "calls: malloc 1,818, realloc 15,362, calloc -3.40 MB at main.c:…"),
        ] {
            assert_eq!(cut(width), format!("{expected}\n"), "{width}");
        }
        assert_eq!(shown(Look { width: Some(2), ..Look::default() }, Line::new().plain("123")), "…\n");
    }

    #[test]
    fn names_are_cut_in_the_middle_and_keep_their_function() {
        let look = |width| Look { width: Some(width), ..Look::default() };
        let line = || {
            let line = Line::new().plain("9 %  ").strong_name("v8::internal::StringTable::Resize").plain(" a.cc:12");
            line.faint(" ← ").faint_name("v8::internal::Isolate::Initialize").plain(" b.cc:4")
        };
        assert_eq!(
            shown(look(99), line()),
            "9 %  v8::internal::StringTable::Resize a.cc:12 ← v8::internal::Isolate::Initialize b.cc:4\n"
        );
        assert_eq!(
            shown(look(80), line()),
            "9 %  v8::internal::StringTable::Resize a.cc:12 ← v8::intern…::Initialize b.cc:4\n"
        );
        assert_eq!(shown(look(60), line()), "9 %  v8::internal::StringTable::Resize a.cc:12 ← …\n");
        assert_eq!(shown(look(36), line()), "9 %  v8::intern…::Resize a.cc:12 ← …\n");
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
