//! Processes that wait at their exit: a thread of its own replays what they did, and looks for lost blocks in their
//! memory.
//!
//! The replay runs in the idle scheduling class while the command lives, and a thread cannot leave that class without
//! privileges. On a busy machine a process would wait for seconds.

use crate::accounts::EventSink;
use crate::chunk::{Chunk, ExitKind};
use crate::drain::rings::DrainState;
use crate::footprint::OwnRanges;
use crate::replay::Replay;
use crate::rundir::directory::name_of;
use crate::rundir::process_file::{ExitState, ProcessFile};
use crate::scan::{self, Exit, Failure, Found, Graph, LiveBlock, ProcessCopy};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Looks for lost blocks of the process that waits at its exit, and lets it end; does nothing for another kind of
/// chunk.
pub fn serve<S: EventSink>(replay: &mut Replay<S>, chunk: &Chunk<'_>, shown: &DrainState, directory: &Path) {
    let Chunk::Exit { process, kind } = *chunk else { return };
    if let Some(failure) = failure(kind) {
        replay.scanned(process, Err(failure));
        return;
    }
    if let Some((source, held)) = shown.exits.take_copy(process) {
        let graph = look_at_copy(replay, process, &source, &held.copy, shown, directory);
        replay.scanned(process, graph.map(|graph| Found::of(&graph)));
        return;
    }
    // Let go meanwhile: a later chunk says why.
    let Some(source) = shown.exits.source(process) else { return };
    let graph = look(replay, process, &source, shown, directory);
    // Read while the image was there, and while it stood still.
    let graph = graph.and_then(|graph| if source.has_memory() { Ok(graph) } else { Err(Failure::Gone) });
    let graph = if source.go_on() { graph } else { Err(Failure::Stopped) };
    shown.exits.remove(process);
    replay.scanned(process, graph.map(|graph| Found::of(&graph)));
}

fn look<S: EventSink>(
    replay: &Replay<S>,
    process: u32,
    source: &ProcessFile,
    shown: &DrainState,
    directory: &Path,
) -> Result<Graph, Failure> {
    let is_over = || shown.finish.load(Ordering::Relaxed) || shown.stop.load(Ordering::Relaxed);
    let enough = || source.exit_state() != ExitState::Waits || is_over();
    let at = source.exit().ok_or(Failure::Gone)?;
    let owner = source.writer().ok_or(Failure::Gone)?;
    let (blocks, unknown_blocks) = blocks(replay, process, source)?;
    if blocks.is_empty() {
        return Ok(Graph::default());
    }
    let pid = owner.thread_with_memory();
    // What the library remembers of stacks is no word of the program's.
    let own = OwnRanges::read(pid, source.own_list()).without_slots();
    let exit = Exit {
        pid,
        at,
        unknown_blocks,
        own: &own,
        registers: &Vec::new,
        directory: name_of(directory),
        enough: &enough,
    };
    scan::read(&exit, blocks)
}

/// Looks for lost blocks in the copy of a process that went on: the scan may take its time, also after the command's
/// end.
fn look_at_copy<S: EventSink>(
    replay: &Replay<S>,
    process: u32,
    source: &ProcessFile,
    copy: &ProcessCopy,
    shown: &DrainState,
    directory: &Path,
) -> Result<Graph, Failure> {
    let (blocks, unknown_blocks) = blocks(replay, process, source)?;
    if blocks.is_empty() {
        return Ok(Graph::default());
    }
    let enough = || shown.stop.load(Ordering::Relaxed);
    let (at, own, directory) = (copy.at, &copy.own[..], name_of(directory));
    let exit = Exit { pid: 0, at, unknown_blocks, own, registers: &Vec::new, directory, enough: &enough };
    scan::read_copy(&exit, copy, blocks)
}

/// The live blocks of a process at its exit, and whether there may be others that the replay does not know.
fn blocks<S: EventSink>(
    replay: &Replay<S>,
    process: u32,
    source: &ProcessFile,
) -> Result<(Vec<LiveBlock>, bool), Failure> {
    if source.lost() > 0 {
        return Err(Failure::EventsLost);
    }
    replay.at_exit(process).ok_or(Failure::EventsLost)
}

fn failure(kind: ExitKind) -> Option<Failure> {
    match kind {
        ExitKind::Waits => None,
        ExitKind::OutOfTime => Some(Failure::OutOfTime),
        ExitKind::Sandboxed => Some(Failure::Sandboxed),
        ExitKind::GaveUp => Some(Failure::NoAnswer),
        ExitKind::Killed => Some(Failure::Gone),
        ExitKind::Exec => Some(Failure::Exec),
    }
}
