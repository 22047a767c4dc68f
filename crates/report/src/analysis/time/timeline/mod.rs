//! The heap over time.

mod change;
mod cut;
mod levels;
mod moment;

use std::cmp::Reverse;

use mallow_profile::{Event, Moment, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use change::{Change, changes};
use cut::{Cut, Window};
use levels::{Levels, sites_by_process};
pub use moment::{HeapAt, HeapAtBuilder, HeapMoment, LivePlace, LiveSite};

use crate::analysis::numbers::{Ending, Least};
use crate::analysis::rss::resident::{RssOverTime, rss_over_time};
use crate::analysis::stacks::functions::{FunctionId, Functions};

/// Quantity that is shown over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Bytes that were live.
    LiveBytes,
    /// Blocks that were live.
    Live,
    /// Allocations in the time of a point.
    Allocations,
}

impl Over {
    /// Whether the values are bytes.
    pub fn is_bytes(self) -> bool {
        self == Self::LiveBytes
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TimelineOptions {
    pub by: Over,
    /// Milliseconds since the recording began: the first one, and the one after the last; None: up to the end.
    pub window: (u64, Option<u64>),
    /// Most points; more than [`POINTS_MAX`] are never made.
    pub points: usize,
    /// Most bands; all other functions are counted together.
    pub bands: usize,
}

/// A timeline costs up to eight bytes for each point and function.
pub const POINTS_MAX: usize = 2000;
/// Least milliseconds that a speed is computed from.
const TICKS: u64 = 4;
/// Most functions that can be a band: those that allocated most. The others are counted together.
const FUNCTIONS_MAX: usize = 4096;

/// The heap over time: points, and for each of them how much of it some functions have.
///
/// A point of what is live is the highest value within its time, and what it consists of is what it consisted of at
/// that moment, so that the highest point is the recording's peak. A point of allocations is how many there were in its
/// time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Measure of all values: live bytes, live blocks or allocations.
    pub by: Over,
    /// Milliseconds from the begin of the recording to its end.
    pub duration_ms: u64,
    #[serde(flatten)]
    pub ending: Ending,
    /// First millisecond that is shown, since the recording began.
    pub from_ms: u64,
    /// First millisecond after what is shown, since the recording began.
    pub to_ms: u64,
    /// Length of a point in milliseconds; 1 where points are shorter than that.
    pub point_ms: u64,
    /// Points are parts of milliseconds: each has equally many of its events, in their order. The more events a
    /// millisecond has, the more points.
    pub by_order: bool,
    /// Highest value that is shown; of allocations, their sum.
    pub total: u64,
    /// Moment of `total`, in milliseconds since the recording began; null for allocations.
    pub highest_ms: Option<u64>,
    /// Index of the point with the highest value, from 0.
    pub highest_point: usize,
    /// Value at the end of the shown range; at the end of the recording, the last one before its processes ended. Null
    /// for allocations.
    pub at_end: Option<u64>,
    /// Points in the order of time.
    pub points: Vec<Point>,
    /// Functions that make up most of the values, the one with most first.
    pub bands: Vec<Band>,
    /// Functions that have a part in the values, shown or not.
    pub bands_in_all: u64,
    /// Value of each point that no band has.
    pub others: Vec<u64>,
    /// RSS at the same points, of live bytes alone; left out where no memory was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss: Option<RssOverTime>,
}

impl Timeline {
    /// Counts bands that are smaller everywhere together with the others.
    pub fn leave_out(&mut self, least: Least) {
        let min = least.of(self.total);
        let others = &mut self.others;
        self.bands.retain(|band| {
            let keep = band.values.iter().any(|value| *value >= min);
            if !keep {
                others.iter_mut().zip(&band.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
            }
            keep
        });
    }

    /// Index of the point in which a millisecond begins.
    pub fn point_of(&self, ms: u64) -> usize {
        let at = self.points.partition_point(|point| point.ms < ms);
        if self.points.get(at).is_some_and(|point| point.ms == ms) { at } else { at.saturating_sub(1) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// First millisecond of the point, since the recording began.
    pub ms: u64,
    /// Index of the point among those of its millisecond, from 0.
    pub part: u32,
    /// Points of this millisecond.
    pub parts: u32,
    /// Value of the point by the measure `by`: the highest in it, or the number of allocations in it.
    pub value: u64,
}

/// Values of one function, as `top` counts it: self.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Band {
    /// Demangled name, or `module+0xoffset`; null for allocations without a stack.
    pub function: Option<String>,
    /// Source file of the function, as debug information names it; null where no line is known.
    pub file: Option<String>,
    /// Path of the ELF file in which the function was seen first; null where none is known.
    pub module: Option<String>,
    /// Value of the function at each point.
    pub values: Vec<u64>,
}

/// Makes a [`Timeline`] of events, which are read once, or twice where [`TimelineBuilder::wants_counting`].
pub struct TimelineBuilder<'a> {
    profile: &'a Profile,
    functions: Functions<'a>,
    options: TimelineOptions,
    /// By site, its level. Levels are those of functions, and the last one is that of all others.
    level_of: Vec<u32>,
    function_of: Vec<Option<FunctionId>>,
    /// By site, its live bytes or blocks.
    live: Vec<u64>,
    /// By process number, the indices of its sites.
    sites_of: FxHashMap<u32, Vec<u32>>,
    window: Window,
    /// By millisecond, the number of events, while they are counted.
    counts: Vec<u64>,
    cut: Option<Cut>,
    levels: Levels,
    /// The latest time so far: times may go back a little between threads.
    clock: u64,
    /// Whether the window has begun, and whether it is over.
    begun: bool,
    over: bool,
    piece: usize,
    pieces: usize,
    /// The millisecond at which this piece was highest.
    piece_ms: u64,
    /// For each piece that is over, all levels at its highest moment, one piece after another.
    table: Vec<u64>,
    values: Vec<u64>,
    highest: u64,
    highest_ms: u64,
    highest_piece: usize,
    before_end: Option<u64>,
}

impl<'a> TimelineBuilder<'a> {
    pub fn new(profile: &'a Profile, options: TimelineOptions) -> Self {
        let functions = Functions::new(profile);
        let (level_of, function_of) = levels(profile, &functions, options.by);
        let points = options.points.clamp(1, POINTS_MAX);
        let window = Window::of(options.window, profile.duration_ms);
        // Few ticks of the clock give no speed: what happened within one may be counted with the next.
        let points = match options.by {
            Over::Allocations => points.min(usize::try_from(window.milliseconds() / TICKS).unwrap_or(points).max(1)),
            Over::LiveBytes | Over::Live => points,
        };
        let by_order = options.by != Over::Allocations && window.is_short(points);
        let (counts, cut) = match by_order {
            true => (vec![0; window.milliseconds() as usize], None),
            false => (Vec::new(), Some(Cut::by_time(window, points))),
        };
        Self {
            profile,
            functions,
            options: TimelineOptions { points, ..options },
            levels: Levels::new(function_of.len() + 1),
            level_of,
            function_of,
            live: vec![0; profile.sites.len()],
            sites_of: sites_by_process(profile),
            window,
            counts,
            pieces: cut.as_ref().map_or(0, Cut::pieces),
            cut,
            clock: 0,
            begun: false,
            over: false,
            piece: 0,
            piece_ms: 0,
            table: Vec::new(),
            values: Vec::new(),
            highest: 0,
            highest_ms: 0,
            highest_piece: 0,
            before_end: None,
        }
    }

