//! Attaching to a process that was not started under mallow, and detaching from it. docs/design/attach.md explains it.

mod arrival;
mod error;
mod holders;
mod inside;
mod library;
mod library_file;
mod loaded_modules;
mod moment;
mod patches;
mod sandbox;
mod target;
mod threads;
mod turn;

pub use error::AttachError;
pub use library::{is_loaded, obstacle};
pub use library_file::is_library;
pub use sandbox::check as check_sandbox;

use self::holders::Holders;
use self::library::LoadedLibrary;
use self::loaded_modules::{KnownModules, patch_new};
use self::moment::Moment;
use self::patches::{PatchedModule, STOP, area_of, key_of, keys, place, present, write};
use self::target::Target;
use self::threads::FreeThreads;
use self::turn::Turn;
use crate::inside::Planner;
use crate::pace::Pace;
use crate::preflight;
use crate::rundir::directory::RunDirectory;
use crate::rundir::owner::{self, is_in_run};
use crate::tables::supply::put_all;
use mallow_patch::{
    Draft, Gateway, Maps, Memory, Obstacle, Placed, Process, StopError, Stopped, Thread, Unwinder, WriteError, stop,
    stop_thread,
};
use mallow_profile::AllocatorInside;
use std::collections::HashSet;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A detached process has at least so long and [`QUIET_LOOKS`] looks, at most [`QUIET_MOST`], until no thread is in the
/// library. A look takes long where threads wait for a processor.
const QUIET: Duration = Duration::from_secs(3);
const QUIET_LOOKS: u32 = 60;
const QUIET_MOST: Duration = Duration::from_secs(30);

/// Looks for threads in the library within one stop. After look n, those that are in it run alone for n tenths of a ms.
const ALONE: u32 = 6;

/// Shortest pause between two looks for new libraries.
const LOOK: Duration = Duration::from_millis(100);
/// After so many failures in a row a look for new libraries is reported.
const FAILURES: u32 = 3;

/// A process that mallow is attached to. Dropping it detaches.
pub struct Attachment {
    pid: u32,
    target: Target,
    patched: Vec<PatchedModule>,
    known: KnownModules,
    planner: Planner,
    pace: Pace,
    /// Looks that failed, in a row.
    failures: u32,
    /// Allocators inside of the process's modules, those that cannot be patched included.
    allocators: Vec<AllocatorInside>,
    /// The longest time that all threads stood still, while patches were written.
    pause: Duration,
    done: bool,
}

/// Why a process that was detached from has the files of the run mapped still. Its code is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A thread may be in the library: the files stay until the next attachment, or the end of the process.
    InLibrary,
    /// Seccomp may forbid to unmap them, by a filter that came after mallow: they stay until the end of the process.
    Sandboxed,
}

/// How a process was left.
#[derive(Clone, Copy, Debug)]
pub struct Detached {
    /// None: nothing of the run is left in the process.
    pub rest: Option<Rest>,
    /// When the code was restored: nothing is seen from then on.
    pub restored: Instant,
}

impl Detached {
    fn now() -> Self {
        Self { rest: None, restored: Instant::now() }
    }

    fn and(self, other: Self) -> Self {
        Self { rest: self.rest.or(other.rest), restored: self.restored.max(other.restored) }
    }
}

/// Attaches to process `pid`, which takes part in `run` from then on. Waits `patience` at the most for a thread that
/// holds no lock; `given_up` is called meanwhile with what attaching waits for, and ends it by true. `reader` finds the
/// mallow that reads a run directory.
pub fn attach(
    pid: u32,
    run: &RunDirectory,
    patience: Duration,
    given_up: &mut dyn FnMut(&str) -> bool,
    reader: &dyn Fn(&Path) -> Option<u32>,
) -> Result<Attachment, AttachError> {
    let begin = Instant::now();
    let _turn = match Turn::wait(pid, patience, given_up) {
        Ok(Some(turn)) => turn,
        Ok(None) if begin.elapsed() < patience => return Err(AttachError::Interrupted),
        Ok(None) => return Err(AttachError::Unturned { process: pid, waited: patience }),
        Err(_) => return Err(AttachError::Obstacle(Obstacle::Gone(pid))),
    };
    let before = Moment::of(pid);
    let attached = match obstacle(pid) {
        Some(obstacle) => Err(obstacle),
        None => {
            // Nothing that is waited for comes any more once the program has ended.
            let mut end = None;
            let mut given_up = |why: &str| {
                end = before.end();
                end.is_some() || given_up(why)
            };
            let attached = attach_in_turn(pid, run, patience, &mut given_up, reader);
            attached.map_err(|error| end.unwrap_or(error))
        }
    };
    attached.map_err(|error| before.explain(error))
}

