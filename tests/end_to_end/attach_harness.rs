//! What tests of attaching share: a process that runs, what must be as it was, and mallow that attaches.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Outcome, Run, mallow, program, program_as};

/// A process that is killed at the end of a test.
pub struct Target {
    pub child: Child,
    out: BufReader<ChildStdout>,
    /// Of the program, where what was started only starts that.
    inner: Option<u32>,
}

impl Target {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out, inner: None }
    }

    /// Started, and waited for until it prints "ready".
    pub fn ready(command: &mut Command) -> Self {
        let mut target = Self::start(command);
        assert_eq!(target.line(), "ready");
        target
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
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
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("its mappings");
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid())).expect("its memory");
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

pub fn attached(arguments: &[&str], pid: u32, place: &Path) -> Outcome {
    let run = Run::new(mallow(), place).args(arguments).args(["-p", &pid.to_string()]);
    run.limit(Duration::from_secs(300)).go()
}

/// Mallow, started, and waited for until the target's library takes part in a run.
pub fn attaching(arguments: &[&str], pid: u32, place: &Path) -> Child {
    let before = directories();
    let mut command = Command::new(mallow());
    command.args(arguments).args(["-p", &pid.to_string()]).current_dir(place);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mallow");
    let deadline = Instant::now() + Duration::from_secs(60);
    // Its run directory is there before the first patch is: the code says when that is.
    let clean = code(pid);
    while directories() == before || code(pid) == clean {
        assert!(Instant::now() < deadline, "mallow does not attach");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

pub fn directories() -> usize {
    fs::read_dir("/dev/shm").map_or(0, Iterator::count)
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
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
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