    /// Whether all events are to be passed to [`TimelineBuilder::count`] first: the run is so short that its order says
    /// more than its times.
    pub fn wants_counting(&self) -> bool {
        self.cut.is_none()
    }

    /// Counts an event of the first reading.
    #[inline]
    pub fn count(&mut self, at: Moment) {
        self.clock = self.clock.max(at.ms);
        let count = self.clock.checked_sub(self.window.from).and_then(|ms| self.counts.get_mut(ms as usize));
        if let Some(count) = count {
            *count += 1;
        }
    }

    /// Ends the first reading.
    pub fn counted(&mut self) {
        let cut = Cut::by_order(self.window, self.options.points, &self.counts);
        self.pieces = cut.pieces();
        self.cut = Some(cut);
        self.clock = 0;
    }

    #[inline]
    pub fn event(&mut self, at: Moment, event: &Event) {
        self.clock = self.clock.max(at.ms);
        self.over |= self.clock >= self.window.to;
        if self.over {
            return;
        }
        if self.clock >= self.window.from {
            self.begin();
            let piece = self.cut.as_mut().map_or(0, |cut| cut.piece(self.clock)).min(self.pieces.saturating_sub(1));
            while self.piece < piece {
                self.close();
            }
        }
        let ended = matches!(event, Event::EndProcess);
        self.before_end = self.before_end.or(Some(self.levels.sum())).filter(|_| ended);
        for change in changes(at, event) {
            match change {
                Change::Born(call) => {
                    let amount = if self.options.by.is_bytes() { call.size } else { 1 };
                    self.born(call.site as usize, amount);
                }
                _ if self.options.by == Over::Allocations => {}
                Change::Gone(block) => {
                    let amount = if self.options.by.is_bytes() { block.size } else { 1 };
                    self.gone(block.site as usize, amount);
                }
                Change::AllGone(process) => {
                    for site in self.sites_of.get(&process).cloned().unwrap_or_default() {
                        self.gone(site as usize, self.live[site as usize]);
                    }
                }
            }
        }
    }

