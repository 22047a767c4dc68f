//! `mallow leaks`: what was live at the end, by site.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use mallow_profile::Word;
use mallow_report::analysis::{LeakSite, Leaks, Suppressions, leaks};

use crate::flags::LeaksFlags;
use crate::input::recording::Recording;
use crate::output::text::units::{bytes, count, of, percent, span};
use crate::output::text::{Line, Look, Page, STACK_LINES, Stream, heading, stacked};
use crate::output::{exit, stdio};

/// Shows the leaks.
pub fn run(flags: &LeaksFlags) -> Result<ExitCode> {
    let suppressions = flags.suppressions.as_deref().map(read).transpose()?.unwrap_or_default();
    let recording = Recording::open(&flags.rows.source)?;
    recording.require(Word::LeakedBytes, "mallow report shows what it has")?;
    let look = flags.rows.view.look(Stream::Out);
    let screen = match look.height {
        _ if flags.rows.view.json => usize::MAX,
        None => 10,
        Some(height) => (height.saturating_sub(4) / STACK_LINES).max(3),
    };
    let limit = flags.rows.view.limit(screen);
    let mut report = leaks(&recording.profile, &suppressions, limit);
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least);
    }
    stdio::print(&if flags.rows.view.json {
        recording.json(&report)?
    } else {
        recording.filters.above(text(&report, &look, flags.stacks, report.sites.len() == limit), &look)
    })?;
    Ok(if flags.fail_on_leak && (report.reported > 0 || report.reported_bytes > 0) {
        ExitCode::from(exit::LEAKS_FOUND)
    } else {
        exit::OK
    })
}

/// Reads a file of suppressions.
pub fn read(path: &Path) -> Result<Suppressions> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the suppressions in {name}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{name} is no text; is it a suppression file?"))?;
    Suppressions::parse(&text).with_context(|| format!("{name} is no suppression file of LeakSanitizer's format"))
}

/// `more`: a higher limit would show more sites.
fn text(report: &Leaks, look: &Look, stacks: bool, more: bool) -> String {
    let mut page = Page::new(*look);
    if report.leaked == 0 && report.leaked_bytes == 0 {
        page.line(Line::new().strong("Nothing leaked: all blocks were freed before the end."));
    } else if report.reported == 0 && report.reported_bytes == 0 {
        page.line(Line::new().strong("No leaks to report: all are suppressed."));
    } else {
        let title = format!("{} live at the end", amount(report, report.reported_bytes, report.reported, look));
        page.line(heading(&title, report.sites.len(), report.sites_in_all));
    }
    for site in &report.sites {
        page.gap();
        show(site, report, look, stacks, &mut page);
    }
    if let Some(hidden) = &report.hidden {
        page.gap();
        let rest = amount(report, hidden.sums.leaked_bytes, hidden.sums.leaked, look);
        let all = if more { "; --limit 0 shows all" } else { "" };
        page.line(Line::new().faint(format!("and {} more, {rest}{all}", of(hidden.rows, "site"))));
    }
    suppressions(report, look, &mut page);
    if let Some(why) = &report.ending.cut_short {
        page.gap();
        page.line(
            Line::new().warning(format!("The recording is cut short: {why}. What is live there may be freed later.")),
        );
    }
    if report.ending.lost > 0 {
        page.gap();
        let lost = of(report.ending.lost, "event");
        page.line(
            Line::new().warning(format!("{lost} could not be recorded: some blocks may have been freed unseen.")),
        );
    }
    page.into_text()
}

fn tells(report: &Leaks, word: Word) -> bool {
    report.origin.as_ref().is_none_or(|origin| origin.tells.has(word))
}

/// `192 B in 3 blocks`
fn amount(report: &Leaks, size: u64, blocks: u64, look: &Look) -> String {
    let size = bytes(size, look.exact);
    if tells(report, Word::Leaked) { format!("{size} in {}", of(blocks, "block")) } else { size }
}

fn show(site: &LeakSite, report: &Leaks, look: &Look, stacks: bool, page: &mut Page) {
    let age = if site.oldest_ms == site.youngest_ms {
        span(site.oldest_ms)
    } else {
        format!("{} to {}", span(site.oldest_ms), span(site.youngest_ms))
    };
    let size = amount(report, site.leaked_bytes, site.leaked, look);
    let share = percent(site.leaked_bytes, report.leaked_bytes);
    let when = if tells(report, Word::Ages) { format!("; allocated {age} before the end") } else { String::new() };
    page.line(Line::new().strong(size).plain(format!(", {share}{when}")));
    stacked(&site.stack, look, stacks, page);
}

fn suppressions(report: &Leaks, look: &Look, page: &mut Page) {
    if report.suppressed > 0 || report.suppressed_bytes > 0 {
        page.gap();
        let size = amount(report, report.suppressed_bytes, report.suppressed, look);
        let all =
            if tells(report, Word::Leaked) { count(report.leaked) } else { bytes(report.leaked_bytes, look.exact) };
        page.line(Line::new().plain(format!("Suppressed: {size}, of {all} leaked in all")));
    }
    for unused in report.suppressions.iter().filter(|s| s.sites == 0) {
        page.line(Line::new().warning(format!("Unused suppression: leak:{} (line {})", unused.pattern, unused.line)));
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Origin, Word, Words};
    use mallow_report::analysis::{Suppressions, leaks};
    use mallow_report::testing::parser;

    use super::text;
    use crate::output::text::Look;

    #[test]
    fn sites_with_their_age_and_stack() {
        insta::assert_snapshot!(text(&leaks(&parser(), &Suppressions::default(), 1), &Look::default(), false, true));
    }

    #[test]
    fn whole_stacks_and_what_was_suppressed() {
        let suppressions = Suppressions::parse("leak:Cache::put\nleak:nobody\n").expect("a good file");
        insta::assert_snapshot!(text(&leaks(&parser(), &suppressions, 9), &Look::default(), true, true));
    }

    #[test]
    fn a_profile_without_block_counts_and_ages_shows_bytes() {
        let mut profile = parser();
        for site in &mut profile.sites {
            site.counts.leaked = 0;
        }
        profile.origin = Some(Origin { format: "massif", tells: Words::of(&[Word::LeakedBytes]), sampled_bytes: None });
        insta::assert_snapshot!(text(&leaks(&profile, &Suppressions::default(), 9), &Look::default(), false, true));
    }

    #[test]
    fn nothing_leaked() {
        let report = leaks(&mallow_profile::Profile::default(), &Suppressions::default(), 9);
        let text = text(&report, &Look::default(), false, true);
        assert_eq!(text, "Nothing leaked: all blocks were freed before the end.\n");
    }
}
