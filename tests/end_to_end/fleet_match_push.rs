//! `mallow watch --match` with stores and scrapers that ask for differences: each process is one of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::fleet::{get, number};
use crate::fleet_match::{Fleet, member, members, pid};
use crate::fleet_push::{Store, sum};
use crate::go_pprof::Raw;
use crate::watch_harness::{Alive, occasion, reports, until, wait_for};

fn of_process(taken: &[Value], pid: u64) -> Vec<Value> {
    let pid = pid.to_string();
    taken.iter().filter(|one| one["resource"]["process.pid"] == *pid).cloned().collect()
}

/// The last report of each process that has `allocated_bytes`.
fn allocated(reports: &[Value]) -> BTreeMap<u64, i64> {
    let all = reports.iter().filter(|report| report["programs"].is_array()).flat_map(members);
    all.map(|member| {
        let bytes = member["allocated_bytes"].as_i64().expect("bytes");
        (member["pid"].as_u64().expect("a pid"), bytes)
    })
    .collect()
}

/// Twelve processes, three that come and go meanwhile, and a store that is gone twice. Three of the twelve leak.
#[test]
fn each_process_has_profiles_of_its_own_whatever_becomes_of_the_store() {
    let fleet = Fleet::new();
    let mut leaking: Vec<Alive> = (0..3).map(|_| fleet.start("pushed", "leak")).collect();
    let steady: Vec<Alive> = (0..9).map(|_| fleet.start("pushed", "steady")).collect();
    let everyone: Vec<u64> = leaking.iter().chain(&steady).map(pid).collect();
    let mut store = Store::start(fleet.place.path(), "store", "otlp", &[]);
    let flag = store.flag("http");
    let flags = ["--push", &flag, "--push-every", "500ms", "--limit", "0", "--listen", "127.0.0.1:0"];
    let mut watch = fleet.watch("reports", "pushed", &flags);
    let file = fleet.path("reports");
    let all_have = |store: &Store, least: usize| {
        let taken = store.taken();
        everyone.iter().all(|pid| of_process(&taken, *pid).len() >= least).then_some(())
    };
    until("profiles of all", || all_have(&store, 2));
    let address = store.address.clone();
    for _ in 0..2 {
        store.kill();
        let failed = |report: &Value| report["push"]["stores"][0]["failed_attempts"].as_u64() > Some(0);
        wait_for(&file, "failures", failed);
        // One comes and goes, and no store knows.
        let mut short = fleet.start("pushed", "leak");
        let known = |report: &Value| member(report, pid(&short)).is_some_and(|it| it["samples"].as_u64() > Some(20));
        wait_for(&file, "one more", |report| report["programs"].is_array() && known(report));
        short.signal("TERM");
        assert_eq!(short.end(), 0);
        let before = most(&store, &everyone);
        store = Store::start(fleet.place.path(), "store", "otlp", &["-address", &address]);
        until("profiles after the outage", || all_have(&store, before + 2));
    }
    let mut ended = leaking.remove(0);
    ended.signal("TERM");
    assert_eq!(ended.end(), 0);
    until("its last profile", || {
        let its = of_process(&store.taken(), pid(&ended));
        its.last().is_some_and(|last| sum(std::slice::from_ref(last), "inuse_space") == 0).then_some(())
    });
    let (status, numbers) = get(&fleet.address("reports"), "/metrics", "Host: localhost\r\n");
    let numbers = String::from_utf8_lossy(&numbers).into_owned();
    let sent = format!("mallow_push_profiles_total{{store=\"otlp\",url=\"http://{address}\",result=\"sent\"}}");
    assert!(status == 200 && number(&numbers, &sent) > Some(0.0), "{numbers}");
    watch.signal("TERM");
    assert_eq!(watch.end(), 0, "{}", fleet.errors("reports"));

    let all = reports(&file);
    let words = all.last().expect("reports");
    assert!(occasion("push")(words), "{words}");
    let said = &words["push"]["stores"][0];
    let figure = |name: &str| said[name].as_u64().expect("a number");
    let taken = store.taken();
    let time = |one: &Value, which: &str| one[which].as_i64().expect("a time");
    let windows: BTreeSet<(i64, i64, String)> = taken
        .iter()
        .map(|one| (time(one, "from_ms"), time(one, "until_ms"), one["resource"]["process.pid"].to_string()))
        .collect();
    assert_eq!(windows.len(), taken.len(), "a window comes twice");
    let arrived = taken.len() as u64;
    assert!((figure("sent")..=figure("sent") + figure("unknown")).contains(&arrived), "{said}: {arrived} taken");
    assert_eq!([figure("rejected"), figure("unsent"), figure("waiting")], [0; 3], "{said}");
    // A store that is killed may take one with it each time.
    assert!(figure("unknown") <= 2, "{said}");
    if arrived == figure("sent") + figure("unknown") {
        for (pid, bytes) in allocated(&all) {
            let its = of_process(&taken, pid);
            let sites = its.iter().map(|one| one["sites"]["alloc_space"].as_object().map_or(0, |sites| sites.len()));
            let pushed = sum(&its, "alloc_space");
            let rounding = sites.max().unwrap_or_default() as u64;
            assert!((pushed - bytes).unsigned_abs() <= rounding, "{pid}: {pushed} of {bytes} bytes");
        }
    }
    // Who leaks, and where.
    for (process, leaks) in leaking.iter().map(|one| (one, true)).chain(steady.iter().map(|one| (one, false))) {
        let last = of_process(&taken, pid(process)).pop().expect("profiles");
        let live = last["sites"]["inuse_space"].as_object().expect("sites");
        let kept = live.iter().filter(|(stack, _)| stack.starts_with("keep_request<"));
        let kept: f64 = kept.filter_map(|(_, bytes)| bytes.as_f64()).sum();
        assert_eq!(kept > 0.0, leaks, "{}: {last}", pid(process));
        assert_eq!(last["resource"]["process.executable.name"], "server", "{last}");
    }
}

