//! Adds events up, and knows at the end what was live at the peak, in one pass.

use mallow_profile::Counts;

/// Blocks and bytes of a site that are live, and that were live at the last peak.
#[derive(Clone, Copy, Default)]
struct Live {
    now: (u64, u64),
    at_peak: (u64, u64),
    /// Whether the site has changed since the last peak.
    changed: bool,
}

/// Sums over all events so far.
#[derive(Default)]
pub struct HeaptrackLedger {
    counts: Vec<Counts>,
    live: Vec<Live>,
    /// The sites that have changed since the last peak.
    changed: Vec<u32>,
    bytes: u64,
    peak_bytes: u64,
    /// Milliseconds since the recording began.
    pub peak_ms: u64,
    now_ms: u64,
}

impl HeaptrackLedger {
    pub fn at(&mut self, ms: u64) {
        self.now_ms = ms;
    }

    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub fn allocate(&mut self, site: u32, size: u64) {
        let at = site as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, Counts::default());
            self.live.resize(at + 1, Live::default());
        }
        let counts = &mut self.counts[at];
        counts.allocations += 1;
        counts.allocated_bytes = counts.allocated_bytes.saturating_add(size);
        let live = self.touch(site);
        live.now = (live.now.0 + 1, live.now.1.saturating_add(size));
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.peak_bytes {
            self.peak_bytes = self.bytes;
            self.peak_ms = self.now_ms;
            for site in self.changed.drain(..) {
                let live = &mut self.live[site as usize];
                (live.at_peak, live.changed) = (live.now, false);
            }
        }
    }

    /// Frees a block that was allocated at this site; false where none is left.
    pub fn free(&mut self, site: u32, size: u64, temporary: bool) -> bool {
        if self.live.get(site as usize).is_none_or(|live| live.now.0 == 0 || live.now.1 < size) {
            return false;
        }
        let counts = &mut self.counts[site as usize];
        counts.frees += 1;
        counts.freed_bytes = counts.freed_bytes.saturating_add(size);
        if temporary {
            counts.temporary += 1;
            counts.temporary_bytes = counts.temporary_bytes.saturating_add(size);
        }
        let live = self.touch(site);
        live.now = (live.now.0 - 1, live.now.1 - size);
        self.bytes = self.bytes.saturating_sub(size);
        true
    }

    fn touch(&mut self, site: u32) -> &mut Live {
        let live = &mut self.live[site as usize];
        if !live.changed {
            live.changed = true;
            self.changed.push(site);
        }
        live
    }

    /// The counts of each site, in the order of their indices.
    pub fn finish(self) -> impl Iterator<Item = Counts> {
        self.counts.into_iter().zip(self.live).map(|(counts, live)| Counts {
            live: live.now.0,
            live_bytes: live.now.1,
            peak: live.at_peak.0,
            peak_bytes: live.at_peak.1,
            ..counts
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HeaptrackLedger;

    #[test]
    fn the_peak_is_the_first_highest_moment() {
        let mut ledger = HeaptrackLedger::default();
        ledger.allocate(0, 10);
        ledger.allocate(1, 5);
        ledger.at(7);
        assert!(ledger.free(0, 10, false));
        ledger.allocate(1, 10);
        ledger.at(9);
        assert!(ledger.free(1, 10, true));
        assert!(!ledger.free(0, 10, false), "there is none left");
        assert!(!ledger.free(7, 1, false), "there was none");
        assert_eq!(ledger.peak_ms, 0);
        let sites: Vec<_> = ledger.finish().collect();
        let sums: Vec<_> = sites.iter().map(|c| (c.allocations, c.peak_bytes, c.live_bytes, c.temporary)).collect();
        assert_eq!(sums, [(1, 10, 0, 0), (2, 5, 5, 1)]);
    }
}
