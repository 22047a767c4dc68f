//! Everything between a running target and a [`mallow_profile::Profile`]: the embedded library, the run directory,
//! unwind tables, draining, replaying, and the recording file.

pub mod chunk;
pub mod library;
mod prefetch;
pub mod recording;
pub mod replay;
pub mod run;
pub mod sight;
pub mod table;
pub mod watch;
pub mod wire;
