//! An insight: one habit in one place, its evidence, and what a remedy would save.

use mallow_profile::StackId;
use serde::Serialize;

use crate::analysis::stacks::functions::{Frame, FunctionId, Stack, Step};

/// Smallest share of malloc's time or of the peak that is reported, and smallest share of the run's CPU time or of the
/// peak that matters.
pub(super) const SHARE: f64 = 0.01;

/// The insights of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Insights {
    /// Suggestions, shown or not.
    pub insights_in_all: u64,
    /// Suggestions that may save less than a hundredth of the run's CPU time and of the peak.
    pub small_in_all: u64,
    /// Suggestions, the largest saving first.
    pub insights: Vec<Insight>,
    /// Time of malloc and free, as a share of the run's CPU time; null where the latter is not known.
    pub malloc_time: Option<MallocTime>,
    /// Allocations by scripts and interpreters, for which there are no suggestions.
    pub interpreted_allocations: u64,
    /// A process had `PYTHONMALLOC=malloc`: by itself, it allocates less by malloc, which takes less of its time.
    pub has_python_malloc: bool,
}

/// Between which shares of the run's CPU time the allocator's own time lies, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MallocTime {
    /// Lower bound of malloc's share of the run's CPU time.
    pub least: f64,
    /// Upper bound of malloc's share of the run's CPU time.
    pub most: f64,
}

/// Whether one of the shares, of the run's CPU time or of the peak, is at least [`SHARE`]. An unknown one is.
pub(super) fn matters(run_share: Option<f64>, peak_share: f64) -> bool {
    run_share.is_none_or(|share| share >= SHARE) || peak_share >= SHARE
}

impl Insight {
    /// Whether the insight may save a hundredth of the run's CPU time or of the peak. Where the CPU time is not known,
    /// it may.
    pub fn matters(&self) -> bool {
        matters(self.run_share, self.peak_share)
    }

    /// Whether the insight saves an unknown part of the peak: without the copy of a growth, the next highest moment is
    /// the peak.
    pub fn is_of_unknown_peak(&self) -> bool {
        matches!(self.evidence, Evidence::GrowingAtPeak { .. })
    }

    /// Whether the insight saves memory at the peak rather than time.
    pub fn is_of_peak(&self) -> bool {
        self.peak_share > self.malloc_share
    }
}

/// A habit of the program in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Insight {
    /// Kind of the habit, and numbers that show it.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Change of the program that the insight suggests, a sentence.
    pub remedy: String,
    /// Counts that the change may save.
    pub saves: Savings,
    /// Share of malloc's time that the change may save, from 0 to 1, estimated.
    pub malloc_share: f64,
    /// Share of the bytes live at the peak that the change may save, from 0 to 1.
    pub peak_share: f64,
    /// Most of the run's CPU time that the change may save, from 0 to 1; null where that is not known.
    pub run_share: Option<f64>,
    /// Function that has the habit.
    #[serde(flatten)]
    pub frame: Frame,
    /// Function that the line called to get its memory, where that is more than an allocating function; null elsewhere.
    pub through: Option<String>,
    /// Call sites with this pattern at the line.
    pub sites: u64,
    /// Stack of the call site with the most allocations.
    pub largest_site: Stack,
}

