//! Programs that allocate past malloc: the first line of each report says so, on any machine.

use std::fs;

use serde_json::Value;

use harness::{Case, Recorded, Run, directory, gcc, mallow, program_as, tool};

const PYTHON: &str = "Incomplete: Python allocates objects of up to 512 bytes in arenas of its own, by mmap";

fn python(arguments: &[&str]) -> Case {
    Case::new("/usr/bin/python3").args(arguments)
}

/// The first line of the report, and what `--json` says.
fn first(record: &Recorded) -> (String, serde_json::Value) {
    let text = record.shown(&["report"]);
    (text.lines().next().unwrap_or_default().to_owned(), record.view_json(&["report"])["custom_allocators"].clone())
}

#[test]
fn a_python_program_is_incomplete_without_its_setting() {
    let record = python(&["-c", "x = [str(i) for i in range(1000)]"]).env("PYTHONMALLOC", "").record();
    let (line, json) = first(&record);
    assert!(line.starts_with(PYTHON) && line.ends_with("set PYTHONMALLOC=malloc to see each"), "{line}");
    assert_eq!((json[0]["processes"].as_u64(), json.as_array().map(Vec::len)), (Some(1), Some(1)), "{json:#}");
    // It is in the file, and stays there.
    let place = record.directory.path();
    let packed = place.join("packed.mallow");
    let pack = Run::new(mallow(), place).args(["pack", "-o"]).arg(&packed).arg(&record.file).go();
    assert_eq!(pack.status, 0, "{}", pack.err());
    let report = Run::new(mallow(), place).arg("report").arg(&packed).go();
    assert!(report.out().starts_with(PYTHON), "{}", report.out());
    // record, stat, watch and guard say the same at once.
    for way in [&["record", "-o", "now.mallow"][..], &["stat"], &["watch"], &["guard"]] {
        let run = Run::new(mallow(), place).args(way).args(["--", "/usr/bin/python3", "-c", "0"]);
        let run = run.env("PYTHONMALLOC", None::<&str>).go();
        assert!(run.err().contains(PYTHON), "{way:?}: {}", run.err());
    }
}

/// "No change" alone would be said of objects that nobody looked at.
#[test]
fn a_comparison_says_what_its_sides_lack() {
    let place = directory();
    let record = |name: &str, setting: &str| {
        let script = "x = [str(i) for i in range(1000)]";
        let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", name]);
        let outcome = run.args(["--", "/usr/bin/python3", "-c", script]).env("PYTHONMALLOC", Some(setting)).go();
        assert_eq!(outcome.status, 0, "{}", outcome.err());
    };
    record("arenas", "pymalloc");
    record("malloc", "malloc");
    let said = |how: &[&str], before: &str, after: &str| {
        Run::new(mallow(), place.path())
            .arg("diff")
            .args(how)
            .args([before, after])
            .env("COLUMNS", Some("1000"))
            .go()
            .out()
    };
    let what = "Python allocates objects of up to 512 bytes in arenas of its own";
    for (before, after, side) in
        [("arenas", "arenas", "both"), ("malloc", "arenas", "arenas"), ("arenas", "malloc", "arenas")]
    {
        let (text, markdown) = (said(&[], before, after), said(&["--markdown"], before, after));
        assert!(text.starts_with(&format!("Incomplete: {side}: {what}")), "{before} {after}: {text}");
        assert!(markdown.starts_with(&format!("**Incomplete:** {side}: {what}")), "{before} {after}: {markdown}");
    }
    let text = said(&[], "malloc", "malloc");
    assert!(!text.contains("Incomplete"), "{text}");
    for view in ["top", "tree"] {
        let said = |how: &[&str]| {
            let run = Run::new(mallow(), place.path()).arg(view).args(how).args(["--base", "malloc", "arenas"]);
            run.env("COLUMNS", Some("1000")).go().out()
        };
        let (text, json) = (said(&[]), said(&["--json"]));
        assert!(text.starts_with(&format!("Incomplete: arenas: {what}")), "{view}: {text}");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert!(json["incomplete"][0].as_str().is_some_and(|text| text.starts_with("arenas: ")), "{view}: {json}");
    }
    let flame = Run::new(mallow(), place.path()).args(["flame", "--base", "malloc", "-o", "f.svg", "arenas"]).go();
    assert!(flame.err().contains(&format!("arenas: {what}")), "{}", flame.err());
    let json: Value = serde_json::from_str(&said(&["--json"], "malloc", "malloc")).expect("JSON");
    assert!(json.get("incomplete").is_none(), "{}", json["incomplete"]);
}

