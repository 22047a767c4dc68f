//! Two profiles or more: what changed, and sums.

pub(super) mod changes;
pub mod diff;
pub(super) mod merge;
