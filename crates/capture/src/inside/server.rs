//! The thread that answers images which ask for their patches.

use super::planner::{Finding, Planner, UsedArea};
use super::question::{DIRECTORY, Question, State};
use crate::rundir::directory::RunDirectory;
use crate::wire::{Shared, control};
use mallow_profile::AllocatorInside;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread that answers images; it ends when this is dropped.
pub struct Server {
    control: Arc<Shared>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<AllocatorInside>>>,
}

impl Server {
    /// Begins to answer the images of a run: before its command starts. Images that do not count or trace ask nothing.
    pub fn begin(run: &RunDirectory) -> io::Result<Self> {
        let directory = run.path().to_owned();
        std::fs::create_dir(directory.join(DIRECTORY))?;
        let file = OpenOptions::new().read(true).write(true).open(directory.join("control"))?;
        let control = Arc::new(Shared::map(&file, control::FILE_BYTES)?);
        let over = Arc::new(AtomicBool::new(false));
        let (page, end) = (Arc::clone(&control), Arc::clone(&over));
        let thread =
            std::thread::Builder::new().name("inside".to_owned()).spawn(move || serve(&directory, &page, &end))?;
        control.word32(control::FLAGS).fetch_or(crate::wire::INSIDE, Ordering::AcqRel);
        Ok(Self { control, over, thread: Some(thread) })
    }

    /// Ends, and returns the allocators that it found, each once.
    pub fn end(mut self) -> Vec<AllocatorInside> {
        self.stop().unwrap_or_default()
    }

    fn stop(&mut self) -> Option<Vec<AllocatorInside>> {
        let thread = self.thread.take()?;
        self.over.store(true, Ordering::Release);
        self.control.word32(control::ASKS).fetch_add(1, Ordering::AcqRel);
        self.control.futex_wake(control::ASKS);
        thread.join().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An answer whose outcome the image has not reported yet.
struct OpenAnswer {
    question: Question,
    findings: Vec<Finding>,
    areas: Vec<UsedArea>,
}

fn serve(directory: &Path, page: &Shared, over: &AtomicBool) -> Vec<AllocatorInside> {
    let mut planner = Planner::default();
    let mut open: Vec<OpenAnswer> = Vec::new();
    let mut found = Vec::new();
    loop {
        let asks = page.get32(control::ASKS);
        // What came of a process's last answer is known before its next question is read.
        settle(&mut open, &mut planner, &mut found, false);
        for question in Question::all(directory) {
            let plan = planner.plan(&question);
            let nothing = plan.placed.is_empty() && plan.findings.is_empty() && plan.complete;
            let (mut findings, areas) = (plan.findings, plan.areas);
            match question.answer((!nothing).then_some(&plan.placed)) {
                Ok(()) if findings.is_empty() => {}
                Ok(()) => open.push(OpenAnswer { question, findings, areas }),
                Err(error) => {
                    for finding in &mut findings {
                        finding.fail(format!("its patches could not be written: {error}"));
                    }
                    note(&mut found, &findings, State::Open);
                }
            }
        }
        let ends = over.load(Ordering::Acquire);
        settle(&mut open, &mut planner, &mut found, ends);
        if ends {
            return found;
        }
        page.futex_wait(control::ASKS, asks, Duration::from_secs(3600));
    }
}

/// Notes the outcomes that images have reported; `ends`: all of them, as if reported.
fn settle(open: &mut Vec<OpenAnswer>, planner: &mut Planner, found: &mut Vec<AllocatorInside>, ends: bool) {
    open.retain_mut(|OpenAnswer { question, findings, areas }| {
        let state = question.state();
        let is_planned = !findings.iter().all(|finding| finding.allocator.functions == 0);
        let stays = state == State::Open && !ends && is_planned;
        if !stays {
            if state == State::Patched {
                planner.note(question, std::mem::take(areas));
            }
            note(found, findings, state);
        }
        stays
    });
}

fn failure(error: u32) -> String {
    match error {
        crate::wire::ask::THREADS => "threads ran before it could be patched".to_owned(),
        crate::wire::ask::CHANGED => "its code in memory is not that of its file".to_owned(),
        error => format!("it could not be patched: {}", io::Error::from_raw_os_error(error as i32)),
    }
}

/// Adds the allocators of `findings` that are not among `found` yet, with the outcome of their answer.
fn note(found: &mut Vec<AllocatorInside>, findings: &[Finding], state: State) {
    for finding in findings {
        let mut finding = finding.clone();
        if finding.allocator.functions > 0 {
            match state {
                // The image ended by a signal, at its start.
                State::Patched | State::Open => {}
                State::Failed(error) => finding.fail(failure(error)),
                State::GivenUp => finding.fail("it did not wait for mallow, which was slow".to_owned()),
            }
        }
        if !found.contains(&finding.allocator) {
            found.push(finding.allocator);
        }
    }
}