fn attach_in_turn(
    pid: u32,
    run: &RunDirectory,
    patience: Duration,
    given_up: &mut dyn FnMut(&str) -> bool,
    reader: &dyn Fn(&Path) -> Option<u32>,
) -> Result<Attachment, AttachError> {
    if let Some(limit) = preflight::attaching(pid, run.has_stacks()) {
        return Err(AttachError::Unsupported(limit.sentence()));
    }
    let (target, maps) = Target::of(pid)?;
    let process = Process::read(pid)?;
    let unwinder = Unwinder::new(&target.modules);
    let own_allocator = target.executable().filter(|module| inside::is_allocator(module));
    let own_code = own_allocator.map(inside::code_of).transpose()?.unwrap_or_default();
    let holders = Holders::of(
        &target.modules,
        &|module| inside::is_allocator(module) && own_allocator.is_none_or(|own| own.range != module.range),
        own_code,
    );
    let mut free = FreeThreads::new(pid, (&unwinder, &holders, &target.memory), patience, given_up)?;
    let mut planner = Planner::default();
    let library = match library_in(&mut free, &target.memory)? {
        Some(library) => {
            release(&target, &mut planner, &library, reader)?;
            library
        }
        None => LoadedLibrary::load(&mut free, &target.libc)?,
    };
    let memory = &target.memory;
    let (entries, own) = target.split(library.entries(memory)?);
    let mut inside = target.inside(&mut planner, &library, false)?;
    let mut patched = Vec::new();
    let mapped = keys(&maps);
    for draft in target.drafts(&entries, &mut inside, false)? {
        let area = area_for(&draft, &library, memory, &mut free)?;
        patched.push(PatchedModule { key: key_of(&draft, &mapped), placed: place(&draft, area)? });
    }
    let trampoline = |function| patched.iter().find_map(|one| one.placed.trampoline(function));
    if own.iter().any(|(_, entry)| trampoline(entry.function).is_none()) {
        let mut problems = inside.findings.iter().map(|finding| finding.allocator.problem.as_str());
        let why = problems.find(|why| !why.is_empty()).unwrap_or("mallow does not know which one it is");
        return Err(AttachError::Unsupported(format!(
            "its allocator, inside of the executable, cannot be patched: {why}"
        )));
    }
    for (index, entry) in &entries {
        library.set_trampoline(memory, *index, trampoline(entry.function).unwrap_or(0))?;
    }
    library.set_inside(memory, &inside::ranges(&target.modules, &library.range, &entries))?;
    library.set_directory(memory, run.path().as_os_str().as_bytes())?;
    if !(arrival::is_path_enough(&process, run.path()) && library.join(&mut free, &target.libc, None)?) {
        let directory = arrival::descriptor(&process, run)?;
        if !library.join(&mut free, &target.libc, Some(&directory))? {
            let (directory, reason) = (run.path().display().to_string(), arrival::REFUSED.to_owned());
            return Err(AttachError::Unreached { directory, reason });
        }
    }
    let news = inside.findings.into_iter().filter(|finding| finding.is_news());
    let allocators = news.map(|finding| finding.allocator).collect();
    let known = KnownModules::of(&target, &maps);
    let (pace, pause) = (Pace::new(LOOK), Duration::ZERO);
    let mut attachment =
        Attachment { pid, target, patched, known, planner, pace, failures: 0, allocators, pause, done: false };
    let written = put_tables(&attachment.target, run, given_up)
        .and_then(|()| write(pid, &attachment.target.memory, &attachment.patched));
    match written {
        Ok(pause) => attachment.pause = pause,
        Err(error) => {
            // Dropped, it would wait for the turn that this function has.
            attachment.done = true;
            let _ = attachment.end_in_turn(true);
            return Err(error);
        }
    }
    Ok(attachment)
}

/// Makes the unwind tables of all modules. The process would wait for each at its first call, all of its threads for
/// the first one. Once it has joined the run it is known who may read them.
fn put_tables(target: &Target, run: &RunDirectory, given_up: &mut dyn FnMut(&str) -> bool) -> Result<(), AttachError> {
    if !run.has_stacks() {
        return Ok(());
    }
    let mut is_over = false;
    put_all(target.modules.iter().map(|module| module.file.clone()), &run.tables(), &mut || {
        is_over = given_up("unwind tables are being made");
        is_over
    });
    if is_over { Err(AttachError::Interrupted) } else { Ok(()) }
}

