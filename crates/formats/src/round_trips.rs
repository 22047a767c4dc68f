//! What is written and read back says the same.

use std::collections::BTreeMap;

use mallow_profile::{Block, Call, Counts, Event, Frame, FrameId, Line, Moment, Profile, Quantity};
use proptest::prelude::*;
use serde_json::Value;

use super::frames::{PICTURES, functions};
use super::{Foreign, dhat, folded, heaptrack, pprof, read, write_dtrace, write_firefox, write_speedscope};
use mallow_report::analysis::place_name;
use mallow_report::testing::Builder;
use mallow_report::testing::random::profile;

fn back(bytes: &[u8]) -> Profile {
    let Foreign { profile, .. } = read(bytes, Some(bytes.len() as u64), &mut |_| {}).expect("readable");
    assert_eq!(profile.check(), Ok(()));
    profile
}

/// Sums by whole stacks; a name shows which of them are cut.
fn by_stack(profile: &Profile, keep: fn(&Counts) -> Counts) -> BTreeMap<Vec<String>, Counts> {
    let mut all = BTreeMap::new();
    for site in &profile.sites {
        let mut stack: Vec<String> = Vec::new();
        for frame in profile.stacks.frames(site.stack) {
            let raw = &profile.frames[frame.0 as usize];
            match raw.lines.is_empty() {
                // By the address that views show.
                true => stack.push(place_name(profile, raw)),
                false => stack.extend(functions(profile, frame).iter().map(|function| function.name.to_string())),
            }
        }
        if profile.stacks.is_cut(site.stack) {
            stack.push("…".to_owned());
        }
        *all.entry(stack).or_insert_with(Counts::default) += keep(&site.counts);
    }
    all.retain(|_, counts| *counts != Counts::default());
    all
}

fn all(counts: &Counts) -> Counts {
    *counts
}

/// Numbers, without names: frames without one get theirs from their address in some formats.
fn numbers(sums: BTreeMap<Vec<String>, Counts>) -> Vec<Counts> {
    let mut numbers: Vec<_> = sums.into_values().collect();
    numbers.sort_by_key(|c| (c.allocations, c.peak_bytes, c.live_bytes, c.temporary));
    numbers
}

/// The only number of folded stacks.
fn only(quantity: Quantity, c: &Counts) -> Counts {
    let zero = Counts::default();
    match quantity {
        Quantity::Allocations => Counts { allocations: c.allocations, ..zero },
        Quantity::AllocatedBytes => Counts { allocated_bytes: c.allocated_bytes, ..zero },
        Quantity::PeakBytes => Counts { peak_bytes: c.peak_bytes, ..zero },
        Quantity::LiveBytes => Counts { live_bytes: c.live_bytes, ..zero },
        _ => Counts { temporary: c.temporary, ..zero },
    }
}

const FOLDED: [Quantity; 5] =
    [Quantity::Allocations, Quantity::AllocatedBytes, Quantity::PeakBytes, Quantity::LiveBytes, Quantity::Temporary];