/// A limit holds of what is seen: where something is not, nobody knows whether it holds.
#[test]
fn a_limit_on_incomplete_numbers_is_not_known_to_hold() {
    let place = directory();
    let record = |name: &str, setting: &str, script: &str| {
        let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", name]);
        let outcome = run.args(["--", "/usr/bin/python3", "-c", script]).env("PYTHONMALLOC", Some(setting)).go();
        assert!(place.path().join(name).is_file(), "{}", outcome.err());
    };
    record("arenas", "pymalloc", "x = [str(i) for i in range(100)]");
    record("malloc", "malloc", "x = [str(i) for i in range(100)]");
    record("failed", "malloc", "import os; os._exit(7)");
    let compared = |how: &[&str], before: &str, after: &str| {
        Run::new(mallow(), place.path()).arg("diff").args(how).args([before, after]).go()
    };
    let unknown = compared(&["--fail-above=1M"], "arenas", "arenas");
    assert_eq!(unknown.status, 4, "{}", unknown.err());
    assert!(unknown.err().contains("numbers are incomplete: both: Python allocates"), "{}", unknown.err());
    assert_eq!(compared(&["--fail-above=1M", "--allow-incomplete"], "arenas", "arenas").status, 0);
    assert_eq!(compared(&["--fail-above=1M"], "malloc", "malloc").status, 0);
    assert_eq!(compared(&["--fail-above=0"], "arenas", "malloc").status, 3, "what is seen is above it already");
    let less = compared(&["--fail-above=1M"], "malloc", "failed");
    assert_eq!(less.status, 4, "{}", less.err());
    assert!(less.err().contains("failed: the command ended with status 7, that of malloc with 0"), "{}", less.err());
}

/// A shared libpython: of the interpreter it is certain; a program that is linked with it starts it if a stack leads
/// through it.
#[test]
fn an_interpreter_with_a_shared_library_is_python() {
    let place = directory();
    let at = place.path();
    std::fs::write(at.join("lib.c"), "#include <stdlib.h>\nint Py_BytesMain(int n) { free(malloc(n)); return 0; }\n")
        .expect("a source");
    std::fs::write(
        at.join("main.c"),
        "#include <stdlib.h>\nint Py_BytesMain(int);\n\
         int main(int count, char **a) { free(malloc(9)); return count > 1 ? Py_BytesMain(count + (a == NULL)) : 0; }\n",
    )
    .expect("a source");
    gcc(at, &["-shared", "-fPIC", "-fno-builtin", "-o", "libpython3.99.so", "lib.c"]);
    for (name, argument, expected) in [
        ("python3.99", "run", "Incomplete: Python allocates objects of up to 512 bytes in arenas of its own"),
        ("ledger", "run", "Incomplete: Where the program starts Python, which it is linked with,"),
        ("ledger", "", ""),
    ] {
        gcc(at, &["-O0", "-fno-builtin", "-o", name, "main.c", "-L.", "-l:libpython3.99.so", "-Wl,-rpath,$ORIGIN"]);
        let run = Run::new(mallow(), at).args(["record", "-o", "r.mallow", "--"]).arg(at.join(name));
        let run = if argument.is_empty() { run } else { run.arg(argument) }.go();
        assert!(run.err().starts_with(expected), "{name}: {}", run.err());
        assert_eq!(run.err().contains("Incomplete"), !expected.is_empty(), "{name}: {}", run.err());
    }
    // --python executes an interpreter, which would not find the program's arguments.
    for (name, next) in
        [("python3.99", "mallow record --python …"), ("ledger", "PYTHONMALLOC=malloc mallow record -- ")]
    {
        let watch = Run::new(mallow(), at).args(["watch", "--"]).arg(at.join(name)).arg("run").go();
        assert!(watch.err().contains(&format!("Next: {next}")), "{name}: {}", watch.err());
    }
}

