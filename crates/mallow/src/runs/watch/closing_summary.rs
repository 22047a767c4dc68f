//! The last report of a watch, on one screen: the verdict, what grew, what was live, and what to do next.

use mallow_report::analysis::sampled::{FIRST_VERDICT_NS, Verdict};
use mallow_report::analysis::{CustomAllocatorRow, Watched, WatchedPlace};

use super::headline::{attached, gaps, headline, seconds, whole};
use super::last_running::LastRunning;
use crate::output::text::estimates::{COLUMN, column_bytes, rate_per_hour, sampled_bytes};
use crate::output::text::gaps::show as show_gaps;
use crate::output::text::units::{count, of, span};
use crate::output::text::{Line, Look, Page, described_by};

/// Rows of a terminal that nobody asks about, and those that are left for the prompt and mallow's last line.
const HEIGHT: usize = 24;
const PROMPT: usize = 3;
/// Rows beside those of the lists: title, verdict, live in two lines, two headings with gaps, what is hidden, what
/// to do in two lines with a gap.
const FRAME: usize = 12;
/// Limit of sentences about what the numbers lack; each may take two rows.
const GAPS: usize = 2;
/// Places of a list, at the most.
const PLACES: usize = 10;
/// Width from which a line has room for the function through which a place allocates.
const WIDE: usize = 100;

pub struct Ending<'a> {
    /// Fate of the command or the process: `until it ended with status 0`.
    pub outcome: String,
    pub running: &'a LastRunning,
    /// Report of what was live at the end.
    pub last: &'a Watched,
    /// The program that is left running can be joined again by this process id.
    pub left: Option<u32>,
    /// Growth of less than that is growth so far.
    pub warm_up_ms: u64,
}

pub fn closing_summary(ending: &Ending<'_>, look: &Look) -> String {
    let mut page = Page::new(*look);
    let report = ending.running.report().unwrap_or(ending.last);
    let finding = headline(report, None, look);
    // The command is last: it may be long, and a narrow terminal cuts it.
    let (watched_ms, command) = (ending.last.watched_ms, ending.last.command.join(" "));
    let time = match watched_ms {
        0 => "less than 1 ms".to_owned(),
        1..1000 => span(watched_ms),
        _ => seconds(watched_ms),
    };
    page.line(Line::new().plain(format!("Watched for {time} {}: {command}", ending.outcome)));
    let gaps = gaps(report);
    show_gaps(gaps.iter().take(GAPS).cloned(), &mut page);
    let fell = ending.running.fell();
    let when = if fell { format!(" after {}", seconds(report.watched_ms)) } else { String::new() };
    let verdict = Line::new().strong(format!("Verdict{when}: ")).strong(&finding.text);
    let further = look.width.map_or(0, |width| verdict.width() / width.max(1));
    page.sentence(verdict);
    let attached = attached(report);
    if let Some(attached) = &attached {
        page.line(Line::new().plain("  ").plain(attached));
    }
    let live = |report: &Watched| match report.samples {
        0 if report.nothing_seen().is_some() => "not known".to_owned(),
        0 => "no sample".to_owned(),
        n => sampled_bytes(&report.live_bytes, n, look),
    };
    let has_ended = ending.running.report().is_some() && ending.left.is_none();
    let moment = match (fell, has_ended) {
        (true, _) => format!("{when}, before it fell"),
        (false, true) => " while it ran".to_owned(),
        (false, false) => String::new(),
    };
    let at_end = if has_ended { format!("; {} at its end", live(ending.last)) } else { String::new() };
    let lived = live(report) + &moment + &at_end;
    page.hanging(Line::new().faint("  live     "), &lived);
    let rows = look
        .height
        .unwrap_or(HEIGHT)
        .saturating_sub(PROMPT + FRAME + further + 2 * gaps.len().min(GAPS) + usize::from(attached.is_some()))
        .max(2);
    let places = &report.places.places;
    let (growing, rest): (Vec<_>, Vec<_>) = places.iter().partition(|place| place.growth.verdict >= Verdict::SoFar);
    // A handful of samples is no answer, unless there is nothing else.
    let enough: Vec<_> = rest.iter().copied().filter(|place| place.live_bytes.enough()).collect();
    let rest = if growing.is_empty() && enough.is_empty() { rest } else { enough };
    let for_growing = growing.len().min(PLACES).min((rows / 2).max(rows.saturating_sub(rest.len())));
    let for_rest = rest.len().min(PLACES).min(rows - for_growing);
    let all = &report.places;
    let growing_in_all = all.growing_places.saturating_add(all.places_growing_so_far);
    let rest_in_all = all.places_in_all.saturating_sub(growing_in_all);
    list("Growing", &growing[..for_growing], growing_in_all, look, &mut page);
    list("Live", &rest[..for_rest], rest_in_all, look, &mut page);
    if for_rest == 0 && rest_in_all > 0 {
        page.gap();
        let that = if rest_in_all == 1 { "that is" } else { "that are" };
        page.line(Line::new().faint(format!("Not shown: {} {that} not known to grow", of(rest_in_all, "place"))));
    }
    page.gap();
    page.hanging(Line::new().faint("Next: "), &next(ending, report, finding.verdict));
    page.into_text()
}

