//! Each habit, and what looks nearly like it and must be passed over in silence.

use mallow_profile::{Counts, Origin, Patterns, Profile, Quantities, Quantity};

use super::{Evidence, Insight, insights};
use crate::testing::{Builder, blocks, habits};

mod call_paths;
mod library_calls;
mod run_time;
mod together;

/// A program of a million blocks without habits, and one site in addition.
fn beside(frames: &[&str], counts: Counts, patterns: Patterns) -> Profile {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work@a.c:1", "main@a.c:9"], blocks(1_000_000, 100, 0, 0));
    b.site(process, frames, counts).patterns = patterns.into();
    b.profile
}

const PLACE: &[&str] = &["f@a.c:5", "main@a.c:10"];

pub(super) fn all(profile: &Profile) -> Vec<Insight> {
    let report = insights(profile, usize::MAX);
    assert_eq!(report.insights_in_all, report.insights.len() as u64);
    report.insights
}

/// The only insight there is.
pub(super) fn one(profile: &Profile) -> Insight {
    let mut all = all(profile);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

pub(super) fn silent(profile: &Profile) -> bool {
    all(profile).is_empty()
}

pub(super) fn sizes(smallest: u64, largest: u64) -> Patterns {
    Patterns { smallest, largest, ..Patterns::default() }
}

/// Allocations, steps, buffers, bytes copied, largest size.
fn grown(allocations: u64, steps: u64, buffers: u64, copied: u64, largest: u64) -> Profile {
    let patterns = Patterns { growth_steps: steps, grown_buffers: buffers, copied_bytes: copied, ..sizes(16, largest) };
    beside(PLACE, by_realloc(blocks(allocations, 100, 0, 0), steps), patterns)
}

fn by_realloc(counts: Counts, steps: u64) -> Counts {
    Counts { reallocs_in_place: steps / 2, reallocs_moved: steps - steps / 2, ..counts }
}

/// As in all views: the same few addresses of a stripped library stand for everything otherwise.
#[test]
fn a_function_without_a_name_belongs_to_the_first_that_has_one() {
    let patterns = Patterns { alternating: 200_000, ..sizes(16, 64) };
    let counts = blocks(200_000, 100, 0, 0);
    let found = one(&beside(&["+0x10!libx.so", "x_write!libx.so", "main@a.c:10"], counts, patterns));
    assert_eq!((found.frame.function.as_str(), found.frame.looked_past), ("x_write", false));
    let found = one(&beside(&["+0x10!libx.so", "main@a.c:10"], counts, patterns));
    assert_eq!(found.frame.function, "libx.so+0x10");
}

#[test]
fn buffers_that_grow_step_by_step() {
    let found = one(&grown(60_000, 55_000, 5_000, 9_000_000, 16_384));
    let Evidence::GrownBuffer { grown_buffers, growth_steps, copied_bytes, doubling, .. } = found.evidence else {
        panic!("{found:?}")
    };
    assert_eq!((grown_buffers, growth_steps, copied_bytes, doubling), (Some(5_000), 55_000, 9_000_000, true));
    assert_eq!((found.saves.allocations, found.saves.copied_bytes), (55_000, 9_000_000));
    assert_eq!((found.frame.function.as_str(), found.frame.line, found.sites), ("f", Some(5), 1));
    assert_eq!(found.remedy, "Allocate the final size at once.");
    // A thousand steps to 16 kB are no doubling.
    let found = one(&grown(50_000, 50_000, 50, 30 << 20, 16_384));
    assert!(found.remedy.ends_with("or double the size in each step."), "{}", found.remedy);
    // Few steps, but each copies megabytes.
    assert_eq!(one(&grown(4_000, 2_000, 2_000, 40 << 20, 40_000)).saves.copied_bytes, 40 << 20);
}

#[test]
fn buffers_that_hardly_grow() {
    assert!(silent(&grown(60_000, 30_000, 20_000, 900_000, 200)), "one step each, nothing much copied");
    assert!(silent(&grown(200_000, 55_000, 5_000, 900_000, 16_384)), "most blocks there do not grow");
    assert!(silent(&grown(10_000, 9_000, 800, 90_000, 16_384)), "less than a hundredth of the program");
}

/// Each is allocated before the last one is freed, as std::vector would, but no container or realloc says that they are
/// one.
#[test]
fn a_series_of_growing_blocks_is_no_buffer() {
    let patterns =
        Patterns { growth_steps: 55_000, grown_buffers: 5_000, copied_bytes: 9_000_000, ..sizes(16, 16_384) };
    let series = |inner: &[&str], reallocs| {
        beside(&[inner, PLACE].concat(), by_realloc(blocks(60_000, 100, 0, 0), reallocs), patterns)
    };
    assert!(silent(&series(&[], 0)));
    assert!(silent(&series(&[], 5_000)), "few of them by realloc");
    assert!(silent(&series(&["std::make_shared<A>(int const&)"], 0)), "no container that moves");
    let vector = one(&series(&["std::vector<int, std::allocator<int> >::push_back(int const&)"], 0));
    assert!(matches!(vector.evidence, Evidence::GrownBuffer { container: Some("std::vector"), .. }), "{vector:?}");
    // Nor is anything of the last one unused.
    let kept =
        Patterns { kept: 1, kept_bytes: 100 << 20, kept_slack: 50 << 20, growth_steps: 3, ..sizes(16, 100 << 20) };
    assert!(silent(&beside(PLACE, blocks(1, 100 << 20, 0, 1), kept)));
}

#[test]
fn containers_that_are_built_anew() {
    let rebuilt = |alternating| {
        let patterns = Patterns {
            growth_steps: 48_000,
            grown_buffers: 12_000,
            copied_bytes: 700_000,
            alternating,
            ..sizes(4, 128)
        };
        beside(PLACE, by_realloc(blocks(60_000, 60, 0, 0), 48_000), patterns)
    };
    let found = one(&rebuilt(12_000));
    let Evidence::RebuiltContainer { times, growth_steps, largest_bytes, .. } = found.evidence else {
        panic!("{found:?}")
    };
    assert_eq!((times, growth_steps, largest_bytes, found.saves.allocations), (12_000, 48_000, 128, 60_000));
    // Many that live side by side cannot share one's memory; they still grow.
    assert!(matches!(one(&rebuilt(5_000)).evidence, Evidence::GrownBuffer { .. }));
}

/// It was "at the most 11.7 %" of a program in which keeping the vector saved 15.2 %: the first block of each was
/// allocated on another line.
#[test]
fn the_first_block_of_a_container_counts_wherever_it_is_allocated() {
    let rebuilt = |allocations| {
        let patterns = Patterns { growth_steps: 48_000, grown_buffers: 12_000, alternating: 12_000, ..sizes(4, 128) };
        let found = one(&beside(PLACE, by_realloc(blocks(allocations, 60, 0, 0), 48_000), patterns));
        let Evidence::RebuiltContainer { times, allocations, .. } = found.evidence else { panic!("{found:?}") };
        (times, allocations, found.saves.allocations)
    };
    // Here; at another call; half of them.
    assert_eq!(rebuilt(60_000), (12_000, 60_000, 60_000));
    assert_eq!(rebuilt(48_000), (12_000, 60_000, 60_000));
    assert_eq!(rebuilt(54_000), (12_000, 60_000, 60_000));
}

fn alternating(allocations: u64, alternating: u64, sizes: Patterns) -> Profile {
    beside(PLACE, blocks(allocations, 100, 0, 0), Patterns { alternating, ..sizes })
}

#[test]
fn blocks_that_one_block_could_stand_for() {
    let found = one(&alternating(30_000, 29_999, sizes(256, 256)));
    let Evidence::TemporaryBlock { allocations, freed_before_next, .. } = found.evidence else { panic!("{found:?}") };
    assert_eq!((allocations, freed_before_next, found.saves.allocations), (30_000, 29_999, 29_999));
    assert_eq!(found.remedy, "Keep one outside of the loop, or take one on the stack.");
    assert_eq!(one(&alternating(30_000, 30_000, sizes(5000, 5000))).remedy, "Keep one outside of the loop.");
    let found = one(&alternating(30_000, 30_000, sizes(5, 5000)));
    assert_eq!(found.remedy, "Keep one block outside of the loop, as large as it has to be.");
    // Who runs a script can follow no such advice: neither in the script's function nor in the interpreter's.
    let patterns = Patterns { alternating: 30_000, ..sizes(5, 5000) };
    let interpreter: &[&str] = &["_PyEval_EvalFrameDefault!python3.12", "main!python3.12"];
    for stack in
        [&[&["PyList_New!python3.12", "step@/tmp/a.py:3!"], interpreter].concat(), &["sv_grow!perl", "main!perl"][..]]
    {
        let found = insights(&beside(stack, blocks(30_000, 472, 0, 0), patterns), usize::MAX);
        assert!(found.insights.is_empty(), "{:#?}", found.insights);
        assert_eq!(found.interpreted_allocations, 30_000);
    }
    // What the C library allocates for itself is not the program's to keep.
    let patterns = Patterns { alternating: 30_000, ..sizes(472, 472) };
    let profile = beside(&["fopen!libc.so.6", "f@a.c:5"], blocks(30_000, 472, 0, 0), patterns);
    assert!(one(&profile).remedy.starts_with("fopen allocates in each call"));
    assert_eq!(one(&profile).through.as_deref(), Some("fopen"));
    // Few, but of many bytes.
    let patterns = Patterns { alternating: 12_000, ..sizes(7160, 7160) };
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work", "main"], blocks(30_000, 100, 0, 0));
    b.site(process, &["init@z.c:1", "main"], blocks(3_000, 7160, 0, 0)).patterns =
        Patterns { alternating: 3_000, ..patterns }.into();
    assert_eq!(one(&b.profile).frame.function, "init");
}

#[test]
fn blocks_that_live_side_by_side() {
    assert!(silent(&alternating(30_000, 26_000, sizes(256, 256))), "some of them");
    assert!(silent(&alternating(9_999, 9_999, sizes(256, 256))), "few and small");
    assert!(silent(&alternating(10_100, 10_100, sizes(8, 8))), "not a hundredth");
}

/// Blocks of a wrapper that four functions call.
fn wrapped(sizes: Patterns, mut habit: impl FnMut(usize) -> u64) -> Profile {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work@a.c:1", "main@a.c:9"], blocks(1_000_000, 100, 0, 0));
    for (n, caller) in ["one@a.c:21", "two@a.c:22", "three@a.c:23", "four@a.c:24"].into_iter().enumerate() {
        b.site(process, &["my_alloc@m.c:3", caller, "main@a.c:9"], blocks(30_000, 64, 0, 0)).patterns =
            Patterns { alternating: habit(n), ..sizes }.into();
    }
    b.profile
}

#[test]
fn a_wrapper_has_no_habits_of_its_own() {
    let found = one(&wrapped(sizes(8, 64), |n| if n == 2 { 30_000 } else { 100 }));
    assert_eq!((found.frame.function.as_str(), found.through.as_deref()), ("three", Some("my_alloc")));
    assert_eq!((found.frame.line, found.saves.allocations), (Some(23), 30_000));
    // Where all want the same it is its own after all.
    let found = one(&wrapped(sizes(64, 64), |_| 30_000));
    assert_eq!((found.frame.function.as_str(), found.sites, found.saves.allocations), ("my_alloc", 4, 120_000));
    let found = all(&wrapped(sizes(8, 64), |_| 30_000));
    assert_eq!(found.iter().map(|f| f.frame.function.as_str()).collect::<Vec<_>>(), ["one", "two", "three", "four"]);
}

#[test]
fn blocks_that_other_threads_free() {
    let freed = |by_others| {
        let patterns = Patterns { freed_by_others: by_others, alternating: 50_000 - by_others, ..sizes(64, 64) };
        beside(PLACE, blocks(50_000, 64, 0, 0), patterns)
    };
    let found = one(&freed(50_000));
    assert!(matches!(found.evidence, Evidence::FreedByOthers { freed_by_others: 50_000, places: 1, .. }));
    assert_eq!(found.saves.freed_by_others, 50_000);
    assert!(silent(&freed(20_000)), "most are freed at home");
}

/// A large block that grew at 400 ms of 1,000, and the peak.
pub(super) fn large(inner: &[&str], counts: Counts, patterns: Patterns, peak_ms: u64) -> Profile {
    let mut profile = beside(&[inner, PLACE].concat(), counts, patterns);
    profile.processes[0].end_ms = 1000;
    profile.peak_ms = peak_ms;
    for site in &mut profile.sites {
        site.live_youngest_ms = if site.counts.live > 0 { 400 } else { 0 };
    }
    profile
}

#[test]
fn slack_that_is_kept() {
    let kept = |size: u64, slack, live, peak_ms| {
        let patterns = Patterns { kept: 1, kept_bytes: size, kept_slack: slack, ..sizes(size, size) };
        let counts = Counts { peak: live, peak_bytes: live * size, ..by_realloc(blocks(1, size, 0, live), 5) };
        large(&[], counts, patterns, peak_ms)
    };
    let found = one(&kept(100 << 20, 50 << 20, 1, 700));
    assert!(matches!(found.evidence, Evidence::KeptSlack { kept: 1, kept_slack: 52_428_800, .. }));
    assert_eq!(found.saves.peak_bytes, 50 << 20);
    assert!(silent(&kept(12 << 20, 4 << 20, 1, 700)), "little of the peak");
    // The path is that of the block, and not of those who call the line more often.
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 1000);
    let counts = Counts { peak: 1, peak_bytes: 100 << 20, ..by_realloc(blocks(1, 100 << 20, 0, 1), 5) };
    let patterns = Patterns { kept: 1, kept_bytes: 100 << 20, kept_slack: 50 << 20, ..sizes(100 << 20, 100 << 20) };
    b.site(process, &["resize@v.c:5", "sort@a.c:20"], counts).patterns = patterns.into();
    b.site(process, &["resize@v.c:5", "walk@a.c:30"], blocks(1000, 8, 0, 0));
    b.profile.peak_ms = 700;
    b.profile.sites.iter_mut().for_each(|site| site.live_youngest_ms = if site.counts.live > 0 { 400 } else { 0 });
    let found = one(&b.profile);
    assert!(matches!(found.evidence, Evidence::KeptSlack { .. }), "{found:?}");
    assert_eq!(found.largest_site.frames.last().map(|frame| frame.function.as_str()), Some("sort"));
    assert!(silent(&kept(100 << 20, 50 << 20, 0, 700)), "not live at the peak");
    assert!(silent(&kept(100 << 20, 50 << 20, 1, 400)), "the peak is in the step");
    // It lived for half of the time, so that it grew within the first half.
    let mut freed = kept(100 << 20, 50 << 20, 1, 501);
    freed.sites[1].counts.live = 0;
    assert_eq!(one(&freed).saves.peak_bytes, 50 << 20);
    freed.peak_ms = 500;
    assert!(silent(&freed), "nobody knows whether it had grown by then");
}

