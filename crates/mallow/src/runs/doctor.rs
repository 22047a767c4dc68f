//! `mallow doctor`: what would not work on this machine, or for a command, and what to do about it.

mod allocators;
mod checks;
mod process;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use mallow_capture::preflight::{self, Chain, ChainFile, Finding, Status};
use mallow_symbols::{NameSource, survey};
use serde::Serialize;

pub use self::process::ProcessDiagnosis;

use self::checks::{Check, checks, word};
use super::exit_status::refusal;
use crate::flags::DoctorFlags;
use crate::input::names::MissingNames;
use crate::output::text::{Line, Look, Page, Stream};
use crate::output::{exit, json, stdio};

/// The results of the checks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Worst result of all checks: `works`, `partly` or `fails`.
    verdict: &'static str,
    /// Command that was looked at; left out without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
    /// Files that the command leads to: scripts, their interpreters, and what `env` executes; left out without a
    /// command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    /// Checks of the machine.
    machine: Vec<Check>,
    /// Checks of the command; left out without a command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    program: Vec<Check>,
}

/// Runs the checks, and prints their results.
pub fn run(flags: &DoctorFlags) -> Result<ExitCode> {
    if let Some(pid) = flags.pid {
        return process::run(pid, flags.json);
    }
    let chain = Chain::of(&flags.command);
    let mut diagnosis = Diagnosis {
        verdict: "",
        command: flags.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        files: files(&chain),
        machine: preflight::machine().into_iter().map(Check::from).collect(),
        program: program(&chain).into_iter().map(Check::from).collect(),
    };
    let worst = diagnosis.worst();
    diagnosis.verdict = word(worst);
    stdio::print(&match flags.json {
        true => json::document(&diagnosis)?,
        false => text(&diagnosis, &Look::of(Stream::Out)),
    })?;
    Ok(if worst == Status::Fails { ExitCode::from(exit::WOULD_FAIL) } else { exit::OK })
}

impl Diagnosis {
    fn worst(&self) -> Status {
        self.machine.iter().chain(&self.program).map(|check| check.how).max().unwrap_or(Status::Works)
    }
}

fn files(chain: &Chain) -> Vec<String> {
    let path = |step: &ChainFile| match step {
        ChainFile::Script(path) | ChainFile::Program(path) => path.display().to_string(),
    };
    let missing = chain.missing.iter().map(|(word, _)| word.to_string_lossy().into_owned());
    chain.steps.iter().map(path).chain(missing).collect()
}

fn program(chain: &Chain) -> Vec<Finding> {
    let mut all = preflight::command(chain);
    if let Some((word, error)) = &chain.missing {
        let found = format!("{}: {}", word.display(), refusal(error, Path::new(word)));
        all.push(Finding { status: Status::Fails, ..Finding::works("command", found) });
    } else if all.iter().all(|finding| finding.status != Status::Fails) {
        all.extend(chain.programs().last().map(names));
    }
    all
}

/// The check of the names that the program's functions would have.
fn names(path: &Path) -> Finding {
    const CHECK: &str = "names";
    let (module, summary) = survey(path);
    if summary.found == NameSource::DebugInformation {
        return Finding::works(CHECK, "the program has debug information: functions, files and lines");
    }
    let lacking = MissingNames::all([(&module, &summary)]).pop();
    let remedy = lacking.as_ref().and_then(|lacking| lacking.remedy.clone());
    let found =
        lacking.map_or_else(|| summary.found.to_string(), |lacking| MissingNames { remedy: None, ..lacking }.line());
    Finding { status: Status::Partly, remedy, ..Finding::works(CHECK, found) }
}

fn text(diagnosis: &Diagnosis, look: &Look) -> String {
    let mut page = Page::new(*look);
    page.line(Line::new().strong("This machine"));
    checks(&diagnosis.machine, look, &mut page);
    if !diagnosis.files.is_empty() {
        page.gap();
        page.line(Line::new().strong(diagnosis.files.join(if look.ascii { " -> " } else { " → " })));
        checks(&diagnosis.program, look, &mut page);
    }
    page.gap();
    let remarks = diagnosis.machine.iter().chain(&diagnosis.program).filter(|c| c.how == Status::Partly).count();
    page.line(match (diagnosis.worst(), remarks) {
        (Status::Fails, _) => Line::new().warning("The program would not be recorded: see what fails."),
        (Status::Partly, 1) => Line::new().strong("Mallow can record it, with the limits above."),
        (Status::Partly, _) => Line::new().strong(format!("It can be recorded, but for the {remarks} things above.")),
        (Status::Works, _) => Line::new().strong("Everything works."),
    });
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(program: Vec<Finding>) -> Diagnosis {
        let checks = |findings: Vec<Finding>| findings.into_iter().map(Check::from).collect();
        let machine = vec![
            Finding::works("run directory", "/dev/shm, in memory, 1000 MB left"),
            Finding::partly("cache", "unwind tables are made anew for each run: it is\x1b[31m full", "make room"),
        ];
        Diagnosis {
            verdict: "",
            command: vec!["./größe".to_owned()],
            files: vec!["./größe".to_owned(), "/usr/bin/env".to_owned(), "/usr/bin/python3".to_owned()],
            machine: checks(machine),
            program: checks(program),
        }
    }

    #[test]
    fn checks_are_a_table_that_is_broken_at_the_terminals_end() {
        let found = "./größe has an allocator of its own, which its calls never leave";
        let remedy = "build it without that, or link the allocator as a shared library, which Mallow sees";
        let diagnosis = diagnosis(vec![Finding::fails("allocator", found, remedy)]);
        insta::assert_snapshot!(text(&diagnosis, &Look { width: Some(72), ..Look::default() }));
    }

    #[test]
    fn the_worst_check_is_the_verdict() {
        let last = |program| {
            let printed = text(&diagnosis(program), &Look::default());
            printed.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(last(Vec::new()), "Mallow can record it, with the limits above.");
        assert_eq!(
            last(vec![Finding::partly("names", "none", "-g")]),
            "It can be recorded, but for the 2 things above."
        );
        assert_eq!(
            last(vec![Finding::fails("rights", "setuid", "no")]),
            "The program would not be recorded: see what fails."
        );
    }
}
