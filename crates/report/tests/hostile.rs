//! Recordings come from programs that may have written anything into them: no report panics, whatever a profile says.

use mallow_profile::{
    Block, Call, Counts, Event, Frame, FrameId, Line, Module, ModuleId, Moment, Patterns, Process, ProcessId, Profile,
    Site, StackId, StringId,
};
use mallow_report::analysis::{
    FlameOptions, HeapAtBuilder, HeapMoment, Least, LifetimesBuilder, ListOptions, Measure, Narrowing, Over,
    SizesBuilder, Suppressions, ThreadsBuilder, TimelineBuilder, TimelineOptions, TopOptions, TreeOptions, flame,
    insights, leaks, list, narrow, overview, top, tree,
};
use mallow_report::names;
use proptest::prelude::*;

/// Ids up to 7; the profile has fewer than that of each kind.
fn id() -> impl Strategy<Value = u32> {
    prop_oneof![0..7u32, Just(u32::MAX)]
}

fn frame() -> impl Strategy<Value = Frame> {
    let line = (id(), proptest::option::of(id()), any::<u32>());
    let line = line.prop_map(|(f, file, line)| Line { function: StringId(f), file: file.map(StringId), line });
    (proptest::option::of(id()), any::<u64>(), any::<bool>(), proptest::collection::vec(line, 0..3))
        .prop_map(|(module, address, exact, lines)| Frame { lines, ..Frame::new(module.map(ModuleId), address, exact) })
}

fn site() -> impl Strategy<Value = Site> {
    let counts = any::<[u32; 4]>().prop_map(|[a, b, c, d]| Counts {
        allocations: a.into(),
        allocated_bytes: b.into(),
        live: c.into(),
        live_bytes: d.into(),
        frees: u64::from(a) + u64::from(c),
        ..Counts::default()
    });
    (id(), id(), counts, patterns(), any::<u64>(), any::<u64>()).prop_map(site_of)
}

fn site_of((process, stack, counts, patterns, oldest, youngest): (u32, u32, Counts, Patterns, u64, u64)) -> Site {
    Site {
        process: ProcessId(process),
        stack: StackId(stack),
        counts,
        patterns: patterns.into(),
        live_oldest_ms: oldest,
        live_youngest_ms: youngest,
        precisions: None,
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..50u64, any::<u64>(), Just(u64::MAX)]
}

fn narrowing() -> impl Strategy<Value = Narrowing> {
    let pattern = || proptest::option::of(prop_oneof![Just("."), Just("^$"), Just("[a-m]"), Just("/")]);
    [pattern(), pattern(), pattern()].prop_map(|patterns| {
        let [focus, ignore, hide] = patterns.map(|p| p.map(|p| p.parse().expect("a pattern")));
        Narrowing { focus, ignore, hide }
    })
}

/// What Swift's demangler prints, in no order.
fn swift_part() -> impl Strategy<Value = String> {
    const PARTS: [&str; 56] = [
        "(extension in ",
        "default argument ",
        "key path ",
        "one-time initialization function for ",
        "partial apply ",
        "protocol witness for ",
        "static ",
        "variable initialization expression of ",
        "specialized ",
        "merged ",
        "generic specialization <",
        "function signature specialization <",
        " suspend resume partial function for ",
        " with unmangled suffix ",
        "outlined ",
        "thunk for ",
        "type metadata ",
        "vtable thunk ",
        "closure #1 ",
        "#",
        "1",
        " in ",
        " of ",
        " from ",
        " to ",
        " in conformance ",
        " infix",
        " prefix",
        "Swift.",
        "Swift.Int",
        "Array",
        "NIO",
        "A",
        "é",
        "…",
        "(",
        ")",
        "<",
        ">",
        "[",
        "]",
        "{",
        "}",
        "`",
        ".",
        "...",
        ":",
        ", ",
        "_: ",
        " -> ",
        " throws",
        " ",
        "@escaping ",
        "@",
        "Propagated : ",
        "(1)",
    ];
    proptest::sample::select(PARTS.to_vec()).prop_map(str::to_owned)
}

fn patterns() -> impl Strategy<Value = Patterns> {
    let number = || prop_oneof![Just(0), 0..100u64, any::<u64>()];
    proptest::collection::vec(number(), 13).prop_map(|n| Patterns {
        smallest: n[0],
        largest: n[1],
        alternating: n[2],
        growth_steps: n[3],
        grown_buffers: n[4],
        copied_bytes: n[5],
        freed_by_others: n[6],
        freed_in_runs: n[7],
        runs: n[8],
        kept: n[9],
        kept_bytes: n[10],
        kept_slack: n[11],
        overhead_bytes: n[12],
    })
}

