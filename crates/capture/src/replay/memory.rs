//! What the kernel accounts for of one process, and where its blocks lay then.

use crate::accounts::Ledger;
use crate::footprint::{Packed, Reading, Series, is_higher};
use mallow_profile::{Block, Footprint, HeapMap, PlacedBlock, RssPoint};

/// Words of one reading.
const WORDS: usize = 16 << 20;

/// A footprint that the process may yet replace by another one: blocks are sorted and packed once it is kept for good.
#[derive(Clone, Debug, Default)]
struct Kept {
    footprint: Footprint,
    map: HeapMap,
}

/// Of one process.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    words: Vec<u64>,
    highest: Option<Kept>,
    /// None: the highest one is also the last.
    last: Option<Kept>,
    series: Series,
}

impl Memory {
    /// Takes a part of a reading. The whole, after the last part; false: it makes no sense.
    pub fn part(&mut self, process: u32, is_last: bool, words: &[u64]) -> Result<Option<Reading>, ()> {
        let room = WORDS - self.words.len().min(WORDS);
        self.words.extend_from_slice(&words[..words.len().min(room)]);
        if !is_last {
            return Ok(None);
        }
        let words = std::mem::take(&mut self.words);
        Reading::of_words(process, &words).map(Some).ok_or(())
    }

    /// A reading of the process, when these blocks were live.
    pub fn read(&mut self, reading: Reading, blocks: impl Iterator<Item = (u64, Block)>) {
        let Reading { mut footprint, pages, caches, tables, .. } = reading;
        let place = |(address, block): (u64, Block)| PlacedBlock { address, size: block.size, site: block.site };
        let map = HeapMap { pages, caches, tables, blocks: blocks.map(place).collect() };
        footprint.live_blocks = map.blocks.len() as u64;
        footprint.live_bytes = map.blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.size));
        self.rss(footprint.ms, footprint.totals.rss, footprint.live_bytes);
        let kept = Kept { footprint, map };
        let highest = self.highest.as_ref().map(|highest| highest.footprint.totals.rss);
        if highest.is_none_or(|highest| is_higher(kept.footprint.totals.rss, highest)) {
            (self.highest, self.last) = (Some(kept), None);
        } else {
            self.last = Some(kept);
        }
    }

    /// A reading that another one has taken the place of: its totals alone count.
    pub fn pass(&mut self, reading: &Reading, live_bytes: u64) {
        self.rss(reading.footprint.ms, reading.footprint.totals.rss, live_bytes);
    }

    /// RSS at a time.
    pub fn rss(&mut self, ms: u64, rss: u64, live_bytes: u64) {
        self.series.push(RssPoint { ms, rss, live_bytes });
    }

    /// What is kept of it, by time, and its RSS over time.
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
            Packed::new(footprint, &map)
        };
        (highest.into_iter().chain(last).map(close).collect(), self.series.into_points())
    }
}
