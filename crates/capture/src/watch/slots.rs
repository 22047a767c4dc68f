//! The samples in one process file: slots, ends and stacks. Nothing in them is trusted.

use crate::rundir::process_file::ProcessFile;
use crate::wire::{self, Shared, end, process, sampling, slot, stack};
use mallow_profile::Family;
use std::sync::atomic::{Ordering, fence};

/// Places of the parts of a process file's samples, checked once.
pub struct Layout {
    at: usize,
    slots: usize,
    ends: usize,
    stacks: usize,
    stacks_bytes: u64,
    pub max_slots: u32,
    /// Ends that the file keeps: a power of two.
    pub max_ends: u64,
}

/// The sample that a slot holds, or held last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Word of the slot that changes with each use: a generation, and two bits of state.
    pub sequence: u64,
    /// Number of the sample, from 1 on, in the order in which they began.
    pub id: u64,
    pub address: u64,
    /// Bytes as requested.
    pub size: u64,
    /// When the sample was allocated, on the coarse CLOCK_MONOTONIC.
    pub began_ns: u64,
    pub period: u64,
    /// Thread that allocated the sample, in the numbers of its namespace.
    pub tid: u32,
    /// Number of the stack that allocated the sample; 0: none.
    pub stack: u32,
    pub family: Family,
    /// The parent of a forked process allocated it.
    pub inherited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub held: Held,
    pub slot: u32,
    /// When the sample ended, on the coarse CLOCK_MONOTONIC.
    pub ended_ns: u64,
    pub tid: u32,
    /// Number of the stack that ended the sample; 0: none.
    pub stack: u32,
    /// The sample was reallocated; else, freed.
    pub reallocated: bool,
}

pub enum Slot {
    /// The slot is free, or is being written: look again.
    Empty,
    Live(Held),
    /// The slot is live, and makes no sense.
    Damaged,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocations that were picked, and got no slot or were passed over.
    pub picks: u64,
    /// Samples without a stack.
    pub stacks: u64,
    /// Why nothing more is sampled: one of `wire::OVER_…`; 0: sampling goes on.
    pub over: u32,
}

/// Counts of which one changes whenever a sample begins or ends, or is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stirred {
    begun: u64,
    ended: u64,
    counters: Counters,
}

impl Layout {
    /// The layout; None where there are no samples, or where it does not fit the file.
    pub fn of(source: &ProcessFile) -> Option<Self> {
        let shared = source.shared();
        let at = usize::try_from(shared.get64(process::SAMPLING)).ok()?;
        let header = |field: usize| at.checked_add(field);
        if at < process::BYTES || header(sampling::BYTES)? > shared.bytes() {
            return None;
        }
        let offset = |field: usize| usize::try_from(shared.get64(at + field)).ok().filter(|o| o.is_multiple_of(8));
        let layout = Self {
            at,
            slots: offset(sampling::SLOTS_OFFSET)?,
            ends: offset(sampling::ENDS_OFFSET)?,
            stacks: offset(sampling::STACKS_OFFSET)?,
            stacks_bytes: shared.get64(at + sampling::STACKS_BYTES),
            max_slots: shared.get32(at + sampling::MAX_SLOTS),
            max_ends: shared.get32(at + sampling::MAX_ENDS).into(),
        };
        let fits = |from: usize, count: u64, bytes: usize| {
            count
                .checked_mul(bytes as u64)
                .and_then(|b| b.checked_add(from as u64))
                .is_some_and(|end| end <= shared.bytes() as u64)
        };
        let sound = at.is_multiple_of(8)
            && layout.max_ends.is_power_of_two()
            && fits(layout.slots, layout.max_slots.into(), slot::BYTES)
            && fits(layout.ends, layout.max_ends, end::BYTES)
            && fits(layout.stacks, layout.stacks_bytes, 1);
        sound.then_some(layout)
    }

    pub fn used(&self, shared: &Shared) -> u32 {
        shared.get32(self.at + sampling::SLOTS).min(self.max_slots)
    }

    pub fn ended(&self, shared: &Shared) -> u64 {
        shared.get64(self.at + sampling::ENDED)
    }

    /// What the file has counted so far: two cache lines.
    pub fn stirred(&self, shared: &Shared) -> Stirred {
        let begun = shared.get64(self.at + sampling::BEGUN);
        Stirred { begun, ended: self.ended(shared), counters: self.counters(shared) }
    }

    pub fn counters(&self, shared: &Shared) -> Counters {
        let word = |field: usize| shared.get64(self.at + field);
        Counters {
            picks: word(sampling::WITHOUT_SLOT).saturating_add(word(sampling::MISSED)),
            stacks: word(sampling::WITHOUT_STACK),
            over: shared.get32(self.at + sampling::OVER),
        }
    }

    /// Sequence word of slot `index`, below `max_slots`.
    pub fn sequence(&self, shared: &Shared, index: u32) -> u64 {
        shared.get64(self.slots + index as usize * slot::BYTES + slot::SEQUENCE)
    }

