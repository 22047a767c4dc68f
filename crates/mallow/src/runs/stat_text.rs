//! The text of `mallow stat`.

use anyhow::Result;
use mallow_report::analysis::gate::{Figures, Measured, runs_by_region};
use mallow_report::analysis::{RegionKind, Stat, StatReport, StatRow, stat};

use super::watch::ending_signals::name_of;
use crate::output::json;
use crate::output::text::units::{count, of, percent, processes_in_images, ratio, signed};
use crate::output::text::{Align, Line, Look, Page, Table, gaps};

/// Counts as JSON or as text. Numbers are exact in both: they are there to be compared.
pub fn render(counted: &Stat, per_process: bool, json: bool, look: &Look) -> Result<String> {
    let report = stat(counted);
    if json { json::document(&report) } else { Ok(text(&report, per_process, look)) }
}

fn text(report: &StatReport, per_process: bool, look: &Look) -> String {
    let mut page = Page::new(*look);
    page.gap();
    page.line(Line::new().strong(format!("Allocations of {}", report.command.join(" "))));
    gaps::show(gaps::allocators(&report.custom_allocators, report.processes.len()), &mut page);
    for phrase in gaps::inside(&report.allocators_inside) {
        page.hanging(Line::new().faint("Counted: "), &phrase);
    }
    page.gap();
    // Without a process, the table would show zeros for a program that nobody saw.
    if !report.processes.is_empty() {
        families(&report.totals, report.attached).onto(&mut page);
    }
    if per_process {
        page.gap();
        processes(report).onto(&mut page);
    }
    if !report.regions.is_empty() {
        regions(report, &mut page);
    }
    page.gap();
    let status = match (report.ended_by, report.exit_status) {
        (Some(signal), _) => format!(", ended by {}", name_of(signal)),
        (None, Some(status)) => format!(", exit status {status}"),
        (None, None) => String::new(),
    };
    let seconds = format!("{}.{:06} s", report.wall_ns / 1_000_000_000, report.wall_ns % 1_000_000_000 / 1000);
    let processes = match report.processes.len() {
        0 => "no allocation was counted".to_owned(),
        images => processes_in_images(report.processes_in_all, images),
    };
    page.line(Line::new().plain("  ").strong(seconds).plain(format!(" wall time{status}; {processes}")));
    gaps::show(report.uncounted.iter().cloned(), &mut page);
    if report.lost > 0 {
        let lost = of(report.lost, "call");
        page.line(
            Line::new()
                .plain("  ")
                .warning(format!("{lost} could not be counted: calls are more, and what remains may be more or less")),
        );
    }
    if report.processes.is_empty() {
        page.line(
            Line::new()
                .plain("  ")
                .warning("No allocation was seen: the program made none, or its allocator is out of sight"),
        );
    }
    page.into_text()
}

fn families(row: &StatRow, attached: bool) -> Table {
    let plain = |text: String| Line::new().plain(text);
    let mut table = Table::new(&[Align::Right, Align::Left, Align::Right, Align::Right]);
    table.row(["calls", "", "bytes", "share of calls"].map(|t| Line::new().faint(t)));
    for f in &row.families {
        table.row([
            plain(count(f.allocations)),
            plain(f.family.to_owned()),
            plain(count(f.allocated_bytes)),
            plain(percent(f.allocations, row.allocations)),
        ]);
    }
    table.row([
        Line::new().strong(count(row.allocations)),
        Line::new().strong("allocations"),
        Line::new().strong(count(row.allocated_bytes)),
    ]);
    table.row([Line::new().strong(count(row.frees)), Line::new().strong("frees")]);
    // Frees of blocks from before are among them.
    if !attached {
        table.row([Line::new().strong(signed(row.remaining)), Line::new().strong("remaining")]);
    }
    if row.reallocs_in_place + row.reallocs_moved > 0 {
        table.row([plain(count(row.reallocs_in_place)), plain("reallocs in place".to_owned())]);
        table.row([plain(count(row.reallocs_moved)), plain("reallocs moved".to_owned())]);
    }
    table
}

fn processes(report: &StatReport) -> Table {
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["pid", "allocations", "bytes", "frees", "remaining", "command"].map(|t| Line::new().faint(t)));
    for p in &report.processes {
        table.row([
            Line::new().plain(p.pid.to_string()),
            Line::new().plain(count(p.counts.allocations)),
            Line::new().plain(count(p.counts.allocated_bytes)),
            Line::new().plain(count(p.counts.frees)),
            Line::new().plain(signed(p.counts.remaining)),
            Line::new().plain(p.arguments.join(" ")).faint(if p.forked { " (forked)" } else { "" }),
        ]);
    }
    table
}

