//! `mallow test`: verdicts, exit codes, reasons, baselines.

use std::fs;
use std::process::{Command, Stdio};

use harness::{Project, Run, RunDirectories, describe, json, mallow, program, program_as};

use crate::watch_harness::{Alive, until};

const REGRESSED: i32 = 1;
const USAGE: i32 = 2;
const IMPROVED: i32 = 3;
const BROKEN: i32 = 4;

#[test]
fn a_regression_of_one_allocation_an_operation_is_caught_and_its_line_named() {
    let project = Project::of_regions(&["steady"]);
    project.update();
    let passed = project.run(&["-v"]);
    assert_eq!(passed.status, 0, "{}", passed.out());
    for line in
        ["steady.remaining_allocations: 0\n", "steady.leaked_fds: 0\n", "DEBUG: [[\"remaining_allocations\": 0, "]
    {
        assert!(passed.out().contains(line), "{line}: {}", passed.out());
    }
    // All runs are the same to the byte.
    let measured = &json(&project.run(&["--json"]))["cases"][0]["measured"];
    let runs = measured["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| run == &runs[0]), "{runs:?}");

    let regressed = project.run_with(&[], &[("GATE_EXTRA", "1")]);
    assert_eq!(regressed.status, REGRESSED, "{}", regressed.out());
    let text = regressed.out();
    assert!(text.contains("+1,000 allocations (+1.00 per op), 0 → 1,000, +16,000 bytes, new"), "{text}");
    assert!(text.contains("planted (gate.cpp:"), "{text}");
    assert!(text.contains("The stacks explain 1,000 of 1,000 allocations"), "{text}");
    let report = json(&project.run_with(&["--json"], &[("GATE_EXTRA", "1")]));
    let case = &report["cases"][0];
    assert_eq!((&case["verdict"], &report["verdict"]), (&"regressed".into(), &"regressed".into()));
    assert_eq!(case["explanation"]["explained"], case["explanation"]["change"]);
}

#[test]
fn an_improvement_is_a_verdict_of_its_own_and_ratchet_takes_it() {
    let project = Project::of_regions(&["steady"]);
    let worse = project.run_with(&["--update"], &[("GATE_EXTRA", "1")]);
    assert_eq!(worse.status, 0, "{}", worse.out());
    let improved = project.run(&[]);
    assert_eq!(improved.status, IMPROVED, "{}", improved.out());
    assert!(improved.out().contains("lower the baseline"), "{}", improved.out());
    assert_eq!(project.run(&["--ratchet"]).status, 0);
    assert_eq!(project.run(&[]).status, 0);
    // A ratchet does not go back.
    let before = project.baseline();
    assert_eq!(project.run_with(&["--ratchet"], &[("GATE_EXTRA", "1")]).status, REGRESSED);
    assert_eq!(project.baseline(), before);
}

#[test]
fn threads_that_free_each_others_blocks_are_counted_exactly() {
    let project = Project::new(&Project::case(&["threads"], "ops = 8000"));
    let report = json(&project.run(&["--json"]));
    let measured = &report["cases"][0]["measured"];
    assert_eq!(measured["remaining_allocations"], 0, "{measured}");
    let runs = measured["runs"].as_array().expect("runs");
    assert!(runs.iter().all(|run| run == &runs[0]), "{runs:?}");
    assert!(measured["total_allocations"].as_i64().is_some_and(|n| (8000..8100).contains(&n)), "{measured}");
}

#[test]
fn what_cannot_be_judged_is_broken() {
    for (regions, why) in [
        (&["crashes"][..], "it was ended by signal 6"),
        (&["exits"], "a run of it began and never ended"),
        (&["steady", "unknown"], "exit status 99, expected 0"),
        (&["nothing"], "no baseline for"),
    ] {
        let done = Project::of_regions(regions).run(&[]);
        assert_eq!(done.status, BROKEN, "{regions:?}: {}{}", done.out(), done.err());
        assert!(done.out().contains(why), "{regions:?}: {}", done.out());
    }
    let negative = Project::of_regions(&["negative"]);
    let done = negative.run(&["--update"]);
    assert_eq!(done.status, BROKEN, "{}", done.out());
    assert!(!negative.path().join("mallow.baseline.json").exists());
}

/// Its numbers would be those of the rest.
#[test]
fn a_case_with_a_program_that_nobody_counts_is_broken() {
    let hidden = program_as("waits", "waits-static", "cc", &["-static"]);
    let case = format!("[[case]]\nname = 'whole'\ncommand = ['sh', '-c', '{} 300; true']\n", hidden.display());
    let project = Project::new(&case);
    let done = project.run(&["--update"]);
    assert_eq!(done.status, BROKEN, "{}{}", done.out(), done.err());
    let why =
        ["not all of it was counted: started by the command, and not recorded: ", "waits-static is statically linked"];
    assert!(why.iter().all(|why| done.out().contains(why)), "{}", done.out());
}

/// 128 + 22 is a status like any other.
#[test]
fn only_a_signal_is_called_one() {
    let case = |script: &str| format!("[[case]]\nname = 'whole'\ncommand = ['sh', '-c', '{script}']\n");
    for (script, why) in [("exit 150", "exit status 150, expected 0"), ("kill -9 $$", "it was ended by signal 9")] {
        let done = Project::new(&case(script)).run(&["--update"]);
        assert!(done.status == BROKEN && done.out().contains(why), "{script}: {}", done.out());
    }
}

#[test]
fn a_case_that_is_gone_or_empty_is_broken() {
    let project = Project::of_regions(&["steady", "leak"]);
    project.update();
    fs::write(project.path().join("mallow.toml"), Project::case(&["leak"], "")).expect("a file");
    let gone = project.run(&[]);
    assert_eq!(gone.status, BROKEN, "{}", gone.out());
    assert!(gone.out().contains("the baseline has it, and nothing measured it"), "{}", gone.out());
    assert_eq!(project.run(&["leak"]).status, 0);

    let named = Project::new(&Project::case(&["leak"], "").replace("'all'", "['leak', 'render']"));
    let done = named.run(&[]);
    assert!(
        done.status == BROKEN && done.out().contains("gate measured no region of this name, but leak"),
        "{}",
        done.out()
    );
}

#[test]
fn what_is_suggested_can_be_typed() {
    let project = Project::of_regions(&["steady"]);
    fs::rename(project.path().join("mallow.toml"), project.path().join("my cases.toml")).expect("a file");
    let mine = ["-f", "my cases.toml", "--label", "gcc"];
    let out = project.run(&mine).out();
    assert!(out.contains("; mallow test -f 'my cases.toml' --label gcc --update makes one"), "{out}");
    let made = project.run(&[&mine[..], &["--update"]].concat());
    assert!(made.status == 0 && made.err().contains("mallow.baseline.json: added steady\n"), "{}", made.err());
    let same = project.run(&[&mine[..], &["--update"]].concat());
    assert!(same.status == 0 && same.err().contains("mallow.baseline.json stays as it is\n"), "{}", same.err());
    let nothing = project.run(&[&mine[..], &["nosuch"]].concat());
    let expected = "no case matches nosuch; mallow test -f 'my cases.toml' --label gcc --list names the cases";
    assert!(nothing.status == USAGE && nothing.err().contains(expected), "{}", nothing.err());
    let out = project.run(&["--runs", "1", "--", "sh", "-c", "exit 0"]).out();
    assert!(out.contains("; mallow test --update -- sh -c 'exit 0' makes one"), "{out}");
}

#[test]
fn an_update_takes_out_what_is_gone_and_says_what_it_wrote() {
    let project = Project::of_regions(&["steady", "leak"]);
    let cases = || {
        let baseline = project.baseline();
        let platforms = baseline["platforms"].as_object().expect("platforms").values();
        platforms.flat_map(|cases| cases.as_object().expect("cases").keys().cloned()).collect::<Vec<_>>()
    };
    let written = |arguments: &[&str], status: i32, expected: &str| {
        let done = project.run(arguments);
        assert_eq!(done.status, status, "{}{}", done.out(), done.err());
        assert!(done.err().contains(expected), "{expected}: {}", done.err());
    };
    written(&["--update"], 0, ": added steady, leak\n");
    fs::write(project.path().join("mallow.toml"), Project::case(&["leak"], "")).expect("a file");
    assert!(project.run(&[]).out().contains("mallow test --update takes it out"));
    // Of some cases alone, nothing is known of the others.
    written(&["--update", "leak"], 0, " stays as it is\n");
    assert_eq!(cases(), ["leak", "steady"]);
    // Neither is it where a program failed, which may have them.
    fs::write(project.path().join("mallow.toml"), Project::case(&["leak", "crashes"], "")).expect("a file");
    written(&["--update"], BROKEN, "");
    assert_eq!(cases(), ["leak", "steady"]);
    fs::write(project.path().join("mallow.toml"), Project::case(&["leak"], "")).expect("a file");
    written(&["--update"], 0, ": removed steady\n");
    assert_eq!(cases(), ["leak"]);
}

#[test]
fn leaks_of_blocks_and_descriptors_are_figures() {
    let project = Project::of_regions(&["leak"]);
    let out = project.run(&[]).out();
    for line in ["leak.remaining_allocations: 1\n", "leak.leaked_fds: 1\n", "leak.total_allocated_bytes: 100\n"] {
        assert!(out.contains(line), "{out}");
    }
}

#[test]
fn programs_that_lie_or_hide_are_broken() {
    for (command, why) in [
        ("/nowhere/program", "not found"),
        ("/etc/passwd", "not executable"),
        ("sh -c 'exit 3'", "exit status 3, expected 0"),
    ] {
        let done = Project::new(&format!("[[case]]\nname = 'a'\ncommand = \"{command}\"\n")).run(&[]);
        assert_eq!(done.status, BROKEN, "{command}: {}", done.out());
        assert!(done.out().contains(why), "{command}: {}", done.out());
    }
    let own = program("own_allocator");
    let done = Project::new(&format!("[[case]]\nname = 'a'\ncommand = [{own:?}]\n")).run(&[]);
    assert_eq!(done.status, BROKEN, "{}", done.out());
    assert!(done.out().contains("counted wrongly") || done.out().contains("did not prove"), "{}", done.out());
}

#[test]
fn runs_that_disagree_are_reported() {
    let project = Project::of_regions(&["unstable"]);
    let out = project.run(&[]).out();
    assert!(out.contains("unstable: runs disagree: total_allocations 10 to 12"), "{out}");
    assert!(out.contains("unstable.total_allocations: 10\n"), "{out}");
    let row = out.lines().find(|line| line.ends_with(" unstable")).expect("a row");
    let columns: Vec<_> = row.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    assert!(columns[1] == "10 to 12" && !row.contains('±'), "{columns:?}");
    assert!(out.contains("--explain shows the stacks that differ"), "{out}");
    // The stacks that differ, if they are asked for: of the run with the fewest allocations and the one with the most.
    project.update();
    let out = project.run(&["--explain"]).out();
    let differ = "From the run with the fewest allocations to the one with the most:\n  \
                  +2 allocations (+2.00 per op), 10 → 12, +16 bytes, changed\n      unstable (gate.cpp:";
    assert!(out.contains(differ), "{out}");
    let report = json(&project.run(&["--explain", "--json"]));
    let between = &report["cases"][0]["between_runs"];
    assert_eq!((&between[0]["before"], &between[0]["now"]), (&10.into(), &12.into()), "{between}");
}

#[test]
fn runs_of_a_command_that_disagree_are_compared() {
    let project = Project::new(
        "[[case]]\nname = 'odd'\nruns = 2\nwarmup = 0\n\
         command = ['sh', '-c', 'if test -e once; then rm once; exec env true; else touch once; fi']\n",
    );
    let out = project.run(&["--explain", "--json"]);
    let case = &json(&out)["cases"][0];
    assert_eq!(case["unstable"], true, "{}", out.out());
    let between = case["between_runs"].as_array().unwrap_or_else(|| panic!("{}", out.out()));
    let sum = |key: &str| between.iter().filter_map(|difference| difference[key].as_i64()).sum::<i64>();
    let (least, most) = (&case["measured"]["total_allocations"], &case["measured"]["most"]["total_allocations"]);
    assert_eq!(sum("now") - sum("before"), most.as_i64().expect("a number") - least.as_i64().expect("a number"));
}

#[test]
fn what_runs_a_region_shows_in_no_view() {
    let project = Project::of_regions(&["steady"]);
    project.update();
    let baseline = project.baseline().to_string();
    assert!(baseline.contains("steady") && !baseline.contains("measure"), "{baseline}");
    let raw = project.run(&["--explain", "-v", "--baseline", "other.json"]).out();
    assert!(raw.contains("std::vector<…>::_M_realloc_insert<…> (") && !raw.contains("libc_start"), "{raw}");
    assert!(raw.contains("main (gate.cpp:") && !raw.contains("measure"), "{raw}");
    let record = Run::new(mallow(), project.path()).args(["record", "--no-report", "-o", "r.mallow", "--"]);
    assert_eq!(record.arg(program("gate")).arg("steady").go().status, 0);
    for view in
        [&["tree", "--raw"][..], &["tree", "--callers", "--raw"], &["top", "--limit", "1000"], &["report", "--json"]]
    {
        let out = Run::new(mallow(), project.path()).args(view).arg("r.mallow").go().out();
        assert!(out.contains("steady") && !out.contains("measure") && !out.contains("libmallow"), "{view:?}: {out}");
    }
}

#[test]
fn threads_that_do_not_rest_are_reported() {
    let project = Project::of_regions(&["restless"]);
    let out = project.run(&["--runs", "1", "--warmup", "0"]).out();
    assert!(out.contains("WARNING: restless: other threads still allocated"), "{out}");
    assert!(out.contains(" was given up, after 1 s; quiet in mallow.toml waits longer"), "{out}");
    // The wait is as long as it is said to be: two of them, before the run and after it.
    let waits = |seconds: &str| {
        let project = Project::new(&Project::case(&["restless"], &format!("quiet = {seconds}")));
        let began = std::time::Instant::now();
        let out = project.run(&["--runs", "1", "--warmup", "0"]).out();
        assert!(out.contains(&format!("was given up, after {seconds} s")), "{out}");
        began.elapsed().as_secs_f64()
    };
    assert!(waits("3") >= 6.0);
    waits("0");
}

#[test]
fn two_programs_that_measure_one_name_are_broken() {
    let project = Project::new(&format!("{}{}", Project::case(&["leak"], ""), Project::case(&["leak", "steady"], "")));
    let done = project.run(&["--update"]);
    assert_eq!(done.status, BROKEN, "{}", done.out());
    assert!(done.out().contains("another case of this name was measured before"), "{}", done.out());
}

#[test]
fn a_region_that_its_program_begins_itself_is_run_by_running_the_program() {
    let project = Project::of_regions(&["begun"]);
    let report = json(&project.run(&["--json"]));
    let measured = &report["cases"][0]["measured"];
    assert_eq!(measured["runs"].as_array().map(Vec::len), Some(3), "{measured}");
    assert_eq!((&measured["total_allocations"], &measured["operations"]), (&1.into(), &1.into()));
}

#[test]
fn whole_commands_are_cases_too() {
    let project = Project::new("[[case]]\nname = 'true'\ncommand = 'sh -c true'\nruns = 2\n");
    project.update();
    assert_eq!(project.run(&[]).status, 0);
    let direct = project.run(&["--json", "--runs", "2", "--", "sh", "-c", "true"]);
    assert_eq!(json(&direct)["cases"][0]["name"], "sh");
}

#[test]
fn views_show_what_a_region_allocated() {
    let dir = tempfile::tempdir().expect("a directory");
    let record = Run::new(mallow(), dir.path()).args([
        "record",
        "--no-report",
        "-o",
        "r.mallow",
        "--runs",
        "2",
        "--warmup",
        "1",
        "--",
    ]);
    let done = record.arg(program("gate")).args(["leak", "threads", "steady"]).go();
    assert_eq!(done.status, 0, "{}", done.err());
    let show =
        |region: &str| Run::new(mallow(), dir.path()).args(["report", "--json", "--region", region, "r.mallow"]).go();
    // Two measured runs each, without the warm-ups.
    let leak = json(&show("leak"));
    assert_eq!((&leak["allocations"], &leak["allocated_bytes"], &leak["live"]), (&2.into(), &200.into(), &2.into()));
    let steady = json(&show("steady"));
    assert_eq!((&steady["allocations"], &steady["live"]), (&16_000.into(), &0.into()));
    // The threads' own blocks, and what the C library needs for threads.
    let threads = json(&show("threads"));
    assert!(
        threads["allocations"].as_i64().is_some_and(|n| (16_000..16_200).contains(&n)),
        "{}",
        threads["allocations"]
    );
    assert_eq!(json(&show("steady,leak"))["allocations"], 16_002);
    // A region runs for a part of the time, and nobody knows for how long.
    let text = Run::new(mallow(), dir.path()).args(["report", "--region", "steady", "r.mallow"]).go().out();
    let row = text.lines().find(|line| line.starts_with("  allocations")).expect("a row");
    assert!(row.contains("16,000") && !row.contains("/s"), "{row}");
    let none = show("render");
    assert_eq!(none.status, 1);
    assert!(
        none.err().contains("no run of such a region was measured; there are leak, steady, threads"),
        "{}",
        none.err()
    );
}

#[test]
fn two_numbers_of_operations_separate_the_setup() {
    let project = Project::new(&Project::case(&["steady"], "ops = [10, 110]"));
    let report = json(&project.run(&["--json"]));
    let scale = &report["cases"][0]["scale"];
    assert!(scale["allocations_per_op"].as_f64().is_some_and(|n| n > 1.0), "{scale}");
    assert_eq!(scale["setup_allocations"], 0.0, "{scale}");
}

#[test]
fn a_limit_in_the_environment_wins_and_says_so() {
    let project = Project::of_regions(&["leak"]);
    project.update();
    let low = project.run_with(&["--no-explain"], &[("MAX_ALLOCS_ALLOWED_leak", "0")]);
    assert_eq!(low.status, REGRESSED, "{}", low.out());
    let high = project.run_with(&[], &[("MAX_ALLOCS_ALLOWED_leak", "5")]);
    assert_eq!(high.status, 0, "{}", high.out());
    assert!(high.out().contains("the limit is MAX_ALLOCS_ALLOWED_leak=5"), "{}", high.out());
    // With --update too: what was not read was not kept.
    for flag in ["--no-explain", "--update"] {
        let nonsense = project.run_with(&[flag], &[("MAX_ALLOCS_ALLOWED_leak", "many")]);
        assert_eq!(nonsense.status, BROKEN, "{}", nonsense.out());
        let why = "MAX_ALLOCS_ALLOWED_leak=many is no whole number, and no limit\n";
        assert!(nonsense.out().contains(why) && !nonsense.out().contains("9,223"), "{}", nonsense.out());
    }
}

#[test]
fn without_the_hook_everything_runs_and_nothing_is_counted() {
    let project = Project::of_regions(&["steady"]);
    let done = project.run(&["-n"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert!(done.out().contains("steady.total_allocations: 0\n"), "{}", done.out());
    assert!(done.out().contains("the figures mean nothing"), "{}", done.out());
}

#[test]
fn side_by_side_is_the_same() {
    let text = format!("{}{}", Project::case(&["steady"], ""), Project::case(&["threads"], ""));
    let project = Project::new(&text);
    project.update();
    let done = project.run(&["--jobs", "4"]);
    assert_eq!(done.status, 0, "{}", done.out());
}

#[test]
fn bad_files_are_one_line_and_the_old_baseline_stays() {
    let bad = Project::new("[[case]]\nname = 'a'\ncommand = 'a'\nrun = 3\n").run(&[]);
    assert_eq!(bad.status, USAGE);
    assert!(bad.err().starts_with("mallow: mallow.toml:4: unknown field `run`"), "{}", bad.err());
    assert_eq!(bad.err().lines().count(), 1);

    let project = Project::of_regions(&["leak"]);
    let newer = "{\"version\": 99}";
    fs::write(project.path().join("mallow.baseline.json"), newer).expect("a file");
    for arguments in [&[][..], &["--update"]] {
        let done = project.run(arguments);
        assert_eq!(done.status, BROKEN, "{}", done.err());
        assert!(done.err().contains("is from a newer mallow"), "{}", done.err());
    }
    assert_eq!(fs::read_to_string(project.path().join("mallow.baseline.json")).expect("a file"), newer);
    let unmatched = project.run(&["nothing-like-it", "--baseline", "other.json"]);
    assert_eq!(unmatched.status, USAGE, "{}", unmatched.err());
}

#[test]
fn a_write_error_is_reported_after_the_figures() {
    let project = Project::of_regions(&["leak"]);
    for arguments in [["--junit", "nowhere/j.xml"], ["--update", "--baseline=nowhere/b.json"], ["--sarif", "."]] {
        let done = project.run(&arguments);
        assert_eq!(done.status, BROKEN, "{arguments:?}: {}", done.out());
        assert!(done.out().contains("leak.total_allocations: 1\n"), "{arguments:?}: {}", done.out());
        assert!(done.err().starts_with("mallow: cannot write "), "{arguments:?}: {}", done.err());
        assert_eq!(done.err().lines().count(), 1, "{}", done.err());
    }
}

#[test]
fn figures_without_stacks_are_kept_and_said_to_be() {
    // It measures once; the run with stacks has nothing to show.
    let script = format!("test -e ran || {{ touch ran; exec '{}' leak; }}", program("gate").display());
    let project =
        Project::new(&format!("[[case]]\ncommand = ['sh', '-c', {script:?}]\nregions = 'all'\nruns = 1\nwarmup = 0\n"));
    let done = project.run(&["--update"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert!(done.out().contains("WARNING: leak: no stacks: the region did not run"), "{}", done.out());
    assert!(project.baseline().to_string().contains("\"total_allocations\":1"), "{}", project.baseline());
}

/// The command is asked to end first, so that what it is watched with goes too.
#[test]
fn interrupted_it_leaves_nothing() {
    let project = Project::new("[[case]]\nname = 'a'\ncommand = \"sh -c 'echo > begun; sleep 1000.5; true'\"\n");
    let mark = format!("interrupted {}", std::process::id());
    let mut command = Command::new(mallow());
    command.arg("test").current_dir(project.path()).env("HARNESS_MARK", &mark).stdout(Stdio::null());
    let mut alive = Alive::start(&mut command);
    until("the command", || project.path().join("begun").exists().then_some(()));
    alive.signal("INT");
    assert_eq!(alive.end(), 130);
    let left = RunDirectories::now().with_text("1000.5");
    assert!(left.is_empty(), "{left:?}");
    until("the command's end", || describe(&mark).is_empty().then_some(()));
}

#[test]
fn a_command_that_hangs_is_broken_in_time() {
    for (heeds, own) in [("", "1000.25"), ("trap \\\"\\\" TERM INT; ", "1000.75")] {
        let case = format!("[[case]]\nname = 'a'\ncommand = \"sh -c '{heeds}sleep {own}; true'\"\ntimeout = 0.5\n");
        let done = Project::new(&case).run(&[]);
        assert_eq!(done.status, BROKEN);
        assert!(done.out().contains("it took longer than 0.5 s"), "{}", done.out());
        let left = RunDirectories::now().with_text(own);
        assert!(left.is_empty(), "{heeds}: {left:?}");
    }
}
