//! Cycles of lost blocks, counted where memory that the program does not use has addresses of others.

use harness::{Run, directory, mallow, program};
use serde_json::Value;

/// Three of a hundred cycles have an address of another in memory that the program does not use. Where each has, they are a list.
#[test]
fn a_stray_pointer_merges_no_cycles() {
    for (what, times, counted) in
        [("stray-cycles", "one leak, 100 times", 100), ("list-of-cycles", "one leak, once", 1)]
    {
        let place = directory();
        let record = ["record", "--no-report", "-o", "l.mallow", "--scan-all", "--"];
        let run = Run::new(mallow(), place.path()).args(record).arg(program("lost")).arg(what).go();
        assert_eq!(run.status, 7, "{}", run.err());
        let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
        assert!(text.contains(times), "{text}");
        let all = Run::new(mallow(), place.path()).args(["leaks", "l.mallow", "--json"]).go();
        let all: Value = serde_json::from_str(&all.out()).expect("JSON");
        let cycles = all["lost_cycles"].as_array().expect("cycles");
        let counts = |key: &str| cycles.iter().map(|cycle| cycle[key].as_u64()).collect::<Vec<_>>();
        assert_eq!((counts("count"), counts("blocks")), (vec![Some(counted)], vec![Some(200)]), "{what}");
    }
}
