//! Against a list of all lives, in which everything is looked up.

use std::collections::BTreeMap;

use mallow_profile::{Block, Call, Counts, Event, Moment, ProcessId, Profile, Quantity, Region, Thread};
use proptest::prelude::*;

use super::{BUCKETS_MAX, BlockChoice, CELLS_MAX, LifeGrid, LifeGridBuilder, RegionSpan};
use crate::analysis::{Measure, Over, TimelineBuilder, TimelineOptions, TopOptions, top};
use crate::testing::{Builder, blocks};

const SITES: u32 = 5;
const THREADS: u32 = 4;

/// Sites and threads belong to the process that is their number modulo 2.
fn profile(duration_ms: u64) -> Profile {
    let mut b = Builder::default();
    let processes = [b.process(1, &["a"], 10), b.process(2, &["b"], 10)];
    for site in 0..SITES {
        b.site(processes[site as usize % 2], &[&format!("f{site}@a.c:1"), "main"], blocks(9, 100, 0, 0));
    }
    b.profile.threads = (0..THREADS).map(|tid| Thread { process: ProcessId(tid % 2), tid }).collect();
    Profile { duration_ms, ..b.profile }
}

/// Milliseconds since the last event, milliseconds that the thread's clock lags, what, with which thread, site and
/// block, and of which size.
type Story = Vec<(u64, u64, u8, u32, u32, usize, u64)>;

fn story() -> impl Strategy<Value = Story> {
    let step = (0..4u64, 0..3u64, 0..16u8, 0..THREADS, 0..SITES, 0..9usize, 0..50u64);
    proptest::collection::vec(step, 0..80)
}

#[derive(Clone, Copy, Debug)]
struct Life {
    block: Block,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Milliseconds, and whether it was temporary.
    Freed(u64, bool),
    /// With its process, milliseconds.
    Process(u64),
    Never,
}

#[derive(Default)]
struct Run {
    /// With the number of allocations before each.
    events: Vec<(u64, Moment, Event)>,
    lives: Vec<Life>,
    last_of_thread: [Option<u64>; THREADS as usize],
}

impl Run {
    fn born(&mut self, at: Moment, call: Call) {
        let sequence = self.lives.len() as u64;
        let block = Block { sequence, site: call.site, size: call.size, ms: at.ms, thread: at.thread as u8 };
        self.lives.push(Life { block, end: End::Never });
        self.last_of_thread[at.thread as usize] = Some(sequence);
    }

    /// Ends a block of the thread's process that is live.
    fn take(&mut self, at: Moment, which: usize) -> Option<Block> {
        let mine = |life: &&mut Life| life.end == End::Never && life.block.site % 2 == at.process;
        let count = self.lives.iter_mut().filter(mine).count();
        let life = self.lives.iter_mut().filter(mine).nth(which % count.max(1))?;
        let is_temporary = self.last_of_thread[at.thread as usize] == Some(life.block.sequence);
        life.end = End::Freed(at.ms, is_temporary);
        Some(life.block)
    }
}

fn run(story: &Story) -> Run {
    let mut run = Run::default();
    let (mut ms, mut ended) = (0, [false; 2]);
    for &(step, lag, what, thread, site, which, size) in story {
        ms += step;
        let process = thread % 2;
        let site = (site / 2 * 2 + process) % (SITES + process % 2);
        let site = if site >= SITES { process } else { site };
        if ended[process as usize] {
            continue;
        }
        let at = Moment { process, thread, ms: ms.saturating_sub(lag) };
        let call = Call { family: 0, site, size };
        let number = run.lives.len() as u64;
        let event = match what {
            0 => {
                ended[process as usize] = true;
                let mine = run.lives.iter_mut().filter(|l| l.end == End::Never && l.block.site % 2 == process);
                mine.for_each(|life| life.end = End::Process(at.ms));
                Event::EndProcess
            }
            1..4 => Event::Free(run.take(at, which)),
            4 => match run.take(at, which) {
                Some(block) => Event::UnseenFree(block),
                None => continue,
            },
            5 => Event::ReallocFree(run.take(at, which)),
            6 => Event::Region { number: 1, end: false, this_thread: true },
            7 | 8 => {
                let old = run.take(at, which);
                run.born(at, call);
                Event::Reallocate { call, old, moved: what == 7 }
            }
            _ => {
                run.born(at, call);
                Event::Allocate(call)
            }
        };
        run.events.push((number, at, event));
    }
    // What is live when nothing but the ends of processes comes is live at the end.
    let tail = run.events.iter().rev().take_while(|(_, _, event)| *event == Event::EndProcess);
    let last: Vec<u32> = tail.map(|(_, at, _)| at.process).collect();
    for life in run.lives.iter_mut().filter(|life| last.contains(&(life.block.site % 2))) {
        if matches!(life.end, End::Process(_)) {
            life.end = End::Never;
        }
    }
    run
}

