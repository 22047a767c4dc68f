//! Reasons of Go's compiler beside the source lines of `mallow view`, and in an exported page.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use harness::{Browser, Run, Viewer, json, mallow};
use serde_json::{Value, json};

use crate::go_bench::Module;
use crate::go_pprof::go;
use crate::go_profile::profiled;
use crate::other_tools::ran;
use crate::view_page::{Page, SIZES};

/// The program's profile, and `reasons.json` of the compiler.
fn explained() -> Module {
    let module = profiled();
    fs::write(module.path().join("reasons.json"), ran(module.run(&["escape", "--json", "./..."])).out())
        .expect("a file");
    module
}

/// Reasons that `list` has beside the lines of a function, by their numbers.
fn listed(module: &Module, function: &str, reasons: &str) -> Vec<(u64, String)> {
    let arguments = [function, "heap.pb.gz", "--json", "--go-reasons", reasons];
    let report = json(&ran(module.run_in(".", "list", &arguments)));
    let lines = report["functions"][0]["lines"].as_array().expect("lines").clone();
    let of = |line: &Value| {
        let number = line["line"].as_u64().expect("a number");
        let reasons = line["reasons"].as_array().cloned().unwrap_or_default();
        reasons.into_iter().map(move |reason| (number, reason.as_str().expect("a text").to_owned())).collect::<Vec<_>>()
    };
    lines.iter().flat_map(of).collect()
}

/// Opens a function by its row, and waits for its source.
fn open_function(browser: &mut Browser, name: &str) {
    browser.click("#tab-functions");
    browser.wait_for("document.querySelector('#functions-filter')");
    browser.click("#functions-filter");
    browser.type_text(&format!("^{name} "));
    let first = json!(".table-row[data-row=\"0\"]");
    browser.wait_for(&format!("document.querySelector({first})?.textContent.includes({})", json!(name)));
    browser.click(".table-row[data-row=\"0\"] [role=cell]");
    browser.wait_for("document.querySelector('#detail-source tr[data-line]')");
}

/// The reasons below a line of the source that is open.
fn reasons_at(browser: &mut Browser, line: u64) -> Value {
    browser.value(&format!(
        "[...document.querySelectorAll('#detail-source tr[data-line=\"{line}\"] .reason')].map(reason => reason.textContent)"
    ))
}

#[test]
fn a_source_line_of_go_has_its_reason_below() {
    let module = explained();
    for size in SIZES {
        let mut page = Page::open(module.path(), &["--go-reasons", "reasons.json", "heap.pb.gz"], size);
        open_function(&mut page.browser, "main.drop");
        let buffer = "↑ &bytes.Buffer{...}, inlined from buffer.go:490: converted to an interface for io.ReadAll";
        assert_eq!(reasons_at(&mut page.browser, 27), json!([buffer]));
        assert_eq!(reasons_at(&mut page.browser, 28), json!([]), "the call of a library is no allocation of the line");
        // It is below its line, and within the listing.
        let code = page.browser.bounds("#detail-source tr[data-line=\"27\"] .code");
        let reason = page.browser.bounds("#detail-source tr[data-line=\"27\"] .reason");
        assert!(reason[1] > code[1] && reason[1] + reason[3] <= code[1] + code[3] + 1.0, "{code:?} {reason:?}");
        assert_eq!(page.browser.value("document.querySelector('#reason-hint')"), Value::Null);
        page.check();
        page.browser.value("document.querySelector('#detail-close').click()");
        page.show("tab-lines");
        page.wait_for_text("#lines-table [data-column=reason]", "Reason");
        page.wait_for_text("#lines-table", "&node{...}: stored in all");
        page.check();
    }
}

