//! The peak where blocks go from thread to thread: against the program's own count of what was live.

use harness::{Case, Recorded, number};

/// What the C library itself holds for so many threads.
fn base(threads: &str) -> u64 {
    number(&Case::target("handover").args(["idle", "0", threads, "1"]).record().json, "peak_bytes")
}

fn check(threads: &str, cases: &[[&str; 3]]) {
    let base = base(threads);
    for [how, work, rounds] in cases {
        let record = Case::target("handover").args([how, work, threads, rounds]).record();
        let out = record.outcome.out();
        let figure = |name: &str| -> u64 {
            let mut words = out.split_whitespace().skip_while(|word| *word != name);
            words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{name}: {out}"))
        };
        // Between stamps a thread's part may be off by a block of at most 4 KiB (docs/design/trace.md#the-peak). Where
        // threads run at the same time, the program's own count lags behind, too: by a block that a thread has and did
        // not count yet, or counts no more and did not free.
        let in_turns = !matches!(*how, "pool" | "batches" | "stealing" | "swap" | "capped" | "lists" | "pairs");
        let (truth, block) = (figure("peak"), figure("largest"));
        let (window, lag) = (block.min(4096), if in_turns { 0 } else { block });
        let recorded = number(&record.json, "peak_bytes");
        let slack = truth / 100 + figure("threads") * (window + lag);
        let named = format!("{how} {work}, {threads} threads: a peak of {truth}, recorded as {recorded}");
        assert!(recorded + slack >= truth && recorded <= truth + base + slack, "{named}");
        over_time(&record, recorded, &named);
        assert_eq!((record.losses(), number(&record.json["processes"][0], "foreign_frees")), ((0, 0), 0), "{named}");
    }
}

/// Timelines go through the events of all threads by themselves, at every resolution, and so does what was live at a
/// moment: the order is the same, so `peak` is the peak to the byte, and no point of a timeline is above it.
fn over_time(record: &Recorded, peak: u64, named: &str) {
    for count in ["1", "7", "300"] {
        let timeline = record.view_json(&["timeline", "--points", count]);
        let points = timeline["points"].as_array().expect("points");
        let highest = points.iter().map(|point| number(point, "value")).max();
        assert_eq!((number(&timeline, "total"), highest), (peak, Some(peak)), "{named}: {count} points");
    }
    let at_peak = record.view_json(&["timeline", "--at", "peak"]);
    let of_places = at_peak["places"].as_array().expect("places").iter().map(|place| number(place, "live_bytes"));
    assert_eq!((number(&at_peak, "live_bytes"), of_places.sum::<u64>()), (peak, peak), "{named}: --at peak");
    // Within the peak's millisecond the maximum is shown, and at other moments nothing higher.
    let peak_ms = number(&record.json, "peak_ms");
    let duration_ms = number(&record.json, "duration_ms");
    for ms in [peak_ms / 2, peak_ms, peak_ms.midpoint(duration_ms), duration_ms] {
        let live = number(&record.view_json(&["timeline", "--at", &format!("{ms}ms")]), "live_bytes");
        assert!(if ms == peak_ms { live == peak } else { live <= peak }, "{named}: {live} at {ms} ms");
    }
}

#[test]
fn blocks_of_two_threads() {
    let turns = [["spin", "small", "2000"], ["spin", "list", "300"], ["spin", "own", "2000"], ["pipe", "page", "500"]];
    let queues = [["batches", "1000", "300"], ["swap", "4000", "2000"], ["capped", "1000", "300"]];
    check("2", &turns);
    check("2", &queues);
    check("2", &[["pairs", "128", "20000"], ["lists", "1000", "300"], ["futex", "mapped", "100"]]);
}

#[test]
fn blocks_of_eight_threads() {
    let locks = [["mutex", "list", "50"], ["condition", "page", "100"], ["semaphore", "list", "50"]];
    let kernel = [["pipe", "list", "50"], ["eventfd", "own", "200"], ["futex", "resize", "50"]];
    let queues =
        [["pool", "1000", "300"], ["pool", "2000000", "50"], ["batches", "100", "200"], ["stealing", "1000", "2000"]];
    check("8", &locks);
    check("8", &kernel);
    check("8", &queues);
    check("8", &[["swap", "500000", "300"], ["capped", "100", "200"], ["join", "100", "300"]]);
}

/// Never two blocks at a time: the kernel takes each back at once, so no address says what came first.
#[test]
fn large_blocks_of_many_threads() {
    let turns = [["pipe", "mapped", "20"], ["futex", "large", "20"], ["eventfd", "large", "20"]];
    check("33", &turns);
    check("33", &[["condition", "mapped", "5"], ["join", "2000000", "100"]]);
}
