//! Pure functions from a `Profile` to reports.

mod compare;
mod fleet;
pub mod gate;
mod insights;
mod leaks;
mod numbers;
mod rss;
pub mod sampled;
mod stacks;
mod summary;
mod time;
mod watched;

pub use compare::changes::{Both, Changed, Shown, difference};
pub use compare::diff;
pub use compare::merge::{Merged, Merger};
pub use fleet::{
    FleetLimits, FleetOptions, FleetPlace, FleetProcess, FleetProgram, FleetReport, FleetSums, Unwatched, fleet,
};
pub use insights::{Evidence, Insight, Insights, MallocTime, Outside, OutsideModule, Savings, insights, insights_of};
pub use leaks::causes::{Kept, LeakCause, LeakCauses, leak_causes, leak_causes_of};
pub use leaks::cycles::{Cycle, CyclePlace};
pub use leaks::document::{LeakOptions, Leaks, SuppressionUse, leaks, leaks_with};
pub use leaks::emergency_pool::{EMERGENCY_POOL, name_emergency_pool};
pub use leaks::sites::{LeakSite, Live};
pub use leaks::states::{LeakState, LeakStates, Unscanned, leak_states};
pub use leaks::suppressions::{Malformed, Suppressions};
pub use numbers::{Ending, Least, LeftOut, Measure, Totals, keys};
pub use rss::resident::{HighestRss, RssOverTime, highest_rss, rss_over_time};
pub use rss::{
    Allocator, AllocatorRow, BusierMoment, Cause, CausePlace, Certainty, FreeRow, FreedAfter, FreedBefore, HeapCell,
    HeapRow, HeapSums, KeptMoment, KernelPeak, MappingRow, OlderBlocks, PageMap, Part, PartKind, Remedy, RemedyKind,
    Rss, RssAccount, RssMoment, RssNote, RssPlace, RssProcess, SizeClassRow, TerritoryKind, Undivided, UndividedBlocks,
    page_map, rss, shown_footprint,
};
pub use sampled::intervals::{TotalEstimates, total_estimates};
pub use stacks::by_stack::by_stack;
pub use stacks::custom_allocators::{AllocatorInsideRow, CustomAllocatorRow, allocators_inside, custom_allocators};
pub use stacks::flame::{
    Flame, FlameBase, FlameBox, FlameFunction, FlameGroup, FlameOptions, GroupKind, Label, flame, flame_changes,
    flame_changes_fitting,
};
pub use stacks::function_kind;
pub(crate) use stacks::functions::Functions;
pub use stacks::functions::{Frame, Stack, place_name, stack_of};
pub use stacks::list::{List, ListFunction, ListInstruction, ListLine, ListOptions, list, list_changes};
pub use stacks::named_sites::NamedSites;
pub use stacks::narrow::{Narrowed, Narrowing, Pattern, narrow};
pub use stacks::profile_views::ProfileViews;
pub use stacks::top::{Top, TopFunction, TopOptions, top, top_changes};
pub use stacks::tree::{Hidden, Tree, TreeFunction, TreeOptions, TreeRow, tree, tree_changes};
pub use summary::overview::{Largest, Overview, Place, overview, overview_of};
pub use summary::processes::{FamilyRow, ProcessRow};
pub use summary::stat::{RegionKind, RegionRow, Stat, StatProcess, StatProcessRow, StatReport, StatRow, stat};
pub use summary::verdict::{Held, KeptSum, LiveBlocks, PeakProgram, Saving, Statement, Verdict, verdict};
pub use time::blocks::{
    Bucket, Histogram, Lifetimes, LifetimesBuilder, Sizes, SizesBuilder, ThreadPair, ThreadRow, Threads, ThreadsBuilder,
};
pub use time::live_moment::LiveMoment;
pub use time::lives::{BlockChoice, LifeGrid, LifeGridBuilder, LifeSeries, RegionSpan, TimeRange};
pub use time::moments::{ProgramProfiles, merge_moments};
pub use time::timeline::{
    Band, HeapAt, HeapAtBuilder, HeapMoment, LivePlace, LiveSite, Over, POINTS_MAX, Point, Timeline, TimelineBuilder,
    TimelineOptions,
};
pub use watched::{
    Baseline, MemoryPart, MemoryPartRow, MemoryParts, Recent, Samples, Unseen, WatchLosses, WatchOptions, WatchState,
    Watched, WatchedMemory, WatchedPlace, WatchedPlaces, WatchedProcess, WatchedSite, Which, watched, watched_memory,
};
