//! Which block points to which, and which ones are pointed to from outside of the heap.

use super::contents::{Contents, OBJECT_HEAD};
use super::copy::ProcessCopy;
use super::heap::free_blocks;
use super::index::Index;
use super::kernel;
use super::mappings::mappings;
use super::memory::Memory;
use super::roots::{Roots, roots};
use super::threads::{Thread, stood_still, threads};
use super::{Exit, Failure, LiveBlock};
use mallow_proc::Mapping;
use mallow_profile::LostKind;
use std::time::Duration;

/// The longest time that a process waits for its scan.
const TIME: Duration = Duration::from_secs(15);
/// Looks at a process whose threads run, at the most.
const LOOKS: u32 = 3;
/// Pointers between blocks at the most: 1 GiB of numbers.
const EDGES: usize = 1 << 28;
/// Bytes that glibc puts before a block, and in `SMALLEST` those that its smallest block takes.
const HEAD: u64 = 16;
const SMALLEST: u64 = 32;

#[derive(Debug, Default)]
pub struct Graph {
    /// Sorted by address; "a block" of the other lists is an index here.
    pub blocks: Vec<LiveBlock>,
    /// For each block where its pointers begin in `edges`, and at the end where the last block's end.
    pub first: Vec<u32>,
    /// Indexes of blocks, in the order of the words that point to them.
    pub edges: Vec<u32>,
    /// For each block how many of its pointers, the first ones, lie where an object has its head.
    pub in_head: Vec<u8>,
    /// Whether the block is an object that refers to itself.
    pub self_references: Vec<bool>,
    /// Whether another block has the address of the block's start; without it, what points to the block points into it.
    pub begins: Vec<bool>,
    /// What each block is if it is lost.
    pub kinds: Vec<LostKind>,
    /// Whether anything outside of lost blocks leads to each block. In a process with threads that ran: at any look.
    pub reached: Vec<bool>,
    /// Whether the allocator has a block that nothing leads to for free, by a call that nobody saw.
    pub free: Vec<bool>,
}

/// Looks at the memory of a process that waits, and that can go on once this returns.
pub fn read(exit: &Exit<'_>, blocks: Vec<LiveBlock>) -> Result<Graph, Failure> {
    let index = indexed(blocks)?;
    let mut memory = Memory::of(exit.pid, exit.enough, TIME)?;
    let mut reached = vec![false; index.blocks.len()];
    for look in 1.. {
        let before = threads(exit.pid);
        memory.renew();
        let mappings = mappings(exit.pid)?;
        let held = kernel::held(exit.pid);
        let mut graph = Graph::of_look(exit, &index, (&mappings, &before, held), reached, &mut memory)?;
        reached = std::mem::take(&mut graph.reached);
        // A thread that runs may move a pointer from where it is still to be read to where it was read. What no look
        // finds a pointer to has none.
        if look == LOOKS || stood_still(&before, &threads(exit.pid), exit.at.sp) {
            let free = free_blocks(&index, &reached, &mappings, &mut memory)?;
            return Ok(Graph { blocks: index.blocks, reached, free, ..graph });
        }
    }
    Err(Failure::Stopped)
}

/// Looks at the copy of a process, whose own memory may have changed since.
pub fn read_copy(exit: &Exit<'_>, copy: &ProcessCopy, blocks: Vec<LiveBlock>) -> Result<Graph, Failure> {
    let index = indexed(blocks)?;
    let mut memory = Memory::of_copy(&copy.pages, exit.enough);
    let reached = vec![false; index.blocks.len()];
    let seen = (&copy.mappings[..], &copy.threads[..], copy.held.clone());
    let mut graph = Graph::of_look(exit, &index, seen, reached, &mut memory)?;
    let reached = std::mem::take(&mut graph.reached);
    let free = free_blocks(&index, &reached, &copy.mappings, &mut memory)?;
    Ok(Graph { blocks: index.blocks, reached, free, ..graph })
}

fn indexed(blocks: Vec<LiveBlock>) -> Result<Index, Failure> {
    if blocks.len() >= u32::MAX as usize {
        return Err(Failure::TooMany);
    }
    Ok(Index::new(blocks))
}

impl Graph {
    /// One look at mappings, threads, and what the kernel holds, on top of what was `reached` before.
    fn of_look(
        exit: &Exit<'_>,
        index: &Index,
        (mappings, threads, mut held): (&[Mapping], &[Thread], Vec<u64>),
        reached: Vec<bool>,
        memory: &mut Memory<'_>,
    ) -> Result<Self, Failure> {
        let roots = roots(exit, mappings, index, threads, memory)?;
        let mut registers = (exit.registers)();
        registers.push(exit.at.signal_stack);
        registers.append(&mut held);
        let mut graph = Self { reached, ..Self::default() };
        graph.edges(index, mappings, memory)?;
        graph.mark(index, &roots, &registers, memory)?;
        Ok(graph)
    }

