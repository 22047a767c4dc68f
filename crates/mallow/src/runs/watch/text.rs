//! Reports of a watch, as text.

use mallow_report::analysis::sampled::{Estimate, Verdict};
use mallow_report::analysis::{Recent, Watched, WatchedSite, Which};

use crate::output::text::estimates::{NOT_ENOUGH, estimated_bytes, estimated_count, growth_in_full, period};
use crate::output::text::units::{bytes, count, of, share, span};
use crate::output::text::utc::moment;
use crate::output::text::{Line, Look, Page, stacked};

/// A report. `stacks`: whole ones. `more`: a higher limit would show more sites.
pub fn report(report: &Watched, look: &Look, stacks: bool, more: bool) -> String {
    let mut page = Page::new(*look);
    page.line(title(report));
    let told = |what: &str, text: String| Line::new().plain("  ").faint(format!("{what:<9}")).plain(text);
    page.line(told(
        "live",
        format!(
            "{}, in {}; {}",
            held(&report.live_bytes, &report.live, look),
            of(report.samples, "sample"),
            period(report.period_bytes, look)
        ),
    ));
    if report.which == Which::Old || report.reported_samples < report.samples {
        let older = match report.which {
            Which::Old => format!("; allocated more than {} ago", span(report.older_than_ms)),
            _ => String::new(),
        };
        let of_them = format!(
            "{} in {}{older}",
            estimated_bytes(&report.reported_bytes, look),
            of(report.reported_samples, "sample")
        );
        page.line(told("reported", of_them));
    }
    let with = |verdict| report.sites.iter().filter(move |site| site.growth.verdict == verdict);
    section("Growing significantly", with(Verdict::Growing), look, stacks, &mut page);
    section("Growing so far; too early to say whether it ends", with(Verdict::SoFar), look, stacks, &mut page);
    let title = match report.which {
        Which::Old => "Old, and still live",
        Which::Live => "Live",
        Which::Peak => "Live at the peak",
    };
    section(title, report.sites.iter().filter(|site| site.growth.verdict < Verdict::SoFar), look, stacks, &mut page);
    if report.sites.is_empty() {
        page.line(Line::new().plain(match report.which {
            Which::Old => "  Nothing to report: no sample is that old, or all are known.",
            _ => "  Nothing to report: no sample is live, or all are known.",
        }));
    }
    if let Some(hidden) = &report.hidden {
        page.gap();
        let all = if more { "; --limit 0 shows all" } else { "" };
        let rest = format!("and {} more, with {}{all}", of(hidden.rows, "site"), of(hidden.sums.samples, "sample"));
        page.line(Line::new().faint(rest));
    }
    left_out(report, &mut page);
    page.gap();
    page.into_text()
}

/// `2026-11-21 17:48:03 UTC  redis-server --port 0, pid 4711, watched for 10 min 00 s`
fn title(report: &Watched) -> Line {
    let line = Line::new().plain(moment(report.at_unix_ms)).plain("  ").strong(report.command.join(" "));
    let pids: Vec<String> = report
        .processes
        .iter()
        .map(|process| match process.running {
            true => process.pid.to_string(),
            false => format!("{} (ended)", process.pid),
        })
        .collect();
    const SOME: usize = 6;
    let more = if pids.len() > SOME { format!(" and {} more", pids.len() - SOME) } else { String::new() };
    let pids = pids.iter().take(SOME).map(String::as_str).collect::<Vec<_>>().join(", ");
    let who = if pids.is_empty() { "ended".to_owned() } else { format!("pid {pids}{more}") };
    line.plain(format!(", {who}, watched for {}", span(report.watched_ms)))
}

/// Bytes and blocks, as far as there are enough samples.
fn held(bytes: &Estimate, blocks: &Estimate, look: &Look) -> String {
    match blocks.enough() {
        true => format!("{}, {} blocks", estimated_bytes(bytes, look), estimated_count(blocks, look)),
        false => estimated_bytes(bytes, look),
    }
}

