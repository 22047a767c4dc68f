//! What is read of a process in which something went wrong: its modules, its memory, the stacks of its threads.

use super::finding::{Addresses, Block, Kind};
use super::hold::Hold;
use super::threads;
use crate::wire::{EXACT_PC, guard};
use mallow_patch::{Frame, Maps, Memory, Module, Process, Unwinder, stop_thread};
use rustc_hash::FxHashMap;
use std::time::Duration;

/// How long a thread that made a wrong access may take to stop.
const STOP: Duration = Duration::from_millis(500);
/// Why nothing can be read of any process.
const FOREIGN_PROC: &str =
    "/proc here shows another pid namespace than mallow's: mount that of this one (unshare --mount-proc)";
/// Why a stack is not whole.
const NOT_WHOLE: &str = "its outer frames are missing: they have no unwind information, or there are too many";

/// What is remembered of a process from one fault to the next.
#[derive(Default)]
pub struct Faults {
    modules: Vec<Module>,
    memory: Option<Memory>,
    /// Mappings with code when the modules were read.
    mapped: FxHashMap<u64, u64>,
}

impl Faults {
    pub fn memory(&mut self, pid: u32) -> Option<&Memory> {
        if self.memory.is_none() && !threads::proc_is_foreign() {
            self.memory = Memory::open(pid).ok();
        }
        self.memory.as_ref()
    }

    /// Bytes of a live block at the end that was passed.
    pub fn bytes(&mut self, pid: u32, kind: Kind, block: &Block) -> Vec<u8> {
        const SHOWN: u64 = 16;
        let length = block.size.min(SHOWN);
        let from = match kind {
            Kind::Overflow => block.address.saturating_add(block.size - length),
            Kind::Underflow => block.address,
            _ => return Vec::new(),
        };
        self.memory(pid).map_or_else(Vec::new, |memory| memory.read_up_to(from, length as usize))
    }

    /// The stack of a thread that waits, and why it is not known or not whole. `act` is called while the thread is
    /// held.
    pub fn stack(
        &mut self,
        pid: u32,
        hold: &Hold<'_>,
        generation: u32,
        act: &(dyn Fn() + Sync),
    ) -> (Addresses, Option<String>) {
        if threads::proc_is_foreign() {
            return (Addresses::default(), Some(FOREIGN_PROC.to_owned()));
        }
        self.read_modules(pid);
        if self.memory(pid).is_none() {
            return (Addresses::default(), Some("its memory cannot be read".to_owned()));
        }
        let Some(thread) = hold.thread(pid) else {
            return (Addresses::default(), Some("its thread is not in /proc".to_owned()));
        };
        let Some(memory) = self.memory.as_ref() else { return Default::default() };
        let unwinder = Unwinder::new(&self.modules);
        let act = Act(act);
        let walked = match hold.registers() {
            // It waits for us, and its stack is its own until then.
            Some(registers) => {
                let walked = unwinder.walk_interrupted(registers, memory);
                act.call();
                Ok(walked)
            }
            None => stop_thread(pid, thread, STOP, |thread| {
                let walked = thread.walk(&unwinder, memory);
                act.call();
                walked
            }),
        };
        match walked {
            Ok(Ok((frames, whole))) => {
                let reason = (!whole).then(|| NOT_WHOLE.to_owned());
                (addresses(&frames, generation, whole), reason)
            }
            Ok(Err(error)) => (Addresses::default(), Some(error.to_string())),
            Err(error) => (Addresses::default(), Some(error.to_string())),
        }
    }

    /// The stack of a thread that has these registers: it waits in a signal handler.
    pub fn stack_of(
        &mut self,
        pid: u32,
        registers: &[u64; guard::CRASH_REGISTERS],
        generation: u32,
    ) -> (Addresses, Option<String>) {
        if threads::proc_is_foreign() {
            return (Addresses::default(), Some(FOREIGN_PROC.to_owned()));
        }
        self.read_modules(pid);
        if self.memory(pid).is_none() {
            return (Addresses::default(), Some("it had ended before its stack could be read".to_owned()));
        }
        let Some(memory) = self.memory.as_ref() else { return Default::default() };
        let (frames, whole) = Unwinder::new(&self.modules).walk_saved(registers, memory);
        (addresses(&frames, generation, whole), (!whole).then(|| NOT_WHOLE.to_owned()))
    }

    fn read_modules(&mut self, pid: u32) {
        let Ok(maps) = Maps::read(pid) else { return };
        let mapped: FxHashMap<u64, u64> = maps.iter().filter(|m| m.executable).map(|m| (m.start, m.end)).collect();
        if mapped == self.mapped {
            return;
        }
        if let Ok(process) = Process::read(pid) {
            self.modules = Module::all(&process, &maps).0;
            self.mapped = mapped;
        }
    }
}

/// A function that the thread calls which holds the other one.
struct Act<'a>(&'a (dyn Fn() + Sync));

impl Act<'_> {
    fn call(&self) {
        (self.0)();
    }
}

fn addresses(frames: &[Frame], generation: u32, whole: bool) -> Addresses {
    let pc = |frame: &Frame| if frame.interrupted { frame.address | EXACT_PC } else { frame.address };
    Addresses { pcs: frames.iter().rev().map(pc).collect(), generation, cut: !whole }
}
