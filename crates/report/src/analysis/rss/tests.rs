//! Footprints made up by hand, and any that a file may say.

use mallow_profile::{
    AddressRange, CachedBlock, Footprint, HeapMap, Mapping, MappingFlags, MappingKind, MemorySizes, PageRun, PageState,
    PlacedBlock, Profile, SizeClasses, ThreadCaches,
};
use proptest::prelude::*;

use super::{Certainty, PartKind, RemedyKind, Rss, RssMoment, RssNote, TerritoryKind, page_map, rss, shown_footprint};
use crate::testing::{Builder, blocks};

const PAGE: u64 = 4096;
pub(super) const HEAP: u64 = 0x5555_0000_0000;
const WRITABLE: MappingFlags = MappingFlags(MappingFlags::READ | MappingFlags::WRITE);

/// Of mappings: kind, first page, pages, name; whose pages of these runs are in memory.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) profile: Profile,
    pub(super) heap: HeapMap,
}

pub(super) fn mapping(kind: MappingKind, start: u64, pages: u64, rss: u64, name: &str) -> Mapping {
    let sizes = MemorySizes { size: pages * PAGE, rss: rss * PAGE, pss: rss * PAGE, ..MemorySizes::default() };
    let has_pages = matches!(kind, MappingKind::Heap | MappingKind::Anonymous | MappingKind::ThreadStack);
    Mapping { start, end: start + pages * PAGE, kind, flags: WRITABLE, name: name.into(), sizes, has_pages }
}

impl Made {
    /// A process with these mappings, so many pages of them in memory from their beginning, and blocks of sites 0 to 2.
    pub(super) fn new(mappings: Vec<Mapping>, blocks_at: &[(u64, u64, u32)]) -> Self {
        let mut b = Builder::default();
        let process = b.process(7, &["a"], 100);
        for function in ["first@a.c:1", "second@a.c:2", "third@a.c:3"] {
            b.site(process, &[function, "main@a.c:9"], blocks(1, 8, 0, 0));
        }
        let totals = mappings.iter().fold(MemorySizes::default(), |mut sum, mapping| {
            sum.rss += mapping.sizes.rss;
            sum.pss += mapping.sizes.pss;
            sum
        });
        let pages = mappings.iter().filter(|m| m.has_pages && m.sizes.rss > 0).map(|m| PageRun {
            start: m.start,
            pages: m.sizes.rss / PAGE,
            state: PageState(PageState::RESIDENT),
        });
        let heap = HeapMap {
            pages: pages.collect(),
            blocks: blocks_at.iter().map(|&(address, size, site)| PlacedBlock { address, size, site }).collect(),
            caches: ThreadCaches::default(),
            ..HeapMap::default()
        };
        b.profile.footprints = vec![Footprint {
            ms: 50,
            is_highest: true,
            is_last: true,
            is_at_exit: true,
            peak_rss: totals.rss,
            page_bytes: PAGE as u32,
            totals,
            mappings,
            live_blocks: blocks_at.len() as u64,
            live_bytes: blocks_at.iter().map(|(_, size, _)| size).sum(),
            ..Footprint::default()
        }];
        Self { profile: b.profile, heap }
    }

    pub(super) fn report(&self) -> Rss {
        rss(&self.profile, 0, Some(&self.heap), usize::MAX).expect("a report")
    }
}

fn bytes_of(report: &Rss, part: PartKind) -> i64 {
    report.account.parts.iter().filter(|one| one.part == part).map(|one| one.bytes).sum()
}

/// Of each allocator that has any, its bytes of a part.
fn by_allocator(report: &Rss, part: PartKind) -> Vec<(&'static str, Option<&str>, i64)> {
    let own = report.account.parts.iter().filter(|one| one.part == part);
    own.map(|one| (one.allocator.unwrap_or_default(), one.module.as_deref(), one.bytes)).collect()
}

pub(super) fn glibc(heap_pages: u64, resident: u64) -> Vec<Mapping> {
    let libc = 0x7f00_0000_0000;
    vec![
        mapping(MappingKind::Heap, HEAP, heap_pages, resident, "[heap]"),
        mapping(MappingKind::FileText, libc, 100, 40, "/usr/lib/libc.so.6"),
        mapping(MappingKind::FileData, libc + 100 * PAGE, 4, 2, "/usr/lib/libc.so.6"),
        mapping(MappingKind::Stack, 0x7fff_0000_0000, 30, 3, "[stack]"),
    ]
}

