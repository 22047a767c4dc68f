//! Signals that come while mallow waits for commands: some end mallow, and others are for the commands.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook_registry::{register, register_sigaction};

use crate::passed_on;

const ENDS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// The signal that ends mallow as soon as its commands have ended; 0: none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// For each command, the signals that came for it, as bits; [`IN_USE`] for a place that is taken. A handler may not
/// know whether a command was waited for already, so the one that waits sends them.
static CAME: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// The bit of SIGHUP, which ends mallow.
const IN_USE: u64 = 1;

/// A command that is waited for: as long as this lives, a signal waits for it. Its place in [`CAME`], if there was one.
pub struct Running(Option<&'static AtomicU64>);

impl Running {
    /// Begins to keep signals for a command, before it is started, so that no signal comes between.
    pub fn begin() -> io::Result<Self> {
        static WATCHED: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();
        let watched = WATCHED.get_or_init(|| watch().map_err(|error| error.kind()));
        (*watched)?;
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let take = |came: &&AtomicU64| came.compare_exchange(0, IN_USE, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        Ok(Self(CAME.iter().find(take)))
    }

    /// Signals that came for it since the last time.
    pub fn signals(&self) -> impl Iterator<Item = libc::c_int> {
        let came = self.0.map_or(0, |came| came.fetch_and(IN_USE, Ordering::SeqCst));
        passed_on().filter(move |signal| came & bit(*signal) != 0)
    }

    /// The command is to be ended, because mallow is.
    pub fn to_end(&self) -> bool {
        SIGNAL.load(Ordering::SeqCst) != 0
    }

    /// Ends mallow by the signal that came. Other threads end their commands first: the last one does it.
    pub fn die(self) -> ! {
        drop(self);
        loop {
            if RUNNING.load(Ordering::SeqCst) == 0 {
                by(SIGNAL.load(Ordering::SeqCst));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(came) = self.0 {
            came.store(0, Ordering::SeqCst);
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn watch() -> io::Result<()> {
    for signal in ENDS {
        if is_ignored(signal) {
            continue;
        }
        let came = move || {
            let first = SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            // Nobody waits for a command who would look.
            if first && RUNNING.load(Ordering::SeqCst) == 0 {
                by(signal);
            }
        };
        // SAFETY: the action uses atomics, signal and raise, which handlers may.
        unsafe { register(signal, came) }?;
    }
    for signal in passed_on().filter(|signal| !is_ignored(*signal)) {
        let came = move |info: &libc::siginfo_t| {
            // A terminal's and the kernel's own are for mallow alone.
            if info.si_code > 0 {
                return;
            }
            for one in CAME.iter().filter(|one| one.load(Ordering::SeqCst) & IN_USE != 0) {
                one.fetch_or(bit(signal), Ordering::SeqCst);
            }
        };
        // SAFETY: the action uses atomics.
        unsafe { register_sigaction(signal, came) }?;
    }
    Ok(())
}

fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// Whether the signal is ignored, as in a command that a shell without job control starts with `&`, or with `nohup`.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros are a value of this struct, and no new action is given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Lets the signal take its default effect when the handler is left.
fn by(signal: libc::c_int) {
    // SAFETY: both may be called in a handler; the signal ends the process when the handler is left.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
