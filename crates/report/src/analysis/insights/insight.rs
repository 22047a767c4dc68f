//! An insight: one habit in one place, its evidence, and what a remedy would save.

use mallow_profile::StackId;
use serde::Serialize;

use super::super::functions::{Frame, FunctionId, Stack, Step};

/// The smallest share of malloc's time or of the peak that is reported, and of the run's CPU time from which on it
/// matters.
pub(super) const SHARE: f64 = 0.01;

/// The insights of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Insights {
    /// How many there are, shown here or not.
    pub insights_in_all: u64,
    /// Of all: those that may save less than a hundredth, of the run's CPU time and of the peak.
    pub small_in_all: u64,
    /// Those that would save most first.
    pub insights: Vec<Insight>,
    /// What malloc takes of the run; null where the run's CPU time is not known.
    pub malloc_time: Option<MallocTime>,
    /// Allocations by scripts and interpreters, for which there are no suggestions.
    pub interpreted_allocations: u64,
    /// A process had `PYTHONMALLOC=malloc`: by itself, it allocates less by malloc, which takes less of its time.
    pub has_python_malloc: bool,
}

/// Between which shares of the run's CPU time the allocator's own time lies, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MallocTime {
    /// At least.
    pub least: f64,
    /// At the most.
    pub most: f64,
}

/// Of shares of the run's CPU time, where that is known, and of the peak.
pub(super) fn matters(run_share: Option<f64>, peak_share: f64) -> bool {
    run_share.is_none_or(|share| share >= SHARE) || peak_share >= SHARE
}

impl Insight {
    /// Whether it may save a hundredth of the run's CPU time or of the peak. Where the CPU time is not known, it may.
    pub fn matters(&self) -> bool {
        matters(self.run_share, self.peak_share)
    }

    /// Whether it saves a part of the peak of which it is not known how large it is: without the copy of a growth, the
    /// next highest moment is the peak.
    pub fn is_of_unknown_peak(&self) -> bool {
        matches!(self.evidence, Evidence::GrowingAtPeak { .. })
    }

    /// Whether it saves memory at the peak rather than time.
    pub fn is_of_peak(&self) -> bool {
        self.peak_share > self.malloc_share
    }
}

/// One habit in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Insight {
    /// What the program does, in numbers.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// What could be done about it.
    pub remedy: String,
    /// What that would save.
    pub saves: Savings,
    /// The share of malloc's time that it may save, 0 to 1, estimated.
    pub malloc_share: f64,
    /// The share of the bytes live at the peak that it may save, 0 to 1.
    pub peak_share: f64,
    /// The most that it may save of the run's CPU time, 0 to 1; null where that is not known.
    pub run_share: Option<f64>,
    /// The function that does it.
    #[serde(flatten)]
    pub frame: Frame,
    /// What it called to get its memory, where that is more than an allocating function.
    pub through: Option<String>,
    /// How many sites do it, and the stack of the one with the most allocations.
    pub sites: u64,
    /// See `sites`.
    pub largest_site: Stack,
}

