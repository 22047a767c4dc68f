//! Which files a command leads to: scripts, their interpreters, and what `env` executes.

use super::finding::Finding;
use super::search::find;
use crate::wire;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Files that are followed at the most: the kernel follows five, and nobody has as many `env` in a row.
const MOST: usize = 12;

/// Bytes that the kernel reads of a script to find its interpreter.
const FIRST_LINE: u64 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainFile {
    /// A file that the program behind it reads.
    Script(PathBuf),
    /// A file that the program before it executes, or the caller.
    Program(PathBuf),
}

/// The files that a command leads to, in their order.
#[derive(Debug, Default)]
pub struct Chain {
    pub steps: Vec<ChainFile>,
    /// The name that is executed next, which is not there or cannot be executed.
    pub missing: Option<(OsString, io::Error)>,
    /// Variables that `env` sets.
    pub settings: Vec<(OsString, OsString)>,
    emptied: bool,
}

impl Chain {
    /// The chain of a command, its first word, with its arguments.
    pub fn of(command: &[OsString]) -> Self {
        let mut chain = Self::default();
        let mut words = command.to_vec();
        while let Some(word) = words.first().cloned() {
            if chain.steps.len() >= MOST {
                break;
            }
            let path = match find(&word) {
                Ok(path) => path,
                Err(error) => {
                    chain.missing = Some((word, error));
                    break;
                }
            };
            let begin = beginning(&path);
            // As execvp has it, what the kernel does not know is a shell's.
            let foreign = !begin.is_empty() && !begin.starts_with(b"\x7fELF");
            if let Some(mut interpreter) = interpreter(&begin).or_else(|| foreign.then(|| vec!["/bin/sh".into()])) {
                words[0] = path.clone().into_os_string();
                interpreter.append(&mut words);
                words = interpreter;
                chain.steps.push(ChainFile::Script(path));
            } else {
                let is_env = Path::new(&word).file_name() == Some(OsStr::new("env"));
                chain.steps.push(ChainFile::Program(path));
                words = if is_env { chain.env(words.split_off(1)) } else { Vec::new() };
            }
        }
        chain
    }

    pub fn programs(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().filter_map(|step| match step {
            ChainFile::Program(path) => Some(path.as_path()),
            ChainFile::Script(_) => None,
        })
    }

    /// Findings about the chain itself.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        if let (Some(ChainFile::Script(script)), Some(program)) = (self.steps.first(), self.programs().last()) {
            let (script, program) = (script.display(), program.display());
            let starts = "what it starts is not looked at here, and is recorded too where mallow doctor finds nothing \
                          against it";
            all.push(Finding::works("script", format!("{script} is read by {program}; {starts}")));
        }
        if self.emptied {
            all.push(Finding::fails(
                "environment",
                "env takes LD_PRELOAD or MALLOW_DIR away from the program, which is not followed then",
                "leave both there; set a library of your own before mallow: LD_PRELOAD=x.so mallow record program",
            ));
        }
        all
    }

    /// The words that `env` executes with these arguments; empty: none.
    fn env(&mut self, mut arguments: Vec<OsString>) -> Vec<OsString> {
        let ours = |name: &[u8]| name == b"LD_PRELOAD" || name == wire::DIR_VARIABLE.as_bytes();
        while !arguments.is_empty() {
            let word = arguments[0].as_bytes().to_vec();
            let mut takes_next = false;
            match &word[..] {
                b"-" | b"-i" | b"--ignore-environment" => self.emptied = true,
                b"-u" | b"--unset" => {
                    self.emptied |= arguments.get(1).is_some_and(|name| ours(name.as_bytes()));
                    takes_next = true;
                }
                b"-C" | b"--chdir" => takes_next = true,
                b"-S" | b"--split-string" => {
                    let text = arguments.get(1).cloned().unwrap_or_default();
                    arguments.splice(..arguments.len().min(2), split(text.as_bytes()));
                    continue;
                }
                _ if word.starts_with(b"-S") => {
                    arguments.splice(..1, split(&word[2..]));
                    continue;
                }
                _ if word.starts_with(b"-") => {
                    let unset = word.strip_prefix(b"--unset=").or_else(|| word.strip_prefix(b"-u"));
                    self.emptied |= unset.is_some_and(ours);
                }
                _ => match word.iter().position(|&b| b == b'=') {
                    Some(at) => {
                        self.emptied |= ours(&word[..at]);
                        let [name, value] =
                            [&word[..at], &word[at + 1..]].map(|text| OsStr::from_bytes(text).to_owned());
                        self.settings.push((name, value));
                    }
                    None => return arguments,
                },
            }
            arguments.drain(..arguments.len().min(1 + usize::from(takes_next)));
        }
        Vec::new()
    }
}

/// Words of a `-S` string, without its quotes and escapes: names of programs seldom have them.
fn split(text: &[u8]) -> Vec<OsString> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|w| OsString::from_vec(w.to_vec()))
        .collect()
}

fn beginning(path: &Path) -> Vec<u8> {
    let mut begin = Vec::new();
    // A file that cannot be read is reported when the program is examined.
    let _ = File::open(path).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut begin));
    begin
}

/// The program that the first line of a script names, with its argument: there is one at the most, spaces and all.
fn interpreter(script: &[u8]) -> Option<Vec<OsString>> {
    let line = script.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let words = [&line[..end], line[end..].trim_ascii()];
    let words: Vec<_> = words.into_iter().filter(|w| !w.is_empty()).map(|w| OsStr::from_bytes(w).to_owned()).collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_interpreter() {
        for (script, program) in [
            ("#!/bin/sh\necho\n", Some(&["/bin/sh"][..])),
            ("#! /usr/bin/env -S python3 -u \n", Some(&["/usr/bin/env", "-S python3 -u"])),
            ("#!/bin/sh", Some(&["/bin/sh"])),
            ("#!\n/bin/sh\n", None),
            ("echo\n", None),
        ] {
            let found = interpreter(script.as_bytes());
            assert_eq!(found, program.map(|words| words.iter().map(OsString::from).collect()), "{script:?}");
        }
    }

    #[test]
    fn env_leads_to_what_it_executes() {
        let of = |line: &str| {
            let mut chain = Chain::default();
            let rest = chain.env(line.split(' ').map(OsString::from).collect());
            let words: Vec<_> = rest.iter().map(|word| word.to_str().expect("plain")).collect();
            let settings: Vec<_> = chain.settings.iter().map(|(n, v)| format!("{n:?}={v:?}")).collect();
            (words.join(" "), settings.join(" "), chain.emptied)
        };
        let parts = |words: &str, settings: &str, emptied| (words.to_owned(), settings.to_owned(), emptied);
        assert_eq!(of("A=1 B= prog -i C=2"), parts("prog -i C=2", "\"A\"=\"1\" \"B\"=\"\"", false));
        assert_eq!(of("-u HOME -C / prog"), parts("prog", "", false));
        assert_eq!(of("-i prog"), parts("prog", "", true));
        assert_eq!(of("-u LD_PRELOAD prog"), parts("prog", "", true));
        assert_eq!(of("LD_PRELOAD=x.so prog"), parts("prog", "\"LD_PRELOAD\"=\"x.so\"", true));
        assert_eq!(of("-S prog x"), parts("prog x", "", false));
        assert_eq!(of("-i"), parts("", "", true));
        let mut chain = Chain::default();
        assert_eq!(
            chain.env(vec!["-S PYTHONMALLOC=malloc python3 -u".into(), "script".into()]),
            ["python3", "-u", "script"]
        );
        assert_eq!(chain.settings, [("PYTHONMALLOC".into(), "malloc".into())]);
    }
}
