//! `mallow test` where CI servers and other tools take part: JUnit, SARIF, GitHub's commands, `git bisect`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::{Project, Run, json, mallow, program, tool, workspace};
use serde_json::Value;

/// Builds the example of measured regions in the project, as a user would, and makes its baseline: one case that will
/// regress, one that passes.
fn with_sources(extra: &str) -> Project {
    let project =
        Project::new("[defaults]\nruns = 2\n[[case]]\ncommand = 'build/allocations'\nregions = ['parse', 'find']\n");
    fs::create_dir_all(project.path().join("src")).expect("a directory");
    fs::create_dir_all(project.path().join("build")).expect("a directory");
    build(&project, "");
    project.update();
    build(&project, extra);
    project
}

/// `extra` comes into the loop of the measured function.
fn build(project: &Project, extra: &str) {
    let source = fs::read_to_string(workspace().join("examples/c/allocations.c")).expect("the example");
    let marked = "struct setting *settings = parse(text, &count);";
    assert!(source.contains(marked), "{source}");
    fs::write(project.path().join("src/allo cations.c"), source.replace(marked, &format!("{marked}{extra}")))
        .expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-o", "build/allocations", "src/allo cations.c", "-I"])
        .arg(workspace().join("preload/include"));
    let done = cc.current_dir(project.path()).output().expect("cc");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

const EXTRA: &str = "\nvoid *volatile more = malloc((size_t)count + 7); free(more);";

/// The line of the added allocation.
fn line(project: &Project) -> usize {
    let source = fs::read_to_string(project.path().join("src/allo cations.c")).expect("a source");
    source.lines().position(|line| line.starts_with("void *volatile more")).expect("the line") + 1
}

#[test]
fn junit_is_what_its_readers_expect() {
    let project = with_sources(EXTRA);
    let done = project.run(&["--junit", "j.xml"]);
    assert_eq!(done.status, 1, "{}", done.out());
    let text = fs::read_to_string(project.path().join("j.xml")).expect("a report");
    let xml = roxmltree::Document::parse(&text).expect("XML");
    let root = xml.root_element();
    // The counts of a suite are those of its cases; each case has a name and a class, and at most one outcome.
    assert_eq!(
        (root.tag_name().name(), root.attribute("tests"), root.attribute("failures")),
        ("testsuites", Some("2"), Some("1"))
    );
    let suite = root.children().find(|node| node.is_element()).expect("a suite");
    assert_eq!(
        (suite.tag_name().name(), suite.attribute("tests"), suite.attribute("errors")),
        ("testsuite", Some("2"), Some("0"))
    );
    let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
    let names: Vec<_> = cases.iter().map(|case| (case.attribute("classname"), case.attribute("name"))).collect();
    assert_eq!(names, [(Some("mallow"), Some("parse")), (Some("mallow"), Some("find"))]);
    let failure = cases[0].children().find(|node| node.has_tag_name("failure")).expect("a failure");
    assert_eq!(
        failure.attribute("message"),
        Some("total_allocations: 10000, allowed 9000; total_allocated_bytes: 122000, allowed 112110")
    );
    let place = format!("measure_parse (src/allo cations.c:{})", line(&project));
    assert!(
        failure.text().is_some_and(|text| text.contains("+1000 allocations, +11000 bytes") && text.contains(&place)),
        "{text}"
    );
    assert!(!cases[1].children().any(|node| node.has_tag_name("failure") || node.has_tag_name("error")), "{text}");
}

/// Ten times the objects are as few calls of malloc.
#[test]
fn what_a_case_allocates_out_of_sight_is_said_wherever_it_passes() {
    let script = "import os\nx = [[i, str(i)] for i in range(int(os.environ['COUNT']))]\n";
    let project = Project::new("[[case]]\nname = 'py'\ncommand = ['/usr/bin/python3', 'p.py']\n");
    fs::write(project.path().join("p.py"), script).expect("a file");
    let run = |count: &str, flags: &[&str]| {
        project.run_with(flags, &[("COUNT", count), ("PYTHONMALLOC", ""), ("PYTHONHASHSEED", "0")])
    };
    let updated = run("1000", &["--update"]);
    let files = ["--junit", "j.xml", "--markdown", "m.md", "--github", "-v"];
    let done = run("9999", &files);
    let sentence = "Incomplete: Python allocates objects of up to 512 bytes in arenas of its own";
    for output in [updated.out(), done.out()] {
        assert!(output.contains(&format!("WARNING: py: {sentence}")), "{output}");
    }
    assert!(done.out().contains(&format!("::warning title=py::{sentence}")), "{}", done.out());
    let file = |name: &str| fs::read_to_string(project.path().join(name)).expect("a file");
    assert!(file("j.xml").contains(&format!("WARNING: py: {sentence}")), "{}", file("j.xml"));
    assert!(file("m.md").contains(&format!("**py** {sentence}")), "{}", file("m.md"));
    let report = json(&run("9999", &["--json"]));
    assert!(report["cases"][0]["warnings"][0].as_str().is_some_and(|text| text.starts_with(sentence)), "{report}");
}

#[test]
fn github_and_sarif_point_at_the_allocating_line() {
    let project = with_sources(EXTRA);
    // From another directory: paths begin where the version control does.
    git(project.path(), &["init", "-q"]);
    let below = project.path().join("src");
    let run = Run::new(mallow(), &below).args(["test", "-f", "../mallow.toml", "--github", "--sarif", "s.json"]).go();
    assert_eq!(run.status, 1, "{}{}", run.out(), run.err());
    let out = run.out();
    let commands: Vec<_> = out.lines().filter(|line| line.starts_with("::")).collect();
    let line = line(&project);
    let figures = "total_allocations: 10000, allowed 9000; total_allocated_bytes: 122000, allowed 112110";
    assert_eq!(
        commands,
        [
            format!("::error title=parse regressed::{figures}"),
            format!("::error file=src/allo cations.c,line={line},title=parse regressed::+1,000 allocations in parse"),
        ]
    );
    let sarif: Value = serde_json::from_slice(&fs::read(below.join("s.json")).expect("a file")).expect("JSON");
    assert_eq!((&sarif["version"], sarif["runs"].as_array().map(Vec::len)), (&"2.1.0".into(), Some(1)));
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 2, "{sarif}");
    for result in results {
        // GitHub takes no result without a place, and a rule that is not described is no rule.
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/allo%20cations.c", "{result}");
        assert_eq!(place["region"]["startLine"], line, "{result}");
        assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        assert!(result["message"]["text"].as_str().is_some_and(|text| text.contains("parse")), "{result}");
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new(tool("git"));
    git.args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]).args(arguments);
    let done = git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", directory).current_dir(directory).output().expect("git");
    let output = [&done.stdout[..], &done.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(done.status.success(), "git {arguments:?}: {output}");
    done
}