pub(super) const VECTOR: &str = "std::vector<int, std::allocator<int> >::push_back(int const&)";
pub(super) const HASH: &str = "hashbrown::raw::RawTable<T,A>::reserve_rehash";

fn started(outer: &[&str], allocations: u64) -> Profile {
    let frames = [&["init_tables@t.cc:3", "set_up@t.cc:9"], outer].concat();
    beside(&frames, blocks(allocations, 24, 0, 0), sizes(24, 24))
}

/// As glibc runs initialisers of shared objects, those of the program, and main.
const LOADER: &[&str] =
    &["call_init!ld-linux-x86-64.so.2", "_dl_init!ld-linux-x86-64.so.2", "+0x1a3!ld-linux-x86-64.so.2"];
const START: &[&str] = &["call_init!libc.so.6", "__libc_start_main_impl!libc.so.6", "_start"];
const MAIN: &[&str] = &["main@a.c:2", "__libc_start_call_main!libc.so.6", "__libc_start_main_impl!libc.so.6", "_start"];
const STRIPPED: &[&str] = &["+0x11f0", "+0x2724a!libc.so.6", "__libc_start_main!libc.so.6", "+0x1000"];

#[test]
fn what_is_allocated_before_main_and_after_it() {
    for outer in [LOADER, START, &["__libc_start_main!libc.so.6", "+0x1000"]] {
        let found = one(&started(outer, 20_000));
        let Evidence::BeforeMain(outside) = &found.evidence else { panic!("{found:?}") };
        assert_eq!((outside.allocations, outside.functions, found.frame.function.as_str()), (20_000, 1, "set_up"));
        assert_eq!((outside.modules[0].module.as_str(), outside.modules[0].allocations), ("/usr/bin/program", 20_000));
    }
    let exit = [&["+0x99!libc.so.6", "exit!libc.so.6"], MAIN].concat();
    let found = one(&started(&exit, 20_000));
    assert!(matches!(&found.evidence, Evidence::AfterMain(outside) if outside.allocations == 20_000), "{found:?}");
}

