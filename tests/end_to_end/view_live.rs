//! `mallow view --live`: the page of a process that runs, and what is left of it afterwards.

use std::path::Path;
use std::process::{Command, Stdio};

use harness::{Browser, Run, Viewer, directory, mallow, program};
use serde_json::{Value, json};

use crate::attach_harness::{Target, code};
use crate::view_page::{Page, SIZES};
use crate::watch_harness::{Alive, maps_of, quiet, until, until_or};

fn server(how: &str) -> Target {
    let target = Target::start(Command::new(program("server")).arg(how));
    // It catches SIGUSR1 and SIGTERM first of all.
    until("the server's begin", || target.field("SigCgt:").ends_with("4200").then_some(()));
    target
}

fn viewer(pid: u32, more: &[&str]) -> Viewer {
    Viewer::start(Path::new("/"), &[&["--live", &pid.to_string(), "--period", "16KiB"], more].concat())
}

fn look(viewer: &Viewer) -> Value {
    let answer = viewer.get("/api/live");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits until a look is as it should be.
fn look_with(viewer: &Viewer, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    let seen = || Some(look(viewer)).filter(|look| good(look));
    until_or(seen, || panic!("no look with {what}: {:#}", look(viewer)))
}

fn place<'a>(look: &'a Value, function: &str) -> Option<&'a Value> {
    look["report"]["places"].as_array()?.iter().find(|place| place["function"] == function)
}

/// Ends mallow as Ctrl-C does, and returns its status.
fn leave(viewer: &mut Viewer) -> i32 {
    let pid = viewer.child().id() as i32;
    // SAFETY: a system call without pointers.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    until("mallow to leave", || viewer.child().try_wait().expect("a child")).code().expect("a status")
}

#[test]
fn a_process_is_shown_as_it_grows() {
    let mut target = server("leak");
    let clean = code(target.pid());
    let viewer = viewer(target.pid(), &[]);
    let mut browser = Browser::start(SIZES[0]);
    browser.open(&viewer.address());
    let mut page = Page::with(viewer, browser, SIZES[0].0);
    page.browser.wait_for("document.querySelector('#tile-live .figure')?.textContent.includes('B')");
    // What grows is named, on the page as in the document.
    let grown = look_with(&page.viewer, "growth", |look| {
        place(look, "keep_request").is_some_and(|place| place["growth"]["verdict"] == "so_far")
            && look["headline"].as_str().is_some_and(|text| text.contains("keep_request"))
    });
    assert!(grown["report"]["attached_ms"].is_u64() && grown["report"]["memory"]["rss"].as_u64() > Some(1 << 20));
    page.wait_for_text("#headline", "keep_request");
    page.wait_for_text("#notices", "blocks allocated before are not included");
    page.wait_for_text("#tile-rss", "older blocks are not known");
    page.wait_for_text("#flame-table", "main");
    // The views are of one process and change by themselves.
    let live = "document.querySelector('#tile-sampled .figure').textContent";
    let first = page.browser.value(live);
    page.browser.wait_for(&format!("{live} !== {first}"));
    for tab in page.tabs() {
        page.show(&tab);
        page.check();
    }
    page.show("tab-places");
    page.wait_for_text("#places-table", "keep_request server.c:");
    page.wait_for_text("#places-table", "grows so far");
    page.browser.click(".table-row[data-row=\"0\"] [role=cell]");
    page.browser.wait_for("!document.querySelector('#detail').hidden");
    page.browser.wait_for("document.querySelector('#detail-source').textContent.includes('server.c')");
    page.browser.click("#detail-close");
    page.show("tab-memory");
    page.wait_for_text("#memory-table", "heap or mapped by the program");
    page.wait_for_text("#memory-view", "of it live heap since mallow attached, older blocks are not known");
    page.check();
    for size in SIZES {
        page.resize(size);
        page.browser.prefer("dark");
        page.check();
    }
    // Paused, it keeps what is shown.
    page.browser.click("#live-pause");
    page.wait_for_text("#live-pause", "Continue");
    let paused = page.browser.value(live);
    look_with(&page.viewer, "later numbers", |look| {
        look["report"]["watched_ms"].as_u64() > grown["report"]["watched_ms"].as_u64().map(|ms| ms + 5000)
    });
    assert_eq!(page.browser.value(live), paused);
    page.browser.click("#live-pause");
    page.browser.wait_for(&format!("{live} !== {paused}"));
    assert!(code(target.pid()) != clean, "it is sampled");
    // Its end is shown, with what was known.
    target.child.kill().expect("it ends");
    page.wait_for_text("#live-ended", "has ended");
    page.wait_for_text("#headline", "keep_request");
    let ended = until("mallow's end", || page.viewer.child().try_wait().expect("a child"));
    assert!(ended.success(), "{ended:?}");
}

