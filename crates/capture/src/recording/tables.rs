//! What events refer to, written when it is new: processes, threads, modules, frames, stacks and sites.
//!
//! | column | holds |
//! | --- | --- |
//! | 0 | how many of each follow |
//! | 1 | process: pid, parent, serial, forked, start in ms, executable, number of arguments, arguments: the first alone |
//! | 2 | thread: process, tid |
//! | 3 | module: path, build-id |
//! | 4 | frame: 0 for none or module + 1, times 2, plus 1 if exact |
//! | 5 | frame: [`fold`] of its address and that of the frame before |
//! | 6 | stack: its own number − its caller's |
//! | 7 | stack: frames known when it was added − its frame |
//! | 8 | site: fold of its process and that of the site before |
//! | 9 | site: fold of its stack and that of the site before |
//!
//! Everything is numbered from 0 in the order in which it appears in the file; stacks 0 and 1, the roots of complete
//! and of cut stacks, are not written.

use super::arguments::tables_word;
use super::budget::{Budget, STRING};
use super::bytes::{Cursor, Nonsense, fold, put, put_bytes, unfold};
use crate::accounts::Ledger;
use mallow_profile::{Frame, FrameId, Module, ModuleId, Process, Site, StackId, Stacks, Thread};
use rustc_hash::FxHashSet;

const COLUMNS: usize = 10;
const COUNTS: usize = 0;
const PROCESSES: usize = 1;
const THREADS: usize = 2;
const MODULES: usize = 3;
const FRAME_OWNERS: usize = 4;
const FRAME_ADDRESSES: usize = 5;
const STACK_CALLERS: usize = 6;
const STACK_FRAMES: usize = 7;
const SITE_PROCESSES: usize = 8;
const SITE_STACKS: usize = 9;

/// Bytes that the ledger and the reader keep beside a process, a thread or a site.
const BESIDE: u64 = 64;
/// Bytes of a stack, with its place in the table that finds it.
const STACK: u64 = 32;
/// Most entries of one kind in one block, so that its columns stay small.
const SLICE: usize = 1 << 18;

/// How many entries of each table are written so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    processes: usize,
    threads: usize,
    modules: usize,
    frames: usize,
    stacks: usize,
    sites: usize,
}

impl Default for Mark {
    fn default() -> Self {
        Self { processes: 0, threads: 0, modules: 0, frames: 0, stacks: Stacks::default().len(), sites: 0 }
    }
}

impl Mark {
    fn of(ledger: &Ledger) -> Self {
        Self {
            processes: ledger.processes.len(),
            threads: ledger.threads.len(),
            modules: ledger.catalog.modules.len(),
            frames: ledger.catalog.frames.len(),
            stacks: ledger.catalog.stacks.len(),
            sites: ledger.sites.len(),
        }
    }

    /// The columns of what is new since the mark, which moves on; None: nothing is. Call again until then: sites come
    /// last, and only when all that they refer to is written.
    pub fn write(&mut self, ledger: &Ledger) -> Option<Vec<Vec<u8>>> {
        let all = Self::of(ledger);
        if *self == all {
            return None;
        }
        let mut columns = vec![Vec::new(); COLUMNS];
        let to = Self {
            processes: all.processes.min(self.processes + SLICE),
            threads: if all.processes > self.processes + SLICE {
                self.threads
            } else {
                all.threads.min(self.threads + SLICE)
            },
            modules: all.modules.min(self.modules + SLICE),
            frames: if all.modules > self.modules + SLICE { self.frames } else { all.frames.min(self.frames + SLICE) },
            ..*self
        };
        let complete =
            (to.processes, to.threads, to.modules, to.frames) == (all.processes, all.threads, all.modules, all.frames);
        let stacks = if complete { all.stacks.min(self.stacks + SLICE) } else { self.stacks };
        let sites = if complete && stacks == all.stacks { all.sites.min(self.sites + SLICE) } else { self.sites };
        let to = Self { stacks, sites, ..to };
        for (from, to) in [
            (self.processes, to.processes),
            (self.threads, to.threads),
            (self.modules, to.modules),
            (self.frames, to.frames),
            (self.stacks, to.stacks),
            (self.sites, to.sites),
        ] {
            put(&mut columns[COUNTS], (to - from) as u64);
        }
        for process in &ledger.processes[self.processes..to.processes] {
            write_process(&mut columns[PROCESSES], process);
        }
        for thread in &ledger.threads[self.threads..to.threads] {
            put(&mut columns[THREADS], thread.process.0.into());
            put(&mut columns[THREADS], thread.tid.into());
        }
        for module in &ledger.catalog.modules[self.modules..to.modules] {
            put_bytes(&mut columns[MODULES], module.path.as_bytes());
            put_bytes(&mut columns[MODULES], &module.build_id);
        }
        let mut before = last(&ledger.catalog.frames, self.frames).map_or(0, |frame| frame.address);
        for frame in &ledger.catalog.frames[self.frames..to.frames] {
            let owner = frame.module.map_or(0, |module| u64::from(module.0) + 1);
            put(&mut columns[FRAME_OWNERS], owner << 1 | u64::from(frame.exact));
            put(&mut columns[FRAME_ADDRESSES], fold(frame.address, before));
            before = frame.address;
        }
        for number in self.stacks..to.stacks {
            if let Some((frame, caller)) = ledger.catalog.stacks.top(StackId(number as u32)) {
                put(&mut columns[STACK_CALLERS], number as u64 - u64::from(caller.0));
                put(&mut columns[STACK_FRAMES], to.frames as u64 - u64::from(frame.0));
            }
        }
        let mut before = last(&ledger.sites, self.sites).map_or((0, 0), |site| (site.process.0, site.stack.0));
        for site in &ledger.sites[self.sites..to.sites] {
            put(&mut columns[SITE_PROCESSES], fold(site.process.0.into(), before.0.into()));
            put(&mut columns[SITE_STACKS], fold(site.stack.0.into(), before.1.into()));
            before = (site.process.0, site.stack.0);
        }
        *self = to;
        Some(columns)
    }
}

