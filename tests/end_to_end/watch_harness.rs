//! What tests of `mallow watch` share: a mallow that is ended with what it watches, and reports that are waited for.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::{RunDirectories, mallow};
use serde_json::Value;

/// A process that is killed when the test is over, however it ends, with the program that it watches; its run directory
/// goes as well.
pub struct Alive {
    pub child: Child,
    before: RunDirectories,
}

impl Alive {
    pub fn start(command: &mut Command) -> Self {
        let before = RunDirectories::now();
        // Where the tests run in a container, it would be a label of each series.
        for name in ["POD_NAMESPACE", "POD_NAME", "CONTAINER_NAME"] {
            if !command.get_envs().any(|(key, _)| key == name) {
                command.env_remove(name);
            }
        }
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

/// The control page of the run directory of a mallow that runs a command.
pub fn control_page(pid: u32) -> PathBuf {
    let maps = maps_of(&pid.to_string());
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    paths.find(|path| path.ends_with("control")).expect("its control page")
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

/// A file of JSON lines, up to its last whole line.
fn whole_lines(file: &Path) -> String {
    let mut text = fs::read_to_string(file).unwrap_or_default();
    text.truncate(text.rfind('\n').unwrap_or(0));
    text
}

/// Reports of mallow in a file of JSON lines.
pub fn reports(file: &Path) -> Vec<Value> {
    harness::documents(&whole_lines(file))
}

/// What another program wrote into one.
pub fn lines_of_another(file: &Path) -> Vec<Value> {
    whole_lines(file).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
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

/// A terminal, as far as the live view needs one.
pub struct Screen {
    written: Arc<Mutex<Vec<u8>>>,
    columns: usize,
    rows: usize,
}

impl Screen {
    /// Mallow with these arguments, a line of shell, on a terminal of so many columns and rows, which `script` makes.
    pub fn of(script: &Path, (columns, rows): (usize, usize), arguments: &str) -> (Alive, Self) {
        let line = format!("stty rows {rows} cols {columns}; exec {} {arguments}", mallow().display());
        let mut command = Command::new(script);
        command.args(["-qfec", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut shown = Alive::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
        let screen = Self::read(shown.child.stdout.take().expect("a pipe"), columns, rows);
        (shown, screen)
    }

    fn read(mut from: ChildStdout, columns: usize, rows: usize) -> Self {
        let written = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                to.lock().expect("no panic").extend_from_slice(&bytes[..count]);
            }
        });
        Self { written, columns, rows }
    }

    /// All that was written to it.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no panic")).into_owned()
    }

    /// The text on it. An update that has begun and not ended (mode 2026) is not shown: its bytes come in pieces.
    pub fn shown(&self) -> String {
        let (mut cells, mut line, mut column) = (vec![vec![' '; self.columns]; self.rows], 0, 0);
        let text = self.written();
        let whole = match (text.rfind("\x1b[?2026h"), text.rfind("\x1b[?2026l")) {
            (Some(begins), ends) if ends.is_none_or(|ends| ends < begins) => &text[..begins],
            _ => &text,
        };
        let mut rest = whole.chars();
        while let Some(character) = rest.next() {
            if character != '\x1b' {
                if let Some(cell) = cells.get_mut(line).and_then(|line| line.get_mut(column)) {
                    *cell = character;
                }
                column += 1;
                continue;
            }
            if rest.next() != Some('[') {
                continue;
            }
            let mut parameters = String::new();
            let end = rest.by_ref().find(|&c| {
                let ends = c.is_ascii_alphabetic();
                parameters.extend((!ends).then_some(c));
                ends
            });
            match end {
                Some('H') => {
                    let mut at = parameters.split(';').map(|number| number.parse().unwrap_or(1usize).max(1) - 1);
                    (line, column) = (at.next().unwrap_or(0), at.next().unwrap_or(0));
                }
                Some('J') => cells = vec![vec![' '; self.columns]; self.rows],
                _ => {}
            }
        }
        cells.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
    }

    /// Waits until this text is on it.
    pub fn wait_for(&self, text: &str) {
        until_or(
            || self.shown().contains(text).then_some(()),
            || panic!("{text:?} is not shown:\n{}\n{:?}", self.shown(), self.written()),
        );
    }
}
