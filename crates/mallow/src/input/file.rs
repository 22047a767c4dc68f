//! Opening a file of any format, and finding the newest one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use mallow_capture::recording::{Choice, ReadError, Reader};
use mallow_formats::SampleType;
use mallow_profile::Profile;
use mallow_symbols::{Options, Summary};

use super::{filters, foreign, remote};
use crate::flags::FilterFlags;
use crate::output::progress::Bar;

pub enum File {
    /// A recording of mallow's.
    Recording(Reader, Profile),
    /// Another tool's profile, and the modules that lack names.
    Foreign(Profile, Summary),
}

/// Opens a file, or an address, whatever its format is. `options` say where names of another tool's profile are,
/// `chosen` which of its values count.
pub fn read(named: &Path, options: &Options, chosen: &[SampleType]) -> Result<File> {
    let fetched = remote::fetch(named)?;
    let path = fetched.as_ref().map_or(named, |file| file.path());
    let waiting = Bar::of("reading");
    let opened = Reader::open(path, &mut |progress| waiting.show(progress));
    drop(waiting);
    match opened {
        Err(error) if may_be_foreign(&error) => {
            let (profile, names) = foreign::read(path, options, chosen).with_context(|| cannot_read(named))?;
            Ok(File::Foreign(profile, names))
        }
        opened => opened.map(|(reader, profile)| File::Recording(reader, profile)).with_context(|| cannot_read(named)),
    }
}

/// Whether a file that is no recording may be another tool's; a recording can be read from no pipe, but those can.
fn may_be_foreign(error: &ReadError) -> bool {
    match error {
        ReadError::NotARecording => true,
        ReadError::Io(error) => error.kind() == ErrorKind::NotSeekable,
        ReadError::NewerVersion { .. } | ReadError::Damaged { .. } => false,
    }
}

/// The blocks that the flags select.
pub fn select(path: &Path, reader: &mut Reader, profile: Profile, flags: &FilterFlags) -> Result<(Profile, Choice)> {
    let selection = filters::selection(flags, &profile)?;
    let waiting = Bar::of("filtering");
    let mut show = |progress| waiting.show(progress);
    let (selected, chosen) = reader.select(profile, &selection, &mut show).with_context(|| cannot_read(path))?;
    if selected.totals.allocations == 0 {
        // The sums have been narrowed in place.
        let (mut reader, profile) = Reader::open(path, &mut show).with_context(|| cannot_read(path))?;
        let extent = reader.extent(&profile, &selection, &mut show).with_context(|| cannot_read(path))?;
        bail!(filters::nothing_selected(flags, &extent));
    }
    Ok((selected, chosen))
}

pub fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The file of a directory that ends with `.mallow` and was written last.
pub fn newest(dir: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).context("cannot look for recordings here; name one")?;
    let mut best: Option<(SystemTime, PathBuf)> = None;
    for entry in entries.flatten() {
        let path = PathBuf::from(entry.file_name());
        if path.extension().is_none_or(|e| e != "mallow") {
            continue;
        }
        // A file that vanished meanwhile, or a directory, is no candidate.
        let Some(written) =
            std::fs::metadata(dir.join(&path)).ok().filter(|m| m.is_file()).and_then(|m| m.modified().ok())
        else {
            continue;
        };
        if best.as_ref().is_none_or(|b| *b < (written, path.clone())) {
            best = Some((written, path));
        }
    }
    best.map(|(_, path)| path)
        .ok_or_else(|| anyhow!("no recording (*.mallow) is here; name one, or make one: mallow record -- COMMAND"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::newest;

    #[test]
    fn the_newest_recording_is_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = newest(dir.path()).unwrap_err().to_string();
        assert!(error.contains("mallow record -- COMMAND"), "{error}");
        for (name, age) in [("old.mallow", 20), ("new.mallow", 10), ("newer.txt", 5)] {
            let file = File::create(dir.path().join(name)).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("a time");
        }
        std::fs::create_dir(dir.path().join("dir.mallow")).expect("a directory");
        assert_eq!(newest(dir.path()).expect("a recording").to_str(), Some("new.mallow"));
    }
}
