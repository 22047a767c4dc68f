//! Profiles of several watched processes, added up and compared: their intervals have the truth, and other readers do
//! not notice what Mallow reads them from.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use harness::{Run, directory, json, mallow, program};
use serde_json::Value;

use crate::fleet::Watched;
use crate::go_pprof::{Raw, go, pprof};
use crate::other_tools::ran;
use crate::view_page::{Page, SIZES};
use crate::watch_harness::until_or;

const SIZE: u64 = 200;
const LARGE: u64 = 10 << 20;

/// A program that holds so many small blocks and ten large ones, watched until all are there.
fn hoard(place: &Path, blocks: u64) -> Watched {
    fs::create_dir(place).expect("a directory");
    let arguments = [blocks.to_string(), SIZE.to_string()];
    let arguments = arguments.each_ref().map(String::as_str);
    let watched = Watched::of(place, &["--listen", "127.0.0.1:0"], &program("hoard"), &arguments, Stdio::piped());
    // The large ones come last, and each of them is picked.
    let all_there = || (row(&top(place, &heap(&watched)), "keep_large")?["self"]["live"] == 10).then_some(());
    until_or(all_there, || panic!("not all blocks: {}", watched.text("/debug/pprof/heap?debug=1")));
    watched
}

fn heap(watched: &Watched) -> String {
    format!("http://{}/debug/pprof/heap", watched.address)
}

fn top(place: &Path, file: &str) -> Value {
    json(&ran(Run::new(mallow(), place).args(["top", "--by", "live", "--json", file])))
}

fn row<'a>(top: &'a Value, function: &str) -> Option<&'a Value> {
    top["functions"].as_array()?.iter().find(|row| row["function"] == function)
}

/// An estimate with its limits.
fn limits(estimate: &Value) -> [f64; 3] {
    ["low", "value", "high"].map(|key| estimate[key].as_f64().unwrap_or_else(|| panic!("no {key} in {estimate}")))
}

/// Whether the truth is at most 2.5 times as far away as the interval reaches, which it is in all but one run of a
/// million. How often it is within is measured elsewhere, in thousands of runs.
fn near(estimate: &Value, truth: f64) {
    let [low, value, high] = limits(estimate);
    assert!(low < value && value < high, "{estimate}");
    let far = if truth < value { value - low } else { high - value };
    assert!((value - truth).abs() <= 2.5 * far, "{truth} is not near {estimate}");
}

#[test]
fn live_bytes_of_several_processes_have_an_interval_with_the_truth() {
    let place = directory();
    let place = place.path();
    let blocks = [2000, 4000, 6000, 8000];
    let names = ["a", "b", "c", "d"];
    let watched: Vec<Watched> =
        names.iter().zip(blocks).map(|(name, blocks)| hoard(&place.join(name), blocks)).collect();
    let urls: Vec<String> = watched.iter().map(heap).collect();
    let merge = Run::new(mallow(), place).arg("merge").args(&urls[..3]).args(["-o", "three.pb.gz"]);
    let said = ran(merge).err();
    assert!(said.contains("live in all of them: ") && said.contains("added up 3 files: 3 processes"), "{said}");
    let said =
        ran(Run::new(mallow(), place).args(["merge", "three.pb.gz"]).arg(&urls[3]).args(["-o", "all.pb.gz"])).err();
    assert!(said.contains("added up 2 files: 4 processes"), "{said}");

    let all = top(place, "all.pb.gz");
    let small = row(&all, "keep_small").expect("the site");
    let truth = (blocks.iter().sum::<u64>() * SIZE) as f64;
    near(&small["self_estimate"], truth);
    let [low, value, high] = limits(&small["self_estimate"]);
    assert!(high - low < 0.5 * value, "{small}");
    // The interval of one process is wider, measured by its number.
    let one = top(place, &urls[0]);
    let [one_low, one_value, one_high] = limits(&row(&one, "keep_small").expect("the site")["self_estimate"]);
    assert!((one_high - one_low) / one_value > 1.3 * (high - low) / value, "{one} {all}");
    // What was seen whole is exact.
    let large = row(&all, "keep_large").expect("the site");
    assert_eq!(limits(&large["self_estimate"])[..2], [4.0 * LARGE as f64; 2], "{large}");
    let text = ran(Run::new(mallow(), place).args(["top", "--by", "live", "all.pb.gz"])).out();
    assert!(text.contains("95 %") && text.contains("±"), "{text}");
    let report = json(&ran(Run::new(mallow(), place).args(["report", "--json", "all.pb.gz"])));
    near(&report["estimates"]["live_bytes"], truth + 4.0 * LARGE as f64);
    near(&report["estimates"]["allocations"], (blocks.iter().sum::<u64>() + 40) as f64);

    // Two hosts, by their addresses.
    let diff = Run::new(mallow(), place).args(["diff", "--by", "live", "--json"]).args([&urls[0], &urls[3]]);
    let diff = json(&ran(diff));
    let change = &diff["places"]["largest"][0];
    assert_eq!(change["function"], "keep_small", "{change}");
    near(&change["estimate"], (6000 * SIZE) as f64);
    assert!(limits(&change["estimate"])[0] > 0.0, "four times as much is significant: {change}");
    let text = ran(Run::new(mallow(), place).arg("diff").args([&urls[0], &urls[3]])).out();
    assert!(text.contains("95 %") && !text.contains("significant"), "{text}");
    let text = ran(Run::new(mallow(), place).args(["diff", "three.pb.gz", "three.pb.gz"])).out();
    assert!(text.contains(", not significant"), "{text}");

    // The page has the same margins, in the terminal's words.
    let mut page = Page::open(place, &["three.pb.gz", "three.pb.gz"], SIZES[0]);
    page.wait_for_text("#tile-live", ", not significant");
    assert!(!page.browser.text("#summary").unwrap_or_default().contains("estimates"));
    fs::write(place.join("one.pb.gz"), watched[0].get("/debug/pprof/heap").1).expect("a file");
    let diff = ran(Run::new(mallow(), place).args(["diff", "--by", "live", "one.pb.gz", "all.pb.gz"])).out();
    let mut page = Page::open(place, &["one.pb.gz", "all.pb.gz"], SIZES[0]);
    page.show("tab-changes");
    page.wait_for_text("#changes-view", "keep_small");
    let margins =
        "[...document.querySelectorAll('#changes-view .table-row > :nth-child(4)')].map(cell => cell.textContent)";
    let margins = page.browser.value(margins);
    let margins = margins.as_array().expect("margins");
    let said = |margin: &Value| margin.as_str().is_some_and(|margin| diff.contains(margin));
    assert!(margins.iter().any(|margin| margin != "") && margins.iter().all(said), "{margins:?} {diff}");
}

