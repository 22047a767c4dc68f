//! Processes of a recording by what a user calls them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use mallow_profile::{Process, Profile};
use mallow_report::analysis::Pattern;

use crate::output::text::units::{bytes, count};

/// Limit of a list's entries that are named.
const NAMED: usize = 6;

/// The numbers of the processes that are meant, in order: those with this id or this program; without any, those whose
/// program's name begins so; without any, those whose program's name a regular expression matches. Fails with the
/// candidates where there are none.
pub fn find(profile: &Profile, wanted: &str) -> Result<Vec<u32>> {
    let numbers = |is: &dyn Fn(&Process) -> bool| -> Vec<u32> {
        (0..).zip(&profile.processes).filter(|(_, process)| is(process)).map(|(number, _)| number).collect()
    };
    let any = |process: &Process, is: &dyn Fn(&str) -> bool| {
        [Some(&process.executable), process.arguments.first()].into_iter().flatten().any(|path| is(file_name(path)))
    };
    let mut found = numbers(&|process| process.pid.to_string() == wanted || any(process, &|name| name == wanted));
    if found.is_empty() && !wanted.is_empty() {
        found = numbers(&|process| any(process, &|name| name.starts_with(wanted)));
    }
    // A number is an id, and no part of a program's version.
    if found.is_empty() && wanted.parse::<u64>().is_err() {
        match wanted.parse::<Pattern>() {
            Ok(pattern) => found = numbers(&|process| any(process, &|name| pattern.matches(name))),
            Err(error) => {
                bail!("--process {wanted}: no program's name begins so, and {error}; {}", candidates(profile))
            }
        }
    }
    if found.is_empty() {
        bail!("--process {wanted}: there is no such process; {}", candidates(profile));
    }
    Ok(found)
}

fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

/// The name of a process's program, as it was called.
pub fn program(process: &Process) -> &str {
    process.program()
}

/// The programs that there are, those with the highest peaks first, and the ids of their processes.
fn candidates(profile: &Profile) -> String {
    if profile.processes.is_empty() {
        return "the recording has none".to_owned();
    }
    let mut programs: BTreeMap<&str, (u64, u64, Vec<u32>)> = BTreeMap::new();
    for process in &profile.processes {
        let (peak, allocations, pids) = programs.entry(program(process)).or_default();
        *peak = (*peak).max(process.own_peak_bytes);
        *allocations = allocations.saturating_add(process.totals.allocations);
        pids.push(process.pid);
    }
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by_key(|(_, (peak, allocations, _))| Reverse((*peak, *allocations)));
    let named = |(name, (peak, _, pids)): &(&str, (u64, u64, Vec<u32>))| {
        let size = if *peak > 0 { format!(", peak {}", bytes(*peak, false)) } else { String::new() };
        match &pids[..] {
            [0] if name.is_empty() => "one without a name".to_owned(),
            [0] => format!("{name}{}", if size.is_empty() { size } else { format!(" ({})", &size[2..]) }),
            [pid] => format!("{name} (pid {pid}{size})"),
            _ => format!("{name} ({} processes{size})", count(pids.len() as u64)),
        }
    };
    let mut named: Vec<String> = programs.iter().map(named).collect();
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    if more > 0 {
        named.push(format!("and {} more", count(more as u64)));
    }
    format!("there are {}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::Builder;

    use super::find;

    fn found(wanted: &str) -> Result<Vec<u32>, String> {
        let mut b = Builder::default();
        for (pid, program, peak) in [
            (10, "make", 1000),
            (11, "cc1", 9000),
            (12, "cc1plus", 2_000_000),
            (13, "python3.12", 500),
            (14, "cc1", 8000),
        ] {
            let process = b.process(pid, &[program], 10);
            b.profile.processes[process.0 as usize].own_peak_bytes = peak;
        }
        find(&b.profile, wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn a_process_is_meant_by_its_id_its_name_a_prefix_or_an_expression() {
        assert_eq!(found("11"), Ok(vec![1]));
        assert_eq!(found("cc1"), Ok(vec![1, 4]), "a whole name is no prefix");
        assert_eq!(found("cc"), Ok(vec![1, 2, 4]));
        assert_eq!(found("py"), Ok(vec![3]));
        assert_eq!(found("plus$"), Ok(vec![2]));
        assert_eq!(found("^(make|python.*)$"), Ok(vec![0, 3]));
        assert_eq!(found("hon3.1"), Ok(vec![3]));
    }

    #[test]
    fn who_is_unknown_reads_who_there_is_by_size() {
        let candidates = "there are cc1plus (pid 12, peak 2.00 MB), cc1 (2 processes, peak 9.00 kB), make (pid 10, \
            peak 1.00 kB), python3.12 (pid 13, peak 500 B)";
        assert_eq!(found("gcc"), Err(format!("--process gcc: there is no such process; {candidates}")));
        assert_eq!(found("12.4"), Err(format!("--process 12.4: there is no such process; {candidates}")));
        assert_eq!(
            found("3"),
            Err(format!("--process 3: there is no such process; {candidates}")),
            "part of a version"
        );
        let invalid = found("(gcc").expect_err("no expression");
        assert!(invalid.contains("no program's name begins so") && invalid.ends_with(candidates), "{invalid}");
    }
}
