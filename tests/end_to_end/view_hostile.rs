//! The page of `mallow view` with names that nobody meant for a page, and with files that have next to nothing in them.

use std::path::Path;
use std::process::Command;

use harness::{Case, Run, directory, mallow, program, tool};

use crate::view_page::{Page, SIZES};

/// Markup, marks of direction, control characters and quotes, and a name that is longer than any line.
fn names() -> [String; 6] {
    [
        "</script><script>window.executed=1</script>".to_owned(),
        "<img src=x onerror=\"window.executed=2\">".to_owned(),
        "a\u{202e}gnp.exe".to_owned(),
        "line\nbreak\ttab\u{1b}[31mred\u{7}".to_owned(),
        "x".repeat(4000),
        "`${window.executed=3}`'\"&amp;javascript:window.executed=4".to_owned(),
    ]
}

/// A recording of functions with these names, by a program and in a file with names of the kind.
fn record(place: &Path) -> &'static str {
    const FILE: &str = "\"><img src=x onerror=window.executed=5>.mallow";
    let renamed = place.join("<b>program");
    let mut objcopy = Command::new(tool("objcopy"));
    objcopy.arg("--strip-debug");
    for (number, name) in names().iter().enumerate() {
        objcopy.arg("--redefine-sym").arg(format!("name_{number}={name}"));
    }
    let done = objcopy.arg(program("names")).arg(&renamed).status().expect("objcopy");
    assert!(done.success());
    let run = Run::new(mallow(), place).args(["record", "--no-report", "-o", FILE, "--"]).arg(&renamed);
    let outcome = run.args(["</title><script>window.executed=6</script>", "\u{202e}\u{7}\n"]).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    FILE
}

/// Clicks through all views, and through what a row or a box opens.
fn click_through(page: &mut Page) {
    for tab in page.tabs() {
        page.show(&tab);
        if page.browser.value("!!document.querySelector('.table-row[data-row=\"0\"]')") == true {
            page.browser.click(".table-row[data-row=\"0\"] [role=cell]");
            // Sizes and processes are no places: nothing opens.
            if ["tab-functions", "tab-lines", "tab-paths"].contains(&&*tab) {
                page.browser.wait_for("!document.querySelector('#detail').hidden");
            }
            page.check();
            page.browser.value("document.querySelector('#detail-close')?.click()");
        }
        page.check();
    }
    let run =
        page.browser.value("[window.executed ?? null, document.querySelectorAll('img, b.name b, main script').length]");
    assert_eq!(run, serde_json::json!([null, 0]));
    page.check();
}

#[test]
fn names_are_text_whatever_they_say() {
    let place = directory();
    let file = record(place.path());
    for size in SIZES {
        let mut page = Page::open(place.path(), &[file], size);
        page.wait_for_text("#subject-name", "\"><img src=x onerror=window.executed=5>.mallow");
        page.wait_for_text("#subject-command", "</title><script>window.executed=6</script>");
        page.show("tab-functions");
        for shown in
            ["</script><script>window.executed=1</script>", "<img src=x onerror=", "`${window.executed=3}`'\"&amp;"]
        {
            page.wait_for_text("#functions-table", shown);
        }
        // What would turn lines around or break them is written as it is escaped.
        for escaped in ["a\\u{202e}gnp.exe", "line\\u{a}break\\u{9}tab\\u{1b}[31mred\\u{7}"] {
            page.wait_for_text("#functions-table", escaped);
        }
        page.browser.wait_for("document.querySelector('#functions-table').textContent.includes('x'.repeat(200))");
        click_through(&mut page);
        page.show("tab-flame");
        let [left, top, width, height] = page.browser.bounds("#flame-graph");
        for part in 1..20 {
            page.browser.hover((left + width * f64::from(part) / 20.0, top + height.min(90.0) - 10.0));
        }
        page.check();
    }
}

#[test]
fn next_to_nothing_is_shown_as_that() {
    let place = directory();
    let place = place.path();
    let empty = Case::target("nothing").record();
    std::fs::copy(&empty.file, place.join("empty.mallow")).expect("a copy");
    let whole = std::fs::read(Case::sqlite(5000).record().file).expect("a recording");
    std::fs::write(place.join("cut.mallow"), &whole[..whole.len() / 2]).expect("a file");
    std::fs::write(place.join("head.mallow"), &whole[..16]).expect("a file");
    std::fs::write(place.join("a.folded"), "main;</script><b>;malloc 100\nmain 7\n").expect("a file");
    for (file, says) in
        [("empty.mallow", ""), ("cut.mallow", "cut short"), ("head.mallow", "cut short"), ("a.folded", "folded")]
    {
        for size in [SIZES[0], SIZES[2]] {
            let mut page = Page::open(place, &[file], size);
            page.wait_for_text("#notices", says);
            click_through(&mut page);
        }
    }
}

/// More sites, functions and threads than a table has room for.
#[test]
fn a_hundred_thousand_sites_are_scrolled() {
    let place = directory();
    let folded: String = (0..100_000).map(|n| format!("main;a{};f{n};malloc {}\n", n % 100, n + 1)).collect();
    std::fs::write(place.path().join("many.folded"), folded).expect("a file");
    let mut page = Page::open(place.path(), &["many.folded"], SIZES[0]);
    page.show("tab-functions");
    page.wait_for_text(".table-row[data-row=\"0\"]", "f99999");
    let rows = "document.querySelectorAll('#functions-table .table-row').length";
    assert!(page.browser.value(rows).as_u64() < Some(200));
    page.browser.value("document.querySelector('#functions-table .table-scroll').scrollTop = 1e9");
    page.browser.wait_for("+[...document.querySelectorAll('#functions-table .table-row')].at(-1).dataset.row > 10000");
    click_through(&mut page);
}

#[test]
fn ten_thousand_threads_are_rows() {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "many.mallow", "--"]);
    let outcome = run.arg(program("threads")).args(["sequential", "10000"]).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let mut page = Page::open(place.path(), &["many.mallow"], SIZES[0]);
    page.show("tab-threads");
    page.browser.wait_for("!!document.querySelector('#threads-table .table-row[data-row=\"0\"]')");
    // All of them, though few are drawn at one time.
    page.browser.value("document.querySelector('#threads-table .table-scroll').scrollTop = 1e9");
    page.browser.wait_for("+[...document.querySelectorAll('#threads-table .table-row')].at(-1).dataset.row >= 10000");
    let rows = "document.querySelectorAll('#threads-table .table-row').length";
    assert!(page.browser.value(rows).as_u64() < Some(200));
    click_through(&mut page);
}
