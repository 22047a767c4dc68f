//! What a command prints, beside a live view.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio;

/// The standard streams are elsewhere, for a command to inherit them so. Dropped, they are back.
pub struct LogFile {
    streams: [OwnedFd; 3],
}

impl LogFile {
    /// Nothing to read, and output goes to the end of a file.
    pub fn to(path: &Path) -> Result<Self> {
        let failure = || format!("cannot write what the command prints to {}", path.display());
        let file = OpenOptions::new().append(true).create(true).open(path).with_context(failure)?;
        let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
        // Above the standard ones, whatever is closed.
        const FIRST: i32 = 3;
        let keep = || -> io::Result<[OwnedFd; 3]> {
            Ok([
                fcntl_dupfd_cloexec(stdio::stdin(), FIRST)?,
                fcntl_dupfd_cloexec(stdio::stdout(), FIRST)?,
                fcntl_dupfd_cloexec(stdio::stderr(), FIRST)?,
            ])
        };
        let kept = Self { streams: keep().context("cannot put the standard streams aside; is one closed?")? };
        stdio::dup2_stdin(&nothing)?;
        stdio::dup2_stdout(&file)?;
        stdio::dup2_stderr(&file)?;
        Ok(kept)
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let [input, output, error] = &self.streams;
        // They were there a moment ago.
        let _ = stdio::dup2_stdin(input);
        let _ = stdio::dup2_stdout(output);
        let _ = stdio::dup2_stderr(error);
    }
}
