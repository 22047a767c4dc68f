//! `mallow rss` on programs whose answer is known by other means: malloc_usable_size and mincore of each block, glibc's
//! mallinfo2, jemalloc's statistics, and the kernel's smaps_rollup. `rss_truth.h` asks them just before the end.

use std::fs;
use std::process::{Command, Stdio};

use harness::{Case, Recorded, Run, directory, mallow, number, program, program_as};
use serde_json::Value;

use crate::attach_harness::{Target, attached};
use crate::view_page::{Page, SIZES};
use crate::watch_harness::until;

const RSS: [&str; 3] = ["rss", "--at", "end"];

/// A recording, its account at the end, and what the program itself found out.
fn run(case: &Case) -> (Recorded, Value, Value) {
    let record = case.clone().prints_addresses().record();
    let json = record.view_json(&RSS);
    let out = record.outcome.out();
    let truth = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    (record, json, truth)
}

fn target(name: &str, mode: &str) -> Case {
    Case::new(program(name)).arg(mode)
}

fn part(json: &Value, name: &str) -> i64 {
    let parts = json["parts"].as_array().expect("parts");
    // Of several allocators, that of the one that manages most.
    let is_its = |part: &Value| part["allocator"].is_null() || part["allocator"] == json["allocator"];
    parts
        .iter()
        .filter(|part| part["part"] == name && is_its(part))
        .map(|part| part["bytes"].as_i64().expect("a number"))
        .sum()
}

/// Within 2 % of the truth, or a few pages: the C library has some blocks of its own.
#[track_caller]
fn close(what: &str, is: i64, truth: u64, json: &Value) {
    const FEW: u64 = 6 * 4096;
    let off = is.abs_diff(truth as i64);
    assert!(off <= (truth / 50).max(FEW), "{what} is {is}, and in truth {truth}: {json:#}");
}

/// What holds of every account.
#[track_caller]
fn adds_up(json: &Value, truth: &Value) {
    let sum: i64 = json["parts"].as_array().expect("parts").iter().map(|p| p["bytes"].as_i64().expect("bytes")).sum();
    let rss = number(json, "rss");
    assert_eq!(sum, rss as i64, "{json:#}");
    let unsettled = part(json, "unsettled").unsigned_abs();
    assert!(unsettled * 100 <= rss, "{unsettled} of {rss} are not accounted for: {json:#}");
    let kernels = number(truth, "rss");
    // Within 1 %, and what the program's end and Mallow's library touched after it had asked.
    assert!(rss.abs_diff(kernels) <= kernels / 100 + 512 * 1024, "{rss} here, {kernels} for the program itself");
}

/// The parts of the heap, each by what the program knows of its blocks.
#[track_caller]
fn heap_is_true(json: &Value, truth: &Value) {
    adds_up(json, truth);
    let of = |key: &str| number(truth, key);
    close("live", part(json, "live"), of("requested"), json);
    close("rounding", part(json, "rounding"), of("usable") - of("requested"), json);
    // Arenas begin with tables of glibc's own, in the same pages as the first blocks.
    let tables = part(json, "allocator") - 8 * of("blocks") as i64;
    // What threads keep of freed blocks lies between those that they kept.
    let between = part(json, "holes") + part(json, "thread_caches");
    close("holes", between + tables, of("pinned") - of("used"), json);
    if of("heap_resident") > 0 {
        close("free pages", part(json, "free_pages"), of("heap_resident").saturating_sub(of("pinned")), json);
    }
    let touched = part(json, "live") + part(json, "never_touched");
    close("touched", touched, of("touched"), json);
}

fn cause(json: &Value) -> (&str, &str) {
    let cause = &json["cause"];
    (cause["part"].as_str().unwrap_or_default(), cause["place"]["function"].as_str().unwrap_or_default())
}

fn remedies(json: &Value) -> Vec<(&str, u64)> {
    let all = json["remedies"].as_array().expect("remedies").iter();
    all.map(|one| (one["remedy"].as_str().expect("a name"), number(one, "expected_bytes"))).collect()
}

