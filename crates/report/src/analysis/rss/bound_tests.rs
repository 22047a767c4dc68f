//! Remedies that are bounds: no more than what they say can be released.

use super::super::super::testing::fragmented;
use super::tests::{HEAP, Made, beside_jemalloc, glibc, mapping};
use super::{Certainty, PartKind, Remedy, RemedyKind, Rss, rss};
use mallow_profile::{Mapping, MappingFlags, MappingKind};

const PAGE: u64 = 4096;

fn remedy(report: &Rss, kind: RemedyKind) -> &Remedy {
    report.account.remedies.iter().find(|remedy| remedy.remedy == kind).expect("it is offered")
}

/// Another allocator has other free pages, caches and headers as well as other holes.
#[test]
fn another_allocator_may_spare_all_but_live_blocks() {
    let (profile, heap) = fragmented();
    let report = rss(&profile, 0, Some(&heap), 9).expect("a report");
    let parts = [PartKind::Holes, PartKind::FreePages, PartKind::Rounding, PartKind::Allocator, PartKind::ThreadCaches];
    let own =
        report.account.parts.iter().filter(|part| parts.contains(&part.part)).map(|part| part.bytes.unsigned_abs());
    let other = remedy(&report, RemedyKind::OtherAllocator);
    assert_eq!((other.certainty, other.expected_bytes), (Certainty::AtMost, own.sum()));
    assert!(other.expected_bytes > remedy(&report, RemedyKind::MallocTrim).expected_bytes);
}

/// Eight arenas of threads that ended, with as much free as their caches may have held: one arena may need more than
/// all of them.
#[test]
fn one_arena_for_what_caches_held_is_no_likely_remedy() {
    let (arena, all) = (0x7f40_0000_0000, 64 << 8);
    let arenas = |resident: u64| {
        let heap = move |n: u64| {
            let start = arena + 2 * n * all * PAGE;
            let kept = mapping(MappingKind::Anonymous, start + 300 * PAGE, all - 300, 0, "");
            let kept = Mapping { flags: MappingFlags(0), has_pages: false, ..kept };
            [mapping(MappingKind::Anonymous, start, 300, resident, ""), kept]
        };
        let first = vec![mapping(MappingKind::Heap, 0x5555_0000_0000, 10, 10, "[heap]")];
        let libc = vec![mapping(MappingKind::FileText, 0x7f00_0000_0000, 100, 40, "/usr/lib/libc.so.6")];
        let mut made =
            Made::new([first, libc, (0..8).flat_map(heap).collect()].concat(), &[(0x5555_0000_2010, 200, 0)]);
        made.profile.processes[0].own_peak_bytes = 200;
        made.report()
    };
    let many = arenas(250);
    assert_eq!(remedy(&many, RemedyKind::ArenaMax).certainty, Certainty::Likely);
    let few = arenas(60);
    let found = remedy(&few, RemedyKind::ArenaMax);
    assert_eq!(found.certainty, Certainty::AtMost);
    let free: u64 = few.account.free_pages.iter().map(|row| row.between_bytes + row.top_bytes + row.unused_bytes).sum();
    assert!(found.expected_bytes >= free, "{found:?} {free}");
}

/// A copy of jemalloc has a setting from its build, its environment or, as its thread shows, from wherever: setting it
/// again changes nothing.
#[test]
fn what_is_in_force_already_is_no_remedy() {
    let offered = |options: &str, settings: &[&str], runs: bool| {
        let mut made = beside_jemalloc();
        let inside = &mut made.profile.allocators_inside[0];
        (inside.environment, inside.options) = ("JE_MALLOC_CONF".into(), options.into());
        let footprint = &mut made.profile.footprints[0];
        footprint.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        footprint.has_background_thread = runs;
        let account = made.report().account;
        [RemedyKind::BackgroundThread, RemedyKind::Decay]
            .map(|kind| account.remedies.iter().any(|one| one.remedy == kind))
    };
    assert_eq!(offered("", &[], false), [true, true]);
    assert_eq!(offered("background_thread:true", &[], false), [false, true]);
    assert_eq!(offered("", &[], true), [false, true]);
    assert_eq!(offered("dirty_decay_ms:0,muzzy_decay_ms:0", &[], false), [true, false]);
    assert_eq!(offered("dirty_decay_ms:0,muzzy_decay_ms:0,dirty_decay_ms:500", &[], false), [true, true]);
    // The environment overrides what is compiled in.
    assert_eq!(offered("background_thread:true", &["JE_MALLOC_CONF=background_thread:false"], false), [true, true]);
    assert_eq!(offered("dirty_decay_ms:0", &["JE_MALLOC_CONF=muzzy_decay_ms:0"], false), [true, false]);
    assert_eq!(offered("", &["MALLOC_CONF=background_thread:true"], false), [true, true], "another copy's");
}

/// `malloc_trim` of a program that has locked its memory gave nothing back of 89 MB that were called sure.
#[test]
fn locked_pages_are_no_trims() {
    let mut made = Made::new(glibc(40, 40), &[(HEAP + 0x2010, 88, 0), (HEAP + 0x1_e010, 88, 1)]);
    let trim = |made: &Made| {
        let report = made.report();
        report.account.remedies.iter().find(|one| one.remedy == RemedyKind::MallocTrim).map(|one| one.expected_bytes)
    };
    assert_eq!(trim(&made), Some((1 + 27 + 9) * PAGE));
    made.profile.footprints[0].mappings[0].flags.0 |= MappingFlags::LOCKED;
    // Behind the last block the heap's end comes down, locked or not; that little is no remedy.
    assert_eq!(trim(&made), None);
}
