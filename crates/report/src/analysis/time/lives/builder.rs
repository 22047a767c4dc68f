//! Making the grid: one pass over the events.

use mallow_profile::{Block, Call, Event, Moment, Profile};
use rustc_hash::FxHashMap;

use super::cells::{CellSums, Cells, Fate, Key};
use super::grid::{LifeGrid, LifeSeries, RegionSpan};
use super::{BUCKETS_MAX, CELLS_MAX};
use crate::analysis::rss::resident::{rss_peak, rss_points};

/// Makes a [`LifeGrid`] of all events, which are read once. The builder copies what it needs of the profile.
#[derive(Debug)]
pub struct LifeGridBuilder {
    duration_ms: u64,
    /// Milliseconds of a bucket of the series.
    width: u64,
    /// Low bits of a bucket's number that cells leave out, so that there are at most `cells_max`.
    shift: u32,
    cells_max: usize,
    process_of_site: Vec<u32>,
    /// The bucket of the event, by its own time, as `--time` has it, and the milliseconds that led to it.
    now: usize,
    now_ms: u64,
    /// By site, the blocks of this bucket and what happened to them in this bucket.
    slots: Vec<Slot>,
    /// Sites whose slots are in use.
    touched: Vec<u32>,
    /// The blocks of earlier buckets that ended in this bucket.
    older: FxHashMap<Key, CellSums>,
    cells: Cells,
    /// By thread, the number of the block that it allocated last.
    last_block: Vec<u64>,
    /// By process, the bucket in which it ended.
    ends: Vec<Option<usize>>,
    /// Processes that ended since the last event of another kind; the bucket of `clock` then, and the bytes that were
    /// live of them.
    last_ended: Vec<(u32, usize, u64)>,
    series: LifeSeries,
    /// By number of a run of a measured region, the time when it began.
    begun: FxHashMap<u32, Option<u64>>,
    /// The latest time so far, in milliseconds, and its bucket. Levels are dated by it, as `timeline` dates them.
    clock: u64,
    clock_bucket: usize,
    live: u64,
    live_of_process: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    allocated: CellSums,
    freed: CellSums,
    temporary: CellSums,
}

impl Slot {
    #[inline]
    fn is_empty(&self) -> bool {
        self.allocated.blocks | self.freed.blocks | self.temporary.blocks == 0
    }
}

impl LifeGridBuilder {
    pub fn new(profile: &Profile) -> Self {
        Self::with_bounds(profile, BUCKETS_MAX, CELLS_MAX)
    }

    /// Has at most `buckets_max` buckets, and at most `cells_max` cells as far as the number of sites allows.
    pub(super) fn with_bounds(profile: &Profile, buckets_max: usize, cells_max: usize) -> Self {
        // The millisecond in which the recording ended belongs to it.
        let all = profile.duration_ms.saturating_add(1);
        let width = all.div_ceil(buckets_max as u64).max(1);
        let buckets = all.div_ceil(width) as usize;
        let zeros = || vec![0; buckets];
        Self {
            duration_ms: profile.duration_ms,
            width,
            shift: 0,
            cells_max,
            process_of_site: profile.sites.iter().map(|site| site.process.0).collect(),
            now: 0,
            now_ms: 0,
            slots: vec![Slot::default(); profile.sites.len()],
            touched: Vec::new(),
            older: FxHashMap::default(),
            cells: Cells::default(),
            last_block: vec![u64::MAX; profile.threads.len()],
            ends: vec![None; profile.processes.len()],
            last_ended: Vec::new(),
            series: LifeSeries {
                live: zeros(),
                live_at: vec![0; buckets + 1],
                allocations: zeros(),
                allocated_bytes: zeros(),
                freed_bytes: zeros(),
                rss: rss_points(profile, 2 * buckets_max),
                rss_peak: rss_peak(profile),
                regions: Vec::new(),
            },
            begun: profile.regions.iter().map(|region| (region.number, None)).collect(),
            clock: 0,
            clock_bucket: 0,
            live: 0,
            live_of_process: vec![0; profile.processes.len()],
        }
    }

    /// `number` counts the allocations of the whole recording before this event.
    #[inline]
    pub fn event(&mut self, number: u64, at: Moment, event: &Event) {
        if at.ms != self.now_ms {
            self.advance(at.ms);
        }
        if *event != Event::EndProcess && !self.last_ended.is_empty() {
            self.last_ended.clear();
        }
        match *event {
            Event::Allocate(call) => self.born(number, at, call),
            Event::Free(Some(block)) | Event::ReallocFree(Some(block)) | Event::UnseenFree(block) => {
                self.gone(at, block);
            }
            Event::Reallocate { call, old, .. } => {
                if let Some(block) = old {
                    self.gone(at, block);
                }
                self.born(number, at, call);
            }
            Event::Free(None) | Event::ReallocFree(None) => {}
            Event::Region { number, end, .. } => self.region(number, at.ms, end),
            Event::EndProcess => self.end_process(at.process),
        }
    }

