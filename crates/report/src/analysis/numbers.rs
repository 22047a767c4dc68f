//! Counts with the names that JSON and people see, and the measures by which things are ranked.

use std::ops::AddAssign;

use mallow_profile::{Counts, Profile, Word};
use serde::Serialize;

/// What a list is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Number of allocations.
    Allocations,
    /// Requested bytes of all allocations.
    Bytes,
    /// Bytes live at the recording's peak.
    Peak,
    /// Bytes live at the end.
    Leaked,
    /// Number of temporary allocations.
    Temporary,
}

impl Measure {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Allocations, Self::Bytes, Self::Peak, Self::Leaked, Self::Temporary];

    /// The number that counts by this measure.
    pub fn of(self, counts: &Totals) -> u64 {
        match self {
            Self::Allocations => counts.allocations,
            Self::Bytes => counts.allocated_bytes,
            Self::Peak => counts.peak_bytes,
            Self::Leaked => counts.leaked_bytes,
            Self::Temporary => counts.temporary,
        }
    }

    /// The word that a profile has to tell for it.
    pub fn word(self) -> Word {
        match self {
            Self::Allocations => Word::Allocations,
            Self::Bytes => Word::AllocatedBytes,
            Self::Peak => Word::PeakBytes,
            Self::Leaked => Word::LeakedBytes,
            Self::Temporary => Word::Temporary,
        }
    }

    /// True where the number is one of bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Peak | Self::Leaked)
    }
}

/// The least that is worth a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// A share of the whole, in percent.
    Percent(f64),
    /// An amount of what is measured.
    Amount(u64),
}

impl Least {
    /// As an amount.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            // Beyond any recording's numbers a few digits are lost.
            Self::Percent(percent) => (whole as f64 * percent / 100.0).ceil() as u64,
            Self::Amount(amount) => amount,
        }
    }
}

/// Rows of a list that are not shown, for want of room or because they are small: what they add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut<T> {
    /// How many.
    pub rows: u64,
    /// Their sums.
    #[serde(flatten)]
    pub sums: T,
}

impl<T: Copy + Default + AddAssign> LeftOut<T> {
    /// Adds a row to those that there are.
    pub(crate) fn add(into: &mut Option<Self>, sums: T) {
        let all = into.get_or_insert_default();
        all.rows += 1;
        all.sums += sums;
    }

    /// All rows but the first few.
    pub(crate) fn after(limit: usize, rows: impl Iterator<Item = T>) -> Option<Self> {
        let mut all = None;
        rows.skip(limit).for_each(|sums| Self::add(&mut all, sums));
        all
    }

    /// Takes away the rows that are too small.
    pub(crate) fn small<R>(
        into: &mut Option<Self>,
        rows: &mut Vec<R>,
        worth: impl Fn(&R) -> bool,
        sums: impl Fn(&R) -> T,
    ) {
        rows.retain(|row| {
            let keep = worth(row);
            if !keep {
                Self::add(into, sums(row));
            }
            keep
        });
    }
}

/// Counts as reports show them; `docs/DEFINITIONS.md` defines each word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Totals {
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub freed_bytes: u64,
    /// Allocations minus frees.
    pub remaining: i64,
    pub temporary: u64,
    pub temporary_bytes: u64,
    pub leaked: u64,
    pub leaked_bytes: u64,
    /// Blocks live at the recording's peak.
    pub peak: u64,
    pub peak_bytes: u64,
    pub reallocs_in_place: u64,
    pub reallocs_moved: u64,
}

impl From<Counts> for Totals {
    fn from(c: Counts) -> Self {
        Self {
            allocations: c.allocations,
            allocated_bytes: c.allocated_bytes,
            frees: c.frees,
            freed_bytes: c.freed_bytes,
            remaining: c.remaining(),
            temporary: c.temporary,
            temporary_bytes: c.temporary_bytes,
            leaked: c.leaked,
            leaked_bytes: c.leaked_bytes,
            peak: c.peak,
            peak_bytes: c.peak_bytes,
            reallocs_in_place: c.reallocs_in_place,
            reallocs_moved: c.reallocs_moved,
        }
    }
}

impl AddAssign for Totals {
    /// Sums stay at their highest where a damaged recording drives them beyond.
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.allocations, other.allocations);
        add(&mut self.allocated_bytes, other.allocated_bytes);
        add(&mut self.frees, other.frees);
        add(&mut self.freed_bytes, other.freed_bytes);
        self.remaining = self.remaining.saturating_add(other.remaining);
        add(&mut self.temporary, other.temporary);
        add(&mut self.temporary_bytes, other.temporary_bytes);
        add(&mut self.leaked, other.leaked);
        add(&mut self.leaked_bytes, other.leaked_bytes);
        add(&mut self.peak, other.peak);
        add(&mut self.peak_bytes, other.peak_bytes);
        add(&mut self.reallocs_in_place, other.reallocs_in_place);
        add(&mut self.reallocs_moved, other.reallocs_moved);
    }
}

/// The keys under which reports show what a word means. Where a profile does not tell it, these are left out.
pub fn keys(word: Word) -> &'static [&'static str] {
    match word {
        Word::Allocations => &["allocations", "remaining"],
        Word::AllocatedBytes => &["allocated_bytes"],
        Word::Frees => &["frees", "remaining", "foreign_frees"],
        Word::FreedBytes => &["freed_bytes"],
        Word::Temporary => &["temporary"],
        Word::TemporaryBytes => &["temporary_bytes"],
        Word::Leaked => &["leaked", "reported", "suppressed"],
        Word::LeakedBytes => &["leaked_bytes", "reported_bytes", "suppressed_bytes"],
        Word::Peak => &["peak"],
        Word::PeakBytes => &["peak_bytes", "own_peak_bytes"],
        Word::Reallocs => &["reallocs_in_place", "reallocs_moved"],
        Word::Families => &["families"],
        Word::Started => &["started_unix_ms"],
        Word::Times => &["duration_ms", "peak_ms", "own_peak_bytes", "own_peak_ms", "start_ms", "end_ms"],
        Word::Ages => &["oldest_ms", "youngest_ms"],
        Word::Processes => &["processes", "pids"],
        Word::Threads => &["threads"],
        Word::ExitStatus => &["exit_status"],
        Word::Events => &[],
        Word::Patterns => &["insights", "insights_in_all"],
    }
}

/// How the recording ended, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// As a shell shows it; null where the command still ran or it is not known.
    pub exit_status: Option<i32>,
    /// Why the recording stops before the run did; null for a whole one.
    pub cut_short: Option<String>,
    /// Events lost.
    pub lost: u64,
    /// Records passed over because they made no sense.
    pub damaged: u64,
}

impl Ending {
    pub(crate) fn of(profile: &Profile) -> Self {
        let e = &profile.ending;
        Self { exit_status: e.exit_status, cut_short: e.cut_short.clone(), lost: e.lost, damaged: e.damaged }
    }
}
