//! The RSS of a watched program by its parts: which of them grows.

use mallow_profile::{Footprint, MappingKind};
use serde::Serialize;

use crate::analysis::rss::OlderBlocks;
use crate::analysis::sampled::Estimate;

/// Least bytes, and least part of RSS, one in so many, by which a part has grown that is named.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_SHARE: u64 = 50;

/// Kind of memory in RSS, as far as it shows without the pages of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryPart {
    /// Live blocks, as sampling estimates them. Not all of them need to be in memory.
    LiveHeap,
    /// Private memory of no file that is no live block: free pages and holes that the allocator keeps, its own data,
    /// and what the program maps itself.
    OtherAnonymous,
    /// Private memory of no file as a whole, where some live blocks are not known: it is not divided then.
    Anonymous,
    /// Stacks of all threads.
    Stacks,
    /// Code and data of files.
    Files,
    /// Memory shared with other processes.
    Shared,
    /// Memory that is there because Mallow is.
    Mallow,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryPartRow {
    /// Kind of memory of the part.
    pub part: MemoryPart,
    /// Bytes of the part.
    pub bytes: u64,
    /// Lower end of the 95 % interval: live heap is an estimate, and so is what is left without it. Null: there are not
    /// enough samples. Equal to `bytes`: the kernel counts it.
    pub low: Option<u64>,
    /// Upper end of the 95 % interval; null where `low` is.
    pub high: Option<u64>,
    /// Bytes by which the part has grown since mallow began to watch; negative: it shrank.
    pub grown_bytes: i64,
}

/// The memory of the watched processes that run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedMemory {
    /// RSS in bytes, the sum of all processes: a page that several of them share counts in each.
    pub rss: u64,
    /// PSS in bytes: RSS with each shared page divided by the processes that have it.
    pub pss: u64,
    /// Bytes of all processes in swap.
    pub swap: u64,
    /// Bytes of RSS that are no live block, by the estimate of live bytes; null where `older_blocks` are not known.
    pub gap: Option<u64>,
    /// `gap` is a lower bound: more is live than all private memory of no file that is in memory. Blocks were never
    /// touched, or are in swap, so the heap is not divided.
    pub gap_is_least: bool,
    /// Lower end of the 95 % interval of `gap`; null: there are not enough samples, or no gap, or `gap_is_least`.
    pub gap_low: Option<u64>,
    /// Upper end of the 95 % interval of `gap`; null where `gap_low` is.
    pub gap_high: Option<u64>,
    /// Reason why there may be live blocks that are not known; null: there are none.
    pub older_blocks: Option<OlderBlocks>,
    /// Parts of RSS; the sum of their bytes is `rss`.
    pub parts: Vec<MemoryPartRow>,
    /// Part that has grown most since mallow began to watch; null: none grew much, or none by more than its estimate
    /// may be wrong.
    pub grows: Option<MemoryPart>,
}

/// Resident bytes of some processes at a moment, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts {
    live: u64,
    anonymous: u64,
    stacks: u64,
    files: u64,
    shared: u64,
    mallow: u64,
}

impl MemoryParts {
    /// `live` are the live bytes of all these processes together.
    pub fn of(footprints: &[Footprint], live: u64) -> Self {
        let of = |kinds: &[MappingKind]| {
            let mappings = footprints.iter().flat_map(|footprint| &footprint.mappings);
            let chosen = mappings.filter(|mapping| kinds.contains(&mapping.kind));
            chosen.fold(0, |sum: u64, mapping| sum.saturating_add(mapping.sizes.rss))
        };
        // Samples lie in slots of Mallow's, and would lie in the heap.
        let sampled = footprints.iter().fold(0, |sum: u64, footprint| sum.saturating_add(footprint.sampled_bytes));
        let mallow = of(&[MappingKind::Mallow]);
        let sampled = sampled.min(mallow);
        Self {
            live,
            anonymous: of(&[MappingKind::Heap, MappingKind::Anonymous]).saturating_add(sampled),
            stacks: of(&[MappingKind::Stack, MappingKind::ThreadStack]),
            files: of(&[MappingKind::FileText, MappingKind::FileData, MappingKind::Bss]),
            shared: of(&[MappingKind::Shared]),
            mallow: (mallow - sampled).saturating_add(of(&[MappingKind::Kernel])),
        }
    }

