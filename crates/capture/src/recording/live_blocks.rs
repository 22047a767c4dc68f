//! Live blocks while events are read, by the numbers of their allocations.
//!
//! Most blocks are freed soon. The latest [`YOUNG`] ones lie in a ring, where their numbers are their places: no
//! search, and no memory beyond the cache. What outlives that moves into its process's list, in the order of the
//! numbers, which is searched by halves. A block there costs 20 bytes, and twice that before what was freed is cleared
//! away.

use super::bytes::Nonsense;
use mallow_profile::Block;
use rustc_hash::FxHashMap;

/// Places of the ring: 24 bytes each, so that it and the tables of guesses share a processor's cache.
const YOUNG: usize = 1 << 14;
/// Most live blocks that a reader keeps.
const MOST: usize = 1 << 26;
/// Most blocks of one part of a list.
const PART: usize = 1 << 12;
/// Site of a place where there is no block.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Young {
    size: u64,
    site: u32,
    process: u32,
    /// Milliseconds since the recording began, 49 days at the most.
    ms: u32,
    thread: u8,
}

const EMPTY: Young = Young { size: 0, site: NONE, process: 0, ms: 0, thread: 0 };

/// Live blocks of all processes, as the module's text says.
#[derive(Debug)]
pub struct LiveBlocks {
    young: Box<[Young]>,
    /// Sequence number of the next block.
    next: u64,
    /// Blocks that are no longer young, by the number of their process.
    old: Vec<Old>,
    count: usize,
}

impl Default for LiveBlocks {
    fn default() -> Self {
        Self { young: vec![EMPTY; YOUNG].into(), next: 0, old: Vec::new(), count: 0 }
    }
}

impl LiveBlocks {
    /// Sequence number that the next block is going to have.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Adds a block, whose sequence number must be [`next`](Self::next).
    #[inline]
    pub fn born(&mut self, process: u32, block: Block) -> Result<(), Nonsense> {
        let place = &mut self.young[self.next as usize % YOUNG];
        let Block { size, site, ms, thread, .. } = block;
        let ms = ms.min(u64::from(u32::MAX)) as u32;
        let outlived = std::mem::replace(place, Young { size, site, process, ms, thread });
        self.count += 1;
        if self.count > MOST {
            return Err(Nonsense("more blocks than can be live"));
        }
        if outlived.site != NONE {
            self.grown_old(outlived);
        }
        self.next += 1;
        Ok(())
    }

    #[inline(never)]
    fn grown_old(&mut self, young: Young) {
        let process = young.process as usize;
        if process >= self.old.len() {
            self.old.resize_with(process + 1, Old::default);
        }
        self.old[process].push(self.next - YOUNG as u64, young);
    }

    /// Takes the block of this sequence number from a process; None where the process has no such block.
    #[inline]
    pub fn take(&mut self, process: u32, number: u64) -> Option<Block> {
        // Also where the number is too large.
        let age = self.next.wrapping_sub(number);
        let block = if age.wrapping_sub(1) < YOUNG as u64 {
            let place = &mut self.young[number as usize % YOUNG];
            if place.site == NONE || place.process != process {
                return None;
            }
            let block = whole(number, place);
            place.site = NONE;
            block
        } else {
            self.old.get_mut(process as usize)?.take(number)?
        };
        self.count -= 1;
        Some(block)
    }

    /// Takes all blocks of a process.
    pub fn drain(&mut self, process: u32) -> impl Iterator<Item = Block> + use<> {
        let mut young = Vec::new();
        let first = self.next.saturating_sub(YOUNG as u64);
        for number in first..self.next {
            let place = &mut self.young[number as usize % YOUNG];
            if place.site != NONE && place.process == process {
                young.push(whole(number, place));
                place.site = NONE;
            }
        }
        let old = self.old.get_mut(process as usize).map(std::mem::take).unwrap_or_default();
        self.count -= young.len() + old.count;
        old.into_blocks().chain(young)
    }
}

#[inline]
fn whole(number: u64, young: &Young) -> Block {
    let &Young { size, site, ms, thread, .. } = young;
    Block { sequence: number, site, size, ms: ms.into(), thread }
}

#[derive(Debug, Default)]
struct Old {
    parts: Vec<Part>,
    /// Sizes from 2^32 - 1 on, by the block's sequence number.
    large: FxHashMap<u64, u64>,
    count: usize,
    /// Index of the part that was looked into last.
    last: usize,
}

/// Neighbours in the order of their sequence numbers.
#[derive(Debug)]
struct Part {
    /// Sequence number of the first block that was put here.
    first: u64,
    /// Sequence number of each block minus `first`, ascending.
    numbers: Vec<u32>,
    blocks: Vec<Packed>,
    /// How many of `blocks` are live.
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Packed {
    /// Index of the site; [`NONE`]: the block is no longer live.
    site: u32,
    size: u32,
    ms: u32,
    thread: u8,
}

const LARGE: u32 = u32::MAX;

impl Old {
    fn push(&mut self, number: u64, young: Young) {
        let Young { size, site, ms, thread, .. } = young;
        let size = u32::try_from(size).unwrap_or(LARGE);
        if size == LARGE {
            self.large.insert(number, young.size);
        }
        let fits = |part: &&mut Part| part.numbers.len() < PART && number - part.first <= u64::from(u32::MAX);
        let part = match self.parts.last_mut().filter(fits) {
            Some(part) => part,
            None => {
                self.parts.push(Part { first: number, numbers: Vec::new(), blocks: Vec::new(), count: 0 });
                let last = self.parts.len() - 1;
                &mut self.parts[last]
            }
        };
        part.numbers.push((number - part.first) as u32);
        part.blocks.push(Packed { site, size, ms, thread });
        part.count += 1;
        self.count += 1;
    }