/// Blocks of 1000 bytes, in chunks of 1008, each other one freed; behind them half of the heap's pages are in memory.
#[test]
fn each_byte_of_a_heap_has_a_part() {
    let first = HEAP + 0x1010;
    let live: Vec<_> = (0..400).step_by(2).map(|n| (first + n * 1008, 1000, (n / 200) as u32)).collect();
    let made = Made::new(glibc(200, 120), &live);
    let report = made.report();
    let account = &report.account;
    assert_eq!(account.allocator, Some("glibc"));
    assert_eq!(bytes_of(&report, PartKind::Live), 200_000);
    // 1000 bytes and the 8 of the size are 1008.
    assert_eq!(bytes_of(&report, PartKind::Rounding), 0);
    assert_eq!(bytes_of(&report, PartKind::Allocator), 200 * 8 + 0x2a0);
    // The last live block ends at 399 chunks of 1008 bytes behind the first: pages 1 to 99, and the first one with the
    // cache.
    let end = 0x1010 + 399 * 1008 - 8;
    let pages = u64::div_ceil(end, PAGE);
    let holes = pages * PAGE - 200 * 1008 - 0x2a0;
    assert_eq!(bytes_of(&report, PartKind::Holes), holes as i64);
    assert_eq!(bytes_of(&report, PartKind::FreePages), ((120 - pages) * PAGE) as i64);
    for (part, pages) in [(PartKind::Text, 40), (PartKind::Data, 2), (PartKind::Stacks, 3)] {
        assert_eq!(bytes_of(&report, part), pages * PAGE as i64);
    }
    assert_eq!(bytes_of(&report, PartKind::Unsettled), 0);
    assert_eq!(account.parts.iter().map(|part| part.bytes).sum::<i64>(), account.rss as i64);
    // Two places of a hundred blocks: their holes are all, but for those of the first page, which is the allocator's
    // own.
    let shares: u64 = account.places.iter().map(|place| place.totals.holes_bytes).sum();
    assert_eq!(shares, holes - (PAGE - 0x2a0));
    assert_eq!(account.places.iter().map(|place| place.totals.live).collect::<Vec<_>>(), [100, 100]);
    let page_of_both = 1;
    assert!(account.places.iter().all(|place| place.pinned_pages.abs_diff(50) <= page_of_both));
    let trim = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MallocTrim).expect("it helps");
    // As few pages may all be pinned by what the thread's cache holds.
    let expected = (120 - pages) * PAGE;
    assert_eq!((trim.expected_bytes, trim.least_bytes, trim.certainty), (expected, 0, Certainty::Likely));
    let pool = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::Pool).expect("it helps");
    assert_eq!(pool.expected_bytes, shares);
    assert_eq!(pool.places.iter().map(|frame| frame.function.as_str()).collect::<Vec<_>>(), ["second", "first"]);
    assert_eq!(account.limits, [RssNote::UnknownCaches]);
}

/// What a thread keeps pins its pages for `malloc_trim`, and is no hole; a block that was given out meanwhile is live.
#[test]
fn what_a_thread_keeps_is_no_hole() {
    let mut made = Made::new(glibc(40, 40), &[(HEAP + 0x2010, 88, 0), (HEAP + 0x1_e010, 88, 1)]);
    let without = made.report();
    assert!(without.account.limits.contains(&RssNote::UnknownCaches));
    let cached = |(address, size)| CachedBlock { address: HEAP + address, size };
    // In a live block's page, in two pages of its own, at a live block's address, and outside of all arenas.
    let blocks = [(0x2110, 1000), (0x5f10, 1000), (0x1_e010, 88), (0x9000_0010, 24)].map(cached);
    made.heap.caches = ThreadCaches { caches: 1, is_complete: true, blocks: blocks.to_vec() };
    let report = made.report();
    let change = |part| bytes_of(&report, part) - bytes_of(&without, part);
    assert_eq!(bytes_of(&report, PartKind::ThreadCaches), 2 * 1008);
    assert_eq!((change(PartKind::Holes), change(PartKind::FreePages)), (-1008, -1008));
    assert_eq!(change(PartKind::Live), 0);
    let free = &report.account.free_pages[0];
    assert_eq!((free.beside_cached_bytes, free.between_bytes), (2 * PAGE - 1008, (1 + 27 - 2) * PAGE));
    let trim = |report: &Rss| {
        let all = &report.account.remedies;
        all.iter().find(|one| one.remedy == RemedyKind::MallocTrim).map(|one| (one.expected_bytes, one.certainty))
    };
    // A page before the live blocks, 27 between them, and 9 behind: two less.
    assert_eq!(trim(&without), Some(((1 + 27 + 9) * PAGE, Certainty::Likely)));
    assert_eq!(trim(&report), Some(((1 + 25 + 9) * PAGE, Certainty::Sure)));
    assert!(!report.account.limits.contains(&RssNote::UnknownCaches));
    let pinned = &report.account.places[1];
    assert_eq!(
        (pinned.totals.holes_bytes, pinned.alone_bytes),
        (PAGE - 96 - 1008, 0),
        "its page has another one's block"
    );
}

