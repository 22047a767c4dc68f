//! All threads of a process, held by ptrace and let go again.
//!
//! No signal is sent, so that nothing of it is seen by the program or by its parent. A stop interrupts the system call
//! that a thread waits in. The kernel restarts most of them by itself. Some it ends with EINTR instead (signal(7) lists
//! them: epoll_wait, sigtimedwait, semop, io_getevents, sockets with a timeout): a thread that is about to see that is
//! sent back to its `syscall` instruction, see [`Thread::release`].

use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mallow_arch::registers::{GENERAL, INTERRUPTED, Registers, TO_RESTART};

use crate::filters::may_restart;
use crate::obstacle::Obstacle;
use crate::process::{self, Activity, State};
use crate::recovery::Recovery;
use crate::trace::{self, Event, Pauses};

/// Why the threads of a process are not stopped. None of them is held any more.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// A thread did not stop in time.
    #[error("thread {thread} of process {process} did not stop within {waited:?}")]
    Late {
        process: u32,
        thread: u32,
        /// Time from the request to the end of the wait.
        waited: Duration,
    },
    #[error("ptrace: {0}")]
    Request(#[from] io::Error),
}

/// A thread that does not stop for so long, because what it waits for cannot be interrupted, is not waited for: all
/// others stand still meanwhile.
const UNINTERRUPTIBLE: Duration = Duration::from_millis(50);

/// Time limit from one instruction to its system call. A thread that comes later goes on by itself.
const INTO_CALL: Duration = Duration::from_secs(10);

/// Threads that wait get so much of a start to stop before those that run are asked to: then all of them want a
/// processor no more.
const START: Duration = Duration::from_millis(2);

/// Time beyond `patience` for a thread that was asked to stop, and could: on a busy machine it waits for a processor.
/// One that is let go before it has stopped would see EINTR.
const STARVED: Duration = Duration::from_secs(10);

/// Stops all threads of process `pid`, calls `act`, and lets them go. `patience` is how long the threads may take to
/// stop, and for how long another tracer is waited for.
///
/// Runs in a thread of its own, whose end releases whatever else would be left: ptrace belongs to the thread that uses
/// it. A caller that is killed meanwhile leaves the process running as well; a call that was interrupted may fail with
/// EINTR if that happens within microseconds of the interruption.
pub fn stop<T: Send>(pid: u32, patience: Duration, act: impl FnOnce(&mut Stopped) -> T + Send) -> Result<T, StopError> {
    hold(pid, None, patience, act)
}

/// Stops one thread of a process as [`stop`] stops all; the others run.
pub fn stop_thread<T: Send>(
    pid: u32,
    tid: u32,
    patience: Duration,
    act: impl FnOnce(&mut Thread) -> T + Send,
) -> Result<T, StopError> {
    let only = |stopped: &mut Stopped| stopped.threads.values_mut().next().map(act);
    hold(pid, Some(tid), patience, only)?.ok_or(StopError::Obstacle(Obstacle::Gone(tid)))
}

fn hold<T: Send>(
    pid: u32,
    only: Option<u32>,
    patience: Duration,
    act: impl FnOnce(&mut Stopped) -> T + Send,
) -> Result<T, StopError> {
    let deadline = Instant::now() + patience;
    let mut act = Some(act);
    for turn in 1.. {
        match hold_once(pid, only, (deadline, patience), &mut act) {
            // Another one may have half of the threads, and wait for those that this one had.
            Err(StopError::Obstacle(Obstacle::Traced { .. } | Obstacle::Refused(_))) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_micros(500 + u64::from(std::process::id() * turn % 13) * 300));
            }
            ended => return ended,
        }
    }
    Err(Obstacle::Gone(pid).into())
}

fn hold_once<T: Send>(
    pid: u32,
    only: Option<u32>,
    (deadline, patience): (Instant, Duration),
    act: &mut Option<impl FnOnce(&mut Stopped) -> T + Send>,
) -> Result<T, StopError> {
    let tracer = AtomicU32::new(0);
    let session = || {
        tracer.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
        hurry();
        let mut stopped = Stopped { pid, threads: BTreeMap::new(), bound: PhantomData };
        stopped.seize_all(only, deadline, patience)?;
        let act = act.take().ok_or(Obstacle::Gone(pid))?;
        Ok(act(&mut stopped))
        // Dropped: all are let go.
    };
    let result = std::thread::scope(|scope| scope.spawn(session).join());
    // Joining does not wait for the kernel, which frees the last tracees when it removes the thread.
    let entry = format!("/proc/self/task/{}", tracer.into_inner());
    // Its number may be another thread's by then.
    let until = Instant::now() + Duration::from_secs(1);
    while std::fs::exists(&entry).unwrap_or(false) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(10));
    }
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The calling thread gets a processor before others, as far as that is allowed: threads of a process stand still for
/// as long as it waits for one. For threads that work for some milliseconds at a time.
pub fn hurry() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: requests for the calling thread alone; the parameter lives.
    unsafe {
        // Sleeps of a few microseconds end in time.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_000);
        if libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &first) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        }
    }
}

