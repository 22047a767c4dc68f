//! Sums of events: the ledger of a recording, its live blocks, and the modules, frames and stacks that they refer
//! to. The replay and the recording's reader both post here.

pub mod addresses;
mod catalog;
pub mod ledger;
pub mod live;
mod options;
mod patterns;
mod sink;

pub use catalog::Catalog;
pub use ledger::Ledger;
pub use live::{GRAIN_BITS, KEY_MAX, Live};
pub use options::Options;
pub use sink::EventSink;
