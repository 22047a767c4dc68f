//! Signals that end mallow, while it waits for commands.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook_registry::register;

const ENDS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Commands that are waited for.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// The signal that ends mallow as soon as its commands have ended; 0: none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// A command that is waited for: as long as this lives, a signal waits for it.
pub struct Running(());

impl Running {
    /// Before the command is started, so that no signal comes between.
    pub fn begin() -> io::Result<Self> {
        static WATCHED: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();
        let watched = WATCHED.get_or_init(|| watch().map_err(|error| error.kind()));
        (*watched)?;
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Ok(Self(()))
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
    Ok(())
}

/// As of a command that a shell without job control starts with `&`, or `nohup`.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros are a value of this struct, and no new action is given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// What the signal does by itself.
fn by(signal: libc::c_int) {
    // SAFETY: both may be called in a handler; the signal ends the process when the handler is left.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
