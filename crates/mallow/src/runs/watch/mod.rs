//! `mallow watch`: a program in production, by what is sampled of it.

pub mod exclusions;
mod log;
pub mod report_stream;
pub mod session;
mod signals;
mod snapshots;
pub mod text;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mallow_capture::rundir::directory::{Mode, PERIOD};
use mallow_capture::session as runs;
use mallow_capture::watch::{Control, Watch, directory_of};
use mallow_report::analysis::sampled::snapshot;
use mallow_report::analysis::{Watched, Which};

use self::exclusions::Exclusions;
use self::log::LogFile;
use self::report_stream::ReportStream;
use self::session::{Moment, Session, Subject};
use self::signals::{Signal, Signals};
use self::snapshots::Snapshots;
use super::screen::{Request, Screen, State};
use super::{exit_status, unrecorded};
use crate::flags::WatchFlags;
use crate::output::text::estimates::period;
use crate::output::text::units::span;
use crate::output::text::{Look, Stream};
use crate::output::{exit, json, stdio};

/// How often it looks. Targets that load a library wait for its table, but not longer than this is short.
const LOOK: Duration = Duration::from_millis(50);
/// How often the live view is drawn anew.
const DRAW: Duration = Duration::from_secs(1);
/// Sampled more often than that, a program would notice.
const LEAST_PERIOD: u64 = 1 << 12;

/// Watches.
pub fn run(flags: &WatchFlags) -> Result<ExitCode> {
    if let Some(pid) = flags.pid.filter(|_| flags.set || flags.stop) {
        return steer(pid, flags);
    }
    let known = Exclusions::read(&flags.known)?;
    let snapshots = flags.snapshots.as_deref().map(Snapshots::open).transpose()?;
    let stream = if flags.pid.is_some() { Stream::Out } else { Stream::Err };
    let out = match &flags.output {
        Some(path) => ReportStream::file(path)?,
        None if flags.pid.is_some() => ReportStream::Standard,
        None => ReportStream::Error,
    };
    // Files are as wide as they are, whatever this terminal is.
    let look = match &flags.output {
        Some(_) => Look { exact: flags.view.exact, full_names: flags.view.full_names, ..Look::default() },
        None => flags.view.look(stream),
    };
    let live_view = live_view(flags);
    let elsewhere = flags.log.as_deref().map(LogFile::to).transpose()?;
    let started = start(flags);
    drop(elsewhere);
    let (watch, command, signals) = match started? {
        Ok(started) => started,
        Err(status) => return Ok(status),
    };
    let screen =
        live_view.then(|| Screen::take(flags.view.look(Stream::Err))).transpose().context("cannot draw here")?;
    if screen.is_none() {
        tell_beginning(&watch, flags);
    }
    let mut session = Session::new(known, flags.track_peak);
    session.book.warm_up(flags.warm_up.as_nanos() as u64);
    let watcher = Watcher {
        session,
        watch,
        command,
        status: None,
        signals,
        out,
        look,
        flags,
        snapshots,
        screen,
        state: State::default(),
        which: Which::Old,
        crashed: false,
        last: false,
        trouble: None,
    };
    watcher.work()
}

/// Whether there is a terminal for the live view, which nobody else writes to.
fn live_view(flags: &WatchFlags) -> bool {
    let alone = flags.pid.is_some() || flags.log.is_some();
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let able = std::env::var_os("TERM").is_some_and(|name| name != "dumb");
    alone && terminal && able && !flags.lines && !flags.view.json
}

/// Changes how much is sampled, and nothing else.
fn steer(pid: u32, flags: &WatchFlags) -> Result<ExitCode> {
    let control = Control::open(&directory_of(pid)?)?;
    if let Some(period) = flags.period {
        control.set_period(period.into());
    }
    control.set_sampling(!flags.stop);
    let now = period(control.sampling().then(|| control.period()), &flags.view.look(Stream::Err));
    stdio::notify(&format!("process {pid} from now on: {now}"));
    Ok(exit::OK)
}

/// What is watched, the command where mallow started it, and the signals that mallow takes.
type Started = (Watch, Option<Child>, Signals);

