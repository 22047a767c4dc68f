//! What a watch has found so far, in one sentence: what grows comes first.

use mallow_report::analysis::sampled::{FIRST_VERDICT_NS, Growth, NEEDED_SAMPLES, Verdict};
use mallow_report::analysis::{MemoryPart, MemoryPartRow, WatchLosses, Watched, WatchedPlace, Which};

use crate::output::text::estimates::{estimated_bytes, rate_per_hour};
use crate::output::text::units::{bytes, count, of, span};
use crate::output::text::{Look, function, gaps, location};

/// A place that grows nearly as much as the first one keeps the headline: two that grow alike would change places with
/// every look.
const NEARLY: f64 = 0.8;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    /// The sentence, without a full stop.
    pub text: String,
    /// The place that it names as growing, by its id.
    pub place: Option<u64>,
    /// Verdict on `place`, or on the whole program without one.
    pub verdict: Verdict,
}

/// `remember srv.cpp:13`, or `note_session srv.cpp:21, by make_payload,`: what follows is said of it.
pub fn name(place: &WatchedPlace, look: &Look) -> String {
    let Some(frame) = &place.frame else { return "(no stack is known)".to_owned() };
    let at = location(&frame.function, frame.file.as_deref(), frame.line, frame.module.as_deref(), look);
    let name = format!("{} {at}", function(&frame.function, look)).trim_end().to_owned();
    match &place.by {
        Some(by) => format!("{name}, by {},", function(by, look)),
        None => name,
    }
}

/// Hint that growth may have ended, as where a program has filled its memory and is idle: `, with no sample in the last
/// 8 s`. By chance that is seldom so, as a fourth of the time has none of the samples.
fn idle(growth: &Growth) -> String {
    match growth.idle_ns {
        ns if ns > 0 && ns.saturating_mul(4) >= growth.over_ns => {
            format!(", with no sample in the last {}", seconds(ns / 1_000_000))
        }
        _ => String::new(),
    }
}

/// The headline of a report. `before`: the place that the last headline named.
pub fn headline(report: &Watched, before: Option<u64>, look: &Look) -> Headline {
    let places = &report.places;
    if let Some(place) = first(report, before) {
        let (verdict, so_far) = match place.growth.verdict {
            Verdict::Growing => (Verdict::Growing, String::new()),
            _ => (Verdict::SoFar, format!(" so far{}", idle(&place.growth))),
        };
        let more = match verdict {
            Verdict::Growing => places.growing_places,
            _ => places.places_growing_so_far,
        };
        let more = match more.saturating_sub(1) {
            0 => String::new(),
            1 => "; 1 more place grows".to_owned(),
            n => format!("; {} more places grow", count(n)),
        };
        let rate = rate_per_hour(&place.growth.bytes_per_hour, look);
        let text = format!("{} grows {rate}{so_far}{more}", name(place, look));
        return Headline { text, place: Some(place.id), verdict };
    }
    let largest = places.places.iter().max_by(|a, b| a.live_bytes.value.total_cmp(&b.live_bytes.value));
    let of_older = match report.which {
        Which::Old if report.older_than_ms > 0 => format!("of what is older than {}, ", span(report.older_than_ms)),
        _ => String::new(),
    };
    let most = match largest.filter(|place| place.live_bytes.enough()) {
        Some(place) => format!(
            "; {of_older}most is live in {}: {}",
            name(place, look).trim_end_matches(','),
            estimated_bytes(&place.live_bytes, look)
        ),
        None => String::new(),
    };
    if let Some(unseen) = report.nothing_seen() {
        return Headline { text: format!("Nothing of it is seen: {}", unseen.found), ..Headline::default() };
    }
    let (verdict, text) = match report {
        _ if report.period_bytes.is_none() && report.samples == 0 => {
            (Verdict::Unknown, "Dormant: nothing is sampled".to_owned())
        }
        _ if is_too_early(report.watched_ms) => (Verdict::Unknown, too_early()),
        _ if places.places_judged == 0 => (Verdict::Unknown, too_few(report, look)),
        _ => (Verdict::Steady, steady("", places.places_grown_unsteadily, "place")),
    };
    Headline { text: text + &most + &elsewhere(report, look), place: None, verdict }
}

/// Growth of RSS where no sampled block is: `; free or mapped by the program is 42.2 MB more than at first`. Empty
/// where nothing grew much.
fn elsewhere(report: &Watched, look: &Look) -> String {
    let Some(memory) = &report.memory else { return String::new() };
    let is_it = |row: &&MemoryPartRow| Some(row.part) == memory.grows && row.part != MemoryPart::LiveHeap;
    let Some(row) = memory.parts.iter().find(is_it) else { return String::new() };
    let grown = bytes(u64::try_from(row.grown_bytes).unwrap_or_default(), look.exact);
    format!("; {} is {grown} more than at first", part(row.part))
}

