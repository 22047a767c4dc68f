//! `mallow doctor -p PID`: whether a process that runs could be attached to. Nothing of it is changed, and nothing is
//! stopped but, for a moment each, threads that seccomp restricts: their filters are read.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use mallow_arch::machine::NAME;
use mallow_capture::attach::{AttachError, check_sandbox, is_library};
use mallow_capture::preflight::{self, Finding, LIBRARY_TLS, STRIPPED, Status};
use mallow_capture::session::{PatchedBy, patched_by};
use mallow_patch::{Maps, Memory, Module, Obstacle, Process, State};
use serde::Serialize;

use super::allocators::{Allocator, Allocators, allocators};
use super::checks::{Check, checks, word};
use crate::output::text::units::of;
use crate::output::text::{Line, Look, Page, Stream};
use crate::output::{exit, json, stdio};

/// Verdict on a process that can be attached to.
const VERDICT: &str = "mallow record -p PID, mallow stat -p PID and mallow watch -p PID attach to it.";

/// Bytes of static thread-local storage that glibc keeps for libraries that are loaded while the program runs, by
/// default.
const RESERVE: u64 = 1152;

/// Results of the checks of a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessDiagnosis {
    /// Worst result of all checks: `works`, `partly` or `fails`.
    verdict: &'static str,
    /// Commands of this version of mallow that can attach to processes, with commas between them.
    attach: &'static str,
    /// Process id.
    pid: u32,
    /// Path of the process's executable; left out where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<String>,
    /// Checks of the process.
    process: Vec<Check>,
    /// Allocators that were found in the process; empty where it cannot be looked at, or Mallow has patched it.
    allocators: Vec<Allocator>,
}

/// Runs the checks of a process, and prints their results.
pub fn run(pid: u32, as_json: bool) -> Result<ExitCode> {
    let mut diagnosis = diagnose(pid);
    let worst = diagnosis.process.iter().map(|check| check.how).max().unwrap_or(Status::Works);
    diagnosis.verdict = word(worst);
    stdio::print(&match as_json {
        true => json::document(&diagnosis)?,
        false => text(&diagnosis, worst, &Look::of(Stream::Out)),
    })?;
    Ok(if worst == Status::Fails { ExitCode::from(exit::WOULD_FAIL) } else { exit::OK })
}

fn diagnose(pid: u32) -> ProcessDiagnosis {
    let mut all = Vec::new();
    let mut inside = Vec::new();
    let process = Process::read(pid).ok();
    let executable = process.as_ref().and_then(|process| process.executable().ok());
    for obstacle in Obstacle::all(pid) {
        all.push(obstacle_finding(&obstacle, executable.as_ref().zip(process.as_ref())));
    }
    let fatal = all.iter().any(|finding: &Finding| finding.status == Status::Fails);
    if let Some(process) = &process
        && let (false, Ok(maps), Ok(memory)) = (fatal, Maps::read(pid), Memory::open(pid))
    {
        all.insert(0, Finding::works("permission", permission(process)));
        let (modules, mut unreadable) = Module::all(process, &maps);
        // The library of an earlier attachment serves the next one.
        unreadable.retain(|(path, _)| !is_library(path));
        let modules = Scope::of(&modules, executable.as_deref(), &process.variable("LD_PRELOAD").unwrap_or_default());
        all.push(Finding::works("program", program(&modules, process)));
        all.extend(sandbox(process));
        all.extend(preflight::attaching(pid, true));
        all.push(c_library(&modules));
        all.extend(go_program(&modules));
        all.extend(thread_storage(&modules));
        all.extend(libmallow(&modules, pid));
        let patched = patched_by(pid);
        all.extend(patched.map(|by| attachment(pid, by)));
        // The functions that mallow has patched show nothing.
        let looked = if patched.is_some() { Allocators::default() } else { allocators(&modules.all, &maps, &memory) };
        let Allocators { all: found, stripped, hidden } = looked;
        if found.is_empty() && patched.is_none() {
            all.push(Finding::partly(
                "allocator",
                "none is known by its symbols: no function can be patched",
                "keep its symbols (no strip), or install its debug symbols",
            ));
        }
        all.extend(found.iter().map(Allocator::finding));
        inside = found;
        for (shown, name) in &hidden {
            all.push(Finding::partly(
                "symbols",
                format!("{shown} has {name} inside, and is stripped: calls of that are not seen"),
                STRIPPED,
            ));
        }
        if let Some(path) = executable.as_ref()
            && !hidden.iter().any(|(module, _)| path.to_str() == Some(module))
            && let Some(shown) = stripped.iter().find(|module| path.to_str() == Some(module))
        {
            all.push(Finding::partly(
                "symbols",
                format!("{shown} has exported names alone: an allocator inside under names of its own is not found"),
                STRIPPED,
            ));
        }
        if !unreadable.is_empty() {
            let shown = unreadable.iter().map(|(path, error)| format!("{path}: {error}")).collect::<Vec<_>>();
            all.push(Finding::partly("modules", shown.join("; "), "restart the program after an update of its files"));
        }
        let set = |name: &str| process.variable(name).map_or_else(OsString::new, OsString::from);
        all.extend(executable.as_ref().and_then(|path| preflight::language(&process.path(path), &set)));
    }
    ProcessDiagnosis {
        verdict: "",
        attach: "record, stat, watch",
        pid,
        executable: executable.map(|path| path.display().to_string()),
        process: all.into_iter().map(Check::from).collect(),
        allocators: inside,
    }
}

