//! The page of `mallow view`, the exported page and the terminal say the same: each sentence of `mallow report` is on
//! the page, for every kind of file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Browser, Case, Run, Viewer, directory, mallow, number, program, tool, workspace};
use serde_json::{Value, json};

use crate::go_profile::profiled;
use crate::other_tools::ran;
use crate::view_page::{Page, SIZES};
use crate::watch_harness::{Alive, quiet, until};

/// White space is one space each, and a page begins titles with a capital letter.
fn words(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The sentences of the whole `mallow report`, tables of places left out: a page has a table of its own for these.
fn sentences(report: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut list = "";
    for line in report.lines() {
        let is_row = line.starts_with(' ');
        if !is_row {
            list = "";
        }
        match line {
            "" => {}
            // A heading, and what belongs to it.
            _ if line.starts_with("Most ") || line.starts_with("Processes") => list = "places",
            // A sum by programs; a page has its processes.
            _ if line.starts_with("  Programs ") => list = "places",
            _ if line.starts_with("Insights") => list = "insights",
            _ if list == "places" => {}
            // The place of an insight is a name; what it may save is a sentence, and so is what stands below.
            _ if list == "insights" && !line.starts_with("          ") => {
                all.extend(line.split("  ").find(|cell| !cell.trim().is_empty()).map(words));
            }
            _ if list == "insights" => all.push(words(line)),
            _ if is_row => all.extend(line.split("  ").filter(|cell| !cell.trim().is_empty()).map(words)),
            _ => match line.strip_prefix("Verdict: ") {
                Some(verdict) => {
                    const LEADS: [&str; 3] =
                        ["of what was recorded, ", "by estimates, ", "by estimates of what was recorded, "];
                    let said = LEADS.into_iter().find_map(|lead| verdict.strip_prefix(lead)).unwrap_or(verdict);
                    assert!(!said.is_empty(), "an empty verdict: {report}");
                    all.extend(said.split("; ").map(words));
                }
                None => all.push(words(line)),
            },
        }
    }
    all
}

/// All that the first screen of a page says, and its insights.
fn said(browser: &mut Browser) -> String {
    for shown in ["#tabs [role=tab]", "#summary :not(:empty)", "#verdict, #summary .empty"] {
        browser.wait_for(&format!("document.querySelector({})", json!(shown)));
    }
    let text = |browser: &mut Browser, selector: &str| {
        let all = format!(
            "[...document.querySelectorAll({})].flatMap(part => [...part.querySelectorAll('*'), part])
                .map(part => part.textContent).join('\\n')",
            json!(selector)
        );
        browser.value(&all).as_str().expect("a text").to_owned()
    };
    let mut all = text(browser, "#head, #notices, #summary");
    if browser.value("document.querySelector('#tab-insights') !== null") == true {
        browser.click("#tab-insights");
        browser.wait_for("document.querySelector('#insights-view')?.textContent.trim()");
        all += &text(browser, "#insights-view");
    }
    words(&all)
}

/// Fails where a sentence of the report is not on the page of `mallow view`, or not on the exported one. Returns the
/// sentences.
fn agrees(place: &Path, file: &str) -> Vec<String> {
    let report = ran(Run::new(mallow(), place).args(["report", "--limit", "20", file])).out();
    let sentences = sentences(&report);
    assert!(sentences.len() > 4, "{report}");
    let mut page = Page::open(place, &[file], SIZES[0]);
    let shown = said(&mut page.browser);
    page.check();
    ran(Run::new(mallow(), place).args(["export", "--format", "html", "-o", "page.html", file]));
    let mut browser = Browser::start(SIZES[0]);
    browser.open(&format!("file://{}", place.join("page.html").display()));
    let exported = said(&mut browser);
    for (what, text) in [("mallow view", shown), ("export --format html", exported)] {
        let missing: Vec<_> = sentences.iter().filter(|sentence| !text.contains(sentence.as_str())).collect();
        assert!(missing.is_empty(), "{file}: {what} does not say {missing:#?}\nreport:\n{report}\npage:\n{text}");
    }
    // And in JSON, for scripts.
    let json = ran(Run::new(mallow(), place).args(["report", "--json", file])).out();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let verdict = &json["sentences"]["verdict"]["statements"];
    assert!(
        sentences.iter().any(|sentence| verdict[0].as_str().map(words).as_deref() == Some(sentence.as_str())),
        "{verdict} {report}"
    );
    sentences
}

fn has(sentences: &[String], part: &str) -> bool {
    sentences.iter().any(|sentence| sentence.contains(&part.to_lowercase()))
}

#[test]
fn each_sentence_about_a_recording_is_on_the_page() {
    let record = Case::target("lost").option("--scan-all").arg("lose").record();
    let place = record.directory.path();
    let sentences = agrees(place, "run.mallow");
    assert!(has(&sentences, "ran ") && has(&sentences, " lost, ") && has(&sentences, "at the peak"), "{sentences:#?}");
    let whole = fs::read(&record.file).expect("the recording");
    fs::write(place.join("cut.mallow"), &whole[..whole.len() * 9 / 10]).expect("a file");
    let sentences = agrees(place, "cut.mallow");
    assert!(has(&sentences, "Incomplete: the recording is cut short: "), "{sentences:#?}");
    // Nobody knows what is lost where nothing was scanned.
    let run = Run::new(mallow(), place).args(["record", "--no-scan", "--no-report", "-o", "unscanned.mallow", "--"]);
    run.arg(program("lost")).arg("lose").go();
    let sentences = agrees(place, "unscanned.mallow");
    assert!(!has(&sentences, "none lost") && !has(&sentences, "no block was lost"), "{sentences:#?}");
    let habits = Case::target("habits").arg("habits").record();
    let sentences = agrees(habits.directory.path(), "run.mallow");
    assert!(has(&sentences, "of malloc's time") && has(&sentences, "freed one after another in"), "{sentences:#?}");
    let unrecorded = Run::new(mallow(), place).args(["record", "--no-report", "-o", "sh.mallow", "--"]);
    ran(unrecorded.args(["sh", "-c", "true; env -i /bin/true; /bin/echo x"]));
    agrees(place, "sh.mallow");
}

#[test]
fn each_sentence_about_a_profile_of_another_tool_is_on_the_page() {
    let place = directory();
    let files = workspace().join("crates/formats/tests/files");
    let names = [
        "leak.dhat",
        "leak.gperftools",
        "leak.heaptrack.zst",
        "leak.heaptrack_print",
        "leak.heaptrack_raw.zst",
        "leak.jemalloc",
        "leak.massif",
        "hold.jeprof",
        "keep.go_text",
        "words.pprof",
    ];
    for name in names {
        fs::copy(files.join(name), place.path().join(name)).expect("a copy");
        let sentences = agrees(place.path(), name);
        assert!(has(&sentences, " profile") && !has(&sentences, "leaked"), "{name}: {sentences:#?}");
    }
    fs::write(place.path().join("a.folded"), "main;load;read 70\nmain;drop 3\n").expect("a file");
    agrees(place.path(), "a.folded");
}

/// What a Go program has in use is live: it never leaks.
#[test]
fn each_sentence_about_a_go_heap_is_on_the_page_and_none_says_leaked() {
    let module = profiled();
    let sentences = agrees(module.path(), "heap.pb.gz");
    assert!(has(&sentences, "when the profile was taken") && has(&sentences, " live, "), "{sentences:#?}");
    assert!(!has(&sentences, "leaked") && !has(&sentences, "at the end"), "{sentences:#?}");
    let report = ran(Run::new(mallow(), module.path()).args(["report", "--all", "heap.pb.gz"])).out();
    assert!(!report.to_lowercase().contains("leaked"), "{report}");
    let mut page = Page::open(module.path(), &["heap.pb.gz"], SIZES[0]);
    page.show("tab-leaks");
    page.browser.wait_for("document.querySelector('#leaks-table')");
    let all = page.browser.value("document.body.textContent.toLowerCase().includes('leaked')");
    assert_eq!(all, false, "{}", page.browser.value("document.body.innerText"));
}

#[test]
fn each_sentence_about_a_snapshot_of_a_watch_is_on_the_page() {
    let place = directory();
    let snapshots = place.path().join("snapshots");
    let mut command = Command::new(mallow());
    command.args(["watch", "--period", "16KiB", "--every", "1s", "--older-than", "1s", "--snapshots"]);
    let mut watched = Alive::start(quiet(command.arg(&snapshots).arg("--").arg(program("server"))));
    let files = || -> Vec<PathBuf> {
        let all = fs::read_dir(&snapshots).into_iter().flatten().flatten().map(|entry| entry.path());
        all.filter(|path| path.extension().is_some_and(|end| end == "gz")).collect()
    };
    let mut found = until("two snapshots", || Some(files()).filter(|all| all.len() >= 2));
    watched.signal("TERM");
    watched.end();
    found.sort();
    fs::copy(&found[0], place.path().join("heap.pb.gz")).expect("a copy");
    let sentences = agrees(place.path(), "heap.pb.gz");
    assert!(has(&sentences, "sampled: estimates from one allocation in"), "{sentences:#?}");
    assert!(!has(&sentences, "leaked"), "{sentences:#?}");
}

const AGES: &str = r#"
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) static void drop(int n) { kept = malloc(n); }
int main(void) { drop(100); usleep(400000); drop(200); kept = 0; usleep(200000); return 0; }
"#;

