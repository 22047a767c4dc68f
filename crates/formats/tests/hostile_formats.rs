//! Files that were damaged at random, or lie: a reader says so in one line, or reads what there is, and never panics.

mod support;

use mallow_formats::{Foreign, InputFormat, probes, trim};
use mallow_profile::Profile;
use mallow_report::analysis::sampled::{SampleLedger, snapshot};
use mallow_report::analysis::{Merger, Suppressions, leaks, overview};
use proptest::prelude::*;
use support::{field, foreign, pprof};

const FILES: [&[u8]; 14] = [
    include_bytes!("files/leak.heaptrack.zst"),
    include_bytes!("files/leak.heaptrack_raw.zst"),
    include_bytes!("files/leak.heaptrack_print"),
    include_bytes!("files/leak.dhat"),
    include_bytes!("files/leak.massif"),
    include_bytes!("files/leak.gperftools"),
    include_bytes!("files/leak.jemalloc"),
    include_bytes!("files/leak.memprof"),
    include_bytes!("files/words.pprof"),
    include_bytes!("files/keep.go_text"),
    include_bytes!("files/hold.jeprof"),
    b"=====\n              liba.so`f+0x19\n              app`main+0x27\n           231000\n\n    app`g\n   7\n",
    b"Attaching 14 probes...\n\n@m[\n    malloc+0\n    f(int)+52 (/usr/lib/liba.so)\n    main+2\n]: 7\n@bytes[\n    main+2\n, sqlite3, 4711]: 4096\n",
    b"# mallow: live_bytes\nmain;f (a.c);g(int, char);0x12 3\nmain;f_[i]; 4.6\nmain 1\n",
];

/// Text of probes, which `import` reads: of perf script, perf trace and bpftrace.
const PROBES: [&[u8]; 3] = [
    b"redis-server  4711/4712 [001]   17.602282: sdt_mallow:malloc: (7f5c3d00) arg1=362 arg2=139998753980416 arg3=22605\n\
      \t    7f5c3d00 malloc+0x20 (/home/me/libmallow.so)\n\t    55d0c3a1 zmalloc+0x11 (/usr/bin/redis-server)\n\n\
      child  4800/4800 [000]   18.5: sdt_mallow:calloc: (7f) arg1=2 arg2=50 arg3=7 arg4=0x1000 arg5=100\n\
      child  4800/4800 [000]   18.6: sdt_mallow:realloc_from_tracked: (7f) arg1=7 arg2=4096 arg3=100 arg4=8 arg5=8192 arg6=200\n\
      io  4711/4713 [000]   18.7: sdt_mallow:free_1: (7f5c3d11) arg1=362 arg2=139998753980416 arg3=22605\n",
    b"17602.282 redis-server/4711 sdt_mallow:malloc(__probe_ip: 140369, arg1: 362, arg2: 139998753980416, arg3: 22605)\n\
      \x20           malloc (/home/me/libmallow.so)\n            zmalloc (/usr/bin/redis-server)\n\
      17603.282 redis-server/4711 sdt_mallow:free(__probe_ip: 140369, arg1: 362, arg2: 139998753980416, arg3: 22605)\n",
    b"Attaching 9 probes...\nsqlite3 4711/4711 5117.602282000: mallow:malloc: arg1=7 arg2=4096 arg3=22605\n\
      \tffffffff81 sqlite3MemMalloc+16 (/usr/bin/sqlite3)\n\nsqlite3 4711/4711 5118.6: otel_memory:alloc: arg1=4096 arg2=22605 arg3=90000\n",
];

/// A format that is not among the files is not fuzzed.
#[test]
fn every_format_is_here() {
    let here: Vec<_> = FILES.iter().map(|file| foreign(file).expect("a good file").profile.origin).collect();
    let here: Vec<_> = here.into_iter().flatten().map(|origin| origin.format).collect();
    for format in InputFormat::ALL {
        assert!(here.contains(&format.name()), "{format}");
    }
}

