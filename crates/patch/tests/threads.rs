//! All threads of real processes, stopped and let go.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mallow_patch::{Gateway, Maps, Memory, Obstacle, Process, State, StopError, stop};
use mallow_proc::{Stat, Status, Task};

const PATIENCE: Duration = Duration::from_secs(20);

/// Compiles `programs/NAME.c`.
fn program(place: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let output = place.join(name);
    let built = Command::new("cc").args(["-O2", "-pthread", "-o"]).args([&output, &source]).arg("-lrt").status();
    assert!(built.expect("a C compiler").success());
    output
}

/// A process that is killed at the end of a test.
struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `programs/waits.c`, and waits until all of its threads sleep. Returns the threads' numbers and names.
fn waits(place: &Path) -> (Target, BufReader<std::process::ChildStdout>, Vec<(u32, String)>) {
    let program = program(place, "waits");
    let mut child = Command::new(program).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut threads = Vec::new();
    loop {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        match line.trim().split_once(' ') {
            Some((tid, name)) => threads.push((tid.parse().unwrap(), name.to_owned())),
            None => break assert_eq!(line, "ready\n"),
        }
    }
    let target = Target(child);
    settle(target.0.id());
    (target, out, threads)
}

/// Waits until each thread sleeps in a system call.
fn settle(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    let sleeps = |entry: std::io::Result<fs::DirEntry>| {
        let call = fs::read_to_string(entry.unwrap().path().join("syscall")).unwrap_or_default();
        call.split(' ').next().is_some_and(|number| number.parse::<u32>().is_ok())
    };
    while !fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(sleeps) {
        assert!(Instant::now() < deadline, "its threads run");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a thread of `waits` counted comes out at its end.
fn counted(mut target: Target, mut out: impl Read) -> String {
    drop(target.0.stdin.take());
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    let status = target.0.wait().unwrap();
    assert_ne!(status.code(), Some(2), "a call ended for another reason: {text}");
    text
}

#[test]
fn no_interruptible_call_sees_a_stop() {
    let place = tempfile::tempdir().unwrap();
    let (target, out, threads) = waits(place.path());
    let pid = target.0.id();
    assert!(threads.len() >= 45, "{threads:?}");
    for _ in 0..100 {
        settle(pid);
        let held =
            stop(pid, PATIENCE, |stopped| stopped.threads().map(|thread| thread.id()).collect::<Vec<_>>()).unwrap();
        assert_eq!(held.len(), threads.len() + 1);
        assert!(threads.iter().all(|(tid, _)| held.contains(tid)));
    }
    assert_eq!(Process::read(pid).unwrap().tracer, 0);
    assert_eq!(Process::read(pid).unwrap().state, State::Alive);
    assert_eq!(counted(target, out), "");
}

/// Sent before, during and after a stop: each signal whose handler would have ended a call with EINTR does so, once.
#[test]
fn a_signal_ends_the_call_that_it_would_have_ended() {
    const SIGNALS: u64 = 300;
    let place = tempfile::tempdir().unwrap();
    let (target, out, threads) = waits(place.path());
    let pid = target.0.id();
    let tid = threads.iter().find(|(_, name)| name == "wait_epoll_forever").unwrap().0;
    let send = || {
        // SAFETY: a system call without pointers.
        assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGUSR2) }, 0);
    };
    let pending = || Status::read(Task::Thread { process: pid, thread: tid }).unwrap().pending_signals().unwrap() != 0;
    for round in 0..SIGNALS {
        while pending() {
            std::thread::yield_now();
        }
        settle(pid);
        match round % 3 {
            0 => stop(pid, PATIENCE, |_| send()).unwrap(),
            _ => std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_micros(round * 20));
                    send();
                });
                stop(pid, PATIENCE, |_| ()).unwrap();
            }),
        }
    }
    while pending() {
        std::thread::yield_now();
    }
    settle(pid);
    assert_eq!(counted(target, out), format!("wait_epoll_forever {SIGNALS}\n"));
}

#[test]
fn system_calls_run_in_a_stopped_thread_and_leave_no_trace() {
    let place = tempfile::tempdir().unwrap();
    let (target, out, _) = waits(place.path());
    let pid = target.0.id();
    let before = Maps::read(pid).unwrap();
    let module = before.iter().find(|mapping| mapping.executable && mapping.path.contains("libc.so")).unwrap();
    for _ in 0..20 {
        settle(pid);
        let page = before.free_area_near(module.start..module.end, 4096).unwrap();
        let result = stop(pid, PATIENCE, |stopped| {
            let gateway = Gateway::find(stopped.pid()).unwrap();
            let own = stopped.system_call(gateway, libc::SYS_getpid, [0; 6]).unwrap();
            stopped.map(gateway, page, 4096, libc::PROT_READ | libc::PROT_EXEC).unwrap();
            let memory = Memory::open_writable(pid).unwrap();
            memory.write(page, b"trampoline").unwrap();
            let read = memory.read_up_to(page, 10);
            let taken = stopped.map(gateway, page, 4096, libc::PROT_READ).unwrap_err();
            let wrong = stopped.system_call(gateway, libc::SYS_close, [u64::MAX, 0, 0, 0, 0, 0]).unwrap_err();
            stopped.unmap(gateway, page, 4096).unwrap();
            (own, read, taken.raw_os_error(), wrong.raw_os_error())
        });
        let expected = (u64::from(pid), b"trampoline".to_vec(), Some(libc::EEXIST), Some(libc::EBADF));
        assert_eq!(result.unwrap(), expected);
    }
    assert_eq!(Maps::read(pid).unwrap(), before);
    assert_eq!(counted(target, out), "");
}