    /// Slot `index`, below `max_slots`.
    pub fn slot(&self, shared: &Shared, index: u32) -> Slot {
        let at = self.slots + index as usize * slot::BYTES;
        let before = shared.get64(at + slot::SEQUENCE);
        if before & 3 != slot::STATE_LIVE {
            return Slot::Empty;
        }
        let held = held(shared, at, before);
        fence(Ordering::Acquire);
        match held {
            _ if shared.get64(at + slot::SEQUENCE) != before => Slot::Empty,
            Some(held) => Slot::Live(held),
            None => Slot::Damaged,
        }
    }

    /// End number `number`, from 1 on; None where it was overwritten, or makes no sense.
    pub fn end(&self, shared: &Shared, number: u64) -> Option<Ended> {
        let at = self.ends + (number.wrapping_sub(1) & (self.max_ends - 1)) as usize * end::BYTES;
        if shared.get64(at + end::NUMBER) != number {
            return None;
        }
        let sample = at + end::SAMPLE;
        let held = held(shared, sample, shared.get64(sample + slot::SEQUENCE));
        let (ended_ns, tid) = (shared.get64(at + end::ENDED_NS), shared.get32(at + end::TID));
        let (stack, slot, kind) =
            (shared.get32(at + end::STACK), shared.get32(at + end::SLOT), shared.get32(at + end::KIND));
        fence(Ordering::Acquire);
        let whole = shared.get64(at + end::NUMBER) == number && slot < self.max_slots;
        let reallocated = kind == end::REALLOCATED;
        if !whole || !(reallocated || kind == end::FREED) {
            return None;
        }
        held.map(|held| Ended { held, slot, ended_ns, tid, stack, reallocated })
    }

    /// What slot `index` holds, or held last, and whether it is live; None: it held nothing yet, or is being written.
    pub fn latest(&self, shared: &Shared, index: u32) -> Option<(Held, bool)> {
        if index >= self.used(shared) {
            return None;
        }
        let at = self.slots + index as usize * slot::BYTES;
        let sequence = shared.get64(at + slot::SEQUENCE);
        let held = unchecked(shared, at, sequence);
        let sound = held.address > 0 && held.size < 1 << 47 && (held.family.0 as usize) < wire::FAMILIES;
        fence(Ordering::Acquire);
        let settled = sequence & 3 != slot::STATE_BUSY && shared.get64(at + slot::SEQUENCE) == sequence;
        (sound && settled).then_some((held, sequence & 3 == slot::STATE_LIVE))
    }

    /// Appends the return addresses of stack `number` to `pcs`, the outermost first. None where the number makes no
    /// sense.
    pub fn stack(&self, shared: &Shared, number: u32, pcs: &mut Vec<u64>) -> Option<Found> {
        let offset = u64::from(number).checked_mul(8)?;
        let used = shared.get64(self.at + sampling::STACKS_USED).min(self.stacks_bytes);
        if offset == 0 || offset.checked_add(stack::BYTES as u64)? > used {
            return None;
        }
        let at = self.stacks + offset as usize;
        let depth = shared.get32(at + stack::DEPTH);
        let end = offset + stack::BYTES as u64 + u64::from(depth) * 8;
        if depth == 0 || depth > wire::DEPTH_LIMIT || end > used {
            return None;
        }
        shared.copy_words(at + stack::PC, depth as usize, pcs);
        Some(Found {
            generation: shared.get32(at + stack::GENERATION),
            cut: shared.get32(at + stack::FLAGS) & wire::FLAG_CUT != 0,
        })
    }
}

/// Facts of a stack beside its addresses.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Generation of the modules that the addresses belong to.
    pub generation: u32,
    /// Outer frames are missing.
    pub cut: bool,
}

/// None where no sampler would have written such a sample.
fn held(shared: &Shared, at: usize, sequence: u64) -> Option<Held> {
    let held = unchecked(shared, at, sequence);
    let sound = held.size > 0 && held.size < 1 << 47 && held.period > 0 && (held.family.0 as usize) < wire::FAMILIES;
    sound.then_some(held)
}

fn unchecked(shared: &Shared, at: usize, sequence: u64) -> Held {
    // Family and flags are bytes of one word.
    let kinds = shared.get32(at + slot::FAMILY);
    let (family, flags) = ((kinds & 0xff) as u8, (kinds >> 8) as u8);
    Held {
        sequence,
        id: shared.get64(at + slot::ID),
        address: shared.get64(at + slot::ADDRESS),
        size: shared.get64(at + slot::SIZE),
        began_ns: shared.get64(at + slot::BEGAN_NS),
        period: shared.get32(at + slot::PERIOD).into(),
        tid: shared.get32(at + slot::TID),
        stack: shared.get32(at + slot::STACK),
        family: Family(family),
        inherited: flags & slot::INHERITED != 0,
    }
}
