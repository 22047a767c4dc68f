//! Allocators' geometry: what a request takes, and what one live block keeps an allocator from giving back. This is the
//! one table of it.
//!
//! | allocator | chunk of a request | given back in |
//! | --- | --- | --- |
//! | glibc | 8 bytes before the block, the sum rounded up to 16, at least 32; large ones are mappings of whole pages with 16 bytes before | pages |
//! | jemalloc | classes: multiples of 16 up to 128, then four to each power of two; from 16 KiB on pages and one more | slabs: the least common multiple of class and page |
//! | tcmalloc | classes of its own, by a rule for alignment, spans and batches; from 256 KiB on pages of 8 KiB | pages, in spans whose bounds no address shows |
//! | mimalloc | words, then four classes to each power of two; from 128 KiB on pages | slices of 64 KiB for blocks up to 16 KiB |
//!
//! Usable sizes that the process itself reported are worth more than these formulas.

use mallow_profile::overhead;
use serde::Serialize;

use super::tcmalloc;

/// Bytes of a page on every processor that Mallow runs on.
pub const PAGE: u64 = 4096;

/// Allocator that manages memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// The C library's own allocator.
    Glibc,
    /// jemalloc 4 and 5.
    Jemalloc,
    /// gperftools' tcmalloc.
    Tcmalloc,
    /// mimalloc 2.
    Mimalloc,
    /// Any other allocator.
    #[default]
    Unknown,
}

impl Allocator {
    /// None for an unknown allocator.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Glibc => Some("glibc"),
            Self::Jemalloc => Some("jemalloc"),
            Self::Tcmalloc => Some("tcmalloc"),
            Self::Mimalloc => Some("mimalloc"),
            Self::Unknown => None,
        }
    }

    /// The allocator of a library, by the name of its file; None for any other file.
    pub fn of_library(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let has = |word: &str| name.strip_prefix("lib").unwrap_or(name).starts_with(word);
        match () {
            () if has("jemalloc") => Some(Self::Jemalloc),
            () if has("tcmalloc") => Some(Self::Tcmalloc),
            () if has("mimalloc") => Some(Self::Mimalloc),
            () if ["snmalloc", "scudo", "hoard", "rpmalloc", "lockless"].iter().any(|name| has(name)) => {
                Some(Self::Unknown)
            }
            () => None,
        }
    }

    /// [`Self::Unknown`] for any other name.
    pub fn of_name(name: &str) -> Self {
        let all = [Self::Glibc, Self::Jemalloc, Self::Tcmalloc, Self::Mimalloc];
        all.into_iter().find(|allocator| allocator.name() == Some(name)).unwrap_or_default()
    }

    /// The usable size of a request by the allocator's formula; None where there is none. A chunk of glibc may be 16
    /// bytes larger, where less than a whole chunk would have been left over.
    pub fn usable(self, requested: u64) -> Option<u64> {
        match self {
            Self::Glibc => glibc_chunk(requested).map(|chunk| chunk - 8),
            Self::Jemalloc => jemalloc_class(requested),
            Self::Tcmalloc => tcmalloc::class(requested),
            Self::Mimalloc => mimalloc_class(requested),
            Self::Unknown => None,
        }
    }
}

/// Addresses of a block and of the allocator's bytes around it. Ends are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Beginning of the allocator's own bytes before the block.
    pub start: u64,
    pub block: u64,
    pub requested_end: u64,
    pub usable_end: u64,
    /// End of the allocator's own bytes behind the block.
    pub end: u64,
    /// Range that cannot be given back while the block lives, where that is more than its pages.
    pub slab: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMemory {
    Heap,
    /// A mapping that has this block alone: only glibc's are known as such.
    OwnMapping,
}

