//! The commands agree with each other, with themselves, and with heaptrack.

use harness::{Case, Counts, Run, directory, number, sql, tool};

fn programs() -> Vec<Case> {
    vec![
        Case::sqlite(20_000),
        Case::target("busy").args(["4", "300"]),
        Case::target("libc_allocates"),
        Case::target("coroutines"),
        // Sets of objects are ordered by their addresses, and -c would look into the directory of the recording.
        Case::new("setarch")
            .args([
                "-R",
                "/usr/bin/python3",
                "-S",
                "-P",
                "-c",
                "import json; print(len(json.dumps(list(range(20000)))))",
            ])
            .env("PYTHONMALLOC", "malloc")
            .env("PYTHONHASHSEED", "0"),
    ]
}

/// Whether a large block can grow where it is depends on the addresses that the kernel gives out.
fn comparable(counts: Counts) -> Counts {
    Counts { reallocs_in_place: 0, reallocs_moved: counts.reallocs_in_place + counts.reallocs_moved, ..counts }
}

#[test]
fn stat_and_record_agree() {
    for case in programs() {
        let three = case.three_ways();
        assert_eq!(comparable(three.stat.counts()), comparable(three.record.counts()), "{case:?}");
        assert_eq!(three.record.losses(), (0, 0), "{case:?}");
        assert_eq!(number(&three.stat.json, "lost"), 0, "{case:?}");
    }
}

#[test]
fn two_runs_give_the_same_counts() {
    for case in programs() {
        assert_eq!(comparable(case.stat().counts()), comparable(case.stat().counts()), "{case:?}");
        let (one, other) = (case.record(), case.record());
        assert_eq!(comparable(one.counts()), comparable(other.counts()), "{case:?}");
        for key in ["live", "live_bytes", "freed_bytes"] {
            assert_eq!(number(&one.json, key), number(&other.json, key), "{key}: {case:?}");
        }
    }
    // With one thread, the order of events is the same too.
    let case = Case::sqlite(20_000);
    let (one, other) = (case.record(), case.record());
    for key in ["peak", "peak_bytes", "temporary", "temporary_bytes", "sites"] {
        assert_eq!(number(&one.json, key), number(&other.json, key), "{key}");
    }
}

/// What is allocated and not freed is what leaks, and the sums of a recording hang together.
#[test]
fn sums_hang_together() {
    for case in programs() {
        let json = case.record().json;
        let n = |key: &str| number(&json, key);
        assert_eq!(n("allocations") - n("frees"), n("live"), "{case:?}");
        assert_eq!(n("allocated_bytes") - n("freed_bytes"), n("live_bytes"), "{case:?}");
        assert!(n("peak_bytes") >= n("live_bytes") && n("temporary") <= n("frees"), "{case:?}");
    }
}

/// heaptrack counts the same calls, and one more: it brings libstdc++ into a C program, which allocates its pool for
/// exceptions at the start, and which heaptrack has freed at the end.
#[test]
fn totals_equal_heaptracks() {
    let place = directory();
    let heaptrack =
        Run::new(tool("heaptrack"), place.path()).args(["-o", "trace", "sqlite3", ":memory:", &sql(20_000)]).go();
    let text = heaptrack.out() + &heaptrack.err();
    let figure = |label: &str| -> u64 {
        let line = text.lines().find(|l| l.trim_start().starts_with(label));
        let line = line.unwrap_or_else(|| panic!("no {label} in {text}"));
        line.rsplit(':').next().and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let record = Case::sqlite(20_000).record();
    assert_eq!(number(&record.json, "allocations") + 1, figure("allocations:"));
    assert_eq!(number(&record.json, "live"), figure("leaked allocations:"));
}
