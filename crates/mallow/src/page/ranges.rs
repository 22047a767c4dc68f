//! Ranges of time: the grid of lives, read once beside the page, and the parts of the recording that it chooses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use mallow_report::analysis::{BlockChoice, LifeGrid, LifeSeries};
use serde::Serialize;

use crate::flags::FilterFlags;
use crate::input::filters::{self, Filters};
use crate::input::recording::{LifeReader, Recording};
use crate::output::exit::UsageError;

/// A range of time, and which of its blocks are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from_ms: u64,
    pub to_ms: u64,
    pub what: BlockChoice,
}

/// Names of choices, as requests have them.
const CHOICES: [(&str, BlockChoice); 4] = [
    ("allocated", BlockChoice::Allocated),
    ("live", BlockChoice::Live),
    ("freed", BlockChoice::Freed),
    ("left", BlockChoice::Left),
];

impl Range {
    /// The range of the choices `from`, `to` and `what`. None: no range is chosen.
    pub fn of<'a>(choice: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, UsageError> {
        let mistake = |text: String| Err(UsageError(text));
        let (from, to, what) = (choice("from"), choice("to"), choice("what"));
        let (Some(from), Some(to)) = (from, to) else {
            return match from.or(to).or(what) {
                None => Ok(None),
                Some(_) => mistake("a range has from and to, in milliseconds".to_owned()),
            };
        };
        let what = match what {
            None => BlockChoice::default(),
            Some(name) => match CHOICES.into_iter().find(|(known, _)| *known == name) {
                Some((_, what)) => what,
                None => return mistake(format!("what is one of {}", CHOICES.map(|(name, _)| name).join(", "))),
            },
        };
        let (Ok(from_ms), Ok(to_ms)) = (from.parse(), to.parse()) else {
            return mistake("from and to are whole milliseconds".to_owned());
        };
        Ok(Some(Self { from_ms, to_ms, what }))
    }
}

/// The grid of a recording: read in a thread of its own.
#[derive(Debug)]
pub struct Ranges {
    shared: Arc<Shared>,
    /// Another profile of the recording, which each question makes anew.
    scratch: Mutex<Option<Recording>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Clone, Debug)]
enum State {
    None,
    /// Part that is read, from 0 to 1.
    Reading(f64),
    Ready(Arc<LifeGrid>),
    Failed(String),
}

/// State of the grid for the page.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum TimeDocument<'a> {
    None,
    Reading {
        progress: f64,
    },
    Failed {
        error: String,
    },
    Ready {
        boundaries: &'a [u64],
        step: usize,
        #[serde(flatten)]
        series: &'a LifeSeries,
    },
}

/// The grid is not there yet.
#[derive(Debug)]
pub struct StillReading;

impl std::fmt::Display for StillReading {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the events are still being read")
    }
}

impl std::error::Error for StillReading {}

impl Ranges {
    pub fn of(recording: &Recording) -> Self {
        let (state, reader) = match recording.life_reader() {
            Ok(None) => (State::None, None),
            Ok(Some(reader)) => (State::Reading(0.0), Some(reader)),
            Err(error) => (State::Failed(format!("{error:#}")), None),
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), stop: AtomicBool::new(false) });
        if let Some(reader) = reader {
            let inner = Arc::clone(&shared);
            let started = std::thread::Builder::new().name("mallow-grid".to_owned()).spawn(move || inner.read(reader));
            if let Err(error) = started {
                shared.set(State::Failed(format!("no thread can be started: {error}")));
            }
        }
        Self { shared, scratch: Mutex::default() }
    }

    /// Waits until all events are read.
    pub fn wait(&self) {
        let mut state = self.shared.lock();
        while matches!(*state, State::Reading(_)) {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls `show` with how far it is.
    pub fn show<R>(&self, show: impl FnOnce(&TimeDocument<'_>) -> R) -> R {
        let state = self.shared.lock().clone();
        show(&match &state {
            State::None => TimeDocument::None,
            State::Reading(progress) => TimeDocument::Reading { progress: *progress },
            State::Failed(error) => TimeDocument::Failed { error: error.clone() },
            State::Ready(grid) => {
                TimeDocument::Ready { boundaries: grid.boundaries(), step: grid.step(), series: grid.series() }
            }
        })
    }

    /// Calls `show` with the blocks of a range, of the recording that this is of, and of those what the filters leave.
    pub fn choose<R>(
        &self,
        recording: &Recording,
        range: Range,
        flags: &FilterFlags,
        show: impl FnOnce(&Recording) -> Result<R>,
    ) -> Result<R> {
        let Range { from_ms, to_ms, what } = range;
        let single = FilterFlags { process: Vec::new(), ..flags.clone() };
        if single.selects() {
            bail!(UsageError("a range has no choices of single blocks but process: use time and when".to_owned()));
        }
        let grid = match self.shared.lock().clone() {
            State::Ready(grid) => grid,
            State::Reading(_) => bail!(StillReading),
            State::None => bail!("this {} has no events, so it has no ranges of time", recording.kind()),
            State::Failed(error) => bail!(error),
        };
        let Some(range) = grid.range(from_ms, to_ms) else {
            bail!(UsageError(format!("from and to are boundaries of /api/time, like {}", grid.nearest(from_ms))));
        };
        // One question at a time: each of them fills the same profile.
        let mut scratch = lock(&self.scratch);
        let scratch = scratch.get_or_insert_with(|| recording.with_profile(recording.profile.clone()));
        grid.choose(range, what, &recording.profile.sites, &mut scratch.profile);
        if !flags.process.is_empty() {
            keep_processes(scratch, flags)?;
        }
        if !flags.narrowing().is_none() {
            return show(&scratch.narrowed(flags)?);
        }
        scratch.filters = Filters::of(flags, &scratch.profile);
        show(scratch)
    }
}

impl Drop for Ranges {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn read(&self, reader: LifeReader) {
        let state = match reader.read(|progress| self.set(State::Reading(progress)), &self.stop) {
            Ok(Some(grid)) => State::Ready(Arc::new(grid)),
            Ok(None) => State::None,
            Err(error) => State::Failed(format!("{error:#}")),
        };
        self.set(state);
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A lock that ignores poisoning: a value that a panic left is replaced before it is read again.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the sites of the processes that are meant.
fn keep_processes(recording: &mut Recording, flags: &FilterFlags) -> Result<()> {
    let profile = &mut recording.profile;
    let chosen = filters::selection(flags, profile)?.processes.unwrap_or_default();
    profile.sites.retain(|site| chosen.contains(&site.process.0));
    profile.totals = Default::default();
    profile.sites.iter().for_each(|site| profile.totals += site.counts);
    Ok(())
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::BlockChoice;

    use super::Range;

    #[test]
    fn a_range_has_both_ends() {
        let of = |pairs: &[(&str, &'static str)]| {
            Range::of(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
                .map_err(|error| error.0)
        };
        assert_eq!(of(&[]), Ok(None));
        let left = Range { from_ms: 1, to_ms: 20, what: BlockChoice::Left };
        assert_eq!(of(&[("from", "1"), ("to", "20"), ("what", "left")]), Ok(Some(left)));
        assert_eq!(of(&[("from", "1"), ("to", "20")]), Ok(Some(Range { what: BlockChoice::Allocated, ..left })));
        for wrong in
            [&[("from", "1")][..], &[("what", "left")], &[("from", "1"), ("to", "x")], &[("from", "-1"), ("to", "2")]]
        {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(
            of(&[("from", "1"), ("to", "2"), ("what", "gone")]).is_err_and(|error| error.contains("allocated, live"))
        );
    }
}
