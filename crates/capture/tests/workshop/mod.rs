//! What the tests of the in-target unwinder share: `preload/test/unwind_check.c` compares, this makes the tables, runs
//! the programs and reads the results.

// Each test program uses a part of it.
#![allow(dead_code)]

use mallow_capture::tables::{TableCache, build_id};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// `struct results` of unwind_check.c.
pub const COUNTERS: usize = 11;
pub const TEXT: usize = 1 << 20;

/// What one program's stacks came to.
#[derive(Debug)]
pub struct Outcome {
    pub walked: u64,
    pub guessed: u64,
    pub compared: u64,
    pub equal: u64,
    pub longer: u64,
    pub cut: u64,
    pub different: u64,
    pub frames: u64,
    pub strayed: u64,
    pub kept: u64,
    pub text: String,
}

impl Outcome {
    pub fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("results");
        let mut counters = [0; COUNTERS];
        for (counter, word) in counters.iter_mut().zip(bytes.as_chunks().0) {
            *counter = u64::from_le_bytes(*word);
        }
        let [walked, guessed, compared, equal, longer, cut, different, frames, strayed, kept, used] = counters;
        let text = &bytes[8 * COUNTERS..][..TEXT.min(used as usize)];
        let text = String::from_utf8_lossy(text).into_owned();
        Self { walked, guessed, compared, equal, longer, cut, different, frames, strayed, kept, text }
    }

    pub fn missing(&self) -> BTreeSet<PathBuf> {
        self.text.lines().filter_map(|line| line.strip_prefix("missing ")).map(PathBuf::from).collect()
    }
}

/// The compiled library and programs, and the tables.
pub struct Workshop {
    pub dir: tempfile::TempDir,
}

