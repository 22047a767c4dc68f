//! Everything between a running target and a [`mallow_profile::Profile`]: the embedded library, the run directory,
//! unwind tables, draining, replaying, and the recording file.
//!
//! A room imports only rooms above it in this list.

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
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

mod courtesy;

mod bytes;

pub mod pace;

pub mod wire;

pub mod scan;

pub mod footprint;

pub mod chunk;

pub mod library;

pub mod accounts;

pub mod tables;

pub mod rundir;

pub mod preflight;

pub mod inside;

pub mod launch;

pub mod drain;

pub mod replay;

pub mod recording;

pub mod attach;

pub mod session;

pub mod watch;

pub mod guard;
