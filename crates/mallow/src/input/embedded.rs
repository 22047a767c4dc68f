//! What a recording carries so that it can be read on another machine: names, and sources.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use mallow_capture::recording::{PackError, ReadError, Source};
use mallow_symbols::{SourceError, SourceText, remedies, source_text};

use super::recording::Recording;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Carried {
    /// It carries its names.
    names: bool,
    /// Its sources by name, once somebody has asked.
    sources: OnceCell<Result<HashMap<String, SourceText>, ReadError>>,
}

impl Carried {
    /// Of a recording that carries its names, or not.
    pub fn of(names: bool) -> Self {
        Self { names, ..Self::default() }
    }
}

impl Recording {
    /// True for a recording that carries its names.
    pub fn is_packed(&self) -> bool {
        self.carried.names
    }

    /// Has the profile carry its names from now on, with what would bring those that are missing: who reads it elsewhere
    /// has no other way to know.
    pub fn keep_names(&mut self) {
        if !self.is_packed() {
            let modules = &self.profile.modules;
            let all = self.names.modules.iter();
            let summaries: Vec<_> = all.filter_map(|s| Some((modules.get(s.module.0 as usize)?, s))).collect();
            let found = remedies(&summaries);
            self.names.modules.iter_mut().zip(found).for_each(|(summary, remedy)| summary.remedy = remedy);
        }
        self.profile.names = Some(self.names.clone());
    }

    /// Writes it anew, names, sources and all; see [`mallow_capture::recording::Reader::pack`]. Precondition: it is a
    /// recording of mallow's, and nothing was filtered out.
    pub fn pack<W: Write>(&self, sources: &mut dyn Iterator<Item = Source>, to: W) -> Result<W, PackError> {
        let none = || PackError::Read(ReadError::NotARecording);
        self.events.as_ref().ok_or_else(none)?.borrow_mut().0.pack(&self.profile, sources, to)
    }

    /// The sources that the recording carries.
    pub fn carried_sources(&self) -> Result<Vec<Source>> {
        self.read_sources().with_context(|| format!("cannot read {}", self.path().display()))
    }

    fn read_sources(&self) -> Result<Vec<Source>, ReadError> {
        self.events.as_ref().map_or(Ok(Vec::new()), |events| events.borrow_mut().0.sources())
    }

    /// The text of a source file, by its name in a frame's lines: what the recording carries, else what lies here.
    /// `directories` are those that the user names, for sources that lie elsewhere than they did when the program was built.
    pub fn source_text(&self, file: &str, directories: &[PathBuf]) -> Result<SourceText, SourceError> {
        let by_name = |sources: Vec<Source>| sources.into_iter().map(|s| (s.name.clone(), text(s))).collect();
        match self.carried.sources.get_or_init(|| self.read_sources().map(by_name)) {
            Ok(carried) => match carried.get(file) {
                Some(found) => Ok(found.clone()),
                None => source_text(file, directories),
            },
            Err(error) => Err(SourceError::Unreadable(self.path().to_owned(), io::Error::other(error.to_string()))),
        }
    }
}

fn text(source: Source) -> SourceText {
    let written = UNIX_EPOCH.checked_add(Duration::from_millis(source.written_unix_ms)).unwrap_or(UNIX_EPOCH);
    let text = String::from_utf8_lossy(&source.text).into_owned();
    SourceText { path: source.path.into(), text, written }
}
