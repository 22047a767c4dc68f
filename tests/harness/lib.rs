//! Runs the built `mallow` on real programs: bare, under `mallow stat`, under `mallow record`.
//!
//! Every run has a directory of its own, a time limit after which its processes are killed (a hang is a failure), and
//! is looked over afterwards for files and processes that it left behind.

mod browser;
mod counts;
mod documents;
mod leftovers;
mod oracle;
mod overdue;
mod project;
mod run;
mod sampled;
mod targets;
mod three;
mod viewer;
pub mod wire;

pub use browser::Browser;
pub use counts::{Counts, ProcessCounts, Truth, number};
pub use documents::{document, documents};
pub use leftovers::{RunDirectories, describe, nothing_left};
pub use oracle::{oracle_counts, oracle_library};
pub use project::{Project, json};
pub use run::{Outcome, Run};
pub use sampled::{Sampled, live_samples, samples};
pub use targets::{library, program, program_as, programs_with_crates};
pub use three::{Case, Recorded, Stated, Three, directory, sql};
pub use viewer::{Answer, Viewer, escaped};

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whoever starts the tests in the background may have them ignore the terminal's signals, and what they start would
/// inherit that: programs that test what Ctrl-C does would fail alone, too. Also marks all that they start, for
/// [`overdue`]. Runs before main, so before any thread.
#[used]
#[unsafe(link_section = ".init_array")]
static HEED_SIGNALS: extern "C" fn() = {
    extern "C" fn heed() {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: sets a signal's default action; no other thread runs yet.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: no other thread reads the environment yet.
        unsafe { std::env::set_var(overdue::MARK, std::process::id().to_string()) };
    }
    heed
};

/// The binary under test: `MALLOW_BIN`, or the workspace's release build.
pub fn mallow() -> PathBuf {
    overdue::watch();
    let built = || {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
        target.join("release/mallow")
    };
    let path = std::env::var_os("MALLOW_BIN").map_or_else(built, PathBuf::from);
    assert!(path.is_file(), "there is no {}: run `make build` first, or set MALLOW_BIN", path.display());
    path
}

/// How often a test does what one run cannot settle: `all` times where `MALLOW_TEST_ROUNDS=100` is set, as in
/// `make nightly`; otherwise that share of it, in percent, 20 without the variable, and once at least. Each round
/// asserts all.
pub fn rounds(all: u32) -> u32 {
    let share = std::env::var("MALLOW_TEST_ROUNDS").map_or(20, |share| {
        share
            .parse()
            .ok()
            .filter(|share| (1..=100).contains(share))
            .expect("MALLOW_TEST_ROUNDS is 1 to 100, in percent")
    });
    (all * share).div_ceil(100)
}

/// Whether tests that have a shorter form run whole, as in `make nightly`.
pub fn is_whole() -> bool {
    rounds(100) == 100
}

/// Root of the workspace.
pub fn workspace() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// True when the tests run as root.
pub fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test, or a part of one, does not run, and why. Past the test's own output, which nobody sees of a test
/// that does not fail.
pub fn not_run(test: &str, why: &str) {
    // Where standard error is closed nobody can read it.
    let _ = writeln!(std::io::stderr(), "not run: {test}: {why}");
}

/// `unshare` with the options for a mount namespace of the test's own. None, and said so, where the system lets nobody
/// but root have one.
pub fn mount_namespace(test: &str) -> Option<&'static [&'static str]> {
    if root() {
        return Some(&["unshare", "-m"]);
    }
    let mapped = &["unshare", "-Urm"];
    let may = Command::new(mapped[0]).args([mapped[1], "true"]).output().is_ok_and(|o| o.status.success());
    if !may {
        not_run(test, "it needs root, or a system that lets others have user namespaces");
    }
    may.then_some(mapped)
}

/// A program from `PATH`. Where it is missing, the test fails and says what to install.
pub fn tool(name: &str) -> PathBuf {
    tool_if_there(name).unwrap_or_else(|| panic!("these tests need {name}: tests/prerequisites lists what to install"))
}

/// A directory that other users may enter.
pub fn open_directory() -> tempfile::TempDir {
    let place = directory();
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(), all).expect("opening the directory");
    place
}

/// Runs gcc with these arguments in a directory; it must succeed.
pub fn gcc(directory: &Path, arguments: &[&str]) {
    let built = Run::new(tool("gcc"), directory).args(arguments).go();
    assert_eq!(built.status, 0, "{}", built.err());
}

/// A program from `PATH` that is not asked of everybody: without it, say what is [`not_run`].
pub fn tool_if_there(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file())
}
