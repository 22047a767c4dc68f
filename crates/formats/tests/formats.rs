//! Files of other tools. `files/` holds what they wrote about `examples/c/leak.c`, whose allocations can be counted by
//! hand, and about a small test of Go's.

use std::io::{Read, Write};

use mallow_formats::{Addresses, Foreign, FormatError, SampleType, read, read_chosen};
use mallow_profile::{Counts, Profile, Quantity};
use mallow_report::analysis::{Measure, TopOptions, top};

fn foreign(bytes: &[u8]) -> Result<Foreign, FormatError> {
    read(bytes, Some(bytes.len() as u64), &mut |_| {})
}

fn read_file(bytes: &[u8]) -> Foreign {
    let foreign = foreign(bytes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(foreign.profile.check(), Ok(()));
    foreign
}

fn of_text(text: &str) -> Foreign {
    read_file(text.as_bytes())
}

fn refused(bytes: &[u8]) -> String {
    foreign(bytes).expect_err("not to be read").to_string()
}

/// Function names of a site's stack, the innermost first.
fn stacks(profile: &Profile) -> Vec<(Vec<String>, Counts)> {
    let named = |frame: mallow_profile::FrameId| {
        let frame = &profile.frames[frame.0 as usize];
        let names = frame.lines.iter().map(|line| profile.strings.get(line.function).to_owned());
        if frame.lines.is_empty() { vec![format!("{:#x}", frame.address)] } else { names.collect() }
    };
    let stack = |site: &mallow_profile::Site| profile.stacks.frames(site.stack).flat_map(named).collect();
    profile.sites.iter().map(|site| (stack(site), site.counts)).collect()
}

fn site<'p>(all: &'p [(Vec<String>, Counts)], function: &str) -> Vec<&'p Counts> {
    all.iter().filter(|(stack, _)| stack.iter().any(|name| name == function)).map(|(_, counts)| counts).collect()
}

fn has(profile: &Profile) -> Vec<Quantity> {
    Quantity::ALL.into_iter().filter(|&quantity| profile.has(quantity)).collect()
}

#[test]
fn heaptracks_data() {
    // libstdc++, which heaptrack brings into the program, allocates 72704 bytes at its start and frees them: in
    // interpreted data that block is of kind 0, which heaptrack_print takes for temporary. It prints 1,011.
    for (file, temporary) in [
        (&include_bytes!("files/leak.heaptrack.zst")[..], 1011),
        (&include_bytes!("files/leak.heaptrack_raw.zst")[..], 1009),
    ] {
        let Foreign { profile, addresses, remarks } = read_file(file);
        let t = profile.totals;
        assert_eq!((t.allocations, t.frees, t.live, t.live_bytes), (1113, 1110, 3, 192));
        assert_eq!((t.allocated_bytes, t.freed_bytes), (449_968 + 72_704, 449_968 + 72_704 - 192));
        assert_eq!((t.peak, t.peak_bytes), (104, 409_792 + 72_704));
        assert_eq!(t.temporary, temporary);
        assert_eq!(profile.command, ["./leak"]);
        assert!(remarks.is_empty(), "{remarks:?}");
        assert!(!profile.has(Quantity::Reallocs) && profile.has(Quantity::Times));
        assert!(matches!(addresses, Addresses::Opaque | Addresses::LinkTime));
    }
    let profile = read_file(include_bytes!("files/leak.heaptrack.zst")).profile;
    let all = stacks(&profile);
    let scratch = site(&all, "scratch");
    assert_eq!((scratch[0].allocations, scratch[0].temporary, scratch[0].temporary_bytes), (1000, 1000, 32_000));
    assert_eq!(site(&all, "build_table")[0].peak_bytes, 409_600);
    let line = profile.frames.iter().flat_map(|f| &f.lines).find(|l| profile.strings.get(l.function) == "scratch");
    let line = line.expect("a line");
    assert!(line.file.is_some_and(|file| profile.strings.get(file).ends_with("leak.c")) && line.line == 35, "{line:?}");
}