    /// Where `is_divided`, private memory of no file is divided into live blocks and the rest. That holds only where
    /// all live blocks are known and may be in memory: what is unknown is not absent.
    fn rows(&self, is_divided: bool) -> Vec<(MemoryPart, u64)> {
        let mut rows = match is_divided {
            true => vec![
                (MemoryPart::LiveHeap, self.live.min(self.anonymous)),
                (MemoryPart::OtherAnonymous, self.anonymous.saturating_sub(self.live)),
            ],
            false => vec![(MemoryPart::Anonymous, self.anonymous)],
        };
        rows.extend([
            (MemoryPart::Stacks, self.stacks),
            (MemoryPart::Files, self.files),
            (MemoryPart::Shared, self.shared),
            (MemoryPart::Mallow, self.mallow),
        ]);
        rows
    }
}

/// Least and most bytes that the truth may be; None where it is not known.
type Limits = Option<(u64, u64)>;

/// Whether growth by so many bytes is named, in processes that have this RSS.
pub fn is_notable_growth(bytes: u64, rss: u64) -> bool {
    bytes >= LEAST_BYTES.max(rss / LEAST_SHARE)
}

/// The memory of some processes now, and what of it has grown. `before` are the parts when the watching began.
pub fn watched_memory(
    footprints: &[Footprint],
    live: &Estimate,
    older_blocks: Option<OlderBlocks>,
    before: &MemoryParts,
) -> WatchedMemory {
    let sum = |size: fn(&Footprint) -> u64| footprints.iter().map(size).fold(0, u64::saturating_add);
    let rss = sum(|footprint| footprint.totals.rss);
    let all_known = older_blocks.is_none();
    let grown = |bytes: u64, before: u64| i64::try_from(i128::from(bytes) - i128::from(before)).unwrap_or(i64::MAX);
    let live_bytes = whole(live.value);
    let of_live: Limits = live.interval().map(|(low, high)| (whole(low), whole(high)));
    let without_live = |all: u64| of_live.map(|(low, high)| (all.saturating_sub(high), all.saturating_sub(low)));
    let now = MemoryParts::of(footprints, live_bytes);
    let row = |((part, bytes), (_, before)): ((MemoryPart, u64), (MemoryPart, u64))| {
        let limits = match part {
            MemoryPart::LiveHeap => of_live.map(|(low, high)| (low.min(now.anonymous), high.min(now.anonymous))),
            MemoryPart::OtherAnonymous => without_live(now.anonymous),
            _ => Some((bytes, bytes)),
        };
        let (low, high) = limits.unzip();
        MemoryPartRow { part, bytes, low, high, grown_bytes: grown(bytes, before) }
    };
    // By no more than the estimate may be wrong, all of it may be in memory.
    let gap_is_least = all_known && of_live.is_some_and(|(low, _)| low > now.anonymous);
    let is_divided = all_known && !gap_is_least;
    let rows = now.rows(is_divided).into_iter().zip(before.rows(is_divided));
    let parts: Vec<MemoryPartRow> = rows.map(row).collect();
    // What an estimate may be wrong by has not grown.
    let is_sure = |row: &&MemoryPartRow| row.low.is_some_and(|low| row.grown_bytes > grown(row.bytes, low).max(0));
    let is_notable =
        |row: &&MemoryPartRow| u64::try_from(row.grown_bytes).is_ok_and(|bytes| is_notable_growth(bytes, rss));
    let most = parts.iter().max_by_key(|row| row.grown_bytes).filter(is_notable);
    let most = most.filter(is_sure);
    let not_live = |live: u64| rss.saturating_sub(live.min(now.anonymous));
    let gap_limits = of_live.filter(|_| is_divided).map(|(low, high)| (not_live(high), not_live(low)));
    WatchedMemory {
        rss,
        pss: sum(|footprint| footprint.totals.pss),
        swap: sum(|footprint| footprint.totals.swap),
        gap: all_known.then(|| rss.saturating_sub(live_bytes.min(now.anonymous))),
        gap_is_least,
        gap_low: gap_limits.map(|limits| limits.0),
        gap_high: gap_limits.map(|limits| limits.1),
        older_blocks,
        grows: most.map(|row| row.part),
        parts,
    }
}

fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{Mapping, MemorySizes};

    fn footprint(all: &[(MappingKind, u64)]) -> Footprint {
        let mapping = |&(kind, rss): &(MappingKind, u64)| {
            let sizes = MemorySizes { rss, pss: rss / 2, ..MemorySizes::default() };
            Mapping { kind, sizes, ..Mapping::default() }
        };
        let mappings: Vec<Mapping> = all.iter().map(mapping).collect();
        let totals = mappings.iter().map(|mapping| mapping.sizes).sum();
        Footprint { mappings, totals, ..Footprint::default() }
    }

    const MIB: u64 = 1 << 20;

    /// Of blocks that are all seen.
    fn exactly(bytes: u64) -> Estimate {
        within(bytes, 0)
    }

    /// So many bytes more or less.
    fn within(bytes: u64, distance: u64) -> Estimate {
        let (value, distance) = (bytes as f64, distance as f64);
        Estimate { value, low: Some(value - distance), high: Some(value + distance), samples: 100 }
    }

    /// What is left without an estimate is one.
    #[test]
    fn what_is_no_live_heap_is_as_uncertain_as_that() {
        use MappingKind::*;
        let at = |heap| [footprint(&[(Heap, heap), (FileText, MIB)])];
        let before = MemoryParts::of(&at(10 * MIB), 10 * MIB);
        let memory = watched_memory(&at(30 * MIB), &within(20 * MIB, 4 * MIB), None, &before);
        let limits: Vec<_> = memory.parts[..2].iter().map(|row| (row.bytes, row.low, row.high)).collect();
        assert_eq!(limits[0], (20 * MIB, Some(16 * MIB), Some(24 * MIB)));
        assert_eq!(limits[1], (10 * MIB, Some(6 * MIB), Some(14 * MIB)));
        assert_eq!((memory.gap_low, memory.gap, memory.gap_high), (Some(7 * MIB), Some(11 * MIB), Some(15 * MIB)));
        let files = memory.parts.iter().find(|row| row.part == MemoryPart::Files).expect("files");
        assert_eq!((files.low, files.high), (Some(MIB), Some(MIB)));
        assert!(memory.grows.is_some());
        // By no more than it may be wrong.
        assert_eq!(watched_memory(&at(30 * MIB), &within(20 * MIB, 10 * MIB), None, &before).grows, None);
        // As much may be live as there is in memory.
        let memory = watched_memory(&at(30 * MIB), &within(33 * MIB, 4 * MIB), None, &before);
        assert_eq!((memory.gap_is_least, memory.gap_low, memory.gap_high), (false, Some(MIB), Some(2 * MIB)));
        assert_eq!((memory.parts[0].bytes, memory.parts[0].high), (30 * MIB, Some(30 * MIB)));
        assert_eq!(memory.parts.iter().map(|row| row.bytes).sum::<u64>(), memory.rss);
        assert!(watched_memory(&at(30 * MIB), &within(35 * MIB, 4 * MIB), None, &before).gap_is_least);
        let unknown = Estimate { low: None, high: None, ..exactly(20 * MIB) };
        let memory = watched_memory(&at(30 * MIB), &unknown, None, &before);
        assert_eq!((memory.grows, memory.gap_low, memory.parts[1].low), (None, None, None));
    }

    #[test]
    fn the_part_that_grew_most_is_named() {
        use MappingKind::*;
        let before = [footprint(&[(Heap, 10 * MIB), (Anonymous, 5 * MIB), (FileText, 3 * MIB), (ThreadStack, MIB)])];
        let before = MemoryParts::of(&before, 9 * MIB);
        let now = [
            footprint(&[(Heap, 30 * MIB), (Anonymous, 5 * MIB), (FileText, 3 * MIB)]),
            footprint(&[(ThreadStack, MIB), (Shared, MIB), (Kernel, 4096)]),
        ];
        let memory = watched_memory(&now, &exactly(12 * MIB), None, &before);
        assert_eq!((memory.rss, memory.pss), (40 * MIB + 4096, 20 * MIB + 2048));
        assert_eq!(memory.gap, Some(28 * MIB + 4096));
        let grown: Vec<_> = memory.parts.iter().map(|row| row.grown_bytes / MIB as i64).collect();
        assert_eq!(grown, [3, 17, 0, 0, 1, 0]);
        assert_eq!(memory.parts.iter().map(|row| row.bytes).sum::<u64>(), memory.rss);
        assert_eq!(memory.grows, Some(MemoryPart::OtherAnonymous));
        assert_eq!(watched_memory(&now, &exactly(26 * MIB), None, &before).grows, Some(MemoryPart::LiveHeap));
        let same = MemoryParts::of(&now, 12 * MIB);
        assert_eq!(watched_memory(&now, &exactly(12 * MIB + 4096), None, &same).grows, None);
        assert_eq!(watched_memory(&[], &exactly(12 * MIB), None, &same).gap, Some(0));
    }

    /// 80 MiB were reserved and not touched; the program maps 20 more of its own.
    #[test]
    fn where_more_is_live_than_in_memory_the_heap_is_not_divided() {
        use MappingKind::*;
        let at = |mapped| [footprint(&[(Heap, 30 * MIB), (Anonymous, mapped), (FileText, 3 * MIB), (Mallow, 8 * MIB)])];
        let before = MemoryParts::of(&at(10 * MIB), 110 * MIB);
        let memory = watched_memory(&at(30 * MIB), &exactly(112 * MIB), None, &before);
        assert_eq!((memory.rss, memory.gap, memory.gap_is_least), (71 * MIB, Some(11 * MIB), true));
        assert_eq!(memory.parts.iter().map(|row| row.bytes).sum::<u64>(), memory.rss);
        assert_eq!(memory.grows, Some(MemoryPart::Anonymous));
        let memory = watched_memory(&at(30 * MIB), &exactly(60 * MIB), None, &before);
        assert_eq!((memory.gap, memory.gap_is_least), (Some(11 * MIB), false));
    }

    /// 3 MiB of slots, of which samples use one: two are there because Mallow is.
    #[test]
    fn samples_are_heap_and_the_rest_of_their_slots_is_mallows() {
        use MappingKind::*;
        let mut now = [footprint(&[(Heap, 10 * MIB), (Mallow, 4 * MIB)])];
        now[0].sampled_bytes = MIB;
        let memory = watched_memory(&now, &exactly(11 * MIB), None, &MemoryParts::default());
        let bytes: Vec<_> = memory.parts.iter().map(|row| row.bytes / MIB).collect();
        assert_eq!(bytes, [11, 0, 0, 0, 0, 3]);
        now[0].sampled_bytes = u64::MAX;
        let memory = watched_memory(&now, &exactly(14 * MIB), None, &MemoryParts::default());
        assert_eq!(memory.parts.iter().map(|row| row.bytes).sum::<u64>(), memory.rss);
    }

    /// After attaching, 9 MiB that are known would say that the rest is no live heap; and blocks that take the place of
    /// older ones, that the heap grows.
    #[test]
    fn where_older_blocks_are_not_known_the_heap_is_not_divided() {
        use MappingKind::*;
        let at = |heap| [footprint(&[(Heap, heap), (ThreadStack, MIB)])];
        let before = MemoryParts::of(&at(50 * MIB), 0);
        let memory = watched_memory(&at(50 * MIB), &exactly(9 * MIB), Some(OlderBlocks::Attached), &before);
        assert_eq!((memory.gap, memory.grows), (None, None));
        assert_eq!(
            memory.parts[0],
            MemoryPartRow {
                part: MemoryPart::Anonymous,
                bytes: 50 * MIB,
                low: Some(50 * MIB),
                high: Some(50 * MIB),
                grown_bytes: 0
            }
        );
        assert_eq!(memory.parts.iter().map(|row| row.bytes).sum::<u64>(), memory.rss);
        let grown = watched_memory(&at(60 * MIB), &exactly(9 * MIB), Some(OlderBlocks::Unsampled), &before);
        assert_eq!(grown.grows, Some(MemoryPart::Anonymous));
    }
}
