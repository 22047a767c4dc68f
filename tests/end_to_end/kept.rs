//! What interpreters and libraries keep to their end by design fails no gate; what a program leaks beside it does.

use std::fs;
use std::path::Path;

use harness::{Run, directory, mallow, program, tool};
use serde_json::Value;

use crate::other_tools::ran;

fn record(place: &Path, command: &[&str]) {
    let run =
        Run::new(mallow(), place).args(["record", "--scan-all", "--no-report", "-o", "l.mallow", "--"]).args(command);
    let run = run.go();
    assert_eq!(run.status, 0, "{command:?}: {}", run.err());
}

fn leaks(place: &Path, options: &[&str]) -> Value {
    let run = Run::new(mallow(), place).args(["leaks", "--json", "--limit", "0"]).args(options).arg("l.mallow").go();
    serde_json::from_str(&run.out()).unwrap_or_else(|error| panic!("{error}: {}", run.err()))
}

fn gate(place: &Path, options: &[&str]) -> i32 {
    Run::new(mallow(), place).args(["leaks", "--fail-on-leak"]).args(options).arg("l.mallow").go().status
}

/// Blocks and bytes of all that is kept.
fn of_each(kept: &Value) -> (u64, u64) {
    let sum = |key: &str| kept.as_array().into_iter().flatten().filter_map(|kept| kept[key].as_u64()).sum();
    (sum("live"), sum("live_bytes"))
}

#[test]
fn an_empty_program_of_an_interpreter_passes_the_gate() {
    for (keeper, command) in [
        ("CPython", &["/usr/bin/python3", "-c", "print(\"hi\")"][..]),
        ("perl", &["perl", "-MList::Util", "-e", "print \"hi\\n\""]),
        ("bash", &["/bin/bash", "-c", "echo hi"]),
        ("the JVM", &["java", "-version"]),
    ] {
        let place = directory();
        record(place.path(), command);
        let all = leaks(place.path(), &[]);
        assert_eq!(all["reported"], 0, "{keeper}: {:#}", all["leak_causes"]);
        let kept = all["kept"].as_array().expect("keepers").iter().find(|kept| kept["keeper"] == keeper);
        let kept = kept.unwrap_or_else(|| panic!("{keeper}: {:#}", all["kept"]));
        assert!(kept["live"].as_u64() > Some(0), "{kept}");
        assert_eq!((gate(place.path(), &[]), gate(place.path(), &["--no-built-in"])), (0, 3), "{keeper}");
        let shown = Run::new(mallow(), place.path()).args(["leaks", "--suppressed", "l.mallow"]).go().out();
        assert!(shown.contains(&format!("  {keeper}: ")) && shown.contains(": one cause, "), "{shown}");
        // All of it is there, by causes.
        let suppressed = leaks(place.path(), &["--suppressed"]);
        let sum: u64 = suppressed["sites"].as_array().expect("sites").iter().filter_map(|s| s["live"].as_u64()).sum();
        assert_eq!(Some(sum), all["suppressed"].as_u64(), "{keeper}");
        let report = Run::new(mallow(), place.path()).args(["report", "l.mallow"]).go().out();
        assert!(report.contains(&format!(" of it kept by {keeper}, not judged")), "{report}");
        // What a runtime loses by design is its own, too.
        assert!(report.contains(" none lost; ") && !report.contains(" of it lost"), "{keeper}: {report}");
        // What a script leaks in its interpreter has the same stacks.
        let leaks = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
        assert!(leaks.contains(&format!(" {keeper} keeps to its end with all that its script")), "{leaks}");
        assert_eq!(kept["judged"], false, "{kept}");
        // The verdict says whose it is, and not that nothing was live.
        let document = Run::new(mallow(), place.path()).args(["report", "--json", "l.mallow"]).go().out();
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let statements = document["verdict"]["statements"].as_array().expect("statements");
        let said = statements.iter().find(|statement| statement["kind"] == "kept");
        let said = said.unwrap_or_else(|| panic!("{keeper}: {statements:#?}"));
        // Java loads libstdc++: its pool is nobody else's.
        let pool = document["emergency_pool"]["live_bytes"].as_u64().unwrap_or(0);
        assert_eq!(said["kept_bytes"].as_u64(), Some(of_each(&all["kept"]).1 + pool), "{said}");
        // Beside the interpreter glibc, of which a buffer of stdout and the time zone are, and libstdc++.
        let others = all["kept"].as_array().expect("keepers").iter();
        let mut parts: Vec<(u64, &str)> = others
            .filter_map(|kept| Some((kept["live_bytes"].as_u64()?, kept["keeper"].as_str()?)))
            .chain((pool > 0).then_some((pool, "libstdc++")))
            .collect();
        parts.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut keepers: Vec<&str> = Vec::new();
        for (_, name) in parts.iter().filter(|(_, name)| [keeper, "glibc", "libstdc++"].contains(name)) {
            keepers.extend(Some(*name).filter(|name| !keepers.contains(name)));
        }
        assert_eq!((said["keepers"].clone(), keepers[0]), (serde_json::json!(keepers), keeper), "{said}");
        assert!(!report.contains(", by cause: "), "{report}");
        let own = of_each(&document["lost_kept"]);
        assert_eq!((document["lost_blocks"].as_u64(), document["lost_bytes"].as_u64()), (Some(own.0), Some(own.1)));
        assert!(own.0 > 0 || keeper != "perl", "a module in C of perl loses blocks by design");
    }
}

