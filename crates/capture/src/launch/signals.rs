//! Signals that reach mallow while the command runs, and until its recording is complete.
//!
//! A terminal sends Ctrl-C to the command too, so the first one only says that the end is near; the second one ends the
//! recording without the command. A signal that somebody sent to mallow alone is passed on. Before the command's start
//! each ends mallow, once what it made is removed. After the command's end each is for mallow, which puts its work
//! aside for `recover`.
//!
//! Signals that mean something to programs alone, as SIGUSR1 does, are passed on, and never end mallow: `docker kill -s
//! USR1` is for the command. Where there is none, they are dropped.

pub use mallow_children::passed_on;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The command's pid while it runs; else [`NOT_YET`] or [`ENDED`].
static COMMAND: AtomicI32 = AtomicI32::new(NOT_YET);
const NOT_YET: i32 = 0;
const ENDED: i32 = -1;
/// The last watched signal while there was no command; 0: none.
static STOP: AtomicI32 = AtomicI32::new(0);
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if signal == libc::SIGINT {
        INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    }
    if signal != libc::SIGHUP {
        ENDING.store(true, Ordering::Relaxed);
    }
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let from_process = unsafe { (*info).si_code } <= 0;
    let command = COMMAND.load(Ordering::Relaxed);
    if command > 0 && from_process {
        // SAFETY: kill is async-signal-safe; the command was not waited for yet, so the pid is its own.
        unsafe { libc::kill(command, signal) };
    }
    if command == ENDED || command == NOT_YET {
        STOP.store(signal, Ordering::Relaxed);
    }
}

const WATCHED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Bits, by number - 1, of signals for the command alone that came before its start.
static PENDING: AtomicU64 = AtomicU64::new(0);

extern "C" fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: as in `handle`.
    let from_process = unsafe { (*info).si_code } <= 0;
    let command = COMMAND.load(Ordering::Relaxed);
    if command > 0 && from_process {
        // SAFETY: as in `handle`.
        unsafe { libc::kill(command, signal) };
    }
    if command == NOT_YET && from_process {
        PENDING.fetch_or(1 << (signal - 1), Ordering::Relaxed);
    }
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn handlers() -> impl Iterator<Item = (libc::c_int, Handler)> {
    let watched = WATCHED.into_iter().map(|signal| (signal, handle as Handler));
    watched.chain(passed_on().map(|signal| (signal, pass_on as Handler)))
}

/// Watches the signals that end programs, except those that mallow's caller has it ignore: the command inherits that.
pub fn watch() {
    for (signal, handler) in handlers() {
        // SAFETY: plain sigaction calls with valid pointers; the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction != libc::SIG_IGN {
                action.sa_sigaction = handler as *const () as usize;
                // What is only passed on interrupts nothing that waits.
                action.sa_flags = libc::SA_SIGINFO | if WATCHED.contains(&signal) { 0 } else { libc::SA_RESTART };
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }
}

/// Gives the signals that [`watch`] took their default actions back.
pub fn unwatch() {
    for (signal, handler) in handlers() {
        // SAFETY: as in `watch`; only what it changed is changed back.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == handler as *const () as usize
            {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// From here on signals are passed on to this process; those that came before are sent to it now.
pub fn pass_on_to(pid: i32) {
    COMMAND.store(pid, Ordering::Relaxed);
    let signal = STOP.swap(0, Ordering::Relaxed);
    if signal != 0 {
        // SAFETY: sends a signal to a child that was not waited for yet.
        unsafe { libc::kill(pid, signal) };
    }
    let pending = PENDING.swap(0, Ordering::Relaxed);
    for signal in passed_on().filter(|signal| pending & 1 << (signal - 1) != 0) {
        // SAFETY: as above.
        unsafe { libc::kill(pid, signal) };
    }
}

/// From here on signals are mallow's: the command has ended, or is left alone.
pub fn keep() {
    COMMAND.store(ENDED, Ordering::Relaxed);
}

/// Makes [`stop`] say None until another signal comes.
pub fn forget() {
    STOP.store(0, Ordering::Relaxed);
}

/// The signal that came since [`watch`], while there was no command, or since [`keep`].
pub fn stop() -> Option<i32> {
    match STOP.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(signal),
    }
}

/// Whether a signal came that asks programs to end, for mallow or for the command.
pub fn asked_to_end() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// How often Ctrl-C came.
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}
