//! What reading a recording may take of memory.
//!
//! A few bytes can claim much: a column of 8 MiB packs to less than 1 kB, and one byte of it may be an entry of 250
//! bytes in memory. All blocks that are kept whole share one budget, in bytes of memory. Events, pages, lost and live
//! blocks are counted instead, where they are read: an honest program that makes the same block ten million times has a
//! small file, too.

use super::block::Kind;
use super::bytes::{Cursor, Nonsense};

/// Bytes that any file may take.
const ANY: u64 = 64 << 20;
/// Bytes that each byte of the file may take beside that: an honest recording takes less than 50.
const EACH_BYTE: u64 = 256;
/// Bytes of a string of its own, apart from its text: three words, and the smallest block of an allocator.
pub const STRING: u64 = 24 + 32;

/// Bytes of memory that may still be taken.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// The budget of a file with so many bytes.
    pub fn of_file(length: u64) -> Self {
        Self { left: ANY.saturating_add(length.saturating_mul(EACH_BYTE)) }
    }

    /// Takes so many bytes of memory; fails where a file of this length cannot hold what would take them.
    pub fn take(&mut self, bytes: u64) -> Result<(), Nonsense> {
        self.left = self.left.checked_sub(bytes).ok_or(Nonsense("contents that are too large for their file"))?;
        Ok(())
    }

    /// Takes the memory of so many entries of this type, with so many bytes beside each.
    pub fn take_entries<T>(&mut self, count: u64, beside: u64) -> Result<(), Nonsense> {
        self.take(count.saturating_mul(size_of::<T>() as u64 + beside))
    }

    /// Takes the memory that a block of this kind becomes at most. Readers of tables, lines, footprints, arguments and
    /// sources, whose entries differ most in size, take for each entry instead.
    pub fn take_block(&mut self, kind: Kind, columns: &[Cursor]) -> Result<(), Nonsense> {
        let unpacked: u64 = columns.iter().map(|column| column.left() as u64).sum();
        self.take(unpacked.saturating_mul(memory_of_byte(kind)))
    }
}

/// Bytes of memory for each byte of a block's columns: those of its smallest entry, divided by the bytes of that entry.
fn memory_of_byte(kind: Kind) -> u64 {
    match kind {
        // Strings of one byte, with the byte that is their length.
        Kind::Opening | Kind::Unrecorded => STRING / 2,
        Kind::Regions | Kind::ThreadNames | Kind::ExecutedNames | Kind::Index | Kind::SizeClasses => 24,
        Kind::Names | Kind::Allocators | Kind::AllocatorsInside | Kind::Scans | Kind::ScanSums | Kind::Rss => 32,
        Kind::Ending => 1,
        // Fields of what tables have; counted elsewhere; or taken entry by entry.
        Kind::Counts | Kind::Patterns | Kind::Processes => 0,
        Kind::Events | Kind::LostBlocks | Kind::Pages | Kind::Kept | Kind::PlacedBlocks => 0,
        Kind::Tables | Kind::Lines | Kind::Footprint | Kind::Sources | Kind::Arguments => 0,
    }
}
