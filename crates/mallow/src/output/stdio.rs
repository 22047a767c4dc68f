//! Standard output and standard error.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes to standard output. A reader that has seen enough (`mallow report | head`) is no failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    allow_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of writing to standard output.
pub fn allow_closed_pipe(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output; is the disk full?")
        }
        _ => Ok(()),
    }
}

/// Says something on standard error, in one line, whatever a file's name or a target put into it. Where standard error is
/// closed, the message is lost.
pub fn notify(text: &str) {
    let _ = writeln!(std::io::stderr(), "mallow: {}", crate::output::text::clean(text));
}

/// Writes text to standard error, where it belongs beside a command's own output. As with [`notify`], an error is ignored.
pub fn write_error(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