    #[inline]
    fn born(&mut self, site: usize, amount: u64) {
        let Some((&level, live)) = self.level_of.get(site).zip(self.live.get_mut(site)) else { return };
        *live = live.saturating_add(amount);
        if self.levels.raise(level as usize, amount) {
            self.piece_ms = self.clock;
        }
    }

    #[inline]
    fn gone(&mut self, site: usize, amount: u64) {
        let Some((&level, live)) = self.level_of.get(site).zip(self.live.get_mut(site)) else { return };
        *live = live.saturating_sub(amount);
        self.levels.lower(level as usize, amount, 1);
    }

    /// Begins the window with the levels that there are, unless it has begun.
    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.forget_allocations();
            self.levels.begin();
            self.piece_ms = self.window.from;
        }
    }

    /// Ends the piece: its highest levels are kept, and the next one begins with the present ones.
    fn close(&mut self) {
        self.table.extend((0..self.levels.len()).map(|level| self.levels.at_highest(level).0));
        self.values.push(self.levels.highest());
        if self.levels.highest() > self.highest {
            (self.highest, self.highest_ms, self.highest_piece) = (self.levels.highest(), self.piece_ms, self.piece);
        }
        self.piece += 1;
        self.forget_allocations();
        self.levels.begin();
        self.piece_ms = self.cut.as_ref().map_or(0, |cut| cut.place(self.piece).0);
    }

    fn forget_allocations(&mut self) {
        if self.options.by == Over::Allocations {
            for level in 0..self.levels.len() {
                let (count, blocks) = self.levels.now(level);
                self.levels.lower(level, count, blocks);
            }
        }
    }