/// heaptrack 1.0.0 wrote it, whose files have version 1. Its heaptrack_print has these numbers: 1,113 allocations,
/// 1,010 of them temporary, 482.50 kB at the peak, 72.90 kB leaked. libstdc++'s block, which this heaptrack does not
/// have freed, is of kind 0.
#[test]
fn heaptracks_data_of_version_1() {
    let packed = include_bytes!("files/leak.heaptrack_1.gz");
    let Foreign { profile, addresses, remarks } = read_file(packed);
    let t = profile.totals;
    assert_eq!((t.allocations, t.frees, t.temporary), (1113, 1109, 1010));
    assert_eq!((t.allocated_bytes, t.peak_bytes), (449_968 + 72_704, 409_792 + 72_704));
    assert_eq!((t.live, t.live_bytes), (4, 192 + 72_704));
    assert!(profile.command == ["./leak"] && remarks.is_empty() && matches!(addresses, Addresses::Opaque));
    let all = stacks(&profile);
    for (function, allocations, temporary, peak_bytes, live_bytes) in
        [("read_config", 3, 0, 192, 192), ("scratch", 1000, 1000, 0, 0), ("build_table", 100, 1, 409_600, 0)]
    {
        let [counts] = site(&all, function)[..] else { panic!("{function}: {all:?}") };
        let expected = (allocations, temporary, peak_bytes, live_bytes);
        assert_eq!(
            (counts.allocations, counts.temporary, counts.peak_bytes, counts.live_bytes),
            expected,
            "{function}"
        );
    }
    let (stack, _) = all.iter().find(|(stack, _)| stack[0] == "scratch").expect("a stack");
    assert_eq!(stack[..3], ["scratch", "main", "0x7f72b510224a"]);
    // Before 1.0.0, files of this version had 1.2.0 in the place of heaptrack's, and no number of their own.
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("a good file");
    assert_eq!(of_text(&text.replacen("v 10000 1", "v 10200", 1)).profile.totals, t);
    assert!(refused(text.replacen("v 10000 1", "v 10100", 1).as_bytes()).contains("older than heaptrack 1.0"));
}

/// Whoever is killed leaves half a file.
#[test]
fn heaptracks_data_cut_short() {
    let file = include_bytes!("files/leak.heaptrack.zst");
    let text = zstd::decode_all(&file[..]).expect("a good file");
    let end = text.windows(3).rposition(|line| line == b"\n+ ").expect("an allocation") + 2;
    let mut packed = zstd::Encoder::new(Vec::new(), 3).expect("packs");
    packed.write_all(&text[..end]).and_then(|()| packed.flush()).expect("packs");
    let flushed = packed.get_ref().clone();
    for cut in [&text[..end], &flushed] {
        let profile = read_file(cut).profile;
        assert_eq!((profile.totals.allocations, profile.ending.cut_short.is_some()), (1112, true));
    }
    assert!(refused(&file[..file.len() - 20]).contains("what is packed in it is damaged"));
}

/// Addresses of raw data are those in the module's file: the same as those that the interpreted data has names for.
#[test]
fn raw_data_has_link_time_addresses() {
    let Foreign { profile, addresses, .. } = read_file(include_bytes!("files/leak.heaptrack_raw.zst"));
    assert_eq!(addresses, Addresses::LinkTime);
    let own: Vec<_> = profile
        .frames
        .iter()
        .filter(|frame| frame.module.is_some_and(|m| profile.modules[m.0 as usize].path == "/opt/demo/leak"))
        .collect();
    assert!(own.len() > 5 && own.iter().all(|frame| frame.address < 0x5000 && frame.exact), "{own:?}");
}

#[test]
fn what_heaptrack_print_prints() {
    let Foreign { profile, remarks, .. } = read_file(include_bytes!("files/leak.heaptrack_print"));
    let t = profile.totals;
    assert_eq!((t.allocations, t.temporary, t.live_bytes, t.peak_bytes), (1113, 1011, 192, 482_500));
    let all = stacks(&profile);
    assert_eq!(site(&all, "scratch").iter().map(|c| c.allocations).sum::<u64>(), 1000);
    assert_eq!(site(&all, "build_table").iter().map(|c| c.peak_bytes).sum::<u64>(), 409_600);
    assert_eq!(site(&all, "read_config").iter().map(|c| c.live_bytes).sum::<u64>(), 192);
    let scratch =
        all.iter().find(|(stack, _)| stack.contains(&"scratch".to_owned())).map(|(stack, _)| stack.as_slice());
    assert_eq!(&scratch.expect("a stack")[..2], ["scratch", "main"]);
    assert!(!profile.has(Quantity::Frees) && remarks.len() == 1);
}

#[test]
fn heaptrack_print_without_all_its_lists() {
    let text = "PEAK MEMORY CONSUMERS\n1.50K peak memory consumed over 3 calls from\nf\n  at a b.c:7\n  in /bin/a\n\
        1.00K consumed over 2 calls from:\n    g\n      at b.c:8\n      in ??\n    h\n      in /bin/a\n  and 500B from 2 other places\n\n\
        total runtime: 0.1s.\ncalls to allocation functions: 70 (1/s)\npeak heap memory consumption: 2.00M\n";
    let profile = of_text(text).profile;
    assert_eq!(has(&profile), [Quantity::Allocations, Quantity::PeakBytes]);
    let rows: Vec<_> = stacks(&profile).into_iter().map(|(s, c)| (s.join(","), c.peak_bytes, c.allocations)).collect();
    let row = |stack: &str, peak, allocations| (stack.to_owned(), peak, allocations);
    assert_eq!(rows, [row("f,g,h", 1000, 0), row("f", 500, 0), row("", 1_998_500, 70)]);
    let diff = "MEMORY LEAKS\n-512B leaked over -1 calls from\nf\n  in ??\n";
    assert!(refused(diff.as_bytes()).contains("give it the two data files"), "{}", refused(diff.as_bytes()));
}