fn grid(run: &Run, mut builder: LifeGridBuilder) -> LifeGrid {
    run.events.iter().for_each(|(number, at, event)| builder.event(*number, *at, event));
    builder.finish()
}

fn expected(run: &Run, from: u64, to: u64, choice: BlockChoice) -> Vec<(u32, Counts)> {
    let mut sums: BTreeMap<u32, Counts> = BTreeMap::new();
    for Life { block, end } in &run.lives {
        let born_within = (from..to).contains(&block.ms);
        let live_at_end = match end {
            End::Freed(ms, _) | End::Process(ms) => *ms >= to,
            End::Never => true,
        };
        let chosen = match choice {
            BlockChoice::Allocated => born_within,
            BlockChoice::Live => block.ms < to && live_at_end,
            BlockChoice::Freed => matches!(end, End::Freed(ms, _) if (from..to).contains(ms)),
            BlockChoice::Left => born_within && live_at_end,
        };
        if !chosen {
            continue;
        }
        let size = block.size;
        let mut counts = Counts { allocations: 1, allocated_bytes: size, ..Counts::default() };
        match end {
            End::Freed(_, temporary) => {
                (counts.frees, counts.freed_bytes) = (1, size);
                if *temporary {
                    (counts.temporary, counts.temporary_bytes) = (1, size);
                }
            }
            End::Process(_) | End::Never => (counts.live, counts.live_bytes) = (1, size),
        }
        *sums.entry(block.site).or_default() += counts;
    }
    sums.into_iter().collect()
}

const CHOICES: [BlockChoice; 4] = [BlockChoice::Allocated, BlockChoice::Live, BlockChoice::Freed, BlockChoice::Left];

proptest! {
    #[test]
    fn each_range_has_the_blocks_that_a_look_at_all_lives_finds(
        story in story(), buckets in 1..40usize, cells in 1..60usize, more in 0..9u64,
    ) {
        let run = run(&story);
        let last = run.events.iter().map(|(_, at, _)| at.ms).max().unwrap_or(0);
        let profile = profile(last + more);
        let grid = grid(&run, LifeGridBuilder::with_bounds(&profile, buckets, cells));
        let boundaries = grid.boundaries();
        prop_assert!(boundaries.len() <= buckets + 1 && boundaries.is_sorted_by(|a, b| a < b));
        prop_assert_eq!((boundaries[0], boundaries.last()), (0, Some(&(last + more + 1))));
        let ends = |at: &usize| at.is_multiple_of(grid.step()) || *at == boundaries.len() - 1;
        prop_assert!((0..boundaries.len()).all(|at| grid.range(0, boundaries[at]).is_some() == ends(&at)));
        for (at, from) in (0..boundaries.len()).filter(ends).map(|at| (at, boundaries[at])) {
            for to in (at..boundaries.len()).filter(ends).map(|to| boundaries[to]) {
                let range = grid.range(from, to).expect("two boundaries");
                for choice in CHOICES {
                    let found = grid.counts(range, choice);
                    prop_assert_eq!(found, expected(&run, from, to, choice), "{:?} {} {}", choice, from, to);
                }
            }
            let live = expected(&run, from, from, BlockChoice::Live);
            let bytes: u64 = live.iter().map(|(_, counts)| counts.allocated_bytes).sum();
            prop_assert_eq!(grid.series().live_at[at], bytes);
        }
        prop_assert_eq!(grid.series().live_at.len(), boundaries.len());
        let mut chosen = profile.clone();
        for choice in CHOICES {
            let whole = grid.range(0, last + more + 1).expect("the whole");
            grid.choose(whole, choice, &profile.sites, &mut chosen);
            prop_assert_eq!(chosen.check(), Ok(()));
        }
    }

    #[test]
    fn series_are_those_of_timelines_and_lives(story in story(), buckets in 1..40usize, more in 0..9u64) {
        let run = run(&story);
        let last = run.events.iter().map(|(_, at, _)| at.ms).max().unwrap_or(0);
        let profile = profile(last + more);
        let grid = grid(&run, LifeGridBuilder::with_bounds(&profile, buckets, CELLS_MAX));
        let series = grid.series();
        for (bucket, bounds) in grid.boundaries().windows(2).enumerate() {
            let sum = |choice| {
                let range = grid.range(bounds[0], bounds[1]).expect("two boundaries");
                let mut sum = Counts::default();
                grid.counts(range, choice).into_iter().for_each(|(_, counts)| sum += counts);
                sum
            };
            let allocated = sum(BlockChoice::Allocated);
            prop_assert_eq!(series.allocations[bucket], allocated.allocations);
            prop_assert_eq!(series.allocated_bytes[bucket], allocated.allocated_bytes);
            prop_assert_eq!(series.freed_bytes[bucket], sum(BlockChoice::Freed).freed_bytes);
        }
        let options = TimelineOptions { by: Over::LiveBytes, window: (0, None), points: buckets, bands: 1 };
        let mut timeline = TimelineBuilder::new(&profile, options);
        if !timeline.wants_counting() {
            run.events.iter().for_each(|(_, at, event)| timeline.event(*at, event));
            let points: Vec<u64> = timeline.finish().points.iter().map(|point| point.value).collect();
            prop_assert_eq!(&series.live, &points);
        }
    }
}

