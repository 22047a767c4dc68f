//! Whose the free pages are, and what was changed for the recording.

use mallow_profile::{AllocatorKind, CustomAllocator, HeapKind, KnownHeap, MappingKind, ProcessId};

use super::tests::{HEAP, Made, glibc, mapping};
use super::{CausePlace, PartKind};

#[test]
fn a_python_without_its_arenas_is_another_program() {
    let mut made = Made::new(glibc(200, 120), &[]);
    let mut says = |executable: &str, has_arenas: bool| {
        made.profile.processes[0].executable = executable.to_owned();
        let (found, remedy) = ("Objects lie in arenas".to_owned(), String::new());
        let arenas = CustomAllocator { process: ProcessId(0), kind: AllocatorKind::Python, found, remedy };
        made.profile.custom_allocators = if has_arenas { vec![arenas] } else { Vec::new() };
        made.report().account.changed.iter().any(|sentence| sentence.contains("PYTHONMALLOC=malloc"))
    };
    assert_eq!([says("/usr/bin/python3.11", false), says("/v/bin/python", false)], [true, true]);
    assert_eq!([says("/usr/bin/python3.11", true), says("/bin/pythonic", false)], [false, false]);
}

/// 40 MB at the peak in one block, of which 1.6 MB of free pages cannot be: it was mapped, and went back to the kernel.
#[test]
fn free_pages_are_of_blocks_that_fit_into_them() {
    let mut made = Made::new(glibc(400, 400), &[]);
    for (site, (blocks, bytes)) in made.profile.sites.iter_mut().zip([(1, 40_000_000), (1000, 1_000_000), (0, 0)]) {
        (site.counts.peak, site.counts.peak_bytes) = (blocks, bytes);
    }
    let cause = made.report().account.cause.expect("a cause");
    assert_eq!(cause.part, PartKind::FreePages);
    assert_eq!(cause.place.map(|place| (place.frame.function, place.bytes)), Some(("second".to_owned(), 1_000_000)));
}

/// Without Mallow, its memory is not there: of a small program it may be the largest part.
#[test]
fn mallow_is_no_cause() {
    let of = |pages| {
        let mut mappings = glibc(20, 20);
        mappings.push(mapping(MappingKind::Mallow, 0x7f12_3400_0000, pages, pages, ""));
        Made::new(mappings, &[]).report().account.cause.map(|cause| cause.part)
    };
    assert_eq!(of(9000), of(1));
    assert_ne!(of(9000), Some(PartKind::Mallow));
}

/// What came on top up to the highest RSS is of no part: it may have made another one the largest.
#[test]
fn a_cause_is_of_what_is_divided_where_more_came_on_top_than_its_lead() {
    let of = |on_top: u64, is_highest| {
        let mut mappings = glibc(20, 20);
        mappings.push(mapping(MappingKind::Anonymous, 0x7f12_3400_0000, 500, 500, ""));
        mappings.push(mapping(MappingKind::Stack, 0x7f12_5400_0000, 400, 400, ""));
        let mut made = Made::new(mappings, &[]);
        made.profile.footprints[0].is_highest = is_highest;
        made.profile.footprints[0].peak_rss += on_top;
        made.report().account.cause.map(|cause| cause.of_divided)
    };
    assert_eq!([0, 50 * 4096, 200 * 4096].map(|bytes| of(bytes, true)), [Some(false), Some(false), Some(true)]);
    assert_eq!(of(200 * 4096, false), Some(false));
    // Or another place: the first is 200 kB above the second.
    let blocks: Vec<_> = (0..600).map(|n| (HEAP + 0x1010 + n * 10_000, 9_990, u32::from(n >= 310))).collect();
    let of = |on_top: u64| {
        let pages = (0x1010u64 + 600 * 10_000).div_ceil(4096);
        let mut made = Made::new(glibc(pages, pages), &blocks);
        made.profile.footprints[0].is_highest = true;
        made.profile.footprints[0].peak_rss += on_top;
        made.report().account.cause.map(|cause| (cause.part, cause.of_divided))
    };
    let live = |of_divided| Some((PartKind::Live, of_divided));
    assert_eq!([0, 100_000, 400_000].map(of), [live(false), live(false), live(true)]);
}

