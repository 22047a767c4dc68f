//! Calls by the function that was called.

use std::ops::AddAssign;

/// An allocating function, in the order of `enum mallow_family` in `preload/base/wire.h`.
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
