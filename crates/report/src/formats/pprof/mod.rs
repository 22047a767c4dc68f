//! pprof's protocol buffers, plain or gzipped.

mod kinds;
mod labels;
mod messages;
mod read;
mod write;

pub use read::{looks_like, read};
pub use write::{carries, write};