/// Of 3 bytes, glibc makes 32. The sentence about requested bytes alone names the place that takes less memory.
#[test]
fn small_blocks_can_take_more_than_those_with_most_requested_bytes() {
    let at = HEAP + 0x1010;
    let large: Vec<_> = (0..400).map(|n| (at + n * 1008, 1000, 0)).collect();
    let small: Vec<_> = (0..20_000).map(|n| (at + 400 * 1008 + n * 32, 3, 1)).collect();
    let heaviest = |small: &[(u64, u64, u32)]| {
        let pages = (0x1010 + 400 * 1008 + small.len() as u64 * 32).div_ceil(4096);
        let cause = Made::new(glibc(pages, pages), &[&large, small].concat()).report().account.cause.expect("a cause");
        let whose = |place: CausePlace| (place.frame.function, place.bytes);
        (cause.part, cause.place.map(whose), cause.heaviest.map(whose))
    };
    let place = Some(("first".to_owned(), 400_000));
    assert_eq!(heaviest(&small), (PartKind::Live, place.clone(), Some(("second".to_owned(), 640_000))));
    // The large blocks take 403 kB, and these 416 kB: less than a tenth more, and another run may have it otherwise.
    assert_eq!(heaviest(&small[..13_000]), (PartKind::Live, place.clone(), None));
    assert_eq!(heaviest(&[]), (PartKind::Live, place, None));
}

/// brk fails where another mapping lies behind the heap: glibc goes on by mmap, and 102 MB that it had free there were
/// "mapped by the program", which had mapped 4 kB.
#[test]
fn a_heap_without_room_goes_on_in_mappings() {
    let blocked = |behind: u64| {
        let mut mappings = glibc(20, 20);
        mappings.insert(1, mapping(MappingKind::Anonymous, HEAP + behind, 1, 0, ""));
        Made::new(mappings, &[]).report().account.heap_is_blocked
    };
    assert_eq!([20 << 12, 32 << 20, 1 << 30].map(blocked), [true, true, false]);
    assert!(!Made::new(glibc(20, 20), &[]).report().account.heap_is_blocked);
}

/// A dictionary that is mapped from a file lies in huge pages of the page cache: no heap keeps them.
#[test]
fn huge_pages_of_files_are_not_the_heaps() {
    let huge = |kinds: &[MappingKind]| {
        let mut made = Made::new(glibc(20, 20), &[]);
        for (at, &kind) in kinds.iter().enumerate() {
            let mut part = mapping(kind, 0x1000_0000_0000 + ((at as u64) << 30), 512, 512, "");
            part.sizes.huge = 2 << 20;
            made.profile.footprints[0].totals.huge += part.sizes.huge;
            made.profile.footprints[0].mappings.push(part);
        }
        made.report().account.kept_apart.huge_bytes
    };
    assert_eq!(huge(&[MappingKind::FileText, MappingKind::FileData, MappingKind::Shared]), 0);
    assert_eq!(huge(&[MappingKind::Anonymous, MappingKind::FileData, MappingKind::ThreadStack]), 4 << 20);
}

/// Pages that were unmapped before their heads could be read: arenas of a runtime as likely as mappings of the program.
#[test]
fn what_was_unmapped_while_it_was_read_is_not_the_programs() {
    let start = 0x1000_0000_0000;
    let arenas = mapping(MappingKind::Anonymous, start, 1000, 1000, "");
    let mut made = Made::new([vec![arenas], glibc(20, 20)].concat(), &[]);
    made.heap.heaps = Some(vec![KnownHeap {
        kind: HeapKind::Unmapped,
        start: start + (100 << 12),
        end: start + (1000 << 12),
        used: 0,
    }]);
    let account = made.report().account;
    let bytes = |kind| account.parts.iter().filter(|part| part.part == kind).map(|part| part.bytes >> 12).sum::<i64>();
    assert_eq!((bytes(PartKind::Mappings), bytes(PartKind::Unsettled)), (100, 900));
    assert_eq!(account.unmapped_bytes, 900 << 12);
    assert_eq!(account.cause.map(|cause| cause.part), Some(PartKind::Unsettled));
}