#[test]
fn the_views_of_a_look_are_of_its_numbers() {
    let target = server("steady");
    let mut viewer = viewer(target.pid(), &[]);
    let filled = look_with(&viewer, "a cache", |look| {
        place(look, "fill_cache").is_some_and(|place| place["samples"].as_u64() > Some(20))
    });
    assert!(filled["report"]["sites"].as_array().is_some_and(Vec::is_empty));
    // Of the same look as long as nobody asks for another one; rounded by site.
    let report = look(&viewer)["report"].clone();
    let [top, flame] = ["/api/top?by=live", "/api/flame?by=live"].map(|path| viewer.get(path).json());
    let live = report["live_bytes"]["value"].as_f64().expect("bytes");
    for shown in [top["live_bytes"].as_f64(), flame["total"].as_f64()] {
        assert!(shown.is_some_and(|shown| (shown - live).abs() < 10.0), "{shown:?} of {live}");
    }
    let about = viewer.get("/api/about").json();
    assert_eq!((&about["live"], &about["format"]), (&target.pid().into(), &"mallow watch".into()));
    assert_eq!(about["measures"], json!(["allocations", "bytes", "live"]));
    assert_eq!(viewer.get_with("/api/live", &[]).status, 401);
    for (path, status) in [("/api/rss", 422), ("/api/top?from=0&to=1", 422), ("/api/record", 404)] {
        assert_eq!(viewer.get(path).status, status, "{path}");
    }
    let clean = code(target.pid());
    assert_eq!(leave(&mut viewer), 0);
    assert!(code(target.pid()) != clean && !maps_of(&target.pid().to_string()).contains("/p-"), "it is left");
}

#[test]
fn a_process_of_mallow_run_is_joined_and_left_dormant() {
    let mut command = Command::new(mallow());
    let mut run = Alive::start(quiet(command.arg("run").arg("--").arg(program("server")).arg("leak")));
    let pid = run.child.id();
    // No longer the mallow that starts it.
    let joinable = || maps_of(&run.pid()).contains(&format!("/p-{pid}-")).then_some(());
    until("the program to take part", joinable);
    let mut viewer = viewer(pid, &[]);
    let seen = look_with(&viewer, "samples", |look| place(look, "keep_request").is_some());
    assert!(seen["report"]["attached_ms"].is_null(), "{seen:#}");
    assert_eq!(leave(&mut viewer), 0);
    assert!(run.child.try_wait().expect("a child").is_none(), "it goes on");
}

#[test]
fn nobody_who_looks_leaves_the_process() {
    let target = server("steady");
    let clean = code(target.pid());
    let place = directory();
    let run = Run::new(mallow(), place.path());
    let run = run.args(["view", "--no-browser", "--idle", "100ms", "--live", &target.pid().to_string()]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(run.err().contains("nobody looked at the page any more"), "{}", run.err());
    assert!(run.out().starts_with("http://127.0.0.1:") && run.out().lines().count() == 1, "{}", run.out());
    assert!(code(target.pid()) == clean, "its code is as it was");
}

#[test]
fn a_process_that_is_none_is_named() {
    let mut gone = Command::new("true").stdin(Stdio::null()).spawn().expect("true");
    gone.wait().expect("its end");
    let pid = gone.id().to_string();
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["view", "--no-browser", "--live", &pid]).go();
    assert!(run.status != 0 && run.err().contains(&pid) && run.out().is_empty(), "{}{}", run.out(), run.err());
    let run = Run::new(mallow(), place.path()).args(["view", "--live", &pid, "a.mallow"]).go();
    assert!(run.status == 2 && run.err().contains("cannot be used with"), "{}", run.err());
    let run = Run::new(mallow(), place.path()).args(["view", "--period", "1k", "a.mallow"]).go();
    assert!(run.status == 2 && run.err().contains("cannot be used with"), "{}", run.err());
}
