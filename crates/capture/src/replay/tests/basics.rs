//! One record after another.

use super::*;
use mallow_profile::{Counts, Stacks};

/// Stacks 0 (main), 1 (main, f) and 2 (main, f, g).
fn stacks() -> Tape {
    Tape::default().thread(7).time(5).stack(0, &[0x1010]).stack(1, &[0x1020]).stack(2, &[0x1030])
}

const MAIN: &[u64] = &[0x110];
const F: &[u64] = &[0x120, 0x110];
const G: &[u64] = &[0x130, 0x120, 0x110];

#[test]
fn counts_by_site() {
    let tape = stacks()
        .alloc(0, 0x10, 100, 0)
        .alloc(1, 0x20, 30, 1)
        .free(0x20) // temporary
        .time(9)
        .alloc(0, 0x30, 1, 2)
        .alloc(0, 0x40, 2, 2)
        .free(0x30);
    let p = replayed(tape);
    let main = Counts { allocations: 1, allocated_bytes: 100, live: 1, live_bytes: 100, ..Counts::default() };
    assert_eq!(site(&p, MAIN).counts, Counts { peak: 1, peak_bytes: 100, ..main });
    let f = site(&p, F).counts;
    assert_eq!((f.allocations, f.frees, f.temporary, f.temporary_bytes), (1, 1, 1, 30));
    assert_eq!((f.peak, f.peak_bytes), (1, 30));
    let g = site(&p, G);
    assert_eq!((g.counts.allocations, g.counts.frees, g.counts.temporary, g.counts.live), (2, 1, 0, 1));
    assert_eq!((g.live_oldest_ms, g.live_youngest_ms), (9, 9));
    assert_eq!((p.totals.peak_bytes, p.peak_ms), (130, 5));
    assert_eq!((p.processes[0].own_peak_bytes, p.processes[0].own_peak_ms), (130, 5));
    assert_eq!(p.processes[0].families.calls[1], (1, 30));
    assert_eq!(p.processes[0].threads, 1);
    assert_eq!(p.processes[0].totals, p.totals);
    assert_eq!((p.ending.damaged, p.processes[0].foreign_frees, p.processes[0].end_ms), (0, 0, 1000));
}

#[test]
fn realloc_in_all_ways() {
    let mut replay = started();
    let tape = stacks()
        .alloc(0, 0x10, 10, 0)
        .begin(0x10)
        .done(0x10, 20, 1) // in place
        .begin(0x10)
        .done(0x50, 40, 2) // moved
        .begin(0x50)
        .failed()
        .alloc(0, 0x60, 5, 0)
        .begin(0x60)
        .freed()
        .begin(0x99) // never seen
        .done(0xa0, 7, 0);
    words(&mut replay, 0, 0, tape);
    let p = profile(replay);
    assert_eq!((site(&p, F).counts.reallocs_in_place, site(&p, F).counts.frees), (1, 1));
    assert_eq!((site(&p, G).counts.reallocs_moved, site(&p, G).counts.live_bytes), (1, 40));
    assert_eq!((site(&p, MAIN).counts.reallocs_moved, site(&p, MAIN).counts.live_bytes), (1, 7));
    let families = &p.processes[0].families;
    assert_eq!((families.frees, families.realloc_frees), (0, 4));
    assert_eq!((families.reallocs_in_place, families.reallocs_moved), (1, 2));
    assert_eq!(families.calls[2], (3, 67));
    assert_eq!(p.processes[0].foreign_frees, 1);
    assert_eq!((p.totals.allocations, p.totals.frees, p.totals.live), (5, 3, 2));
}

#[test]
fn a_realloc_under_way_at_the_end_keeps_its_block() {
    let p = replayed(stacks().alloc(0, 0x10, 10, 0).begin(0x10));
    assert_eq!((p.totals.live, p.totals.frees), (1, 0));
}

