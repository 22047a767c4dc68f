//! Attaching to processes while others are watched: it takes as long as a process needs to come to a thread without a
//! lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mallow_capture::attach::Attachment;
use mallow_capture::rundir::directory::RunDirectory;
use mallow_capture::session;
use mallow_profile::Process;

use super::super::attached;
use super::member::program;
use super::run::Attached;

/// A process that was attached to, or why it was not.
pub struct Outcome {
    pub pid: u32,
    pub program: String,
    /// The run, to be left to a watch.
    pub result: Result<(RunDirectory, Attached), String>,
}

/// A thread that attaches to one process after the other.
pub struct Attacher {
    asks: Sender<Process>,
    outcomes: Receiver<Outcome>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Attacher {
    pub fn start(period: u32, timeout: Duration) -> std::io::Result<Self> {
        let (asks, processes) = channel::<Process>();
        let (answers, outcomes) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("attacher".to_owned()).spawn(move || {
            for process in processes {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let result = attach(process.pid, period, timeout);
                // The receiver is kept until this thread has ended.
                let _ = answers.send(Outcome { pid: process.pid, program: program(&process), result });
            }
        })?;
        Ok(Self { asks, outcomes, is_over, thread })
    }

    /// Asks for an attachment, which the thread makes after those before it.
    pub fn ask(&self, process: Process) {
        // It does not end before this.
        let _ = self.asks.send(process);
    }

    /// Outcomes since the last call.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.outcomes.try_iter().collect()
    }

    /// Attaches to nothing more. An attaching that is under way is waited for: what came of it.
    pub fn end(self) -> Vec<Outcome> {
        let Self { asks, outcomes, is_over, thread } = self;
        is_over.store(true, Ordering::Release);
        drop(asks);
        let _ = thread.join();
        outcomes.try_iter().collect()
    }
}

fn attach(pid: u32, period: u32, timeout: Duration) -> Result<(RunDirectory, Attached), String> {
    let ran_ms = attached::age(pid).unwrap_or_default().as_millis() as u64;
    let (run, attachment): (_, Attachment) =
        attached::with(pid, None, timeout, |process| session::attach_sampled_too(process, period))
            .map_err(|error| error.to_string())?;
    Ok((run, Attached { attachment, ran_ms }))
}