/// A page with two sites is given back for neither alone.
#[test]
fn pages_of_two_sites_are_released_together() {
    let mut live = vec![(HEAP + 0x1010, 88, 0), (HEAP + 0x1800, 88, 1)];
    live.extend([(HEAP + 0x2010, 88, 0), (HEAP + 0x3010, 184, 1)]);
    let report = Made::new(glibc(4, 4), &live).report();
    let alone: Vec<_> =
        report.account.places.iter().map(|place| (place.totals.live_bytes, place.alone_bytes)).collect();
    assert_eq!(alone, [(176, PAGE - 96), (272, PAGE - 192)]);
    let holes: u64 = report.account.places.iter().map(|place| place.totals.holes_bytes).sum();
    assert_eq!(holes, 3 * PAGE - 192 * 2 - 96);
    // In the page of both, each has chunks of 96 bytes: half of what is free.
    let shares: Vec<_> = report.account.places.iter().map(|place| place.totals.holes_bytes).collect();
    assert_eq!(shares, [(PAGE - 96) + (PAGE - 192) / 2, (PAGE - 192) + (PAGE - 192) / 2]);
    let pool = report.account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::Pool);
    assert!(pool.is_none(), "less than 16 pages are not worth it");
}

#[test]
fn what_was_never_touched_or_is_in_swap_is_below_zero() {
    let at = 0x7f12_3400_0000;
    let mappings = [glibc(4, 1), vec![mapping(MappingKind::Anonymous, at, 100, 10, "")]].concat();
    let mut made = Made::new(mappings, &[(at + 16, 99 * PAGE, 2)]);
    made.heap.pages.push(PageRun { start: at + 50 * PAGE, pages: 5, state: PageState(PageState::SWAPPED) });
    let report = made.report();
    let part = |part| bytes_of(&report, part) / PAGE as i64;
    assert_eq!((part(PartKind::Live), part(PartKind::NeverTouched), part(PartKind::Swapped)), (99, -85, -5));
    assert_eq!(bytes_of(&report, PartKind::Allocator), 16 + 0x2a0);
    assert_eq!(bytes_of(&report, PartKind::Rounding), PAGE as i64 - 16);
    // 100 pages were requested, and 10 are in memory: fewer than the code has.
    assert_eq!(report.account.cause.as_ref().map(|cause| cause.part), Some(PartKind::Text));
    assert_eq!(bytes_of(&report, PartKind::Unsettled), 0);
}

/// A file's data that is in no file lies behind it, and is no mapping of the program's; a block may lie where no pages
/// were read.
#[test]
fn data_in_no_file_is_data_and_blocks_may_lie_elsewhere() {
    let behind = 0x7f00_0000_0000 + 104 * PAGE;
    let mappings = [glibc(4, 4), vec![mapping(MappingKind::Anonymous, behind, 5, 3, "")]].concat();
    let mut made = Made::new(mappings, &[(HEAP + 0x1010, 88, 0), (0x7f80_0000_0010, 5000, 1)]);
    made.profile.footprints[0].mappings.sort_by_key(|mapping| mapping.start);
    let report = made.report();
    assert_eq!((bytes_of(&report, PartKind::Data), bytes_of(&report, PartKind::Mappings)), (5 * PAGE as i64, 0));
    assert_eq!((bytes_of(&report, PartKind::Live), report.account.elsewhere_bytes), (88, 5000));
    assert_eq!(bytes_of(&report, PartKind::Unsettled), 0);
    let data = report.account.parts.iter().find(|part| part.part == PartKind::Data).expect("data");
    assert_eq!(
        (data.mapping.as_deref(), data.file_bytes, data.bss_bytes),
        (Some("/usr/lib/libc.so.6"), Some(5 * PAGE), Some(3 * PAGE))
    );
}

