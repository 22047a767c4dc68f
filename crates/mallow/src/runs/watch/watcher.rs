//! Watching until the program ends or is left: looking, drawing, reporting, and answering signals and keys.

mod clients;
mod evidence;

use std::collections::{BTreeSet, HashMap};
use std::io::IsTerminal;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mallow_capture::attach::not_seen;
use mallow_capture::guard::{Keeper, Outcome};
use mallow_capture::rundir::directory::remove;
use mallow_capture::rundir::owner;
use mallow_capture::session::{later_libraries_fail, left};
use mallow_capture::watch::Watch;
use mallow_profile::{ProcessId, Profile};
use mallow_report::analysis::sampled::{Verdict, snapshot};
use mallow_report::analysis::{Watched, Which};

use super::super::guard::errors::Errors;
use super::super::screen::{Request, Screen, State};
use super::super::{exit_status, unrecorded};
use super::closing_summary::{Ending, closing_summary};
use super::ending_signals::{crash_message, outcome};
use super::endpoint::Endpoint;
use super::headline::{headline, seconds};
use super::last_running::LastRunning;
use super::memory::{self, MemoryHistory};
use super::news_pace::NewsPace;
use super::pushing::{self, Pushing};
use super::report_stream::ReportStream;
use super::saving::Saving;
use super::session::{ReportSubject, Session, WatchMoment};
use super::setup::{Attached, Output, Started};
use super::signals::{Signal, Signals};
use super::snapshots::Snapshots;
use super::text;
use crate::flags::WatchFlags;
use crate::output::text::estimates::period;
use crate::output::text::{Look, Stream};
use crate::output::{exit, json, stdio};
use crate::page::live::LivePage;

/// Interval of looks. Targets that load a library wait for its table, but not longer than this is short.
const LOOK: Duration = Duration::from_millis(50);
/// Interval of looks at a process that mallow attached to, and that does not ring. Each takes the processor from
/// somebody for some tenths of a millisecond: of a server whose requests come fifty at a time, in a millisecond, twenty
/// looks a second delay two requests in a hundred. Four delay none that its 99th percentile shows.
const QUIET_LOOK: Duration = Duration::from_millis(250);
/// Interval of drawings of the live view.
const DRAW: Duration = Duration::from_secs(1);
/// Sampled more often than that, a program would notice.
const LEAST_PERIOD: u64 = 1 << 12;

enum End {
    Over,
    /// The user leaves the program running.
    Left,
}

pub(super) struct Watcher<'a> {
    session: Session,
    memory: MemoryHistory,
    watch: Watch,
    /// The command that mallow started, until it ended.
    command: Option<Child>,
    status: Option<i32>,
    attached: Option<Attached>,
    signals: Signals,
    out: ReportStream,
    look: Look,
    flags: &'a WatchFlags,
    snapshots: Option<Snapshots>,
    saving: Option<Saving>,
    screen: Option<Screen>,
    endpoint: Option<Endpoint>,
    page: Option<LivePage>,
    push: Option<Pushing>,
    state: State,
    which: Which,
    running: LastRunning,
    headline_place: Option<u64>,
    /// Places that were reported as growing, with the strongest verdict of each.
    announced: HashMap<u64, Verdict>,
    ended_by: Option<i32>,
    /// The process that was joined ended without its exit handlers: by a signal, or with `_exit`.
    abrupt: bool,
    /// The program has ended, or is left: what is reported now is the last of it.
    last: bool,
    /// Why the latest report or snapshot could not be written, as it was reported.
    trouble: Option<String>,
    keeper: Option<Keeper>,
    errors: Errors,
}

impl<'a> Watcher<'a> {
    pub fn new(flags: &'a WatchFlags, mut session: Session, started: Started, output: Output) -> Self {
        let Started { watch, command, signals, attached, keeper, unseen } = started;
        session.unseen = unseen;
        let Output { out, look, snapshots, screen, endpoint, page, push } = output;
        let errors = Errors::new(session.known_errors());
        session.ledger.warm_up(flags.warm_up.as_nanos() as u64);
        let state = State {
            warm_up_ms: flags.warm_up.as_millis() as u64,
            joined: flags.pid.is_some(),
            period: period(Some(watch.control().period()), &look),
            ..State::default()
        };
        Self {
            session,
            memory: MemoryHistory::new(flags.pid.is_some()),
            watch,
            command,
            status: None,
            attached,
            signals,
            out,
            look,
            flags,
            snapshots,
            saving: flags.save_at.map(|at| Saving::new(at, flags.snapshots.as_deref())),
            screen,
            endpoint,
            page,
            push: push.map(Pushing::new),
            state,
            which: if flags.older_than.is_some() { Which::Old } else { Which::Live },
            running: LastRunning::default(),
            headline_place: None,
            announced: HashMap::new(),
            ended_by: None,
            abrupt: false,
            last: false,
            trouble: None,
            keeper,
            errors,
        }
    }