/// Joins a program, or starts one. The inner error is the status of one that could not be started.
fn start(flags: &WatchFlags) -> Result<Result<Started, ExitCode>> {
    if let Some(pid) = flags.pid {
        let directory = directory_of(pid)?;
        let signals = Signals::watch()?;
        let watch = Watch::open(&directory)?;
        if let Some(period) = flags.period {
            watch.control().set_period(period.into());
        }
        watch.control().set_sampling(true);
        return Ok(Ok((watch, None, signals)));
    }
    let started = runs::start_sampled(&flags.command, Mode::Sample, flags.period.unwrap_or(PERIOD));
    let (run, child) = match started {
        Ok(started) => started,
        Err(error) => return exit_status::after_failure(error, flags.fail_on_write_error).map(Err),
    };
    let directory: PathBuf = run.leave();
    let signals = Signals::take_over(&child)?;
    Ok(Ok((Watch::open(&directory)?, Some(child), signals)))
}

fn tell_beginning(watch: &Watch, flags: &WatchFlags) {
    let who = match flags.pid {
        Some(pid) => format!("process {pid}"),
        None => flags.command.first().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
    };
    let sampled = period(Some(watch.control().period()), &Look::default());
    stdio::notify(&format!("watching {who}, {sampled}; a report every {}", span(flags.every.as_millis() as u64)));
    if flags.pid.is_none() && std::io::stdout().is_terminal() && !flags.lines && !flags.view.json {
        stdio::notify(
            "for the live view, have what the command prints elsewhere: --log FILE; or join it: mallow watch -p PID",
        );
    }
}

/// How the watching ended.
enum End {
    /// No process is left.
    Over,
    /// Somebody wants to leave.
    Left,
}

struct Watcher<'a> {
    session: Session,
    watch: Watch,
    /// The command that mallow started, until it ended.
    command: Option<Child>,
    status: Option<i32>,
    signals: Signals,
    out: ReportStream,
    look: Look,
    flags: &'a WatchFlags,
    snapshots: Option<Snapshots>,
    screen: Option<Screen>,
    state: State,
    which: Which,
    /// A process of it ended, and not in order.
    crashed: bool,
    /// The program has ended, or is left: what is reported now is the last of it.
    last: bool,
    /// Why the latest report or snapshot could not be written, as it was told.
    trouble: Option<String>,
}

