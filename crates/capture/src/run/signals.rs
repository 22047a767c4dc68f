//! Signals that reach mallow while the command runs.
//!
//! A terminal sends Ctrl-C to the command too, so the first one only says that the end is near; the second one ends the
//! recording without the command. A signal that somebody sent to mallow alone is passed on.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static COMMAND: AtomicI32 = AtomicI32::new(0);
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if signal == libc::SIGINT {
        INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let from_process = unsafe { (*info).si_code } <= 0;
    let command = COMMAND.load(Ordering::Relaxed);
    if command > 0 && from_process {
        // SAFETY: kill is async-signal-safe; the command was not waited for yet, so the pid is its own.
        unsafe { libc::kill(command, signal) };
    }
}

/// Watches the signals that end programs, except those that mallow's caller has it ignore: the command inherits that.
pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: plain sigaction calls with valid pointers; the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction != libc::SIG_IGN {
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }
}

/// Who signals are passed on to; 0 for nobody.
pub fn pass_on_to(pid: i32) {
    COMMAND.store(pid, Ordering::Relaxed);
}

/// How often Ctrl-C came.
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}
