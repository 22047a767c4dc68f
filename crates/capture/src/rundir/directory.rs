//! The run directory: private, on tmpfs where there is one, and readable later.

use super::presence::Presence;
use crate::accounts::Options;
use crate::wire::{self, Shared, control};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug)]
pub struct Settings {
    pub mode: Mode,
    /// Most frames that a stack keeps.
    pub max_depth: u32,
    /// Processes that the command starts are recorded, too.
    pub children: bool,
    pub regions: Regions,
    /// Which traced images wait at their exit until mallow has looked for lost blocks in their memory.
    pub scan: Scans,
    /// The memory of processes is read: a traced image that exits waits for the last reading.
    pub memory: bool,
    /// Command lines are noted with their arguments; else, their first words alone.
    pub arguments: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scans {
    #[default]
    None,
    /// Images that did not begin with fork, as long as their exits take little of the run's time.
    Cheap,
    /// All images, however long they wait.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Counters are kept, and no events.
    Count,
    /// Every event is recorded, with its stack.
    Trace,
    /// Nothing is recorded, but measured regions run as they do when counted.
    Idle,
    /// Allocations picked at random are recorded, with their stacks.
    Sample,
    /// Nothing is picked until the mode changes to [`Mode::Sample`].
    Dormant,
}

impl Mode {
    fn word(self) -> u32 {
        match self {
            Self::Count => wire::MODE_COUNT,
            Self::Trace => wire::MODE_TRACE,
            Self::Idle => wire::MODE_IDLE,
            Self::Sample => wire::MODE_SAMPLE,
            Self::Dormant => wire::MODE_DORMANT,
        }
    }

    /// Whether this is one of the two modes that may take each other's place while the command runs.
    fn is_sampled(self) -> bool {
        matches!(self, Self::Sample | Self::Dormant)
    }
}

/// How measured regions run; `preload/include/mallow.h` describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Runs before the measured ones.
    pub warmups: u32,
    pub runs: u32,
    /// Operations that a run is to perform; 0: as many as the program likes.
    pub operations: u32,
    /// How long the beginning and the end of a run wait for other threads at the most.
    pub quiet_ms: u32,
    /// How long the end of a measured run waits at the most until nothing of it is unfreed; 0: not at all.
    pub settle_ms: u32,
    /// Each process image proves at its start that it counts.
    pub self_check: bool,
}

impl Default for Regions {
    /// Runs each region once, as without Mallow.
    fn default() -> Self {
        Self { warmups: 0, runs: 1, operations: 0, quiet_ms: 1000, settle_ms: 0, self_check: false }
    }
}

/// Words of the rings: the first few threads of a process have large ones. Small enough to stay in the caches, large
/// enough for the reader to sleep a millisecond while a thread allocates at full speed.
const LARGE_RING_WORDS: u32 = 32 * 1024;
const SMALL_RING_WORDS: u32 = 16 * 1024;
const TRACE_THREADS: u32 = 2048;
const COUNT_THREADS: u32 = 16384;

/// Bytes from one sample to the next, on average, by default.
pub const PERIOD: u32 = 512 << 10;
/// Limits of a process in sampling mode, whose file is sparse: slots for a heap of 128 GiB in small blocks, the last
/// few thousand ends, and some ten thousand stacks.
const MAX_SLOTS: u32 = 1 << 18;
const MAX_ENDS: u32 = 1 << 13;
const STACK_BYTES: u64 = 8 << 20;

/// A run directory of this mallow. Dropping it ends the recording, and removes the directory unless it is kept or left.
pub struct RunDirectory {
    path: PathBuf,
    control: Shared,
    /// None: nobody reads any more, or as yet.
    presence: Option<Presence>,
    began: Instant,
    keep: bool,
    left: bool,
}

/// What a run directory says about the run, for those who read it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub command: Vec<String>,
    /// Wall clock at the start, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// CLOCK_MONOTONIC at the start, in nanoseconds.
    pub started_ns: u64,
}

impl About {
    pub fn options(&self) -> Options {
        Options { command: self.command.clone(), started_unix_ms: self.started_unix_ms }
    }
}

