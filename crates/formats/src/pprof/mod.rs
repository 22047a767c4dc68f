//! pprof's protocol buffers, plain or gzipped.

mod chosen;
mod earlier;
mod fields;
mod kinds;
mod labels;
mod messages;
mod precision_labels;
mod read;
mod tables;
mod write;

pub use chosen::SampleType;
pub use read::{looks_like, read, read_samples};
pub use write::{Options, carries, write, write_as};
