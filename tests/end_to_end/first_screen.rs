//! The first screen of a recording: the report fits the terminal, its places are answers, a leak is one leak.

use std::fs;
use std::path::Path;

use harness::{Case, Recorded, Run, directory, mallow, number, tool};
use serde_json::Value;

/// Builds `name` from a source, and records it as `name.mallow`.
fn recorded(place: &Path, compiler: &str, name: &str, flags: &[&str], text: &str) {
    let source = format!(
        "{name}.{}",
        if compiler == "rustc" {
            "rs"
        } else if compiler == "c++" {
            "cc"
        } else {
            "c"
        }
    );
    fs::write(place.join(&source), text).expect("a source");
    let built = Run::new(tool(compiler), place).args(["-g", "-o", name]).args(flags).arg(&source).go();
    assert_eq!(built.status, 0, "{}", built.err());
    let run = Run::new(mallow(), place).args(["record", "-o", &format!("{name}.mallow"), "--"]).arg(place.join(name));
    let run = run.go();
    assert_eq!(run.status, 0, "{}", run.err());
}

fn shown(place: &Path, arguments: &[&str]) -> String {
    let run = Run::new(mallow(), place).args(arguments).go();
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.err());
    run.out()
}

fn json(place: &Path, arguments: &[&str]) -> Value {
    let text = shown(place, arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What a terminal of this size gets, without colours.
fn on_terminal(place: &Path, (columns, rows): (usize, usize), arguments: &str) -> Vec<String> {
    let command = format!("stty cols {columns} rows {rows}; exec {} {arguments}", mallow().display());
    let run = Run::new(tool("script"), place).args(["-qec", &command, "/dev/null"]);
    let run = run.env("NO_COLOR", Some("1")).env("LC_ALL", Some("C.UTF-8")).go();
    let out = run.out().replace('\r', "");
    assert_eq!(run.status, 0, "{out}");
    out.lines().map(str::to_owned).collect()
}

const SERVER: &str = r#"
#include <stdlib.h>
#include <string.h>
#define OUT __attribute__((noinline, noclone))
static void *volatile kept;
OUT void *take(size_t n) { void *p = malloc(n); if (!p) abort(); memset(p, 1, n); return p; }
OUT static void open_session(int n) { kept = take(100 + n % 2); }
OUT static void serve(void) { for (int i = 0; i < 2000; i++) open_session(i); kept = 0; }
OUT static void again(void) { for (int i = 0; i < 858; i++) open_session(i); kept = 0; }
OUT static void parse(void) { for (int i = 0; i < 500; i++) free(take(900)); }
OUT static void index_rows(void) { free(take(40000)); kept = 0; }
OUT static void buffer(void) { free(take(9000)); kept = 0; }
int main(void) { serve(); again(); parse(); index_rows(); buffer(); return 0; }
"#;

#[test]
fn a_wrapper_is_no_place_and_a_leak_is_one_leak() {
    let directory = directory();
    let place = directory.path();
    recorded(place, "cc", "server", &["-O1"], SERVER);
    let report = json(place, &["report", "--json", "server.mallow"]);
    let first = &report["largest"][0]["largest"][0];
    assert_eq!(
        (first["function"].as_str(), first["through"].as_str()),
        (Some("open_session"), Some("take")),
        "{first:#}"
    );
    assert_eq!(first["allocations"], 2858);
    let top = json(place, &["top", "--json", "server.mallow"]);
    let names: Vec<&str> =
        top["functions"].as_array().into_iter().flatten().filter_map(|f| f["function"].as_str()).collect();
    assert_eq!(&names[..2], ["open_session", "parse"], "{names:?}");
    assert!(!names.contains(&"take"), "{names:?}");
    let raw = json(place, &["top", "--json", "--raw", "server.mallow"]);
    assert!(raw["functions"].as_array().into_iter().flatten().any(|f| f["function"] == "take"), "{raw:#}");
    // Who allocates is the line, and who called it has one too.
    let text = shown(place, &["report", "--all", "server.mallow"]);
    assert!(
        text.contains("open_session server.c:7 (2 sites) via take ← serve server.c:8 ← main server.c:13"),
        "{text}"
    );

    let leaks = json(place, &["leaks", "--json", "server.mallow"]);
    let causes = &leaks["leak_causes"];
    assert_eq!(causes.as_array().map(Vec::len), Some(1), "{causes:#}");
    assert_eq!((causes[0]["function"].as_str(), causes[0]["live"].as_u64()), (Some("open_session"), Some(2858)));
    let sites = leaks["sites"].as_array().into_iter().flatten().filter_map(|site| site["live"].as_u64());
    assert_eq!(sites.sum::<u64>(), 2858, "JSON keeps the sites");
    let text = shown(place, &["leaks", "server.mallow"]);
    assert!(text.contains(": one leak, 2,858 times;") && text.contains("    open_session server.c:7"), "{text}");
}

/// A program that allocates little, for three seconds: what the line says while it runs is what it has done, but for a
/// moment.
#[test]
fn the_line_of_a_run_counts_what_a_slow_program_allocates() {
    const SLOW: &str = r#"
#include <stdlib.h>
#include <unistd.h>
int main(void) { for (int i = 0; i < 3000; i++) { if (!malloc(100)) return 1; usleep(1000); } return 0; }
"#;
    let directory = directory();
    let place = directory.path();
    recorded(place, "cc", "slow", &["-O1"], SLOW);
    let lines = on_terminal(place, (80, 24), "record -o again.mallow -- ./slow").join("\n");
    let shown = lines.split("mallow: ").filter_map(|line| line.split_once(" allocations  live ")?.0.rsplit(' ').next());
    let counts: Vec<u64> = shown.filter_map(|count| count.replace(',', "").parse().ok()).collect();
    assert!(counts.len() > 5 && counts.is_sorted(), "{lines}");
    let between = counts.iter().filter(|&&count| count > 0 && count < 3000).count();
    assert!(between > counts.len() / 2, "{counts:?}");
}

#[test]
fn the_report_fits_the_terminal_and_ends_with_a_verdict() {
    let directory = directory();
    let place = directory.path();
    recorded(place, "cc", "server", &["-O1"], SERVER);
    for size in [(80, 24), (60, 20), (200, 50)] {
        let (columns, rows) = size;
        let lines = on_terminal(place, size, "report server.mallow");
        assert!(lines.len() < rows, "{size:?}: {lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{size:?}: {lines:#?}");
        let last = lines.last().expect("a line");
        // What has no room is counted; the line of the function, which is in a list, goes first.
        let verdict = match columns {
            60 => "Verdict: 287 kB lost, all from open_session; 1 more: --all",
            80 => "Verdict: 287 kB lost, all from open_session server.c:7; 1 more: --all",
            _ => "Verdict: 287 kB lost, all from open_session server.c:7; ",
        };
        assert!(last.starts_with(verdict) && last.contains("more: --all") == (columns < 200), "{last}");
        let found = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(found("live at peak") && found("2,858 times  open_session server.c:7"), "{lines:#?}");
        let lines = on_terminal(place, size, "timeline server.mallow");
        assert!(lines.len() < rows && lines[0].starts_with("Live bytes over "), "{size:?}: {lines:#?}");
    }
    // A pipe gets as much as a usual terminal, and all of it on demand.
    let piped = shown(place, &["report", "server.mallow"]);
    assert!(piped.lines().count() < 24 && !piped.contains("Most allocated bytes"), "{piped}");
    let all = shown(place, &["report", "--all", "server.mallow"]);
    assert!(all.contains("Most allocated bytes") && all.contains("Most bytes live at the end"), "{all}");
    for more in [["--limit", "1"], ["--min", "1"]] {
        let whole = shown(place, &[&["report"], &more[..], &["server.mallow"]].concat());
        assert!(whole.contains("Most allocated bytes"), "{whole}");
    }
    // record ends with the same report.
    let recorded = on_terminal(place, (80, 24), "record -o again.mallow -- ./server");
    let verdict = recorded.iter().position(|line| line.starts_with("Verdict: ")).expect("a verdict");
    assert_eq!(
        recorded[verdict + 1..],
        ["mallow: recorded to again.mallow; mallow view again.mallow opens it"],
        "{recorded:#?}"
    );
    assert!(recorded.len() < 24, "{recorded:#?}");
}

#[test]
fn what_numbers_lack_is_the_first_line_of_each_view() {
    let directory = directory();
    let place = directory.path();
    recorded(place, "cc", "server", &["-O1"], SERVER);
    let whole = fs::read(place.join("server.mallow")).expect("the recording");
    fs::write(place.join("cut.mallow"), &whole[..whole.len() * 9 / 10]).expect("a part of it");
    for view in [
        &["report"][..],
        &["report", "--all"],
        &["top"],
        &["tree"],
        &["list", "main"],
        &["leaks"],
        &["timeline"],
        &["sizes"],
        &["lifetimes"],
        &["threads"],
    ] {
        let text = shown(place, &[view, &["cut.mallow"]].concat());
        assert!(text.starts_with("Incomplete: the recording is cut short: "), "{view:?}: {text}");
        assert_eq!(text.matches("is cut short").count(), 1, "{view:?}: {text}");
    }
}

#[test]
fn the_pool_of_libstdcxx_is_no_leak() {
    let directory = directory();
    let place = directory.path();
    let text = "#include <stdexcept>\nint main(int n, char **) { try { if (n) throw std::runtime_error(\"none\"); } \
                catch (const std::exception &) { return 0; } return 1; }\n";
    recorded(place, "c++", "tidy", &["-O1"], text);
    let report = json(place, &["leaks", "--json", "tidy.mallow"]);
    assert!(report["live"].as_u64().is_some_and(|blocks| blocks >= 1), "nothing to test here: {report:#}");
    assert!(report["emergency_pool"]["live_bytes"].as_u64().is_some_and(|bytes| bytes > 60_000), "{report:#}");
    assert_eq!(report["live"], report["suppressed"], "{report:#}");
    let text = shown(place, &["leaks", "--fail-on-leak", "tidy.mallow"]);
    assert!(
        text.starts_with(
            "Nothing to report: all that was live at the end is suppressed, or kept as the next lines say.\n\nNo leak: "
        ) && text.contains("libstdc++ keeps"),
        "{text}"
    );
    let text = shown(place, &["report", "tidy.mallow"]);
    assert!(text.contains("of it libstdc++'s own, no leak") && !text.contains("Live, by cause"), "{text}");
}

const ROWS: &str = r#"#[derive(Clone)]
struct Row { name: String, city: String }
#[inline(never)]
fn total_len(rows: &[Row]) -> usize {
    let mut n = 0;
    for _ in 0..200 {
        for row in rows {
            let copy = row.clone();
            n += std::hint::black_box(&copy).name.len() + copy.city.len();
        }
    }
    n
}
#[inline(never)]
fn labels(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("label {i}")).collect()
}
fn main() {
    let row = |i: usize| Row { name: format!("a name of some length {i}"), city: "a city of some length".to_string() };
    let rows: Vec<Row> = (0..200).map(row).collect();
    println!("{}", total_len(&rows) + labels(120_000).len());
}
"#;

#[test]
fn a_copy_in_a_loop_is_one_insight_and_stored_strings_are_not_to_be_kept() {
    let directory = directory();
    let place = directory.path();
    recorded(place, "rustc", "rows", &["-O"], ROWS);
    let report = json(place, &["report", "--json", "rows.mallow"]);
    let insights: Vec<&Value> = report["insights"].as_array().into_iter().flatten().collect();
    let at = |function: &str| {
        insights.iter().filter(|i| i["function"].as_str().is_some_and(|f| f.ends_with(function))).collect::<Vec<_>>()
    };
    let copies = at("total_len");
    assert_eq!(copies.len(), 1, "{insights:#?}");
    assert_eq!((copies[0]["line"].as_u64(), copies[0]["saves"]["allocations"].as_u64()), (Some(8), Some(80_000)));
    assert!(copies[0]["remedy"].as_str().is_some_and(|r| r.contains("Pass a reference")), "{insights:#?}");
    assert!(insights.iter().all(|i| i["function"].as_str().is_none_or(|f| !f.contains("Clone"))), "{insights:#?}");
    for stored in at("labels").into_iter().chain(at("labels::{closure#0}")).chain(at("labels::{{closure}}")) {
        let remedy = stored["remedy"].as_str().unwrap_or_default();
        assert!(!remedy.contains("kept and cleared"), "{stored:#}");
    }
}

/// The program says how long it ran. What it waited at its exit, while mallow read what it had done, is no part of that:
/// it holds more than mallow copies.
#[test]
fn the_wait_at_the_exit_is_no_part_of_the_run() {
    let place = directory();
    let text = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static char *held;
static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000ll + time.tv_nsec / 1000000;
}
int main(void) {
    long long began = now();
    memset(held = malloc(300 << 20), 1, 300 << 20);
    for (int i = 0; i < 3000000; i++) free(malloc(40));
    printf("%lld\n", now() - began);
    return 0;
}
"#;
    recorded(place.path(), "gcc", "waits", &["-O0", "-fno-builtin"], text);
    let run = Run::new(mallow(), place.path())
        .args(["record", "--no-report", "--scan-all", "-o", "again.mallow", "--", "./waits"])
        .go();
    let own: u64 = run.out().trim().parse().expect("milliseconds");
    let report = json(place.path(), &["report", "--json", "again.mallow"]);
    let [ran, wait, all] = ["ran_ms", "exit_wait_ms", "duration_ms"].map(|key| number(&report, key));
    // Mallow begins before the program.
    assert!(ran + wait <= all - number(&report, "run_begin_ms"), "{report:#}");
    assert!(wait > 0 && ran >= own, "{own} ms, by itself; ran {ran} and waited {wait} of {all}");
    let text = shown(place.path(), &["report", "again.mallow"]);
    let line = text.lines().find(|line| line.starts_with("ran ")).expect("how long it ran");
    assert_eq!(line.contains(" for mallow at its exit"), wait * 100 >= all, "{line}: {wait} of {all}");
}