/// Last part of a run directory's path, by which its files are known among mappings; empty where it has none.
pub fn name_of(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

impl RunDirectory {
    /// Makes a private directory with its control file, and says that mallow reads.
    pub fn create(settings: &Settings, command: &[String]) -> io::Result<Self> {
        wire::faults::survive();
        let path = make_private_directory()?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path.join("control"))
            .inspect_err(|_| remove(&path))?;
        let made = (|| {
            // Written, not only extended: on a full file system this fails here, and not as a SIGBUS later.
            (&file).write_all(&[0; control::FILE_BYTES])?;
            DirBuilder::new().mode(0o700).create(path.join(TABLES))?;
            // One moment for both clocks: processes say when they began by the first, and end by the second.
            let (began_ns, began) = (monotonic_ns(), Instant::now());
            let mut about = Vec::new();
            writeln!(about, "{} {began_ns}", unix_ms())?;
            for argument in command.iter().take(if settings.arguments { usize::MAX } else { 1 }) {
                about.extend_from_slice(argument.as_bytes());
                about.push(0);
            }
            fs::write(path.join("about"), about)?;
            Ok::<_, io::Error>((Shared::map(&file, control::FILE_BYTES)?, Presence::begin(&file)?, began))
        })();
        drop(file);
        let (shared, presence, began) = made.inspect_err(|_| remove(&path))?;
        shared.set32(control::VERSION, wire::VERSION);
        shared.set32(control::MODE, settings.mode.word());
        let children = if settings.children { 0 } else { wire::NO_CHILDREN };
        let self_check = if settings.regions.self_check { wire::SELF_CHECK } else { 0 };
        let scan = match settings.scan {
            Scans::None => 0,
            Scans::Cheap => wire::SCAN,
            Scans::All => wire::SCAN | wire::SCAN_FORKED,
        };
        let memory = if settings.memory { wire::MEMORY } else { 0 };
        let arguments = if settings.arguments { 0 } else { wire::NO_ARGUMENTS };
        shared.set32(control::FLAGS, children | self_check | scan | memory | arguments);
        shared.set32(control::WARMUPS, settings.regions.warmups);
        shared.set32(control::RUNS, settings.regions.runs);
        shared.set32(control::OPERATIONS, settings.regions.operations);
        shared.set32(control::QUIET_MS, settings.regions.quiet_ms);
        shared.set32(control::SETTLE_MS, settings.regions.settle_ms);
        shared.set32(control::MAX_DEPTH, settings.max_depth.clamp(1, wire::DEPTH_LIMIT));
        shared.set32(control::READER_PID, std::process::id());
        shared.set32(control::LARGE_RING_WORDS, LARGE_RING_WORDS);
        shared.set32(control::SMALL_RING_WORDS, SMALL_RING_WORDS);
        shared.set32(control::MAX_THREADS, if settings.mode == Mode::Trace { TRACE_THREADS } else { COUNT_THREADS });
        shared.set64(control::PERIOD, PERIOD.into());
        shared.set64(control::STACK_BYTES, STACK_BYTES);
        shared.set32(control::MAX_SLOTS, MAX_SLOTS);
        shared.set32(control::MAX_ENDS, MAX_ENDS);
        shared.set64(control::EPOCH, 1);
        shared.set32(control::MAGIC, wire::CONTROL_MAGIC);
        Ok(Self { path, control: shared, presence: Some(presence), began, keep: false, left: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn name(&self) -> &str {
        name_of(&self.path)
    }

    pub fn control(&self) -> &Shared {
        &self.control
    }

    /// Milliseconds since the directory was made, from 1 on: what the epoch counts.
    pub fn elapsed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// Images that could not make their file and went unrecorded.
    pub fn failed_processes(&self) -> u32 {
        self.control.get32(control::FAILED_PROCESSES)
    }

    /// Stops recording in all targets, for good.
    pub fn end(&self) {
        self.control.set64(control::EPOCH, wire::EPOCH_OVER);
    }

    /// Whether processes of the run walk stacks, now or later.
    pub fn has_stacks(&self) -> bool {
        ![wire::MODE_COUNT, wire::MODE_IDLE].contains(&self.control.get32(control::MODE))
    }

    pub fn tables(&self) -> PathBuf {
        self.path.join(TABLES)
    }

    /// Leaves the directory behind when dropped.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Sets mode and period (bytes) of a run that samples; `mode` is `Sample` or `Dormant`. Threads see it about a
    /// mebibyte of allocations later.
    pub fn sample(&self, mode: Mode, period: u32) {
        debug_assert!(mode.is_sampled());
        self.control.set64(control::PERIOD, period.max(1).into());
        self.control.set32(control::MODE, mode.word());
    }

    /// Lets processes in to which no path leads here, by a descriptor; those of `user`, too, who is another one than
    /// mallow's. The directory of tables can be read by all from then on, and no link leads out of it. The directory
    /// stays mallow's own and is sticky, so that this user can remove or replace nothing of mallow's.
    pub fn lend(&self, user: Option<u32>) -> io::Result<()> {
        let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(&self.tables(), 0o755)?;
        let Some(user) = user else { return Ok(()) };
        mode(&self.path.join("control"), 0o666)?;
        mode(&self.path, 0o1700)?;
        grant(&self.path, &[user], 7)
    }

    /// Says to the processes of the run that nobody reads any more, or as yet.
    pub fn read_no_more(&mut self) {
        self.control.set32(control::READER_PID, 0);
        self.presence = None;
    }

    /// Leaves the directory to the reader that `open` makes in this process, given its path. At no moment does nobody
    /// read, which another mallow would take for the end of this one.
    pub fn leave_to<R>(mut self, open: impl FnOnce(&Path) -> R) -> R {
        let reader = open(&self.path);
        self.left = true;
        reader
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        self.end();
        if !self.keep {
            remove(&self.path);
        }
    }
}

/// Name of the directory of unwind tables in a run directory.
pub const TABLES: &str = "tables";

/// Lets `users`, who are others than mallow's, read the tables of the run directory at `path`, and nothing else of it.
/// One that was lent as a whole stays as it is.
pub fn lend_tables(path: &Path, users: &[u32]) -> io::Result<()> {
    const STICKY: u32 = 0o1000;
    fs::set_permissions(path.join(TABLES), fs::Permissions::from_mode(0o755))?;
    if fs::metadata(path)?.permissions().mode() & STICKY != 0 {
        return Ok(());
    }
    grant(path, users, 1)
}

/// Gives `users` these rights in a directory, and all others but its owner none.
fn grant(path: &Path, users: &[u32], rights: u16) -> io::Result<()> {
    let nothing = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::setxattr(path, "system.posix_acl_access", &access_list(users, rights), nothing)?)
}

/// POSIX access control list of a directory that its owner may use, and `users` with these rights (acl(5)), in the form
/// of the kernel's `posix_acl_xattr.h`.
fn access_list(users: &[u32], rights: u16) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    // Tag, permissions, user: of the owner, the users, the group, all of the group class, others.
    let named = users.iter().map(|&user| (0x02, rights, user));
    let entries = [(0x01u16, 7u16, NOBODY)].into_iter().chain(named);
    let entries = entries.chain([(0x04, 0, NOBODY), (0x10, rights, NOBODY), (0x20, 0, NOBODY)]);
    let entry = |(tag, rights, who): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &who.to_le_bytes()].concat()
    };
    [VERSION.to_le_bytes().to_vec(), entries.flat_map(entry).collect()].concat()
}

