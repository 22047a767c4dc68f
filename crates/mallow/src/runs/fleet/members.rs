//! The set of watched processes, as they come and go.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mallow_capture::rundir::directory::PERIOD;
use mallow_capture::watch::candidates::{self, Candidates, Others};
use mallow_capture::watch::{TableMaker, Turn, Watch, WatchError};
use mallow_profile::{Lost, Process, Profile};
use mallow_report::analysis::sampled::Verdict;
use mallow_report::analysis::{FleetProcess, ProgramProfiles, Unwatched, WatchedPlace, Which};

use super::super::watch::exclusions::Exclusions;
use super::attacher::{Attacher, Outcome};
use super::choice::Choice;
use super::last_profiles::LastProfiles;
use super::member::{Member, Request};
use super::names::Names;
use super::run::{Admission, Attached, Departed, Run};
use crate::flags::WatchFlags;
use crate::output::stdio;

/// Run directories that are opened in one turn: the others wait for the next one, and targets are not kept waiting.
const OPENED: usize = 16;
/// Runs that are watched at the most: a thread and some mappings each.
const RUNS: usize = 4096;
/// Intervals in which new runs, and new processes to attach to, are looked for, in nanoseconds.
const LOOK_FOR_RUNS_NS: u64 = 1_000_000_000;
const LOOK_FOR_PROCESSES_NS: u64 = 5_000_000_000;
/// Interval in which one of the runs that another mallow watches is tried all the same, in nanoseconds.
const CHECK_OF_BUSY_NS: u64 = 30_000_000_000;
/// A run without a process is left after so long, in nanoseconds: one that executes another program comes back.
const EMPTY_NS: u64 = 3_000_000_000;
/// Between two looks whether a process may still come to one, at first and at the most.
const CHECK_NS: u64 = 5_000_000_000;
const LONGEST_CHECK_NS: u64 = 300_000_000_000;
/// Last numbers that are kept for the next report.
const ENDED: usize = 1000;
/// Programs whose sums of ended processes are kept apart. Those of the others go together.
const PROGRAMS: usize = 1000;
/// Limit of reasons that are kept apart.
const REASONS: usize = 50;
/// Name for programs beyond [`PROGRAMS`], and for reasons beyond [`REASONS`].
const OTHERS: &str = "(others)";

pub struct Members<'a> {
    flags: &'a WatchFlags,
    choice: Choice<'a>,
    known: Exclusions,
    candidates: Candidates,
    others: Option<(Others, Attacher)>,
    tables: TableMaker,
    names: Names,
    runs: Vec<Run>,
    /// Run directories to be looked at.
    queue: VecDeque<PathBuf>,
    next_runs_ns: u64,
    next_processes_ns: u64,
    next_check_of_busy_ns: u64,
    /// Runs that another mallow watches: its pid, and how many of their processes match.
    busy: HashMap<PathBuf, (u32, u64)>,
    /// Runs that cannot be watched, and why.
    refused: HashMap<PathBuf, String>,
    /// Processes that cannot be attached to, by reason.
    unattached: BTreeMap<String, u64>,
    /// Programs under mallow run that do not match, a few.
    pub passed_over: BTreeMap<String, u64>,
    /// Processes that have ended since the last report, and how many more.
    pub ended: Vec<FleetProcess>,
    pub more_ended: u64,
    pub ended_in_all: u64,
    /// Allocations of processes that have ended, and their bytes, by program.
    pub former: BTreeMap<String, (u64, u64)>,
    /// Losses of processes that have ended, and of none.
    pub lost: Lost,
    /// Number of processes that have ever been watched.
    pub seen: u64,
    /// Last profiles of ended processes; None unless they are pushed to stores.
    pub last_profiles: Option<LastProfiles>,
    opened: u64,
}

