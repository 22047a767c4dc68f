//! Blocks: what a recording file consists of.
//!
//! ```text
//! byte  0        1         2          4             8          12
//!      | kind   | columns | 0, 0     | payload len | CRC-32   | payload …
//!
//! payload: for each column   | unpacked len u32 | packed len u32 |
//!          then each column's zstd frame
//! ```
//!
//! The CRC is that of the first 8 bytes and the payload. Each column is compressed by itself, because columns have
//! nothing in common.

use super::bytes::Cursor;
use super::error::ReadError;
use std::io::{self, Read};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Opening = 1,
    /// New processes, threads, modules, frames, stacks, sites.
    Tables = 2,
    Events = 3,
    /// Counts of sites, after all events.
    Counts = 4,
    /// What became of the processes.
    Processes = 5,
    /// Functions, files and lines of frames.
    Lines = 6,
    Ending = 7,
    /// Offsets and times of the blocks of events.
    Index = 8,
    /// What was found when names of frames were looked up.
    Names = 9,
    Sources = 10,
    Regions = 12,
    /// What sites do with their blocks, after all events.
    Patterns = 13,
    /// Allocators above malloc that processes use.
    Allocators = 14,
    /// What scans of processes at their exit found, as versions 1 and 2 have it.
    ScanSums = 15,
    /// Names by which processes were executed.
    ExecutedNames = 16,
    /// Sentences about programs that were not recorded.
    Unrecorded = 17,
    ThreadNames = 18,
    /// Arguments of the command and of processes.
    Arguments = 46,
    /// Allocators inside of executables and libraries.
    AllocatorsInside = 20,
    /// The memory of a process at one moment: totals and mappings. Numbers of the three below, which readers pass over,
    /// differ in two bits from those of blocks that may be missing: one bit that flips is noticed.
    Footprint = 21,
    /// Pages of the footprint before.
    Pages = 36,
    /// What allocators keep for themselves, of the footprint before.
    Kept = 33,
    /// Live blocks of the footprint before.
    PlacedBlocks = 39,
    LostBlocks = 40,
    /// What scans of processes at their exit found.
    Scans = 43,
    /// RSS of processes over time.
    Rss = 24,
    SizeClasses = 25,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        use Kind::*;
        let all = [
            Opening,
            Tables,
            Events,
            Counts,
            Processes,
            Lines,
            Ending,
            Index,
            Names,
            Sources,
            Regions,
            Patterns,
            Allocators,
            ScanSums,
            LostBlocks,
            Scans,
            ExecutedNames,
            Unrecorded,
            ThreadNames,
            Arguments,
            AllocatorsInside,
            Footprint,
            Pages,
            Kept,
            PlacedBlocks,
            Rss,
            SizeClasses,
        ];
        all.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// Whether a recording has one block of this kind at most.
    pub fn is_once(self) -> bool {
        use Kind::*;
        match self {
            Opening | Processes | Ending | Index | Regions | Allocators | ExecutedNames | Unrecorded | ThreadNames
            | AllocatorsInside | SizeClasses => true,
            Tables | Events | Counts | Patterns | Lines | Names | Sources | ScanSums | Scans | LostBlocks
            | Footprint | Pages | Kept | PlacedBlocks | Rss | Arguments => false,
        }
    }
}

/// Bytes of a block's head.
pub const HEAD: usize = 12;
/// Most bytes that a column of a block unpacks to.
pub const COLUMN: usize = 8 << 20;
/// Most bytes of a block's payload, and of all of its columns, unpacked.
pub const PAYLOAD: usize = 64 << 20;
const COLUMNS: usize = 32;

/// zstd's level. Levels from 1 to 6 differ by 20 % in size at the most on event columns, and by a factor of 3 in time.
const LEVEL: i32 = 1;

