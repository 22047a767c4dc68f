//! Numbers in Prometheus' text format, in a bounded number of series.

use std::collections::HashSet;
use std::fmt::Write;

use mallow_report::analysis::sampled::{Estimate, Verdict};
use mallow_report::analysis::{Frame, WatchLosses, Watched, WatchedPlace};

use crate::label;

/// Places that grow have series of their own, so many at the most.
pub const MOST_PLACES: usize = 20;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub struct Measurement<'a> {
    /// The latest report, of all that is live.
    pub report: &'a Watched,
    /// Estimated allocations so far: they never become fewer.
    pub allocations: u64,
    /// Estimated bytes of `allocations`.
    pub allocated_bytes: u64,
    pub program: &'a str,
    pub version: &'a str,
}

pub fn metrics(of: &Measurement<'_>) -> String {
    let mut page = Page::default();
    let report = of.report;
    let info = format!("{{program=\"{}\",version=\"{}\"}}", label::value(of.program), label::value(of.version));
    page.head("mallow_watch_info", "gauge", "What is watched, and by which mallow.").number(
        "mallow_watch_info",
        &info,
        1.0,
    );
    page.estimate("mallow_live_bytes", "Bytes that are live", &report.live_bytes);
    page.estimate("mallow_live_blocks", "Blocks that are live", &report.live);
    page.gauge("mallow_live_samples", "Sampled blocks that are live.", report.samples as f64);
    page.counter(
        "mallow_allocated_bytes_total",
        "Bytes allocated since mallow watches, estimated.",
        of.allocated_bytes,
    );
    page.counter("mallow_allocations_total", "Allocations since mallow watches, estimated.", of.allocations);
    page.gauge(
        "mallow_sample_period_bytes",
        "Mean distance in bytes between two samples; 0: nothing is sampled.",
        report.period_bytes.unwrap_or(0) as f64,
    );
    page.losses(&report.lost);
    let running = report.processes.iter().filter(|process| process.running).count();
    page.gauge("mallow_processes", "Processes that run and are watched.", running as f64);
    page.gauge("mallow_watched_seconds", "For how long mallow watches.", report.watched_ms as f64 / 1000.0);
    page.gauge("mallow_report_timestamp_seconds", "When the numbers were read.", report.at_unix_ms as f64 / 1000.0);
    if let Some(memory) = &report.memory {
        page.gauge("mallow_resident_bytes", "RSS of the watched processes.", memory.rss as f64);
        page.gauge("mallow_proportional_bytes", "The same, shared pages divided by their users.", memory.pss as f64);
        page.gauge("mallow_swap_bytes", "Memory of the watched processes in swap.", memory.swap as f64);
        if let Some(gap) = memory.gap {
            page.gauge(
                "mallow_resident_gap_bytes",
                "RSS minus live bytes, estimated: at least so much is no live block.",
                gap as f64,
            );
        }
    }
    page.gauge("mallow_growing_sites", "Call sites that grow significantly.", report.growing as f64);
    let places = &report.places;
    page.gauge("mallow_growing_places", "Functions that grow significantly.", places.growing_places as f64);
    page.gauge(
        "mallow_places_growing_so_far",
        "Functions that grow, and too early to say whether that ends.",
        places.places_growing_so_far as f64,
    );
    page.places(&places.places);
    page.text
}

#[derive(Default)]
pub(crate) struct Page {
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self
    }

    pub(crate) fn number(&mut self, name: &str, labels: &str, number: f64) {
        let _ = writeln!(self.text, "{name}{labels} {number}");
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, number: f64) {
        self.head(name, "gauge", help).number(name, "", number);
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str, number: u64) {
        self.head(name, "counter", help).number(name, "", number as f64);
    }

    /// Three series: the estimate, and the limits of its interval where there are enough samples for one.
    fn estimate(&mut self, name: &str, help: &str, estimate: &Estimate) {
        self.series(name, help, &[(String::new(), estimate)]);
    }

    pub(crate) fn losses(&mut self, lost: &WatchLosses) {
        const NAME: &str = "mallow_lost_total";
        self.head(NAME, "counter", "What could not be reported, by kind; DEFINITIONS of Mallow has the kinds.");
        let kinds = [
            ("events", lost.events),
            ("picks", lost.picks),
            ("stacks", lost.stacks),
            ("damaged", lost.damaged),
            ("left", lost.left),
            ("filtered", lost.filtered),
            ("foreign", lost.foreign),
            ("unsampled", lost.unsampled),
        ];
        for (kind, number) in kinds {
            self.number(NAME, &format!("{{kind=\"{kind}\"}}"), number as f64);
        }
    }

    /// Places that grow, those that surely grow most first. All samples of a metric stand together, as the format wants
    /// it.
    fn places(&mut self, places: &[WatchedPlace]) {
        let grows = |place: &&WatchedPlace| place.growth.verdict >= Verdict::SoFar && place.frame.is_some();
        let mut seen = HashSet::new();
        let rows: Vec<(String, &WatchedPlace)> = places
            .iter()
            .filter(grows)
            .map(|place| (labels(place), place))
            // Names that are cut may become the same, and a series must come once.
            .filter(|(labels, _)| seen.insert(labels.clone()))
            .take(MOST_PLACES)
            .collect();
        let growth: Vec<_> =
            rows.iter().map(|(labels, place)| (labels.clone(), &place.growth.bytes_per_hour)).collect();
        self.series("mallow_place_growth_bytes_per_hour", "Bytes an hour by which a function grows", &growth);
        let live: Vec<_> = rows.into_iter().map(|(labels, place)| (labels, &place.live_bytes)).collect();
        self.series("mallow_place_live_bytes", "Live bytes of a function that grows", &live);
    }

    pub(crate) fn series(&mut self, name: &str, help: &str, rows: &[(String, &Estimate)]) {
        type Limit = fn(&Estimate) -> Option<f64>;
        let limits: [(&str, &str, Limit); 3] = [
            ("", "estimated", |estimate| Some(estimate.value)),
            ("_low", "lower limit of the 95 % interval", |estimate| estimate.low),
            ("_high", "upper limit of the 95 % interval", |estimate| estimate.high),
        ];
        for (suffix, meaning, limit) in limits {
            let name = format!("{name}{suffix}");
            self.head(&name, "gauge", &format!("{help}, {meaning}."));
            for (labels, estimate) in rows {
                if let Some(number) = limit(estimate) {
                    self.number(&name, labels, number);
                }
            }
        }
    }
}

