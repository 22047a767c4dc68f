//! What is free now, and had been in use for something else than a remedy supposes: a trough of live bytes, and small
//! blocks.

use mallow_profile::{PeakRss, RecentLive, RssPoint, RssSeries};

use super::tests::{HEAP, Made, glibc};
use super::{Certainty, Remedy, RemedyKind, RssNote};

/// Half of the heap is free at the account's moment, and was in use at another one with the same RSS.
/// Caches of threads are not known here, so an estimate is likely at the most.
#[test]
fn what_is_free_in_a_trough_is_no_sure_remedy() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    let mut made = Made::new(glibc(200, 120), &live);
    let rss = made.profile.footprints[0].totals.rss;
    let certainty = |made: &Made| {
        let account = made.report().account;
        let trim = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MallocTrim).expect("free pages");
        (trim.certainty, account.busier.map(|moment| moment.ms), account.limits.contains(&RssNote::Busier))
    };
    let at = |made: &mut Made, ms, rss, live_bytes| {
        let points = vec![RssPoint { ms, rss, live_bytes }];
        made.profile.rss = vec![RssSeries { points, ..RssSeries::default() }];
    };
    assert_eq!(certainty(&made), (Certainty::Likely, None, false));
    made.profile.footprints[0].ms = 5000;
    for (ms, expected) in [(3900, false), (4000, true), (9000, true)] {
        at(&mut made, ms, rss - rss / 60, 400_000);
        let certain = if expected { Certainty::AtMost } else { Certainty::Likely };
        assert_eq!(certainty(&made), (certain, expected.then_some(ms), expected), "{ms}");
    }
    // Another RSS, hardly more live bytes, and an account that is not of the highest RSS.
    at(&mut made, 5100, rss - rss / 40, 400_000);
    assert_eq!(certainty(&made).0, Certainty::Likely);
    at(&mut made, 5100, rss, 60_000);
    assert_eq!(certainty(&made).0, Certainty::Likely);
    // Less than a tenth of RSS, and more than a tenth of what is free.
    at(&mut made, 5100, rss, 110_000);
    assert!(60_000 < rss / 10);
    assert_eq!(certainty(&made), (Certainty::AtMost, Some(5100), true));
    at(&mut made, 5100, rss, 400_000);
    made.profile.footprints[0].is_highest = false;
    assert_eq!(certainty(&made).0, Certainty::Likely);
}

/// The last reading is of a moment at which more was live than at the process's end: what was freed in between is in no
/// figure of the account.
#[test]
fn blocks_that_were_freed_after_the_last_reading_are_said() {
    let live: Vec<_> = (0..190).map(|n| (HEAP + 0x1010 + n * 4096, 4080, 0)).collect();
    let mut made = Made::new(glibc(200, 200), &live);
    let all: u64 = made.profile.footprints[0].live_bytes;
    let process = &mut made.profile.processes[0];
    (process.totals.live_bytes, process.end_ms) = (all / 2, 7000);
    let said = |made: &Made| {
        let account = made.report().account;
        (account.freed_after.map(|end| (end.ms, end.live_bytes)), account.limits.contains(&RssNote::FreedAfter))
    };
    let set = |made: &mut Made, is_last, is_at_exit| {
        let footprint = &mut made.profile.footprints[0];
        (footprint.is_last, footprint.is_at_exit) = (is_last, is_at_exit);
    };
    for (is_last, is_at_exit, expected) in
        [(true, false, Some((7000, all / 2))), (true, true, None), (false, false, None)]
    {
        set(&mut made, is_last, is_at_exit);
        assert_eq!(said(&made), (expected, expected.is_some()), "{is_last} {is_at_exit}");
    }
    set(&mut made, true, false);
    made.profile.processes[0].totals.live_bytes = all - all / 20;
    assert_eq!(said(&made), (None, false), "hardly any");
}

/// A block that nobody touches is live and no page: with nothing to give back, nothing is said of giving back.
#[test]
fn a_busier_moment_says_nothing_where_nothing_is_free() {
    let live: Vec<_> = (0..190).map(|n| (HEAP + 0x1010 + n * 4096, 4080, 0)).collect();
    let mut made = Made::new(glibc(200, 0), &live);
    made.profile.footprints[0].ms = 5000;
    let rss = made.profile.footprints[0].totals.rss;
    let points = vec![RssPoint { ms: 5100, rss, live_bytes: 80_000_000 }];
    made.profile.rss = vec![RssSeries { points, ..RssSeries::default() }];
    let account = made.report().account;
    assert_eq!(account.remedies.len(), 0, "{:?}", account.remedies);
    assert_eq!((account.busier, account.limits.contains(&RssNote::Busier)), (None, false));
}

