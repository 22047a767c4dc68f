//! Ends what hangs. Most tests wait for programs without a limit of their own; one that never ended would hold up the
//! whole run, and nobody would learn which one it was.

use std::fs;
use std::io::Write;
use std::sync::Once;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Many times what the longest program of a test takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(900);

/// In the environment of all that this process starts: its own id.
pub const MARK: &str = "HARNESS_TESTS";

/// From now on each program that was started by this process, or by one that it started, is killed after [`LIMIT`]. Who
/// waits for it sees it end by SIGKILL, and fails.
pub fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(10));
                end_older_than(&std::process::id().to_string(), LIMIT);
            }
        });
    });
}

/// Kills the programs whose [`MARK`] is this one, once they are older.
fn end_older_than(marked: &str, limit: Duration) {
    let mark = format!("{MARK}={marked}\0");
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = environment.windows(mark.len()).any(|part| part == mark.as_bytes());
        if !is_ours || pid == std::process::id() as i32 || age(pid).is_none_or(|age| age < limit) {
            continue;
        }
        let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
        let syscall = fs::read_to_string(entry.path().join("syscall")).unwrap_or_default();
        // Past the test's own output: it is not this thread's.
        let _ = writeln!(
            std::io::stderr(),
            "overdue: killed {pid} after {limit:?}: {command}(system call {})",
            syscall.trim()
        );
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Time since the process started. None: it is gone.
fn age(pid: i32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22 of proc_pid_stat(5); the name, field 2, may hold anything.
    let started: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let up: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "100 on all systems")]
    let seconds = up - started / rustix::param::clock_ticks_per_second() as f64;
    Some(Duration::from_secs_f64(seconds.max(0.0)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_older_is_killed_and_what_is_younger_is_not() {
        // Other tests of this process start programs meanwhile, whose mark is its id.
        let mark = format!("{}-overdue", std::process::id());
        let mut young = Command::new("sleep").arg("60").env(MARK, &mark).spawn().expect("sleep");
        let mut foreign = Command::new("sleep").arg("60").env(MARK, "1").spawn().expect("sleep");
        // exec lets the parent go on before the new program has its environment.
        for child in [&young, &foreign] {
            while fs::read(format!("/proc/{}/environ", child.id())).expect("its environment").is_empty() {
                std::thread::yield_now();
            }
        }
        end_older_than(&mark, Duration::from_secs(50));
        assert!(young.try_wait().expect("its state").is_none());
        end_older_than(&mark, Duration::ZERO);
        assert_eq!(young.wait().expect("its end").signal(), Some(9));
        assert!(foreign.try_wait().expect("its state").is_none());
        foreign.kill().expect("sleep");
        foreign.wait().expect("its end");
    }
}
