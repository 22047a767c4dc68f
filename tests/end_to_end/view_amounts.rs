//! Amounts on the page are those of the terminal, to the digit: shares, moments, how many there are.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Browser, Case, Run, directory, mallow, number, program, tool, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::attach_harness::{Target, attaching, finished, interrupt};
use crate::other_tools::ran;
use crate::view_page::{Page, SIZES};

/// The exported page of a recording, once its first screen is there.
fn exported(place: &Path, file: &str) -> Browser {
    ran(Run::new(mallow(), place).args(["export", "--format", "html", "-o", "page.html", file]));
    let mut browser = Browser::start(SIZES[0]);
    browser.open(&format!("file://{}", place.join("page.html").display()));
    browser.wait_for("document.querySelector('#verdict')");
    browser
}

fn report(place: &Path, file: &str) -> Value {
    let json = ran(Run::new(mallow(), place).args(["report", "--json", file])).out();
    serde_json::from_str(&json).expect("JSON")
}

/// 100 % is said of all alone, and 0 % of nothing.
#[test]
fn shares_are_written_as_in_the_terminal() {
    let record = Case::target("rss_blocks").arg("leak").record();
    let text = record.view(&["report"]).out();
    assert!(text.contains("  >99.9 %  20.0 MB  leak "), "{text}");
    let mut page = Page::of(&record, SIZES[0]);
    let shown = page.browser.text("#tile-peak .largest .number");
    assert_eq!(shown.as_deref(), Some(">99.9 %"));
    // The same as of the function that writes them for the terminal.
    for (part, whole, written) in [
        (0, 5, "0 %"),
        (1, 2_001, "<0.1 %"),
        (1, 1_000, "0.1 %"),
        (6, 10_000, "0.1 %"),
        (49, 400, "12.2 %"),
        (1, 8, "12.5 %"),
        (2_000_000, 2_000_001, ">99.9 %"),
        (5, 5, "100.0 %"),
        (-1, 8, "-12.5 %"),
        (5, 0, "–"),
    ] {
        let asked = format!("import('/page/units.js').then(units => units.formatShare({part}, {whole}))");
        assert_eq!(page.browser.value(&asked), written, "{part} of {whole}");
    }
}

/// The kernel's bound of the moment may be well before the reading that the report names: one of the two, on both.
#[test]
fn the_highest_rss_was_at_one_moment() {
    let record = Case::target("rss_blocks").arg("leak").record();
    let place = record.directory.path();
    let report = report(place, "run.mallow");
    let said = report["sentences"]["highest_rss"].as_str().expect("a sentence");
    let totals = report["sentences"]["totals"].as_array().expect("rows");
    let row = totals.iter().find(|row| row["name"] == "highest RSS").expect("a row");
    let remark = row["remark"].as_str().expect("a remark");
    let moment = said.strip_prefix(row["size"].as_str().expect("a size")).expect("the size first");
    let is_same = remark.split(';').next() == Some(moment.trim());
    assert!(is_same || remark.starts_with("the kernel's maximum") && moment.contains(", reached "), "{row:#} {said}");
    let label = format!("RSS, the kernel's maximum: {said}");
    let has = format!("document.querySelector('#time-rss-peak')?.textContent === {}", json!(label));
    Page::of(&record, SIZES[0]).browser.wait_for(&has);
    exported(place, "run.mallow").wait_for(&has);
    // A chart of several processes is their sum, which has no such maximum: the page has no label, and no sentence for it.
    let both = format!("{0} leak & {0} leak; wait", program("rss_blocks").display());
    let two = Case::new("/bin/sh").args(["-c", &both]).prints_addresses().record();
    let sentences = &self::report(two.directory.path(), "run.mallow")["sentences"];
    assert_eq!(sentences["highest_rss"], json!(null), "{sentences:#}");
}

/// A program of 60 functions that each allocate anew in a loop: more suggestions than a page lists.
fn costly() -> String {
    let function = |n| {
        let body = "for (int i = 0; i < 12000; i++) { char *p = malloc(100); p[0] = 1; free(p); }";
        format!("static void f{n}(void) {{ {body} }}\n")
    };
    let functions: String = (0..60).map(function).collect();
    let calls: String = (0..60).map(|n| format!("f{n}(); ")).collect();
    format!("#include <stdlib.h>\n{functions}int main(void) {{ {calls}return 0; }}\n")
}

