//! Blocks by how long they lived.

use mallow_profile::{Block, Event, Moment, Profile};
use serde::Serialize;

use super::histogram::{Bucket, Histogram};

/// Blocks by the time, and by the allocations, from their allocation to their end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lifetimes {
    /// Blocks allocated; a realloc ends one block and begins another.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Blocks whose end was seen.
    pub frees: u64,
    /// Requested bytes of the blocks in `frees`.
    pub freed_bytes: u64,
    /// Blocks that had no end.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Blocks with an end, by milliseconds; the clock ticks about once in each.
    pub by_ms: Vec<Bucket>,
    /// Most milliseconds that a process waited for unwind tables, which Mallow makes: a lifetime in `by_ms` may contain
    /// up to so much of them.
    pub table_wait_ms: u64,
    /// Blocks with an end, by the number of allocations between their own and that: of all threads and processes, of
    /// what is filtered out, too.
    pub by_allocations: Vec<Bucket>,
}

#[derive(Clone, Debug, Default)]
pub struct LifetimesBuilder {
    allocated: (u64, u64),
    freed: (u64, u64),
    by_ms: Histogram,
    by_allocations: Histogram,
}

impl LifetimesBuilder {
    /// `number` counts the allocations of the whole recording before this event.
    pub fn event(&mut self, number: u64, at: Moment, event: &Event) {
        match *event {
            Event::Allocate(call) => self.begin(call.size),
            Event::Reallocate { call, old, .. } => {
                self.end(number, at, old);
                self.begin(call.size);
            }
            Event::Free(block) | Event::ReallocFree(block) => self.end(number, at, block),
            Event::UnseenFree(block) => self.end(number, at, Some(block)),
            Event::Region { .. } | Event::EndProcess => {}
        }
    }

    fn begin(&mut self, size: u64) {
        self.allocated.0 += 1;
        self.allocated.1 = self.allocated.1.saturating_add(size);
    }

    fn end(&mut self, number: u64, at: Moment, block: Option<Block>) {
        let Some(block) = block else { return };
        self.freed.0 += 1;
        self.freed.1 = self.freed.1.saturating_add(block.size);
        self.by_ms.add(at.ms.saturating_sub(block.ms), block.size);
        self.by_allocations.add(number.saturating_sub(block.sequence).saturating_sub(1), block.size);
    }

    /// Call it after the last event of this profile.
    pub fn finish(self, profile: &Profile) -> Lifetimes {
        Lifetimes {
            allocations: self.allocated.0,
            allocated_bytes: self.allocated.1,
            frees: self.freed.0,
            freed_bytes: self.freed.1,
            live: self.allocated.0.saturating_sub(self.freed.0),
            live_bytes: self.allocated.1.saturating_sub(self.freed.1),
            by_ms: self.by_ms.buckets(),
            table_wait_ms: profile.longest_table_wait_ms(),
            by_allocations: self.by_allocations.buckets(),
        }
    }
}