/// Removes a run directory. Where no descriptor is left to read a directory by, what is surely in it goes by name.
pub fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        let _ = fs::remove_dir(path.join(TABLES));
        for name in ["control", "about", "spool", "partial"] {
            let _ = fs::remove_file(path.join(name));
        }
        let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_dir(path));
    }
}

/// The first `most` bytes of a file of a run directory. Somebody else may have made the directory: a link, a pipe or a
/// device is an error, and nothing waits.
pub(crate) fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_file(path)?;
    let mut bytes = Vec::new();
    // What could be read before an error is as good as without one.
    let read = io::Read::read_to_end(&mut io::Read::take(file, most), &mut bytes);
    if bytes.is_empty() { read.map(|_| bytes) } else { Ok(bytes) }
}

/// Opens a file for reading; one that is a link, or not regular, is an error.
pub fn open_file(path: &Path) -> io::Result<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is no regular file", path.display()))),
    }
}

/// Most bytes that are read of `about`: command lines have some megabytes at most.
const LONGEST_ABOUT: u64 = 16 << 20;

/// Reads what [`RunDirectory::create`] wrote about the run.
pub fn about(directory: &Path) -> io::Result<About> {
    let bytes = read_file(&directory.join("about"), LONGEST_ABOUT)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the file `about` is damaged");
    let line = bytes.iter().position(|&b| b == b'\n').ok_or_else(invalid)?;
    let text = std::str::from_utf8(&bytes[..line]).map_err(|_| invalid())?;
    let mut numbers = text.split(' ').map(str::parse::<u64>);
    let mut number = || numbers.next().and_then(Result::ok).ok_or_else(invalid);
    let (started_unix_ms, started_ns) = (number()?, number()?);
    let mut command: Vec<String> =
        bytes[line + 1..].split(|&b| b == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    command.pop();
    Ok(About { command, started_unix_ms, started_ns })
}

/// Milliseconds since 1970 UTC.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

/// CLOCK_MONOTONIC now, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC at the kernel's last tick, in nanoseconds, as samples are stamped: what was stamped before this tick
/// had begun by then.
pub fn tick_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Milliseconds since 1970 UTC at the kernel's last tick.
pub fn tick_unix_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Bytes of the longest path that fits into `struct target` of preload/base/target.h with room for file names.
const LONGEST: usize = 400;

/// Directories to make run directories in, best first.
pub(crate) fn bases() -> impl Iterator<Item = PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| is_own_tmpfs(p));
    let memory = Some(PathBuf::from("/dev/shm")).filter(|p| is_tmpfs(p));
    let all = [runtime, memory, Some(std::env::temp_dir())];
    all.into_iter().flatten().map(|base| base.canonicalize().unwrap_or(base))
}

fn make_private_directory() -> io::Result<PathBuf> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for base in bases() {
        for attempt in 0..1000u32 {
            let seed = monotonic_ns() ^ u64::from(attempt) << 48;
            let path = base.join(format!("mallow-{:07}-{:06x}", std::process::id(), seed & 0xff_ffff));
            if path.as_os_str().as_bytes().len() > LONGEST {
                break;
            }
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    refused = io::Error::new(error.kind(), format!("{}: {error}", base.display()));
                    break;
                }
            }
        }
    }
    Err(refused)
}

pub(crate) fn is_tmpfs(path: &Path) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC)
}

fn is_own_tmpfs(path: &Path) -> bool {
    path.is_absolute()
        && is_tmpfs(path)
        && fs::metadata(path).is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw() && m.mode() & 0o022 == 0)
}