/// Nobody looked when most was live, after the account's moment or shortly before it: the account of the process's own
/// peak tells.
#[test]
fn what_was_in_use_between_two_looks_is_no_sure_remedy() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    let mut made = Made::new(glibc(200, 120), &live);
    made.profile.footprints[0].ms = 5000;
    let mut busier = |ms, bytes| {
        let process = &mut made.profile.processes[0];
        (process.own_peak_ms, process.own_peak_bytes) = (ms, bytes);
        let account = made.report().account;
        let trim = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MallocTrim).expect("free pages");
        let moment = account.busier.map(|moment| (moment.ms, moment.rss, moment.live_bytes));
        (trim.certainty == Certainty::AtMost, moment)
    };
    assert_eq!(busier(4000, 400_000), (true, Some((4000, None, 400_000))));
    assert_eq!(busier(9000, 400_000), (true, Some((9000, None, 400_000))));
    assert_eq!(busier(3999, 400_000), (false, None));
    assert_eq!(busier(9000, 60_000), (false, None));
    // What was allocated before and freed meanwhile is in neither figure.
    made.profile.processes[0].attached = true;
    (made.profile.processes[0].own_peak_ms, made.profile.processes[0].own_peak_bytes) = (9000, 400_000);
    assert!(made.report().account.busier.is_none());
}

/// A program of which little is live frees that at its end: a remedy that would release less than twice as much is none
/// that is sure.
#[test]
fn what_the_end_freed_is_no_sure_remedy_however_little_it_is() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    let mut made = Made::new(glibc(200, 30), &live);
    let mut trim = |freed| {
        let footprint = &mut made.profile.footprints[0];
        footprint.recent_live = Some(RecentLive { ms: footprint.ms, bytes: footprint.live_bytes + freed });
        let account = made.report().account;
        let trim = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MallocTrim).expect("free pages");
        let note = account.freed_before.map(|before| before.freed_bytes);
        assert_eq!(account.limits.contains(&RssNote::FreedBefore), note.is_some());
        (trim.certainty, trim.expected_bytes, note)
    };
    let (certainty, expected, note) = trim(0);
    assert_eq!((certainty, note), (Certainty::Likely, None));
    assert_eq!(trim(expected / 2 - 1), (Certainty::Likely, expected, None));
    // The account says why.
    let freed = expected / 2 + 1;
    assert_eq!(trim(freed), (Certainty::AtMost, expected, Some(freed)));
}

/// The highest RSS was higher than what is divided. Of what came on top, only what lay in the heap is within a remedy's
/// bound: nothing, where that is not known, and no block with a mapping of its own.
#[test]
fn what_came_on_top_is_no_remedys_unless_it_lay_in_the_heap() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    // Of a site: blocks and bytes at the peak of live bytes, the smallest block and the largest.
    let trim = |share: u64, peak_ms, (blocks, bytes): (u64, u64)| {
        let mut made = Made::new(glibc(200, 120), &live);
        let rss = made.profile.footprints[0].totals.rss;
        let peak_rss = rss + rss.checked_div(share).unwrap_or(0);
        let peak = PeakRss { bytes: peak_rss, after_ms: 30, by_ms: 45, read_ms: 50, is_final: true, is_older: false };
        made.profile.rss = vec![RssSeries { peak: Some(peak), ..RssSeries::default() }];
        made.profile.peak_ms = peak_ms;
        for site in &mut made.profile.sites {
            (site.counts.peak, site.counts.peak_bytes) = (0, 0);
        }
        let site = &mut made.profile.sites[1];
        (site.counts.peak, site.counts.peak_bytes, site.counts.allocations) = (blocks, bytes, blocks);
        site.patterns.smallest = bytes / blocks.max(1);
        site.patterns.largest = site.patterns.smallest;
        let account = made.report().account;
        let trim = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MallocTrim).expect("free pages");
        let blocks = account.undivided.map(|undivided| undivided.blocks.map(|of| (of.heap_bytes, of.mapped_bytes)));
        assert_eq!(account.limits.contains(&RssNote::Undivided), blocks.is_some());
        (trim.certainty, trim.expected_bytes, blocks, rss)
    };
    let (certainty, expected, undivided, rss) = trim(0, 40, (0, 0));
    assert_eq!((certainty, undivided), (Certainty::Likely, None));
    assert_eq!(trim(51, 40, (0, 0)), (Certainty::Likely, expected, None, rss));
    // The peak of live bytes is not the moment of the highest RSS: which blocks were live there is not known.
    assert_eq!(trim(10, 20, (10, 10_000)), (Certainty::AtMost, expected, Some(None), rss));
    // A hundred small blocks took more in the heap; one large block did not.
    let chunks = 100 * (200 + 23);
    let small = trim(10, 40, (100, 20_000));
    assert_eq!(small, (Certainty::AtMost, expected + chunks, Some(Some((chunks, 0))), rss));
    let large = trim(10, 40, (1, 8 << 20));
    assert_eq!(large, (Certainty::AtMost, expected, Some(Some((0, 8 << 20))), rss));
    // No more than what came on top.
    assert_eq!(trim(10, 40, (10_000, 2_000_000)).1, expected + rss / 10);
}

