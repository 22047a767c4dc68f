//! A whole run, from starting the command to what it did; and what a killed mallow left of one.

mod attached;
mod command;
mod counting;
mod error;
mod executed;
mod exits;
mod headroom;
mod idle_thread;
pub mod leftovers;
mod memory;
mod recording;
mod recovery;
mod sampling;

pub use attached::{AttachedProcess, PatchedBy, later_libraries_fail, left, name as process_name, patched_by};
pub use counting::{CountingOutcome, measure, measure_process};
pub use error::RunError;
pub use recording::{Recording, RecordingOutcome, Stage, Tick, record, record_process};
pub use recovery::recover;
pub use sampling::{attach_sampled, attach_sampled_too, become_sampled, start_sampled, start_sampled_with};
