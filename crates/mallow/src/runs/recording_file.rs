//! The file of a recording in the making: written aside under a lock, renamed when it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mallow_capture::accounts::Options;
use mallow_capture::recording::{Writer, has_events};
use mallow_capture::rundir::directory::open_file;
use mallow_capture::session::leftovers;
use rustix::fs::{FlockOperation, flock};

use crate::output::text::units::span;
use crate::output::{destination, stdio};

/// Removed when dropped, unless it was completed: what was there before stays until then.
///
/// ```text
/// killed while           leaves                                      the next recording of that name
/// the command runs       run directory, spool, NAME.partial          replaces NAME.partial: `recover` needs the others
/// it finishes            NAME.partial, with all events               keeps it as NAME.orphan.mallow
/// ```
#[derive(Debug)]
pub struct RecordingFile {
    /// Path of the recording, as the user calls it.
    path: PathBuf,
    /// `path` with all links resolved.
    place: PathBuf,
    partial: Option<Partial>,
    /// The usual name, which another mallow is writing to.
    taken: Option<PathBuf>,
}

const SUFFIX: &str = ".partial";

/// The file that is written until then. Its lock says that somebody does, and ends with that process however it ends.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    file: File,
    /// Whether earlier content of the file, if any, is gone.
    emptied: bool,
    /// Whether the file has been renamed to its place.
    completed: bool,
}

impl RecordingFile {
    /// One that the user named. Fails where another mallow is writing to it.
    pub fn named(path: &Path) -> Result<Self> {
        match Self::claim(path, true)? {
            Some(file) => Ok(file),
            None => bail!("another mallow is recording to {} right now; name another file with -o", path.display()),
        }
    }

    /// NAME.mallow in the current directory; NAME.2.mallow and so on while another mallow is writing to that.
    pub fn usual(name: &OsStr) -> Result<Self> {
        const MOST: u32 = 10_000;
        let numbered = |number: u32| {
            let mut file = name.to_owned();
            file.push(if number == 1 { ".mallow".to_owned() } else { format!(".{number}.mallow") });
            PathBuf::from(file)
        };
        for number in 1..=MOST {
            // The usual name is the latest recording's, and may be replaced. The others were made so that nothing is
            // lost.
            if let Some(file) = Self::claim(&numbered(number), number == 1)? {
                return Ok(Self { taken: (number > 1).then(|| numbered(1)), ..file });
            }
        }
        bail!("{MOST} recordings of {} are here; name another file with -o", name.display())
    }

    /// None: another mallow is writing to the file, or it is there and may not be replaced.
    fn claim(path: &Path, replace: bool) -> Result<Option<Self>> {
        destination::is_somewhere(path)?;
        let shown = path.display();
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if place.is_dir() {
            bail!("cannot write {shown}: it is a directory; name another output with -o");
        }
        // A device or a pipe is written to as it is, and so is what a dangling link names.
        let direct = place.symlink_metadata().is_ok_and(|there| !there.is_file());
        let partial = match direct {
            true => None,
            false => match Partial::claim(&place).with_context(|| format!("cannot write {shown}"))? {
                Some(partial) => Some(partial),
                None => return Ok(None),
            },
        };
        let file = Self { path: path.to_owned(), place, partial, taken: None };
        Ok((replace || file.place.symlink_metadata().is_err()).then_some(file))
    }

