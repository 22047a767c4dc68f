//! A whole run, from starting the command to what it did; and what a killed mallow left of one.

mod command;
mod counting;
mod error;
pub mod leftovers;
mod recording;
mod recovery;
mod sampling;

pub use counting::{CountingOutcome, measure};
pub use error::RunError;
pub use recording::{Recording, RecordingOutcome, Tick, record};
pub use recovery::recover;
pub use sampling::{become_sampled, start_sampled};