#[test]
fn the_stack_used_last_is_what_is_kept() {
    let tape =
        stacks().alloc(0, 0x10, 1, 0).stack(1, &[0x1040]).alloc(0, 0x20, 1, 3).stack(0, &[]).alloc(0, 0x30, 1, 4);
    let p = replayed(tape);
    assert_eq!(site(&p, &[0x140, 0x110]).counts.allocations, 1);
    assert_eq!(site(&p, &[]).stack, Stacks::ROOT);
}

#[test]
fn a_cut_stack_hangs_under_the_cut_root() {
    let tape = stacks().stack_flags(4, 2, &[0x1050]).alloc(0, 0x10, 1, 3).alloc(0, 0x20, 1, 2);
    let p = replayed(tape);
    let cut = site(&p, &[0x150, 0x120, 0x110]);
    assert!(p.stacks.is_cut(cut.stack) && !p.stacks.is_cut(site(&p, G).stack));
    assert_eq!(p.ending.damaged, 0);
}

#[test]
fn frames_are_relative_to_modules_and_exact_where_a_signal_hit() {
    let exact = 1 << 63;
    let tape = Tape::default().stack(0, &[0x1010 | exact, 0x9000, 0x9001, 0x77]).alloc(0, 0x10, 1, 0);
    let p = replayed(tape);
    let frames: Vec<_> = p
        .stacks
        .frames(p.sites[0].stack)
        .map(|f| &p.frames[f.0 as usize])
        .map(|f| (f.module.is_some(), f.address, f.exact))
        .collect();
    // 0x9000 is the return address of a call that is the module's last instruction.
    assert_eq!(frames, [(false, 0x77, false), (false, 0x9001, false), (true, 0x8100, false), (true, 0x110, true)]);
}

#[test]
fn processes_share_modules_frames_and_stacks_but_no_blocks() {
    let mut replay = started();
    process(&mut replay, 1);
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 100, 2));
    round(&mut replay, 6);
    words(&mut replay, 1, 0, stacks().time(7).free(0x10).alloc(0, 0x20, 50, 2));
    round(&mut replay, 7);
    round(&mut replay, 8);
    replay.feed(&Chunk::ProcessEnd { process: 0, ms: 9, lost: 3 }).unwrap();
    assert_eq!((replay.progress().live_bytes, replay.progress().lost), (50, 3));
    words(&mut replay, 1, 0, Tape::default().alloc(0, 0x30, 60, 2));
    let p = profile(replay);
    assert_eq!((p.modules.len(), p.frames.len(), p.stacks.len()), (1, 3, 5));
    assert_eq!((p.sites.len(), p.sites[0].stack), (2, p.sites[1].stack));
    assert_eq!((p.processes[0].foreign_frees, p.processes[1].foreign_frees), (0, 1));
    assert_eq!((p.totals.peak_bytes, p.peak_ms), (150, 7));
    assert_eq!((p.processes[0].totals.peak_bytes, p.processes[1].totals.peak_bytes), (100, 50));
    assert_eq!((p.processes[1].own_peak_bytes, p.processes[1].totals.live), (110, 2));
    assert_eq!((p.processes[0].end_ms, p.ending.lost), (9, 3));
}

#[test]
fn a_module_takes_the_place_of_another() {
    let mut replay = started();
    let once = |tape: Tape, stack| tape.stack(0, &[0x2010]).alloc(0, 0x10, 1, stack).free(0x10);
    words(&mut replay, 0, 0, once(Tape::default(), 0));
    module(&mut replay, 0, "/lib/b", 0x2000..0x3000, 1);
    words(&mut replay, 0, 0, once(once(Tape::default(), 1).generation(1), 0).stack(0, &[0x3010]).alloc(0, 0x10, 1, 1));
    let p = profile(replay);
    let named: Vec<_> = p.frames.iter().map(|f| (&*p.modules[f.module.unwrap().0 as usize].path, f.address)).collect();
    assert_eq!(named, [("/bin/a", 0x1110), ("/lib/b", 0x110), ("/bin/a", 0x2110)]);
    assert_eq!(p.sites[0].counts.allocations, 2);
}

