//! Recordings of simulated programs: whole, cut, damaged, and on a full disk.

mod attachments;
mod memory;
mod readers;
mod regions;
mod selections;
mod story;

use super::arguments::tables_word;
use super::block::{HEAD, Head, Kind, Packer};
use super::*;
use crate::chunk::Chunk;
use crate::footprint::Reading;
use crate::replay::tests::simulator::{Reuse, Setting, Simulator};
use crate::replay::tests::{End, EventSink, Ledger, Log, Moment, Options, Replay, Tape, module, process, round, words};
use mallow_profile::{AddressRange, CachedBlock, Footprint, Mapping, MemorySizes, PageRun, PageState, ThreadCaches};
use mallow_profile::{Event, Line, Process, Profile};
use proptest::prelude::*;
use std::io::{self, Cursor, Write};
use std::sync::LazyLock;

fn options() -> Options {
    Options { command: vec!["a b".into(), "ü".into()], started_unix_ms: 1_700_000_000_123 }
}

/// A reading of a process's memory with so many pages.
fn memory(number: u64, ms: u64, pages: u64) -> Reading {
    let sizes = MemorySizes { size: 32 << 12, rss: pages << 12, ..MemorySizes::default() };
    let heap = Mapping { start: 0, end: 32 << 12, sizes, has_pages: true, name: "[heap]".into(), ..Mapping::default() };
    let (page_bytes, mappings) = (4096, vec![heap]);
    let footprint = Footprint { ms, totals: sizes, page_bytes, mappings, peak_rss: 9 << 12, ..Footprint::default() };
    let page = |at| PageRun { start: at << 13, pages: 1, state: PageState(PageState::RESIDENT) };
    let blocks = (1..pages).map(|at| CachedBlock { address: at << 8, size: 40 }).collect();
    let caches = ThreadCaches { caches: 1, is_complete: pages > 4, blocks };
    Reading {
        number,
        footprint,
        pages: (0..pages).map(page).collect(),
        caches,
        tables: vec![AddressRange { start: ms, end: ms + pages }],
        heaps: Vec::new(),
        huge_zeros: ms,
    }
}

/// A program of several threads, and a child with realloc of all kinds.
fn run<S: EventSink>(sink: S, steps: usize) -> (Profile, io::Result<S>) {
    let mut replay = Replay::new(options(), sink);
    process(&mut replay, 0);
    let setting =
        Setting { seed: 3, threads: 3, steps, reuse: Reuse::Owner, foreign: 20, round: 50, millisecond: 30, stamp: 64 };
    Simulator::new(setting).run(&mut replay);
    process(&mut replay, 1);
    module(&mut replay, 1, "[vdso]", 0x20000..0x30000, 0);
    let tape = Tape::default().thread(9).time(400).stack(0, &[0x1234, 0x20010, 0x77, 0x1235 | 1 << 63]).lost(2);
    let tape = tape.alloc_wide(0x10, 1 << 42, 0).alloc(7, 0x20, 5, 0).begin(0x20).done(0x30, 6, 0).free(0x99);
    let tape = tape.alloc(0, 0x10, 7, 0).begin(0x98).done(0x40, 8, 0).begin(0x40).freed().begin(0x97).freed();
    words(&mut replay, 1, 4, tape);
    round(&mut replay, 400);
    (0..2).for_each(|_| round(&mut replay, 400));
    for (number, (ms, rss)) in (1..).zip([(401, 3), (402, 9), (403, 2), (404, 4)]) {
        let words = memory(number, ms, rss).to_words();
        let (first, rest) = words.split_at(words.len() / 2);
        replay.feed(&Chunk::Rss { process: 1, ms: ms - 1, rss: 4096, peak: 9 << 12, heads: &[] }).unwrap();
        replay.feed(&Chunk::Memory { process: 1, is_last: false, words: first }).unwrap();
        replay.feed(&Chunk::Memory { process: 1, is_last: true, words: rest }).unwrap();
    }
    replay.feed(&Chunk::ExitWait { process: 0, ms: 75 }).unwrap();
    replay.feed(&Chunk::ProcessEnd { process: 0, ms: 450, lost: 1 }).unwrap();
    let end = End {
        started: Some((100, 3)),
        duration_ms: 500,
        cpu: Some(std::time::Duration::from_micros(123_456)),
        exit_status: Some(137),
        cut_short: None,
        allocators_inside: Vec::new(),
    };
    replay.finish(end)
}

