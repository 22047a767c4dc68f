//! Several readers of one recording.

use std::cell::Cell;

use super::story::{Step, build_story};
use super::*;

/// A story of so many allocations, in blocks of ten events.
fn file(allocations: u32) -> (tempfile::NamedTempFile, usize) {
    let step = |n: u32| Step::Allocate { thread: n % 7, place: n % 3, size: n.into(), family: 0 };
    let story = build_story(&(0..allocations).map(step).collect::<Vec<_>>(), true, 10);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &story.file).unwrap();
    (file, story.events.len())
}

fn events(reader: &mut Reader, profile: &Profile) -> Vec<(u64, Moment, Event)> {
    let mut events = Vec::new();
    let each = |_, number, at, event| events.push((number, at, event));
    reader.visit_numbered(&mut Choice::all(profile), &mut |_| {}, each).unwrap();
    events
}

#[test]
fn a_second_reader_has_the_same_events() {
    let (file, count) = file(100);
    let (mut first, profile) = Reader::open(file.path(), &mut |_| {}).unwrap();
    let mut second = first.reopen(file.path()).unwrap();
    assert_eq!(events(&mut second, &profile).len(), count);
    assert_eq!(events(&mut first, &profile), events(&mut second, &profile));
    // Cut short, too: it stops where the first one did.
    let whole = std::fs::read(file.path()).unwrap();
    std::fs::write(file.path(), &whole[..whole.len() * 2 / 3]).unwrap();
    let (mut first, profile) = Reader::open(file.path(), &mut |_| {}).unwrap();
    let mut second = first.reopen(file.path()).unwrap();
    assert!(profile.ending.cut_short.is_some());
    assert_eq!(events(&mut first, &profile), events(&mut second, &profile));
}

#[test]
fn a_second_reader_refuses_another_file() {
    let (file, _) = file(100);
    let (first, _) = Reader::open(file.path(), &mut |_| {}).unwrap();
    let (other, _) = self::file(50);
    let error = first.reopen(other.path()).unwrap_err().to_string();
    assert!(error.contains("the file was replaced"), "{error}");
}

#[test]
fn reading_stops_before_the_next_block() {
    let (file, count) = file(100);
    let (mut reader, profile) = Reader::open(file.path(), &mut |_| {}).unwrap();
    let seen = Cell::new(0);
    let each = |_, _, _, _| seen.set(seen.get() + 1);
    reader.visit_until(&mut Choice::all(&profile), &mut |_| {}, || seen.get() >= 15, each).unwrap();
    assert!((15..15 + 10).contains(&seen.get()) && seen.get() < count, "{}", seen.get());
}
