//! The page of `mallow view` in a real browser: what it shows, and what follows a click.

use std::path::Path;

use harness::{Browser, Case, Recorded, Viewer, number};
use serde_json::{Value, json};

/// A desk, a tablet, a phone.
pub const SIZES: [(u32, u32); 3] = [(1280, 800), (768, 1024), (375, 812)];

/// A page in a browser, and the server that it is of.
pub struct Page {
    pub viewer: Viewer,
    pub browser: Browser,
    width: u32,
}

impl Page {
    /// Of files, once its first view is shown.
    pub fn open(place: &Path, files: &[&str], size: (u32, u32)) -> Self {
        let viewer = Viewer::start(place, files);
        let mut browser = Browser::start(size);
        browser.open(&viewer.address());
        let mut page = Self { viewer, browser, width: size.0 };
        page.wait_for_all();
        page
    }

    /// Of a server and a browser that were started otherwise.
    pub fn with(viewer: Viewer, browser: Browser, width: u32) -> Self {
        Self { viewer, browser, width }
    }

    /// Another size of its window.
    pub fn resize(&mut self, size: (u32, u32)) {
        self.browser.resize(size);
        self.width = size.0;
    }

    pub fn of(record: &Recorded, size: (u32, u32)) -> Self {
        Self::open(record.directory.path(), &[record.file.to_str().expect("a path")], size)
    }

    /// Waits for summary, time and views.
    pub fn wait_for_all(&mut self) {
        for shown in ["#tabs [role=tab]", "#summary :not(:empty)", "#time-chart canvas, #time[hidden]"] {
            self.browser.wait_for(&format!("document.querySelector({})", json!(shown)));
        }
    }

    /// A number as the page writes it: the page's own function, asked beside what it shows.
    pub fn written(&mut self, how: &str, value: u64) -> String {
        let written = self.browser.value(&format!("import('/page/units.js').then(units => units.{how}({value}))"));
        written.as_str().unwrap_or_else(|| panic!("{how}: {written}")).to_owned()
    }

    /// What the address's fragment has by this name.
    pub fn choice(&mut self, name: &str) -> Option<String> {
        let value = self.browser.value(&format!("new URLSearchParams(location.hash.slice(1)).get({})", json!(name)));
        value.as_str().map(str::to_owned)
    }

    pub fn wait_for_choice(&mut self, name: &str, value: &str) {
        let (name, value) = (json!(name), json!(value));
        self.browser.wait_for(&format!("new URLSearchParams(location.hash.slice(1)).get({name}) === {value}"));
    }

    /// Waits for a text within an element.
    pub fn wait_for_text(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.browser.wait_for(&format!("document.querySelector({selector})?.textContent.includes({text})"));
    }

    pub fn tabs(&mut self) -> Vec<String> {
        let ids = self.browser.value("[...document.querySelectorAll('#tabs [role=tab]')].map(tab => tab.id)");
        ids.as_array().expect("tabs").iter().map(|id| id.as_str().expect("an id").to_owned()).collect()
    }

    /// Shows a view by its tab, and waits until something is in it.
    pub fn show(&mut self, tab: &str) {
        self.browser.click(&format!("#{tab}"));
        self.browser.wait_for(&format!("document.querySelector('#{tab}').getAttribute('aria-selected') === 'true'"));
        self.browser.wait_for("document.querySelector('#main').innerText.trim()");
    }

    /// The largest callee that the flame graph has, as its table for screen readers has it: name and value.
    fn largest_callee(&mut self) -> (String, String) {
        let row = self.browser.value(
            "[...document.querySelector('#flame-table tbody tr')?.children ?? []].map(cell => cell.textContent)",
        );
        let cell = |at: usize| row[at].as_str().unwrap_or_default().to_owned();
        (cell(0), cell(1))
    }

    /// Fails where the page complained, or asked anybody but its server.
    pub fn check(&mut self) {
        // The server's answer where there is nothing to show: the page says so.
        let mut complaints = self.browser.complaints();
        complaints.retain(|complaint| !complaint.contains("status of 422"));
        assert_eq!(complaints, [""; 0]);
        let server = format!("http://127.0.0.1:{}/", self.viewer.port());
        let others: Vec<_> = self.browser.requests().into_iter().filter(|url| !url.starts_with(&server)).collect();
        assert!(others.iter().all(|url| url.starts_with("data:") || url == "about:blank"), "{others:?}");
        let wide = self.browser.value(&format!(
            "document.documentElement.scrollWidth <= {0} ? [] : [...document.querySelectorAll('body *')]
                .filter(e => e.getBoundingClientRect().right > {0})
                .map(e => `${{e.tagName}} ${{e.id}} ${{e.className}}: ${{e.getBoundingClientRect().right}}`)",
            self.width
        ));
        assert_eq!(wide, json!([]), "wider than its window, in {}", self.browser.value("location.hash"));
    }
}

