//! Recordings that carry their names and sources, through the built binary.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const MALLOW: &str = env!("CARGO_BIN_EXE_mallow");

/// A directory with a source, its program, and the program's recording.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c/leak.c");
        fs::copy(source, place.path("leak.c")).expect("a source");
        place.build(&["-O1"]);
        place.done(&["record", "--no-report", "--", "./leak"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn build(&self, flags: &[&str]) {
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-o", "leak"]).args(flags).arg(self.path("leak.c")).current_dir(&self.0);
        assert!(compiler.status().expect("a C compiler").success());
    }

    fn mallow(&self, arguments: &[&str]) -> Output {
        let output = Command::new(MALLOW).args(arguments).current_dir(&self.0).stdin(Stdio::null()).output();
        output.expect("mallow runs")
    }

    fn done(&self, arguments: &[&str]) -> (String, String) {
        let output = self.mallow(arguments);
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {err}");
        (out, err)
    }

    /// What all views say of a recording.
    fn views(&self, file: &str) -> Vec<String> {
        let views: [&[&str]; 4] = [
            &["report", "--stacks", "--full-names", "--limit", "0"],
            &["report", "--json"],
            &["top", "--json", "--raw"],
            &["leaks", "--stacks", "--full-names"],
        ];
        views.map(|view| self.done(&[view, &[file]].concat()).0).to_vec()
    }

    /// As on another machine: neither the program nor its source is where it was.
    fn move_away(&self) {
        fs::rename(self.path("leak"), self.path("leak.gone")).expect("the program");
        fs::rename(self.path("leak.c"), self.path("leak.c.gone")).expect("the source");
    }
}

#[test]
fn a_packed_recording_says_the_same_without_its_program() {
    let place = Place::new();
    let before = place.views("leak.mallow");
    let (_, printed) = place.done(&["pack", "leak.mallow", "-o", "packed.mallow"]);
    assert!(printed.contains("packed packed.mallow: names of ") && printed.contains("1 source file (2.0"), "{printed}");
    place.move_away();
    assert_eq!(place.views("packed.mallow"), before);
    let unpacked = place.views("leak.mallow");
    assert!(unpacked[0].contains("No names of ") && !unpacked[0].contains("scratch"), "{}", unpacked[0]);
}

#[test]
fn record_embeds_what_pack_does() {
    let place = Place::new();
    place.done(&["pack", "leak.mallow"]);
    let (_, printed) =
        place.done(&["record", "--no-report", "--embed-symbols", "-o", "embedded.mallow", "--", "./leak"]);
    assert!(
        printed.starts_with("mallow: recorded to embedded.mallow, with names of ") && printed.contains("1 source file"),
        "{printed}"
    );
    place.move_away();
    for file in ["leak.mallow", "embedded.mallow"] {
        let (report, _) = place.done(&["report", file]);
        assert!(report.contains("scratch leak.c:") && report.contains("← main"), "{report}");
        let bytes = fs::read(place.path(file)).expect("the recording");
        assert_eq!(holds_source(&bytes), 1, "{file}");
    }
    assert_eq!(place.mallow(&["record", "--no-sources", "--", "true"]).status.code(), Some(2));
}

/// How many blocks of sources a recording has.
fn holds_source(bytes: &[u8]) -> usize {
    const SOURCES: u8 = 10;
    let mut at = 16;
    let mut found = 0;
    while at + 12 <= bytes.len() - 16 {
        found += usize::from(bytes[at] == SOURCES);
        at += 12 + u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("4 bytes")) as usize;
    }
    found
}

/// The program was built again, differently: neither an unpacked nor a packed recording shows its names.
#[test]
fn another_program_at_the_same_path_gives_no_wrong_names() {
    let place = Place::new();
    place.done(&["pack", "leak.mallow", "-o", "packed.mallow"]);
    let before = place.views("packed.mallow");
    let source = fs::read_to_string(place.path("leak.c")).expect("the source");
    fs::write(place.path("leak.c"), source.replace("scratch", "stranger").replace("build_table", "outsider"))
        .expect("another");
    place.build(&["-O0"]);
    assert_eq!(place.views("packed.mallow"), before);
    let (report, _) = place.done(&["report", "leak.mallow"]);
    assert!(!report.contains("stranger") && !report.contains("scratch") && !report.contains("leak.c:"), "{report}");
    assert!(report.contains("leak: not the file that was recorded: its build-id is "), "{report}");
}

