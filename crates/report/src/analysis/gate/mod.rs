//! A gate on allocations: what runs counted, what is allowed, and which stacks made the difference.
//!
//! What cannot be judged is never passed: it is *broken*, with the reason.

mod figures;
mod stacks;
mod verdict;

pub use figures::{Figures, Measured, Metric, Run, Scale, runs_by_region};
pub use stacks::{Change, Difference, Place, Shown, SiteCount, difference, places, sites, telling};
pub use verdict::{Check, Limit, Limits, Slack, Verdict, judge};
