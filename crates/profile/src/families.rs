//! Calls by the function that was called.

use std::ops::AddAssign;

/// An allocating function, in the order of `enum mallow_family` in `preload/base/wire.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Family(pub u8);

/// Names of the allocating functions, by [`Family`].
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

    /// Lowers what no process can have made: more calls of a kind than `most`, or more bytes than as many calls can
    /// request of addresses of 47 bits. False: there was nothing of the kind.
    pub fn clamp(&mut self, most: u64) -> bool {
        /// Calls and bytes are read one after the other while threads go on: bytes may be those of so many calls more.
        const MORE: u64 = 1 << 16;
        let mut is_clamped = false;
        let mut lower = |number: &mut u64, most: u64| {
            is_clamped |= *number > most;
            *number = (*number).min(most);
        };
        for (calls, bytes) in &mut self.calls {
            lower(calls, most);
            lower(bytes, calls.saturating_add(MORE).saturating_mul(1 << 47));
        }
        for frees in [&mut self.frees, &mut self.realloc_frees, &mut self.reallocs_in_place, &mut self.reallocs_moved] {
            lower(frees, most);
        }
        is_clamped
    }

    /// Frees by `free` and by reallocs.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn family_counts(first: u64) -> FamilyCounts {
        FamilyCounts {
            calls: std::array::from_fn(|n| (first + 2 * n as u64, first + 2 * n as u64 + 1)),
            frees: first + 100,
            realloc_frees: first + 101,
            reallocs_in_place: first + 102,
            reallocs_moved: first + 103,
        }
    }

    #[test]
    fn each_field_is_added_to_itself() {
        let mut sum = family_counts(1000);
        sum += family_counts(0);
        let calls = std::array::from_fn(|n| (1000 + 4 * n as u64, 1002 + 4 * n as u64));
        let expected =
            FamilyCounts { calls, frees: 1200, realloc_frees: 1202, reallocs_in_place: 1204, reallocs_moved: 1206 };
        assert_eq!(sum, expected);
    }

    #[test]
    fn what_no_process_can_have_made_is_lowered() {
        let mut sound = family_counts(0);
        let mut counts = sound;
        assert!(!counts.clamp(1000) && counts == sound);
        // A block of 128 TiB less one is the largest that there is.
        sound.calls[0] = (1 << 10, (1 << 10) * ((1 << 47) - 1));
        counts = sound;
        assert!(!counts.clamp(1 << 20) && counts == sound);
        counts.frees = u64::MAX;
        assert!(counts.clamp(1 << 20));
        assert_eq!(counts, FamilyCounts { frees: 1 << 20, ..sound });
        counts.calls[2] = (5, u64::MAX);
        assert!(counts.clamp(1 << 20) && counts.calls[2].1 == (5 + (1 << 16)) << 47);
    }

    #[test]
    fn sums_stop_at_the_greatest_number() {
        let mut sum = family_counts(u64::MAX - 103);
        sum += family_counts(103);
        let greatest = u64::MAX;
        let expected = FamilyCounts {
            calls: [(greatest, greatest); FAMILIES.len()],
            frees: greatest,
            realloc_frees: greatest,
            reallocs_in_place: greatest,
            reallocs_moved: greatest,
        };
        assert_eq!(sum, expected);
        assert_eq!((sum.allocations(), sum.allocated_bytes(), sum.all_frees()), (greatest, greatest, greatest));
    }
}
