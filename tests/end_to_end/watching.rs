//! What tests of `mallow watch` share: a mallow that is ended with what it watches, and reports that are waited for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::RunDirectories;
use serde_json::Value;

/// A process that is killed when the test is over, however it ends, with the program that it watches; its run directory goes
/// as well.
pub struct Alive {
    pub child: Child,
    before: RunDirectories,
}

impl Alive {
    pub fn start(command: &mut Command) -> Self {
        let before = RunDirectories::now();
        Self { child: command.env("LC_ALL", "C.UTF-8").spawn().expect("it starts"), before }
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub fn signal(&self, name: &str) {
        signal(&self.pid(), name);
    }

    pub fn end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = until("it to end", || self.child.try_wait().expect("a child"));
        status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("a status")
    }

    pub fn run_directories(&self) -> Vec<PathBuf> {
        self.before.new_of(self.child.id())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for directory in self.run_directories() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if let Some(pid) = name.strip_prefix("p-").and_then(|rest| rest.split('-').next())
                    && maps_of(pid).contains(&*directory.to_string_lossy())
                {
                    let _ = Command::new("kill").args(["-s", "KILL", pid]).status();
                }
            }
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Waits until there is what is looked for.
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_or(look, || panic!("waited in vain for {what}"))
}

/// The same, with more to say when it is not there.
pub fn until_or<T>(mut look: impl FnMut() -> Option<T>, in_vain: impl Fn() -> T) -> T {
    let patience = Instant::now() + Duration::from_secs(90);
    while Instant::now() < patience {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    in_vain()
}

/// What a process has mapped; nothing of one that is gone.
pub fn maps_of(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// Sends a signal, which must arrive.
pub fn signal(pid: &str, name: &str) {
    let sent = Command::new("kill").args(["-s", name, pid]).status().expect("kill");
    assert!(sent.success(), "kill -s {name} {pid}");
}

/// Without standard streams.
pub fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Reports in a file of JSON lines, up to its last whole line.
pub fn reports(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Waits until some report is as it should be.
pub fn wait_for(file: &Path, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    let look = || reports(file).into_iter().find(|report| good(report));
    until_or(look, || panic!("no report with {what}: {:#?}", reports(file).last()))
}

/// Waits until a mallow catches signals: before that one would end it.
pub fn until_it_listens(mallow: &Alive) {
    let status = format!("/proc/{}/status", mallow.child.id());
    let caught = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        // HUP is signal 1: the lowest bit.
        (u64::from_str_radix(mask.trim(), 16).ok()? & 1 == 1).then_some(())
    };
    until("mallow to listen to signals", caught);
}

/// Asks by a signal until a report is as it should be. Reports that were there before do not count.
pub fn ask_for(mallow: &Alive, name: &str, file: &Path, good: impl Fn(&Value) -> bool) -> Value {
    until_it_listens(mallow);
    let mut seen = reports(file).len();
    let mut asked = None;
    let look = || {
        // Once more when the answer was not the right one; two signals before an answer are one.
        if asked != Some(seen) {
            mallow.signal(name);
            asked = Some(seen);
        }
        let all = reports(file);
        let found = all[seen..].iter().find(|report| good(report)).cloned();
        seen = all.len();
        found
    };
    until_or(look, || panic!("{name} brings no such report: {:#?}", reports(file).last()))
}

/// Of that occasion.
pub fn occasion<'a>(name: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |report| report["occasion"] == name
}

/// The site that allocates in this function itself.
pub fn site<'a>(report: &'a Value, function: &str) -> Option<&'a Value> {
    report["sites"].as_array()?.iter().find(|site| site["frames"][0]["function"] == function)
}

/// Its samples.
pub fn samples(report: &Value, function: &str) -> u64 {
    site(report, function).map_or(0, |site| site["samples"].as_u64().expect("a number"))
}
