//! `mallow test --import`: what SwiftNIO's tests keep and print becomes limits and figures.

use std::fs;

use harness::{Project, Run, json, mallow};

const REGRESSED: i32 = 1;
const USAGE: i32 = 2;
const BROKEN: i32 = 4;

fn write(project: &Project, name: &str, text: &str) {
    fs::write(project.path().join(name), text).expect("a file");
}

fn toml(project: &Project) -> String {
    fs::read_to_string(project.path().join("mallow.toml")).expect("a file")
}

#[test]
fn thresholds_become_limits_that_hold_without_a_baseline() {
    let project = Project::new(&format!("# kept as it is\n{}", Project::case(&["unstable", "steady"], "")));
    write(&project, "6.0.json", "{\n    \"unstable\": 10,\n    \"steady\": 7999\n}\n");
    let done = project.run(&["--import", "6.0.json"]);
    assert_eq!(done.status, 0, "{}", done.err());
    assert_eq!(done.out(), "mallow.toml: limits of 2 cases\n");
    let text = toml(&project);
    assert!(text.starts_with("# kept as it is\n[[case]]\n"), "{text}");
    // With SwiftNIO's other gates: more than a thousand below, five blocks, one descriptor.
    let gates = "remaining_allocations = { min = -4, max = 4 }, leaked_fds = 0 }";
    let limits = format!(
        "runs = 3\n\n[limits]\nsteady = {{ total_allocations = {{ min = 7000, max = 7999 }}, {gates}\n\
         unstable = {{ total_allocations = 10, {gates}\n"
    );
    assert!(text.ends_with(&limits), "{text}");

    let report = json(&project.run(&["--json", "--no-explain"]));
    let verdicts: Vec<_> = report["cases"].as_array().expect("cases").iter().map(|case| &case["verdict"]).collect();
    assert_eq!(verdicts, ["passed", "regressed"], "{report}");
    // The same again changes nothing; another one changes what it says.
    assert_eq!(project.run(&["--import", "6.0.json"]).out(), "mallow.toml: limits of 2 cases, 0 of them changed\n");
    assert_eq!(toml(&project), text);
    write(&project, "env", "export MAX_ALLOCS_ALLOWED_steady=8000\n");
    assert_eq!(project.run(&["--import", "env"]).status, 0);
    let done = project.run(&[]);
    assert_eq!(done.status, 0, "{}", done.out());
}

#[test]
fn a_limit_without_a_case_is_broken_and_a_name_may_lack_its_test() {
    let project = Project::of_regions(&["unstable"]);
    write(&project, "6.0.json", "{\"unstable\": 10, \"renamed\": 5}");
    assert_eq!(project.run(&["--import", "6.0.json"]).status, 0);
    let done = project.run(&[]);
    assert_eq!(done.status, BROKEN, "{}", done.out());
    assert!(done.out().contains("mallow.toml limits it, and nothing measured it"), "{}", done.out());
    assert_eq!(project.run(&["unstable"]).status, 0);

    // SwiftNIO's limits leave out what all its tests' names begin with; so do its variables.
    let named = Project::new("[[case]]\nname = 'test_true'\ncommand = 'true'\nruns = 1\nwarmup = 0\n");
    write(&named, "6.0.json", "{\"true\": 100000, \"other\": 1}");
    assert_eq!(named.run(&["--import", "6.0.json", "true"]).out(), "mallow.toml: limits of 1 case\n");
    let done = named.run(&[]);
    assert_eq!(done.status, 0, "{}", done.out());
    let set = named.run_with(&["--no-explain"], &[("MAX_ALLOCS_ALLOWED_true", "-1")]);
    assert_eq!(set.status, REGRESSED, "{}", set.out());
}

#[test]
fn a_limit_is_not_enough_where_other_platforms_have_a_baseline() {
    let project = Project::new(&Project::case(&["leak"], "limits = { total_allocations = 1 }"));
    assert_eq!(project.run(&[]).status, 0);
    assert_eq!(project.run(&["--update", "--label", "other"]).status, 0);
    let done = project.run(&[]);
    assert_eq!(done.status, BROKEN, "{}", done.out());
    assert!(done.out().contains("no baseline for"), "{}", done.out());
}

