//! One process file, read while its process writes it. Nothing in it is trusted.

use super::command_line;
use super::owner::{Claim, Owner, OwnerSearch, file_is_locked};
use crate::chunk::{ModuleStart, ProcessStart};
use crate::scan::ExitPoint;
use crate::wire::record::drop_pad;
use crate::wire::{self, Segment, Shared, module, process, sampling, thread};
use mallow_profile::FamilyCounts;
use rustc_hash::FxHashSet;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// How far an image is with its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitState {
    /// The image runs, was let go, or does not wait.
    Not,
    /// The image waits until its memory was scanned.
    Waits,
    /// The image does not wait, because a filter may forbid its system calls.
    Sandboxed,
    /// The image waits no more: mallow was stopped, or did not answer.
    GaveUp,
    /// The image has called exec, and that did not fail.
    Exec,
}

/// A mapped process file, with the layout that was checked when it was opened.
pub struct ProcessFile {
    shared: Shared,
    threads_offset: usize,
    rings_offset: usize,
    max_threads: u32,
    large_words: u64,
    small_words: u64,
    path: PathBuf,
    inode: u64,
    /// The image locked its file: [`file_is_locked`] tells its end.
    held: bool,
    owner: OnceLock<OwnerSearch>,
    /// Process id in the process's own namespace, as the file says.
    pub pid: u32,
    /// Number of the image in the file's name; free again once mallow has removed the file.
    pub serial: u32,
}

pub enum Opened {
    Ready(ProcessFile),
    /// The process has not finished the header: look again.
    Filling,
    /// The file is no process file of this version.
    Foreign,
}