    fn take(&mut self, number: u64) -> Option<Block> {
        let at = self.part_of(number)?;
        self.last = at;
        let part = &mut self.parts[at];
        let found = part.find(u32::try_from(number - part.first).ok()?)?;
        let packed = part.blocks[found];
        if packed.site == NONE {
            return None;
        }
        part.blocks[found].site = NONE;
        part.count -= 1;
        self.count -= 1;
        if part.count <= part.numbers.len() / 2 {
            part.clear_away();
        }
        Some(packed.whole(number, &mut self.large))
    }

    /// Index of the part that this number would be in, which often is that of the number before, or next to it.
    #[inline]
    fn part_of(&self, number: u64) -> Option<usize> {
        let begins = |at: usize| self.parts.get(at).map_or(u64::MAX, |part| part.first);
        for at in [self.last, self.last + 1, self.last.wrapping_sub(1)] {
            if begins(at) <= number && number < begins(at.wrapping_add(1)) {
                return Some(at);
            }
        }
        self.parts.partition_point(|part| part.first <= number).checked_sub(1)
    }

    fn into_blocks(self) -> impl Iterator<Item = Block> {
        let mut large = self.large;
        let each = |part: Part| {
            let numbers = part.numbers.into_iter().map(move |number| part.first + u64::from(number));
            numbers.zip(part.blocks).filter(|(_, packed)| packed.site != NONE)
        };
        self.parts.into_iter().flat_map(each).map(move |(number, packed)| packed.whole(number, &mut large))
    }
}

impl Part {
    /// Index in the part of this number. Numbers are spread evenly, more or less: the search begins near the place.
    #[inline]
    fn find(&self, number: u32) -> Option<usize> {
        let numbers = &self.numbers[..];
        let last = *numbers.last()?;
        if number > last {
            return None;
        }
        let mut low = (u64::from(number) * (numbers.len() as u64 - 1) / u64::from(last).max(1)) as usize;
        let mut high = low + 1;
        let mut step = 1;
        // What is looked for is at `low` or after it, and before `high`.
        while numbers[low] > number {
            high = low;
            low = low.saturating_sub(step);
            if high == 0 {
                return None;
            }
            step *= 2;
        }
        while high < numbers.len() && numbers[high] <= number {
            low = high;
            high = (high + step).min(numbers.len());
            step *= 2;
        }
        let found = numbers[low..high].binary_search(&number).ok()?;
        Some(low + found)
    }

    /// Forgets blocks that are no longer live. The part stays where it is, perhaps with nothing in it.
    fn clear_away(&mut self) {
        let mut blocks = self.blocks.iter();
        self.numbers.retain(|_| blocks.next().is_some_and(|packed| packed.site != NONE));
        self.blocks.retain(|packed| packed.site != NONE);
        self.numbers.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }
}

impl Packed {
    fn whole(self, number: u64, large: &mut FxHashMap<u64, u64>) -> Block {
        let Self { site, size, ms, thread } = self;
        let size = if size == LARGE { large.remove(&number).unwrap_or(LARGE.into()) } else { size.into() };
        Block { sequence: number, site, size, ms: ms.into(), thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn block(number: u64, process: u32, size: u64) -> Block {
        Block { sequence: number, site: process * 7 + (number % 5) as u32, size, ms: number / 3, thread: number as u8 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        /// Steps are repeated, so that many blocks grow old; what is freed is old or young, or none that is there.
        #[test]
        fn behaves_as_a_map(
            steps in prop::collection::vec((1u64..9000, 0u32..3, prop::option::of((0u64..40_000, 1u64..30))), 1..12),
        ) {
            let mut living = LiveBlocks::default();
            let mut model: BTreeMap<(u32, u64), Block> = BTreeMap::new();
            for (times, process, free) in steps {
                for n in 0..times {
                    let number = living.next();
                    let size = [n, u64::from(u32::MAX) - 1, u64::from(u32::MAX), u64::MAX][usize::from(n % 100 == 0) * (number % 4) as usize];
                    let block = block(number, process, size);
                    prop_assert_eq!(living.born(process, block), Ok(()));
                    model.insert((process, number), block);
                }
                if let Some((back, step)) = free {
                    for number in (living.next().saturating_sub(back)..living.next() + 3).step_by(step as usize) {
                        prop_assert_eq!(living.take(process, number), model.remove(&(process, number)));
                    }
                }
                prop_assert_eq!(living.count, model.len());
            }
            prop_assert_eq!(living.take(9, 0), None);
            for process in 0..3 {
                let left: Vec<_> = living.drain(process).collect();
                let expected: Vec<_> = model.range((process, 0)..(process + 1, 0)).map(|(_, block)| *block).collect();
                prop_assert_eq!(left, expected);
                prop_assert_eq!(living.drain(process).count(), 0);
            }
            prop_assert_eq!(living.count, 0);
        }
    }

    /// What was freed does not stay in memory.
    #[test]
    fn the_dead_are_cleared_away() {
        let mut living = LiveBlocks::default();
        let all = 40 * YOUNG as u64;
        for number in 0..all {
            living.born(0, block(number, 0, 8)).unwrap();
            // Each but one of ten, when it is old.
            if number % 10 != 0 && number > 3 * YOUNG as u64 {
                assert!(living.take(0, number - 3 * YOUNG as u64).is_some());
            }
        }
        let kept: usize = living.old[0].parts.iter().map(|part| part.blocks.capacity()).sum();
        assert!(kept < living.count * 2 + PART, "{kept} places for {}", living.count);
    }
}