/// An allocator inside of the program manages its blocks; the C library has its heap beside it.
#[test]
fn an_allocator_inside_of_the_program_has_the_blocks() {
    let at = 0x7f40_0020_0000;
    let mappings = [glibc(4, 4), vec![mapping(MappingKind::Anonymous, at, 30, 30, "")]].concat();
    let mut made = Made::new(mappings, &[(at + 96, 40, 0)]);
    made.profile.footprints[0].mappings.sort_by_key(|mapping| mapping.start);
    made.heap.pages.sort_by_key(|run| run.start);
    made.profile.processes[0].executable = "/bin/a".into();
    let inside = |program: &str| mallow_profile::AllocatorInside {
        program: program.into(),
        module: program.into(),
        name: "jemalloc".into(),
        functions: 3,
        ..Default::default()
    };
    made.profile.allocators_inside = vec![inside("/bin/b")];
    assert_eq!(made.report().account.allocator, Some("glibc"));
    made.profile.allocators_inside.push(inside("/bin/a"));
    let report = made.report();
    assert_eq!(report.account.allocator, Some("jemalloc"));
    assert_eq!(bytes_of(&report, PartKind::Holes), 3 * PAGE as i64 - 48 + (PAGE as i64 - 0x2a0));
}

/// Two arenas of threads: one with a block, one that has none any more.
#[test]
fn arenas_keep_their_pages() {
    let arena = 0x7f40_0000_0000;
    let kept = |start, pages| Mapping {
        flags: MappingFlags(0),
        has_pages: false,
        ..mapping(MappingKind::Anonymous, start, pages, 0, "")
    };
    let all = 64 << 8;
    let mappings = [
        vec![mapping(MappingKind::Heap, HEAP, 10, 10, "[heap]")],
        glibc(1, 1).split_off(1),
        vec![
            mapping(MappingKind::Anonymous, arena, 500, 400, ""),
            kept(arena + 500 * PAGE, all - 500),
            mapping(MappingKind::Anonymous, arena + 2 * all * PAGE, 300, 300, ""),
            kept(arena + (2 * all + 300) * PAGE, all - 300),
            mapping(MappingKind::Anonymous, arena + 9 * all * PAGE, 70, 70, ""),
        ],
    ];
    let mut mappings = mappings.concat();
    mappings.sort_by_key(|mapping| mapping.start);
    let mut made = Made::new(mappings, &[(HEAP + 0x2010, 100, 0), (arena + 0x5010, 100, 1)]);
    made.profile.processes[0].own_peak_bytes = 200;
    let report = made.report();
    let free: Vec<_> = report.account.free_pages.iter().map(|row| (row.arena, row.arenas)).collect();
    assert_eq!(free, [(TerritoryKind::MainArena, 1), (TerritoryKind::ThreadArena, 2)]);
    let threads = &report.account.free_pages[1];
    assert_eq!((threads.top_bytes / PAGE, threads.unused_bytes / PAGE), (394, 299));
    assert_eq!(bytes_of(&report, PartKind::Mappings), 70 * PAGE as i64);
    let first = &report.account.remedies[0];
    assert_eq!((first.remedy, first.setting.as_deref()), (RemedyKind::ArenaMax, Some("MALLOC_ARENA_MAX=1")));
    assert!(first.expected_bytes.abs_diff(697 * PAGE) <= 6 * PAGE, "{first:?}");
    made.profile.processes[0].forked = true;
    assert!(made.report().account.remedies.is_empty());
}

