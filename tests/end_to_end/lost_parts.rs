//! Whatever a filter leaves of a recording is judged by its own process images: lost, reachable, not scanned and given
//! back by exec add up over the parts of a recording.

use std::path::Path;

use harness::{Run, directory, mallow, program};
use serde_json::Value;

/// What `leaks` says of a part: bytes and blocks lost, reachable, not scanned, live at an exec; and all.
type Sums = [u64; 10];

fn leaks(place: &Path, filters: &[&str]) -> Option<Value> {
    let run = Run::new(mallow(), place).args(["leaks", "--json", "--limit", "0"]).args(filters).arg("l.mallow").go();
    let nothing = ["no block matches ", "nothing was allocated by ", "nothing is left by ", "is called so; "];
    if run.status != 0 && nothing.iter().any(|words| run.err().contains(words)) {
        return None;
    }
    assert_eq!(run.status, 0, "{filters:?}: {}", run.err());
    Some(serde_json::from_str(&run.out()).expect("JSON"))
}

fn sums(place: &Path, filters: &[&str]) -> Sums {
    let Some(all) = leaks(place, filters) else { return Sums::default() };
    let number = |key: &str| all[key].as_u64().unwrap_or(0);
    let unscanned = |key: &str| {
        let reasons = all["unscanned"].as_array().expect("reasons").iter();
        reasons.map(|reason| reason[key].as_u64().expect("a number")).sum()
    };
    let sums = [
        number("lost_blocks"),
        number("lost_bytes"),
        number("reachable_blocks"),
        number("reachable_bytes"),
        unscanned("live"),
        unscanned("live_bytes"),
        number("live_at_exec_blocks"),
        number("live_at_exec_bytes"),
        number("live"),
        number("live_bytes"),
    ];
    let of = |first: usize| (0..4).map(|state| sums[2 * state + first]).sum::<u64>();
    assert_eq!([of(0), of(1)], [sums[8], sums[9]], "{filters:?}: {all:#}");
    sums
}

fn record(place: &Path, script: &str) {
    let run = Run::new(mallow(), place).args(["record", "--scan-all", "--no-report", "-o", "l.mallow", "--"]);
    let run = run.args(["/bin/sh", "-c", script]).arg(program("lost")).go();
    assert_eq!(run.status, 7, "{}", run.err());
}

/// `env`, and the program that it becomes by exec, share a pid. Neither is judged by the scan of the other.
#[test]
fn a_process_filter_judges_each_image_by_its_own_scan() {
    let place = directory();
    record(place.path(), "exec env \"$0\" lose keep");
    let all = sums(place.path(), &[]);
    let lost = sums(place.path(), &["--process", "lost"]);
    let env = sums(place.path(), &["--process", "env"]);
    assert_eq!((lost[0], lost[1]), (26, 5 * 100 + 20 * 48 + 310));
    assert!(env[6] > 0 && env[..6] == [0; 6], "{env:?}");
    // The shell became env by exec.
    let shell = sums(place.path(), &["--process", "sh"]);
    assert_eq!((lost[6], all[0], all[6]), (0, 26, env[6] + shell[6]));
    let gate = |filters: &[&str]| {
        let run = Run::new(mallow(), place.path()).args(["leaks", "--fail-on-leak"]).args(filters).arg("l.mallow");
        run.go().status
    };
    assert_eq!(gate(&["--process", "lost"]), 3);
    assert_eq!(gate(&["--process", "lost", "--only", "lost"]), 3);
    assert_eq!(gate(&["--process", "env"]), 0);
    let pid = leaks(place.path(), &["--process", "lost"]).expect("blocks")["sites"][0]["pids"][0].to_string();
    assert_eq!(gate(&["--process", &pid, "--only", "lost"]), 3);
    assert_eq!(sums(place.path(), &["--process", &pid]), all);
    let text = |filters: &[&str]| {
        Run::new(mallow(), place.path()).args(["leaks", "--process"]).args(filters).arg("l.mallow").go().out()
    };
    assert!(text(&["lost"]).contains("1.77 kB in 26 blocks lost: no pointer to them was found"), "{}", text(&["lost"]));
    let env = text(&["env"]);
    assert!(env.contains(": all were freed, or given back by exec.") && env.contains("\nNo leak: "), "{env}");
    // The overview, too.
    let report = |process: &str| {
        let run = Run::new(mallow(), place.path()).args(["report", "--process", process, "l.mallow"]).go().out();
        run.lines().find(|line| line.contains("live at end")).unwrap_or_else(|| panic!("{run}")).to_owned()
    };
    assert!(report("lost").contains("1.77 kB of it lost"), "{}", report("lost"));
    assert!(report("env").ends_with(" all given back by exec"), "{}", report("env"));
}

