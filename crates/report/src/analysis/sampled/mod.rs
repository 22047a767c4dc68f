//! Reports of sampled programs: by call path, as a profile, and the intervals of a profile's numbers.

mod call_paths;
pub(super) mod intervals;
mod snapshot;

pub use call_paths::{CallPath, GrowingPaths, growing_paths};
pub use mallow_estimates::{
    Ended, Estimate, FIRST_VERDICT_NS, Growth, NEEDED_SAMPLES, SampleLedger, SiteFigures, Standings, Sum, Verdict,
};
pub use snapshot::{snapshot, snapshot_since_known};
