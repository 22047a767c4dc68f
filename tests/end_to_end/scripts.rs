//! Scripts: functions of Python, Node and Java are the places where perf maps name them.
//!
//! A python that names its functions for perf (CPython 3.12 or later) is the system's, or one of pyenv's.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Case, Outcome, Recorded, Run, directory, mallow, mount_namespace, not_run, program, program_as, tool};
use serde_json::Value;

use crate::watch_harness::{Alive, quiet, until, wait_for};

const SCRIPT: &str = "import json
def build(n):
    return [[i, str(i), {'key': i}] for i in range(n)]
def main():
    text = json.dumps(build(3000))
    print(len(json.loads(text)))
main()
";

/// Pythons of this machine.
fn pythons() -> Vec<PathBuf> {
    let pyenv = std::env::var_os("PYENV_ROOT").map_or_else(|| PathBuf::from("/root/.pyenv"), PathBuf::from);
    let versions = fs::read_dir(pyenv.join("versions")).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = versions.map(|version| version.path().join("bin/python3")).collect();
    all.sort_unstable();
    all.push(PathBuf::from("/usr/bin/python3"));
    all.retain(|python| python.exists());
    all
}

fn names_functions(python: &Path) -> bool {
    let code = "import sys; sys.activate_stack_trampoline('perf'); sys.deactivate_stack_trampoline()";
    Command::new(python).args(["-c", code]).output().is_ok_and(|output| output.status.success())
}

/// One that names its functions.
pub fn naming(test: &str) -> Option<PathBuf> {
    let found = pythons().into_iter().rev().find(|python| names_functions(python));
    if found.is_none() {
        not_run(test, "there is no CPython 3.12 or later");
    }
    found
}

/// Records by `mallow record --python`, without its report.
fn recorded(place: &Path, arguments: &[&str]) -> Outcome {
    let run = Run::new(mallow(), place).args(["record", "--no-report", "-o", "run.mallow", "--python"]).args(arguments);
    run.env("PYTHONMALLOC", None::<&str>).env("PYTHONPERFSUPPORT", None::<&str>).go()
}

fn shown(place: &Path, arguments: &[&str]) -> String {
    let run = Run::new(mallow(), place).args(arguments).arg("run.mallow").go();
    assert_eq!(run.status, 0, "{}", run.err());
    run.out()
}

fn report(place: &Path) -> Value {
    serde_json::from_str(&shown(place, &["report", "--json"])).expect("JSON")
}

/// Of all lists of places: function, file name, callers.
fn places(report: &Value) -> Vec<(String, String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all = Vec::new();
    for list in report["largest"].as_array().expect("lists") {
        for place in list["largest"].as_array().expect("places") {
            let frames = place["largest_site"]["frames"].as_array().expect("frames").clone();
            let own = frames.iter().filter(|frame| frame["looked_past"] == false);
            let callers = own.map(|frame| text(&frame["function"])).collect();
            let file = text(&place["file"]);
            let file = file.rsplit('/').next().unwrap_or_default().to_owned();
            all.push((text(&place["function"]), file, callers));
        }
    }
    all
}

#[test]
fn functions_of_a_python_script_are_the_places() {
    let Some(python) = naming("functions_of_a_python_script_are_the_places") else { return };
    let python = python.to_str().expect("a plain path");
    let place = directory();
    fs::write(place.path().join("script.py"), SCRIPT).expect("a file");
    let run = recorded(place.path(), &[python, "script.py", "--json"]);
    assert_eq!((run.status, run.out().trim()), (0, "3000"), "{}", run.err());
    let expected = "mallow: sets PYTHONMALLOC=malloc, to record each object, and PYTHONPERFSUPPORT=1, to name functions of scripts";
    assert_eq!(run.err().lines().next(), Some(expected), "{}", run.err());
    let document = report(place.path());
    assert!(document.get("custom_allocators").is_none(), "{document:#}");
    let all = places(&document);
    let found = |function: &str, file: &str| all.iter().find(|place| place.0 == function && place.1 == file);
    let (_, _, callers) = found("build", "script.py").unwrap_or_else(|| panic!("{all:#?}"));
    assert_eq!(callers[..3], ["build", "main", "<module>"], "the interpreter's functions are looked past");
    assert!(found("JSONDecoder.raw_decode", "decoder.py").is_some(), "{all:#?}");
    let (first, _, callers) = &all[0];
    assert!(callers.contains(&"main".to_owned()), "{first}: {callers:?}");
    // Insights name functions of the script, too.
    let insights: Value = serde_json::from_str(&shown(place.path(), &["report", "--json", "--all"])).expect("JSON");
    let best = &insights["insights"][0];
    assert!(best["file"].as_str().is_none_or(|file| file.ends_with(".py")), "{best:#}");
    // And --raw shows what was looked past.
    let top = |arguments: &[&str]| {
        shown(place.path(), &[&["top", "--cum", "--limit", "60", "--focus", "^build$"], arguments].concat())
    };
    assert!(!top(&[]).contains("_PyEval_EvalFrameDefault"), "{}", top(&[]));
    assert!(top(&["--raw"]).contains("_PyEval_EvalFrameDefault"), "{}", top(&["--raw"]));
}

