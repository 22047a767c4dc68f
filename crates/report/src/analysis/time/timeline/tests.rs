//! Against a replay that keeps every moment.

use super::{HeapAtBuilder, HeapMoment, Over, POINTS_MAX, Timeline, TimelineBuilder, TimelineOptions};
use crate::testing::{Builder, blocks};
use mallow_profile::{Block, Call, Counts, Event, Moment, Profile};
use proptest::prelude::*;

/// Sites 0 to 2 belong to process 0, and 3 to process 1. Sites 0 and 3 are of one function.
fn profile(duration_ms: u64) -> Profile {
    let mut b = Builder::default();
    let (first, second) = (b.process(1, &["a"], 10), b.process(2, &["b"], 10));
    let counts = blocks(9, 100, 0, 0);
    b.site(first, &["f@a.c:1", "main"], counts);
    b.site(first, &["malloc!libc.so.6", "g@a.c:2", "main"], counts);
    b.site(first, &[], counts);
    b.site(second, &["f@a.c:7", "other"], counts);
    Profile { duration_ms, ..b.profile }
}

/// A story of allocations and frees: milliseconds since the last event, what, and with what.
type Story = Vec<(u64, u8, u32, u64)>;

fn story() -> impl Strategy<Value = Story> {
    proptest::collection::vec((0..3u64, 0..16u8, 0..4u32, 0..50u64), 0..60)
}

fn events(story: &Story) -> Vec<(Moment, Event)> {
    let mut live: Vec<Block> = Vec::new();
    let mut ended = [false; 2];
    let (mut ms, mut sequence) = (0, 0);
    let mut events = Vec::new();
    for &(step, what, site, size) in story {
        ms += step;
        let process = u32::from(site == 3);
        if ended[process as usize] {
            continue;
        }
        // Another thread's clock may have been read a moment ago.
        let at = Moment { process, thread: process, ms: if what == 5 { ms.saturating_sub(1) } else { ms } };
        let call = Call { family: 0, site, size };
        let old = live.iter().position(|block| u32::from(block.site == 3) == process);
        let event = match (what, old) {
            (0, _) => {
                ended[process as usize] = true;
                live.retain(|block| u32::from(block.site == 3) != process);
                Event::EndProcess
            }
            (1..5, Some(old)) => Event::Free(Some(live.remove(old))),
            (5, Some(old)) => Event::UnseenFree(live.remove(old)),
            (6, Some(old)) => Event::ReallocFree(Some(live.remove(old))),
            (7, _) => Event::Free(None),
            (8 | 9, old) => Event::Reallocate { call, old: old.map(|old| live.remove(old)), moved: what == 8 },
            _ => Event::Allocate(call),
        };
        if matches!(event, Event::Allocate(_) | Event::Reallocate { .. }) {
            live.push(Block { sequence, site, size, ms, thread: 0 });
            sequence += 1;
        }
        events.push((at, event));
    }
    events
}

/// Bytes and blocks of each site.
type State = [(u64, u64); 4];

/// The state before the first event, and after each: with the time of its clock, the event's own, and whether the event
/// was an allocation. A realloc is two steps.
fn states(events: &[(Moment, Event)]) -> Vec<(u64, State)> {
    let mut state = State::default();
    let mut states = vec![(0, state)];
    let mut clock = 0;
    for &(at, event) in events {
        clock = clock.max(at.ms);
        let free = |state: &mut State, block: Block| {
            let (bytes, count) = &mut state[block.site as usize];
            (*bytes, *count) = (*bytes - block.size, *count - 1);
        };
        let call = match event {
            Event::Allocate(call) => Some(call),
            Event::Reallocate { call, old, .. } => {
                if let Some(old) = old {
                    free(&mut state, old);
                    states.push((clock, state));
                }
                Some(call)
            }
            Event::Free(Some(block)) | Event::ReallocFree(Some(block)) | Event::UnseenFree(block) => {
                free(&mut state, block);
                None
            }
            Event::EndProcess if at.process == 1 => {
                state[3] = (0, 0);
                None
            }
            Event::EndProcess => {
                (state[0], state[1], state[2]) = ((0, 0), (0, 0), (0, 0));
                None
            }
            _ => None,
        };
        if let Some(call) = call {
            let (bytes, count) = &mut state[call.site as usize];
            (*bytes, *count) = (*bytes + call.size, *count + 1);
        }
        states.push((clock, state));
    }
    states
}