/// A page has the first suggestions alone, and says how many there are.
#[test]
fn a_page_says_how_many_suggestions_there_are() {
    let place = recorded(&costly());
    let place = place.path();
    let report = report(place, "it.mallow");
    let all = number(&report, "insights_in_all") - number(&report, "small_in_all");
    assert_eq!(all, 60, "{:#}", report["insights"]);
    let exported = exported(place, "it.mallow");
    let served = Page::open(place, &["it.mallow"], SIZES[0]).browser;
    let model = "JSON.parse(document.getElementById('mallow-model')?.textContent ?? 'null')";
    for (mut browser, name) in [(exported, "exported"), (served, "served")] {
        let listed = browser.value(&format!("{model}?.report.sentences.suggestions.length ?? 20"));
        assert!(listed.as_u64().is_some_and(|listed| listed < all), "{name}: {listed} of {all}");
        let text = browser.text("#best-insight").unwrap_or_default();
        assert!(text.contains("and 59 more"), "{name}: {text}");
    }
}

/// A recording `it.mallow` of a program in C, in a directory of its own.
fn recorded(source: &str) -> TempDir {
    let place = directory();
    fs::write(place.path().join("it.c"), source).expect("a source");
    ran(Run::new(tool("cc"), place.path()).args(["-g", "-O0", "-o", "it", "it.c"]));
    ran(Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "it.mallow", "--", "./it"]));
    place
}

#[test]
fn one_block_is_no_blocks() {
    let place = recorded("#include <stdlib.h>\nint main(void) { return malloc(100) == 0; }\n");
    let live = Page::open(place.path(), &["it.mallow"], SIZES[0]).browser.text("#tile-live");
    for text in [live, exported(place.path(), "it.mallow").text("#tile-live")] {
        let text = text.unwrap_or_default();
        assert!(text.contains("1 block") && !text.contains("1 blocks"), "{text}");
    }
}

/// A title that counts something has a count below it, and a title that names memory a size.
#[test]
fn a_figure_of_the_summary_is_of_what_its_title_says() {
    let body = "for (int i = 0; i < 1234; i++) { char *p = malloc(1000); p[0] = 1; if (i % 2) free(p); }";
    let place = recorded(&format!("#include <stdlib.h>\nint main(void) {{ {body} return 0; }}\n"));
    let report = report(place.path(), "it.mallow");
    let totals = report["sentences"]["totals"].as_array().expect("rows");
    let served = Page::open(place.path(), &["it.mallow"], SIZES[0]).browser;
    for mut browser in [served, exported(place.path(), "it.mallow")] {
        for (tile, title, row, cells) in [
            ("allocated", "Allocations", "allocations", ["number", "size"]),
            ("temporary", "Temporary", "temporary", ["number", "size"]),
            ("peak", "Live at peak", "live at peak", ["size", "number"]),
            ("live", "Live at end", "live at end", ["size", "number"]),
        ] {
            let row = totals.iter().find(|total| total["name"] == row).expect("a row");
            let [figure, more] = cells.map(|cell| row[cell].as_str().expect("a text").to_owned());
            let text = |browser: &mut Browser, part: &str| browser.text(&format!("#tile-{tile} {part}"));
            assert_eq!(text(&mut browser, ".label").as_deref(), Some(title));
            assert_eq!(text(&mut browser, ".figure"), Some(figure), "{title}");
            let below = text(&mut browser, ".tile-more").unwrap_or_default();
            assert!(below.starts_with(&more), "{title}: {below}");
        }
        // It leads to what it counts.
        browser.click("#tile-allocated .tile-head");
        browser
            .wait_for("document.querySelector('[data-measure=allocations]')?.getAttribute('aria-pressed') === 'true'");
    }
}

