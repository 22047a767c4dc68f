//! Files that were damaged at random, or lie: a reader says so in one line, or reads what there is, and never panics.

mod support;

use mallow_report::analysis::{Suppressions, leaks, overview};
use mallow_report::formats::{Foreign, Format, trim};
use proptest::prelude::*;
use support::{field, foreign, pprof};

const FILES: [&[u8]; 11] = [
    include_bytes!("files/leak.heaptrack.zst"),
    include_bytes!("files/leak.heaptrack_raw.zst"),
    include_bytes!("files/leak.heaptrack_print"),
    include_bytes!("files/leak.dhat"),
    include_bytes!("files/leak.massif"),
    include_bytes!("files/leak.gperftools"),
    include_bytes!("files/leak.jemalloc"),
    include_bytes!("files/words.pprof"),
    b"=====\n              liba.so`f+0x19\n              app`main+0x27\n           231000\n\n    app`g\n   7\n",
    b"Attaching 14 probes...\n\n@m[\n    malloc+0\n    f(int)+52 (/usr/lib/liba.so)\n    main+2\n]: 7\n@bytes[\n    main+2\n, sqlite3, 4711]: 4096\n",
    b"# mallow: leaked_bytes\nmain;f (a.c);g(int, char);0x12 3\nmain;f_[i]; 4.6\nmain 1\n",
];

/// A format that is not among the files is not fuzzed.
#[test]
fn every_format_is_here() {
    let here: Vec<_> = FILES.iter().map(|file| foreign(file).expect("a good file").profile.origin).collect();
    let here: Vec<_> = here.into_iter().flatten().map(|origin| origin.format).collect();
    for format in Format::ALL {
        assert!(here.contains(&format.name()), "{format}");
    }
}

/// Reads and, where that succeeds, does what the command does.
fn survive(bytes: &[u8]) -> Option<Foreign> {
    match foreign(bytes) {
        Ok(mut foreign) => {
            trim(&mut foreign.profile);
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
        assert_eq!(foreign.profile.totals.leaked_bytes, 7, "{location:?}");
    }
    // One id twice: the last one counts, and nothing is read twice.
    let twice = pprof(&[field(4, &[8, 1]), field(4, &[8, 1, 24, 9]), sample]);
    assert_eq!(survive(&twice).expect("readable").profile.totals.leaked_bytes, 7);
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
