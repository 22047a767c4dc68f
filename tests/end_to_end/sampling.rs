//! Sampling in the target, as far as it needs no watcher: `mallow run`, what it leaves, and the static probes.

use std::fs;
use std::time::{Duration, Instant};

use harness::{Case, Run, directory, mallow, not_run, program};

use crate::bpftrace::{Tracer, preloaded_library};

/// The command is mallow's own process, with its status, and samples stay behind.
#[test]
fn a_command_is_sampled_without_a_mallow() {
    let case = Case::target("busy").args(["4", "300"]);
    let sampled = case.sampled();
    case.same("run", &case.bare(), &sampled.outcome);
    assert!(sampled.processes == 1 && sampled.samples > 100, "{sampled:?}");
}

#[test]
fn a_command_that_is_not_there() {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["run", "--", "no-such-command"]).go();
    assert_eq!((run.status, run.err().lines().count()), (127, 1), "{}", run.err());
    assert!(run.before.new_of(run.pid).is_empty(), "a directory is left");
}

#[test]
fn children_are_sampled_too() {
    let busy = program("busy");
    let script = format!("{0} 2 100 & {0} 2 100; wait", busy.display());
    let sampled = Case::new("/bin/sh").args(["-c", &script]).sampled();
    assert!(sampled.processes >= 3, "{sampled:?}");
}

/// A program that shuts itself in lives on, though its filter kills for what samples need: its sampling ends with the
/// filter. Where the filter allows that, it goes on.
#[test]
fn filters_of_system_calls_kill_nobody_for_a_sample() {
    let sampled = |how: &str| {
        let case = Case::target("seccomp").arg(how);
        let sampled = case.sampled();
        case.same("run", &case.bare(), &sampled.outcome);
        sampled.samples
    };
    let closed = sampled("closed");
    assert!(closed > 100, "{closed}");
    let strict = sampled("strict-long");
    assert!(strict > 100, "{strict}");
    let ended = sampled("kill");
    assert!(ended > 100, "{ended}");
    let went_on = sampled("threads");
    assert!(went_on > 5 * ended, "{went_on} after the filter, {ended} without");
}