/// `usable` is the block's usable size, where something better than the formula has it. None if the chunk would reach
/// beyond the last address.
pub fn chunk(
    allocator: Allocator,
    place: BlockMemory,
    address: u64,
    requested: u64,
    usable: Option<u64>,
) -> Option<Chunk> {
    let requested_end = address.checked_add(requested)?;
    let usable = usable.or_else(|| allocator.usable(requested)).unwrap_or(requested).max(requested);
    let mut usable_end = address.checked_add(usable)?;
    let (mut start, mut end) = (address, usable_end);
    match (allocator, place) {
        (Allocator::Glibc, BlockMemory::OwnMapping) => {
            // The size stands before the block, and what was asked for an alignment before that.
            start = page_of(address.saturating_sub(16));
            usable_end = page_after(requested_end)?;
            end = usable_end;
        }
        (Allocator::Glibc, BlockMemory::Heap) => start = address.saturating_sub(8),
        // A page more, so that large blocks do not all begin at the same lines of a cache.
        (Allocator::Jemalloc, _) if usable >= JEMALLOC_LARGE => {
            start = page_of(address);
            end = start.checked_add(usable)?.checked_add(PAGE)?.max(usable_end);
        }
        _ => {}
    }
    let slab = slab(allocator, address, usable).filter(|slab| slab.0 <= start && end <= slab.1);
    Some(Chunk { start, block: address, requested_end, usable_end, end, slab })
}

/// The range that a small block of this usable size keeps from being given back, where its address shows it.
fn slab(allocator: Allocator, address: u64, usable: u64) -> Option<(u64, u64)> {
    match allocator {
        Allocator::Jemalloc if usable < JEMALLOC_LARGE => {
            let class = usable.max(8);
            let slab = class / gcd(class, PAGE) * PAGE;
            // A slab begins at a page and holds blocks of one class: of its places, one alone has this offset within a
            // page.
            let index = (0..slab / class).find(|index| index * class % PAGE == address % PAGE)?;
            let start = address.checked_sub(index * class)?;
            Some((start, start.checked_add(slab)?))
        }
        Allocator::Mimalloc if usable <= MIMALLOC_SMALL => {
            let start = address & !(MIMALLOC_SLICE - 1);
            Some((start, start.checked_add(MIMALLOC_SLICE)?))
        }
        _ => None,
    }
}

