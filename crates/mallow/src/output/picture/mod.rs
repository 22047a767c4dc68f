//! Pictures: SVG files that a browser shows and a printer prints, without anything from elsewhere.
//!
//! Every word that comes from a recording goes through [`harmless`]: what is left is text that XML can hold and that
//! nobody is misled by.

pub mod flame;
pub mod heap_map;
mod palette;
pub mod timeline;

use std::borrow::Cow;

use mallow_report::analysis::Ending;
use quick_xml::Writer;
use quick_xml::events::{BytesCData, BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::text::{clean, gaps};

/// Stands at the beginning of each picture: what has it may be replaced by the next one.
pub const MARK: &str = "<!-- mallow's -->";

/// Longer names are cut: nobody reads them, and a hundred thousand boxes may have them.
const NAME_MAX: usize = 1000;

/// Text without what XML cannot hold and what hides or turns text around, cut where it is very long.
fn harmless(text: &str) -> Cow<'_, str> {
    let end = text.char_indices().nth(NAME_MAX).map(|(at, _)| at);
    let (kept, cut) = (&text[..end.unwrap_or(text.len())], end.is_some());
    let kept = clean(kept);
    if !cut && !kept.contains(NO_CHARACTERS) {
        return kept;
    }
    let mut out = String::with_capacity(kept.len() + 8);
    for c in kept.chars() {
        if NO_CHARACTERS.contains(&c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    if cut {
        out.push('…');
    }
    Cow::Owned(out)
}

/// XML 1.0 excludes them, as well as control characters.
const NO_CHARACTERS: [char; 2] = ['\u{fffe}', '\u{ffff}'];

/// A line about a picture, and its class.
type Note = (&'static str, String);

/// Notes on what keeps a picture from showing the whole: filters, a cut, lost events.
fn limits(ending: &Ending, filters: Option<&str>) -> Vec<Note> {
    let mut notes: Vec<Note> = filters.map(|filters| ("note", filters.to_owned())).into_iter().collect();
    if let Some(why) = &ending.cut_short {
        notes.push(("warning", format!("The recording is cut short: {why}. Numbers are those up to the cut.")));
    }
    if ending.lost > 0 {
        notes.push(("warning", gaps::lost_events(ending.lost) + "."));
    }
    notes
}

/// An SVG under construction. Elements that are opened and not closed are closed at the end.
struct Picture {
    writer: Writer<Vec<u8>>,
    open: Vec<&'static str>,
}

/// Name and value, which is not escaped yet.
type Attribute<'a> = (&'static str, &'a str);

impl Picture {
    /// A picture of this size in pixels. Its title is what a browser's tab shows.
    fn new(width: u32, height: u32, title: &str) -> Self {
        let mut it = Self { writer: Writer::new(Vec::new()), open: Vec::new() };
        it.put(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
        it.put(Event::Comment(BytesText::from_escaped(MARK.trim_start_matches("<!--").trim_end_matches("-->"))));
        it.line();
        let (w, h, view) = (width.to_string(), height.to_string(), format!("0 0 {width} {height}"));
        it.open("svg", &[("xmlns", "http://www.w3.org/2000/svg"), ("width", &w), ("height", &h), ("viewBox", &view)]);
        it.line();
        it.open("title", &[]);
        it.words(title);
        it.close();
        it.line();
        it
    }

    /// Memory takes everything: no write fails.
    fn put(&mut self, event: Event<'_>) {
        let _ = self.writer.write_event(event);
    }

    fn open(&mut self, name: &'static str, attributes: &[Attribute]) {
        self.put(Event::Start(BytesStart::new(name).with_attributes(attributes.iter().copied())));
        self.open.push(name);
    }

    fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.put(Event::End(BytesEnd::new(name)));
        }
    }

    fn empty(&mut self, name: &'static str, attributes: &[Attribute]) {
        self.put(Event::Empty(BytesStart::new(name).with_attributes(attributes.iter().copied())));
    }

    /// Text, made harmless line by line.
    fn words(&mut self, text: &str) {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.line();
            }
            self.put(Event::Text(BytesText::new(&harmless(line))));
        }
    }

    /// A line of text on the picture.
    fn label(&mut self, attributes: &[Attribute], text: &str) {
        self.open("text", attributes);
        self.words(text);
        self.close();
    }

    /// The style of all pictures, and more for this one.
    fn style(&mut self, more: &str) {
        self.code("style", &[include_str!("page.css"), &palette::style(), more].concat());
    }

    /// The ground, or the upper part of it.
    fn paper(&mut self, height: Option<u32>) {
        let (id, height) = match height {
            Some(height) => ("head-paper", height.to_string()),
            None => ("paper", "100%".to_owned()),
        };
        self.empty("rect", &[("class", "paper"), ("id", id), ("width", "100%"), ("height", &height)]);
        self.line();
    }

    /// The script of all pictures, and more for this one, after its constants.
    fn script(&mut self, constants: &str, more: &str) {
        self.code("script", &[constants, include_str!("page.js"), more].concat());
    }

    /// A style sheet or a script.
    fn code(&mut self, name: &'static str, text: &str) {
        self.open(name, &[]);
        self.put(Event::CData(BytesCData::new(text)));
        self.close();
        self.line();
    }

    fn line(&mut self) {
        self.put(Event::Text(BytesText::from_escaped("\n")));
    }

    fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.line();
        String::from_utf8_lossy(&self.writer.into_inner()).into_owned()
    }
}