proptest! {
    /// Where no thread's clock lags, what is live is known between the boundaries of cells, too.
    #[test]
    fn series_are_as_fine_however_few_cells_there_are(mut story in story(), cells in 1..20usize, more in 0..9u64) {
        story.iter_mut().for_each(|step| step.1 = 0);
        let run = run(&story);
        let last = run.events.iter().map(|(_, at, _)| at.ms).max().unwrap_or(0);
        let profile = profile(last + more);
        let few = grid(&run, LifeGridBuilder::with_bounds(&profile, 40, cells));
        let many = grid(&run, LifeGridBuilder::with_bounds(&profile, 40, CELLS_MAX));
        prop_assert_eq!(few.series(), many.series());
        prop_assert_eq!(few.boundaries(), many.boundaries());
    }
}

#[test]
fn a_story_that_can_be_followed_by_hand() {
    let allocate = |thread, site, size| (1, 0, 10, thread, site, 0, size);
    // At 1, 2, 3 and 4 ms; then the first one of process 0 is freed at 6, the last by its thread at 6, and both end at
    // 9 and 10.
    let story = vec![
        allocate(0, 0, 100),
        allocate(1, 1, 30),
        allocate(0, 2, 50),
        allocate(2, 2, 7),
        (2, 0, 1, 0, 0, 0, 0),
        (0, 0, 1, 2, 0, 1, 0),
        (3, 0, 0, 1, 0, 0, 0),
        (1, 0, 0, 0, 0, 0, 0),
    ];
    let run = run(&story);
    let profile = profile(11);
    let grid = grid(&run, LifeGridBuilder::with_bounds(&profile, 6, CELLS_MAX));
    assert_eq!(grid.boundaries(), [0, 2, 4, 6, 8, 10, 12]);
    let series = grid.series();
    assert_eq!(series.live, [100, 180, 187, 187, 80, 50]);
    assert_eq!(series.live_at, [0, 100, 180, 187, 80, 80, 80]);
    assert_eq!((&series.allocations[..], series.freed_bytes[3]), (&[1, 2, 1, 0, 0, 0][..], 107));
    let bytes = |from, to, choice| {
        let found = grid.counts(grid.range(from, to).expect("boundaries"), choice);
        found.iter().map(|(site, counts)| (*site, counts.allocated_bytes)).collect::<Vec<_>>()
    };
    assert_eq!(bytes(0, 4, BlockChoice::Allocated), [(0, 100), (1, 30), (2, 50)]);
    assert_eq!(bytes(2, 8, BlockChoice::Left), [(1, 30), (2, 50)]);
    assert_eq!(bytes(6, 8, BlockChoice::Freed), [(0, 100), (2, 7)]);
    assert_eq!(bytes(12, 12, BlockChoice::Live), [(1, 30), (2, 50)]);
    assert_eq!((grid.range(0, 3), grid.range(4, 2), grid.range(0, 14)), (None, None, None));

    let mut chosen = profile.clone();
    let range = grid.range(4, 12).expect("boundaries");
    grid.choose(range, BlockChoice::Allocated, &profile.sites, &mut chosen);
    let options = TopOptions { by: Measure::Temporary, cum: false, raw: false, limit: 9 };
    let report = top(&chosen, options);
    assert_eq!((report.totals.allocations, report.totals.temporary, report.functions.len()), (1, 1, 1));
    assert_eq!(report.functions[0].function, "f2");
    assert_eq!((chosen.window_ms.clone(), chosen.has(Quantity::Peak)), (Some(4..12), false));
    assert_eq!((chosen.processes[0].totals.allocated_bytes, chosen.processes[1].totals.allocated_bytes), (7, 0));
    // The same profile serves the next question.
    grid.choose(grid.range(0, 2).expect("boundaries"), BlockChoice::Live, &profile.sites, &mut chosen);
    assert_eq!((chosen.sites.len(), chosen.totals.allocated_bytes, chosen.window_ms.clone()), (1, 100, None));
    assert_eq!((chosen.processes[0].totals.allocations, chosen.processes[1].totals.allocations), (1, 0));
}