/// The sentence that nothing `within` grows steadily; `unsteady`: so many of `what` (place, process) grew significantly
/// all the same.
pub fn steady(within: &str, unsteady: u64, what: &str) -> String {
    match unsteady {
        0 => format!("Nothing grows significantly{within}"),
        grown => format!("Nothing grows steadily{within}: {} grew in steps, or less and less", of(grown, what)),
    }
}

/// A part of RSS in words.
pub fn part(part: MemoryPart) -> &'static str {
    match part {
        MemoryPart::LiveHeap => "live heap",
        MemoryPart::OtherAnonymous => "free or mapped by the program",
        MemoryPart::Anonymous => "heap or mapped by the program",
        MemoryPart::Stacks => "stacks",
        MemoryPart::Files => "files",
        MemoryPart::Shared => "shared memory",
        MemoryPart::Mallow => "Mallow's own",
    }
}

/// Whether `watched_ms` is too short for any verdict on growth.
pub fn is_too_early(watched_ms: u64) -> bool {
    watched_ms < FIRST_VERDICT_NS / 1_000_000
}

/// The sentence for [`is_too_early`], with the time of the first verdict.
pub fn too_early() -> String {
    format!("Too early to say what grows: that shows after {} s", FIRST_VERDICT_NS / 1_000_000_000)
}

/// Why there is no verdict, and when there is one: as soon as a place has as many settled samples as it needs.
fn too_few(report: &Watched, look: &Look) -> String {
    const WHAT: &str = "Too few samples to say what grows";
    let places = &report.places;
    let left = |place: &&WatchedPlace| {
        let samples = place.growth.bytes_per_hour.samples;
        let missing = place.growth.needed_samples.saturating_sub(samples).max(1);
        (samples > 0).then(|| place.growth.over_ns.saturating_mul(missing) / samples / 1_000_000)
    };
    let nearest = places.places.iter().filter_map(|place| Some((left(&place)?, place))).min_by_key(|(left, _)| *left);
    match nearest {
        // Those that have some are too young to be reported.
        None if places.settled_samples > 0 => format!(
            "{WHAT}: a place needs {NEEDED_SAMPLES} sampled blocks that settle, and none has more than {}",
            count(places.settled_samples)
        ),
        None if report.samples >= NEEDED_SAMPLES => {
            format!(
                "No growth is seen: no sampled block has come and stayed of late, and {} are live",
                count(report.samples)
            )
        }
        // No period would help.
        None if report.samples == 0 && !report.custom_allocators.is_empty() => {
            "Nothing that is sampled is live: see what is not (Incomplete)".to_owned()
        }
        None if report.samples == 0 => "No growth is seen: no sampled block is live".to_owned(),
        None => format!(
            "{WHAT}: a place needs {NEEDED_SAMPLES} sampled blocks that settle, and none has one; a smaller --period samples more"
        ),
        Some((left_ms, place)) => {
            let next = more_samples(left_ms, report.processes.iter().any(|process| process.running));
            format!(
                "{WHAT}: of the {} settled ones that a place needs, {} has {}; {next}",
                count(place.growth.needed_samples),
                name(place, look).trim_end_matches(','),
                count(place.growth.bytes_per_hour.samples),
            )
        }
    }
}

/// When there are enough samples, and a remedy. `runs`: a process goes on.
fn more_samples(left_ms: u64, runs: bool) -> String {
    match runs {
        true => {
            let left = seconds(left_ms.max(1000));
            format!("if it goes on so, it has as many in about {left}; a smaller --period samples more")
        }
        false => "a smaller --period samples more".to_owned(),
    }
}

/// The place that grows, and comes first.
fn first(report: &Watched, before: Option<u64>) -> Option<&WatchedPlace> {
    let best = report.places.places.first().filter(|place| place.growth.verdict >= Verdict::SoFar)?;
    let stays = |place: &&WatchedPlace| {
        Some(place.id) == before
            && place.growth.verdict == best.growth.verdict
            && place.growth.surely() >= NEARLY * best.growth.surely()
    };
    Some(report.places.places.iter().find(stays).unwrap_or(best))
}

/// Time until it is known whether growth ends: `verdict in 2 min 30 s`. None where there is nothing to wait for.
pub fn outlook(headline: &Headline, watched_ms: u64, warm_up_ms: u64) -> Option<String> {
    let left = warm_up_ms.saturating_sub(watched_ms);
    let waits = headline.verdict == Verdict::SoFar && left > 0;
    waits.then(|| format!("verdict in {}", seconds(left)))
}

/// A time span in whole seconds: it does not change its width with every look.
pub fn seconds(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{} s", ms / 1000),
        _ => span(ms),
    }
}

