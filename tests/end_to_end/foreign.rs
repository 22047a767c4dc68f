//! Whole foreign workloads, alone, under `mallow record` and in sampling mode: the same output, the same exit status.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::{Case, Outcome, Recorded, directory, is_whole, rounds, tool};

const LONG: Duration = Duration::from_secs(900);

/// A shell script, alone and recorded. Its standard error is its own affair.
fn script(text: &str, environment: &[(&str, &Path)]) -> (Outcome, Recorded) {
    // Cargo starts a rustc with jemalloc inside, and Mallow reports it.
    let own = "rustc has an allocator of its own";
    let mut case = Case::new("/bin/sh").args(["-c", text]).own_errors().may_say(own).limit(LONG);
    for (name, value) in environment {
        case = case.env(name, value);
    }
    compare(&case)
}

fn compare(case: &Case) -> (Outcome, Recorded) {
    let bare = case.bare();
    let record = case.record();
    case.same("record", &bare, &record.outcome);
    assert_eq!(record.losses(), (0, 0));
    let sampled = case.sampled();
    case.same("run", &bare, &sampled.outcome);
    assert!(sampled.samples > 0, "none of {case:?}");
    (bare, record)
}

/// A python3 that has its own test modules: the system's, or one of pyenv's.
fn python() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut all = vec![PathBuf::from("/usr/bin/python3"), PathBuf::from("/usr/local/bin/python3")];
    let versions = fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|v| v.path().join("bin/python3")).collect();
    versions.sort();
    all.extend(versions.into_iter().rev());
    let has_tests = |python: &PathBuf| {
        let modules = "import test.test_threading, test.test_subprocess, test.test_multiprocessing_fork";
        Command::new(python).args(["-c", modules]).output().is_ok_and(|o| o.status.success())
    };
    all.into_iter().find(has_tests).expect("a python3 with its test package: tests/prerequisites lists what to install")
}