/// 48-byte blocks of jemalloc lie in slabs of three pages: 256 of them. One survivor keeps its slab.
#[test]
fn slabs_are_given_back_whole() {
    let at = 0x7f40_0020_0000;
    let jemalloc = mapping(MappingKind::FileText, 0x7f00_0000_0000, 1, 1, "/usr/lib/libjemalloc.so.2");
    let mappings = vec![jemalloc, mapping(MappingKind::Anonymous, at, 30, 30, "")];
    let made =
        Made::new(mappings, &[(at + 96, 40, 0), (at + 12 * PAGE + 48, 40, 1), (at + 16 * PAGE + 0x40, 30_000, 2)]);
    let report = made.report();
    assert_eq!(report.account.allocator, Some("jemalloc"));
    assert_eq!(bytes_of(&report, PartKind::Holes), (6 * PAGE - 96) as i64);
    assert_eq!(bytes_of(&report, PartKind::Rounding), 16 + 32_768 - 30_000);
    assert_eq!(bytes_of(&report, PartKind::FreePages), (30 - 6 - 9) * PAGE as i64);
    assert!(report.account.limits.contains(&RssNote::UnknownMetadata));
    assert_eq!(bytes_of(&report, PartKind::Unsettled), 0);
}

/// jemalloc's tables lie among its blocks, or alone in a mapping; what of them is in memory is its own.
#[test]
fn tables_are_the_allocators_own() {
    let at = 0x7f40_0020_0000;
    let mappings = vec![
        mapping(MappingKind::FileText, 0x7f00_0000_0000, 1, 1, "/usr/lib/libjemalloc.so.2"),
        mapping(MappingKind::Anonymous, at, 30, 20, ""),
        mapping(MappingKind::Anonymous, at + 100 * PAGE, 30, 5, ""),
    ];
    let mut made = Made::new(mappings, &[(at + 4 * PAGE, PAGE, 0), (at + 18 * PAGE, PAGE, 1)]);
    let range = |first, last| AddressRange { start: at + first * PAGE, end: at + last * PAGE };
    // The third one reaches into a block's page: the block is live.
    made.heap.tables = vec![range(0, 2), range(8, 10), range(16, 30), range(100, 130)];
    let report = made.report();
    assert_eq!(bytes_of(&report, PartKind::Allocator), (2 + 2 + 2 + 5) * PAGE as i64);
    assert_eq!(bytes_of(&report, PartKind::FreePages), (20 - 6 - 2) * PAGE as i64);
    assert_eq!((bytes_of(&report, PartKind::Mappings), bytes_of(&report, PartKind::NeverTouched)), (0, 0));
    assert!(!report.account.limits.contains(&RssNote::UnknownMetadata));
    made.heap.tables.clear();
    assert_eq!(bytes_of(&made.report(), PartKind::Mappings), 5 * PAGE as i64);
}

/// jemalloc is there, and takes no memory from brk; tcmalloc does.
#[test]
fn blocks_in_glibcs_heap_are_glibcs() {
    let library = |name: &str| mapping(MappingKind::FileText, 0x7f00_0000_0000, 1, 1, name);
    let made = |name| {
        let mut made = Made::new([glibc(9, 9), vec![library(name)]].concat(), &[(HEAP + 0x2010, 100, 0)]);
        made.profile.footprints[0].mappings.sort_by_key(|mapping| mapping.start);
        made
    };
    assert_eq!(made("/usr/lib/libjemalloc.so.2").report().account.allocator, Some("glibc"));
    let mut of_tcmalloc = made("/usr/lib/libtcmalloc.so.4");
    assert_eq!(of_tcmalloc.report().account.allocator, Some("tcmalloc"));
    // A thread's cache begins the heap: it is the C library's.
    of_tcmalloc.heap.caches.caches = 1;
    assert_eq!(of_tcmalloc.report().account.allocator, Some("glibc"));
}