impl Workshop {
    /// One for all tests of this file.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Workshop> = OnceLock::new();
        SHARED.get_or_init(|| {
            let workshop = Self { dir: tempfile::tempdir().expect("directory") };
            workshop.compile_library("check.so", "");
            workshop.compile_library("narrow.so", "-DBYTES_MOST=32768");
            workshop.table_of_vdso();
            workshop
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn compile_library(&self, name: &str, more: &str) {
        let sources = [
            "test/unwind_check.c",
            "walk/stacks.c",
            "walk/numbers.c",
            "walk/table.c",
            "walk/unwind.c",
            "walk/unwind_full.c",
            "walk/context.c",
            "walk/goroutine.c",
            "walk/stack_bounds.c",
            "arch/x86_64/call.c",
            "walk/modules.c",
            "base/reader.c",
            "base/sys.c",
        ]
        .map(preload);
        let flags = "-std=c11 -D_GNU_SOURCE -O2 -g1 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
                     -fno-stack-protector -fno-plt -fno-tree-vectorize -fcf-protection=none \
                     -fasynchronous-unwind-tables -Wl,-z,now -Wl,-z,defs -Wl,--build-id=sha1";
        let mut cc = Command::new("cc");
        cc.arg("-I").arg(preload("")).arg("-I").arg(preload("arch/x86_64"));
        let flags = flags.split_whitespace().chain(more.split_whitespace());
        cc.args(flags).arg("-o").arg(self.path(name)).args(sources).arg("-lgcc_s");
        succeed(&mut cc);
        self.make_table(&self.path(name));
    }

    pub fn compile(&self, compiler: &str, source: &str, output: &str, flags: &[&str]) -> PathBuf {
        let output = self.path(output);
        let mut command = Command::new(compiler);
        let always = "-O2 -g1 -Wall -Wextra -Werror -D_GNU_SOURCE -fno-builtin-malloc -Wl,--build-id=sha1";
        command.args(always.split(' ')).args(flags);
        succeed(command.arg("-o").arg(&output).arg(preload(&format!("test/{source}"))));
        output
    }

    pub fn cache(&self) -> TableCache {
        TableCache::open(&self.path("tables")).expect("tables")
    }

    /// A module that has none to offer stays without: frame pointers must do, as in a recording.
    pub fn make_table(&self, path: &Path) -> bool {
        let Some(id) = fs::read(path).ok().and_then(|elf| build_id(&elf)) else { return false };
        self.cache().get_or_build(&id, path).is_ok()
    }

    pub fn table_of_vdso(&self) {
        let image = mallow_proc::vdso().expect("maps").expect("vdso");
        let id = build_id(image).expect("the vdso has a build-id");
        self.cache().get_or_build_image(&id, image).expect("table");
    }

    pub fn check<A: AsRef<OsStr>>(
        &self,
        name: &str,
        every: u32,
        program: &Path,
        arguments: &[A],
        input: &str,
    ) -> Outcome {
        self.check_with("check.so", name, every, program, arguments, input)
    }

    /// Runs a program until all its modules that can have tables have them.
    pub fn check_with<A: AsRef<OsStr>>(
        &self,
        library: &str,
        name: &str,
        every: u32,
        program: &Path,
        arguments: &[A],
        input: &str,
    ) -> Outcome {
        let mut tried = BTreeSet::new();
        for round in 0.. {
            let results = self.path(&format!("{name}-{round}"));
            let file = fs::File::create(&results).expect("results");
            file.set_len((8 * COUNTERS + TEXT) as u64).expect("size");
            let input_path = self.path(&format!("{name}-input"));
            fs::write(&input_path, input).expect("input");
            // A program that hangs is a failure too; none of these needs more than seconds.
            let mut command = Command::new("timeout");
            command
                .args(["--signal=KILL", "300"])
                .arg(program)
                .args(arguments)
                .stdin(fs::File::open(&input_path).expect("input"))
                .stdout(Stdio::null())
                .current_dir(self.dir.path())
                .env("LD_PRELOAD", self.path(library))
                .env("PYTHONMALLOC", "malloc")
                .env("MALLOW_CHECK_FILE", &results)
                .env("MALLOW_CHECK_TABLES", self.dir.path())
                .env("MALLOW_CHECK_EVERY", every.to_string());
            succeed(&mut command);
            let outcome = Outcome::read(&results);
            let missing = outcome.missing();
            let made = missing.difference(&tried).filter(|path| self.make_table(path)).count();
            tried.extend(missing);
            if made == 0 || round == 5 {
                println!(
                    "{name}: {} walked, {} guessed, {} compared ({:.1} frames each), {} equal, {} longer, {} cut, {} different",
                    outcome.walked,
                    outcome.guessed,
                    outcome.compared,
                    outcome.frames as f64 / outcome.compared.max(1) as f64,
                    outcome.equal,
                    outcome.longer,
                    outcome.cut,
                    outcome.different
                );
                return outcome;
            }
        }
        unreachable!("the sixth round returns")
    }
}

pub fn preload(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../preload")).join(name)
}

pub fn succeed(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The file that a command prints the path of.
pub fn path_from(program: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let path = String::from_utf8(output.stdout).expect("a path");
    Path::new(path.trim()).canonicalize().unwrap_or_else(|e| panic!("{program} printed {path:?}: {e}"))
}

pub fn found(name: &str) -> PathBuf {
    path_from("sh", &["-c", &format!("command -v {name}")])
}

/// At least 99.9 % equal, and nothing that is neither equal nor announced.
#[track_caller]
pub fn assert_equal_stacks(outcome: &Outcome, least: u64) {
    let of_kind = |kind| outcome.text.lines().filter(move |line| line.starts_with(kind)).take(4);
    let shown: Vec<&str> = ["different", "cut", "longer"].into_iter().flat_map(of_kind).collect();
    let shown = shown.join("\n");
    assert!(outcome.compared >= least, "only {} stacks\n{shown}", outcome.compared);
    assert!(outcome.equal * 1000 >= outcome.compared * 999, "{} of {}\n{shown}", outcome.equal, outcome.compared);
    assert_eq!(outcome.different, 0, "\n{shown}");
}
