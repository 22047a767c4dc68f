//! Selections of random stories, beside a count that looks everything up.

use super::story::{How, Life, Step, Story, build_story, sizes, steps};
use super::*;
use mallow_profile::{Block, Call, Counts, FamilyCounts};
use std::collections::BTreeMap;

/// Expected counts of a site, by pid and place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SiteTruth {
    counts: Counts,
    live_ms: (u64, u64),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessTruth {
    counts: Counts,
    own_peak: (u64, u64),
    families: FamilyCounts,
    foreign_frees: u64,
    end_ms: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Truth {
    sites: BTreeMap<(u32, u64), SiteTruth>,
    processes: BTreeMap<u32, ProcessTruth>,
    totals: Counts,
    peak_ms: u64,
}

fn selected(life: &Life, selection: &Selection) -> bool {
    let Selection { processes, threads, regions: None, time, sizes, lifetimes } = selection else { unreachable!() };
    let inside = |span: &Span, number: u64| number >= span.from && span.to.is_none_or(|to| number < to);
    processes.as_ref().is_none_or(|all| all.contains(&life.at.process))
        && threads.as_ref().is_none_or(|all| all.contains(&life.at.thread))
        && sizes.is_none_or(|span| inside(&span, life.call.size))
        && lifetimes.is_none_or(|span| inside(&span, life.end_ms().saturating_sub(life.at.ms)))
        && time.is_none_or(|(when, span)| match when {
            When::Allocated => inside(&span, life.at.ms),
            When::Freed => life.gone.is_some_and(|(_, at, _)| inside(&span, at.ms)),
            When::Live => life.end_ms() >= span.from && span.to.is_none_or(|to| life.at.ms < to),
        })
}

fn reports_foreign_frees(selection: &Selection) -> bool {
    *selection == Selection { processes: selection.processes.clone(), ..Selection::default() }
}

fn truth(story: &Story, selection: &Selection) -> Truth {
    let chosen: Vec<&Life> = story.lives.iter().filter(|life| selected(life, selection)).collect();
    let pid = |process: u32| 100 + process;
    let site = |life: &Life| (pid(life.at.process), u64::from(story.sites[life.call.site as usize].1));
    let mut truth = Truth::default();
    for life in &chosen {
        let expected = truth.sites.entry(site(life)).or_default();
        let process = truth.processes.entry(pid(life.at.process)).or_default();
        let size = life.call.size;
        expected.counts.allocations += 1;
        expected.counts.allocated_bytes += size;
        process.families.calls[life.call.family as usize].0 += 1;
        process.families.calls[life.call.family as usize].1 += size;
        if let Some(moved) = life.moved {
            expected.counts.reallocs_moved += u64::from(moved);
            expected.counts.reallocs_in_place += u64::from(!moved);
            process.families.reallocs_moved += u64::from(moved);
            process.families.reallocs_in_place += u64::from(!moved);
        }
        if let Some((gone, at, how)) = life.gone {
            expected.counts.frees += 1;
            expected.counts.freed_bytes += size;
            process.families.frees += u64::from(how == How::Free);
            process.families.realloc_frees += u64::from(matches!(how, How::Realloc | How::ReallocFree));
            let between = story.lives.iter().filter(|other| other.born > life.born && other.born < gone);
            if at.thread == life.at.thread && !{ between }.any(|other| other.at.thread == at.thread) {
                expected.counts.temporary += 1;
                expected.counts.temporary_bytes += size;
            }
        } else {
            let (oldest, youngest) =
                if expected.counts.live == 0 { (life.at.ms, life.at.ms) } else { expected.live_ms };
            expected.live_ms = (oldest.min(life.at.ms), youngest.max(life.at.ms));
            expected.counts.live += 1;
            expected.counts.live_bytes += size;
        }
    }
    // What is live after an event. Processes that end without an event end after the last one.
    let gone = |life: &Life| life.gone.map(|gone| gone.0).or(life.live.map(|live| live.0)).unwrap();
    let live = |life: &Life, event: usize| life.born <= event && gone(life) > event;
    let mut peak = (0, 0, usize::MAX);
    let mut latest = 0;
    for (event, (at, _)) in story.events.iter().enumerate() {
        latest = at.ms.max(latest);
        let sum = |process: Option<u32>| -> u64 {
            let mine = chosen.iter().filter(|life| process.is_none_or(|process| life.at.process == process));
            mine.filter(|life| live(life, event)).map(|life| life.call.size).sum()
        };
        if sum(None) > peak.0 {
            peak = (sum(None), latest, event);
        }
        if let Some(process) = truth.processes.get_mut(&pid(at.process))
            && sum(Some(at.process)) > process.own_peak.0
        {
            process.own_peak = (sum(Some(at.process)), latest);
        }
    }
    truth.peak_ms = peak.1;
    for life in chosen.iter().filter(|life| peak.2 != usize::MAX && live(life, peak.2)) {
        let counts = &mut truth.sites.get_mut(&site(life)).unwrap().counts;
        counts.peak += 1;
        counts.peak_bytes += life.call.size;
    }
    for (&(pid, _), expected) in &truth.sites {
        truth.processes.get_mut(&pid).unwrap().counts += expected.counts;
        truth.totals += expected.counts;
    }
    for (number, expected) in &mut truth.processes {
        let process = number - 100;
        expected.end_ms = story.profile.processes[process as usize].end_ms;
        if reports_foreign_frees(selection) {
            let mine = || story.events.iter().filter(|(at, _)| at.process == process).map(|(_, event)| event);
            let frees = mine().filter(|event| matches!(event, Event::Free(None))).count() as u64;
            let realloc_frees =
                mine().filter(|event| matches!(event, Event::ReallocFree(None) | Event::Reallocate { old: None, .. }));
            let realloc_frees = realloc_frees.count() as u64;
            let unseen = mine().filter(|event| matches!(event, Event::UnseenFree(_))).count() as u64;
            expected.families.frees += frees;
            expected.families.realloc_frees += realloc_frees;
            expected.foreign_frees = (frees + realloc_frees).saturating_sub(unseen);
        }
    }
    truth
}

/// A profile in the same form. Processes without allocations are left out.
fn summarize(profile: &Profile) -> Truth {
    let place = |stack| {
        let frame = profile.stacks.frames(stack).next().unwrap();
        profile.frames[frame.0 as usize].address
    };
    let pid = |process: mallow_profile::ProcessId| profile.processes[process.0 as usize].pid;
    let site = |site: &mallow_profile::Site| {
        let live_ms = (site.live_oldest_ms, site.live_youngest_ms);
        ((pid(site.process), place(site.stack)), SiteTruth { counts: site.counts, live_ms })
    };
    let process = |process: &Process| {
        let truth = ProcessTruth {
            counts: process.totals,
            own_peak: (process.own_peak_bytes, process.own_peak_ms),
            families: process.families,
            foreign_frees: process.foreign_frees,
            end_ms: process.end_ms,
        };
        (process.pid, truth)
    };
    let there = |process: &&Process| process.totals.allocations > 0;
    let truth = Truth {
        sites: profile.sites.iter().map(site).collect(),
        processes: profile.processes.iter().filter(there).map(process).collect(),
        totals: profile.totals,
        peak_ms: profile.peak_ms,
    };
    assert_eq!(truth.sites.len(), profile.sites.len(), "a site is there once");
    truth
}

fn selections() -> impl Strategy<Value = Selection> {
    // No span is empty.
    let span = |numbers: BoxedStrategy<u64>| {
        (numbers.clone(), prop::option::of(numbers))
            .prop_map(|(from, to)| Span { from, to: to.map(|to| if to > from { to } else { from + 1 }) })
    };
    let when = prop_oneof![Just(When::Allocated), Just(When::Live), Just(When::Freed)];
    (
        prop::option::weighted(0.3, prop::collection::vec(0u32..5, 1..4)),
        prop::option::weighted(0.3, prop::collection::vec(0u32..9, 1..6)),
        prop::option::of((when, span((0u64..400).boxed()))),
        prop::option::weighted(0.3, span(sizes().boxed())),
        prop::option::weighted(0.3, span((0u64..100).boxed())),
    )
        .prop_map(|(processes, threads, time, sizes, lifetimes)| Selection {
            processes,
            threads,
            // super::regions has those.
            regions: None,
            time,
            sizes,
            lifetimes,
        })
}

fn select(bytes: &[u8], selection: &Selection) -> (Profile, Vec<(Moment, Event)>) {
    let (mut reader, profile) = Reader::new(Cursor::new(bytes), &mut |_| {}).unwrap();
    let mut last = 0.0;
    let mut progress = |at: Progress| {
        let now = at.done as f64 / at.all as f64;
        assert!(now >= last && now <= 1.0);
        last = now;
    };
    let (profile, mut chosen) = reader.select(profile, selection, &mut progress).unwrap();
    assert_eq!(profile.check(), Ok(()), "{selection:?}");
    let mut events = Vec::new();
    reader.visit(&mut chosen, &mut |_| {}, |at, event| events.push((at, event))).unwrap();
    (profile, events)
}

/// The events of a selection, named as its profile names them.
fn expected_events(story: &Story, selection: &Selection, profile: &Profile) -> Vec<(Moment, Event)> {
    let process = |old: u32| profile.processes.iter().position(|p| p.pid == 100 + old).map(|at| at as u32);
    let thread = |old: u32| profile.threads.iter().position(|t| t.tid == 1000 + old).map_or(0, |at| at as u32);
    let site = |old: u32| {
        let (owner, place) = story.sites[old as usize];
        let here = |site: &mallow_profile::Site| {
            let frame = profile.stacks.frames(site.stack).next().unwrap();
            (Some(site.process.0), frame.0) == (process(owner), place)
        };
        profile.sites.iter().position(here).unwrap() as u32
    };
    let chosen = |block: Block| {
        selected(&story.lives[block.sequence as usize], selection).then(|| Block { site: site(block.site), ..block })
    };
    let mut lives = story.lives.iter();
    let mut expected = Vec::new();
    for &(at, event) in &story.events {
        let mut born =
            |call: Call| selected(lives.next().unwrap(), selection).then(|| Call { site: site(call.site), ..call });
        let event = match event {
            Event::Allocate(call) => born(call).map(Event::Allocate),
            Event::Reallocate { call, old, moved } => {
                let old = old.and_then(chosen);
                let freed = old.map(|old| Event::ReallocFree(Some(old)));
                born(call).map(|call| Event::Reallocate { call, old, moved }).or(freed)
            }
            Event::Free(None) | Event::ReallocFree(None) => reports_foreign_frees(selection).then_some(event),
            Event::Free(Some(block)) => chosen(block).map(|block| Event::Free(Some(block))),
            Event::ReallocFree(Some(block)) => chosen(block).map(|block| Event::ReallocFree(Some(block))),
            Event::UnseenFree(block) => chosen(block).map(Event::UnseenFree),
            Event::Region { .. } | Event::EndProcess => Some(event),
        };
        if let (Some(event), Some(process)) = (event, process(at.process)) {
            let thread = if event == Event::EndProcess { 0 } else { thread(at.thread) };
            expected.push((Moment { process, thread, ms: at.ms }, event));
        }
    }
    expected
}

/// Whatever can be opened can be asked for a part of it: what comes back hangs together, or is one line.
fn ask(bytes: &[u8], selection: &Selection) {
    let Ok((mut reader, whole)) = Reader::new(Cursor::new(bytes), &mut |_| {}) else { return };
    let most = reader.extent(&whole, selection, &mut |_| {}).map(|extent| extent.allocations);
    let selected = reader.select(whole.clone(), selection, &mut |_| {});
    let mut parts = match selected {
        Ok(selected) => vec![selected],
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    parts.push((whole.clone(), Choice::all(&whole)));
    for (profile, mut chosen) in parts {
        assert_eq!(profile.check(), Ok(()), "{selection:?}");
        assert!(profile.sites.iter().all(|site| (site.process.0 as usize) < profile.processes.len()));
        assert!(profile.totals.allocations <= most.as_ref().map_or(u64::MAX, |&all| all.max(whole.totals.allocations)));
        let within = |at: Moment, site: Option<u32>| {
            assert!((at.process as usize) < profile.processes.len());
            assert!(site.is_none_or(|site| (site as usize) < profile.sites.len()));
        };
        let visited = reader.visit(&mut chosen, &mut |_| {}, |at, event| match event {
            Event::Allocate(call) => within(at, Some(call.site)),
            Event::Reallocate { call, old, .. } => {
                within(at, Some(call.site));
                within(at, old.map(|old| old.site));
            }
            Event::Free(block) | Event::ReallocFree(block) => within(at, block.map(|block| block.site)),
            Event::UnseenFree(block) => within(at, Some(block.site)),
            Event::Region { .. } | Event::EndProcess => within(at, None),
        });
        assert!(visited.map_or_else(|error| !error.to_string().contains('\n'), |()| true));
    }
}

/// Spans may be empty here, and numbers as large as they get.
fn any_selections() -> impl Strategy<Value = Selection> {
    let extreme = || prop_oneof![Just(0), 0u64..300, Just(u64::MAX - 1), Just(u64::MAX)];
    let span = move || prop::option::weighted(0.4, (extreme(), prop::option::of(extreme())));
    let whose = || prop::option::weighted(0.3, prop::collection::vec(0u32..40, 0..4));
    let when = prop_oneof![Just(When::Allocated), Just(When::Live), Just(When::Freed)];
    (whose(), whose(), whose(), when, [span(), span(), span()]).prop_map(
        |(processes, threads, regions, when, [time, sizes, lifetimes])| {
            let span = |(from, to)| Span { from, to };
            Selection {
                processes,
                threads,
                regions,
                time: time.map(|time| (when, span(time))),
                sizes: sizes.map(span),
                lifetimes: lifetimes.map(span),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_recordings_are_asked_for_any_part(
        steps in steps(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..3),
        length: prop::sample::Index,
        selection in any_selections(),
    ) {
        let mut bytes = build_story(&steps, true, 40).file;
        ask(&bytes, &selection);
        ask(&bytes[..length.index(bytes.len())], &selection);
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        ask(&bytes, &selection);
    }

    #[test]
    fn nonsense_with_right_checksums_is_asked_for_any_part(
        steps in steps(),
        changes in prop::collection::vec((0usize..100, any::<prop::sample::Index>(), any::<prop::sample::Index>(),
            prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..6), 0usize..6), 1..3),
        selection in any_selections(),
    ) {
        let mut bytes = build_story(&steps, true, 40).file;
        for (which, column, at, new, gone) in changes {
            bytes = repacked(&bytes, which, |columns| {
                let column = column.index(columns.len());
                let column = &mut columns[column];
                let at = at.index(column.len() + 1);
                let end = (at + gone).min(column.len());
                column.splice(at..end, new.iter().copied());
            });
        }
        ask(&bytes, &selection);
        // Without its end, it is counted again.
        ask(&bytes[..bytes.len() - 16], &selection);
    }
}

/// The file without what comes after its events.
fn cut(file: &[u8]) -> &[u8] {
    let end = blocks(file).into_iter().find(|block| block.1 == Kind::Processes || block.1 == Kind::Counts).unwrap();
    &file[..end.0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_selection_is_what_a_slow_count_says(
        steps in steps(), close: bool, events in 1u64..60, selection in selections(),
    ) {
        let story = build_story(&steps, close, events);
        let all = truth(&story, &Selection::default());
        prop_assert_eq!(&summarize(&story.profile), &all);
        prop_assert_eq!(&summarize(&read_bytes(&story.file).unwrap()), &all);
        prop_assert_eq!(&summarize(&read_bytes(cut(&story.file)).unwrap()), &all);
        for file in [&story.file[..], cut(&story.file)] {
            let (profile, events) = select(file, &selection);
            prop_assert_eq!(&summarize(&profile), &truth(&story, &selection));
            let events: Vec<_> = events
                .into_iter()
                .map(|(at, event)| {
                    let thread = if event == Event::EndProcess { 0 } else { at.thread };
                    (Moment { thread, ..at }, event)
                })
                .collect();
            prop_assert_eq!(events, expected_events(&story, &selection, &profile));
            let all = profile.processes.iter().all(|process| process.totals.allocations > 0);
            prop_assert!(all && profile.sites.iter().all(|site| site.counts.allocations > 0));
        }
    }

    /// Windows that follow each other add up to the whole, whatever they are windows of.
    #[test]
    fn windows_add_up(steps in steps(), mut cuts in prop::collection::vec(0u64..500, 1..5), which in 0u8..5) {
        let story = build_story(&steps, true, 20);
        cuts.sort_unstable();
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let ends = cuts.iter().copied().map(Some).chain([None]);
        let mut sum = Counts::default();
        let mut add = |selection: &Selection| {
            let (profile, _) = select(&story.file, selection);
            sum += profile.totals;
        };
        let none = Selection::default;
        for (from, to) in starts.zip(ends) {
            let span = Span { from, to };
            match which {
                0 => add(&Selection { time: Some((When::Allocated, span)), ..none() }),
                1 => add(&Selection { sizes: Some(span), ..none() }),
                2 => add(&Selection { lifetimes: Some(span), ..none() }),
                _ => {}
            }
        }
        match which {
            3 => (0..3).for_each(|process| add(&Selection { processes: Some(vec![process]), ..none() })),
            4 => (0..7).for_each(|thread| add(&Selection { threads: Some(vec![thread]), ..none() })),
            _ => {}
        }
        // Peaks are not at the same moment.
        let whole = Counts { peak: sum.peak, peak_bytes: sum.peak_bytes, ..story.profile.totals };
        prop_assert_eq!(sum, whole);
    }

    /// A block is lost, reachable, not scanned or given back by exec whatever a selection leaves of its process and of
    /// others; one that holds others does so as far as it is selected.
    #[test]
    fn lost_blocks_of_a_selection_are_those_of_its_blocks(steps in steps(), selection in selections()) {
        let story = build_story(&steps, true, 20);
        let (profile, _) = select(&story.file, &selection);
        let chosen = |number: u64| selected(&story.lives[number as usize], &selection);
        let pid = |process: mallow_profile::ProcessId| profile.processes[process.0 as usize].pid;
        let mut found = BTreeMap::new();
        for scan in &profile.scans {
            let site = &story.profile.scans.iter().find(|whole| 100 + whole.process.0 == pid(scan.process));
            prop_assert_eq!(&scan.outcome, &site.unwrap().outcome);
            for lost in &scan.lost {
                let place = |stack| profile.stacks.frames(stack).next().unwrap().0;
                let before = found.insert((place(lost.stack), lost.head.map(place), lost.kind), (lost.blocks, lost.bytes));
                prop_assert_eq!(before, None);
                prop_assert_eq!(pid(scan.process), 100);
            }
        }
        // Of processes alone, what holds a block is known for all blocks of its process.
        let mut expected: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for lost in story.lost.iter().filter(|lost| chosen(lost.sequence)) {
            let place = |site: u32| story.sites[site as usize].1;
            let head = lost.head.filter(|&(number, _)| chosen(number)).map(|(_, site)| place(site));
            let sum = expected.entry((place(lost.site), head, lost.kind)).or_default();
            *sum = (sum.0 + 1, sum.1 + lost.size);
        }
        prop_assert_eq!(found, expected);
        // Each process with live blocks of the selection says what is known of them.
        for (number, process) in (0..).zip(&profile.processes) {
            let says = profile.scans.iter().any(|scan| scan.process.0 == number);
            prop_assert!(says || process.totals.live == 0);
        }
    }

    #[test]
    fn what_there_is_to_select_from(steps in steps(), selection in selections()) {
        let story = build_story(&steps, true, 20);
        let (mut reader, profile) = Reader::new(Cursor::new(&story.file[..]), &mut |_| {}).unwrap();
        let extent = reader.extent(&profile, &selection, &mut |_| {}).unwrap();
        let Selection { processes, threads, .. } = selection;
        let whose = Selection { processes, threads, ..Selection::default() };
        let lives: Vec<_> = story.lives.iter().filter(|life| selected(life, &whose)).collect();
        let span = |of: &dyn Fn(&Life) -> Option<u64>| {
            let numbers = || lives.iter().filter_map(|life| of(life));
            numbers().min().zip(numbers().max())
        };
        prop_assert_eq!(extent.allocations, lives.len() as u64);
        prop_assert_eq!(extent.sizes, span(&|life| Some(life.call.size)).unwrap_or_default());
        prop_assert_eq!(extent.allocated_ms, span(&|life| Some(life.at.ms)).unwrap_or_default());
        prop_assert_eq!(extent.freed_ms, span(&|life| life.gone.map(|gone| gone.1.ms)));
        let lifetimes = span(&|life| Some(life.end_ms().saturating_sub(life.at.ms)));
        prop_assert_eq!(extent.lifetimes, lifetimes.unwrap_or_default());
    }
}

/// What comes after a window is not read, where nothing of it can matter.
#[test]
fn reading_ends_with_the_window() {
    let step = |n: u64| {
        let which = 0;
        [
            Step::Allocate { thread: 0, place: 0, size: n, family: 0 },
            Step::Free { thread: 0, which, how: How::Free },
            Step::Later { ms: 10 },
        ]
    };
    let steps: Vec<_> = (0..100).flat_map(step).collect();
    let mut story = build_story(&steps, true, 8);
    let all: Vec<_> = blocks(&story.file).into_iter().filter(|block| block.1 == Kind::Events).collect();
    // Damage in the second half.
    for &(at, _) in &all[all.len() / 2..] {
        story.file[at + HEAD + 20] ^= 1;
    }
    let (mut reader, profile) = Reader::new(Cursor::new(&story.file[..]), &mut |_| {}).unwrap();
    for (when, lifetimes) in [
        (When::Allocated, None),
        (When::Live, None),
        (When::Freed, None),
        (When::Allocated, Some(Span { from: 0, to: Some(20) })),
    ] {
        let selection =
            Selection { time: Some((when, Span { from: 15, to: Some(100) })), lifetimes, ..Selection::default() };
        let (selected, _) = reader.select(profile.clone(), &selection, &mut |_| {}).unwrap();
        assert_eq!(summarize(&selected), truth(&story, &selection));
        assert_eq!(selected.totals.allocations, 8);
    }
    let selection = Selection { sizes: Some(Span { from: 3, to: None }), ..Selection::default() };
    assert!(matches!(reader.select(profile, &selection, &mut |_| {}), Err(ReadError::Damaged { .. })));
}
