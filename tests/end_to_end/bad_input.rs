//! Bad input: one clear line, a status that is not 0, never a panic or a hang.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Case, Outcome, Recorded, Run, directory, mallow, program, rounds};
use tempfile::TempDir;

fn run(place: &Path, arguments: &[&str]) -> Outcome {
    Run::new(mallow(), place).args(arguments).limit(Duration::from_secs(60)).go()
}

/// Mallow prints one line on standard error and nothing on standard output, and its exit status shows the failure.
fn refused(what: &str, run: &Outcome) -> String {
    let err = run.err();
    assert!(run.stdout.is_empty(), "{what}: {}", run.out());
    assert!(err.lines().count() == 1 && err.starts_with("mallow: "), "{what}: not one clear line: {err:?}");
    assert!(run.status > 0 && run.status < 128 && run.status != 101, "{what}: status {}", run.status);
    err
}

/// A small recording of a real program.
fn recording() -> (TempDir, PathBuf) {
    let record = Case::target("busy").args(["2", "20"]).record();
    (record.directory, record.file)
}

const READERS: [&[&str]; 16] = [
    &["report"],
    &["report", "--json"],
    &["top"],
    &["leaks"],
    &["flame", "-o", "-"],
    &["timeline"],
    &["timeline", "--at", "peak", "--json"],
    &["tree", "--callers"],
    &["list", "."],
    &["report", "--size", "..500"],
    &["report", "--lifetime", "..2ms"],
    &["top", "--time", "1ms..90%", "--when", "live"],
    &["tree", "--time", "..50%", "--when", "freed"],
    &["leaks", "--process", "busy"],
    &["flame", "-o", "-", "--focus", "churn", "--lifetime", "0.."],
    &["timeline", "--ignore", "main", "--size", "2.."],
];

#[test]
fn missing_command() {
    let place = directory();
    for way in ["stat", "record"] {
        for command in ["/no/such/program", "no-such-program", "", "/etc/passwd", "/etc", "/etc/passwd/x"] {
            let err = refused(&format!("{way} {command:?}"), &run(place.path(), &[way, "--", command]));
            assert!(command.is_empty() || err.contains(command), "{err}");
        }
        let run = run(place.path(), &[way]);
        assert!(run.status != 0 && !run.err().is_empty() && !run.err().contains("panicked"), "{}", run.err());
    }
    assert_eq!(fs::read_dir(place.path()).expect("the place").count(), 0, "no file is left");
}

/// As shells have it: 127 for what is not there, 126 for what cannot be run.
#[test]
fn status_of_a_command_that_cannot_run() {
    let place = directory();
    for way in ["stat", "record"] {
        assert_eq!(run(place.path(), &[way, "--", "/no/such/program"]).status, 127);
        assert_eq!(run(place.path(), &[way, "--", "/etc/passwd"]).status, 126);
        let directory = run(place.path(), &[way, "--", "."]);
        assert_eq!((directory.status, directory.err().contains(".: a directory, and no program")), (126, true));
    }
}

#[test]
fn script_without_interpreter() {
    let place = directory();
    let script = place.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    for way in ["stat", "record"] {
        refused(way, &run(place.path(), &[way, "--", "./script"]));
    }
}

#[test]
fn output_that_cannot_be_written() {
    let place = directory();
    let inside = program("busy");
    let command = inside.to_str().expect("a plain path");
    for way in ["stat", "record"] {
        for output in ["/no/such/directory/out", "/proc/out", ".", "/etc/passwd/out"] {
            let err = refused(way, &run(place.path(), &[way, "-o", output, "--", command, "1", "1"]));
            assert!(err.contains(output), "{err}");
        }
    }
}

#[test]
fn what_is_no_recording() {
    let place = directory();
    fs::write(place.path().join("empty"), "").expect("a file");
    fs::write(place.path().join("zeros"), vec![0; 100_000]).expect("a file");
    let files = ["/etc/passwd", "/no/such/file", "/etc", "empty", "zeros", "/dev/null", "/proc/self/maps", "/bin/sh"];
    for file in files {
        for reader in READERS {
            let arguments: Vec<&str> = reader.iter().copied().chain([file]).collect();
            let err = refused(&format!("{arguments:?}"), &run(place.path(), &arguments));
            assert!(err.contains(file), "{err}");
        }
    }
}

