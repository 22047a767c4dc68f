//! What is counted, for a site, a process or a whole recording. Sums saturate: a file may say anything.

use std::ops::AddAssign;

/// Sums of one site, function, process or recording. `docs/DEFINITIONS.md` defines each word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successful calls of the allocating functions.
    pub allocations: u64,
    /// Requested bytes of all allocations.
    pub allocated_bytes: u64,
    /// Frees of blocks allocated here.
    pub frees: u64,
    /// Requested bytes of the blocks freed.
    pub freed_bytes: u64,
    /// Allocations freed before their own thread allocated again.
    pub temporary: u64,
    /// Their requested bytes.
    pub temporary_bytes: u64,
    /// Blocks live when their process, or the recording, ended.
    pub leaked: u64,
    /// Their requested bytes.
    pub leaked_bytes: u64,
    /// Blocks live at the recording's peak.
    pub peak: u64,
    /// Their requested bytes.
    pub peak_bytes: u64,
    /// Successful reallocs of non-NULL that kept the address. They are allocations too.
    pub reallocs_in_place: u64,
    /// Successful reallocs of non-NULL that moved the block. They are allocations too.
    pub reallocs_moved: u64,
}

impl Counts {
    /// Allocations minus frees; below 0 where blocks were freed that were allocated elsewhere.
    pub fn remaining(&self) -> i64 {
        self.allocations.wrapping_sub(self.frees) as i64
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.allocations = self.allocations.saturating_add(other.allocations);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.frees = self.frees.saturating_add(other.frees);
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
        self.temporary = self.temporary.saturating_add(other.temporary);
        self.temporary_bytes = self.temporary_bytes.saturating_add(other.temporary_bytes);
        self.leaked = self.leaked.saturating_add(other.leaked);
        self.leaked_bytes = self.leaked_bytes.saturating_add(other.leaked_bytes);
        self.peak = self.peak.saturating_add(other.peak);
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        self.reallocs_in_place = self.reallocs_in_place.saturating_add(other.reallocs_in_place);
        self.reallocs_moved = self.reallocs_moved.saturating_add(other.reallocs_moved);
    }
}

/// An allocating function, in the order of `enum mallow_family` in `preload/wire.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Family(pub u8);

/// Names of the families.
pub const FAMILIES: [&str; 9] =
    ["malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc"];

/// Calls by the function that was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyCounts {
    /// Successful calls and requested bytes, by family.
    pub calls: [(u64, u64); FAMILIES.len()],
    /// Calls of `free` on non-NULL.
    pub frees: u64,
    /// Releases implied by successful reallocs of non-NULL, and reallocs to 0.
    pub realloc_frees: u64,
    /// Successful reallocs of non-NULL that kept the address.
    pub reallocs_in_place: u64,
    /// Successful reallocs of non-NULL that moved the block.
    pub reallocs_moved: u64,
}

impl FamilyCounts {
    /// Allocations over all families.
    pub fn allocations(&self) -> u64 {
        self.calls.iter().fold(0, |sum, c| sum.saturating_add(c.0))
    }

    /// Requested bytes over all families.
    pub fn allocated_bytes(&self) -> u64 {
        self.calls.iter().fold(0, |sum, c| sum.saturating_add(c.1))
    }

    /// All frees.
    pub fn all_frees(&self) -> u64 {
        self.frees.saturating_add(self.realloc_frees)
    }
}

impl AddAssign for FamilyCounts {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.calls.iter_mut().zip(other.calls) {
            mine.0 = mine.0.saturating_add(theirs.0);
            mine.1 = mine.1.saturating_add(theirs.1);
        }
        self.frees = self.frees.saturating_add(other.frees);
        self.realloc_frees = self.realloc_frees.saturating_add(other.realloc_frees);
        self.reallocs_in_place = self.reallocs_in_place.saturating_add(other.reallocs_in_place);
        self.reallocs_moved = self.reallocs_moved.saturating_add(other.reallocs_moved);
    }
}