/// Leaks with long call paths: as many of them as leave the first line in sight.
#[test]
fn leaks_fit_the_terminal() {
    const DEPTH: u32 = 9;
    let place = directory();
    let mut text = String::from("#include <stdlib.h>\n#define OUT __attribute__((noinline, noclone)) static void\n");
    let mut calls = String::new();
    for leak in 0..6 {
        text += &format!("OUT leak_{leak}_0(void) {{ void *volatile block = malloc(100 + {leak}); block = 0; }}\n");
        for depth in 1..DEPTH {
            let inner = depth - 1;
            text += &format!(
                "OUT leak_{leak}_{depth}(void) {{ leak_{leak}_{inner}(); __asm__ volatile(\"\" ::: \"memory\"); }}\n"
            );
        }
        calls += &format!("leak_{leak}_{}(); ", DEPTH - 1);
    }
    text += &format!("int main(void) {{ {calls}return 0; }}\n");
    recorded(place.path(), "cc", "deep", &["-O1"], &text);
    for size in [(80, 24), (200, 50)] {
        let lines = on_terminal(place.path(), size, "leaks deep.mallow");
        assert!(lines.len() < size.1, "{lines:#?}");
        assert!(lines[0].contains("the largest "), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.starts_with("and ") && line.contains("; --limit 0 shows all")),
            "{lines:#?}"
        );
    }
    let three = on_terminal(place.path(), (80, 24), "leaks --limit 3 deep.mallow");
    assert!(three.len() >= 24 && three[0].contains("the largest 3 of 6"), "{three:#?}");
}