/// The memory of the right process, by the same filter.
#[test]
fn a_process_filter_keeps_the_memory_of_its_processes() {
    let place = directory();
    record(place.path(), "exec env \"$0\" lose keep");
    let json = |filters: &[&str]| -> Value {
        let run = Run::new(mallow(), place.path()).args(["report", "--json"]).args(filters).arg("l.mallow").go();
        serde_json::from_str(&run.out()).expect("JSON")
    };
    let all = json(&[]);
    let processes = all["processes"].as_array().expect("processes");
    let lost =
        processes.iter().find(|process| process["executable"].as_str().is_some_and(|path| path.ends_with("/lost")));
    let of_lost = json(&["--process", "lost"]);
    let highest = &of_lost["highest_rss"];
    assert!(highest["peak_rss"].as_u64() > Some(0), "{of_lost:#}");
    let (start, end) = (&lost.expect("it")["start_ms"], &lost.expect("it")["end_ms"]);
    let within = start.as_u64()..=end.as_u64();
    assert!(within.contains(&highest["ms"].as_u64()), "{highest:#} of {lost:?}");
}

#[test]
fn parts_of_a_recording_add_up_to_the_whole() {
    let place = directory();
    let script = "\"$0\" lose cycles; env \"$0\" lose _exit; env \"$0\" fork threads; \"$0\" lose keep";
    record(place.path(), script);
    let whole = sums(place.path(), &[]);
    assert!([0, 2, 4, 6].iter().all(|&state| whole[state] > 0), "{whole:?}");
    let add = |parts: &[Vec<&str>]| {
        let mut sum = Sums::default();
        for part in parts {
            sum.iter_mut().zip(sums(place.path(), part)).for_each(|(sum, part)| *sum += part);
        }
        sum
    };
    let check = |what: &str, parts: &[Vec<&str>]| assert_eq!(add(parts), whole, "{what}");
    check("when allocated", &[vec!["--time", "..50%"], vec!["--time", "50%.."]]);
    check("size", &[vec!["--size", "..100"], vec!["--size", "100..300"], vec!["--size", "300.."]]);
    check("lifetime", &[vec!["--lifetime", "..20ms"], vec!["--lifetime", "20ms.."]]);
    for pattern in ["lost_list", "main", "lost$", "libc"] {
        check(pattern, &[vec!["--focus", pattern], vec!["--ignore", pattern]]);
        check(pattern, &[vec!["--hide", pattern]]);
    }
    let report = Run::new(mallow(), place.path()).args(["report", "--json", "l.mallow"]).go().out();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let mut pids: Vec<String> =
        report["processes"].as_array().expect("processes").iter().map(|process| process["pid"].to_string()).collect();
    pids.sort_unstable();
    pids.dedup();
    let by_pid: Vec<Vec<&str>> = pids.iter().map(|pid| vec!["--process", pid]).collect();
    check("pids", &by_pid);
    check("programs", &[vec!["--process", "lost"], vec!["--process", "env"], vec!["--process", "sh"]]);
    // Threads that are no first ones have other ids than processes.
    let threads = Run::new(mallow(), place.path()).args(["threads", "--json", "--limit", "0", "l.mallow"]).go();
    let threads: Value = serde_json::from_str(&threads.out()).unwrap_or_else(|_| panic!("{}", threads.err()));
    let mut tids: Vec<String> =
        threads["threads"].as_array().expect("threads").iter().map(|thread| thread["tid"].to_string()).collect();
    tids.sort_unstable();
    tids.dedup();
    assert!(tids.len() > pids.len(), "{tids:?}");
    let by_thread: Vec<Vec<&str>> = tids.iter().map(|tid| vec!["--thread", tid]).collect();
    check("threads", &by_thread);
}
