//! What is free now, and had been in use for something else than a remedy supposes: a trough of live bytes, and small blocks.

use mallow_profile::{RssPoint, RssSeries};

use super::tests::{HEAP, Made, glibc};
use super::{Certainty, RemedyKind, RssNote};

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
    at(&mut made, 5100, rss, 400_000);
    made.profile.footprints[0].is_highest = false;
    assert_eq!(certainty(&made).0, Certainty::Likely);
}

/// Large blocks are gone, and the heap's end is free. Where small blocks are gone as well, the end may have been theirs.
#[test]
fn what_small_blocks_left_is_not_promised_of_large_ones() {
    let live: Vec<_> = (0..50).map(|n| (HEAP + 0x1010 + n * 1008, 1000, 0)).collect();
    let certainty = |small: u64| {
        let mut made = Made::new(glibc(200, 120), &live);
        let mut had = |site: usize, peak: u64, peak_bytes| {
            let site = &mut made.profile.sites[site];
            (site.counts.peak, site.counts.peak_bytes, site.patterns.largest) = (peak, peak_bytes, peak_bytes / peak);
        };
        had(1, 2, 300_000);
        had(2, 1000, small);
        let account = made.report().account;
        let found = account.remedies.iter().find(|remedy| remedy.remedy == RemedyKind::MmapThreshold);
        found.map(|remedy| (remedy.certainty, remedy.expected_bytes))
    };
    assert_eq!(certainty(20_000), Some((Certainty::Likely, 300_000)));
    assert_eq!(certainty(200_000), Some((Certainty::AtMost, 300_000)));
}