/// The least that a run had, and where runs differ the most.
fn regions(report: &StatReport, page: &mut Page) {
    page.gap();
    let columns = [Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];
    let mut table = Table::new(&columns);
    table.row(
        ["runs", "allocations", "per op", "bytes", "remaining", "open fds", "region"].map(|t| Line::new().faint(t)),
    );
    for (name, runs) in runs_by_region(&report.regions) {
        let Some(measured) = Measured::of(&runs) else { continue };
        let range = |of: fn(&Figures) -> i64| match (of(&measured.figures), of(&measured.most)) {
            (least, most) if least == most => signed(least),
            (least, most) => format!("{}…{}", signed(least), signed(most)),
        };
        let per_op = measured.figures.allocations_per_op().map(ratio).unwrap_or_default();
        let fds = if measured.figures.leaked_fds.is_some() {
            range(|f| f.leaked_fds.unwrap_or_default())
        } else {
            "?".to_owned()
        };
        table.row(
            [
                count(runs.len() as u64),
                range(|f| f.total_allocations),
                per_op,
                range(|f| f.total_allocated_bytes),
                range(|f| f.remaining_allocations.unwrap_or_default()),
                fds,
            ]
            .map(|text| Line::new().plain(text))
            .into_iter()
            .chain([Line::new().strong(name)]),
        );
    }
    table.onto(page);
    let open = |row: &&mallow_report::analysis::RegionRow| {
        row.kind == RegionKind::Begun
            && !report.regions.iter().any(|end| end.kind != RegionKind::Begun && end.number == row.number)
    };
    for row in report.regions.iter().filter(open) {
        page.line(Line::new().plain("  ").warning(format!("A run of {} began and never ended", row.name)));
    }
    if report.regions.iter().any(|row| row.restless) {
        let text = "Other threads still allocated when a run began or ended: its figures are theirs too";
        page.line(Line::new().plain("  ").warning(text));
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::FamilyCounts;
    use mallow_report::analysis::{RegionKind, RegionRow, Stat, StatProcess};

    use super::render;
    use crate::output::text::Look;

    fn counted() -> Stat {
        let mut families =
            FamilyCounts { frees: 900_000, realloc_frees: 900, reallocs_in_place: 600, ..Default::default() };
        families.calls[0] = (900_000, 81_000_000);
        families.calls[2] = (1000, 64_000);
        families.reallocs_moved = 300;
        let child = FamilyCounts { frees: 12, ..Default::default() };
        let process = |pid, forked, arguments: &[&str], families| StatProcess {
            pid,
            parent_pid: pid - 1,
            serial: 0,
            forked,
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            families,
        };
        Stat {
            command: vec!["program".to_owned(), "--rows".to_owned()],
            wall_ns: 1_712_345_678,
            exit_status: Some(0),
            ended_by: None,
            uncounted: Vec::new(),
            processes: vec![
                process(4711, false, &["program", "--rows"], families),
                process(4712, true, &["program"], child),
            ],
            custom_allocators: Vec::new(),
            allocators_inside: Vec::new(),
            attached: false,
            lost: 0,
            regions: Vec::new(),
        }
    }

    #[test]
    fn a_signal_has_its_name_and_a_status_is_one() {
        for (exit_status, ended_by, end) in [
            (Some(137), Some(libc::SIGKILL), " wall time, ended by SIGKILL; "),
            (Some(137), None, " wall time, exit status 137; "),
            (None, None, " wall time; "),
        ] {
            let stat = Stat { exit_status, ended_by, ..counted() };
            let text = render(&stat, false, false, &Look::default()).expect("text");
            assert!(text.contains(end), "{text}");
        }
    }

    #[test]
    fn measured_regions_have_a_table() {
        let row = |kind, number, allocations| RegionRow {
            kind,
            number,
            allocations,
            name: "parse".to_owned(),
            operations: 10,
            allocated_bytes: 5000,
            frees: 75,
            leaked_fds: Some(0),
            ..RegionRow::default()
        };
        let regions = vec![
            row(RegionKind::Begun, 1, 0),
            row(RegionKind::Warmup, 1, 99),
            row(RegionKind::Begun, 2, 0),
            row(RegionKind::Measured, 2, 75),
            row(RegionKind::Begun, 3, 0),
            RegionRow { restless: true, ..row(RegionKind::Measured, 3, 77) },
            row(RegionKind::Begun, 4, 0),
        ];
        let text = render(&Stat { regions, ..counted() }, false, false, &Look::default()).expect("text");
        let from = text.find("  runs").expect("a table");
        insta::assert_snapshot!(&text[from..], @"
          runs  allocations  per op  bytes  remaining  open fds  region
             2        75…77    7.50  5,000        0…2         0  parse
          A run of parse began and never ended
          Other threads still allocated when a run began or ended: its figures are theirs too

          1.712345 s wall time, exit status 0; 2 processes
        ");
    }

    #[test]
    fn totals_by_family_and_process() {
        insta::assert_snapshot!(render(&counted(), true, false, &Look::default()).expect("text"));
    }

    #[test]
    fn json_has_the_words_of_the_definitions() {
        let text = render(&counted(), true, true, &Look::default()).expect("JSON");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((json["allocations"].as_u64(), json["allocated_bytes"].as_u64()), (Some(901_000), Some(81_064_000)));
        assert_eq!((json["frees"].as_u64(), json["remaining"].as_i64()), (Some(900_912), Some(88)));
        assert_eq!((json["reallocs_in_place"].as_u64(), json["reallocs_moved"].as_u64()), (Some(600), Some(300)));
        assert_eq!(json["families"][1]["family"], "realloc");
        assert_eq!(
            (json["processes"][1]["pid"].as_u64(), json["processes"][1]["remaining"].as_i64()),
            (Some(4712), Some(-12))
        );
    }

    #[test]
    fn what_is_missing_is_reported() {
        let stat = Stat { lost: 3, processes: Vec::new(), ..counted() };
        let text = render(&stat, false, false, &Look::default()).expect("text");
        assert!(text.contains("3 calls could not be counted") && text.contains("No allocation was seen"), "{text}");
    }
}