#[test]
fn nonsense_is_counted_and_passed_over() {
    let mut replay = started();
    // An unknown op ends its chunk, and the next chunk goes on.
    let mut tape = stacks().alloc(0, 0x10, 1, 0);
    tape.0.push(0xee << 56);
    words(&mut replay, 0, 0, tape.free(0x10));
    words(&mut replay, 0, 0, Tape::default().alloc(0, 0x20, 1, 99)); // no such stack
    words(&mut replay, 0, 0, Tape::default().stack(77, &[0x1010]).alloc(0, 0x30, 1, 3)); // nothing to keep
    words(&mut replay, 0, 0, Tape::default().done(0x40, 1, 0)); // no BEGIN
    words(&mut replay, 0, 0, Tape::default().alloc_wide(0x50, 1 << 60, 0)); // absurd size
    words(&mut replay, 0, 0, Tape::default().stack(4000, &[1; 200]));
    words(&mut replay, 9, 0, Tape::default().alloc(0, 0x50, 1, 0)); // no such process
    words(&mut replay, 0, 0, Tape(vec![record::head(record::OP_ALLOC, 0, 0x60)])); // half a record
    let p = profile(replay);
    assert_eq!(p.ending.damaged, 8);
    assert_eq!((p.totals.allocations, p.totals.live), (3, 3));
    assert_eq!(site(&p, &[]).counts.allocations, 1);
    assert!(p.sites.iter().any(|s| p.stacks.is_cut(s.stack)));
}

#[test]
fn wide_sizes_and_lost_events() {
    let p = replayed(stacks().alloc_wide(0x10, 1 << 41, 0).lost(5).free(0x10));
    assert_eq!((p.totals.allocated_bytes, p.totals.freed_bytes, p.ending.lost), (1 << 41, 1 << 41, 5));
}

#[test]
fn size_and_stack_that_repeat_are_those_of_the_last_word() {
    let tape = stacks().alloc(0, 0x10, 8, 1).alloc_same(1, 0x20).alloc_wide(0x30, 1 << 41, 0).alloc_same(0, 0x40);
    let p = replayed(tape.clone());
    assert_eq!((site(&p, F).counts.allocations, site(&p, F).counts.allocated_bytes), (3, 24));
    assert_eq!((p.processes[0].families.calls[1], p.ending.damaged), ((1, 8), 0));
    // Nothing is repeated across a generation, and a realloc without a size leaves its block where it was.
    let p = replayed(tape.generation(1).stack(0, &[0x1010]).alloc_same(0, 0x50).begin(0x10).word(9, 16, 0x60));
    assert_eq!((p.totals.allocations, p.totals.live, p.ending.damaged), (4, 4, 2));
}

#[test]
fn what_a_process_leaked_before_the_peak_is_no_part_of_it() {
    let mut replay = started();
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 100, 0));
    (1..4).for_each(|ms| round(&mut replay, ms));
    replay.feed(&Chunk::ProcessEnd { process: 0, ms: 4, lost: 0 }).unwrap();
    process(&mut replay, 1);
    words(&mut replay, 1, 0, stacks().alloc(0, 0x10, 101, 0));
    let p = profile(replay);
    assert_eq!((p.totals.peak, p.totals.peak_bytes), (1, 101));
    assert_eq!((p.processes[0].totals.peak, p.processes[1].totals.peak), (0, 1));
}

#[test]
fn an_address_handed_out_twice_was_freed_unseen() {
    let p = replayed(stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x10, 9, 1));
    assert_eq!((site(&p, MAIN).counts.frees, site(&p, F).counts.live), (1, 1));
    assert_eq!((p.processes[0].families.frees, p.totals.temporary), (0, 0));
}

