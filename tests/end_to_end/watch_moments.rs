//! What a report of `mallow watch` says is what was so at its time stamp.

use std::fs;
use std::process::Command;

use harness::{directory, mallow, program};
use serde_json::Value;

use crate::watch_harness::{Alive, quiet, reports, until};

/// A block of the target: so large beside the period that each one is picked.
const BYTES: f64 = 65_536.0;

/// A step of the target, with times on the wall in nanoseconds.
struct Step {
    before: u64,
    after: u64,
    allocates: bool,
}

/// From one tick of the kernel's clock to the next: the resolution of samples' times.
fn tick_ns() -> u64 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
}

fn steps(bytes: &[u8]) -> Vec<Step> {
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.as_chunks().0.iter().map(|&[before, after, kind]| Step { before, after, allocates: kind == 1 }).collect()
}

#[test]
fn a_report_is_of_what_was_live_at_its_time_stamp() {
    let place = directory();
    let (file, log) = (place.path().join("reports"), place.path().join("log"));
    let mut command = Command::new(mallow());
    command.args(["watch", "--json", "--period", "4KiB", "--every", "100ms", "--older-than", "0", "-o"]).arg(&file);
    command.arg("--").arg(program("burst")).arg(&log);
    let mut watched = Alive::start(quiet(&mut command));
    let regular = |report: &Value| report["occasion"] == "every" && report["samples"].as_u64() > Some(0);
    until("five reports", || (reports(&file).iter().filter(|report| regular(report)).count() >= 5).then_some(()));
    watched.signal("TERM");
    assert_eq!(watched.end(), 0);
    let steps = steps(&fs::read(&log).expect("the target's log"));
    let began = steps[0].before;
    let mut looked_at = 0;
    for report in reports(&file) {
        // Milliseconds are whole. The kernel may be late with a tick, by less than the next one: what happens meanwhile
        // has the stamp of the tick before, and is in the report.
        let at = report["at_unix_ms"].as_u64().expect("a time") * 1_000_000;
        let (surely, perhaps) = (at - 1_000_000, at + 1_000_000 + tick_ns());
        if !regular(&report) || surely < began {
            continue;
        }
        looked_at += 1;
        let count = |allocates: bool, done: bool| {
            let of = steps.iter().filter(|step| step.allocates == allocates);
            of.filter(|step| if done { step.after <= surely } else { step.before <= perhaps }).count() as i64
        };
        let (least, most) = (count(true, true) - count(false, false), count(true, false) - count(false, true));
        let live = (report["live_bytes"]["value"].as_f64().expect("a number") / BYTES).round() as i64;
        assert!(
            (least..=most).contains(&live),
            "{live} blocks are reported, {least} to {most} were live: {} ms after the beginning",
            (at - began) / 1_000_000
        );
    }
    assert!(looked_at >= 3, "{looked_at} reports while it ran");
}
