//! `mallow leaks`: what was live at the end, by cause.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use mallow_profile::Word;
use mallow_report::analysis::{LeakCause, Leaks, Suppressions, leaks};

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
        recording.above(&text(&report, &look, flags.stacks, report.causes.leak_causes.len() == limit), &look)
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

/// `more`: a higher limit would show more leaks.
fn text(report: &Leaks, look: &Look, stacks: bool, more: bool) -> String {
    let mut page = Page::new(*look);
    if report.leaked == 0 && report.leaked_bytes == 0 {
        page.line(Line::new().strong("Nothing leaked: all blocks were freed before the end."));
    } else if report.reported == 0 && report.reported_bytes == 0 {
        page.line(Line::new().strong(match report.suppressions.iter().any(|s| s.sites > 0) {
            true => "No leaks to report: all are suppressed.",
            false => "Nothing leaked.",
        }));
    } else {
        let title = format!("{} live at the end", amount(report, report.reported_bytes, report.reported, look));
        let causes = &report.causes;
        page.line(heading(&title, causes.leak_causes.len(), causes.leak_causes_in_all));
    }
    for cause in &report.causes.leak_causes {
        page.gap();
        show(cause, report, look, stacks, &mut page);
    }
    if let Some(hidden) = &report.causes.leak_causes_hidden {
        page.gap();
        let rest = amount(report, hidden.sums.leaked_bytes, hidden.sums.leaked, look);
        let all = if more { "; --limit 0 shows all" } else { "" };
        page.line(Line::new().faint(format!("and {} more, {rest}{all}", of(hidden.rows, "leak"))));
    }
    suppressions(report, look, &mut page);
    // The first lines of the view say that something is missing; here is what that means for leaks.
    if report.ending.cut_short.is_some() {
        page.gap();
        page.line(Line::new().warning("What is live where the recording is cut may be freed later."));
    }
    if report.ending.lost > 0 {
        page.gap();
        page.line(Line::new().warning("Some blocks may have been freed by events that could not be recorded."));
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

/// `192 B, 100.0 %: one leak, 3 times; allocated 5 ms before the end`
fn show(cause: &LeakCause, report: &Leaks, look: &Look, stacks: bool, page: &mut Page) {
    let age = if cause.oldest_ms == cause.youngest_ms {
        span(cause.oldest_ms)
    } else {
        format!("{} to {}", span(cause.oldest_ms), span(cause.youngest_ms))
    };
    let size = bytes(cause.leaked.leaked_bytes, look.exact);
    let share = percent(cause.leaked.leaked_bytes, report.leaked_bytes);
    let times = match cause.leaked.leaked {
        _ if !tells(report, Word::Leaked) => String::new(),
        1 => ": one leak, once".to_owned(),
        blocks => format!(": one leak, {} times", count(blocks)),
    };
    let when = if tells(report, Word::Ages) { format!("; allocated {age} before the end") } else { String::new() };
    let paths = match cause.sites {
        0 | 1 => String::new(),
        sites => format!("; {}, the largest:", of(sites, "call path")),
    };
    page.line(Line::new().strong(size).plain(format!(", {share}{times}{when}{paths}")));
    stacked(&cause.largest_site, look, stacks, page);
}

fn suppressions(report: &Leaks, look: &Look, page: &mut Page) {
    let pool = report.causes.emergency_pool.unwrap_or_default();
    if pool.leaked_bytes > 0 {
        page.gap();
        let size = amount(report, pool.leaked_bytes, pool.leaked, look);
        page.line(
            Line::new().faint(format!("No leak: {size} that libstdc++ keeps for exceptions when memory is scarce")),
        );
    }
    let suppressed = report.suppressed.saturating_sub(pool.leaked);
    let suppressed_bytes = report.suppressed_bytes.saturating_sub(pool.leaked_bytes);
    if suppressed > 0 || suppressed_bytes > 0 {
        page.gap();
        let size = amount(report, suppressed_bytes, suppressed, look);
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
