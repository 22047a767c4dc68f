//! Files that views write: where they go, and what they never replace.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mallow_formats::{Packed, Packing};

use super::stdio;
use super::text::units::bytes;

#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output: the user said `-`.
    Standard,
    Named(PathBuf),
    /// A file that the user did not name.
    Usual(PathBuf),
}

impl Destination {
    /// The destination that the flag names; else NAME-SUFFIX in the current directory, for a recording NAME.mallow.
    pub fn of(flag: Option<&Path>, recording: &Path, suffix: &str) -> Self {
        match flag {
            Some(path) if path.as_os_str() == "-" => Self::Standard,
            Some(path) => Self::Named(path.to_owned()),
            None => {
                let mut name = recording.file_stem().unwrap_or(recording.as_os_str()).to_owned();
                name.push("-");
                name.push(suffix);
                Self::Usual(PathBuf::from(name))
            }
        }
    }

    /// Writes it, and says where to. A recording is never replaced; neither is, by a name that the user did not choose,
    /// a file that is not Mallow's: `mark` is what the first bytes of one hold.
    pub fn write(&self, text: &str, mark: &str) -> Result<()> {
        let path = match self {
            Self::Standard => return stdio::print(text),
            Self::Named(path) | Self::Usual(path) => path,
        };
        let shown = path.display();
        may_be_written(path)?;
        if matches!(self, Self::Usual(_)) && path.symlink_metadata().is_ok() && !has_mark(path, mark) {
            bail!("{shown} is there already, and not Mallow's; name a file with -o");
        }
        let written = create(path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {shown}"))?;
        stdio::notify(&format!("wrote {shown}, {}", bytes(text.len() as u64, false)));
        Ok(())
    }
}

/// Opens a file to write. A new one is this user's alone, whatever the umask: it holds command lines, paths and perhaps
/// sources.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Fails where the name is that of a recording, or the file would lie nowhere.
pub fn may_be_written(path: &Path) -> Result<()> {
    if path.extension().is_some_and(|extension| extension == "mallow") {
        bail!("{} is the name of a recording; choose another one for what is written", path.display());
    }
    is_somewhere(path)
}

/// Fails where the directory that the file is to lie in is not there.
pub fn is_somewhere(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir()) {
        Some(parent) => bail!("cannot write {}: there is no directory {}", path.display(), parent.display()),
        None => Ok(()),
    }
}

/// Gives `write` a file, which is packed where its name asks for it, or standard output. `binary` is the name of a
/// format that is no text, and packed already.
pub fn stream(
    to: Option<&Path>,
    binary: Option<&str>,
    write: impl FnOnce(Box<dyn Write + Send + '_>) -> Result<()>,
) -> Result<()> {
    let Some(path) = to.filter(|path| path.as_os_str() != "-") else {
        let out = io::stdout();
        if let Some(format) = binary.filter(|_| out.is_terminal()) {
            bail!("{format} is no text for a terminal; name a file with -o");
        }
        // Whoever reads it may have seen enough.
        return match write(Box::new(out)) {
            Err(error) if closed(&error) => Ok(()),
            written => written.context("cannot write to standard output"),
        };
    };
    may_be_written(path)?;
    let shown = path.display();
    let there_before = path.symlink_metadata().is_ok();
    let file = create(path).with_context(|| format!("cannot write {shown}"))?;
    let packing = if binary.is_some() { Packing::Plain } else { Packing::of(path) };
    let written = Packed::new(file, packing).map_err(anyhow::Error::from).and_then(|mut out| {
        write(Box::new(&mut out))?;
        Ok(out.finish()?)
    });
    if written.is_err() && !there_before {
        // Half a file is none.
        let _ = std::fs::remove_file(path);
    }
    written.with_context(|| format!("cannot write {shown}"))?;
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    stdio::notify(&format!("wrote {shown}, {}", bytes(length, false)));
    Ok(())
}

fn closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe))
}

fn has_mark(path: &Path, mark: &str) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(200).read_to_end(&mut start));
    read.is_ok() && start.windows(mark.len()).any(|w| w == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Destination;

    #[test]
    fn the_usual_name_is_that_of_the_recording() {
        let of = |flag: Option<&str>, recording: &str| {
            Destination::of(flag.map(Path::new), Path::new(recording), "peak.svg")
        };
        assert_eq!(of(None, "/tmp/a b.mallow"), Destination::Usual("a b-peak.svg".into()));
        assert_eq!(of(None, "x.y.mallow"), Destination::Usual("x.y-peak.svg".into()));
        assert_eq!(of(Some("-"), "x.mallow"), Destination::Standard);
        assert_eq!(of(Some("./-"), "x.mallow"), Destination::Named("./-".into()));
    }

    #[test]
    fn nothing_of_somebody_elses_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let write = |to: Destination| to.write("MARK new", "MARK").map_err(|e| e.to_string());
        std::fs::write(path("own.svg"), "MARK old").expect("a file");
        std::fs::write(path("other.svg"), "drawn by hand").expect("a file");
        std::fs::write(path("run.mallow"), "events").expect("a file");
        std::os::unix::fs::symlink(path("nowhere"), path("link.svg")).expect("a link");
        assert_eq!(write(Destination::Usual(path("new.svg"))), Ok(()));
        assert_eq!(write(Destination::Usual(path("own.svg"))), Ok(()));
        assert_eq!(write(Destination::Named(path("own.svg"))), Ok(()));
        for (to, why) in [
            (Destination::Usual(path("other.svg")), "there already"),
            (Destination::Usual(path("link.svg")), "there already"),
            (Destination::Named(path("run.mallow")), "is the name of a recording"),
            (Destination::Named(path("new.mallow")), "is the name of a recording"),
            (Destination::Named(path("none/a.svg")), "there is no directory"),
            (Destination::Named(path("own.svg/a.svg")), "there is no directory"),
            (Destination::Named(dir.path().to_owned()), "cannot write"),
        ] {
            let error = write(to).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let text = |name: &str| std::fs::read_to_string(path(name)).expect("a file");
        assert_eq!([text("own.svg"), text("new.svg")], ["MARK new"; 2]);
        assert_eq!([text("other.svg"), text("run.mallow")], ["drawn by hand", "events"]);
        // By a name of the user's own choice, as a shell's > does.
        assert_eq!(write(Destination::Named(path("other.svg"))), Ok(()));
        assert_eq!(text("other.svg"), "MARK new");
    }
}