/// Of any two formats.
#[test]
fn merged_files_keep_the_promises_of_the_model() {
    let profiles: Vec<Profile> = FILES.iter().map(|file| foreign(file).expect("a good file").profile).collect();
    for (first, second) in profiles.iter().flat_map(|first| profiles.iter().map(move |second| (first, second))) {
        let mut merger = Merger::default();
        [("first", first), ("second", second)].into_iter().for_each(|(name, profile)| merger.add(name, profile));
        let merged = merger.finish().profile;
        assert_eq!(merged.check(), Ok(()), "{:?} and {:?}", first.origin, second.origin);
    }
}

/// Reads and, where that succeeds, does what the command does.
fn survive(bytes: &[u8]) -> Option<Foreign> {
    match foreign(bytes) {
        Ok(mut foreign) => {
            assert_eq!(foreign.profile.check(), Ok(()));
            trim(&mut foreign.profile);
            assert_eq!(foreign.profile.check(), Ok(()), "trimmed");
            let mut merger = Merger::default();
            ["first", "second"].into_iter().for_each(|name| merger.add(name, &foreign.profile));
            assert_eq!(merger.finish().profile.check(), Ok(()), "merged");
            let report = overview(&foreign.profile, 10);
            leaks(&foreign.profile, &Suppressions::default(), 10);
            assert!(report.sites <= foreign.profile.sites.len() as u64);
            Some(foreign)
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
            None
        }
    }
}

/// Reads a text of probes and, where that succeeds, does what `import` does.
fn survive_probes(bytes: &[u8]) -> bool {
    let mut ledger = SampleLedger::new();
    let length = Some(bytes.len() as u64);
    match probes::read(bytes, length, 512 << 10, &mut |_| {}, &mut |event| ledger.feed(&event)) {
        Ok(read) => {
            assert_eq!(read.profile.check(), Ok(()));
            ledger.advance(read.end_ns);
            assert_eq!(snapshot(&ledger, &read.profile, read.end_ns, 0).check(), Ok(()), "live samples");
            true
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
            false
        }
    }
}

#[test]
fn texts_of_probes_are_read() {
    for text in PROBES {
        assert!(survive_probes(text), "{}", String::from_utf8_lossy(text));
    }
}

/// What is packed inside, so that damage reaches the reader and not the checksum.
fn unpacked(file: &[u8]) -> Vec<u8> {
    match file {
        [0x28, 0xb5, ..] => zstd::decode_all(file).expect("a good file"),
        [0x1f, 0x8b, ..] => {
            let mut all = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut all).expect("a good file");
            all
        }
        _ => file.to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes(
        file in 0..FILES.len(),
        packed in prop::bool::weighted(0.1),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = if packed { FILES[file].to_vec() } else { unpacked(FILES[file]) };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        survive(&bytes);
    }

    #[test]
    fn changed_bytes_and_cut_out_parts_of_probes(
        text in 0..PROBES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        parts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
    ) {
        let mut bytes = PROBES[text].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // Parts of the text in any order, each as often as it comes.
        let mut mixed = bytes.clone();
        for (from, to) in parts {
            let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
            mixed.extend_from_slice(&bytes[a.min(b)..a.max(b)]);
        }
        survive_probes(&bytes);
        survive_probes(&mixed);
    }

    #[test]
    fn numbers_of_probes_that_are_too_large(text in 0..PROBES.len(), at in any::<prop::sample::Index>(), number in prop::sample::select(vec![
        "18446744073709551615", "18446744073709551616", "0xffffffffffffffff", "-1", "-9223372036854775808", "1e300", "NaN", "",
    ])) {
        let bytes = PROBES[text];
        let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
        let start = digits[at.index(digits.len())];
        let end = (start..bytes.len()).find(|&at| !bytes[at].is_ascii_hexdigit()).unwrap_or(bytes.len());
        survive_probes(&[&bytes[..start], number.as_bytes(), &bytes[end..]].concat());
    }

    #[test]
    fn parts_cut_out_doubled_and_put_elsewhere(
        file in 0..FILES.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u8), 1..4),
    ) {
        let mut bytes = unpacked(FILES[file]);
        for (from, to, how) in cuts {
            let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
            let (a, b) = (a.min(b), a.max(b));
            let part = bytes[a..b].to_vec();
            match how {
                0 => drop(bytes.drain(a..b)),
                1 => bytes.extend(part),
                _ => drop(bytes.splice(a..a, part)),
            }
            if bytes.is_empty() {
                break;
            }
        }
        survive(&bytes);
    }

    #[test]
    fn numbers_that_are_too_large(file in 0..FILES.len(), at in any::<prop::sample::Index>(), number in prop::sample::select(vec![
        "18446744073709551615", "18446744073709551616", "9223372036854775808", "ffffffffffffffff", "-1", "1e300", "NaN", "",
    ])) {
        let bytes = unpacked(FILES[file]);
        let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
        let start = digits[at.index(digits.len())];
        let end = (start..bytes.len()).find(|&at| !bytes[at].is_ascii_hexdigit()).unwrap_or(bytes.len());
        let changed = [&bytes[..start], number.as_bytes(), &bytes[end..]].concat();
        survive(&changed);
    }

    #[test]
    fn noise_behind_a_good_beginning(file in 0..FILES.len(), kept in 1..200usize, noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let bytes = unpacked(FILES[file]);
        survive(&[&bytes[..kept.min(bytes.len())], &noise].concat());
    }
}

