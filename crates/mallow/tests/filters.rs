//! Filters on the views of a real recording, through the built binary.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

const MALLOW: &str = env!("CARGO_BIN_EXE_mallow");

/// The example whose allocations can be counted by hand, recorded as one of two processes.
static PLACE: LazyLock<TempDir> = LazyLock::new(|| {
    let place = tempfile::tempdir().expect("a directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c/leak.c");
    let built = Command::new("cc").args(["-O1", "-g", "-o", "leak"]).arg(source).current_dir(&place).status();
    assert!(built.expect("a C compiler").success());
    let record = ["record", "--no-report", "-o", "two.mallow", "--", "sh", "-c", "./leak; ./leak; exit 0"];
    let recorded = Command::new(MALLOW).args(record).current_dir(&place).output().expect("mallow runs");
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    place
});

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn mallow(arguments: &str) -> Output {
    let mut command = Command::new(MALLOW);
    command.args(arguments.split(' ')).arg("two.mallow").current_dir(&*PLACE).stdin(Stdio::null());
    command.output().expect("mallow runs")
}

fn json(arguments: &str) -> Value {
    let output = mallow(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key} in {report}"))
}

/// Blocks are lost beside those that are chosen, and stacks have a share of a peak that is not their own.
#[test]
fn what_is_said_of_some_blocks_is_not_said_of_all() {
    let said = |arguments: &str| text(&mallow(arguments).stdout).to_owned();
    for (arguments, right) in [
        ("report --size 32", "; the peak of these blocks\n"),
        ("report --focus ^build_table$", "; the peak of all stacks\n"),
        ("report --focus ^build_table$ --process leak", "Verdict: of these, "),
        ("leaks --focus ^build_table$", "Of these: No "),
        ("leaks --size 32 --only lost", "Of these: No "),
    ] {
        assert!(said(arguments).contains(right), "{arguments}: {}", said(arguments));
    }
    for arguments in ["report", "report --hide ^scratch$"] {
        let all = said(arguments);
        assert!(all.contains("\nVerdict: ") && !all.contains("of these") && !all.contains("the peak of"), "{all}");
    }
}

/// What leak allocates, twice: 1000 blocks of 32 bytes that are freed at once, 100 of 4096 in a table, one of 16 that
/// grows to 32, 64, …, 4096, and 3 of 64 that leak.
#[test]
fn filters_leave_what_can_be_counted_by_hand() {
    for (filters, allocations, bytes, live) in [
        ("--process leak", 2224, 2 * 449_968, 6),
        ("--process leak --size 32", 2002, 64_064, 0),
        ("--process leak --size 4k..", 202, 2 * (100 * 4096 + 4096), 0),
        ("--process leak --size 64..65 --lifetime ..1h", 8, 512, 6),
        ("--focus ^build_table$", 200, 200 * 4096, 0),
        ("--process leak --focus leak\\.c --ignore scratch|build_table|grow", 6, 384, 6),
        ("--process leak --hide scratch", 2224, 2 * 449_968, 6),
        ("--process leak --time 0..100%", 2224, 2 * 449_968, 6),
        ("--process leak --time 0.. --when freed", 2218, 2 * (449_968 - 192), 0),
    ] {
        let report = json(&format!("report --json {filters}"));
        let numbers = ["allocations", "allocated_bytes", "live"].map(|key| number(&report, key));
        assert_eq!(numbers, [allocations, bytes, live], "{filters}");
        assert!(report["filters"].is_object(), "{filters}");
    }
    assert_eq!(json("report --json").get("filters"), None);
}

#[test]
fn views_agree_on_what_is_left() {
    for (filters, allocations, bytes, live) in [
        ("--process leak --size 32..65", 2010, 2 * (1000 * 32 + 32 + 64 + 3 * 64), 6),
        ("--focus read_config|scratch --hide main", 2006, 2 * (1000 * 32 + 3 * 64), 6),
    ] {
        let top = json(&format!("top --json --by bytes {filters}"));
        let self_sums: u64 =
            top["functions"].as_array().into_iter().flatten().map(|f| number(&f["self"], "allocated_bytes")).sum();
        assert_eq!((number(&top, "allocations"), self_sums), (allocations, bytes), "{filters}");
        assert_eq!(number(&json(&format!("leaks --json {filters}")), "live"), live, "{filters}");
    }
}

