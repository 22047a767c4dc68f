//! Signals to mallow while it watches.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use anyhow::{Context, Result};
use mallow_capture::launch::signals as command_signals;
use signal_hook_registry::register_sigaction;

use crate::output::stdio;

/// Report for which a signal asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// HUP: all live samples.
    Live,
    /// USR1: the old ones once more, and never again.
    Mute,
    /// USR2: the latest frees and reallocs.
    Recent,
}

const REPORTS: [(libc::c_int, Signal); 3] =
    [(libc::SIGHUP, Signal::Live), (libc::SIGUSR1, Signal::Mute), (libc::SIGUSR2, Signal::Recent)];
const ENDS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT];

/// A signal that came while mallow started ends it as well.
fn end_soon_if_asked() {
    if command_signals::asked_to_end() {
        stdio::end_soon();
    }
}

/// Signals that came and were not looked at yet.
#[derive(Default)]
struct Arrivals {
    /// Counts by index in [`REPORTS`]; several signals of one kind are one report.
    reports: [AtomicU32; 3],
    ends: AtomicU32,
    last: AtomicI32,
    /// The command that mallow started, while it runs.
    command: AtomicI32,
}

/// Signals that came and were not looked at yet.
pub struct Signals {
    came: Arc<Arrivals>,
}

impl Signals {
    /// Watches for them from here on, and passes those that end programs on to `command`, which [`command_signals`] did
    /// until now. One that comes meanwhile is kept, and is neither lost nor sent twice. Precondition: this is the only
    /// thread that takes signals.
    pub fn take_over(command: &Child) -> Result<Self> {
        let held = Held::back();
        end_soon_if_asked();
        command_signals::unwatch();
        let signals = Self::watch()?;
        signals.pass_on_to(command.id() as i32);
        drop(held);
        Ok(signals)
    }

    /// Takes over signals after mallow attached to a process: those that came meanwhile ask mallow for a report, or to
    /// end.
    pub fn take_over_attached() -> Result<Self> {
        let held = Held::back();
        let stop = command_signals::stop();
        end_soon_if_asked();
        command_signals::unwatch();
        let signals = Self::watch()?;
        let interrupted = (command_signals::interrupts() > 0).then_some(libc::SIGINT);
        if let Some(signal) = stop.filter(|&signal| signal != libc::SIGHUP).or(interrupted) {
            signals.came.last.store(signal, Ordering::Relaxed);
            signals.came.ends.fetch_add(1, Ordering::Relaxed);
        } else if stop.is_some() {
            signals.came.reports[0].fetch_add(1, Ordering::Relaxed);
        }
        drop(held);
        Ok(signals)
    }

    /// Takes signals from here on.
    pub fn watch() -> Result<Self> {
        let came = Arc::new(Arrivals::default());
        for (at, (signal, _)) in REPORTS.into_iter().enumerate() {
            let came = came.clone();
            register(signal, move |_| {
                came.reports[at].fetch_add(1, Ordering::Relaxed);
            })?;
        }
        let reports = REPORTS.map(|(signal, _)| signal);
        for signal in command_signals::passed_on().filter(|signal| !reports.contains(signal)) {
            let came = came.clone();
            register(signal, move |from_process| {
                let command = came.command.load(Ordering::Relaxed);
                if command > 0 && from_process {
                    // SAFETY: as below.
                    unsafe { libc::kill(command, signal) };
                }
            })?;
        }
        for signal in ENDS {
            let came = came.clone();
            register(signal, move |from_process| {
                let command = came.command.load(Ordering::Relaxed);
                // A terminal signals the command by itself.
                if command > 0 && from_process {
                    // SAFETY: kill is async-signal-safe; the command was not waited for yet, so the pid is its own.
                    unsafe { libc::kill(command, signal) };
                }
                stdio::end_soon();
                came.last.store(signal, Ordering::Relaxed);
                came.ends.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        Ok(Self { came })
    }

    /// Signals that end programs reach this one, too. 0: none any more.
    pub fn pass_on_to(&self, pid: i32) {
        self.came.command.store(pid, Ordering::Relaxed);
    }

    /// Reports that were asked for since the last look.
    pub fn take(&self) -> Vec<Signal> {
        let came = |(at, _): &(usize, _)| self.came.reports[*at].swap(0, Ordering::Relaxed) > 0;
        REPORTS.into_iter().enumerate().filter(came).map(|(_, (_, means))| means).collect()
    }

    /// Number of requests to end, and the signal of the last one.
    pub fn ends(&self) -> (u32, i32) {
        (self.came.ends.load(Ordering::Relaxed), self.came.last.load(Ordering::Relaxed))
    }
}

/// The signals of this file wait until it is dropped.
struct Held {
    mask_before: libc::sigset_t,
}

impl Held {
    fn back() -> Self {
        // SAFETY: plain calls with valid pointers; a set of zeros is a valid one, which sigemptyset then makes properly
        // empty.
        unsafe {
            let (mut set, mut mask_before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
            libc::sigemptyset(&mut set);
            let reports = REPORTS.iter().map(|&(signal, _)| signal);
            for signal in reports.chain(ENDS).chain(command_signals::passed_on()) {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut mask_before);
            Self { mask_before }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask_before, std::ptr::null_mut()) };
    }
}

/// Precondition: `action` does what a signal handler may.
fn register(signal: libc::c_int, action: impl Fn(bool) + Send + Sync + 'static) -> Result<()> {
    // SAFETY: both callers' actions load and store atomics and call kill.
    let registered = unsafe { register_sigaction(signal, move |info| action(info.si_code <= 0)) };
    registered.map(drop).context("cannot watch for signals")
}
