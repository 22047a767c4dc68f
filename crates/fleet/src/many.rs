//! Numbers of many processes in Prometheus' text format: by program, and by process where one grows or holds much. The
//! number of series is bounded, whatever runs.

use std::collections::HashSet;

use mallow_report::analysis::sampled::{Estimate, Verdict};
use mallow_report::analysis::{FleetProcess, FleetProgram, FleetReport};

use crate::label;
use crate::metrics::{Page, place_labels};

/// Programs that have series of their own. The others are in the sums over all.
pub const MOST_PROGRAMS: usize = 50;
/// Processes that have: the growing ones, and those that hold most.
pub const MOST_PROCESSES: usize = 50;
/// Places that grow in a process.
const MOST_PLACES: usize = 50;

pub struct FleetMeasurement<'a> {
    /// The latest report, of all that is live.
    pub report: &'a FleetReport,
    pub version: &'a str,
}

pub fn fleet_metrics(of: &FleetMeasurement<'_>) -> String {
    let mut page = Page::default();
    let report = of.report;
    let info = format!("{{pattern=\"{}\",version=\"{}\"}}", label::value(&report.pattern), label::value(of.version));
    page.head("mallow_watch_info", "gauge", "What is watched, and by which mallow.").number(
        "mallow_watch_info",
        &info,
        1.0,
    );
    page.gauge("mallow_watched_seconds", "For how long mallow watches.", report.watched_ms as f64 / 1000.0);
    page.gauge("mallow_report_timestamp_seconds", "When the numbers were read.", report.at_unix_ms as f64 / 1000.0);
    let sums = &report.sums;
    page.gauge("mallow_processes", "Processes that run and are watched.", sums.processes as f64);
    page.counter("mallow_ended_processes_total", "Watched processes that have ended.", report.ended_in_all);
    page.gauge("mallow_growing_processes", "Processes that grow significantly.", sums.growing_processes as f64);
    page.gauge(
        "mallow_processes_growing_so_far",
        "Processes that grow, and too early to say whether that ends.",
        sums.processes_growing_so_far as f64,
    );
    let unwatched = report.unwatched.iter().map(|some| some.processes).sum::<u64>();
    page.gauge("mallow_unwatched_processes", "Processes that match and cannot be watched.", unwatched as f64);
    page.gauge("mallow_programs", "Programs, with series of their own or not.", report.programs_in_all as f64);
    page.losses(&report.lost);
    page.all(sums.live_bytes, sums.live, sums.samples);
    page.programs(&report.programs);
    page.processes(report);
    page.text
}

impl Page {
    fn all(&mut self, live_bytes: Estimate, live: Estimate, samples: u64) {
        self.series("mallow_fleet_live_bytes", "Bytes that are live in all processes", &[(String::new(), &live_bytes)]);
        self.series("mallow_fleet_live_blocks", "Blocks that are live in all processes", &[(String::new(), &live)]);
        self.gauge("mallow_fleet_live_samples", "Sampled blocks that are live in all processes.", samples as f64);
    }

    fn programs(&mut self, programs: &[FleetProgram]) {
        let mut seen = HashSet::new();
        // Names that are cut may become the same, and a series must come once.
        let named =
            programs.iter().map(|program| (format!("{{program=\"{}\"}}", label::value(&program.program)), program));
        let rows: Vec<(String, &FleetProgram)> =
            named.filter(|(labels, _)| seen.insert(labels.clone())).take(MOST_PROGRAMS).collect();
        type Number = fn(&FleetProgram) -> f64;
        let numbers: [(&str, &str, &str, Number); 6] = [
            ("mallow_program_processes", "gauge", "Processes of the program that run.", |p| p.sums.processes as f64),
            ("mallow_program_growing_processes", "gauge", "Those of them that grow significantly.", |p| {
                p.sums.growing_processes as f64
            }),
            ("mallow_live_samples", "gauge", "Sampled blocks that are live.", |p| p.sums.samples as f64),
            ("mallow_allocated_bytes_total", "counter", "Bytes allocated since mallow watches, estimated.", |p| {
                p.allocated_bytes as f64
            }),
            ("mallow_allocations_total", "counter", "Allocations since mallow watches, estimated.", |p| {
                p.allocations as f64
            }),
            ("mallow_program_places", "gauge", "Functions that hold memory, in series of their own or not.", |p| {
                p.places_in_all as f64
            }),
        ];
        for (name, kind, help, number) in numbers {
            self.head(name, kind, help);
            for (labels, program) in &rows {
                self.number(name, labels, number(program));
            }
        }
        let live: Vec<_> = rows.iter().map(|(labels, program)| (labels.clone(), &program.sums.live_bytes)).collect();
        self.series("mallow_live_bytes", "Bytes that are live in a program", &live);
        let live: Vec<_> = rows.iter().map(|(labels, program)| (labels.clone(), &program.sums.live)).collect();
        self.series("mallow_live_blocks", "Blocks that are live in a program", &live);
    }

