//! The guarded slots in a process file: which block an address belongs to. Nothing in the file is trusted.

use super::finding::{Addresses, Block, Operation, Operator};
use crate::rundir::process_file::ProcessFile;
use crate::scan::LiveBlock;
use crate::watch::slots::{Held, Layout};
use crate::wire::guard::{self, finding, guarded, ready, supply};
use crate::wire::{Shared, process, sampling};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

pub const PAGE: u64 = 4096;
/// Blocks of more pages than this are not made ready.
const MOST_PAGES: u64 = 1 << 15;

/// Distance in bytes beyond which a block has nothing to do with an address.
const NEAR: u64 = 1 << 30;

/// Where guarding is in a process file, checked once.
pub struct Guarded {
    at: usize,
    table: usize,
    pub layout: Layout,
    starts: FxHashMap<u64, u32>,
    read: u32,
}

/// What an address means. A number is the slot's.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A page of a live block, whose memory the program gave back itself, or that is being allocated.
    Own,
    /// In or near a freed block.
    Freed(u32),
    /// After a live block.
    After(u32),
    /// Before a live block.
    Before(u32),
    /// Near no block.
    Nothing,
}

/// An error that the target found.
pub struct Report {
    /// A kind of finding in `wire::guard`, or any other number.
    pub kind: u32,
    pub address: u64,
    pub at_ns: u64,
    pub tid: u32,
    pub stack: u32,
    pub slot: u32,
    pub bytes: Vec<u8>,
}

impl Guarded {
    /// None: nothing is guarded, or the file makes no sense.
    pub fn of(source: &ProcessFile) -> Option<Self> {
        let (layout, shared) = (Layout::of(source)?, source.shared());
        let samples = usize::try_from(shared.get64(process::SAMPLING)).ok()?;
        let at = usize::try_from(shared.get64(samples.checked_add(sampling::GUARD)?)).ok()?;
        let table = usize::try_from(shared.get64(at.checked_add(guard::GUARDED_OFFSET)?)).ok()?;
        let end = (layout.max_slots as usize).checked_mul(guarded::SIZE).and_then(|bytes| bytes.checked_add(table))?;
        let sound = at >= process::BYTES && at.is_multiple_of(8) && table.is_multiple_of(8);
        let fits = at.checked_add(guard::SIZE)? <= table && end <= shared.bytes();
        (sound && fits).then(|| Self { at, table, layout, starts: FxHashMap::default(), read: 0 })
    }

    /// Offset in the process file of a field of `struct mallow_guard`.
    pub fn field(&self, field: usize) -> usize {
        self.at + field
    }

    /// Process id of the keeper that the image's state concerns. 0: none.
    pub fn keeper(&self, shared: &Shared) -> u32 {
        shared.word32(self.at + guard::KEEPER).load(Ordering::Acquire)
    }

    /// The range of guarded slots; empty: there is none.
    pub fn range(&self, shared: &Shared) -> Range<u64> {
        let (start, bytes) = (shared.get64(self.at + guard::START), shared.get64(self.at + guard::BYTES));
        let sound = bytes.is_power_of_two() && bytes > guard::SIZES << 13 && start.is_multiple_of(PAGE);
        match start.checked_add(bytes).filter(|end| sound && *end < 1 << 63) {
            Some(end) => start..end,
            None => 0..0,
        }
    }

    /// Serves what the target asks for, by `fill`, which says which pages have the pattern. Whether there was anything.
    pub fn serve(&self, shared: &Shared, range: &Range<u64>, fill: &dyn Fn(u64, u64) -> u32) -> bool {
        let mut served = false;
        for ring in 0..guard::SUPPLIES {
            let at = self.at + guard::SUPPLY + ring * supply::SIZE;
            let asked = shared.word32(at + supply::ASKED).load(Ordering::Acquire);
            let mut done = shared.get32(at + supply::DONE);
            let most = asked.wrapping_sub(done).min(guard::SUPPLY_SLOTS);
            for _ in 0..most {
                let entry = at + supply::READY + (done % guard::SUPPLY_SLOTS) as usize * ready::SIZE;
                let start = shared.get64(entry + ready::ADDRESS);
                let pages = u64::from(shared.get32(entry + ready::PAGES));
                let fits = start.checked_add(pages.saturating_mul(PAGE)).is_some_and(|end| end <= range.end);
                if pages > 0 && pages <= MOST_PAGES && start >= range.start && start.is_multiple_of(PAGE) && fits {
                    shared.set32(entry + ready::PATTERNED, fill(start, pages * PAGE));
                }
                done = done.wrapping_add(1);
                shared.set32(at + supply::DONE, done);
                served = true;
            }
            if most > 0 {
                shared.futex_wake(at + supply::DONE);
            }
        }
        served
    }