/// One number, or a sum, that does not fit: in each format whose numbers are decimal text.
#[test]
fn sums_that_do_not_fit_are_named() {
    let largest = u64::MAX;
    let dtrace = format!("    liba.so`f+0x1\n    a`main+0x2\n  {largest}\n\n    a`main+0x2\n  7\n");
    let jemalloc =
        format!("heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x10\n  t*: 1: {largest} [0: 0]\n@ 0x11\n t*: 1: 2 [0: 0]\n");
    for text in
        [format!("main;f {largest}\nmain;g 7\n"), "main;f 1000000000000000000000\n".to_owned(), dtrace, jemalloc]
    {
        let foreign = survive(text.as_bytes()).expect("readable");
        let remarks = foreign.remarks.join("; ");
        assert!(remarks.contains("numbers above 2^64 - 1 do not fit"), "{text}: {remarks}");
    }
    let foreign = survive(b"main;f 18446744073709551614\nmain;g 0\n").expect("readable");
    assert!(!foreign.remarks.join("; ").contains("do not fit"), "{:?}", foreign.remarks);
}

#[test]
fn names_that_are_no_text() {
    let foreign = survive(b"main;\xff\xfe\x00bad;f\xc3 3\n").expect("readable");
    assert!(foreign.profile.strings.iter().any(|name| name.contains('\u{fffd}')));
    let long = [&b"main;"[..], &vec![b'x'; 100_000], b" 3\n"].concat();
    let foreign = survive(&long).expect("readable");
    assert!(foreign.profile.strings.iter().all(|name| name.len() <= 32 << 10));
}