fn last<T>(all: &[T], before: usize) -> Option<&T> {
    all.get(before.checked_sub(1)?)
}

fn write_process(out: &mut Vec<u8>, process: &Process) {
    let origin = u32::from(process.forked) + 2 * u32::from(process.attached);
    for number in [process.pid, process.parent_pid, process.serial, origin] {
        put(out, number.into());
    }
    put(out, process.start_ms);
    put_bytes(out, process.executable.as_bytes());
    let word = tables_word(process);
    put(out, word.iter().len() as u64);
    word.iter().for_each(|word| put_bytes(out, word.as_bytes()));
}

/// Columns of tables as [`Mark::write`] makes them: processes have the first words of their command lines alone.
pub fn without_arguments(columns: Vec<Cursor>) -> Result<Vec<Vec<u8>>, Nonsense> {
    let mut columns: Vec<Vec<u8>> = columns.into_iter().map(Cursor::into_bytes).collect();
    let column = columns.get_mut(PROCESSES).ok_or(Nonsense("a block of tables has another number of columns"))?;
    let (mut from, mut to) = (Cursor::new(std::mem::take(column)), Vec::new());
    // The block was read before, and its processes are in the budget.
    let mut budget = Budget::of_file(u64::MAX);
    while !from.is_empty() {
        write_process(&mut to, &read_process(&mut from, &mut budget)?);
    }
    *column = to;
    Ok(columns)
}

fn read_process(column: &mut Cursor, budget: &mut Budget) -> Result<Process, Nonsense> {
    let (pid, parent_pid, serial) = (column.small()?, column.small()?, column.small()?);
    let origin = column.small()?;
    let mut process = Process {
        pid,
        parent_pid,
        serial,
        forked: origin & 1 != 0,
        attached: origin & 2 != 0,
        start_ms: column.number()?,
        executable: column.string()?,
        ..Process::default()
    };
    process.end_ms = process.start_ms;
    budget.take(process.executable.len() as u64)?;
    for _ in 0..column.number()? {
        let argument = column.string()?;
        budget.take(STRING + argument.len() as u64)?;
        process.arguments.push(argument);
    }
    Ok(process)
}

/// Sites so far: a stack is a site of a process once. Most stacks are a site of one process alone and need no hash.
#[derive(Debug, Default)]
pub struct SiteSet {
    /// For each stack the process of its first site, plus 1; 0 where it has none.
    first: Vec<u32>,
    others: FxHashSet<(StackId, u32)>,
}

impl SiteSet {
    /// False if the site is there already. The process's number must be below `u32::MAX`.
    fn insert(&mut self, process: u32, stack: StackId) -> bool {
        let at = stack.0 as usize;
        if at >= self.first.len() {
            self.first.resize(at + 1, 0);
        }
        match &mut self.first[at] {
            free @ 0 => {
                *free = process + 1;
                true
            }
            first => *first != process + 1 && self.others.insert((stack, process)),
        }
    }
}

