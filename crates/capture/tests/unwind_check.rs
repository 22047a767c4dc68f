//! The in-target unwinder against libgcc's, frame by frame, in real programs: `preload/test/unwind_check.c` compares,
//! this makes the tables, runs the programs and judges.

use mallow_capture::table::{TableCache, build_id};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// `struct results` of unwind_check.c.
const COUNTERS: usize = 9;
const TEXT: usize = 1 << 20;

/// What one program's stacks came to.
#[derive(Debug)]
struct Outcome {
    walked: u64,
    guessed: u64,
    compared: u64,
    equal: u64,
    longer: u64,
    cut: u64,
    different: u64,
    frames: u64,
    text: String,
}

impl Outcome {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("results");
        let mut counters = [0; COUNTERS];
        for (counter, word) in counters.iter_mut().zip(bytes.as_chunks().0) {
            *counter = u64::from_le_bytes(*word);
        }
        let [walked, guessed, compared, equal, longer, cut, different, frames, used] = counters;
        let text = &bytes[8 * COUNTERS..][..TEXT.min(used as usize)];
        let text = String::from_utf8_lossy(text).into_owned();
        Self { walked, guessed, compared, equal, longer, cut, different, frames, text }
    }

    fn missing(&self) -> BTreeSet<PathBuf> {
        self.text.lines().filter_map(|line| line.strip_prefix("missing ")).map(PathBuf::from).collect()
    }
}

/// The compiled library and programs, and the tables.
struct Workshop {
    dir: tempfile::TempDir,
}