    pub fn work(mut self) -> Result<ExitCode> {
        let end = self.follow();
        // Whatever happened, the terminal is given back before anything is written to it.
        drop(self.screen.take());
        let end = match end {
            Ok(end) => end,
            Err(error) => return self.detach().and(Err(error)),
        };
        self.session.poll(&mut self.watch);
        let reported = self.last_reports(&end).and(self.finish_push());
        unrecorded::warn_programs(&self.watch.unreached(), "sampled");
        if self.attached.is_some() {
            return reported.and(self.detach()).map(|()| exit::OK);
        }
        match end {
            End::Over => self.watch.remove(),
            End::Left => {
                self.watch.leave();
                if self.command.is_some() || self.flags.pid.is_some() {
                    stdio::notify("left; the program continues, dormant: mallow watch -p PID joins it again");
                }
            }
        }
        if self.status.is_some() {
            return Ok(exit_status::after_command(self.status, reported, self.flags.fail_on_write_error));
        }
        reported.map(|()| exit::OK)
    }

    /// Leaves a process that mallow attached to as it was, and removes what this run made.
    fn detach(self) -> Result<()> {
        let Some(Attached { attachment, .. }) = self.attached else { return Ok(()) };
        let (directory, pid, runs) = (self.watch.directory().to_owned(), attachment.pid(), self.watch.running() > 0);
        self.watch.leave();
        let detached = attachment.detach(&directory);
        remove(&directory);
        if let Some(rest) = detached?.rest {
            stdio::notify(left(rest));
        } else if runs {
            stdio::notify(&format!("detached; the program continues as it was: mallow watch -p {pid} attaches again"));
        }
        Ok(())
    }

    fn moment(&self) -> WatchMoment {
        WatchMoment::of(&self.watch, self.attached.as_ref().map(|attached| attached.ran_ms))
    }

    /// Allocators in libraries that the process has loaded meanwhile are sampled from now on.
    fn patch_new_modules(&mut self) {
        let Some(attached) = &mut self.attached else { return };
        let sentences = match attached.attachment.patch_new_modules() {
            Ok(news) => not_seen(&news),
            Err(error) => vec![later_libraries_fail(&error)],
        };
        if self.screen.is_none() {
            sentences.iter().for_each(|sentence| stdio::notify(sentence));
        }
    }