/// The beginning of the page that an address is in.
pub fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// The first page that begins at an address or after it; None beyond the last one.
pub fn page_after(address: u64) -> Option<u64> {
    address.checked_add(PAGE - 1).map(page_of)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn round_up(n: u64, to: u64) -> Option<u64> {
    n.checked_add(to - 1).map(|n| n & !(to - 1))
}

/// Bytes that a request takes in glibc's heap, with the 8 before it; None where the sum overflows.
fn glibc_chunk(requested: u64) -> Option<u64> {
    requested.checked_add(overhead(requested))
}

/// Size, in bytes, from which on a request has slabs of its own in jemalloc.
pub const JEMALLOC_LARGE: u64 = 16 << 10;

fn jemalloc_class(requested: u64) -> Option<u64> {
    match requested {
        0..=8 => Some(8),
        9..=128 => round_up(requested, 16),
        _ => four_to_a_power(requested),
    }
}

/// The first of 2^n, 2^n + 2^(n-2), … that is not smaller; None where it overflows.
fn four_to_a_power(requested: u64) -> Option<u64> {
    let below = 1u64 << (requested - 1).checked_ilog2()?;
    round_up(requested, (below / 4).max(1))
}

const MIMALLOC_SLICE: u64 = 64 << 10;
const MIMALLOC_SMALL: u64 = 16 << 10;
const MIMALLOC_MEDIUM: u64 = 128 << 10;

fn mimalloc_class(requested: u64) -> Option<u64> {
    match requested {
        0..=8 => Some(8),
        9..=128 => round_up(requested, 16),
        _ if requested <= MIMALLOC_MEDIUM => four_to_a_power(requested),
        _ => round_up(requested, PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_sizes_are_those_that_the_allocators_document() {
        let of = |allocator: Allocator, sizes: &[u64]| sizes.iter().map(|&n| allocator.usable(n)).collect::<Vec<_>>();
        let some = |sizes: &[u64]| sizes.iter().map(|&n| Some(n)).collect::<Vec<_>>();
        assert_eq!(
            of(Allocator::Glibc, &[0, 1, 24, 25, 40, 41, 1000, 100_000]),
            some(&[24, 24, 24, 40, 40, 56, 1000, 100_008])
        );
        let sizes = [1, 8, 9, 17, 128, 129, 161, 257, 1025, 14_337, 16_385, 20_481, 4_194_305];
        let classes = [8, 8, 16, 32, 128, 160, 192, 320, 1280, 16_384, 20_480, 24_576, 5_242_880];
        assert_eq!(of(Allocator::Jemalloc, &sizes), some(&classes));
        assert_eq!(of(Allocator::Mimalloc, &[1, 9, 100, 300, 131_073]), some(&[8, 16, 112, 320, 135_168]));
        assert_eq!(of(Allocator::Unknown, &[5]), [None]);
        for allocator in [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc, Allocator::Tcmalloc] {
            let mut last = 0;
            for size in 0..300_000 {
                let usable = allocator.usable(size).expect("a class");
                assert!(usable >= size && usable >= last, "{allocator:?} {size} {usable}");
                assert!(allocator.usable(usable) == Some(usable), "{allocator:?}: {usable} is a class");
                last = usable;
            }
            let _ = allocator.usable(u64::MAX);
        }
    }

    #[test]
    fn libraries_are_known_by_their_files() {
        for (path, allocator) in [
            ("/usr/lib/libjemalloc.so.2", Some(Allocator::Jemalloc)),
            ("/opt/libtcmalloc_minimal.so.4.5.10", Some(Allocator::Tcmalloc)),
            ("libmimalloc.so.2.0", Some(Allocator::Mimalloc)),
            ("/usr/lib/libsnmallocshim.so", Some(Allocator::Unknown)),
            ("/usr/lib/libc.so.6", None),
            ("", None),
        ] {
            assert_eq!(Allocator::of_library(path), allocator, "{path}");
        }
        assert_eq!(Allocator::of_name("jemalloc"), Allocator::Jemalloc);
        assert_eq!(Allocator::of_name("Rust's global allocator"), Allocator::Unknown);
    }

    #[test]
    fn a_block_of_glibc_owns_its_size_field_and_what_is_left_of_16() {
        let found = chunk(Allocator::Glibc, BlockMemory::Heap, 0x1010, 30, None).expect("a chunk");
        assert_eq!((found.start, found.requested_end, found.usable_end, found.end), (0x1008, 0x102e, 0x1038, 0x1038));
        assert_eq!(found.slab, None);
        let mapped = chunk(Allocator::Glibc, BlockMemory::OwnMapping, 0x7000_0010, 200_000, None).expect("a chunk");
        assert_eq!((mapped.start, mapped.end), (0x7000_0000, 0x7000_0000 + 49 * PAGE));
        assert_eq!(chunk(Allocator::Glibc, BlockMemory::Heap, 0x1010, u64::MAX, None), None);
    }

    /// 80-byte blocks of jemalloc lie in slabs of five pages: 256 of them.
    #[test]
    fn a_block_of_jemalloc_pins_its_slab() {
        let slab = 0x7f00_0001_3000;
        for index in 0..256 {
            let found = chunk(Allocator::Jemalloc, BlockMemory::Heap, slab + 80 * index, 73, None).expect("a chunk");
            assert_eq!(found.slab, Some((slab, slab + 5 * PAGE)), "block {index}");
        }
        let large = chunk(Allocator::Jemalloc, BlockMemory::Heap, slab + 0x340, 30_000, None).expect("a chunk");
        assert_eq!((large.start, large.end), (slab, slab + 9 * PAGE));
        // An address where no block of its class can lie.
        let odd = chunk(Allocator::Jemalloc, BlockMemory::Heap, slab + 1, 100, None).expect("a chunk");
        assert_eq!(odd.slab, None);
    }
}