/// The first block is the older one, by the time in between.
#[test]
fn ages_on_the_page_are_those_of_the_report() {
    let place = directory();
    fs::write(place.path().join("ages.c"), AGES).expect("a source");
    ran(Run::new(tool("cc"), place.path()).args(["-g", "-o", "ages", "ages.c"]));
    ran(Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "ages.mallow", "--", "./ages"]));
    let json = ran(Run::new(mallow(), place.path()).args(["report", "--json", "ages.mallow"])).out();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let cause = &json["leak_causes"][0];
    let (oldest, youngest) = (number(cause, "oldest_ms"), number(cause, "youngest_ms"));
    assert!(oldest > youngest && youngest > 0, "{cause:#}");
    let mut page = Page::open(place.path(), &["ages.mallow"], SIZES[0]);
    page.show("tab-leaks");
    for (column, ms) in [("age", oldest), ("youngest", youngest)] {
        let written = page.written("formatTime", ms);
        page.browser.wait_for("document.querySelector('.table-row[data-row=\"0\"]')");
        let at = page.browser.value(&format!(
            "[...document.querySelectorAll('[data-column]')].findIndex(head => head.dataset.column === '{column}')"
        ));
        let cell = format!("document.querySelectorAll('.table-row[data-row=\"0\"] [role=cell]')[{at}].textContent");
        assert_eq!(page.browser.value(&cell), written.as_str(), "{column}");
    }
}

