//! What the page shows: a recording, or two, and the parts of it that were chosen.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Result, bail};

use crate::flags::FilterFlags;
use crate::input::recording::Recording;

/// Parts of the recording that are kept beside the whole.
const PARTS: usize = 4;

/// A file, as it was when it was read.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    identity: Option<Identity>,
    whole: Arc<Recording>,
}

/// What changes when a file is replaced or written.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    file: (u64, u64),
    length: u64,
    modified: Option<SystemTime>,
}

impl Opened {
    fn read(path: &Path) -> Result<Self> {
        let identity = identity(path);
        let whole = Arc::new(Recording::read(path)?);
        whole.warn_of_gaps();
        Ok(Self { path: path.to_owned(), identity, whole })
    }
}

/// None for an address, a pipe, or what is gone.
fn identity(path: &Path) -> Option<Identity> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    let file = (metadata.dev(), metadata.ino());
    Some(Identity { file, length: metadata.len(), modified: metadata.modified().ok() })
}

/// What the page shows.
#[derive(Debug)]
pub struct Subject {
    opened: Opened,
    before: Option<Opened>,
    /// By the filters, the newest last.
    parts: Mutex<Vec<(String, Arc<Recording>)>>,
}

impl Subject {
    /// One recording, or one profile of another tool.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { opened: Opened::read(path)?, before: None, parts: Mutex::default() })
    }

    /// Two, the later one of which is shown.
    pub fn compare(before: &Path, after: &Path) -> Result<Self> {
        let (before, opened) = (Opened::read(before)?, Opened::read(after)?);
        Ok(Self { opened, before: Some(before), parts: Mutex::default() })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// All of it.
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
            false => self.kept(format!("sums {filters:?}"), || self.whole().narrowed(filters)),
        }
    }

    /// The part that filters leave. It is read from the file, which must still be the one that was opened.
    pub fn part(&self, filters: &FilterFlags) -> Result<Arc<Recording>> {
        if !filters.selects() && filters.narrowing().is_none() {
            return Ok(Arc::clone(&self.opened.whole));
        }
        self.kept(format!("{filters:?}"), || {
            let path = &self.opened.path;
            let unchanged = || self.opened.identity.is_some() && identity(path) == self.opened.identity;
            if !unchanged() {
                bail!("{} has changed since the page was opened: start mallow view again", path.display());
            }
            let part = Recording::open_at(path, filters)?;
            if !unchanged() {
                bail!("{} changed while it was read: start mallow view again", path.display());
            }
            Ok(part)
        })
    }

    fn kept(&self, key: String, read: impl FnOnce() -> Result<Recording>) -> Result<Arc<Recording>> {
        // Held while a part is read: two requests for the same one read it once.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = parts.iter().position(|(filters, _)| *filters == key) {
            let found = parts.remove(at);
            parts.push(found.clone());
            return Ok(found.1);
        }
        let part = Arc::new(read()?);
        if parts.len() == PARTS {
            parts.remove(0);
        }
        parts.push((key, Arc::clone(&part)));
        Ok(part)
    }
}
