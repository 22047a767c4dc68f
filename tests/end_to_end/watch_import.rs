//! `mallow import` of what bpftrace writes with `examples/probes.bt`, of a server that runs.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use harness::{directory, mallow, not_run, program, root, tool_if_there, workspace};

use crate::watch_harness::{Alive, maps_of, quiet, samples, site, until, until_or};

#[test]
fn what_bpftrace_writes_is_reported_as_mallow_counts_it() {
    const TEST: &str = "what_bpftrace_writes_is_reported_as_mallow_counts_it";
    let Some(bpftrace) = tool_if_there("bpftrace").filter(|_| root()) else {
        return not_run(TEST, "root and bpftrace are needed");
    };
    let place = directory();
    let mut command = Command::new(mallow());
    command.args(["run", "--sample", "--period", "16KiB", "--"]).arg(program("server")).arg("leak");
    let server = Alive::start(quiet(&mut command));
    let library = until("the server to have the library", || {
        let maps = maps_of(&server.pid());
        let line = maps.lines().find(|line| line.contains("/libmallow-"))?;
        line.find('/').map(|at| line[at..].to_owned())
    });
    let script = fs::read_to_string(workspace().join("examples/probes.bt")).expect("the script");
    let script = script.replace("usdt:LIB:", &format!("usdt:{library}:"));
    let (path, events, log) = (place.path().join("probes.bt"), place.path().join("events"), place.path().join("log"));
    fs::write(&path, script).expect("a file");
    let mut command = Command::new(bpftrace);
    command.args(["-B", "line", "-p", &server.pid(), "-o"]).arg(&events).arg(&path);
    let errors = fs::File::create(&log).expect("a file");
    let mut tracer = Alive::start(quiet(&mut command).stderr(errors));
    let written = || fs::read_to_string(&events).unwrap_or_default();
    let enough = || (written().matches(": mallow:").count() > 500).then_some(true);
    let ended = &mut tracer;
    let works = until_or(
        || enough().or_else(|| ended.child.try_wait().expect("a child").map(|_| false)),
        || panic!("{}{}", written(), fs::read_to_string(&log).unwrap_or_default()),
    );
    if !works {
        return not_run(
            TEST,
            &format!("bpftrace does not work here: {}", fs::read_to_string(&log).unwrap_or_default()),
        );
    }
    tracer.signal("INT");
    tracer.end();

    // The same, counted by hand: what was allocated while bpftrace looked, and is still live.
    let mut live = HashSet::new();
    for line in written().lines() {
        let argument = |number: u32| {
            let (_, rest) = line.split_once(&format!("arg{number}="))?;
            rest.split_whitespace().next().map(str::to_owned)
        };
        if line.contains(": mallow:malloc: ") {
            live.insert(argument(2));
        } else if line.contains(": mallow:free: ") {
            live.remove(&argument(2));
        }
    }
    let output = Command::new(mallow()).args(["import", "--json", "--period", "16KiB"]).arg(&events).output();
    let output = output.expect("mallow");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report = harness::document(&output.stdout);
    assert_eq!(report["samples"].as_u64(), Some(live.len() as u64), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(samples(&report, "keep_request") > 0, "{report:#}");
    let kept = site(&report, "keep_request").expect("the site");
    let ratio = kept["live_bytes"]["value"].as_f64().expect("bytes") / kept["live"]["value"].as_f64().expect("blocks");
    assert!((ratio - 1000.0).abs() < 1.0, "{ratio}");
}

/// Events without process ids, by a clock that begins with the machine.
#[test]
fn what_events_do_not_say_is_not_said_of_them() {
    let place = directory();
    let events = place.path().join("events");
    let text = "prog  4711 [001]  10.000000: sdt_mallow:malloc: (7f5c3d00) arg1=1000 arg2=4096 arg3=100000\n\
                \t    7f5c3d00 malloc+0x20 (/home/me/libmallow.so)\n\t    55d0c3a1 fa+0x11 (/usr/bin/prog)\n";
    fs::write(&events, text).expect("a file");
    let output = Command::new(mallow()).args(["import", "-o"]).arg(place.path().join("x.pb.gz")).arg(&events).output();
    let output = output.expect("mallow");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.starts_with("prog, pid unknown, events of 0 ms\n"), "{shown}");
    let report = Command::new(mallow()).args(["report", "--json"]).arg(place.path().join("x.pb.gz")).output();
    let report = harness::document(&report.expect("mallow").stdout);
    assert!(matches!(report["started_unix_ms"].as_u64(), None | Some(0)), "{}", report["started_unix_ms"]);
}
