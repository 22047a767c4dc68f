//! Runs of measured regions: marks among the events, names at the end, and what was allocated within.

use super::*;
use mallow_profile::Region;

fn region(number: u32, name: &str, warmup: bool) -> Region {
    Region { number, name: name.to_owned(), run: number, warmup, operations: 3 }
}

/// Two threads: run 1 is of the whole process, run 2 of the first thread alone, run 3 of another process.
fn recorded_regions() -> (Vec<u8>, Profile) {
    let sink = Writer::new(Vec::new(), &options()).expect("a writer");
    let mut replay = Replay::new(options(), sink);
    process(&mut replay, 0);
    let stack = |tape: Tape| tape.stack(0, &[0x10]);
    let round = |replay: &mut Replay<Writer<Vec<u8>>>, first: Tape, second: Tape| {
        words(replay, 0, 0, first);
        words(replay, 0, 1, second);
        crate::replay::tests::round(replay, 1);
        crate::replay::tests::round(replay, 1);
    };
    let tape = Tape::default;
    round(&mut replay, stack(tape().thread(5)).alloc(0, 0x100, 1, 0), stack(tape().thread(6)).alloc(0, 0x200, 2, 0));
    round(&mut replay, tape().region(1, false, false), tape());
    round(&mut replay, tape().alloc(0, 0x110, 4, 0).free(0x100), tape().alloc(0, 0x210, 8, 0));
    round(&mut replay, tape().region(1, true, false), tape());
    round(&mut replay, tape().region(2, false, true), tape());
    round(&mut replay, tape().alloc(0, 0x120, 16, 0).begin(0x110).done(0x130, 32, 0), tape().alloc(0, 0x220, 64, 0));
    round(&mut replay, tape().region(2, true, true), tape());
    round(&mut replay, tape().alloc(0, 0x140, 128, 0), tape());
    let (mut profile, sink) = replay.finish(End::default());
    profile.regions = vec![region(1, "whole", true), region(2, "größe", false)];
    (sink.expect("no error").finish(&profile).expect("no error"), profile)
}

#[test]
fn runs_are_selected_by_their_marks() {
    let (file, profile) = recorded_regions();
    let (mut reader, read) = Reader::new(Cursor::new(&file[..]), &mut |_| {}).expect("a recording");
    assert_eq!(read.regions, profile.regions);
    for (regions, bytes) in
        [(vec![1], 4 + 8), (vec![2], 16 + 32), (vec![1, 2], 4 + 8 + 16 + 32), (vec![3], 0), (vec![], 0)]
    {
        let selection = Selection { regions: Some(regions.clone()), ..Selection::default() };
        let (selected, _) = reader.select(read.clone(), &selection, &mut |_| {}).expect("a selection");
        assert_eq!(selected.totals.allocated_bytes, bytes, "{regions:?}");
    }
    let selection =
        Selection { regions: Some(vec![1, 2]), sizes: Some(Span { from: 5, to: Some(17) }), ..Selection::default() };
    let (selected, _) = reader.select(read, &selection, &mut |_| {}).expect("a selection");
    assert_eq!(selected.totals.allocated_bytes, 8 + 16);
}

#[test]
fn marks_come_back_among_the_events() {
    let (file, _) = recorded_regions();
    let marks: Vec<_> = events(&file)
        .expect("events")
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::Region { number, end, this_thread } => Some((number, end, this_thread)),
            _ => None,
        })
        .collect();
    assert_eq!(marks, [(1, false, false), (1, true, false), (2, false, true), (2, true, true)]);
}
