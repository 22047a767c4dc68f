//! JSON documents, harmless to a terminal.

use std::borrow::Cow;
use std::io::{BufWriter, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use super::stdio;
use super::text::clean;

/// A document of `--json`: an object that begins with the name of its schema.
pub trait JsonDocument: Serialize {
    /// The name of its JSON Schema, and the schema's version: `report-1`. A field that goes, or that means something
    /// else, makes the next version; one that comes does not.
    const SCHEMA: &'static str;
}

/// A document below the name of its schema.
#[derive(Serialize)]
struct Named<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: JsonDocument> Named<'a, T> {
    fn of(document: &'a T) -> Self {
        Self { schema: T::SCHEMA, document }
    }
}

/// A document for scripts, a line end after it. Invisible characters are escaped, so that a terminal does not obey
/// them either.
pub fn document(document: &impl JsonDocument) -> Result<String> {
    pretty(&Named::of(document))
}

/// A document in one line: one among others.
pub fn line(document: &impl JsonDocument) -> Result<String> {
    data(&Named::of(document))
}

/// Prints a document as it is made: one that may be large is not in memory as text, and without white space.
pub fn print(document: &impl JsonDocument) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    stdio::allow_closed_pipe(write(&Named::of(document), CompactFormatter, &mut out).and_then(|()| out.flush()))
}

/// Writes a document with another's schema, such as SARIF, as [`document`] does.
pub fn pretty(value: &impl Serialize) -> Result<String> {
    let mut text = Vec::new();
    write(value, PrettyFormatter::new(), &mut text).context("cannot write JSON")?;
    String::from_utf8(text).context("cannot write JSON")
}

/// Writes data that only the page reads, in one line.
pub fn data(value: &impl Serialize) -> Result<String> {
    let mut text = Vec::new();
    write(value, CompactFormatter, &mut text).context("cannot write JSON")?;
    String::from_utf8(text).context("cannot write JSON")
}

fn write(value: &impl Serialize, how: impl Formatter, out: &mut impl Write) -> std::io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(EscapedWriter(&mut *out), how))?;
    out.write_all(b"\n")
}

/// Escapes what a terminal would obey or hide. In JSON's own syntax there is none of that but line ends; the rest is
/// inside of strings.
struct EscapedWriter<W>(W);

impl<W: Write> Write for EscapedWriter<W> {
    /// Precondition: whole characters, as serde_json gives them.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?;
        let mut plain = 0;
        for (at, c) in text.char_indices() {
            if c == '\n' || matches!(clean(c.encode_utf8(&mut [0; 4])), Cow::Borrowed(_)) {
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
        let text = super::pretty(&overview(&profile, 1)).expect("JSON");
        assert!(text.contains("a\\u009bb\\u202ec\\udb40\\udc01\\u001b\\n"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["command"][0], profile.command[0]);
    }
}