#[test]
fn what_merely_looks_like_outside_of_main() {
    assert!(silent(&started(MAIN, 20_000)), "main itself");
    assert!(silent(&started(STRIPPED, 20_000)), "main without a name");
    assert!(silent(&started(&["main@a.c:2", "__libc_start_main!libc.so.6", "_start"], 20_000)), "an older C library");
    assert!(silent(&started(&[LOADER, &["dlopen!libc.so.6"], MAIN].concat(), 20_000)), "a plugin's initialisers");
    let closed = ["__cxa_finalize!libc.so.6", "_dl_call_fini!ld-linux-x86-64.so.2", "dlclose!libc.so.6"];
    assert!(silent(&started(&[&closed, MAIN].concat(), 20_000)), "a plugin's destructors");
    assert!(silent(&started(&["start_thread!libc.so.6", "clone3!libc.so.6"], 20_000)), "a thread");
    assert!(silent(&started(&[&["exit@a.c:70"], MAIN].concat(), 20_000)), "the program's own function of that name");
    assert!(silent(&started(START, 999)), "what any program has");
    assert!(silent(&started(START, 9_000)), "less than a hundredth");
    let mut b = Builder { profile: started(&[], 20_000) };
    let cut = b.profile.stacks.push(mallow_profile::Stacks::CUT_ROOT, mallow_profile::FrameId(0));
    b.profile.sites[1].stack = cut;
    assert!(silent(&b.profile), "nobody knows");
}

