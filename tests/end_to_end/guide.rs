//! The examples of docs/GUIDE.md and docs/guide/*.md: each line of a code block that begins with `mallow` runs, in
//! order, in a directory of the chapter's own that has the files which the guide speaks of. It must succeed, write the
//! files that its comment names, and print what the block shows. A block that cannot be run has a mark above it, and
//! this file lists these marks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use harness::{Outcome, Run, directory, mallow, program, tool, workspace};
use tempfile::TempDir;

use crate::diff_regressions::recorded;
use crate::docs::{fits, trimmed};
use crate::other_tools::ran;

/// Above a block that is not run: the chapter, and the reason that stands there.
const NOT_RUN: &[(&str, &str)] = &[
    ("attach.md", "needs a program that runs"),
    ("containers.md", "needs pods"),
    ("fleet.md", "needs a server"),
    ("fleet.md", "needs servers"),
    ("fleet.md", "needs a server that is watched"),
    ("fleet.md", "needs a store"),
    ("formats.md", "needs a server"),
    ("go.md", "needs a Go module"),
    ("go.md", "needs a Go module"),
    ("go.md", "needs Go, and a profile of its tool"),
    ("go.md", "needs a Go module"),
    ("merge.md", "needs servers"),
    ("merge.md", "needs servers"),
    ("processes.md", "lists what other runs on the machine left behind"),
    ("runtimes.md", "needs Python 3.12 and numpy"),
    ("swiftnio.md", "needs Swift and SwiftNIO"),
    ("symbols.md", "needs a program without names"),
    ("symbols.md", "needs a server of debug files"),
    ("view.md", "opens a browser"),
    ("view.md", "needs a Go module, and opens a browser"),
    ("watch.md", "needs a server and a terminal"),
];

/// Above a block whose commands run, and whose output is compared in a part that no machine changes.
const PARTLY_COMPARED: &[(&str, &str)] = &[
    ("first-look.md", "the columns of names"),
    ("merge.md", "all but numbers"),
    ("symbols.md", "the first line, but numbers"),
];

/// A code block: its lines, and the mark above it.
#[derive(Default)]
struct Block {
    mark: String,
    lines: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let (mut inside, mut mark) = (false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            if inside {
                all.push(Block { mark: std::mem::take(&mut mark), lines: Vec::new() });
            }
        } else if let Some(block) = all.last_mut().filter(|_| inside) {
            block.lines.push(line.to_owned());
        } else if !line.is_empty() {
            let comment = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
            mark = comment.unwrap_or_default().to_owned();
        }
    }
    all
}

impl Block {
    /// The commands that begin with `mallow`, each with the lines that it is said to print; None: the block shows no
    /// output.
    fn commands(&self) -> Vec<(String, Option<Vec<String>>)> {
        let prompts = self.lines.iter().any(|line| line.starts_with("$ "));
        let mut all: Vec<(String, Option<Vec<String>>)> = Vec::new();
        for line in &self.lines {
            let command = if prompts { line.strip_prefix("$ ") } else { Some(line.as_str()) };
            match command {
                Some(command) => all.push((command.to_owned(), None)),
                None => {
                    if let Some((_, shown)) = all.last_mut() {
                        shown.get_or_insert_default().push(line.clone());
                    }
                }
            }
        }
        all.retain(|(command, _)| command.split(' ').next() == Some("mallow"));
        all
    }
}