    #[inline]
    fn born(&mut self, number: u64, at: Moment, call: Call) {
        let Some(slot) = self.slots.get_mut(call.site as usize) else { return };
        if slot.is_empty() {
            self.touched.push(call.site);
        }
        slot.allocated.add(call.size);
        if let Some(last) = self.last_block.get_mut(at.thread as usize) {
            *last = number;
        }
        let now = self.now;
        self.series.allocations[now] += 1;
        add(&mut self.series.allocated_bytes[now], call.size);
        add(&mut self.live, call.size);
        if let Some(live) = self.live_of_process.get_mut(at.process as usize) {
            add(live, call.size);
        }
        let highest = &mut self.series.live[self.clock_bucket];
        *highest = self.live.max(*highest);
    }

    #[inline]
    fn gone(&mut self, at: Moment, block: Block) {
        let allocated = self.bucket(block.ms) >> self.shift;
        let now = self.now >> self.shift;
        let Some(slot) = self.slots.get_mut(block.site as usize) else { return };
        let is_temporary = self.last_block.get(at.thread as usize) == Some(&block.sequence);
        if allocated == now {
            if slot.is_empty() {
                self.touched.push(block.site);
            }
            if is_temporary { &mut slot.temporary } else { &mut slot.freed }.add(block.size);
        } else {
            let fate = if is_temporary { Fate::Temporary } else { Fate::Freed };
            let key = Key::new(block.site, allocated, now, fate);
            self.older.entry(key).or_default().add(block.size);
        }
        add(&mut self.series.freed_bytes[self.now], block.size);
        self.live = self.live.saturating_sub(block.size);
        if let Some(live) = self.live_of_process.get_mut(at.process as usize) {
            *live = live.saturating_sub(block.size);
        }
    }

    fn end_process(&mut self, process: u32) {
        let Some(end) = self.ends.get_mut(process as usize) else { return };
        end.get_or_insert(self.now);
        let live = std::mem::take(&mut self.live_of_process[process as usize]);
        self.last_ended.push((process, self.clock_bucket, live));
        self.live = self.live.saturating_sub(live);
    }

    fn region(&mut self, number: u32, ms: u64, end: bool) {
        let Some(begun) = self.begun.get_mut(&number) else { return };
        match (end, *begun) {
            (false, _) => *begun = Some(ms),
            (true, Some(begin_ms)) => {
                self.begun.remove(&number);
                self.series.regions.push(RegionSpan { number, begin_ms, end_ms: ms.max(begin_ms) });
            }
            (true, None) => {}
        }
    }

    #[inline]
    fn bucket(&self, ms: u64) -> usize {
        ((ms / self.width) as usize).min(self.series.live.len() - 1)
    }

    fn advance(&mut self, ms: u64) {
        self.now_ms = ms;
        let now = self.bucket(ms);
        if now >> self.shift != self.now >> self.shift {
            self.flush();
            if self.cells.merge_if_many() {
                self.bound();
            }
        }
        self.now = now;
        self.clock = self.clock.max(ms);
        self.advance_clock(self.bucket(self.clock));
    }

    fn advance_clock(&mut self, bucket: usize) {
        while self.clock_bucket < bucket {
            self.clock_bucket += 1;
            self.series.live[self.clock_bucket] = self.live;
            self.series.live_at[self.clock_bucket] = self.live;
        }
    }

    /// Turns what happened in this bucket of cells into cells.
    fn flush(&mut self) {
        let now = self.now >> self.shift;
        for site in self.touched.drain(..) {
            let Slot { allocated, freed, temporary } = std::mem::take(&mut self.slots[site as usize]);
            self.cells.push_live(site, now, allocated.less(freed).less(temporary));
            self.cells.push_freed(Key::new(site, now, now, Fate::Freed), freed);
            self.cells.push_freed(Key::new(site, now, now, Fate::Temporary), temporary);
        }
        for (key, sums) in self.older.drain() {
            self.cells.push_live(key.site(), key.allocated(), CellSums::default().less(sums));
            self.cells.push_freed(key, sums);
        }
    }

    /// Halves the number of cells' buckets until there are few enough cells. Cells must be merged, and the bucket
    /// flushed.
    fn bound(&mut self) {
        while self.cells.len() > self.cells_max && (self.series.live.len() - 1) >> self.shift > 0 {
            self.cells.halve();
            self.shift += 1;
        }
    }

    /// Call it after the last event.
    pub fn finish(mut self) -> LifeGrid {
        self.flush();
        self.cells.merge();
        self.bound();
        let buckets = self.series.live.len();
        self.advance_clock(buckets - 1);
        self.series.live_at[buckets] = self.live;
        // What is live when nothing more happens but the ends of processes is live at the recording's end.
        for (process, bucket, live) in std::mem::take(&mut self.last_ended) {
            self.ends[process as usize] = None;
            self.series.live_at[bucket + 1..].iter_mut().for_each(|bytes| add(bytes, live));
        }
        self.series.regions.sort_by_key(|region| region.number);
        let end = ((buckets - 1) >> self.shift) + 1;
        let cells = self.cells.finish(|site| {
            let process = self.process_of_site.get(site as usize).copied().unwrap_or_default();
            self.ends.get(process as usize).copied().flatten().map_or(end, |end| end >> self.shift)
        });
        let boundary = |bucket: usize| {
            let end = self.duration_ms.saturating_add(1);
            if bucket == buckets { end } else { self.width.saturating_mul(bucket as u64).min(end) }
        };
        LifeGrid::new((0..=buckets).map(boundary).collect(), 1 << self.shift, cells, self.series)
    }
}

#[inline]
fn add(sum: &mut u64, number: u64) {
    *sum = sum.saturating_add(number);
}
