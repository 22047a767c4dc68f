//! The grid, and what can be asked of it.

use mallow_profile::{Counts, Origin, Profile, Quantities, Quantity, Site};
use serde::Serialize;

use super::cells::{Cell, Fate, Key};
use crate::analysis::rss::KernelPeak;

/// The blocks of a range of time that are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockChoice {
    /// Blocks that were allocated within the range.
    #[default]
    Allocated,
    /// Blocks that were live at the end of the range.
    Live,
    /// Blocks that were freed within the range.
    Freed,
    /// Blocks that were allocated within the range and live at its end.
    Left,
}

/// A range from one boundary of the grid to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First and last boundary, in buckets of cells.
    from: usize,
    to: usize,
    from_ms: u64,
    to_ms: u64,
}

/// Numbers for each bucket, unless a field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LifeSeries {
    /// Highest live bytes within the bucket.
    pub live: Vec<u64>,
    /// Bytes that were live at each boundary: one more than there are buckets. At the last one, before blocks were
    /// given up with their processes. Between those boundaries where a range may begin, by the order of the events:
    /// times of threads may go back a little.
    pub live_at: Vec<u64>,
    pub allocations: Vec<u64>,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: Vec<u64>,
    /// Requested bytes of the blocks that were freed.
    pub freed_bytes: Vec<u64>,
    /// Milliseconds since the recording began, and RSS in bytes, added up over the processes that ran. Empty where no
    /// memory was read.
    pub rss: Vec<(u64, u64)>,
    /// The kernel's own maximum of a single process's RSS, which no reading needs to have met; None for several
    /// processes.
    pub rss_peak: Option<KernelPeak>,
    /// Runs of measured regions that began and ended, sorted by number.
    pub regions: Vec<RegionSpan>,
}

/// Begin and end are milliseconds since the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RegionSpan {
    /// Number of the run, as in [`mallow_profile::Region`].
    pub number: u32,
    pub begin_ms: u64,
    pub end_ms: u64,
}

#[derive(Clone, Debug)]
pub struct LifeGrid {
    boundaries: Vec<u64>,
    /// Number of the series' buckets that are one bucket of cells.
    step: usize,
    /// Sorted by key: those of a site are neighbours.
    cells: Vec<Cell>,
    series: LifeSeries,
}

impl LifeGrid {
    pub(super) fn new(boundaries: Vec<u64>, step: usize, cells: Vec<Cell>, series: LifeSeries) -> Self {
        let mut grid = Self { boundaries, step, cells, series };
        let last = grid.boundaries.len() - 1;
        for (bucket, bytes) in grid.live_at().into_iter().enumerate() {
            grid.series.live_at[(bucket * step).min(last)] = bytes;
        }
        grid
    }

    /// The moments between which buckets lie, in milliseconds since the recording began. Bucket `n` begins at the `n`th
    /// one and ends before the next.
    pub fn boundaries(&self) -> &[u64] {
        &self.boundaries
    }

    /// Ranges begin and end at the boundaries whose index is a multiple of this, and at the last one. The step is 1
    /// unless the recording has too many cells for that.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The boundary nearest to a moment at which a range may begin or end.
    pub fn nearest(&self, ms: u64) -> u64 {
        let ends = self.boundaries.iter().step_by(self.step).chain(self.boundaries.last());
        ends.copied().min_by_key(|end| end.abs_diff(ms)).unwrap_or_default()
    }

    pub fn series(&self) -> &LifeSeries {
        &self.series
    }

    /// Number of cells, of 24 bytes each.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The range between two of the boundaries; None where none may begin or end there, or they are in the wrong order.
    pub fn range(&self, from_ms: u64, to_ms: u64) -> Option<TimeRange> {
        let boundary = |ms| {
            let at = self.boundaries.binary_search(&ms).ok()?;
            (at.is_multiple_of(self.step) || at == self.boundaries.len() - 1).then(|| at.div_ceil(self.step))
        };
        (from_ms <= to_ms).then_some(TimeRange { from: boundary(from_ms)?, to: boundary(to_ms)?, from_ms, to_ms })
    }

