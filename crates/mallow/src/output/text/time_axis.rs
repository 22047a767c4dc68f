//! Words about timelines, which text and pictures share.

use std::cmp::Reverse;

use mallow_report::analysis::{Over, Point, Timeline};

use super::units::{bytes, count, rate, roughly, span};

/// A value, as people read it; of allocations, what it is in a second.
pub fn value(report: &Timeline, n: u64, exact: bool) -> String {
    match report.by {
        Over::LiveBytes => bytes(n, exact),
        Over::Live => count(n),
        Over::Allocations => rate(n, report.point_ms).unwrap_or_default(),
    }
}

/// A value of the timeline in the short form of a scale.
pub fn on_scale(report: &Timeline, n: u64) -> String {
    if report.by == Over::Live { roughly(n) } else { value(report, n, false) }
}

/// `1.90 MB at 117 ms`: the highest point.
pub fn highest(report: &Timeline, exact: bool) -> String {
    match report.highest_ms {
        Some(ms) => format!("{} at {}", value(report, report.total, exact), span(ms)),
        None => {
            let point = &report.points[report.highest_point];
            format!("{} at {}", value(report, point.value, exact), span(point.ms))
        }
    }
}

/// The highest point in a sentence: of allocations, with what was seen, `1 in 11 ms, 90.9 /s at 22 ms`.
pub fn highest_in_words(report: &Timeline, exact: bool) -> String {
    let highest = highest(report, exact);
    match report.by {
        Over::Allocations => {
            let seen = count(report.points[report.highest_point].value);
            format!("{seen} in {}, {highest}", span(report.point_ms))
        }
        _ => highest,
    }
}

/// Subject of a timeline, in words.
pub fn subject(report: &Timeline) -> String {
    let what = match report.by {
        Over::LiveBytes => "Live bytes",
        Over::Live => "Live blocks",
        Over::Allocations => "Allocations a second",
    };
    let whole = report.from_ms == 0 && report.to_ms > report.duration_ms;
    let when = if whole {
        format!("over {} of recording", span(report.duration_ms))
    } else {
        let (from, to) = (span(report.from_ms), span(report.to_ms));
        if from == to { format!("at {from}") } else { format!("from {from} to {to}") }
    };
    format!("{what} {when}")
}

/// Extent of a point, in words.
pub fn resolution(report: &Timeline) -> String {
    let most = if report.by == Over::Allocations { "" } else { ", the most that was live then" };
    match report.by_order {
        false => format!("one point for each {}{most}", span(report.point_ms)),
        true => format!("points are parts of milliseconds, by the order of their events{most}"),
    }
}

/// The milliseconds that are named below a timeline, in their order. `place` says from where to where the name of one
/// goes; names do not touch, and none goes beyond `end`.
pub fn named_ticks(report: &Timeline, most: usize, end: f64, place: impl Fn(u64) -> (f64, f64)) -> Vec<u64> {
    let mut ticks = time_ticks(report.from_ms, report.to_ms, if report.by_order { usize::MAX } else { most });
    if report.by_order {
        // Those with most events first: where there is room for few names, they are the ones that people look at.
        ticks.sort_by_key(|&ms| Reverse(report.points[report.point_of(ms)].parts));
    }
    let mut taken: Vec<(f64, f64)> = Vec::new();
    ticks.retain(|&ms| {
        let (from, to) = place(ms);
        let free = to <= end && taken.iter().all(|&(a, b)| to <= a || from >= b);
        if free {
            taken.push((from, to));
        }
        free
    });
    ticks.sort_unstable();
    ticks
}

/// Time of a point: `12 ms`, or `12 ms 50 %` after half of the events of that millisecond.
pub fn moment(point: &Point) -> String {
    match point.part {
        0 => span(point.ms),
        part => format!("{} {} %", span(point.ms), u64::from(part) * 100 / u64::from(point.parts.max(1))),
    }
}

/// Times at round numbers, so many at most, and the first one.
pub fn time_ticks(from_ms: u64, to_ms: u64, most: usize) -> Vec<u64> {
    const S: u64 = 1000;
    const MIN: u64 = 60 * S;
    const H: u64 = 60 * MIN;
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500]
        .into_iter()
        .chain([1, 2, 5, 10, 15, 30].map(|s| s * S))
        .chain([1, 2, 5, 10, 15, 30].map(|m| m * MIN))
        .chain([1, 2, 3, 6, 12, 24].map(|h| h * H))
        .chain((1..16).map(|power| 24 * H * 10u64.pow(power) / 10 * 5));
    let all = to_ms.saturating_sub(from_ms);
    let step = steps.into_iter().find(|step| all / step < most.max(1) as u64).unwrap_or(u64::MAX);
    let first = from_ms.div_ceil(step).saturating_mul(step);
    std::iter::successors(Some(first), |ms| ms.checked_add(step)).take_while(|ms| *ms < to_ms).collect()
}

