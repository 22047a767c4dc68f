//! Which moment an account of RSS is of, and how far that is from the kernel's own maximum: of programs that are
//! highest for an instant, that free everything at their end, that are killed, and that copy what they share.

use std::process::Command;

use harness::{Case, Recorded, Run, directory, mallow, number, program};
use serde_json::Value;

use crate::attach_harness::{Target, attached};

const MIB: u64 = 1 << 20;

fn record(mode: &str) -> Recorded {
    Case::new(program("rss_moment")).arg(mode).prints_addresses().record()
}

/// What a view prints.
fn text(record: &Recorded, arguments: &[&str]) -> String {
    let shown = record.view(arguments);
    assert_eq!(shown.status, 0, "{}", shown.err());
    shown.out()
}

/// What the program itself read of the kernel, in bytes.
fn of_the_program(record: &Recorded) -> u64 {
    let out = record.outcome.out();
    1024 * out.trim().parse::<u64>().unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| line.contains("highest RSS: ")).unwrap_or_else(|| panic!("no first line: {text}"))
}

/// The size that follows in a text, as the units print it.
fn size_after<'a>(text: &'a str, mark: &str) -> &'a str {
    let rest = text.split_once(mark).unwrap_or_else(|| panic!("no {mark}: {text}")).1;
    rest.split([',', ';']).next().unwrap_or(rest).split(" at ").next().unwrap_or(rest)
}

/// No reading has it, and it is the first figure nonetheless; what was read has its own time, and says how far below it
/// is.
#[test]
fn an_instant_is_the_kernels_maximum() {
    let record = record("spike");
    let truth = of_the_program(&record);
    let json = record.view_json(&["rss"]);
    let (peak, rss) = (number(&json, "peak_rss"), number(&json, "rss"));
    assert!(peak >= truth && peak - truth < 2 * MIB && peak > 96 * MIB, "{peak} {truth}");
    assert!(number(&json, "peak_after_ms") <= number(&json, "peak_by_ms"), "{json:#}");
    assert_eq!(json["peak_unread_ms"], Value::Null, "it waited at its exit");
    let (rss_text, report, timeline) =
        (text(&record, &["rss"]), text(&record, &["report"]), text(&record, &["timeline"]));
    let first = first_line(&rss_text);
    let written = size_after(first, "highest RSS: ");
    assert!(first.contains("the kernel's maximum"), "{rss_text}");
    assert!(report.contains(written) && timeline.contains(&format!("RSS: at most {written}")), "{report}{timeline}");
    // Both views have the reading beside it.
    let read = number(&record.json["highest_rss"], "rss");
    assert_eq!((number(&record.json["highest_rss"], "peak_rss"), read), (peak, rss));
    if rss < peak / 20 * 19 {
        assert!(first.contains("reached "), "{first}");
        assert!(rss_text.contains("% below it") && report.contains("% below it"), "{rss_text}{report}");
        assert!(json["limits"].to_string().contains("higher_before"), "{json:#}");
    }
}

/// A high that stands for long after its blocks were freed: what was live at it, and that the memory is kept without
/// them.
#[test]
fn memory_that_is_kept_is_said_beside_who_needed_it() {
    let record = record("kept");
    let json = record.view_json(&["rss"]);
    assert_eq!((&json["cause"]["part"], &json["is_highest"]), (&"live".into(), &true.into()), "{json:#}");
    let kept = &json["kept"];
    assert!(number(kept, "live_bytes") < MIB && number(kept, "rss") > 60 * MIB, "{json:#}");
    let (at_high, at_end) = (text(&record, &["rss"]), text(&record, &["rss", "--at", "end"]));
    let less = number(&json, "live_bytes") - number(kept, "live_bytes");
    let words = format!("{:.1} MB less than at this moment: the process keeps what these had.", less as f64 / 1e6);
    assert!(at_high.contains(&words) && !at_high.contains("malloc_trim"), "{at_high}");
    let end = record.view_json(&["rss", "--at", "end"]);
    assert_eq!((&end["kept"], &end["rss"], &end["ms"]), (&Value::Null, &kept["rss"], &kept["ms"]), "{end:#}");
    assert!(at_end.contains("malloc_trim(0) at this moment"), "{at_end}");
    // Where RSS fell, or everything is freed at the very end, nothing is kept.
    for mode in ["spike", "teardown"] {
        let json = self::record(mode).view_json(&["rss"]);
        assert_eq!(json["kept"], Value::Null, "{mode}: {json:#}");
    }
}

