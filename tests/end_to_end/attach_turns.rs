//! Several tools at one process: mallows take turns, and other tracers are waited for.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{directory, mallow, rounds};

use crate::attach_harness::{Target, attaching, ended, finished, interrupt, numbers, programs};
use crate::watch_harness::until;

fn start(arguments: &[&str], pid: u32, place: &Path) -> Child {
    let mut command = Command::new(mallow());
    command.args(arguments).args(["-p", &pid.to_string()]).current_dir(place).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mallow")
}

/// Each of them attaches, or names the one that is attached: whichever comes first, and in a process that has the
/// library and in one that has not. What the program does and its code are as they were.
#[test]
fn two_mallows_may_attach_at_once() {
    let place = directory();
    let [with_the_library_s, with_jemalloc, _] = programs();
    for program in [with_the_library_s, with_jemalloc] {
        let begin = || Target::ready(Command::new(&program).args(["storm", "2"]));
        let mut target = begin();
        let mut text = target.text();
        // Each pair of modes once at least.
        for round in 0..rounds(10).max(3) as usize {
            if round % 3 == 0 {
                target = begin();
                text = target.text();
            }
            let (long, short) = (["stat", "--for", "100ms"], ["stat", "--for", "0ms"]);
            let record = ["record", "--no-report", "-o", "x.mallow", "--for", "10ms"];
            let modes: [&[&str]; 2] = [[&short[..], &record], [&short, &short], [&long, &short]][round % 3];
            let both = modes.map(|mode| start(mode, target.pid(), place.path()));
            let ends = both.map(ended);
            let at = format!("{}, round {round}: {ends:?}", program.display());
            let well = ends.iter().filter(|end| end.status.success()).count();
            assert!(well > 0, "{at}");
            for end in ends.iter().filter(|end| !end.status.success()) {
                let said = String::from_utf8_lossy(&end.stderr);
                assert!(end.status.code() == Some(125) && said.contains("by another mallow, process "), "{at}");
            }
            assert!(target.text() == text, "{at}: the code is as it was");
            assert_eq!(target.field("TracerPid:"), "TracerPid:\t0", "{at}");
            let [before, failed] = numbers(&target.ask());
            assert_eq!(failed, 0, "{at}: a system call ended with this error");
            let deadline = Instant::now() + Duration::from_secs(60);
            while numbers::<2>(&target.ask())[0] == before {
                assert!(Instant::now() < deadline, "{at}: it allocates no more");
            }
            let _ = std::fs::remove_file(place.path().join("x.mallow"));
        }
    }
}

/// A debugger that has the process when mallow wants to leave it: mallow leaves it once the debugger has.
#[test]
fn a_tracer_that_came_meanwhile_is_waited_for() {
    let place = directory();
    let [program, ..] = programs();
    let mut target = Target::ready(Command::new(&program).args(["storm", "2"]));
    let text = target.text();
    let stat = attaching(&["stat"], target.pid(), place.path());
    // It stays a tracer for as long as this thread lives, or until it detaches, for which the thread has to stop.
    let pid = target.pid() as i32;
    // SAFETY: system calls without pointers, but for the status, which lives.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE as _, pid, 0, 0), 0);
        interrupt(&stat);
        std::thread::sleep(Duration::from_millis(500));
        assert!(target.text() != text, "mallow cannot leave as yet");
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT as _, pid, 0, 0), 0);
        let mut status = 0;
        until("its stop", || (libc::waitpid(pid, &mut status, libc::__WALL | libc::WNOHANG) == pid).then_some(()));
        assert_eq!(libc::ptrace(libc::PTRACE_DETACH as _, pid, 0, 0), 0);
    }
    finished(stat);
    assert!(target.text() == text, "the code is as it was");
    let [before, _] = numbers(&target.ask());
    until("its allocations", || (numbers::<2>(&target.ask())[0] > before).then_some(()));
}