/// The version follows the eight bytes of the file's name for itself.
#[test]
fn from_a_newer_version() {
    let (place, file) = recording();
    let mut bytes = fs::read(file).expect("a recording");
    bytes[8..12].copy_from_slice(&7u32.to_le_bytes());
    fs::write(place.path().join("newer.mallow"), bytes).expect("a file");
    for reader in READERS {
        let arguments: Vec<&str> = reader.iter().copied().chain(["newer.mallow"]).collect();
        let err = refused(&format!("{arguments:?}"), &run(place.path(), &arguments));
        assert!(err.contains("newer.mallow") && err.contains('7'), "{err}");
    }
}

#[test]
fn a_name_typed_wrong_costs_no_recording() {
    let (place, file) = recording();
    let before = fs::read(&file).expect("a recording");
    let output = file.to_str().expect("a plain path");
    for command in ["/no/such/program", "no-such-program", "/etc/passwd", "/etc"] {
        refused(command, &run(place.path(), &["record", "-o", output, "--", command]));
        assert_eq!(fs::read(&file).expect("the recording"), before, "{command}");
    }
}

#[test]
fn an_error_message_names_the_remedy() {
    let (place, _) = recording();
    fs::write(place.path().join("notes.txt"), "no profile\n").expect("a file");
    let formats = "(pprof, heaptrack, heaptrack_print, DHAT, massif, jemalloc, gperftools, php-memprof, Go text, dtrace, bpftrace, \
                   folded)";
    let nowhere = "cannot write nowhere/x: there is no directory nowhere";
    for (line, status, expected) in [
        (
            "list run.mallow",
            2,
            "run.mallow is a file; which functions? mallow list REGEX run.mallow, where . matches all",
        ),
        ("man nosuch", 2, "there is no command nosuch; there are stat, record, run, "),
        ("report notes.txt", 1, formats),
        ("top --limit ten run.mallow", 2, "invalid value 'ten' for '--limit <N>': a whole number is wanted; "),
        ("record --max-depth 99999999999 -- true", 2, "99999999999 is not in 1..=4096"),
        ("stat --quiet 1000 -- true", 2, "times have a unit: 200ms, 1.5s"),
        ("flame -o nowhere/x run.mallow", 1, nowhere),
        ("timeline -o nowhere/x run.mallow", 1, nowhere),
        ("export --format folded -o nowhere/x run.mallow", 1, nowhere),
        ("merge -o nowhere/x run.mallow notes.txt", 1, nowhere),
        ("pack -o nowhere/x run.mallow", 1, nowhere),
        ("record -o nowhere/x -- true", 125, nowhere),
        ("stat -o nowhere/x -- true", 125, nowhere),
    ] {
        let outcome = run(place.path(), &line.split(' ').collect::<Vec<_>>());
        let err = refused(line, &outcome);
        assert!(outcome.status == status && err.contains(expected), "{line}: {} {err}", outcome.status);
    }
}