/// The library in the process; None: it is to be loaded. Waits while a thread loads it for a mallow that was killed.
fn library_in(free: &mut FreeThreads, memory: &Memory) -> Result<Option<LoadedLibrary>, AttachError> {
    const LOADING: Duration = Duration::from_secs(1);
    let pid = free.pid();
    let deadline = Instant::now() + LOADING;
    let descriptors = library_file::descriptors(pid);
    let found = loop {
        let found = LoadedLibrary::find(pid, &Maps::read(pid)?, memory);
        let is_settled = match &found {
            Ok(Some(library)) => library.is_ready(memory)?,
            _ => descriptors.is_empty(),
        };
        if is_settled {
            break found?;
        }
        if Instant::now() >= deadline {
            match found? {
                Some(_) => {
                    let why = "it has been loading the library for a mallow that was killed: try again later";
                    return Err(AttachError::Unsupported(why.to_owned()));
                }
                None => break None,
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    for number in descriptors {
        free.with(|thread, gateway, _| Ok(thread.system_call(gateway, libc::SYS_close, [number, 0, 0, 0, 0, 0])?))?;
    }
    Ok(found)
}

/// Where the code of a module's patches is from an earlier attachment; a new place where there is none.
fn area_for(
    draft: &Draft,
    library: &LoadedLibrary,
    memory: &Memory,
    free: &mut FreeThreads,
) -> Result<u64, AttachError> {
    if let Some(area) = area_of(draft, library, memory, &Maps::read(free.pid())?)? {
        return Ok(area);
    }
    let area = map_area(free, draft)?;
    match library.set_area(memory, draft.module().start, area)? {
        true => Ok(area),
        false => Err(AttachError::Unsupported("its allocators are in more modules than mallow can patch".to_owned())),
    }
}

/// Maps memory for patches near their module.
fn map_area(free: &mut FreeThreads, draft: &Draft) -> Result<u64, AttachError> {
    const TRIES: u32 = 5;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    let mut tries = 0;
    loop {
        let area = Maps::read(free.pid())?.free_area_near(draft.module(), draft.bytes());
        let area =
            area.ok_or_else(|| AttachError::Unsupported("there is no free memory near its allocator".to_owned()))?;
        let mapped = free.with(|thread, gateway, _| {
            let arguments = [area, draft.bytes(), rights as u64, flags as u64, u64::MAX, 0];
            Ok(thread.system_call(gateway, libc::SYS_mmap, arguments)?)
        });
        tries += 1;
        match mapped {
            // The process took it first.
            Err(AttachError::Io(error)) if error.raw_os_error() == Some(libc::EEXIST) && tries < TRIES => {}
            mapped => return mapped.map(|_| area),
        }
    }
}

/// The directory of the run that a process has joined since mallow attached to it. None: there is none.
pub fn joined_directory(pid: u32) -> Option<PathBuf> {
    let (memory, maps) = (Memory::open(pid).ok()?, Maps::read(pid).ok()?);
    let library = LoadedLibrary::find(pid, &maps, &memory).ok()??;
    library.is_joined(&memory).ok()?.then_some(())?;
    Some(Process::read(pid).ok()?.path(Path::new(&library.directory(&memory).ok()?)))
}

/// Ends an attachment whose mallow was killed. An error if its mallow lives, or a thread stays in the library.
fn release(
    target: &Target,
    planner: &mut Planner,
    library: &LoadedLibrary,
    reader: &dyn Fn(&Path) -> Option<u32>,
) -> Result<(), AttachError> {
    let memory = &target.memory;
    if !library.is_joined(memory)? {
        return Ok(());
    }
    let directory = library.directory(memory)?;
    let seen = Process::read(target.pid)?.path(Path::new(&directory));
    if let Some(mallow) = reader(&seen) {
        return Err(AttachError::Busy { process: target.pid, mallow });
    }
    let (entries, _) = target.split(library.entries(memory)?);
    let maps = Maps::read(target.pid)?;
    let mut patched = Vec::new();
    for draft in target.drafts(&entries, &mut target.inside(planner, library, false)?, true)? {
        // Without an area, nothing was written.
        if let Some(area) = area_of(&draft, library, memory, &maps)? {
            patched.push(place(&draft, area)?);
        }
    }
    // Some of them may never have been written.
    match detach_from(target, library, &patched, true)?.rest {
        None => Ok(()),
        Some(_) => Err(AttachError::Unsupported(format!(
            "a thread of it has been in the library of an earlier mallow for at least {} s: try again later",
            QUIET.as_secs()
        ))),
    }
}

impl Attachment {
    /// Patches allocators in libraries that the process has loaded since the last look, and returns what there is to
    /// say of them. Looks ten times a second at the most. Where that fails, the next look tries again; the third
    /// failure in a row is returned, and no other.
    pub fn patch_new_modules(&mut self) -> Result<Vec<AllocatorInside>, AttachError> {
        let Some(look) = self.pace.begin() else { return Ok(Vec::new()) };
        let news = self.look();
        self.pace.end(look, matches!(news, Ok(Some(_))));
        self.failures = if news.is_ok() { 0 } else { self.failures.saturating_add(1) };
        match news {
            Ok(news) => Ok(news.unwrap_or_default()),
            Err(error) if self.failures == FAILURES && !error.is_gone() => Err(error),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// None: there is no new module.
    fn look(&mut self) -> Result<Option<Vec<AllocatorInside>>, AttachError> {
        let library = || find_library(self.pid);
        let came = patch_new(&mut self.target, &mut self.planner, &mut self.known, &self.patched, &library)?;
        let Some(mut came) = came else { return Ok(None) };
        // One that was unloaded, and loaded again where it was, has its patches anew.
        self.patched.retain(|old| old.key.is_none() || came.patched.iter().all(|new| new.key != old.key));
        self.patched.append(&mut came.patched);
        self.pause = self.pause.max(came.pause);
        let news = came.findings.into_iter().filter(|finding| finding.is_news()).map(|finding| finding.allocator);
        let news: Vec<AllocatorInside> = news.filter(|one| !self.allocators.contains(one)).collect();
        self.allocators.extend_from_slice(&news);
        Ok(Some(news))
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Allocators inside of the process's modules, those that cannot be patched included.
    pub fn allocators(&self) -> &[AllocatorInside] {
        &self.allocators
    }

    /// Sentences about allocators that cannot be patched: what they do is not seen.
    pub fn unseen(&self) -> Vec<String> {
        not_seen(&self.allocators)
    }

    /// The longest time that all threads of the process stood still, while patches were written.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Detaches: the entries are as they were, in children of the process, too, and the library sleeps in it. A process
    /// that has ended is no error.
    pub fn detach(mut self, run: &Path) -> Result<Detached, AttachError> {
        self.done = true;
        let mut detached = self.end(false);
        // Forked children have the patches of their parent, also those that have not come to an allocation.
        for pid in owner::processes().filter(|&pid| pid != self.pid && is_in_run(pid, run) == Some(true)) {
            // This mallow itself has the file mapped.
            if !is_loaded(pid) {
                continue;
            }
            let ended =
                Target::of(pid).and_then(|(target, maps)| match LoadedLibrary::find(pid, &maps, &target.memory)? {
                    Some(library) => detach_from(&target, &library, &present(&self.patched, &maps), true),
                    None => Ok(Detached::now()),
                });
            match ended {
                Err(error) if !error.is_gone() => return Err(error),
                Ok(ended) => detached = detached.map(|all| all.and(ended)),
                Err(_) => {}
            }
        }
        detached
    }

    /// `partly`: some patches may not have been written.
    fn end(&self, partly: bool) -> Result<Detached, AttachError> {
        // Without a turn it goes on after that time: another one must not keep it from restoring the code.
        let _turn = Turn::wait(self.pid, QUIET_MOST, &mut |_| false);
        self.end_in_turn(partly)
    }

    fn end_in_turn(&self, partly: bool) -> Result<Detached, AttachError> {
        let end = || match find_library(self.pid)? {
            Some(library) => {
                // A library that is unloaded meanwhile takes its patches with it.
                let still = || Ok::<_, AttachError>(present(&self.patched, &Maps::read(self.pid)?));
                match detach_from(&self.target, &library, &still()?, partly) {
                    Err(AttachError::Write(WriteError::Changed(_))) => {
                        detach_from(&self.target, &library, &still()?, partly)
                    }
                    ended => ended,
                }
            }
            None => Ok(Detached::now()),
        };
        match end() {
            Err(error) if error.is_gone() || Process::read(self.pid).is_err() => Ok(Detached::now()),
            ended => ended,
        }
    }
}

/// Mallow's library in the process. None: it has become another program.
fn find_library(pid: u32) -> Result<Option<LoadedLibrary>, AttachError> {
    LoadedLibrary::find(pid, &Maps::read(pid)?, &Memory::open(pid)?)
}

/// Sentences about those of `allocators` that cannot be patched.
pub fn not_seen(allocators: &[AllocatorInside]) -> Vec<String> {
    allocators.iter().filter(|one| one.functions == 0).map(preflight::not_seen).collect()
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.end(true);
        }
    }
}

/// Restores the entries, waits until no thread is in the library, and lets that leave its run. `partly`: some of the
/// patches may not be there.
fn detach_from(
    target: &Target,
    library: &LoadedLibrary,
    placed: &[Placed],
    partly: bool,
) -> Result<Detached, AttachError> {
    let (pid, memory) = (target.pid, &target.memory);
    let retried = |act: &mut (dyn FnMut(&mut Stopped) -> Result<bool, AttachError> + Send)| {
        let begin = Instant::now();
        let (mut pause, mut looks) = (Duration::from_millis(1), 0);
        loop {
            let ended = stop(pid, STOP, |stopped| act(stopped));
            looks += 1;
            let least = if looks < QUIET_LOOKS { QUIET_MOST } else { QUIET };
            match ended {
                Ok(Ok(true)) => return Ok(true),
                // A tracer that came meanwhile may go again.
                Ok(Ok(false)) | Err(StopError::Late { .. } | StopError::Obstacle(Obstacle::Traced { .. }))
                    if begin.elapsed() < least => {}
                Ok(Ok(false)) => return Ok(false),
                Ok(Err(error)) => return Err(error),
                Err(error) => return Err(AttachError::from(error)),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    };
    retried(&mut |stopped| match stopped.restore_patches(memory, placed) {
        Err(WriteError::Changed(_)) if partly => Ok(true),
        restored => Ok(restored.map(|()| true)?),
    })?;
    let restored = Instant::now();
    // A filter that was installed meanwhile.
    if !sandbox::is_open(pid) {
        return Ok(Detached { rest: Some(Rest::Sandboxed), restored });
    }
    let mut ranges: Vec<Range<u64>> = placed.iter().map(Placed::range).collect();
    ranges.push(library.code.clone());
    let unwinder = Unwinder::new(&target.modules);
    let gateway = Gateway::find(pid)?;
    // Before all are stopped: that shortens it.
    let room = with_any_thread(pid, gateway, |thread| thread.enter_room(gateway, memory).ok()).flatten();
    let mut has_left = false;
    let quiet = retried(&mut |stopped| {
        if !are_outside(stopped, (memory, &unwinder), &ranges)? {
            return Ok(false);
        }
        library.clear(stopped.threads(), memory)?;
        let fit = |thread: &mut Thread| thread.is_free() && thread.prepare(gateway).is_ok();
        let Some(tid) = stopped.threads_mut().find_map(|thread| fit(thread).then(|| thread.id())) else {
            return Ok(false);
        };
        let leave = |stopped: &mut Stopped| match stopped.threads_mut().find(|thread| thread.id() == tid) {
            Some(thread) => library.leave(thread, (gateway, room), memory, &target.libc),
            None => Ok(()),
        };
        has_left = true;
        leave(stopped)?;
        // Nothing of the run is used any more, and its files can be unmapped while the others run.
        stopped.let_others_go(tid);
        leave(stopped)?;
        if let (Some(thread), Some(room)) = (stopped.threads_mut().find(|thread| thread.id() == tid), room) {
            thread.leave_room(&room)?;
        }
        Ok(true)
    });
    if let Some(room) = room.filter(|_| !has_left) {
        with_any_thread(pid, gateway, |thread| thread.leave_room(&room).ok());
    }
    quiet.map(|quiet| Detached { rest: (!quiet).then_some(Rest::InLibrary), restored })
}

/// Whether no thread is in this code, to which no function leads any more. Threads in it run on alone for some moments:
/// in a storm of allocations there is always one, and it would get no processor for long.
fn are_outside(
    stopped: &mut Stopped,
    (memory, unwinder): (&Memory, &Unwinder),
    ranges: &[Range<u64>],
) -> Result<bool, AttachError> {
    let mut outside = HashSet::new();
    for turn in 1..=ALONE {
        let inside = stopped.refers_to(memory, unwinder, ranges, &mut outside)?;
        if inside.is_empty() {
            return Ok(true);
        }
        if turn < ALONE {
            stopped.run_alone(&inside, Duration::from_micros(100) * turn)?;
        }
    }
    Ok(false)
}

/// Calls `act` with a thread that can make system calls, those that wait first; the others run. None: there is none.
fn with_any_thread<T: Send>(pid: u32, gateway: Gateway, act: impl Fn(&mut Thread) -> T + Sync) -> Option<T> {
    const STOP: Duration = Duration::from_millis(200);
    const TRIED: usize = 20;
    let threads = mallow_patch::waiting_threads_first(pid).ok()?;
    threads.into_iter().take(TRIED).find_map(|tid| {
        let used = |thread: &mut Thread| (thread.is_free() && thread.prepare(gateway).is_ok()).then(|| act(thread));
        stop_thread(pid, tid, STOP, used).ok().flatten()
    })
}
