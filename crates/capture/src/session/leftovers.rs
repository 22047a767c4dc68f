//! Run directories that a killed mallow left behind.

use crate::drain::spool;
use crate::recording::{ReadError, opening};
use crate::rundir::directory::{About, about, bases, open_file, read_file, remove, unix_ms};
use crate::rundir::owner;
use crate::rundir::presence;
use crate::rundir::process_file::process_files;
use crate::wire::{self, Shared, control};
use mallow_proc::{mappings, read_maps};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A run directory without a mallow that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub path: PathBuf,
    pub about: About,
    /// The directory holds events, not counters alone: there is something to recover.
    pub traced: bool,
    /// The directory holds samples, which `mallow recover` reports.
    pub sampled: bool,
    /// Processes of the run that still live.
    pub still_running: u32,
    /// Where `sampled`: all processes ended by themselves, or were never sampled.
    pub in_order: bool,
}

/// Names of links in a run directory: to its spool, and to the recording in the making.
pub(crate) const SPOOL: &str = "spool";
pub(crate) const PARTIAL: &str = "partial";

/// Files outside of a run directory that are of no use without it: its spool, and the recording in the making, unless a
/// later mallow has taken that over, which may have been killed, too.
pub fn files_elsewhere(directory: &Path) -> Vec<PathBuf> {
    // A process of another user, let in to be recorded, may have made it.
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|status| is_own(&status));
    let link = |name| {
        let at = directory.join(name);
        fs::read_link(&at).ok().filter(|path| is_link(&at) && path.is_file())
    };
    let nobody_writes = |path: &PathBuf| {
        let lock = FlockOperation::NonBlockingLockShared;
        fs::File::open(path).is_ok_and(|file| flock(&file, lock) != Err(rustix::io::Errno::WOULDBLOCK))
    };
    let about = about(directory).map(|about| about.options().opening());
    let is_of_this_run = |path: &PathBuf| match fs::File::open(path) {
        Ok(file) if file.metadata().is_ok_and(|status| status.len() == 0) => true,
        Ok(file) => opening(file).is_ok_and(|begun| about.as_ref().is_ok_and(|run| *run == begun)),
        Err(_) => false,
    };
    let partial = link(PARTIAL).filter(|path| nobody_writes(path) && is_of_this_run(path));
    link(SPOOL).into_iter().chain(partial).collect()
}

/// Whether the run that made this recording in part left a run directory and a spool, of which `recover` makes it
/// again.
pub fn is_recoverable(partial: &fs::File) -> bool {
    let Ok(begun) = partial.try_clone().map_err(ReadError::from).and_then(opening) else { return false };
    let is_of_run =
        |left: &Leftover| left.traced && left.about.options().opening() == begun && left.path.join(SPOOL).exists();
    leftovers().iter().any(is_of_run)
}

/// Fields of the control file of a run directory.
pub(crate) struct Control {
    pub mode: u32,
    pub reader_pid: u32,
}

