//! Which recording a view shows, read and with names.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use mallow_capture::recording::{Chosen, Reader};
use mallow_profile::{Event, Moment, Profile};
use mallow_report::analysis::{Narrowed, narrow};
use mallow_symbols::{Options, SourceError, SourceText, Summary, Symbolizer, source_text, symbolize_jit_all};

use super::filtered::{self, Filters};
use crate::flags::{FilterFlags, SourceFlags};
use crate::output;
use crate::waiting::Waiting;

/// A recording, ready to be shown.
#[derive(Debug)]
pub struct Recording {
    /// What it says. Frames have their names, as far as they can be had here.
    pub profile: Profile,
    /// What lacks names, and why.
    pub names: Summary,
    /// Which part of the recording this is.
    pub filters: Filters,
    /// Where its events are; None for one that was not read from a file.
    file: Option<(PathBuf, RefCell<(Reader, Chosen)>)>,
}

impl Recording {
    /// Looks up the names of a profile's frames, in the files that its processes had loaded and in what JITs left behind.
    pub fn of(mut profile: Profile) -> Self {
        let names = Symbolizer::new(Options::default()).symbolize_all(&mut profile);
        symbolize_jit_all(&mut profile);
        Self { profile, names, filters: Filters::default(), file: None }
    }

    /// The recording that the flags name, or the newest one here, which is then told on standard error.
    pub fn open(flags: &SourceFlags) -> Result<Self> {
        let path = match &flags.file {
            Some(path) => path.clone(),
            None => {
                let newest = newest(Path::new("."))?;
                output::say(&format!("showing {}, the newest recording here", newest.display()));
                newest
            }
        };
        Self::open_at(&path, &flags.filters)
    }

    /// The part of a recording that the filters leave.
    fn open_at(path: &Path, flags: &FilterFlags) -> Result<Self> {
        let (mut reader, profile) = read(path)?;
        let filters = Filters::of(flags, profile.duration_ms);
        let (profile, mut chosen) = match flags.selects() {
            true => select(path, &mut reader, profile, flags)?,
            false => {
                let all = Chosen::all(&profile);
                (profile, all)
            }
        };
        let mut recording = Self::of(profile);
        let narrowing = flags.narrowing();
        if !narrowing.is_none() {
            let Narrowed { profile, sites, matched } = narrow(recording.profile, &narrowing);
            if profile.sites.is_empty() {
                let blocks = FilterFlags { focus: None, ignore: None, hide: None, ..flags.clone() };
                bail!(filtered::nothing_left(flags, &Self::open_at(path, &blocks)?.profile, matched[0]));
            }
            filtered::unmatched(flags, matched).iter().for_each(|text| output::say(text));
            chosen.narrow(&sites, narrowing.focus.is_none() && narrowing.ignore.is_none());
            recording.profile = profile;
        }
        Ok(Self { filters, file: Some((path.to_owned(), RefCell::new((reader, chosen)))), ..recording })
    }

    /// The file's path; empty where it was not read from one.
    pub fn path(&self) -> &Path {
        self.file.as_ref().map_or(Path::new(""), |(path, _)| path)
    }

    /// The text of a source file, by its name in a frame's lines. `directories` are those that the user names, for
    /// sources that lie elsewhere than they did when the program was built.
    #[allow(dead_code, reason = "the view that shows sources comes next")]
    pub fn source_text(&self, file: &str, directories: &[PathBuf]) -> Result<SourceText, SourceError> {
        source_text(file, directories)
    }

    /// Calls `each` with every event, in their order. Sites, processes and threads are named by their numbers in
    /// [`Recording::profile`]; a process that the recording did not see end has no [`Event::EndProcess`].
    #[allow(dead_code, reason = "the views that read events come next")]
    pub fn events(&self, each: impl FnMut(Moment, Event)) -> Result<()> {
        let (path, reader) = self.file.as_ref().context("the events are in the recording's file: name it")?;
        let waiting = Waiting::of("reading events");
        let (reader, chosen) = &mut *reader.borrow_mut();
        reader.visit(chosen, &mut |progress| waiting.show(progress), each).with_context(|| cannot_read(path))
    }
}

fn read(path: &Path) -> Result<(Reader, Profile)> {
    let waiting = Waiting::of("reading");
    Reader::open(path, &mut |progress| waiting.show(progress)).with_context(|| cannot_read(path))
}

/// The blocks that the flags select.
fn select(path: &Path, reader: &mut Reader, profile: Profile, flags: &FilterFlags) -> Result<(Profile, Chosen)> {
    let selection = filtered::selection(flags, &profile)?;
    let waiting = Waiting::of("filtering");
    let mut show = |progress| waiting.show(progress);
    let (selected, chosen) = reader.select(profile, &selection, &mut show).with_context(|| cannot_read(path))?;
    if selected.totals.allocations == 0 {
        let (mut reader, profile) = read(path)?;
        let extent = reader.extent(&profile, &selection, &mut show).with_context(|| cannot_read(path))?;
        bail!(filtered::nothing_selected(flags, &extent));
    }
    Ok((selected, chosen))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The file of a directory that ends with `.mallow` and was written last.
fn newest(dir: &Path) -> Result<PathBuf> {
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