/// A time span that people set: `3 min`, and not `3 min 00 s`.
pub fn whole(ms: u64) -> String {
    let text = if ms.is_multiple_of(1000) { seconds(ms) } else { span(ms) };
    let short = text.strip_suffix(" 00 s").or_else(|| text.strip_suffix(" 00 min"));
    short.map(str::to_owned).unwrap_or(text)
}

/// The sentence that mallow attached to the program while it ran. None: the program was started under mallow.
pub fn attached(report: &Watched) -> Option<String> {
    Some(format!("attached after {}; blocks allocated before are not included", span(report.attached_ms?)))
}

/// Gaps of the numbers, one sentence each: blocks that runtimes serve past malloc, and events that could not be
/// counted.
pub fn gaps(report: &Watched) -> Vec<String> {
    let allocators = gaps::allocators(&report.custom_allocators, report.processes.len());
    allocators.chain(losses(&report.lost)).collect()
}

/// Events that could not be counted, and why, one sentence each.
pub fn losses(lost: &WatchLosses) -> Vec<String> {
    let losses = [
        (lost.picks, "allocation", "sampled without room for them: the true numbers are higher"),
        (
            lost.events,
            "free",
            "unread, overwritten by later ones: the freeing thread is unknown, live numbers are complete",
        ),
        (lost.stacks, "stack", "without room"),
        (lost.damaged, "record", "unreadable, and skipped"),
        (lost.left, "process", "no longer sampled: a signal handler left Mallow by longjmp"),
        (lost.filtered, "process", "sampled no more: a filter of system calls that it installed forbids it"),
        (
            lost.foreign,
            "process",
            "not sampled: blocks of malloc are freed by functions of its allocator that Mallow does not see",
        ),
        (lost.unsampled, "process", "not sampled: no room for its file or for samples, or out of reach"),
    ];
    losses.into_iter().filter(|(n, ..)| *n > 0).map(|(n, noun, what)| format!("{} {what}", of(n, noun))).collect()
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::CustomAllocatorRow;

    use super::*;
    use crate::runs::screen::tests::report;

    #[test]
    fn losses_are_sentences() {
        assert_eq!(losses(&WatchLosses::default()), Vec::<String>::new());
        let lost = WatchLosses { picks: 2, events: 1, ..WatchLosses::default() };
        let expected = [
            "2 allocations sampled without room for them: the true numbers are higher",
            "1 free unread, overwritten by later ones: the freeing thread is unknown, live numbers are complete",
        ];
        assert_eq!(losses(&lost), expected);
    }

    /// Neither an allocator that is not sampled nor a program that keeps nothing has samples at a smaller period.
    #[test]
    fn a_smaller_period_is_no_help_where_nothing_that_is_sampled_is_live() {
        let mut report = report();
        (report.samples, report.places.places_judged, report.places.places) = (0, 0, Vec::new());
        report.memory = None;
        let said = |report: &Watched| headline(report, None, &Look::default()).text;
        assert_eq!(said(&report), "No growth is seen: no sampled block is live");
        report.custom_allocators.push(CustomAllocatorRow {
            executable: "/usr/bin/server".to_owned(),
            processes: 1,
            found: "jemalloc inside is not sampled".to_owned(),
            remedy: String::new(),
        });
        assert_eq!(said(&report), "Nothing that is sampled is live: see what is not (Incomplete)");
        report.samples = 1;
        assert!(said(&report).ends_with("none has one; a smaller --period samples more"), "{}", said(&report));
    }

    /// 300 MB that came in three steps were "Nothing grows significantly".
    #[test]
    fn what_grew_in_steps_is_not_nothing() {
        assert_eq!(steady("", 0, "place"), "Nothing grows significantly");
        assert_eq!(steady("", 1, "place"), "Nothing grows steadily: 1 place grew in steps, or less and less");
        let some = steady(" in 2 of 3 processes", 1, "process");
        assert_eq!(some, "Nothing grows steadily in 2 of 3 processes: 1 process grew in steps, or less and less");
        assert_eq!(steady("", 2, "place"), "Nothing grows steadily: 2 places grew in steps, or less and less");
    }

    /// No sample comes any more once the program has ended.
    #[test]
    fn an_ended_program_gets_no_more_samples() {
        assert_eq!(
            more_samples(7, true),
            "if it goes on so, it has as many in about 1 s; a smaller --period samples more"
        );
        assert_eq!(more_samples(7, false), "a smaller --period samples more");
    }

    #[test]
    fn growth_without_samples_of_late_says_so() {
        let said = |idle_s: u64| {
            idle(&Growth { idle_ns: idle_s * 1_000_000_000, over_ns: 32_000_000_000, ..Growth::default() })
        };
        assert_eq!([0, 7, 8].map(said), ["", "", ", with no sample in the last 8 s"]);
    }
}