prop_compose! {
    fn profile()(
        frames in proptest::collection::vec(frame(), 0..5),
        pushes in proptest::collection::vec((0..3u32, id()), 0..4),
        sites in proptest::collection::vec(site(), 0..8),
        strings in proptest::collection::vec(any::<String>(), 0..5),
        path in any::<String>(),
    ) -> Profile {
        let mut profile = Profile { frames, sites, ..Profile::default() };
        for text in &strings {
            profile.strings.intern(text);
        }
        for (parent, frame) in pushes {
            profile.stacks.push(StackId(parent.min(profile.stacks.len() as u32 - 1)), FrameId(frame));
        }
        profile.modules.push(Module { path, build_id: Vec::new() });
        profile.processes.push(Process::default());
        profile
    }
}

proptest! {
    #[test]
    fn insights_make_sense_of_anything(mut profile in profile(), sum: bool) {
        if sum {
            profile.totals = profile.sites.iter().fold(Counts::default(), |mut sum, site| {
                sum += site.counts;
                sum
            });
        }
        let found = insights(&profile, 2);
        prop_assert!(found.insights.len() <= 2 && found.insights.len() as u64 <= found.insights_in_all);
        let shares = |insight: &mallow_report::analysis::Insight| [Some(insight.malloc_share), Some(insight.peak_share), insight.run_share];
        let shares: Vec<f64> = found.insights.iter().flat_map(shares).flatten().collect();
        prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    }

    #[test]
    fn no_profile_makes_a_report_panic(profile in profile(), raw: bool, cum: bool) {
        let sound = profile.check().is_ok();
        prop_assert!(!sound || profile.sites.iter().all(|site| (site.stack.0 as usize) < profile.stacks.len()));
        let report = overview(&profile, 3);
        prop_assert!(report.largest.iter().all(|l| l.largest.len() <= 3));
        let live: u64 = profile.sites.iter().map(|s| s.counts.live).sum();
        let suppressions = Suppressions::parse("leak:a*b$\nleak:^/\n").expect("a good file");
        let report = leaks(&profile, &suppressions, 3);
        prop_assert_eq!(report.reported + report.suppressed, live);
        for by in Measure::ALL {
            top(&profile, TopOptions { by, cum, raw, limit: 2 });
            tree(&profile, TreeOptions { by, callers: cum, raw, depth: 2, min: 1, limit: 2 });
            for parts in [0, 1, 9, u64::MAX] {
                let graph = flame(&profile, FlameOptions { by, callers: cum, raw, parts, least: Least::Percent(1.0) });
                prop_assert!(graph.boxes.iter().all(|n| n.parent.is_none_or(|p| graph.boxes[p].value >= n.value)));
            }
        }
    }

    #[test]
    fn no_profile_makes_a_filter_panic(profile in profile(), narrowing in narrowing(), raw: bool, cum: bool) {
        let sites = profile.sites.len();
        let all = profile.totals.allocations;
        let sound = profile.check().is_ok();
        let narrowed = narrow(profile, &narrowing);
        prop_assert_eq!(narrowed.sites.len(), sites);
        let profile = narrowed.profile;
        prop_assert!(!sound || profile.check().is_ok());
        prop_assert!(narrowed.sites.iter().flatten().all(|&site| (site as usize) < profile.sites.len()));
        prop_assert!(profile.totals.allocations <= all.max(profile.sites.iter().map(|s| s.counts.allocations).sum()));
        overview(&profile, 3);
        insights(&profile, 2);
        leaks(&profile, &Suppressions::parse("leak:a*b$\n").expect("a good file"), 3);
        for by in Measure::ALL {
            top(&profile, TopOptions { by, cum, raw, limit: 2 });
            tree(&profile, TreeOptions { by, callers: cum, raw, depth: 2, min: 1, limit: 2 });
            flame(&profile, FlameOptions { by, callers: cum, raw, parts: 9, least: Least::Amount(2) });
            let found = list(&profile, &".".parse().expect("a pattern"), ListOptions { by, raw, limit: 2 });
            prop_assert!(found.functions.len() <= 2);
        }
    }

    /// Which sites and processes there are, the reader of recordings holds; times and sizes may be anything.
    #[test]
    fn no_events_make_a_timeline_panic(
        mut profile in profile(),
        events in proptest::collection::vec((0..9u32, any::<prop::sample::Index>(), number(), number()), 0..40),
        by in prop_oneof![Just(Over::LiveBytes), Just(Over::Live), Just(Over::Allocations)],
        window in (number(), proptest::option::of(number())),
        points in number(),
        bands in 0..4usize,
        at in number(),
    ) {
        profile.sites.push(site_of((0, 0, Counts::default(), Patterns::default(), 0, 0)));
        let event = |sequence: usize, kind: u32, site: prop::sample::Index, ms: u64, size: u64| {
            let site = site.index(profile.sites.len()) as u32;
            let call = Call { family: (kind % 9) as u8, site, size };
            let block = Block { sequence: sequence as u64 / 2, site, size, ms, thread: 0 };
            let event = match kind {
                0 => Event::Free(None),
                1 => Event::Free(Some(block)),
                2 => Event::ReallocFree(Some(block)),
                3 => Event::UnseenFree(block),
                4 => Event::EndProcess,
                5 => Event::Reallocate { call, old: Some(block), moved: true },
                _ => Event::Allocate(call),
            };
            (Moment { process: 0, thread: 0, ms }, event)
        };
        let events: Vec<_> =
            events.iter().enumerate().map(|(n, &(kind, site, ms, size))| event(n, kind, site, ms, size)).collect();
        profile.duration_ms = events.last().map_or(0, |(at, _)| at.ms);
        let points = usize::try_from(points).unwrap_or(usize::MAX);
        let mut builder = TimelineBuilder::new(&profile, TimelineOptions { by, window, points, bands });
        if builder.wants_counting() {
            events.iter().for_each(|(at, _)| builder.count(*at));
            builder.counted();
        }
        events.iter().for_each(|(at, event)| builder.event(*at, event));
        let chart = builder.finish();
        prop_assert!(chart.points.len() <= 2000 && chart.bands.len() <= bands);
        for moment in [HeapMoment::Ms(at), HeapMoment::Peak, HeapMoment::End] {
            let mut builder = HeapAtBuilder::new(&profile, moment);
            events.iter().for_each(|(at, event)| builder.event(*at, event));
            prop_assert!(builder.finish(2).places.len() <= 2);
        }
        let (mut sizes, mut lifetimes) = (SizesBuilder::default(), LifetimesBuilder::default());
        let mut threads = ThreadsBuilder::new(&profile);
        for (number, (moment, event)) in events.iter().enumerate() {
            // Numbers that follow from no event before.
            let number = (number as u64).wrapping_mul(at);
            sizes.event(event);
            lifetimes.event(number, *moment, event);
            threads.event(number, *moment, event);
        }
        prop_assert!(sizes.finish().buckets.len() <= 65 && lifetimes.finish(&profile).by_ms.len() <= 65);
        prop_assert!(threads.finish(2).threads.len() <= 2);
    }

    #[test]
    fn no_name_makes_shortening_panic(name in "[a-z<>(){}\\[\\]:& *,.~…é=!-]{0,60}|(operator|decltype|[<>()]| |::|const| as |\\{lambda\\()*") {
        names::short(&name);
    }

    #[test]
    fn no_swift_name_makes_shortening_panic(parts in proptest::collection::vec(swift_part(), 0..14)) {
        names::short(&parts.concat());
    }

    #[test]
    fn patterns_match_as_a_search_of_all_ways_does(pattern in "\\^?[ab*]{1,6}\\$?", name in "[ab]{1,8}") {
        let Ok(suppressions) = Suppressions::parse(&format!("leak:{pattern}")) else { return Ok(()) };
        let mut b = Profile::default();
        let function = b.strings.intern(&name);
        b.frames.push(Frame { lines: vec![Line { function, file: None, line: 0 }], ..Frame::new(None, 1, false) });
        let stack = b.stacks.push(mallow_profile::Stacks::ROOT, FrameId(0));
        let counts = Counts { live: 1, ..Counts::default() };
        b.sites.push(Site { process: ProcessId(0), stack, counts, patterns: Default::default(), live_oldest_ms: 0, live_youngest_ms: 0, precisions: None });
        let suppressed = leaks(&b, &suppressions, 1).suppressed == 1;

        let open = pattern.strip_prefix('^').map_or(format!("*{pattern}"), str::to_owned);
        let open = open.strip_suffix('$').map_or(format!("{open}*"), str::to_owned);
        prop_assert_eq!(suppressed, glob(open.as_bytes(), name.as_bytes()), "{} on {}", pattern, name);
    }
}

/// The plain definition: an asterisk is any text.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| glob(rest, &text[at..])),
        Some((c, rest)) => text.split_first().is_some_and(|(t, after)| t == c && glob(rest, after)),
    }
}