impl Watcher<'_> {
    fn work(mut self) -> Result<ExitCode> {
        let end = self.follow();
        // Whatever happened, the terminal is given back before anything is written to it.
        drop(self.screen.take());
        let end = end?;
        self.session.poll(&mut self.watch);
        let reported = self.last_reports(&end);
        unrecorded::warn_programs(&self.watch.unreached(), "sampled");
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

    fn follow(&mut self) -> Result<End> {
        let mut next_report = Instant::now() + self.flags.every;
        let mut next_drawing = Instant::now();
        let mut seen = false;
        loop {
            self.session.poll(&mut self.watch);
            self.crashed |= self.flags.pid.is_some_and(|pid| self.watch.ended_abruptly(pid));
            if self.look_after_the_command() {
                // It may have ended since the look above: nobody leaves a program that is over.
                self.session.poll(&mut self.watch);
            }
            seen |= self.watch.running() > 0;
            // A command that has not come to its first allocation has no file yet.
            let began = seen || self.flags.pid.is_some() || self.status.is_some();
            if self.watch.running() == 0 && self.command.is_none() && began {
                return Ok(End::Over);
            }
            for signal in self.signals.take() {
                let answered = self.answer(signal);
                self.go_on(answered);
            }
            // One is passed on to a command that mallow started, or came from its terminal: it may end in its own time.
            let (ends, _) = self.signals.ends();
            if ends > u32::from(self.command.is_some()) {
                return Ok(End::Left);
            }
            if Instant::now() >= next_report {
                next_report += self.flags.every;
                let reported = self.report("every", Which::Old).and_then(|()| self.snapshot());
                self.go_on(reported);
            }
            if self.screen.is_none() {
                std::thread::sleep(LOOK);
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

    /// What cannot be written now may be written later, when there is room on the disk again: the watching goes on. It is
    /// told once.
    fn go_on(&mut self, written: Result<()>) {
        let Err(error) = written else {
            self.trouble = None;
            return;
        };
        let told = format!("{error:#}");
        if self.trouble.as_ref() != Some(&told) {
            match &self.screen {
                Some(_) => self.state.message = Some(told.clone()),
                None => stdio::notify(&format!("{told}; watching continues")),
            }
            self.trouble = Some(told);
        }
    }

    /// Whether it was found ended.
    fn look_after_the_command(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let Some(command) = &mut self.command else { return false };
        let ended = command.try_wait().ok().flatten();
        if let Some(status) = ended {
            self.signals.pass_on_to(0);
            self.status = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            self.crashed |= status.signal().is_some();
            self.command = None;
            if self.watch.running() > 1 {
                stdio::notify("the command has ended; processes that it started continue, and are watched");
            }
        }
        ended.is_some()
    }

    /// What keys ask for; drawn at once when something changes.
    fn interact(&mut self, next_drawing: &mut Instant) -> Result<Option<End>> {
        let Some(screen) = &mut self.screen else { return Ok(None) };
        screen.draw(&mut self.state).context("cannot draw on this terminal")?;
        let asked = screen.wait(&mut self.state, LOOK).context("cannot read from this terminal")?;
        let control = self.watch.control();
        match asked {
            Request::Nothing => return Ok(None),
            Request::Mute(site) => self.session.mute_site(site),
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

    /// What the live view shows.
    fn refresh(&mut self) {
        let subject = Subject { limit: usize::MAX, ..self.subject("live", self.which) };
        let report = self.made(&subject);
        self.state.history = self.session.book.history().iter().map(|(_, bytes)| *bytes).collect();
        self.state.show(report);
    }

    fn subject<'s>(&self, occasion: &'s str, which: Which) -> Subject<'s> {
        const SITES: usize = 10;
        let screen = if self.flags.view.json { usize::MAX } else { SITES };
        let older_than_ms = self.flags.older_than.as_millis() as u64;
        Subject { occasion, which, older_than_ms, limit: self.flags.view.limit(screen) }
    }

    /// Looks once more, with all names looked up: that may take a second after the first look at a large program, and what is
    /// reported should be what is there now. A signal is answered by what was there after it came.
    fn look_again(&mut self) {
        self.session.name(self.watch.profile_mut());
        self.session.poll(&mut self.watch);
        self.session.name(self.watch.profile_mut());
    }

    fn made(&mut self, subject: &Subject<'_>) -> Watched {
        self.look_again();
        let watch = &self.watch;
        self.session.report(watch.profile(), &Moment::of(watch), &|process| watch.runs(process), subject)
    }

    fn report(&mut self, occasion: &str, which: Which) -> Result<()> {
        let subject = self.subject(occasion, which);
        let report = self.made(&subject);
        let more = report.sites.len() == subject.limit;
        let text = match self.flags.view.json {
            true => json::line(&report)?,
            false => text::report(&report, &self.look, self.flags.stacks, more),
        };
        self.write(&text)
    }

    fn recent(&mut self) -> Result<()> {
        self.look_again();
        let recent = self.session.recent(self.watch.profile(), Moment::of(&self.watch).now_ns);
        let text = match self.flags.view.json {
            true => json::line(&serde_json::json!({ "occasion": "recent", "recent": recent }))?,
            false => text::recent(&recent, &self.look, self.flags.stacks),
        };
        self.write(&text)
    }

    /// Where the live view is, reports go to a file or nowhere.
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
                let older_than_ns = self.flags.older_than.as_nanos() as u64;
                self.session.mute_older(Moment::of(&self.watch).now_ns.saturating_sub(older_than_ns));
                Ok(())
            }
        }
    }

    fn snapshot(&mut self) -> Result<()> {
        if self.snapshots.is_none() {
            return Ok(());
        }
        self.session.name(self.watch.profile_mut());
        let moment = Moment::of(&self.watch);
        let profile = snapshot(&self.session.book, self.watch.profile(), moment.now_ns, moment.unix_ms);
        let Some(snapshots) = &self.snapshots else { return Ok(()) };
        snapshots.write(&profile, moment.unix_ms / 1000).map(drop)
    }

    /// All of them, whatever becomes of the first ones: what cannot be written where it should be is told here.
    fn last_reports(&mut self, end: &End) -> Result<()> {
        self.last = true;
        let mut done = match end {
            End::Over => self.report("end", Which::Live),
            End::Left => self.report("leave", self.which),
        };
        if self.flags.track_peak {
            done = done.and(self.report("peak", Which::Peak));
        }
        if self.crashed {
            stdio::notify("a process ended by a signal, or without its exit handlers; what it freed last:");
            done = done.and(self.recent());
        }
        done.and(self.snapshot())
    }
}