pub(crate) fn control(directory: &Path) -> io::Result<Control> {
    let bytes = read_file(&directory.join("control"), control::FILE_BYTES as u64)?;
    let word = |at: usize| bytes.get(at..at + 4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    match (word(control::MAGIC), word(control::MODE), word(control::READER_PID)) {
        (Some(wire::CONTROL_MAGIC), Some(mode), Some(reader_pid)) => Ok(Control { mode, reader_pid }),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the file `control` is damaged")),
    }
}

/// Process id of the mallow that still reads a run directory. Pids are reused: the process must have the control file
/// mapped.
pub(crate) fn reader(directory: &Path, control: &Control) -> Option<u32> {
    Readers::default().of(directory, control)
}

/// Control files that possible readers have mapped, by pid: one mallow may read hundreds, and each has some lines
/// there.
#[derive(Default)]
struct Readers {
    maps: FxHashMap<u32, FxHashSet<PathBuf>>,
}

impl Readers {
    fn of(&mut self, directory: &Path, control: &Control) -> Option<u32> {
        let file = directory.canonicalize().ok()?.join("control");
        let pid = control.reader_pid;
        self.maps.entry(pid).or_insert_with(|| control_files(pid)).contains(&file).then_some(pid)
    }
}

fn control_files(pid: u32) -> FxHashSet<PathBuf> {
    let text = read_maps(pid).unwrap_or_default();
    let paths = mappings(&text).map(|mapping| mapping.path);
    let files = paths.filter(|path| path.starts_with(b"/") && path.ends_with(b"/control"));
    files.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Fails where another user made the directory: what is in it may lead anywhere, and say anything.
pub fn check_owner(directory: &Path) -> io::Result<()> {
    let status = fs::metadata(directory)?;
    match status.is_dir() && !is_own(&status) {
        true => Err(io::Error::other(format!("it is of user {}, who alone can recover it", status.uid()))),
        false => Ok(()),
    }
}

/// The spool of a run directory, which a link of mallow's own leads to. None: there is no link, or no file where it
/// leads.
pub(crate) fn open_spool(directory: &Path) -> io::Result<Option<fs::File>> {
    let link = directory.join(SPOOL);
    let missing = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    let status = match fs::symlink_metadata(&link) {
        Ok(status) => status,
        Err(error) => return missing(error),
    };
    if !is_own(&status) {
        return Err(io::Error::other("another user put its file `spool` there"));
    }
    let place = if status.is_symlink() { fs::read_link(&link)? } else { link };
    match open_file(&place) {
        Ok(file) if file.metadata().is_ok_and(|status| is_own(&status)) => Ok(Some(file)),
        Ok(_) => Err(io::Error::other(format!("its spool {} is another user's", place.display()))),
        Err(error) => missing(error),
    }
}

/// Fails unless there is something to recover in a run directory: its mallow is gone, and it recorded events.
pub fn check(directory: &Path) -> io::Result<()> {
    let control = control(directory)?;
    if let Some(pid) = reader(directory, &control) {
        return Err(io::Error::other(format!("process {pid} still records into it, and will finish the recording")));
    }
    if is_read_elsewhere(directory) {
        let why = "a mallow in another pid namespace still records into it, and will finish the recording";
        return Err(io::Error::other(why));
    }
    if control.mode != wire::MODE_TRACE {
        return Err(io::Error::other("it was made by mallow stat, which leaves nothing to recover"));
    }
    Ok(())
}

fn candidates() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = bases().collect();
    places.dedup();
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    entries.filter(|entry| entry.file_name().as_bytes().starts_with(b"mallow-")).map(|entry| entry.path()).collect()
}

/// Removes directories of sampling runs, which stay when mallow leaves so that it can join again, once they have no
/// live processes. What a crash left is kept for [`KEPT_MS`], and the latest [`KEPT_BYTES`] of it: somebody may want to
/// look at it. What a killed `mallow stat` left is of no use, and goes as late.
pub fn sweep() {
    let now_ms = unix_ms();
    let mut kept_bytes = 0;
    let all: Vec<Leftover> = leftovers().into_iter().filter(|left| !left.traced && left.still_running == 0).collect();
    let in_use = if all.is_empty() { Vec::new() } else { in_use() };
    for left in all.iter().rev() {
        let age_ms = now_ms.saturating_sub(left.about.started_unix_ms);
        if age_ms <= STARTING_MS || in_use.contains(&left.path) {
            continue;
        }
        kept_bytes += if left.in_order { 0 } else { bytes(&left.path) };
        if left.in_order || age_ms > KEPT_MS || kept_bytes > KEPT_BYTES {
            remove(&left.path);
        }
    }
}

/// Removes directories that nothing can be made of and that lie in memory, once their mallow and their processes are
/// gone: those of a killed `mallow stat`, and of a killed recording whose spool is gone, too.
pub(crate) fn sweep_useless() {
    let now_ms = unix_ms();
    let is_useless = |left: &Leftover| {
        let age_ms = now_ms.saturating_sub(left.about.started_unix_ms);
        match (left.sampled, left.traced) {
            (true, _) => false,
            (false, true) => age_ms > KEPT_MS && is_gone(&left.path.join(SPOOL)),
            (false, false) => age_ms > COUNTED_MS,
        }
    };
    let all: Vec<Leftover> =
        leftovers().into_iter().filter(|left| left.still_running == 0 && is_useless(left)).collect();
    let in_use = if all.is_empty() { Vec::new() } else { in_use() };
    all.iter().filter(|left| !in_use.contains(&left.path)).for_each(|left| remove(&left.path));
}

/// Whether a link leads nowhere; false of a link that cannot be followed.
fn is_gone(link: &Path) -> bool {
    let is_link = fs::symlink_metadata(link).is_ok_and(|status| status.is_symlink());
    is_link && fs::metadata(link).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Removes run directories whose mallow was killed while it made them: nothing was started in them, and nobody lists
/// them.
pub(crate) fn sweep_unfinished() {
    candidates().iter().filter(|path| is_unfinished(path)).for_each(|path| remove(path));
}

/// Whether a directory was left while it was made: the control file gets its magic number last.
fn is_unfinished(path: &Path) -> bool {
    let Some(pid) = maker(path) else { return false };
    let Ok(status) = fs::symlink_metadata(path) else { return false };
    if !status.is_dir() || !is_own(&status) || !is_older_than_a_start(&status) || process_exists(pid) {
        return false;
    }
    let Ok(entries) = fs::read_dir(path) else { return false };
    let known = |name: &[u8]| [&b"control"[..], b"about", b"tables"].contains(&name);
    if !entries.flatten().all(|entry| known(entry.file_name().as_bytes())) {
        return false;
    }
    match fs::read(path.join("control")) {
        Ok(bytes) => bytes.get(control::MAGIC..control::MAGIC + 4).is_none_or(|magic| magic == [0; 4]),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Process id of the mallow that made a run directory, from the directory's name.
fn maker(path: &Path) -> Option<u32> {
    let (pid, random) = path.file_name()?.to_str()?.strip_prefix("mallow-")?.split_once('-')?;
    let is_made = random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    pid.parse().ok().filter(|_| is_made && pid.len() >= 7)
}

/// Whether a file belongs to the user of this mallow.
fn is_own(status: &fs::Metadata) -> bool {
    status.uid() == rustix::process::geteuid().as_raw()
}

fn process_exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Whether a file was left alone for so long that no mallow can be at its start with it.
fn is_older_than_a_start(status: &fs::Metadata) -> bool {
    let age = status.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > Duration::from_millis(STARTING_MS))
}

/// Removes spools beside `path`, DIRECTORY/NAME.PID, that a killed recording of the same NAME left and that cannot
/// become a recording any more: their run directory is gone.
pub(crate) fn sweep_spools(path: &Path) {
    let Some((name, directory)) = path.file_stem().zip(path.parent()) else { return };
    let Ok(directory) = directory.join(".").canonicalize() else { return };
    let Ok(entries) = fs::read_dir(&directory) else { return };
    let old: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| is_old_spool(&entry.path(), name.as_bytes()))
        .map(|entry| entry.path())
        .collect();
    if old.is_empty() {
        return;
    }
    let needed: Vec<PathBuf> = candidates().iter().filter_map(|run| fs::read_link(run.join(SPOOL)).ok()).collect();
    old.iter().filter(|path| !needed.contains(path)).for_each(|path| drop(fs::remove_file(path)));
}

/// Whether a file is a spool of recording `name` that no living mallow writes: one holds a lock on its spool, which
/// other pid namespaces see, too.
fn is_old_spool(path: &Path, name: &[u8]) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok());
    let pid = path.file_name().and_then(|file| {
        let rest = file.as_bytes().strip_prefix(name)?.strip_prefix(b".")?.strip_suffix(b".spool")?;
        match rest.iter().position(|&byte| byte == b'-') {
            Some(dash) => number(&rest[dash + 1..]).and_then(|_| number(&rest[..dash])),
            None => number(rest),
        }
    });
    let Ok(status) = fs::symlink_metadata(path) else { return false };
    let lock = FlockOperation::NonBlockingLockShared;
    status.is_file()
        && is_own(&status)
        && pid.is_some_and(|pid| !process_exists(pid))
        && is_older_than_a_start(&status)
        && fs::File::open(path).is_ok_and(|file| spool::is_spool(&file) && flock(&file, lock).is_ok())
}

