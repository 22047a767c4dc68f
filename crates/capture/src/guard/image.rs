//! One image that is guarded: its userfaultfd, the slots that it asks for, and what goes wrong in it.

use super::crash::{self, Zeroings};
use super::faults::Faults;
use super::finding::{Block, Finding, Kind, Message, Mismatch, Operation, Outcome, Region, Search, Zeroed};
use super::hold::Hold;
use super::leaks;
use super::operators::{self, Program};
use super::slots::{Guarded, Meaning, PAGE, Report};
use super::uffd::Userfault;
use super::{MOST_FINDINGS, thread_name};
use crate::rundir::directory::monotonic_ns;
use crate::rundir::process_file::{ExitState, ProcessFile};
use crate::scan::Failure;
use crate::wire::{self, guard, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often an image is looked at that says nothing.
const PAUSE: Duration = Duration::from_millis(50);

pub struct Image<'a> {
    pub source: ProcessFile,
    pub guarded: Guarded,
    pub messages: Sender<Message>,
    /// A program ends at its first error.
    pub fails_fast: bool,
    /// The image is searched for leaks at its exit.
    pub leaks: bool,
    /// Pages of each slot that get the pattern here, and not in the target: `PATTERNED_…` of `wire::guard`.
    pub patterned: u32,
    pub directory: &'a Path,
    /// The keeper is to end.
    pub over: &'a AtomicBool,
}

#[derive(Default)]
struct Log {
    /// Errors that the target reported and that were read.
    read: u32,
    findings: u64,
    lost: u64,
    zeroings: Zeroings,
    search: Option<Search>,
}

