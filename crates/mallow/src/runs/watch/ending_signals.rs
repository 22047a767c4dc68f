//! Signals that end programs: their names, and which of them are crashes.

/// Signals that end a program because of an error in it.
const CRASHES: [(i32, &str); 7] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGSYS, "SIGSYS"),
];

/// The name of a signal that ends programs.
pub fn name_of(signal: i32) -> String {
    const OTHERS: [(i32, &str); 5] = [
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGHUP, "SIGHUP"),
    ];
    let known = CRASHES.iter().chain(&OTHERS).find(|(number, _)| *number == signal);
    known.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// The name of a signal that is a crash.
pub fn crash(signal: i32) -> Option<&'static str> {
    CRASHES.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

/// The sentence before the latest frees of a program that crashed: its last signal, or that it ended without its exit
/// handlers.
pub fn crash_message(ended_by: Option<i32>, abrupt: bool) -> Option<String> {
    match ended_by.and_then(crash) {
        Some(name) => Some(format!("the command crashed ({name}); what it freed last:")),
        None if abrupt => {
            Some("the process ended by a signal, or without its exit handlers; what it freed last:".to_owned())
        }
        None => None,
    }
}

/// Fate of the command or the process, as a clause.
pub fn outcome(left: bool, status: Option<i32>, ended_by: Option<i32>) -> String {
    match (left, status, ended_by) {
        (true, ..) => "and left running".to_owned(),
        (false, _, Some(signal)) => format!("until it ended by {}", name_of(signal)),
        (false, Some(status), None) => format!("until it ended with status {status}"),
        (false, None, None) => "until it ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{crash, name_of};

    #[test]
    fn a_stop_is_no_crash() {
        assert_eq!([libc::SIGTERM, libc::SIGKILL, libc::SIGALRM].map(crash), [None; 3]);
        assert_eq!(crash(libc::SIGFPE), Some("SIGFPE"));
        assert_eq!([libc::SIGBUS, libc::SIGTERM, 40].map(name_of), ["SIGBUS", "SIGTERM", "signal 40"]);
    }
}
