//! Runs a program's cases and collects what they counted.
//!
//! Each run is a `mallow stat` of its own, so that cases side by side share nothing, a crash is one case's, and what
//! the command prints stays out of the way.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use mallow_report::analysis::gate::{Measured, Run, Scale, runs_by_region};
use mallow_report::analysis::{CustomAllocatorRow, RegionKind, RegionRow};
use serde::Deserialize;

use super::config::{Ops, Program, Regions};
use super::go_benchmarks;
use super::outcome::CaseRun;
use crate::output::text::gaps;
use crate::output::text::units::of;

#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Whether runs count nothing.
    pub idle: bool,
}

/// Runs one program: all of its cases. Never fails as a whole: what goes wrong breaks the cases.
pub fn run(index: usize, program: &Program, how: RunOptions) -> Vec<CaseRun> {
    if let Some(benchmarks) = &program.benchmarks {
        return go_benchmarks::run(index, program, benchmarks);
    }
    let outcome = match program.ops {
        Ops::Scale(few, many) => measure(program, Some(few), how).and_then(|few| {
            let many = measure(program, Some(many), how)?;
            Ok((many, Some(few)))
        }),
        Ops::Reported | Ops::Fixed(_) => measure(program, None, how).map(|cases| (cases, None)),
    };
    let wanted = match &program.regions {
        Regions::Named(names) => names.clone(),
        _ => program.name.iter().cloned().collect(),
    };
    let (cases, few) = match outcome {
        Ok(outcome) => outcome,
        Err(why) => {
            let names = if wanted.is_empty() { vec![display(&program.command)] } else { wanted };
            let broken =
                |name| CaseRun { name, program: index, measured: Err(why.clone()), scale: None, warnings: Vec::new() };
            return names.into_iter().map(broken).collect();
        }
    };
    let measured: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let mut ran: Vec<CaseRun> = Vec::new();
    for case in cases {
        if matches!(&program.regions, Regions::Named(names) if !names.contains(&case.name)) {
            continue;
        }
        let measured = case.measured();
        let scale = few.as_ref().and_then(|few| {
            let few = few.iter().find(|few| few.name == case.name)?.measured().ok()?;
            Scale::of(&few.figures, &measured.as_ref().ok()?.figures)
        });
        ran.push(CaseRun { name: case.name, program: index, measured, scale, warnings: case.warnings });
    }
    if let Regions::Named(names) = &program.regions {
        for name in names.iter().filter(|name| !ran.iter().any(|ran| ran.name == **name)).collect::<Vec<_>>() {
            let there = match measured.is_empty() {
                true => "and none at all: does it call mallow_measure?".to_owned(),
                false => format!("but {}", measured.join(", ")),
            };
            let why = format!("{} measured no region of this name, {there}", display(&program.command));
            ran.push(CaseRun {
                name: name.clone(),
                program: index,
                measured: Err(why),
                scale: None,
                warnings: Vec::new(),
            });
        }
    }
    if ran.is_empty() {
        let why =
            "it measured no region: does it call mallow_measure? A whole command is a case with a name and no regions";
        ran.push(CaseRun {
            name: display(&program.command),
            program: index,
            measured: Err(why.to_owned()),
            scale: None,
            warnings: Vec::new(),
        });
    }
    ran
}

#[derive(Debug)]
struct Case {
    name: String,
    runs: Vec<Run>,
    faults: Vec<String>,
    warnings: Vec<String>,
}

impl Case {
    fn warn(&mut self, text: &str) {
        if !self.warnings.iter().any(|there| there == text) {
            self.warnings.push(text.to_owned());
        }
    }

    fn measured(&self) -> Result<Measured, String> {
        match self.faults.first() {
            Some(fault) => Err(fault.clone()),
            None => Measured::of(&self.runs).ok_or_else(|| "no run was counted".to_owned()),
        }
    }
}

/// The parts of `mallow stat --json` that are needed.
#[derive(Debug, Deserialize)]
struct Stat {
    exit_status: Option<i32>,
    ended_by: Option<i32>,
    #[serde(default)]
    uncounted: Vec<String>,
    #[serde(default)]
    custom_allocators: Vec<CustomAllocatorRow>,
    lost: u64,
    allocations: u64,
    allocated_bytes: u64,
    frees: u64,
    processes: Vec<StatProcess>,
    #[serde(default)]
    regions: Vec<RegionRow>,
}