impl ProcessFile {
    /// Opens a process file, and checks its layout; links are not followed.
    pub fn open(path: &Path) -> io::Result<Opened> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Opened::Filling);
        }
        let length = metadata.len();
        if length < process::BYTES as u64 {
            return Ok(Opened::Filling);
        }
        let shared = Shared::map(&file, usize::try_from(length).map_err(io::Error::other)?)?;
        match shared.get32(process::STATE) {
            wire::PROCESS_READY | wire::PROCESS_CLOSED => {}
            _ => return Ok(Opened::Filling),
        }
        if shared.get32(process::MAGIC) != wire::PROCESS_MAGIC || shared.get32(process::VERSION) != wire::VERSION {
            return Ok(Opened::Foreign);
        }
        let (threads_offset, rings_offset) =
            (shared.get64(process::THREADS_OFFSET), shared.get64(process::RINGS_OFFSET));
        let max_threads = shared.get32(process::MAX_THREADS);
        let (large, small) = (shared.get32(process::LARGE_RING_WORDS), shared.get32(process::SMALL_RING_WORDS));
        let modules_end = process::BYTES as u64 + u64::from(wire::MAX_MODULES) * module::BYTES as u64;
        let threads_end = threads_offset.checked_add(u64::from(max_threads) * thread::BYTES as u64);
        let sound = shared.get64(process::MODULES_OFFSET) == process::BYTES as u64
            && threads_offset >= modules_end
            && threads_offset.is_multiple_of(64)
            && rings_offset.is_multiple_of(4096)
            && threads_end.is_some_and(|end| end <= rings_offset)
            && rings_offset <= length
            && large.is_power_of_two()
            && small.is_power_of_two()
            && max_threads > 0;
        if !sound {
            return Ok(Opened::Foreign);
        }
        Ok(Opened::Ready(Self {
            pid: shared.get32(process::PID),
            serial: shared.get32(process::SERIAL),
            threads_offset: threads_offset as usize,
            rings_offset: rings_offset as usize,
            max_threads,
            large_words: large.into(),
            small_words: small.into(),
            path: path.to_owned(),
            inode: metadata.ino(),
            held: shared.get32(process::HELD) != 0,
            owner: OnceLock::new(),
            shared,
        }))
    }

    /// The address of `struct mallow_own` in the memory of the process: what the library has mapped there.
    pub fn own_list(&self) -> u64 {
        self.shared.get64(process::OWN)
    }

    /// What the process says of itself. `number` is its own in the recording, `began_ns` the start of that on
    /// CLOCK_MONOTONIC.
    pub fn process(&self, number: u32, began_ns: u64) -> ProcessStart {
        let text = |offset: usize, length: usize| {
            self.shared.copy_bytes(process::TEXT + offset, length.min(process::BYTES - process::TEXT - offset))
        };
        let most = process::BYTES - process::TEXT;
        let executable = (self.shared.get32(process::EXECUTABLE_LEN) as usize).min(most);
        let origin = self.shared.get32(process::ORIGIN);
        // A program that was executed has not written over its arguments yet.
        let titled = origin == wire::ORIGIN_FORK || origin == wire::ORIGIN_ATTACH;
        ProcessStart {
            process: number,
            pid: self.pid,
            parent_pid: self.shared.get32(process::PARENT_PID),
            serial: self.serial,
            forked: origin == wire::ORIGIN_FORK,
            attached: origin == wire::ORIGIN_ATTACH,
            start_ms: self.start_ns().saturating_sub(began_ns) / 1_000_000,
            settings: self.shared.get32(process::SETTINGS),
            executable: self.path_or_program(&text(0, executable)),
            arguments: command_line::texts(&self.arguments_text(), titled),
        }
    }

    /// Bytes of the file that arguments have room in.
    pub fn arguments_room(&self) -> usize {
        let most = process::BYTES - process::TEXT;
        most - (self.shared.get32(process::EXECUTABLE_LEN) as usize).min(most)
    }

    /// The arguments that the process has noted, each with a NUL byte behind it; the last one may be cut.
    pub fn arguments_text(&self) -> Vec<u8> {
        let room = self.arguments_room();
        let length = (self.shared.get32(process::ARGUMENTS_LEN) as usize).min(room);
        self.shared.copy_bytes(process::BYTES - room, length)
    }

    /// The run directory that the file lies in.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Inode of the file, whose name may come again once it was removed.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// When the image began, on CLOCK_MONOTONIC.
    pub fn start_ns(&self) -> u64 {
        self.shared.get64(process::START_NS)
    }

    /// Whether an image of a sampling run ended by itself: by exit or `_exit`, or by exec of a program that Mallow
    /// sees. False where it goes on, or a signal killed it.
    pub fn ended_in_order(&self) -> bool {
        self.ending() != 0
    }

    /// How an image of a sampling run ended: one of `wire::ENDING_…`; 0: it goes on, was killed, or says nothing.
    pub fn ending(&self) -> u32 {
        let at = self.shared.get64(process::SAMPLING) as usize;
        if at == 0 { 0 } else { self.shared.get32(at.saturating_add(sampling::EXITED)) }
    }

    pub fn exit_state(&self) -> ExitState {
        match self.shared.word32(process::EXIT_STATE).load(Ordering::Acquire) {
            wire::EXIT_WAITS => ExitState::Waits,
            wire::EXIT_SANDBOXED => ExitState::Sandboxed,
            wire::EXIT_GAVE_UP => ExitState::GaveUp,
            wire::EXIT_EXEC => ExitState::Exec,
            _ => ExitState::Not,
        }
    }

    /// Where the thread is that waits at the exit of the image; None: none waits.
    pub fn exit(&self) -> Option<ExitPoint> {
        (self.exit_state() == ExitState::Waits).then(|| ExitPoint {
            sp: self.shared.get64(process::EXIT_SP),
            thread: self.shared.get64(process::EXIT_THREAD),
            signal_stack: self.shared.get64(process::EXIT_SIGNALS),
        })
    }

    /// Lets an image end that waits at its exit. False: it did not wait any more.
    pub fn go_on(&self) -> bool {
        let state = self.shared.word32(process::EXIT_STATE);
        let (from, to) = (wire::EXIT_WAITS, wire::EXIT_GO_ON);
        let waited = state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if waited {
            self.shared.futex_wake(process::EXIT_STATE);
        }
        waited
    }

    /// Usable sizes that the image found its allocator to give, ascending. Empty before its exit, or where a formula
    /// has them.
    pub fn size_classes(&self) -> Vec<u64> {
        let count = self.shared.get32(process::SIZE_CLASSES).min(wire::MAX_SIZE_CLASSES) as usize;
        let usable = |at: usize| u64::from(self.shared.get32(process::USABLE_SIZES + 4 * at));
        let mut all: Vec<u64> = (0..count).map(usable).collect();
        let ascending = all.windows(2).take_while(|two| two[0] < two[1]).count();
        all.truncate(if count == 0 { 0 } else { ascending + 1 });
        all
    }

    pub fn began_with_exec(&self) -> bool {
        self.shared.get32(process::ORIGIN) == wire::ORIGIN_EXEC
    }

    /// Whether mallow attached to the process while it ran.
    pub fn is_attached(&self) -> bool {
        self.shared.get32(process::ORIGIN) == wire::ORIGIN_ATTACH
    }

    pub fn is_forked(&self) -> bool {
        self.shared.get32(process::ORIGIN) == wire::ORIGIN_FORK
    }

    /// Whether the image may have blocks that no event tells of: its parent's, or from before mallow attached.
    pub fn has_older_blocks(&self) -> bool {
        [wire::ORIGIN_FORK, wire::ORIGIN_ATTACH].contains(&self.shared.get32(process::ORIGIN))
    }

    /// Process id of the parent when the image began, in the parent's namespace.
    pub fn parent_pid(&self) -> u32 {
        self.shared.get32(process::PARENT_PID)
    }

    /// Samples that ever began in an image of a sampling run; 0 in other runs.
    pub fn samples(&self) -> u64 {
        let at = self.shared.get64(process::SAMPLING) as usize;
        if at == 0 { 0 } else { self.shared.get64(at.saturating_add(sampling::BEGUN)) }
    }

    /// Modules announced so far.
    pub fn modules(&self) -> u32 {
        self.shared.get32(process::MODULES).min(wire::MAX_MODULES)
    }

    /// Module `index`, below `modules()`. `base_svma` is not in the file: it is 0.
    pub fn module(&self, number: u32, index: u32) -> ModuleStart {
        let at = Self::module_offset(index);
        let id = (self.shared.get32(at + module::BUILD_ID_LEN) as usize).min(module::BUILD_ID_BYTES);
        let path = (self.shared.get32(at + module::PATH_LEN) as usize).min(module::PATH_BYTES);
        ModuleStart {
            process: number,
            start: self.shared.get64(at + module::START),
            end: self.shared.get64(at + module::END),
            base_svma: 0,
            generation: self.shared.get32(at + module::GENERATION),
            build_id: self.shared.copy_bytes(at + module::BUILD_ID, id),
            path: self.path_or_program(&self.shared.copy_bytes(at + module::PATH, path)),
        }
    }

    /// A path that the process wrote. The executable has none where the process has no `/proc` to ask: the path that it
    /// has here is as good. The kernel's mark of a file that was removed is taken off.
    fn path_or_program(&self, path: &[u8]) -> String {
        let found = if path.is_empty() { self.writer().and_then(Owner::executable) } else { None };
        let found =
            found.map_or_else(|| String::from_utf8_lossy(path).into_owned(), |p| p.to_string_lossy().into_owned());
        match found.strip_suffix(" (deleted)") {
            Some(path) if !Path::new(&found).exists() => path.to_owned(),
            _ => found,
        }
    }

    fn module_offset(index: u32) -> usize {
        process::BYTES + index as usize * module::BYTES
    }

    /// Whether the process waits for the table of module `index`.
    pub fn module_wanted(&self, index: u32) -> bool {
        self.shared.get32(Self::module_offset(index) + module::STATUS) == wire::MODULE_WANTED
    }

    /// Answers a process that waits for a table: it is there, or there is none. A process that waits no more keeps its
    /// word that this came too late.
    pub fn module_answer(&self, index: u32, ready: bool) {
        let at = Self::module_offset(index) + module::STATUS;
        let answer = if ready { wire::MODULE_READY } else { wire::MODULE_WITHOUT };
        self.shared.replace32(at, wire::MODULE_WANTED, answer);
        self.shared.futex_wake(at);
    }

    /// For how many modules the process, or the one that it was forked from, waited in vain: stacks are cut there.
    pub fn late_tables(&self) -> u64 {
        let is_late =
            |index: &u32| self.shared.get32(Self::module_offset(*index) + module::STATUS) == wire::MODULE_LATE;
        (0..self.modules()).filter(is_late).count() as u64
    }

    /// Id of the thread that has block `index`, in the numbers of its namespace; None: no thread has it.
    pub fn owner_tid(&self, index: u32) -> Option<u32> {
        let at = self.thread_offset(index);
        let owned = self.shared.get32(at + thread::OWNER) == wire::THREAD_OWNED;
        owned.then(|| self.shared.get32(at + thread::TID)).filter(|tid| *tid != 0)
    }

    pub fn threads(&self) -> u32 {
        self.shared.get32(process::THREADS).min(self.max_threads)
    }

    fn thread_offset(&self, index: u32) -> usize {
        self.threads_offset + index as usize * thread::BYTES
    }

    /// Words that the owner of ring `index` has written since the ring began: the head never goes back.
    pub fn head(&self, index: u32) -> u64 {
        self.shared.get64(self.thread_offset(index) + thread::HEAD)
    }

    /// Words of ring `index` that were read since the ring began.
    pub fn tail(&self, index: u32) -> u64 {
        self.shared.get64(self.thread_offset(index) + thread::TAIL)
    }

    /// Gives the words below `tail` back to the owner, and wakes it if it waits.
    pub fn set_tail(&self, index: u32, tail: u64) {
        let at = self.thread_offset(index);
        self.shared.word64(at + thread::TAIL).store(tail, Ordering::SeqCst);
        let waiting = self.shared.word32(at + thread::WAITING);
        // The owner sets `waiting`, then looks at tail; we set tail, then look at `waiting`.
        if waiting.load(Ordering::SeqCst) != 0 && waiting.swap(0, Ordering::SeqCst) != 0 {
            self.shared.futex_wake(at + thread::TAIL);
        }
    }

    /// Size of ring `index` in words: a power of two, as the process says, or as many as the ring has room for. A ring
    /// grows: ask after [`head`](Self::head).
    pub fn ring_words(&self, index: u32) -> u64 {
        let most = if index < wire::LARGE_RINGS { self.large_words } else { self.small_words };
        let words = u64::from(self.shared.get32(self.thread_offset(index) + thread::RING_WORDS));
        if words.is_power_of_two() && words < most { words } else { most }
    }

    fn ring_offset(&self, index: u32) -> usize {
        let large = u64::from(index.min(wire::LARGE_RINGS));
        let words = large * self.large_words + (u64::from(index) - large) * self.small_words;
        self.rings_offset + words as usize * 8
    }

    /// The words between `from` and `to` (`from <= to <= from + ring_words`), in two pieces where the ring ends between
    /// them. None where the file is too small for its own layout.
    pub fn ring_segments(&self, index: u32, from: u64, to: u64) -> Option<[Segment<'_>; 2]> {
        let size = self.ring_words(index);
        let start = self.ring_offset(index);
        let first = (size - (from & (size - 1))).min(to - from);
        Some([
            self.shared.segment(start + (from & (size - 1)) as usize * 8, first as usize)?,
            self.shared.segment(start, (to - from - first) as usize)?,
        ])
    }

    /// Appends the records between `from` and `to` to `words`, without PAD; the bounds are as in
    /// [`ring_segments`](Self::ring_segments).
    pub fn read_ring(&self, index: u32, from: u64, to: u64, words: &mut Vec<u64>) {
        let size = self.ring_words(index);
        let start = self.ring_offset(index);
        let first = (size - (from & (size - 1))).min(to - from);
        let kept = words.len();
        self.shared.copy_words(start + (from & (size - 1)) as usize * 8, first as usize, words);
        drop_pad(words, kept, first as usize);
        self.shared.copy_words(start, (to - from - first) as usize, words);
    }

    /// Events lost in all threads, or that found no thread block.
    pub fn lost(&self) -> u64 {
        (0..self.threads())
            .map(|i| self.shared.get64(self.thread_offset(i) + thread::LOST))
            .fold(self.shared.get64(process::UNRECORDED), u64::saturating_add)
    }

    /// Gives the blocks of threads that no longer exist to new ones. Threads do so themselves at their end; those that
    /// allocate even later take a block again and cannot.
    ///
    /// Thread ids of another pid namespace cannot be looked up: there, threads alone give their blocks back.
    ///
    /// Looks at 256 blocks at the most, from block `from` on, which takes half a millisecond. Returns where to go on.
    pub fn reclaim(&self, from: u32) -> u32 {
        const TOGETHER: u32 = 256;
        if !self.writer().is_some_and(|writer| writer.is_in_own_namespace_as(self.pid)) {
            return 0;
        }
        let threads = self.threads();
        let end = from.saturating_add(TOGETHER).min(threads);
        for index in from..end {
            let at = self.thread_offset(index);
            let owner = self.shared.word32(at + thread::OWNER);
            let tid = self.shared.get32(at + thread::TID);
            if owner.load(Ordering::Acquire) == wire::THREAD_OWNED
                && tid != 0
                && !Path::new(&format!("/proc/{}/task/{tid}", self.pid)).exists()
            {
                let _ =
                    owner.compare_exchange(wire::THREAD_OWNED, wire::THREAD_FREE, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        if end < threads { end } else { 0 }
    }

    pub fn close(&self) {
        self.shared.set32(process::STATE, wire::PROCESS_CLOSED);
    }

    /// Sums of the counters of all threads, in counting mode, and the events that were not counted.
    pub fn counters(&self) -> (FamilyCounts, u64) {
        let mut sum = FamilyCounts::default();
        for index in 0..self.threads() {
            let at = self.thread_offset(index);
            let word = |offset: usize| self.shared.get64(at + offset);
            for (family, counter) in sum.calls.iter_mut().enumerate() {
                counter.0 = counter.0.saturating_add(word(thread::COUNTER + 16 * family));
                counter.1 = counter.1.saturating_add(word(thread::COUNTER + 16 * family + 8));
            }
            sum.frees = sum.frees.saturating_add(word(thread::FREES));
            sum.realloc_frees = sum.realloc_frees.saturating_add(word(thread::REALLOC_FREES));
            sum.reallocs_in_place = sum.reallocs_in_place.saturating_add(word(thread::REALLOC_IN_PLACE));
            sum.reallocs_moved = sum.reallocs_moved.saturating_add(word(thread::REALLOC_MOVED));
        }
        (sum, self.shared.get64(process::UNRECORDED))
    }

    /// The process that writes the file; None where it was gone when this was asked first, or cannot be found.
    pub fn writer(&self) -> Option<Owner> {
        match self.owner() {
            OwnerSearch::Found(writer) => Some(writer),
            OwnerSearch::Gone | OwnerSearch::Hidden => None,
        }
    }

    /// Process id as mallow sees it; where the process is not found, the one in its own namespace.
    pub fn pid_here(&self) -> u32 {
        self.writer().map_or(self.pid, Owner::pid)
    }

    fn owner(&self) -> OwnerSearch {
        *self.owner.get_or_init(|| Owner::find(&self.claim()))
    }

    /// Whether process `pid` writes the file.
    pub fn is_written_by(&self, pid: u32) -> bool {
        Owner::with_pid(pid, &self.claim()).is_some()
    }

    fn claim(&self) -> Claim<'_> {
        let name = self.path.file_name().unwrap_or_default().as_encoded_bytes();
        Claim { inode: self.inode, pid: self.pid, start_ns: self.start_ns(), name }
    }

    /// Whether the image that writes the file lives: its process exists, is no zombie, and did not exec. A lock that is
    /// gone is the kernel's word for its end, in whatever namespace. A lock that is there may be a forked child's: then
    /// the process counts, unless nobody may look at it.
    pub fn alive(&self) -> bool {
        let locked = self.held.then(|| file_is_locked(&self.path, self.inode)).flatten();
        if locked == Some(false) {
            return false;
        }
        match self.owner() {
            OwnerSearch::Found(writer) => writer.alive(),
            OwnerSearch::Gone => false,
            OwnerSearch::Hidden => locked == Some(true),
        }
    }

    /// Whether the process still has the image's memory: then all that was read of it so far is the image's. An exec
    /// gives the process another memory, frees the old one, which takes 10 ms for 100 MB, and closes files only then:
    /// until then the image seems alive. False also where nobody may look: after an exec of another user's program the
    /// list of the old memory's pages is empty, too, and that is no answer.
    pub fn has_memory(&self) -> bool {
        self.writer().is_some_and(|writer| writer.has_mapped(&self.claim())) && self.alive()
    }
}

/// The process files of a run directory that are complete, and of this version.
pub fn process_files(directory: &Path) -> Vec<ProcessFile> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"p-"))
        .filter_map(|entry| match ProcessFile::open(&entry.path()) {
            Ok(Opened::Ready(source)) => Some(source),
            _ => None,
        })
        .collect()
}

/// Names of the files of a run directory that are not in `seen`, by the start of their images, with the opened file;
/// None: it is no process file of this version. Files that are not complete yet are left for another look.
pub fn unseen(directory: &Path, seen: &FxHashSet<OsString>) -> Vec<(OsString, Option<ProcessFile>)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .filter(|name| name.as_encoded_bytes().starts_with(b"p-") && !seen.contains(name))
        .filter_map(|name| match ProcessFile::open(&directory.join(&name)) {
            Ok(Opened::Ready(source)) => Some((name, Some(source))),
            Ok(Opened::Foreign) => Some((name, None)),
            Ok(Opened::Filling) | Err(_) => None,
        })
        .collect();
    found.sort_by_key(|(_, source)| source.as_ref().map_or(0, ProcessFile::start_ns));
    found
}