#[test]
fn ids_that_lead_nowhere() {
    let cases = [
        (pprof(&[field(2, &[field(1, &[9]), field(2, &[7])].concat())]), "a location that there is not"),
        (b"v 10400 3\nt 1 0\n".to_vec(), "there is no such frame"),
        (b"v 10400 3\ni 10 5\n".to_vec(), "there is no such string"),
        (b"v 10400 3\n+ 0\n".to_vec(), "there is no such allocation"),
        (b"v 10400 3\n- 7\n".to_vec(), "there is no such allocation"),
        (b"v 10400 4\n".to_vec(), "heaptrack_print reads it"),
        // A stack that calls itself, or one that comes later.
        (b"v 10400 3\ns 1 a\ni 10 1\nt 1 1\n".to_vec(), "line 4: there is no such stack"),
        (b"v 10400 3\ns 1 a\ni 10 1\nt 1 2\nt 1 1\n".to_vec(), "line 4: there is no such stack"),
        (b"v 10400 3\ns 1 a\ni 10 1\nt 1 ffffffffffffffff\n".to_vec(), "there is no such stack"),
        (dhat(r#"{"tb":1,"tbk":1,"fs":[2]}"#), "a frame that there is not"),
        (dhat(r#"{"tb":1,"tbk":1,"fs":[1152921504606846976]}"#), "damaged"),
        (dhat(r#"{"tb":1,"tbk":1,"fs":[-1]}"#), "damaged"),
    ];
    for (bytes, expected) in cases {
        let error = foreign(&bytes).expect_err("not to be read").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Locations, functions and strings of a pprof profile may be missing, or lead to each other: then there is no name.
#[test]
fn pprof_ids_that_lead_nowhere() {
    let sample = field(2, &[field(1, &[1]), field(2, &[7])].concat());
    for location in [
        &[8, 1, 16, 99][..],
        &[8, 1, 0x22, 2, 8, 99],
        // A function whose name is its own number; one with a string that there is not.
        &[8, 1, 0x22, 2, 8, 1],
        &[8, 1, 0x22, 2, 8, 2],
    ] {
        let functions = [field(5, &[8, 1, 16, 1]), field(5, &[8, 2, 16, 0x7f])].concat();
        let bytes = pprof(&[field(4, location), functions, sample.clone()]);
        let foreign = survive(&bytes).expect("readable");
        assert_eq!(foreign.profile.totals.live_bytes, 7, "{location:?}");
    }
    // One id twice: the last one counts, and nothing is read twice.
    let twice = pprof(&[field(4, &[8, 1]), field(4, &[8, 1, 24, 9]), sample]);
    assert_eq!(survive(&twice).expect("readable").profile.totals.live_bytes, 7);
}

fn dhat(point: &str) -> Vec<u8> {
    format!(r#"{{"dhatFileVersion":2,"mode":"heap","bklt":false,"cmd":"a","pid":3,"pps":[{point}],"ftbl":["[root]","0x1: f"]}}"#)
        .into_bytes()
}

/// In every format; JSON has to be UTF-8, so that DHAT's is refused.
#[test]
fn names_that_are_not_utf8_in_every_format() {
    for file in FILES {
        let name = foreign(file).expect("a good file").profile.origin.expect("an origin").format;
        let mut bytes = unpacked(file);
        // The program, where a file has addresses instead of names.
        let of = |name: &[u8]| (0..bytes.len() - 4).filter(|&at| &bytes[at..at + 4] == name).collect::<Vec<_>>();
        let places = Some(of(b"main")).filter(|places| !places.is_empty()).unwrap_or_else(|| of(b"leak"));
        for &at in &places {
            bytes[at + 1..at + 3].copy_from_slice(b"\xff\xc3");
        }
        let spoilt = |foreign: Foreign| {
            let profile = foreign.profile;
            let modules = profile.modules.iter().any(|module| module.path.contains('\u{fffd}'));
            modules || profile.strings.iter().any(|name| name.contains('\u{fffd}'))
        };
        match (name, survive(&bytes)) {
            ("DHAT", refused) => assert!(refused.is_none()),
            // Names are looked up by addresses there.
            ("gperftools" | "jemalloc", read) => assert!(read.is_some()),
            (_, read) => assert!(!places.is_empty() && read.is_some_and(spoilt), "{name}"),
        }
    }
}

#[test]
fn a_difference_of_profiles_is_none() {
    let negative = pprof(&[field(2, &field(2, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]))]);
    let error = foreign(&negative).expect_err("not to be read").to_string();
    assert!(error.contains("the difference of two profiles"), "{error}");
    let cpu = [
        field(1, &[8, 1, 16, 2]),
        field(6, b""),
        field(6, b"cpu"),
        field(6, b"nanoseconds"),
        field(2, &field(2, &[7])),
    ];
    let error = foreign(&cpu.concat()).expect_err("not to be read").to_string();
    assert!(error.contains("holds cpu/nanoseconds, no allocations"), "{error}");
}