    /// Call it after the last event.
    pub fn finish(mut self) -> Timeline {
        self.begin();
        let at_end = self.before_end.unwrap_or(self.levels.sum());
        while self.values.len() < self.pieces.max(1) {
            self.close();
        }
        let cut = self.cut.take().unwrap_or(Cut::by_time(self.window, 1));
        let live = self.options.by != Over::Allocations;
        let values = &self.values;
        let highest_point = self.highest_piece;
        let (bands, others, bands_in_all) = self.bands(highest_point);
        let point = |(piece, &value): (usize, &u64)| {
            let (ms, part, parts) = cut.place(piece);
            Point { ms, part, parts, value }
        };
        let times = (0..values.len()).map(|piece| cut.place(piece).0);
        let rss = self.options.by.is_bytes().then(|| rss_over_time(self.profile, times)).flatten();
        Timeline {
            command: self.profile.command.clone(),
            by: self.options.by,
            duration_ms: self.profile.duration_ms,
            ending: Ending::of(self.profile),
            from_ms: self.window.from,
            to_ms: self.window.to,
            point_ms: cut.milliseconds(),
            by_order: cut.is_by_order(),
            total: if live { self.highest } else { values.iter().fold(0, |sum, v| sum.saturating_add(*v)) },
            highest_ms: live.then_some(self.highest_ms),
            highest_point,
            at_end: live.then_some(at_end),
            points: values.iter().enumerate().map(point).collect(),
            bands,
            bands_in_all,
            others,
            rss,
        }
    }

    /// The bands with the largest parts of the whole picture and of its highest point.
    fn bands(&self, highest_point: usize) -> (Vec<Band>, Vec<u64>, u64) {
        let count = self.levels.len();
        let rows = || self.table.chunks_exact(count);
        let mut areas = vec![0u128; count];
        for row in rows() {
            areas.iter_mut().zip(row).for_each(|(sum, value)| *sum += u128::from(*value));
        }
        let whole = areas.iter().sum::<u128>().max(1) as f64;
        let top = self.values.get(highest_point).copied().unwrap_or(0).max(1) as f64;
        let at_top = rows().nth(highest_point).unwrap_or(&[]);
        let score = |level: usize| areas[level] as f64 / whole + at_top.get(level).map_or(0.0, |v| *v as f64 / top);
        let mut order: Vec<usize> = (0..count - 1).filter(|&level| areas[level] > 0).collect();
        let bands_in_all = order.len() as u64;
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        order.truncate(self.options.bands);
        let band = |&level: &usize| {
            let id = self.function_of[level];
            Band {
                function: id.map(|id| self.functions.name(id)),
                file: id.and_then(|id| self.functions.file(id)),
                module: id.and_then(|id| self.functions.module(id)),
                values: rows().map(|row| row[level]).collect(),
            }
        };
        let bands: Vec<Band> = order.iter().map(band).collect();
        let rest =
            |(at, value): (usize, &u64)| bands.iter().fold(*value, |left, band| left.saturating_sub(band.values[at]));
        let others = self.values.iter().enumerate().map(rest).collect();
        (bands, others, bands_in_all)
    }
}

/// By site, its level; and by level its function, but for the last level, which is that of all other functions.
fn levels(profile: &Profile, functions: &Functions<'_>, by: Over) -> (Vec<u32>, Vec<Option<FunctionId>>) {
    let of_site = |stack| functions.named(stack).map(|named| named.step.function);
    let named: Vec<Option<FunctionId>> = profile.sites.iter().map(|site| of_site(site.stack)).collect();
    let mut sums: FxHashMap<Option<FunctionId>, u64> = FxHashMap::default();
    for (site, function) in profile.sites.iter().zip(&named) {
        // What a function allocated bounds what of it was ever live.
        let amount = if by.is_bytes() { site.counts.allocated_bytes } else { site.counts.allocations };
        let sum = sums.entry(*function).or_default();
        *sum = sum.saturating_add(amount);
    }
    let mut order: Vec<_> = sums.into_iter().collect();
    order.sort_unstable_by_key(|&(function, sum)| (Reverse(sum), function));
    order.truncate(FUNCTIONS_MAX);
    let level: FxHashMap<_, _> =
        order.iter().enumerate().map(|(level, &(function, _))| (function, level as u32)).collect();
    let others = order.len() as u32;
    let level_of = named.iter().map(|function| level.get(function).copied().unwrap_or(others)).collect();
    (level_of, order.into_iter().map(|(function, _)| function).collect())
}

#[cfg(test)]
mod tests;
