//! `mallow leaks`: what was live at the end, by cause.

use std::cell::OnceCell;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use mallow_profile::Quantity;
use mallow_report::analysis::{LeakCause, LeakOptions, LeakState, LeakStates, Leaks, Suppressions, leaks_with};

use crate::flags::{LeakState as Only, LeaksFlags};
use crate::input::coverage::provenance;
use crate::input::filters::Part;
use crate::input::names::MissingNames;
use crate::input::recording::Recording;
use crate::output::text::units::{bytes, count, of, percent, range, span};
use crate::output::text::{Line, Look, Page, STACK_LINES, Stream, heading, stacked};
use crate::output::{exit, stdio};
use crate::views::leak_states::{self, amount, has};
use crate::views::suppressed;

pub fn run(flags: &LeaksFlags) -> Result<ExitCode> {
    let suppressions = flags.suppressions.as_deref().map(read).transpose()?.unwrap_or_default();
    let recording = Recording::open(&flags.rows.source)?;
    let look = flags.rows.view.look(Stream::Out);
    let screen = match look.height {
        _ if flags.rows.view.json => usize::MAX,
        None => 10,
        Some(height) => (height.saturating_sub(4) / STACK_LINES).max(3),
    };
    let limit = flags.rows.view.limit(screen);
    let state = state(flags, &recording)?;
    let part = recording.filters.part();
    let in_state = |state, limit| in_state(flags, &recording, &suppressions, state, limit);
    let mut report = in_state(state, limit);
    // The first cause is the same with any limit.
    let hint = OnceCell::new();
    let is_divided = |report: &Leaks| {
        flags.only.is_none() && report.reported > 0 && report.states.as_ref().is_some_and(LeakStates::has_scan)
    };
    let text = |report: &Leaks, limit: usize| {
        let is_divided = is_divided(report);
        let mut page = Page::new(look);
        if let Some(origin) = report.origin.as_ref().filter(|origin| origin.is_sampled()) {
            page.sentence(provenance(origin));
        }
        if flags.suppressed {
            suppressed::show(report, &look, &mut page);
            let more = report.causes.leak_causes.len() == limit;
            causes(report, "cause", (&look, flags.stacks), more, &mut page);
            return recording.above(&page.into_text(), &look);
        }
        let lost = is_divided.then(|| in_state(Some(LeakState::Lost), limit));
        if let Some(lost) = &lost {
            body(lost, Some(LeakState::Lost), (&look, flags.stacks), (limit, part), &mut page);
            leak_states::others(lost, &in_state(Some(LeakState::Reachable), 0), &look, &mut page);
        } else {
            body(report, state, (&look, flags.stacks), (limit, part), &mut page);
        }
        notes(report, &look, &mut page);
        if state.is_none() {
            leak_states::unscanned(report, is_divided, &look, &mut page);
            leak_states::at_exec(report, &look, &mut page);
        }
        if let Some(hint) = hint.get_or_init(|| nameless(lost.as_ref().unwrap_or(report), &recording)) {
            page.gap();
            page.hanging(Line::new(), hint);
        }
        recording.above(&page.into_text(), &look)
    };
    stdio::print(&if flags.rows.view.json {
        recording.json(&report)?
    } else {
        let mut limit = limit;
        let mut shown = text(&report, limit);
        // A terminal keeps the last rows in sight, and the answer is in the first ones.
        let fits = |shown: &str| look.height.is_none_or(|height| shown.lines().count() < height);
        while flags.rows.view.limit.is_none() && limit > 1 && !fits(&shown) {
            limit -= 1;
            report = in_state(state, limit);
            shown = text(&report, limit);
        }
        shown
    })?;
    if !flags.fail_on_leak {
        return Ok(exit::OK);
    }
    if report.reported > 0 || report.reported_bytes > 0 {
        let lost = is_divided(&report).then(|| in_state(Some(LeakState::Lost), 0));
        if lost.is_some_and(|lost| lost.reported == 0 && lost.reported_bytes == 0) {
            let size = leak_states::amount(&report, report.reported_bytes, report.reported, &Look::default());
            stdio::notify(&format!(
                "exit status 3: {size} live at the end, none of it known to be lost; --only lost fails for lost blocks alone"
            ));
        }
        return Ok(ExitCode::from(exit::LEAKS_FOUND));
    }
    let unknown = in_state(Some(LeakState::Unscanned), 0);
    if state == Some(LeakState::Lost) && (unknown.reported > 0 || unknown.reported_bytes > 0) {
        let size = leak_states::amount(&unknown, unknown.reported_bytes, unknown.reported, &Look::default());
        stdio::notify(&format!(
            "whether {size} are lost is not known: their processes were not scanned; mallow leaks --only unscanned says why, \
             and record --scan-all scans all"
        ));
        return Ok(ExitCode::from(exit::LEAKS_UNKNOWN));
    }
    Ok(exit::OK)
}

