//! Which addresses are in memory, in swap, shared: sums of any range of addresses.

use mallow_profile::{PageRun, PageState};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub resident: u64,
    pub swapped: u64,
}

/// Sums of page runs, so that a range costs two searches.
#[derive(Debug)]
pub struct Residency<'a> {
    runs: &'a [PageRun],
    page_bytes: u64,
    /// By run, the sums of all runs before it.
    before: Vec<Bytes>,
}

impl<'a> Residency<'a> {
    /// `runs` are sorted by address, without overlaps.
    pub fn new(runs: &'a [PageRun], page_bytes: u32) -> Self {
        let mut it = Self { runs, page_bytes: page_bytes.into(), before: Vec::with_capacity(runs.len() + 1) };
        let mut sum = Bytes::default();
        for run in runs {
            it.before.push(sum);
            it.add(&mut sum, run.state, it.length(run));
        }
        it.before.push(sum);
        it
    }

    fn length(&self, run: &PageRun) -> u64 {
        run.pages.saturating_mul(self.page_bytes)
    }

    fn add(&self, sum: &mut Bytes, state: PageState, bytes: u64) {
        if state.has(PageState::RESIDENT) {
            sum.resident = sum.resident.saturating_add(bytes);
        } else if state.has(PageState::SWAPPED) {
            sum.swapped = sum.swapped.saturating_add(bytes);
        }
    }

    /// Bytes below an address.
    fn below(&self, address: u64) -> Bytes {
        let after = self.runs.partition_point(|run| run.start < address);
        let Some(last) = after.checked_sub(1) else { return Bytes::default() };
        let run = &self.runs[last];
        let mut sum = self.before[last];
        self.add(&mut sum, run.state, self.length(run).min(address - run.start));
        sum
    }

    /// Bytes in a range, whose end is exclusive.
    pub fn of(&self, start: u64, end: u64) -> Bytes {
        if end <= start {
            return Bytes::default();
        }
        let (to, from) = (self.below(end), self.below(start));
        Bytes { resident: to.resident - from.resident, swapped: to.swapped - from.swapped }
    }

    pub fn resident(&self, start: u64, end: u64) -> u64 {
        self.of(start, end).resident
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_any_byte() {
        let run = |page: u64, pages, state| PageRun { start: page << 12, pages, state: PageState(state) };
        let shared = PageState::RESIDENT | PageState::SHARED;
        let runs = [
            run(2, 3, PageState::RESIDENT),
            run(5, 1, PageState::SWAPPED),
            run(6, 1, shared),
            run(10, u64::MAX, PageState::RESIDENT),
        ];
        let residency = Residency::new(&runs[..3], 4096);
        let of = |start, end| {
            let found = residency.of(start, end);
            (found.resident, found.swapped)
        };
        assert_eq!(of(0, u64::MAX), (4 << 12, 1 << 12));
        assert_eq!(of(0x2fff, 0x3001), (2, 0));
        assert_eq!(of(0x4ff0, 0x6010), (32, 4096));
        assert_eq!(of(0x7000, 0x9000), (0, 0));
        assert_eq!(of(9, 3), (0, 0));
        // What a hostile file says ends somewhere.
        assert!(Residency::new(&runs, 4096).of(0, u64::MAX).resident > 1 << 60);
    }
}
