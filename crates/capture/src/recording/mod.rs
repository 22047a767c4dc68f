//! The recording file, `.mallow`. `docs/FORMAT.md` describes it from the outside.
//!
//! A file is a head of 16 bytes, blocks ([`block`]), and a trailer of 16 bytes. While the recording goes on, blocks of
//! events ([`codec`]) are written, and before each what it refers to and no earlier block held ([`tables`]). At the end
//! come the sums ([`summary`]), so that most questions are answered without reading an event, and what is carried along
//! for other machines ([`embedded`]). [`Reader::pack`] adds that to a recording which has none.

mod allocators;
mod arguments;
mod attachments;
mod block;
mod blocks;
mod budget;
mod choice;
mod codec;
mod decoder;
mod error;
mod heap_map;
mod index;
mod live_blocks;
mod lost_blocks;
mod pack;
mod programs;
mod queue;
mod reader;
mod recount;
mod regions;
mod scans;
mod selected_ledger;
mod selection;
mod summary;
mod tables;
mod writer;

use crate::bytes;

pub use attachments::SourceFile;
pub use blocks::Progress;
pub use choice::Choice;
pub use error::ReadError;
pub use pack::PackError;
pub use reader::{Reader, has_events, opening, read};
pub use recount::Extent;
pub use selection::{Selection, Span, When};
pub use writer::Writer;

/// First bytes of each recording: the first one is no text, and a transfer as text spoils the last one.
const MAGIC: [u8; 8] = *b"\x89mallow\n";
/// Last bytes of a whole recording.
const TRAILER_MAGIC: [u8; 8] = *b"\nwollam\x89";
/// Version of the format that is written.
pub const VERSION: u32 = 4;
/// The oldest version that is read. It lacks footprints, and is the same otherwise; version 2 lacks the kernel's own
/// maxima of RSS, single lost blocks, and CPU time.
const FIRST_VERSION: u32 = 1;

#[cfg(test)]
mod tests;
