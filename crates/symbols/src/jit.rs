//! Names of frames in no module.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mallow_profile::{FrameId, Line, ProcessId, Profile, Strings};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::perf_map::{PerfMap, PerfMapError};

/// Where the map of a process is looked for.
#[derive(Clone, Debug)]
pub struct MapPlace {
    /// The process's `/tmp`, as found from here: in a container, or with a mount of its own, it is another one.
    pub directory: PathBuf,
    /// The user of the process, who may own the map beside ourselves.
    pub owner: Option<u32>,
    /// Begin of the process: an older map is that of an earlier process. None: as the profile has it.
    pub began: Option<SystemTime>,
}

impl Default for MapPlace {
    fn default() -> Self {
        Self { directory: PathBuf::from("/tmp"), owner: None, began: None }
    }
}

/// Result of one process's map.
#[derive(Debug)]
pub struct JitProcess {
    pub process: ProcessId,
    /// Frames of the process in no module.
    pub frames: u32,
    /// Frames of the process that the map names.
    pub named: u32,
    /// The map's malformed lines, or why it was not used.
    pub map: Result<u64, PerfMapError>,
}

/// Fills the lines of those of `frames` that are in no module and have none yet; returns how many. `map` is the map of
/// the process that `frames` belong to. A frame is shared by all processes that were at its address: where two of them
/// may have different code there, use [`symbolize_jit_all`].
pub fn symbolize_jit(profile: &mut Profile, map: &PerfMap, frames: &mut dyn Iterator<Item = FrameId>) -> u32 {
    let mut named = 0;
    for id in frames {
        let Some(frame) = profile.frames.get_mut(id.0 as usize) else { continue };
        if frame.module.is_some() || !frame.lines.is_empty() {
            continue;
        }
        // The code may end with the call, so look into it, as for code in modules.
        let address = frame.address.saturating_sub(u64::from(!frame.exact));
        if let Some(name) = map.find(address) {
            let line = script_line(name, &mut profile.strings);
            frame.lines.push(line);
            named += 1;
        }
    }
    named
}

/// Reads `/tmp/perf-PID.map` of each process that was in code of no module, and names that code. A frame that two
/// processes name differently stays without a name. Returns the processes in question. Do this soon after the run:
/// the next process with the same id writes over the file.
pub fn symbolize_jit_all(profile: &mut Profile) -> Vec<JitProcess> {
    symbolize_jit_in(profile, &|_| None)
}

/// Names frames in no module ([`symbolize_jit`]) for processes whose maps are elsewhere; None: in `/tmp`.
pub fn symbolize_jit_in(profile: &mut Profile, place: &dyn Fn(ProcessId) -> Option<MapPlace>) -> Vec<JitProcess> {
    let frames = frames_without_module(profile);
    symbolize_jit_frames(profile, frames, place)
}

/// Names these frames in no module, each listed with the processes that were in it.
pub fn symbolize_jit_frames(
    profile: &mut Profile,
    frames: Vec<(ProcessId, Vec<FrameId>)>,
    place: &dyn Fn(ProcessId) -> Option<MapPlace>,
) -> Vec<JitProcess> {
    // Frame → its name; None where two maps differ.
    let mut names: FxHashMap<FrameId, Option<String>> = FxHashMap::default();
    let mut processes = Vec::new();
    for (process, frames) in frames {
        let Some(of) = profile.processes.get(process.0 as usize) else { continue };
        let MapPlace { directory, owner, began } = place(process).unwrap_or_default();
        let started = || {
            SystemTime::UNIX_EPOCH
                .checked_add(Duration::from_millis(profile.started_unix_ms.saturating_add(of.start_ms)))
        };
        // A second's grace: clocks of file systems are coarse.
        let begin = began.or_else(started).and_then(|began| began.checked_sub(Duration::from_secs(1)));
        let mut summary = JitProcess { process, frames: frames.len() as u32, named: 0, map: Ok(0) };
        match PerfMap::read(&directory.join(format!("perf-{}.map", of.pid)), owner, begin) {
            Err(e) => summary.map = Err(e),
            Ok(map) => {
                summary.map = Ok(map.malformed());
                for id in frames {
                    let Some(frame) = profile.frames.get(id.0 as usize) else { continue };
                    let address = frame.address.saturating_sub(u64::from(!frame.exact));
                    let Some(name) = map.find(address) else { continue };
                    summary.named += 1;
                    let known = names.entry(id).or_insert_with(|| Some(name.to_string()));
                    if known.as_deref() != Some(name) {
                        *known = None;
                    }
                }
            }
        }
        processes.push(summary);
    }
    for (id, name) in names {
        let frame = &mut profile.frames[id.0 as usize];
        if let Some(name) = name
            && frame.lines.is_empty()
        {
            let line = script_line(&name, &mut profile.strings);
            frame.lines.push(line);
        }
    }
    processes
}

