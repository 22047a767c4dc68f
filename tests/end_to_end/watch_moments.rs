//! What a report of `mallow watch` says is what was so at its time stamp.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use harness::{Run, directory, mallow, program, tool};
use serde_json::Value;

use crate::watch_harness::{Alive, quiet, reports, site, until, wait_for};

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

/// A process that has not allocated yet has no file in its run: it is waited for, and not said to have ended.
#[test]
fn who_joins_before_the_first_allocation_sees_all() {
    let place = directory();
    let text = r#"
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept[1000];
__attribute__((noinline)) static void keep(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(9000); }
int main(void) {
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) != 1) return 1;
    keep();
    return write(1, "done\n", 5) != 5 || read(0, &byte, 1) < 0;
}
"#;
    fs::write(place.path().join("late.c"), text).expect("a source");
    let built = Run::new(tool("cc"), place.path()).args(["-g", "-o", "late", "late.c"]).go();
    assert_eq!(built.status, 0, "{}", built.err());
    let mut command = Command::new(mallow());
    command.args(["run", "--sample", "--period", "4KiB", "--"]).arg(place.path().join("late"));
    let mut late = Alive::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(late.child.stdout.take().expect("its output")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "ready");
    let mut input = late.child.stdin.take().expect("its input");
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    command
        .args(["watch", "--json", "--older-than", "0", "--every", "200ms", "-o"])
        .arg(&file)
        .args(["-p", &late.pid()]);
    let mut watch = Alive::start(quiet(&mut command));
    wait_for(&file, "a report before it", |report| report["occasion"] == "every");
    input.write_all(b"\n").expect("it reads");
    assert_eq!(next(), "done");
    wait_for(&file, "what it kept", |report| site(report, "keep").is_some());
    watch.signal("INT");
    watch.end();
    drop(input);
    assert_eq!(late.end(), 0);
}

/// A server that is stopped frees what it has over seconds: the last look is of a moment of that.
#[test]
fn a_summary_is_of_what_was_live_before_the_program_gave_it_back() {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["watch", "--period", "4KiB", "--every", "1h", "--"]);
    let run = run.arg(program("sheds")).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let said = run.err();
    let summary = said.split("\nWatched for ").nth(1).unwrap_or_else(|| panic!("{said}"));
    let live = summary.lines().find_map(|line| line.strip_prefix("  live     ")).expect("a line");
    assert!(live.contains(", before it fell; no sample at its end"), "{said}");
    // The last look before a tenth was gone: each block of the 16.4 MB is a sample.
    let megabytes: f64 = live.split(" MB ").next().and_then(|number| number.parse().ok()).expect("megabytes");
    assert!((0.9 * 16.38..=16.4).contains(&megabytes), "{said}");
    assert!(summary.contains("\nVerdict after ") && summary.contains("most is live in take sheds.c:"), "{said}");
}
