//! What a site does with its blocks, beyond how many and how large: sums that betray a habit.

use std::ops::{AddAssign, Deref, DerefMut};

/// Habits of one site, added up. What they mean for the program is for analyses to say. Sums saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patterns {
    /// The smallest size that was asked for; `u64::MAX` where nothing was.
    pub smallest: u64,
    /// The largest size that was asked for; 0 where nothing was.
    pub largest: u64,
    /// Blocks that the thread that allocated them freed before their site, or that thread anywhere, allocated again.
    pub alternating: u64,
    /// Blocks that took over from a smaller one: by realloc, or by an allocation upon which the thread frees the old
    /// block at once.
    pub growth_steps: u64,
    /// Steps that were the first one of their buffer.
    pub grown_buffers: u64,
    /// Bytes that the steps copied from the old block to the new one.
    pub copied_bytes: u64,
    /// Blocks that another thread freed than allocated them.
    pub freed_by_others: u64,
    /// Blocks freed in runs: after 16 other frees, at least, since the freeing thread allocated.
    pub freed_in_runs: u64,
    /// Number of runs that `freed_in_runs` were freed in.
    pub runs: u64,
    /// Large blocks that had grown by a quarter or more in their last step, and were then kept for at least half of the
    /// process's time.
    pub kept: u64,
    /// Requested bytes of the blocks in `kept`.
    pub kept_bytes: u64,
    /// Bytes by which the blocks in `kept` had grown in that last step: as much may be unused.
    pub kept_slack: u64,
    /// What headers and padding take beside the requested bytes of all blocks, if glibc allocates them: see
    /// [`overhead`].
    pub overhead_bytes: u64,
}

/// The patterns of a site. Profiles of other tools have none, and may have millions of sites: nothing is kept for
/// those.
#[derive(Clone, Debug, Default)]
pub struct Habits(Option<Box<Patterns>>);

static NONE: Patterns = Patterns {
    smallest: u64::MAX,
    largest: 0,
    alternating: 0,
    growth_steps: 0,
    grown_buffers: 0,
    copied_bytes: 0,
    freed_by_others: 0,
    freed_in_runs: 0,
    runs: 0,
    kept: 0,
    kept_bytes: 0,
    kept_slack: 0,
    overhead_bytes: 0,
};

/// What a block of this size takes beside it in glibc's heap (malloc.c, `request2size`): a header of 8 bytes, a
/// multiple of 16, 32 at the least. At most 32.
pub const fn overhead(size: u64) -> u64 {
    if size <= 24 { 32 - size } else { 8 + (size.wrapping_add(8).wrapping_neg() & 15) }
}

impl Deref for Habits {
    type Target = Patterns;

    fn deref(&self) -> &Patterns {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Habits {
    fn deref_mut(&mut self) -> &mut Patterns {
        self.0.get_or_insert_default()
    }
}

impl From<Patterns> for Habits {
    fn from(patterns: Patterns) -> Self {
        Self(Some(Box::new(patterns)))
    }
}

impl PartialEq for Habits {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Habits {}

impl AddAssign<&Self> for Habits {
    fn add_assign(&mut self, other: &Self) {
        if let Some(more) = &other.0 {
            **self += **more;
        }
    }
}

impl Default for Patterns {
    fn default() -> Self {
        NONE
    }
}

impl AddAssign for Patterns {
    fn add_assign(&mut self, other: Self) {
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
        for (mine, theirs) in [
            (&mut self.alternating, other.alternating),
            (&mut self.growth_steps, other.growth_steps),
            (&mut self.grown_buffers, other.grown_buffers),
            (&mut self.copied_bytes, other.copied_bytes),
            (&mut self.freed_by_others, other.freed_by_others),
            (&mut self.freed_in_runs, other.freed_in_runs),
            (&mut self.runs, other.runs),
            (&mut self.kept, other.kept),
            (&mut self.kept_bytes, other.kept_bytes),
            (&mut self.kept_slack, other.kept_slack),
            (&mut self.overhead_bytes, other.overhead_bytes),
        ] {
            *mine = mine.saturating_add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Patterns, overhead};

    fn patterns(first: u64) -> Patterns {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m] = std::array::from_fn(|n| first + n as u64);
        Patterns {
            smallest: a,
            largest: b,
            alternating: c,
            growth_steps: d,
            grown_buffers: e,
            copied_bytes: f,
            freed_by_others: g,
            freed_in_runs: h,
            runs: i,
            kept: j,
            kept_bytes: k,
            kept_slack: l,
            overhead_bytes: m,
        }
    }

    /// Each field another number, so that a sum in the wrong field is seen.
    #[test]
    fn each_field_is_added_to_itself() {
        let mut sum = patterns(1000);
        sum += patterns(50);
        let sums = |n: u64| 1050 + 2 * n;
        let expected = Patterns {
            smallest: 50,
            largest: 1001,
            alternating: sums(2),
            growth_steps: sums(3),
            grown_buffers: sums(4),
            copied_bytes: sums(5),
            freed_by_others: sums(6),
            freed_in_runs: sums(7),
            runs: sums(8),
            kept: sums(9),
            kept_bytes: sums(10),
            kept_slack: sums(11),
            overhead_bytes: sums(12),
        };
        assert_eq!(sum, expected);
        sum += Patterns::default();
        assert_eq!(sum, expected);
        sum += patterns(u64::MAX - 12);
        assert_eq!((sum.kept_slack, sum.alternating, sum.largest), (u64::MAX, u64::MAX, u64::MAX - 11));
    }

    #[test]
    fn a_block_in_glibcs_heap() {
        let chunk = |size: u64| size + overhead(size);
        let sizes = [0, 1, 24, 25, 40, 41, 64, 100, 104, 105, 1000];
        assert_eq!(sizes.map(chunk), [32, 32, 32, 48, 48, 64, 80, 112, 112, 128, 1008]);
        assert!(overhead(u64::MAX) < 32);
    }
}
