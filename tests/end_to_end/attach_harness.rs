//! What tests of attaching share: a process that runs, what must be as it was, and mallow that attaches.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use harness::{Outcome, Run, mallow, program, program_as};
use serde_json::Value;

/// How long a process may take to print a line or to end, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process that is killed at the end of a test.
pub struct Target {
    pub child: Child,
    out: ChildStdout,
    /// What it printed that was not asked for yet.
    printed: Vec<u8>,
    /// Of the program, where what was started only starts that.
    inner: Option<u32>,
}

impl Target {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let out = child.stdout.take().expect("a pipe");
        Self { child, out, printed: Vec::new(), inner: None }
    }

    /// Started, and waited for until it prints "ready".
    pub fn ready(command: &mut Command) -> Self {
        let mut target = Self::start(command);
        assert_eq!(target.line(), "ready");
        target
    }

    /// The next line that it prints; at its end, what is left.
    pub fn line(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.printed.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.printed.drain(..=end).collect();
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "process {} printed no line within {PATIENCE:?}", self.pid());
            let mut poll = libc::pollfd { fd: self.out.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: `poll` lives.
            if unsafe { libc::poll(&mut poll, 1, left.as_millis() as i32) } <= 0 {
                continue;
            }
            let mut bytes = [0; 4096];
            match self.out.read(&mut bytes).expect("a line") {
                0 => return String::from_utf8_lossy(&std::mem::take(&mut self.printed)).trim_end().to_owned(),
                count => self.printed.extend(&bytes[..count]),
            }
        }
    }

    /// Its answer to a line.
    pub fn ask(&mut self) -> String {
        self.child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
        self.line()
    }

    pub fn pid(&self) -> u32 {
        self.inner.unwrap_or(self.child.id())
    }

    /// Its descendant of this name is meant from here on.
    pub fn enter(&mut self, name: &str) {
        let mut all = vec![self.child.id()];
        let mut next = 0;
        while let Some(&pid) = all.get(next) {
            next += 1;
            let is_it = fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
            if is_it {
                self.inner = Some(pid);
                return;
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            all.extend(children.split_whitespace().map(|pid| pid.parse::<u32>().expect("a pid")));
        }
        panic!("{name} does not run");
    }

    /// The code of all files that are mapped into it.
    pub fn text(&self) -> Vec<(String, Vec<u8>)> {
        text(self.pid())
    }

    /// Its open files.
    pub fn descriptors(&self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("its descriptors");
        let mut all: Vec<_> = entries
            .map(|entry| {
                let entry = entry.expect("an entry");
                let leads = fs::read_link(entry.path()).unwrap_or_default();
                format!("{} {}", entry.file_name().to_string_lossy(), leads.display())
            })
            .collect();
        all.sort();
        all
    }

    pub fn mappings(&self) -> usize {
        fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("its mappings").lines().count()
    }

    pub fn field(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        status.lines().find(|line| line.starts_with(name)).expect("a field").to_owned()
    }

    /// What must be as it was: descriptors, dispositions of signals, environment, tracer.
    pub fn condition(&self) -> (Vec<String>, Vec<String>, Vec<u8>) {
        let fields = ["TracerPid:", "SigBlk:", "SigIgn:", "SigCgt:"].map(|name| self.field(name)).to_vec();
        (self.descriptors(), fields, fs::read(format!("/proc/{}/environ", self.pid())).expect("its environment"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(inner) = self.inner {
            // SAFETY: a system call without pointers.
            unsafe { libc::kill(inner as i32, libc::SIGKILL) };
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The code of all files that are mapped into a process.
pub fn text(pid: u32) -> Vec<(String, Vec<u8>)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let mut all = Vec::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, rights, .., path] = fields[..] else { continue };
        if fields.len() < 6 || !rights.contains('x') || !path.starts_with('/') || path.starts_with("/memfd:") {
            continue;
        }
        let (start, end) = range.split_once('-').expect("a range");
        let address = |text| u64::from_str_radix(text, 16).expect("an address");
        let mut bytes = vec![0; (address(end) - address(start)) as usize];
        memory.read_exact_at(&mut bytes, address(start)).expect("its code");
        all.push((path.to_owned(), bytes));
    }
    assert!(!all.is_empty(), "{maps}");
    all
}

pub fn attached(arguments: &[&str], pid: u32, place: &Path) -> Outcome {
    let run = Run::new(mallow(), place).args(arguments).args(["-p", &pid.to_string()]);
    run.limit(Duration::from_secs(300)).go()
}

/// Mallow, started, and waited for until the target's code has its patches.
pub fn attaching(arguments: &[&str], pid: u32, place: &Path) -> Child {
    let clean = code(pid);
    let mut command = Command::new(mallow());
    command.args(arguments).args(["-p", &pid.to_string()]).current_dir(place);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mallow");
    let deadline = Instant::now() + PATIENCE;
    while code(pid) == clean {
        assert!(Instant::now() < deadline, "mallow does not attach");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// The code of the program and of its C library.
pub fn code(pid: u32) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
    let program = fs::read_link(format!("/proc/{pid}/exe")).expect("its program");
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let mut code = Vec::new();
    for line in maps.lines().filter(|line| line.contains("r-xp")) {
        if !line.ends_with("/libc.so.6") && !line.ends_with(program.to_str().expect("a path")) {
            continue;
        }
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let address = |text| u64::from_str_radix(text, 16).expect("an address");
        let mut bytes = vec![0; (address(end) - address(start)) as usize];
        memory.read_exact_at(&mut bytes, address(start)).expect("its code");
        code.append(&mut bytes);
    }
    code
}

pub fn interrupt(child: &Child) {
    // SAFETY: a system call without pointers.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
}

pub fn finished(child: Child) -> String {
    let output = ended(child);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// The end of a process, and what it printed. One that does not end is killed.
pub fn ended(child: Child) -> Output {
    let pid = child.id() as i32;
    let (sender, end) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    end.recv_timeout(PATIENCE).map(|output| output.expect("its end")).unwrap_or_else(|_| {
        // SAFETY: a system call without pointers.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let output = end.recv_timeout(Duration::from_secs(10));
        panic!("process {pid} did not end within {PATIENCE:?}: {output:?}")
    })
}

/// The same of a command, whose output is kept where it does not go elsewhere.
pub fn ended_command(command: &mut Command) -> Output {
    ended(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}")),
    )
}

/// The program, with the C library's allocator, with jemalloc inside of it, and with one that is its own alone.
pub fn programs() -> [PathBuf; 3] {
    let flags = ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++", "-fno-builtin", "-Wl,--exclude-libs,ALL"];
    [
        program("attached"),
        program_as("attached", "attached-with-jemalloc", "cc", &flags[..5]),
        program_as("attached", "attached-with-hidden-jemalloc", "cc", &flags),
    ]
}

/// The numbers of a line.
pub fn numbers<const N: usize>(line: &str) -> [u64; N] {
    let all: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
    all.try_into().expect(line)
}

/// What `mallow stat --json -o counts.json`, or a report of x.mallow, says in a directory; which one, the first word of
/// `mode` says.
pub fn counted(mode: &[&str], place: &Path) -> Value {
    let json = match mode[0] {
        "stat" => fs::read(place.join("counts.json")).expect("what stat wrote"),
        _ => Run::new(mallow(), place).args(["report", "--json", "x.mallow"]).go().stdout,
    };
    harness::document(json)
}