/// Of a module that polars, duckdb or pyarrow has, and of the program: whose its jemalloc is.
pub(super) fn beside_jemalloc() -> Made {
    const MODULE: &str = "/lib/libarrow.so";
    let (own, at) = (0x7f40_0000_0000 + 5 * PAGE, 0x7f60_0020_0000);
    let mappings = [
        glibc(400, 400),
        vec![
            mapping(MappingKind::Anonymous, own, 40, 40, ""),
            mapping(MappingKind::Anonymous, at, 30, 30, ""),
            mapping(MappingKind::Anonymous, at + 100 * PAGE, 10, 10, ""),
        ],
    ];
    let blocks = [(HEAP + 0x2010, 100, 1), (own + 16, 30 * PAGE, 3), (at + 96, 40, 3), (at + 9 * PAGE, 5000, 3)];
    let mut made = Made::new(mappings.concat(), &blocks);
    let profile = &mut made.profile;
    profile.footprints[0].mappings.sort_by_key(|mapping| mapping.start);
    made.heap.pages.sort_by_key(|run| run.start);
    profile.processes[0].executable = "/bin/python".into();
    // A site of the module's, beside those of the program.
    let stack = profile.sites[2].stack;
    let (frame, parent) = profile.stacks.top(stack).expect("a frame");
    let module = mallow_profile::ModuleId(profile.modules.len() as u32);
    let file = profile.modules[0].clone();
    profile.modules.push(mallow_profile::Module { path: MODULE.into(), ..file });
    let inside = mallow_profile::FrameId(profile.frames.len() as u32);
    let frame = profile.frames[frame.0 as usize].clone();
    profile.frames.push(mallow_profile::Frame { module: Some(module), ..frame });
    let stack = profile.stacks.push(parent, inside);
    let site = mallow_profile::Site { stack, ..profile.sites[2].clone() };
    profile.sites.push(site);
    profile.allocators_inside = vec![mallow_profile::AllocatorInside {
        program: "/bin/python".into(),
        module: MODULE.into(),
        name: "jemalloc".into(),
        functions: 3,
        ..Default::default()
    }];
    made
}

/// Each free page is the allocator's in whose memory it lies, and what gives pages back reaches that one alone.
#[test]
fn each_free_page_is_its_own_allocators() {
    let report = beside_jemalloc().report();
    let free = by_allocator(&report, PartKind::FreePages);
    let pages = |pages: u64| (pages * PAGE) as i64;
    // Blocks of 48 bytes lie in slabs of three pages, those of 5120 in slabs of five.
    assert_eq!(free, [("glibc", None, pages(400 - 2)), ("jemalloc", Some("/lib/libarrow.so"), pages(30 - 3 - 5))]);
    assert_eq!(bytes_of(&report, PartKind::Mappings), pages(10 + 40 - 31), "nobody's, and what follows glibc's block");
    assert_eq!(bytes_of(&report, PartKind::NeverTouched), 0);
    assert_eq!((report.account.allocator, report.account.allocators.len()), (Some("glibc"), 2));
    let cause = report.account.cause.as_ref().expect("a cause");
    assert_eq!((cause.part, cause.allocator), (PartKind::FreePages, Some("glibc")));
    let settings: Vec<_> = report.account.remedies.iter().filter_map(|one| one.setting.as_deref()).collect();
    assert!(settings.contains(&"malloc_trim(0)"), "{settings:?}");
    assert!(!settings.iter().any(|setting| setting.contains("MALLOC_CONF")), "no variable of this copy is known");
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let mappings = vec![mapping(MappingKind::Anonymous, HEAP, 30, 30, "")];
    let mut made = Made::new(mappings, &[(HEAP + 96, 100, 0)]);
    let report = made.report();
    assert_eq!((report.account.allocator, bytes_of(&report, PartKind::Rounding)), (None, 0));
    assert_eq!(bytes_of(&report, PartKind::HolesAndRounding), PAGE as i64 - 100);
    assert!(report.account.limits.contains(&RssNote::UnknownSizeClasses));
    made.profile.size_classes = vec![SizeClasses { process: mallow_profile::ProcessId(0), usable: vec![64, 128] }];
    let report = made.report();
    assert_eq!((bytes_of(&report, PartKind::Rounding), bytes_of(&report, PartKind::Holes)), (28, PAGE as i64 - 128));
    made.profile.processes[0].forked = true;
    let report = made.report();
    assert_eq!(bytes_of(&report, PartKind::OlderOrFree), 30 * PAGE as i64 - 128);
    assert!(report.account.remedies.is_empty());
    made.profile.footprints[0].gap = Some("the process was gone".into());
    let report = rss(&made.profile, 0, None, 9).expect("a report");
    assert_eq!(bytes_of(&report, PartKind::Undivided), 30 * PAGE as i64);
    assert_eq!(report.account.limits, [RssNote::NoPages]);
}

/// A process whose memory changed between two readings: what is left is shown as that.
#[test]
fn a_difference_between_two_readings_is_a_part() {
    let mut made = Made::new(glibc(10, 10), &[(HEAP + 0x1010, 100, 0)]);
    made.heap.pages[0].pages = 8;
    let report = made.report();
    assert_eq!(bytes_of(&report, PartKind::Unsettled), 2 * PAGE as i64);
    assert_eq!(report.account.parts.iter().map(|part| part.bytes).sum::<i64>(), report.account.rss as i64);
}

