//! Go: what its compiler says of allocations, and what its programs do.
//!
//! [`model`] is what the compiler says, in whatever form it was printed. One module alone drives the Go tool;
//! everything else here is pure.

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

mod advice;
mod applies;
mod chain;
pub mod escape;
pub mod join;
pub mod model;
pub mod names;
pub mod read;
mod reason;
pub mod results;
mod settle;
pub mod source;
pub mod statistics;
pub mod tool;

pub use advice::Advice;
pub use settle::settle;
