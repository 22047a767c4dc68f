//! A whole run, from starting the command to what it did.

mod record;
mod recovery;

pub use record::{Counted, Recorded, Recording, RunError, Tick, become_sampled, measure, record, start_sampled};
pub use recovery::recover;