/// Values for a script, as JSON that neither XML nor HTML takes for markup.
fn values<'a>(texts: impl Iterator<Item = Cow<'a, str>>) -> String {
    let mut out = String::from("[");
    for (index, text) in texts.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push('"');
        for c in harmless(&text).chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '<' | '>' | '&' | '\'' => out.push_str(&format!("\\u{:04x}", c as u32)),
                _ => out.push(c),
            }
        }
        out.push('"');
    }
    out.push(']');
    out
}

#[cfg(test)]
pub mod testing {
    //! What every picture must be.

    /// Parses it as XML, and fails on anything that is loaded from elsewhere.
    pub fn parsed(text: &str) -> roxmltree::Document<'_> {
        let document = roxmltree::Document::parse(text).unwrap_or_else(|e| panic!("no XML: {e}\n{text}"));
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            assert!(!["image", "use", "a", "link", "foreignObject"].contains(&node.tag_name().name()));
            for attribute in node.attributes() {
                assert!(!["href", "src"].contains(&attribute.name()), "{attribute:?}");
            }
        }
        let foreign = text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
        assert_eq!(foreign.find("://"), None, "an address");
        assert!(!text.contains("@import") && !text.contains("url("), "something from elsewhere");
        document
    }

    /// A picture without its style sheet and its script.
    pub fn bare(text: &str) -> String {
        parsed(text);
        let without = |text: &str, name: &str| {
            let (before, rest) = text.split_once(&format!("<{name}>")).expect("it has one");
            format!("{before}{}", rest.split_once(&format!("</{name}>\n")).expect("it ends").1)
        };
        without(&without(text, "style"), "script")
    }

    /// A picture without its style sheet.
    pub fn bare_of_style(text: &str) -> String {
        parsed(text);
        let (before, rest) = text.split_once("<style>").expect("it has one");
        format!("{before}{}", rest.split_once("</style>\n").expect("it ends").1)
    }

    /// Names that are hard on pictures, each in its way.
    pub fn hostile() -> Vec<String> {
        let mut names: Vec<String> = [
            "<script>alert(1)</script>",
            "a & b \"c\" 'd' ]]> <![CDATA[ <!-- -->",
            "\u{0}\u{1}\u{8}\u{b}\u{1b}[31m\u{7f}\u{85}\u{9b}",
            "\u{202e}gnp.exe\u{2066}\u{200f}\u{feff}",
            "\u{fffe}\u{ffff}\u{fdd0}\u{1fffe}",
            "日本語 größe 🦀 e\u{301}\u{301}",
            "\\u003c\\\\ \\n",
            "line\nline\r\n\ttab",
            "",
            " ",
        ]
        .map(str::to_owned)
        .into();
        names.extend(["x".repeat(100_000), "日".repeat(100_000), "<".repeat(100_000), "\u{1}".repeat(100_000)]);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::{NAME_MAX, Picture, harmless, values};
    use super::{testing::hostile, testing::parsed};

    #[test]
    fn any_text_makes_xml_that_says_the_same() {
        for name in hostile() {
            let mut picture = Picture::new(10, 10, &name);
            picture.label(&[("x", "1"), ("y", "1")], &name);
            let text = picture.finish();
            let document = parsed(&text);
            let label = document.descendants().find(|n| n.has_tag_name("text")).expect("a label");
            let shown: Vec<_> = name.split('\n').map(harmless).collect();
            // XML's own rule for line ends holds for no line of ours: they have no \r.
            assert_eq!(label.text().unwrap_or_default(), shown.join("\n"));
            let shown = harmless(&name);
            assert!(shown.chars().count() <= NAME_MAX * "\\u{1}".len() + 1, "{} characters", shown.chars().count());
        }
        assert_eq!(harmless("a\u{ffff}\u{202e}<b>"), "a\\u{ffff}\\u{202e}<b>");
        assert_eq!(harmless(&"é".repeat(NAME_MAX)), "é".repeat(NAME_MAX));
        assert_eq!(harmless(&"é".repeat(NAME_MAX + 1)), "é".repeat(NAME_MAX) + "…");
    }

    #[test]
    fn values_for_scripts_are_json_without_markup() {
        let names = hostile();
        let text = values(names.iter().map(|n| n.as_str().into()));
        assert!(!text.contains(['<', '>', '&']));
        let back: Vec<String> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(back, names.iter().map(|n| harmless(n).into_owned()).collect::<Vec<_>>());
    }
}
