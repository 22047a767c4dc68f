//! Blocks one by one: their sizes, their lifetimes, and the threads that allocate and free them.

mod histogram;
mod lifetimes;
mod sizes;
#[cfg(test)]
mod tests;
mod threads;

pub use histogram::{Bucket, Histogram};
pub use lifetimes::{Lifetimes, LifetimesBuilder};
pub use sizes::{Sizes, SizesBuilder};
pub use threads::{ThreadPair, ThreadRow, Threads, ThreadsBuilder};