/// The JSON of a recording, without suppressions.
pub fn document(flags: &LeaksFlags, recording: &Recording) -> Result<String> {
    let state = state(flags, recording)?;
    let limit = flags.rows.view.limit(usize::MAX);
    recording.json(&in_state(flags, recording, &Suppressions::default(), state, limit))
}

/// The state of blocks that the flags ask for. Fails where the recording does not say which blocks are in it.
fn state(flags: &LeaksFlags, recording: &Recording) -> Result<Option<LeakState>> {
    recording.require(Quantity::LiveBytes, "mallow report shows what it has")?;
    let state = match flags.only {
        None | Some(Only::All) => None,
        Some(Only::Lost) => Some(LeakState::Lost),
        Some(Only::Reachable) => Some(LeakState::Reachable),
        Some(Only::Unscanned) => Some(LeakState::Unscanned),
        Some(Only::Exec) => Some(LeakState::Exec),
    };
    if state.is_some() && recording.profile.origin.is_some() {
        bail!("this {} does not say what is lost: mallow record scans processes at their exit", recording.kind());
    }
    Ok(state)
}

fn in_state(
    flags: &LeaksFlags,
    recording: &Recording,
    suppressions: &Suppressions,
    state: Option<LeakState>,
    limit: usize,
) -> Leaks {
    let options =
        LeakOptions { state, suppressions, built_in: !flags.no_built_in, of_suppressed: flags.suppressed, limit };
    let mut report = leaks_with(&recording.profile, &options);
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least);
    }
    report
}

pub fn read(path: &Path) -> Result<Suppressions> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the suppressions in {name}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{name} is no text; is it a suppression file?"))?;
    Suppressions::parse(&text).with_context(|| format!("{name} is no suppression file of LeakSanitizer's format"))
}

/// The blocks of a state, with at most `limit` causes.
fn body(
    report: &Leaks,
    state: Option<LeakState>,
    (look, stacks): (&Look, bool),
    (limit, part): (usize, Part),
    page: &mut Page,
) {
    // Only of a lost block is it known that it is a leak.
    let noun = if state == Some(LeakState::Lost) { "leak" } else { "cause" };
    let more = report.causes.leak_causes.len() == limit;
    if report.reported == 0 && report.reported_bytes == 0 {
        let these = if part == Part::All { "" } else { "Of these: " };
        page.sentence(Line::new().strong(these).strong(leak_states::nothing(report, state)));
    } else {
        let what = match state {
            None => leak_states::live(report.live_moment),
            Some(LeakState::Lost) => "lost: no pointer to them was found",
            Some(LeakState::Reachable) => "still reachable at the end",
            Some(LeakState::Unscanned) => "live at the end of processes that were not scanned",
            Some(LeakState::Exec) => "live when their process called exec, which gives back all memory: no leak",
        };
        let title = format!("{} {what}", amount(report, report.reported_bytes, report.reported, look));
        let causes = &report.causes;
        page.sentence(heading(&title, causes.leak_causes.len(), causes.leak_causes_in_all));
    }
    if state == Some(LeakState::Lost) {
        leak_states::cycles(report, look, page);
    }
    causes(report, noun, (look, stacks), more, page);
}

/// A paragraph for each cause. `more`: a limit hides some.
fn causes(report: &Leaks, noun: &str, (look, stacks): (&Look, bool), more: bool, page: &mut Page) {
    for cause in &report.causes.leak_causes {
        page.gap();
        show(cause, report, noun, look, stacks, page);
    }
    if let Some(hidden) = &report.causes.leak_causes_hidden {
        page.gap();
        let rest = amount(report, hidden.sums.live_bytes, hidden.sums.live, look);
        let all = if more { "; --limit 0 shows all" } else { "" };
        page.sentence(Line::new().faint(format!("and {} more, {rest}{all}", of(hidden.rows, noun))));
    }
}

