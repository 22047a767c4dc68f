//! Which recording a view shows, read and with names.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use mallow_capture::recording::{Choice, ReadError, Reader};
use mallow_profile::{Event, Moment, Profile, Word};
use mallow_report::analysis::{Narrowed, narrow};
use mallow_symbols::{Options, Summary, Symbolizer, symbolize_jit_all};

use super::carried::Carried;
use super::filtered::{self, Filters};
use super::{foreign, remote};
use crate::flags::{FilterFlags, SourceFlags};
use crate::output;
use crate::text::lacks;
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
    /// The file that it was read from.
    path: PathBuf,
    /// Where its events are; None for one that was not read from a file, and for profiles of other tools.
    pub(super) events: Option<RefCell<(Reader, Choice)>>,
    pub(super) carried: Carried,
}

impl Recording {
    /// Looks up the names of a profile's frames, in the files that its processes had loaded and in what JITs left behind.
    /// Not those of a recording that carries its names: files of this machine may be other ones.
    pub fn of(mut profile: Profile) -> Self {
        let names = profile.names.take();
        let carried = Carried::of(names.is_some());
        let names = names.unwrap_or_else(|| {
            let names = Symbolizer::new(Options::default()).symbolize_all(&mut profile);
            symbolize_jit_all(&mut profile);
            names
        });
        Self { carried, ..Self::named(profile, names) }
    }

    /// A profile whose names were looked up.
    fn named(profile: Profile, names: Summary) -> Self {
        let (filters, carried) = (Filters::default(), Carried::default());
        Self { profile, names, filters, path: PathBuf::new(), events: None, carried }
    }

    /// The whole recording at this path.
    pub fn read(path: &Path) -> Result<Self> {
        Self::open_at(path, &FilterFlags::default())
    }

    /// The recording that the flags name, or the newest one here, which is then told on standard error.
    pub fn open(flags: &SourceFlags) -> Result<Self> {
        Self::open_at(&Self::path_of(flags)?, &flags.filters)
    }

    /// Its path.
    pub fn path_of(flags: &SourceFlags) -> Result<PathBuf> {
        match &flags.file {
            Some(path) => Ok(path.clone()),
            None => {
                let newest = newest(Path::new("."))?;
                output::say(&format!("showing {}, the newest recording here", newest.display()));
                Ok(newest)
            }
        }
    }

    /// Says on standard error what the recording lacks: for views that have no line for it.
    pub fn tell_lacks(&self) {
        let ending = &self.profile.ending;
        for text in lacks(ending.cut_short.as_deref(), ending.lost, ending.damaged) {
            output::say(&format!("{}: {text}", self.path.display()));
        }
    }

    /// Two recordings, to compare them. One that a filter on stacks leaves nothing of is empty; where that is so of both,
    /// it is a mistake.
    pub fn pair(paths: [&Path; 2], flags: &FilterFlags) -> Result<[Self; 2]> {
        let blocks = FilterFlags { focus: None, ignore: None, hide: None, ..flags.clone() };
        let [before, after] = paths;
        let mut pair = [Self::open_at(before, &blocks)?, Self::open_at(after, &blocks)?];
        let narrowing = flags.narrowing();
        if narrowing.is_none() {
            return Ok(pair);
        }
        let mut matched = [false; 3];
        let mut left = false;
        for recording in &mut pair {
            let whole = std::mem::take(&mut recording.profile);
            let duration_ms = whole.duration_ms;
            let narrowed = narrow(whole, &narrowing);
            for (any, this) in matched.iter_mut().zip(narrowed.matched) {
                *any |= this;
            }
            left |= !narrowed.profile.sites.is_empty();
            recording.filters = Filters::of(flags, duration_ms);
            recording.profile = narrowed.profile;
        }
        if !left {
            bail!(filtered::nothing_left(flags, &Self::open_at(after, &blocks)?.profile, matched[0]));
        }
        filtered::unmatched(flags, matched).iter().for_each(|text| output::say(text));
        Ok(pair)
    }

