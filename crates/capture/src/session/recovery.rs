//! Reading a run directory that a killed mallow left behind: its spool, and what the rings still hold.

use super::error::RunError;
use super::leftovers;
use super::recording::RecordingOutcome;
use crate::accounts::{EventSink, Options};
use crate::chunk::{Chunk, ExitKind};
use crate::drain::spool::SpoolReader;
use crate::replay::{End, Replay};
use crate::rundir::command_line;
use crate::rundir::directory::about;
use crate::rundir::process_file::{ProcessFile, process_files};
use crate::scan::Failure;
use crate::tables::supply::Bases;
use rustc_hash::FxHashMap;
use std::io;
use std::path::Path;

#[derive(Default)]
struct Known {
    number: u32,
    start_ms: u64,
    /// Arguments of the process when it began.
    arguments: Vec<String>,
    modules: u32,
    /// Word of each ring, counted since the ring began, up to which it was spooled.
    rings: FxHashMap<u32, u64>,
    ended: bool,
}

/// Makes a recording of what is left in `directory`, which stays as it is.
pub fn recover<S: EventSink>(
    directory: &Path,
    sink: impl FnOnce(&Options) -> io::Result<S>,
) -> Result<RecordingOutcome<S>, RunError> {
    let no_run = |error| RunError::NoRun(directory.to_owned(), error);
    leftovers::check_owner(directory).map_err(no_run)?;
    let about = about(directory).map_err(no_run)?;
    leftovers::check(directory).map_err(no_run)?;
    let options = about.options();
    let sink = sink(&options).map_err(RunError::Recording)?;
    let mut replay = Replay::new(options, sink);
    // By pid and serial, which are in the names of the process files too. A name comes again once its image is done
    // with: the last one that had it counts.
    let mut known: FxHashMap<(u32, u32), Known> = FxHashMap::default();
    let mut keys: Vec<(u32, u32)> = Vec::new();
    let mut last_ms = 1;
    match leftovers::open_spool(directory) {
        Ok(Some(spool)) => {
            let mut reader = SpoolReader::new(spool);
            while reader
                .next(u64::MAX, |chunk, position| {
                    note(&mut known, &mut keys, &mut last_ms, chunk, position);
                    if let Chunk::Exit { process, kind: ExitKind::Exec } = *chunk {
                        replay.scanned(process, Err(Failure::Exec));
                    }
                    // A failed sink is reported at the end; the profile is whole all the same.
                    let _ = replay.feed(chunk);
                    Ok(())
                })
                .map_err(no_run)?
            {}
        }
        Ok(None) => {}
        Err(error) => return Err(no_run(error)),
    }
    let mut left = process_files(directory);
    left.sort_by_key(|source| (source.process(0, about.started_ns).start_ms, source.pid, source.serial));
    let mut still_running = 0;
    for source in &left {
        still_running += u32::from(source.alive());
        let key = (source.pid, source.serial);
        let process = source.process(keys.len() as u32, about.started_ns);
        if known.get(&key).is_none_or(|state| state.start_ms != process.start_ms) {
            keys.push(key);
            last_ms = last_ms.max(process.start_ms);
            let state = Known { number: process.process, start_ms: process.start_ms, ..Known::default() };
            let _ = replay.feed(&Chunk::Process(process));
            known.insert(key, state);
        } else if let Some(state) = known.get(&key).filter(|state| state.arguments != process.arguments) {
            // It noted at its exit what it showed then.
            let words = command_line::texts(&source.arguments_text(), true);
            let _ = replay.feed(&Chunk::Arguments { process: state.number, words });
        }
        if let Some(state) = known.get(&key).filter(|state| !state.ended) {
            read(source, state, &mut replay);
        }
    }
    // Twice: what one ring's records depend on may be in the round after.
    for _ in 0..2 {
        let _ = replay.feed(&Chunk::Round { ms: last_ms });
    }
    for source in &left {
        if let Some(state) = known.get(&(source.pid, source.serial)).filter(|state| !state.ended) {
            let _ = replay.feed(&Chunk::ProcessEnd { process: state.number, ms: last_ms, lost: source.lost() });
        }
    }
    let cut_short = Some("mallow was killed while it recorded; this is what it left behind".to_owned());
    let (mut profile, sink) = replay.finish(End { duration_ms: last_ms, cut_short, ..End::default() });
    profile.regions = crate::rundir::results::regions(directory);
    Ok(RecordingOutcome {
        profile,
        sink,
        exit_status: None,
        command_pid: None,
        still_running,
        failed_processes: 0,
        unwatched: Vec::new(),
    })
}

fn note(
    known: &mut FxHashMap<(u32, u32), Known>,
    keys: &mut Vec<(u32, u32)>,
    last_ms: &mut u64,
    chunk: &Chunk,
    position: u64,
) {
    let mut of = |process: u32, change: &mut dyn FnMut(&mut Known)| {
        if let Some(state) = keys.get(process as usize).and_then(|key| known.get_mut(key)) {
            change(state);
        }
    };
    match chunk {
        Chunk::Process(p) => {
            keys.push((p.pid, p.serial));
            let arguments = p.arguments.clone();
            let state = Known { number: p.process, start_ms: p.start_ms, arguments, ..Known::default() };
            known.insert((p.pid, p.serial), state);
        }
        Chunk::Module(m) => of(m.process, &mut |state| state.modules += 1),
        Chunk::Words { process, ring, .. } => of(*process, &mut |state| {
            state.rings.insert(*ring, position);
        }),
        Chunk::Round { ms } => *last_ms = *ms,
        Chunk::Exit { .. }
        | Chunk::ExitWait { .. }
        | Chunk::TableWait { .. }
        | Chunk::ThreadName { .. }
        | Chunk::Arguments { .. }
        | Chunk::Memory { .. }
        | Chunk::Reading { .. }
        | Chunk::SizeClasses { .. }
        | Chunk::Rss { .. }
        | Chunk::FinalRss { .. } => {}
        Chunk::ProcessEnd { process, ms, .. } => {
            *last_ms = *ms;
            of(*process, &mut |state| state.ended = true);
        }
    }
}

/// Replays what the process wrote after what was spooled.
fn read<S: EventSink>(source: &ProcessFile, known: &Known, replay: &mut Replay<S>) {
    let mut bases = Bases::default();
    for index in known.modules..source.modules() {
        let mut module = source.module(known.number, index);
        module.base_svma = bases.of(&module, || source.pid_here());
        let _ = replay.feed(&Chunk::Module(module));
    }
    let mut words = Vec::new();
    for ring in 0..source.threads() {
        let from = known.rings.get(&ring).copied().unwrap_or(0).max(source.tail(ring));
        let head = source.head(ring);
        if head > from && head - from <= source.ring_words(ring) {
            words.clear();
            source.read_ring(ring, from, head, &mut words);
            let _ = replay.feed(&Chunk::Words { process: known.number, ring, end: head, words: &words });
        }
    }
}