/// What a program does. In JSON, the name is the `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "evidence", rename_all = "snake_case")]
pub enum Evidence {
    /// Buffers grow step by step, by realloc or by an allocation, a copy and a free.
    GrownBuffer {
        /// How many grew; null where most of them began at other calls, so that it is not known.
        grown_buffers: Option<u64>,
        /// Their steps in all.
        growth_steps: u64,
        /// What the steps copied. At the most: the C library may move the pages of large blocks instead.
        copied_bytes: u64,
        /// Sizes that were asked for.
        smallest_bytes: u64,
        /// See `smallest_bytes`.
        largest_bytes: u64,
        /// Each step is a good part of the buffer.
        doubling: bool,
        /// What kind of container they are.
        container: Option<&'static str>,
    },
    /// A container grows from small to large again and again, the last one being gone by then.
    RebuiltContainer {
        times: u64,
        /// With the first blocks that are allocated at other calls.
        allocations: u64,
        /// Steps in all.
        growth_steps: u64,
        /// What the steps copied.
        copied_bytes: u64,
        /// The largest size.
        largest_bytes: u64,
        /// What kind of container it is.
        container: Option<&'static str>,
    },
    /// Blocks that are freed before the next one is allocated at their site.
    TemporaryBlock {
        allocations: u64,
        /// Those that were freed before the next one there, or the thread's next one anywhere.
        freed_before_next: u64,
        /// Sizes that were asked for.
        smallest_bytes: u64,
        /// See `smallest_bytes`.
        largest_bytes: u64,
        /// Requested bytes of all.
        allocated_bytes: u64,
        /// What kind of container they are for.
        container: Option<&'static str>,
    },
    /// Small blocks, allocated one by one, that are freed together.
    OneLifetime {
        allocations: u64,
        /// Their requested bytes.
        allocated_bytes: u64,
        /// Frees in runs, in which nothing else was allocated.
        freed_in_runs: u64,
        /// How many runs; where sites share one, it counts for each.
        runs: u64,
        /// What headers and padding of those live at the peak take, in the C library's allocator.
        overhead_bytes: u64,
        /// Calls in the source that do it; the one shown is the largest.
        places: u64,
    },
    /// Blocks that another thread frees than allocated them.
    FreedByOthers {
        allocations: u64,
        /// Those that another thread freed.
        freed_by_others: u64,
        /// Calls in the source that do it; the one shown is the largest.
        places: u64,
    },
    /// Large blocks that had just grown when they were complete, and were then kept.
    KeptSlack {
        kept: u64,
        /// Their requested bytes.
        kept_bytes: u64,
        /// What they had grown by in their last step.
        kept_slack: u64,
    },
    /// Large blocks whose last growth was at the peak, and that were then kept.
    GrowingAtPeak {
        growing: u64,
        /// Their requested bytes.
        growing_bytes: u64,
        /// Those of the blocks that they were growing from, which were live beside them.
        old_bytes: u64,
    },
    /// Allocations before `main` begins.
    BeforeMain(Outside),
    /// Allocations when `main` is over, or `exit` was called.
    AfterMain(Outside),
    /// A container of the language's library that stands for a good part of all allocations.
    PopularContainer {
        container: &'static str,
        /// Allocations for it in this function.
        allocations: u64,
        /// Their requested bytes.
        allocated_bytes: u64,
    },
}

impl Evidence {
    /// Calls in the source that do it.
    pub fn places(&self) -> u64 {
        match self {
            Self::OneLifetime { places, .. } | Self::FreedByOthers { places, .. } => *places,
            _ => 1,
        }
    }
}

/// What is allocated outside of `main`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outside {
    pub allocations: u64,
    /// Requested bytes.
    pub allocated_bytes: u64,
    /// How many functions do it: initialisers, destructors or handlers.
    pub functions: u64,
    /// The files that they are in, the one with the most allocations first.
    pub modules: Vec<OutsideModule>,
}

/// A file whose functions allocate outside of `main`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutsideModule {
    pub module: String,
    pub allocations: u64,
}

/// What a remedy would save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Savings {
    /// Allocations, each with its free.
    pub allocations: u64,
    /// Bytes that are copied from an old block to a new one.
    pub copied_bytes: u64,
    /// Frees by other threads.
    pub freed_by_others: u64,
    /// Bytes of these allocations in large blocks, whose pages may come from the kernel each time.
    pub large_bytes: u64,
    /// Bytes at the peak.
    pub peak_bytes: u64,
}

/// An insight before it is put into words.
pub(super) struct Finding {
    pub evidence: Evidence,
    pub remedy: String,
    pub saves: Savings,
    /// Where. The stack has this step.
    pub step: Step,
    pub through: Option<FunctionId>,
    pub sites: u64,
    pub largest: StackId,
}
