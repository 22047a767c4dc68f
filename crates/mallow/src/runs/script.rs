//! `mallow record --python`: the command that runs a script, and what makes its functions visible.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mallow_capture::preflight::search;

use crate::flags::RecordedCommandFlags;
use crate::output::stdio;

const MALLOC: (&str, &str) = ("PYTHONMALLOC", "malloc");
const PERF: (&str, &str) = ("PYTHONPERFSUPPORT", "1");
/// The version of CPython that can name the functions of scripts.
const NAMING: (u32, u32) = (3, 12);

/// A command to record.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    pub command: Vec<OsString>,
    /// Variables that are set in the command's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Name of the recording unless the user gives one.
    pub name: OsString,
}

impl Script {
    /// The script of a command line. Says on standard error what is set. For Python, runs the interpreter once, to ask
    /// for its version, and for its path where the command is a script that starts it.
    pub fn of(flags: &RecordedCommandFlags) -> Self {
        let Some(python) = &flags.python else {
            let name = flags.command.first().and_then(|program| file_name(program)).unwrap_or(OsStr::new("command"));
            return Self { command: flags.command.clone(), environment: Vec::new(), name: name.to_owned() };
        };
        let mut command = with_interpreter(python.iter().chain(&flags.command).cloned().collect());
        if let Some(option) = command.get(1).filter(|word| is_mallows(word)) {
            stdio::notify(&format!(
                "{} stands behind --python, and goes to Python: Mallow's options come before --python",
                option.display()
            ));
        }
        let name = name(&command).to_owned();
        let mut environment = Vec::new();
        let mut program = command[0].to_string_lossy().into_owned();
        let version = match launcher(&command[0]) {
            None => version(&command[0]),
            Some(script) => {
                let script = script.display();
                match Started::by(&command[0]) {
                    Some(started) => {
                        program = started.executable.to_string_lossy().into_owned();
                        stdio::notify(&format!(
                            "{script} is a script that starts {program}: records that, without the script"
                        ));
                        command[0] = started.executable;
                        environment = started.environment;
                        Some(started.version)
                    }
                    None => {
                        stdio::notify(&format!(
                            "{script} is a script, and did not say which Python it starts: its own processes are recorded, \
                             too. Name the interpreter instead: mallow record --python /path/to/python3 script.py"
                        ));
                        None
                    }
                }
            }
        };
        let set = match version {
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
        environment.extend(set.into_iter().map(|(name, value)| (name.into(), value.into())));
        Self { command, environment, name }
    }
}

/// The file of a program, if it is a script: pyenv and its like put a shell script in the interpreter's place.
fn launcher(program: &OsStr) -> Option<PathBuf> {
    let path = search::find(program).ok()?;
    let mut start = [0u8; 2];
    File::open(&path).ok()?.read_exact(&mut start).ok()?;
    (&start == b"#!").then_some(path)
}

#[derive(Debug, PartialEq, Eq)]
struct Started {
    version: (u32, u32),
    executable: OsString,
    /// Variables that the script sets for the interpreter.
    environment: Vec<(OsString, OsString)>,
}

/// Comes before the answer: a script may print as well.
const MARK: &[u8] = b"\0mallow\0";
/// Variables that each shell sets for itself.
const SHELLS: [&str; 4] = ["_", "SHLVL", "PWD", "OLDPWD"];

impl Started {
    /// Runs the script once, with a few lines of Python: Python 2 reads them, too.
    fn by(program: &OsStr) -> Option<Self> {
        const QUESTION: &str = "import os, sys
bytes_of = getattr(os, 'fsencode', str)
words = [str(sys.version_info[0]), str(sys.version_info[1]), sys.executable]
for name in os.environ: words.append(name + '=' + os.environ[name])
sys.stdout.flush()
os.write(1, b'\\0mallow\\0' + b'\\0'.join([bytes_of(word) for word in words]))";
        let mut command = Command::new(program);
        command.args(["-E", "-S", "-c", QUESTION]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        Self::of_answer(&output.stdout, |name| std::env::var_os(name))
    }

    fn of_answer(output: &[u8], known: impl Fn(&OsStr) -> Option<OsString>) -> Option<Self> {
        let at = output.windows(MARK.len()).position(|bytes| bytes == MARK)?;
        let mut words = output[at + MARK.len()..].split(|&byte| byte == 0);
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse().ok();
        let version = (number()?, number()?);
        let executable = words.next().filter(|path| path.starts_with(b"/"))?;
        let variable = |word: &[u8]| {
            let at = word.iter().position(|&byte| byte == b'=')?;
            let [name, value] = [&word[..at], &word[at + 1..]].map(|bytes| OsStr::from_bytes(bytes).to_owned());
            let own = SHELLS.iter().any(|shells| name == *shells) || known(&name).as_ref() == Some(&value);
            (!own).then_some((name, value))
        };
        let mut environment: Vec<_> = words.filter_map(variable).collect();
        environment.sort_unstable();
        Some(Self { version, executable: OsStr::from_bytes(executable).to_owned(), environment })
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

/// The command of what is Python's, which may begin with its interpreter. Before that, `--` ends Mallow's options,
/// as in other commands.
fn with_interpreter(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.first().is_some_and(|word| word == "--") {
        words.remove(0);
    }
    if !words.first().is_some_and(|word| is_python(word)) {
        words.insert(0, "python3".into());
    }
    words
}

/// Whether Python has no such option: it has few long ones, and no `-o`.
fn is_mallows(word: &OsStr) -> bool {
    const LONG: [&str; 4] = ["--", "--check-hash-based-pycs", "--help", "--version"];
    let is_pythons = |word: &str| LONG.contains(&word) || word.starts_with("--help-");
    word == "-o" || word.to_str().is_some_and(|word| word.starts_with("--") && !is_pythons(word))
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
    use super::{OsStr, OsString, Started, is_mallows, is_python, name, with_interpreter};

    #[test]
    fn an_interpreter_may_be_named_behind_two_dashes() {
        for (given, expected) in [
            (&["a.py", "-x"][..], &["python3", "a.py", "-x"][..]),
            (&["--", "a.py", "--"], &["python3", "a.py", "--"]),
            (&["--", "venv/bin/python3.12", "-m", "timeit"], &["venv/bin/python3.12", "-m", "timeit"]),
        ] {
            let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
            assert_eq!(with_interpreter(words(given)), words(expected));
        }
    }

    #[test]
    fn options_that_python_does_not_have_are_mallows() {
        let mallows = ["-o", "--output", "--no-report", "--json"];
        let pythons = ["-O", "-m", "-c", "--", "--help", "--help-env", "--version", "--check-hash-based-pycs", "a.py"];
        assert!(mallows.iter().all(|word| is_mallows(OsStr::new(word))));
        assert!(!pythons.iter().any(|word| is_mallows(OsStr::new(word))));
    }

    #[test]
    fn an_answer_is_read_whatever_the_script_prints() {
        let known = |name: &OsStr| (name == "HOME").then(|| OsString::from("/root"));
        let answer = b"using 3.12\n\x00mallow\x003\x0012\x00/opt/bin/python3.12\x00HOME=/root\x00SHLVL=2\x00PATH=/opt/bin:/bin\x00A=b=c";
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let environment = vec![pair("A", "b=c"), pair("PATH", "/opt/bin:/bin")];
        let expected = Started { version: (3, 12), executable: "/opt/bin/python3.12".into(), environment };
        assert_eq!(Started::of_answer(answer, known), Some(expected));
        for broken in
            [&b""[..], b"Python 3.12", b"\0mallow\0", b"\0mallow\x003\0x\0/bin/python", b"\0mallow\x003\x0012\0"]
        {
            assert_eq!(Started::of_answer(broken, known), None);
        }
    }

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