const COPY: &str = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)!libstdc++.so.6";
const NEW: &str = "operator new(unsigned long)!libstdc++.so.6";

#[test]
fn containers_that_stand_for_much_of_the_program() {
    let copied = |allocations, alternating| {
        let patterns = Patterns { alternating, ..sizes(31, 90) };
        let counts = Counts { peak: 1, peak_bytes: 40, ..blocks(allocations, 40, 0, 0) };
        beside(&[NEW, COPY, "f@a.cc:5", "main@a.cc:10"], counts, patterns)
    };
    let found = one(&copied(300_000, 100));
    let Evidence::PopularContainer { container, allocations, .. } = found.evidence else { panic!("{found:?}") };
    assert_eq!((container, allocations, found.frame.function.as_str()), ("std::string", 300_000, "f"));
    assert!(found.remedy.contains("std::string_view"));
    assert!(silent(&copied(240_000, 100)), "less than a fifth");
    // Something more special is to be said of it.
    let found = one(&copied(300_000, 300_000));
    assert!(matches!(found.evidence, Evidence::TemporaryBlock { container: Some("std::string"), .. }), "{found:?}");
}

/// What swiftc 6.0 makes of `append`, `d[k] = v`, `insert`, `+=` and `"\(i)"` in a release build, and libswiftCore,
/// which has local functions without names.
const SWIFT: &[(&[&str], &str, &str)] = &[
    (
        &[
            "generic specialization <Swift.Int> of Swift._ContiguousArrayBuffer._consumeAndCreateNew(bufferIsUnique: Swift.Bool, minimumCapacity: Swift.Int, growForAppend: Swift.Bool) -> Swift._ContiguousArrayBuffer<A>",
            "generic specialization <Swift.Int> of Swift.Array._createNewBuffer(bufferIsUnique: Swift.Bool, minimumCapacity: Swift.Int, growForAppend: Swift.Bool) -> ()",
            "generic specialization <Swift.Int> of Swift.Array.append(__owned A) -> ()",
        ],
        "Array",
        "specialized Array.append(_:)",
    ),
    (
        &[
            "+0x186e98!libswiftCore.so",
            "generic specialization <Swift.Int, Swift.Int> of Swift._NativeDictionary._copyOrMoveAndResize(capacity: Swift.Int, moveElements: Swift.Bool) -> ()",
            "generic specialization <Swift.Int, Swift.Int> of Swift.Dictionary.subscript.setter : (A) -> B?",
        ],
        "Dictionary",
        "specialized Dictionary.subscript.setter",
    ),
    (
        &[
            "+0x1d7be3!libswiftCore.so",
            "generic specialization <Swift.Int> of Swift._NativeSet.resize(capacity: Swift.Int) -> ()",
            "generic specialization <Swift.Int> of Swift.Set.insert(__owned A) -> (inserted: Swift.Bool, memberAfterInsert: A)",
        ],
        "Set",
        "specialized Set.insert(_:)",
    ),
    (
        &[
            "Swift._StringGuts.grow(Swift.Int) -> ()!libswiftCore.so",
            "static Swift.String.+= infix(inout Swift.String, Swift.String) -> ()!libswiftCore.so",
        ],
        "String",
        "static String.+= infix(_:_:)",
    ),
    (
        &[
            "Swift._StringGuts.grow(Swift.Int) -> ()!libswiftCore.so",
            "static Swift.String._createEmpty(withInitialCapacity: Swift.Int) -> Swift.String!libswiftCore.so",
            "Swift.DefaultStringInterpolation.init(literalCapacity: Swift.Int, interpolationCount: Swift.Int) -> Swift.DefaultStringInterpolation!libswiftCore.so",
        ],
        "interpolated String",
        "DefaultStringInterpolation.init(literalCapacity:interpolationCount:)",
    ),
];