fn recorded(steps: usize) -> (Profile, Vec<u8>) {
    let (mut profile, writer) = run(Writer::new(Vec::new(), &options()).unwrap(), steps);
    let (f, file) = (profile.strings.intern("f()"), profile.strings.intern("f.c"));
    profile.frames[1].lines =
        vec![Line { function: f, file: Some(file), line: 7 }, Line { function: file, file: None, line: 0 }];
    profile.frames[3].lines = vec![Line { function: f, file: None, line: 1 }];
    profile.names = Some(attachments::names());
    let bytes = writer.unwrap().finish_with(&profile, &mut attachments::sources().into_iter()).unwrap();
    (profile, bytes)
}

/// A recording that many tests damage.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| recorded(300).1);

type Opened<'a> = (Reader<Cursor<&'a [u8]>>, Profile);

/// Opens a recording, whole or damaged. What the reader accepts keeps the promises of the model.
fn open(bytes: &[u8]) -> Result<Opened<'_>, ReadError> {
    let opened = Reader::new(Cursor::new(bytes), &mut |_| {})?;
    assert_eq!(opened.1.check(), Ok(()));
    Ok(opened)
}

fn read_bytes(bytes: &[u8]) -> Result<Profile, ReadError> {
    open(bytes).map(|(_, profile)| profile)
}

fn reader(bytes: &[u8]) -> Result<Reader<Cursor<&[u8]>>, ReadError> {
    open(bytes).map(|(reader, _)| reader)
}

fn events(bytes: &[u8]) -> Result<Vec<(Moment, Event)>, ReadError> {
    let (mut reader, profile) = open(bytes)?;
    let mut all = Vec::new();
    reader.visit(&mut Choice::all(&profile), &mut |_| {}, |at, event| all.push((at, event)))?;
    Ok(all)
}

fn assert_same(a: &Profile, b: &Profile) {
    assert_eq!(a.sites, b.sites);
    assert_eq!(a.processes, b.processes);
    assert_eq!((a.totals, a.peak_ms), (b.totals, b.peak_ms));
    assert_eq!((&a.modules, a.stacks.len()), (&b.modules, b.stacks.len()));
    for site in &a.sites {
        assert!(a.stacks.frames(site.stack).eq(b.stacks.frames(site.stack)));
        assert_eq!(a.stacks.is_cut(site.stack), b.stacks.is_cut(site.stack));
    }
    let frame = |p: &Profile, i: usize| {
        let frame = &p.frames[i];
        let name = |id| p.strings.get(id).to_owned();
        let lines: Vec<_> = frame.lines.iter().map(|l| (name(l.function), l.file.map(name), l.line)).collect();
        (frame.module, frame.address, frame.exact, lines, frame.folded.map(name))
    };
    assert_eq!(a.frames.len(), b.frames.len());
    (0..a.frames.len()).for_each(|i| assert_eq!(frame(a, i), frame(b, i)));
    assert_eq!((&a.command, a.started_unix_ms), (&b.command, b.started_unix_ms));
    assert_eq!(a.names, b.names);
    assert_eq!((&a.footprints, &a.rss), (&b.footprints, &b.rss));
}

/// Leaves what of command lines is written while a recording goes on.
fn begin_command_lines(profile: &mut Profile) {
    profile.command = options().opening().command;
    for process in &mut profile.processes {
        process.arguments = tables_word(process).map(str::to_owned).into_iter().collect();
    }
}

/// Offsets at which blocks begin, with their kinds.
fn blocks(bytes: &[u8]) -> Vec<(usize, Kind)> {
    let mut at = 16;
    let mut found = Vec::new();
    while at + HEAD <= bytes.len() - 16 {
        let head = Head::parse(bytes[at..at + HEAD].try_into().unwrap(), 0).unwrap();
        found.push((at, head.kind));
        at += HEAD + head.payload;
    }
    assert_eq!(at, bytes.len() - 16);
    found
}

#[test]
fn a_whole_recording_says_what_the_replay_said() {
    let (profile, bytes) = recorded(3000);
    let read = read_bytes(&bytes).unwrap();
    assert_eq!(read.check(), Ok(()));
    assert_same(&profile, &read);
    assert_eq!((read.duration_ms, &read.ending), (profile.duration_ms, &profile.ending));
    assert_eq!((read.ending.exit_status, read.ending.lost), (Some(137), 3));
    // Of four frees that fitted no block, one was that of the block whose address was handed out again.
    assert_eq!(profile.processes[1].foreign_frees, 2);
}

