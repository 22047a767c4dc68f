//! The in-target unwinder against libgcc's, frame by frame, in real programs.

mod workshop;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use workshop::{Workshop, assert_equal_stacks, found, path_from};

#[test]
fn exceptions() {
    let workshop = Workshop::shared();
    let program = workshop.compile("c++", "unwind_check_throw.cpp", "throw", &["-std=c++17", "-pthread"]);
    assert_equal_stacks(&workshop.check::<&str>("throw", 1, &program, &[], ""), 50_000);
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
    assert_equal_stacks(&workshop.check("stacks", 1, &program, &plugins, ""), 3_000);
}

/// Optimised, with frame pointers, and not optimised: then each function is unwound by the frame pointer.
#[test]
fn guesses() {
    let workshop = Workshop::shared();
    for (name, flags) in [("sp", "-O2"), ("fp", "-fno-omit-frame-pointer"), ("plain", "-O0")] {
        let program = workshop.compile("cc", "unwind_check_guess.c", name, &[flags]);
        // In the narrow one the memory of guesses is full again and again, and they begin anew.
        for library in ["check.so", "narrow.so"] {
            let outcome = workshop.check_with(library, name, 1, &program, &["400"], "");
            assert_equal_stacks(&outcome, 100_000);
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
    assert_equal_stacks(&workshop.check("python", 5, &python, &["-c", &code], ""), 10_000);
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
    assert_equal_stacks(&workshop.check("sqlite", 3, &found("sqlite3"), &[":memory:"], script), 10_000);
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
    assert_equal_stacks(&workshop.check("git", 1, &found("sh"), &["-c", script], ""), 10_000);
}

#[test]
fn cxx_compiler() {
    let workshop = Workshop::shared();
    let source = workshop.path("regex.cc");
    let text = "#include <regex>\nint main(int, char **v) { return std::regex_match(v[0], std::regex(\"a+b\")); }\n";
    fs::write(&source, text).expect("source");
    let arguments = [OsStr::new("-O1"), OsStr::new("-S"), OsStr::new("-o"), OsStr::new("/dev/null"), source.as_ref()];
    assert_equal_stacks(&workshop.check("c++", 19, &found("c++"), &arguments, ""), 50_000);
}