    /// Path that is written to. None: the recording's own.
    pub fn partial(&self) -> Option<&Path> {
        self.partial.as_ref().map(|partial| &*partial.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The writer of the recording, which begins the file.
    pub fn writer(&mut self, options: &Options) -> io::Result<Writer> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        match &mut self.partial {
            None => Writer::create(&self.place, options),
            Some(partial) => {
                let kept = partial.empty(&self.place).map_err(named)?;
                if let Some(kept) = kept {
                    stdio::notify(&format!(
                        "an interrupted mallow left a recording in {}; it is kept as {}",
                        partial.path.display(),
                        self.path.with_file_name(kept.file_name().unwrap_or_default()).display()
                    ));
                }
                partial.file.try_clone().map_err(named).and_then(|file| Writer::new(file, options).map_err(named))
            }
        }
    }

    /// Leaves everything as it was before, but for what a device or a pipe took already. What to say of that.
    pub fn abandon(self) -> String {
        if self.partial.is_none() {
            return format!("what went to {} is no recording", self.path.display());
        }
        match self.age() {
            Some(age) => format!("{} stays the recording of {} ago", self.path.display(), span(age.as_millis() as u64)),
            None => "no file was written".to_owned(),
        }
    }

    /// Age of the file that is at the recording's place now.
    fn age(&self) -> Option<Duration> {
        let there = self.place.metadata().ok().filter(fs::Metadata::is_file)?;
        there.modified().ok()?.elapsed().ok()
    }

    /// Puts it where it belongs, complete or as far as it could be written. What to say of its name, and of a recording
    /// that it replaces.
    pub fn complete(mut self) -> Result<String> {
        let replaced = self.age().map(|age| format!(", replacing the one of {} ago", span(age.as_millis() as u64)));
        if let Some(partial) = self.partial.take() {
            let shown = partial.path.display().to_string();
            partial.complete(&self.place).with_context(|| {
                format!("the recording is {shown}, and cannot be renamed to {}", self.path.display())
            })?;
        }
        let shown = self.path.display();
        Ok(match &self.taken {
            Some(taken) => format!("{shown}, as another mallow was recording to {}", taken.display()),
            None => format!("{shown}{}", replaced.unwrap_or_default()),
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let unused = || self.file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if !self.completed && (self.emptied || unused()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// NAME.orphan.mallow beside NAME.mallow, or the next one with a number; none of them is there.
fn free_name(place: &Path) -> io::Result<PathBuf> {
    const MOST: u32 = 10_000;
    let name = place.file_name().unwrap_or_default().as_encoded_bytes();
    let (stem, suffix) = match name.strip_suffix(b".mallow") {
        Some(stem) => (stem, ".mallow"),
        None => (name, ""),
    };
    let numbered = |number: u32| {
        let mut file = OsStr::from_bytes(stem).to_owned();
        file.push(if number == 1 { format!(".orphan{suffix}") } else { format!(".orphan-{number}{suffix}") });
        place.with_file_name(file)
    };
    let free = (1..=MOST).map(numbered).find(|path| path.symlink_metadata().is_err());
    free.ok_or_else(|| io::Error::other(format!("{MOST} recordings of interrupted runs are here")))
}

/// Recordings in the making in a directory that no mallow writes, which no run directory can make again, and that hold
/// events.
pub fn orphans(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let partial = |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes());
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| partial(path)).collect();
    all.retain(|path| {
        open_file(path).is_ok_and(|file| {
            flock(&file, FlockOperation::NonBlockingLockShared) != Err(rustix::io::Errno::WOULDBLOCK)
                && is_orphan(&file)
        })
    });
    all.sort();
    all
}

/// Whether the file has events that nothing else holds.
fn is_orphan(file: &File) -> bool {
    file.try_clone().is_ok_and(|again| has_events(again).unwrap_or(false)) && !leftovers::is_recoverable(file)
}

impl Partial {
    /// Ready to be written from its beginning. The name of what it held before, if nothing else holds that.
    fn empty(&mut self, place: &Path) -> io::Result<Option<PathBuf>> {
        if !is_orphan(&self.file) {
            self.emptied = true;
            self.file.set_len(0)?;
            // What looked into it left the position elsewhere.
            return self.file.rewind().map(|()| None);
        }
        let kept = free_name(place)?;
        // The new file is locked before the old one is let go of: nobody else gets the name meanwhile.
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}", std::process::id()));
        let file = Self::options().create_new(true).open(&name)?;
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let kept_aside = fs::hard_link(&self.path, &kept).or_else(|_| fs::rename(&self.path, &kept));
        if let Err(error) = kept_aside.and_then(|()| fs::rename(&name, &self.path)) {
            let _ = fs::remove_file(&name);
            return Err(error);
        }
        (self.file, self.emptied) = (file, true);
        Ok(Some(kept))
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        options
    }

    /// One name for each recording: its lock says that somebody writes it.
    fn claim(place: &Path) -> io::Result<Option<Self>> {
        let mut name = OsString::from(place);
        name.push(SUFFIX);
        let path = PathBuf::from(name);
        loop {
            let file = Self::options().create(true).open(&path)?;
            // A file system without locks: there, two at once are one too many.
            if let Err(rustix::io::Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                return Ok(None);
            }
            // It may have been renamed or removed by the one that had it, between the opening and the lock.
            let ours = file.metadata()?;
            if path.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                return Ok(Some(Self { path, file, emptied: false, completed: false }));
            }
        }
    }

    fn complete(mut self, place: &Path) -> io::Result<()> {
        if let Ok(before) = place.metadata() {
            // Whoever was let to read the old one, and nobody else. Where it is another user's, its mode is that user's
            // affair.
            let _ = self.file.set_permissions(before.permissions());
        }
        // It holds what could be recorded, wherever it will be.
        self.completed = true;
        if fs::rename(&self.path, place).is_ok() {
            return Ok(());
        }
        // Something is mounted at the place, or the partial file was removed: its contents are still there.
        self.file.rewind()?;
        io::copy(&mut self.file, &mut destination::create(place)?)?;
        self.completed = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_writer() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.mallow");
        let first = RecordingFile::named(&path).expect("nobody writes it");
        let error = RecordingFile::named(&path).expect_err("somebody does").to_string();
        assert!(error.contains("another mallow is recording to"), "{error}");
        drop(first);
        assert!(RecordingFile::named(&path).is_ok());
        assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 0, "nothing was recorded");
    }

    #[test]
    fn what_a_killed_mallow_left_is_taken_over_and_not_lost_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, partial) = (dir.path().join("x.mallow"), dir.path().join("x.mallow.partial"));
        fs::write(&partial, "half").expect("a file");
        drop(RecordingFile::named(&path).expect("nobody writes it"));
        assert_eq!(fs::read(&partial).expect("it stays"), b"half");
        let mut file = RecordingFile::named(&path).expect("nobody writes it");
        let options = Options { command: Vec::new(), started_unix_ms: 0 };
        drop(file.writer(&options).expect("a writer"));
        assert!(!path.exists());
        file.complete().expect("room");
        assert!(path.exists() && !partial.exists());
    }

    #[test]
    fn a_part_alone_is_not_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.mallow");
        let mut file = RecordingFile::named(&path).expect("nobody writes it");
        let options = Options { command: vec!["a command".to_owned()], started_unix_ms: 0 };
        let writer = file.writer(&options).expect("a writer");
        drop((writer, file));
        assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 0, "it was not completed");
    }

    #[test]
    fn a_partial_file_that_was_removed_is_written_all_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.mallow");
        let mut file = RecordingFile::named(&path).expect("nobody writes it");
        let options = Options { command: vec!["a command".to_owned()], started_unix_ms: 0 };
        drop(file.writer(&options).expect("a writer"));
        fs::remove_file(dir.path().join("x.mallow.partial")).expect("it is there");
        file.complete().expect("room");
        assert!(fs::metadata(&path).expect("a file").len() > 0);
    }
}