/// As guile and w3m have it.
#[test]
fn a_program_with_boehms_collector_is_incomplete() {
    let place = directory();
    let at = place.path();
    fs::write(at.join("lib.c"), "int GC_init(void) { return 0; }\n").expect("a source");
    let main = "#include <stdlib.h>\nint GC_init(void);\nint main(void) { free(malloc(9)); return GC_init(); }\n";
    fs::write(at.join("main.c"), main).expect("a source");
    for arguments in [
        &["-shared", "-fPIC", "-Wl,-soname,libgc.so.1", "-o", "libgc.so.1", "lib.c"][..],
        &["-O0", "-fno-builtin", "-o", "main", "main.c", "-L.", "-l:libgc.so.1", "-Wl,-rpath,$ORIGIN"],
    ] {
        gcc(at, arguments);
    }
    let run = Run::new(mallow(), at).args(["record", "-o", "r.mallow", "--"]).arg(at.join("main")).go();
    let first = run.err().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first.starts_with("Incomplete: Boehm's collector, by way of libgc.so.1, has a heap of its own"), "{first}");
}

#[test]
fn a_watch_of_python_has_it_in_each_report() {
    let place = directory();
    let watch = |setting: Option<&str>| {
        let run = Run::new(mallow(), place.path()).args(["watch", "--json", "-o", "reports", "--every", "200ms"]);
        let run = run.args(["--", "/usr/bin/python3", "-c", "import time; time.sleep(1)"]);
        let done = run.env("PYTHONMALLOC", setting).go();
        assert_eq!(done.status, 0, "{}", done.err());
        let reports = fs::read_to_string(place.path().join("reports")).expect("reports");
        harness::documents(&reports)
    };
    let last = |reports: &[serde_json::Value]| reports.last().expect("a report")["custom_allocators"].clone();
    let without = last(&watch(None));
    let found = without[0]["found"].as_str().expect("a sentence");
    assert!(format!("Incomplete: {found}").starts_with(PYTHON), "{without:#}");
    assert_eq!(without[0]["processes"], 1, "{without:#}");
    assert_eq!(last(&watch(Some("malloc"))), serde_json::json!([]));
}

#[test]
fn what_is_set_for_a_process_counts_for_it_alone() {
    let set = python(&["-c", "0"]).env("PYTHONMALLOC", "malloc").record();
    assert!(!set.shown(&["report"]).contains("Incomplete"), "{}", set.shown(&["report"]));
    // -I and -E leave the variables aside, and so does a value of the program's own arguments not.
    for (arguments, incomplete) in
        [(&["-I", "-c", "0"][..], true), (&["-BE", "-c", "0"], true), (&["-W", "Ignore", "-c", "0", "-E"], false)]
    {
        let record = python(arguments).env("PYTHONMALLOC", "malloc_debug").record();
        assert_eq!(record.shown(&["report"]).starts_with(PYTHON), incomplete, "{arguments:?}");
    }
    let script = "PYTHONMALLOC=malloc /usr/bin/python3 -c 0; /usr/bin/python3 -c 0; exit 0";
    let both = Case::new("sh").args(["-c", script]).env("PYTHONMALLOC", "").record();
    let (line, _) = first(&both);
    assert!(line.starts_with(PYTHON) && line.contains(", 1 of 3 processes)"), "{line}");
}

#[test]
fn an_allocator_inside_is_named() {
    let place = directory();
    let source = place.path().join("inside.c");
    let text = "#include <stdlib.h>\nvoid *je_malloc(size_t n) { return malloc(n); }\nint main(void) { return je_malloc(9) == 0; }\n";
    fs::write(&source, text).expect("a source");
    let built = Run::new(tool("cc"), place.path()).args(["-o", "inside", "inside.c"]).go();
    assert_eq!(built.status, 0, "{}", built.err());
    let record = Case::new(place.path().join("inside")).record();
    let (line, _) = first(&record);
    assert!(line.starts_with("Incomplete: ") && line.contains("inside has jemalloc inside"), "{line}");
    let plain = Case::new(program_as("busy", "busy", "cc", &[])).args(["1", "1"]).record();
    assert_eq!(first(&plain).1, serde_json::Value::Null);
}