#[test]
fn every_other_block_freed_leaves_holes() {
    let (record, json, truth) = run(&target("rss_holes", "half"));
    heap_is_true(&json, &truth);
    assert_eq!(json["allocator"], "glibc");
    let half = part(&json, "holes");
    assert!(half > 19_000_000 && cause(&json).1 == "cache_entry", "{json:#}");
    let pool = remedies(&json).into_iter().find(|(remedy, _)| *remedy == "pool").expect("a pool");
    assert!(pool.1.abs_diff(half as u64) < 200_000, "{pool:?}");
    // The first lines name the cause and the function.
    let text = record.shown(&RSS);
    let first: Vec<_> = text.lines().take(8).collect();
    assert!(first.iter().any(|line| line.starts_with("Cause: cache_entry")), "{text}");
    assert!(first.iter().any(|line| line.contains("a memory pool for blocks of cache_entry")), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
}

/// A pool of the same blocks has the same holes.
#[test]
fn holes_of_freed_blocks_of_the_same_place_are_no_likely_remedy() {
    let (record, json, truth) = run(&target("rss_holes", "own"));
    heap_is_true(&json, &truth);
    let pool = json["remedies"].as_array().expect("remedies").iter().find(|one| one["remedy"] == "pool");
    let pool = pool.unwrap_or_else(|| panic!("{json:#}"));
    assert_eq!(
        (&pool["certainty"], &pool["own_holes"], number(pool, "least_bytes")),
        (&"at_most".into(), &true.into(), 0)
    );
    let text = record.shown(&RSS);
    assert!(text.contains(", if it keeps together what is freed together"), "{text}");
}

#[test]
fn one_survivor_in_each_page_pins_it() {
    let (_, json, truth) = run(&target("rss_holes", "survivors"));
    heap_is_true(&json, &truth);
    assert_eq!(cause(&json), ("holes", "cache_entry"));
    assert!(part(&json, "holes") > 29_000_000, "{json:#}");
    let places = json["places"].as_array().expect("places");
    let row = places.iter().find(|row| row["function"] == "cache_entry").expect("the cache");
    assert!(number(row, "alone_bytes") * 100 > number(row, "holes_bytes") * 98, "{row:#}");
}

#[test]
fn a_burst_leaves_free_pages_below_a_survivor() {
    let (_, json, truth) = run(&target("rss_holes", "burst"));
    heap_is_true(&json, &truth);
    assert_eq!(cause(&json), ("free_pages", "request"), "{json:#}");
    let (first, expected) = remedies(&json)[0];
    assert!(first == "malloc_trim" && expected > 39_000_000, "{json:#}");
}

#[test]
fn arenas_of_threads_keep_free_pages() {
    let (_, json, truth) = run(&Case::target("rss_arenas"));
    heap_is_true(&json, &truth);
    let rows = json["free_pages"].as_array().expect("rows");
    let threads = rows.iter().find(|row| row["arena"] == "thread_arena").expect("arenas");
    assert_eq!(number(threads, "arenas"), 32, "{json:#}");
    assert!(remedies(&json).iter().any(|(remedy, _)| *remedy == "arena_max"), "{json:#}");
}

/// Three caches, all full, two of them in one arena: what they hold is neither a hole nor a free page, and nothing more
/// can be given back.
#[test]
fn what_threads_keep_is_a_part_of_its_own() {
    let record = Case::target("rss_caches").prints_addresses().record();
    let json = record.view_json(&RSS);
    let out = record.outcome.out();
    let (cached, truth) = out.split_once('\n').expect("two lines");
    let (cached, truth): (u64, Value) = (cached.parse().expect("a number"), serde_json::from_str(truth).expect("JSON"));
    adds_up(&json, &truth);
    close("live", part(&json, "live"), number(&truth, "requested"), &json);
    // The caches themselves are among it: two chunks of 656 bytes.
    close("cached", part(&json, "thread_caches"), cached + 2 * 656, &json);
    assert!(cached > 700_000, "{cached}");
    assert!(!json["limits"].to_string().contains("unknown_caches"), "{json:#}");
    let trim = json["remedies"].as_array().expect("remedies").iter().find(|one| one["remedy"] == "malloc_trim");
    assert!(trim.is_none_or(|trim| trim["least_bytes"] == trim["expected_bytes"]), "{json:#}");
    // Without caches, live blocks between them pin some of the pages all the same.
    let all = json["remedies"].as_array().expect("remedies");
    let offered = all.iter().find(|one| one["remedy"] == "thread_caches").unwrap_or_else(|| panic!("{json:#}"));
    let setting = offered["setting"].as_str().and_then(|setting| setting.split_once('='));
    assert_eq!(
        (setting, &offered["certainty"]),
        (Some(("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")), &"at_most".into())
    );
    // The heap's pages alone: how many pages of its files a process has is the page cache's affair.
    let bare = |set: Option<(&str, &str)>| {
        let out = Command::new(program("rss_caches")).envs(set).output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let truth = text.split_once('\n').map(|(_, truth)| serde_json::from_str::<Value>(truth).expect("JSON"));
        number(&truth.expect("two lines"), "heap_resident")
    };
    let released = bare(None).saturating_sub(bare(setting));
    assert!(released > 100_000 && released <= number(offered, "expected_bytes"), "{released}: {offered}");
}

#[test]
fn a_leak_is_live() {
    let (_, json, truth) = run(&target("rss_blocks", "leak"));
    heap_is_true(&json, &truth);
    assert_eq!(cause(&json), ("live", "leak"));
    close(
        "in use",
        part(&json, "live") + part(&json, "rounding") + part(&json, "allocator"),
        number(&truth, "in_use"),
        &json,
    );
}

/// 200,000 blocks of 3 bytes: 32 bytes each in glibc. The page says the same sentence.
#[test]
fn small_blocks_that_take_most_memory_are_named_beside_the_cause() {
    let (record, json, truth) = run(&target("rss_blocks", "small"));
    heap_is_true(&json, &truth);
    assert_eq!(cause(&json), ("live", "leak"), "{json:#}");
    let heaviest = &json["cause"]["heaviest"];
    assert_eq!((heaviest["function"].as_str(), number(heaviest, "bytes")), (Some("intern"), 6_400_000), "{json:#}");
    let text = record.view(&RSS).out().split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = " takes most memory, 6.40 MB with rounding and headers";
    assert!(text.contains("; intern rss_blocks.c:") && text.contains(sentence), "{text}");
    let mut page = Page::of(&record, SIZES[0]);
    page.show("tab-rss");
    page.wait_for_text("#rss-cause", sentence);
}

#[test]
fn reservations_that_were_never_touched_are_below_zero() {
    let (record, json, truth) = run(&target("rss_blocks", "reserved"));
    heap_is_true(&json, &truth);
    let absent = part(&json, "never_touched");
    assert!(absent < -1_300_000_000, "{json:#}");
    // Two amounts of live blocks on one screen, each with what it is; the page has the same words.
    let text = record.shown(&RSS).split_whitespace().collect::<Vec<_>>().join(" ");
    let requested = "; live blocks: 1.34 GB requested";
    let of_place = " of what live blocks have in memory: 2";
    assert!(text.contains(requested) && text.contains(of_place), "{text}");
    let mut page = Page::of(&record, SIZES[0]);
    page.show("tab-rss");
    page.wait_for_text("#rss-view", requested);
    page.wait_for_text("#rss-cause", of_place);
    close(
        "own mappings",
        part(&json, "live") + part(&json, "rounding") + part(&json, "allocator"),
        number(&truth, "own_mappings"),
        &json,
    );
}

#[test]
fn rounding_is_by_size() {
    let (_, json, truth) = run(&target("rss_blocks", "sizes"));
    heap_is_true(&json, &truth);
    let rows = json["size_classes"].as_array().expect("rows");
    let sum: u64 = rows.iter().map(|row| number(row, "rounding_bytes")).sum();
    assert_eq!(sum as i64, part(&json, "rounding"));
}

/// Advice, and rights that were taken away, split a mapping: the block is one, and all of it is touched.
#[test]
fn a_mapping_that_was_split_is_still_the_allocators() {
    let (_, json, truth) = run(&target("rss_blocks", "split"));
    heap_is_true(&json, &truth);
    assert!(part(&json, "live") > 62_000_000 && part(&json, "never_touched") == 0, "{json:#}");
    assert_eq!(cause(&json), ("live", "leak"), "{json:#}");
    assert!(part(&json, "mappings") < 2_000_000 && part(&json, "stacks") < 500_000, "{json:#}");
}

#[test]
fn what_the_program_maps_is_not_by_malloc() {
    let (_, json, truth) = run(&target("rss_blocks", "own"));
    adds_up(&json, &truth);
    let mapped = part(&json, "mappings");
    assert!((52_428_800..53_500_000).contains(&mapped), "{json:#}");
    assert_eq!(cause(&json).0, "mappings");
}

/// `.bss` is anonymous memory behind a file's data, and named after nobody in smaps: the program headers say whose it
/// is. The heap of this program has no live block, and there is no thread.
#[test]
fn a_static_array_is_its_programs_data() {
    const TOUCHED: u64 = 30 << 20;
    let case = target("rss_blocks", "static").prints_addresses();
    let (record, json, truth) = run(&case);
    adds_up(&json, &truth);
    let cause = &json["cause"];
    assert_eq!(cause["part"], "data", "{json:#}");
    assert!(cause["mapping"].as_str().is_some_and(|path| path.ends_with("/rss_blocks")), "{json:#}");
    let (all, bss) = (number(cause, "file_bytes"), number(cause, "bss_bytes"));
    assert!((TOUCHED..TOUCHED + 65_536).contains(&bss) && (bss..bss + 65_536).contains(&all), "{json:#}");
    assert!(part(&json, "mappings") < 1_000_000 && part(&json, "data") > TOUCHED as i64, "{json:#}");
    let text = record.view(&RSS).out();
    assert!(
        text.contains("/rss_blocks has 31.5 MB of it, ") && text.contains(" in its .bss (static variables)"),
        "{text}"
    );
    assert!(text.contains(" in the heap, which has no live block") && !text.contains("thread arena"), "{text}");
}

/// Allocators with slabs, under the same programs: what they say of themselves, and what mincore says of their
/// blocks.
#[test]
fn other_allocators_have_the_same_account() {
    for (library, name) in
        [("-ljemalloc", "jemalloc"), ("-l:libmimalloc.so.2", "mimalloc"), ("-ltcmalloc_minimal", "tcmalloc")]
    {
        for (source, mode) in [("rss_holes", "half"), ("rss_blocks", "leak"), ("rss_blocks", "sizes")] {
            let output = format!("{source}-with-{name}");
            let program = program_as(source, &output, "cc", &["-Wl,--no-as-needed", library]);
            let (_, json, truth) = run(&Case::new(program).arg(mode));
            adds_up(&json, &truth);
            assert_eq!(json["allocator"], name, "{mode}");
            let of = |key: &str| number(&truth, key);
            close("live", part(&json, "live"), of("requested"), &json);
            close("rounding", part(&json, "rounding"), of("usable") - of("requested"), &json);
            let pinned = part(&json, "holes") + of("used") as i64;
            close("pinned", pinned, of("pinned"), &json);
            if name == "jemalloc" {
                close("active", pinned, of("jemalloc_active"), &json);
                // What of its tables is in memory; its own figure is what it has given out of them.
                let (own, metadata) = (part(&json, "allocator"), of("jemalloc_metadata") as i64);
                assert!(own > 200_000 && own <= metadata, "{own} of {metadata}");
                assert!(!json["limits"].to_string().contains("unknown_metadata"), "{json:#}");
                // It calls all of its own memory resident, touched or not.
                let resident = pinned as u64 + part(&json, "free_pages").unsigned_abs();
                assert!(resident <= of("jemalloc_resident") * 102 / 100, "{resident}: {truth:#}");
            }
        }
    }
}

/// jemalloc is in the program, and the C library comes first.
#[test]
fn the_allocator_is_the_one_that_has_the_blocks() {
    let program = program_as("rss_holes", "rss_holes-with-jemalloc", "cc", &["-Wl,--no-as-needed", "-ljemalloc"]);
    let (_, json, truth) = run(&Case::new(program).arg("half").env("LD_PRELOAD", "libc.so.6"));
    assert_eq!(json["allocator"], "glibc", "{json:#}");
    heap_is_true(&json, &truth);
}

/// The command's output and status are its own; the report goes to standard error.
#[test]
fn a_command_is_recorded_and_shown() {
    let place = directory();
    let run = |arguments: &[&str]| Run::new(mallow(), place.path()).args(arguments).go();
    let holes = program("rss_holes");
    // The highest RSS may have been read before every other block was freed.
    let shown = run(&["rss", "--at", "end", "--", holes.to_str().expect("a path"), "half"]);
    assert_eq!(shown.status, 0, "{}", shown.err());
    assert!(shown.out().starts_with("{\"requested\":") && shown.out().lines().count() == 1, "{}", shown.out());
    assert!(shown.err().contains("Cause: cache_entry"), "{}", shown.err());
    let fails = run(&["rss", "--", "sh", "-c", "exit 7"]);
    assert_eq!(fails.status, 7, "{}", fails.err());
    // A recording of an earlier run is not this run's.
    let gone = run(&["rss", "--", "./rss_holes"]);
    assert!(gone.status == 127 && !gone.err().contains("Cause:"), "{}", gone.err());
    // A picture of the heap: cells with tooltips, and nothing on standard output.
    let picture = run(&["rss", "--at", "end", "-o", "rss.svg", "rss_holes.mallow"]);
    assert_eq!((picture.status, picture.out().as_str()), (0, ""), "{}", picture.err());
    let svg = std::fs::read_to_string(place.path().join("rss.svg")).expect("a picture");
    assert!(svg.contains("main arena, 0x") && svg.contains("\ncache_entry rss_holes.c:"), "{}", &svg[..2000]);
    assert!(svg.contains(">Cause: cache_entry rss_holes.c:8 pins "), "{}", &svg[..2000]);
    let nearest = run(&["rss", "--at", "99%", "rss_holes.mallow"]);
    assert!(nearest.out().contains("99%: the nearer one"), "{}", nearest.out());
    for (arguments, why) in [
        (&["rss", "--at", "1h", "rss_holes.mallow"][..], "--at 1h: the recording took"),
        (&["rss", "--process", "nobody", "rss_holes.mallow"], "there is no such process; there are rss_holes ("),
        (&["rss", "-o", "no/rss.svg", "rss_holes.mallow"], "there is no directory no"),
        (&["rss", "none.mallow"], "cannot read none.mallow"),
    ] {
        let run = run(arguments);
        assert!(run.status == 1 && run.out().is_empty() && run.err().contains(why), "{arguments:?}: {}", run.err());
    }
    let without = run(&["record", "--no-rss", "--no-report", "-o", "without.mallow", "--", "sh", "-c", ":"]);
    assert_eq!(without.status, 0, "{}", without.err());
    let refused = run(&["rss", "without.mallow"]);
    assert!(refused.status == 1 && refused.err().contains("--no-rss"), "{}", refused.err());
}

/// What a process held before mallow attached is unknown, also where it has freed none of that.
#[test]
fn an_attached_process_does_not_guess() {
    let place = directory();
    let target = Target::start(&mut Command::new(program("leaky_server")));
    let recorded = attached(&["record", "-o", "a.mallow", "--for", "3s"], target.pid(), place.path());
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    let shown = Run::new(mallow(), place.path()).args(["rss", "--json", "a.mallow"]).go();
    let json: Value = serde_json::from_str(&shown.out()).unwrap_or_else(|e| panic!("{e}: {}", shown.err()));
    assert!(part(&json, "older_or_free") > 0 && part(&json, "free_pages") == 0, "{json:#}");
    assert!(remedies(&json).is_empty() && json["limits"].to_string().contains("older_blocks"), "{json:#}");
    // Mallow's library was loaded from a file in memory, and is not the program's.
    assert!(part(&json, "shared") == 0 && part(&json, "mallow") > 0, "{json:#}");
}

/// A process that began with fork has blocks that nobody saw: its holes and free pages are one part, without remedies.
#[test]
fn a_forked_process_does_not_guess() {
    let place = directory();
    let mut command = Command::new(mallow());
    command.args(["record", "--no-report", "-o", "f.mallow", "--"]).arg(program("rss_fork")).current_dir(place.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut run = command.spawn().expect("mallow");
    // The spool has a reading of the second process.
    let is_read = || {
        let mut files = fs::read_dir(place.path()).expect("files").flatten();
        let spool = files.find(|file| file.path().extension() == Some("spool".as_ref()))?;
        let mark = [u64::from_le_bytes(*b"MALSPOOL") ^ 8, 1].map(u64::to_le_bytes).concat();
        fs::read(spool.path()).ok()?.windows(16).any(|words| words == mark).then_some(())
    };
    until("a reading of the child", is_read);
    drop(run.stdin.take());
    let ended = run.wait_with_output().expect("its end");
    assert!(ended.status.success());
    let pid = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    let json = |options: &[&str]| -> Value {
        let shown = Run::new(mallow(), place.path()).args(["rss", "--json"]).args(options).arg("f.mallow").go();
        serde_json::from_str(&shown.out()).unwrap_or_else(|e| panic!("{e}: {}", shown.err()))
    };
    let parent = json(&["--at", "end"]);
    let processes = parent["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 2, "{parent:#}");
    let child = json(&["--process", &pid]);
    assert_eq!(child["pid"].to_string(), pid);
    assert!(part(&child, "older_or_free") > 10_000_000 && part(&child, "holes") == 0, "{child:#}");
    // The parent's block of 5 MB has a mapping of its own, and is no memory of the program's.
    assert!(part(&child, "older_or_free") > 15_000_000 && part(&child, "mappings") < 1_000_000, "{child:#}");
    assert!(remedies(&child).is_empty() && child["limits"].to_string().contains("older_blocks"), "{child:#}");
    // Pages that neither has written since are shared: PSS counts them once for both.
    assert!(number(&child, "pss") < number(&child, "rss") * 3 / 4, "{child:#}");
    assert!(number(&child["kept_apart"], "shared_dirty_bytes") > 10_000_000, "{child:#}");
}