/// The threads of a process, all of them stopped. Dropping it lets them go.
#[derive(Debug)]
pub struct Stopped {
    pid: u32,
    threads: BTreeMap<u32, Thread>,
    /// ptrace belongs to the thread that seized: this type is not `Send`.
    bound: PhantomData<*const ()>,
}

#[derive(Debug)]
pub struct Thread {
    pub(crate) tid: u32,
    /// The signal that the thread is about to take; 0: none.
    pub(crate) signal: i32,
    /// Whether a stop signal holds its whole process: then nothing of it may run, and calls that return EINTR after
    /// that would have done so anyway.
    pub(crate) grouped: bool,
    pub(crate) stopped: bool,
    /// Whether the thread ran, or could have, before it was asked to stop.
    was_running: bool,
    /// Registers by which the thread makes its system call again, if the stop has ended it with EINTR.
    pub(crate) cut: Option<Registers>,
    /// The way back to the thread's own work if it is let go while it works for us. None: nothing has been prepared.
    pub(crate) recovery: Option<Recovery>,
}

impl Stopped {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.values()
    }

    /// The threads, for system calls in them.
    pub fn threads_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.threads.values_mut()
    }

    /// Lets all go but one: while that one works for us, the others run.
    pub fn let_others_go(&mut self, tid: u32) {
        let held = self.threads.values_mut().filter(|thread| thread.stopped && thread.tid != tid);
        release_all(held.collect());
    }

    /// Lets these threads run for some time, while all others stand still: one that is about to leave some code gets a
    /// processor at once. It may wait for a lock that another one holds. All are stopped afterwards, and new threads,
    /// too.
    pub fn run_alone(&mut self, tids: &[u32], time: Duration) -> Result<(), StopError> {
        let is_able = |thread: &&mut Thread| {
            tids.contains(&thread.tid) && thread.stopped && thread.signal == 0 && !thread.grouped
        };
        for thread in self.threads.values_mut().filter(is_able) {
            // What it needs to go back belongs to where it stood.
            (thread.cut, thread.recovery) = (None, None);
            // It fails where the thread was killed.
            thread.stopped = trace::resume(thread.tid).is_err();
        }
        std::thread::sleep(time);
        for thread in self.threads.values().filter(|thread| !thread.stopped) {
            let _ = trace::interrupt(thread.tid);
        }
        let (pid, mut gone) = (self.pid, Vec::new());
        for thread in self.threads.values_mut().filter(|thread| !thread.stopped) {
            match thread.wait(pid, Instant::now() + STARVED)? {
                Some(true) => {}
                Some(false) => gone.push(thread.tid),
                None => return Err(StopError::Late { process: pid, thread: thread.tid, waited: STARVED }),
            }
        }
        self.threads.retain(|tid, _| !gone.contains(tid));
        self.seize_all(None, Instant::now() + STARVED, STARVED)
    }

    /// Seizes and interrupts threads until no new one appears: those that are not stopped yet may start others.
    ///
    /// Those that wait are stopped before those that run, which go on meanwhile.
    fn seize_all(&mut self, only: Option<u32>, deadline: Instant, patience: Duration) -> Result<(), StopError> {
        let pid = self.pid;
        let late = |thread| StopError::Late { process: pid, thread, waited: patience };
        loop {
            let listed = process::threads(pid).map_err(|_| Obstacle::Gone(pid))?;
            let new = listed.into_iter().filter(|tid| only.is_none_or(|only| only == *tid));
            let new = new.filter(|tid| !self.threads.contains_key(tid));
            let new: Vec<(u32, Activity)> = new.map(|tid| (tid, process::activity(pid, tid))).collect();
            // One that waits in vfork for its child would have all others wait, too.
            if let Some((tid, _)) = new.iter().find(|(_, activity)| *activity == Activity::Uninterruptible)
                && self.threads.is_empty()
            {
                if Instant::now() >= deadline {
                    return Err(late(*tid));
                }
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let mut seized = 0;
            for (tid, activity) in new {
                let was_running = activity == Activity::Running;
                match trace::seize(tid) {
                    Ok(()) => {
                        let (signal, grouped, stopped, cut, recovery) = (0, false, false, None, None);
                        let thread = Thread { tid, signal, grouped, stopped, was_running, cut, recovery };
                        self.threads.insert(tid, thread);
                        seized += 1;
                    }
                    Err(error) if ended(pid, tid) || error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(Obstacle::of_refusal(pid, tid, error).into()),
                }
            }
            if seized == 0 {
                break;
            }
            let (mut gone, mut late_one): (Vec<u32>, _) = (Vec::new(), None);
            for was_running in [false, true] {
                let chosen = |thread: &&mut Thread| !thread.stopped && thread.was_running == was_running;
                // All of them before the first is waited for.
                for thread in self.threads.values_mut().filter(chosen) {
                    let _ = trace::interrupt(thread.tid);
                }
                let start = Instant::now() + START;
                for thread in self.threads.values_mut().filter(chosen).filter(|_| !was_running) {
                    if Instant::now() >= start {
                        break;
                    }
                    if thread.wait(pid, start)? == Some(false) {
                        gone.push(thread.tid);
                    }
                }
            }
            for thread in self.threads.values_mut().filter(|thread| !thread.stopped) {
                match thread.wait(pid, deadline + STARVED)? {
                    Some(true) => {}
                    Some(false) => gone.push(thread.tid),
                    None => late_one = late_one.or(Some(thread.tid)),
                }
            }
            for tid in gone {
                self.threads.remove(&tid);
            }
            if let Some(tid) = late_one {
                return Err(late(tid));
            }
        }
        match self.threads.is_empty() {
            true => Err(Obstacle::all(self.pid).into_iter().next().unwrap_or(Obstacle::Gone(self.pid)).into()),
            false => Ok(()),
        }
    }
}

