//! Every view has the same totals, of the whole and under every filter; and what a filter leaves, and what it leaves
//! out, add up to the whole.

use harness::{Case, Outcome, Recorded, Run, mallow, number};
use roxmltree::Document;
use serde_json::Value;

/// Values of `--by`, and the keys that they measure.
const MEASURES: [(&str, &str); 5] = [
    ("allocations", "allocations"),
    ("bytes", "allocated_bytes"),
    ("peak", "peak_bytes"),
    ("live", "live_bytes"),
    ("temporary", "temporary"),
];

/// The keys that every view has for the whole.
const KEYS: [&str; 12] = [
    "allocations",
    "allocated_bytes",
    "frees",
    "freed_bytes",
    "temporary",
    "temporary_bytes",
    "live",
    "live_bytes",
    "peak",
    "peak_bytes",
    "reallocs_in_place",
    "reallocs_moved",
];

type Arguments<'a> = &'a [&'a str];

struct Views<'a> {
    record: &'a Recorded,
    filter: Arguments<'a>,
}

impl Views<'_> {
    fn run(&self, view: Arguments) -> Outcome {
        let run = Run::new(mallow(), self.record.directory.path());
        run.args(view).args(self.filter).arg("run.mallow").go()
    }

    fn text(&self, view: Arguments) -> String {
        let view = self.run(view);
        assert_eq!((view.status, view.err().as_str()), (0, ""), "{:?}", self.filter);
        view.out()
    }

    fn json(&self, view: Arguments) -> Value {
        serde_json::from_str(&self.text(&[view, &["--json", "--limit", "0"]].concat())).expect("JSON")
    }

    /// The report, after all other views were held against it by these measures. Null where the filter leaves nothing.
    fn reconciled(&self, measures: &[(&str, &str)]) -> Value {
        let nothing = self.run(&["report"]);
        if nothing.status == 1 && nothing.err().starts_with("mallow: no block matches ") {
            return Value::Null;
        }
        let report = self.json(&["report"]);
        let stacks_only = self.filter.iter().any(|f| ["--focus", "--ignore", "--hide"].contains(f));
        for key in KEYS {
            // Calls of free in a process that did not allocate the block are of no site, and no view's but the
            // processes'.
            assert_eq!(sum(&report["processes"], |p| number(p, key)), number(&report, key), "{key} {:?}", self.filter);
        }
        for (family, whole) in [("allocations", "allocations"), ("allocated_bytes", "allocated_bytes")] {
            let families = sum(&report["families"], |f| number(f, family));
            assert!(stacks_only || families == number(&report, whole), "{family} {:?}", self.filter);
        }
        for (by, key) in measures {
            self.measured(by, key, &report);
        }
        self.leaks(&report);
        self.timeline(&report);
        report
    }

    fn measured(&self, by: &str, key: &str, report: &Value) {
        let whole = number(report, key);
        let what = format!("by {by} {:?}", self.filter);
        let list = report["largest"].as_array().expect("lists").iter().find(|list| list["by"] == by);
        let places = list.map_or(0, |list| sum(&list["largest"], |place| number(place, key)));
        assert_eq!(places, whole, "report {what}");
        for view in
            [&["top"][..], &["top", "--raw"], &["tree"], &["tree", "--raw"], &["tree", "--callers"], &["list", "."]]
        {
            // There is no line to show then, and it says so.
            if view[0] == "list" && whole == 0 {
                continue;
            }
            let json = self.json(&[view, &["--by", by]].concat());
            for key in KEYS {
                assert_eq!(json[key], report[key], "{key} of {view:?} {what}");
            }
            let added = match view[0] {
                "tree" => {
                    assert_eq!(own(&json["rows"], key), whole, "own of {view:?} {what}");
                    sum(&json["rows"], |row| number(&row["cum"], key))
                }
                "top" => sum(&json["functions"], |f| number(&f["self"], key)),
                _ => sum(&json["functions"], |f| {
                    let flat = number(&f["self"], key);
                    let lines = if f["lines"].is_array() { "lines" } else { "instructions" };
                    assert_eq!(sum(&f[lines], |l| number(&l["self"], key)), flat, "{} {what}", f["function"]);
                    flat
                }),
            };
            assert_eq!(added, whole, "{view:?} {what}");
        }
        if whole > 0 {
            assert_eq!(self.flame(by), whole, "flame {what}");
        }
    }

    /// The number of the box that stands for everything.
    fn flame(&self, by: &str) -> u64 {
        let picture = self.text(&["flame", "--by", by, "-o", "-"]);
        let document = Document::parse(&picture).expect("XML");
        let title = document.descendants().find(|n| n.has_tag_name("g") && n.attribute("data-d") == Some("0"));
        let title = title.and_then(|g| g.children().find(|n| n.has_tag_name("title"))).and_then(|t| t.text());
        let amount = title.and_then(|title| title.lines().next()).expect("a tooltip");
        amount.split(' ').next().and_then(|n| n.replace(',', "").parse().ok()).unwrap_or_else(|| panic!("{amount}"))
    }

    fn leaks(&self, report: &Value) {
        let leaks = self.json(&["leaks"]);
        for (all, each) in [("reported", "live"), ("reported_bytes", "live_bytes")] {
            let sites = sum(&leaks["sites"], |site| number(site, each));
            let causes = sum(&leaks["leak_causes"], |cause| number(cause, each));
            // What libstdc++ keeps for itself is live, and not reported.
            let pool = leaks["emergency_pool"][each].as_u64().unwrap_or(0);
            let totals = [number(&leaks, each), number(&leaks, all) + pool, sites + pool, causes + pool];
            assert_eq!(totals, [number(report, each); 4], "leaks {:?}", self.filter);
        }
    }

    fn timeline(&self, report: &Value) {
        // Of stacks that are chosen, the peak of the report is their share of the whole's; that of the chart is their
        // own.
        let own_peak = self.filter.iter().any(|f| ["--focus", "--ignore"].contains(f));
        for (by, peak, end) in [("live-bytes", "peak_bytes", "live_bytes"), ("live", "", "live")] {
            let chart = self.json(&["timeline", "--by", by]);
            let points = sum(&chart["points"], |p| number(p, "value"));
            let highest = number(&chart["points"][number(&chart, "highest_point") as usize], "value");
            assert!(points >= highest && highest == number(&chart, "total"), "{:?}", self.filter);
            self.at_the_end(number(&chart, "at_end"), number(report, end), report);
            if !own_peak && !peak.is_empty() {
                assert_eq!(
                    (highest, &chart["highest_ms"]),
                    (number(report, peak), &report["peak_ms"]),
                    "{:?}",
                    self.filter
                );
            }
        }
        let chart = self.json(&["timeline", "--by", "allocations"]);
        assert_eq!(sum(&chart["points"], |p| number(p, "value")), number(report, "allocations"), "{:?}", self.filter);
        let at = self.json(&["timeline", "--at", "end"]);
        self.at_the_end(number(&at, "live"), number(report, "live"), report);
        self.at_the_end(number(&at, "live_bytes"), number(report, "live_bytes"), report);
        if !own_peak {
            let at = self.json(&["timeline", "--at", "peak"]);
            let peak = ["peak", "peak_bytes"].map(|key| number(report, key));
            assert_eq!([number(&at, "live"), number(&at, "live_bytes")], peak, "{:?}", self.filter);
        }
    }

    /// A report counts what was live when its process ended; what a process that ended before held is not live any
    /// more.
    fn at_the_end(&self, live: u64, of_processes: u64, report: &Value) {
        let one = report["processes"].as_array().is_some_and(|all| all.len() == 1);
        assert!(
            live == of_processes || !one && live < of_processes,
            "{live} of {of_processes} are live at the end: {:?}",
            self.filter
        );
    }
}