fn sum(state: &State, by: Over) -> u64 {
    state.iter().map(|(bytes, count)| if by == Over::LiveBytes { *bytes } else { *count }).sum()
}

/// The highest of some states; the first one of those.
fn highest(states: &[State], by: Over) -> State {
    let most = states.iter().map(|s| sum(s, by)).max().unwrap_or(0);
    states.iter().find(|s| sum(s, by) == most).copied().unwrap_or_default()
}

fn timeline(profile: &Profile, events: &[(Moment, Event)], options: TimelineOptions) -> Timeline {
    let mut builder = TimelineBuilder::new(profile, options);
    if builder.wants_counting() {
        events.iter().for_each(|(at, _)| builder.count(*at));
        builder.counted();
    }
    events.iter().for_each(|(at, event)| builder.event(*at, event));
    builder.finish()
}

/// What function `name` has in a state.
fn part(state: &State, name: Option<&str>, by: Over) -> u64 {
    let of = |site: usize| if by == Over::LiveBytes { state[site].0 } else { state[site].1 };
    match name {
        Some("f") => of(0) + of(3),
        Some("g") => of(1),
        None => of(2),
        Some(name) => panic!("nobody called {name} allocates"),
    }
}

proptest! {
    #[test]
    fn points_are_the_highest_moments_of_their_times(
        story in story(), points in 1..20usize, blocks: bool, window in proptest::option::of((0..50u64, 0..50u64)),
    ) {
        let events = events(&story);
        let last = events.iter().map(|(at, _)| at.ms).max().unwrap_or(0);
        let profile = profile(last.max(40));
        let by = if blocks { Over::Live } else { Over::LiveBytes };
        let window = window.map_or((0, None), |(from, ms)| (from, Some(from + ms)));
        let report = timeline(&profile, &events, TimelineOptions { by, window, points, bands: 9 });
        let (from, to) = (report.from_ms, report.to_ms);
        if report.by_order {
            // Short: see below.
            return Ok(());
        }
        prop_assert!(report.points.len() <= points && report.points.len() as u64 * report.point_ms >= to - from);
        let mut states = states(&events);
        states.retain(|(clock, _)| *clock < to);
        for (at, point) in report.points.iter().enumerate() {
            let end = point.ms + report.point_ms;
            let before = states.iter().rev().find(|(clock, _)| *clock < point.ms).map_or(State::default(), |s| s.1);
            let within = states.iter().filter(|(clock, _)| (point.ms..end).contains(clock)).map(|(_, state)| *state);
            let state = highest(&std::iter::once(before).chain(within).collect::<Vec<_>>(), by);
            prop_assert_eq!(point.value, sum(&state, by));
            for band in &report.bands {
                prop_assert_eq!(band.values[at], part(&state, band.function.as_deref(), by), "{:?} {}", band, at);
            }
            prop_assert_eq!(report.others[at], 0);
        }
        prop_assert_eq!(report.points.iter().map(|p| p.value).max(), Some(report.total));
        prop_assert_eq!(report.points[report.highest_point].value, report.total);
        if window == (0, None) {
            let all: Vec<State> = states.iter().map(|(_, state)| *state).collect();
            prop_assert_eq!(report.total, sum(&highest(&all, by), by));
            // When that was first, by the clock of the order: the latest time so far.
            let (mut higher, mut when, mut clock) = (0, 0, 0);
            for (at, count) in events.iter().enumerate().map(|(index, (at, _))| (at, index + 1)) {
                let now = sum(&self::states(&events[..count]).last().expect("the first").1, by);
                clock = at.ms.max(clock);
                (higher, when) = if now > higher { (now, clock) } else { (higher, when) };
            }
            prop_assert!(report.highest_ms == Some(when) || higher == 0, "{:?} {}", report.highest_ms, when);
        }
        // What was live as the last processes ended, or still is.
        let mut clock = 0;
        let seen = events.iter().filter(|(at, _)| { clock = clock.max(at.ms); clock < to });
        let ends = seen.collect::<Vec<_>>().iter().rev().take_while(|(_, event)| *event == Event::EndProcess).count();
        prop_assert_eq!(report.at_end, Some(sum(&states[states.len() - 1 - ends].1, by)));
    }

    #[test]
    fn short_runs_are_cut_by_the_order_of_their_events(story in story(), parts in 2..9u32, from in 0..30u64) {
        let events = events(&story);
        let last = events.iter().map(|(at, _)| at.ms).max().unwrap_or(0);
        let (profile, from) = (profile(last), from.min(last));
        let points = (last - from + 1) as usize * parts as usize;
        let by = Over::LiveBytes;
        let report = timeline(&profile, &events, TimelineOptions { by, window: (from, None), points, bands: 9 });
        prop_assert!((report.point_ms, report.by_order) == (1, true) && report.points.len() <= points);
        // Points of one millisecond come one after the other, and the more events it has the more there are.
        let mut clock = 0;
        let clocks: Vec<u64> = events.iter().map(|(at, _)| { clock = clock.max(at.ms); clock }).collect();
        let events_of = |ms: u64| clocks.iter().filter(|c| **c == ms).count();
        let mut first_of = Vec::new();
        for ms in from..=last {
            let mine: Vec<usize> = (0..report.points.len()).filter(|&at| report.points[at].ms == ms).collect();
            prop_assert!(mine.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            let cuts: Vec<(u32, u32)> = mine.iter().map(|&at| (report.points[at].part, report.points[at].parts)).collect();
            prop_assert_eq!(cuts, (0..mine.len() as u32).map(|part| (part, mine.len() as u32)).collect::<Vec<_>>());
            first_of.push((mine[0], mine.len()));
        }
        for (one, other) in (from..=last).zip(from + 1..=last) {
            let (a, b) = (first_of[(one - from) as usize].1, first_of[(other - from) as usize].1);
            prop_assert!(events_of(one) < events_of(other) || a >= b);
        }
        // Each point's moments: those after the events that fall to it, and the one before.
        let mut owner = Vec::new();
        for (at, clock) in clocks.iter().enumerate() {
            let before = at - clocks.iter().position(|c| c == clock).expect("itself");
            let place = clock.checked_sub(from).map(|ms| first_of[ms as usize]);
            owner.push(place.map(|(first, parts)| first + before * parts / events_of(*clock)));
        }
        prop_assert!(owner.is_sorted());
        for (piece, point) in report.points.iter().enumerate() {
            let before = owner.iter().filter(|o| **o < Some(piece)).count();
            let until = owner.iter().filter(|o| **o <= Some(piece)).count();
            let start = states(&events[..before]);
            let within = states(&events[..until]);
            let moments: Vec<State> = within[start.len() - 1..].iter().map(|(_, state)| *state).collect();
            prop_assert_eq!(point.value, sum(&highest(&moments, Over::LiveBytes), Over::LiveBytes), "{}", piece);
        }
        prop_assert_eq!(report.points.iter().map(|p| p.value).max(), Some(report.total));
        prop_assert_eq!(report.points[report.highest_point].value, report.total);
    }

    #[test]
    fn allocations_are_counted_in_their_times(story in story(), points in 1..50usize, from in 0..9u64) {
        let events = events(&story);
        let profile = profile(events.iter().map(|(at, _)| at.ms).max().unwrap_or(0));
        let report = timeline(&profile, &events, TimelineOptions { by: Over::Allocations, window: (from, None), points, bands: 9 });
        let mut clock = 0;
        let mut born: Vec<(u64, u32)> = Vec::new();
        for (at, event) in &events {
            clock = clock.max(at.ms);
            if let Event::Allocate(call) | Event::Reallocate { call, .. } = event {
                born.push((clock, call.site));
            }
        }
        born.retain(|(clock, _)| *clock >= report.from_ms);
        prop_assert_eq!((report.by_order, report.total), (false, born.len() as u64));
        for (at, point) in report.points.iter().enumerate() {
            let within = |clock: u64| (point.ms..point.ms + report.point_ms).contains(&clock);
            prop_assert_eq!(point.value, born.iter().filter(|b| within(b.0)).count() as u64);
            for band in &report.bands {
                let mine = |site: u32| match band.function.as_deref() {
                    Some("f") => site == 0 || site == 3,
                    Some(_) => site == 1,
                    None => site == 2,
                };
                let count = born.iter().filter(|b| within(b.0) && mine(b.1)).count();
                prop_assert_eq!(band.values[at], count as u64);
            }
        }
        prop_assert!(report.points.iter().all(|p| p.value <= report.points[report.highest_point].value));
    }

    #[test]
    fn the_heap_at_a_moment_is_what_it_was_then(story in story(), ms in 0..60u64, what in 0..3u8) {
        let events = events(&story);
        let profile = profile(events.iter().map(|(at, _)| at.ms).max().unwrap_or(0));
        let states = states(&events);
        let moment = [HeapMoment::Ms(ms), HeapMoment::Peak, HeapMoment::End][what as usize];
        let mut builder = HeapAtBuilder::new(&profile, moment);
        events.iter().for_each(|(at, event)| builder.event(*at, event));
        let report = builder.finish(usize::MAX);
        let expected = match moment {
            HeapMoment::Ms(ms) => {
                let before = states.iter().rev().find(|(clock, _)| *clock < ms).map_or(State::default(), |s| s.1);
                let within = states.iter().filter(|(clock, _)| *clock == ms).map(|(_, state)| *state);
                highest(&std::iter::once(before).chain(within).collect::<Vec<_>>(), Over::LiveBytes)
            }
            HeapMoment::Peak => highest(&states.iter().map(|s| s.1).collect::<Vec<_>>(), Over::LiveBytes),
            HeapMoment::End => {
                let ends = events.iter().rev().take_while(|(_, event)| *event == Event::EndProcess).count();
                states[states.len() - 1 - ends].1
            }
        };
        prop_assert_eq!((report.live_bytes, report.live), (sum(&expected, Over::LiveBytes), sum(&expected, Over::Live)));
        prop_assert_eq!(report.places_in_all, report.places.len() as u64);
        let mut seen = State::default();
        for place in &report.places {
            let site = match place.frame.as_ref().map(|f| (f.function.as_str(), f.line)) {
                Some(("f", Some(1))) => 0,
                Some(("g", _)) => 1,
                None => 2,
                _ => 3,
            };
            seen[site] = (place.live_bytes, place.live);
            prop_assert_eq!((place.largest_site.live_bytes, place.sites), (place.live_bytes, 1));
        }
        for (got, expected) in seen.iter().zip(&expected) {
            // Blocks of no size are no bytes: their places are not listed.
            prop_assert!(got == expected || expected.0 == 0, "{:?} {:?}", seen, expected);
        }
    }
}

#[test]
fn the_end_of_the_heap_is_not_after_the_recordings() {
    let events = events(&[(5, 10, 0, 100), (3, 0, 0, 0)].to_vec());
    let profile = profile(4);
    let mut builder = HeapAtBuilder::new(&profile, HeapMoment::End);
    events.iter().for_each(|(at, event)| builder.event(*at, event));
    let report = builder.finish(1);
    assert_eq!((report.ms, report.live), (4, 1), "{report:?}");
}

#[test]
fn a_story_that_can_be_followed_by_hand() {
    let story =
        [(1, 10, 0, 100), (1, 10, 1, 30), (1, 10, 3, 50), (3, 1, 0, 0), (4, 10, 1, 20), (0, 0, 3, 0), (2, 0, 0, 0)];
    let events = events(&story.to_vec());
    let report = timeline(
        &profile(11),
        &events,
        TimelineOptions { by: Over::LiveBytes, window: (0, None), points: 6, bands: 1 },
    );
    let values: Vec<_> = report.points.iter().map(|p| (p.ms, p.value)).collect();
    assert_eq!(values, [(0, 100), (2, 180), (4, 180), (6, 180), (8, 80), (10, 100)]);
    assert_eq!((report.point_ms, report.total, report.highest_ms, report.highest_point), (2, 180, Some(3), 1));
    // Both processes end one after the other: before that there were these.
    assert_eq!((report.at_end, report.bands_in_all), (Some(100), 2));
    let band = &report.bands[0];
    assert_eq!((band.function.as_deref(), band.file.as_deref()), (Some("f"), Some("a.c")));
    assert_eq!(band.values, [100, 150, 150, 150, 50, 50]);
    assert_eq!(report.others, [0, 30, 30, 30, 30, 50]);
    let json = serde_json::to_value(&report).expect("serialises");
    assert_eq!((&json["by"], &json["points"][1]["value"]), (&"live_bytes".into(), &180.into()));
    assert_eq!(json["bands"][0]["values"][1], 150);
}

#[test]
fn more_functions_than_there_is_room_for_are_counted_together() {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    let functions = super::FUNCTIONS_MAX as u64 + 10;
    for n in 0..functions {
        b.site(process, &[&format!("f{n}")], Counts { allocated_bytes: n + 1, ..blocks(1, 1, 0, 0) });
    }
    b.profile.duration_ms = 2 * POINTS_MAX as u64 - 1;
    let at = Moment { process: 0, thread: 0, ms: 0 };
    let all: Vec<_> =
        (0..functions).map(|n| (at, Event::Allocate(Call { family: 0, site: n as u32, size: n + 1 }))).collect();
    let options = TimelineOptions { by: Over::LiveBytes, window: (0, None), points: usize::MAX, bands: usize::MAX };
    let report = timeline(&b.profile, &all, options);
    assert_eq!((report.points.len(), report.bands.len()), (POINTS_MAX, super::FUNCTIONS_MAX));
    assert_eq!(report.bands[0].function, Some(format!("f{}", functions - 1)));
    assert_eq!(report.others.last(), Some(&(1..=10).sum()));
    assert_eq!(report.total, functions * (functions + 1) / 2);
}

#[test]
fn events_that_make_no_sense_do_no_harm() {
    let profile = profile(u64::MAX);
    for by in [Over::LiveBytes, Over::Live, Over::Allocations] {
        let options = TimelineOptions { by, window: (0, None), points: 3, bands: 2 };
        let mut builder = TimelineBuilder::new(&profile, options);
        let mut at = HeapAtBuilder::new(&profile, HeapMoment::Ms(u64::MAX));
        for site in [0, 1, 9, u32::MAX] {
            let block = Block { sequence: u64::MAX, site, size: u64::MAX, ms: u64::MAX, thread: 0 };
            let call = Call { family: 200, site, size: u64::MAX };
            for event in [
                Event::Free(Some(block)),
                Event::Allocate(call),
                Event::Reallocate { call, old: Some(block), moved: true },
                Event::EndProcess,
                Event::Allocate(call),
            ] {
                for moment in
                    [Moment { process: site, thread: site, ms: u64::MAX }, Moment { process: 1, thread: 0, ms: 0 }]
                {
                    builder.event(moment, &event);
                    at.event(moment, &event);
                }
            }
        }
        assert!(builder.finish().points.len() <= 3);
        at.finish(1);
    }
}