#[test]
fn lines_of_a_run_become_figures() {
    // What is printed here is what is read here.
    let project = Project::of_regions(&["leak", "steady"]);
    let printed = project.run(&["-v"]);
    write(&project, "log", &printed.out());
    let done = project.run(&["--import", "log"]);
    assert_eq!(done.status, 0, "{}", done.err());
    assert!(
        done.out().starts_with("mallow.baseline.json: figures of 2 cases\nThey are those of linux-"),
        "{}",
        done.out()
    );
    // A failure without a run that passed before has nothing to be compared with; the report shows what allocates now.
    let figures_alone = project.baseline();
    let regressed = project.run_with(&["steady"], &[("GATE_EXTRA", "1")]);
    assert_eq!(regressed.status, REGRESSED, "{}", regressed.out());
    assert!(regressed.out().contains("The baseline holds no stacks"), "{}", regressed.out());
    for asked in [&["--bisect"][..], &["--no-explain"]] {
        assert_eq!(project.run(asked).status, 0);
    }
    assert_eq!(project.baseline(), figures_alone);
    // A run that passes adds the stacks of its cases, once, and a failure names what there is more of.
    let passed = project.run(&[]);
    assert_eq!(passed.status, 0, "{}", passed.out());
    let wrote = "wrote mallow.baseline.json: the stacks of 2 cases, to compare a failure with; the figures stay";
    assert!(passed.err().contains(wrote), "{}", passed.err());
    assert_ne!(project.baseline(), figures_alone);
    let again = project.run(&[]);
    assert!(again.status == 0 && !again.err().contains("wrote"), "{}", again.err());
    let regressed = json(&project.run_with(&["steady", "--json"], &[("GATE_EXTRA", "1")]));
    let explanation = &regressed["cases"][0]["explanation"];
    assert_eq!(explanation["without_baseline"], false, "{regressed:#}");
    assert_eq!(explanation["explained"], explanation["change"], "{regressed:#}");
    assert_eq!(explanation["differences"].as_array().map(Vec::len), Some(1), "{regressed:#}");
    // Those that --update adds stay where the figures do.
    project.update();
    let with_stacks = project.baseline();
    assert_eq!(project.run(&["--import", "log"]).status, 0);
    assert_eq!(project.baseline(), with_stacks);
}

#[test]
fn standard_input_will_do_without_a_file_of_cases() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines =
        "test_x.remaining_allocations: 0\ntest_x.total_allocations: 75001\ntest_x.total_allocated_bytes: 4138056\n";
    let log = dir.path().join("log");
    fs::write(&log, lines).expect("a file");
    let import = Run::new(mallow(), dir.path()).args(["test", "--import", "-"]).stdin(&log).go();
    assert_eq!(import.status, 0, "{}", import.err());
    let text = fs::read_to_string(dir.path().join("mallow.baseline.json")).expect("a baseline");
    assert!(text.contains("\"total_allocated_bytes\": 4138056"), "{text}");
    // Limits make the usual file of cases, and no other one.
    fs::write(dir.path().join("6.0.json"), "{\"a\": 1}").expect("a file");
    let limits = |more: &[&str]| Run::new(mallow(), dir.path()).args(["test", "--import", "6.0.json"]).args(more).go();
    let other = limits(&["-f", "other.toml"]);
    assert_eq!(other.status, USAGE);
    assert!(other.err().starts_with("mallow: other.toml: No such file"), "{}", other.err());
    assert_eq!(limits(&[]).status, 0);
    let text = fs::read_to_string(dir.path().join("mallow.toml")).expect("a file");
    assert!(text.contains("command = \".build/release/test_a\"\nregions = [\"test_a\"]\n"), "{text}");
}

#[test]
fn a_bad_import_is_one_line_and_changes_nothing() {
    let project = Project::of_regions(&["leak"]);
    project.update();
    let (before, cases) = (project.baseline(), toml(&project));
    let figures = "a.remaining_allocations: 0\na.total_allocations: 7\na.total_allocated_bytes: 4\n";
    for (text, expected) in [
        ("", "x: neither limits "),
        ("no figures\n", "x: neither limits "),
        ("{\"a\": 1,\n\"a\": 2}", "x:2: a is there twice"),
        ("{\"a\": 1,\n\"b\": -1}", "x:2: invalid value: integer `-1`"),
        ("{\"a\": 1", "x:1: EOF while parsing"),
        ("{\"\\u001b]0;x\\u0007\": 1}", "x:1: a name that nobody can type"),
        (&figures.replace("7", "-1"), "x:2: total_allocations of a is -1: nothing was measured"),
        (&figures.replace("bytes: 4\n", "by"), "x:2: a has no total_allocated_bytes; is the file cut short?"),
        (&format!("{figures}{}", figures.replace("7", "8")), "x:5: total_allocations of a is 8 here and 7 in line 2"),
        (
            &format!("{figures}DEBUG: [[\"total_allocations\": 9]]\n"),
            "x:4: the minimum total_allocations of a is 9 here and 7 in line 2",
        ),
        (&figures.replace("7", "0"), "x: no case has an allocation: nothing was counted in this run"),
    ] {
        write(&project, "x", text);
        let done = project.run(&["--import", "x"]);
        assert_eq!(done.status, USAGE, "{text}: {}", done.out());
        assert!(done.err().starts_with(&format!("mallow: {expected}")), "{text}: {}", done.err());
        assert_eq!(done.err().lines().count(), 1, "{}", done.err());
    }
    assert_eq!((project.baseline(), toml(&project)), (before, cases));
    let missing = project.run(&["--import", "nowhere"]);
    assert!(missing.status == USAGE && missing.err().starts_with("mallow: nowhere: No such file"), "{}", missing.err());
}
