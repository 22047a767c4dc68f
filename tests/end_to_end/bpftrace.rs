//! bpftrace beside a program, where this machine lets it trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Run, mallow, root};

/// A bpftrace whose probes are in place. It is killed when it is dropped.
pub struct Tracer {
    child: Child,
    out: PathBuf,
}

impl Tracer {
    /// Runs a script. Fails with the reason where this machine has no bpftrace that can trace.
    pub fn start(place: &Path, script: &str) -> Result<Self, String> {
        if !root() || harness::tool_if_there("bpftrace").is_none() {
            return Err("root and bpftrace are needed".to_owned());
        }
        let (out, log) = (place.join("bpftrace-out"), place.join("bpftrace-log"));
        // It ticks when all probes are in place.
        let script = format!("{script} interval:s:1 {{ printf(\"ready\\n\"); }}");
        let child = Command::new("bpftrace")
            .args(["-B", "line", "-e", &script])
            .stdout(fs::File::create(&out).expect("a file"))
            .stderr(fs::File::create(&log).expect("a file"))
            .stdin(Stdio::null())
            .spawn()
            .expect("bpftrace");
        let mut tracer = Self { child, out };
        let patience = Instant::now() + Duration::from_secs(60);
        while !tracer.text().contains("ready") {
            std::thread::sleep(Duration::from_millis(200));
            if tracer.child.try_wait().expect("bpftrace").is_some() || Instant::now() > patience {
                let why = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("bpftrace does not work here: {why}"));
            }
        }
        Ok(tracer)
    }

    /// What it has written so far.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// What it writes until its end.
    pub fn end(mut self) -> String {
        // SAFETY: sends a signal to a child of ours that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let patience = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait().expect("bpftrace").is_none() {
            assert!(Instant::now() < patience, "bpftrace does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.text()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The library that `mallow run` loads, without the word for the processor, which bpftrace would take for a variable.
pub fn preloaded_library(place: &Path) -> String {
    let preloaded = Run::new(mallow(), place).args(["run", "--", "printenv", "LD_PRELOAD"]).go();
    for directory in preloaded.before.new_of(preloaded.pid) {
        let _ = fs::remove_dir_all(directory);
    }
    let library = fs::canonicalize(preloaded.out().trim()).expect("the library").display().to_string();
    assert!(library.ends_with("/libmallow.so"), "{library}");
    library
}