/// Whether a thread that cannot be seized is one that has ended: the first thread of a process stays as a zombie until
/// the last one ends.
fn ended(pid: u32, tid: u32) -> bool {
    matches!(process::thread_state(pid, tid), None | Some(State::Zombie))
}

impl Drop for Stopped {
    fn drop(&mut self) {
        release_all(self.threads.values_mut().filter(|thread| thread.stopped).collect());
    }
}

fn release_all(mut held: Vec<&mut Thread>) {
    // Those that ran before those that waited; those that have to be followed into a system call are last.
    held.sort_by_key(|thread| (thread.cut.is_some(), !thread.was_running));
    for thread in held {
        // It fails where the thread was killed: then there is nothing to let go.
        let _ = thread.release();
    }
}

impl Thread {
    pub fn id(&self) -> u32 {
        self.tid
    }

    /// The address of the instruction that it executes next.
    pub fn address(&self) -> io::Result<u64> {
        Registers::read(self.tid).map(|registers| registers.pc())
    }

    /// The general registers that may hold addresses, in no order.
    pub fn general_registers(&self) -> io::Result<[u64; GENERAL]> {
        let registers = self.cut.map_or_else(|| Registers::read(self.tid), Ok)?;
        Ok(registers.general())
    }

    /// Waits until it stands still: true, or false if it has ended. None: it did not stop before `deadline`.
    fn wait(&mut self, pid: u32, deadline: Instant) -> io::Result<Option<bool>> {
        let (begin, mut pauses) = (Instant::now(), Pauses::default());
        loop {
            match trace::wait(self.tid)? {
                Some(Event::Gone) => return Ok(Some(false)),
                Some(event) => {
                    self.stopped = true;
                    match event {
                        Event::Signal(signal) => self.signal = signal,
                        Event::GroupStop => self.grouped = true,
                        // One that was killed meanwhile has none.
                        _ => self.repeat_call().or_else(|error| match error.raw_os_error() {
                            Some(libc::ESRCH) => Ok(()),
                            _ => Err(error),
                        })?,
                    }
                    return Ok(Some(true));
                }
                None if Instant::now() >= deadline => return Ok(None),
                None if begin.elapsed() >= UNINTERRUPTIBLE
                    && process::activity(pid, self.tid) == Activity::Uninterruptible =>
                {
                    return Ok(None);
                }
                None => pauses.next(),
            }
        }
    }

    /// Has the thread make its system call again when it is let go, if the stop alone has ended it with EINTR: at once,
    /// so that it does so if its tracer is killed. So does one whose filter may punish restart_syscall, by which the
    /// kernel has it go on.
    pub(crate) fn repeat_call(&mut self) -> io::Result<()> {
        let registers = Registers::read(self.tid)?;
        self.cut = None;
        let result = registers.result();
        let is_cut = result == INTERRUPTED || result == TO_RESTART && !may_restart(self.tid);
        if let Some(again) = registers.interrupted_call().filter(|_| is_cut) {
            again.write(self.tid)?;
            self.cut = Some(registers);
        }
        Ok(())
    }

    /// Lets it run as if it had never been stopped.
    ///
    /// A thread whose system call was cut off with EINTR by the stop alone is at its `syscall` instruction again. It is
    /// followed into the call: a signal that comes before it is there is delivered with EINTR in its place, as it would
    /// have been, and one that comes later interrupts the call. So no program that waits for a signal to end its call
    /// waits for ever. PTRACE_DETACH would interrupt the call once more, as it wakes the thread to make it look for
    /// signals; the end of the tracing thread does not wake one that runs or sleeps. So such a thread stays traced
    /// until then.
    ///
    /// A timeout of the call begins anew.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.stopped = false;
        if self.signal != 0 || self.grouped {
            return trace::detach(self.tid, self.signal);
        }
        let Some(registers) = self.cut.take() else { return trace::detach(self.tid, 0) };
        trace::resume_to_system_call(self.tid)?;
        match trace::wait_until(self.tid, Instant::now() + INTO_CALL)? {
            Some(Event::Signal(signal)) => {
                registers.write(self.tid)?;
                trace::detach(self.tid, signal)
            }
            Some(Event::Gone) | None => Ok(()),
            Some(Event::SystemCall) => trace::resume(self.tid),
            // A stop of the whole process: it takes effect before the call.
            Some(Event::Stop | Event::GroupStop | Event::Trap) => trace::detach(self.tid, 0),
        }
    }
}
