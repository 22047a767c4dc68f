//! What was live when, and how long blocks lived.

pub(super) mod blocks;
pub(super) mod live_moment;
pub(super) mod lives;
pub(super) mod moments;
pub(super) mod timeline;