#[test]
fn dhats_json() {
    let profile = read_file(include_bytes!("files/leak.dhat")).profile;
    let t = profile.totals;
    assert_eq!((t.allocations, t.allocated_bytes, t.frees, t.freed_bytes), (1112, 449_968, 1109, 449_776));
    assert_eq!((t.peak, t.peak_bytes, t.live, t.live_bytes), (103, 409_792, 3, 192));
    assert!(!profile.has(Quantity::Temporary) && !profile.has(Quantity::Times));
    let all = stacks(&profile);
    assert_eq!(all[1].0, ["malloc", "scratch", "main"]);
    // DHAT charges a realloc to the stack of the first allocation.
    assert_eq!(all[3].1.allocations, 9);
}

/// Frames of one address were put into one another; the same frame twice is a recursion.
#[test]
fn dhats_inlined_functions_and_its_time() {
    let text = r#"{"dhatFileVersion":2,"mode":"heap","bklt":true,"tu":"µs","te":9000,"tg":4000,"cmd":"a","pid":3,
        "pps":[{"tb":8,"tbk":1,"gb":8,"gbk":1,"eb":0,"ebk":0,"fs":[0,1,2,3,3]}],
        "ftbl":["[root]","0x10: inner (a.c:1:2)","0x10: outer (a.c:9)","0x20: again (in /bin/a)"]}"#;
    let profile = of_text(text).profile;
    let frames: Vec<usize> =
        profile.stacks.frames(profile.sites[0].stack).map(|f| profile.frames[f.0 as usize].lines.len()).collect();
    assert_eq!(frames, [2, 1, 1]);
    assert_eq!((profile.duration_ms, profile.peak_ms, profile.processes[0].pid), (9, 4, 3));
    let old = text.replace(":2,\"mode", ":1,\"mode");
    assert!(refused(old.as_bytes()).contains("version"));
    assert!(refused(text.replace("heap", "ad-hoc").as_bytes()).contains("--mode=heap"));
    assert!(refused(text.replace("3,3]", "3,4]").as_bytes()).contains("a frame that there is not"));
    assert!(refused(&text.as_bytes()[..text.len() / 2]).contains("damaged at line"));
}

#[test]
fn massifs_snapshots() {
    let Foreign { profile, remarks, .. } = read_file(include_bytes!("files/leak.massif"));
    assert_eq!((profile.totals.peak_bytes, profile.totals.live_bytes), (409_792, 224));
    let all = stacks(&profile);
    assert_eq!(all[0].0, ["build_table", "main"]);
    assert_eq!((all[0].1.peak_bytes, all.len()), (409_600, 2));
    assert_eq!(has(&profile), [Quantity::LiveBytes, Quantity::PeakBytes]);
    assert!(remarks[0].contains("67 snapshots"), "{remarks:?}");
}

/// Valgrind 3.19 wrote it of a program that keeps 20,000 blocks of 100 bytes: 2,000,000 bytes at its end, of which
/// `keep` made all.
#[test]
fn massifs_stacks_of_a_program_that_only_grows() {
    let Foreign { profile, remarks, .. } = read_file(include_bytes!("files/grow.massif"));
    let t = profile.totals;
    let all = stacks(&profile);
    let keep = site(&all, "keep")[0];
    assert!(keep.peak_bytes * 10 > t.peak_bytes * 8, "{all:?}");
    assert_eq!((keep.live_bytes, t.live_bytes), (keep.peak_bytes, t.peak_bytes), "the last snapshot is the highest");
    let unknown: u64 = all.iter().filter(|(stack, _)| stack.is_empty()).map(|(_, counts)| counts.peak_bytes).sum();
    assert_eq!(keep.peak_bytes + unknown, t.peak_bytes);
    assert!(remarks.iter().any(|r| r.contains("took no stacks in its highest snapshot")), "{remarks:?}");
}