#[cfg(test)]
pub mod testing {
    //! A story of the program of `mallow_report::testing::parser`.

    use mallow_profile::{Block, Call, Event, Moment};
    use mallow_report::analysis::{Over, Timeline, TimelineBuilder, TimelineOptions};
    use mallow_report::testing::parser;

    /// Rows come all the time, and every fourth is freed; the cache takes one in a hundred; the plugin has two bursts;
    /// the child runs for a while.
    pub fn story() -> Vec<(Moment, Event)> {
        let mut events = Vec::new();
        let mut sequence = 0;
        let mut allocate = |events: &mut Vec<_>, process, ms, site, size| {
            let at = Moment { process, thread: process, ms };
            events.push((at, Event::Allocate(Call { family: 0, site, size })));
            sequence += 1;
            (at, Block { sequence: sequence - 1, site, size, ms, thread: 0 })
        };
        let mut burst = Vec::new();
        for ms in 10..1700u64 {
            let (at, row) = allocate(&mut events, 0, ms, (ms / 1000) as u32, 400);
            if ms % 4 == 0 {
                events.push((at, Event::Free(Some(row))));
            }
            if ms % 100 == 0 {
                allocate(&mut events, 0, ms, 2, 9000);
            }
            if (400..420).contains(&ms) || (1200..1240).contains(&ms) {
                burst.push(allocate(&mut events, 0, ms, 3, 20_000).1);
            }
            if ms == 600 || ms == 1500 {
                events.extend(burst.drain(..).map(|block| (at, Event::Free(Some(block)))));
            }
            if ms == 700 {
                allocate(&mut events, 1, ms, 4, 120_000);
            }
            if ms == 900 {
                events.push((Moment { process: 1, ..at }, Event::EndProcess));
            }
        }
        events.push((Moment { process: 0, thread: 0, ms: 1710 }, Event::EndProcess));
        events
    }

    pub fn parser_timeline(by: Over, points: usize, bands: usize) -> Timeline {
        let profile = parser();
        let mut builder = TimelineBuilder::new(&profile, TimelineOptions { by, window: (0, None), points, bands });
        story().iter().for_each(|(at, event)| builder.event(*at, event));
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::parser_timeline;
    use super::{named_ticks, time_ticks};
    use mallow_report::analysis::{Over, Point};

    #[test]
    fn names_of_times_do_not_touch_and_the_busiest_milliseconds_have_one() {
        let mut report = parser_timeline(Over::LiveBytes, 19, 1);
        assert_eq!(named_ticks(&report, 6, 2000.0, |ms| (ms as f64, ms as f64 + 300.0)), [0, 500, 1000, 1500]);
        assert_eq!(named_ticks(&report, 6, 1799.0, |ms| (ms as f64, ms as f64 + 300.0)), [0, 500, 1000]);
        let parts = [1, 1, 3, 1];
        let points = |(ms, parts): (usize, &u32)| {
            let ms = ms as u64;
            (0..*parts).map(move |part| Point { ms, part, parts: 0, value: 1 }).collect::<Vec<_>>()
        };
        report.points = parts.iter().enumerate().flat_map(points).collect();
        report.points.iter_mut().for_each(|p| p.parts = parts[p.ms as usize]);
        (report.from_ms, report.to_ms, report.by_order) = (0, 4, true);
        assert_eq!(named_ticks(&report, 1, 9.0, |ms| (ms as f64, ms as f64 + 2.0)), [0, 2]);
    }

    #[test]
    fn ticks_are_at_round_times() {
        assert_eq!(time_ticks(0, 146, 6), [0, 50, 100]);
        assert_eq!(time_ticks(93, 146, 6), [100, 110, 120, 130, 140]);
        assert_eq!(time_ticks(0, 5 * 60_000, 6), [0, 60_000, 120_000, 180_000, 240_000]);
        assert_eq!(time_ticks(0, 3, usize::MAX), [0, 1, 2]);
        assert!(time_ticks(7, 7, 0).is_empty());
        for to in [1, 10_000_000_000, u64::MAX / 2, u64::MAX] {
            let ticks = time_ticks(0, to, 6);
            assert!((1..=6).contains(&ticks.len()), "{to}: {ticks:?}");
        }
    }
}