#[test]
fn a_python_module_is_run() {
    let Some(python) = naming("a_python_module_is_run") else { return };
    let place = directory();
    fs::create_dir(place.path().join("tool")).expect("a folder");
    fs::write(place.path().join("tool/__main__.py"), SCRIPT).expect("a file");
    // The first python of the search path, as a virtual environment has it.
    let folder = python.parent().expect("a folder").to_str().expect("a plain path");
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a search path"));
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "--python", "-m", "tool"]);
    let run = run.env("PATH", Some(path)).go();
    assert_eq!((run.status, run.out().trim()), (0, "3000"), "{}", run.err());
    assert!(
        run.err().ends_with("mallow: recorded to tool.mallow; mallow view tool.mallow opens it\n"),
        "{}",
        run.err()
    );
    fs::rename(place.path().join("tool.mallow"), place.path().join("run.mallow")).expect("a recording");
    let all = places(&report(place.path()));
    assert!(
        all.iter().any(|(function, file, _)| (function.as_str(), file.as_str()) == ("build", "__main__.py")),
        "{all:#?}"
    );
}

#[test]
fn an_old_python_is_recorded_and_the_version_named() {
    let Some(python) = pythons().into_iter().find(|python| !names_functions(python)) else {
        return not_run("an_old_python_is_recorded_and_the_version_named", "each python names its functions");
    };
    let place = directory();
    fs::write(place.path().join("script.py"), "print([str(i) for i in range(2000)][-1])\n").expect("a file");
    let run = recorded(place.path(), &[python.to_str().expect("a plain path"), "script.py"]);
    assert_eq!((run.status, run.out().trim()), (0, "1999"), "{}", run.err());
    let first = run.err().lines().next().unwrap_or_default().to_owned();
    assert!(
        first.starts_with("mallow: sets PYTHONMALLOC=malloc, to record each object; ") && !first.contains("PERF"),
        "{first}"
    );
    assert!(first.ends_with(": functions of scripts have names from CPython 3.12 on"), "{first}");
    let document = report(place.path());
    assert!(document.get("custom_allocators").is_none(), "{document:#}");
    assert!(document["allocations"].as_u64() > Some(2000), "{document:#}");
}

/// pyenv puts such a script in the place of each interpreter.
#[test]
fn the_interpreter_that_a_shim_starts_is_recorded() {
    let python = pythons().pop().expect("a python");
    let python = python.to_str().expect("a plain path");
    let place = directory();
    let shims = place.path().join("shims");
    fs::create_dir(&shims).expect("a folder");
    let shim = |text: &str| {
        let path = shims.join("python3");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable file");
    };
    fs::write(place.path().join("script.py"), "import os; print(os.environ['OF_SHIM'])\n").expect("a file");
    let path = format!("{}:{}", shims.display(), std::env::var("PATH").expect("a search path"));
    let record = || {
        let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "--python", "script.py"]);
        run.env("PATH", Some(&path)).go()
    };
    shim(&format!("#!/bin/sh\necho chosen\n(exit 0) | (exit 0)\nOF_SHIM='a b' exec {python} \"$@\"\n"));
    let run = record();
    assert_eq!((run.status, &*run.out()), (0, "a b\n"), "{}", run.err());
    let said = format!(
        "{} is a script that starts {python}: records that, without the script",
        shims.join("python3").display()
    );
    assert_eq!(run.err().lines().next(), Some(&*format!("mallow: {said}")), "{}", run.err());
    fs::rename(place.path().join("script.py.mallow"), place.path().join("run.mallow")).expect("a recording");
    let processes = report(place.path())["processes"].as_array().map(Vec::len);
    assert_eq!(processes, Some(1), "{:#}", report(place.path()));
    // One that does not start any is recorded as it is.
    shim("#!/bin/sh\nexit 3\n");
    let run = record();
    let why = "is a script, and did not say which Python it starts: its own processes are recorded, too. Name the interpreter instead";
    assert!(run.status == 3 && run.err().contains(why), "{} {}", run.status, run.err());
}

