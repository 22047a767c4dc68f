//! Heap profiles as text, of jemalloc and of gperftools' kind.

mod read;
mod write;

pub use read::{read_gperftools, read_jemalloc};
pub use write::write;