#[test]
fn the_footprint_that_is_shown_is_the_highest_unless_another_is_asked_for() {
    let mut made = Made::new(glibc(10, 10), &[]);
    let second = made.profile.processes[0].clone();
    made.profile.processes.push(second);
    let footprint = |process, ms, rss, is_highest, is_last| {
        let totals = MemorySizes { rss, ..MemorySizes::default() };
        Footprint {
            process: mallow_profile::ProcessId(process),
            ms,
            totals,
            is_highest,
            is_last,
            ..Footprint::default()
        }
    };
    made.profile.footprints =
        vec![footprint(0, 10, 100, true, false), footprint(0, 90, 50, false, true), footprint(1, 20, 300, true, true)];
    let shown = |process, at| shown_footprint(&made.profile, process, at);
    assert_eq!(shown(None, RssMoment::Highest), Some(2));
    assert_eq!(shown(Some(0), RssMoment::Highest), Some(0));
    assert_eq!(shown(Some(0), RssMoment::End), Some(1));
    assert_eq!([shown(Some(0), RssMoment::Ms(49)), shown(Some(0), RssMoment::Ms(51))], [Some(0), Some(1)]);
    assert_eq!(shown(Some(5), RssMoment::End), None);
    let report = rss(&made.profile, 2, None, 9).expect("a report");
    let rows: Vec<_> = report.processes.iter().map(|row| (row.highest_rss, row.end_rss, row.is_shown)).collect();
    assert_eq!(rows, [(300, 300, true), (100, 50, false)]);
}

#[test]
fn the_map_has_the_bytes_of_the_account() {
    let first = HEAP + 0x1010;
    let live: Vec<_> = (0..400).step_by(2).map(|n| (first + n * 1008, 1000, (n / 200) as u32)).collect();
    let made = Made::new(glibc(200, 120), &live);
    let report = made.report();
    for cells in [1, 7, 100, 10_000] {
        let map = page_map(&made.profile, &made.profile.footprints[0], &made.heap, cells);
        let sum =
            |of: fn(&super::HeapCell) -> u64| map.rows.iter().flat_map(|row| &row.cells).map(of).sum::<u64>() as i64;
        let row = &map.rows[0];
        assert!(row.cells.len() as u64 <= cells && map.pages_per_cell.is_power_of_two());
        assert_eq!(sum(|cell| cell.free), bytes_of(&report, PartKind::FreePages));
        assert_eq!(sum(|cell| cell.holes), bytes_of(&report, PartKind::Holes));
        assert_eq!(sum(|cell| cell.used), 200 * 1008 + 0x2a0);
    }
}