/// `go tool pprof` has the same sums and one node for a function, writes what it read, and adds files up itself.
#[test]
fn other_readers_pass_over_what_intervals_are_made_of() {
    let place = directory();
    let place = place.path();
    let (one, other) = (hoard(&place.join("a"), 3000), hoard(&place.join("b"), 5000));
    // All of them before Go: where it builds its pprof first, the programs are gone then.
    let documents = [("a.pb.gz", &one, "heap"), ("b.pb.gz", &other, "heap"), ("delta.pb.gz", &one, "heap?seconds=1")];
    for (name, watched, document) in documents {
        let (status, body) = watched.get(&format!("/debug/pprof/{document}"));
        assert_eq!(status, 200, "{name}");
        fs::write(place.join(name), body).expect("a file");
    }
    let counted = top(place, "a.pb.gz");
    let number = |key: &str| counted[key].as_u64().expect("a number");
    let raw = Raw::of(place, "a.pb.gz");
    assert_eq!(raw.samples.len(), 2, "a sample for each site: {raw:?}");
    assert_eq!(raw.sum("inuse_space"), number("live_bytes"));
    assert_eq!(raw.sum("alloc_objects"), number("allocations"));
    let text = pprof(place, &["-raw", "a.pb.gz"]);
    assert!(text.contains("mallow.inuse_space:["), "{text}");
    let dot = pprof(place, &["-dot", "-nodecount=100", "a.pb.gz"]);
    let nodes = |function: &str| dot.lines().filter(|l| l.contains("[label=") && l.contains(function)).count();
    assert_eq!([nodes("label=\"keep_small"), nodes("label=\"keep_large"), nodes("mallow.inuse")], [1, 1, 0], "{dot}");

    let ours = Run::new(mallow(), place).args(["merge", "a.pb.gz", "b.pb.gz", "-o", "ours.pb.gz"]);
    ran(ours);
    ran(go(place).args(["tool", "pprof", "-proto", "-output=theirs.pb.gz", "a.pb.gz", "b.pb.gz"]));
    let [ours, theirs] = ["ours.pb.gz", "theirs.pb.gz"].map(|file| top(place, file));
    let [ours, theirs] =
        [&ours, &theirs].map(|top| limits(&row(top, "keep_small").expect("the site")["self_estimate"]));
    assert_eq!(ours[1], theirs[1]);
    // The draw between two whole numbers of samples is that of the file.
    let close = |a: f64, b: f64| (a - b).abs() < 0.1 * (ours[2] - ours[0]);
    assert!(close(ours[0], theirs[0]) && close(ours[2], theirs[2]), "{ours:?} {theirs:?}");
    // A file that was scaled has no intervals any more: they are not those of its numbers.
    ran(go(place).args(["tool", "pprof", "-proto", "-divide_by=2", "-output=half.pb.gz", "a.pb.gz"]));
    let half = top(place, "half.pb.gz");
    assert!(row(&half, "keep_small").expect("the site").get("self_estimate").is_none(), "{half}");
    // What changes within a second has none either.
    assert!(!pprof(place, &["-raw", "delta.pb.gz"]).contains("mallow.inuse"));
}