    /// Start and bytes of the pages of each live block, for a forked child that has them from its parent.
    pub fn live(&self, shared: &Shared, range: &Range<u64>) -> Vec<(u64, u64)> {
        let block = |index| {
            let (_, live) = self.layout.latest(shared, index)?;
            let (start, pages) = (self.word(shared, index, guarded::START), self.pages(shared, index));
            let inside = start >= range.start && start.checked_add(pages * PAGE).is_some_and(|end| end <= range.end);
            (live && inside && start.is_multiple_of(PAGE)).then_some((start, pages * PAGE))
        };
        (0..self.layout.used(shared)).filter_map(block).collect()
    }

    /// All live blocks that are guarded, each with its slot as its site.
    pub fn live_blocks(&self, shared: &Shared, range: &Range<u64>) -> Vec<LiveBlock> {
        let block = |index| {
            let (held, live) = self.layout.latest(shared, index)?;
            let inside = range.contains(&held.address) && held.size < range.end - held.address;
            (live && inside).then_some(LiveBlock {
                address: held.address,
                size: held.size,
                sequence: held.id,
                site: index,
            })
        };
        (0..self.layout.used(shared)).filter_map(block).collect()
    }

    fn word(&self, shared: &Shared, index: u32, field: usize) -> u64 {
        shared.get64(self.table + index as usize * guarded::SIZE + field)
    }

    fn pages(&self, shared: &Shared, index: u32) -> u64 {
        let word = self.word(shared, index, guarded::PAGES);
        (word & 0xffff).min(MOST_PAGES)
    }

    /// Notes that pages of a slot were filled to let a thread go on.
    pub fn touch(&self, shared: &Shared, index: u32) {
        shared.set32(self.table + index as usize * guarded::SIZE + guarded::TOUCHED, 1);
    }

    /// The first byte behind the live block of this slot that this thread gave to a system call, whose check accesses
    /// the missing page; None: the thread makes the access itself.
    pub fn given_behind(&self, shared: &Shared, index: u32, tid: u32) -> Option<u64> {
        let entry = self.table + index as usize * guarded::SIZE;
        let (held, live) = self.layout.latest(shared, index)?;
        let is_given = live && tid != 0 && shared.word32(entry + guarded::FREE_TID).load(Ordering::Acquire) == tid;
        let first = u64::from(shared.get32(entry + guarded::FREE_STACK));
        is_given.then(|| held.address.saturating_add(held.size).saturating_add(first))
    }

    /// Start and bytes of the slot that this address is in, and its index; None: the file has none.
    fn slot_at(&mut self, shared: &Shared, range: &Range<u64>, address: u64) -> (u64, u64, Option<u32>) {
        let area = (range.end - range.start) / guard::SIZES;
        let offset = address - range.start;
        let bytes = PAGE << (offset / area);
        let start = address - offset % area % bytes;
        let used = self.layout.used(shared);
        for index in self.read..used {
            let first = self.word(shared, index, guarded::START);
            if first != 0 {
                self.starts.insert(first, index);
            }
        }
        self.read = self.read.max(used);
        (start, bytes, self.starts.get(&start).copied())
    }