#[test]
fn the_page_has_what_list_prints_and_runs_no_compiler() {
    let module = explained();
    // A go tool that leaves a mark when it runs.
    let tools = module.path().join("tools");
    fs::create_dir(&tools).expect("a directory");
    fs::write(tools.join("go"), "#!/bin/sh\n: > \"$MARK\"\nexit 1\n").expect("a tool");
    fs::set_permissions(tools.join("go"), fs::Permissions::from_mode(0o755)).expect("an executable");
    let mark = module.path().join("mark");
    let path = format!("{}:{}", tools.display(), env!("PATH"));
    let started = |arguments: &[&str]| {
        let mut command = Command::new(mallow());
        command.arg("view").arg("--no-browser").args(arguments).current_dir(module.path());
        Viewer::of(command.env("PATH", &path).env("MARK", &mark))
    };
    let printed =
        ran(module.run_in(".", "list", &["main.", "heap.pb.gz", "--json", "--go-reasons", "reasons.json"])).out();
    assert!(printed.contains("stored in all"), "{printed}");
    let viewer = started(&["--go-reasons", "reasons.json", "heap.pb.gz"]);
    assert_eq!(viewer.get("/api/list?function=main.").text(), printed);
    assert_eq!(viewer.get("/api/list?function=main.&go-reasons=reasons.json").status, 400, "a request names no file");
    let without = started(&["heap.pb.gz"]);
    let answer = without.get("/api/list?function=main.");
    assert!(answer.status == 200 && !answer.text().contains("\"reasons\""), "{}", answer.text());
    let exported = Run::new(mallow(), module.path()).args(["export", "--format", "html", "heap.pb.gz"]);
    ran(exported.env("PATH", Some(&path)).env("MARK", Some(&mark)));
    assert!(!mark.exists(), "the go tool was run");
    // The page says how to get them.
    let mut page = Page::open(module.path(), &["heap.pb.gz"], SIZES[0]);
    open_function(&mut page.browser, "main.keep");
    page.wait_for_text("#reason-hint", "mallow view --go-reasons reasons.json FILE");
    page.check();
}

#[test]
fn the_compilers_output_and_a_profile_with_reasons_serve_as_well() {
    let module = profiled();
    let at = |name: &str| module.path().join(name);
    fs::write(at("profile.json"), ran(module.run(&["profile", "heap.pb.gz", "--json"])).out()).expect("a file");
    fs::write(at("text"), ran(go(module.path()).args(["build", "-gcflags=-m=2", "."])).err()).expect("a file");
    let node = (22, "&node{...}: stored in all".to_owned());
    assert!(listed(&module, "main.keep", "profile.json").contains(&node));
    assert!(listed(&module, "main.keep", "text").contains(&node));
    let size = "make([]byte, n): it does not escape, but its size is known at run time only";
    assert!(listed(&module, "main.drop", "profile.json").contains(&(29, size.to_owned())));
    // Paths of another machine, and of -trimpath: names are relative there.
    ran(go(module.path()).args(["build", "-trimpath", "-o", "nodes", "."]));
    assert!(Command::new(at("nodes")).current_dir(module.path()).status().is_ok_and(|status| status.success()));
    assert!(listed(&module, "main.keep", "text").contains(&node));
}

/// Reasons that nobody meant for a page, for line 22 of the program.
fn hostile(module: &Module) {
    let why = "</script><script>window.executed=1</script><img src=x onerror=\"window.executed=2\">\u{202e}\u{1b}[31m\n`${window.executed=3}`";
    let site = json!({ "package": "example.com/nodes", "function": "keep", "file": "main.go", "line": 22, "what": "</td></table><b>&node", "why": why });
    let long = json!({ "package": "example.com/nodes", "function": "keep", "file": "main.go", "line": 22, "what": "x".repeat(100_000), "why": "long" });
    let reasons = json!({ "version": 1, "sites": [site, long] }).to_string();
    fs::write(module.path().join("hostile.json"), reasons).expect("a file");
}