/// What a flag allows is in its error, with examples.
#[test]
fn a_wrong_amount_is_refused_with_the_right_ones() {
    let (place, _) = recording();
    const LIMITS: &str = "an amount of what is compared (1000, 0.5, 64k, 4Ki) or a share of BEFORE (5%)";
    const SIZES: &str = "sizes are bytes, or have a unit: 64, 4k (4000), 4Ki (4096), 1M";
    const TIMES: &str = "times have a unit: 200ms, 1.5s, 2m, 1h";
    for (line, expected) in [
        ("diff --fail-above much run.mallow run.mallow", LIMITS),
        ("diff --fail-above x% run.mallow run.mallow", LIMITS),
        ("diff --min 5% run.mallow run.mallow", "an amount of what is compared, and no share: 1000, 0.5, 64k, 4Ki"),
        ("diff --per 0 run.mallow run.mallow", "a number above 0: 11000, 0.5"),
        ("top --min 5q run.mallow", "a share of the whole (2%) or an amount of what is shown (1000, 64k, 4Ki)"),
        ("report --size big run.mallow", "sizes are N or A..B, of which one may be missing: 24, 64..128, ..4k, 1Mi.."),
        ("report --lifetime 5..6 run.mallow", "A..B with units, of which one may be missing: ..1ms, 200ms..1.5s, 2m.."),
        ("report --time 5s run.mallow", "two ends, of which one may be missing: 1.5s..2s, ..200ms, 40%.."),
        ("report --time x.. run.mallow", "two ends, of which one may be missing: 1.5s..2s, ..200ms, 40%.."),
        ("rss --at now run.mallow", "highest, end, a time (1.5s, 200ms) or a share of the recording (40%)"),
        ("timeline --at now run.mallow", "peak, end, a time (1.5s, 200ms) or a share of the recording (40%)"),
        ("run --period 0 -- true", "periods are 1 to 4294967295 bytes: 64KiB, 1M"),
        ("run --period many -- true", SIZES),
        ("guard --memory many -- true", SIZES),
        ("guard --alignment 3 -- true", "a power of two, 1 to 4096: 8, 16"),
        ("guard --require-guarded=x -- true", "a percentage, 0% to 100%: 95%"),
        ("watch --every 5 -- true", TIMES),
        ("watch --every 5ms -- true", "at least 100ms: 500ms, 10s, 10m"),
        (
            "watch --save-at 0% -- true",
            "a share of a limit, above 0% and at most 100% (90%), or a size of RSS (512M, 2GiB)",
        ),
        ("record --for 5 -p 1", TIMES),
    ] {
        let outcome = run(place.path(), &line.split(' ').collect::<Vec<_>>());
        let err = refused(line, &outcome);
        assert!(outcome.status == 2 && err.contains(expected), "{line}: {} {err}", outcome.status);
    }
}

/// Never ends, and is no recording.
#[test]
fn endless_file() {
    let place = directory();
    for file in ["/dev/zero", "/dev/urandom"] {
        refused(file, &run(place.path(), &["report", file]));
    }
}

#[test]
fn recover_what_is_no_run_directory() {
    let place = directory();
    fs::create_dir(place.path().join("empty")).expect("a directory");
    fs::write(place.path().join("file"), "x").expect("a file");
    for dir in ["empty", "file", "/no/such/directory", "/proc", "/etc"] {
        refused(dir, &run(place.path(), &["recover", dir]));
    }
}

/// A copy of the recording with other bytes, read by one command: readable, or refused in one line.
fn readable_or_refused(what: &str, place: &Path, bytes: &[u8], reader: &[&str]) -> bool {
    fs::write(place.join("changed"), bytes).expect("a changed copy");
    // A few kB can claim much: no address space of more than 1 GiB.
    let within =
        Run::new("prlimit", place).args(["--as=1073741824", "--"]).arg(mallow()).limit(Duration::from_secs(60));
    let outcome = within.args(reader).arg("changed").go();
    assert!(!outcome.err().contains("panicked"), "{what}: {}", outcome.err());
    if outcome.status == 0 {
        return true;
    }
    refused(what, &outcome);
    false
}

#[test]
fn recordings_cut_short() {
    let (place, file) = recording();
    let whole = fs::read(&file).expect("the recording");
    let step = (whole.len() / 60).max(1);
    let mut readable = 0;
    let lengths = (0..64).chain((64..whole.len()).step_by(step)).chain(whole.len() - 20..whole.len());
    for (n, length) in lengths.enumerate() {
        let reader = READERS[n % READERS.len()];
        readable +=
            usize::from(readable_or_refused(&format!("cut at {length}"), place.path(), &whole[..length], reader));
    }
    assert!(readable > 0, "a recording is readable up to the cut");
}

/// In its own lines, or on standard error.
#[test]
fn every_view_says_that_a_recording_is_cut_short() {
    let Recorded { directory: place, file, .. } = Case::sqlite(20_000).record();
    let whole = fs::read(&file).expect("the recording");
    fs::write(place.path().join("cut"), &whole[..whole.len() * 9 / 10]).expect("a part of it");
    let views: [&[&str]; 13] = [
        &["report"],
        &["top"],
        &["top", "--json"],
        &["tree"],
        &["list", "sqlite3"],
        &["leaks"],
        &["flame", "-o", "-"],
        &["timeline"],
        &["timeline", "-o", "-"],
        &["timeline", "--at", "peak"],
        &["diff", file.to_str().expect("UTF-8")],
        &["export", "--format", "folded", "-o", "-"],
        &["pack", "-o", "packed"],
    ];
    for view in views {
        let outcome = run(place.path(), &[view, &["cut"]].concat());
        assert_eq!(outcome.status, 0, "{view:?}: {}", outcome.err());
        let said = [outcome.out(), outcome.err()].concat();
        assert!(said.contains("is cut short"), "{view:?}: {said}");
    }
}