#[test]
fn events_come_back_one_by_one() {
    let (_, log) = run(Log::default(), 3000);
    let (_, bytes) = recorded(3000);
    let read = events(&bytes).unwrap();
    let expected = log.unwrap().0;
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.into_iter().zip(expected) {
        // The end of a process belongs to no thread.
        let moment = Moment { thread: read.0.thread, ..expected.0 };
        assert_eq!(read, (moment, expected.1));
    }
}

#[test]
fn events_are_visited_up_to_a_cut_again_and_again() {
    let (_, bytes) = recorded(3000);
    let all = events(&bytes).unwrap();
    let (mut reader, profile) = Reader::new(Cursor::new(&bytes), &mut |_| {}).unwrap();
    let mut chosen = Choice::all(&profile);
    for _ in 0..2 {
        let (mut visited, mut seen) = (Vec::new(), Vec::new());
        reader.visit(&mut chosen, &mut |progress| seen.push(progress), |at, event| visited.push((at, event))).unwrap();
        assert_eq!(visited, all);
        assert!(seen.is_sorted_by_key(|progress| progress.done) && seen.iter().all(|p| p.done <= p.all));
    }
    let (begin, _) = blocks(&bytes).into_iter().rfind(|block| block.1 == Kind::Events).unwrap();
    assert!(events(&bytes[..begin + 40]).unwrap().is_empty());
    let mut bad = bytes.clone();
    bad[begin + HEAD + 20] ^= 1;
    assert!(matches!(events(&bad), Err(ReadError::Damaged { .. })));
    bad.truncate(bytes.len() - 20);
    assert!(events(&bad).unwrap().is_empty());
}

#[test]
fn default_views_read_no_events() {
    let (_, mut bytes) = recorded(3000);
    for (at, kind) in blocks(&bytes) {
        if kind == Kind::Events {
            bytes[at + HEAD + 20] ^= 0xff;
        }
    }
    assert!(read_bytes(&bytes).is_ok());
    assert!(events(&bytes).is_err());
}

/// Without the sums, the events are counted again, by the same ledger.
#[test]
fn a_recording_cut_after_its_events_is_counted_again() {
    let (mut profile, bytes) = recorded(3000);
    let (end, _) = blocks(&bytes).into_iter().find(|block| block.1 == Kind::Counts).unwrap();
    let read = read_bytes(&bytes[..end]).unwrap();
    profile.frames.iter_mut().for_each(|frame| frame.lines.clear());
    profile.names = None;
    profile.rss.clear();
    begin_command_lines(&mut profile);
    // Known only from the ends of processes.
    profile.processes.iter_mut().for_each(|process| (process.lost, process.exit_wait_ms) = (0, 0));
    assert_same(&profile, &read);
    assert_eq!(read.ending.cut_short.as_deref(), Some("the file ends before the recording does"));
    assert_eq!((read.duration_ms, read.ending.exit_status), (500, None));
}

#[test]
fn a_recording_is_readable_up_to_any_cut() {
    let (profile, bytes) = recorded(200);
    let mut allocations = 0;
    for end in 0..bytes.len() {
        match read_bytes(&bytes[..end]) {
            Ok(read) => {
                assert!(end >= 16 && read.ending.cut_short.is_some());
                assert!(read.totals.allocations >= allocations);
                allocations = read.totals.allocations;
            }
            Err(error) => assert!(end < 16 && matches!(error, ReadError::NotARecording), "{end}: {error}"),
        }
    }
    assert_eq!(allocations, profile.totals.allocations);
}