fn swift(inner: &[&str], counts: Counts, patterns: Patterns) -> Insight {
    let outer = ["app.fill(Swift.Int) -> Swift.Int@a.swift:5", "main@a.swift:9"];
    let stack = [&["swift_slowAlloc!libswiftCore.so", "swift_allocObject!libswiftCore.so"], inner, &outer[..]].concat();
    one(&beside(&stack, counts, patterns))
}

#[test]
fn containers_of_swift() {
    for (inner, name, through) in SWIFT {
        let growth =
            Patterns { growth_steps: 55_000, grown_buffers: 5_000, copied_bytes: 9_000_000, ..sizes(16, 16_384) };
        let found = swift(inner, blocks(60_000, 100, 0, 0), growth);
        let Evidence::GrownBuffer { container, .. } = found.evidence else { panic!("{found:?}") };
        assert_eq!((container, found.remedy.as_str()), (Some(*name), "reserveCapacity(_:) with the final count."));
        assert_eq!((found.frame.function.as_str(), found.frame.line), ("app.fill(Swift.Int) -> Swift.Int", Some(5)));
        let short = found.through.as_deref().map(crate::names::short);
        assert_eq!(short.as_deref(), Some(*through));
        // removeAll() alone gives the memory back.
        let rebuilt = Patterns { alternating: 5_000, ..growth };
        let found = swift(inner, blocks(60_000, 100, 0, 0), rebuilt);
        assert!(matches!(found.evidence, Evidence::RebuiltContainer { .. }), "{found:?}");
        assert!(found.remedy.contains("clear it with removeAll(keepingCapacity: true)"), "{}", found.remedy);
        let found = swift(inner, blocks(30_000, 64, 0, 0), Patterns { alternating: 30_000, ..sizes(64, 64) });
        assert!(matches!(found.evidence, Evidence::TemporaryBlock { container, .. } if container == Some(name)));
    }
    // Types of the program's own, by the same names.
    let own = "app.Array.append(A) -> ()@b.swift:7";
    let growth = Patterns { growth_steps: 55_000, grown_buffers: 5_000, copied_bytes: 9_000_000, ..sizes(16, 16_384) };
    let found = swift(&[own], by_realloc(blocks(60_000, 100, 0, 0), 55_000), growth);
    assert!(matches!(found.evidence, Evidence::GrownBuffer { container: None, .. }), "{found:?}");
}

