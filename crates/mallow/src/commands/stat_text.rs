//! The text of `mallow stat`.

use anyhow::Result;
use mallow_report::analysis::{Stat, StatReport, StatRow, stat};

use crate::output;
use crate::text::units::{count, of, percent, signed};
use crate::text::{Align, Line, Look, Page, Table};

/// What was counted, as JSON or as text. Numbers are exact in both: they are there to be compared.
pub fn render(counted: &Stat, per_process: bool, json: bool, look: &Look) -> Result<String> {
    let report = stat(counted);
    if json { output::json(&report) } else { Ok(text(&report, per_process, look)) }
}

fn text(report: &StatReport, per_process: bool, look: &Look) -> String {
    let mut page = Page::new(*look);
    page.gap();
    page.line(Line::new().strong(format!("Allocations of {}", report.command.join(" "))));
    page.gap();
    families(&report.totals).onto(&mut page);
    if per_process {
        page.gap();
        processes(report).onto(&mut page);
    }
    page.gap();
    let status = report.exit_status.map(|s| format!(", exit status {s}")).unwrap_or_default();
    let seconds = format!("{}.{:06} s", report.wall_ns / 1_000_000_000, report.wall_ns % 1_000_000_000 / 1000);
    let processes = of(report.processes.len() as u64, "process");
    page.line(Line::new().plain("  ").strong(seconds).plain(format!(" wall time{status}; {processes}")));
    if report.lost > 0 {
        let lost = of(report.lost, "call");
        page.line(Line::new().plain("  ").warning(format!("{lost} could not be counted: the true numbers are higher")));
    }
    if report.processes.is_empty() {
        page.line(Line::new().plain("  ").warning(
            "No process was seen: a static binary, or one that runs with other rights, does not load Mallow's library",
        ));
    }
    page.into_text()
}

fn families(row: &StatRow) -> Table {
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
    table.row([Line::new().strong(signed(row.remaining)), Line::new().strong("remaining")]);
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

#[cfg(test)]
mod tests {
    use mallow_profile::FamilyCounts;
    use mallow_report::analysis::{Stat, StatProcess};

    use super::render;
    use crate::text::Look;

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
            processes: vec![
                process(4711, false, &["program", "--rows"], families),
                process(4712, true, &["program"], child),
            ],
            lost: 0,
        }
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
    fn what_is_missing_is_told() {
        let stat = Stat { lost: 3, processes: Vec::new(), ..counted() };
        let text = render(&stat, false, false, &Look::default()).expect("text");
        assert!(text.contains("3 calls could not be counted") && text.contains("No process was seen"), "{text}");
    }
}