/// Threads that begin and end while others are being stopped.
#[test]
fn threads_that_come_and_go_are_all_stopped() {
    let place = tempfile::tempdir().unwrap();
    let child = Command::new(program(place.path(), "threads")).stdout(Stdio::piped()).spawn().unwrap();
    let mut target = Target(child);
    let mut out = BufReader::new(target.0.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    let pid = target.0.id();
    for _ in 0..50 {
        let (held, left) = stop(pid, PATIENCE, |stopped| {
            let held: Vec<_> = stopped.threads().map(|thread| thread.id()).collect();
            let listed = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            let state = |tid: u32| Stat::read(Task::Thread { process: pid, thread: tid }).map(|stat| stat.state());
            let runs = |tid: &u32| !matches!(state(*tid), Ok(b't' | b'Z' | b'X'));
            let all: Vec<u32> = listed.map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
            (held, all.into_iter().filter(runs).collect::<Vec<_>>())
        })
        .unwrap();
        assert!(!held.is_empty());
        assert_eq!(left, Vec::<u32>::new(), "threads run on");
    }
    assert_eq!(target.0.try_wait().unwrap(), None, "it lives on");
}

/// A process that a signal stopped is stopped afterwards, and its parent has seen nothing of it.
#[test]
fn a_stopped_process_stays_stopped() {
    let mut target = Target(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = target.0.id();
    // SAFETY: a system call without pointers.
    let signal = |signal| assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
    let reaches = |state| {
        let deadline = Instant::now() + PATIENCE;
        while Process::read(pid).unwrap().state != state {
            assert!(Instant::now() < deadline, "{state:?} is not reached");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    signal(libc::SIGSTOP);
    reaches(State::Stopped);
    assert_eq!(Obstacle::all(pid), [Obstacle::Stopped(pid)]);
    for _ in 0..20 {
        assert_eq!(stop(pid, PATIENCE, |stopped| stopped.threads().count()).unwrap(), 1);
        reaches(State::Stopped);
    }
    let refused = stop(pid, PATIENCE, |stopped| Gateway::find(pid).map(|at| stopped.map(at, 1 << 40, 4096, 0)));
    assert!(refused.unwrap().unwrap().is_err(), "nothing of it runs");
    reaches(State::Stopped);
    signal(libc::SIGCONT);
    reaches(State::Alive);
    let mut status = 0;
    // SAFETY: `status` lives.
    let seen = unsafe { libc::waitpid(pid as i32, &mut status, libc::WNOHANG) };
    assert_eq!((seen, target.0.try_wait().unwrap()), (0, None));
}

#[test]
fn what_cannot_be_traced_is_named() {
    let gone = stop(u32::MAX - 1, PATIENCE, |_| ()).unwrap_err();
    assert!(matches!(gone, StopError::Obstacle(Obstacle::Gone(_))), "{gone:?}");
    let target = Target(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = target.0.id();
    let inner = stop(pid, PATIENCE, |_| stop(pid, PATIENCE, |_| ()).unwrap_err()).unwrap();
    let StopError::Obstacle(Obstacle::Traced { tracer, .. }) = inner else { panic!("{inner:?}") };
    assert_eq!(tracer, std::process::id());
}

/// A parent that waits for its vforked child cannot be stopped: that ends in time, and it lives on.
#[test]
fn a_thread_that_does_not_stop_is_left_alone_in_time() {
    let place = tempfile::tempdir().unwrap();
    let child = Command::new(program(place.path(), "vforks")).stdout(Stdio::piped()).spawn().unwrap();
    let mut target = Target(child);
    let mut out = BufReader::new(target.0.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while Process::read(target.0.id()).unwrap().state != State::Uninterruptible {
        assert!(Instant::now() < deadline, "it does not wait for its child");
        std::thread::sleep(Duration::from_millis(1));
    }
    let late = stop(target.0.id(), Duration::from_millis(50), |_| ()).unwrap_err();
    assert!(matches!(late, StopError::Late { .. }), "{late:?}");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "done\n");
    assert!(target.0.wait().unwrap().success());
}