/// A buffer grew, and a large block came upon it: above them in the heap, or in mappings of their own, as frees before
/// had left glibc's thresholds. What is not known of the one is not known of all, and is in no bound.
#[test]
fn what_came_on_top_lay_where_the_thresholds_put_it() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    let (buffer, block) = (24 << 20, 20 << 20);
    let bare = Made::new(glibc(200, 120), &live).report().account;
    let expected_of = |account: &super::RssAccount| {
        account
            .remedies
            .iter()
            .find(|remedy| remedy.remedy == RemedyKind::MallocTrim)
            .expect("free pages")
            .expected_bytes
    };
    // Of the buffer: steps by realloc and by free, and how many buffers there were; the smallest size of the block's
    // site.
    let found = |heap_pages, reallocs: u64, frees: u64, buffers, fixed| {
        let mut made = Made::new(glibc(heap_pages, 120), &live);
        let rss = made.profile.footprints[0].totals.rss;
        made.profile.footprints[0].fixes_thresholds = fixed;
        let bytes = rss + (12 << 20);
        let peak = PeakRss { bytes, after_ms: 30, by_ms: 45, read_ms: 50, is_final: true, is_older: false };
        made.profile.rss = vec![RssSeries { peak: Some(peak), ..RssSeries::default() }];
        made.profile.peak_ms = 40;
        let steps = reallocs + frees;
        for (site, size, steps) in [(1, buffer, steps), (2, block, 0)] {
            let site = &mut made.profile.sites[site];
            let counts = &mut site.counts;
            (counts.peak, counts.peak_bytes, counts.allocations, counts.frees) = (1, size, steps + 1, steps + 1);
            counts.allocated_bytes = if steps > 0 { 2 * size - 16 } else { size };
            counts.reallocs_moved = if steps > 0 { reallocs } else { 0 };
            let patterns = &mut site.patterns;
            (patterns.smallest, patterns.largest) = (if steps > 0 { 16 } else { size }, size);
            (patterns.growth_steps, patterns.grown_buffers) = (steps, if steps > 0 { buffers } else { 0 });
        }
        made.profile.sites[0].counts.peak = 0;
        made.profile.sites[0].counts.peak_bytes = 0;
        let account = made.report().account;
        let blocks = account.undivided.expect("it is above").blocks;
        (blocks.map(|of| (of.heap_bytes, of.mapped_bytes)), expected_of(&account))
    };
    let divided = expected_of(&bare);
    assert_eq!(found(200, 20, 0, 1, false), (Some((0, buffer + block)), divided), "realloc raises no threshold");
    assert_eq!(found(200, 0, 20, 1, false), (None, divided), "free did");
    assert_eq!(found(200, 20, 0, 2, false), (None, divided), "another buffer may have been freed");
    assert_eq!(found(200, 20, 0, 1, true), (None, divided), "thresholds are fixed, at what is not known");
    assert_eq!(found(6000, 20, 0, 1, false), (None, expected_of(&bare)), "the heap had room for the block");
}