/// The same with `--pages-as-heap=yes`.
#[test]
fn massifs_pages_are_said_to_be_pages() {
    let Foreign { profile, remarks, .. } = read_file(include_bytes!("files/pages.massif"));
    let all = stacks(&profile);
    let known: u64 = all.iter().filter(|(stack, _)| !stack.is_empty()).map(|(_, counts)| counts.peak_bytes).sum();
    // Of the largest snapshot with a tree, not of the one with the mark: massif marks what shrank first.
    assert_eq!((known, profile.totals.peak_bytes), (5_324_800, 6_406_144), "{all:?}");
    assert!(remarks.iter().any(|remark| remark.contains("pages that were mapped")), "{remarks:?}");
}

/// What the largest tree shows is not what the last snapshot had, where the program gave memory back before its end.
#[test]
fn massifs_last_snapshot_has_no_stacks_of_another() {
    let snapshot = |n: u32, bytes: u32, tree: &str| {
        format!("#-----------\nsnapshot={n}\n#-----------\ntime={n}\nmem_heap_B={bytes}\nheap_tree={tree}\n")
    };
    let tree = "detailed\nn1: 80 (heap allocation functions) malloc\n n0: 80 0x1: f (a.c:1)";
    let text = [snapshot(0, 80, tree), snapshot(1, 100, "empty"), snapshot(2, 60, "empty")].concat();
    let profile = of_text(&text).profile;
    let rows: Vec<_> = stacks(&profile).into_iter().map(|(s, c)| (s.join(","), c.peak_bytes, c.live_bytes)).collect();
    assert_eq!(rows, [("f".to_owned(), 80, 0), (String::new(), 20, 60)]);
}

#[test]
fn massifs_trees_and_times() {
    let text = "desc: x\ncmd: a b\ntime_unit: ms\n#-----------\nsnapshot=0\n#-----------\ntime=1500\nmem_heap_B=100\nheap_tree=peak\n\
        n2: 100 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n n2: 90 0x1: f (a.c:1)\n  n0: 60 0x2: g (in /bin/a)\n\
        \x20 n0: 10 in 5 places, all below massif's threshold (1.00%)\n n0: 10 in 7 places, all below massif's threshold (1.00%)\n\
        #-----------\nsnapshot=1\n#-----------\ntime=2500\nmem_heap_B=7\nheap_tree=empty\n";
    let profile = of_text(text).profile;
    let rows: Vec<_> = stacks(&profile).into_iter().map(|(s, c)| (s.join(","), c.peak_bytes, c.live_bytes)).collect();
    // 20 of f's 90 have no node of their own, and 10 are below the threshold.
    let row = |stack: &str, peak, live| (stack.to_owned(), peak, live);
    assert_eq!(rows, [row("f,g", 60, 0), row("f", 30, 0), row("", 10, 7)]);
    assert_eq!((profile.duration_ms, profile.peak_ms, profile.command.join(" ")), (2500, 1500, "a b".to_owned()));
    assert!(refused(text.replace("n0: 60 0x2", "x0: 60 0x2").as_bytes()).contains("line 12: this is no node"));
}

#[test]
fn heap_profiles_of_gperftools_and_jemalloc() {
    for (file, more) in [
        (&include_bytes!("files/leak.gperftools")[..], (0, 0)),
        (&include_bytes!("files/leak.jemalloc")[..], (1, 81_920)),
    ] {
        let Foreign { profile, addresses, .. } = read_file(file);
        let t = profile.totals;
        assert_eq!((t.allocations, t.live, t.live_bytes), (1112 + more.0, 3 + more.0, 192 + more.1));
        assert!(t.allocated_bytes >= 449_968 && t.frees == 1109 && profile.has(Quantity::FreedBytes));
        assert_eq!((addresses, profile.command.join(" ")), (Addresses::FileOffsets, "/opt/demo/leak".to_owned()));
        let leak = profile.modules.iter().position(|m| m.path == "/opt/demo/leak").expect("the program");
        let own: Vec<_> = profile.frames.iter().filter(|f| f.module.is_some_and(|m| m.0 as usize == leak)).collect();
        assert!(own.len() >= 8 && own.iter().all(|f| (0x1000..0x2000).contains(&f.address)), "{own:?}");
        assert_eq!(profile.origin.as_ref().and_then(|o| o.sampled_bytes), None);
    }
}

/// One allocation of 1000 bytes in 1000 is in the sample with a probability of 1 - 1/e.
#[test]
fn samples_are_scaled_up() {
    let jemalloc = "heap_v2/1000\n  t*: 9: 9000 [0: 0]\n@ 0x10 0x20\n  t*: 3: 3000 [0: 0]\n  t0: 3: 3000 [0: 0]\n";
    let gperftools = "heap profile: 3: 3000 [ 3: 3000] @ heap_v2/1000\n 3: 3000 [ 3: 3000] @ 0x10 0x20\n";
    for text in [jemalloc, gperftools] {
        let profile = of_text(text).profile;
        assert_eq!((profile.totals.live, profile.totals.live_bytes), (5, 4746), "{text}");
        assert_eq!(profile.origin.as_ref().and_then(|o| o.sampled_bytes), Some(1000));
        assert_eq!(profile.has(Quantity::Allocations), text == gperftools);
        assert_eq!(stacks(&profile)[0].0, ["0x10", "0x20"]);
    }
    assert!(refused(b"heap profile: 1: 1 [ 1: 1] @ growthz\n").contains("counts growthz"));
}