const KEPT_MS: u64 = 24 * 3600 * 1000;
/// How long directories of a killed `mallow stat` are listed.
const COUNTED_MS: u64 = 10 * 60 * 1000;
/// Bytes, in memory, that directories of crashed sampling runs may take.
const KEPT_BYTES: u64 = 64 << 20;
/// How long a command that was just started may take to make its process file.
const STARTING_MS: u64 = 10 * 1000;

/// Run directories that the environment of some process names. Such a process may not have made its file yet, or be
/// static and only hand the directory on.
fn in_use() -> Vec<PathBuf> {
    owner::processes().filter_map(|pid| owner::directory_in_environment(pid).ok().flatten()).collect()
}

/// Bytes on disk of the files of a directory, which may be sparse.
fn bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

/// This user's run directories that no mallow reads any more, the oldest first.
pub fn leftovers() -> Vec<Leftover> {
    let mut all: Vec<Leftover> = {
        let mut readers = Readers::default();
        candidates().iter().filter_map(|path| left(path, &mut readers)).collect()
    };
    all.sort_by(|a, b| (a.about.started_unix_ms, &a.path).cmp(&(b.about.started_unix_ms, &b.path)));
    all
}

/// Whether a mallow in another pid namespace reads the directory, which has no process here.
fn is_read_elsewhere(directory: &Path) -> bool {
    let mut writable = fs::OpenOptions::new();
    let file = writable
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(directory.join("control"));
    let page = file.and_then(|file| Shared::map(&file, control::FILE_BYTES));
    page.is_ok_and(|page| presence::answers(&page))
}

