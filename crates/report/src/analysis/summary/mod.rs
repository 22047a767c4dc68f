//! What stands on the first screen.

pub(super) mod overview;
pub(super) mod processes;
pub(super) mod stat;
pub(super) mod verdict;