/// The line of a frame that its perf map calls `name`, without the number of the line: maps know where a function
/// begins, and not where it calls.
fn script_line(name: &str, strings: &mut Strings) -> Line {
    let script = || script_function(name).or_else(|| Some((java_method(name)?.into(), None)));
    let (function, file) = python_function(name).or_else(script).unwrap_or((name.into(), None));
    Line { function: strings.intern(&function), file: file.map(|file| strings.intern(file)), line: 0 }
}

/// Function and file of CPython's `py::Class.method:/path/to/module.py`.
fn python_function(name: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
    let (function, file) = name.strip_prefix("py::")?.split_once(':')?;
    (!function.is_empty() && !file.is_empty()).then_some((function.into(), Some(file)))
}

/// HotSpot's `java.lang.String Store.name(int)`, without the type that it returns.
fn java_method(name: &str) -> Option<&str> {
    let (method, parameters) = name.split_once('(')?;
    let (returned, path) = method.split_once(' ')?;
    let plain = |text: &str| !text.is_empty() && !text.contains([' ', ':']);
    let method = plain(returned) && plain(path) && path.contains('.') && parameters.ends_with(')');
    method.then(|| &name[returned.len() + 1..])
}

/// V8's `JS:*build /path/to/script.js:3:15`, and `LazyCompile:` before V8 10. A function without a name has none.
fn script_function(name: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
    const KINDS: &[&str] = &["JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "InterpretedFunction:"];
    let rest = KINDS.iter().find_map(|kind| name.strip_prefix(kind))?;
    // How it was compiled.
    let rest = rest.trim_start_matches(['*', '~', '^', '+', '-']);
    let (function, place) = rest.split_once(' ').unwrap_or((rest, ""));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (file, at) = match place.rsplitn(3, ':').collect::<Vec<_>>()[..] {
        [column, line, file] if number(line) && number(column) => (file, format!(" at {line}:{column}")),
        _ => (place, String::new()),
    };
    let function = if function.is_empty() { format!("(anonymous{at})").into() } else { function.into() };
    Some((function, Some(file.strip_prefix("file://").unwrap_or(file)).filter(|file| !file.is_empty())))
}

/// Frames in no module that each process's sites have, in the order of processes.
fn frames_without_module(profile: &Profile) -> Vec<(ProcessId, Vec<FrameId>)> {
    let mut by_process: FxHashMap<ProcessId, FxHashSet<FrameId>> = FxHashMap::default();
    let mut seen = FxHashSet::default();
    for site in &profile.sites {
        let mut stack = site.stack;
        // Callers that this process was seen with are done.
        while seen.insert((site.process, stack)) {
            let Some((id, caller)) = profile.stacks.top(stack) else { break };
            if profile.frames.get(id.0 as usize).is_some_and(|frame| frame.module.is_none()) {
                by_process.entry(site.process).or_default().insert(id);
            }
            stack = caller;
        }
    }
    let sorted = |frames: FxHashSet<FrameId>| {
        let mut frames: Vec<_> = frames.into_iter().collect();
        frames.sort_unstable();
        frames
    };
    let mut all: Vec<_> = by_process.into_iter().map(|(process, frames)| (process, sorted(frames))).collect();
    all.sort_unstable_by_key(|(process, _)| *process);
    all
}

#[cfg(test)]
mod tests {
    use super::{Strings, script_line};

    fn split(name: &str) -> (String, Option<String>) {
        let mut strings = Strings::default();
        let line = script_line(name, &mut strings);
        (strings.get(line.function).to_owned(), line.file.map(|file| strings.get(file).to_owned()))
    }

    #[test]
    fn functions_of_scripts_have_files() {
        for (name, function, file) in [
            ("py::build:/tmp/np.py", "build", "/tmp/np.py"),
            ("py::A.b.<locals>.<lambda>:/a b/c:d.py", "A.b.<locals>.<lambda>", "/a b/c:d.py"),
            ("py::_find:<frozen importlib._bootstrap>", "_find", "<frozen importlib._bootstrap>"),
            ("JS:*build /tmp/a b.js:2:15", "build", "/tmp/a b.js"),
            ("JS:~ file:///tmp/a.mjs:7:1", "(anonymous at 7:1)", "/tmp/a.mjs"),
            (
                "LazyCompile:~Module._load node:internal/modules/cjs/loader:760:24",
                "Module._load",
                "node:internal/modules/cjs/loader",
            ),
        ] {
            assert_eq!(split(name), (function.to_owned(), Some(file.to_owned())), "{name}");
        }
        for name in ["py::", "py::f", "py:::x", "Interpreter", "a:b", "void ns::f(int)", "StubRoutines (2)", "f(a.b c)"]
        {
            assert_eq!(split(name), (name.to_owned(), None), "{name}");
        }
        for (name, method) in [
            ("void A.main(java.lang.String[])", "A.main(java.lang.String[])"),
            ("java.lang.Object a.B$1.<init>()", "a.B$1.<init>()"),
        ] {
            assert_eq!(split(name), (method.to_owned(), None), "{name}");
        }
        assert_eq!(split("JS:").0, "(anonymous)");
        assert_eq!(split("JS:*x 1:2:3:4"), ("x".to_owned(), Some("1:2".to_owned())));
    }
}
