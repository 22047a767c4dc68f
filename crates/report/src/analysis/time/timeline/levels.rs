//! Levels that go up and down, and what each of them was when their sum was highest.
//!
//! The levels at that moment are kept without touching all of them when a new one comes. Moments have generations; a
//! level whose copy is older than the current generation has not changed since, so it still is what it was then, and
//! its next change copies it first. Each change costs the same, however many levels there are.

use mallow_profile::Profile;
use rustc_hash::FxHashMap;

/// Levels by index, each with a number that goes up and down with it.
#[derive(Debug)]
pub(super) struct Levels {
    now: Vec<(u64, u64)>,
    copies: Vec<(u64, (u64, u64))>,
    generation: u64,
    sum: u64,
    highest: u64,
}

impl Levels {
    /// All levels are 0, and that is the highest moment so far.
    pub fn new(count: usize) -> Self {
        Self { now: vec![(0, 0); count], copies: vec![(0, (0, 0)); count], generation: 1, sum: 0, highest: 0 }
    }

    /// Raises a level, and its number by 1. True if that makes the sum higher than at the highest moment so far.
    #[inline]
    pub fn raise(&mut self, level: usize, by: u64) -> bool {
        self.copy(level);
        let (now, number) = &mut self.now[level];
        *now = now.saturating_add(by);
        *number = number.saturating_add(1);
        self.sum = self.sum.saturating_add(by);
        let higher = self.sum > self.highest;
        if higher {
            self.highest = self.sum;
            self.generation += 1;
        }
        higher
    }

    /// Lowers a level, and its number; both stop at 0.
    #[inline]
    pub fn lower(&mut self, level: usize, by: u64, number_by: u64) {
        self.copy(level);
        let (now, number) = &mut self.now[level];
        *now = now.saturating_sub(by);
        *number = number.saturating_sub(number_by);
        self.sum = self.sum.saturating_sub(by);
    }

    #[inline]
    fn copy(&mut self, level: usize) {
        let (generation, copy) = &mut self.copies[level];
        if *generation < self.generation {
            (*generation, *copy) = (self.generation, self.now[level]);
        }
    }

    /// Forgets the highest moment: this one is the highest, until a higher one comes.
    pub fn begin(&mut self) {
        self.highest = self.sum;
        self.generation += 1;
    }

    pub fn len(&self) -> usize {
        self.now.len()
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// A level now, with its number.
    pub fn now(&self, level: usize) -> (u64, u64) {
        self.now[level]
    }

    /// A level at the highest moment, with its number.
    pub fn at_highest(&self, level: usize) -> (u64, u64) {
        let (generation, copy) = self.copies[level];
        if generation == self.generation { copy } else { self.now[level] }
    }
}

/// Indices of the sites of each process.
pub(super) fn sites_by_process(profile: &Profile) -> FxHashMap<u32, Vec<u32>> {
    let mut sites: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (index, site) in profile.sites.iter().enumerate() {
        sites.entry(site.process.0).or_default().push(index as u32);
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::Levels;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn levels_at_the_highest_moment_are_what_a_copy_of_all_would_say(
            steps in proptest::collection::vec((0..4usize, 0..5u64, 0..8u8), 0..80),
        ) {
            let mut levels = Levels::new(4);
            let (mut now, mut best, mut highest) = ([(0u64, 0u64); 4], [(0u64, 0u64); 4], 0);
            for (level, by, what) in steps {
                match what {
                    0 => {
                        levels.begin();
                        (best, highest) = (now, now.iter().map(|l| l.0).sum());
                    }
                    1..4 => {
                        let by = by.min(now[level].0);
                        levels.lower(level, by, 1);
                        now[level] = (now[level].0 - by, now[level].1.saturating_sub(1));
                    }
                    _ => {
                        now[level] = (now[level].0 + by, now[level].1 + 1);
                        let sum: u64 = now.iter().map(|l| l.0).sum();
                        prop_assert_eq!(levels.raise(level, by), sum > highest);
                        if sum > highest {
                            (best, highest) = (now, sum);
                        }
                    }
                }
                prop_assert_eq!((levels.highest(), levels.sum()), (highest, now.iter().map(|l| l.0).sum()));
                prop_assert_eq!([0, 1, 2, 3].map(|l| levels.at_highest(l)), best);
                prop_assert_eq!([0, 1, 2, 3].map(|l| levels.now(l)), now);
            }
        }
    }
}