/// What a program does. In JSON, the name is the `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "evidence", rename_all = "snake_case")]
pub enum Evidence {
    /// Buffers grow step by step, by realloc or by an allocation, a copy and a free.
    GrownBuffer {
        /// Buffers that grew; null where most of them began at other calls, so that it is not known.
        grown_buffers: Option<u64>,
        /// Steps of all buffers.
        growth_steps: u64,
        /// Upper bound of the bytes that the steps copied: the C library may move the pages of large blocks instead.
        copied_bytes: u64,
        /// Smallest requested size of a buffer.
        smallest_bytes: u64,
        /// Largest requested size of a buffer.
        largest_bytes: u64,
        /// Each step adds a good part of the buffer's size.
        doubling: bool,
        /// Kind of the container: `vector`, `string`, …; null where it is not known.
        container: Option<&'static str>,
    },
    /// A container grows from small to large again and again, the last one being gone by then.
    RebuiltContainer {
        /// Number of times that a container was built from nothing.
        times: u64,
        /// Allocations of the containers, with the first blocks that are allocated at other calls.
        allocations: u64,
        /// Steps of all containers by which they grew.
        growth_steps: u64,
        /// Bytes that the steps copied.
        copied_bytes: u64,
        /// Largest requested size of a container.
        largest_bytes: u64,
        /// Kind of the container: `vector`, `string`, …; null where it is not known.
        container: Option<&'static str>,
    },
    /// Blocks that are freed before the next one is allocated at their site.
    TemporaryBlock {
        /// Allocations at the place.
        allocations: u64,
        /// Blocks that were freed before the next allocation at the place, or before the thread's next one anywhere.
        freed_before_next: u64,
        /// Smallest requested size of a block.
        smallest_bytes: u64,
        /// Largest requested size of a block.
        largest_bytes: u64,
        /// Requested bytes of `allocations`.
        allocated_bytes: u64,
        /// Kind of the container that the blocks are for; null where it is not known.
        container: Option<&'static str>,
    },
    /// Small blocks, allocated one by one, that are freed together.
    OneLifetime {
        /// Allocations at the place.
        allocations: u64,
        /// Requested bytes of `allocations`.
        allocated_bytes: u64,
        /// Frees in runs, in which nothing else was allocated.
        freed_in_runs: u64,
        /// Runs of frees; a run that call sites share counts for each.
        runs: u64,
        /// Headers and padding of the blocks that were live at the peak, in the C library's allocator; estimated: for
        /// each as much as the mean of all blocks of its call path.
        overhead_bytes: u64,
        /// Headers and padding of `allocations`, in the C library's allocator; 0 if the program has another one.
        allocated_overhead_bytes: u64,
        /// Calls in the source that have the habit; the one shown is the largest.
        places: u64,
    },
    /// Blocks that another thread frees than allocated them.
    FreedByOthers {
        /// Allocations at the place.
        allocations: u64,
        /// Blocks that another thread freed.
        freed_by_others: u64,
        /// Calls in the source that have the habit; the one shown is the largest.
        places: u64,
    },
    /// Large blocks that had just grown when they were complete, and were then kept.
    KeptSlack {
        /// Grown blocks that were live at the peak.
        kept: u64,
        /// Requested bytes of `kept`.
        kept_bytes: u64,
        /// Bytes by which the blocks in `kept` grew in their last step.
        kept_slack: u64,
    },
    /// Large blocks whose last growth was at the peak, and that were then kept.
    GrowingAtPeak {
        /// Blocks that were being grown at the peak.
        growing: u64,
        /// Requested bytes of `growing`.
        growing_bytes: u64,
        /// Requested bytes of the old blocks, which were live beside the new ones.
        old_bytes: u64,
    },
    /// Allocations before `main` begins.
    BeforeMain(Outside),
    /// Allocations when `main` is over, or `exit` was called.
    AfterMain(Outside),
    /// A container of the language's library that stands for a good part of all allocations.
    PopularContainer {
        /// Kind of the container.
        container: &'static str,
        /// Allocations for the container in the function.
        allocations: u64,
        /// Requested bytes of `allocations`.
        allocated_bytes: u64,
    },
}

impl Evidence {
    /// Number of calls in the source that have the habit.
    pub fn places(&self) -> u64 {
        match self {
            Self::OneLifetime { places, .. } | Self::FreedByOthers { places, .. } => *places,
            _ => 1,
        }
    }
}

/// Allocations outside of `main`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outside {
    /// Allocations before or after main.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Functions that allocate there: initialisers, destructors or handlers.
    pub functions: u64,
    /// Files that the functions are in, the one with the most allocations first.
    pub modules: Vec<OutsideModule>,
}

/// A file whose functions allocate outside of `main`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideModule {
    /// Path of the ELF file.
    pub module: String,
    /// Allocations of its functions before or after main.
    pub allocations: u64,
}

/// Counts that a remedy would save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Savings {
    /// Allocations that the remedy would save, each with its free.
    pub allocations: u64,
    /// Bytes that are copied from an old block to a new one, and would not be.
    pub copied_bytes: u64,
    /// Frees by another thread than the one that allocated, which would not be.
    pub freed_by_others: u64,
    /// Bytes of `allocations` in large blocks, whose pages may come from the kernel each time.
    pub large_bytes: u64,
    /// Bytes live at the peak that would not be.
    pub peak_bytes: u64,
}

/// An insight before it is put into words.
pub(super) struct Finding {
    pub evidence: Evidence,
    pub remedy: String,
    pub saves: Savings,
    /// The named step, which `stack` has.
    pub step: Step,
    pub through: Option<FunctionId>,
    pub sites: u64,
    pub largest: StackId,
}
