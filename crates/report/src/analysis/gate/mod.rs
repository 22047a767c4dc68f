//! A gate on allocations: what runs counted, what is allowed, and which stacks made the difference.
//!
//! A case without a possible verdict never passes: it is *broken*, with the reason.

mod figures;
mod rest;
mod stacks;
mod verdict;

pub use figures::{Figures, Measured, Metric, Run, Scale, Tolerance, runs_by_region};
pub use rest::{Rest, Smaller, difference_with_rest};
pub use stacks::{
    Change, Difference, PlaceChange, Shown, SiteCount, difference, informative_steps, name_of, places, sites,
};
pub use verdict::{Bounds, Check, Limit, Limits, Slack, Verdict, decide};