#[test]
fn insights_are_ranked_and_cut() {
    let profile = habits();
    let found = all(&profile);
    let share = |insight: &Insight| insight.malloc_share.max(insight.peak_share);
    assert!(found.len() > 5 && found.is_sorted_by(|a, b| share(a) >= share(b)), "{found:#?}");
    let some = insights(&profile, 2);
    assert_eq!((some.insights_in_all, &some.insights[..]), (found.len() as u64, &found[..2]));
    assert!(found.iter().all(|f| share(f) > 0.0 && share(f) <= 1.0 && !f.remedy.is_empty()));
    // How many are small does not depend on how many are listed.
    let mut slow = habits();
    slow.cpu_us = Some(1 << 40);
    slow.peak_ms = 1;
    let small = |limit| insights(&slow, limit).small_in_all;
    let count = all(&slow).iter().filter(|insight| !insight.matters()).count() as u64;
    assert!(count > 2, "{:#?}", all(&slow));
    assert_eq!([small(0), small(2), small(usize::MAX)], [count; 3]);
}

#[test]
fn profiles_without_patterns_have_no_insights() {
    let mut profile = habits();
    let quantities = Quantities::of(&[Quantity::Allocations, Quantity::AllocatedBytes, Quantity::PeakBytes]);
    profile.origin = Some(Origin { format: "heaptrack", quantities, sampled_bytes: None });
    assert!(silent(&profile));
    assert!(silent(&Profile::default()));
}

