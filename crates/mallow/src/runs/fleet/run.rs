//! A run directory that is watched, with the processes in it that match.

use std::path::{Path, PathBuf};

use mallow_capture::attach::Attachment;
use mallow_capture::rundir::directory::remove;
use mallow_capture::watch::{Turn, Watch};
use mallow_profile::{Lost, ProcessId, SampleEvent};

use super::choice::Choice;
use super::member::Member;
use crate::runs::script_names::ScriptNames;

/// Targets are looked at as often, in nanoseconds, where nothing happens.
const GLANCE_NS: u64 = 1_000_000_000;
/// Interval between questions to the kernel whether processes began or ended: three system calls a process.
const ASK_NS: u64 = 2_000_000_000;

pub struct Attached {
    /// The patches in the process.
    pub attachment: Attachment,
    /// Time that the process had run by then, in milliseconds.
    pub ran_ms: u64,
}

/// Conditions under which a process becomes a member.
pub struct Admission<'a> {
    pub choice: Choice<'a>,
    /// Nanoseconds for which a process is too young for its growth to be a leak.
    pub warm_up_ns: u64,
    /// Number of the next member.
    pub next: &'a mut u64,
}

pub struct Run {
    pub watch: Watch,
    pub members: Vec<Member>,
    /// The process that mallow attached to. None: the run is of a command under mallow.
    pub attached: Option<Attached>,
    /// Number of frames that have names.
    pub named: usize,
    scripts: ScriptNames,
    /// CLOCK_MONOTONIC since which no process runs in the run; None while one does.
    pub empty_ns: Option<u64>,
    /// When to look, on CLOCK_MONOTONIC, whether a process may still come to the run.
    pub check_ns: u64,
    next_glance_ns: u64,
    next_question_ns: u64,
    events: Vec<SampleEvent>,
}

/// A member that has ended, and what it was.
pub struct Departed {
    pub member: Member,
    /// Whether a signal ended the process, or no exit handlers ran.
    pub abrupt: bool,
}

impl Run {
    /// A run that begins to be watched. `phase`, in [0, 1), spreads the questions of many runs over their interval.
    pub fn new(watch: Watch, attached: Option<Attached>, now_ns: u64, phase: f64) -> Self {
        Self {
            watch,
            members: Vec::new(),
            attached,
            named: 0,
            scripts: ScriptNames::default(),
            empty_ns: Some(now_ns),
            check_ns: 0,
            next_glance_ns: now_ns,
            next_question_ns: now_ns + (ASK_NS as f64 * phase) as u64,
            events: Vec::new(),
        }
    }

    /// Looks up the names of code that runtimes of its processes made.
    pub fn name_scripts(&mut self) {
        let Self { watch, members, scripts, .. } = self;
        let pids: Vec<(ProcessId, Option<u32>)> =
            members.iter().map(|member| (member.process, watch.pid_here(member.process))).collect();
        let pid = |process| pids.iter().find(|(of, _)| *of == process).and_then(|(_, pid)| *pid);
        let stacks =
            || members.iter().flat_map(|member| member.ledger.sums()).map(|(process, stack, _)| (process, stack));
        scripts.fill(watch.profile_mut(), &pid, stacks);
    }

    pub fn directory(&self) -> &Path {
        self.watch.directory()
    }

    /// Looks if it is time to, or if a process rang. What was lost by no process, and members that ended.
    pub fn look(&mut self, turn: &Turn, admission: Admission<'_>) -> (Lost, Vec<Departed>) {
        let rang = self.watch.rang();
        if rang || turn.now_ns >= self.next_question_ns {
            self.next_question_ns = turn.now_ns + ASK_NS;
            self.next_glance_ns = turn.now_ns + GLANCE_NS;
            let events = &mut self.events;
            self.watch.poll_news(&mut |event| events.push(event));
        } else if turn.now_ns >= self.next_glance_ns {
            self.next_glance_ns = turn.now_ns + GLANCE_NS;
            let events = &mut self.events;
            self.watch.glance(turn, &mut |event| events.push(event));
        } else {
            return Default::default();
        }
        let taken = self.take(admission);
        match self.watch.running() {
            0 => drop(self.empty_ns.get_or_insert(turn.now_ns)),
            _ => self.empty_ns = None,
        }
        taken
    }

    /// Looks at all of it now: for a report.
    pub fn look_now(&mut self, admission: Admission<'_>) -> (Lost, Vec<Departed>) {
        let events = &mut self.events;
        self.watch.poll_news(&mut |event| events.push(event));
        let taken = self.take(admission);
        let now_ns = self.watch.looked().at_ns;
        self.members.iter_mut().for_each(|member| member.ledger.advance(now_ns));
        taken
    }

    /// Puts events into the ledgers of their processes.
    fn take(&mut self, admission: Admission<'_>) -> (Lost, Vec<Departed>) {
        let (mut lost, mut departed) = (Lost::default(), Vec::new());
        if self.events.is_empty() {
            return (lost, departed);
        }
        let now_ns = self.watch.looked().at_ns;
        let processes = &self.watch.profile().processes;
        let Admission { choice, warm_up_ns, next } = admission;
        for event in self.events.drain(..) {
            let id = match event {
                SampleEvent::ProcessBegan { process, .. } => {
                    let here = self.watch.pid_here(process);
                    let its = processes.get(process.0 as usize).filter(|its| choice.takes(its, here));
                    if let Some(its) = its {
                        self.members.push(Member::new(*next, (process, here), its, now_ns, warm_up_ns));
                        *next += 1;
                    }
                    process
                }
                SampleEvent::ProcessEnded { process, .. } => process,
                SampleEvent::Allocated { key, .. }
                | SampleEvent::Freed { key, .. }
                | SampleEvent::Reallocated { key, .. }
                | SampleEvent::Gone { key, .. } => key.process,
                SampleEvent::Lost { process: Some(process), .. } => process,
                SampleEvent::Lost { process: None, lost: some } => {
                    lost += some;
                    continue;
                }
            };
            let Some(at) = position(&self.members, id) else { continue };
            if let SampleEvent::ProcessEnded { .. } = event {
                let mut member = self.members.swap_remove(at);
                // Not fed: the ledger would drop what was live at the end.
                member.ledger.advance(now_ns);
                let abrupt = self.watch.ended_abruptly(member.pid);
                departed.push(Departed { member, abrupt });
            } else if let Some(member) = self.members.get_mut(at) {
                member.feed(&event);
            }
        }
        // Where nothing happens, reports do that.
        self.members.iter_mut().filter(|member| member.has_news).for_each(|member| member.ledger.advance(now_ns));
        (lost, departed)
    }

    /// Leaves the processes as they are, dormant; one that mallow attached to as it was before.
    pub fn leave(self) -> Option<anyhow::Error> {
        let directory: PathBuf = self.directory().to_owned();
        self.watch.leave();
        let Attached { attachment, .. } = self.attached?;
        let detached = attachment.detach(&directory);
        remove(&directory);
        detached.err().map(Into::into)
    }
}

fn position(members: &[Member], id: ProcessId) -> Option<usize> {
    members.iter().position(|member| member.process == id)
}