/// Notes on blocks that are no leak, and on what the leaks lack.
fn notes(report: &Leaks, look: &Look, page: &mut Page) {
    suppressed::notes(report, look, page);
    // The first lines of the view say that something is missing; here is what that means for leaks.
    if report.ending.cut_short.is_some() {
        page.gap();
        page.sentence(Line::new().warning("What is live where the recording is cut may be freed later."));
    }
    if report.ending.lost > 0 {
        page.gap();
        page.sentence(Line::new().warning("Some blocks may have been freed by events that could not be recorded."));
    }
}

/// The remedy for the first cause without a name, if that cause is an address.
fn nameless(report: &Leaks, recording: &Recording) -> Option<String> {
    let cause = report.causes.leak_causes.first()?;
    let mut nameless = cause.frame.iter().filter(|frame| !frame.named);
    let first = nameless.next().or_else(|| cause.largest_site.looked_past_without_names().next())?;
    let lacking = recording.lacking(&[first.module.as_deref()?]);
    lacking.iter().find(|missing| missing.is_of_addresses([first])).map(MissingNames::line)
}

/// `192 B, 100.0 %: one leak, 3 times; allocated 5 ms before the end`
fn show(cause: &LeakCause, report: &Leaks, noun: &str, look: &Look, stacks: bool, page: &mut Page) {
    let age = range(span(cause.oldest_ms), &span(cause.youngest_ms));
    let size = bytes(cause.live.live_bytes, look.exact);
    // Of what is listed: what is reported, or what is suppressed.
    let share = percent(cause.live.live_bytes, report.causes.live().live_bytes);
    let held = cause.live.live.saturating_sub(cause.heads);
    let times = match cause.live.live {
        _ if cause.heads > 0 && held > 0 => {
            let times = if cause.heads == 1 { "once".to_owned() } else { format!("{} times", count(cause.heads)) };
            format!(": one {noun}, {times}, with {} that it holds", of(held, "block"))
        }
        _ if !has(report, Quantity::Live) => String::new(),
        1 => format!(": one {noun}, once"),
        blocks => format!(": one {noun}, {} times", count(blocks)),
    };
    let when = if has(report, Quantity::Ages) { format!("; allocated {age} before the end") } else { String::new() };
    let paths = match cause.sites {
        0 | 1 => String::new(),
        sites => format!("; {}, the largest:", of(sites, "call path")),
    };
    let share = if share.is_empty() { share } else { format!(", {share}") };
    page.sentence(Line::new().strong(size).plain(format!("{share}{times}{when}{paths}")));
    stacked(&cause.largest_site, look, stacks, page);
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Origin, Quantities, Quantity};
    use mallow_report::analysis::{Suppressions, leaks};
    use mallow_report::testing::parser;

    use super::{Leaks, Page, Part, body, notes};

    fn text(report: &Leaks, look: &Look, stacks: bool, limit: usize) -> String {
        let mut page = Page::new(*look);
        body(report, None, (look, stacks), (limit, Part::All), &mut page);
        notes(report, look, &mut page);
        page.into_text()
    }
    use crate::output::text::Look;

    #[test]
    fn sites_with_their_age_and_stack() {
        insta::assert_snapshot!(text(&leaks(&parser(), &Suppressions::default(), 1), &Look::default(), false, 1));
    }

    #[test]
    fn whole_stacks_and_what_was_suppressed() {
        let suppressions = Suppressions::parse("leak:Cache::put\nleak:nobody\n").expect("a good file");
        insta::assert_snapshot!(text(&leaks(&parser(), &suppressions, 9), &Look::default(), true, 9));
    }

    #[test]
    fn a_profile_without_block_counts_and_ages_shows_bytes() {
        let mut profile = parser();
        for site in &mut profile.sites {
            site.counts.live = 0;
        }
        profile.origin =
            Some(Origin { format: "massif", quantities: Quantities::of(&[Quantity::LiveBytes]), sampled_bytes: None });
        insta::assert_snapshot!(text(&leaks(&profile, &Suppressions::default(), 9), &Look::default(), false, 9));
    }

    #[test]
    fn nothing_leaked() {
        let report = leaks(&mallow_profile::Profile::default(), &Suppressions::default(), 9);
        let text = text(&report, &Look::default(), false, 9);
        assert_eq!(text, "No recorded block was live at the end: all were freed.\n");
    }
}
