//! Files that lie: a reader says so in one line, or reads what there is. It never panics, and takes no more memory than
//! what the file has really brought allows.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use flate2::Compression;
use flate2::write::GzEncoder;
use mallow_report::analysis::{Suppressions, leaks, overview};
use mallow_report::formats::{Foreign, FormatError, read, trim};
use proptest::prelude::*;

/// Counts the bytes that this thread's test holds. Tests that look at it run in one.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FILES: [&[u8]; 9] = [
    include_bytes!("files/leak.heaptrack.zst"),
    include_bytes!("files/leak.heaptrack_raw.zst"),
    include_bytes!("files/leak.heaptrack_print"),
    include_bytes!("files/leak.dhat"),
    include_bytes!("files/leak.massif"),
    include_bytes!("files/leak.gperftools"),
    include_bytes!("files/leak.jemalloc"),
    include_bytes!("files/words.pprof"),
    b"=====\n              liba.so`f+0x19\n              app`main+0x27\n           231000\n\n@m[\n    malloc+0\n    main+2\n]: 7\n",
];

fn foreign(bytes: &[u8]) -> Result<Foreign, FormatError> {
    read(bytes, Some(bytes.len() as u64), &mut |_| {})
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

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).expect("packs");
    packed.finish().expect("packs")
}

/// A field of a message, of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

/// A pprof profile whose strings are `inuse_space` and `bytes`, with these fields.
fn pprof(fields: &[Vec<u8>]) -> Vec<u8> {
    let head = [field(1, &[8, 1, 16, 2]), field(6, b""), field(6, b"inuse_space"), field(6, b"bytes")].concat();
    [head, fields.concat()].concat()
}

/// How much memory a refusal or a profile took at the most, over what was there before.
fn cost<T>(of: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = of();
    (result, PEAK.load(Relaxed) - before)
}

const MB: usize = 1 << 20;

/// One test for all, because memory is measured: nothing else may run meanwhile.
fn memory_is_bounded() {
    let huge = [&[4 << 3 | 2][..], &[0xff; 8], &[0x0f]].concat();
    let deep: Vec<u8> = field(2, &[field(1, &vec![1; 1_000_000]), field(2, &[7])].concat());
    let many = pprof(&vec![field(2, &[]); 2_000_000]);
    let lines = |line: &str, n: usize| line.repeat(n);
    let cases: Vec<(&str, Vec<u8>, usize, Option<&str>)> = vec![
        ("a length of 2^60", pprof(&[huge]), 4, Some("ends after the end of the file")),
        ("a stack of 10^6 frames", pprof(&[field(4, &[8, 1]), deep]), 16, None),
        ("a sample without a stack, very often", many, 40, None),
        ("zeros in gzip", gzipped(&vec![0; 64 * MB]), 8, Some("neither a recording")),
        ("zeros in zstd", zstd::encode_all(&vec![0; 64 * MB][..], 3).expect("packs"), 24, Some("neither a recording")),
        (
            "strings of zeros in a profile in gzip",
            gzipped(&pprof(&[field(6, &vec![0; 80 * MB])])),
            140,
            Some("unpacks to more than"),
        ),
        (
            "a line without an end",
            zstd::encode_all(&[b"v 10400 3\n# ", &vec![b'x'; 80 * MB][..]].concat()[..], 3).expect("packs"),
            40,
            Some("the line is too long"),
        ),
        (
            "a stack that calls itself",
            b"v 10400 3\ns 1 a\ni 10 1\nt 1 1\n".to_vec(),
            2,
            Some("line 4: there is no such stack"),
        ),
        ("a string that is longer than the file", b"v 10400 3\ns fffffffffffffff a\n".to_vec(), 2, None),
        (
            "a tree that is too deep",
            [
                "desc: a\ncmd: a\ntime_unit: i\n#---\nsnapshot=0\n#---\ntime=0\nmem_heap_B=9\nheap_tree=peak\n",
                &lines("n1: 9 0x1: f (a.c:1)\n", 100_000),
            ]
            .concat()
            .into_bytes(),
            8,
            Some("the tree is deeper"),
        ),
        (
            "children without end",
            [
                "desc: a\ncmd: a\ntime_unit: i\n#---\nsnapshot=0\n#---\ntime=0\nmem_heap_B=9\nheap_tree=peak\n",
                "n18446744073709551615: 9 (heap)\n",
            ]
            .concat()
            .into_bytes(),
            2,
            Some("ends within a tree"),
        ),
        ("a folded stack of 10^6 frames", [&lines("f;", 1_000_000), "g 1\n"].concat().into_bytes(), 40, None),
        (
            "brackets without end",
            [r#"{"dhatFileVersion":2,"x":"#, &lines("[", 100_000)].concat().into_bytes(),
            2,
            Some("damaged at line 1"),
        ),
        (
            "a stack of dtrace without end",
            ["    a`f\n  1\n", &lines("     a`f+0x1\n", 1_000_000), "   3\n"].concat().into_bytes(),
            40,
            None,
        ),
        (
            "addresses without end",
            ["heap_v2/1\n@", &lines(" 0x1", 1_000_000), "\n t*: 1: 1 [0: 0]\n"].concat().into_bytes(),
            40,
            None,
        ),
    ];
    for (what, bytes, limit, expected) in cases {
        let (result, peak) = cost(|| foreign(&bytes));
        assert!(peak <= limit * MB, "{what}: {} MB", peak / MB);
        match (result, expected) {
            (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{what}: {error}"),
            (Ok(foreign), None) => {
                let deepest = foreign.profile.sites.iter().map(|s| foreign.profile.stacks.depth(s.stack)).max();
                assert!(deepest <= Some(4096), "{what}: {deepest:?}");
            }
            (Err(error), None) => panic!("{what}: {error}"),
            (Ok(_), Some(expected)) => panic!("{what}: read, and not refused for {expected}"),
        }
    }
}

#[test]
fn memory() {
    // proptest's threads would disturb the measurement; they are in other processes of the same test binary.
    let exe = std::env::current_exe().expect("this test");
    if std::env::var_os("ALONE").is_some() {
        return memory_is_bounded();
    }
    let run = std::process::Command::new(exe).args(["--exact", "memory", "--nocapture"]).env("ALONE", "1").output();
    let run = run.expect("runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
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
    ];
    for (bytes, expected) in cases {
        let error = foreign(&bytes).expect_err("not to be read").to_string();
        assert!(error.contains(expected), "{error}");
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
