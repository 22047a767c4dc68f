//! What samples say of everything that was not sampled, and how sure that is.

mod call_paths;
mod estimate;
mod feeding;
mod growth;
mod history;
pub(super) mod intervals;
mod ledger;
mod limits;
mod lives;
mod site;
mod snapshot;
mod standing;
mod trend;

pub use call_paths::{CallPath, GrowingPaths, growing_paths};
pub use estimate::{Estimate, NEEDED_SAMPLES, Sum, picked};
pub use growth::{FIRST_VERDICT_NS, Growth, Verdict, WARM_UP_NS};
pub use ledger::{Ended, Finding, Peak, SampleLedger, SiteFigures};
pub use snapshot::{snapshot, snapshot_since_known};
pub use standing::{Evidence, Standings};