    /// What an access to this address of the range means.
    pub fn meaning(&mut self, shared: &Shared, range: &Range<u64>, address: u64) -> Meaning {
        let (start, bytes, index) = self.slot_at(shared, range, address);
        let page = (address - start) / PAGE;
        let this = index.and_then(|index| Some((index, self.layout.latest(shared, index)?)));
        if let Some(index) = index
            && page < self.pages(shared, index)
        {
            return match this {
                Some((_, (_, false))) => Meaning::Freed(index),
                _ => Meaning::Own,
            };
        }
        let after = start + bytes;
        let next = if after < range.end { self.slot_at(shared, range, after).2 } else { None };
        let next = next.and_then(|index| Some((index, self.layout.latest(shared, index)?)));
        let end = |held: &Held| held.address.saturating_add(held.size);
        let before = this.as_ref().map(|(_, (held, _))| address.saturating_sub(end(held)));
        // A block that begins in its slot's middle has pages before it: no access to a missing page is near.
        let behind = next.as_ref().map(|(_, (held, _))| held.address.saturating_sub(address));
        match (this, next) {
            (Some((index, (_, live))), _) if behind.is_none_or(|behind| before.is_some_and(|far| far <= behind)) => {
                if live {
                    Meaning::After(index)
                } else {
                    Meaning::Freed(index)
                }
            }
            (_, Some((index, (_, live)))) => {
                if live {
                    Meaning::Before(index)
                } else {
                    Meaning::Freed(index)
                }
            }
            _ => Meaning::Nothing,
        }
    }

    /// The slot whose block is nearest to an address, live or not: [`NEAR`] bytes before or behind it at the most.
    pub fn nearest(&self, shared: &Shared, range: &Range<u64>, address: u64) -> Option<u32> {
        let distance = |index| {
            let (held, live) = self.layout.latest(shared, index)?;
            let end = held.address.checked_add(held.size)?;
            let far = if address < held.address { held.address - address } else { address.saturating_sub(end) };
            (range.contains(&held.address) && far <= NEAR).then_some((far, !live, index))
        };
        (0..self.layout.used(shared)).filter_map(distance).min().map(|(_, _, index)| index)
    }

    /// The block that a slot holds, or held.
    pub fn block(&self, shared: &Shared, index: u32, thread: &dyn Fn(u32) -> String) -> Option<Block> {
        let (held, live) = self.layout.latest(shared, index)?;
        let entry = self.table + index as usize * guarded::SIZE;
        let freed = (!live).then(|| {
            let tid = shared.get32(entry + guarded::FREE_TID);
            Operation {
                at_ns: shared.get64(entry + guarded::FREED_NS),
                tid,
                thread: thread(tid),
                stack: self.stack(shared, shared.get32(entry + guarded::FREE_STACK)),
            }
        });
        Some(Block {
            address: held.address,
            size: held.size,
            family: held.family.0,
            operator: Operator::of((self.word(shared, index, guarded::PAGES) >> 16) as u8),
            allocated: Operation {
                at_ns: held.began_ns,
                tid: held.tid,
                thread: thread(held.tid),
                stack: self.stack(shared, held.stack),
            },
            freed,
        })
    }

    /// A stack of the file's; without addresses where there is none.
    pub fn stack(&self, shared: &Shared, number: u32) -> Addresses {
        let mut pcs = Vec::new();
        match self.layout.stack(shared, number, &mut pcs) {
            Some(found) => Addresses { pcs, generation: found.generation, cut: found.cut },
            None => Addresses::default(),
        }
    }

    /// How many errors the target has found so far.
    pub fn reported(&self, shared: &Shared) -> u32 {
        shared.word32(self.at + guard::FINDINGS).load(Ordering::Acquire)
    }

    /// What the target found since number `read`, and how many of these were overwritten.
    pub fn reports(&self, shared: &Shared, read: &mut u32) -> (Vec<Report>, u32) {
        let written = shared.word32(self.at + guard::FINDINGS).load(Ordering::Acquire);
        let unread = written.wrapping_sub(*read);
        let kept = unread.min(guard::FINDINGS_MOST);
        let report = |number: u32| {
            let at = self.at + guard::FINDING + (number % guard::FINDINGS_MOST) as usize * finding::SIZE;
            Report {
                address: shared.get64(at + finding::ADDRESS),
                at_ns: shared.get64(at + finding::AT_NS),
                kind: shared.get32(at + finding::KIND),
                tid: shared.get32(at + finding::TID),
                stack: shared.get32(at + finding::STACK),
                slot: shared.get32(at + finding::SLOT),
                bytes: shared.copy_bytes(at + finding::BYTES, 16),
            }
        };
        let reports = (0..kept).map(|at| report(written.wrapping_sub(kept).wrapping_add(at))).collect();
        *read = written;
        (reports, unread - kept)
    }
}
