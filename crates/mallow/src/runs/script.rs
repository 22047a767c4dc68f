//! `mallow record --python`: the command that runs a script, and what makes its functions visible.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::flags::RecordedCommandFlags;
use crate::output::stdio;

const MALLOC: (&str, &str) = ("PYTHONMALLOC", "malloc");
const PERF: (&str, &str) = ("PYTHONPERFSUPPORT", "1");
/// The version of CPython that can name the functions of scripts.
const NAMING: (u32, u32) = (3, 12);

/// What to run, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    /// The command.
    pub command: Vec<OsString>,
    /// What is set in its environment.
    pub environment: Vec<(&'static str, &'static str)>,
    /// What its recording is called unless the user names it.
    pub name: OsString,
}

impl Script {
    /// Of a command line. Says on standard error what is set. For Python, runs the interpreter once, to ask for its version.
    pub fn of(flags: &RecordedCommandFlags) -> Self {
        let Some(python) = &flags.python else {
            let name = flags.command.first().and_then(|program| file_name(program)).unwrap_or(OsStr::new("command"));
            return Self { command: flags.command.clone(), environment: Vec::new(), name: name.to_owned() };
        };
        let mut command: Vec<OsString> = python.iter().chain(&flags.command).cloned().collect();
        if !command.first().is_some_and(|word| is_python(word)) {
            command.insert(0, "python3".into());
        }
        let name = name(&command).to_owned();
        let program = command[0].to_string_lossy().into_owned();
        let environment = match version(&command[0]) {
            // It cannot be run: the recording says why.
            None => vec![MALLOC, PERF],
            Some(version) if version >= NAMING => {
                stdio::notify(
                    "sets PYTHONMALLOC=malloc, to record each object, and PYTHONPERFSUPPORT=1, to name functions of scripts",
                );
                vec![MALLOC, PERF]
            }
            Some((major, minor)) => {
                let (least_major, least_minor) = NAMING;
                stdio::notify(&format!(
                    "sets PYTHONMALLOC=malloc, to record each object; {program} is Python {major}.{minor}: functions of scripts have \
                     names from CPython {least_major}.{least_minor} on"
                ));
                vec![MALLOC]
            }
        };
        Self { command, environment, name }
    }
}

fn file_name(path: &OsStr) -> Option<&OsStr> {
    Path::new(path).file_name()
}

/// True for an interpreter's path: `python`, `python3`, `python3.13`, `python3.13t`.
fn is_python(word: &OsStr) -> bool {
    let version = file_name(word).and_then(OsStr::to_str).and_then(|name| name.strip_prefix("python"));
    version.is_some_and(|rest| rest.trim_end_matches(['t', 'd']).chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The script's or the module's name; the interpreter's where there is neither.
fn name(command: &[OsString]) -> &OsStr {
    /// Options of Python with a value of its own.
    const WITH_VALUE: [&str; 3] = ["-W", "-X", "--check-hash-based-pycs"];
    let interpreter = command.first().and_then(|word| file_name(word)).unwrap_or(OsStr::new("python3"));
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-m") => return words.next().map_or(interpreter, |module| module),
            Some("-c" | "-") => return interpreter,
            Some(option) if WITH_VALUE.contains(&option) => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            _ => return file_name(word).unwrap_or(interpreter),
        }
    }
    interpreter
}

/// The version of an interpreter that can be run.
fn version(program: &OsStr) -> Option<(u32, u32)> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    // Python 2 says it on standard error.
    let text =
        String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout }).into_owned();
    let mut numbers = text.strip_prefix("Python ")?.split('.').map(|number| number.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::{OsString, is_python, name};

    #[test]
    fn an_interpreter_is_known_by_its_name() {
        let python = |word: &str| is_python(OsString::from(word).as_os_str());
        assert!(["python", "/usr/bin/python3", "venv/bin/python3.13", "python3.14t"].into_iter().all(python));
        assert!(!["script.py", "-m", "pythonista", "python3-config", ""].into_iter().any(python));
    }

    #[test]
    fn a_recording_is_named_by_the_script() {
        for (line, expected) in [
            ("python3 dir/script.py --flag", "script.py"),
            ("python3 -X dev -m http.server 80", "http.server"),
            ("python3.12 -I -c 0", "python3.12"),
            ("/bin/python3", "python3"),
            ("python3 -", "python3"),
        ] {
            let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(name(&command), expected, "{line}");
        }
    }
}