fn sum(rows: &Value, each: impl Fn(&Value) -> u64) -> u64 {
    rows.as_array().map_or(0, |rows| rows.iter().map(each).sum())
}

/// The own of all rows of a tree.
fn own(rows: &Value, key: &str) -> u64 {
    sum(rows, |row| number(&row["self"], key) + own(&row["children"], key))
}

/// Packed: names are looked up once, and not by each view.
fn recorded() -> Recorded {
    let record = Case::target("everything").record();
    let pack = Run::new(mallow(), record.directory.path()).args(["pack", "run.mallow"]).go();
    assert_eq!(pack.status, 0, "{}", pack.err());
    record
}

fn views<'a>(record: &'a Recorded, filter: Arguments<'a>) -> Views<'a> {
    Views { record, filter }
}

#[test]
fn every_view_has_the_same_totals() {
    let (stat, record) = (Case::target("everything").stat(), recorded());
    let report = views(&record, &[]).reconciled(&MEASURES);
    let foreign = sum(&report["processes"], |p| number(p, "foreign_frees"));
    for key in ["allocations", "allocated_bytes", "families"] {
        assert_eq!(stat.json[key], report[key], "{key}");
    }
    assert_eq!(number(&stat.json, "frees"), number(&report, "frees") + foreign);
    let reallocs = |json: &Value| number(json, "reallocs_in_place") + number(json, "reallocs_moved");
    assert_eq!(reallocs(&stat.json), reallocs(&report));
    for (counted, recorded) in
        stat.json["processes"].as_array().expect("some").iter().zip(report["processes"].as_array().expect("some"))
    {
        for key in ["allocations", "allocated_bytes", "families", "forked"] {
            assert_eq!(counted[key], recorded[key], "{key}");
        }
        assert_eq!(number(counted, "frees"), number(recorded, "frees") + number(recorded, "foreign_frees"));
    }
    assert_eq!((foreign, report["processes"].as_array().map(Vec::len)), (1, Some(2)));
    let text = Run::new(mallow(), record.directory.path()).args(["report", "--all"]).arg(&record.file).go().out();
    assert!(text.contains(" 1 more of blocks that were not recorded"), "{text}");
}

