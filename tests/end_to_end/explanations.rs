//! Counts against valgrind's, where the C library allocates by itself: equal, but for what `docs/DEFINITIONS.md`
//! explains, to the byte.

use harness::{Case, Counts, Run, directory, program, program_as, tool};

/// `total heap usage` of valgrind: allocations, frees and allocated bytes. It frees nothing by itself at the end.
fn counted_by_valgrind(command: &[&str]) -> [u64; 3] {
    let place = directory();
    let options = ["--run-libc-freeres=no", "--run-cxx-freeres=no", "--leak-check=no"];
    let run = Run::new(tool("valgrind"), place.path()).args(options).args(command).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let err = run.err();
    let usage = err.split_once("total heap usage: ").unwrap_or_else(|| panic!("{err}")).1;
    let usage = usage.lines().next().unwrap_or_default().replace(',', "");
    let numbers: Vec<u64> = usage.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{usage}"))
}

/// The program has so many threads that live at once, and with each of them a table of modules.
fn differs_by_tables(how: &str, threads: u64) {
    let explained = program("explained");
    let plugin = program_as("tls_plugin", "tls_plugin.so", "c++", &[]);
    let command = [&explained, &plugin].map(|path| path.to_str().expect("a plain path").to_owned());
    let threads_word = threads.to_string();
    let arguments = [how, &command[1], &threads_word];
    let [allocations, frees, bytes] = counted_by_valgrind(&[&[command[0].as_str()], &arguments[..]].concat());
    let case = Case::new(&explained).args(arguments);
    let (stat, record) = (case.stat(), case.record());
    assert_eq!(record.losses(), (0, 0));
    for (way, counts) in [("stat", stat.counts()), ("record", record.counts())] {
        let Counts { allocations: a, frees: f, allocated_bytes: b, .. } = counts;
        // libmallow.so is one more module with thread-local storage: 16 bytes in each thread's table.
        assert_eq!([a, f, b], [allocations, frees, bytes + 16 * threads], "{way}: {how}, {threads} threads");
    }
}

#[test]
fn thread_local_objects_of_a_plugin() {
    for threads in [0, 1, 8] {
        differs_by_tables("tls", threads);
    }
}

#[test]
fn libraries_that_are_loaded_and_unloaded() {
    differs_by_tables("dlopen", 0);
}

#[test]
fn many_threads_at_once() {
    for threads in [0, 100] {
        differs_by_tables("threads", threads);
    }
}