/// Adds the entries of a block of tables; `known` are the sites of all blocks before it.
pub fn read(
    columns: &mut [Cursor],
    ledger: &mut Ledger,
    known: &mut SiteSet,
    budget: &mut Budget,
) -> Result<(), Nonsense> {
    if columns.len() != COLUMNS {
        return Err(Nonsense("a block of tables has another number of columns"));
    }
    let mut counts = [0; 6];
    for count in &mut counts {
        *count = columns[COUNTS].number()?;
    }
    // Each entry takes a byte at least, so a count that is a lie ends with its column.
    let [processes, threads, modules, frames, stacks, sites] = counts;
    budget.take_entries::<Process>(processes, BESIDE)?;
    budget.take_entries::<Thread>(threads, BESIDE)?;
    budget.take_entries::<Module>(modules, 2 * STRING)?;
    budget.take(columns[MODULES].left() as u64)?;
    budget.take_entries::<Frame>(frames, 0)?;
    budget.take(stacks.saturating_mul(STACK))?;
    budget.take_entries::<Site>(sites, BESIDE)?;
    for _ in 0..processes {
        ledger.add_process(read_process(&mut columns[PROCESSES], budget)?);
    }
    for _ in 0..threads {
        let (process, tid) = (columns[THREADS].small()?, columns[THREADS].small()?);
        if process as usize >= ledger.processes.len() {
            return Err(Nonsense("a thread of no process"));
        }
        ledger.add_thread(process, tid);
    }
    for _ in 0..modules {
        let path = columns[MODULES].string()?;
        let build_id = columns[MODULES].bytes()?.to_vec();
        ledger.catalog.modules.push(Module { path, build_id });
    }
    read_frames(columns, ledger, frames)?;
    read_stacks(columns, ledger, stacks)?;
    let mut before = ledger.sites.last().map_or((0, 0), |site| (site.process.0, site.stack.0));
    for _ in 0..sites {
        let process = unfold(columns[SITE_PROCESSES].number()?, before.0.into());
        let stack = unfold(columns[SITE_STACKS].number()?, before.1.into());
        if process >= ledger.processes.len() as u64 || stack >= ledger.catalog.stacks.len() as u64 {
            return Err(Nonsense("a site of no process or no stack"));
        }
        before = (process as u32, stack as u32);
        if !known.insert(before.0, StackId(before.1)) {
            return Err(Nonsense("a site comes twice"));
        }
        ledger.add_site(before.0, StackId(before.1));
    }
    match columns.iter().all(Cursor::is_empty) {
        true => Ok(()),
        false => Err(Nonsense("a block of tables has more than its entries")),
    }
}

fn read_frames(columns: &mut [Cursor], ledger: &mut Ledger, frames: u64) -> Result<(), Nonsense> {
    let mut before = ledger.catalog.frames.last().map_or(0, |frame| frame.address);
    for _ in 0..frames {
        let owner = columns[FRAME_OWNERS].number()?;
        let module = match owner >> 1 {
            0 => None,
            module if module > ledger.catalog.modules.len() as u64 => return Err(Nonsense("a frame of no module")),
            module => Some(ModuleId((module - 1) as u32)),
        };
        before = unfold(columns[FRAME_ADDRESSES].number()?, before);
        ledger.catalog.frames.push(Frame::new(module, before, owner & 1 != 0));
    }
    Ok(())
}

fn read_stacks(columns: &mut [Cursor], ledger: &mut Ledger, stacks: u64) -> Result<(), Nonsense> {
    for _ in 0..stacks {
        let number = ledger.catalog.stacks.len() as u64;
        let caller = number.checked_sub(columns[STACK_CALLERS].number()?);
        let frame = (ledger.catalog.frames.len() as u64).checked_sub(columns[STACK_FRAMES].number()?);
        let (Some(caller), Some(frame)) = (caller, frame) else {
            return Err(Nonsense("a stack of no caller or no frame"));
        };
        if number >= u64::from(u32::MAX) || caller == number || frame == ledger.catalog.frames.len() as u64 {
            return Err(Nonsense("a stack of no caller or no frame"));
        }
        let id = ledger.catalog.stacks.push(StackId(caller as u32), FrameId(frame as u32));
        if u64::from(id.0) != number {
            return Err(Nonsense("a stack comes twice"));
        }
    }
    Ok(())
}
