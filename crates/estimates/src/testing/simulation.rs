//! Programs whose truth is known, sampled as the target samples them: each thread counts the bytes that it asks for
//! down from an exponential draw.

use mallow_profile::{Family, ProcessId, Sample, Stacks};

/// The period of the tests.
pub const PERIOD: u64 = 512 << 10;

/// A generator of random numbers with a fixed beginning (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Above 0, and below 1.
    pub fn unit(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

/// What a thread of the target knows: how many bytes are left until one is picked.
pub struct Countdown {
    pub period: u64,
    left: f64,
}

impl Countdown {
    pub fn new(random: &mut Random, period: u64) -> Self {
        Self { period, left: random.exponential(period as f64) }
    }

    /// One allocation: whether it is picked.
    pub fn allocate(&mut self, random: &mut Random, size: u64) -> bool {
        self.left -= size as f64;
        let picked = self.left < 0.0;
        if picked {
            self.left = random.exponential(self.period as f64);
        }
        picked
    }

    /// So many allocations of one size, one after the other: which of them are picked. The same as calling `allocate`
    /// for each.
    pub fn allocate_many(&mut self, random: &mut Random, size: u64, count: u64, mut picked: impl FnMut(u64)) {
        let mut done = 0;
        loop {
            let passed = (self.left / size as f64).floor();
            if passed >= (count - done) as f64 {
                self.left -= (size * (count - done)) as f64;
                return;
            }
            done += passed as u64 + 1;
            picked(done - 1);
            self.left = random.exponential(self.period as f64);
        }
    }
}

/// A sample whose size and period alone matter.
pub fn sample(size: u64, period: u64) -> Sample {
    Sample {
        process: ProcessId(0),
        thread: 1,
        family: Family(0),
        size,
        period,
        address: 0x1000,
        at_ns: 0,
        stack: Stacks::ROOT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picked;

    #[test]
    fn many_allocations_at_once_are_many_allocations() {
        let mut random = [Random(7), Random(7)];
        let [one, two] = &mut random;
        let (mut each, mut all) = (Countdown::new(one, 1000), Countdown::new(two, 1000));
        for round in 0..2000 {
            let (size, count) = (1 + round % 977, round % 13);
            let expected: Vec<_> = (0..count).filter(|_| each.allocate(one, size)).collect();
            let mut picked = Vec::new();
            all.allocate_many(two, size, count, |index| picked.push(index));
            assert_eq!(picked, expected, "round {round}");
        }
    }

    #[test]
    fn bytes_are_picked_with_the_probability_that_estimates_take() {
        let mut random = Random(11);
        let (size, period, count) = (700, 1000, 200_000);
        let mut countdown = Countdown::new(&mut random, period);
        let all = (0..count).filter(|_| countdown.allocate(&mut random, size)).count() as f64;
        let expected = picked(size, period) * f64::from(count);
        assert!((all - expected).abs() < 3.0 * expected.sqrt(), "{all} of {expected}");
    }
}