/// `in_all`: how many there are, shown or not.
fn list(title: &str, places: &[&WatchedPlace], in_all: u64, look: &Look, page: &mut Page) {
    if places.is_empty() {
        return;
    }
    page.gap();
    page.line(Line::new().strong(title));
    for place in places {
        let rate = match place.growth.verdict {
            Verdict::Growing => format!("+{}", rate_per_hour(&place.growth.bytes_per_hour, look)),
            Verdict::SoFar => format!("+{} so far", rate_per_hour(&place.growth.bytes_per_hour, look)),
            _ => String::new(),
        };
        let live = column_bytes(&place.live_bytes, look);
        let line = match rate.is_empty() {
            true => Line::new().plain(format!("  {live:>COLUMN$}  ")),
            false => Line::new().plain("  ").strong(rate).plain(format!(", {live} live  ")),
        };
        // Where there is little room, callers are worth more.
        let through = place.through.as_deref().filter(|_| look.width.is_none_or(|width| width >= WIDE));
        page.line(line.then(described_by(
            place.frame.as_ref(),
            place.sites,
            (place.by.as_deref(), through),
            &place.largest_site,
            look,
        )));
    }
    let hidden = in_all.saturating_sub(places.len() as u64);
    if hidden > 0 {
        page.line(Line::new().faint(format!("  and {} more", of(hidden, "place"))));
    }
}

/// The next step for the user, in one line.
fn next(ending: &Ending<'_>, report: &Watched, verdict: Verdict) -> String {
    let watched_ms = report.watched_ms;
    let grows = verdict >= Verdict::SoFar;
    if let Some(unseen) = report.nothing_seen().filter(|unseen| !unseen.remedy.is_empty()) {
        return unseen.remedy.clone();
    }
    match ending.left {
        Some(pid) if report.attached_ms.is_some() => format!("mallow watch -p {pid} attaches again, and begins anew"),
        Some(pid) => format!("mallow watch -p {pid} joins it again; q there leaves it running"),
        None if verdict == Verdict::SoFar && watched_ms < ending.warm_up_ms => {
            let least = whole(ending.warm_up_ms);
            format!("watch for more than {least}: a cache that fills looks the same; --stacks shows call paths")
        }
        None if grows => format!("mallow watch --stacks -- … shows call paths; {} exact numbers", recording(report)),
        None if watched_ms < FIRST_VERDICT_NS / 1_000_000 => {
            let seconds = count(FIRST_VERDICT_NS / 1_000_000_000);
            format!("{} for short runs; growth shows after {seconds} s", recording(report))
        }
        None => format!("{} for exact numbers, each allocation counted", recording(report)),
    }
}

/// The command that records what malloc does not see, too, where there is one. `--python` executes an interpreter: of
/// another program that has Python inside, the setting is enough.
fn recording(report: &Watched) -> &'static str {
    let has_python = |row: &&CustomAllocatorRow| row.remedy.contains("PYTHONMALLOC");
    let name = |row: &CustomAllocatorRow| row.executable.rsplit('/').next().is_some_and(|n| n.starts_with("python"));
    match report.custom_allocators.iter().find(has_python).map(name) {
        Some(true) => "mallow record --python …",
        Some(false) => "PYTHONMALLOC=malloc mallow record -- …",
        None => "mallow record -- …",
    }
}