/// An obstacle as a check; where the program is the cause, as record words it.
fn obstacle_finding(obstacle: &Obstacle, program: Option<(&PathBuf, &Process)>) -> Finding {
    let check = match obstacle {
        Obstacle::ThirtyTwoBits | Obstacle::OtherProcessor | Obstacle::Static => {
            let known = program.and_then(|(path, process)| preflight::file(&process.path(path)));
            if let Some(finding) = known {
                return finding;
            }
            "program"
        }
        Obstacle::Gone(_)
        | Obstacle::Thread { .. }
        | Obstacle::Kernel(_)
        | Obstacle::Zombie(_)
        | Obstacle::Stopped(_)
        | Obstacle::Uninterruptible(_) => "process",
        _ => "permission",
    };
    let status = if obstacle.is_temporary() { Status::Partly } else { Status::Fails };
    Finding { status, remedy: obstacle.remedy(), ..Finding::works(check, obstacle.to_string()) }
}

fn attachment(pid: u32, by: PatchedBy) -> Finding {
    const CHECK: &str = "mallow";
    match by {
        PatchedBy::Mallow(mallow) => Finding::fails(
            CHECK,
            format!("process {mallow} (mallow) is attached to it already"),
            format!("end that one: kill -INT {mallow}"),
        ),
        PatchedBy::Killed => Finding::partly(
            CHECK,
            "a mallow that was killed has left its patches: attaching again restores the code first",
            format!("to restore it alone: mallow stat -p {pid} --for 0s"),
        ),
    }
}

fn permission(process: &Process) -> String {
    let own = rustix::process::geteuid().as_raw();
    match process.users[1] == own {
        _ if own == 0 => format!("root may trace it (user {})", process.users[1]),
        true => "its user may trace it".to_owned(),
        false => "mallow has the right to trace it (CAP_SYS_PTRACE)".to_owned(),
    }
}

fn program(modules: &Scope, process: &Process) -> String {
    let threads = of(process.threads as u64, "thread");
    let asleep = if process.state == State::Stopped { ", stopped" } else { "" };
    format!("{NAME}, dynamically linked, {}, {threads}{asleep}", of(modules.all.len() as u64, "module"))
}

/// None: nothing restricts the process's system calls.
fn sandbox(process: &Process) -> Option<Finding> {
    const CHECK: &str = "sandbox";
    if !mallow_patch::is_sandboxed(process.pid) {
        return None;
    }
    Some(match check_sandbox(process.pid) {
        Ok(()) => Finding::works(CHECK, "a seccomp filter restricts its system calls; it allows what mallow needs"),
        Err(AttachError::Sandboxed { what, remedy }) => Finding::fails(CHECK, what, remedy),
        Err(error) => Finding::fails(CHECK, error.to_string(), "try again"),
    })
}

/// The modules of a process in the order in which the dynamic linker searches them for a symbol.
struct Scope<'a> {
    all: Vec<&'a Module>,
    /// Number of modules that were loaded at the start; the rest came by dlopen.
    initial: usize,
}