impl Image<'_> {
    /// Guards the image until it ends, or the keeper does.
    pub fn guard(self) {
        // Errors from before are an earlier keeper's.
        let mut log = Log { read: self.guarded.reported(self.source.shared()), ..Log::default() };
        let (mut refused, mut handled) = (None, None);
        let program = Program::of(self.source.pid_here());
        let executable = self.source.process(0, 0).executable;
        if self.state() == guard::PROTECTS && self.answer(guard::PROTECTS, guard::HANDLED) {
            handled = Some(super::refusal(self.error()));
            self.work(None, &self.guarded.range(self.source.shared()), &mut log);
        } else {
            match self.take() {
                Ok((userfault, range)) => self.work(Some(&userfault), &range, &mut log),
                Err(error) => refused = Some(error),
            }
        }
        self.reports(&mut log);
        self.crash(&mut Faults::default(), &log.zeroings);
        let search = match log.search.take() {
            _ if !self.leaks || refused.is_some() => Search::Unwanted,
            Some(search) => search,
            None => leaks::reason(&self.source),
        };
        let shared = self.source.shared();
        let count = |field: usize| shared.get64(self.guarded.field(field));
        let outcome = Outcome {
            pid: self.source.pid,
            serial: self.source.serial,
            executable,
            began_ns: self.source.start_ns(),
            refused,
            handled,
            ended: self.end_of_guarding(),
            guarded: count(guard::GUARDED),
            unguarded: count(guard::UNGUARDED),
            unfit: count(guard::UNFIT),
            lost: log.lost,
            uncompared: operators::uncompared(
                &self.source,
                shared.get32(self.guarded.field(guard::OPERATORS)),
                program,
            ),
            unsure: shared.get32(self.guarded.field(guard::UNCOMPARED)).into(),
            search,
        };
        // Nobody reads where mallow is gone.
        let _ = self.messages.send(Message::Outcome(outcome));
    }

    /// Why no allocation was guarded from some moment on.
    fn end_of_guarding(&self) -> Option<String> {
        match self.guarded.layout.counters(self.source.shared()).over {
            wire::OVER_FILTER => Some("it installed a filter of system calls that forbids guarding"),
            wire::OVER_LEFT => Some("a signal handler jumped out of an allocation (longjmp)"),
            wire::OVER_FOREIGN => {
                Some("it gives blocks of malloc to functions of its allocator that Mallow does not see")
            }
            _ => None,
        }
        .map(str::to_owned)
    }

    fn state(&self) -> u32 {
        self.source.shared().get32(self.guarded.field(guard::STATE))
    }

    /// Takes the descriptor that the image offers.
    fn take(&self) -> Result<(Userfault, Range<u64>), String> {
        let state = self.state();
        if state != guard::OFFERED {
            return Err(self.refusal(state));
        }
        let range = self.guarded.range(self.source.shared());
        let taken = self
            .descriptor()
            .and_then(|descriptor| Userfault::register(descriptor, range.start, range.end - range.start));
        let shared = self.source.shared();
        let answer = |to| self.answer(guard::OFFERED, to);
        match taken {
            Ok(userfault) => {
                for (start, bytes) in self.guarded.live(shared, &range) {
                    userfault.fill(start, bytes);
                }
                self.guarded.serve(shared, &range, &|start, bytes| userfault.make_ready(start, bytes, self.patterned));
                if answer(guard::TAKEN) { Ok((userfault, range)) } else { Err(self.refusal(guard::GIVEN_UP)) }
            }
            Err(error) => {
                answer(guard::GIVEN_UP);
                Err(format!("its userfaultfd cannot be taken: {error}; mallow needs what ptrace needs"))
            }
        }
    }

    /// Takes the image, which waits, from one state to another. False: it waits no more.
    fn answer(&self, from: u32, to: u32) -> bool {
        let (shared, state) = (self.source.shared(), self.guarded.field(guard::STATE));
        let changed = shared.word32(state).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        shared.futex_wake(state);
        changed.is_ok()
    }

    fn descriptor(&self) -> io::Result<rustix::fd::OwnedFd> {
        let pid =
            Pid::from_raw(self.source.pid_here() as i32).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let number = self.source.shared().get32(self.guarded.field(guard::DESCRIPTOR)) as i32;
        Ok(pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?)
    }

    /// The `errno` with which the kernel refused a userfaultfd.
    fn error(&self) -> i32 {
        self.source.shared().get32(self.guarded.field(guard::DESCRIPTOR)) as i32
    }

    fn refusal(&self, state: u32) -> String {
        match state {
            guard::REFUSED => super::refusal(self.error()),
            guard::FILTERED => {
                "a filter of system calls (seccomp) of the program's own may forbid userfaultfd".to_owned()
            }
            guard::NO_ADDRESSES => {
                "its address space is limited (ulimit -v), and there is no room for slots".to_owned()
            }
            _ => "its userfaultfd was not taken in time".to_owned(),
        }
    }

    /// Works until the image or the keeper ends. Without a userfaultfd threads wait in a signal handler.
    fn work(&self, userfault: Option<&Userfault>, range: &Range<u64>, log: &mut Log) {
        let over = AtomicBool::new(false);
        let Some(mut places) = Guarded::of(&self.source) else { return };
        let (wanted, shared) = (self.guarded.field(guard::WANTED), self.source.shared());
        log.search = std::thread::scope(|scope| {
            let supplier = userfault.map(|userfault| scope.spawn(|| self.supply(userfault, range, &over)));
            let searcher = self.leaks.then(|| scope.spawn(|| self.search(&over)));
            let mut faults = Faults::default();
            while !self.over.load(Ordering::Relaxed) {
                let (before, is_quiet) = (shared.get32(wanted), userfault.is_none_or(pauses));
                self.reports(log);
                self.crash(&mut faults, &log.zeroings);
                if is_quiet && !self.source.alive() {
                    break;
                }
                let work = &mut (&mut *log, &mut places, &mut faults);
                match userfault {
                    Some(userfault) => {
                        while !self.over.load(Ordering::Relaxed)
                            && let Ok(Some(fault)) = userfault.next()
                        {
                            self.fault(&Hold::Missing(userfault, fault), range, work);
                        }
                    }
                    None => {
                        Hold::in_handlers(shared, self.guarded.field(0))
                            .for_each(|hold| self.fault(&hold, range, work));
                        shared.word32(self.guarded.field(guard::BEAT)).fetch_add(1, Ordering::Relaxed);
                        shared.futex_wait(wanted, before, PAUSE);
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
            shared.futex_wake(wanted);
            shared.futex_wake(process::EXIT_STATE);
            if let Some(supplier) = supplier {
                let _ = supplier.join();
            }
            searcher.and_then(|searcher| searcher.join().ok().flatten())
        });
    }

    /// Makes slots ready, and shows the image that the keeper lives.
    fn supply(&self, userfault: &Userfault, range: &Range<u64>, over: &AtomicBool) {
        let (wanted, shared) = (self.guarded.field(guard::WANTED), self.source.shared());
        let beat = shared.word32(self.guarded.field(guard::BEAT));
        let fill = |start, bytes| userfault.make_ready(start, bytes, self.patterned);
        while !over.load(Ordering::Relaxed) {
            let before = shared.get32(wanted);
            beat.fetch_add(1, Ordering::Relaxed);
            if !self.guarded.serve(shared, range, &fill) {
                shared.futex_wait(wanted, before, PAUSE);
            }
        }
    }

    /// Waits until the image is at its exit, and searches it for leaks. None: it ended without that.
    fn search(&self, over: &AtomicBool) -> Option<Search> {
        let shared = self.source.shared();
        while self.source.exit_state() != ExitState::Waits {
            if over.load(Ordering::Relaxed) {
                return None;
            }
            shared.futex_wait(process::EXIT_STATE, wire::EXIT_NOT, PAUSE);
        }
        let enough = || over.load(Ordering::Relaxed) || self.source.exit_state() != ExitState::Waits;
        let leaks = match leaks::search(&self.source, &self.guarded, self.directory, &enough) {
            Ok(leaks) => leaks,
            // Why the image ended meanwhile is known better after that.
            Err(Failure::Gone) => return None,
            Err(failure) => return Some(Search::Not(failure.why().to_owned())),
        };
        for leak in leaks {
            let _ = self.messages.send(Message::Leak(Box::new(leak)));
        }
        Some(Search::Done)
    }

    fn fault(&self, hold: &Hold<'_>, range: &Range<u64>, work: &mut (&mut Log, &mut Guarded, &mut Faults)) {
        let (log, places, faults) = work;
        let fault = hold.fault();
        if !range.contains(&fault.address) {
            hold.wake();
            return;
        }
        let meaning = places.meaning(self.source.shared(), range, fault.address);
        if meaning == Meaning::Own || log.findings >= MOST_FINDINGS {
            log.lost += u64::from(meaning != Meaning::Own);
            if let Meaning::Freed(index) | Meaning::After(index) | Meaning::Before(index) = meaning {
                self.guarded.touch(self.source.shared(), index);
            }
            hold.let_go();
            return;
        }
        let pid = self.source.pid_here();
        let thread = |tid| thread_name(pid, tid);
        let (kind, index) = match meaning {
            Meaning::Freed(index) => (Kind::UseAfterFree, Some(index)),
            Meaning::After(index) => (Kind::Overflow, Some(index)),
            Meaning::Before(index) => (Kind::Underflow, Some(index)),
            Meaning::Own | Meaning::Nothing => (Kind::Wild, None),
        };
        let shared = self.source.shared();
        let given = index.filter(|_| kind == Kind::Overflow);
        let given = given.and_then(|index| self.guarded.given_behind(shared, index, fault.tid));
        let address = given.map_or(fault.address, |given| given.min(fault.address));
        let near = index.or_else(|| self.guarded.nearest(shared, range, fault.address));
        let block = near.and_then(|index| self.guarded.block(shared, index, &thread));
        let bytes = block.as_ref().map_or_else(Vec::new, |block| faults.bytes(pid, kind, block));
        // Before the thread goes on: it may crash at once.
        let (at_ns, name) = (monotonic_ns(), thread(fault.tid));
        let generation = shared.get32(process::GENERATION);
        let fails_fast = self.fails_fast;
        let let_go = || {
            // The page before is the slot's that has it, which may be another one.
            if let Some(index) = index {
                self.guarded.touch(shared, index);
            }
            hold.let_go();
        };
        let (stack, without_stack) =
            faults.stack(pid, hold, generation, &|| if fails_fast { hold.end(pid) } else { let_go() });
        let operation = Operation { at_ns, tid: fault.tid, thread: name, stack };
        if !fails_fast {
            log.zeroings.note(Zeroed { kind, address, write: fault.write, operation: operation.clone() });
        }
        self.found(
            log,
            Finding {
                kind,
                pid: self.source.pid,
                serial: self.source.serial,
                address,
                exact: hold.is_exact() || given.is_some(),
                write: Some(fault.write),
                operation,
                without_stack,
                block,
                region: None,
                mismatch: None,
                bytes,
            },
        );
        if !fails_fast {
            // Where the thread could not be stopped, it waits still.
            hold.let_go();
        } else {
            hold.wake();
        }
    }

    fn crash(&self, faults: &mut Faults, zeroings: &Zeroings) {
        if let Some(crash) = crash::take(&self.source, &self.guarded, faults, zeroings) {
            let _ = self.messages.send(Message::Crash(Box::new(crash)));
        }
    }

    fn found(&self, log: &mut Log, finding: Finding) {
        log.findings += 1;
        let _ = self.messages.send(Message::Finding(Box::new(finding)));
    }

    /// Sends on what the target found itself.
    fn reports(&self, log: &mut Log) {
        let shared = self.source.shared();
        let (reports, lost) = self.guarded.reports(shared, &mut log.read);
        log.lost += u64::from(lost);
        let pid = self.source.pid_here();
        for report in reports {
            let Report { kind, address, at_ns, tid, stack, slot, bytes } = report;
            let kind = match kind {
                guard::DOUBLE_FREE => Kind::DoubleFree,
                guard::INTERIOR => Kind::InteriorFree,
                guard::FOREIGN => Kind::ForeignFree,
                guard::SLACK => Kind::Slack,
                guard::MISMATCH => Kind::MismatchedFree,
                _ => continue,
            };
            if log.findings >= MOST_FINDINGS {
                log.lost += 1;
                continue;
            }
            let thread = |tid| thread_name(pid, tid);
            let mut block: Option<Block> = self.guarded.block(shared, slot, &thread);
            if let Some(block) = &mut block {
                // It was live then, and is not any more.
                block.freed.take_if(|freed| freed.at_ns > at_ns || kind == Kind::MismatchedFree);
            }
            let region = (kind == Kind::ForeignFree).then(|| Region::of_report(pid, address, &bytes));
            let mismatch = if kind == Kind::MismatchedFree { Mismatch::of(&bytes) } else { None };
            // Beside a block, what was read ends with the block's page: the next one is missing.
            let room = if kind == Kind::Slack { (PAGE - address % PAGE) as usize } else { 0 };
            let bytes = bytes.into_iter().take(room).collect();
            let operation = Operation { at_ns, tid, thread: thread(tid), stack: self.guarded.stack(shared, stack) };
            let (pid, serial) = (self.source.pid, self.source.serial);
            self.found(
                log,
                Finding {
                    kind,
                    pid,
                    serial,
                    address,
                    exact: true,
                    write: None,
                    operation,
                    without_stack: None,
                    block,
                    region,
                    mismatch,
                    bytes,
                },
            );
        }
    }
}

/// Whether no fault comes for [`PAUSE`].
fn pauses(userfault: &Userfault) -> bool {
    let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as i64 };
    matches!(poll(&mut [PollFd::new(&userfault, PollFlags::IN)], Some(&pause)), Ok(0))
}