/// The largest box of a flame graph below the whole: name and value.
pub fn largest_box(flame: &Value) -> Option<(String, u64)> {
    let boxes = &flame["boxes"];
    let at = boxes["parent"].as_array()?.iter().position(|parent| parent == 0)?;
    let function = boxes["function"][at].as_u64()? as usize;
    Some((flame["functions"]["name"][function].as_str()?.to_owned(), boxes["value"][at].as_u64()?))
}

#[test]
fn the_answer_is_there_before_anything_is_clicked() {
    let record = Case::sqlite(20_000).record();
    for (size, scheme) in SIZES.into_iter().zip(["light", "dark", "light"]) {
        let mut page = Page::of(&record, size);
        page.browser.prefer(scheme);
        for (key, how) in [("peak_bytes", "formatBytes"), ("live_bytes", "formatBytes"), ("temporary", "formatCount")] {
            let written = page.written(how, number(&record.json, key));
            page.wait_for_text("#summary", &written);
        }
        let rss = page.written("formatBytes", number(&record.json["highest_rss"], "peak_rss"));
        page.wait_for_text("#summary", &rss);
        page.browser.wait_for("document.querySelector('#flame-table tbody tr')");
        page.browser.wait_for("document.querySelector('#time-chart canvas').width > 100");
        let flame = page.viewer.get("/api/flame?by=peak").json();
        let (name, value) = largest_box(&flame).expect("a box");
        assert_eq!(page.largest_callee(), (name, page.written("formatBytes", value)));
        // Each view, too, and its tab names it.
        for tab in page.tabs() {
            page.show(&tab);
            page.check();
        }
    }
}

#[test]
fn all_follows_a_brushed_range() {
    let record = Case::sqlite(20_000).record();
    for size in SIZES {
        let mut page = Page::of(&record, size);
        let [left, top, width, height] = page.browser.bounds("#time-chart");
        let at = |part: f64| (left + width * part, top + height / 2.0);
        page.browser.drag(at(0.35), at(0.75));
        page.browser.wait_for("new URLSearchParams(location.hash.slice(1)).get('to')");
        let (from, to) = (page.choice("from").expect("from"), page.choice("to").expect("to"));
        assert!(from.parse::<u64>().expect("ms") < to.parse().expect("ms"), "{from} {to}");
        for what in ["allocated", "left", "freed", "live"] {
            page.browser.click(&format!("[data-what={what}]"));
            let query = format!("from={from}&to={to}&what={what}");
            let flame = page.viewer.get(&format!("/api/flame?by=bytes&{query}")).json();
            let Some((name, value)) = largest_box(&flame) else { continue };
            let written = page.written("formatBytes", value);
            page.browser.wait_for(&format!(
                "document.querySelector('#flame-table tbody tr')?.children[1].textContent === {}",
                json!(written)
            ));
            assert_eq!(page.largest_callee(), (name, written), "{query}");
        }
        // The line with most temporary allocations of the range.
        page.browser.click("[data-what=allocated]");
        page.browser.click("[data-measure=temporary]");
        let query = format!("from={from}&to={to}&what=allocated");
        let flame = page.viewer.get(&format!("/api/flame?by=temporary&{query}")).json();
        if let Some((_, value)) = largest_box(&flame) {
            let written = page.written("formatCount", value);
            page.browser.wait_for(&format!(
                "document.querySelector('#flame-table tbody tr')?.children[1].textContent === {}",
                json!(written)
            ));
        }
        assert_eq!(page.browser.value("document.querySelector('[data-measure=peak]').disabled"), true);
        page.browser.click("[data-measure=bytes]");
        page.browser.click("[data-what=live]");
        // The address has it all: the same page again.
        page.browser.call("Page.reload", json!({}));
        page.wait_for_all();
        page.wait_for_choice("to", &to);
        page.browser.wait_for("document.querySelector('[data-what=live]')?.getAttribute('aria-pressed') === 'true'");
        page.browser.click("#time-clear");
        page.browser.wait_for("!new URLSearchParams(location.hash.slice(1)).get('to')");
        page.check();
    }
}

#[test]
fn a_range_is_chosen_by_keys() {
    let record = Case::sqlite(20_000).record();
    let mut page = Page::of(&record, SIZES[0]);
    page.browser.wait_for("document.querySelector('#time-chart')");
    page.browser.type_text("t");
    page.browser.wait_for("document.activeElement.id === 'time-chart'");
    page.browser.press("End");
    page.browser.wait_for("new URLSearchParams(location.hash.slice(1)).get('to')");
    let time = page.viewer.time();
    let last = time["boundaries"].as_array().and_then(|all| all.last()).expect("a boundary").to_string();
    page.wait_for_choice("to", &last);
    page.wait_for_choice("what", "live");
    page.browser.press("Home");
    let first = time["boundaries"][1].to_string();
    page.wait_for_choice("to", &first);
    page.browser.press("Shift+ArrowRight");
    page.wait_for_choice("from", &first);
    page.wait_for_choice("what", "left");
    page.browser.press("Escape");
    page.browser.wait_for("!new URLSearchParams(location.hash.slice(1)).get('to')");
    page.browser.type_text("?");
    page.browser.wait_for("document.querySelector('#help').open");
    page.browser.press("Escape");
    page.browser.wait_for("!document.querySelector('#help').open");
    // Views by their numbers, and tabs by arrows.
    let tabs = page.tabs();
    page.browser.type_text("2");
    page.browser.wait_for(&format!("document.querySelector('#{}').getAttribute('aria-selected') === 'true'", tabs[1]));
    page.browser.value(&format!("document.querySelector('#{}').focus()", tabs[1]));
    page.browser.press("ArrowRight");
    page.browser.wait_for(&format!("document.activeElement.id === '{}'", tabs[2]));
    page.check();
}