#[test]
fn gos_heap_profile() {
    let Foreign { profile, addresses, .. } = read_file(include_bytes!("files/words.pprof"));
    assert_eq!(addresses, Addresses::Opaque);
    let report = top(&profile, TopOptions { by: Measure::Allocations, cum: false, raw: false, limit: 1 });
    let first = &report.functions[0];
    assert_eq!((first.function.as_str(), first.self_sums.allocations), ("example.com/words.scratch", 1000));
    assert_eq!(first.self_sums.allocated_bytes, 32_000);
    assert!(first.file.as_deref().is_some_and(|file| file.ends_with("words_test.go")));
    assert!(profile.has(Quantity::Frees) && !profile.has(Quantity::PeakBytes) && !profile.has(Quantity::Times));
}

/// Live blocks and bytes by stack, without the stacks that have none.
fn live(profile: &Profile) -> Vec<(String, u64, u64)> {
    let rows = stacks(profile).into_iter().filter(|(_, counts)| counts.live > 0);
    let mut rows: Vec<_> = rows.map(|(stack, counts)| (stack.join(" "), counts.live, counts.live_bytes)).collect();
    rows.sort();
    rows
}

/// Go wrote both files at one moment: 4,000 blocks of 1,024 bytes, of which one in 4 KiB was recorded. The period in
/// the text is twice that, and the names stand below the stacks.
#[test]
fn gos_heap_profile_as_text_is_its_pprof() {
    let Foreign { profile, addresses, .. } = read_file(include_bytes!("files/keep.go_text"));
    let same = read_file(include_bytes!("files/keep.pprof")).profile;
    assert_eq!(live(&profile), live(&same));
    let rows = live(&profile);
    assert_eq!((rows[0].0.as_str(), rows[0].1), ("main.block main.fill main.main runtime.main", 3747), "{rows:?}");
    assert_eq!(profile.origin.as_ref().and_then(|o| o.sampled_bytes), Some(4096));
    assert_eq!(profile.origin.as_ref().map(|o| o.format), Some("Go text"));
    assert_eq!(addresses, Addresses::Opaque, "no name is left to be looked up");
    let block = profile.frames.iter().flat_map(|f| &f.lines).find(|l| profile.strings.get(l.function) == "main.block");
    let block = block.expect("a function");
    assert_eq!((block.file.map(|file| profile.strings.get(file)), block.line), (Some("example.com/keep/main.go"), 19));
}

/// Recursion has one address several times in a row; functions in one another have several names at one address.
#[test]
fn names_below_a_stack_of_gos_text() {
    let text = "heap profile: 1: 8 [1: 8] @ heap/2\n1: 8 [1: 8] @ 0x11 0x21 0x31 0x31 0x41 0x51\n\
        #\t0x20\tmain.inner+0x1\t\t/src/a.go:1\n#\t0x20\tmain.outer+0x1\t/src/a.go:2\n#\t0x30\tmain.again+0x1\t/src/a.go:3\n\
        #\t0x30\tmain.again+0x1\t/src/a.go:3\n#\t0x40\n\n# runtime.MemStats\n# Alloc = 8\n";
    let Foreign { profile, addresses, .. } = of_text(text);
    // The runtime's functions, which Go hides, are 0x11 and 0x51; 0x41 has no name.
    assert_eq!(stacks(&profile)[0].0, ["main.inner", "main.outer", "main.again", "main.again"]);
    assert_eq!(addresses, Addresses::Opaque);
    let cgo = text.replace("#\t0x40\n", "#\t0x40\n#\t0x50\tmain.main+0x2\t/src/a.go:9\n");
    let Foreign { profile, addresses, .. } = of_text(&cgo);
    assert_eq!(stacks(&profile)[0].0[3..], ["main.again", "0x41", "main.main"]);
    assert_eq!(addresses, Addresses::FileOffsets);
}

