//! Cells of the grid: blocks with the same site, bucket of allocation and end.

use std::ops::AddAssign;

/// Blocks, and their requested bytes. Sums saturate: a file may say anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CellSums {
    pub blocks: u64,
    pub bytes: u64,
}

impl CellSums {
    #[inline]
    pub fn add(&mut self, size: u64) {
        self.blocks = self.blocks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
    }

    /// Wraps, and so may be less than nothing for a while, until more is added.
    pub fn less(self, other: Self) -> Self {
        Self { blocks: self.blocks.wrapping_sub(other.blocks), bytes: self.bytes.wrapping_sub(other.bytes) }
    }
}

impl AddAssign for CellSums {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// Freed, or moved by realloc.
    Freed,
    /// Freed, or moved by realloc, before the block's own thread allocated again.
    Temporary,
    /// Live when the process, or the recording, ended. While the grid is made: allocated and not freed so far, without
    /// an end.
    Live,
}

const FATE_BITS: u32 = 2;
const BUCKET_BITS: u32 = 11;

/// Site, bucket of allocation, bucket of the end, and fate in one number, which sorts by these in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

impl Key {
    /// `end` is one more than the last bucket where blocks lived on to the recording's end.
    #[inline]
    pub fn new(site: u32, allocated: usize, end: usize, fate: Fate) -> Self {
        let head = (u64::from(site) << BUCKET_BITS | allocated as u64) << BUCKET_BITS | end as u64;
        Self(head << FATE_BITS | fate as u64)
    }

    #[inline]
    pub fn site(self) -> u32 {
        (self.0 >> (FATE_BITS + 2 * BUCKET_BITS)) as u32
    }

    #[inline]
    pub fn allocated(self) -> usize {
        (self.0 >> (FATE_BITS + BUCKET_BITS)) as usize & ((1 << BUCKET_BITS) - 1)
    }

    #[inline]
    pub fn end(self) -> usize {
        (self.0 >> FATE_BITS) as usize & ((1 << BUCKET_BITS) - 1)
    }

    #[inline]
    pub fn fate(self) -> Fate {
        match self.0 & ((1 << FATE_BITS) - 1) {
            0 => Fate::Freed,
            1 => Fate::Temporary,
            _ => Fate::Live,
        }
    }

    fn halved(self) -> Self {
        Self::new(self.site(), self.allocated() / 2, self.end() / 2, self.fate())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub key: Key,
    pub sums: CellSums,
}

/// Cells as they come: several may have one key until they are merged.
#[derive(Debug, Default)]
pub(super) struct Cells {
    all: Vec<Cell>,
    /// Number of cells after the last merge.
    merged: usize,
}

/// Number of cells below which they are not merged.
const FEW: usize = 1 << 16;

impl Cells {
    #[inline]
    pub fn push_freed(&mut self, key: Key, sums: CellSums) {
        if sums.blocks > 0 {
            self.all.push(Cell { key, sums });
        }
    }

    /// `sums` is what was allocated at a site in a bucket, less what of it was freed.
    #[inline]
    pub fn push_live(&mut self, site: u32, allocated: usize, sums: CellSums) {
        if sums != CellSums::default() {
            self.all.push(Cell { key: Key::new(site, allocated, 0, Fate::Live), sums });
        }
    }

    /// Merges cells of one key, where that is due. Their number stays below three times that of different ones, and
    /// each is sorted a few times at most.
    pub fn merge_if_many(&mut self) -> bool {
        let due = self.all.len() > 2 * self.merged + FEW;
        if due {
            self.merge();
        }
        due
    }

    pub fn merge(&mut self) {
        self.all.sort_unstable_by_key(|cell| cell.key);
        self.all.dedup_by(|next, kept| {
            let same = next.key == kept.key;
            match next.key.fate() {
                _ if !same => {}
                Fate::Freed | Fate::Temporary => kept.sums += next.sums,
                Fate::Live => kept.sums = kept.sums.less(CellSums::default().less(next.sums)),
            }
            same
        });
        self.all.retain(|cell| cell.sums != CellSums::default());
        self.merged = self.all.len();
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Makes two buckets one throughout.
    pub fn halve(&mut self) {
        self.all.iter_mut().for_each(|cell| cell.key = cell.key.halved());
        self.merge();
    }

    /// All cells, by key. `end_of` returns the end of a site's process.
    pub fn finish(mut self, end_of: impl Fn(u32) -> usize) -> Vec<Cell> {
        for cell in self.all.iter_mut().filter(|cell| cell.key.fate() == Fate::Live) {
            cell.key = Key::new(cell.key.site(), cell.key.allocated(), end_of(cell.key.site()), Fate::Live);
        }
        // Where events make no sense, more was freed than allocated.
        self.all.retain(|cell| cell.sums.blocks <= i64::MAX as u64);
        self.merge();
        self.all.shrink_to_fit();
        self.all
    }
}