#[test]
fn a_link_with_a_range_has_all_totals() {
    let record = Case::sqlite(2000).record();
    let mut page = Page::of(&record, SIZES[0]);
    let tiles = |page: &mut Page| page.browser.value("[...document.querySelectorAll('.tile')].map(tile => tile.id)");
    page.browser.wait_for("document.querySelector('#verdict')");
    let all = tiles(&mut page);
    assert!(all.to_string().contains("tile-peak"), "{all}");
    let time = page.viewer.time();
    let boundaries = time["boundaries"].as_array().expect("boundaries").clone();
    let fragment = format!("from={}&to={}", boundaries[0], boundaries[boundaries.len() - 1]);
    page.browser.value(&format!("location.hash = {}", json!(fragment)));
    page.wait_for_choice("from", &boundaries[0].to_string());
    page.browser.call("Page.reload", json!({}));
    page.wait_for_all();
    page.browser.wait_for("document.querySelector('#verdict')");
    assert_eq!(tiles(&mut page), all);
}

/// The browser still has the cookie of the server before.
#[test]
fn a_page_of_a_server_that_ended_says_what_to_open() {
    let record = Case::target("calls").record();
    let place = record.directory.path();
    let file = record.file.to_str().expect("a path").to_owned();
    let viewer = Viewer::start(place, &[&file]);
    let (port, address) = (viewer.port(), viewer.address());
    let mut browser = Browser::start(SIZES[0]);
    browser.open(&address);
    browser.wait_for("document.querySelector('#verdict')");
    drop(viewer);
    let _again = Viewer::start(place, &["--port", &port.to_string(), &file]);
    browser.open(&format!("http://127.0.0.1:{port}/"));
    browser.wait_for("document.querySelector('h1')");
    let text = browser.text("body").unwrap_or_default();
    assert!(text.contains("Open the address that mallow view printed"), "{text}");
}

const NOTHING: &str = r#"
#include <stdint.h>
#include <stdlib.h>
int main(void) {
    char *p = 0;
    for (int i = 1; i <= 600; i++) { p = realloc(p, i * 100); if (!p) abort(); p[0] = 1; }
    volatile uint64_t x = 0;
    for (uint64_t i = 0; i < 2000000000; i++) x += i;
    free(p);
    return 0;
}
"#;

/// 600 reallocs take microseconds of a second: that they are nearly all of malloc's time helps nobody.
#[test]
fn a_verdict_says_nothing_of_what_takes_next_to_nothing_of_the_run() {
    let place = directory();
    fs::write(place.path().join("nothing.c"), NOTHING).expect("a source");
    ran(Run::new(tool("cc"), place.path()).args(["-g", "-O1", "-o", "nothing", "nothing.c"]));
    let run = Run::new(mallow(), place.path()).args(["record", "-o", "nothing.mallow", "--", "./nothing"]);
    let said = ran(run).err();
    assert!(said.contains("Verdict: 60.0 kB at the peak, all from main nothing.c:6"), "{said}");
    assert!(!said.contains("can be saved") && !said.contains("insight"), "{said}");
    let json = ran(Run::new(mallow(), place.path()).args(["report", "--json", "nothing.mallow"])).out();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(number(&json, "cpu_us") > 0, "{json:#}");
    let insight = &json["insights"][0];
    assert!(insight["malloc_share"].as_f64().is_some_and(|share| share > 0.9), "{insight:#}");
    assert!(insight["run_share"].as_f64().is_some_and(|share| share < 0.01), "{insight:#}");
    let small = "1 suggestion saves less than 1 % of the run's CPU time";
    assert!(agrees(place.path(), "nothing.mallow").iter().any(|sentence| *sentence == words(small)));
}
