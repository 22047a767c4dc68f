//! Pure functions from a `Profile` to reports.

mod calls;
mod changes;
mod custom_allocators;
pub mod diff;
mod flame;
mod functions;
pub mod gate;
mod insights;
pub mod interest;
mod leak_causes;
mod leak_sites;
mod leaks;
mod list;
mod merge;
mod narrow;
mod numbers;
mod overview;
#[cfg(test)]
pub(crate) mod random;
pub mod sampled;
mod stat;
mod suppressions;
mod timeline;
mod top;
mod tree;
mod watched;
mod wrappers;

pub use changes::{Both, Changed, Shown, difference};
pub use custom_allocators::{CustomAllocatorRow, custom_allocators};
pub use flame::{Flame, FlameBase, FlameBox, FlameFunction, FlameModule, FlameOptions, Label, flame, flame_changes};
pub use functions::{Frame, Stack, stack_of};
pub(crate) use functions::{Functions, place_name};
pub use insights::{Evidence, Insight, Insights, Outside, OutsideModule, Savings, insights};
pub use leak_causes::{LeakCause, LeakCauses, leak_causes};
pub use leak_sites::{LeakSite, Leaked};
pub use leaks::{Leaks, SuppressionUse, leaks};
pub use list::{List, ListFunction, ListInstruction, ListLine, ListOptions, list, list_changes};
pub use merge::{Merged, Merger};
pub use narrow::{Narrowed, Narrowing, Pattern, narrow};
pub use numbers::{Ending, Least, LeftOut, Measure, Totals, keys};
pub(crate) use overview::by_stack;
pub use overview::{FamilyRow, Largest, Overview, Place, ProcessRow, overview};
pub use stat::{RegionKind, RegionRow, Stat, StatProcess, StatProcessRow, StatReport, StatRow, stat};
pub use suppressions::{Malformed, Suppressions};
pub use timeline::{
    Band, HeapAt, HeapAtBuilder, HeapMoment, Live, LivePlace, LiveSite, Over, POINTS_MAX, Point, Timeline,
    TimelineBuilder, TimelineOptions,
};
pub use top::{Top, TopFunction, TopOptions, top, top_changes};
pub use tree::{Hidden, Tree, TreeFunction, TreeOptions, TreeRow, tree, tree_changes};
pub use watched::{
    Baseline, Recent, Samples, WatchLosses, WatchOptions, WatchState, Watched, WatchedProcess, WatchedSite, Which,
    watched,
};
