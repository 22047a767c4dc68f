//! What the page shows: a recording, or two, and the parts of it that were chosen.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use mallow_report::analysis::diff::Rule;

use crate::flags::{By, FilterFlags, NameFlags};
use crate::input::recording::Recording;
use crate::views::changes::Pair;
use crate::views::diff::measure;

/// Parts of the recording that are kept beside the whole, and as many comparisons.
const PARTS: usize = 4;

/// A file, as it was when it was read.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    identity: Option<Identity>,
    whole: Arc<Recording>,
}

/// Properties of a file that change when it is replaced or written.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    file: (u64, u64),
    length: u64,
    modified: Option<SystemTime>,
}

impl Opened {
    fn read(path: &Path, names: &NameFlags) -> Result<Self> {
        let identity = identity(path);
        let whole = Arc::new(Recording::read_with(path, names)?);
        whole.warn_of_gaps();
        Ok(Self { path: path.to_owned(), identity, whole })
    }
}

impl Opened {
    /// Result of `read`, if the file is still the one that was opened, before and after.
    fn while_unchanged<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let unchanged = || self.identity.is_some() && identity(&self.path) == self.identity;
        if !unchanged() {
            bail!("{} has changed since the page was opened: start mallow view again", self.path.display());
        }
        let read = read()?;
        if !unchanged() {
            bail!("{} changed while it was read: start mallow view again", self.path.display());
        }
        Ok(read)
    }
}

/// None for an address, a pipe, or a file that is gone.
fn identity(path: &Path) -> Option<Identity> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    let file = (metadata.dev(), metadata.ino());
    Some(Identity { file, length: metadata.len(), modified: metadata.modified().ok() })
}

#[derive(Debug)]
pub struct PageSubject {
    opened: Opened,
    before: Option<Opened>,
    /// Sources of the recordings' names.
    names: NameFlags,
    parts: Newest<Arc<Recording>>,
    sides: Newest<[Arc<Recording>; 2]>,
    pairs: Newest<Arc<Pair>>,
}

/// Values that were made last, by their keys, the latest at the end.
#[derive(Debug)]
struct Newest<T>(Mutex<Vec<(String, T)>>);

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Newest<T> {
    /// The value of a key, which is made if it is not kept. Others wait meanwhile: what two ask for at once is made
    /// once.
    fn get(&self, key: String, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(other, _)| *other == key) {
            let found = kept.remove(at);
            kept.push(found.clone());
            return Ok(found.1);
        }
        let made = make()?;
        if kept.len() == PARTS {
            kept.remove(0);
        }
        kept.push((key, made.clone()));
        Ok(made)
    }
}

impl PageSubject {
    /// One recording, or one profile of another tool.
    pub fn open(path: &Path, names: &NameFlags) -> Result<Self> {
        Ok(Self::of(Opened::read(path, names)?, None, names))
    }

    /// Two; the later one is shown.
    pub fn compare(before: &Path, after: &Path, names: &NameFlags) -> Result<Self> {
        let (before, opened) = (Opened::read(before, names)?, Opened::read(after, names)?);
        // Said now, and not to each request.
        measure(&before.whole, &opened.whole, None)?;
        Ok(Self::of(opened, Some(before), names))
    }

    /// A recording that was read before, to be shown as it is.
    pub fn of_recording(recording: Recording) -> Self {
        let opened = Opened { path: recording.path().to_owned(), identity: None, whole: Arc::new(recording) };
        Self::of(opened, None, &NameFlags::default())
    }

    fn of(opened: Opened, before: Option<Opened>, names: &NameFlags) -> Self {
        let names = names.clone();
        Self { opened, before, names, parts: Newest::default(), sides: Newest::default(), pairs: Newest::default() }
    }

    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    pub fn whole(&self) -> &Arc<Recording> {
        &self.opened.whole
    }

    /// The recording that it is compared with.
    pub fn before(&self) -> Option<&Arc<Recording>> {
        self.before.as_ref().map(|opened| &opened.whole)
    }

    /// The part that filters leave, for views that read no events.
    pub fn sums(&self, filters: &FilterFlags) -> Result<Arc<Recording>> {
        match filters.selects() || filters.narrowing().is_none() {
            true => self.part(filters),
            false => self.parts.get(format!("sums {filters:?}"), || self.whole().narrowed(filters).map(Arc::new)),
        }
    }

    /// The part that filters leave. It is read from the file, which must still be the one that was opened.
    pub fn part(&self, filters: &FilterFlags) -> Result<Arc<Recording>> {
        if !filters.selects() && filters.narrowing().is_none() {
            return Ok(Arc::clone(&self.opened.whole));
        }
        self.parts.get(format!("{filters:?}"), || {
            let path = &self.opened.path;
            self.opened.while_unchanged(|| Recording::open_at(path, &self.named(filters))).map(Arc::new)
        })
    }

    /// The filters, with names from where the whole recording has them.
    fn named(&self, filters: &FilterFlags) -> FilterFlags {
        FilterFlags { names: self.names.clone(), ..filters.clone() }
    }

    /// Both recordings, with what the filters leave of them.
    pub fn sides(&self, filters: &FilterFlags) -> Result<[Arc<Recording>; 2]> {
        let before = self.before.as_ref().context("one recording is shown: mallow view BEFORE AFTER compares two")?;
        if !filters.selects() && filters.narrowing().is_none() {
            return Ok([Arc::clone(&before.whole), Arc::clone(&self.opened.whole)]);
        }
        self.sides.get(format!("{filters:?}"), || {
            let paths = [before.path.as_path(), &self.opened.path];
            let read = || before.while_unchanged(|| Recording::pair(paths, &self.named(filters)));
            self.opened.while_unchanged(read).map(|pair| pair.map(Arc::new))
        })
    }

    pub fn pair(&self, filters: &FilterFlags, by: Option<By>, rules_off: &[Rule]) -> Result<Arc<Pair>> {
        let sides = self.sides(filters)?;
        self.pairs.get(format!("{by:?} {rules_off:?} {filters:?}"), || Pair::of(sides, by, rules_off).map(Arc::new))
    }
}