/// `jeprof --raw` on Debian 12 wrote the names, jemalloc the profile: 500 blocks of 4,096 bytes.
#[test]
fn names_before_a_profile_of_jemalloc() {
    let Foreign { profile, addresses, .. } = read_file(include_bytes!("files/hold.jeprof"));
    assert_eq!((profile.totals.live, profile.totals.live_bytes), (501, 2_129_920));
    let all = stacks(&profile);
    let (hold, counts) = all.iter().find(|(stack, _)| stack.contains(&"hold".to_owned())).expect("a stack of hold");
    assert_eq!(counts.live_bytes, 2_048_000);
    assert_eq!(hold[4..], ["hold", "main", "__libc_start_call_main", "__libc_start_main_impl", "_start"]);
    assert!(all.iter().flat_map(|(stack, _)| stack).all(|name| !name.contains(['<', '@'])), "{all:?}");
    assert_eq!(addresses, Addresses::Opaque);
    assert_eq!(profile.origin.as_ref().map(|o| o.format), Some("jemalloc"));
}

/// As google-pprof writes it of a profile that it fetched: it names a caller by its address in the stack, not by the
/// one before.
#[test]
fn names_before_a_profile_of_gperftools() {
    let text = "--- symbol\nbinary=todo.php\n0x01 main\n0x02 App::load(string, int)\n0x03 array_map--closure\n---\n--- heap\n\
        heap profile:      7:     4200 [     7:     4200] @ heapprofile\n\
        \x20    5:     4000 [     5:     4000] @ 0x03 0x02 0x01\n     2:      200 [     2:      200] @ 0x02 0x01\n";
    for text in [text.to_owned(), text.replace("--- heap\n", "")] {
        let Foreign { profile, addresses, .. } = of_text(&text);
        let expected = [
            ("closure array_map App::load(string, int) main".to_owned(), 5, 4000),
            ("App::load(string, int) main".to_owned(), 2, 200),
        ];
        assert!(expected.iter().all(|row| live(&profile).contains(row)), "{:?}", live(&profile));
        assert_eq!(addresses, Addresses::Opaque);
    }
    // What google-pprof --raw makes of a local profile.
    let raw = [&text.as_bytes()[..text.find("--- heap").expect("a mark")], b"--- profile\n\0\0\0\0\0"].concat();
    assert!(refused(&raw).contains("give the heap profile that it was made of"), "{}", refused(&raw));
    assert!(refused(b"--- symbol\n0x1 main\n").contains("within its symbols"));
}

/// php-memprof 3.0.2 on PHP 8.2 wrote it of `files/leak.php`. google-pprof --text and `memprof_dump_array()` of the
/// same moment have these bytes: 20 strings of 1,032, 5 of 4,032, one of 100,032. `root` is what PHP had before the
/// script.
#[test]
fn php_memprofs_profile() {
    let Foreign { profile, addresses, .. } = read_file(include_bytes!("files/leak.memprof"));
    let script = "include /tmp/shop/leak.php";
    let expected = [
        ("", 57_259),
        ("", 56),
        ("fopen ", 581),
        (r"Shop\Cart::add ", 576),
        (r"str_repeat Shop\Cart::add ", 20_640),
        (r"array_map Shop\pages ", 216),
        (r"str_repeat Shop\{closure} array_map Shop\pages ", 20_160),
        ("strrev ", 100_032),
    ];
    let all = live_bytes(&profile);
    assert_eq!(all.len(), expected.len());
    for (at, (functions, bytes)) in expected.into_iter().enumerate() {
        let stack = if at == 0 { String::new() } else { format!("{functions}{script}") };
        assert!(all.contains(&(stack, bytes)), "{functions} {bytes}: {all:?}");
    }
    assert_eq!(profile.totals.live_bytes, 199_520);
    assert_eq!((has(&profile), addresses), (vec![Quantity::LiveBytes], Addresses::Opaque));
    assert_eq!(profile.origin.as_ref().map(|origin| origin.format), Some("php-memprof"));
}

/// Stacks with their bytes, of a format that counts no blocks.
fn live_bytes(profile: &Profile) -> Vec<(String, u64)> {
    stacks(profile).into_iter().map(|(stack, counts)| (stack.join(" "), counts.live_bytes)).collect()
}

/// The words of a profile behind this table.
fn words(table: &str, words: &[u64]) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    format!("--- symbol\nbinary=todo.php\n{table}---\n--- profile\n").into_bytes().into_iter().chain(words).collect()
}