proptest! {
    #[test]
    fn pprof_keeps_all_sums_of_all_stacks(profile in profile()) {
        let mut out = Vec::new();
        pprof::write(&profile, &mut out).expect("written");
        if profile.sites.is_empty() {
            return Ok(());
        }
        let back = back(&out);
        prop_assert_eq!(back.totals, profile.totals);
        prop_assert_eq!(by_stack(&back, all), by_stack(&profile, all));
        prop_assert_eq!(back.processes[0].pid, profile.processes[0].pid);
        prop_assert!(pprof::carries().iter().filter(|quantity| **quantity != Quantity::Started).all(|&quantity| back.has(quantity)));
    }

    #[test]
    fn folded_keeps_each_measure_of_all_stacks(profile in profile()) {
        for quantity in FOLDED {
            let mut out = Vec::new();
            folded::write(&profile, quantity, &mut out).expect("written");
            let sums = numbers(by_stack_of_names(&profile, quantity));
            // Several frames make folded stacks known as such.
            if !out.split(|byte| *byte == b'\n').any(|line| line.contains(&b';')) {
                continue;
            }
            let back = back(&out);
            prop_assert!(back.has(quantity));
            prop_assert_eq!(only(quantity, &back.totals), only(quantity, &profile.totals));
            prop_assert_eq!(numbers(by_stack(&back, all)), sums);
        }
    }

    #[test]
    fn dtrace_keeps_allocations_of_all_stacks(profile in profile()) {
        let mut out = Vec::new();
        write_dtrace(&profile, &mut out).expect("written");
        let allocations = |counts: &Counts| only(Quantity::Allocations, counts);
        if allocations(&profile.totals) == Counts::default() {
            return Ok(());
        }
        let back = back(&out);
        prop_assert_eq!(allocations(&back.totals), allocations(&profile.totals));
        prop_assert_eq!(numbers(by_stack(&back, all)), numbers(by_stack_of_names(&profile, Quantity::Allocations)));
        // As the scripts read it that compare such files: a line is a frame or a number, whatever a function is called.
        let text = String::from_utf8(out).expect("text");
        let sum = text.lines().filter(|line| !line.is_empty()).map(|line| {
            assert!(line.starts_with(' '), "{line}");
            line.trim().bytes().all(|b| b.is_ascii_hexdigit() || b == b'x').then(|| line.trim().parse::<u64>().expect("decimal"))
        });
        prop_assert_eq!(sum.flatten().sum::<u64>(), profile.totals.allocations);
    }

    #[test]
    fn dhat_keeps_what_it_has(profile in profile(), with_lives: bool) {
        if profile.sites.is_empty() {
            return Ok(());
        }
        let mut lives = dhat::Lives::new(&profile);
        lives.finish();
        let mut out = Vec::new();
        dhat::write(&profile, with_lives.then_some(&lives), &mut out).expect("written");
        let back = back(&out);
        let t = profile.totals;
        let kept = Counts { temporary: 0, temporary_bytes: 0, ..t };
        let without = Counts { allocations: t.allocations, allocated_bytes: t.allocated_bytes, ..Counts::default() };
        prop_assert_eq!(back.totals, if with_lives { kept } else { without });
        prop_assert!(dhat::carries(with_lives).iter().all(|&quantity| back.has(quantity)));
    }

    #[test]
    fn pictures_weigh_what_was_counted(profile in profile()) {
        let mut out = Vec::new();
        write_speedscope(&profile, "test", &mut out).expect("written");
        let speedscope: Value = serde_json::from_slice(&out).expect("JSON");
        out.clear();
        write_firefox(&profile, "test", &mut out).expect("written");
        let firefox: Value = serde_json::from_slice(&out).expect("JSON");
        let sum = |weights: &Value| weights.as_array().expect("weights").iter().filter_map(Value::as_u64).sum::<u64>();
        for (at, picture) in PICTURES.iter().enumerate() {
            let expected = (picture.of)(&profile.totals);
            prop_assert_eq!(sum(&speedscope["profiles"][at]["weights"]), expected, "{}", picture.name);
            prop_assert_eq!(sum(&firefox["threads"][at]["samples"]["weight"]), expected, "{}", picture.name);
        }
    }

    /// Blocks are allocated and freed at random; heaptrack's reader adds them up again.
    #[test]
    fn heaptrack_keeps_events(steps in prop::collection::vec((0..6usize, 1..200u64, any::<prop::sample::Index>()), 1..200)) {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 1000);
        for frames in [&["f", "main"][..], &["g", "f", "main"], &["+0x10"], &["main"]] {
            b.site(process, frames, Counts::default());
        }
        let sites = b.profile.sites.len();
        let mut out = Vec::new();
        let mut writer = heaptrack::Writer::new(&b.profile, &mut out).expect("begins");
        let (mut live, mut expected): (Vec<Block>, Counts) = Default::default();
        for (at, (what, size, which)) in steps.into_iter().enumerate() {
            let moment = Moment { process: 0, thread: 0, ms: at as u64 / 3 };
            if what >= sites {
                let Some(block) = (!live.is_empty()).then(|| live.swap_remove(which.index(live.len()))) else { continue };
                expected.frees += 1;
                expected.freed_bytes += block.size;
                writer.add(moment, Event::Free(Some(block)));
                continue;
            }
            let site = what as u32;
            live.push(Block { sequence: at as u64, site, size, ms: moment.ms, thread: 0 });
            expected.allocations += 1;
            expected.allocated_bytes += size;
            let bytes = live.iter().map(|block| block.size).sum();
            if bytes > expected.peak_bytes {
                (expected.peak, expected.peak_bytes) = (live.len() as u64, bytes);
            }
            writer.add(moment, Event::Allocate(Call { family: 0, site, size }));
        }
        writer.finish().expect("ends");
        (expected.live, expected.live_bytes) = (live.len() as u64, live.iter().map(|block| block.size).sum());
        if expected.allocations == 0 {
            return Ok(());
        }
        let back = back(&out);
        let actual = Counts { temporary: 0, temporary_bytes: 0, ..back.totals };
        prop_assert_eq!(actual, expected);
        prop_assert!(heaptrack::CARRIES.iter().all(|&quantity| back.has(quantity)));
    }

    /// Names are data: whatever is in them comes back.
    #[test]
    fn pprof_keeps_any_name(names in prop::collection::vec("\\PC{1,12}|[\u{0}-\u{1f};(\"]{1,4}", 1..6)) {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &[], mallow_report::testing::blocks(3, 8, 1, 1));
        let mut stack = mallow_profile::Stacks::ROOT;
        for (at, name) in names.iter().enumerate() {
            let line = Line { function: b.profile.strings.intern(name), file: None, line: 0 };
            b.profile.frames.push(Frame { lines: vec![line], ..Frame::new(None, at as u64 + 1, true) });
            stack = b.profile.stacks.push(stack, FrameId(at as u32));
        }
        b.profile.sites[0].stack = stack;
        let mut out = Vec::new();
        pprof::write(&b.profile, &mut out).expect("written");
        prop_assert_eq!(by_stack(&back(&out), all), by_stack(&b.profile, all));
    }
}

/// Sums by what folded stacks know: names, those of addresses among them.
fn by_stack_of_names(profile: &Profile, quantity: Quantity) -> BTreeMap<Vec<String>, Counts> {
    let mut sums = BTreeMap::new();
    for site in &profile.sites {
        let frames = profile.stacks.frames(site.stack);
        let stack = frames.flat_map(|frame| functions(profile, frame)).map(|f| f.name.into_owned()).collect::<Vec<_>>();
        *sums.entry(stack).or_insert_with(Counts::default) += only(quantity, &site.counts);
    }
    sums.retain(|_, counts| *counts != Counts::default());
    sums
}