#[test]
fn an_empty_recording_has_one_bucket_a_millisecond() {
    for (duration_ms, buckets) in [(0, 1), (3, 4), (1023, 1024), (1024, 513), (u64::MAX, BUCKETS_MAX)] {
        let grid = LifeGridBuilder::new(&Profile { duration_ms, ..Profile::default() }).finish();
        assert_eq!(grid.boundaries().len(), buckets + 1);
        let whole = grid.range(0, duration_ms.saturating_add(1)).expect("the whole");
        assert!(CHOICES.iter().all(|&choice| grid.counts(whole, choice).is_empty()));
        assert_eq!(grid.series().live, vec![0; buckets]);
    }
}

#[test]
fn events_that_make_no_sense_do_no_harm() {
    for (duration_ms, cells) in [(u64::MAX, 1), (0, 1), (5000, CELLS_MAX)] {
        let mut builder = LifeGridBuilder::with_bounds(&profile(duration_ms), BUCKETS_MAX, cells);
        for site in [0, 1, 9, u32::MAX] {
            for (block_ms, size) in [(u64::MAX, u64::MAX), (0, 1)] {
                let block = Block { sequence: u64::MAX, site, size, ms: block_ms, thread: 0 };
                let call = Call { family: 200, site, size };
                for event in [
                    Event::Free(Some(block)),
                    Event::Allocate(call),
                    Event::Reallocate { call, old: Some(block), moved: true },
                    Event::EndProcess,
                    Event::Allocate(call),
                ] {
                    for ms in [u64::MAX, 0, 77] {
                        builder.event(u64::MAX, Moment { process: site, thread: site, ms }, &event);
                    }
                }
            }
        }
        let grid = builder.finish();
        let whole = grid.range(0, duration_ms.saturating_add(1)).expect("the whole");
        let found = CHOICES.map(|choice| grid.counts(whole, choice).len());
        assert!(found[0] == 2 && found.iter().all(|sites| *sites <= 2), "{found:?}");
        let (whole_profile, mut chosen) = (profile(duration_ms), profile(duration_ms));
        for choice in CHOICES {
            grid.choose(whole, choice, &whole_profile.sites, &mut chosen);
            assert_eq!(chosen.check(), Ok(()));
        }
    }
}

#[test]
fn runs_of_regions_have_their_times() {
    let region = |number| Region { number, name: "r".into(), run: 0, warmup: false, operations: 0 };
    let profile = Profile { regions: vec![region(1), region(2), region(3)], ..profile(50) };
    let mut builder = LifeGridBuilder::new(&profile);
    let marks = [(2, 3, false), (1, 5, false), (1, 9, true), (9, 9, false), (9, 10, true), (2, 2, true), (2, 11, true)];
    for (number, ms, end) in marks.into_iter().chain([(3, 40, true), (3, 41, false)]) {
        let event = Event::Region { number, end, this_thread: false };
        builder.event(0, Moment { process: 0, thread: 0, ms }, &event);
    }
    let spans = [(1, 5, 9), (2, 3, 3)].map(|(number, begin_ms, end_ms)| RegionSpan { number, begin_ms, end_ms });
    assert_eq!(builder.finish().series().regions, spans);
}

/// More cells than are merged at once, from a clock that goes to and fro, in one bucket at last.
#[test]
fn cells_are_bounded() {
    let profile = profile(1023);
    let mut builder = LifeGridBuilder::with_bounds(&profile, BUCKETS_MAX, 100);
    let events = 300_000u64;
    for number in 0..events {
        let at = Moment { process: 0, thread: 0, ms: number * 7919 % 1024 };
        builder.event(number, at, &Event::Allocate(Call { family: 0, site: 2 * (number % 3) as u32, size: 1 }));
    }
    let grid = builder.finish();
    assert_eq!((grid.boundaries().len(), grid.series().allocations.len()), (1025, 1024));
    assert!(grid.cells() <= 100 && grid.cells() * 2 > 90, "{} cells", grid.cells());
    assert_eq!((grid.step(), grid.nearest(17), grid.nearest(1020)), (32, 32, 1024));
    let half = grid.range(0, 512).expect("a boundary");
    let sum: u64 = grid.counts(half, BlockChoice::Allocated).iter().map(|(_, counts)| counts.allocations).sum();
    let expected = (0..events).filter(|number| number * 7919 % 1024 < 512).count() as u64;
    assert_eq!((sum, grid.series().live_at.last()), (expected, Some(&events)));
}
