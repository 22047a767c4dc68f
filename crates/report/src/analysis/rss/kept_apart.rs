//! What of RSS the kernel treats in a way of its own: huge, shared, locked, given back, swapped.

use mallow_profile::{Footprint, Mapping, MappingFlags, MappingKind};
use serde::Serialize;

/// What is in RSS, and of a kind of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeptApart {
    /// In huge pages of no file and of no shared memory.
    pub huge_bytes: u64,
    /// Pages of no file that other processes have, too.
    pub shared_dirty_bytes: u64,
    /// Locked in memory.
    pub locked_bytes: u64,
    /// Given back with `MADV_FREE`: the kernel takes it when it needs to.
    pub lazy_free_bytes: u64,
    /// In swap, and not in RSS.
    pub swap_bytes: u64,
    /// In hugetlbfs, and not in RSS.
    pub hugetlb_bytes: u64,
    /// Addresses of mappings with `MAP_NORESERVE`, resident or not.
    pub no_reserve_bytes: u64,
}

impl KeptApart {
    /// That of a footprint, over all of its mappings.
    pub fn of(footprint: &Footprint) -> Self {
        let sizes = &footprint.totals;
        let anonymous = |kind| matches!(kind, MappingKind::Heap | MappingKind::Anonymous | MappingKind::Bss);
        // The kernel makes huge pages of files and of shared memory (`FilePmdMapped`, `ShmemPmdMapped`) by other rules.
        let of_file = |kind| matches!(kind, MappingKind::FileText | MappingKind::FileData | MappingKind::Shared);
        let sum = |of: &dyn Fn(&Mapping) -> u64| {
            footprint.mappings.iter().fold(0u64, |sum, mapping| sum.saturating_add(of(mapping)))
        };
        Self {
            huge_bytes: sum(&|mapping| if of_file(mapping.kind) { 0 } else { mapping.sizes.huge }),
            shared_dirty_bytes: sum(&|mapping| if anonymous(mapping.kind) { mapping.sizes.shared_dirty } else { 0 }),
            locked_bytes: sizes.locked,
            lazy_free_bytes: sizes.lazy_free,
            swap_bytes: sizes.swap,
            hugetlb_bytes: sizes.hugetlb,
            no_reserve_bytes: sum(&|mapping| {
                let counts = mapping.flags.has(MappingFlags::NO_RESERVE) && mapping.kind != MappingKind::Mallow;
                if counts { mapping.end - mapping.start } else { 0 }
            }),
        }
    }
}
