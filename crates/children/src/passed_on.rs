//! Signals that mean something to programs alone, as SIGUSR1 does. Mallow passes them on to its command, and never ends
//! by them: `docker kill -s USR1` is for the command.

/// A terminal sends SIGWINCH to the command, too; somebody who sends it to mallow alone means the command (httpd stops
/// by it).
const PASSED: [libc::c_int; 9] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGWINCH,
];

/// Signals that are passed on, those of real time included.
pub fn passed_on() -> impl Iterator<Item = libc::c_int> {
    PASSED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}