/// Any file: mappings in order, runs within them or not, blocks anywhere.
fn any() -> impl Strategy<Value = Made> {
    let kind = prop::sample::select(vec![
        MappingKind::Heap,
        MappingKind::Anonymous,
        MappingKind::Anonymous,
        MappingKind::ThreadStack,
        MappingKind::FileData,
    ]);
    let name = prop::sample::select(vec![
        "",
        "/l/libc.so.6",
        "/l/libjemalloc.so.2",
        "/l/libmimalloc.so.2",
        "/l/libtcmalloc.so.4",
    ]);
    let rights =
        prop::sample::select(vec![WRITABLE, WRITABLE, MappingFlags(WRITABLE.0 | MappingFlags::HUGE), MappingFlags(0)]);
    let mappings = prop::collection::vec((kind, 0u64..3, 1u64..40, rights, name), 0..6);
    let runs = prop::collection::vec((0u64..6, 1u64..12, 0u8..16), 0..12);
    let blocks = prop::collection::vec((0u64..2000, 0u64..6000, 0u32..4), 0..60);
    let kept = || prop::collection::vec((0u64..4000, 0u64..1100), 0..30);
    (mappings, runs, blocks, kept(), kept(), any_place()).prop_map(|(mappings, runs, blocks, cached, tables, start)| {
        let mut at = start;
        let mut all = Vec::new();
        for (kind, gap, pages, flags, name) in mappings {
            at += gap * PAGE;
            all.push(Mapping { flags, ..mapping(kind, at, pages, 0, name) });
            at += pages * PAGE;
        }
        let mut address = start - 8 * PAGE;
        let mut placed = Vec::new();
        for (step, size, site) in blocks {
            address += 1 + step;
            // Some are as large as an address is.
            placed.push((address, if size == 5999 { u64::MAX - address - 3 } else { size }, site));
        }
        placed.dedup_by_key(|block| block.0);
        let live = Vec::new();
        let mut made = Made::new(all, &live);
        made.heap.blocks =
            placed.into_iter().map(|(address, size, site)| PlacedBlock { address, size, site }).collect();
        let mut address = start - 2 * PAGE;
        for (step, size) in cached {
            address += 1 + step;
            made.heap.caches.blocks.push(CachedBlock { address, size });
        }
        let mut end = start - 3 * PAGE;
        for (step, size) in tables {
            made.heap.tables.push(AddressRange { start: end + step, end: end + step + 9 * size + 1 });
            end += step + 9 * size + 1;
        }
        let mut at = start - 4 * PAGE;
        made.heap.pages = runs
            .into_iter()
            .map(|(gap, pages, state)| {
                let run = PageRun { start: at + gap * PAGE, pages, state: PageState(state) };
                at = run.start + pages * PAGE;
                run
            })
            .collect();
        // What the kernel says of a mapping is what is in memory of it.
        let footprint = &mut made.profile.footprints[0];
        let residency = super::residency::Residency::new(&made.heap.pages, PAGE as u32);
        for (at, mapping) in footprint.mappings.iter_mut().enumerate() {
            let known = residency.resident(mapping.start, mapping.end);
            mapping.sizes.rss = if mapping.has_pages { known } else { at as u64 * PAGE };
        }
        footprint.totals.rss = footprint.mappings.iter().map(|mapping| mapping.sizes.rss).sum();
        made.profile.allocators_inside = copies(&made.profile);
        made
    })
}

/// jemalloc and mimalloc inside of the module that has the sites.
fn copies(profile: &Profile) -> Vec<mallow_profile::AllocatorInside> {
    let frame = profile.stacks.top(profile.sites[0].stack).and_then(|(frame, _)| profile.frames.get(frame.0 as usize));
    let module = frame.and_then(|frame| profile.modules.get(frame.module?.0 as usize));
    let inside = |name: &str| mallow_profile::AllocatorInside {
        module: module.map(|module| module.path.clone()).unwrap_or_default(),
        name: name.into(),
        functions: 3,
        ..Default::default()
    };
    vec![inside("jemalloc"), inside("mimalloc")]
}

fn any_place() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![HEAP, 0x7f40_0000_0000, 0x7f40_0000_0000 - 10 * PAGE, 0xc0_0000_0000])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Parts add up to RSS, whatever is in the file; places to the parts; the map to both.
    #[test]
    fn parts_always_add_up(made in any()) {
        let report = made.report();
        let account = &report.account;
        prop_assert_eq!(account.parts.iter().map(|part| i128::from(part.bytes)).sum::<i128>(), i128::from(account.rss));
        // And nothing is left over where the pages are those of that moment.
        if made.heap.blocks.iter().all(|block| block.size < 6000) {
            prop_assert_eq!(bytes_of(&report, PartKind::Unsettled), 0, "{:#?}", account.parts);
        }
        let map = page_map(&made.profile, &made.profile.footprints[0], &made.heap, 30);
        let sum = |of: fn(&super::HeapCell) -> u64| map.rows.iter().flat_map(|row| &row.cells).map(of).sum::<u64>() as i64;
        let free = bytes_of(&report, PartKind::FreePages) + bytes_of(&report, PartKind::ThreadCaches);
        prop_assert_eq!(sum(|cell| cell.free), free);
        prop_assert!(account.places.iter().map(|place| place.totals.holes_bytes as i64).sum::<i64>() <= sum(|cell| cell.holes));
        // Of blocks of sane sizes, what is in memory is what is in the mappings.
        if made.heap.blocks.iter().all(|block| block.size < 6000) {
            let known = [PartKind::Live, PartKind::Rounding, PartKind::Allocator, PartKind::NeverTouched, PartKind::Swapped];
            let used: i64 = known.iter().map(|&part| bytes_of(&report, part)).sum();
            if account.allocators.iter().all(|one| one.allocator.is_some()) {
                prop_assert_eq!(used, sum(|cell| cell.used));
                prop_assert_eq!(bytes_of(&report, PartKind::Holes), sum(|cell| cell.holes));
            }
        }
    }
}
