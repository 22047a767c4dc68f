//! Reading a program that is sampled: its run directory, whoever started it, while it goes on or after it.
//!
//! What happened comes as [`SampleEvent`]s. The target waits for nobody: a look reads which samples are live and which
//! ended since the last one, and reports what was overwritten in between.
//!
//! A look has a moment, and reports what was so at that moment. A target goes on while it is read, so what it did since
//! then is seen in part; it waits for the next look.

mod backlog;
pub mod candidates;
mod glance;
mod image;
mod join;
pub(crate) mod slots;
mod table_maker;
#[cfg(test)]
mod tests;

use self::image::{Common, Image};
use self::slots::Layout;
use crate::footprint::{Subject, account};
use crate::launch::outsiders::Outsiders;
use crate::preflight::{Purpose, Runtimes, executed_names};
use crate::rundir::changes::DirectoryChanges;
use crate::rundir::directory::{self, About, about, monotonic_ns, name_of, tick_ns, tick_unix_ms};
use crate::rundir::doorbell;
use crate::rundir::owner::Owner;
use crate::rundir::presence::Presence;
use crate::rundir::process_file;
use crate::session::leftovers;
use crate::wire::{self, Shared, control};
use mallow_profile::{Footprint, Lost, Process, ProcessId, Profile, SampleEvent, StackId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::mem::swap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use glance::Turn;
pub use join::directory_of;
pub use table_maker::TableMaker;

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// Another user owns the process.
    #[error("process {0} is another user's: watch it as that user, or as root")]
    NotYours(u32),
    /// The process takes part in no run.
    #[error("process {0} is not sampled: mallow watch -p {0} begins that")]
    NotOurs(u32),
    /// The directory is that of another kind of run.
    #[error("{0} is not sampled: it was made by mallow record or mallow stat")]
    NotSampled(PathBuf),
    /// Process id of another mallow that watches.
    #[error("process {0} watches it already; --period with --set, and --stop work all the same")]
    Busy(u32),
    /// The directory is none of a run, or not of this version.
    #[error("{path} is no run directory of this mallow: {error}")]
    Directory { path: PathBuf, error: io::Error },
}

/// The control file of a sampled run: every process of it reads there how much is sampled.
pub struct Control {
    shared: Shared,
}

