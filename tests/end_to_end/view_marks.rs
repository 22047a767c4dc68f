//! Marks on the page's time, runs of regions there, and the map of the heap's pages.

use harness::{Case, Run, directory, mallow, number, program};
use serde_json::{Value, json};

use crate::view_page::{Page, SIZES};

/// Waits until the flame graph shows this sum.
fn wait_for_total(page: &mut Page, path: &str) {
    let flame = page.viewer.get(path).json();
    let Some((name, value)) = crate::view_page::largest_box(&flame) else { return };
    let written = page.written("formatBytes", value);
    page.browser.wait_for(&format!(
        "(row => row?.children[0].textContent === {} && row.children[1].textContent === {})(document.querySelector('#flame-table tbody tr'))",
        json!(name),
        json!(written)
    ));
}

#[test]
fn marks_divide_time_into_generations() {
    let record = Case::sqlite(20_000).record();
    let mut page = Page::of(&record, SIZES[0]);
    page.browser.wait_for("document.querySelector('#time-mark')?.disabled");
    let [left, top, width, height] = page.browser.bounds("#time-chart");
    let mut marks = Vec::new();
    for part in [0.4, 0.7] {
        page.browser.click_at((left + width * part, top + height / 2.0));
        page.browser.wait_for("document.querySelector('#time-mark')?.textContent === 'Mark'");
        page.browser.click("#time-mark");
        page.wait_for_text("#time-mark", "Remove the mark");
        marks.push(page.choice("to").expect("a moment"));
    }
    page.wait_for_choice("marks", &marks.join("."));
    assert_eq!(page.browser.value("document.querySelectorAll('[data-generation]').length"), 3);
    page.browser.click("[data-generation=B]");
    page.wait_for_choice("what", "left");
    assert_eq!([page.choice("from"), page.choice("to")], [0, 1].map(|at| Some(marks[at].clone())));
    wait_for_total(&mut page, &format!("/api/flame?by=bytes&from={}&to={}&what=left", marks[0], marks[1]));
    page.browser.wait_for("document.querySelector('[data-generation=B]').getAttribute('aria-pressed') === 'true'");
    // The address keeps them, and the key removes the one at the moment.
    page.browser.call("Page.reload", json!({}));
    page.browser.wait_for("document.querySelectorAll('[data-generation]').length === 3");
    page.browser.value("document.querySelector('#time-chart').focus()");
    page.browser.type_text("k");
    page.wait_for_choice("marks", &marks[0]);
    for size in SIZES {
        page.resize(size);
        page.check();
    }
    page.browser.click("#time-unmark");
    page.browser.wait_for("!document.querySelector('[data-generation]')");
}

#[test]
fn runs_of_regions_are_chosen() {
    let place = directory();
    let recorded = ["record", "--no-report", "-o", "r.mallow", "--runs", "2", "--warmup", "1", "--"];
    let done = Run::new(mallow(), place.path()).args(recorded).arg(program("gate")).args(["leak", "steady"]).go();
    assert_eq!(done.status, 0, "{}", done.err());
    let mut page = Page::open(place.path(), &["r.mallow"], SIZES[0]);
    page.browser.wait_for("document.querySelectorAll('#time-region option').length === 7");
    let names = page.browser.value("document.querySelector('#time-region').textContent");
    for name in ["leak warm-up", "leak run 0", "leak run 1", "steady run 1"] {
        assert!(names.to_string().contains(name), "{names}");
    }
    page.browser.value(
        "(select => { select.value = '1'; select.dispatchEvent(new Event('change')); })(document.querySelector('#time-region'))",
    );
    page.browser.wait_for("new URLSearchParams(location.hash.slice(1)).get('to')");
    let [from, to] = ["from", "to"].map(|name| page.choice(name).expect("a moment").parse::<u64>().expect("ms"));
    let time = page.viewer.time();
    let runs = time["regions"].as_array().expect("regions");
    assert!(
        runs.iter().any(|run| from <= number(run, "begin_ms") && number(run, "end_ms") <= to),
        "{from} {to}: {runs:?}"
    );
    page.check();
}

fn sums(map: &Value) -> [u64; 3] {
    let rows = map["rows"].as_array().expect("rows");
    ["used", "holes", "free"].map(|column| {
        rows.iter().flat_map(|row| row[column].as_array().expect("a column")).filter_map(Value::as_u64).sum()
    })
}

#[test]
fn the_map_of_pages_is_of_the_account() {
    let record = Case::target("rss_holes").args(["half"]).record();
    let mut page = Page::of(&record, SIZES[0]);
    let rss = page.viewer.get("/api/rss").json();
    let map = page.viewer.get("/api/rss-map").json();
    let part = |name: &str| {
        let parts = rss["parts"].as_array().expect("parts");
        parts.iter().find(|part| part["part"] == name).map_or(0, |part| number(part, "bytes"))
    };
    let [_, holes, free] = sums(&map);
    assert_eq!((holes, free), (part("holes"), part("free_pages") + part("thread_caches")), "{rss:#}");
    page.show("tab-rss");
    page.wait_for_text("#rss-cause", "cache_entry");
    page.wait_for_text("#rss-remedies", "a memory pool for blocks of cache_entry");
    page.wait_for_text("#rss-map-box .legend", "holes");
    // The keys go from square to square, and a square opens the function with most in it.
    page.browser.wait_for("document.querySelector('#rss-map canvas').width > 100");
    page.browser.value("document.querySelector('#rss-map').focus()");
    (0..20).for_each(|_| page.browser.press("ArrowRight"));
    page.wait_for_text("#announcer", "most of cache_entry");
    page.browser.press("Enter");
    page.wait_for_text("#detail-title", "cache_entry");
    page.browser.click("#detail-close");
    for size in SIZES {
        page.resize(size);
        page.check();
    }
    for (query, status) in [("?at=end", 200), ("?process=no-such", 422), ("?output=x", 400)] {
        assert_eq!(page.viewer.get(&format!("/api/rss-map{query}")).status, status, "{query}");
    }
}

#[test]
fn a_recording_without_pages_says_so() {
    let record = Case::sqlite(100).option("--no-rss").record();
    let page = Page::of(&record, SIZES[0]);
    let answer = page.viewer.get("/api/rss-map");
    assert!(answer.status == 422 && answer.text().contains("--no-rss"), "{}", answer.text());
}
