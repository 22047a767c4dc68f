//! What Go's compilers, from 1.22 on, said of `compiler/ways.go`, which lay in /home/user/flow:
//! `go list -export -gcflags='-m=2 -json=0,DIR'`.

use std::fmt::Write;
use std::path::PathBuf;
use std::rc::Rc;

use mallow_golang::model::{Diagnostic, Verdict};
use mallow_golang::read::{Diagnostics, read};
use mallow_golang::settle;
use mallow_golang::source::GoSource;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/compiler").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_version(version: &str, with_json: bool, with_text: bool) -> Diagnostics {
    let json = if with_json { vec![file(&format!("{version}/ways.json"))] } else { Vec::new() };
    let text = if with_text { file(&format!("{version}/text")) } else { String::new() };
    let mut found = read("example.com/flow", "/home/user/flow", &json, &text).expect("what a compiler wrote");
    let source = Rc::new(GoSource::parse(file("ways.go")));
    settle(&mut found.list, &mut |file| (file == "/home/user/flow/ways.go").then(|| source.clone()));
    found
}

fn line(one: &Diagnostic) -> String {
    let place = |at: &mallow_golang::model::Position| {
        format!("{}:{}:{}", at.file.rsplit('/').next().unwrap_or_default(), at.line, at.column)
    };
    let mut line = place(&one.position);
    for at in &one.inlined_at {
        let _ = write!(line, " in {}", place(at));
    }
    let _ = write!(line, " {} {:?} {}", one.function.as_deref().unwrap_or("?"), one.kind, one.what);
    if one.verdict == Verdict::DoesNotEscape {
        return line + " does not escape";
    }
    let nothing = if one.allocates() { "" } else { " (allocates nothing)" };
    let _ = write!(line, "{nothing}: {}; {}", one.reason.words(), one.chain_line());
    line
}

/// Each diagnostic in a line; fails on lines that are not known.
fn lines(found: &Diagnostics) -> String {
    assert_eq!(found.examples, Vec::<String>::new(), "lines that are not known");
    let mut lines: Vec<String> = found.list.iter().map(line).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn each_compiler_is_understood() {
    for version in ["go1.22", "go1.23", "go1.24", "go1.25", "go1.26"] {
        insta::assert_snapshot!(format!("{version}_text"), lines(&read_version(version, false, true)));
    }
    for version in ["go1.22", "go1.26"] {
        insta::assert_snapshot!(format!("{version}_both"), lines(&read_version(version, true, true)));
        insta::assert_snapshot!(format!("{version}_json"), lines(&read_version(version, true, false)));
    }
}

#[test]
fn what_is_not_known_is_counted_and_the_rest_is_read() {
    let text = file("go1.26/text");
    let all = read_version("go1.26", false, true).list.len();
    let strange = text.replacen(
        "./ways.go:28:13: make",
        "./ways.go:28:14: make flies to the moon\nnonsense\n./ways.go:28:13: make",
        1,
    );
    let found = read("p", "/home/user/flow", &[], &strange).expect("text");
    assert_eq!((found.list.len(), found.passed_over), (all, 2));
    assert_eq!(found.examples, ["./ways.go:28:14: make flies to the moon", "nonsense"]);
}

#[test]
fn parameters_are_followed_to_where_they_go() {
    for version in ["go1.22", "go1.26"] {
        let found = read_version(version, true, true);
        let leak = found.leaks.iter().find(|leak| leak.parameter == "p" && leak.position.line == 37).expect("keep's p");
        assert_eq!((leak.function.as_deref(), leak.to.as_str(), leak.derefs), (Some("keep"), "{heap}", 0));
        assert_eq!(leak.flow.last().map(|step| step.expression.as_str()), Some("keptT = p"));
        let content = found.leaks.iter().find(|leak| leak.position.line == 39).expect("KeepContent's p");
        assert_eq!(content.derefs, 1);
        let inlined: Vec<_> = found.inlined.iter().filter(|call| call.position.line == 43).collect();
        assert_eq!(inlined.len(), 1);
        assert_eq!(inlined[0].callee, "keep");
    }
}

#[test]
fn json_that_makes_no_sense_is_one_line_and_no_panic() {
    let whole = file("go1.26/ways.json");
    let error = |json: &str| match read("p", "/", &[json.to_owned()], "") {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert_eq!(error(""), "the compiler's JSON makes no sense at line 0: it is empty");
    assert!(error("{\"version\":7,\"file\":\"a.go\"}").ends_with("at line 1: its version is 7, known is 0"));
    assert!(error("\u{0}\u{1}").contains(" at line 1: "));
    let nested = format!("{}\n{}", whole.lines().next().unwrap_or_default(), "[".repeat(100_000));
    assert!(error(&nested).contains(" at line 2: "));
    // Cut off within its second line.
    assert!(error(&whole[..whole.find('\n').expect("a line") + 20]).contains(" at line 2: "));
}

#[test]
fn cut_and_mixed_up_text_is_read_without_panic() {
    let text = file("go1.26/text");
    for cut in (0..text.len()).step_by(97).filter(|&cut| text.is_char_boundary(cut)) {
        drop(read("p", "/", &[], &text[..cut]));
        drop(read("p", "/", &[], &text[cut..]));
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.reverse();
    let found = read("p", "/", &[], &lines.join("\n")).expect("text");
    assert!(found.passed_over > 0, "steps before what they belong to");
    // The same in words of a colon, a bracket or a quote more.
    for more in [":", "(", "{", "\"", "`", " ← ", ") at ", "\u{2028}"] {
        drop(read("p", "/", &[], &text.replace(' ', more)));
        drop(read("p", "/", &[], &text.replace(": ", &format!(": {more}"))));
    }
}

/// Of a loop over a function, in go1.26.
const MADE: &str = "\
<unknown line number>: #next escapes to heap in F:
<unknown line number>:   flow: {storage for func literal} ← &#next:
<unknown line number>:     from #next (captured by a closure) at ./ways.go:7:2
<unknown line number>:     from #next (reference) at ./ways.go:7:2
F capturing by ref: #next (addr=true assign=true width=8)
moved to heap: #next
";

#[test]
fn what_the_compiler_makes_itself_is_where_it_is_used() {
    let found = read("p", "/p", &[], MADE).expect("text");
    assert_eq!((found.passed_over, found.list.len()), (0, 1), "{:?}", found.examples);
    assert_eq!((found.list[0].position.file.as_str(), found.list[0].position.line), ("/p/ways.go", 7));
    assert_eq!(
        (found.list[0].verdict, found.list[0].chain_line()),
        (Verdict::Moved, "captured by a closure at 7".into())
    );
}