    /// Counts of the chosen blocks by site, without sites that have none. Costs a look at each cell.
    pub fn counts(&self, range: TimeRange, choice: BlockChoice) -> Vec<(u32, Counts)> {
        let TimeRange { from, to, .. } = range;
        let within = |bucket: usize| from <= bucket && bucket < to;
        match choice {
            BlockChoice::Allocated => self.sum(|key| within(key.allocated())),
            BlockChoice::Live => self.sum(|key| key.allocated() < to && key.end() >= to),
            BlockChoice::Freed => self.sum(|key| within(key.end()) && key.fate() != Fate::Live),
            BlockChoice::Left => self.sum(|key| within(key.allocated()) && key.end() >= to),
        }
    }

    #[inline]
    fn sum(&self, is_chosen: impl Fn(Key) -> bool) -> Vec<(u32, Counts)> {
        let mut sums: Vec<(u32, Counts)> = Vec::new();
        for cell in self.cells.iter().filter(|cell| is_chosen(cell.key)) {
            let site = cell.key.site();
            match sums.last_mut().filter(|last| last.0 == site) {
                Some((_, counts)) => add(counts, cell),
                None => {
                    let mut counts = Counts::default();
                    add(&mut counts, cell);
                    sums.push((site, counts));
                }
            }
        }
        sums
    }

    /// Reduces a profile to the chosen blocks. `sites` are all sites of the recording, by index. The profile keeps what
    /// they refer to; it loses what is no sum over blocks, and its origin names the quantities that a range has.
    pub fn choose(&self, range: TimeRange, choice: BlockChoice, sites: &[Site], profile: &mut Profile) {
        profile.sites.clear();
        profile.totals = Counts::default();
        profile.processes.iter_mut().for_each(|process| process.totals = Counts::default());
        for (site, counts) in self.counts(range, choice) {
            let Some(&Site { process, stack, .. }) = sites.get(site as usize) else { continue };
            profile.sites.push(Site::of(process, stack, counts));
            profile.totals += counts;
            if let Some(process) = profile.processes.get_mut(process.0 as usize) {
                process.totals += counts;
            }
        }
        profile.origin = Some(Origin { format: "range", quantities: Quantities::of(&QUANTITIES), sampled_bytes: None });
        profile.window_ms = (choice == BlockChoice::Allocated).then_some(range.from_ms..range.to_ms);
        profile.scans.clear();
        profile.footprints.clear();
        profile.rss.clear();
    }

    /// Bytes live at each boundary of cells: of blocks that were allocated in a bucket before it and ended in none
    /// before it.
    fn live_at(&self) -> Vec<u64> {
        let boundaries = (self.boundaries.len() - 1).div_ceil(self.step) + 1;
        let mut steps = vec![0i128; boundaries + 1];
        for Cell { key, sums } in self.cells.iter().filter(|cell| cell.key.allocated() < cell.key.end()) {
            steps[key.allocated() + 1] += i128::from(sums.bytes);
            steps[key.end() + 1] -= i128::from(sums.bytes);
        }
        let mut level = 0;
        let mut add = |step: &i128| {
            level += step;
            u64::try_from(level).unwrap_or(u64::MAX)
        };
        steps.iter().take(boundaries).map(&mut add).collect()
    }
}

/// Quantities that a range of time has.
const QUANTITIES: [Quantity; 14] = [
    Quantity::Allocations,
    Quantity::AllocatedBytes,
    Quantity::Frees,
    Quantity::FreedBytes,
    Quantity::Temporary,
    Quantity::TemporaryBytes,
    Quantity::Live,
    Quantity::LiveBytes,
    Quantity::Times,
    Quantity::Started,
    Quantity::Processes,
    Quantity::Threads,
    Quantity::ExitStatus,
    Quantity::Events,
];

#[inline]
fn add(counts: &mut Counts, cell: &Cell) {
    let Cell { key, sums } = *cell;
    let mut all = Counts { allocations: sums.blocks, allocated_bytes: sums.bytes, ..Counts::default() };
    match key.fate() {
        Fate::Live => (all.live, all.live_bytes) = (sums.blocks, sums.bytes),
        Fate::Freed => (all.frees, all.freed_bytes) = (sums.blocks, sums.bytes),
        Fate::Temporary => {
            (all.frees, all.freed_bytes) = (sums.blocks, sums.bytes);
            (all.temporary, all.temporary_bytes) = (sums.blocks, sums.bytes);
        }
    }
    *counts += all;
}