/// What the guide's files are made of: recordings, exports of them, programs, and stubs of what reads a pipe.
fn files() -> &'static Path {
    static FILES: OnceLock<TempDir> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let files = directory();
        let place = files.path();
        let flags = ["-O2", "-g", "-std=c++17", "-fno-builtin-malloc"];
        recorded(place, "c++", &flags, ["cpp_before/main.cpp", "cpp_after/main.cpp"]);
        for name in ["program", "worker"] {
            fs::copy(program("guide"), place.join(name)).expect("the program");
        }
        let made = [
            "record --no-report -o program.mallow ./program",
            "export --format pprof -o main.pb.gz before.mallow",
            "export --format heaptrack -o heaptrack.branch.4711.zst after.mallow",
            "export --format dtrace -o stack_aggregation.old before.mallow",
            "export --format dtrace -o stack_aggregation.new after.mallow",
            "export --format pprof -o staging.heap.pb.gz staging.heap",
        ];
        let all = "heap profile: 1: 100 [3: 300] @ heap_v2/1\n 1: 100 [3: 300] @ 0x1000 0x2000\n\nMAPPED_LIBRARIES:\n";
        fs::write(place.join("staging.heap"), all).expect("a profile");
        for line in made {
            ran(Run::new(mallow(), place).args(line.split(' ')));
        }
        for folder in ["hostA", "hostB", "snapshots", "build", ".zfunc", ".config/fish/completions", "bin"] {
            fs::create_dir_all(place.join(folder)).expect("a folder");
        }
        for (from, to) in [
            ("main.pb.gz", "heap.pb.gz"),
            ("heaptrack.branch.4711.zst", "heaptrack.server.4711.zst"),
            ("before.mallow", "hostA/server.mallow"),
            ("before.mallow", "hostB/server.mallow"),
            ("program.mallow", "big.mallow"),
            ("after.mallow", "tonight.mallow"),
            ("main.pb.gz", "snapshots/heap-20261121T030000Z.pb.gz"),
            ("main.pb.gz", "snapshots/heap-20261121T180000Z.pb.gz"),
        ] {
            fs::copy(place.join(from), place.join(to)).expect("a copy");
        }
        for (name, example) in [("allocations", "allocations"), ("tool", "leak")] {
            let target = format!("build/examples/{example}");
            let made = Run::new("make", &workspace()).arg(&target).go();
            assert_eq!(made.status, 0, "{}{}", made.out(), made.err());
            fs::copy(workspace().join(target), place.join("build").join(name)).expect("a program");
        }
        fs::write(place.join("known.txt"), "leak:known_leak\n").expect("suppressions");
        fs::write(place.join("Makefile"), "all:\n\t@./before\n").expect("a makefile");
        for reader in ["man", "inferno-flamegraph"] {
            let stub = place.join("bin").join(reader);
            fs::write(&stub, "#!/bin/sh\nexec cat > /dev/null\n").expect("a stub");
            fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("a stub");
        }
        symlink(mallow(), place.join("bin/mallow")).expect("a link");
        files
    });
    files.path()
}

/// Runs a line as a shell does, and fails as any part of its pipes.
fn shell(place: &Path, line: &str) -> Outcome {
    let path = format!("{}:{}", place.join("bin").display(), std::env::var("PATH").expect("a search path"));
    let script = format!("set -o pipefail; {line}");
    Run::new(tool("bash"), place).args(["-c", &script]).env("PATH", Some(path)).env("HOME", Some(place)).go()
}

/// The part of a block's output that a mark says is compared.
fn compared(mark: &str, lines: &[String]) -> Vec<String> {
    let without_numbers = |line: &String| {
        let size = |word: &str| ["B", "kB", "MB"].contains(&word.trim_matches([',', ')', ';']));
        let words = line.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit()) && !size(word));
        words.collect::<Vec<_>>().join(" ")
    };
    let names =
        |line: &String| line.split("  ").map(str::trim).filter(|part| !part.is_empty()).nth(1).map(str::to_owned);
    match mark {
        "compared: the columns of names" => lines.iter().filter_map(names).collect(),
        "compared: all but numbers" => lines.iter().map(without_numbers).collect(),
        "compared: the first line, but numbers" => lines.iter().take(1).map(without_numbers).collect(),
        _ => lines.to_vec(),
    }
}

/// Files that the comment behind a command names.
fn promised(command: &str) -> Vec<&str> {
    let comment = command.split_once(" # ").map_or("", |(_, comment)| comment);
    let words = comment.split_whitespace().map(|word| word.trim_end_matches([':', ',', ';']));
    words.filter(|word| word.ends_with(".svg") || word.ends_with(".json")).collect()
}

