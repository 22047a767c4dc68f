//! `mallow list`: sources and machine code of programs whose allocations can be counted by hand, and of real ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use harness::{Case, Recorded, Run, directory, mallow, number, workspace};
use serde_json::Value;

/// The rows that show self and cum, without what is to the left of their text.
fn counted(text: &str) -> Vec<(String, String, String)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word == "." || word.starts_with(|c: char| c.is_ascii_digit());
        let (flat, cum) = (words.first()?, words.get(1)?);
        // Titles, and lines without numbers.
        let places = line.chars().take_while(|c| *c == ' ').count();
        (places < 12 && number(flat) && number(cum)).then(|| ((*flat).into(), (*cum).into(), line.trim_end().into()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn lines_of_a_program_that_can_be_counted_by_hand() {
    let record = Case::target("calls").record();
    let shown = record.shown(&["list", "^(shared|fresh|right|descend|main)$"]);
    let rows = counted(&shown);
    for (flat, cum, source) in [
        ("9", "9", "free(keep(malloc(10)));"),
        ("1", "1", "void *block = malloc(size);"),
        (".", "3", "shared();"),
        (".", "1", "free(fresh(1000));"),
        ("5", "5", "void *block = keep(malloc(100));"),
        // The first of five calls led to four allocations. Each is counted once, though more than one step led to it.
        (".", "4", "step(left_to_go);"),
        (".", "6", "left();"),
        (".", "4", "right();"),
        (".", "5", "descend(5);"),
    ] {
        let found = rows.iter().any(|(f, c, line)| f == flat && c == cum && line.ends_with(source));
        assert!(found, "{flat} {cum} {source} is not in\n{shown}");
    }
    let by_bytes: Vec<_> = record.view_json(&["list", "--by", "bytes", "."])["functions"]
        .as_array()
        .expect("functions")
        .iter()
        .map(|f| f["function"].as_str().expect("a name").to_owned())
        .take(3)
        .collect();
    assert_eq!(by_bytes, ["fresh", "descend", "shared"]);
}

#[test]
fn lines_and_instructions_add_up_to_top() {
    let python = ["-S", "-c", "import json; json.loads(json.dumps([list(range(9))] * 900))"];
    for case in [
        Case::sqlite(2_000),
        Case::new("/usr/bin/python3").args(python).env("PYTHONMALLOC", "malloc"),
        Case::target("calls"),
    ] {
        let record = case.record();
        for raw in [&[][..], &["--raw"]] {
            let top = record.view_json(&[&["top", "--cum"], raw].concat());
            for asm in [&[][..], &["--asm"]] {
                let list = record.view_json(&[&["list", "."], raw, asm].concat());
                let functions = |view: &Value, key: &str| -> BTreeMap<String, (u64, u64)> {
                    let mut sums = BTreeMap::new();
                    for f in view["functions"].as_array().expect("functions") {
                        let sum: &mut (u64, u64) = sums.entry(f["function"].to_string()).or_default();
                        sum.0 += number(&f["self"], key);
                        sum.1 += number(&f["cum"], key);
                    }
                    sums
                };
                for key in ["allocations", "allocated_bytes"] {
                    assert_eq!(functions(&list, key), functions(&top, key), "{raw:?} {case:?}");
                    for f in list["functions"].as_array().expect("functions") {
                        let flat = |part: &Value| {
                            part.as_array().expect("parts").iter().map(|p| number(&p["self"], key)).sum::<u64>()
                        };
                        assert_eq!(flat(&f["lines"]), number(&f["self"], key), "lines of {f}");
                        if !asm.is_empty() {
                            assert_eq!(flat(&f["instructions"]), number(&f["self"], key), "instructions of {f}");
                        }
                    }
                }
            }
        }
    }
}

/// `calls`, built from sources in a directory of their own, and recorded.
fn elsewhere() -> (Recorded, PathBuf) {
    let place = directory();
    let root = place.path().canonicalize().expect("its path");
    let sources = root.join("build/src");
    fs::create_dir_all(&sources).expect("a directory");
    for name in ["calls.c", "target.h"] {
        fs::copy(workspace().join("tests/targets").join(name), sources.join(name)).expect("a source");
        // Older than the program, whatever the clock of the file system does.
        let file = fs::File::options().append(true).open(sources.join(name)).expect("the source");
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("a time");
    }
    let program = root.join("program");
    let flags = ["-O2", "-g", "-fno-builtin-malloc", "-fno-allocation-dce", "-o"];
    let built = Command::new("cc").args(flags).arg(&program).arg(sources.join("calls.c")).status();
    assert!(built.expect("a C compiler").success());
    let mut record = Case::new(&program).record();
    // Both are needed until the test ends.
    let kept = std::mem::replace(&mut record.directory, place);
    fs::copy(&record.file, root.join("here.mallow")).expect("the recording");
    record.file = root.join("here.mallow");
    drop(kept);
    (record, root)
}

const HOT: &str = "free(keep(malloc(10)));";

#[test]
fn sources_are_found_where_they_are_said_to_be() {
    let (record, root) = elsewhere();
    let shared = record.shown(&["list", "^shared$"]);
    assert!(shared.contains(HOT) && !shared.contains("There is no"), "{shared}");

    fs::rename(root.join("build"), root.join("moved")).expect("moved");
    let gone = record.shown(&["list", "^shared$"]);
    let code = counted(&gone);
    assert!(
        code.iter().any(|(f, c, line)| f == "9" && c == "9" && line.contains("call ") && line.contains("malloc")),
        "{gone}"
    );
    let note = "calls.c: --source-path DIR or --source-map FROM=TO names the directory";
    assert!(!gone.contains(HOT) && gone.contains(note), "{gone}");

    let moved = |path: &str| root.join(path).display().to_string();
    let map = format!("{}={}", moved("build"), moved("moved"));
    let both = format!("{}:{}", moved("nowhere"), moved("moved/src"));
    for (flag, value, found) in [
        ("--source-path", both, true),
        ("--source-path", moved("moved"), true),
        ("--source-path", moved("nowhere"), false),
        ("--source-map", map, true),
        ("--source-map", "/build=/moved".to_owned(), false),
    ] {
        let shown = record.shown(&["list", "^shared$", flag, &value]);
        assert_eq!(shown.contains(HOT), found, "{flag} {value}\n{shown}");
    }
}

#[test]
fn a_source_of_another_version_is_reported() {
    let (record, root) = elsewhere();
    let source = root.join("build/src/calls.c");
    let whole = fs::read_to_string(&source).expect("the source");
    let note = |path: &Path| {
        let shown = record.shown(&["list", "^main$", "--source-path", path.to_str().expect("UTF-8")]);
        shown.lines().last().unwrap_or_default().to_owned()
    };
    fs::write(&source, &whole).expect("a source");
    fs::File::options()
        .append(true)
        .open(&source)
        .and_then(|f| f.set_modified(SystemTime::now() + Duration::from_secs(60)))
        .expect("a time");
    let remark = note(&root);
    assert!(remark.contains("calls.c was changed after") && remark.ends_with("build and record again"), "{remark}");

    fs::write(&source, "int main(void) {\n").expect("a source");
    let remark = note(&root);
    assert!(remark.contains("calls.c has 1 lines, and main has line"), "{remark}");

    // What is no file that could be read is passed over, and neither waited for nor obeyed.
    fs::remove_file(&source).expect("removed");
    assert!(Command::new("mkfifo").arg(&source).status().expect("mkfifo").success());
    assert!(note(&root).ends_with("is no text"), "{}", note(&root));
    fs::remove_file(&source).expect("removed");
    fs::write(&source, b"a\0b").expect("a file");
    assert!(note(&root).ends_with("is no text"), "{}", note(&root));
    fs::write(&source, format!("{}\x1b[2J\u{202e}\n", "\n".repeat(59)).repeat(2)).expect("a source");
    let shown = record.view(&["list", "^main$", "--full-names"]).out();
    assert!(!shown.contains('\x1b') && !shown.contains('\u{202e}'), "{shown:?}");
}

#[test]
fn a_stripped_program_is_shown_as_machine_code() {
    let (_place, root) = elsewhere();
    let program = root.join("program");
    assert!(Command::new("strip").arg(&program).status().expect("strip").success());
    let record = Case::new(&program).record();
    let shown = record.shown(&["list", "."]);
    assert!(shown.contains("<malloc@plt>"), "{shown}");
    assert!(shown.contains("program: dynamic symbols alone; "), "{shown}");
    // The program is another one now: its code would be a lie.
    fs::copy("/bin/true", &program).expect("another program");
    let shown = record.shown(&["list", "."]);
    assert!(!shown.contains("call ") && shown.contains("not the file that was recorded"), "{shown}");
}

#[test]
fn a_packed_recording_has_its_sources() {
    let (record, root) = elsewhere();
    let packed = root.join("packed.mallow");
    let pack = Run::new(mallow(), &root).args(["pack", "-o"]).arg(&packed).arg(&record.file).go();
    assert_eq!(pack.status, 0, "{}", pack.err());
    fs::remove_dir_all(root.join("build")).expect("removed");
    fs::copy("/bin/true", root.join("program")).expect("another program");
    let shown = Run::new(mallow(), &root).args(["list", "^shared$"]).arg(&packed).go();
    assert!(shown.status == 0 && shown.out().contains(HOT), "{}{}", shown.out(), shown.err());
    // Names were looked up in the program, which is another one now.
    let unpacked = record.view(&["list", "^shared$"]);
    assert!(unpacked.status == 1 && unpacked.err().contains("not the file that was recorded"), "{}", unpacked.err());
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    let record = Case::target("calls").record();
    for (arguments, status, expected) in [
        (&["list", "nobody"][..], 1, "no function of the recording matches \"nobody\""),
        (&["list", "--by", "live", "shared"], 1, "there are no live bytes in shared"),
        (&["list", "("], 2, "unclosed group"),
        (&["list", "a", "--source-map", "b"], 2, "FROM=TO"),
    ] {
        let view = record.view(arguments);
        assert_eq!((view.status, view.out().as_str()), (status, ""), "{arguments:?}");
        let error = view.err();
        assert!(error.starts_with("mallow: ") && error.contains(expected) && error.lines().count() == 1, "{error}");
    }
}
