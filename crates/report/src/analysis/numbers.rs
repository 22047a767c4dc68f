//! Counts with the names that JSON and people see, and the measures by which things are ranked.

use std::ops::{AddAssign, Deref};

use mallow_profile::{Count, Counts, Profile, Quantity};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Quantity that a list is sorted and measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Number of allocations.
    Allocations,
    /// Requested bytes of all allocations.
    Bytes,
    /// Bytes live at the recording's peak.
    Peak,
    /// Bytes live at the end.
    Live,
    /// Number of temporary allocations.
    Temporary,
}

impl Measure {
    /// All measures, in the order in which reports show them.
    pub const ALL: [Self; 5] = [Self::Allocations, Self::Bytes, Self::Peak, Self::Live, Self::Temporary];

    /// The number that counts by this measure.
    pub fn of(self, counts: &Totals) -> u64 {
        match self {
            Self::Allocations => counts.allocations,
            Self::Bytes => counts.allocated_bytes,
            Self::Peak => counts.peak_bytes,
            Self::Live => counts.live_bytes,
            Self::Temporary => counts.temporary,
        }
    }

    /// The quantity that a profile must have for this measure.
    pub fn quantity(self) -> Quantity {
        match self {
            Self::Allocations => Quantity::Allocations,
            Self::Bytes => Quantity::AllocatedBytes,
            Self::Peak => Quantity::PeakBytes,
            Self::Live => Quantity::LiveBytes,
            Self::Temporary => Quantity::Temporary,
        }
    }

    /// Whether the measure counts bytes, not blocks or allocations.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Peak | Self::Live)
    }
}

/// The smallest number that is worth a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// Percentage of the whole.
    Percent(f64),
    Amount(u64),
}

impl Least {
    /// The amount, in the unit of `whole`; percentages are rounded up.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            // Beyond any recording's numbers a few digits are lost.
            Self::Percent(percent) => (whole as f64 * percent / 100.0).ceil() as u64,
            Self::Amount(amount) => amount,
        }
    }
}

/// Rows of a list that are not shown, for want of room or because they are small: what they add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut<T> {
    /// Rows that are not shown.
    pub rows: u64,
    /// Sums of the rows that are not shown.
    #[serde(flatten)]
    pub sums: T,
}

impl<T: Copy + Default + AddAssign> LeftOut<T> {
    /// Adds `sums` as one more row.
    pub(crate) fn add(into: &mut Option<Self>, sums: T) {
        let all = into.get_or_insert_default();
        all.rows += 1;
        all.sums += sums;
    }

    /// Sums all rows but the first `limit`.
    pub(crate) fn after(limit: usize, rows: impl Iterator<Item = T>) -> Option<Self> {
        let mut all = None;
        rows.skip(limit).for_each(|sums| Self::add(&mut all, sums));
        all
    }

    /// Takes out the rows that are too small.
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

/// Counts as reports show them, and what remains; `docs/DEFINITIONS.md` defines each quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    #[cfg_attr(feature = "schema", schemars(flatten))]
    counts: Counts,
    /// Allocations minus frees of the run; foreign frees do not count.
    pub remaining: i64,
}

impl Deref for Totals {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

impl From<Counts> for Totals {
    fn from(counts: Counts) -> Self {
        Self { remaining: counts.remaining(), counts }
    }
}

impl AddAssign for Totals {
    /// Sums stay at their highest where a damaged recording drives them beyond.
    fn add_assign(&mut self, other: Self) {
        self.counts += other.counts;
        self.remaining = self.remaining.saturating_add(other.remaining);
    }
}

impl Serialize for Totals {
    /// A key for each count; what remains follows the frees.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_struct("Totals", Count::ALL.len() + 1)?;
        for count in Count::ALL {
            object.serialize_field(count.key, &(count.of)(&self.counts))?;
            if count.quantity == Quantity::FreedBytes {
                object.serialize_field("remaining", &self.remaining)?;
            }
        }
        object.end()
    }
}

/// The keys under which reports show what a quantity means. Where a profile does not have it, these are left out.
pub fn keys(quantity: Quantity) -> impl Iterator<Item = &'static str> {
    let more: &[&str] = match quantity {
        Quantity::Allocations => &["remaining"],
        Quantity::Frees => &["remaining", "foreign_frees"],
        Quantity::Live => &["reported", "suppressed"],
        Quantity::LiveBytes => &["reported_bytes", "suppressed_bytes"],
        Quantity::PeakBytes => &["own_peak_bytes"],
        Quantity::Families => &["families"],
        Quantity::Started => &["started_unix_ms"],
        Quantity::Times => &[
            "duration_ms",
            "ran_ms",
            "run_begin_ms",
            "exit_wait_ms",
            "table_wait_ms",
            "other_waits_ms",
            "cpu_us",
            "peak_ms",
            "own_peak_bytes",
            "own_peak_ms",
            "start_ms",
            "end_ms",
        ],
        Quantity::Ages => &["oldest_ms", "youngest_ms"],
        Quantity::Processes => &["processes", "pids"],
        Quantity::Threads => &["threads"],
        Quantity::ExitStatus => &["exit_status"],
        Quantity::Patterns => &["insights", "insights_in_all", "small_in_all", "malloc_time"],
        // Its counts alone, or nothing.
        _ => &[],
    };
    Count::ALL
        .into_iter()
        .filter(move |count| count.quantity == quantity)
        .map(|count| count.key)
        .chain(more.iter().copied())
}

/// End of the recording, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ending {
    /// Exit status of the command as a shell shows it; null where it still ran or it is not known.
    pub exit_status: Option<i32>,
    /// Reason why the recording stops before the run did; null for a whole one.
    pub cut_short: Option<String>,
    /// Events that could not be recorded.
    pub lost: u64,
    /// Records passed over because they made no sense.
    pub damaged: u64,
    /// Milliseconds of the duration that the command waited for mallow at its exit.
    pub exit_wait_ms: u64,
    /// Milliseconds that the command waited for unwind tables, which are made once, and kept.
    pub table_wait_ms: u64,
    /// Milliseconds that all other processes waited for mallow at their exits, added up: several may have waited at
    /// once.
    pub other_waits_ms: u64,
}

impl Ending {
    pub(crate) fn of(profile: &Profile) -> Self {
        let e = &profile.ending;
        // Images of one process wait once: exec waits for nobody.
        let command = profile.processes.first().map(|first| first.pid);
        let waits = |is_command: bool| {
            let all = profile.processes.iter().filter(|process| (Some(process.pid) == command) == is_command);
            all.fold(0u64, |sum, process| sum.saturating_add(process.exit_wait_ms))
        };
        Self {
            exit_status: e.exit_status,
            cut_short: e.cut_short.clone(),
            lost: e.lost,
            damaged: e.damaged,
            exit_wait_ms: waits(true),
            table_wait_ms: (profile.processes.iter().filter(|process| Some(process.pid) == command))
                .fold(0u64, |sum, process| sum.saturating_add(process.table_wait_ms)),
            other_waits_ms: waits(false),
        }
    }
}