#[test]
fn php_memprofs_names_are_whole_and_its_stacks_are_not_cut_short() {
    let table = "0x08 root\n0x10 main /srv/my--app/index.php\n";
    let profile = read_file(&words(table, &[0, 3, 0, 0, 0, 64, 1, 0x10])).profile;
    assert_eq!(live_bytes(&profile), [("main /srv/my--app/index.php".to_owned(), 64)]);
    for short in [&[0, 3, 0, 0, 0, 64, 2, 0x10][..], &[0, 3, 0, 0, 0, 64], &[0, 3, 0, 0, 0, 64, u64::MAX, 0x10]] {
        assert!(refused(&words(table, short)).contains("ends within a stack"), "{short:?}");
    }
    // google-pprof --raw writes a period of 1, and a CPU profile has its own.
    for other in [&[0, 3, 0, 1, 0, 64, 1, 0x10][..], &[0, 3, 0, 10_000, 0, 64, 1, 0x10], &[]] {
        assert!(refused(&words(table, other)).contains("written by pprof --raw"), "{other:?}");
    }
    assert!(refused(&words("0x10 main\n", &[0, 3, 0, 0, 0, 64, 1, 0x10])).contains("written by pprof --raw"));
}

/// gperftools counts each munmap of a part of a mapping as a free of a whole block: `HEAP_PROFILE_MMAP`.
#[test]
fn counts_below_0_of_mappings_are_left_out() {
    let text = "heap profile:      2:     1120 [     4:     1049696] @ heapprofile\n    -1:   524288 [     1:  1048576] @ 0x10 0x20\n\
        \x20    2:     1120 [     3:     1680] @ 0x30 0x20\n";
    let Foreign { profile, remarks, .. } = of_text(text);
    assert_eq!((profile.totals.live, profile.totals.live_bytes), (2, 1120));
    assert!(remarks[0].contains("1 of its lines count fewer than 0 blocks"), "{remarks:?}");
}

/// A pprof profile of one sample, in function `f`. Numbers are varints.
fn pprof_of(types: &[(&str, &str)], values: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut message = |number: u8, bytes: &[u8]| {
        file.extend([number << 3 | 2, bytes.len() as u8]);
        file.extend(bytes);
    };
    let mut strings = vec!["", "f"];
    for (name, unit) in types {
        let index = strings.len() as u8;
        message(1, &[8, index, 16, index + 1]);
        strings.extend([*name, *unit]);
    }
    message(2, &[&[10, 1, 1, 18, values.len() as u8], values].concat());
    message(4, &[8, 1, 34, 4, 8, 1, 16, 1]);
    message(5, &[8, 1, 16, 1]);
    strings.iter().for_each(|text| message(6, text.as_bytes()));
    file
}

/// A profile of the values that are named like this.
fn chosen(bytes: &[u8], names: &[&str]) -> Result<Foreign, String> {
    let names: Vec<SampleType> = names.iter().map(|name| name.parse().expect("a sample type")).collect();
    read_chosen(bytes, Some(bytes.len() as u64), &names, &mut |_| {}).map_err(|error| error.to_string())
}

/// What `go tool pprof -sample_index` would show of it.
#[test]
fn sample_types_without_a_known_name_are_read_when_they_are_chosen() {
    let file = pprof_of(&[("kilo", "bytes"), ("", ""), ("cpu", "nanoseconds")], &[100, 7, 5]);
    let why = refused(&file);
    assert!(why.contains("holds kilo/bytes, value 2, cpu/nanoseconds, no allocations"), "{why}");
    assert!(why.contains("--sample-type NAME"), "{why}");
    let read = chosen(&file, &["kilo"]).expect("a profile");
    assert_eq!((read.profile.totals.allocated_bytes, read.profile.totals.live_bytes), (100, 0));
    assert_eq!(has(&read.profile), [Quantity::AllocatedBytes]);
    let said = ["reading kilo/bytes as allocated bytes", "its value 2, cpu/nanoseconds are not chosen, and left out"];
    assert_eq!(read.remarks, said);
    let read = chosen(&file, &["kilo=live", "2=live"]).expect("a profile");
    assert_eq!((read.profile.totals.live_bytes, read.profile.totals.live), (100, 7));
    assert!(
        chosen(&file, &["giga"]).is_err_and(|why| why.contains("no sample type giga, but kilo/bytes, value 2, cpu"))
    );
    assert!(chosen(&file, &["2=live"]).is_err_and(|why| why.contains("without their bytes")));
    assert!(chosen(&file, &["4"]).is_err() && chosen(&file, &["0"]).is_err());
    assert!(chosen(&file, &["2", "cpu"]).is_err_and(|why| why.contains("one number for its allocations")));
    // A name that is known means what it says, and another word overrules it.
    let file = pprof_of(&[("alloc_space", "bytes"), ("inuse_space", "bytes")], &[100, 7]);
    let totals = |names: &[&str]| {
        let totals = chosen(&file, names).expect("a profile").profile.totals;
        (totals.allocated_bytes, totals.live_bytes)
    };
    assert_eq!([totals(&["inuse_space"]), totals(&["inuse_space=allocated"])], [(0, 7), (7, 0)]);
    let massif = read_chosen(&include_bytes!("files/leak.massif")[..], None, &["1".parse().expect("one")], &mut |_| {});
    assert!(massif.expect("a profile").remarks.iter().any(|said| said.contains("--sample-type changes nothing")));
}

