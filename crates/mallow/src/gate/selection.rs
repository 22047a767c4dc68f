//! Which programs run: with filters, those that make a case that is asked for, as far as that is known before they run.
//!
//! A program with `regions = "all"` says which cases it makes only when it runs. The baseline remembers the program
//! that made a case, whatever its arguments are; a limit of `test_a_new` is taken to be of the program `test_a`, as
//! SwiftNIO names them.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::baseline::Baseline;
use super::config::{Config, Program, Regions};
use super::outcome::CaseRun;
use super::runner;

/// The programs of a file, by index.
#[derive(Debug, Default)]
pub struct Selection {
    pub chosen: Vec<usize>,
    /// Programs of `chosen` whose cases are unknown.
    unknown: BTreeSet<usize>,
    /// Number of programs that do not run because none of their known cases is asked for.
    passed_over: usize,
}

/// A program as the baseline has it.
pub fn program_name(command: &[OsString]) -> String {
    command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}

/// True where a filter matches the name of a case, or where there is none.
pub fn wanted(filters: &[String], name: &str) -> bool {
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

/// Chooses the programs that can make a case that one of the filters matches.
pub fn select(config: &Config, baseline: &Baseline, filters: &[String]) -> Selection {
    let known: Vec<Option<Vec<String>>> = config.programs.iter().map(|one| known(one, config, baseline)).collect();
    // A filter that matches nothing known may ask for a case that is new.
    let all: Vec<&String> = known.iter().flatten().flatten().collect();
    let new = !filters.iter().all(|filter| all.iter().any(|name| name.contains(filter.as_str())));
    let mut selection = Selection::default();
    for (index, (program, known)) in config.programs.iter().zip(known).enumerate() {
        let open = matches!(program.regions, Regions::All | Regions::IfAny);
        match known {
            Some(names) if names.iter().any(|name| wanted(filters, name)) => selection.chosen.push(index),
            Some(_) if !(open && new) => selection.passed_over += usize::from(open),
            _ => {
                selection.chosen.push(index);
                // Go's benchmarks are not kept by program: the pattern of the file is what chooses them.
                if program.benchmarks.is_none() {
                    selection.unknown.insert(index);
                }
            }
        }
    }
    selection
}

/// The cases of a program; None where nobody knows them.
fn known(program: &Program, config: &Config, baseline: &Baseline) -> Option<Vec<String>> {
    match &program.regions {
        Regions::Named(names) => Some(names.clone()),
        Regions::None => Some(program.name.iter().cloned().collect()),
        Regions::All | Regions::IfAny => {
            let name = program_name(&program.command);
            let made = baseline.made_by(&name).map(str::to_owned);
            let limited = config
                .limits
                .keys()
                .filter(|limit| program_of(limit, config).is_some_and(|of| std::ptr::eq(of, program)));
            let names: Vec<String> = made.chain(limited.cloned()).collect();
            Some(names).filter(|names| !names.is_empty() && program.benchmarks.is_none())
        }
    }
}

/// The program that a limit is of by its name: the one with the longest name that the limit's begins with.
fn program_of<'a>(limit: &str, config: &'a Config) -> Option<&'a Program> {
    let longest = config.programs.iter().filter(|program| {
        let name = runner::display(&program.command);
        name.starts_with("test_") && begins_with(limit, &name)
    });
    longest.max_by_key(|program| runner::display(&program.command).len())
}

/// True where a limit's name, with or without its `test_`, is that of a program or goes on after it.
pub fn begins_with(limit: &str, program: &str) -> bool {
    let rest = limit.strip_prefix(program).or_else(|| limit.strip_prefix(program.strip_prefix("test_")?));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}

impl Selection {
    /// Remarks on the selection for a person who waits, in one line each.
    pub fn remarks(&self, config: &Config, ran: &[CaseRun], filters: &[String], update: &str) -> Vec<String> {
        let mut remarks = Vec::new();
        if filters.is_empty() {
            return remarks;
        }
        let filters_shown = filters.join(", ");
        if self.passed_over > 0 {
            remarks.push(format!(
                "{} of {} programs did not run: none of their known cases matches {filters_shown}",
                self.passed_over,
                config.programs.len()
            ));
        }
        let matched: BTreeSet<usize> =
            ran.iter().filter(|ran| wanted(filters, &ran.name)).map(|ran| ran.program).collect();
        let in_vain = self.unknown.difference(&matched).count();
        if in_vain > 0 && !matched.is_empty() {
            let programs = if in_vain == 1 { "1 program" } else { &format!("{in_vain} programs") };
            remarks.push(format!(
                "{programs} ran for nothing: which cases they make is not known before they run; {update} keeps that in the baseline"
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::begins_with;

    #[test]
    fn limits_belong_to_programs_as_swiftnio_names_them() {
        for (limit, program, expected) in [
            ("1000_tasks", "test_1000_tasks", true),
            ("test_1000_tasks", "test_1000_tasks", true),
            ("frames_new_buffer", "test_frames", true),
            ("1000_tasks_sync", "test_1000_tasks", true),
            ("1000_tasks", "test_1000_tasks_sync", false),
            ("1000_tasks2", "test_1000_tasks", false),
            ("10", "test_1", false),
        ] {
            assert_eq!(begins_with(limit, program), expected, "{limit} {program}");
        }
    }
}