/// What is so of one measure is not said of all: as many blocks of other sizes, and blocks of which none is live at last.
#[test]
fn a_page_says_nothing_of_measures_that_it_does_not_show() {
    let body = "for (int i = 0; i < 10; i++) { char *p = malloc(n > 1 ? 1000 : 10); p[0] = 1; free(p); }";
    let place = recorded(&format!("#include <stdlib.h>\nint main(int n, char **a) {{ (void)a; {body} return 0; }}\n"));
    let place = place.path();
    ran(Run::new(mallow(), place).args(["record", "--no-report", "-o", "more.mallow", "--", "./it", "more"]));
    let mut page = Page::open(place, &["it.mallow", "more.mallow"], SIZES[0]);
    page.show("tab-changes");
    page.browser.click("[data-measure=allocations]");
    page.wait_for_text("#changes-view", "Allocations: no call site differs. Other measures may.");
    page.browser.click("[data-measure=bytes]");
    page.wait_for_text("#changes-view", "+9.90 kB");
    let mut page = Page::open(place, &["it.mallow"], SIZES[0]);
    page.browser.click("[data-measure=live]");
    page.wait_for_text("#main", "Live at end: nothing here.");
}

/// A process that mallow left may free all of its blocks later.
#[test]
fn a_page_of_a_process_that_went_on_does_not_say_what_it_never_frees() {
    let place = directory();
    let mut target = Target::ready(Command::new(program("attached")).arg("calls"));
    let mallow = attaching(&["record", "--no-report", "-o", "it.mallow"], target.pid(), place.path());
    target.ask();
    interrupt(&mallow);
    finished(mallow);
    let mut page = Page::open(place.path(), &["it.mallow"], SIZES[0]);
    page.show("tab-lifetimes");
    page.wait_for_text("#lifetimes-view", "Live at the end of the recording: ");
}

/// Samples do not have all: a place without one is not called new, or gone, and changes are called estimates.
#[test]
fn a_page_that_compares_samples_says_so() {
    let place = directory();
    let place = place.path();
    for (name, numbers) in [("one", "3: 3000 [ 3: 3000]"), ("other", "7: 900000 [ 7: 900000]")] {
        let names = format!("--- symbol\nbinary=it\n0x10 {name}\n0x20 main\n---\n--- heap\n");
        let profile = format!("heap profile: {numbers} @ heap_v2/524288\n {numbers} @ 0x10 0x20\n");
        fs::write(place.join(format!("{name}.heap")), names + &profile).expect("a profile");
    }
    let counted = workspace().join("crates/formats/tests/files/leak.heaptrack.zst");
    let counted = counted.to_str().expect("a path");
    // The counted one has the peak, which is shown first where both have it.
    for (files, states) in [
        (["one.heap", "other.heap"], ["no sample before", "no sample after"]),
        ([counted, "one.heap"], ["new", "no sample after"]),
        (["one.heap", counted], ["no sample before", "gone"]),
    ] {
        let mut page = Page::open(place, &files, SIZES[0]);
        page.wait_for_text("#summary", ", by estimates");
        page.show("tab-changes");
        page.wait_for_text("#changes-view .table-row", "");
        let shown =
            "[...document.querySelectorAll('#changes-view .table-row > :nth-child(2)')].map(cell => cell.textContent)";
        let shown = page.browser.value(shown);
        for state in states {
            let found = shown.as_array().is_some_and(|all| all.iter().any(|cell| *cell == json!(state)));
            assert!(found, "{files:?}: {state}: {shown}");
        }
    }
}

/// Rows of histograms have the names that the terminal gives them, and shares of the same whole.
#[test]
fn histograms_of_the_page_are_those_of_the_terminal() {
    let body = "void *kept[40]; for (int i = 0; i < 40; i++) { kept[i] = malloc(100 * i + 8); } \
                for (int i = 0; i < 30; i++) free(kept[i]);";
    let place = recorded(&format!("#include <stdlib.h>\nint main(void) {{ {body} return kept[39] == 0; }}\n"));
    let mut page = Page::open(place.path(), &["it.mallow"], SIZES[0]);
    for view in ["sizes", "lifetimes"] {
        let text = ran(Run::new(mallow(), place.path()).args([view, "it.mallow"])).out();
        let rows = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).take(5).collect::<Vec<_>>());
        let rows: Vec<_> = rows.filter(|row| row.len() == 5 && row[1] != "blocks").collect();
        assert!(rows.len() > 3, "{text}");
        page.show(&format!("tab-{view}"));
        page.wait_for_text(&format!("#{view}-view"), rows[0][0]);
        let shown = format!(
            "[...document.querySelectorAll('#{view}-view tbody tr')].map(row => \
             [...row.children].filter(cell => cell.className !== 'bar-cell').map(cell => cell.textContent))"
        );
        assert_eq!(page.browser.value(&shown), json!(rows), "{text}");
    }
}
