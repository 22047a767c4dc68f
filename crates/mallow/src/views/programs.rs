//! The programs of a recording: a build has thirteen processes and four programs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mallow_profile::Quantity;
use mallow_report::analysis::Overview;

use super::report_document::has;
use crate::output::text::units::{bytes, count, of};
use crate::output::text::{Align, Line, Look, Page, Table};

/// Whether the peak of each process is known. Where call paths are left out, that of the rest is not.
pub fn has_own_peaks(report: &Overview) -> bool {
    has(report, Quantity::Times) && report.processes.iter().all(|process| process.own_peak_bytes.is_some())
}

/// Sums over the processes of a program.
#[derive(Default)]
struct Program {
    processes: u64,
    allocations: u64,
    /// The highest of its processes' own peaks.
    own_peak: u64,
    live_bytes: u64,
}

/// Programs, those with the highest peaks first.
fn by_peak(report: &Overview) -> Vec<(&str, Program)> {
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for process in &report.processes {
        let program = programs.entry(process.program()).or_default();
        program.processes += 1;
        program.allocations = program.allocations.saturating_add(process.totals.allocations);
        program.own_peak = program.own_peak.max(process.own_peak_bytes.unwrap_or(0));
        program.live_bytes = program.live_bytes.saturating_add(process.totals.live_bytes);
    }
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by_key(|(_, program)| Reverse((program.own_peak, program.allocations)));
    programs
}

/// All programs in a line or two: `Programs by peak: cc1plus (4 processes, up to 4.27 MB each), make (172 kB)`.
pub fn line(report: &Overview, look: &Look, page: &mut Page) {
    const NAMED: usize = 5;
    let programs = by_peak(report);
    let by_peaks = has_own_peaks(report);
    let named = programs.iter().take(NAMED).map(|(name, program)| {
        let processes = (program.processes > 1).then(|| of(program.processes, "process"));
        let own_peak = bytes(program.own_peak, look.exact);
        let peak = by_peaks.then(|| if program.processes > 1 { format!("up to {own_peak} each") } else { own_peak });
        let facts: Vec<String> = processes.into_iter().chain(peak).collect();
        if facts.is_empty() { (*name).to_owned() } else { format!("{name} ({})", facts.join(", ")) }
    });
    let mut named: Vec<String> = named.collect();
    if programs.len() > NAMED {
        named.push(format!("{} more", count((programs.len() - NAMED) as u64)));
    }
    let title = if by_peaks { "Programs by peak: " } else { "Programs: " };
    page.hanging(Line::new().strong(title), &named.join(", "));
}

/// A row for each program, at most `limit` of them.
pub fn show(report: &Overview, limit: usize, look: &Look, page: &mut Page) {
    let programs = by_peak(report);
    let all = programs.len();
    type Column = (&'static str, Quantity, fn(&Program, &Look) -> String);
    let columns: [Column; 4] = [
        ("processes", Quantity::Processes, |program, _| count(program.processes)),
        ("allocations", Quantity::Allocations, |program, _| count(program.allocations)),
        ("highest peak", Quantity::Times, |program, look| bytes(program.own_peak, look.exact)),
        ("live at the end", Quantity::LiveBytes, |program, look| bytes(program.live_bytes, look.exact)),
    ];
    let is_known = |quantity: Quantity| match quantity {
        Quantity::Times => has_own_peaks(report),
        _ => has(report, quantity),
    };
    let columns: Vec<Column> = columns.into_iter().filter(|(_, quantity, _)| is_known(*quantity)).collect();
    let mut table = Table::new(&[&[Align::Left][..], &vec![Align::Right; columns.len()]].concat());
    let title = if all > limit { format!("Programs, {limit} of {}", count(all as u64)) } else { "Programs".to_owned() };
    let titles = columns.iter().map(|(title, ..)| Line::new().faint(*title));
    table.row([Line::new().strong(title)].into_iter().chain(titles));
    for (name, program) in programs.iter().take(limit) {
        let cells = columns.iter().map(|(.., cell)| Line::new().plain(cell(program, look)));
        table.row([Line::new().plain(name)].into_iter().chain(cells));
    }
    table.onto(page);
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::{Builder, blocks};

    use super::{line, show};
    use crate::output::text::{Look, Page};
    use crate::views::report_document::ReportDocument;

    #[test]
    fn a_build_names_its_programs_and_a_pool_of_workers_is_one() {
        let mut b = Builder::default();
        for (pid, program, size, live) in
            [(1, "make", 10, 0), (2, "cc1plus", 1000, 1), (3, "cc1plus", 3000, 2), (4, "as", 200, 0), (5, "ld", 20, 0)]
        {
            let process = b.process(pid, &[program], 10);
            b.site(process, &["f", "main"], blocks(4, size, 0, live));
            b.profile.processes[process.0 as usize].own_peak_bytes = 4 * size;
        }
        let document = ReportDocument::without_hints(&b.profile, 9, 9);
        assert!(document.overview.has_several_programs());
        let mut page = Page::new(Look::default());
        show(&document.overview, 3, &Look::default(), &mut page);
        let expected = "  \
  Programs, 3 of 4  processes  allocations  highest peak  live at the end
  cc1plus                   2            8       12.0 kB          7.00 kB
  as                        1            4         800 B              0 B
  ld                        1            4          80 B              0 B
";
        assert_eq!(page.into_text(), expected);
        let mut page = Page::new(Look { width: Some(60), ..Look::default() });
        line(&document.overview, &Look::default(), &mut page);
        let expected = "\
Programs by peak: cc1plus (2 processes, up to 12.0 kB each),
                  as (800 B), ld (80 B), make (40 B)
";
        assert_eq!(page.into_text(), expected);
        let mut workers = Builder::default();
        for pid in [7, 8] {
            let process = workers.process(pid, &["server"], 10);
            workers.site(process, &["f", "main"], blocks(4, 8, 0, 0));
        }
        assert!(!ReportDocument::without_hints(&workers.profile, 9, 9).overview.has_several_programs());
    }
}