    fn processes(&mut self, report: &FleetReport) {
        let all = report.programs.iter().flat_map(|program| &program.processes).filter(|process| process.running);
        let mut all: Vec<&FleetProcess> = all.collect();
        all.sort_by(|a, b| {
            let by_growth = b.growing().cmp(&a.growing()).then(b.surely().total_cmp(&a.surely()));
            by_growth.then(b.live_bytes.value.total_cmp(&a.live_bytes.value)).then(a.pid.cmp(&b.pid))
        });
        all.truncate(MOST_PROCESSES);
        // The same pid in two namespaces is one series, where nothing else is known of the processes.
        let mut seen = HashSet::new();
        all.retain(|process| seen.insert(process_labels(process)));
        let own = process_labels;
        let live: Vec<_> = all
            .iter()
            .map(|process| (format!("{{{}}}", own(process).trim_end_matches(',')), &process.live_bytes))
            .collect();
        self.series("mallow_process_live_bytes", "Bytes that are live in a process that grows or holds much", &live);
        let mut seen = HashSet::new();
        let mut rows = Vec::new();
        for process in &all {
            for place in process.places.iter().filter(|place| place.growth.verdict >= Verdict::SoFar) {
                let labels = place_labels(&own(process), place.frame.as_ref(), place.growth.verdict);
                if !labels.is_empty() && rows.len() < MOST_PLACES && seen.insert(labels.clone()) {
                    rows.push((labels, place));
                }
            }
        }
        let growth: Vec<_> =
            rows.iter().map(|(labels, place)| (labels.clone(), &place.growth.bytes_per_hour)).collect();
        self.series(
            "mallow_place_growth_bytes_per_hour",
            "Bytes an hour by which a function grows in a process",
            &growth,
        );
        let live: Vec<_> = rows.into_iter().map(|(labels, place)| (labels, &place.live_bytes)).collect();
        self.series("mallow_place_live_bytes", "Live bytes of a function that grows in a process", &live);
    }
}

