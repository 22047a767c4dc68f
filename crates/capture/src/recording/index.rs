//! The index: where the blocks of events are, and what time each of them covers.
//!
//! Column 0: how many there are; 1…4, for each: its offset minus that of the one before, events, earliest ms, latest ms
//! minus the earliest.

use super::bytes::{Cursor, Nonsense, put};

/// A block of events, as the index describes it; `at` is its offset in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSummary {
    pub at: u64,
    pub events: u64,
    /// Time of the earliest event.
    pub first_ms: u64,
    /// Time of the latest event.
    pub last_ms: u64,
}

pub fn write(index: &[BlockSummary]) -> Vec<Vec<u8>> {
    let mut columns = vec![Vec::new(); 5];
    put(&mut columns[0], index.len() as u64);
    let mut before = 0;
    for block in index {
        put(&mut columns[1], block.at - before);
        before = block.at;
        put(&mut columns[2], block.events);
        put(&mut columns[3], block.first_ms);
        put(&mut columns[4], block.last_ms - block.first_ms);
    }
    columns
}

pub fn read(columns: &mut [Cursor]) -> Result<Vec<BlockSummary>, Nonsense> {
    let [count, offsets, events, first, length] = columns else {
        return Err(Nonsense("the index has another number of columns"));
    };
    let mut index = Vec::new();
    let mut at = 0u64;
    for _ in 0..count.number()? {
        at = at.checked_add(offsets.number()?).ok_or(Nonsense("an offset that is too large"))?;
        let (events, first_ms) = (events.number()?, first.number()?);
        let last_ms = first_ms.checked_add(length.number()?).ok_or(Nonsense("a time that is too late"))?;
        index.push(BlockSummary { at, events, first_ms, last_ms });
    }
    Ok(index)
}

/// The offset of each block of events, and the earliest time of it and of all blocks after it.
pub fn earliest(index: &[BlockSummary]) -> Vec<(u64, u64)> {
    let mut earliest: Vec<_> = index.iter().map(|block| (block.at, block.first_ms)).collect();
    let mut ms = u64::MAX;
    for (_, first) in earliest.iter_mut().rev() {
        ms = ms.min(*first);
        *first = ms;
    }
    earliest
}
