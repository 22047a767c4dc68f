//! The RSS of a watched program by its parts: which of them grows.

use mallow_profile::{Footprint, MappingKind};
use serde::Serialize;

/// A part that grew less than this, or less than this share of RSS, is not named.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_SHARE: u64 = 50;

/// What RSS consists of, as far as it shows without the pages of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPart {
    /// Live blocks, as sampling estimates them. Not all of them need to be in memory.
    LiveHeap,
    /// Private memory of no file that is no live block: free pages and holes that the allocator keeps, its own data, and what the
    /// program maps itself.
    OtherAnonymous,
    /// Stacks of all threads.
    Stacks,
    /// Code and data of files.
    Files,
    /// Memory shared with other processes.
    Shared,
    /// What is there because Mallow is.
    Mallow,
}

/// One part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryPartRow {
    /// Which.
    pub part: MemoryPart,
    /// Its bytes.
    pub bytes: u64,
    /// How much more that is than when the watching began; negative: less.
    pub grown_bytes: i64,
}

/// The memory of the watched processes that run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchedMemory {
    /// RSS, the sum of all processes: a page that several of them share counts in each.
    pub rss: u64,
    /// The same, with each shared page divided by the processes that have it.
    pub pss: u64,
    /// In swap.
    pub swap: u64,
    /// RSS that is no live block, by the estimate of live bytes; 0 where that is more than RSS.
    pub gap: u64,
    /// What RSS consists of. The sum is RSS, unless more is live than is in memory.
    pub parts: Vec<MemoryPartRow>,
    /// The part that grew most since the watching began; null: none grew much.
    pub grows: Option<MemoryPart>,
}

/// Bytes by part.
pub type MemoryParts = [(MemoryPart, u64); 6];

/// The parts of the memory of some processes, which have so many live bytes together.
pub fn memory_parts(footprints: &[Footprint], live_bytes: u64) -> MemoryParts {
    let of = |kinds: &[MappingKind]| {
        let mappings = footprints.iter().flat_map(|footprint| &footprint.mappings);
        let chosen = mappings.filter(|mapping| kinds.contains(&mapping.kind));
        chosen.fold(0, |sum: u64, mapping| sum.saturating_add(mapping.sizes.rss))
    };
    let anonymous = of(&[MappingKind::Heap, MappingKind::Anonymous]);
    [
        (MemoryPart::LiveHeap, live_bytes),
        (MemoryPart::OtherAnonymous, anonymous.saturating_sub(live_bytes)),
        (MemoryPart::Stacks, of(&[MappingKind::Stack, MappingKind::ThreadStack])),
        (MemoryPart::Files, of(&[MappingKind::FileText, MappingKind::FileData])),
        (MemoryPart::Shared, of(&[MappingKind::Shared])),
        (MemoryPart::Mallow, of(&[MappingKind::Mallow, MappingKind::Kernel])),
    ]
}

/// The memory of some processes now, and what of it has grown. `before`: the parts when the watching began.
pub fn watched_memory(footprints: &[Footprint], live_bytes: u64, before: &MemoryParts) -> WatchedMemory {
    let sum = |size: fn(&Footprint) -> u64| footprints.iter().map(size).fold(0, u64::saturating_add);
    let rss = sum(|footprint| footprint.totals.rss);
    let grown = |bytes: u64, before: u64| i64::try_from(i128::from(bytes) - i128::from(before)).unwrap_or(i64::MAX);
    let row = |((part, bytes), (_, before)): ((MemoryPart, u64), &(MemoryPart, u64))| MemoryPartRow {
        part,
        bytes,
        grown_bytes: grown(bytes, *before),
    };
    let parts: Vec<MemoryPartRow> = memory_parts(footprints, live_bytes).into_iter().zip(before).map(row).collect();
    let least = i64::try_from(LEAST_BYTES.max(rss / LEAST_SHARE)).unwrap_or(i64::MAX);
    let most = parts.iter().max_by_key(|row| row.grown_bytes).filter(|row| row.grown_bytes >= least);
    WatchedMemory {
        rss,
        pss: sum(|footprint| footprint.totals.pss),
        swap: sum(|footprint| footprint.totals.swap),
        gap: rss.saturating_sub(live_bytes),
        grows: most.map(|row| row.part),
        parts,
    }
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

    #[test]
    fn the_part_that_grew_most_is_named() {
        use MappingKind::*;
        let before = [footprint(&[(Heap, 10 * MIB), (Anonymous, 5 * MIB), (FileText, 3 * MIB), (ThreadStack, MIB)])];
        let before = memory_parts(&before, 9 * MIB);
        let now = [
            footprint(&[(Heap, 30 * MIB), (Anonymous, 5 * MIB), (FileText, 3 * MIB)]),
            footprint(&[(ThreadStack, MIB), (Shared, MIB), (Kernel, 4096)]),
        ];
        let memory = watched_memory(&now, 12 * MIB, &before);
        assert_eq!((memory.rss, memory.pss), (40 * MIB + 4096, 20 * MIB + 2048));
        assert_eq!(memory.gap, 28 * MIB + 4096);
        let grown: Vec<_> = memory.parts.iter().map(|row| row.grown_bytes / MIB as i64).collect();
        assert_eq!(grown, [3, 17, 0, 0, 1, 0]);
        assert_eq!(memory.parts.iter().map(|row| row.bytes).sum::<u64>(), memory.rss);
        assert_eq!(memory.grows, Some(MemoryPart::OtherAnonymous));
        assert_eq!(watched_memory(&now, 26 * MIB, &before).grows, Some(MemoryPart::LiveHeap));
        let same = memory_parts(&now, 12 * MIB);
        assert_eq!(watched_memory(&now, 12 * MIB + 4096, &same).grows, None);
        assert_eq!(watched_memory(&[], 12 * MIB, &same).gap, 0);
    }
}