/// Unwind tables are made once for a library, and kept. What the program waited for them is said.
#[test]
fn what_the_program_waits_for_unwind_tables_is_said_and_happens_once() {
    let cache = directory();
    let record = || Case::sqlite(20).env("XDG_CACHE_HOME", cache.path()).record();
    let (cold, warm) = (record(), record());
    let waited = |record: &Recorded| number(&record.json, "table_wait_ms");
    assert!(waited(&cold) > waited(&warm), "{} ms, then {} ms", waited(&cold), waited(&warm));
    let is_long = 20 * waited(&cold) >= number(&cold.json, "ran_ms");
    assert_eq!(cold.shown(&["report"]).contains(" waiting for Mallow's unwind tables"), is_long, "{}", cold.json);
}

/// The screen begins with that no block was lost: a gate that fails all the same has a reason. What glibc keeps for
/// stdout is none.
#[test]
fn a_gate_that_fails_for_reachable_blocks_says_so() {
    let place = directory();
    let gate = |program: &str, options: &[&str]| {
        let file = format!("{program}.mallow");
        Run::new(mallow(), place.path()).args(["leaks", "--fail-on-leak"]).args(options).arg(file).go()
    };
    let text = |work: &str| {
        format!(
            "#include <stdio.h>\n#include <stdlib.h>\nvoid *kept;\nint main(void) {{ {work}puts(\"hi\"); return 0; }}\n"
        )
    };
    recorded(place.path(), "cc", "keeps", &["-O1"], &text("kept = malloc(100); "));
    let all = gate("keeps", &[]);
    assert!(all.status == 3 && all.out().starts_with("No block was lost.\n"), "{}", all.out());
    assert!(
        all.err().contains("exit status 3: 100 B in 1 block live at the end, none of it known to be lost"),
        "{}",
        all.err()
    );
    let lost = gate("keeps", &["--only", "lost"]);
    assert_eq!((lost.status, lost.err()), (0, String::new()));
    recorded(place.path(), "cc", "prints", &["-O1"], &text(""));
    let all = gate("prints", &[]);
    assert!(all.status == 0 && all.out().contains(" that glibc keeps to its end by design"), "{}", all.out());
    assert_eq!(gate("prints", &["--no-built-in"]).status, 3);
}

/// What is requested and never touched is at the peak, and not in memory.
#[test]
fn the_verdict_on_a_reservation_says_what_was_in_memory() {
    let place = directory();
    let at = place.path();
    for (name, text, says) in [
        ("reserves", "free((void *)p);", true),
        ("fills", "for (size_t i = 0; i < 64 << 20; i += 4096) p[i] = 1; free((void *)p);", false),
    ] {
        let start = "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(64 << 20); if (!p) return 1; ";
        recorded(at, "cc", name, &["-O0"], &format!("{start}{text} }}\n"));
        let document = json(at, &["report", "--json", &format!("{name}.mallow")]);
        let statement = &document["verdict"]["statements"][0];
        let highest = number(&document["highest_rss"], "peak_rss");
        assert_eq!((number(statement, "bytes"), number(&document["processes"][0], "peak_rss")), (64 << 20, highest));
        assert_eq!(statement["in_memory_bytes"].as_u64(), says.then_some(highest), "{name}: {document:#}");
        let said = shown(at, &["report", &format!("{name}.mallow")]);
        let verdict = said.lines().find(|line| line.starts_with("Verdict: ")).expect("a verdict");
        assert_eq!(verdict.contains(" of it in memory), all from main "), says, "{verdict}");
    }
}
