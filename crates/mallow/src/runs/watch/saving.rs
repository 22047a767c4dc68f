//! `--save-at`: evidence that is written once, before memory runs out.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::memory_limit::{Usage, is_crossed, nearest};
use crate::flags::SaveAt;

/// How often the usage is read below [`NEAR`] of the amount; from there on, the watch reads it with each look.
const USUAL: Duration = Duration::from_millis(200);
const NEAR: f64 = 0.75;
/// The share of mallow's time that reading it may take, as a divisor.
const SHARE: u32 = 100;

pub struct Saving {
    at: SaveAt,
    directory: PathBuf,
    next: Option<Instant>,
    is_done: bool,
    said_unlimited: bool,
}

pub enum Finding {
    Nothing,
    /// No limit is set; found for the first time.
    Unlimited,
    /// The usage has reached the amount.
    Crossed(Usage),
}

impl Saving {
    /// Evidence goes to `directory`, else to the current one.
    pub fn new(at: SaveAt, directory: Option<&Path>) -> Self {
        let directory = directory.unwrap_or(Path::new(".")).to_owned();
        Self { at, directory, next: None, is_done: false, said_unlimited: false }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads the usage of the processes that run, if it is time to.
    pub fn look(&mut self, pids: impl FnOnce() -> Vec<u32>) -> Finding {
        if self.is_done || self.next.is_some_and(|next| Instant::now() < next) {
            return Finding::Nothing;
        }
        let pids = pids();
        if pids.is_empty() {
            return Finding::Nothing;
        }
        let began = Instant::now();
        let usage = nearest(self.at, &pids);
        let near = match self.at {
            SaveAt::Share(share) => SaveAt::Share(NEAR * share),
            SaveAt::Bytes(most) => SaveAt::Bytes((NEAR * most as f64) as u64),
        };
        let wait = if usage.as_ref().is_some_and(|usage| is_crossed(near, usage)) { Duration::ZERO } else { USUAL };
        self.next = Some(Instant::now() + wait.max(began.elapsed() * SHARE));
        match usage {
            None => match std::mem::replace(&mut self.said_unlimited, true) {
                true => Finding::Nothing,
                false => Finding::Unlimited,
            },
            Some(usage) if is_crossed(self.at, &usage) => Finding::Crossed(usage),
            Some(_) => Finding::Nothing,
        }
    }

    pub fn end(&mut self) {
        self.is_done = true;
    }
}
