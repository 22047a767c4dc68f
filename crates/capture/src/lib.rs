//! Everything between a running target and a [`mallow_profile::Profile`]: the embedded library, the run directory,
//! unwind tables, draining, replaying, and the recording file.
//!
//! A room imports only rooms above it in this list.

mod prefetch;

pub mod wire;

pub mod chunk;

pub mod library;

pub mod accounts;

pub mod tables;

pub mod rundir;

pub mod preflight;

pub mod launch;

pub mod drain;

pub mod replay;

pub mod recording;

pub mod session;

pub mod watch;