/// Packs columns into blocks, one after the other in the same memory.
pub struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    payload: Vec<u8>,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        Ok(Self { zstd: zstd::bulk::Compressor::new(LEVEL)?, payload: Vec::new() })
    }

    pub fn pack(&mut self, kind: Kind, columns: &[Vec<u8>]) -> io::Result<&[u8]> {
        let block = &mut self.payload;
        block.clear();
        block.extend([kind as u8, columns.len() as u8, 0, 0]);
        block.resize(HEAD + 8 * columns.len(), 0);
        for (i, column) in columns.iter().enumerate() {
            let begin = block.len();
            block.resize(begin + zstd::zstd_safe::compress_bound(column.len()), 0);
            let length = self.zstd.compress_to_buffer(column, &mut block[begin..])?;
            block.truncate(begin + length);
            let lengths = HEAD + 8 * i;
            block[lengths..lengths + 4].copy_from_slice(&(column.len() as u32).to_le_bytes());
            block[lengths + 4..lengths + 8].copy_from_slice(&(length as u32).to_le_bytes());
        }
        let payload = (block.len() - HEAD) as u32;
        block[4..8].copy_from_slice(&payload.to_le_bytes());
        let crc = checksum(&block[..8], &block[HEAD..]);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        Ok(block)
    }
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(payload);
    crc.finalize()
}

/// A block's head that makes sense.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The head's bytes in the file.
    pub bytes: [u8; HEAD],
    pub kind: Kind,
    columns: usize,
    /// Bytes that follow the head.
    pub payload: usize,
}

impl Head {
    /// Fails where a head makes no sense; `at`, its offset in the file, is for errors.
    pub fn parse(bytes: [u8; HEAD], at: u64) -> Result<Self, ReadError> {
        let damaged = |what| ReadError::Damaged { at, what };
        let kind = Kind::of(bytes[0]).ok_or(damaged("a block of no known kind"))?;
        let columns = usize::from(bytes[1]);
        let payload = u32_at(&bytes, 4) as usize;
        if columns > COLUMNS || bytes[2..4] != [0, 0] || payload > PAYLOAD || payload < 8 * columns {
            return Err(damaged("a block's head makes no sense"));
        }
        Ok(Self { bytes, kind, columns, payload })
    }

    /// Reads the payload of the head at `at`, checks it, and unpacks its columns.
    pub fn unpack(&self, from: &mut impl Read, at: u64) -> Result<Vec<Cursor>, ReadError> {
        let damaged = |what| ReadError::Damaged { at, what };
        // Not made in one go: the length may be a lie, and the file shorter.
        let mut payload = Vec::new();
        from.take(self.payload as u64).read_to_end(&mut payload)?;
        if payload.len() < self.payload {
            return Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        if checksum(&self.bytes[..8], &payload) != u32_at(&self.bytes, 8) {
            return Err(damaged("a block's checksum is wrong"));
        }
        let claimed: usize = (0..self.columns).map(|i| u32_at(&payload, 8 * i) as usize).sum();
        if claimed > PAYLOAD {
            return Err(damaged("a block unpacks to more than any has"));
        }
        let mut begin = 8 * self.columns;
        let mut columns = Vec::with_capacity(self.columns);
        for i in 0..self.columns {
            let (unpacked, packed) = (u32_at(&payload, 8 * i) as usize, u32_at(&payload, 8 * i + 4) as usize);
            let frame = begin.checked_add(packed).and_then(|end| payload.get(begin..end));
            let frame = frame.filter(|_| unpacked <= COLUMN).ok_or(damaged("a column's length makes no sense"))?;
            let column = zstd::bulk::decompress(frame, unpacked).map_err(|_| damaged("a column cannot be unpacked"))?;
            if column.len() != unpacked {
                return Err(damaged("a column has another length than it says"));
            }
            columns.push(Cursor::new(column));
            begin += packed;
        }
        if begin != payload.len() {
            return Err(damaged("a block has more than its columns"));
        }
        Ok(columns)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