#[test]
fn who_imports_a_module_is_the_place() {
    let Some(python) = naming("who_imports_a_module_is_the_place") else { return };
    let place = directory();
    let numbers = (0..3000).map(|number| format!("n{number} = '{number} of many'\n")).collect::<String>();
    fs::write(place.path().join("numbers_of.py"), numbers).expect("a file");
    fs::write(place.path().join("script.py"), "def load():\n    import numbers_of\nload()\n").expect("a file");
    let run = recorded(place.path(), &[python.to_str().expect("a plain path"), "script.py"]);
    assert_eq!(run.status, 0, "{}", run.err());
    let all = places(&report(place.path()));
    // The compiler of the module, called by the machinery that load() began.
    assert!(all.iter().any(|(function, file, _)| function == "load" && file == "script.py"), "{all:#?}");
    let machinery = |(_, file, callers): &&(String, String, Vec<String>)| {
        file.starts_with("<frozen importlib") && callers.iter().any(|caller| caller == "load")
    };
    assert_eq!(all.iter().filter(machinery).count(), 0, "{all:#?}");
}

#[test]
fn methods_of_java_are_the_places() {
    let found = |name: &str| Command::new(name).arg("-version").output().is_ok_and(|output| output.status.success());
    if !found("java") || !found("javac") {
        return not_run("methods_of_java_are_the_places", "there is no JDK");
    }
    let place = directory();
    let source = "import java.util.zip.*;
        public class Store {
            static int squeeze(int n) {
                int sum = 0;
                for (int i = 0; i < n; i++) {
                    Deflater one = new Deflater();
                    one.setInput(new byte[1000]);
                    one.finish();
                    sum += one.deflate(new byte[2000]);
                    one.end();
                }
                return sum;
            }
            public static void main(String[] words) {
                int sum = 0;
                for (int i = 0; i < 20; i++) sum += squeeze(20);
                System.out.println(sum > 0);
            }
        }";
    fs::write(place.path().join("Store.java"), source).expect("a file");
    let built = Command::new("javac").arg("Store.java").current_dir(place.path()).status().expect("javac");
    assert!(built.success());
    // All methods compiled, with frame pointers: stacks end at the first one that is interpreted.
    let flags = ["-Xcomp", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"];
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "run.mallow", "--", "java"]);
    let run = run.args(flags).args(["-XX:CompileOnly=Store,java/util/zip", "Store"]).go();
    assert!(run.status == 0 && run.out().trim().ends_with("true"), "{} {}", run.out(), run.err());
    let document = shown(place.path(), &["report", "--json", "--limit", "100000"]);
    let all = places(&serde_json::from_str(&document).expect("JSON"));
    // Without the type that it returns, and past Java's own library.
    let squeeze = all.iter().find(|(function, ..)| function.starts_with("Store.squeeze("));
    assert!(squeeze.is_some(), "{all:#?}");
    let library = |(function, _, callers): &&(String, String, Vec<String>)| {
        !function.starts_with("Store.") && callers.iter().any(|caller| caller.starts_with("Store.squeeze("))
    };
    assert_eq!(all.iter().filter(library).count(), 0, "{all:#?}");
}

