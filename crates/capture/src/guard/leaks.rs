//! Guarded blocks that nothing points to any more when their image exits: it waits while its memory is searched.

use super::finding::{Leak, Search};
use super::slots::Guarded;
use super::thread_name;
use crate::footprint::OwnRanges;
use crate::rundir::directory::{monotonic_ns, name_of};
use crate::rundir::process_file::{ExitState, ProcessFile};
use crate::scan::{self, Exit, ExitPoint, Failure, Found, LostBlock};
use crate::wire::{self, guard};
use mallow_patch::stop_thread;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// How long another thread may take to stop, so that its registers can be read.
const STOP: Duration = Duration::from_millis(100);
/// Other threads whose registers are read.
const THREADS: usize = 256;

/// Searches an image that waits at its exit, and lets it go on. An error, too, if it went on before.
pub fn search(
    source: &ProcessFile,
    guarded: &Guarded,
    directory: &Path,
    enough: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Leak>, Failure> {
    let shared = source.shared();
    let range = guarded.range(shared);
    let table = shared.get64(guarded.field(guard::SLOTS));
    let slots = [range.clone(), table..table.saturating_add(shared.get64(guarded.field(guard::SLOTS_BYTES)))];
    let known = source.writer().map(|owner| OwnRanges::read(owner.thread_with_memory(), source.own_list()));
    let own = [&slots[..], &known.map(|known| known.without_slots()).unwrap_or_default()].concat();
    let graph = wait(source, &own, directory, enough).and_then(|exit| {
        let blocks = guarded.live_blocks(shared, &range);
        if blocks.is_empty() { Ok(scan::Graph::default()) } else { exit.read(blocks) }
    });
    // Read while the image was there, and waited.
    let graph = graph.and_then(|graph| if source.has_memory() { Ok(graph) } else { Err(Failure::Gone) });
    let leaks = graph.map(|graph| {
        let found = Found::of(&graph);
        leaks(source, guarded, &found.lost)
    });
    if source.go_on() { leaks } else { leaks.and(Err(Failure::NoAnswer)) }
}

struct Waiting<'a> {
    pid: u32,
    at: ExitPoint,
    own: &'a [Range<u64>],
    directory: &'a str,
    enough: &'a (dyn Fn() -> bool + Sync),
}

fn wait<'a>(
    source: &ProcessFile,
    own: &'a [Range<u64>],
    directory: &'a Path,
    enough: &'a (dyn Fn() -> bool + Sync),
) -> Result<Waiting<'a>, Failure> {
    let at = source.exit().ok_or(Failure::Gone)?;
    let pid = source.writer().ok_or(Failure::Gone)?.thread_with_memory();
    let directory = name_of(directory);
    Ok(Waiting { pid, at, own, directory, enough })
}

impl Waiting<'_> {
    fn read(&self, blocks: Vec<scan::LiveBlock>) -> Result<scan::Graph, Failure> {
        let registers = || self.registers();
        let exit = Exit {
            pid: self.pid,
            at: self.at,
            unknown_blocks: true,
            own: self.own,
            registers: &registers,
            directory: self.directory,
            enough: self.enough,
        };
        scan::read(&exit, blocks)
    }

    /// Registers of all threads: the one that waits has its own on its stack, and a few words more do no harm.
    fn registers(&self) -> Vec<u64> {
        let others = scan::thread_ids(self.pid);
        if others.len() < 2 {
            return Vec::new();
        }
        let of = |tid: &u32| stop_thread(self.pid, *tid, STOP, |thread| thread.general_registers()).ok()?.ok();
        others.iter().take(THREADS).take_while(|_| !(self.enough)()).filter_map(of).flatten().collect()
    }
}

/// A leak for each stack of blocks that no other lost block holds, those of most bytes first.
fn leaks(source: &ProcessFile, guarded: &Guarded, lost: &[LostBlock]) -> Vec<Leak> {
    let shared = source.shared();
    let pid = source.pid_here();
    let at_ns = monotonic_ns();
    // By the slot of the head: its site.
    let mut sums: HashMap<u32, [u64; 5]> = HashMap::new();
    for block in lost {
        let sum = sums.entry(block.head.map_or(block.site, |(_, site)| site)).or_default();
        let of = if block.head.is_none() { 0 } else { 2 };
        sum[of] += 1;
        sum[of + 1] = sum[of + 1].saturating_add(block.size);
        sum[4] += u64::from(block.head.is_none() && block.in_cycle);
    }
    let mut heads: Vec<(u32, [u64; 5])> = sums.into_iter().collect();
    heads.sort_unstable_by_key(|(slot, _)| *slot);
    let mut by_stack: HashMap<_, usize> = HashMap::new();
    let mut leaks: Vec<Leak> = Vec::new();
    for (slot, [count, bytes, held, held_bytes, cycles]) in heads {
        let Some(block) = guarded.block(shared, slot, &|tid| thread_name(pid, tid)) else { continue };
        let at = *by_stack.entry((block.family, block.allocated.stack.clone())).or_insert(leaks.len());
        match leaks.get_mut(at) {
            Some(leak) => {
                leak.count += count;
                leak.cycles += cycles;
                leak.bytes = leak.bytes.saturating_add(bytes);
                leak.held += held;
                leak.held_bytes = leak.held_bytes.saturating_add(held_bytes);
            }
            None => {
                let (pid, serial) = (source.pid, source.serial);
                leaks.push(Leak { pid, serial, at_ns, count, cycles, bytes, held, held_bytes, block });
            }
        }
    }
    leaks.sort_by_key(|leak| std::cmp::Reverse(leak.bytes.saturating_add(leak.held_bytes)));
    leaks
}

/// Why an image that has ended, or that guarding leaves, was not searched.
pub fn reason(source: &ProcessFile) -> Search {
    let because = |why: &str| Search::Not(why.to_owned());
    match source.exit_state() {
        _ if source.is_forked() => because("forked, with blocks of its parent"),
        ExitState::Sandboxed => because("a seccomp filter may forbid the wait at exit"),
        ExitState::GaveUp => because("mallow was stopped, or did not answer"),
        ExitState::Waits => because(Failure::Gone.why()),
        ExitState::Exec => Search::Replaced,
        ExitState::Not if source.alive() => because("still running, or stopped, when the command ended"),
        ExitState::Not => match source.ending() {
            wire::ENDING_EXIT => because("its exit was not complete"),
            wire::ENDING_AT_ONCE => because("ended by _exit"),
            wire::ENDING_EXEC => Search::Replaced,
            // The next image says so as soon as it begins, if it is seen at all and this one's file is still there.
            _ if source.writer().is_some_and(|process| process.alive()) => Search::Replaced,
            _ => Search::Unknown,
        },
    }
}
