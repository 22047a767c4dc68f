//! Writing what was asked for.

use std::borrow::Cow;
use std::io::{BufWriter, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// Writes to standard output. A reader that has seen enough (`mallow report | head`) is no failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn printed(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output; is the disk full?")
        }
        _ => Ok(()),
    }
}

/// Says something on standard error, in one line, whatever a file's name or a target put into it. Where standard error is
/// closed there is nobody to tell.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "mallow: {}", crate::output::text::clean(text));
}

/// Writes text to standard error, where it belongs beside a command's own output. As with [`say`], nobody may be there.
pub fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The report as JSON for scripts, a line end after it. Invisible characters are escaped, so that a terminal does not
/// obey them either.
pub fn json(report: &impl Serialize) -> Result<String> {
    json_of(report)
}

/// The same of JSON that was put together already.
pub fn json_value(value: &serde_json::Value) -> Result<String> {
    json_of(value)
}

/// The same in one line: a report among others.
pub fn json_line(value: &impl Serialize) -> Result<String> {
    let mut text = Vec::new();
    write_json(value, CompactFormatter, &mut text).context("cannot write JSON")?;
    String::from_utf8(text).context("cannot write JSON")
}

fn json_of(value: &impl Serialize) -> Result<String> {
    let mut text = Vec::new();
    write_json(value, PrettyFormatter::new(), &mut text).context("cannot write JSON")?;
    String::from_utf8(text).context("cannot write JSON")
}

/// Prints a report as JSON as it is made: one that may be large is not in memory as text, and without white space.
pub fn print_json(report: &impl Serialize) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    printed(write_json(report, CompactFormatter, &mut out).and_then(|()| out.flush()))
}

fn write_json(value: &impl Serialize, how: impl Formatter, out: &mut impl Write) -> std::io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(Harmless(&mut *out), how))?;
    out.write_all(b"\n")
}

/// Escapes what a terminal would obey or hide. In JSON's own syntax there is none of that but line ends; the rest is inside
/// of strings.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    /// Precondition: whole characters, as serde_json gives them.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?;
        let mut plain = 0;
        for (at, c) in text.char_indices() {
            if c == '\n' || matches!(crate::output::text::clean(c.encode_utf8(&mut [0; 4])), Cow::Borrowed(_)) {
                continue;
            }
            self.0.write_all(&bytes[plain..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(self.0, "\\u{unit:04x}")?;
            }
            plain = at + c.len_utf8();
        }
        self.0.write_all(&bytes[plain..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::overview;

    #[test]
    fn json_is_harmless_and_says_the_same() {
        let mut profile = mallow_report::testing::parser();
        profile.command = vec!["a\u{9b}b\u{202e}c\u{e0001}\x1b\n".to_owned()];
        let text = super::json(&overview(&profile, 1)).expect("JSON");
        assert!(text.contains("a\\u009bb\\u202ec\\udb40\\udc01\\u001b\\n"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["command"][0], profile.command[0]);
    }
}