/// Runs the blocks of a chapter, and counts the commands.
fn check(chapter: &str, text: &str, place: &Path) -> usize {
    let mut count = 0;
    for block in blocks(text).into_iter().filter(|block| !block.mark.starts_with("not run: ")) {
        for (command, shown) in block.commands() {
            count += 1;
            let done = shell(place, &command);
            assert_eq!(done.status, 0, "{chapter}: {command}\n{}{}", done.out(), done.err());
            for file in promised(&command) {
                assert!(place.join(file).exists(), "{chapter}: {command}\nthere is no {file}");
            }
            let Some(shown) = shown else { continue };
            let printed: Vec<String> = (done.out() + &done.err()).lines().map(str::to_owned).collect();
            let [expected, actual] = [trimmed(&shown), trimmed(&printed)].map(|lines| compared(&block.mark, &lines));
            assert!(
                fits(&expected, &actual),
                "{chapter} says of `{command}`:\n{}\n\nIt prints:\n{}",
                shown.join("\n"),
                printed.join("\n")
            );
        }
    }
    count
}

/// The chapters, and the contents.
fn chapters() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("docs/guide")).expect("the guide");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("a chapter").path()).collect();
    all.push(workspace().join("docs/GUIDE.md"));
    all.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn each_command_of_the_guide_succeeds() {
    let mut count = 0;
    for path in chapters() {
        let text = fs::read_to_string(&path).expect("a chapter");
        let place = directory();
        ran(Run::new(tool("cp"), place.path()).args(["-r", "--"]).arg(files().join(".")).arg("."));
        // The cases of a chapter are those that it shows.
        let toml = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        fs::write(place.path().join("mallow.toml"), toml.unwrap_or_default()).expect("cases");
        if name(&path) == "first-look.md" {
            ran(Run::new(tool("strip"), place.path()).args(["-g", "program"]));
        }
        count += check(&name(&path), &text, place.path());
    }
    assert!(count >= 50, "only {count} commands were found");
}

#[test]
fn no_block_of_the_guide_is_skipped_unseen() {
    let (mut not_run, mut partly) = (Vec::new(), Vec::new());
    for path in chapters() {
        for block in blocks(&fs::read_to_string(&path).expect("a chapter")) {
            if let Some(reason) = block.mark.strip_prefix("not run: ") {
                assert!(!block.commands().is_empty(), "{}: {reason}: nothing to run", path.display());
                not_run.push((name(&path), reason.to_owned()));
            }
            if let Some(part) = block.mark.strip_prefix("compared: ") {
                partly.push((name(&path), part.to_owned()));
            }
        }
    }
    let listed = |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect::<Vec<_>>();
    assert_eq!(not_run, listed(NOT_RUN));
    assert_eq!(partly, listed(PARTLY_COMPARED));
}

#[test]
fn wrong_examples_are_found() {
    let place = directory();
    fs::create_dir(place.path().join("bin")).expect("a folder");
    symlink(mallow(), place.path().join("bin/mallow")).expect("a link");
    let finds = |text: &str| {
        let check = std::panic::AssertUnwindSafe(|| check("a chapter", text, place.path()));
        std::panic::catch_unwind(check).is_err()
    };
    for (text, wrong) in [
        ("```\nmallow top missing.mallow\n```\n", true),
        ("<!-- not run: a reason -->\n```\nmallow top missing.mallow\n```\n", false),
        ("<!-- not run: a reason -->\n\nA text.\n\n```\nmallow top missing.mallow\n```\n", true),
        ("```\nmallow --version | grep -q mallow  # a comment\n```\n", false),
        ("```\nmallow --version | grep -q other\n```\n", true),
        ("```\nmallow --version  # writes version.json\n```\n", true),
        ("```\n$ mallow --version\nmallow …\n```\n", true),
        ("```\n$ mallow --version\n…\n```\n", false),
        ("```\nother top missing.mallow\n```\n", false),
    ] {
        assert_eq!(finds(text), wrong, "{text}");
    }
}