#[test]
fn functions_of_a_node_script_are_the_places() {
    let node = tool("node");
    let place = directory();
    let script = "function build(n) { const all = []; for (let i = 0; i < n; i++) all.push(Buffer.alloc(20000, 1)); return all; }
                  function main() { let sum = 0; for (let i = 0; i < 40; i++) sum += build(100).length; console.log(sum); }
                  main();";
    fs::write(place.path().join("script.js"), script).expect("a file");
    // Without interpreter frames of one name for all functions.
    let flags = ["--perf-basic-prof", "--interpreted-frames-native-stack", "script.js"];
    let run = Run::new(mallow(), place.path())
        .args(["record", "--no-report", "-o", "run.mallow", "--"])
        .arg(node)
        .args(flags);
    // Certificates of this machine, which are many allocations, are not its concern.
    let run = run.env("NODE_EXTRA_CA_CERTS", None::<&str>).go();
    assert_eq!((run.status, run.out().trim()), (0, "4000"), "{}", run.err());
    let document = shown(place.path(), &["report", "--json", "--limit", "100000"]);
    let all = places(&serde_json::from_str(&document).expect("JSON"));
    let files: BTreeSet<&str> = all.iter().map(|(_, file, _)| file.as_str()).collect();
    assert!(files.contains("script.js"), "{files:?}");
    // Node's own library is looked past where the script calls it.
    assert!(all.iter().any(|(function, file, _)| function == "build" && file == "script.js"), "{all:#?}");
    let serves = |(_, file, callers): &&(String, String, Vec<String>)| {
        file != "script.js" && callers.iter().any(|caller| caller == "build")
    };
    let serving: Vec<_> = all.iter().filter(serves).collect();
    assert!(serving.is_empty(), "{serving:?}");
    assert!(
        all.iter().any(|(.., callers)| callers.first().is_some_and(|f| f.contains("::"))),
        "stacks without a script stay"
    );
}

/// A script that allocates for as long as it runs, by a function of its own.
const BUSY_SCRIPT: &str = "import time
kept = []
def build_rows(n):
    return [bytes(3000) for _ in range(n)]
def main():
    while True:
        kept.append(build_rows(20))
        if len(kept) > 200: kept.clear()
        time.sleep(0.02)
main()
";

/// Whether the largest place of a report is the function of the script.
fn shows_build_rows(report: &Value) -> bool {
    let place = &report["places"][0];
    place["function"] == "build_rows" && place["file"].as_str().is_some_and(|file| file.ends_with("/script.py"))
}

#[test]
fn functions_of_a_script_are_the_places_of_a_watch() {
    let Some(python) = naming("functions_of_a_script_are_the_places_of_a_watch") else { return };
    let place = directory();
    fs::write(place.path().join("script.py"), BUSY_SCRIPT).expect("a file");
    let mut command = Command::new(mallow());
    command.args(["watch", "--json", "--every", "1s", "--older-than", "0", "--period", "16KiB", "-o", "reports", "--"]);
    command.arg(python).args(["-X", "perf"]).arg(place.path().join("script.py")).current_dir(place.path());
    let _watched = Alive::start(quiet(command.env("PYTHONMALLOC", "malloc")));
    wait_for(&place.path().join("reports"), "names of the script", shows_build_rows);
}

/// The map is in a `/tmp` that mallow does not see under this path.
#[test]
fn functions_of_a_script_with_a_tmp_of_its_own_have_their_names() {
    const TEST: &str = "functions_of_a_script_with_a_tmp_of_its_own_have_their_names";
    let (Some(unshare), Some(python)) = (mount_namespace(TEST), naming(TEST)) else { return };
    let place = directory();
    let tmp = place.path().join("tmp");
    fs::create_dir(&tmp).expect("a directory");
    fs::write(tmp.join("script.py"), BUSY_SCRIPT).expect("a file");
    let script = format!("mount --bind {} /tmp && exec {} -X perf /tmp/script.py", tmp.display(), python.display());
    let mut command = Command::new(mallow());
    command.args(["run", "--"]).args(unshare).args(["sh", "-c", &script]);
    let target = Alive::start(quiet(command.env("PYTHONMALLOC", "malloc")));
    let map = tmp.join(format!("perf-{}.map", target.pid()));
    until("the map", || fs::read_to_string(&map).is_ok_and(|map| map.contains("build_rows")).then_some(()));
    assert!(!Path::new(&format!("/tmp/perf-{}.map", target.pid())).exists());
    let reports = place.path().join("reports");
    let mut command = Command::new(mallow());
    command.args(["watch", "-p", &target.pid(), "--json", "--every", "1s", "--older-than", "0", "--period", "16KiB"]);
    let _watch = Alive::start(quiet(command.arg("-o").arg(&reports)));
    wait_for(&reports, "names of the script", shows_build_rows);
}