    /// The part of a recording that the filters leave.
    fn open_at(path: &Path, flags: &FilterFlags) -> Result<Self> {
        let (mut recording, mut events) = match read(path)? {
            File::Recording(mut reader, profile) => {
                let filters = Filters::of(flags, profile.duration_ms);
                let (profile, chosen) = match flags.selects() {
                    true => select(path, &mut reader, profile, flags)?,
                    false => {
                        let all = Choice::all(&profile);
                        (profile, all)
                    }
                };
                (Self { filters, ..Self::of(profile) }, Some((reader, chosen)))
            }
            File::Foreign(profile, names) => {
                let filters = Filters::of(flags, profile.duration_ms);
                let recording = Self { filters, ..Self::named(profile, names) };
                if flags.selects() {
                    recording.must_tell(Word::Events, "--focus, --ignore and --hide choose stacks")?;
                }
                (recording, None)
            }
        };
        let narrowing = flags.narrowing();
        if !narrowing.is_none() {
            let Narrowed { profile, sites, matched } = narrow(recording.profile, &narrowing);
            if profile.sites.is_empty() {
                let blocks = FilterFlags { focus: None, ignore: None, hide: None, ..flags.clone() };
                bail!(filtered::nothing_left(flags, &Self::open_at(path, &blocks)?.profile, matched[0]));
            }
            filtered::unmatched(flags, matched).iter().for_each(|text| output::say(text));
            if let Some((_, chosen)) = &mut events {
                chosen.narrow(&sites, narrowing.focus.is_none() && narrowing.ignore.is_none());
            }
            recording.profile = profile;
        }
        Ok(Self { path: path.to_owned(), events: events.map(RefCell::new), ..recording })
    }

    /// The file's path; empty where it was not read from one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `each` with every event, in their order. Sites, processes and threads are named by their numbers in
    /// [`Recording::profile`]; a process that the recording did not see end has no [`Event::EndProcess`].
    pub fn events(&self, each: impl FnMut(Moment, Event)) -> Result<()> {
        self.must_tell(Word::Events, "only recordings of mallow hold them")?;
        let events = self.events.as_ref().context("the events are in the recording's file: name it")?;
        let waiting = Waiting::of("reading events");
        let (reader, chosen) = &mut *events.borrow_mut();
        reader.visit(chosen, &mut |progress| waiting.show(progress), each).with_context(|| cannot_read(&self.path))
    }
}

/// What a file is, after a look into it.
enum File {
    Recording(Reader, Profile),
    Foreign(Profile, Summary),
}

fn read(named: &Path) -> Result<File> {
    let fetched = remote::fetch(named)?;
    let path = fetched.as_ref().map_or(named, |file| file.path());
    let waiting = Waiting::of("reading");
    let opened = Reader::open(path, &mut |progress| waiting.show(progress));
    drop(waiting);
    match opened {
        Err(error) if may_be_foreign(&error) => {
            let (profile, names) = foreign::read(path).with_context(|| cannot_read(named))?;
            Ok(File::Foreign(profile, names))
        }
        opened => opened.map(|(reader, profile)| File::Recording(reader, profile)).with_context(|| cannot_read(named)),
    }
}

/// Not a recording, and perhaps another tool's; a recording can be read from no pipe, but those can.
fn may_be_foreign(error: &ReadError) -> bool {
    match error {
        ReadError::NotARecording => true,
        ReadError::Io(error) => error.kind() == ErrorKind::NotSeekable,
        ReadError::NewerVersion { .. } | ReadError::Damaged { .. } => false,
    }
}

/// The blocks that the flags select.
fn select(path: &Path, reader: &mut Reader, profile: Profile, flags: &FilterFlags) -> Result<(Profile, Choice)> {
    let selection = filtered::selection(flags, &profile)?;
    let waiting = Waiting::of("filtering");
    let mut show = |progress| waiting.show(progress);
    let (selected, chosen) = reader.select(profile, &selection, &mut show).with_context(|| cannot_read(path))?;
    if selected.totals.allocations == 0 {
        // The sums have been narrowed in place.
        let (mut reader, profile) = Reader::open(path, &mut show).with_context(|| cannot_read(path))?;
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
