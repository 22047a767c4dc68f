//! Call paths across Swift's `await`: a function that waits is on no stack, and its task's contexts lead to it.

use std::path::Path;

use harness::{Run, directory, mallow, tool, workspace};

use crate::other_tools::ran;

/// Functions of `targets/swift/async_functions.S`, under the names and with the symbols that swiftc gives async
/// functions.
const ASYNC: [&str; 8] = ["plain", "moved", "spilled", "framed", "passing", "marked", "lone", "lone_marked"];
const RESUMED: [(&str, &str); 2] =
    [("handle_resumed", "$s3app6handleyySiYaFTQ0_"), ("body_resumed", "$s3app4bodyyySiYaFTQ1_")];
const BODY: &str = "(2) await resume partial function for app.body(Swift.Int) async -> ()";
const HANDLE: &str = "(1) await resume partial function for app.handle(Swift.Int) async -> ()";

fn function(name: &str) -> String {
    format!("app.{name}(Swift.Int) async -> ()")
}

/// Builds `async` in this directory, from objects with the names of Swift and a library with none.
fn build(place: &Path) {
    let source = |name: &str| workspace().join("tests/targets/swift").join(name).display().to_string();
    ran(Run::new(tool("cc"), place).args(["-O1", "-c", "-o", "main.o", &source("async.c")]));
    ran(Run::new(tool("cc"), place).args(["-c", "-o", "functions.o", &source("async_functions.S")]));
    let library = ["-shared", "-s", "-Wl,--build-id", "-o", "libparts.so", &source("async_library.S")];
    ran(Run::new(tool("cc"), place).args(library));
    let mut renamed: Vec<String> = RESUMED.map(|(from, to)| format!("--redefine-sym={from}={to}")).into();
    for name in ASYNC {
        let mangled = format!("$s3app{}{name}yySiYaF", name.len());
        renamed.push(format!("--redefine-sym={name}={mangled}"));
        renamed.push(format!("--redefine-sym={name}_pointer={mangled}Tu"));
    }
    for object in ["main.o", "functions.o"] {
        ran(Run::new(tool("objcopy"), place).args(&renamed).args([object]));
    }
    let program = ["-rdynamic", "-o", "async", "main.o", "functions.o", "./libparts.so"];
    ran(Run::new(tool("cc"), place).args(program));
}

/// Stacks of a recording with their allocations, those of `decode` alone: the innermost function first. Addresses
/// without a name are those of the library.
fn stacks(place: &Path, recording: &str) -> Vec<(String, u64)> {
    ran(Run::new(mallow(), place).args(["export", "--format", "folded", "-o", "folded", recording]));
    let text = std::fs::read_to_string(place.join("folded")).expect("folded stacks");
    let mut stacks: Vec<(String, u64)> = text
        .lines()
        .filter_map(|line| {
            let (stack, count) = line.rsplit_once(' ')?;
            let name =
                |frame: &str| if frame.starts_with("libparts.so+") { "part".to_owned() } else { frame.to_owned() };
            let frames: Vec<String> = stack.rsplit(';').map(name).collect();
            (frames.first()? == "decode").then(|| (frames.join(" <- "), count.parse().expect("a number")))
        })
        .collect();
    stacks.sort();
    stacks
}

fn expected() -> Vec<(String, u64)> {
    let waiting = format!("{HANDLE} <- {BODY}");
    let mut expected: Vec<(String, u64)> = ["plain", "moved", "spilled", "framed", "passing", "marked"]
        .iter()
        .map(|name| (format!("decode <- {} <- {waiting}", function(name)), 1))
        .collect();
    expected.extend([
        (format!("decode <- part <- {waiting}"), 1),
        (format!("decode <- {} <- part <- {BODY}", function("plain")), 1),
        (format!("decode <- part <- {BODY}"), 1),
        (format!("decode <- {waiting}"), 7),
        (format!("decode <- {BODY}"), 8),
    ]);
    expected.sort();
    expected
}

#[test]
fn functions_that_await_are_on_the_path() {
    let directory = directory();
    let place = directory.path();
    build(place);
    ran(Run::new(mallow(), place).args(["record", "--no-report", "-o", "whole.mallow", "./async"]));
    assert_eq!(stacks(place, "whole.mallow"), expected());
    let report = ran(Run::new(mallow(), place).args(["report", "--all", "whole.mallow"])).out();
    assert!(report.contains("moved(_:) [async] via decode ← handle(_:) ← body(_:)"), "{report}");
}

/// A chain that does not end as one of a task leaves the stack as it is.
#[test]
fn what_is_no_context_of_a_task_is_not_followed() {
    let directory = directory();
    let place = directory.path();
    build(place);
    ran(Run::new(mallow(), place).args(["record", "--no-report", "-o", "hostile.mallow", "./async", "hostile"]));
    let on_the_stack = "run <- try_context <- main <- __libc_start_call_main <- __libc_start_main_impl <- _start";
    let (deep, real): (Vec<_>, Vec<_>) =
        stacks(place, "hostile.mallow").into_iter().partition(|(stack, _)| stack.contains(HANDLE));
    let mut sums = std::collections::BTreeMap::new();
    for (stack, count) in real {
        *sums.entry(stack).or_insert(0) += count;
    }
    let wanted = ["lone", "lone_marked"].map(|name| (format!("decode <- {} <- {on_the_stack}", function(name)), 25));
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), wanted);
    // As many of those that wait as a stack has room for.
    let [(stack, 1)] = &deep[..] else { panic!("{deep:?}") };
    let inner = format!("decode <- {} <- ", function("lone"));
    let waiting = stack.strip_prefix(&inner).expect("the functions under way");
    assert!(waiting.split(" <- ").all(|frame| frame == HANDLE), "{stack}");
    assert!((100..20_000).contains(&waiting.split(" <- ").count()), "{stack}");
}