/// The server answers as it does alone, while its samples are watched.
#[test]
fn redis_is_watched() {
    harness::tool("redis-server");
    harness::tool("redis-benchmark");
    const SCRIPT: &str = "\
        redis-server --port 0 --unixsocket $PWD/socket --save '' --appendonly no --io-threads 2 --daemonize no >log 2>&1 &
        server=$!
        until redis-cli -s socket ping 2>/dev/null; do sleep 0.05; done
        redis-benchmark -s socket -n 4000 -c 20 -q -t set,get,incr,lpush,sadd,hset,mset >benchmark.log || echo failed
        redis-cli -s socket get counter:__rand_int__
        redis-cli -s socket llen mylist
        redis-cli -s socket dbsize
        [ -z \"$MALLOW_DIR\" ] || kill -HUP $PPID
        until [ -z \"$MALLOW_DIR\" ] || grep -q hup reports; do sleep 0.1; done
        redis-cli -s socket shutdown nosave
        wait $server; echo server $?";
    let place = directory();
    let bare = Run::new("/bin/sh", place.path()).args(["-c", SCRIPT]).go();
    assert!(bare.out().contains("4000\n4000\n") && bare.out().ends_with("server 0\n"), "{}", bare.out());
    let place = directory();
    let watched = Run::new(mallow(), place.path())
        .args(["watch", "--period", "64KiB", "--every", "1h", "--json", "-o", "reports", "--"])
        .args(["/bin/sh", "-c", SCRIPT])
        .go();
    assert_eq!((watched.status, watched.out()), (bare.status, bare.out()), "{}", watched.err());
    let reports = fs::read_to_string(place.path().join("reports")).expect("reports");
    let last = harness::document(reports.lines().last().expect("a report"));
    assert!(reports.lines().next().is_some_and(|first| first.contains("/redis-")), "{reports}");
    assert!(last["lost"].as_object().is_some_and(|lost| lost.values().all(|n| n == 0)), "{}", last["lost"]);
    harness::nothing_left("mallow watch redis", &watched);
}

/// A page for each live sample, and a hundredth of the heap, by what the kernel says of a program that holds 1 GiB in
/// small blocks, with and without sampling. What the period's draws bring is known, so that no chance is in the first.
#[test]
fn sampling_takes_a_page_for_a_live_sample_and_a_hundredth_of_the_heap() {
    const TEST: &str = "sampling_takes_a_page_for_a_live_sample_and_a_hundredth_of_the_heap";
    const HEAP: u64 = 1 << 30;
    // In addition: 1 MiB of recent ends, and the library, unwind tables, stacks and a thread's own memory.
    const FIXED: u64 = 5 << 19;
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    if available.and_then(|kib| kib.parse().ok()).is_none_or(|kib: u64| kib << 10 < 3 * HEAP) {
        return not_run(TEST, "it needs 3 GiB of free memory");
    }
    // A bare heap may end with a huge page that is hardly used.
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let fixed = if huge.contains("[always]") { FIXED + (2 << 20) } else { FIXED };

    let place = directory();
    let megabytes = (HEAP >> 20).to_string();
    let held = |command: Run| {
        let run = command.arg(program("heap")).arg(&megabytes).go();
        assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
        (run.out().trim().parse::<u64>().expect("a number of KiB") << 10, run)
    };
    let (bare, _) = held(Run::new("env", place.path()));
    let (sampled, run) = held(Run::new(mallow(), place.path()).args(["run", "--sample", "--period", "512KiB", "--"]));
    let left = run.before.new_of(run.pid);
    let live: u64 = left
        .iter()
        .flat_map(|directory| fs::read_dir(directory).expect("the directory").flatten())
        .map(|entry| harness::live_samples(&entry.path()))
        .sum();
    for directory in left {
        let _ = fs::remove_dir_all(directory);
    }
    let more = sampled.saturating_sub(bare);
    // One in 512 KiB, with the odds of that number at 100,000 to 1.
    assert!(live.abs_diff(HEAP / (512 << 10)) < 200, "{live} live samples");
    assert!(more <= live * 4096 + fixed, "{live} live samples take {more} bytes, {} each", more / live);
    assert!(more <= HEAP / 100 + fixed - FIXED, "{live} live samples take {more} bytes");
    assert!(more >= live * 2048, "{live} live samples take {more} bytes: are they there?");
}

/// Without --sample nothing is picked. The directory goes when nobody lives in it, by the next run.
#[test]
fn a_dormant_command_is_left_alone_and_its_directory_swept() {
    let place = directory();
    let busy = program("busy");
    let run = Run::new(mallow(), place.path()).args(["run", "--"]).arg(&busy).args(["2", "100"]).go();
    assert_eq!((run.status, run.err().as_str()), (0, ""));
    let left = run.before.new_of(run.pid);
    assert_eq!(left.len(), 1, "{left:?}");
    let samples: u64 =
        fs::read_dir(&left[0]).expect("the directory").flatten().map(|e| harness::samples(&e.path())).sum();
    assert_eq!(samples, 0);
    let patience = Instant::now() + Duration::from_secs(60);
    while left[0].exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(500));
        let next = Run::new(mallow(), place.path()).args(["run", "--", "true"]).go();
        assert_eq!(next.status, 0, "{}", next.err());
        for dir in next.before.new_of(next.pid) {
            let _ = fs::remove_dir_all(dir);
        }
    }
    assert!(!left[0].exists(), "{left:?} is still there");
}

/// What bpftrace counts at the probes is what the process's own file counts.
#[test]
fn probes_count_what_mallow_counts() {
    const TEST: &str = "probes_count_what_mallow_counts";
    const PROBES: [&str; 6] = ["malloc", "calloc", "memalign", "realloc", "realloc_from_tracked", "otel"];
    let place = directory();
    let library = preloaded_library(place.path());
    let script: String = PROBES
        .iter()
        .map(|name| match *name {
            "otel" => format!("usdt:{library}:otel_memory:alloc {{ @otel[pid] = count(); }} "),
            name => format!("usdt:{library}:mallow:{name} {{ @{name}[pid] = count(); }} "),
        })
        .collect();
    let tracer = match Tracer::start(place.path(), &script) {
        Ok(tracer) => tracer,
        Err(why) => return not_run(TEST, &why),
    };
    let sampled = Case::target("busy").args(["2", "200"]).sampled();
    let text = tracer.end();
    let count = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("@{name}[{}]: ", sampled.outcome.pid)));
        line.map_or(0, |n| n.parse().expect("a number"))
    };
    let by_kind: u64 = PROBES.iter().filter(|name| **name != "otel").map(|name| count(name)).sum();
    assert!(sampled.samples > 100, "{sampled:?}");
    assert_eq!((by_kind, count("otel")), (sampled.samples, sampled.samples), "{text}");
}