/// Many blocks, because many chunks come with time between them.
#[test]
fn blocks_follow_each_other_with_what_they_refer_to() {
    let mut replay = Replay::new(options(), Writer::new(Vec::new(), &options()).unwrap());
    process(&mut replay, 0);
    let mut address = 0;
    for n in 0..40u64 {
        let mut tape = Tape::default().time(n + 1).stack(0, &[0x1100 + 16 * n]);
        for _ in 0..10_000 {
            address += 16;
            tape = tape.alloc(0, address, n, n);
            tape = if address % 48 == 0 { tape.free(address - 16) } else { tape };
        }
        words(&mut replay, 0, 0, tape);
        round(&mut replay, n + 1);
    }
    let (profile, writer) = replay.finish(End::default());
    let bytes = writer.unwrap().finish(&profile).unwrap();
    let blocks = blocks(&bytes);
    let kinds = |kind| blocks.iter().filter(|block| block.1 == kind).count();
    assert!(kinds(Kind::Events) == 9 && kinds(Kind::Tables) >= 8, "{blocks:?}");
    assert_same(&profile, &read_bytes(&bytes).unwrap());
    let (end, _) = *blocks.iter().find(|block| block.1 == Kind::Counts).unwrap();
    let mut cut = read_bytes(&bytes[..end]).unwrap();
    cut.processes[0].end_ms = 0;
    let mut profile = profile;
    begin_command_lines(&mut profile);
    profile.processes[0].end_ms = 0;
    assert_same(&profile, &cut);
    let half = read_bytes(&bytes[..end / 2]).unwrap();
    assert!((1..400_000).contains(&half.totals.allocations));
}

/// Every byte that the sums depend on is under a checksum.
#[test]
fn no_flipped_byte_goes_unnoticed() {
    let mut bytes = SMALL.clone();
    let blocks = blocks(&bytes);
    let ends = blocks.iter().skip(1).map(|block| block.0).chain([bytes.len() - 16]);
    for (&(begin, kind), end) in blocks.iter().zip(ends) {
        // Of events and sources, only what it takes to pass over them is read.
        let unread = matches!(kind, Kind::Events | Kind::Sources | Kind::Pages | Kind::Kept | Kind::PlacedBlocks);
        let passed = |at: usize| unread && ![0, 2, 3, 4, 5, 6, 7].contains(&(at - begin));
        for at in (begin..end).filter(|&at| !passed(at)) {
            bytes[at] ^= 0x10;
            assert!(matches!(read_bytes(&bytes), Err(ReadError::Damaged { .. })), "{kind:?} + {}", at - begin);
            bytes[at] ^= 0x10;
        }
    }
}

#[test]
fn other_files_and_newer_versions_are_refused_in_words() {
    let (_, mut bytes) = recorded(10);
    assert_eq!(
        read_bytes(b"\x7fELF and more than sixteen bytes").unwrap_err().to_string(),
        "this is not a recording of mallow"
    );
    assert!(matches!(read_bytes(b""), Err(ReadError::NotARecording)));
    bytes[8] = 9;
    let error = read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::NewerVersion { found: 9, known: VERSION }), "{error}");
    assert!(error.to_string().contains("version 9") && !error.to_string().contains('\n'));
    assert!(matches!(read(std::path::Path::new("/nonexistent")), Err(ReadError::Io(_))));
}

/// Takes so many bytes.
struct Disk {
    bytes: Vec<u8>,
    free: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.free);
        if length == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.free -= length;
        self.bytes.extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_what_was_written() {
    let (profile, writer) = run(Writer::new(Vec::new(), &options()).unwrap(), 3000);
    let bytes = writer.unwrap().finish(&profile).unwrap();
    for free in [16, 100, bytes.len() / 2, bytes.len() - 40, bytes.len() - 1] {
        let mut disk = Disk { bytes: Vec::new(), free };
        let written =
            Writer::new(&mut disk, &options()).map(|writer| run(writer, 3000)).and_then(|(profile, writer)| {
                assert!(profile.totals.allocations > 0);
                writer?.finish(&profile).map(|_| ())
            });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.bytes.len(), free);
        assert!(read_bytes(&disk.bytes).unwrap().ending.cut_short.is_some());
    }
}

