//! DHAT's JSON, version 2, of valgrind and of the dhat crate.

mod lives;
mod read;
mod write;

pub use lives::Lives;
pub use read::read;
pub use write::{carries, write};