/// A function of the C library that a script calls loses its blocks beside what CPython keeps.
#[test]
fn what_a_script_loses_by_ctypes_fails_the_gate() {
    let place = directory();
    let script = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.strdup.restype = ctypes.c_void_p\n\
                  for i in range(50): libc.strdup(b'x' * 300)\n";
    fs::write(place.path().join("lose.py"), script).expect("a script");
    record(place.path(), &["/usr/bin/python3", "lose.py"]);
    assert_eq!((gate(place.path(), &[]), gate(place.path(), &["--only", "lost"])), (3, 3));
    let all = leaks(place.path(), &["--only", "lost"]);
    // The last pointers may still lie on the stack.
    let lost = all["reported"].as_u64().expect("a number");
    assert!((40..=50).contains(&lost), "{all:#}");
    // The report says as much, without what CPython loses by design.
    let document = Run::new(mallow(), place.path()).args(["report", "--json", "l.mallow"]).go().out();
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let own = of_each(&document["lost_kept"]);
    assert_eq!(document["lost_blocks"].as_u64(), Some(own.0 + lost), "{document:#}");
    let sum = document["lost_bytes"].as_u64().expect("a number") - own.1;
    assert_eq!(Some(sum), all["reported_bytes"].as_u64(), "{document:#}");
    let report = Run::new(mallow(), place.path()).args(["report", "--exact", "l.mallow"]).go().out();
    let words: Vec<_> = report.split_whitespace().map(|word| word.replace(',', "")).collect();
    let said = [sum.to_string().as_str(), "B", "of", "it", "lost;"].map(str::to_owned);
    assert!(words.windows(5).any(|words| words == said), "{sum}: {report}");
    let through = all["leak_causes"][0]["largest_site"]["frames"].to_string();
    assert!(through.contains("strdup") && through.contains("libffi"), "{through}");
}