impl<'a> Members<'a> {
    pub fn new(flags: &'a WatchFlags, choice: Choice<'a>, known: Exclusions) -> anyhow::Result<Self> {
        let period = flags.period.unwrap_or(PERIOD);
        let others = match flags.attach {
            true => Some((Others::default(), Attacher::start(period, flags.timeout)?)),
            false => None,
        };
        Ok(Self {
            flags,
            choice,
            known,
            candidates: Candidates::new(),
            others,
            tables: TableMaker::start(),
            names: Names::new(),
            runs: Vec::new(),
            queue: VecDeque::new(),
            next_runs_ns: 0,
            next_processes_ns: 0,
            next_check_of_busy_ns: 0,
            busy: HashMap::new(),
            refused: HashMap::new(),
            unattached: BTreeMap::new(),
            passed_over: BTreeMap::new(),
            ended: Vec::new(),
            more_ended: 0,
            ended_in_all: 0,
            former: BTreeMap::new(),
            lost: Lost::default(),
            seen: 0,
            last_profiles: (!flags.push.push.is_empty()).then(LastProfiles::default),
            opened: 0,
        })
    }

    /// Directories in which runs are looked for.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.candidates.places()
    }

    /// The watched processes, each with the run that it belongs to.
    pub fn iter(&self) -> impl Iterator<Item = (&Run, &Member)> {
        self.runs.iter().flat_map(|run| run.members.iter().map(move |member| (run, member)))
    }

    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.members.len()).sum()
    }

    /// The profile of each member now, with names: what it allocated, and what is live.
    pub fn moment(&mut self) -> ProgramProfiles {
        self.look_now();
        self.name_all();
        self.iter().map(|(run, member)| (member.number, member.profile(&run.watch))).collect()
    }

    /// Profiles of the members `numbers` that still run, after a new look: what they allocated since they are known.
    pub fn profiles_since_known(&mut self, numbers: &[u64]) -> ProgramProfiles {
        let is_one = |member: &Member| numbers.contains(&member.number);
        self.look(|run, admission| match run.members.iter().any(is_one) {
            true => run.look_now(admission),
            false => Default::default(),
        });
        self.profiles_as_looked(numbers)
    }

    /// Profiles of [`Members::profiles_since_known`], without a new look.
    pub fn profiles_as_looked(&mut self, numbers: &[u64]) -> ProgramProfiles {
        let is_one = |member: &Member| numbers.contains(&member.number);
        self.name_all();
        let chosen = self.iter().filter(|(_, member)| is_one(member));
        chosen.map(|(run, member)| (member.number, member.profile_since_known(&run.watch))).collect()
    }

    /// Whether every run that was found so far was looked at.
    pub fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.next_runs_ns > 0
    }

    /// One turn: looks at all members, and for new ones.
    pub fn turn(&mut self, turn: &Turn) {
        self.look(|run, admission| run.look(turn, admission));
        if turn.now_ns >= self.next_runs_ns {
            self.next_runs_ns = turn.now_ns + LOOK_FOR_RUNS_NS;
            self.look_for_runs(turn.now_ns);
            self.leave_empty_runs(turn.now_ns);
            self.patch_new_modules();
        }
        for _ in 0..OPENED {
            let Some(directory) = self.queue.pop_front() else { break };
            self.consider(&directory, turn.now_ns);
        }
        self.look_for_processes(turn.now_ns);
    }

    /// Looks at all members now, as reports want it.
    pub fn look_now(&mut self) {
        self.look(Run::look_now);
    }

    fn look(&mut self, mut look: impl FnMut(&mut Run, Admission<'_>) -> (Lost, Vec<Departed>)) {
        let warm_up_ns = self.flags.warm_up.as_nanos() as u64;
        let mut all_departed = Vec::new();
        for (at, run) in self.runs.iter_mut().enumerate() {
            let (lost, departed) = look(run, Admission { choice: self.choice, warm_up_ns, next: &mut self.seen });
            self.lost += lost;
            all_departed.extend(departed.into_iter().map(|departed| (at, departed)));
        }
        for (at, departed) in all_departed {
            self.depart(at, departed);
        }
    }

    /// A report of each member, with names.
    pub fn reports(&mut self, which: Which) -> Vec<FleetProcess> {
        self.look_now();
        self.name_all();
        let Self { runs, known, flags, .. } = self;
        let mut reports = Vec::new();
        for run in runs {
            let request = request(run.attached.as_ref(), known, flags, which);
            reports.extend(run.members.iter_mut().map(|member| member.report(&run.watch, &request)));
        }
        reports
    }

    /// Members with a place that grows significantly and was not announced: their numbers.
    pub fn news(&mut self) -> Vec<FleetProcess> {
        let warm_up_ns = self.flags.warm_up.as_nanos() as u64;
        let mut growing = Vec::new();
        for (at, run) in self.runs.iter_mut().enumerate() {
            let now_ns = run.watch.looked().at_ns;
            for (which, member) in run.members.iter_mut().enumerate() {
                let is_old = now_ns.saturating_sub(member.began_ns) >= warm_up_ns;
                if !is_old || !std::mem::take(&mut member.has_news) {
                    continue;
                }
                if !member.ledger.findings().is_empty() {
                    growing.push((at, which));
                }
            }
        }
        if growing.is_empty() {
            return Vec::new();
        }
        self.name_all();
        let mut news = Vec::new();
        let Self { runs, known, flags, .. } = self;
        for (at, which) in growing {
            let Some(Run { members, watch, attached, .. }) = runs.get_mut(at) else { continue };
            let Some(member) = members.get_mut(which) else { continue };
            let report = member.report(watch, &request(attached.as_ref(), known, flags, Which::Live));
            let grows = |place: &&WatchedPlace| place.growth.verdict == Verdict::Growing;
            let ids = report.places.iter().filter(grows).map(|place| place.id);
            let ids: Vec<u64> = ids.filter(|id| !member.announced.contains(id)).collect();
            if ids.is_empty() {
                continue;
            }
            member.announced.extend(ids);
            news.push(report);
        }
        news
    }

    /// Looks up the names of frames that are new.
    fn name_all(&mut self) {
        let mut profiles: Vec<(&mut Profile, usize)> = Vec::new();
        for run in &mut self.runs {
            let frames = run.watch.profile().frames.len();
            let named = std::mem::replace(&mut run.named, frames);
            if named < frames {
                profiles.push((run.watch.profile_mut(), named));
            }
        }
        if !profiles.is_empty() {
            self.names.fill(&mut profiles);
        }
        self.runs.iter_mut().for_each(Run::name_scripts);
    }

    /// Takes the last report of an ended process, and queues its last profile.
    fn depart(&mut self, at: usize, Departed { mut member, abrupt }: Departed) {
        let Some(run) = self.runs.get_mut(at) else { return };
        let from = std::mem::replace(&mut run.named, run.watch.profile().frames.len());
        self.names.fill(&mut [(run.watch.profile_mut(), from)]);
        let Some(run) = self.runs.get(at) else { return };
        let request = request(run.attached.as_ref(), &self.known, self.flags, Which::Live);
        let last = member.report(&run.watch, &request).ended(abrupt);
        if let Some(last_profiles) = &mut self.last_profiles {
            let has_samples = member.ledger.sums().next().is_some();
            last_profiles.add(member.number, has_samples.then_some(|| member.last_profile(&run.watch)));
        }
        self.lost += member.ledger.losses();
        self.ended_in_all += 1;
        let known = self.former.contains_key(&last.program) || self.former.len() < PROGRAMS;
        let former = self.former.entry(if known { last.program.clone() } else { OTHERS.to_owned() }).or_default();
        former.0 = former.0.saturating_add(last.allocations);
        former.1 = former.1.saturating_add(last.allocated_bytes);
        match self.ended.len() < ENDED {
            true => self.ended.push(last),
            false => self.more_ended += 1,
        }
    }

    fn look_for_runs(&mut self, now_ns: u64) {
        // One whose mallow is gone may be watched from now on. Its pid may be another process's by now: one run of each
        // is tried.
        let mut tried: Option<HashSet<u32>> = None;
        if now_ns >= self.next_check_of_busy_ns {
            self.next_check_of_busy_ns = now_ns + CHECK_OF_BUSY_NS;
            tried = Some(HashSet::new());
        }
        let mut gone: Vec<PathBuf> = Vec::new();
        let mut alive: HashMap<u32, bool> = HashMap::new();
        self.busy.retain(|directory, (reader, _)| {
            let lives = *alive.entry(*reader).or_insert_with(|| Path::new(&format!("/proc/{reader}")).exists());
            let is_tried = tried.as_mut().is_some_and(|tried| tried.insert(*reader));
            if !lives || is_tried {
                gone.push(directory.clone());
            }
            lives && !is_tried && directory.exists()
        });
        self.queue.extend(gone);
        let Self { candidates, runs, busy, queue, .. } = self;
        let watched: HashSet<&Path> = runs.iter().map(Run::directory).collect();
        let changed = candidates.changed(&|directory| watched.contains(directory));
        let new = changed.into_iter().filter(|directory| !busy.contains_key(directory));
        queue.extend(new);
    }

    /// Opens a run if a process in it matches.
    fn consider(&mut self, directory: &Path, now_ns: u64) {
        if self.runs.iter().any(|run| run.directory() == directory) {
            return;
        }
        // One of another kind or version, or whose mallow is about to remove it.
        let Ok(processes) = candidates::running(directory) else { return };
        let chosen = processes.iter().filter(|process| self.takes(process)).count() as u64;
        if chosen == 0 {
            const NAMED: usize = 20;
            for process in processes {
                let name = super::member::program(&process);
                if self.passed_over.len() < NAMED || self.passed_over.contains_key(&name) {
                    *self.passed_over.entry(name).or_default() += 1;
                }
            }
            return;
        }
        let matching = processes.iter().filter(|process| self.takes(process));
        if matching.filter(|process| candidates::is_attached(process)).count() > 0 {
            // No command was started in it: what is in it comes to this mallow by being attached to.
            match candidates::reader(directory).filter(|reader| *reader != std::process::id()) {
                Some(reader) => drop(self.busy.insert(directory.to_owned(), (reader, chosen))),
                None if self.others.is_none() => {
                    let reason = "the mallow that was attached to it was killed; --attach attaches anew";
                    self.refuse(directory, reason.to_owned());
                }
                None => {}
            }
            return;
        }
        if self.runs.len() >= RUNS {
            self.refuse(directory, format!("{RUNS} runs are watched, which is the most"));
            return;
        }
        match Watch::open_with(directory, &self.tables) {
            Ok(watch) => {
                self.begin(watch, None, now_ns);
                // Another mallow has left this one: it may have left the others.
                self.next_check_of_busy_ns = 0;
            }
            Err(WatchError::Busy(reader)) => drop(self.busy.insert(directory.to_owned(), (reader, chosen))),
            Err(error) => self.refuse(directory, error.to_string()),
        }
    }

    /// Precondition: the process has the number that it has here.
    fn takes(&self, process: &Process) -> bool {
        self.choice.takes(process, Some(process.pid))
    }

    fn refuse(&mut self, directory: &Path, reason: String) {
        if self.refused.len() < RUNS {
            self.refused.insert(directory.to_owned(), reason);
        }
    }

    /// Counts a process that cannot be attached to. Whether it is the first one for this reason.
    fn is_news(&mut self, reason: String) -> bool {
        let known = self.unattached.contains_key(&reason);
        let room = known || self.unattached.len() < REASONS;
        *self.unattached.entry(if room { reason } else { OTHERS.to_owned() }).or_default() += 1;
        room && !known
    }

    fn begin(&mut self, watch: Watch, attached: Option<Attached>, now_ns: u64) {
        if let Some(period) = self.flags.period {
            watch.control().set_period(period.into());
        }
        watch.control().set_sampling(true);
        self.opened += 1;
        // Multiples of the golden ratio are evenly spread, however many runs there are.
        let phase = (self.opened as f64 * 0.618_033_988_749).fract();
        self.runs.push(Run::new(watch, attached, now_ns, phase));
    }

    /// Leaves runs in which no process runs any more, and removes those to which none can come.
    fn leave_empty_runs(&mut self, now_ns: u64) {
        let is_due = |run: &Run| {
            let empty = run.empty_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= EMPTY_NS);
            empty && now_ns >= run.check_ns
        };
        if !self.runs.iter().any(is_due) {
            return;
        }
        let in_use = candidates::in_use();
        let (mut over, mut kept) = (Vec::new(), Vec::new());
        for mut run in self.runs.drain(..) {
            if !is_due(&run) {
                kept.push(run);
            } else if in_use.contains(run.directory()) {
                let empty_ns = run.empty_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
                run.check_ns = now_ns + empty_ns.clamp(CHECK_NS, LONGEST_CHECK_NS);
                kept.push(run);
            } else {
                over.push(run);
            }
        }
        self.runs = kept;
        for run in over {
            match run.attached {
                // Nothing is left to be detached from.
                Some(_) => drop(run.leave()),
                None => run.watch.remove(),
            }
        }
    }

    fn look_for_processes(&mut self, now_ns: u64) {
        let Some((others, attacher)) = &mut self.others else { return };
        if now_ns >= self.next_processes_ns {
            self.next_processes_ns = now_ns + LOOK_FOR_PROCESSES_NS;
            let choice = self.choice;
            let new = others.new_ones().into_iter().filter(|process| choice.takes(process, Some(process.pid)));
            new.for_each(|process| attacher.ask(process));
        }
        for outcome in attacher.outcomes() {
            self.attached(outcome, now_ns);
        }
    }

    fn attached(&mut self, Outcome { pid, program, result }: Outcome, now_ns: u64) {
        let (run, attached) = match result {
            Ok(attached) => attached,
            Err(reason) => {
                if self.is_news(format!("{program}: {reason}")) {
                    stdio::notify(&format!("process {pid}, {program}, is not watched: {reason}"));
                }
                return;
            }
        };
        let directory = run.path().to_owned();
        match run.leave_to(|directory| Watch::open_with(directory, &self.tables)) {
            Ok(watch) => self.begin(watch, Some(attached), now_ns),
            Err(error) => {
                self.is_news(error.to_string());
                let _ = attached.attachment.detach(&directory);
                mallow_capture::rundir::directory::remove(&directory);
            }
        }
    }

    /// Allocators in libraries that processes have loaded meanwhile are sampled from now on.
    fn patch_new_modules(&mut self) {
        for attached in self.runs.iter_mut().filter_map(|run| run.attached.as_mut()) {
            // What cannot be patched was reported when it was attached to; a process that ended is noticed elsewhere.
            let _ = attached.attachment.patch_new_modules();
        }
    }

    /// Processes that match and are not watched, and why.
    pub fn unwatched(&self) -> Vec<Unwatched> {
        let mut readers: BTreeMap<u32, u64> = BTreeMap::new();
        self.busy.values().for_each(|(reader, processes)| *readers.entry(*reader).or_default() += processes);
        let busy = readers
            .into_iter()
            .map(|(reader, processes)| Unwatched { reason: format!("process {reader} watches them"), processes });
        let mut reasons = self.unattached.clone();
        for (directory, reason) in &self.refused {
            let running = candidates::running(directory).unwrap_or_default();
            match running.iter().filter(|process| self.takes(process)).count() as u64 {
                0 => {}
                processes => *reasons.entry(reason.clone()).or_default() += processes,
            }
        }
        let refused = reasons.into_iter().map(|(reason, processes)| Unwatched { reason, processes });
        busy.chain(refused).take(REASONS).collect()
    }

    /// Leaves all processes: dormant, and as they were where mallow attached.
    pub fn leave(mut self) -> Vec<anyhow::Error> {
        if let Some((_, attacher)) = self.others.take() {
            for outcome in attacher.end() {
                self.attached(outcome, 0);
            }
        }
        let has_empty = self.runs.iter().any(|run| run.watch.running() == 0);
        let in_use = if has_empty { candidates::in_use() } else { Default::default() };
        let leave = |run: Run| {
            let is_over = run.watch.running() == 0 && run.attached.is_none() && !in_use.contains(run.directory());
            if is_over {
                run.watch.remove();
                return None;
            }
            run.leave()
        };
        self.runs.into_iter().filter_map(leave).collect()
    }
}

fn request<'r>(attached: Option<&Attached>, known: &'r Exclusions, flags: &WatchFlags, which: Which) -> Request<'r> {
    let older_than_ms = flags.least_age().as_millis() as u64;
    Request { attached_ms: attached.map(|attached| attached.ran_ms), known, which, older_than_ms }
}

/// Longest time of a turn. Targets that load a library wait for its table, but not longer than this is short.
pub const TURN: Duration = Duration::from_millis(50);