#[test]
fn functions_are_searched_and_zoomed_in_the_flame_graph() {
    let record = Case::sqlite(20_000).record();
    for size in SIZES {
        let mut page = Page::of(&record, size);
        page.browser.wait_for("document.querySelector('#flame-table tbody tr')");
        page.browser.click("#search");
        page.browser.type_text("btree");
        page.wait_for_choice("search", "btree");
        let flame = page.viewer.get("/api/flame?by=peak").json();
        let names = flame["functions"]["name"].as_array().expect("names");
        let is_found = |function: &Value| {
            let name = names[function.as_u64().expect("a number") as usize].as_str().unwrap_or_default();
            name.to_lowercase().contains("btree")
        };
        let found = flame["boxes"]["function"].as_array().expect("boxes").iter().filter(|f| is_found(f)).count();
        assert!(found > 0);
        let written = page.written("formatCount", found as u64);
        page.wait_for_text("#search-result", &format!("{written} box"));
        // The second row of the graph: what the whole calls.
        let [left, top, width, _] = page.browser.bounds("#flame-graph");
        page.browser.click_at((left + width / 3.0, top + 30.0));
        page.browser.wait_for("new URLSearchParams(location.hash.slice(1)).get('zoom')");
        page.browser.wait_for("document.querySelector('#flame-trail')");
        page.browser.click("#zoom-out");
        page.browser.wait_for("!new URLSearchParams(location.hash.slice(1)).get('zoom')");
        page.browser.click("#flame-callers");
        page.wait_for_choice("callers", "1");
        page.check();
    }
}

#[test]
fn tables_are_sorted_and_filtered_and_rows_open() {
    let record = Case::sqlite(20_000).record();
    for size in SIZES {
        let mut page = Page::of(&record, size);
        page.show("tab-functions");
        page.browser.wait_for("document.querySelector('.table-row[data-row=\"0\"]')");
        let top = page.viewer.get("/api/top?by=peak&cum=1&limit=0").json();
        let functions = top["functions"].as_array().expect("functions");
        let mut names: Vec<&str> = functions.iter().filter_map(|f| f["function"].as_str()).collect();
        // Descending at first for numbers, ascending for names, and the other way at the second click.
        page.browser.click("[data-column=function]");
        names.sort_by_key(|name| name.encode_utf16().collect::<Vec<_>>());
        page.wait_for_text(".table-row[data-row=\"0\"]", names[0]);
        page.browser.click("[data-column=function]");
        page.wait_for_text(".table-row[data-row=\"0\"]", names[names.len() - 1]);
        page.browser.click("[data-column=self-peak]");
        let largest = functions.iter().max_by_key(|f| number(&f["self"], "peak_bytes")).expect("one");
        let written = page.written("formatBytes", number(&largest["self"], "peak_bytes"));
        page.wait_for_text(".table-row[data-row=\"0\"]", &written);
        let name = largest["function"].as_str().expect("a name");
        page.browser.click("#functions-filter");
        page.browser.type_text(&format!("^{name} "));
        page.wait_for_text(".table-row[data-row=\"0\"]", name);
        page.browser.click(".table-row[data-row=\"0\"] [role=cell]");
        page.wait_for_text("#detail-title", name);
        page.wait_for_text("#detail-numbers", &written);
        page.browser.wait_for("document.querySelector('#detail-paths .stack')");
        page.check();
        page.browser.press("Escape");
        page.browser.press("Escape");
        page.browser.wait_for("document.querySelector('#detail').hidden");
    }
}

#[test]
fn two_recordings_are_compared() {
    let (before, after) = (Case::sqlite(2000).record(), Case::sqlite(4000).record());
    let files = [&before, &after].map(|record| record.file.to_str().expect("a path").to_owned());
    for size in SIZES {
        let mut page = Page::open(after.directory.path(), &[&files[0], &files[1]], size);
        let change = number(&after.json, "allocated_bytes") - number(&before.json, "allocated_bytes");
        let written = page.written("formatBytes", change);
        page.wait_for_text("#summary", &format!("+{written}"));
        for tab in page.tabs() {
            page.show(&tab);
        }
        page.check();
    }
}
