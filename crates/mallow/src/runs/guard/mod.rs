//! `mallow guard`: memory errors of a command.

mod crashes;
pub mod errors;
mod identity;
mod leak;
mod operations;
mod outputs;
mod steps;
pub mod text;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use mallow_capture::guard::{self, GuardedEdge, KEEPER, Keeper, Settings};
use mallow_capture::preflight::{self, Chain, Purpose};
use mallow_capture::watch::Watch;
use mallow_profile::{FrameId, Profile};
use mallow_report::analysis::custom_allocators;
use mallow_symbols::{Options, Symbolizer};

use self::errors::{Errors, Known, Report};
use super::exit_status;
use super::unrecorded;
use super::watch::ending_signals::name_of;
use super::watch::signals::Signals;
use crate::flags::{GuardFlags, PlaceFlag};
use crate::output::exit::UsageError;
use crate::output::text::{Look, Stream};
use crate::output::{destination, exit, json, sarif, stdio};

const POINTER: u32 = 8;
/// Longest time that a process which loads a library waits for its table.
const LOOK: Duration = Duration::from_millis(10);

/// Becomes the keeper, where mallow was started as that.
pub fn keeper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next()? != KEEPER {
        return None;
    }
    let directory = arguments.next()?;
    Some(if guard::keep(Path::new(&directory)) { exit::OK } else { ExitCode::from(exit::FAILED) })
}

pub fn run(flags: &GuardFlags) -> Result<ExitCode> {
    let suppressions = flags.suppressions.as_deref().map(Known::read).transpose()?.unwrap_or_default();
    for path in [&flags.output, &flags.junit, &flags.sarif].into_iter().flatten() {
        destination::is_somewhere(path)?;
    }
    if flags.leaks && flags.alignment < POINTER {
        let why = "--leaks reads pointers at multiples of 8 bytes, and finds none in blocks that begin elsewhere: use --alignment 8 or more";
        return Err(UsageError(why.to_owned()).into());
    }
    possible(flags.signal_handler)?;
    if let Some(sentence) = preflight::unpicked(&Chain::of(&flags.run.command), Purpose::Guarding) {
        stdio::notify(&sentence);
    }
    let settings = Settings {
        period: flags.sample,
        memory: flags.memory,
        place: match flags.place {
            PlaceFlag::End => GuardedEdge::End,
            PlaceFlag::Begin => GuardedEdge::Begin,
            PlaceFlag::Random => GuardedEdge::Random,
        },
        alignment: flags.alignment,
        fails_fast: flags.fail_fast,
        leaks: flags.leaks,
        crashes: true,
        handler: flags.signal_handler,
    };
    let (run, child, keeper) = match guard::start(&flags.run.command, &settings) {
        Ok(started) => started,
        Err(error) => return exit_status::after_failure(error, false),
    };
    let signals = Signals::take_over(&child)?;
    let mut watch = run.leave_to(Watch::open)?;
    watch.keep_ended();
    let mut errors = Errors::new(suppressions);
    let status = follow((child, keeper), &signals, &mut watch, &mut errors);
    errors.sort_leaks();
    let command: Vec<String> = flags.run.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let sum =
        |of: fn(&guard::Outcome) -> u64| errors.outcomes.iter().fold(0_u64, |sum, one| sum.saturating_add(of(one)));
    let processes_by = |of: fn(&guard::Outcome) -> Option<&String>| {
        let mut processes = BTreeMap::new();
        errors.outcomes.iter().filter_map(of).for_each(|reason| *processes.entry(reason.clone()).or_default() += 1);
        processes
    };
    let was_seen =
        errors.outcomes.iter().any(|outcome| outcome.guarded > 0 || outcome.unguarded > 0 || outcome.unfit > 0);
    let out_of_reach = if was_seen { None } else { preflight::why(&Chain::of(&flags.run.command)) };
    watch.set_purpose(Purpose::Guarding);
    watch.find_runtimes();
    let profile = watch.profile();
    let executable = |number: usize| profile.processes.get(number).map(|process| process.executable.as_str());
    let mut report = Report {
        command,
        custom_allocators: custom_allocators(&profile.custom_allocators, executable),
        processes: profile.processes.len(),
        exit_status: status.map(Ended::number),
        ended_by: status.and_then(Ended::signal).map(name_of),
        errors: &errors.all,
        crashes: &errors.crashes,
        suppressed: errors.suppressed,
        lost: sum(|outcome| outcome.lost),
        guarded: sum(|outcome| outcome.guarded),
        unguarded: sum(|outcome| outcome.unguarded),
        unfit: sum(|outcome| outcome.unfit),
        refused: processes_by(|outcome| outcome.refused.as_ref()),
        handled: processes_by(|outcome| outcome.handled.as_ref()),
        ended: processes_by(|outcome| outcome.ended.as_ref()),
        beyond: match flags.place {
            PlaceFlag::End => Some(("before", "begin")),
            PlaceFlag::Begin => Some(("behind", "end")),
            PlaceFlag::Random => None,
        },
        uncompared: processes_by(|outcome| outcome.uncompared.as_ref()),
        unsure: sum(|outcome| outcome.unsure),
        searched: errors.outcomes.iter().filter(|outcome| outcome.search == guard::Search::Done).count() as u64,
        unsearched: errors.unsearched(),
        programs: errors.programs(),
        unreached: watch.unreached(),
        out_of_reach,
        too_little: None,
    };
    report.too_little = flags.require_guarded.and_then(|percent| report.shortfall(percent));
    unrecorded::warn_programs(&report.unreached, "guarded");
    let running = watch.running();
    if running > 0 {
        stdio::notify("processes that the command started continue, and are not guarded any more");
        watch.leave();
    } else {
        watch.remove();
    }
    write(flags, &report)?;
    if report.guarded == 0 && report.errors.is_empty() && report.crashes.is_empty() {
        match &report.out_of_reach {
            // The text on the screen has it already.
            Some(why) if flags.view.json || flags.output.is_some() => {
                stdio::notify(&format!("nothing was guarded: {why}"))
            }
            Some(_) => {}
            None => stdio::notify(
                "no allocation was guarded: the command allocates none by malloc, or is out of reach; mallow doctor says more",
            ),
        }
    }
    if !report.errors.is_empty() {
        return Ok(ExitCode::from(exit::ERRORS_FOUND));
    }
    if report.too_little.is_some() {
        return Ok(ExitCode::from(exit::GUARDED_TOO_LITTLE));
    }
    Ok(exit_status::after_command(report.exit_status, Ok(()), false))
}