fn most(store: &Store, everyone: &[u64]) -> usize {
    let taken = store.taken();
    everyone.iter().map(|pid| of_process(&taken, *pid).len()).max().unwrap_or_default()
}

#[test]
fn a_full_disk_for_reports_stops_neither_profiles_nor_numbers() {
    let fleet = Fleet::new();
    let leaks = fleet.start("crowded", "leak");
    std::os::unix::fs::symlink("/dev/full", fleet.path("reports")).expect("a link");
    let store = Store::start(fleet.place.path(), "store", "pyroscope", &[]);
    let flags = ["--push", &store.flag("http"), "--push-every", "500ms", "--listen", "127.0.0.1:0", "--warm-up", "2s"];
    let mut watch = fleet.watch("reports", "crowded", &flags);
    fleet.wait_for_line("reports", "watching continues");
    let before = store.taken().len();
    until("more profiles", || (store.taken().len() >= before + 4).then_some(()));
    let address = fleet.address("reports");
    until("the leak's numbers", || {
        let (status, numbers) = get(&address, "/metrics", "Host: localhost\r\n");
        let numbers = String::from_utf8_lossy(&numbers).into_owned();
        let series = format!("mallow_place_growth_bytes_per_hour{{program=\"crowded\",pid=\"{}\",", pid(&leaks));
        (status == 200 && numbers.contains(&series)).then_some(())
    });
    watch.signal("TERM");
    assert_eq!(watch.end(), 1, "{}", fleet.errors("reports"));
    let errors = fleet.errors("reports");
    // Once, and not with each report; and what became of the profiles all the same.
    assert_eq!(errors.matches("watching continues").count(), 1, "{errors}");
    assert!(errors.contains("profiles to pyroscope at http://127.0.0.1:"), "{errors}");
}

/// `?seconds=N` of processes that stay, come and go.
#[test]
fn a_difference_has_what_each_process_did_meanwhile() {
    let fleet = Fleet::new();
    let stays = fleet.start("differs", "leak");
    let mut goes = fleet.start("differs", "leak");
    let _watch = fleet.watch("reports", "differs", &["--listen", "127.0.0.1:0"]);
    let both = |report: &Value| {
        [pid(&stays), pid(&goes)]
            .iter()
            .all(|pid| member(report, *pid).is_some_and(|it| it["samples"].as_u64() > Some(20)))
    };
    wait_for(&fleet.path("reports"), "both", both);
    let (address, saved) = (fleet.address("reports"), fleet.path("heap.pb.gz"));
    let file = saved.clone();
    let asked = std::thread::spawn(move || {
        let (status, body) = get(&address, "/debug/pprof/heap?seconds=4", "Host: localhost\r\n");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        fs::write(file, body).expect("a file");
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    let comes = fleet.start("differs", "leak");
    goes.signal("TERM");
    assert_eq!(goes.end(), 0);
    asked.join().expect("an answer");
    let of = |process: &Alive, kind: &str| {
        let focus = format!("-tagfocus=pid={}", pid(process));
        Raw::with(fleet.place.path(), &[&focus, saved.to_str().expect("a path")]).signed_sum(kind)
    };
    for (process, sign) in [(&stays, 1), (&goes, -1), (&comes, 1)] {
        assert_eq!(of(process, "inuse_space").signum(), sign, "{}", pid(process));
    }
    // What one that is gone had allocated by the first moment is no news.
    assert_eq!(of(&goes, "alloc_space"), 0);
    assert!(of(&stays, "alloc_space") > 0 && of(&comes, "alloc_space") > 0);
}
