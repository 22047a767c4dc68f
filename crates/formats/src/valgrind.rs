//! Frames as valgrind writes them: `0x4AB263D: puts (ioputs.c:38)`, `0x128530: ??? (in /usr/bin/sqlite3)`.

use mallow_profile::{Frame, FrameId, Line};

use super::builder::Builder;
use super::input::hexadecimal;

#[derive(Debug, PartialEq, Eq)]
pub struct Text<'a> {
    pub address: Option<u64>,
    /// Name of the function; None for `???`.
    pub function: Option<&'a str>,
    pub file: Option<&'a str>,
    pub line: u32,
    pub module: Option<&'a str>,
}

impl<'a> Text<'a> {
    /// Takes a frame apart. What does not look like one is a name as a whole.
    pub fn parse(text: &'a str) -> Self {
        let (address, rest) = match text.split_once(": ") {
            Some((address, rest)) if address.starts_with("0x") => (hexadecimal(address.as_bytes()), rest),
            _ => (None, text),
        };
        let mut it = Self { address, function: Some(rest), file: None, line: 0, module: None };
        // Parameters are in parentheses too, but a space comes before the place alone.
        if let Some((function, place)) = rest.rsplit_once(" (").and_then(|(f, p)| Some((f, p.strip_suffix(')')?))) {
            let line = place.rsplit_once(':').and_then(|(file, line)| {
                // The dhat crate adds columns.
                let (file, line) = match file.rsplit_once(':') {
                    Some((inner, number)) if number.parse::<u32>().is_ok() => (inner, number),
                    _ => (file, line),
                };
                Some((file, line.parse().ok()?))
            });
            if let Some(module) = place.strip_prefix("in ") {
                (it.function, it.module) = (Some(function), Some(module).filter(|module| *module != "???"));
            } else if let Some((file, line)) = line {
                (it.function, it.file, it.line) = (Some(function), Some(file), line);
            } else if place == "in" || place == "no file" {
                it.function = Some(function);
            }
        }
        it.function = it.function.map(str::trim).filter(|function| !matches!(*function, "" | "???"));
        it
    }

    /// The function, its file and its line; None where it has no name.
    pub fn to_line(&self, builder: &mut Builder) -> Option<Line> {
        let function = builder.profile.strings.intern(self.function?);
        let file = self.file.map(|file| builder.profile.strings.intern(file));
        Some(Line { function, file, line: self.line })
    }

    /// A frame of this function alone.
    pub fn to_frame(&self, builder: &mut Builder) -> FrameId {
        let module = self.module.map(|path| builder.module(path));
        let lines = self.to_line(builder).into_iter().collect();
        builder.frame(Frame { lines, ..Frame::new(module, self.address.unwrap_or(0), true) })
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn frames_are_taken_apart() {
        let parse = |text| {
            let t = Text::parse(text);
            (t.address, t.function, t.file, t.line, t.module)
        };
        for (text, expected) in [
            ("0x4AA7608: fputs (iofputs.c:38)", (Some(0x4aa7608), Some("fputs"), Some("iofputs.c"), 38, None)),
            ("0x12846F: ??? (in /usr/bin/a b)", (Some(0x12846f), None, None, 0, Some("/usr/bin/a b"))),
            (
                "0x1: ns::f(int, char (*)(int)) const (a.cc:3)",
                (Some(1), Some("ns::f(int, char (*)(int)) const"), Some("a.cc"), 3, None),
            ),
            (
                "0x1: operator new(unsigned long) (in /l.so)",
                (Some(1), Some("operator new(unsigned long)"), None, 0, Some("/l.so")),
            ),
            ("0x4A50249: (below main) (x.h:58)", (Some(0x4a50249), Some("(below main)"), Some("x.h"), 58, None)),
            ("0x10: app::main (src/main.rs:12:9)", (Some(0x10), Some("app::main"), Some("src/main.rs"), 12, None)),
            ("[root]", (None, Some("[root]"), None, 0, None)),
            ("0x1: f(int)", (Some(1), Some("f(int)"), None, 0, None)),
            ("0xfffffffffffffffff: f", (None, Some("f"), None, 0, None)),
            ("", (None, None, None, 0, None)),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
