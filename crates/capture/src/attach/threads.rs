//! Threads of a process that may run a function for mallow, found one after the other while all others run.

use super::error::AttachError;
use super::holders::Holders;
use mallow_patch::{Gateway, Memory, Obstacle, StopError, Thread, Unwinder, stop_thread};
use std::time::{Duration, Instant};

/// How long one thread may take to stop.
const STOP: Duration = Duration::from_millis(200);
/// Pause between two rounds over all threads.
const PAUSE: Duration = Duration::from_millis(3);

/// Looks for threads that hold no lock.
pub struct FreeThreads<'a> {
    pid: u32,
    unwinder: &'a Unwinder<'a>,
    holders: &'a Holders,
    memory: &'a Memory,
    gateway: Gateway,
    patience: Duration,
    /// Whether the user gave up; called with what is in the way.
    given_up: &'a mut dyn FnMut(&str) -> bool,
}

impl<'a> FreeThreads<'a> {
    /// A search in process `pid` takes `patience` at the most, or until `given_up` returns true.
    pub fn new(
        pid: u32,
        (unwinder, holders, memory): (&'a Unwinder<'a>, &'a Holders, &'a Memory),
        patience: Duration,
        given_up: &'a mut dyn FnMut(&str) -> bool,
    ) -> Result<Self, AttachError> {
        let gateway = Gateway::find(pid)?;
        Ok(Self { pid, unwinder, holders, memory, gateway, patience, given_up })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn memory(&self) -> &'a Memory {
        self.memory
    }

    /// Calls `act` with a thread that holds no lock, what it needs for system calls and the process's memory. The
    /// others run.
    pub fn with<T: Send>(
        &mut self,
        act: impl FnOnce(&mut Thread, Gateway, &Memory) -> Result<T, AttachError> + Send,
    ) -> Result<T, AttachError> {
        let deadline = Instant::now() + self.patience;
        let mut act = Some(act);
        loop {
            let (mut reason, mut is_stopped) = ("it has no threads".to_owned(), false);
            let threads = mallow_patch::waiting_threads_first(self.pid)
                .map_err(|_| AttachError::Obstacle(Obstacle::Gone(self.pid)))?;
            for tid in threads {
                let (unwinder, holders, memory, gateway) = (self.unwinder, self.holders, self.memory, self.gateway);
                let mut used = act.take();
                let outcome = stop_thread(self.pid, tid, STOP, |thread| {
                    if thread.is_stopped() {
                        is_stopped = true;
                        return Err((used.take(), Obstacle::Stopped(self.pid).to_string()));
                    }
                    if !thread.is_free() {
                        return Err((used.take(), "a signal waits for a thread".to_owned()));
                    }
                    let refused = match thread.frames(unwinder, memory) {
                        Ok(Ok(frames)) => holders.obstacle(&frames),
                        Ok(Err(unknown)) => Some(unknown.to_string()),
                        Err(error) => Some(error.to_string()),
                    };
                    let refused = refused.or_else(|| thread.prepare(gateway).err().map(|error| error.to_string()));
                    match (refused, used.take()) {
                        (None, Some(act)) => Ok(act(thread, gateway, memory)),
                        (refused, act) => Err((act, refused.unwrap_or_default())),
                    }
                });
                match outcome {
                    Ok(Ok(result)) => return result,
                    Ok(Err((unused, why))) => {
                        act = unused;
                        reason = why;
                    }
                    // A thread that ended, or did not stop.
                    Err(StopError::Obstacle(Obstacle::Gone(_)) | StopError::Late { .. }) => act = used,
                    // A tracer that came meanwhile may go again.
                    Err(StopError::Obstacle(traced @ Obstacle::Traced { .. })) => {
                        act = used;
                        reason = traced.to_string();
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if (self.given_up)(&format!("no thread can load the library yet: {reason}")) {
                return Err(AttachError::Interrupted);
            }
            if Instant::now() >= deadline {
                // Its state does not say so before each thread that was held has had a processor.
                if is_stopped {
                    return Err(AttachError::Obstacle(Obstacle::Stopped(self.pid)));
                }
                return Err(AttachError::NoThread { process: self.pid, waited: self.patience, reason });
            }
            std::thread::sleep(PAUSE);
        }
    }
}