    fn follow(&mut self) -> Result<End> {
        let mut next_report = Instant::now() + self.flags.every;
        let mut next_drawing = Instant::now();
        let mut news = NewsPace::default();
        let mut seen = false;
        loop {
            self.patch_new_modules();
            self.report_errors(false);
            self.session.poll(&mut self.watch);
            self.abrupt |= self.flags.pid.is_some_and(|pid| self.watch.ended_abruptly(pid));
            if self.look_after_the_command() {
                // It may have ended since the look above: nobody leaves a program that is over.
                self.session.poll(&mut self.watch);
            }
            seen |= self.watch.running() > 0;
            self.memory.begin(&self.watch, &self.session.ledger);
            // A program that has not come to its first allocation has no file yet, unless mallow attached to it.
            let has_ended = |pid| owner::start_ticks(pid).is_none();
            let began =
                seen || self.attached.is_some() || self.status.is_some() || self.flags.pid.is_some_and(has_ended);
            if self.watch.running() == 0 && self.command.is_none() && began {
                return Ok(End::Over);
            }
            self.save_evidence();
            self.answer_scrapers();
            self.answer_page();
            self.push_profiles();
            for signal in self.signals.take() {
                self.follow_rotation(signal);
                let answered = self.answer(signal);
                self.go_on(answered);
            }
            // One is passed on to a command that mallow started, or came from its terminal: it may end in its own time.
            let (ends, _) = self.signals.ends();
            if ends > u32::from(self.command.is_some()) || self.page.as_ref().is_some_and(LivePage::is_abandoned) {
                return Ok(End::Left);
            }
            if Instant::now() >= next_report {
                next_report += self.flags.every;
                let reported = self.report("every", Which::Old).and_then(|()| self.snapshot());
                if self.summarises() {
                    let all = self.made(&ReportSubject { limit: usize::MAX, ..self.subject("live", Which::Live) });
                    self.running.look(&all);
                }
                self.go_on(reported);
            }
            if self.screen.is_none() {
                if news.is_due() && self.needs_news() {
                    // Names are looked up once, which may take a second.
                    self.look_again();
                    news.time(|| self.look_for_news());
                }
                self.rest(next_report);
                continue;
            }
            if Instant::now() >= next_drawing {
                next_drawing = Instant::now() + DRAW;
                self.refresh();
            }
            match self.interact(&mut next_drawing) {
                Ok(None) => {}
                Ok(Some(end)) => return Ok(end),
                // A terminal that is gone is no reason to leave a command whose status is mallow's.
                Err(error) if self.command.is_some() => {
                    drop(self.screen.take());
                    self.go_on(Err(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Memory errors that were found since the last look, each a report of its own. `last`: the keeper ends.
    fn report_errors(&mut self, last: bool) {
        let messages: Vec<_> = match self.keeper.take_if(|_| last) {
            Some(keeper) => keeper.end(),
            None => self.keeper.iter().flat_map(Keeper::messages).collect(),
        };
        if last && self.flags.guard {
            self.watch.control().without_keeper();
        }
        let mut new = Vec::new();
        for message in messages {
            let Self { session, watch, errors, .. } = self;
            new.extend(errors.take(message, watch, &mut |profile| session.name(profile)).cloned());
        }
        if last {
            let how = |outcome: Outcome| match (outcome.refused, outcome.handled) {
                (Some(reason), _) => Some(format!("not guarded: {reason}")),
                (None, Some(reason)) => Some(format!("guarded by a signal handler: {reason}")),
                (None, None) => None,
            };
            let said: BTreeSet<_> = self.errors.outcomes.drain(..).filter_map(how).collect();
            said.iter().for_each(|text| stdio::notify(text));
        }
        for error in new {
            let text = text::memory_error(&error, &self.look, self.flags.stacks, self.flags.view.json);
            let written = text.and_then(|text| self.write(&text));
            self.go_on(written);
            self.state.message = Some(format!("memory error: {}, {}", error.kind, error.place));
        }
    }

    /// Reports a failure to write once and goes on: the next report may be written, when there is room on the disk
    /// again.
    fn go_on(&mut self, written: Result<()>) {
        let Err(error) = written else {
            self.trouble = None;
            return;
        };
        let message = format!("{error:#}");
        if self.trouble.as_ref() != Some(&message) {
            match &self.screen {
                Some(_) => self.state.message = Some(message.clone()),
                None => stdio::notify(&format!("{message}; watching continues")),
            }
            self.trouble = Some(message);
        }
    }

    /// Waits until the next look is due. The end of a command is noticed soon, and a reader of the page does not wait.
    fn rest(&self, next_report: Instant) {
        if self.command.is_some() || self.page.is_some() {
            std::thread::sleep(LOOK);
        } else {
            self.watch.rest(QUIET_LOOK.min(next_report.saturating_duration_since(Instant::now())));
        }
    }

    /// Whether the command was found ended by this look.
    fn look_after_the_command(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let Some(command) = &mut self.command else { return false };
        let ended = command.try_wait().ok().flatten();
        if let Some(status) = ended {
            self.signals.pass_on_to(0);
            self.status = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            self.ended_by = status.signal();
            let command_pid = command.id();
            self.command = None;
            let all = 0..self.watch.profile().processes.len() as u32;
            let mut running = all.filter_map(|number| self.watch.pid_here(ProcessId(number)));
            if running.any(|pid| pid != command_pid) {
                stdio::notify("the command has ended; processes that it started continue, and are watched");
            }
        }
        ended.is_some()
    }

    /// Carries out the requests of keys; drawn at once when something changes.
    fn interact(&mut self, next_drawing: &mut Instant) -> Result<Option<End>> {
        let Some(screen) = &mut self.screen else { return Ok(None) };
        screen.draw(&mut self.state).context("cannot draw on this terminal")?;
        let asked = screen.wait(&mut self.state, LOOK).context("cannot read from this terminal")?;
        let control = self.watch.control();
        match asked {
            Request::Nothing => return Ok(None),
            Request::Mute(place) => self.session.mute_place(place),
            Request::Unmute => self.session.unmute(),
            Request::More => control.set_period((control.period() / 2).max(LEAST_PERIOD)),
            Request::Less => control.set_period(control.period().saturating_mul(2)),
            Request::Toggle => control.set_sampling(!control.sampling()),
            Request::Which => self.which = if self.which == Which::Old { Which::Live } else { Which::Old },
            Request::Report if self.flags.output.is_some() => {
                self.report("key", self.which)?;
                self.state.message = Some("reported".to_owned());
            }
            Request::Report => self.state.message = Some("reports go to a file: mallow watch -o FILE".to_owned()),
            Request::Leave => return Ok(Some(End::Left)),
            Request::Interrupt => match &self.command {
                Some(command) => {
                    // SAFETY: plain kill; the command was not waited for yet, so the pid is its own.
                    unsafe { libc::kill(command.id() as i32, libc::SIGINT) };
                    self.state.message = Some("asked the command to end; q leaves it running".to_owned());
                }
                None => return Ok(Some(End::Left)),
            },
        }
        *next_drawing = Instant::now();
        Ok(None)
    }

    /// All places, with the memory that is read once a second at the most.
    fn shown(&mut self, occasion: &str, which: Which) -> Watched {
        let mut report = self.made(&ReportSubject { limit: usize::MAX, ..self.subject(occasion, which) });
        report.memory = self.memory.shown(&self.watch, &report, memory::DRAWN);
        report
    }

    /// Gives the live view its latest report.
    fn refresh(&mut self) {
        let report = self.shown("live", self.which);
        self.state.history = self.history();
        self.state.headline = headline(&report, self.headline_place, &self.look);
        self.headline_place = self.state.headline.place;
        if self.which == Which::Live {
            self.running.look(&report);
        } else {
            let all = self.made(&ReportSubject { limit: usize::MAX, ..self.subject("live", Which::Live) });
            self.running.look(&all);
        }
        self.state.show(report);
    }

    /// Live bytes over time, with milliseconds since the watching began.
    fn history(&self) -> Vec<(u64, u64)> {
        let began_ns = self.watch.began_ns();
        let ms = |at: u64| at.saturating_sub(began_ns) / 1_000_000;
        self.session.ledger.history().iter().map(|(at, bytes)| (ms(*at), *bytes)).collect()
    }

    /// Whether anybody reads news between two reports.
    fn needs_news(&self) -> bool {
        self.watch.running() > 0 && (!self.flags.view.json || self.summarises())
    }

    /// Whether the watch ends with a summary for a person.
    fn summarises(&self) -> bool {
        match self.flags.output {
            Some(_) => std::io::stderr().is_terminal(),
            None => !self.flags.view.json,
        }
    }

    /// Reports in one line what grows, when it is found, and the first verdict.
    fn look_for_news(&mut self) {
        let mut report = self.made(&ReportSubject { limit: usize::MAX, ..self.subject("live", Which::Live) });
        report.memory = self.memory.shown(&self.watch, &report, memory::KEPT);
        self.running.look(&report);
        let finding = headline(&report, self.headline_place, &self.look);
        self.headline_place = finding.place;
        let first = self.announced.is_empty() && finding.verdict != Verdict::Unknown;
        let stronger = finding.place.is_some_and(|place| self.announced.get(&place) < Some(&finding.verdict));
        if !(first || stronger) || self.flags.view.json {
            return;
        }
        // Without a place it is the first verdict of all, which is reported once.
        self.announced.insert(finding.place.unwrap_or(0), finding.verdict);
        stdio::notify(&format!("after {}: {}", seconds(report.watched_ms), finding.text));
    }

    fn subject<'s>(&self, occasion: &'s str, which: Which) -> ReportSubject<'s> {
        const SITES: usize = 10;
        let screen = if self.flags.view.json { usize::MAX } else { SITES };
        let older_than_ms = self.flags.least_age().as_millis() as u64;
        ReportSubject { occasion, which, older_than_ms, limit: self.flags.view.limit(screen) }
    }

    /// Looks once more, with all names looked up: that may take a second after the first look at a large program, and
    /// what is reported should be what is there now. A signal is answered by what was there after it came.
    fn look_again(&mut self) {
        self.session.name_all(&mut self.watch);
        self.session.poll(&mut self.watch);
        self.session.name_all(&mut self.watch);
    }

    fn made(&mut self, subject: &ReportSubject<'_>) -> Watched {
        self.look_again();
        let watch = &self.watch;
        self.session.report(watch.profile(), &self.moment(), &|process| watch.runs(process), subject)
    }

    fn report(&mut self, occasion: &str, which: Which) -> Result<()> {
        let subject = self.subject(occasion, which);
        let mut report = self.made(&subject);
        report.memory = self.memory.of(&self.watch, &report);
        let more = report.places.places.len() == subject.limit;
        let text = match self.flags.view.json {
            true => pushing::line(&report, self.push.as_ref().map(Pushing::push))?,
            false => text::report(&report, self.headline_place, &self.look, self.flags.stacks, more),
        };
        self.write(&text)
    }

    fn recent(&mut self) -> Result<()> {
        self.look_again();
        let recent = self.session.recent(self.watch.profile(), self.moment().now_ns);
        let text = match self.flags.view.json {
            true => json::line(&text::RecentDocument { occasion: "recent", recent: &recent })?,
            false => text::recent(&recent, &self.look, self.flags.stacks),
        };
        self.write(&text)
    }

    /// Writes a report. With a live view it goes to a file or nowhere.
    fn write(&mut self, text: &str) -> Result<()> {
        match (&self.screen, &self.flags.output) {
            (Some(_), None) => Ok(()),
            _ => self.out.write(text).inspect_err(|_| {
                // There is no later one.
                if self.last {
                    stdio::write_error(text);
                }
            }),
        }
    }

    fn answer(&mut self, signal: Signal) -> Result<()> {
        match signal {
            Signal::Live => self.report("hup", Which::Live),
            Signal::Recent => self.recent(),
            Signal::Mute => {
                self.report("usr1", Which::Old)?;
                let older_than_ns = self.flags.least_age().as_nanos() as u64;
                self.session.mute_older(self.moment().now_ns.saturating_sub(older_than_ns));
                Ok(())
            }
        }
    }

    /// Reports from now on go to the file that is there now, if the signal says so.
    fn follow_rotation(&mut self, signal: Signal) {
        if signal == Signal::Live {
            let opened = self.out.reopen();
            self.go_on(opened);
        }
    }

    fn snapshot(&mut self) -> Result<()> {
        let Some(snapshots) = self.snapshots.take() else { return Ok(()) };
        let (profile, unix_ms) = self.profile();
        let written = snapshots.write(&profile, unix_ms / 1000).map(drop);
        self.snapshots = Some(snapshots);
        written
    }

    /// Allocations and live blocks with names, and the time in milliseconds since 1970.
    fn profile(&mut self) -> (Profile, u64) {
        self.session.name_all(&mut self.watch);
        let WatchMoment { now_ns, unix_ms, .. } = self.moment();
        (snapshot(&self.session.ledger, self.watch.profile(), now_ns, unix_ms), unix_ms)
    }

    /// Writes all of them, even where the first ones fail, and returns the first error.
    fn last_reports(&mut self, end: &End) -> Result<()> {
        self.last = true;
        // One that came with the signal to end.
        self.signals.take().into_iter().for_each(|signal| self.follow_rotation(signal));
        self.report_errors(true);
        let (occasion, which) = match end {
            End::Over => ("end", Which::Live),
            End::Left => ("leave", self.which_when_left()),
        };
        let mut done = Ok(());
        if self.flags.output.is_some() || self.flags.view.json || self.flags.stacks {
            done = self.report(occasion, which);
        }
        if self.summarises() {
            done = done.and(self.summary(end));
        }
        if self.flags.track_peak {
            done = done.and(self.report("peak", Which::Peak));
        }
        if let Some(text) = crash_message(self.ended_by, self.abrupt) {
            stdio::notify(&text);
            done = done.and(self.recent());
        }
        done.and(self.snapshot())
    }

    /// Samples in the report of a program that is left: those of the live view, or old ones without it.
    fn which_when_left(&self) -> Which {
        if self.state.report.is_some() { self.which } else { Which::Old }
    }

    /// The summary, on the terminal or where reports go.
    fn summary(&mut self, end: &End) -> Result<()> {
        let last = self.made(&ReportSubject { limit: usize::MAX, ..self.subject("end", Which::Live) });
        self.running.look(&last);
        let left = match end {
            End::Over => None,
            End::Left => last.processes.iter().find(|process| process.running).map(|process| process.pid),
        };
        let outcome = outcome(matches!(end, End::Left), self.status, self.ended_by);
        let warm_up_ms = self.flags.warm_up.as_millis() as u64;
        let ending = Ending { outcome, running: &self.running, last: &last, left, warm_up_ms };
        let look = self.flags.view.look(match self.flags.output {
            None if self.flags.pid.is_some() => Stream::Out,
            _ => Stream::Err,
        });
        let text = closing_summary(&ending, &look);
        match self.flags.output {
            Some(_) => {
                stdio::write_error(&text);
                Ok(())
            }
            None => self.out.write(&text),
        }
    }
}