impl Workshop {
    /// One for all tests of this file.
    fn shared() -> &'static Self {
        static SHARED: OnceLock<Workshop> = OnceLock::new();
        SHARED.get_or_init(|| {
            let workshop = Self { dir: tempfile::tempdir().expect("directory") };
            workshop.compile_library("check.so", "");
            workshop.compile_library("narrow.so", "-DBYTES_MOST=32768");
            workshop.table_of_vdso();
            workshop
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn compile_library(&self, name: &str, more: &str) {
        let sources =
            ["test/unwind_check.c", "stacks.c", "numbers.c", "unwind.c", "unwind_full.c", "modules.c", "sys.c"]
                .map(preload);
        let flags = "-std=c11 -D_GNU_SOURCE -O2 -g1 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
                     -fno-stack-protector -fno-plt -fno-tree-vectorize -fcf-protection=none \
                     -fasynchronous-unwind-tables -Wl,-z,now -Wl,--build-id=sha1";
        let mut cc = Command::new("cc");
        let flags = flags.split_whitespace().chain(more.split_whitespace());
        cc.args(flags).arg("-o").arg(self.path(name)).args(sources).arg("-lgcc_s");
        succeed(&mut cc);
        self.make_table(&self.path(name));
    }

    fn compile(&self, compiler: &str, source: &str, output: &str, flags: &[&str]) -> PathBuf {
        let output = self.path(output);
        let mut command = Command::new(compiler);
        let always = "-O2 -g1 -Wall -Wextra -Werror -D_GNU_SOURCE -fno-builtin-malloc -Wl,--build-id=sha1";
        command.args(always.split(' ')).args(flags);
        succeed(command.arg("-o").arg(&output).arg(preload(&format!("test/{source}"))));
        output
    }

    fn cache(&self) -> TableCache {
        TableCache::open(&self.path("tables")).expect("tables")
    }

    /// A module that has none to offer stays without: frame pointers must do, as in a recording.
    fn make_table(&self, path: &Path) -> bool {
        let Some(id) = fs::read(path).ok().and_then(|elf| build_id(&elf)) else { return false };
        self.cache().get_or_build(&id, path).is_ok()
    }

    fn table_of_vdso(&self) {
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).expect("vdso");
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("range");
        let [start, end] = [start, end].map(|n| u64::from_str_radix(n, 16).expect("address"));
        let mut image = vec![0; (end - start) as usize];
        fs::File::open("/proc/self/mem").and_then(|memory| memory.read_exact_at(&mut image, start)).expect("vdso");
        let id = build_id(&image).expect("the vdso has a build-id");
        self.cache().get_or_build_image(&id, &image).expect("table");
    }

    fn check<A: AsRef<OsStr>>(&self, name: &str, every: u32, program: &Path, arguments: &[A], input: &str) -> Outcome {
        self.check_with("check.so", name, every, program, arguments, input)
    }

    /// Runs a program until all its modules that can have tables have them.
    fn check_with<A: AsRef<OsStr>>(
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

fn preload(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../preload")).join(name)
}

fn succeed(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The file that a command prints the path of.
fn path_from(program: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let path = String::from_utf8(output.stdout).expect("a path");
    Path::new(path.trim()).canonicalize().unwrap_or_else(|e| panic!("{program} printed {path:?}: {e}"))
}

fn found(name: &str) -> PathBuf {
    path_from("sh", &["-c", &format!("command -v {name}")])
}

/// At least 99.9 % equal, and nothing that is neither equal nor announced.
#[track_caller]
fn judge(outcome: &Outcome, least: u64) {
    let of_kind = |kind| outcome.text.lines().filter(move |line| line.starts_with(kind)).take(4);
    let shown: Vec<&str> = ["different", "cut", "longer"].into_iter().flat_map(of_kind).collect();
    let shown = shown.join("\n");
    assert!(outcome.compared >= least, "only {} stacks\n{shown}", outcome.compared);
    assert!(outcome.equal * 1000 >= outcome.compared * 999, "{} of {}\n{shown}", outcome.equal, outcome.compared);
    assert_eq!(outcome.different, 0, "\n{shown}");
}

#[test]
fn exceptions() {
    let workshop = Workshop::shared();
    let program = workshop.compile("c++", "unwind_check_throw.cpp", "throw", &["-std=c++17", "-pthread"]);
    judge(&workshop.check::<&str>("throw", 1, &program, &[], ""), 50_000);
}

#[test]
fn signals_coroutines_plugins_and_odd_frames() {
    let workshop = Workshop::shared();
    let flags = ["-mavx", "-pthread", "-ldl", "-no-pie", "-Wl,-z,lazy", "-Wl,--section-start=.far=0x4000000"];
    let program = workshop.compile("cc", "unwind_check_stacks.c", "stacks", &flags);
    let plugins: Vec<PathBuf> = [16, 200, 1000]
        .into_iter()
        .map(|n| {
            let padding = format!("-DPADDING={n}");
            let flags = ["-shared", "-fPIC", "-Wl,-z,lazy", &padding];
            workshop.compile("cc", "unwind_check_plugin.c", &format!("plugin{n}.so"), &flags)
        })
        .collect();
    judge(&workshop.check("stacks", 1, &program, &plugins, ""), 3_000);
}

/// Optimised, with frame pointers, and not optimised: then each function is unwound by rbp.
#[test]
fn guesses() {
    let workshop = Workshop::shared();
    for (name, flags) in [("rsp", "-O2"), ("rbp", "-fno-omit-frame-pointer"), ("plain", "-O0")] {
        let program = workshop.compile("cc", "unwind_check_guess.c", name, &[flags]);
        // In the narrow one the memory of guesses is full again and again, and they begin anew.
        for library in ["check.so", "narrow.so"] {
            let outcome = workshop.check_with(library, name, 1, &program, &["400"], "");
            judge(&outcome, 100_000);
            assert!(outcome.guessed * 2 > outcome.walked, "{name}: {} of {} guessed", outcome.guessed, outcome.walked);
        }
    }
}

#[test]
fn python() {
    let workshop = Workshop::shared();
    let python = path_from("python3", &["-c", "import sys; print(sys.executable)"]);
    let code = "import json, re, decimal, ctypes, sqlite3, subprocess, threading, sys\n\
                data = json.loads(json.dumps([{'key%d' % i: [i, str(i), i / 7] for i in range(30)} for _ in range(60)]))\n\
                re.compile('(a|b)*c+(?P<n>[0-9]+)').findall('abac12' * 500)\n\
                threads = [threading.Thread(target=lambda: sorted(str(i) for i in range(3000))) for _ in range(4)]\n\
                [t.start() for t in threads]; [t.join() for t in threads]\n\
                ctypes.CDLL(None).qsort((ctypes.c_int * 40)(*range(40, 0, -1)), 40, 4,\n\
                    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: len(str(a)) and 0))\n\
                db = sqlite3.connect(':memory:')\n\
                db.create_function('twice', 1, lambda n: [n, n * 2][1])\n\
                db.executescript('create table t(a, b); create index i on t(b)')\n\
                db.executemany('insert into t values (?, ?)', [(i, str(i * 7919 % 1000)) for i in range(2000)])\n\
                db.execute('select twice(a), b from t order by b, a').fetchall()\n\
                subprocess.run([sys.executable, '-c', 'import decimal; decimal.Decimal(1) / 7'], check=True)\n";
    let code: String = code.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    judge(&workshop.check("python", 5, &python, &["-c", &code], ""), 10_000);
}

#[test]
fn sqlite() {
    let workshop = Workshop::shared();
    let script = "create table t(a integer, b text);\n\
                  with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)\n\
                  insert into t select i, 'text ' || (i * 7919 % 20000) from n;\n\
                  create index i on t(b);\n\
                  select count(*), max(b), group_concat(a) from (select * from t order by b limit 1000);\n\
                  select json_group_array(json_object('a', a, 'b', upper(b))) from t where a < 500;\n";
    judge(&workshop.check("sqlite", 3, &found("sqlite3"), &[":memory:"], script), 10_000);
}

#[test]
fn git() {
    let workshop = Workshop::shared();
    let script = "set -e; rm -rf repository; mkdir repository; cd repository; git init -q .\n\
                  for i in 1 2 3 4 5 6; do\n\
                    seq $i 2000 > numbers; seq 1 $i > few; git add .\n\
                    git -c user.name=n -c user.email=e commit -q -m \"commit $i\"\n\
                  done\n\
                  git log -p --stat >/dev/null; git blame numbers >/dev/null; git gc -q; git fsck >/dev/null\n";
    judge(&workshop.check("git", 1, &found("sh"), &["-c", script], ""), 10_000);
}

#[test]
fn cxx_compiler() {
    let workshop = Workshop::shared();
    let source = workshop.path("regex.cc");
    let text = "#include <regex>\nint main(int, char **v) { return std::regex_match(v[0], std::regex(\"a+b\")); }\n";
    fs::write(&source, text).expect("source");
    let arguments = [OsStr::new("-O1"), OsStr::new("-S"), OsStr::new("-o"), OsStr::new("/dev/null"), source.as_ref()];
    judge(&workshop.check("c++", 19, &found("c++"), &arguments, ""), 50_000);
}