impl Stat {
    /// Allocators whose blocks are in no figure, a sentence each, in the words of `mallow stat`.
    fn incomplete(&self) -> impl Iterator<Item = String> {
        let sentences = gaps::allocators(&self.custom_allocators, self.processes.len());
        sentences.map(|sentence| format!("{}{sentence}", gaps::INCOMPLETE))
    }
}

#[derive(Debug, Deserialize)]
struct StatProcess {
    pid: u32,
    forked: bool,
}

/// All runs with one number of operations.
fn measure(program: &Program, ops: Option<u32>, how: RunOptions) -> Result<Vec<Case>, String> {
    let whole_command = program.regions == Regions::None;
    let first = execute(program, if whole_command { 0 } else { program.warmup }, ops, how)?;
    let regions = runs_by_region(&first.regions);
    if whole_command || (program.regions == Regions::IfAny && regions.is_empty()) {
        return whole(program, first, ops, how).map(|case| vec![case]);
    }
    // A region that its program begins and ends itself runs as often as the program likes; the whole program is
    // repeated for the others.
    let repeated = regions.iter().any(|(_, runs)| runs.len() < program.runs as usize);
    let mut stats = vec![first];
    if repeated {
        for _ in 1..program.warmup + program.runs {
            stats.push(execute(program, program.warmup, ops, how)?);
        }
        stats.drain(..(program.warmup as usize).min(stats.len() - 1));
    }
    Ok(of_regions(program, &stats, how))
}

/// The name of the case that is the whole command.
pub fn name_of_whole(program: &Program) -> String {
    program.name.clone().unwrap_or_else(|| display(&program.command))
}

/// The case of a whole command. `first` is its first warm-up, or run.
fn whole(program: &Program, first: Stat, ops: Option<u32>, how: RunOptions) -> Result<Case, String> {
    let mut case = Case { name: name_of_whole(program), runs: Vec::new(), faults: Vec::new(), warnings: Vec::new() };
    let mut first = Some(first);
    for run in 0..program.warmup + program.runs {
        let stat = match first.take() {
            Some(stat) => stat,
            None => execute(program, 0, ops, how)?,
        };
        if run < program.warmup {
            continue;
        }
        if stat.lost > 0 {
            case.faults.push(format!("{} could not be counted", of(stat.lost, "call")));
        }
        case.faults.extend(stat.uncounted.first().map(|program| format!("not all of it was counted: {program}")));
        stat.incomplete().for_each(|text| case.warn(&text));
        case.runs.push(Run {
            total_allocations: stat.allocations,
            total_allocated_bytes: stat.allocated_bytes,
            remaining_allocations: Some(stat.allocations.wrapping_sub(stat.frees) as i64),
            leaked_fds: how.idle.then_some(0),
            operations: match (program.ops, ops) {
                (Ops::Fixed(n), _) => n,
                (_, Some(n)) => n.into(),
                _ => 0,
            },
        });
    }
    Ok(case)
}

fn of_regions(program: &Program, stats: &[Stat], how: RunOptions) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for stat in stats {
        for (name, mut runs) in runs_by_region(&stat.regions) {
            if let Ops::Fixed(n) = program.ops {
                runs.iter_mut().for_each(|run| run.operations = n);
            }
            match cases.iter_mut().find(|case| case.name == name) {
                // What has enough is not run again, though its program is.
                Some(case) if case.runs.len() >= program.runs as usize => {}
                Some(case) => case.runs.extend(runs),
                None => cases.push(Case { name, runs, faults: Vec::new(), warnings: Vec::new() }),
            }
        }
        let ended =
            |row: &RegionRow| stat.regions.iter().any(|end| end.number == row.number && end.kind != RegionKind::Begun);
        for row in &stat.regions {
            let case = match cases.iter_mut().find(|case| case.name == row.name) {
                Some(case) => case,
                None if row.kind == RegionKind::Begun && !ended(row) => {
                    cases.push(Case {
                        name: row.name.clone(),
                        runs: Vec::new(),
                        faults: Vec::new(),
                        warnings: Vec::new(),
                    });
                    let Some(case) = cases.last_mut() else { continue };
                    case
                }
                None => continue,
            };
            if row.kind == RegionKind::Begun && !ended(row) {
                case.faults.push("a run of it began and never ended".to_owned());
            }
            if row.unrecorded > 0 && !how.idle {
                case.faults.push(format!("{} could not be counted", of(row.unrecorded, "call")));
            }
            stat.incomplete().for_each(|text| case.warn(&text));
            if row.restless {
                case.warn(&format!(
                    "other threads still allocated when the wait for quiet was given up, after {} s; quiet in mallow.toml waits longer",
                    program.quiet.as_secs_f64()
                ));
            }
            if row.name_cut {
                case.warn("its name is longer than 127 bytes and was cut");
            }
        }
    }
    if !program.settle.is_zero() {
        cases.iter_mut().for_each(set_aside);
    }
    cases
}