/// redis-server is a link to redis-check-rdb, and so is many another program one of several names.
#[test]
fn programs_have_the_names_by_which_they_were_executed() {
    let place = directory();
    symlink(program("busy"), place.path().join("alias")).expect("a link");
    let modules = |record: &Recorded| {
        let frames = record.view_json(&["report"]);
        let frames = frames["largest"][0]["largest"][0]["largest_site"]["frames"].clone();
        let module = |frame: &Value| frame["module"].as_str().unwrap_or_default().rsplit('/').next().map(str::to_owned);
        frames.as_array().expect("frames").iter().filter_map(module).collect::<Vec<_>>()
    };
    let alias = Case::new(place.path().join("alias")).args(["2", "50"]).record();
    assert!(modules(&alias).contains(&"alias".to_owned()), "{:?}", modules(&alias));
    let plain = Case::target("busy").args(["2", "50"]).record();
    assert!(modules(&plain).contains(&"busy".to_owned()), "{:?}", modules(&plain));
    // A watch names them so, too.
    // So short a period that one of the few blocks at the end is a sample for certain.
    let watch = Run::new(mallow(), place.path()).args(["watch", "--period", "64B", "--every", "1h", "--json"]);
    let watch = watch.args(["-o", "reports", "--"]).arg(place.path().join("alias")).args(["2", "50"]).go();
    let reports = fs::read_to_string(place.path().join("reports")).expect("reports");
    let alias = format!("\"module\":\"{}\"", place.path().join("alias").display());
    assert!(watch.status == 0 && reports.contains(&alias), "{reports}");
    // Two names: the file's own.
    let both = format!("{0} 2 50; {1} 2 50; exit 0", place.path().join("alias").display(), program("busy").display());
    let both = Case::new("/bin/sh").args(["-c", &both]).record();
    let text = both.shown(&["report", "--all", "--stacks"]);
    assert!(!text.contains("[alias]"), "{text}");
}

#[test]
fn views_of_a_recording_begin_with_programs_that_were_not_recorded() {
    let path = program_as("waits", "waits-static", "cc", &["-static"]);
    let place = directory();
    let script = format!("{} 900; exit 4", path.display());
    let run =
        Run::new(mallow(), place.path()).args(["record", "-o", "run.mallow", "--", "/bin/sh", "-c", &script]).go();
    let why = format!("started by the command, and not recorded: {} is statically linked: ", path.display());
    assert_eq!((run.status, run.err().matches(&why).count()), (4, 1), "{}", run.err());
    for view in ["report", "leaks", "tree", "top", "timeline"] {
        let text = shown(place.path(), &[view]);
        // The report's first lines may be wrapped.
        let first = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(first.starts_with(&format!("Incomplete: {why}")), "{view}: {text}");
    }
    let diff = Run::new(mallow(), place.path()).args(["diff", "run.mallow", "run.mallow"]).go();
    let first = diff.out().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first.starts_with(&format!("Incomplete: both: {why}")), "{}", diff.out());
    let json = Run::new(mallow(), place.path()).args(["diff", "--json", "run.mallow", "run.mallow"]).go();
    let json: Value = serde_json::from_str(&json.out()).expect("JSON");
    let said = json["incomplete"].as_array().expect("sentences");
    assert!(
        said.len() == 1 && said[0].as_str().is_some_and(|text| text.starts_with(&format!("both: {why}"))),
        "{json}"
    );
    assert!(report(place.path())["unrecorded"][0].as_str().is_some_and(|text| text.starts_with(&why)));
    // It is in the file, and stays there.
    let pack = Run::new(mallow(), place.path()).args(["pack", "-o", "packed.mallow", "run.mallow"]).go();
    assert_eq!(pack.status, 0, "{}", pack.err());
    let packed = Run::new(mallow(), place.path()).args(["report", "--json", "packed.mallow"]).go();
    assert!(packed.out().contains(&why), "{}", packed.out());
    // What was wholly seen says nothing.
    let whole = Case::target("busy").args(["2", "50"]).record();
    assert!(whole.view_json(&["report"]).get("unrecorded").is_none());
}
