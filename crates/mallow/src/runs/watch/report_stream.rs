//! Where reports go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::output::stdio;

/// Where reports go.
#[derive(Debug)]
pub enum ReportStream {
    /// To the end of a file.
    File(File, PathBuf),
    /// Standard output: there is no command that it belongs to.
    Standard,
    /// Standard error.
    Error,
}

/// All of it or nothing: what there is no room for would cut a line of JSON short, and the next one would follow in it.
fn whole(file: &mut File, text: &[u8]) -> io::Result<()> {
    let before = file.metadata()?;
    file.write_all(text).inspect_err(|_| {
        if before.is_file() {
            // Where that fails as well, there is nothing to be done.
            let _ = file.set_len(before.len());
        }
    })
}

impl ReportStream {
    /// A file to append to.
    pub fn file(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self::File(file.with_context(|| format!("cannot write reports to {}", path.display()))?, path.to_owned()))
    }

    /// Writes a report, whole. A closed standard error is no failure: nobody reads it.
    pub fn write(&mut self, text: &str) -> Result<()> {
        match self {
            Self::File(file, path) => {
                whole(file, text.as_bytes()).with_context(|| format!("cannot write the report to {}", path.display()))
            }
            Self::Standard => stdio::print(text),
            Self::Error => {
                stdio::write_error(text);
                Ok(())
            }
        }
    }
}