/// SwiftNIO's rule: a run that freed blocks of the run before it is none, as long as there are others.
fn set_aside(case: &mut Case) {
    let all = case.runs.len();
    let is_sound = |run: &Run| run.remaining_allocations.is_none_or(|remaining| remaining >= 0);
    let sound = case.runs.iter().filter(|run| is_sound(run)).count();
    if 0 < sound && sound < all {
        case.runs.retain(is_sound);
        let aside = all - sound;
        let (them, count) = if aside == 1 { ("it", "does") } else { ("them", "do") };
        case.warnings.push(format!("{aside} of {all} runs freed blocks of a run before {them} and {count} not count"));
    }
}

/// One run of the command under `mallow stat`.
fn execute(program: &Program, warmup: u32, ops: Option<u32>, how: RunOptions) -> Result<Stat, String> {
    let mut arguments: Vec<OsString> = vec!["stat".into(), "--self-check".into()];
    if how.idle {
        arguments.push("--no-hook".into());
    }
    arguments.extend(["--runs".into(), program.runs.to_string().into()]);
    arguments.extend(["--warmup".into(), warmup.to_string().into()]);
    let out = scratch("json")?;
    arguments.extend(["--json".into(), "-o".into(), out.as_os_str().to_owned()]);
    let done = run_mallow(program, arguments, ops)?;
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let stat: Stat = serde_json::from_str(&text).map_err(|_| format!("it could not be run: {}", done.last_words()))?;
    match stat.exit_status {
        Some(status) if status == program.exit_status => {}
        Some(status) => {
            let how = match stat.ended_by {
                Some(signal) => format!("it was ended by signal {signal}"),
                None => format!("exit status {status}, expected {}", program.exit_status),
            };
            return Err(format!("{how}: {}", done.last_words()));
        }
        None => return Err("it did not end".to_owned()),
    }
    if !how.idle {
        proven(&stat)?;
    }
    Ok(stat)
}

/// Each process image must have shown that its calls are counted, and that one more is seen.
fn proven(stat: &Stat) -> Result<(), String> {
    if stat.regions.iter().any(|row| row.kind == RegionKind::FailedProof) {
        return Err("known calls were counted wrongly: does the program have its own allocator?".to_owned());
    }
    if stat.processes.is_empty() {
        return Err(
            "no process was seen: a static binary, or one with other rights, does not load the library".to_owned()
        );
    }
    for process in stat.processes.iter().filter(|process| !process.forked) {
        let images = stat.processes.iter().filter(|p| p.pid == process.pid && !p.forked).count();
        let proofs = stat.regions.iter().filter(|r| r.pid == process.pid && r.kind == RegionKind::Proof).count();
        // Two each: one with the known calls, one with one more.
        if proofs < 2 * images {
            return Err(format!("process {} did not prove that its calls are counted", process.pid));
        }
    }
    Ok(())
}

#[derive(Debug)]
pub struct EndedRun {
    /// Output of mallow and of its command.
    output: String,
}

impl EndedRun {
    /// The message of a panic that ended it; else the last line that was printed.
    pub fn last_words(&self) -> String {
        let lines: Vec<&str> = self.output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        panic_of(&lines).unwrap_or_else(|| lines.last().copied().unwrap_or("it printed nothing").to_owned())
    }
}

