//! Go: what its compiler says of allocations, and what its programs do.
//!
//! [`model`] is what the compiler says, free of how it was told. The Go tool is driven in one room alone; everything
//! else here is pure.

mod chain;
pub mod escape;
pub mod join;
pub mod model;
pub mod read;
mod reason;
pub mod results;
pub mod tool;