/// A recording may have, of its own moment, live bytes of some time before.
#[test]
fn a_moment_is_not_busier_than_itself() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    let mut made = Made::new(glibc(200, 120), &live);
    let footprint = &made.profile.footprints[0];
    let point = RssPoint { ms: footprint.ms, rss: footprint.totals.rss, live_bytes: 400_000 };
    made.profile.rss = vec![RssSeries { points: vec![point], ..RssSeries::default() }];
    let account = made.report().account;
    assert_eq!((account.busier, account.limits.contains(&RssNote::Busier)), (None, false));
}

/// Small live blocks at the heap's begin, and one after 300 kB: what is free lies between, and 124 kB at its end.
fn at_both_ends() -> Vec<(u64, u64, u32)> {
    let begin = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0));
    begin.chain([(HEAP + 88 * 4096 + 0x10, 1000, 0)]).collect()
}

/// Large blocks are gone, and the heap's end is free. Where small blocks are gone as well, the end may have been
/// theirs.
#[test]
fn what_small_blocks_left_is_not_promised_of_large_ones() {
    let live = at_both_ends();
    let certainty = |large: u64, small: u64| {
        let mut made = Made::new(glibc(200, 120), &live);
        let mut had = |site: usize, peak: u64, peak_bytes| {
            let site = &mut made.profile.sites[site];
            (site.counts.peak, site.counts.peak_bytes) = (peak, peak_bytes);
            // An earlier one had been freed.
            site.counts.allocations = peak + 1;
            (site.patterns.smallest, site.patterns.largest) = (peak_bytes / peak, peak_bytes / peak);
        };
        had(1, 2, large);
        had(2, 20, small);
        let account = made.report().account;
        let found = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MmapThreshold);
        found.map(|remedy| (remedy.certainty, remedy.expected_bytes, remedy.own_bytes))
    };
    assert_eq!(certainty(300_000, 20_000), Some((Certainty::Likely, 300_000, None)));
    // The bound has the holes, too: blocks lie elsewhere under the setting.
    assert_eq!(certainty(300_000, 200_000), Some((Certainty::AtMost, 312_464, Some(300_000))));
    assert_eq!(certainty(140_000, 400_000), None, "small blocks had left most of it");
}

/// Either of glibc's settings fixes both thresholds: one is offered, and where large blocks may have left gaps beside
/// the end that is kept, their gaps are part of it.
#[test]
fn a_setting_for_the_end_is_one_for_large_blocks() {
    let begin = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0));
    let live: Vec<_> = begin.chain([(HEAP + 60 * 4096 + 0x10, 1000, 0)]).collect();
    let offered = |large: u64| {
        let mut made = Made::new(glibc(200, 200), &live);
        for (at, blocks, bytes) in [(1, 2, large), (2, 20, 2_000_000)] {
            let site = &mut made.profile.sites[at];
            (site.counts.peak, site.counts.peak_bytes, site.counts.allocations) = (blocks, bytes, blocks + 1);
            (site.patterns.smallest, site.patterns.largest) = (bytes / blocks, bytes / blocks);
        }
        // What raised them.
        (made.profile.sites[1].patterns.largest, made.profile.sites[1].counts.frees) = (300_000, 1);
        let account = made.report().account;
        let is_one = |remedy: &&Remedy| matches!(remedy.remedy, RemedyKind::TrimThreshold | RemedyKind::MmapThreshold);
        account.remedies.iter().filter(is_one).map(|one| (one.remedy, one.certainty, one.own_bytes)).collect::<Vec<_>>()
    };
    let end = (200 - 60) * 4096 - 1024 - (128 << 10);
    let found = offered(280_000);
    assert!(matches!(found[..], [(RemedyKind::TrimThreshold, Certainty::AtMost, Some(own))] if own > end), "{found:?}");
    // None of it was of large blocks; what lies between blocks may be elsewhere under the setting.
    let found = offered(30_000);
    assert!(
        matches!(found[..], [(RemedyKind::TrimThreshold, Certainty::AtMost, Some(own))] if own <= end),
        "{found:?}"
    );
}

