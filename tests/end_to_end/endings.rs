//! However a process ends: its ending is seen as without Mallow, and what it did before is in the recording.

use harness::{Case, Counts, number};

const BLOCKS: u64 = 20_000;

fn ends(how: &str, status: i32) {
    let three = Case::target("endings").args([how, &BLOCKS.to_string()]).three_ways();
    assert_eq!(three.bare.status, status, "{how}");
    for (way, json) in [("stat", &three.stat.json), ("record", &three.record.json)] {
        let counts = Counts::read(json);
        let bytes = counts.families["malloc"].1;
        assert!(counts.allocations >= BLOCKS && bytes >= BLOCKS * 1000, "{how}, {way}: {counts:?}");
        assert_eq!(json["exit_status"].as_i64(), Some(i64::from(status)), "{way}");
    }
    // Nothing but the target's own blocks and a page or two of libc's is leaked: all of them were seen.
    let live = number(&three.record.json, "live_bytes");
    assert!((BLOCKS * 1000..BLOCKS * 1000 + 200_000).contains(&live), "{how}: {live}");
    assert_eq!(three.record.losses(), (0, 0), "{how}");
}

macro_rules! endings {
    ($($how:ident $status:literal)*) => {
        $(
            #[test]
            fn $how() {
                ends(stringify!($how).trim_start_matches("by_"), $status);
            }
        )*
    };
}

endings! {
    by_return 17
    exit 18
    _exit 19
    exit_group 20
    quick_exit 21
    abort 134
    segv 139
    segv_threads 139
    segv_handled 33
    kill 137
    kill_threads 137
    term 143
    int 130
    exit_threads 22
    _exit_threads 23
    thread_exits 24
    main_leaves 0
    double_free 134
    stack_overflow 139
}
