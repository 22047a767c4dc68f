//! Where reports go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::output::stdio;

#[derive(Debug)]
pub enum ReportStream {
    /// A file, to the end of which reports are written.
    File(File, PathBuf),
    /// Standard output: there is no command that it belongs to.
    Standard,
    Error,
}

/// Writes all of the text or nothing: a line of JSON that is cut short would be continued by the next one.
fn whole(file: &mut File, text: &[u8]) -> io::Result<()> {
    let before = file.metadata()?;
    file.write_all(text).inspect_err(|_| {
        // Longer than before: a file that was emptied meanwhile (logrotate's copytruncate) would get a hole.
        let is_longer = file.metadata().is_ok_and(|now| now.is_file() && now.len() > before.len());
        if is_longer {
            // Where that fails as well, there is nothing to be done.
            let _ = file.set_len(before.len());
        }
    })
}

/// The file at a path, if it is another one than `open`; it is made where there is none.
fn another(path: &Path, open: &File) -> io::Result<Option<File>> {
    let open = open.metadata()?;
    if path.metadata().is_ok_and(|there| (there.dev(), there.ino()) == (open.dev(), open.ino())) {
        return Ok(None);
    }
    // Nobody may read a pipe that is there now: opening it would wait for a reader, and so would the watch.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(Some(file))
}

impl ReportStream {
    pub fn file(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self::File(file.with_context(|| format!("cannot write reports to {}", path.display()))?, path.to_owned()))
    }

    /// Follows a rotation: after this, reports go to the file that is at the path now. On an error they continue in the
    /// file that is open.
    pub fn reopen(&mut self) -> Result<()> {
        let Self::File(file, path) = self else { return Ok(()) };
        match another(path, file) {
            Ok(Some(new)) => *file = new,
            Ok(None) => {}
            Err(error) => {
                let path = path.display();
                return Err(anyhow!("cannot open {path} anew: {error}; reports continue in the file that is open"));
            }
        }
        Ok(())
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