/// Runs test modules of python, and gives the names of all tests with their results, in order of the names.
fn python_tests(modules: &[&str], patterns: &[&str]) {
    let python = python();
    let mut case = Case::new(&python).args(["-X", "faulthandler", "-m", "unittest", "-v"]).args(modules).limit(LONG);
    for pattern in patterns {
        case = case.args(["-k", pattern]);
    }
    let bare = case.bare();
    let record = case.record();
    let results = |run: &Outcome| -> Vec<String> {
        let text = run.err();
        let mut lines: Vec<String> =
            text.lines().filter(|l| l.starts_with("test") && l.contains(" ... ")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let sampled = case.sampled();
    for run in [&record.outcome, &sampled.outcome] {
        let differ: Vec<String> = results(run).into_iter().filter(|l| !results(&bare).contains(l)).collect();
        assert_eq!(run.status, bare.status, "{modules:?}: {differ:#?}\n{}", run.err());
        assert_eq!(results(run).len(), results(&bare).len(), "{differ:#?}");
    }
    assert!(sampled.samples > 1000, "{}", sampled.samples);
    assert!(results(&bare).len() > 20, "{}", bare.err());
    assert_eq!(bare.status, 0, "alone, too: {}", bare.err());
    assert_eq!(record.losses(), (0, 0));
}

#[test]
fn python_threads() {
    python_tests(&["test.test_threading"], &[]);
}

/// In parts without the class that repeats another one with `select` for `poll`: the module waits, above all.
#[test]
fn python_subprocesses() {
    let parts =
        ["*.ProcessTestCase.*", "*RunFunc*", "*.POSIX*", "*.Misc*", "*.CommandsWithSpaces.*", "*.ContextManager*"];
    python_tests(&["test.test_subprocess"], if is_whole() { &[] } else { &parts });
}

/// Without `test_terminate` of the pools (and what else begins with a t there): on a busy machine it waits for ever in
/// python 3.9, alone, for a semaphore that a process held which the pool had terminated.
#[test]
fn python_multiprocessing_by_fork() {
    let patterns = ["Process", "Queue", "Lock", "Pool.test_[!t]", "Connection", "Heap"]
        .map(|name| format!("*WithProcessesTest{name}*"));
    python_tests(&["test.test_multiprocessing_fork"], &patterns.each_ref().map(String::as_str));
}

#[test]
fn redis() {
    tool("redis-server");
    tool("redis-benchmark");
    let requests = rounds(20_000);
    let (bare, record) = script(
        &format!(
            "redis-server --port 0 --unixsocket $PWD/socket --save '' --appendonly no --io-threads 2 \\
                --daemonize no >log 2>&1 &
         server=$!
         until redis-cli -s socket ping 2>/dev/null; do sleep 0.05; done
         redis-benchmark -s socket -n {requests} -c 20 -q -t set,get,incr,lpush,sadd,hset,zadd,mset \\
                >benchmark.log || echo failed
         redis-cli -s socket get counter:__rand_int__
         redis-cli -s socket llen mylist
         redis-cli -s socket dbsize
         redis-cli -s socket bgsave
         until redis-cli -s socket info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
         redis-cli -s socket shutdown nosave
         wait $server; echo server $?"
        ),
        &[],
    );
    assert!(
        bare.out().contains(&format!("{requests}\n{requests}\n")) && bare.out().ends_with("server 0\n"),
        "{}",
        bare.out()
    );
    assert!(record.counts().allocations > 100_000, "{:?}", record.counts());
}

#[test]
fn git() {
    let (bare, _) = script(
        "set -e
         export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \\
                GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
         git init -q -b main repo; cd repo
         for i in $(seq 120); do mkdir -p d$((i % 7)); seq $i $((i * 30)) > d$((i % 7))/f$i; done
         git add . && git commit -qm one
         git checkout -q -b side; for i in $(seq 1 3 120); do echo side >> d$((i % 7))/f$i; done; git commit -qam side
         git checkout -q main; for i in $(seq 2 3 120); do echo main >> d$((i % 7))/f$i; done; git commit -qam main
         git merge -q --no-edit side
         git repack -adq --threads=2 && git gc -q && git fsck --no-progress
         git clone -q . ../copy && git -C ../copy log --format='%H %s' && git -C ../copy status --short
         git diff HEAD~1 --stat | tail -1; git grep -c side | wc -l; git blame -s d1/f1 | tail -2
         git show no-such-commit; echo $?",
        &[],
    );
    assert!(bare.out().contains(" one\n"), "{}", bare.out());
}

#[test]
fn make_of_several_files() {
    let (bare, record) = script(
        "for i in 1 2 3 4; do
             printf '#include <map>\\n#include <string>\\nstd::map<int, std::string> m%s{{%s, \"x\"}};\\nint f%s() { return m%s.begin()->first; }\\n' $i $i $i $i > f$i.cpp
         done
         printf '#include <cstdio>\\nint f1(), f2(), f3(), f4();\\nint main() { std::printf(\"%%d\\\\n\", f1() + f2() + f3() + f4()); return 9; }\\n' > main.cpp
         printf 'all: f1.o f2.o f3.o f4.o main.o\\n\\tc++ -o all $^\\n%%.o: %%.cpp\\n\\tc++ -O1 -c -o $@ $<\\nbad:\\n\\tc++ -c no-such-file.cpp\\n' > Makefile
         make -s -j2 all; ./all; echo $?
         sha256sum all
         make -s bad; echo $?",
        &[],
    );
    assert!(bare.out().starts_with("10\n9\n") && bare.out().ends_with("\n2\n"), "{}", bare.out());
    assert!(record.counts().allocations > 100_000);
}

#[test]
fn rust() {
    tool("cargo");
    let (bare, _) = script(
        "cargo new -q --vcs none --name hello hello 2>/dev/null && cd hello
         printf 'fn main() { let all: Vec<String> = (0..1000).map(|i| i.to_string()).collect(); println!(\"{}\", all.concat().len()); std::process::exit(12) }' > src/main.rs
         cargo run -q --offline; echo $?
         printf 'fn main() { let x: u32 = \"text\"; }' > src/main.rs
         cargo build -q --offline; echo $?",
        &[("CARGO_TARGET_DIR", Path::new("target"))],
    );
    assert_eq!(bare.out(), "2890\n12\n101\n");
}

#[test]
fn jvm() {
    tool("java");
    let classes = directory();
    let source = classes.path().join("Main.java");
    fs::write(
        &source,
        "import java.util.*; import java.util.zip.*;
         public class Main {
             public static void main(String[] a) throws Exception {
                 var sums = Collections.synchronizedMap(new TreeMap<Integer, Long>());
                 var threads = new ArrayList<Thread>();
                 for (int t = 0; t < 8; t++) {
                     int me = t;
                     var thread = new Thread(() -> {
                         long sum = 0;
                         for (int i = 0; i < 3000; i++) {
                             var crc = new CRC32(); var d = new Deflater(); d.setInput(new byte[1000 + i]); d.finish();
                             crc.update(i); sum += crc.getValue() + d.deflate(new byte[2000]); d.end();
                         }
                         sums.put(me, sum);
                     });
                     thread.start(); threads.add(thread);
                 }
                 for (var t : threads) t.join();
                 System.out.println(sums);
                 try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println(\"caught\"); }
                 var p = new ProcessBuilder(\"sh\", \"-c\", \"echo child; exit 3\").inheritIO().start();
                 System.out.println(p.waitFor());
                 System.exit(6);
             }
         }",
    )
    .expect("a source");
    let compiled = Command::new(tool("javac")).arg("-d").arg(classes.path()).arg(&source).output().expect("javac");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let case = Case::new("java").arg("-cp").arg(classes.path()).arg("Main").limit(LONG);
    let (bare, record) = compare(&case);
    assert_eq!(bare.status, 6);
    assert!(record.counts().allocations > 24_000, "{:?}", record.counts());
}