/// The end was not read where no exit handler ran: what was freed since the last reading is said beside it.
#[test]
fn what_was_freed_after_the_last_reading_is_said() {
    let record = record("freed");
    let (json, shown) = (record.view_json(&["rss", "--at", "end"]), text(&record, &["rss", "--at", "end"]));
    let end = number(&record.json, "live_bytes");
    assert!(end < MIB && json["is_at_exit"] == false, "{json:#}");
    let is_before = number(&json, "live_bytes") > 8 * MIB;
    assert_eq!(json["freed_after"].is_object(), is_before, "{json:#}");
    assert_eq!(
        shown.contains("No memory was read between this moment and the end of the process at"),
        is_before,
        "{shown}"
    );
    if is_before {
        assert_eq!(number(&json["freed_after"], "live_bytes"), end);
    }
}

/// What was live until the program's end is no free memory of its highest RSS.
#[test]
fn what_is_freed_at_the_end_was_live() {
    let record = record("teardown");
    let json = record.view_json(&["rss"]);
    assert!(number(&json, "peak_rss") >= of_the_program(&record), "{json:#}");
    assert_eq!((&json["cause"]["part"], &json["is_highest"]), (&"live".into(), &true.into()), "{json:#}");
    assert!(number(&json, "live_bytes") > 60 * MIB && number(&json, "rss") > 60 * MIB, "{json:#}");
    assert!(!text(&record, &["rss"]).contains("malloc_trim"), "{}", text(&record, &["rss"]));
    // At the end itself the pages are free, and the view says since when.
    let end = record.view_json(&["rss", "--at", "end"]);
    let freed = &end["freed_before"];
    assert!(number(freed, "freed_bytes") > 50 * MIB && number(freed, "ms") <= number(&end, "ms"), "{end:#}");
    let remedies = end["remedies"].as_array().expect("remedies");
    assert!(!remedies.is_empty() && remedies.iter().all(|remedy| remedy["certainty"] == "at_most"), "{end:#}");
    let shown = text(&record, &["rss", "--at", "end"]);
    assert!(
        shown.contains("of live blocks were freed: giving back what they left lowers RSS in that time alone."),
        "{shown}"
    );
}

/// Blocks and pages are of one moment: a block that was unmapped after its pages were read, or mapped before, is no
/// mapping of the program's.
#[test]
fn a_program_that_maps_nothing_has_no_mappings() {
    let record = record("doubling");
    for at in ["highest", "end"] {
        let json = record.view_json(&["rss", "--at", at]);
        let parts = json["parts"].as_array().expect("parts");
        let mapped = parts.iter().filter(|part| part["part"] == "mappings").map(|part| number(part, "bytes"));
        assert!(mapped.sum::<u64>() < 2 * MIB, "{json:#}");
        assert!(json["cause"].is_null() || json["cause"]["part"] != "mappings", "{json:#}");
        let live = number(&json, "live_bytes");
        assert!(live <= 97 * MIB, "three blocks at the most: {json:#}");
    }
    let highest = &record.json["highest_rss"];
    let resident = number(highest, "live_resident_bytes");
    assert!(resident <= number(highest, "rss") && resident <= number(highest, "recorded_live_bytes"), "{highest}");
}

