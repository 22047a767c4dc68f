//! Exit codes. Scripts rely on them: they do not change. The command line's own errors exit
//! with 2, by clap.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use mallow_report::analysis::gate::Verdict;

pub const OK: ExitCode = ExitCode::SUCCESS;
/// Mallow failed, in a command that runs no command.
pub const FAILED: u8 = 1;
/// `leaks --fail-on-leak` found leaks.
pub const LEAKS_FOUND: u8 = 3;
/// `leaks --only lost --fail-on-leak` found none, but a process was not scanned.
pub const LEAKS_UNKNOWN: u8 = 4;
/// `diff --fail-above` found a larger change.
pub const CHANGED: u8 = 3;
/// `diff --fail-above` found no larger change, but numbers of a side are incomplete.
pub const CHANGE_UNKNOWN: u8 = 4;
/// `guard` found an error.
pub const ERRORS_FOUND: u8 = 3;
/// `guard --require-guarded` found that less was guarded.
pub const GUARDED_TOO_LITTLE: u8 = 4;
/// `doctor`: nothing would be recorded.
pub const WOULD_FAIL: u8 = 3;
/// Mallow failed before the command ran, or could not write its own output and `--fail-on-write-error` asks for that,
/// in `stat`, `record`, `run` and `watch`, whose other codes are the command's; as `env` and `timeout` have it. Also
/// where `record` could record nothing of a command that ended with 0.
pub const FAILED_AROUND_COMMAND: u8 = 125;
/// The command could not be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;

/// The command line, or a file that it names, makes no sense.
pub const USAGE: u8 = 2;
/// `test`: all cases passed.
pub const PASSED: u8 = 0;
/// `test`: a case regressed.
pub const REGRESSED: u8 = 1;
/// `test`: a case improved beyond its slack.
pub const IMPROVED: u8 = 3;
/// `test`: no verdict on a case was possible.
pub const BROKEN: u8 = 4;
/// `git bisect run` passes over a commit.
pub const BISECT_SKIPS: u8 = 125;

/// The code of `test` whose worst case came out so.
pub fn of_verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Passed => PASSED,
        Verdict::Regressed => REGRESSED,
        Verdict::Improved => IMPROVED,
        Verdict::Broken => BROKEN,
    }
}

/// A mistake of the user: the request makes no sense for the named files. Says why, and what does. Exits with
/// [`USAGE`].
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UsageError {}