/// What was not known where it was packed stays unknown, whatever lies here.
#[test]
fn a_packed_recording_looks_at_no_file_of_this_machine() {
    let place = Place::new();
    fs::copy(place.path("leak"), place.path("whole")).expect("a copy");
    let stripped = Command::new("strip").arg(place.path("leak")).status();
    assert!(stripped.expect("strip").success());
    let unpacked = place.views("leak.mallow");
    place.done(&["pack", "leak.mallow", "-o", "packed.mallow"]);
    assert_eq!(place.views("packed.mallow"), unpacked);
    fs::rename(place.path("whole"), place.path("leak")).expect("the program with its names");
    assert_eq!(place.views("packed.mallow"), unpacked);
    assert!(!unpacked[0].contains("scratch") && place.views("leak.mallow")[0].contains("/leak.c:"));
}

#[test]
fn packing_twice_changes_nothing() {
    let place = Place::new();
    fs::set_permissions(place.path("leak.mallow"), fs::Permissions::from_mode(0o640)).expect("a mode");
    place.done(&["pack", "leak.mallow"]);
    let once = fs::read(place.path("leak.mallow")).expect("the recording");
    assert_eq!(fs::metadata(place.path("leak.mallow")).expect("it").permissions().mode() & 0o777, 0o640);
    let (_, printed) = place.done(&["pack", "leak.mallow"]);
    assert_eq!(printed, "mallow: leak.mallow is packed already\n");
    place.move_away();
    place.done(&["pack", "leak.mallow", "-o", "again.mallow"]);
    assert!(fs::read(place.path("again.mallow")).expect("the copy") == once);
    // Sources can be taken out again, and what lies here now does not replace them.
    place.done(&["pack", "--no-sources", "leak.mallow"]);
    assert_eq!(holds_source(&fs::read(place.path("leak.mallow")).expect("the recording")), 0);
    fs::rename(place.path("leak.c.gone"), place.path("leak.c")).expect("the source");
    place.done(&["pack", "leak.mallow", "-o", "again.mallow"]);
    assert_eq!(holds_source(&fs::read(place.path("again.mallow")).expect("the recording")), 0);
}

#[test]
fn a_recording_that_was_cut_short_is_packed_as_far_as_it_goes() {
    let place = Place::new();
    let bytes = fs::read(place.path("leak.mallow")).expect("the recording");
    fs::write(place.path("cut.mallow"), &bytes[..bytes.len() - 40]).expect("a cut one");
    let before = place.views("cut.mallow");
    assert!(before[0].contains("cut short"), "{}", before[0]);
    place.done(&["pack", "cut.mallow"]);
    place.move_away();
    assert_eq!(place.views("cut.mallow"), before);
}

#[test]
fn sources_that_lie_elsewhere_are_found() {
    let place = Place::new();
    fs::create_dir(place.path("src")).expect("a directory");
    fs::rename(place.path("leak.c"), place.path("src/leak.c")).expect("the source");
    let (_, printed) = place.done(&["pack", "leak.mallow", "-o", "packed.mallow"]);
    assert!(printed.contains("no sources"), "{printed}");
    let (_, printed) = place.done(&["pack", "--source-dir", "src", "leak.mallow"]);
    assert!(printed.contains("1 source file"), "{printed}");
}

#[test]
fn what_cannot_be_packed_is_reported_and_left_as_it_was() {
    let place = Place::new();
    let before = fs::read(place.path("leak.mallow")).expect("the recording");
    symlink("/dev/null", place.path("link")).expect("a link");
    fs::write(place.path("text"), "text").expect("a file");
    for (arguments, expected) in [
        (&["pack", "leak.mallow", "-o", "/dev/null"][..], "cannot write /dev/null: it is no regular file"),
        (&["pack", "leak.mallow", "-o", "link"], "cannot write link: it is no regular file"),
        (&["pack", "leak.mallow", "-o", "."], "cannot write .: it is no regular file"),
        (&["pack", "leak.mallow", "-o", "no/such/x"], "cannot write no/such/x"),
        (&["pack", "text"], "cannot read text: this is neither a recording of mallow"),
        (&["pack", "none"], "cannot read none"),
    ] {
        let output = place.mallow(arguments);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.starts_with(&format!("mallow: {expected}")) && err.lines().count() == 1, "{err}");
    }
    assert!(fs::read(place.path("leak.mallow")).expect("the recording") == before);
    // A link stays one.
    symlink("leak.mallow", place.path("l.mallow")).expect("a link");
    place.done(&["pack", "l.mallow"]);
    assert!(fs::symlink_metadata(place.path("l.mallow")).expect("the link").is_symlink());
    assert!(fs::read(place.path("leak.mallow")).expect("the recording").len() > before.len());
    let left = fs::read_dir(&place.0).expect("the place").flatten().map(|entry| entry.file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().contains("mallow-pack")).count(), 0);
}
