//! Recordings whose mallow was killed while it finished them: the command has ended, and the run directory and the
//! spool are gone.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use harness::{Outcome, Run, directory, mallow, program};

fn run(place: &Path, arguments: &[&str]) -> Outcome {
    Run::new(mallow(), place).args(arguments).go()
}

fn record(place: &Path, file: &str) -> Outcome {
    let command = program("calls");
    let run = run(place, &["record", "--no-report", "-o", file, "--", command.to_str().expect("a plain path")]);
    assert_eq!(run.status, 0, "{}", run.err());
    run
}

/// A next recording of the same name replaced it.
#[test]
fn a_recording_that_was_nearly_finished_is_listed_and_never_overwritten() {
    let place = directory();
    let at = |name: &str| place.path().join(name);
    record(place.path(), "x.mallow");
    let whole = fs::read(at("x.mallow")).expect("the recording");
    let mut kept = Vec::new();
    // Whole, and without its end.
    for (number, bytes) in [&whole[..], &whole[..whole.len() - 20]].into_iter().enumerate() {
        fs::write(at("x.mallow.partial"), bytes).expect("a file");
        let listed = run(place.path(), &["recover"]).out();
        assert!(listed.contains("\n  ./x.mallow.partial\n"), "{listed}");
        let json: serde_json::Value =
            serde_json::from_str(&run(place.path(), &["recover", "--json"]).out()).expect("JSON");
        assert_eq!(json["unfinished_files"], serde_json::json!(["./x.mallow.partial"]));
        assert_eq!(run(place.path(), &["report", "x.mallow.partial"]).status, 0);
        let next = record(place.path(), "x.mallow").err();
        let name = ["x.orphan.mallow", "x.orphan-2.mallow"][number];
        assert!(next.contains(&format!("x.mallow.partial; it is kept as {name}\n")), "{next}");
        kept.push((name, bytes.to_vec()));
        for (name, bytes) in &kept {
            assert!(fs::read(at(name)).is_ok_and(|there| there == *bytes), "{name}");
        }
        assert!(!at("x.mallow.partial").exists());
        assert!(!run(place.path(), &["recover"]).out().contains("x.mallow.partial"));
    }
    assert_eq!(run(place.path(), &["report", "x.orphan.mallow"]).status, 0);
    // A file without events is nothing to keep.
    fs::write(at("x.mallow.partial"), &whole[..16]).expect("a file");
    let next = record(place.path(), "x.mallow").err();
    assert!(!next.contains("orphan") && !at("x.orphan-3.mallow").exists(), "{next}");
}

/// What happens in these directories, in its order: names of files that were opened, and of files that got their name.
struct Events(File);

impl Events {
    fn of(directory: &Path) -> Self {
        let path = CString::new(directory.as_os_str().as_bytes()).expect("a path");
        // SAFETY: no pointers; the path is a C string.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        assert!(descriptor >= 0);
        // SAFETY: a new descriptor, which nobody else has.
        let file = unsafe { File::from_raw_fd(descriptor) };
        // SAFETY: as above.
        let watch =
            unsafe { libc::inotify_add_watch(file.as_raw_fd(), path.as_ptr(), libc::IN_OPEN | libc::IN_MOVED_TO) };
        assert!(watch >= 0);
        Self(file)
    }

    fn read(&mut self) -> Vec<(bool, String)> {
        let mut all = Vec::new();
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length) = self.0.read(&mut bytes) {
            let mut at = 0;
            while at < length {
                let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("a word"));
                let (mask, name) = (word(at + 4), word(at + 12) as usize);
                let name = String::from_utf8_lossy(&bytes[at + 16..at + 16 + name]).trim_end_matches('\0').to_owned();
                all.push((mask & libc::IN_MOVED_TO != 0, name));
                at += 16 + word(at + 12) as usize;
            }
        }
        all
    }
}

/// 99 of 111 mallows that were killed while they looked names up left a whole recording without its name.
#[test]
fn a_recording_has_its_name_before_names_of_functions_are_looked_up() {
    let place = directory();
    let (copy, debug) = (place.path().join("calls"), place.path().join("calls.debug"));
    fs::copy(program("calls"), &copy).expect("a copy");
    let objcopy = |arguments: &[&str]| {
        let done = Command::new("objcopy").args(arguments).arg(&copy).current_dir(place.path()).status();
        assert!(done.expect("objcopy").success());
    };
    assert!(Command::new("objcopy").arg("--only-keep-debug").arg(&copy).arg(&debug).status().expect("it").success());
    objcopy(&["--strip-debug", "--add-gnu-debuglink=calls.debug"]);
    let mut events = Events::of(place.path());
    let outcome = run(place.path(), &["record", "-o", "x.mallow", "--", "./calls"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let events = events.read();
    let named = events.iter().position(|event| *event == (true, "x.mallow".to_owned())).expect("a name");
    let looked_up = events.iter().rposition(|event| *event == (false, "calls.debug".to_owned())).expect("a look");
    assert!(named < looked_up, "{events:?}");
}
