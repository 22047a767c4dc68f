//! `mallow watch`: a program in production, by what is sampled of it.

mod announcement;
mod closing_summary;
pub mod ending_signals;
pub mod endpoint;
pub mod exclusions;
pub mod headline;
mod last_running;
mod log;
mod memory;
mod memory_limit;
mod news_pace;
mod page_session;
pub mod push;
pub mod pushing;
pub mod report_stream;
mod saving;
pub mod session;
mod setup;
pub mod signals;
mod snapshots;
pub mod text;
mod watcher;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mallow_capture::attach::is_loaded;
use mallow_capture::guard::{self, Settings};
use mallow_capture::preflight::{self, Chain, Purpose};
use mallow_capture::rundir::directory::{Mode, PERIOD};
use mallow_capture::session as runs;
use mallow_capture::watch::{Control, Watch, WatchError, directory_of};
use mallow_report::analysis::Unseen;

use self::announcement::announce;
use self::endpoint::Doorway;
use self::exclusions::Exclusions;
use self::log::LogFile;
pub use self::page_session::show_page;
use self::push::PushPlan;
use self::report_stream::ReportStream;
use self::session::Session;
use self::setup::{Attached, Output, Started};
use self::signals::Signals;
use self::snapshots::Snapshots;
use self::watcher::Watcher;
use super::attached::{self, ForeignRoot, age};
use super::exit_status;
use super::guard::possible;
use super::screen::Screen;
use crate::flags::{SymbolsIn, WatchFlags};
use crate::output::text::estimates::period;
use crate::output::text::{Look, Stream};
use crate::output::{exit, stdio};

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
    // An address that is taken is an error before the command starts; threads come after it.
    let doorway = Doorway::open(&flags.endpoint)?;
    let names = flags.endpoint.symbols == SymbolsIn::Profile;
    let plan = PushPlan::of(&flags.push, names)?;
    let elsewhere = flags.log.as_deref().map(LogFile::to).transpose()?;
    let started = start(flags);
    drop(elsewhere);
    let started = match started? {
        Ok(started) => started,
        Err(status) => return Ok(status),
    };
    let screen =
        live_view.then(|| Screen::take(flags.view.look(Stream::Err))).transpose().context("cannot draw here")?;
    if screen.is_none() {
        announce(&started.watch, flags, started.attached.is_some());
    }
    let endpoint = doorway.map(|doorway| doorway.serve(names)).transpose()?;
    if let Some(endpoint) = endpoint.as_ref().filter(|_| screen.is_none()) {
        stdio::notify(&format!("scrapers: {}/metrics and /debug/pprof/heap", endpoint.address));
    }
    let push = plan.map(PushPlan::start).transpose()?;
    let output = Output { out, look, snapshots, screen, endpoint, page: None, push };
    Watcher::new(flags, Session::new(known, flags.track_peak, flags.pid.and_then(ForeignRoot::of)), started, output)
        .work()
}

/// Whether there is a terminal for the live view, to which nobody else writes.
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

/// Joins a program, or starts one. The inner error is the status of one that could not be started.
fn start(flags: &WatchFlags) -> Result<Result<Started, ExitCode>> {
    if let Some(pid) = flags.pid {
        let directory = match directory_of(pid) {
            // The first one: of a mallow that is attached, or was killed then.
            Ok(_) if is_loaded(pid) => return attach(pid, flags),
            Err(WatchError::NotOurs(_)) => return attach(pid, flags),
            found => found?,
        };
        if flags.guard {
            possible(flags.signal_handler)?;
        }
        let signals = Signals::watch()?;
        let mut watch = Watch::open(&directory)?;
        if let Some(period) = flags.period {
            watch.control().set_period(period.into());
        }
        let keeper = match flags.guard {
            true => {
                let period = u32::try_from(watch.control().period()).unwrap_or(u32::MAX);
                watch.keep_ended();
                watch.set_purpose(Purpose::Guarding);
                Some(
                    guard::join(&watch, &Settings::sampled(period, flags.signal_handler))
                        .context("cannot begin to guard")?,
                )
            }
            false => None,
        };
        watch.control().set_sampling(true);
        return Ok(Ok(Started { watch, command: None, signals, attached: None, keeper, unseen: None }));
    }
    let chain = Chain::of(&flags.command);
    let purpose = if flags.guard { Purpose::Guarding } else { Purpose::Sampling };
    if let Some(sentence) = preflight::unpicked(&chain, purpose) {
        stdio::notify(&sentence);
    }
    let unseen = preflight::out_of_reach(&chain)
        .map(|finding| Unseen { found: finding.found, remedy: finding.remedy.unwrap_or_default() });
    let period = flags.period.unwrap_or(PERIOD);
    let started = match flags.guard {
        true => {
            possible(flags.signal_handler)?;
            guard::start(&flags.command, &Settings::sampled(period, flags.signal_handler))
                .map(|(run, child, keeper)| (run, child, Some(keeper)))
        }
        false => runs::start_sampled(&flags.command, Mode::Sample, period).map(|(run, child)| (run, child, None)),
    };
    let (run, child, keeper) = match started {
        Ok(started) => started,
        Err(error) => return exit_status::after_failure(error, flags.fail_on_write_error).map(Err),
    };
    let signals = Signals::take_over(&child)?;
    let mut watch = run.leave_to(Watch::open)?;
    watch.set_purpose(purpose);
    if keeper.is_some() {
        watch.keep_ended();
    }
    Ok(Ok(Started { watch, command: Some(child), signals, attached: None, keeper, unseen }))
}

/// Attaches to a process that was not started under mallow.
fn attach(pid: u32, flags: &WatchFlags) -> Result<Result<Started, ExitCode>> {
    if flags.guard {
        bail!(
            "process {pid} was not started under mallow, and cannot be guarded: its guarded blocks would outlive the attachment, and the \
             allocator that frees them then does not know them. Start it by mallow run -- COMMAND, and mallow watch --guard -p PID joins it"
        );
    }
    let ran_ms = age(pid).unwrap_or_default().as_millis() as u64;
    let period = flags.period.unwrap_or(PERIOD);
    let attached = attached::with(pid, None, flags.timeout, |process| runs::attach_sampled(process, period));
    let (run, attachment) = match attached {
        Ok(attached) => attached,
        Err(error) => return exit_status::after_failure(error, false).map(Err),
    };
    attachment.unseen().iter().for_each(|sentence| stdio::notify(sentence));
    let signals = Signals::take_over_attached()?;
    let watch = run.leave_to(Watch::open)?;
    Ok(Ok(Started {
        watch,
        command: None,
        signals,
        attached: Some(Attached { attachment, ran_ms }),
        keeper: None,
        unseen: None,
    }))
}