impl<'a> Scope<'a> {
    /// The executable, what LD_PRELOAD names, and what each needs, breadth first.
    fn of(modules: &'a [Module], executable: Option<&std::path::Path>, preloaded: &str) -> Self {
        let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let named = |name: &str| {
            let name = base(name);
            modules.iter().position(|module| module.soname == name || base(&module.path) == name)
        };
        let own = executable.and_then(|path| {
            let path = path.to_string_lossy();
            modules.iter().position(|module| module.path == path)
        });
        let mut order: Vec<usize> = own.into_iter().collect();
        let mut next = 0;
        let add = |order: &mut Vec<usize>, found: Option<usize>| {
            order.extend(found.filter(|index| !order.contains(index)));
        };
        for name in preloaded.split([':', ' ']).filter(|name| !name.is_empty()) {
            add(&mut order, named(name));
        }
        while let Some(index) = order.get(next).copied() {
            for name in &modules[index].needs {
                add(&mut order, named(name));
            }
            next += 1;
        }
        let initial = order.len();
        for index in 0..modules.len() {
            add(&mut order, Some(index));
        }
        Self { all: order.into_iter().map(|index| &modules[index]).collect(), initial }
    }
}

fn c_library(modules: &Scope) -> Finding {
    const CHECK: &str = "C library";
    // musl's own has no name for the linker.
    let is_musl = |module: &&&Module| {
        let name = module.path.rsplit('/').next().unwrap_or_default();
        name == "libc.so" || name.starts_with("ld-musl") || name.starts_with("libc.musl")
    };
    if let Some(musl) = modules.all.iter().find(is_musl) {
        return Finding::fails(
            CHECK,
            format!("{} (musl): mallow attaches to programs with glibc alone", musl.path),
            "build the program for glibc",
        );
    }
    match modules.all.iter().find(|module| module.soname == "libc.so.6") {
        Some(libc) => Finding::works(CHECK, format!("glibc, {}", libc.path)),
        None => Finding::fails(CHECK, "it is not glibc", "build the program for glibc"),
    }
}

/// None: the process runs no program of Go's.
fn go_program(modules: &Scope) -> Option<Finding> {
    let program = modules.all.iter().find(|module| module.is_go_program())?;
    Some(Finding::fails(
        "Go",
        format!(
            "{} is written in Go: its threads may be on stacks of Go's own, where no library can be loaded",
            program.path
        ),
        format!("{}; only what its C code allocates is seen if it is started under mallow", preflight::GO_HEAP),
    ))
}

/// An estimate: where nothing but the reserve is left, glibc takes a library's initial-exec storage from there.
fn thread_storage(modules: &Scope) -> Option<Finding> {
    const CHECK: &str = "static TLS";
    modules.all.iter().find(|module| module.soname == "libc.so.6")?;
    let late = modules.all.iter().skip(modules.initial).filter(|module| module.static_tls);
    let taken: u64 = late.map(|module| module.tls).sum();
    Some(match taken.saturating_add(LIBRARY_TLS) <= RESERVE {
        true => Finding::works(
            CHECK,
            format!("{LIBRARY_TLS} bytes are needed; about {} of {RESERVE} are free", RESERVE - taken),
        ),
        false => Finding::partly(
            CHECK,
            format!(
                "libraries that were loaded late take {taken} bytes of about {RESERVE}, and {LIBRARY_TLS} are needed"
            ),
            "start it with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096",
        ),
    })
}

fn libmallow(modules: &Scope, pid: u32) -> Option<Finding> {
    let loaded =
        modules.all.iter().any(|module| module.path.rsplit('/').next().is_some_and(|n| n.starts_with("libmallow")));
    loaded.then(|| {
        Finding::partly(
            "libmallow.so",
            "is loaded already: the program runs under mallow",
            format!("mallow watch -p {pid} joins it if mallow run or mallow watch started it"),
        )
    })
}

fn text(diagnosis: &ProcessDiagnosis, worst: Status, look: &Look) -> String {
    let mut page = Page::new(*look);
    let executable = diagnosis.executable.as_ref().map(|path| format!(": {path}")).unwrap_or_default();
    page.line(Line::new().strong(format!("Process {}{executable}", diagnosis.pid)));
    checks(&diagnosis.process, look, &mut page);
    page.gap();
    page.line(match worst {
        Status::Fails => Line::new().warning("Something stands in the way of attaching: see what fails."),
        Status::Partly => Line::new().strong("Nothing stands in the way of attaching, with the limits above."),
        Status::Works => Line::new().strong("Nothing stands in the way of attaching."),
    });
    if worst != Status::Fails {
        page.hanging(Line::new(), VERDICT);
    }
    page.into_text()
}
