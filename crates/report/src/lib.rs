//! What a recording says, in the form in which people and scripts ask for it.
//!
//! [`analysis`] turns a `Profile` into reports: plain structs that serialise to JSON and that the command prints. It
//! knows no terminals, files or clocks. [`names`] shortens function names for people.

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

pub mod analysis;
pub mod names;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