fn section<'a>(title: &str, sites: impl Iterator<Item = &'a WatchedSite>, look: &Look, stacks: bool, page: &mut Page) {
    let mut sites = sites.peekable();
    if sites.peek().is_none() {
        return;
    }
    page.gap();
    page.line(Line::new().strong(title));
    for site in sites {
        show(site, look, stacks, page);
    }
}

fn show(site: &WatchedSite, look: &Look, stacks: bool, page: &mut Page) {
    // Of a handful of samples one thing is known: that they are there.
    let size = match site.live_bytes.interval() {
        None => format!("{NOT_ENOUGH} ({})", count(site.samples)),
        Some(_) => format!("{}, {}", held(&site.live_bytes, &site.live, look), of(site.samples, "sample")),
    };
    let mut facts = Vec::new();
    if site.growth.verdict != Verdict::Unknown {
        facts.push(growth_in_full(&site.growth, look));
    }
    facts.push(match site.youngest_ms == site.oldest_ms {
        true => format!("{} old", span(site.oldest_ms)),
        false => format!("{} to {} old", span(site.youngest_ms), span(site.oldest_ms)),
    });
    if site.byte_seconds.interval().is_some() {
        facts.push(format!("{} byte·seconds", estimated_count(&site.byte_seconds, look)));
    }
    if let Some(part) = site.freed_by_others.filter(|part| *part > 0.0) {
        facts.push(format!("{} of it freed by another thread", share(part)));
    }
    page.line(Line::new().plain("  ").strong(size).plain(format!("; {}", facts.join("; "))));
    stacked(&site.stack, look, stacks, page);
}

fn left_out(report: &Watched, page: &mut Page) {
    let parts: Vec<String> = [
        (report.muted_samples, "muted"),
        (report.suppressed_samples, "suppressed"),
        (report.known_samples, "of sites that the baseline has"),
    ]
    .into_iter()
    .filter(|(samples, _)| *samples > 0)
    .map(|(samples, how)| format!("{} {how}", of(samples, "sample")))
    .collect();
    if !parts.is_empty() {
        page.gap();
        page.line(Line::new().plain(format!("Left out: {}", parts.join(", "))));
    }
    for unused in &report.unused_suppressions {
        page.line(Line::new().warning(format!("Unused suppression: leak:{unused}")));
    }
    let lost = report.lost;
    let losses = [
        (lost.picks, "allocation", "sampled without room for them: the true numbers are higher"),
        (lost.events, "end", "lost of samples: who freed them is not known, what is live is"),
        (lost.stacks, "stack", "without room"),
        (lost.damaged, "record", "unreadable, and skipped"),
        (lost.left, "process", "no longer sampled: a signal handler left Mallow by longjmp"),
        (lost.filtered, "process", "sampled no more: a filter of system calls that it installed forbids it"),
        (lost.unsampled, "process", "not sampled: no room for its file or for samples, or out of reach"),
    ];
    for (n, noun, what) in losses.into_iter().filter(|(n, ..)| *n > 0) {
        page.gap();
        page.line(Line::new().warning(format!("{} {what}", of(n, noun))));
    }
}

/// The latest frees and reallocs of sampled blocks, the last one first.
pub fn recent(all: &[Recent], look: &Look, stacks: bool) -> String {
    let mut page = Page::new(*look);
    if all.is_empty() {
        page.line(Line::new().strong("No sampled block has been freed while it was watched."));
    } else {
        page.line(
            Line::new()
                .strong(format!("The latest {} of sampled blocks, the last one first", of(all.len() as u64, "free"))),
        );
    }
    for free in all {
        page.gap();
        let head = format!("{} of {} at {}", free.how, bytes(free.size, look.exact), free.address);
        let tail = format!(
            ", pid {}, {} ago by thread {}, {} after thread {} had allocated it",
            free.pid,
            span(free.ago_ms),
            free.freed_by,
            span(free.lived_ms),
            free.allocated_by
        );
        page.line(Line::new().strong(head).plain(tail));
        stacked(&free.freed, look, stacks, &mut page);
        page.line(Line::new().plain("  allocated by"));
        stacked(&free.allocated, look, stacks, &mut page);
    }
    page.gap();
    page.into_text()
}
