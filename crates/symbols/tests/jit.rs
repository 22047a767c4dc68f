//! Perf maps: which are trusted, and whose names they are.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mallow_profile::{Counts, Frame, FrameId, Module, ModuleId, Process, ProcessId, Profile, Site, Stacks};
use mallow_symbols::{MapPlace, PerfMap, PerfMapError, Symbolizer, symbolize_jit, symbolize_jit_all, symbolize_jit_in};

/// A file in /tmp of a process id that no process can have.
struct Map(PathBuf);

impl Map {
    fn new(pid: u32, text: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Ids of our own: no kernel gives out such high ones, and parallel runs differ.
fn pid(number: u32) -> u32 {
    (1 << 31) + std::process::id() * 16 + number
}

fn process(pid: u32, start_ms: u64) -> Process {
    Process { pid, start_ms, ..Process::default() }
}

/// A frame at `address` in no module, and a site with it for each of `processes`.
fn add(profile: &mut Profile, address: u64, processes: &[u32]) -> FrameId {
    profile.frames.push(Frame::new(None, address, false));
    let frame = FrameId(profile.frames.len() as u32 - 1);
    let stack = profile.stacks.push(Stacks::ROOT, frame);
    for &process in processes {
        let (process, counts) = (ProcessId(process), Counts::default());
        profile.sites.push(Site {
            process,
            stack,
            counts,
            patterns: Default::default(),
            live_oldest_ms: 0,
            live_youngest_ms: 0,
            precisions: None,
        });
    }
    frame
}

fn name(profile: &Profile, frame: FrameId) -> &str {
    profile.frames[frame.0 as usize].lines.first().map_or("", |line| profile.strings.get(line.function))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

#[test]
fn frames_in_no_module_get_the_names_of_their_process() {
    let (one, two) = (
        Map::new(pid(1), "1000 100 shared\n2000 100 mine\n"),
        Map::new(pid(2), "1000 100 shared\n2000 100 other\nbad\n"),
    );
    let mut profile = Profile { started_unix_ms: now_ms() - 1000, ..Profile::default() };
    profile.processes = vec![process(pid(1), 0), process(pid(2), 500), process(pid(3), 0)];
    let same = add(&mut profile, 0x1010, &[0, 1]);
    let contested = add(&mut profile, 0x2010, &[0, 1]);
    let first = add(&mut profile, 0x2020, &[0]);
    let second = add(&mut profile, 0x2020, &[1]);
    // Its last byte is a call: the return address is past the end.
    let last = add(&mut profile, 0x2100, &[0]);
    let unknown = add(&mut profile, 0x9000, &[0]);
    let without = add(&mut profile, 0x1010, &[2]);
    let processes = symbolize_jit_all(&mut profile);
    drop((one, two));
    assert_eq!(name(&profile, same), "shared");
    assert_eq!(name(&profile, contested), "", "two processes have different code there");
    assert_eq!([first, second, last].map(|frame| name(&profile, frame).to_string()), ["mine", "other", "mine"]);
    assert_eq!([unknown, without].map(|frame| name(&profile, frame).to_string()), ["", ""]);
    let all: Vec<_> =
        processes.iter().map(|p| (p.process.0, p.frames, p.named, p.map.as_ref().ok().copied())).collect();
    assert_eq!(all, [(0, 5, 4, Some(0)), (1, 3, 3, Some(1)), (2, 1, 0, None)]);
    let summary = Symbolizer::new(Default::default()).symbolize_all(&mut profile);
    assert_eq!((summary.without_module, summary.without_module_named), (7, 4));
}

#[test]
fn a_map_from_before_the_process_is_not_its_own() {
    let map = Map::new(pid(4), "1000 100 old\n");
    let file = fs::File::options().write(true).open(&map.0).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    for (started, expected) in [(now_ms() - 30_000, ""), (now_ms() - 90_000, "old")] {
        let mut profile = Profile { started_unix_ms: started, ..Profile::default() };
        profile.processes = vec![process(pid(4), 0)];
        let frame = add(&mut profile, 0x1010, &[0]);
        let processes = symbolize_jit_all(&mut profile);
        assert_eq!(name(&profile, frame), expected);
        assert_eq!(matches!(processes[0].map, Err(PerfMapError::Stale)), expected.is_empty());
    }
}

#[test]
fn frames_in_modules_and_with_names_are_left_alone() {
    let map = PerfMap::parse(&b"1000 100 jit\n"[..]).unwrap();
    let mut profile =
        Profile { modules: vec![Module { path: String::new(), build_id: Vec::new() }], ..Profile::default() };
    let inside = add(&mut profile, 0x1010, &[]);
    profile.frames[0].module = Some(ModuleId(0));
    let plain = add(&mut profile, 0x1010, &[]);
    let frames = [inside, plain, plain, FrameId(99)];
    assert_eq!(symbolize_jit(&mut profile, &map, &mut frames.into_iter()), 1);
    assert_eq!((name(&profile, inside), name(&profile, plain)), ("", "jit"));
}

fn refused(path: &Path) -> String {
    format!("{:?}", PerfMap::read(path, None, None).unwrap_err())
}

#[test]
fn only_a_plain_file_of_an_owner_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.map");
    fs::write(&real, "1000 100 name\n").unwrap();
    assert_eq!(PerfMap::read(&real, None, None).unwrap().find(0x1000), Some("name"));

    let link = folder.path().join("link.map");
    symlink(&real, &link).unwrap();
    assert_eq!(refused(&link), "NotRegular");
    assert_eq!(refused(folder.path()), "NotRegular");
    let fifo = folder.path().join("fifo.map");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert_eq!(refused(&fifo), "NotRegular");
    assert!(refused(&folder.path().join("none")).contains("NotFound"));

    fs::set_permissions(&real, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(refused(&real), "WorldWritable");
    fs::set_permissions(&real, Permissions::from_mode(0o644)).unwrap();
    // Only root can give a file away, and anybody can look at one of root's.
    let foreign = match std::os::unix::fs::chown(&real, Some(4242), None) {
        Ok(()) => (real, 4242),
        Err(_) => (PathBuf::from("/etc/passwd"), 0),
    };
    assert_eq!(refused(&foreign.0), format!("OtherOwner({})", foreign.1));
    assert!(PerfMap::read(&foreign.0, Some(foreign.1), None).is_ok());
}

#[test]
fn a_process_with_a_tmp_of_its_own_has_its_map_there() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("perf-7.map"), "1000 100 contained\n").unwrap();
    // The process began a minute before it was attached to: what it wrote meanwhile is its own.
    let mut profile = Profile { started_unix_ms: now_ms() + 60_000, ..Profile::default() };
    profile.processes = vec![process(7, 0)];
    let frame = add(&mut profile, 0x1010, &[0]);
    let began = SystemTime::now() - std::time::Duration::from_secs(60);
    let of = |began| MapPlace { directory: place.path().to_owned(), owner: None, began };
    let processes = symbolize_jit_in(&mut profile, &|_| Some(of(None)));
    assert!(matches!(processes[0].map, Err(PerfMapError::Stale)), "{processes:?}");
    let processes = symbolize_jit_in(&mut profile, &|_| Some(of(Some(began))));
    assert_eq!((processes[0].named, name(&profile, frame)), (1, "contained"));
}
