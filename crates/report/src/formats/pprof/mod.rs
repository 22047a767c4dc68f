//! pprof's protocol buffers, plain or gzipped.

mod kinds;
mod messages;
mod read;

pub use read::{looks_like, read};