#[test]
fn processes_and_times_add_up_to_the_whole() {
    let whole = json("report --json");
    let all = [
        "allocations",
        "allocated_bytes",
        "frees",
        "freed_bytes",
        "temporary",
        "temporary_bytes",
        "live",
        "live_bytes",
    ];
    let processes = whole["processes"].as_array().expect("processes");
    assert!(processes.len() >= 3);
    let pids: Vec<_> = processes.iter().filter(|p| number(p, "allocations") > 0).map(|p| number(p, "pid")).collect();
    let by_process: Vec<Value> = pids.iter().map(|pid| json(&format!("report --json --process {pid}"))).collect();
    let duration = number(&whole, "duration_ms");
    let within = |from: u64, to: u64| {
        let output = mallow(&format!("report --json --time {from}ms..{to}ms"));
        // Nothing is allocated in some of them.
        serde_json::from_slice::<Value>(&output.stdout).ok()
    };
    let width = duration / 3 + 1;
    let by_time: Vec<Value> = (0..3).filter_map(|n| within(n * width, (n + 1) * width)).collect();
    for key in all {
        let sum = |parts: &[Value]| parts.iter().map(|part| number(part, key)).sum::<u64>();
        assert_eq!((sum(&by_process), sum(&by_time)), (number(&whole, key), number(&whole, key)), "{key}");
    }
    // A process alone says what it says among the others, and its peak is its own.
    for (part, pid) in by_process.iter().zip(pids) {
        let among = processes.iter().find(|p| number(p, "pid") == pid).expect("the process");
        for key in all.iter().chain(&["reallocs_in_place"]) {
            assert_eq!(number(part, key), number(among, key), "{key}");
        }
        assert_eq!(number(part, "peak_bytes"), number(among, "own_peak_bytes"));
        assert_eq!(part["processes"][0]["foreign_frees"], among["foreign_frees"]);
        assert_eq!(part["processes"][0]["families"], among["families"]);
    }
}

#[test]
fn a_line_names_the_filters() {
    let filters = "--process leak,sh --size 16.. --time 0..100% --focus leak --ignore no\x1bbody";
    for view in ["report", "top", "tree", "leaks"] {
        let output = mallow(&format!("{view} {filters}"));
        let first = text(&output.stdout).lines().next().unwrap_or_default();
        let expected =
            "Filtered by process leak, sh; allocated within 0..100%; size 16..; focus leak; ignore no\\u{1b}body";
        assert_eq!(first, expected, "{view}");
        // What changes nothing may be mistyped.
        let message = text(&output.stderr);
        assert_eq!(message, "mallow: --ignore no\\u{1b}body: no function, file or module is called so\n");
    }
}

/// A picture of a part says so, as text does.
#[test]
fn pictures_name_the_filters() {
    for view in ["flame -o -", "timeline -o -"] {
        let whole = mallow(view);
        let part = mallow(&format!("{view} --process leak --size 16.."));
        let expected = ">Filtered by process leak; size 16..<";
        assert!(text(&part.stdout).contains(expected) && !text(&whole.stdout).contains("Filtered by"), "{view}");
    }
}

