//! Heap profiles as text, of jemalloc, of gperftools' kind and of Go.

mod maps;
mod names;
mod raw;
mod read;
mod write;

pub use read::{detect, read};
pub use write::write;