    fn edges(&mut self, index: &Index, mappings: &[Mapping], memory: &mut Memory<'_>) -> Result<(), Failure> {
        self.first.reserve(index.blocks.len() + 1);
        self.begins = vec![false; index.blocks.len()];
        for (number, block) in (0u32..).zip(&index.blocks) {
            self.first.push(self.edges.len() as u32);
            let end = block.end().next_multiple_of(8);
            let ahead = index.blocks.get(number as usize + 1).map_or(end, |_| end + (1 << 20));
            let (edges, begin) = (&mut self.edges, self.first[number as usize] as usize);
            let (begins, mut in_head) = (&mut self.begins, 0u8);
            let mut contents = Contents::of(block.address, block.size);
            memory.words(block.address, end, ahead, |at, words| {
                for (address, &word) in (at..).step_by(8).zip(words) {
                    contents.add(address, word);
                    // What lies behind the block's end is left from others: no pointer has a part of it.
                    if address + 8 <= block.end()
                        && let Some(to) = index.find(word)
                        && to != number
                    {
                        begins[to as usize] |= index.blocks[to as usize].address == word;
                        let heads = begin + usize::from(in_head);
                        let is_head = address - block.address < OBJECT_HEAD;
                        // The same pointer in the head and behind it is two.
                        let repeats = edges[begin..].last() == Some(&to) && (is_head || edges.len() > heads);
                        if !repeats {
                            edges.push(to);
                            in_head += u8::from(is_head);
                        }
                    }
                }
                if edges.len() > EDGES { Err(Failure::TooMany) } else { Ok(()) }
            })?;
            self.in_head.push(in_head);
            self.self_references.push(contents.refers_to_itself(mappings));
            self.kinds.push(contents.kind(mappings));
        }
        self.first.push(self.edges.len() as u32);
        Ok(())
    }

    fn mark(
        &mut self,
        index: &Index,
        roots: &Roots,
        registers: &[u64],
        memory: &mut Memory<'_>,
    ) -> Result<(), Failure> {
        let mut marked = vec![false; index.blocks.len()];
        let mut waiting: Vec<u32> = Vec::new();
        for to in registers.iter().filter_map(|&word| index.find(word)) {
            if !std::mem::replace(&mut marked[to as usize], true) {
                waiting.push(to);
            }
        }
        for root in &roots.parts {
            let mut mark = |word: u64, most: u64| {
                let Some(to) = index.find(word) else { return };
                let block = &index.blocks[to as usize];
                let is_near = word - block.address <= most;
                if is_near && !(marked[to as usize] || root.libc && is_next_head(block, word)) {
                    marked[to as usize] = true;
                    waiting.push(to);
                }
            };
            let mut before = 0;
            memory.words(root.range.start, root.range.end, root.range.end, |_, words| {
                for &word in words {
                    if root.code {
                        (1..8).for_each(|byte| mark(before >> (8 * byte) | word << (64 - 8 * byte), OPERAND));
                        before = word;
                    }
                    mark(word, u64::MAX);
                }
                Ok(())
            })?;
        }
        while let Some(block) = waiting.pop() {
            for &to in self.pointers(block) {
                if !std::mem::replace(&mut marked[to as usize], true) {
                    waiting.push(to);
                }
            }
        }
        // The table, and what it leads to, but nothing behind these.
        for table in roots.tables.iter().filter_map(|&table| index.find(table)) {
            marked[table as usize] = true;
            self.pointers(table).iter().for_each(|&storage| marked[storage as usize] = true);
        }
        for (reached, marked) in self.reached.iter_mut().zip(marked) {
            *reached |= marked;
        }
        Ok(())
    }

    /// Indexes of the blocks that a block points to.
    pub fn pointers(&self, block: u32) -> &[u32] {
        &self.edges[self.first[block as usize] as usize..self.first[block as usize + 1] as usize]
    }
}

/// Code has a block's address, or that of a part near its start. What else looks like an address within a block of
/// megabytes is some bytes of several instructions: mimalloc's heap lies at 2^41, of which most bytes are 0.
const OPERAND: u64 = 4096;

/// Whether the address is that of the chunk behind the block in glibc's heap, which lists of free blocks name. The
/// chunk's first word may be the block's last one.
fn is_next_head(block: &LiveBlock, address: u64) -> bool {
    let taken = (block.size.saturating_add(8).saturating_add(15) & !15).max(SMALLEST);
    // What a target records may say that a block is at any address.
    address == block.address.saturating_sub(HEAD).saturating_add(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunk_behind_a_block_is_found_by_its_size() {
        let block = |address, size| LiveBlock { address, size, sequence: 0, site: 0 };
        // 100 B and 8 B of the chunk, in steps of 16.
        assert!(is_next_head(&block(0x1010, 100), 0x1070));
        assert!(!is_next_head(&block(0x1010, 100), 0x1060));
        // A ring may say that a block is anywhere, of any size.
        assert!(!is_next_head(&block(7, u64::MAX), 7));
    }
}