#[test]
fn recordings_with_flipped_bits() {
    let (place, file) = recording();
    let whole = fs::read(&file).expect("the recording");
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for n in 0..rounds(400) as usize {
        let mut bytes = whole.clone();
        for _ in 0..=random(4) {
            // Half of them near the beginning, which defines what the rest means.
            let at = if random(2) == 0 { random(bytes.len().min(400)) } else { random(bytes.len()) };
            bytes[at] ^= 1 << random(8);
        }
        readable_or_refused(&format!("flip {n}"), place.path(), &bytes, READERS[n % READERS.len()]);
    }
}

/// Pieces of recordings put together in other ways: repeated, left out, swapped.
#[test]
fn recordings_put_together_wrongly() {
    let (place, file) = recording();
    let whole = fs::read(&file).expect("the recording");
    let (first, second) = whole.split_at(whole.len() / 2);
    let twice = [&whole[..], &whole[..]].concat();
    let swapped = [second, first].concat();
    let trailing = [&whole[..], &[0xff; 5000]].concat();
    let hollow = [&whole[..whole.len() / 3], &whole[whole.len() * 2 / 3..]].concat();
    for (what, bytes) in [("twice", twice), ("swapped", swapped), ("trailing", trailing), ("hollow", hollow)] {
        readable_or_refused(what, place.path(), &bytes, READERS[1]);
    }
}

/// A block with a right checksum, of one column.
fn block(kind: u8, column: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(column, 19).expect("packs");
    let lengths = [(column.len() as u32).to_le_bytes(), (packed.len() as u32).to_le_bytes()].concat();
    let payload = [lengths, packed].concat();
    let head = [&[kind, 1, 0, 0][..], &(payload.len() as u32).to_le_bytes()].concat();
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head);
    checksum.update(&payload);
    [head, checksum.finalize().to_le_bytes().to_vec(), payload].concat()
}

/// A recording with these blocks before its ending; the index is right.
fn with_blocks(whole: &[u8], blocks: &[u8]) -> Vec<u8> {
    let mut at = 16;
    while whole[at] != 7 {
        let length = u32::from_le_bytes(whole[at + 4..at + 8].try_into().expect("a length"));
        at += 12 + length as usize;
    }
    let (begin, end) = whole.split_at(at);
    let (end, trailer) = end.split_at(end.len() - 16);
    let index = u64::from_le_bytes(trailer[..8].try_into().expect("an offset")) + blocks.len() as u64;
    [begin, blocks, end, &index.to_le_bytes(), &trailer[8..]].concat()
}

/// 20 kB with right checksums took 3.7 GB: twenty blocks of a kind that comes once, each a column of 8 MiB that packs
/// to less than 1 kB.
#[test]
fn a_small_recording_takes_little_memory() {
    let (place, file) = recording();
    let whole = fs::read(&file).expect("the recording");
    let repeated: [(u8, &[u8]); 5] = [
        (12, &[0, 1, 0, 1, b'a']),
        (14, &[0, 1, b'a', 0]),
        (16, &[0, 1, b'a']),
        (17, b"\x05aaaaa"),
        (18, &[0, 1, b'a']),
    ];
    for (kind, pattern) in repeated {
        let large = block(kind, &pattern.repeat((8 << 20) / pattern.len()));
        for copies in [1, 20] {
            let bytes = with_blocks(&whole, &large.repeat(copies));
            fs::write(place.path().join("bomb"), &bytes).expect("a file");
            for reader in [&["top"][..], &["report", "--json"], &["leaks"]] {
                let what = format!("kind {kind} × {copies}, {} bytes: {reader:?}", bytes.len());
                let run = Run::new(program("with"), place.path()).args(["as=1000000000", "--"]).arg(mallow());
                let run = run.args(reader).arg("bomb").limit(Duration::from_secs(60)).go();
                assert!(run.status < 128 && run.status != 101, "{what}: status {}: {}", run.status, run.err());
                if copies > 1 {
                    let error = refused(&what, &run);
                    assert!(error.contains("is damaged at byte"), "{what}: {error}");
                }
            }
        }
    }
}