/// What is left out is small, and its sum is shown: shown and hidden rows are the whole.
#[test]
fn small_rows_are_left_out_and_added_up() {
    let own = "--process leak";
    for (view, rows, kept, hidden, key, sum) in [
        ("top --json", "functions", 2, 2, "allocations", 2 * (9 + 3)),
        ("top --json --by bytes", "functions", 2, 2, "allocated_bytes", 2 * (8176 + 192)),
        ("leaks --json", "sites", 1, 0, "live_bytes", 0),
        ("list --json .", "functions", 3, 2, "allocations", 2 * (9 + 3)),
        ("timeline --json --at peak", "places", 1, 1, "live_bytes", 0),
    ] {
        let (words, file) = (view.split(' '), own.split(' '));
        let report = json(&words.chain(file).chain(["--min", "5%"]).collect::<Vec<_>>().join(" "));
        assert_eq!(report[rows].as_array().map(Vec::len), Some(kept), "{view}: {report:#}");
        let left_out = &report["hidden"];
        let of = |key: &str| if left_out.is_null() { 0 } else { number(left_out, key) };
        assert_eq!(of("rows"), hidden, "{view}: {report:#}");
        assert!(sum == 0 || of(key) == sum, "{view}: {left_out}");
    }
    let report = json(&format!("report --json {own} --min 150"));
    for list in report["largest"].as_array().expect("lists") {
        let by = list["by"].as_str().expect("a measure");
        let key = match by {
            "bytes" => "allocated_bytes",
            "peak" => "peak_bytes",
            "live" => "live_bytes",
            by => by,
        };
        let shown = list["largest"].as_array().expect("places");
        assert!(shown.iter().all(|place| number(place, key) >= 150), "{list:#}");
        let hidden = if list["hidden"].is_null() { 0 } else { number(&list["hidden"], key) };
        let sum: u64 = shown.iter().map(|place| number(place, key)).sum();
        assert_eq!(sum + hidden, number(list, "total"), "{list:#}");
    }
    let shown = mallow(&format!("top --min 5% {own}"));
    assert!(text(&shown.stdout).ends_with("\n     24   1.1 %                 … 2 more\n"), "{}", text(&shown.stdout));
    let shown = mallow(&format!("report --min 5% {own}"));
    assert!(text(&shown.stdout).contains("\n   1.1 %     24  … 3 more\n"), "{}", text(&shown.stdout));
    let whole = mallow("flame -o - --callers").stdout.len();
    let part = mallow("flame -o - --callers --min 90%");
    assert!(part.stdout.len() < whole && text(&part.stdout).contains(" below 2,"), "{}", text(&part.stdout));
    assert!(text(&mallow("top --min 101%").stderr).contains("the whole is 100%"));
}

#[test]
fn a_filter_that_leaves_nothing_says_what_there_is() {
    for (filters, expected) in [
        (
            "--process nobody",
            "mallow: --process nobody: there is no such process; there are leak (2 processes, peak 410 kB), sh (pid ",
        ),
        ("--process 1", "mallow: --process 1: there is no such process; there are "),
        ("--thread 1", "mallow: --thread 1: there is no such thread; there are "),
        (
            "--process leak --size 1M..",
            "mallow: no block matches --process leak --size 1M..; of 2,224 blocks: sizes 16 B to 4,096 B",
        ),
        ("--time 5h..", "mallow: no block matches --time 5h..; of "),
        ("--time 50%..50.0000001%", "mallow: --time 50%..50.0000001%: outside this recording"),
        (
            "--focus nobody",
            "mallow: --focus nobody: no function, file or module is called so; most is allocated by build_table, ",
        ),
        ("--ignore .", "mallow: nothing is left by --ignore ."),
        ("--focus scratch --ignore main", "mallow: nothing is left by --focus scratch --ignore main"),
    ] {
        let output = mallow(&format!("leaks --fail-on-leak {filters}"));
        let message = text(&output.stderr);
        assert!(message.starts_with(expected) && message.lines().count() == 1, "{filters}: {message}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{filters}");
    }
}

#[test]
fn filters_that_make_no_sense_are_mistakes() {
    for filters in
        ["--time 1..2", "--time 2s..1s", "--size x", "--lifetime 5", "--focus (", "--when live", "--thread x"]
    {
        let output = mallow(&format!("top {filters}"));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{filters}: {message}");
        assert!(message.starts_with("mallow: ") && message.lines().count() == 1, "{message}");
    }
}
