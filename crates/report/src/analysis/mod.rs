//! Pure functions from a `Profile` to reports.

mod blocks;
mod branches;
mod callers;
mod calls;
mod changes;
mod custom_allocators;
pub mod diff;
mod emergency_pool;
mod flame;
mod fleet;
pub mod function_kind;
mod functions;
pub mod gate;
mod insights;
mod intervals;
mod leak_causes;
mod leak_sites;
mod leak_states;
mod leaks;
mod list;
mod live_moment;
mod lives;
mod losing_paths;
mod lost_cycles;
mod merge;
mod moments;
mod named_sites;
mod narrow;
mod numbers;
mod overview;
mod resident;
mod rss;
mod runtimes;
pub mod sampled;
mod scripts;
mod stat;
mod step;
mod suppressions;
mod tell_apart;
mod timeline;
mod top;
mod tree;
mod verdict;
mod watched;
mod wrappers;

pub use blocks::{
    Bucket, Histogram, Lifetimes, LifetimesBuilder, Sizes, SizesBuilder, ThreadPair, ThreadRow, Threads, ThreadsBuilder,
};
pub use changes::{Both, Changed, Shown, difference};
pub use custom_allocators::{AllocatorInsideRow, CustomAllocatorRow, allocators_inside, custom_allocators};
pub use emergency_pool::{EMERGENCY_POOL, name_emergency_pool};
pub use flame::{
    Flame, FlameBase, FlameBox, FlameFunction, FlameGroup, FlameOptions, GroupKind, Label, flame, flame_changes,
    flame_changes_fitting, flame_fitting,
};
pub use fleet::{
    FleetLimits, FleetOptions, FleetPlace, FleetProcess, FleetProgram, FleetReport, FleetSums, Unwatched, fleet,
};
pub(crate) use functions::Functions;
pub use functions::{Frame, Stack, place_name, stack_of};
pub use insights::{Evidence, Insight, Insights, MallocTime, Outside, OutsideModule, Savings, insights};
pub use intervals::{TotalEstimates, total_estimates};
pub use leak_causes::{Kept, LeakCause, LeakCauses, leak_causes, leak_causes_in_state};
pub use leak_sites::{LeakSite, Live};
pub use leak_states::{LeakState, LeakStates, Unscanned, leak_states};
pub use leaks::{LeakOptions, Leaks, SuppressionUse, leaks, leaks_with};
pub use list::{List, ListFunction, ListInstruction, ListLine, ListOptions, list, list_changes};
pub use live_moment::LiveMoment;
pub use lives::{BlockChoice, LifeGrid, LifeGridBuilder, LifeSeries, RegionSpan, TimeRange};
pub use lost_cycles::{Cycle, CyclePlace};
pub use merge::{Merged, Merger};
pub use moments::{ProgramProfiles, merge_moments};
pub use named_sites::NamedSites;
pub use narrow::{Narrowed, Narrowing, Pattern, narrow};
pub use numbers::{Ending, Least, LeftOut, Measure, Totals, keys};
pub use overview::{FamilyRow, Largest, Overview, Place, ProcessRow, by_stack, overview};
pub use resident::{HighestRss, RssOverTime, highest_rss, rss_over_time};
pub use rss::{
    Allocator, AllocatorRow, BusierMoment, Cause, CausePlace, Certainty, FreeRow, FreedBefore, HeapCell, HeapRow,
    HeapSums, KeptMoment, KernelPeak, MappingRow, OlderBlocks, PageMap, Part, PartKind, Remedy, RemedyKind, Rss,
    RssAccount, RssMoment, RssNote, RssPlace, RssProcess, SizeClassRow, TerritoryKind, Undivided, UndividedBlocks,
    page_map, rss, shown_footprint,
};
pub use stat::{RegionKind, RegionRow, Stat, StatProcess, StatProcessRow, StatReport, StatRow, stat};
pub use suppressions::{Malformed, Suppressions};
pub use timeline::{
    Band, HeapAt, HeapAtBuilder, HeapMoment, LivePlace, LiveSite, Over, POINTS_MAX, Point, Timeline, TimelineBuilder,
    TimelineOptions,
};
pub use top::{Top, TopFunction, TopOptions, top, top_changes};
pub use tree::{Hidden, Tree, TreeFunction, TreeOptions, TreeRow, tree, tree_changes};
pub use verdict::{Held, KeptSum, LiveBlocks, PeakProgram, Saving, Statement, Verdict, verdict};
pub use watched::{
    Baseline, MemoryPart, MemoryPartRow, MemoryParts, Recent, Samples, Unseen, WatchLosses, WatchOptions, WatchState,
    Watched, WatchedMemory, WatchedPlace, WatchedPlaces, WatchedProcess, WatchedSite, Which, watched, watched_memory,
};