/// Commits this content of the file that the case runs.
fn commit(project: &Project, script: &str, message: &str) {
    fs::write(project.path().join("case.sh"), script).expect("a file");
    fs::write(project.path().join("notes"), message).expect("a file");
    git(project.path(), &["add", "-A"]);
    git(project.path(), &["commit", "-q", "-m", message]);
}

#[test]
fn git_bisect_finds_the_commit() {
    let target = program("gate");
    let good = format!("exec '{}' steady\n", target.display());
    let bad = format!("GATE_EXTRA=1 {good}");
    let project = Project::new("[[case]]\ncommand = 'sh case.sh'\nregions = ['steady']\nruns = 1\nwarmup = 0\n");
    git(project.path(), &["init", "-q"]);
    fs::write(project.path().join("case.sh"), &bad).expect("a file");
    // The oldest baseline is a bad one's: what comes first is better, and must not count as bad.
    project.update();
    let worse = project.path().join("mallow.baseline.json");
    commit(&project, &good, "first");
    let mallow = mallow();
    let mallow = mallow.to_str().expect("a path");
    let improved = project.run(&["--bisect"]);
    assert_eq!(improved.status, 0, "{}", improved.out());
    fs::remove_file(&worse).expect("a baseline");
    project.update();
    for (script, message) in [
        (&good, "second"),
        (&"exit 9\n".to_owned(), "does not run"),
        (&good, "third"),
        (&bad, "the bad one"),
        (&bad, "after it"),
        (&bad, "last"),
    ] {
        commit(&project, script, message);
    }
    let at = |revision: &str| {
        String::from_utf8_lossy(&git(project.path(), &["log", "-1", "--format=%s", revision]).stdout).trim().to_owned()
    };
    git(project.path(), &["bisect", "start", "HEAD", "HEAD~6"]);
    let done = git(project.path(), &["bisect", "run", mallow, "test", "--bisect", "steady"]);
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(output.contains("is the first bad commit"), "{output}");
    assert_eq!(at("refs/bisect/bad"), "the bad one", "{output}");
    git(project.path(), &["bisect", "reset"]);
    // The plain exit status does too, where each commit runs.
    git(project.path(), &["bisect", "start", "HEAD", "HEAD~3"]);
    git(project.path(), &["bisect", "run", mallow, "test", "steady"]);
    assert_eq!(at("refs/bisect/bad"), "the bad one");
    git(project.path(), &["bisect", "reset"]);
    // What cannot be judged is passed over.
    commit(&project, "exit 9\n", "broken");
    assert_eq!(project.run(&["--bisect"]).status, 125);
    assert_eq!(project.run(&["--bisect", "-f", "nowhere"]).status, 125);
}

#[test]
fn the_header_is_in_the_binary() {
    let dir = tempfile::tempdir().expect("a directory");
    let printed = Run::new(mallow(), dir.path()).args(["test", "--header"]).go();
    assert_eq!(printed.status, 0, "{}", printed.err());
    let header = fs::read_to_string(workspace().join("preload/include/mallow.h")).expect("the header");
    assert_eq!(printed.out(), header);
}