/// Fails where processes cannot be guarded here; `handler`: a signal handler may take the place of userfaultfd.
pub fn possible(handler: bool) -> Result<()> {
    match guard::available() {
        Ok(()) => Ok(()),
        Err(reason) if handler => {
            stdio::notify(&format!("a handler for SIGSEGV in the program takes the place of userfaultfd: {reason}"));
            Ok(())
        }
        Err(reason) => bail!(
            "guarding is impossible here: {reason}; or let --signal-handler put a handler for SIGSEGV into the program"
        ),
    }
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Exited(i32),
    Signalled(i32),
}

impl Ended {
    /// The exit status as a shell has it.
    fn number(self) -> i32 {
        match self {
            Self::Exited(status) => status,
            Self::Signalled(signal) => 128 + signal,
        }
    }

    fn signal(self) -> Option<i32> {
        match self {
            Self::Exited(_) => None,
            Self::Signalled(signal) => Some(signal),
        }
    }
}

/// Watches until the command ends, or somebody asked twice. Returns its end.
fn follow(
    (mut child, mut keeper): (Child, Keeper),
    signals: &Signals,
    watch: &mut Watch,
    errors: &mut Errors,
) -> Option<Ended> {
    let mut status = None;
    let mut warned = false;
    let (mut symbolizer, mut named) = (Symbolizer::new(Options::default()), 0);
    let mut name = |profile: &mut Profile| {
        let all = profile.frames.len();
        symbolizer.symbolize(profile, &mut (named as u32..all as u32).map(FrameId));
        named = all;
    };
    loop {
        let ended = child.try_wait().ok().flatten();
        if let Some(ended) = ended {
            signals.pass_on_to(0);
            status = ended.code().map(Ended::Exited).or_else(|| ended.signal().map(Ended::Signalled));
        }
        watch.attend();
        for message in keeper.messages().collect::<Vec<_>>() {
            errors.take(message, watch, &mut name);
        }
        if ended.is_some() || signals.ends().0 > 1 {
            break;
        }
        if !warned && keeper.is_gone() {
            warned = true;
            watch.control().without_keeper();
            stdio::notify(
                "the process that holds the guarded memory was killed: the command goes on, and nothing is guarded any more",
            );
        }
        watch.sleep(LOOK);
    }
    for message in keeper.end() {
        errors.take(message, watch, &mut name);
    }
    watch.control().without_keeper();
    watch.attend();
    status
}

fn write(flags: &GuardFlags, report: &Report<'_>) -> Result<()> {
    const ERRORS: usize = 10;
    let look = match flags.output {
        Some(_) => Look { exact: flags.view.exact, full_names: flags.view.full_names, ..Look::default() },
        None => flags.view.look(Stream::Err),
    };
    let screen = if flags.view.json { usize::MAX } else { ERRORS };
    let text = match flags.view.json {
        true => json::document(report)?,
        false => text::report(report, &look, flags.stacks, flags.view.limit(screen)),
    };
    let save =
        |path: &Path, text: &str| fs::write(path, text).with_context(|| format!("cannot write {}", path.display()));
    match &flags.output {
        Some(path) => save(path, &text)?,
        None => stdio::write_error(&text),
    }
    let root = sarif::root(Path::new("."));
    let command = report.command.first().map_or("", String::as_str);
    if let Some(path) = &flags.junit {
        save(path, &outputs::junit(report, command).map_err(|error| anyhow!(error))?)?;
    }
    if let Some(path) = &flags.sarif {
        save(path, &json::pretty(&outputs::sarif(report, command, &root))?)?;
    }
    if flags.github {
        stdio::print(&outputs::github(report, &root))?;
    }
    Ok(())
}