/// Reads line 22 in a browser, where nothing of the reasons may have become markup.
fn read_hostile(browser: &mut Browser) {
    open_function(browser, "main.keep");
    let reasons = reasons_at(browser, 22);
    let first = reasons[0].as_str().expect("a reason");
    let text = "↑ </td></table><b>&node: </script><script>window.executed=1</script><img src=x onerror=\"window.executed=2\">\\u{202e}\\u{1b}[31m";
    assert!(first.starts_with(text), "{first}");
    assert!(reasons[1].as_str().is_some_and(|long| long.ends_with("x…") && long.len() < 500), "{reasons}");
    let markup = "document.querySelectorAll('img, #detail-source b, #detail-source script').length";
    assert_eq!(browser.value(&format!("[window.executed ?? null, {markup}]")), json!([null, 0]));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn reasons_are_text_whatever_they_say() {
    let module = profiled();
    hostile(&module);
    let mut page = Page::open(module.path(), &["--go-reasons", "hostile.json", "heap.pb.gz"], SIZES[0]);
    read_hostile(&mut page.browser);
    page.check();
}

#[test]
fn an_exported_page_has_the_reasons() {
    let module = profiled();
    hostile(&module);
    let file = module.path().join("page.html");
    let arguments = ["export", "--format", "html", "--go-reasons", "hostile.json", "-o", "page.html", "heap.pb.gz"];
    ran(Run::new(mallow(), module.path()).args(arguments));
    let text = fs::read_to_string(&file).expect("a page");
    assert_eq!(text.matches("</script>").count(), 2, "a reason ends an element");
    let mut browser = Browser::start(SIZES[0]);
    browser.open(&format!("file://{}", file.canonicalize().expect("a path").display()));
    browser.wait_for("document.querySelector('#tabs [role=tab]')");
    read_hostile(&mut browser);
    browser.value("document.querySelector('#detail-close').click()");
    browser.click("#tab-lines");
    browser.wait_for("document.querySelector('#lines-table')?.textContent.includes('</td></table><b>&node')");
}

#[test]
fn what_is_no_file_of_reasons_is_one_line() {
    let module = explained();
    let at = |name: &str| module.path().join(name);
    let whole = fs::read(at("reasons.json")).expect("reasons");
    fs::write(at("cut.json"), &whole[..whole.len() / 2]).expect("a file");
    fs::write(at("empty.json"), "").expect("a file");
    fs::write(at("wrong.json"), "{\"sites\": [1, 2]}").expect("a file");
    fs::write(at("other.json"), "[[[[[[").expect("a file");
    fs::write(at("deep.json"), "{\"sites\":".to_owned() + &"[".repeat(1 << 20)).expect("a file");
    fs::write(at("newer.json"), "{\"version\": 1000, \"sites\": []}").expect("a file");
    fs::File::create(at("huge.json")).and_then(|file| file.set_len((256 << 20) + 1)).expect("a sparse file");
    for (file, says) in [
        ("cut.json", "is not what mallow go escape --json"),
        ("empty.json", "it is empty"),
        ("wrong.json", "is not what mallow go escape --json"),
        ("other.json", "it is neither JSON of mallow go escape"),
        ("deep.json", "is not what mallow go escape --json"),
        ("newer.json", "from a newer mallow"),
        ("huge.json", "more than 256 MiB"),
        ("heap.pb.gz", "it is neither JSON of mallow go escape"),
        ("missing.json", "cannot read missing.json: No such file"),
        (".", "cannot read .: Is a directory"),
    ] {
        for command in [&["view", "--no-browser"][..], &["export", "--format", "html"], &["list", "main."]] {
            let outcome =
                Run::new(mallow(), module.path()).args(command).args(["--go-reasons", file, "heap.pb.gz"]).go();
            let error = outcome.err();
            assert!(
                outcome.status == 1 && error.contains(says) && error.lines().count() == 1,
                "{command:?} {file}: {error}"
            );
            assert_eq!(outcome.out(), "", "{command:?} {file}");
        }
    }
    let run = |arguments: &[&str]| {
        Run::new(mallow(), module.path()).args(arguments).args(["--go-reasons", "reasons.json"]).go()
    };
    assert!(run(&["export", "--format", "folded", "heap.pb.gz"]).err().contains("--go-reasons is for html alone"));
    assert!(run(&["list", "main.", "--base", "heap.pb.gz", "heap.pb.gz"]).err().contains("leave --base out"));
    assert_eq!(run(&["view", "--live", "1"]).status, 2);
}

#[test]
fn reasons_that_do_not_fit_are_reported() {
    let module = explained();
    let note = |place: &Path, arguments: &[&str]| ran(Run::new(mallow(), place).args(arguments)).out();
    let other = "{\"sites\": [{\"package\": \"a\", \"function\": null, \"file\": \"b.go\", \"line\": 1, \"what\": \"x\", \"why\": \"y\"}]}";
    fs::write(module.path().join("other.json"), other).expect("a file");
    let says = "other.json is of other sources: none of its files is in the profile";
    assert!(note(module.path(), &["list", "main.keep", "--go-reasons", "other.json", "heap.pb.gz"]).contains(says));
    let mut page = Page::open(module.path(), &["--go-reasons", "other.json", "heap.pb.gz"], SIZES[0]);
    page.wait_for_text("#notices", says);
    page.check();
    // The source is newer than the reasons.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let source = fs::File::options().append(true).open(module.path().join("main.go")).expect("the source");
    source.set_modified(later).expect("another time");
    let text = note(module.path(), &["list", "main.keep", "--go-reasons", "reasons.json", "heap.pb.gz"]);
    assert!(text.contains("main.go changed after reasons.json was written"), "{text}");
}