#[test]
fn a_free_that_comes_after_its_block_went_unseen_is_no_other_free() {
    let p = replayed(stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x10, 9, 1).free(0x10).free(0x10));
    assert_eq!((p.totals.frees, p.totals.live), (2, 0));
    assert_eq!((p.processes[0].families.frees, p.processes[0].foreign_frees), (2, 0));
}

#[test]
fn a_free_that_comes_before_its_block_belongs_to_it_in_the_end() {
    let mut replay = started();
    words(&mut replay, 0, 0, stacks());
    words(&mut replay, 0, 1, stacks().free(0x10));
    (1..5).for_each(|ms| round(&mut replay, ms));
    words(&mut replay, 0, 0, Tape::default().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 9, 0));
    (5..8).for_each(|ms| round(&mut replay, ms));
    let p = profile(replay);
    assert_eq!((p.totals.allocations, p.totals.frees, p.totals.live, p.totals.live_bytes), (2, 1, 1, 9));
    assert_eq!((p.processes[0].families.frees, p.processes[0].foreign_frees), (1, 0));
}

#[test]
fn a_free_that_comes_after_the_next_block_is_the_older_ones() {
    let mut replay = started();
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 8, 0));
    words(&mut replay, 0, 1, stacks());
    (1..4).for_each(|ms| round(&mut replay, ms));
    words(&mut replay, 0, 1, Tape::default().alloc(0, 0x10, 9, 1));
    (4..8).for_each(|ms| round(&mut replay, ms));
    words(&mut replay, 0, 0, Tape::default().free(0x10));
    (8..12).for_each(|ms| round(&mut replay, ms));
    let p = profile(replay);
    assert_eq!((site(&p, MAIN).counts.frees, site(&p, F).counts.live), (1, 1));
    assert_eq!((p.totals.frees, p.processes[0].foreign_frees), (1, 0));
}

#[test]
fn the_sink_gets_the_same_story() {
    let mut replay = Replay::new(Options::default(), Log::default());
    process(&mut replay, 0);
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 8, 0).begin(0x10).done(0x20, 9, 1).free(0x20).free(0x30));
    let (_, log) = replay.finish(End::default());
    let events: Vec<_> = log.unwrap().0.into_iter().map(|(_, event)| event).collect();
    let (first, second) = (Call { family: 0, site: 0, size: 8 }, Call { family: 2, site: 1, size: 9 });
    let block = |sequence, call: Call| Some(Block { sequence, site: call.site, size: call.size, ms: 5, thread: 0 });
    assert_eq!(
        events,
        [
            Event::Allocate(first),
            Event::Reallocate { call: second, old: block(0, first), moved: true },
            Event::Free(block(1, second)),
            Event::Free(None),
            Event::EndProcess,
        ]
    );
}

/// Mallow begins before the command. On a busy machine it may notice a second late that it has ended: the drain does so
/// in time.
#[test]
fn the_run_is_the_commands_and_not_mallows() {
    let run = |command: u32, ends: [Option<u64>; 2]| {
        let mut replay = Replay::new(Options::default(), ());
        for (number, end) in (0..).zip(ends) {
            let start = ProcessStart { process: number, pid: 100 + number, start_ms: 44, ..ProcessStart::default() };
            replay.feed(&Chunk::Process(start)).unwrap();
            if let Some(ms) = end {
                replay.feed(&Chunk::ProcessEnd { process: number, ms, lost: 0 }).unwrap();
            }
        }
        let end = End { duration_ms: 1939, started: Some((command, 41)), ..End::default() };
        replay.finish(end).0.run_ms
    };
    assert_eq!(run(100, [Some(306), Some(200)]), Some(41..306));
    // A child that lives on, and a command that was not seen.
    assert_eq!(run(100, [Some(306), None]), Some(41..1939));
    assert_eq!(run(7, [Some(306), Some(200)]), Some(41..1939));
    assert_eq!(profile(started()).run_ms, None);
}
