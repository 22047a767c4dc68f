//! Blocks that are live or lost at the end, by who allocated them and why they stay.

pub(super) mod causes;
pub(super) mod cycles;
pub(super) mod document;
pub(super) mod emergency_pool;
pub(super) mod losing_paths;
pub(super) mod sites;
pub(super) mod states;
pub(super) mod suppressions;