/// Labels in the form `{function="keep",location="server.c:12",module="server",verdict="growing"}`.
fn labels(place: &WatchedPlace) -> String {
    place_labels("", place.frame.as_ref(), place.growth.verdict)
}

/// Labels of a place behind `others`, each of which ends in a comma. Empty without a frame, `others` left out.
pub(crate) fn place_labels(others: &str, frame: Option<&Frame>, verdict: Verdict) -> String {
    let Some(frame) = frame else { return String::new() };
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let location = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}:{line}", last(file)),
        (Some(file), None) => last(file),
        _ => String::new(),
    };
    let verdict = if verdict == Verdict::Growing { "growing" } else { "so_far" };
    format!(
        "{{{others}function=\"{}\",location=\"{}\",module=\"{}\",verdict=\"{verdict}\"}}",
        label::value(&frame.function),
        label::value(&location),
        label::value(&last(frame.module.as_deref().unwrap_or_default())),
    )
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::sampled::{Estimate, Growth, Verdict};
    use mallow_report::analysis::{Frame, WatchLosses, Watched, WatchedPlace, WatchedPlaces, Which};

    use super::{MOST_PLACES, Measurement, metrics};

    fn place(function: &str) -> WatchedPlace {
        let growth = Growth { verdict: Verdict::Growing, ..Growth::default() };
        let frame = Frame {
            function: function.to_owned(),
            folded: Vec::new(),
            nameless: 0,
            file: None,
            line: None,
            module: Some("/usr/lib/x.so".to_owned()),
            address: "0x1".to_owned(),
            inlined: false,
            looked_past: false,
            named: true,
            allocates: false,
            keeps_arguments: false,
        };
        WatchedPlace { frame: Some(frame), growth, ..WatchedPlace::default() }
    }

    fn report(places: Vec<WatchedPlace>) -> Watched {
        let estimate = Estimate::default();
        Watched {
            occasion: String::new(),
            which: Which::Live,
            older_than_ms: 0,
            at_unix_ms: 1500,
            watched_ms: 2500,
            command: Vec::new(),
            attached_ms: None,
            processes: Vec::new(),
            period_bytes: None,
            live_bytes: Estimate { value: 5.0, low: Some(4.0), high: None, samples: 1 },
            live: estimate,
            samples: 0,
            reported_bytes: estimate,
            reported_samples: 0,
            growing: 0,
            places: WatchedPlaces { places, ..WatchedPlaces::default() },
            sites: Vec::new(),
            sites_in_all: 0,
            hidden: None,
            muted_samples: 0,
            suppressed_samples: 0,
            known_samples: 0,
            unused_suppressions: Vec::new(),
            memory: None,
            lost: WatchLosses { picks: 7, ..WatchLosses::default() },
            custom_allocators: Vec::new(),
            unseen: None,
        }
    }

    fn text(report: &Watched) -> String {
        metrics(&Measurement { report, allocations: 3, allocated_bytes: u64::MAX, program: "a\"b", version: "1" })
    }

    #[test]
    fn limits_that_are_not_known_have_no_number() {
        let text = text(&report(Vec::new()));
        assert!(text.contains("\nmallow_live_bytes 5\n") && text.contains("\nmallow_live_bytes_low 4\n"), "{text}");
        assert!(!text.contains("\nmallow_live_bytes_high ") && text.contains("{kind=\"picks\"} 7\n"), "{text}");
        assert!(text.contains("program=\"a\\\"b\""), "{text}");
    }

    #[test]
    fn series_are_few_and_each_comes_once() {
        let mut places: Vec<_> = (0..100).map(|n| place(&format!("f{n}"))).collect();
        // Both are cut to the same name.
        places.insert(0, place(&("x".repeat(200) + "1")));
        places.insert(0, place(&("x".repeat(200) + "2")));
        let text = text(&report(places));
        let series: Vec<&str> = text.lines().filter(|line| line.starts_with("mallow_place_live_bytes{")).collect();
        assert_eq!(series.len(), MOST_PLACES);
        let mut names: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|l| l.0)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
