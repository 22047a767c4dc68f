//! What samples say of everything that was not sampled, and how sure that is.
//!
//! [`Sum`] adds up samples, and [`Estimate`] is its total with an interval. [`SampleLedger`] takes in the events of a
//! watched program and says of its sites what they allocated, what is live, and whether that grows.

// It is fed what files say: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod estimate;
mod feeding;
mod growth;
mod history;
mod ledger;
mod limits;
mod lives;
mod site;
mod standing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod trend;

pub use estimate::{Estimate, LEAST_SAMPLES, NEEDED_SAMPLES, Sum, picked};
pub use growth::{FIRST_VERDICT_NS, Growth, Verdict, WARM_UP_NS};
pub use ledger::{Ended, Finding, Peak, SampleLedger, SiteFigures};
pub use site::SiteSums;
pub use standing::{Evidence, Standings};