/// The message with which the printed lines say that Rust's or Go's runtime gave up: what it prints after that, how to
/// see stacks or the stacks themselves, says nothing of the cause.
fn panic_of(lines: &[&str]) -> Option<String> {
    let is_rust = lines.last().is_some_and(|last| last.starts_with("note: ") && last.contains("RUST_BACKTRACE"));
    if is_rust {
        let at = lines.iter().rposition(|line| line.contains(" panicked at "))?;
        return Some(lines.iter().skip(at).take(2).copied().collect::<Vec<_>>().join(" "));
    }
    let at = lines.iter().rposition(|line| line.starts_with("panic: ") || line.starts_with("fatal error: "))?;
    let has_stack = lines.iter().skip(at).any(|line| line.starts_with("goroutine ") && line.ends_with("]:"));
    has_stack.then(|| lines.get(at).copied().unwrap_or_default().to_owned())
}

/// A name for a file in the directory for such files; it goes when the value does.
pub fn scratch(extension: &str) -> Result<tempfile::TempPath, String> {
    let file = tempfile::Builder::new().prefix("mallow-test-").suffix(&format!(".{extension}")).tempfile();
    let file = file.map_err(|error| format!("cannot make a file in {}: {error}", std::env::temp_dir().display()))?;
    Ok(file.into_temp_path())
}

/// Runs this very program with `arguments` and the case's command.
pub fn run_mallow(program: &Program, mut arguments: Vec<OsString>, ops: Option<u32>) -> Result<EndedRun, String> {
    for (flag, wait) in [("--quiet", program.quiet), ("--settle", program.settle)] {
        arguments.extend([flag.into(), format!("{}ms", wait.as_millis()).into()]);
    }
    if let Some(ops) = ops {
        arguments.extend(["--ops".into(), ops.to_string().into()]);
    }
    arguments.push("--".into());
    arguments.extend(program.command.iter().map(|word| with_ops(word, ops)));
    run_within(program, &arguments).map_err(|error| format!("{error:#}"))
}

/// `{ops}` in a word stands for the number of operations.
fn with_ops(word: &OsStr, ops: Option<u32>) -> OsString {
    match (word.to_str(), ops) {
        (Some(text), Some(ops)) if text.contains("{ops}") => text.replace("{ops}", &ops.to_string()).into(),
        _ => word.to_owned(),
    }
}

fn run_within(program: &Program, arguments: &[OsString]) -> Result<EndedRun> {
    let mut output: File = tempfile::tempfile().context("cannot make a file for what the command prints")?;
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(own);
    command
        .args(arguments)
        .envs(&program.environment)
        .current_dir(&program.directory)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let ended = mallow_children::run(&mut command, Some(program.timeout))
        .with_context(|| format!("cannot run in {}", program.directory.display()))?;
    if ended.is_none() {
        anyhow::bail!("it took longer than {} s; timeout in mallow.toml allows more", program.timeout.as_secs_f64());
    }
    const TAIL: i64 = 64 << 10;
    let mut bytes = Vec::new();
    let length = output.metadata()?.len() as i64;
    output.seek(SeekFrom::Start((length - TAIL).max(0) as u64))?;
    output.read_to_end(&mut bytes)?;
    Ok(EndedRun { output: String::from_utf8_lossy(&bytes).into_owned() })
}

/// Name of a command: the last part of the program's path.
pub fn display(command: &[OsString]) -> String {
    let name = command.first().map(|word| Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned());
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_panic_its_message_is_reported() {
        let reported = |output: &str| EndedRun { output: output.to_owned() }.last_words();
        assert_eq!(reported("a\n  b \n\n"), "b");
        assert_eq!(reported(" \n"), "it printed nothing");
        let rust = "\nthread 'main' (7) panicked at src/main.rs:2:5:\nno such file: a.txt\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        assert_eq!(reported(rust), "thread 'main' (7) panicked at src/main.rs:2:5: no such file: a.txt");
        // It was caught, and something else ended the program.
        assert_eq!(reported(&format!("{rust}bad input\n")), "bad input");
        let go = "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:5 +0x1d\n";
        assert_eq!(reported(go), "panic: runtime error: index out of range [3] with length 3");
        assert_eq!(reported("panic: no\ndone\n"), "done");
    }
}
