//! What of RSS the kernel treats in a way of its own: huge, shared, locked, given back, swapped.

use mallow_profile::{Footprint, Mapping, MappingFlags, MappingKind};
use serde::Serialize;

/// Memory of the program that the kernel treats in a way of its own. What Mallow has in the process is in none of it:
/// its rings may be locked by `mlockall`, and its files lie in huge pages of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptApart {
    /// Bytes in huge pages of no file and of no shared memory.
    pub huge_bytes: u64,
    /// Bytes in pages of no file that other processes have, too.
    pub shared_dirty_bytes: u64,
    /// Bytes that are locked in memory.
    pub locked_bytes: u64,
    /// Bytes that were given back with `MADV_FREE`: they stay in RSS until the kernel needs them.
    pub lazy_free_bytes: u64,
    /// Bytes in swap, which are not in RSS.
    pub swap_bytes: u64,
    /// Bytes in hugetlbfs, which are not in RSS.
    pub hugetlb_bytes: u64,
    /// Bytes of address space of mappings with `MAP_NORESERVE`, resident or not.
    pub no_reserve_bytes: u64,
}

impl KeptApart {
    /// Sums over all mappings of a footprint.
    pub fn of(footprint: &Footprint) -> Self {
        let anonymous = |kind| matches!(kind, MappingKind::Heap | MappingKind::Anonymous | MappingKind::Bss);
        // The kernel makes huge pages of files and of shared memory (`FilePmdMapped`, `ShmemPmdMapped`) by other rules.
        let of_file = |kind| matches!(kind, MappingKind::FileText | MappingKind::FileData | MappingKind::Shared);
        let sum = |of: &dyn Fn(&Mapping) -> u64| {
            let of_program = footprint.mappings.iter().filter(|mapping| mapping.kind != MappingKind::Mallow);
            of_program.fold(0u64, |sum, mapping| sum.saturating_add(of(mapping)))
        };
        Self {
            huge_bytes: sum(&|mapping| if of_file(mapping.kind) { 0 } else { mapping.sizes.huge }),
            shared_dirty_bytes: sum(&|mapping| if anonymous(mapping.kind) { mapping.sizes.shared_dirty } else { 0 }),
            locked_bytes: sum(&|mapping| mapping.sizes.locked),
            lazy_free_bytes: sum(&|mapping| mapping.sizes.lazy_free),
            swap_bytes: sum(&|mapping| mapping.sizes.swap),
            hugetlb_bytes: sum(&|mapping| mapping.sizes.hugetlb),
            no_reserve_bytes: sum(&|mapping| {
                let is_so = mapping.flags.has(MappingFlags::NO_RESERVE);
                if is_so { mapping.end.saturating_sub(mapping.start) } else { 0 }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::MemorySizes;

    use super::*;

    /// It was "2.10 MB in huge pages" of a program that had none: the kernel had given the file of an unwind table
    /// one.
    #[test]
    fn what_mallow_has_in_the_process_is_none_of_the_programs() {
        let sizes = MemorySizes {
            huge: 2 << 20,
            shared_dirty: 4096,
            locked: 4096,
            lazy_free: 4096,
            swap: 4096,
            hugetlb: 4096,
            ..MemorySizes::default()
        };
        let of = |kind| Mapping {
            start: 4096,
            end: 8192,
            kind,
            sizes,
            flags: MappingFlags(MappingFlags::NO_RESERVE),
            ..Mapping::default()
        };
        let footprint = |mappings| Footprint { mappings, ..Footprint::default() };
        assert_eq!(KeptApart::of(&footprint(vec![of(MappingKind::Mallow)])), KeptApart::default());
        let own = KeptApart::of(&footprint(vec![of(MappingKind::Mallow), of(MappingKind::Anonymous)]));
        assert_eq!((own.huge_bytes, own.locked_bytes, own.no_reserve_bytes), (2 << 20, 4096, 4096));
    }
}