/// Labels in the form `program="web",pid="4711",namespace="shop",`.
fn process_labels(process: &FleetProcess) -> String {
    let mut text = format!("program=\"{}\",pid=\"{}\",", label::value(&process.program), process.pid);
    for (name, value) in process.labels.iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("{name}=\"{}\",", label::value(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use mallow_report::analysis::sampled::{Estimate, Growth, SampleLedger, Verdict};
    use mallow_report::analysis::{
        FleetLimits, FleetOptions, FleetProcess, Frame, WatchLosses, Watched, WatchedPlace, WatchedPlaces, Which, fleet,
    };

    use super::{FleetMeasurement, MOST_PLACES, MOST_PROCESSES, MOST_PROGRAMS, fleet_metrics};

    fn process(pid: u32, program: &str, functions: &[&str]) -> FleetProcess {
        let growth = Growth { verdict: Verdict::Growing, ..Growth::default() };
        let place = |function: &&str| {
            let frame = Frame {
                function: (*function).to_owned(),
                folded: Vec::new(),
                nameless: 0,
                file: None,
                line: None,
                module: None,
                address: "0x1".to_owned(),
                inlined: false,
                looked_past: false,
                named: true,
                allocates: false,
                keeps_arguments: false,
            };
            WatchedPlace { frame: Some(frame), growth, ..WatchedPlace::default() }
        };
        let estimate = Estimate::default();
        let report = Watched {
            occasion: String::new(),
            which: Which::Live,
            older_than_ms: 0,
            at_unix_ms: 0,
            watched_ms: 0,
            command: Vec::new(),
            attached_ms: None,
            processes: Vec::new(),
            period_bytes: None,
            live_bytes: estimate,
            live: estimate,
            samples: 0,
            reported_bytes: estimate,
            reported_samples: 0,
            growing: 0,
            places: WatchedPlaces { places: functions.iter().map(place).collect(), ..WatchedPlaces::default() },
            sites: Vec::new(),
            sites_in_all: 0,
            hidden: None,
            muted_samples: 0,
            suppressed_samples: 0,
            known_samples: 0,
            unused_suppressions: Vec::new(),
            memory: None,
            lost: WatchLosses::default(),
            custom_allocators: Vec::new(),
            unseen: None,
        };
        FleetProcess::of(pid, program, &[], report, &SampleLedger::new())
    }

    fn document(processes: Vec<FleetProcess>) -> String {
        let former = BTreeMap::new();
        let report = fleet(
            processes,
            FleetOptions {
                occasion: "metrics",
                at_unix_ms: 0,
                watched_ms: 0,
                pattern: "a\"b",
                ended_in_all: 7,
                former: &former,
                unwatched: Vec::new(),
                lost: WatchLosses::default(),
                limits: FleetLimits { programs: usize::MAX, processes: usize::MAX, places: usize::MAX },
            },
        );
        fleet_metrics(&FleetMeasurement { report: &report, version: "1" })
    }

    #[test]
    fn containers_are_labels_of_processes_that_have_them() {
        let mut there = process(1, "p", &["f"]);
        there.labels.insert("pod", "a\"b\n".to_owned());
        there.labels.insert("namespace", "x".repeat(300));
        there.labels.insert("container", String::new());
        // The same number and name in two containers.
        let (mut other, mut same) = (process(1, "p", &["f"]), process(1, "p", &["f"]));
        other.labels.insert("pod", "c".to_owned());
        same.labels.insert("pod", "c".to_owned());
        let text = document(vec![process(2, "p", &["f"]), there, other, same]);
        let series: Vec<&str> = text.lines().filter(|line| line.starts_with("mallow_process_live_bytes{")).collect();
        let long = format!("namespace=\"{}…\"", "x".repeat(120));
        let expected = [
            format!("{{program=\"p\",pid=\"1\",{long},pod=\"a\\\"b\\n\"}} 0"),
            "{program=\"p\",pid=\"1\",pod=\"c\"} 0".to_owned(),
            "{program=\"p\",pid=\"2\"} 0".to_owned(),
        ];
        assert_eq!(series, expected.map(|labels| format!("mallow_process_live_bytes{labels}")));
        let place = "mallow_place_live_bytes{program=\"p\",pid=\"1\",pod=\"c\",function=\"f\",";
        assert_eq!(text.matches(place).count(), 1, "{text}");
    }

    #[test]
    fn series_are_few_and_each_comes_once_whatever_runs() {
        let long = "x".repeat(300);
        let names: Vec<String> = (0..200).map(|n| format!("{}{n}", if n < 10 { &long } else { "p" })).collect();
        let functions = ["f", "g", "g"];
        let processes = (0..1000).map(|n| process(n / 2, &names[n as usize % 200], &functions)).collect();
        let text = document(processes);
        let of = |name: &str| text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).count();
        assert_eq!(of("mallow_live_bytes"), MOST_PROGRAMS);
        assert!(of("mallow_process_live_bytes") <= MOST_PROCESSES && of("mallow_process_live_bytes") > 10, "{text}");
        assert_eq!(of("mallow_place_live_bytes"), MOST_PLACES);
        assert!(text.contains("pattern=\"a\\\"b\"") && text.contains("\nmallow_ended_processes_total 7\n"), "{text}");
        let all: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(series, _)| series)
            .collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