fn left(report: &Value, key: &str) -> u64 {
    if report.is_null() { 0 } else { number(report, key) }
}

/// The sums of what each filter leaves, equal in every view.
fn parts(record: &Recorded, filters: &[Vec<&str>]) -> Vec<u64> {
    let mut sums = vec![0; KEYS.len()];
    for (n, filter) in filters.iter().enumerate() {
        let report = views(record, filter).reconciled(&MEASURES[n % MEASURES.len()..][..1]);
        sums.iter_mut().zip(KEYS).for_each(|(sum, key)| *sum += left(&report, key));
    }
    sums
}

/// The parts add up to the report's values of these keys. A peak is that of a selection, and adds up for stacks alone.
fn same_but_peaks(parts: &[u64], report: &Value) {
    for (key, part) in
        KEYS.iter().zip(parts).filter(|(key, _)| !key.starts_with("peak") && !key.starts_with("reallocs"))
    {
        assert_eq!(*part, number(report, key), "{key}");
    }
}

#[test]
fn filters_and_their_complements_add_up() {
    let record = recorded();
    let report = &record.json;
    let pids: Vec<String> =
        report["processes"].as_array().expect("some").iter().map(|p| p["pid"].to_string()).collect();
    let threads = record.outcome.out();
    let threads: Vec<&str> = threads.lines().filter_map(|line| line.strip_prefix("thread ")).collect();
    assert_eq!((pids.len(), threads.len()), (2, 8));
    let each = |flag: &'static str, values: &[&str]| {
        let one = |value: &&str| vec![flag.to_owned(), (*value).to_owned()];
        values.iter().map(one).collect::<Vec<Vec<String>>>()
    };
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let third = number(report, "duration_ms") / 3;
    let windows = [(0, third), (third, third + 1), (third + 1, 2 * third), (2 * third, 1 << 40)]
        .map(|(from, to)| format!("{from}ms..{to}ms"));
    for filters in [
        each("--process", &pids),
        each("--thread", &threads),
        each("--size", &["..33", "33..500", "500..4096", "4096.."]),
        each("--lifetime", &["..1ms", "1ms..5ms", "5ms.."]),
        each("--time", &windows.each_ref().map(String::as_str)),
    ] {
        let filters: Vec<Vec<&str>> = filters.iter().map(|f| f.iter().map(String::as_str).collect()).collect();
        same_but_peaks(&parts(&record, &filters), report);
    }
    // Several filters leave what meets all of them.
    let both =
        |size: &'static str| pids.iter().map(move |pid| vec!["--size", size, "--process", pid]).collect::<Vec<_>>();
    same_but_peaks(&parts(&record, &[both("..33"), both("33..")].concat()), report);

    // Stacks: nothing is counted again, so that peaks and reallocs add up too.
    let whole: Vec<u64> = KEYS.iter().map(|key| number(report, key)).collect();
    for regex in ["^grown$", "temporary|leak", "pthread"] {
        assert_eq!(parts(&record, &[vec!["--focus", regex], vec!["--ignore", regex]]), whole, "{regex}");
        assert_eq!(parts(&record, &[vec!["--hide", regex]]), whole, "{regex}");
    }
}

/// What was freed within a time, or live at a moment of it, follows from what was allocated and freed by then.
#[test]
fn live_blocks_are_those_allocated_and_not_yet_freed() {
    let record = recorded();
    let count = |filter: &[&str], key: &str| left(&views(&record, filter).reconciled(&[]), key);
    let report = &record.json;
    for at in [40, 75] {
        let at = number(report, "duration_ms") * at / 100;
        let (before, after) = (format!("..{at}ms"), format!("{at}ms.."));
        let freed = |time: &str| count(&["--time", time, "--when", "freed"], "allocations");
        assert_eq!(freed(&before) + freed(&after), number(report, "frees"), "{at}");
        assert_eq!(count(&["--time", &before, "--when", "freed"], "live"), 0);
        let allocated = count(&["--time", &after], "allocations");
        let live = count(&["--time", &after, "--when", "live"], "allocations");
        // Those allocated before and live then are not freed before, nor left by a process that ended before.
        let left_before = |p: &Value| if number(p, "end_ms") < at { number(p, "live") } else { 0 };
        let gone = freed(&before) + sum(&report["processes"], left_before);
        assert_eq!(live, number(report, "allocations") - gone, "{at}");
        assert!(live >= allocated);
    }
}
