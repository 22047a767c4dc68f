//! Selections of blocks: by process, thread, size, time, lifetime and measured region.

use std::ops::Range;

use mallow_profile::{Moment, Profile};

/// Numbers from `from` up to `to`, which is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub from: u64,
    /// None: without an end.
    pub to: Option<u64>,
}

impl Span {
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        number >= self.from && self.to.is_none_or(|to| number < to)
    }
}

/// What must happen to a block within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// The block is allocated within the time.
    #[default]
    Allocated,
    /// The block is live at some moment of the time.
    Live,
    /// The block is freed within the time.
    Freed,
}

/// Conditions on blocks. A block is selected if it meets all of them; the default is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Numbers of processes: one of them allocated the block.
    pub processes: Option<Vec<u32>>,
    /// Indexes of threads: one of them allocated the block.
    pub threads: Option<Vec<u32>>,
    /// Numbers of runs of measured regions: the block was allocated within one of them.
    pub regions: Option<Vec<u32>>,
    /// What happens to the block within a time, in milliseconds since the recording began.
    pub time: Option<(When, Span)>,
    /// Bytes of the block as requested.
    pub sizes: Option<Span>,
    /// Milliseconds from the block's allocation to its free; if it leaked, to the end of its process.
    pub lifetimes: Option<Span>,
}

impl Selection {
    /// Whether all blocks are selected.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a block's allocation does not determine if it is selected.
    pub(super) fn asks_the_future(&self) -> bool {
        self.regions.is_some() || self.lifetimes.is_some() || self.time.is_some_and(|(when, _)| when != When::Allocated)
    }

    /// Whether the only condition is whose a block is. Frees of blocks that were not seen allocated can be reported
    /// then.
    pub(super) fn asks_for_processes_alone(&self) -> bool {
        Self { processes: None, ..self.clone() }.is_all()
    }

    /// Milliseconds from which on no allocation is selected any more; None: there is no such time.
    pub(super) fn allocations_end(&self) -> Option<u64> {
        self.time?.1.to
    }

    /// Milliseconds from which on the fates of all blocks are known that were selected so far; None: there is no such
    /// time.
    pub(super) fn fates_known(&self) -> Option<u64> {
        let longest = self.lifetimes.map_or(0, |span| span.to.unwrap_or(span.from));
        self.allocations_end()?.checked_add(longest)
    }
}

impl Selection {
    /// Milliseconds within which what is selected was allocated, since the recording began, without the processes'
    /// waits for mallow; None: the whole run. No time at all where threads or regions are selected: for how
    /// long they ran is not known here.
    pub(super) fn window(&self, profile: &Profile) -> Option<Range<u64>> {
        if self.threads.is_some() || self.regions.is_some() {
            return Some(0..0);
        }
        let time = self
            .time
            .filter(|(when, _)| *when == When::Allocated)
            .map(|(_, Span { from, to })| from..to.unwrap_or(u64::MAX).min(profile.duration_ms));
        let chosen = || self.processes.iter().flatten().filter_map(|&at| profile.processes.get(at as usize));
        let from = chosen().map(|process| process.start_ms).min();
        let to = chosen().map(|process| process.done_ms().saturating_sub(process.table_wait_ms)).max();
        let processes = from.zip(to).map(|(from, to)| from..to);
        match (time, processes) {
            (Some(time), Some(processes)) => Some(time.start.max(processes.start)..time.end.min(processes.end)),
            (time, processes) => time.or(processes),
        }
    }
}

/// Decides from a block's allocation and its free whether it meets a [`Selection`], whose sets of numbers are tables
/// here.
pub(super) struct Criterion<'a> {
    selection: &'a Selection,
    processes: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    regions: Option<Vec<bool>>,
}

/// Wanted runs of measured regions that are under way: number, process, and thread where it is that one's alone.
#[derive(Debug, Default)]
pub(super) struct Running(Vec<(u32, u32, Option<u32>)>);

impl<'a> Criterion<'a> {
    pub fn new(selection: &'a Selection) -> Self {
        let set = |numbers: &Option<Vec<u32>>| {
            let numbers = numbers.as_ref()?;
            let mut set = vec![false; numbers.iter().max().map_or(0, |&most| most as usize + 1)];
            numbers.iter().for_each(|&number| set[number as usize] = true);
            Some(set)
        };
        Self {
            selection,
            processes: set(&selection.processes),
            threads: set(&selection.threads),
            regions: set(&selection.regions),
        }
    }

    /// Takes notice of a run's beginning or end.
    pub fn region(&self, running: &mut Running, at: Moment, number: u32, end: bool, this_thread: bool) {
        running.0.retain(|run| run.0 != number);
        if !end && self.regions.is_some() && has(&self.regions, number) {
            running.0.push((number, at.process, this_thread.then_some(at.thread)));
        }
    }

    /// Whether a moment is within a wanted run; true where no runs are wanted.
    #[inline]
    pub fn within(&self, running: &Running, at: Moment) -> bool {
        self.regions.is_none()
            || running
                .0
                .iter()
                .any(|&(_, process, thread)| process == at.process && thread.is_none_or(|thread| thread == at.thread))
    }

    #[inline]
    pub fn process(&self, process: u32) -> bool {
        has(&self.processes, process)
    }

    #[inline]
    pub fn thread(&self, thread: u32) -> bool {
        has(&self.threads, thread)
    }

    /// False where the allocation alone shows that the block is not selected.
    #[inline]
    pub fn allocated(&self, process: u32, thread: u32, ms: u64, size: u64) -> bool {
        self.process(process)
            && self.thread(thread)
            && self.selection.sizes.is_none_or(|span| span.contains(size))
            && match self.selection.time {
                None | Some((When::Freed, _)) => true,
                Some((When::Allocated, span)) => span.contains(ms),
                Some((When::Live, span)) => span.to.is_none_or(|to| ms < to),
            }
    }

    /// Whether a block whose allocation was selected stays so, now that it is known how long it lived. `freed`: it was
    /// freed, and did not live on to the end of its process.
    #[inline]
    pub fn gone(&self, born: u64, ms: u64, freed: bool) -> bool {
        self.selection.lifetimes.is_none_or(|span| span.contains(ms.saturating_sub(born)))
            && match self.selection.time {
                None | Some((When::Allocated, _)) => true,
                Some((When::Live, span)) => ms >= span.from,
                Some((When::Freed, span)) => freed && span.contains(ms),
            }
    }
}

#[inline]
fn has(set: &Option<Vec<bool>>, number: u32) -> bool {
    set.as_ref().is_none_or(|set| set.get(number as usize).copied().unwrap_or(false))
}