/// A loop that copies a row has as many sites as the row has strings: one habit, of the line that copies.
#[test]
fn a_copy_in_a_loop_is_one_insight_of_its_caller() {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work@main.rs:1", "main@main.rs:20"], blocks(1_000_000, 100, 0, 0));
    for line in [4, 5] {
        let derived = format!("<a::Row as core::clone::Clone>::clone@main.rs:{line}");
        let string = "<alloc::string::String as core::clone::Clone>::clone";
        let frames = [string, &derived, "a::total_len@main.rs:8", "main@main.rs:20"];
        let site = b.site(process, &frames, blocks(100_000, 20, 100_000, 0));
        site.patterns = Patterns { alternating: 100_000, ..sizes(10, 30) }.into();
    }
    let found = one(&b.profile);
    assert_eq!((found.frame.function.as_str(), found.frame.line), ("a::total_len", Some(8)));
    assert_eq!(found.through.as_deref(), Some("<a::Row as core::clone::Clone>::clone"));
    assert_eq!((found.saves.allocations, found.sites), (200_000, 2));
    assert_eq!(found.remedy, "Pass a reference where a copy is made, or move the value.");
}

/// What is stored cannot be one string that is kept and cleared.
#[test]
fn a_remedy_for_temporary_strings_is_none_for_stored_ones() {
    let of = |counts, alternating| {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["work@a.rs:1", "main@a.rs:9"], blocks(300_000, 100, 0, 0));
        b.site(process, &["alloc::fmt::format::format_inner", "a::label@a.rs:5", "main@a.rs:10"], counts).patterns =
            Patterns { alternating, ..sizes(10, 30) }.into();
        one(&b.profile)
    };
    let stored = of(blocks(200_000, 20, 0, 200_000), 0);
    assert!(stored.remedy.starts_with("They are stored: "), "{}", stored.remedy);
    // Values that are stored, and as many keys that are not.
    let half = Counts { peak: 101_000, peak_bytes: 2_020_000, ..blocks(200_000, 20, 0, 101_000) };
    assert!(silent(&texts(FORMAT, half, sizes(10, 30))));
    let few = Counts { peak: 1, peak_bytes: 20, ..blocks(200_000, 20, 0, 0) };
    assert_eq!(of(few, 150_000).remedy, "write! into a String that is kept and cleared.");
    // Each grew once, and is kept as a key: of a hundred thousand strings as many allocations are steps.
    let grown = Patterns { growth_steps: 100_000, grown_buffers: 100_000, copied_bytes: 800_000, ..sizes(6, 12) };
    let kept = |peak| Counts { peak, peak_bytes: peak * 12, ..by_realloc(blocks(200_000, 9, 0, 0), 100_000) };
    for peak in [57_000, 1] {
        let found = one(&texts(FORMAT, kept(peak), grown));
        assert_eq!(found.remedy, "String::with_capacity(n), then write! into it: no block has to grow.");
        assert_eq!(found.saves.allocations, 100_000, "the steps alone");
    }
    // One after another: kept and cleared, it grows no more.
    let found = one(&texts(FORMAT, kept(1), Patterns { alternating: 80_000, ..grown }));
    assert_eq!(found.remedy, "write! into a String that is kept and cleared.");
}