fn left(path: &Path, readers: &mut Readers) -> Option<Leftover> {
    let status = fs::symlink_metadata(path).ok()?;
    if !status.is_dir() || !is_own(&status) {
        return None;
    }
    let control = control(path).ok()?;
    if readers.of(path, &control).is_some() || is_read_elsewhere(path) {
        return None;
    }
    let sources = process_files(path);
    let mut pids: Vec<u32> = sources.iter().filter(|s| s.alive()).map(|s| s.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let sampled = matches!(control.mode, wire::MODE_SAMPLE | wire::MODE_DORMANT);
    Some(Leftover {
        path: path.to_owned(),
        about: about(path).ok()?,
        traced: control.mode == wire::MODE_TRACE,
        sampled,
        still_running: pids.len() as u32,
        in_order: sampled && sources.iter().all(|source| source.ended_in_order() || source.samples() == 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::directory::{Mode, Regions, RunDirectory, Scans, Settings};

    fn run(mode: Mode) -> RunDirectory {
        let settings = Settings {
            mode,
            max_depth: 8,
            children: true,
            regions: Regions::default(),
            scan: Scans::None,
            memory: false,
            arguments: true,
        };
        RunDirectory::create(&settings, &["command".to_owned(), "argument".to_owned()]).unwrap()
    }

    /// What is read is read by this process, so nothing of it is left behind; a copy is nobody's.
    #[test]
    fn what_is_read_is_not_left_behind() {
        for (mode, recovered) in [(Mode::Trace, true), (Mode::Count, false)] {
            let run = run(mode);
            assert!(leftovers().iter().all(|left| left.path != run.path()));
            let refusal = check(run.path()).unwrap_err().to_string();
            assert!(refusal.contains(&format!("process {} still records", std::process::id())), "{refusal}");

            let base = run.path().parent().unwrap();
            let copy = tempfile::Builder::new().prefix("mallow-test-").tempdir_in(base).unwrap();
            for name in ["control", "about"] {
                fs::copy(run.path().join(name), copy.path().join(name)).unwrap();
            }
            let all = leftovers();
            let found = all.iter().find(|left| left.path == copy.path()).expect("the copy");
            assert_eq!((found.about.command.join(" ").as_str(), found.traced), ("command argument", recovered));
            assert_eq!((check(copy.path()).is_ok(), found.still_running), (recovered, 0));
        }
    }

    #[test]
    fn what_is_damaged_is_no_run_directory() {
        let place = tempfile::tempdir().unwrap();
        assert!(check(place.path()).is_err());
        fs::write(place.path().join("control"), b"MALC").unwrap();
        assert!(check(place.path()).unwrap_err().to_string().contains("damaged"));
        assert_eq!(left(place.path(), &mut Readers::default()), None);
    }
}
