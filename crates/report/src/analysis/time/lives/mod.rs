//! The grid of lives: which blocks were allocated, freed or live within any range of time, without reading the events
//! again.
//!
//! Time is cut into at most [`BUCKETS_MAX`] buckets. A cell holds the blocks of one site that were allocated in one
//! bucket and ended in another one. One pass over the events makes the cells ([`LifeGridBuilder`]); each question is a
//! sum over them ([`LifeGrid`]), exact for ranges that begin and end with a bucket, whatever the number of events.

mod builder;
mod cells;
mod grid;
#[cfg(test)]
mod tests;

pub use builder::LifeGridBuilder;
pub use grid::{BlockChoice, LifeGrid, LifeSeries, RegionSpan, TimeRange};

/// Most buckets of time. A wide screen has about as many columns for a chart.
pub const BUCKETS_MAX: usize = 1024;
/// Most cells, 24 bytes each, as far as there are no more sites than that. Where a recording has more, two buckets of
/// cells become one until it has not, and ranges begin at fewer moments.
const CELLS_MAX: usize = 1 << 22;
