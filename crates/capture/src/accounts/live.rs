//! Live blocks by a 48-bit key: an address of a process, or a sequence number.
//!
//! Open addressing with linear probing; 24 bytes a slot, at most 3 of 4 in use. A removal moves later slots of the run
//! back, so there are no tombstones and a look-up never gets slower with time.

use mallow_arch::prefetch::prefetch;
use mallow_profile::Block;
use rustc_hash::FxHashMap;

pub const KEY_MAX: u64 = (1 << 48) - 1;

/// ```text
///        63                16 15            0
/// slot0 |    key (never 0)   | sequence low  |
/// slot1 | sequence high | thread | size      |    32, 8 and 24 bits; size 2^24 - 1: see `large`
/// slot2 |    site            | ms            |    ms saturates after 49 days
/// ```
type Slot = [u64; 3];

/// Log2 of 32 bytes: the smallest blocks of most allocators are that far apart.
pub const GRAIN_BITS: u32 = 5;
const GROUP_BITS: u32 = 3;

const EMPTY: Slot = [0; 3];
const SIZE_BITS: u32 = 24;
const LARGE: u64 = (1 << SIZE_BITS) - 1;

#[derive(Debug)]
pub struct Live {
    slots: Vec<Slot>,
    shift: u32,
    used: usize,
    large: FxHashMap<u64, u64>,
}

impl Default for Live {
    fn default() -> Self {
        Self { slots: vec![EMPTY; 16], shift: 60 + GROUP_BITS, used: 0, large: FxHashMap::default() }
    }
}

impl Live {
    /// Neighbours in the heap are neighbours here, because they are used together: each 256 bytes have a group of
    /// slots, placed by Fibonacci hashing, and each 32 bytes one of its slots.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let group = (key >> (GRAIN_BITS + GROUP_BITS)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        ((group << GROUP_BITS) | (key >> GRAIN_BITS & ((1 << GROUP_BITS) - 1))) as usize
    }

    #[inline]
    fn find(&self, key: u64) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        loop {
            let slot = self.slots[at][0];
            if slot >> 16 == key {
                return Ok(at);
            }
            if slot == 0 {
                return Err(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Asks for the memory where the key's block is likely to be.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        prefetch(&self.slots, self.home(key));
    }

    /// The site of the key's block, if that is in its home slot. None: it is elsewhere, or there is none.
    #[inline]
    pub fn site_at_home(&self, key: u64) -> Option<u32> {
        let slot = &self.slots[self.home(key)];
        (slot[0] >> 16 == key).then_some((slot[2] >> 32) as u32)
    }

    pub fn contains(&self, key: u64) -> bool {
        self.find(key).is_ok()
    }

    /// Puts a block under a key. The block that was there, if any, is returned. Precondition: 0 < key <= KEY_MAX.
    #[inline]
    pub fn insert(&mut self, key: u64, block: Block) -> Option<Block> {
        debug_assert!(0 < key && key <= KEY_MAX);
        match self.find(key) {
            Err(at) => {
                self.slots[at] = self.pack(key, block);
                self.used += 1;
                if self.used * 4 > self.slots.len() * 3 {
                    self.grow();
                }
                None
            }
            Ok(at) => {
                let old = self.unpack(self.slots[at]);
                self.slots[at] = self.pack(key, block);
                Some(old)
            }
        }
    }

    #[inline]
    pub fn remove(&mut self, key: u64) -> Option<Block> {
        let mut hole = self.find(key).ok()?;
        let block = self.unpack(self.slots[hole]);
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot[0] == 0 {
                break;
            }
            // The slot may move into the hole unless its home lies after the hole.
            let home = self.home(slot[0] >> 16);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.used -= 1;
        Some(block)
    }

    /// All blocks, in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = Block> {
        let Self { slots, mut large, .. } = std::mem::take(self);
        slots.into_iter().filter(|slot| slot[0] != 0).map(move |slot| unpack(slot, &mut large))
    }

    /// All blocks with their keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.slots.iter().filter(|slot| slot[0] != 0).map(|&slot| (slot[0] >> 16, self.peek(slot)))
    }

    pub fn get(&self, key: u64) -> Option<Block> {
        self.find(key).ok().map(|at| self.peek(self.slots[at]))
    }

    fn peek(&self, slot: Slot) -> Block {
        let mut block = fields(slot);
        if block.size == LARGE {
            block.size = self.large.get(&block.sequence).copied().unwrap_or(LARGE);
        }
        block
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub fn len(&self) -> usize {
        self.used
    }

    #[inline]
    fn pack(&mut self, key: u64, block: Block) -> Slot {
        let size = if block.size < LARGE {
            block.size
        } else {
            self.large.insert(block.sequence & KEY_MAX, block.size);
            LARGE
        };
        [
            key << 16 | block.sequence & 0xffff,
            (block.sequence >> 16) << 32 | u64::from(block.thread) << SIZE_BITS | size,
            u64::from(block.site) << 32 | block.ms.min(u64::from(u32::MAX)),
        ]
    }

    #[inline]
    fn unpack(&mut self, slot: Slot) -> Block {
        unpack(slot, &mut self.large)
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![EMPTY; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, slots);
        self.shift -= 1;
        for slot in old {
            if slot[0] != 0
                && let Err(at) = self.find(slot[0] >> 16)
            {
                self.slots[at] = slot;
            }
        }
    }
}

#[inline]
fn unpack(slot: Slot, large: &mut FxHashMap<u64, u64>) -> Block {
    let mut block = fields(slot);
    if block.size == LARGE {
        block.size = large.remove(&block.sequence).unwrap_or(LARGE);
    }
    block
}

/// The block of a slot; a large one has the size [`LARGE`].
#[inline]
fn fields(slot: Slot) -> Block {
    let sequence = (slot[1] >> 32) << 16 | slot[0] & 0xffff;
    let thread = (slot[1] >> SIZE_BITS) as u8;
    Block { sequence, site: (slot[2] >> 32) as u32, size: slot[1] & LARGE, ms: slot[2] & 0xffff_ffff, thread }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn block(n: u64, size: u64) -> Block {
        Block { sequence: n << 20 | 7, site: n as u32 ^ 0x8000_0000, size, ms: n, thread: n as u8 ^ 0x80 }
    }

    proptest! {
        /// Few keys, so that runs form, wrap around the end and are broken up again.
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((any::<bool>(), 1u64..90, 0u64..6), 0..600)) {
            let mut live = Live::default();
            let mut model = HashMap::new();
            for (n, (insert, key, size)) in steps.into_iter().enumerate() {
                let key = (key * 16) | (KEY_MAX & !0xffff);
                if insert {
                    let block = block(n as u64, [0, 1, LARGE - 1, LARGE, LARGE + 1, u64::MAX][size as usize]);
                    prop_assert_eq!(live.insert(key, block), model.insert(key, block));
                } else {
                    prop_assert_eq!(live.remove(key), model.remove(&key));
                }
                prop_assert_eq!(live.len(), model.len());
            }
            prop_assert!(model.keys().all(|&key| live.contains(key)));
            let mut left: Vec<Block> = live.drain().collect();
            let mut expected: Vec<Block> = model.into_values().collect();
            left.sort_by_key(|b| b.sequence);
            expected.sort_by_key(|b| b.sequence);
            prop_assert_eq!(left, expected);
            prop_assert!(live.large.is_empty() && live.is_empty());
        }
    }
}
