//! Heap profiles as text, of jemalloc, of gperftools' kind and of Go, and php-memprof's, which begin as text.

mod maps;
mod memprof;
mod names;
mod raw;
mod read;
mod write;

pub use read::{detect, read};
pub use write::write;
