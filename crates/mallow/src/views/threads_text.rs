//! Threads as text.

use std::collections::BTreeSet;

use mallow_report::analysis::{ThreadRow, Threads};

use crate::output::text::units::{bytes, count, of, percent};
use crate::output::text::{Align, Line, Look, Page, Table, heading};

/// Threads, and what one of them allocated and another one freed.
pub fn text(report: &Threads, look: &Look) -> String {
    let mut page = Page::new(*look);
    let all = format!(": {}, {}", of(report.allocations, "allocation"), bytes(report.allocated_bytes, look.exact));
    page.sentence(heading("Threads", report.threads.len(), report.threads_in_all).plain(all));
    if report.threads.is_empty() {
        page.sentence(Line::new().plain("  none"));
        return page.into_text();
    }
    let several = report.threads.iter().map(|thread| thread.pid).collect::<BTreeSet<_>>().len() > 1;
    // The width is for names where nobody frees blocks of others.
    let hands_over = report.threads.iter().any(|thread| thread.frees_of_others > 0);
    let mut titles = vec!["thread", "allocations", "%", "bytes", "own peak", "frees"];
    titles.extend(hands_over.then_some("of others'"));
    let mut align = vec![Align::Right; titles.len()];
    align.push(Align::Left);
    let mut table = Table::new(&align);
    table.row(titles.iter().map(|title| Line::new().faint(title)));
    for thread in &report.threads {
        let others = if thread.frees_of_others > 0 { count(thread.frees_of_others) } else { String::new() };
        let cells = [
            Line::new().strong(id(thread.tid)),
            Line::new().plain(count(thread.allocations)),
            Line::new().plain(percent(thread.allocations, report.allocations)),
            Line::new().plain(bytes(thread.allocated_bytes, look.exact)),
            Line::new().plain(bytes(thread.own_peak_bytes, look.exact)),
            Line::new().plain(count(thread.frees)),
        ];
        let others = hands_over.then(|| Line::new().plain(others));
        table.row(cells.into_iter().chain(others).chain([Line::new().faint(whose(thread, several, look))]));
    }
    table.onto(&mut page);
    if report.pairs_in_all > 0 {
        page.gap();
        let all = format!(": {}, {}", of(report.handed_over, "block"), bytes(report.handed_over_bytes, look.exact));
        let title = "Allocated by one thread, freed by another";
        page.sentence(heading(title, report.pairs.len(), report.pairs_in_all).plain(all));
        let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
        table.row(["blocks", "%", "bytes", "allocated by", "freed by"].map(|title| Line::new().faint(title)));
        for pair in &report.pairs {
            table.row([
                Line::new().plain(count(pair.blocks)),
                Line::new().plain(percent(pair.blocks, report.handed_over)),
                Line::new().plain(bytes(pair.bytes, look.exact)),
                Line::new().strong(id(pair.allocated_by)),
                Line::new().strong(id(pair.freed_by)),
            ]);
        }
        table.onto(&mut page);
    }
    let shown = |shown: usize, all: u64| (shown as u64) < all;
    if shown(report.threads.len(), report.threads_in_all) || shown(report.pairs.len(), report.pairs_in_all) {
        page.sentence(Line::new().faint("  --limit 0 shows all"));
    }
    page.into_text()
}

fn id(tid: Option<u32>) -> String {
    tid.map_or("(unknown)".to_owned(), |tid| tid.to_string())
}

/// `main` for a process's first thread, the name of another one; the process, where there are several.
fn whose(thread: &ThreadRow, several: bool, look: &Look) -> String {
    let main = if thread.tid == Some(thread.pid) { "main" } else { thread.name.as_deref().unwrap_or_default() };
    if !several {
        return main.to_owned();
    }
    let program = match look.full_names {
        true => &thread.program,
        false => thread.program.rsplit('/').next().unwrap_or(&thread.program),
    };
    let of = format!("{program} {}", thread.pid);
    if main.is_empty() { of } else { format!("{main} of {of}") }
}
