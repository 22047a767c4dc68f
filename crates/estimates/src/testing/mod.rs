//! Programs whose truth is known, sampled as the target samples them.

// For tests alone: a wrong simulation fails.
#![allow(clippy::expect_used)]

pub mod server;
pub mod simulation;
