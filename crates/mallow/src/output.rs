//! Writing what was asked for.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use mallow_report::analysis::{HeapAt, Leaks, List, Overview, StatReport, Timeline, Top, Tree};
use serde::Serialize;

/// Writes to standard output. A reader that has seen enough (`mallow report | head`) is no failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output; is the disk full?")
        }
        _ => Ok(()),
    }
}

/// Says something on standard error, in one line, whatever a file's name or a target put into it. Where standard error is
/// closed there is nobody to tell.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "mallow: {}", crate::text::clean(text));
}

/// Writes text to standard error, where it belongs beside a command's own output. As with [`say`], nobody may be there.
pub fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A report, which can be told as JSON.
pub trait Report: Serialize {}

impl Report for Overview {}
impl Report for Top {}
impl Report for Leaks {}
impl Report for List {}
impl Report for StatReport {}
impl Report for crate::commands::doctor::Diagnosis {}
impl Report for crate::commands::test::Report {}
impl Report for Tree {}
impl Report for Timeline {}
impl Report for HeapAt {}

/// The report as JSON for scripts, a line end after it. Invisible characters are escaped, so that a terminal does not
/// obey them either.
pub fn json(report: &impl Report) -> Result<String> {
    harmless(serde_json::to_string_pretty(report))
}

/// The same of JSON that was put together already.
pub fn json_value(value: &serde_json::Value) -> Result<String> {
    harmless(serde_json::to_string_pretty(value))
}

fn harmless(json: serde_json::Result<String>) -> Result<String> {
    let plain = json.context("cannot write JSON")?;
    let mut out = String::with_capacity(plain.len() + 1);
    for c in plain.chars() {
        // In JSON's own syntax there are none but line ends; the rest is inside of strings.
        if c != '\n' && matches!(crate::text::clean(c.encode_utf8(&mut [0; 4])), std::borrow::Cow::Owned(_)) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out.push('\n');
    Ok(out)
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
