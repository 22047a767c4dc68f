//! Files that promise more than they bring: a reader takes no more memory than what the file has really brought allows,
//! and says in one line what is wrong with it.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use flate2::Compression;
use flate2::write::GzEncoder;
use support::{field, foreign, pprof};

/// Counts the bytes that the process holds: each test runs in one of its own.
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

/// How much memory a refusal or a profile took at the most, over what was there before.
fn cost<T>(of: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = of();
    (result, PEAK.load(Relaxed) - before)
}

const MB: usize = 1 << 20;

/// The deepest stack that is kept.
const DEEPEST: u32 = 4096;

/// A file, how many megabytes it may cost, and what it is refused for; None for one that is read.
type Case = (&'static str, Vec<u8>, usize, Option<&'static str>);

/// Reads the cases in a process of its own: memory is measured, and nothing else may run meanwhile.
fn alone(test: &str, cases: impl FnOnce() -> Vec<Case>) {
    if std::env::var_os("ALONE").is_none() {
        let exe = std::env::current_exe().expect("this test");
        let run = std::process::Command::new(exe).args(["--exact", test, "--nocapture"]).env("ALONE", "1").output();
        let run = run.expect("runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    for (what, bytes, limit, expected) in cases() {
        let (result, peak) = cost(|| foreign(&bytes));
        assert!(peak <= limit * MB, "{what}: {} MB", peak / MB);
        match (result, expected) {
            (Err(error), Some(expected)) => {
                let error = error.to_string();
                assert!(error.contains(expected) && error.lines().count() == 1, "{what}: {error}");
            }
            (Ok(foreign), None) => {
                assert_eq!(foreign.profile.check(), Ok(()), "{what}");
                let stacks = &foreign.profile.stacks;
                let deepest = foreign.profile.sites.iter().map(|s| stacks.depth(s.stack)).max();
                assert!(deepest <= Some(DEEPEST), "{what}: {deepest:?}");
                if what.contains("10^6 frames") {
                    assert_eq!(deepest, Some(DEEPEST), "{what}");
                    // heaptrack's files have the outermost frames first: there the innermost ones are left out.
                    let cut = foreign.profile.sites.iter().any(|s| stacks.is_cut(s.stack));
                    assert!(cut || what.ends_with("heaptrack"), "{what}");
                }
            }
            (Err(error), None) => panic!("{what}: {error}"),
            (Ok(_), Some(expected)) => panic!("{what}: read, and not refused for {expected}"),
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).expect("packs");
    packed.finish().expect("packs")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).expect("packs")
}

/// A head, and so many times a line of this.
fn zstd_of(head: &str, line: &str, times: usize) -> Vec<u8> {
    let mut packed = zstd::Encoder::new(Vec::new(), 3).expect("packs");
    packed.write_all(head.as_bytes()).expect("packs");
    for _ in 0..times {
        writeln!(packed, "{line}").expect("packs");
    }
    packed.finish().expect("packs")
}

fn lines(line: &str, n: usize) -> String {
    line.repeat(n)
}

fn text(parts: &[&str]) -> Vec<u8> {
    parts.concat().into_bytes()
}

const MASSIF: &str = "desc: a\ncmd: a\ntime_unit: i\n#---\nsnapshot=0\n#---\ntime=0\nmem_heap_B=9\nheap_tree=peak\n";
const DHAT: &str = r#"{"dhatFileVersion":2,"mode":"heap","bklt":false,"cmd":"a","pid":3,"pps":["#;

#[test]
fn bombs_in_gzip() {
    alone("bombs_in_gzip", || {
        let zeros = vec![0; 64 * MB];
        vec![
            ("zeros", gzip(&zeros), 8, Some("neither a recording")),
            ("zeros, packed twice", gzip(&gzip(&zeros)), 8, Some("neither a recording")),
            (
                "a string of zeros in a profile",
                gzip(&pprof(&[field(6, &vec![0; 80 * MB])])),
                140,
                Some("unpacks to more than"),
            ),
            (
                "a line of heaptrack's without end",
                gzip(&[b"v 10400 3\n# ", &vec![b'x'; 80 * MB][..]].concat()),
                40,
                Some("the line is too long"),
            ),
            (
                "a name of DHAT's without end",
                gzip(&[DHAT.as_bytes(), br#"],"ftbl":[""#, &vec![b'x'; 80 * MB][..]].concat()),
                300,
                Some("damaged"),
            ),
            ("comments without end in folded stacks", gzip(&text(&["main;f 1\n", &lines("#\n", 8 * MB)])), 24, None),
        ]
    });
}

#[test]
fn bombs_in_zstd() {
    alone("bombs_in_zstd", || {
        let zeros = vec![0; 64 * MB];
        // A frame whose window has 2^31 bytes, and one that claims 2^60 bytes of content.
        let window = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8][..], &[1, 0, 0]].concat();
        let content = [&[0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x58][..], &(1u64 << 60).to_le_bytes(), &[1, 0, 0]].concat();
        vec![
            ("zeros", zstd(&zeros), 24, Some("neither a recording")),
            ("zeros, in gzip", gzip(&zstd(&zeros)), 24, Some("neither a recording")),
            (
                "a line of heaptrack's without end",
                zstd(&[b"v 10400 3\n# ", &vec![b'x'; 80 * MB][..]].concat()),
                40,
                Some("the line is too long"),
            ),
            (
                "a string of zeros in a profile",
                zstd(&pprof(&[field(6, &vec![0; 80 * MB])])),
                140,
                Some("unpacks to more than"),
            ),
            (
                "half a gigabyte of comments",
                zstd_of("v 10400 3\n", &lines("#", MB), 640),
                40,
                Some("MB, too much for its length; if it is genuine, unpack it first"),
            ),
            ("a large window", window, 8, Some("what is packed in it is damaged")),
            ("a large content", content, 8, Some(": it is empty")),
        ]
    });
}

#[test]
fn headers_that_promise_2_to_the_60() {
    alone("headers_that_promise_2_to_the_60", || {
        let length = [&[4 << 3 | 2][..], &[0xff; 8], &[0x0f]].concat();
        let packed = field(2, &[&[0x0a][..], &[0xff; 8], &[0x0f]].concat());
        vec![
            ("a length in pprof", pprof(&[length]), 4, Some("ends after the end of the file")),
            ("a length within a sample of pprof", pprof(&[packed]), 4, Some("neither a recording")),
            ("a string of heaptrack's", text(&["v 10400 3\ns fffffffffffffff a\n+ 0\n"]), 2, None),
            (
                "a stack of heaptrack's",
                text(&["v 10400 3\ns 1 a\ni 10 1\nt 1 fffffffffffffff\n"]),
                2,
                Some("no such stack"),
            ),
            (
                "a frame of DHAT's",
                text(&[DHAT, r#"{"tb":1,"tbk":1,"fs":[1152921504606846976]}],"ftbl":["[root]"]}"#]),
                2,
                Some("damaged"),
            ),
            ("nodes of massif's", text(&[MASSIF, "n18446744073709551615: 9 (heap)\n"]), 2, Some("ends within a tree")),
            (
                "blocks of gperftools'",
                text(&[
                    "heap profile: 1: 1152921504606846976 [ 1: 1152921504606846976] @ heapprofile\n 1: 1152921504606846976 [ 1: 1152921504606846976] @ 0x10\n",
                ]),
                2,
                None,
            ),
            (
                "blocks of jemalloc's",
                text(&[
                    "heap_v2/1\n  t*: 1: 1152921504606846976 [0: 0]\n@ 0x10\n  t*: 1: 1152921504606846976 [0: 0]\n",
                ]),
                2,
                None,
            ),
            ("a count of dtrace's", text(&["\n  a`f+0x1\n  1152921504606846976\n"]), 2, None),
            ("a count of bpftrace's", text(&["@[\n    f+0\n]: 1152921504606846976\n"]), 2, None),
            ("a count of folded stacks", text(&["a;b 1152921504606846976\n"]), 2, None),
        ]
    });
}

#[test]
fn stacks_of_a_million_frames() {
    alone("stacks_of_a_million_frames", || {
        const N: usize = 1_000_000;
        let sample = field(2, &[field(1, &vec![1; N]), field(2, &[7])].concat());
        let chain: String = (0..N).map(|at| format!("t 1 {at:x}\n")).collect();
        vec![
            ("10^6 frames of pprof", pprof(&[field(4, &[8, 1]), sample]), 16, None),
            ("10^6 frames of folded stacks", text(&[&lines("f;", N), "g 1\n"]), 40, None),
            ("10^6 frames of dtrace", text(&["    a`f\n  1\n", &lines("     a`f+0x1\n", N), "   3\n"]), 40, None),
            ("10^6 frames of bpftrace", text(&["@m[\n", &lines("    f+1\n", N), "]: 3\n"]), 40, None),
            ("10^6 frames of jemalloc", text(&["heap_v2/1\n@", &lines(" 0x1", N), "\n t*: 1: 1 [0: 0]\n"]), 40, None),
            (
                "10^6 frames of gperftools",
                text(&["heap profile: 1: 1 [ 1: 1] @ heapprofile\n 1: 1 [ 1: 1] @", &lines(" 0x1", N), "\n"]),
                40,
                None,
            ),
            (
                "10^6 frames of heaptrack",
                text(&["v 10400 3\ns 1 a\ni 10 1\n", &chain, &format!("a 8 {N:x}\n+ 0\n")]),
                200,
                None,
            ),
            (
                "10^6 frames of DHAT",
                text(&[DHAT, r#"{"tb":1,"tbk":1,"fs":[1"#, &lines(",1", N - 1), r#"]}],"ftbl":["[root]","0x1: f"]}"#]),
                40,
                None,
            ),
            (
                "frames of massif",
                text(&[MASSIF, &lines("n1: 9 0x1: f (a.c:1)\n", N / 10)]),
                8,
                Some("the tree is deeper"),
            ),
            (
                "10^6 frames of heaptrack_print",
                text(&[
                    "PEAK MEMORY CONSUMERS\n1.50K peak memory consumed over 3 calls from\nf\n  in /bin/a\n1.00K consumed over 2 calls from:\n",
                    &lines("    g\n      in ??\n", N),
                ]),
                40,
                None,
            ),
            ("brackets of JSON", text(&[r#"{"dhatFileVersion":2,"x":"#, &lines("[", N)]), 8, Some("damaged at line 1")),
        ]
    });
}

/// Each of them small, and very many.
#[test]
fn very_many_of_what_costs_nothing_to_write() {
    alone("very_many_of_what_costs_nothing_to_write", || {
        vec![
            ("samples without a stack", pprof(&vec![field(2, &field(2, &[7])); 2_000_000]), 40, None),
            ("samples without values", pprof(&vec![field(2, &[]); 2_000_000]), 40, Some("a sample has 0 values")),
            (
                "labels of processes",
                {
                    let process = |at: u32| {
                        field(
                            2,
                            &[field(2, &[7]), field(3, &[8, 4, 24, 0x80 | at as u8 & 0x7f, (at >> 7) as u8 & 0x7f])]
                                .concat(),
                        )
                    };
                    pprof(&[vec![field(6, b"pid")], (0..16384).map(process).collect()].concat())
                },
                24,
                None,
            ),
            (
                "points without a stack",
                text(&[
                    DHAT,
                    r#"{"tb":1,"tbk":1,"fs":[]}"#,
                    &lines(r#",{"tb":1,"tbk":1,"fs":[]}"#, 300_000),
                    r#"],"ftbl":["[root]"]}"#,
                ]),
                100,
                None,
            ),
        ]
    });
}
