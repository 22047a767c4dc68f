//! `mallow test`: what a baseline keeps, how large it is, and what is explained with it.

use std::fs;

use harness::{Outcome, Project, Run, json, mallow, program};

const REGRESSED: i32 = 1;
const IMPROVED: i32 = 3;

/// A program of `tests/targets/gate_nio.cpp` by this name.
fn project(test: &str, more: &str) -> Project {
    let project = Project::new(&format!("[[case]]\ncommand = './{test}'\nregions = 'all'\n{more}\n"));
    std::os::unix::fs::symlink(program("gate_nio"), project.path().join(test)).expect("a link");
    project
}

fn text(project: &Project) -> String {
    fs::read_to_string(project.path().join("mallow.baseline.json")).expect("a baseline")
}

fn cases(project: &Project) -> serde_json::Value {
    let baseline = project.baseline();
    baseline["platforms"].as_object().expect("platforms").values().next().expect("a platform").clone()
}

#[test]
fn runs_that_disagree_are_tolerated_as_far_as_the_update_saw() {
    let project = project("test_drifting", "runs = 4");
    let done = project.run(&["--update"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    // 1,000 to 1,010: ten, and a quarter more.
    let expected = "tolerance of test_drifting: total_allocations 1,000 ±12 (runs 1,000 to 1,010)";
    assert!(done.err().contains(expected), "{}", done.err());
    let case = &cases(&project)["test_drifting"];
    assert_eq!(case["tolerance"]["total_allocations"], 12, "{case}");
    let with = |shift: &str| project.run_with(&["--no-explain"], &[("GATE_SHIFT", shift)]);
    for (shift, status) in [("0", 0), ("12", 0), ("-12", 0), ("13", REGRESSED), ("-13", IMPROVED)] {
        let done = with(shift);
        assert_eq!(done.status, status, "{shift}: {}", done.out());
    }
    assert!(with("13").out().contains("total_allocations: 1,013, allowed 988 to 1,012"), "{}", with("13").out());
    // The same again is no change to review; a ratchet does not take what is within the tolerance.
    let before = text(&project);
    for arguments in [["--update"], ["--ratchet"]] {
        let done = project.run_with(&arguments, &[("GATE_SHIFT", "-3")]);
        assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
        assert_eq!(text(&project), before, "{arguments:?}");
    }
    // What the project says itself is above what was seen.
    let strict = fs::read_to_string(project.path().join("mallow.toml")).expect("a file");
    fs::write(project.path().join("mallow.toml"), strict + "slack = { total_allocations = 2 }\n").expect("a file");
    assert_eq!(with("2").status, 0);
    assert_eq!(with("3").status, REGRESSED);
}

#[test]
fn a_process_that_differs_is_seen_by_the_update_too() {
    // Each start of the program is 4 more than the one before.
    let script = "n=$(cat starts 2>/dev/null || echo 0); echo $((n + 4)) > starts; GATE_SHIFT=$n exec ./test_drifting";
    let project = project("test_drifting", "");
    let toml = format!("[[case]]\ncommand = ['sh', '-c', {script:?}]\nregions = 'all'\nruns = 3\nwarmup = 0\n");
    fs::write(project.path().join("mallow.toml"), toml).expect("a file");
    let done = project.run(&["--update"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert!(done.err().contains("(runs 1,000 to 1,014)"), "{}", done.err());
}

/// Two runs of a command say that it differs, and not by how much.
#[test]
fn commands_whose_runs_disagree_run_ten_times() {
    // Each start has at least one more than the one before.
    let script = "n=$(cat starts 2>/dev/null || echo 0); echo $((n + 1)) > starts; GATE_SHIFT=$n exec ./test_drifting";
    let project = project("test_drifting", "");
    let toml = format!("[[case]]\nname = 'drifts'\ncommand = ['sh', '-c', {script:?}]\nruns = 2\nwarmup = 0\n");
    fs::write(project.path().join("mallow.toml"), toml).expect("a file");
    let done = project.run(&["--update"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    let tolerated = cases(&project)["drifts"]["tolerance"]["total_allocations"].as_u64();
    // Nine between the first and the tenth, and a quarter more.
    assert!(tolerated >= Some(11), "{tolerated:?}: {}", done.err());
}

/// A shell keeps a variable more at each start, and measures no region.
#[test]
fn a_command_of_no_file_whose_runs_disagree_runs_ten_times() {
    let script = "n=$(cat starts 2>/dev/null || echo 0); echo $((n + 1)) > starts; \
                  i=0; while [ $i -lt $n ]; do i=$((i + 1)); eval v$i=$i; done";
    let place = tempfile::tempdir().expect("a place");
    let arguments = ["test", "--update", "--runs", "2", "--warmup", "0", "--", "sh", "-c", script];
    let done = Run::new(mallow(), place.path()).args(arguments).go();
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert!(done.err().contains("tolerance of sh: "), "{}", done.err());
    let starts = fs::read_to_string(place.path().join("starts")).expect("a number");
    // One more for the stacks.
    assert!(starts.trim().parse::<u32>().expect("a number") >= 11, "{starts}");
}

#[test]
fn a_baseline_is_small_and_explains_as_before() {
    let project = project("test_many", "runs = 2");
    project.update();
    let baseline = text(&project);
    assert!(baseline.len() < 100_000, "{} bytes", baseline.len());
    let longest = baseline.lines().map(str::len).max().expect("lines");
    assert!(longest < 1200, "{longest}");
    let case = &cases(&project)["test_many"];
    let kept = case["stacks"].as_array().expect("stacks").len() as u64;
    let rest = &case["rest"];
    assert!((480..=500).contains(&(kept + rest["stacks"].as_u64().expect("a number"))), "{rest}");
    assert!(kept >= 60, "{kept}");

    let regressed = project.run_with(&[], &[("GATE_EXTRA", "1000")]);
    assert_eq!(regressed.status, REGRESSED, "{}", regressed.out());
    let out = regressed.out();
    let first = out.lines().find(|line| line.contains(" allocations (") || line.contains("stack")).expect("a stack");
    assert!(first.contains("+1,000 allocations"), "{out}");
    assert!(out.contains("0 → 1,000, +16,000 bytes, new\n      "), "{out}");
    assert!(out.contains("planted (gate_nio.cpp:"), "{out}");
    assert!(out.contains("The stacks explain 1,000 of 1,000 allocations, 16,000 of 16,000 bytes"), "{out}");
    assert_eq!(out.matches(", new\n").count(), 1, "{out}");

    // Less than what the baseline keeps one by one: the sum is right nevertheless.
    let few = json(&project.run_with(&["--json"], &[("GATE_EXTRA", "1")]));
    let explanation = &few["cases"][0]["explanation"];
    assert_eq!((&explanation["change"], &explanation["explained"]), (&1.into(), &1.into()), "{explanation}");
    // A change of one line is a change of few lines.
    let done = project.run_with(&["--update"], &[("GATE_EXTRA", "1000")]);
    assert_eq!(done.status, 0, "{}", done.err());
    let after = text(&project);
    let changed = after.lines().filter(|line| !baseline.lines().any(|there| there == *line)).count();
    assert!(changed < 20, "{changed} lines");
}

#[test]
fn a_baseline_of_before_is_read_and_written_anew() {
    let project = Project::of_regions(&["leak"]);
    project.update();
    let platform = project.baseline()["platforms"].as_object().expect("platforms").keys().next().cloned();
    let old = format!(
        "{{\"version\": 1, \"platforms\": {{{:?}: {{\"leak\": {{\"remaining_allocations\": 1, \"total_allocations\": 1, \
         \"total_allocated_bytes\": 100, \"leaked_fds\": 1, \"operations\": 1, \"stacks\": [{{\"stack\": [\"leak (gate.cpp:1)\", \
         \"main (gate.cpp:2)\"], \"allocations\": 1, \"allocated_bytes\": 100}}]}}}}}}}}",
        platform.expect("a platform")
    );
    fs::write(project.path().join("mallow.baseline.json"), &old).expect("a file");
    let done = project.run(&["--explain"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert!(done.out().contains("No stack differs from the baseline's"), "{}", done.out());
    project.update();
    assert_eq!(project.baseline()["version"], 2);
}

/// The first line of those that name what allocates.
fn first_stack(outcome: &Outcome) -> String {
    let out = outcome.out();
    let stacks = out.lines().skip_while(|line| !line.starts_with("  +") && !line.trim_start().starts_with('+'));
    stacks.take(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_limit_with_a_reference_names_the_guilty_line_first() {
    let more = "runs = 2\nlimits = { total_allocations = 7_020 }\njudge = 'limits'";
    let project = project("test_many", more);
    assert_eq!(project.run(&[]).status, 0);
    let with = |extra: &str| project.run_with(&[], &[("GATE_EXTRA", extra)]);
    // Without one it says so, calls nothing new, and says what keeps one.
    let blind = with("70");
    assert_eq!(blind.status, REGRESSED, "{}", blind.out());
    assert!(blind.out().contains("10 allocations above the limit; nothing to compare with"), "{}", blind.out());
    assert!(blind.out().contains("mallow test --update keeps the stacks of a good build"), "{}", blind.out());
    assert!(!blind.out().contains(", new"), "{}", blind.out());
    project.update();
    // It is no baseline: the limit alone decides.
    let below = with("60");
    assert_eq!(below.status, 0, "{}", below.out());
    let regressed = with("70");
    assert_eq!(regressed.status, REGRESSED, "{}", regressed.out());
    assert!(first_stack(&regressed).contains("+70 allocations"), "{}", regressed.out());
    assert!(first_stack(&regressed).contains("planted (gate_nio.cpp:"), "{}", regressed.out());
}