/// Strings that CPython 3.12 and later frees at no time are its own, whatever is on their stacks: here libffi, and what
/// was computed and then interned. Objects that are forgotten beside them are lost.
#[test]
fn immortal_strings_of_imports_below_foreign_code_are_kept() {
    let Some(python) = crate::scripts::naming("immortal strings") else { return };
    let place = directory();
    let script = "import ctypes, sys
def load():
    import inspect
    sys.intern('-'.join(['an', 'interned', 'name']))
def forget(value):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
ctypes.PYFUNCTYPE(None)(load)()
for number in range(100):
    forget(b'x' * 1000 + bytes([number]))
    forget('forgotten %d' % number)
";
    fs::write(place.path().join("load.py"), script).expect("a script");
    let run =
        Run::new(mallow(), place.path()).args(["record", "--scan-all", "--no-report", "-o", "l.mallow", "--python"]);
    let run = run.env("PYTHONMALLOC", None::<&str>).arg(&python).arg("load.py").go();
    assert_eq!(run.status, 0, "{}", run.err());
    let lost = leaks(place.path(), &["--only", "lost"]);
    // The interpreter's last objects may be held by one that was forgotten.
    let reported = lost["reported"].as_u64().expect("a number");
    assert!((198..=210).contains(&reported), "{lost:#}");
    assert_eq!(lost["leak_causes_in_all"], 1, "{:#}", lost["leak_causes"]);
    let file = lost["leak_causes"][0]["file"].as_str().unwrap_or_default();
    assert!(file.ends_with("load.py"), "{:#}", lost["leak_causes"][0]);
    assert!(lost["kept"][0]["live"].as_u64() > Some(1000), "{lost:#}");
    assert_eq!(lost["kept"][0]["keeper"], "CPython");
    // Without built-in rules all of them are there.
    let all = leaks(place.path(), &["--only", "lost", "--no-built-in"]);
    assert_eq!(all["reported"].as_u64(), lost["kept"][0]["live"].as_u64().map(|kept| kept + reported));
}

/// A user's program that is called as an interpreter is none.
#[test]
fn a_namesake_of_an_interpreter_fails_the_gate() {
    let place = directory();
    for name in ["node", "bash", "perl", "python3"] {
        let namesake = place.path().join(name);
        fs::copy(program("lost"), &namesake).expect("a copy");
        let run =
            Run::new(mallow(), place.path()).args(["record", "--scan-all", "--no-report", "-o", "l.mallow", "--"]);
        assert_eq!(run.arg(&namesake).arg("lose").go().status, 7, "{name}");
        let all = leaks(place.path(), &[]);
        let keepers = all["kept"].as_array().into_iter().flatten().map(|kept| &kept["keeper"]);
        assert!(keepers.eq(["glibc"]) && all["lost_blocks"] == 26, "{name}: {all:#}");
        assert_eq!(gate(place.path(), &[]), 3, "{name}");
    }
}

/// Built as users build them: Rust's runtime keeps a block of its own, and the C library the time zone.
#[test]
fn what_comes_with_a_language_passes_the_gate() {
    let place = directory();
    let at = place.path();
    fs::write(at.join("empty.rs"), "fn main() {}\n").expect("a source");
    let keep = "#[inline(never)]\nfn keep() { std::hint::black_box(Box::leak(Box::new([1u8; 100]))); }\n";
    fs::write(at.join("kept.rs"), format!("fn main() {{ keep(); }}\n{keep}")).expect("a source");
    fs::write(at.join("zone.c"), "#include <time.h>\nint main(void) { time_t t = 0; return localtime(&t) == 0; }\n")
        .expect("a source");
    ran(Run::new(tool("rustc"), at).args(["-g", "empty.rs"]));
    ran(Run::new(tool("rustc"), at).args(["-g", "kept.rs"]));
    ran(Run::new(tool("cc"), at).args(["-g", "-o", "zone", "zone.c"]));
    for (name, keeper, fails) in [("empty", "Rust's runtime", 0), ("zone", "glibc", 0), ("kept", "Rust's runtime", 3)] {
        let program = at.join(name);
        record(at, &[program.to_str().expect("a path")]);
        assert_eq!((gate(at, &[]), gate(at, &["--no-built-in"])), (fails, 3), "{name}");
        let all = leaks(at, &["--only", "reachable"]);
        let kept = all["kept"].as_array().expect("keepers").iter().find(|kept| kept["keeper"] == keeper);
        assert!(kept.is_some_and(|kept| kept["judged"] == true), "{name}: {:#}", all["kept"]);
    }
}