const FORMAT: &str = "alloc::fmt::format::format_inner";

fn texts(container: &str, counts: Counts, patterns: Patterns) -> Profile {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work@a.rs:1", "main@a.rs:9"], blocks(300_000, 100, 0, 0));
    b.site(process, &[container, "a::label@a.rs:5", "main@a.rs:10"], counts).patterns = patterns.into();
    b.profile
}

/// They live for a while, and are gone before the program's peak: whether they become parts of something nobody knows.
#[test]
fn what_is_kept_for_a_while_gets_advice_that_fits_any_lifetime() {
    let counts = Counts { peak: 1, peak_bytes: 20, ..blocks(200_000, 20, 0, 0) };
    let patterns = Patterns { alternating: 50_000, ..sizes(10, 30) };
    assert!(silent(&texts(FORMAT, counts, patterns)), "format! makes what is kept");
    let interpolation = "Swift.DefaultStringInterpolation.init(literalCapacity: Swift.Int, interpolationCount: Swift.Int) -> Swift.DefaultStringInterpolation!libswiftCore.so";
    assert!(silent(&texts(interpolation, counts, patterns)));
    let grown = Patterns { growth_steps: 20_000, ..patterns };
    for container in ["std::basic_ostringstream<char>::str() const", VECTOR, HASH, "alloc::string::String::from", COPY]
    {
        let remedy = one(&texts(container, counts, grown)).remedy;
        for presumed in ["becomes part of", "is kept", "clear"] {
            assert!(!remedy.contains(presumed), "{container}: {remedy}");
        }
    }
    // None had to grow: each had its final size, as `vec![0; n]` has, and nothing was copied.
    assert!(silent(&texts(VECTOR, counts, patterns)));
    assert!(silent(&texts(HASH, counts, patterns)));
}

#[test]
fn drop_glue_and_rust_get_no_advice_for_c() {
    let remedy = |frames: &[&str], size| one(&alternating_at(frames, size)).remedy;
    let glue = ["core::ptr::drop_in_place<a::Pool>@mod.rs:1", "a::run@main.rs:5", "main@main.rs:9"];
    assert_eq!(
        remedy(&glue, 64),
        "It is allocated while a value is dropped: drop fewer such values, or keep them for reuse."
    );
    assert_eq!(
        remedy(&["a::run@main.rs:5", "main@main.rs:9"], 64),
        "Keep one buffer outside of the loop, and reuse it."
    );
    assert_eq!(remedy(PLACE, 64), "Keep one outside of the loop, or take one on the stack.");
}

/// A mapping of its own for each block takes more than a hundred small ones.
#[test]
fn huge_blocks_come_before_many_small_ones() {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    let mut temporary = |frames: &[&str], allocations: u64, size: u64| {
        let patterns = Patterns { alternating: allocations, ..sizes(size, size) };
        b.site(process, frames, blocks(allocations, size, allocations, 0)).patterns = patterns.into();
    };
    temporary(&["frames@a.c:5", "main@a.c:10"], 15_000, 40_000_000);
    temporary(&["small@a.c:6", "main@a.c:11"], 1_000_000, 40);
    let found = all(&b.profile);
    let shares: Vec<_> = found.iter().map(|f| (f.frame.function.as_str(), f.malloc_share > 0.5)).collect();
    assert_eq!(shares, [("frames", true), ("small", false)], "{found:#?}");
}

fn alternating_at(frames: &[&str], size: u64) -> Profile {
    beside(frames, blocks(30_000, size, 0, 0), Patterns { alternating: 30_000, ..sizes(size, size) })
}