/// A large block lies in the heap only where one as large was freed before it: until then each has a mapping of its
/// own, which goes back to the kernel.
#[test]
fn large_blocks_that_had_mappings_left_no_gaps() {
    let live = at_both_ends();
    // Of sites: allocations, live ones at the peak and their bytes, the smallest and the largest, growth steps.
    let offered = |sites: &[(u64, u64, u64, [u64; 2], u64)]| {
        let mut made = Made::new(glibc(200, 120), &live);
        for (site, &(allocations, peak, peak_bytes, [smallest, largest], steps)) in
            made.profile.sites[1..].iter_mut().zip(sites)
        {
            let counts = &mut site.counts;
            (counts.allocations, counts.peak, counts.peak_bytes) = (allocations, peak, peak_bytes);
            (counts.allocated_bytes, counts.frees) = (allocations * (smallest + largest) / 2, allocations);
            let patterns = &mut site.patterns;
            (patterns.smallest, patterns.largest, patterns.growth_steps) = (smallest, largest, steps);
            patterns.grown_buffers = steps.min(1);
        }
        let account = made.report().account;
        let found = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MmapThreshold);
        found.map(|remedy| remedy.expected_bytes)
    };
    let size = 150_000;
    assert_eq!(offered(&[(1, 1, size, [size, size], 0)]), None, "the only one");
    assert_eq!(offered(&[(2, 2, 2 * size, [size, size], 0)]), None, "all of them lived at once");
    assert_eq!(offered(&[(3, 2, 2 * size, [size, size], 0)]), Some(2 * size), "one of them came after a free");
    assert_eq!(offered(&[(2, 1, 280_000, [140_000, 280_000], 1)]), None, "it grew: each step is above what was freed");
    assert_eq!(
        offered(&[(1, 1, size, [size, size], 0), (2, 0, 0, [140_000, 145_000], 0)]),
        None,
        "freed ones were smaller"
    );
    assert_eq!(
        offered(&[(1, 1, size, [size, size], 0), (2, 0, 0, [16, 250_000], 0)]),
        Some(size),
        "a larger one was freed"
    );
    // 16 bytes, and whole pages: the mapping that was freed is larger than its block.
    assert_eq!(
        offered(&[(1, 1, size, [size, size], 0), (1, 0, 0, [size, size], 0)]),
        Some(size),
        "one as large was freed"
    );
}

/// Chunks of small blocks are larger than what was requested: they could have left all that is free.
#[test]
fn what_small_blocks_left_includes_their_headers() {
    let live = at_both_ends();
    let mut made = Made::new(glibc(200, 120), &live);
    for (at, blocks, size) in [(1, 2, 150_000), (2, 1000, 24)] {
        let site = &mut made.profile.sites[at];
        (site.counts.peak, site.counts.peak_bytes, site.counts.allocations) = (blocks, blocks * size, blocks + 1);
        (site.patterns.smallest, site.patterns.largest) = (size, size);
    }
    let account = made.report().account;
    let found = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MmapThreshold);
    assert_eq!(found.map(|remedy| remedy.certainty), Some(Certainty::AtMost));
}

/// Every other block of two places was freed: by others, by the first one, or by both. What a place freed itself leaves
/// the same holes in a pool of its blocks.
#[test]
fn a_pool_has_the_holes_that_its_own_blocks_leave() {
    let live: Vec<_> = (0..400).step_by(2).map(|n| (HEAP + 0x1010 + n * 1008, 1000, (n / 200) as u32)).collect();
    let pool = |freed: &[usize]| {
        let mut made = Made::new(glibc(200, 120), &live);
        for &site in freed {
            let counts = &mut made.profile.sites[site].counts;
            (counts.frees, counts.freed_bytes) = (100, 100_000);
        }
        let account = made.report().account;
        let found = account.remedies.into_iter().find(|remedy| remedy.remedy == RemedyKind::Pool).expect("holes");
        let names: Vec<_> = found.places.into_iter().map(|frame| frame.function).collect();
        (names.join(" "), found.certainty, found.own_holes, found.least_bytes > 0)
    };
    assert_eq!(pool(&[]), ("second first".to_owned(), Certainty::Likely, false, true));
    assert_eq!(pool(&[2]), ("second first".to_owned(), Certainty::Likely, false, true), "another place's");
    assert_eq!(pool(&[0]), ("second".to_owned(), Certainty::Likely, false, true));
    assert_eq!(pool(&[0, 1]), ("second first".to_owned(), Certainty::AtMost, true, false));
}