/// A sink that fails stays away, and the replay goes on.
#[test]
fn the_replay_outlives_its_sink() {
    struct Broken(u32);
    impl EventSink for Broken {
        fn event(&mut self, _: Moment, _: mallow_profile::Event) {}
        fn settle(&mut self, _: &Ledger) -> io::Result<()> {
            self.0 += 1;
            if self.0 == 3 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }
    let mut replay = Replay::new(options(), Broken(0));
    process(&mut replay, 0);
    let tape = Tape::default().alloc(0, 16, 1, 0);
    let error = replay.feed(&Chunk::Words { process: 0, ring: 0, end: 0, words: &tape.0 }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    round(&mut replay, 1);
    round(&mut replay, 2);
    assert_eq!(replay.progress().allocations, 1);
    assert!(replay.finish(End::default()).1.is_err());
}

#[test]
fn an_empty_recording_is_one() {
    let (profile, writer) = Replay::new(options(), Writer::new(Vec::new(), &options()).unwrap()).finish(End::default());
    let bytes = writer.unwrap().finish(&profile).unwrap();
    assert_eq!(read_bytes(&bytes).unwrap().processes, Vec::<Process>::new());
}

/// Packs a block again after its columns were changed, so that the checksum cannot stop nonsense.
fn repacked(bytes: &[u8], which: usize, change: impl Fn(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let all = blocks(bytes);
    let (at, _) = all[which % all.len()];
    let head = Head::parse(bytes[at..at + HEAD].try_into().unwrap(), 0).unwrap();
    let payload = &bytes[at + HEAD..at + HEAD + head.payload];
    let columns = head.unpack(&mut &payload[..], 0).unwrap();
    let mut columns: Vec<Vec<u8>> = columns.into_iter().map(super::bytes::Cursor::into_bytes).collect();
    change(&mut columns);
    let mut packer = Packer::new().unwrap();
    let block = packer.pack(head.kind, &columns).unwrap();
    [&bytes[..at], block, &bytes[at + HEAD + head.payload..]].concat()
}

/// Two processes may have a site of one stack each; one process has it once.
#[test]
fn a_site_that_comes_twice_is_refused() {
    const COUNTS: usize = 0;
    const SITES: [usize; 2] = [8, 9];
    let tables = blocks(&SMALL).iter().position(|block| block.1 == Kind::Tables).unwrap();
    let twice = repacked(&SMALL, tables, |columns| {
        let sites = columns[COUNTS].last_mut().unwrap();
        assert!(*sites < 0x7f, "a number of one byte");
        *sites += 1;
        // No difference to the site before.
        SITES.into_iter().for_each(|column| columns[column].push(0));
    });
    let error = read_bytes(&twice).unwrap_err().to_string();
    assert!(
        error.starts_with("the recording is damaged at byte ") && error.ends_with(": a site comes twice"),
        "{error}"
    );
    // Without its end it is read up to there.
    let cut = read_bytes(&twice[..twice.len() - 16]).unwrap();
    assert_eq!(cut.ending.cut_short, Some(error));
}

fn read_all_ways(bytes: &[u8]) {
    let whole = read_bytes(bytes);
    if let Err(error) = &whole {
        assert!(!error.to_string().contains('\n'));
    }
    // Without its trailer, it is counted again.
    let _ = read_bytes(&bytes[..bytes.len().saturating_sub(16)]);
    let _ = events(bytes);
    // What can be read can be packed, unless its index is wrong. Of what was cut amid nonsense, half a block may count.
    for (bytes, whole) in [(bytes, true), (&bytes[..bytes.len().saturating_sub(16)], false)] {
        let Ok((mut reader, profile)) = open(bytes) else { continue };
        let sources = reader.sources().unwrap_or_default();
        let Ok(packed) = reader.pack(&profile, &mut sources.into_iter(), Vec::new()) else { continue };
        match read_bytes(&packed) {
            Ok(read) if whole => assert_same(&profile, &read),
            again => assert!(again.is_ok() || !whole),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn flipped_bits_are_withstood(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4)) {
        let mut bytes = SMALL.clone();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        read_all_ways(&bytes);
    }

    #[test]
    fn nonsense_with_right_checksums_is_withstood(
        which in 0usize..100,
        column: prop::sample::Index,
        at: prop::sample::Index,
        new in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..12),
        gone in 0usize..12,
    ) {
        let bytes = repacked(&SMALL, which, |columns| {
            let column = column.index(columns.len());
            let column = &mut columns[column];
            let at = at.index(column.len() + 1);
            let end = (at + gone).min(column.len());
            column.splice(at..end, new.iter().copied());
        });
        read_all_ways(&bytes);
    }

    #[test]
    fn any_bytes_are_withstood(tail in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..10, length in 0u32..300) {
        let bytes = &SMALL;
        read_all_ways(&[&bytes[..16], &tail].concat());
        let head = [&[kind, 1, 0, 0][..], &length.to_le_bytes()].concat();
        read_all_ways(&[&bytes[..16], &head, &tail].concat());
    }
}
