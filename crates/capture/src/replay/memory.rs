//! What the kernel accounts for of one process, and where its blocks lay then.

use crate::accounts::Ledger;
use crate::footprint::{Packed, PeakTracker, Reading, Series, is_higher, live_resident};
use mallow_profile::{Footprint, HeapMap, PeakRss, PlacedBlock, RecentLive, RssPoint};

/// Most words of one reading.
const WORDS: usize = 16 << 20;
/// A footprint from before a program's end stands for the highest RSS only if its own is half of that at least.
const STANDS_IN: u64 = 2;
/// RSS is as high as the highest if it is less by a fiftieth at most; live bytes are markedly more by a tenth of RSS.
const AS_HIGH: u64 = 50;
const MARKED: u64 = 10;

/// A footprint that the process may yet replace by another one: blocks are sorted and packed once it is kept for good.
#[derive(Clone, Debug, Default)]
struct Kept {
    footprint: Footprint,
    map: HeapMap,
}

/// Whether a footprint becomes the one that stands for the highest RSS. What a program frees at its exit is no cause of
/// its RSS: there, the highest footprint before says why.
fn takes_its_place(footprint: &Footprint, highest: &Footprint) -> bool {
    let is_after_the_end = footprint.is_at_exit && footprint.fell_from().is_some();
    let stands_in = highest.totals.rss >= footprint.totals.rss / STANDS_IN;
    is_higher(&footprint.totals, &highest.totals) && !(is_after_the_end && stands_in)
}

/// Whether a footprint of the same RSS says better why RSS is that high, as markedly more is live in it: what is free
/// in the other had been in use, or was used again. `most_rss` is the highest that was read.
fn explains_more(footprint: &Footprint, highest: &Footprint, most_rss: u64) -> bool {
    let is_as_high = footprint.totals.rss >= most_rss - most_rss / AS_HIGH;
    is_as_high && footprint.live_bytes.saturating_sub(highest.live_bytes) > footprint.totals.rss / MARKED
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    words: Vec<u64>,
    highest: Option<Kept>,
    /// The highest RSS of the footprints that were `highest`.
    most_rss: u64,
    /// The last footprint; None: the highest one is also the last.
    last: Option<Kept>,
    series: Series,
    peak: PeakTracker,
}

impl Memory {
    /// Takes a part of a reading. Returns the whole after the last part; an error where it makes no sense.
    pub fn part(&mut self, process: u32, is_last: bool, words: &[u64]) -> Result<Option<Reading>, ()> {
        let room = WORDS - self.words.len().min(WORDS);
        self.words.extend_from_slice(&words[..words.len().min(room)]);
        if !is_last {
            return Ok(None);
        }
        let words = std::mem::take(&mut self.words);
        Reading::of_words(process, &words).map(Some).ok_or(())
    }

    /// Takes a reading of the process, the blocks that lay there, and the most live bytes of the second before.
    pub fn read(&mut self, reading: Reading, blocks: Vec<PlacedBlock>, recent: RecentLive) {
        let Reading { mut footprint, pages, caches, tables, heaps, huge_zeros, .. } = reading;
        let map = HeapMap { pages, caches, tables, heaps: Some(heaps), huge_zeros, blocks };
        footprint.live_blocks = map.blocks.len() as u64;
        footprint.live_bytes = map.blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.size));
        footprint.recent_live = Some(recent);
        if footprint.is_at_exit {
            self.peak.end(footprint.ms, footprint.peak_rss);
        }
        self.series.amend(footprint.ms, footprint.totals.rss, footprint.live_bytes);
        let kept = Kept { footprint, map };
        let highest = self.highest.as_ref().map(|highest| &highest.footprint);
        let is_better = |highest: &Footprint| {
            takes_its_place(&kept.footprint, highest) || explains_more(&kept.footprint, highest, self.most_rss)
        };
        if highest.is_none_or(is_better) {
            self.most_rss = self.most_rss.max(kept.footprint.totals.rss);
            (self.highest, self.last) = (Some(kept), None);
        } else {
            self.last = Some(kept);
        }
    }

    /// Takes RSS at a time, the highest so far, and the bytes that were live then.
    pub fn rss(&mut self, ms: u64, rss: u64, peak: u64, live_bytes: u64) {
        self.series.push(RssPoint { ms, rss, live_bytes });
        self.peak.look(ms, rss, peak);
    }

    /// Takes the highest RSS in bytes, found at the end.
    pub fn end_rss(&mut self, ms: u64, peak: u64) {
        self.peak.end(ms, peak);
    }

    /// The kernel's maximum so far, of a process that began at `start_ms`.
    pub fn peak(&self, start_ms: u64, attached: bool) -> Option<PeakRss> {
        self.peak.peak(start_ms, attached)
    }

    /// The footprints that are kept, by time, and RSS over time.
    pub fn end(self, ledger: &Ledger) -> (Vec<Packed>, Vec<RssPoint>) {
        let is_one = self.last.is_none();
        let highest = self.highest.map(|mut kept| {
            (kept.footprint.is_highest, kept.footprint.is_last) = (true, is_one);
            kept
        });
        let last = self.last.map(|mut kept| {
            kept.footprint.is_last = true;
            kept
        });
        let close = |kept: Kept| {
            let Kept { mut footprint, mut map } = kept;
            map.blocks.sort_unstable_by_key(|block| block.address);
            map.blocks.dedup_by_key(|block| block.address);
            if let Err(what) = map.check(&footprint, &ledger.sites) {
                footprint.gap.get_or_insert_with(|| what.to_owned());
            }
            footprint.live_resident = live_resident(&footprint, &map);
            Packed::new(footprint, &map)
        };
        (highest.into_iter().chain(last).map(close).collect(), self.series.into_points())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{Mapping, MappingFlags, MappingKind, MemorySizes};

    /// A reading of so many pages at a time, and the footprint that stands for the highest RSS after all of them: its
    /// time.
    fn highest_of(readings: &[(u64, u64, u64)]) -> u64 {
        let mut memory = Memory::default();
        for &(ms, rss, live_bytes) in readings {
            let sizes = MemorySizes { rss, ..MemorySizes::default() };
            let (kind, flags) = (MappingKind::Heap, MappingFlags::default());
            let mapping =
                Mapping { start: 4096, end: 1 << 40, kind, flags, name: String::new(), sizes, has_pages: true };
            let footprint = Footprint { ms, totals: sizes, mappings: vec![mapping], ..Footprint::default() };
            let block = PlacedBlock { address: 4096, size: live_bytes, site: 0 };
            let recent = RecentLive { ms, bytes: live_bytes };
            memory.read(Reading { footprint, ..Reading::default() }, vec![block], recent);
        }
        memory.highest.expect("one was read").footprint.ms
    }

    #[test]
    fn of_equal_maxima_the_one_with_more_live_bytes_is_kept() {
        assert_eq!(highest_of(&[(1, 1000, 300), (2, 990, 600), (3, 1000, 300)]), 2);
        // As much, or nearly, is no reason.
        assert_eq!(highest_of(&[(1, 1000, 500), (2, 1000, 560)]), 1);
        // Each is nearly as high as the one before, and they get lower and lower.
        assert_eq!(highest_of(&[(1, 1000, 100), (2, 985, 300), (3, 970, 600)]), 2);
    }
}