/// Who waits for the command learns its maximum, however it ended.
#[test]
fn a_command_that_is_killed_has_its_maximum() {
    for mode in ["killed", "_exit"] {
        let record = record(mode);
        let json = record.view_json(&["rss"]);
        assert!(number(&json, "peak_rss") >= 96 * MIB && json["peak_unread_ms"] == Value::Null, "{mode}: {json:#}");
        assert!(number(&record.json["highest_rss"], "peak_rss") >= 96 * MIB, "{mode}: {}", record.json["highest_rss"]);
        // The last reading is some time before the end.
        assert_eq!(json["is_at_exit"], false, "{mode}: {json:#}");
        let shown = text(&record, &["rss", "--at", "end"]);
        assert!(shown.contains(", the last reading") && !shown.contains("at exit"), "{mode}: {shown}");
    }
}

/// PSS grows, and RSS does not: the account is of the time after.
#[test]
fn pages_that_a_child_copies_are_read() {
    let record = record("copy");
    let all = record.view_json(&["rss"]);
    let child = all["processes"].as_array().expect("processes").iter();
    let child = child.map(|row| (number(row, "pid"), row)).max_by_key(|(pid, _)| *pid).expect("a child").1;
    assert!(child["highest_live_bytes"] == Value::Null && number(child, "highest_rss") > 48 * MIB, "{child:#}");
    // While they were shared, it was half of RSS.
    assert!(number(child, "highest_pss") > 40 * MIB, "{child:#}");
    assert!(number(child, "peak_unread_ms") < u64::MAX, "it ended by _exit: {child:#}");
}

/// What was allocated before mallow attached is unknown. A share of RSS would say that it is absent.
#[test]
fn an_attached_process_has_unknown_live_bytes() {
    let place = directory();
    let target = Target::start(&mut Command::new(program("leaky_server")));
    let recorded = attached(&["record", "-o", "a.mallow", "--for", "2s"], target.pid(), place.path());
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    let view = |arguments: &[&str]| Run::new(mallow(), place.path()).args(arguments).arg("a.mallow").go().out();
    let json: Value = serde_json::from_str(&view(&["report", "--json"])).expect("JSON");
    let highest = &json["highest_rss"];
    assert_eq!((&highest["live_bytes"], &highest["live"]), (&Value::Null, &Value::Null), "{highest}");
    assert_eq!((&highest["older_blocks"], highest["recorded_live_bytes"].is_u64()), (&"attached".into(), true));
    let report = view(&["report"]);
    // One row, or two where the screen has room; neither has a share of RSS.
    let at = report.find("highest RSS").expect("a row");
    let rows: String = report[at..].lines().take(2).collect();
    assert!(rows.contains("since mallow attached") && rows.contains("older blocks are not known"), "{report}");
    assert!(!rows.contains("% of RSS") && !rows.contains("live heap, "), "{report}");
    let timeline = view(&["timeline"]);
    assert!(timeline.contains("live bytes are of blocks allocated since mallow attached"), "{timeline}");
    let rss = view(&["rss"]);
    assert!(rss.contains("allocated since mallow attached: ") && rss.contains("older ones are not known"), "{rss}");
}

/// Of a program that is smaller than Mallow's own child was before exec, the kernel's figure at the end is not known:
/// it is that of the last look. Only `rss` said so.
#[test]
fn a_figure_of_the_last_look_says_so_in_each_view() {
    let record = self::record("small");
    let highest = &record.json["highest_rss"];
    assert!(highest["peak_unread_ms"].is_u64(), "{highest:#}");
    let until = " before the end";
    let (report, timeline, rss) = (text(&record, &["report"]), text(&record, &["timeline"]), text(&record, &["rss"]));
    let row = report.lines().find(|line| line.trim_start().starts_with("highest RSS")).expect("a row");
    let looked = timeline.lines().find(|line| line.starts_with("RSS: at most ")).expect("a sentence");
    for line in [row, looked, first_line(&rss)] {
        assert!(line.contains("up to ") && line.contains(until), "{line}");
    }
    let sentence = record.json["sentences"]["highest_rss"].as_str().expect("a sentence");
    assert!(sentence.contains(until), "{sentence}");
    // One that waited has it to its end, and nothing more is said.
    let spike = self::record("spike");
    for view in ["report", "timeline", "rss"] {
        assert!(!text(&spike, &[view]).contains(until), "{view}");
    }
}