impl Control {
    /// Fails where the directory is none of a sampled run of this version.
    pub fn open(directory: &Path) -> Result<Self, WatchError> {
        let failed = |error| WatchError::Directory { path: directory.to_owned(), error };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let opened = options.open(directory.join("control")).and_then(|file| Shared::map(&file, control::FILE_BYTES));
        let shared = opened.map_err(failed)?;
        let known =
            shared.get32(control::MAGIC) == wire::CONTROL_MAGIC && shared.get32(control::VERSION) == wire::VERSION;
        if !known {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is of another version")));
        }
        match shared.get32(control::MODE) {
            wire::MODE_SAMPLE | wire::MODE_DORMANT => Ok(Self { shared }),
            _ => Err(WatchError::NotSampled(directory.to_owned())),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Mean distance in allocated bytes between two picked allocations.
    pub fn period(&self) -> u64 {
        self.shared.get64(control::PERIOD)
    }

    /// Sets the period, in bytes. Targets follow at their next pick, or within a megabyte.
    pub fn set_period(&self, period: u64) {
        self.shared.set64(control::PERIOD, period.clamp(1, wire::PERIOD_MOST));
    }

    /// Says to processes that the keeper of their guarded slots is gone: none waits for it any more.
    pub fn without_keeper(&self) {
        self.shared.set32(control::GUARD_KEEPER, 0);
    }

    /// Whether anything new is sampled.
    pub fn sampling(&self) -> bool {
        self.shared.get32(control::MODE) == wire::MODE_SAMPLE
    }

    pub fn set_sampling(&self, on: bool) {
        self.shared.set32(control::MODE, if on { wire::MODE_SAMPLE } else { wire::MODE_DORMANT });
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Looked {
    /// CLOCK_MONOTONIC at the kernel's last tick.
    pub at_ns: u64,
    /// Milliseconds since 1970 UTC at the same tick.
    pub unix_ms: u64,
    /// CLOCK_MONOTONIC itself, up to a tick later: how long something took, where that may be less than a tick.
    pub clock_ns: u64,
}

impl Looked {
    /// The last tick, by both clocks: the kernel sets them at once.
    fn now() -> Self {
        loop {
            let (at_ns, unix_ms) = (tick_ns(), tick_unix_ms());
            if tick_ns() == at_ns {
                return Self { at_ns, unix_ms, clock_ns: monotonic_ns() };
            }
        }
    }
}

pub struct Watch {
    directory: PathBuf,
    about: About,
    control: Control,
    /// Somebody may write into the directory, and this reads all of it.
    live: bool,
    presence: Option<Presence>,
    images: Vec<Image>,
    seen: FxHashSet<OsString>,
    changes: DirectoryChanges,
    /// Value of the doorbell when the directory was listed last, and in `rung` when [`Watch::rang`] was asked.
    rung_when_listed: Option<u32>,
    rung: u32,
    common: Common,
    profile: Profile,
    began_ns: u64,
    looked: Looked,
    /// Pids of processes that ended without their exit handlers.
    abrupt: FxHashSet<u32>,
    /// Number of processes that could not take part, as reported so far.
    failed: u32,
    /// Runtimes for [`Watch::find_runtimes`]; and the images that it has not looked at, with what their environment
    /// says of allocators.
    runtimes: Runtimes,
    new_images: Vec<(ProcessId, u32)>,
    /// Images that are over, whose stacks are still asked for; None: nobody asks.
    ended: Option<Vec<Image>>,
}

impl Watch {
    /// Watches the program that runs in this directory, and says to it that mallow reads. Fails where another mallow
    /// does.
    pub fn open(directory: &Path) -> Result<Self, WatchError> {
        Self::open_with(directory, &TableMaker::start())
    }

    /// [`Watch::open`] for many watches, whose tables one thread makes.
    pub fn open_with(directory: &Path, tables: &TableMaker) -> Result<Self, WatchError> {
        let failed = |error| WatchError::Directory { path: directory.to_owned(), error };
        let mut watch = Self::new(directory, true, tables)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let presence = options.open(directory.join("control")).and_then(|file| Presence::begin(&file));
        watch.presence = Some(presence.map_err(failed)?);
        watch.control.shared.set32(control::READER_PID, std::process::id());
        Ok(watch)
    }

    /// Reads what a program left behind in this directory, that nobody writes or reads any more.
    pub fn left(directory: &Path) -> Result<Self, WatchError> {
        Self::new(directory, false, &TableMaker::start())
    }

    fn new(directory: &Path, live: bool, tables: &TableMaker) -> Result<Self, WatchError> {
        let failed = |error| WatchError::Directory { path: directory.to_owned(), error };
        if !live {
            leftovers::check_owner(directory).map_err(failed)?;
        }
        let control = Control::open(directory)?;
        let known = leftovers::control(directory).map_err(failed)?;
        if let Some(pid) = leftovers::reader(directory, &known).filter(|&pid| pid != std::process::id()) {
            return Err(WatchError::Busy(pid));
        }
        let about = about(directory).map_err(failed)?;
        let profile =
            Profile { command: about.command.clone(), started_unix_ms: about.started_unix_ms, ..Profile::default() };
        Ok(Self {
            directory: directory.to_owned(),
            about,
            control,
            live,
            presence: None,
            images: Vec::new(),
            seen: FxHashSet::default(),
            changes: DirectoryChanges::default(),
            rung_when_listed: None,
            rung: 0,
            common: Common::new(tables.sender()),
            profile,
            began_ns: monotonic_ns(),
            looked: Looked::now(),
            abrupt: FxHashSet::default(),
            failed: 0,
            runtimes: Runtimes::default(),
            new_images: Vec::new(),
            ended: None,
        })
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Strings, modules, frames, stacks and processes that events name; frames have no names yet.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// [`Watch::profile`], for names to be put in.
    pub fn profile_mut(&mut self) -> &mut Profile {
        &mut self.profile
    }

    /// Adds runtimes that allocate past malloc, in the programs of new processes, to the profile. Reads each program's
    /// file once, which takes some milliseconds.
    pub fn find_runtimes(&mut self) {
        let Profile { processes, custom_allocators, .. } = &mut self.profile;
        for (id, settings) in self.new_images.drain(..) {
            let Some(process) = processes.get(id.0 as usize) else { continue };
            let how = (settings, process.attached);
            custom_allocators.extend(self.runtimes.of(id, &process.executable, &process.arguments, how));
        }
    }

    /// What blocks are picked for, as [`Watch::find_runtimes`] says of what has none.
    pub fn set_purpose(&mut self, purpose: Purpose) {
        self.runtimes.set_purpose(purpose);
    }

    /// When this watch began, on CLOCK_MONOTONIC.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// When the latest look was: [`Watch::poll`] has reported what happened before, and nothing that happened since.
    pub fn looked(&self) -> Looked {
        self.looked
    }

    /// How many process images run.
    pub fn running(&self) -> usize {
        self.images.len()
    }

    pub fn runs(&self, process: ProcessId) -> bool {
        self.images.iter().any(|image| image.id == process)
    }

    /// Process id as mallow sees it; None: the process does not run, or cannot be found.
    pub fn pid_here(&self, process: ProcessId) -> Option<u32> {
        let image = self.images.iter().find(|image| image.id == process)?;
        image.source.writer().map(|writer| writer.pid())
    }

    /// What the kernel accounts for of the processes that run, without pages. Takes some 8 ms a gibibyte of RSS, and
    /// their `mmap` waits for a part of that.
    pub fn footprints(&self) -> Vec<Footprint> {
        let directory = name_of(&self.directory);
        let of = |image: &Image| {
            let pid = image.source.writer()?.pid();
            let (own_list, sampled) = (image.source.own_list(), image.sampled());
            let subject = Subject {
                pid,
                process: image.id.0,
                directory,
                own_list,
                sampled: &sampled,
                has_older_blocks: true,
                is_at_exit: false,
            };
            account(&subject).ok().filter(|_| image.source.alive())
        };
        self.images.iter().filter_map(of).collect()
    }

    /// Whether process `pid`, in its own namespace, ended without its exit handlers: by a signal, or with `_exit`.
    pub fn ended_abruptly(&self, pid: u32) -> bool {
        self.abrupt.contains(&pid)
    }

    /// From here on [`Watch::stack`] answers for images that are over, too.
    pub fn keep_ended(&mut self) {
        self.ended = Some(Vec::new());
    }

    /// The stack of a process image, by pid and serial, that has these addresses, the outermost first. None: nothing is
    /// known of the image.
    pub fn stack(&mut self, image: (u32, u32), generation: u32, pcs: &[u64], cut: bool) -> Option<StackId> {
        let is_it = |one: &Image| (one.source.pid, one.source.serial) == image;
        if !self.images.iter().chain(self.ended.iter().flatten()).any(is_it) {
            // It began after the last look.
            self.discover();
        }
        self.exchange();
        let all = self.images.iter_mut().chain(self.ended.iter_mut().flatten());
        let stack =
            all.filter(|image| is_it(image)).last().map(|image| image.interned(&mut self.common, generation, pcs, cut));
        self.exchange();
        stack
    }

    /// Sleeps for `longest`, or until a process waits for something.
    pub fn sleep(&self, longest: Duration) {
        let rung = self.control.shared.get32(control::DOORBELL);
        self.control.shared.futex_wait(control::DOORBELL, rung, longest);
    }

    /// Sleeps until a process has rung since the last look, or a signal comes, for `longest` at most.
    pub fn rest(&self, longest: Duration) {
        let shared = &self.control.shared;
        let rung = self.rung_when_listed.unwrap_or_else(|| shared.get32(control::DOORBELL));
        doorbell::sleep(shared, rung, longest);
    }

    /// [`Watch::poll`] for a caller that wants no events: what was sampled is not read.
    pub fn attend(&mut self) {
        self.look(None, false);
    }

    /// Reports what happened between the last look and this one, and lets targets know that somebody looks.
    pub fn poll(&mut self, each: &mut dyn FnMut(SampleEvent)) {
        self.look(Some(each), false);
    }

    /// `glances`: images that seem to do nothing are passed over. Without `each`, what was sampled is not read.
    fn look(&mut self, each: Option<&mut dyn FnMut(SampleEvent)>, glances: bool) {
        let reads = each.is_some();
        let mut nobody = |_: SampleEvent| {};
        let each = each.unwrap_or(&mut nobody);
        let duration_ms = self.give_sign(monotonic_ns());
        let unreached = Outsiders::of(&self.control.shared).count();
        let failed = self.control.shared.get32(control::FAILED_PROCESSES).saturating_add(unreached);
        // An exec that failed takes its note back.
        if failed > self.failed {
            let lost = Lost { unsampled: (failed - self.failed).into(), ..Lost::default() };
            each(SampleEvent::Lost { process: None, lost });
            self.failed = failed;
        }
        self.exchange();
        self.discover();
        let over = self.over();
        // Before anything is read, and after all that ends was found to have ended.
        self.looked = Looked::now();
        let at_ns = self.looked.at_ns;
        for image in self.images.iter_mut().filter(|image| !over.contains(&image.id)) {
            match reads {
                true if glances && !image.has_news() => {}
                true => image.look(&mut self.common, at_ns, false, each),
                false => image.modules(&mut self.common),
            }
        }
        for id in over {
            let Some(at) = self.images.iter().position(|image| image.id == id) else { continue };
            let mut image = self.images.remove(at);
            // Nobody writes it any more: what it holds now is all.
            match reads {
                true => image.look(&mut self.common, at_ns, true, each),
                false => image.modules(&mut self.common),
            }
            each(SampleEvent::ProcessEnded { process: id, at_ns });
            if !image.source.ended_in_order() && !image.replaced && !image.source.alive() {
                self.abrupt.insert(image.source.pid);
            }
            if let Some(process) = self.profile.processes.get_mut(id.0 as usize) {
                process.end_ms = duration_ms;
            }
            if self.live && std::fs::remove_file(self.directory.join(&image.name)).is_ok() {
                // A later image of this pid may take the name.
                self.seen.remove(&image.name);
            }
            if let Some(ended) = &mut self.ended {
                ended.push(image);
            }
        }
        self.exchange();
    }

    /// Lets targets know that somebody looks. Returns how long the program has run, in milliseconds.
    fn give_sign(&mut self, now_ns: u64) -> u64 {
        let ms = now_ns.saturating_sub(self.about.started_ns) / 1_000_000;
        if self.live {
            self.control.shared.set64(control::EPOCH, ms + 1);
        }
        self.profile.duration_ms = ms;
        ms
    }

    /// Hands modules, frames and stacks over: they are the profile's between looks, and the catalog's within.
    fn exchange(&mut self) {
        let (profile, catalog) = (&mut self.profile, &mut self.common.catalog);
        swap(&mut profile.modules, &mut catalog.modules);
        swap(&mut profile.frames, &mut catalog.frames);
        swap(&mut profile.stacks, &mut catalog.stacks);
    }

    fn discover(&mut self) {
        // A file that was not complete when it was listed rings when it is.
        let rung = Some(self.control.shared.get32(control::DOORBELL));
        let rang = std::mem::replace(&mut self.rung_when_listed, rung) != rung;
        if !self.changes.since_last(&self.directory) && !rang {
            return;
        }
        for (name, source) in process_file::unseen(&self.directory, &self.seen) {
            self.seen.insert(name.clone());
            let Some((source, layout)) = source.and_then(|source| Layout::of(&source).map(|layout| (source, layout)))
            else {
                continue;
            };
            let id = ProcessId(self.profile.processes.len() as u32);
            let start = source.process(id.0, self.about.started_ns);
            self.profile.processes.push(Process {
                pid: start.pid,
                parent_pid: start.parent_pid,
                serial: start.serial,
                forked: start.forked,
                attached: start.attached,
                executable: start.executable,
                arguments: start.arguments,
                start_ms: start.start_ms,
                ..Process::default()
            });
            executed_names::set(&mut self.profile.processes[id.0 as usize..]);
            self.new_images.push((id, start.settings));
            self.images.push(Image::new(source, layout, id, name));
        }
    }

    /// The images whose process is gone or has become another one; all, where nobody writes any more. The other images
    /// inherit what their parents have left them, where those are gone.
    fn over(&mut self) -> Vec<ProcessId> {
        let mut newest: FxHashMap<Owner, u64> = FxHashMap::default();
        for image in &self.images {
            let Some(writer) = image.source.writer() else { continue };
            let start = newest.entry(writer).or_default();
            *start = (*start).max(image.source.start_ns());
        }
        let pids: FxHashSet<u32> = self.images.iter().map(|image| image.source.pid).collect();
        let mut over = Vec::new();
        for image in &mut self.images {
            let newest = image.source.writer().and_then(|writer| newest.get(&writer));
            image.replaced = newest.is_some_and(|&newest| newest > image.source.start_ns());
            if !self.live || image.replaced || !image.source.alive() {
                over.push(image.id);
            }
            let parent = self.profile.processes.get(image.id.0 as usize).map_or(0, |process| process.parent_pid);
            if !image.heir && !pids.contains(&parent) {
                image.become_heir();
            }
        }
        over
    }

    /// Clauses: why programs that were executed cannot be sampled, as they are out of reach.
    pub fn unreached(&self) -> Vec<String> {
        Outsiders::of(&self.control.shared).sentences()
    }

    /// Removes the directory; the program must have ended, and been read to its end.
    pub fn remove(self) {
        directory::remove(&self.directory);
    }

    /// Leaves the program running, and dormant.
    pub fn leave(mut self) {
        self.control.set_sampling(false);
        self.control.shared.set32(control::READER_PID, 0);
        self.presence = None;
    }
}