/// Of four types, each sample has two values: what is missing is not 0. `go tool pprof` says "mismatch".
#[test]
fn a_pprof_sample_with_too_few_values_is_damage() {
    let objects_and_space = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count")];
    let file = pprof_of(&[&objects_and_space[..], &[("inuse_space", "bytes")]].concat(), &[3, 0xac, 2]);
    assert!(refused(&file).contains("a sample has 2 values, and the profile 4 types"), "{}", refused(&file));
}

const DTRACE: &str = "\n\n=====\nThis will collect stack shots\n=====\n  some output of the program\n\n
              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x19
              app`static Point.+ infix(Point, Point)+0x2a
              app`ns::Point::operator+(ns::Point const&) const+0x231
              app`operator+
              0x7fff2034b000
           231000

              libsystem_malloc.dylib`malloc
              app`main+0x1
                7
";

#[test]
fn stacks_that_dtrace_counted() {
    let profile = of_text(DTRACE).profile;
    let all = stacks(&profile);
    assert_eq!(all.iter().map(|(_, c)| c.allocations).collect::<Vec<_>>(), [231_000, 7]);
    assert_eq!(
        all[0].0,
        [
            "malloc",
            "swift_slowAlloc",
            "static Point.+ infix(Point, Point)",
            "ns::Point::operator+(ns::Point const&) const",
            "operator+",
            "0x7fff2034b000"
        ]
    );
    assert_eq!(profile.modules[0].path, "libsystem_malloc.dylib");
    assert_eq!(has(&profile), [Quantity::Allocations]);
}

#[test]
fn stacks_that_bpftrace_counted() {
    let text = "Attaching 14 probes...\n\n\n=====\n@malloc_calls[\n    malloc+0\n    operator+(A, B)+18\n    operator++\n\
        \x20   7f0123456789 ns::f(int (*)(char))+52 (/usr/lib/liba.so)\n    0xabd80ee67d34\n]: 12\n@malloc_calls[\n    malloc+0\n    main+9\n, sqlite3, 4711]: 3\n\
        @bytes[\n    malloc+0\n    main+9\n]: 4096\n";
    let profile = of_text(text).profile;
    let all = stacks(&profile);
    assert_eq!(all[0].0, ["malloc", "operator+(A, B)", "operator++", "ns::f(int (*)(char))", "0xabd80ee67d34"]);
    assert_eq!((all[0].1.allocations, all[1].1.allocations, all[1].1.allocated_bytes), (12, 3, 4096));
    assert_eq!(has(&profile), [Quantity::Allocations, Quantity::AllocatedBytes]);
    assert!(refused(&text.as_bytes()[..text.len() - 8]).contains("within a stack"));
}

#[test]
fn folded_stacks() {
    let Foreign { profile, remarks, .. } = of_text("main;f (a.c);g(int, char);0x12 3\nmain;f (a.c); 4.6\n\nmain 1\n");
    let rows: Vec<_> = stacks(&profile).into_iter().map(|(s, c)| (s.join("|"), c.allocations)).collect();
    let row = |stack: &str, n| (stack.to_owned(), n);
    assert_eq!(rows, [row("0x12|g(int, char)|f|main", 3), row("f|main", 5), row("main", 1)]);
    assert_eq!(remarks, ["folded stacks do not say what they count: taken for allocations"]);
    let marked = of_text("# mallow: live_bytes\nmain;f 30\n");
    assert_eq!((marked.profile.totals.live_bytes, marked.remarks.len()), (30, 0));
    assert_eq!(has(&marked.profile), [Quantity::LiveBytes]);
    let tab = of_text("a;b\t10\na;c d\t1\n").profile;
    assert_eq!(tab.totals.allocations, 11);
    assert_eq!(stacks(&tab)[1].0, ["c d", "a"]);
    assert!(refused(b"a;b 1\nno number here\n").contains("neither a recording"));
}

#[test]
fn other_files_are_refused_with_a_reason() {
    for (bytes, expected) in [
        (&b""[..], ": it is empty"),
        (b"\x7fELF\x02\x01\x01", "record it with mallow record"),
        (b"PERFILE2", "fold its stacks first"),
        (b"root:x:0:0:root:/root:/bin/bash\n", "nor a profile that it reads (pprof, heaptrack, "),
        (b"{\"a\": [1, 2]}", "nor a profile"),
        (&[0; 100_000], "nor a profile"),
        (b"\n    liba`f+0x1\n    and so on\n", "nor a profile"),
    ] {
        let error = refused(bytes);
        assert!(error.contains(expected), "{error}");
    }
}
