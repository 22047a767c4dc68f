//! Recordings with right checksums that claim much: a reader takes no more memory than what the file has really brought
//! allows, and says in one line what is wrong with it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Cursor;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mallow_capture::recording::Reader;
use proptest::prelude::*;

/// Counts the bytes that the process holds: one test at a time reads.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALONE: Mutex<()> = Mutex::new(());

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

const MB: usize = 1 << 20;
/// What a file of some kilobytes may cost: its budget of 64 MB, lists that double while they grow, and one block
/// unpacked.
const LIMIT: usize = 256 * MB;
/// What each byte of a file may cost beside that.
const EACH_BYTE: usize = 256;
/// A column has no more.
const COLUMN: usize = 8 * MB;

const TABLES: u8 = 2;
const SOURCES: u8 = 10;
const FOOTPRINT: u8 = 21;
/// Every kind that a reader keeps whole.
const KINDS: [u8; 19] = [1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 20, 21, 43];

fn block(kind: u8, columns: &[Vec<u8>]) -> Vec<u8> {
    let packed: Vec<_> = columns.iter().map(|column| zstd::bulk::compress(column, 3).expect("packs")).collect();
    let mut payload = Vec::new();
    for (column, packed) in columns.iter().zip(&packed) {
        payload.extend((column.len() as u32).to_le_bytes());
        payload.extend((packed.len() as u32).to_le_bytes());
    }
    payload.extend(packed.concat());
    let head = [&[kind, columns.len() as u8, 0, 0][..], &(payload.len() as u32).to_le_bytes()].concat();
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head);
    checksum.update(&payload);
    [head, checksum.finalize().to_le_bytes().to_vec(), payload].concat()
}

/// Fields of the end of a process, a byte each where they are 0.
const PROCESS: usize = 31;

/// A whole recording of one process, with a module and a frame, and these blocks before its ending.
fn recording(blocks: &[Vec<u8>]) -> Vec<u8> {
    let process = vec![1, 0, 0, 0, 0, 1, b'a', 0];
    let (module, frame) = (vec![1, b'm', 0], [vec![2], vec![0]]);
    let tables = [vec![1, 0, 1, 1, 0, 0], process, vec![], module];
    let tables = [&tables[..], &frame[..], &vec![Vec::new(); 4][..]].concat();
    let mut file = b"\x89mallow\n\x04\0\0\0\0\0\0\0".to_vec();
    file.extend(block(1, &[vec![0, 1, 1, b'a']]));
    file.extend(block(TABLES, &tables));
    file.extend(block(5, &[vec![0; PROCESS]]));
    file.extend(blocks.concat());
    file.extend(block(7, &[vec![0; 9]]));
    let index = file.len() as u64;
    file.extend(block(8, &[vec![0], vec![], vec![], vec![], vec![]]));
    file.extend(index.to_le_bytes());
    file.extend(b"\nwollam\x89");
    file
}

/// As many of these bytes as a column has room for, after a beginning.
fn filled(begin: &[u8], pattern: &[u8]) -> Vec<u8> {
    let times = (COLUMN - begin.len()) / pattern.len();
    [begin, &pattern.repeat(times)].concat()
}

/// A number of five bytes: about 2^28.
const MANY: [u8; 4] = [0xff, 0xff, 0xff, 0x7f];

/// Tables with so many columns filled, that announce as many entries as they can.
fn tables(entry: usize, columns: &[(usize, &[u8])]) -> Vec<u8> {
    let mut all = vec![Vec::new(); 10];
    for count in 0..6 {
        all[0].extend(if count == entry { &MANY[..] } else { &[0] });
    }
    columns.iter().for_each(|&(column, pattern)| all[column] = filled(&[], pattern));
    block(TABLES, &all)
}

/// What each of a few bytes becomes most memory of, by kind.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let one = |kind: u8, begin: &[u8], pattern: &[u8]| block(kind, &[filled(begin, pattern)]);
    let two = |kind: u8, patterns: [&[u8]; 2]| block(kind, &patterns.map(|pattern| filled(&[], pattern)));
    let zeros = |count| vec![0u8; count];
    // A name of 1 MB, and then mappings that have the same.
    let name = [&[0, 0x80, 0x80, 0x40][..], &b"n".repeat(MB), &vec![1; 100_000]].concat();
    let head = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &[0xa0, 0x8d, 6]].concat();
    let mapping = [head, filled(&[], &[1, 1]), zeros(COLUMN), name, zeros(COLUMN)];
    // Strings that are all different.
    let strings = (0..COLUMN as u32 / 5).flat_map(|at| [&[4][..], &at.to_le_bytes()].concat()).collect();
    let arguments = [&[1, 0, 0, 0, 0, 0][..], &MANY].concat();
    vec![
        ("words of the command", one(1, &[&[0][..], &MANY].concat(), &[0])),
        ("processes", tables(0, &[(1, &[1, 0, 0, 0, 0, 0, 0])])),
        ("arguments", {
            let mut all = vec![Vec::new(); 10];
            (all[0], all[1]) = (vec![1, 0, 0, 0, 0, 0], filled(&arguments, &[0]));
            block(TABLES, &all)
        }),
        ("threads", tables(1, &[(2, &[0, 1])])),
        ("modules", tables(2, &[(3, &[0, 0])])),
        ("frames", tables(3, &[(4, &[0]), (5, &[0])])),
        ("stacks", tables(4, &[(6, &[1]), (7, &[1])])),
        ("sites", tables(5, &[(8, &[0]), (9, &[2])])),
        ("strings of lines", block(6, &[vec![0], strings, vec![]])),
        ("lines", block(6, &[MANY.to_vec(), vec![1, b'f'], filled(&[], &[0, 1, 0, 0, 0, 0])])),
        ("notes", one(9, &[&[0, 0, 0, 0, 0, 0][..], &MANY].concat(), &[0, 1, b'a'])),
        ("names", one(9, &[0, 0], &[0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("regions", one(12, &[], &[0, 1, 0, 1, b'a'])),
        ("allocators", two(14, [&[0, 1, b'a', 1, b'b'], &[0]])),
        ("cycles", one(43, &[&[0, 0, 0][..], &MANY].concat(), &[1, 1, 1, 1, 0])),
        ("lost blocks", one(43, &[&[0, 0][..], &MANY].concat(), &[0, 0, 1, 1])),
        ("scans", one(43, &[], &[0, 1, 1, b'a', 0, 0])),
        ("executed names", one(16, &[], &[0, 1, b'a'])),
        ("unrecorded programs", one(17, &[], &[5, b'a', b'a', b'a', b'a', b'a'])),
        ("short sentences", one(17, &[], &[0])),
        ("allocators inside", two(20, [&[1, b'a', 1, b'a', 1, b'a', 1, b'a', 1, b'a', 1, b'a', 0], &[0, 0]])),
        ("mappings of one name", block(FOOTPRINT, &mapping)),
        ("RSS", one(24, &[&[0][..], &MANY].concat(), &[0, 1, 1])),
        ("RSS of many", two(24, [&[0, 0], &[0]])),
        ("size classes", one(25, &[&[0][..], &MANY].concat(), &[1])),
        ("sources", block(SOURCES, &[MANY.to_vec(), filled(&[], &[0, 1, b'a', 1, b'a', 0]), zeros(COLUMN)])),
    ]
}

/// Reads everything that a reader keeps whole: the profile, and the sources. Returns why not, and what it took.
fn read(file: &[u8]) -> (Result<(), String>, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let read = Reader::new(Cursor::new(file), &mut |_| {}).and_then(|(mut reader, profile)| {
        assert_eq!(profile.check(), Ok(()));
        reader.sources().map(|_| ())
    });
    (read.map_err(|error| error.to_string()), PEAK.load(Relaxed) - before)
}

#[test]
fn an_honest_file_is_read() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    assert_eq!(read(&recording(&[])).0, Ok(()));
    let blocks = [block(17, &[vec![1, b'a']]), block(SOURCES, &[vec![1], vec![0, 1, b'a', 1, b'a', 0], vec![1, b'x']])];
    assert_eq!(read(&recording(&blocks)).0, Ok(()));
}

/// Twenty blocks of each kind, as large as blocks are: refused, within the memory that a small file may take. Cut
/// short, too.
#[test]
fn a_small_file_takes_little_memory() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    for (what, bomb) in bombs() {
        for copies in [1, 20] {
            let mut file = recording(&vec![bomb.clone(); copies]);
            let limit = LIMIT + EACH_BYTE * file.len();
            let (whole, peak) = read(&file);
            assert!(peak <= limit, "{what} × {copies}: {} MB of {} bytes", peak / MB, file.len());
            let error = whole.err().unwrap_or_default();
            let is_refused = error.starts_with("the recording is damaged at byte ") && error.lines().count() == 1;
            // Numbers and strings that are all different do not pack well: their file has what it claims.
            let is_small = file.len() < 512 << 10;
            assert!(is_refused || copies == 1 || !is_small, "{what} × {copies}: {error:?}");
            file.truncate(file.len() - 16);
            let (_, peak) = read(&file);
            assert!(peak <= limit, "{what} × {copies}, cut: {} MB", peak / MB);
        }
    }
}

#[test]
fn a_second_block_of_a_kind_that_comes_once_is_damage() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let once = [
        block(1, &[vec![0, 0]]),
        block(5, &[vec![0; PROCESS]]),
        block(7, &[vec![0; 9]]),
        block(12, &[vec![]]),
        block(14, &[vec![]]),
        block(16, &[vec![]]),
        block(17, &[vec![]]),
        block(18, &[vec![]]),
        block(20, &[vec![]]),
        block(25, &[vec![]]),
    ];
    for one in once {
        let kind = one[0];
        let (result, _) = read(&recording(&[one.clone(), one]));
        let error = result.expect_err("twice");
        assert!(error.ends_with("a second block of a kind that comes once"), "{kind}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Columns of any small entry again and again, of any kind, any number of times.
    #[test]
    fn any_repeated_entry_takes_little_memory(
        kind: prop::sample::Index,
        begin in prop::collection::vec(any::<u8>(), 0..8),
        patterns in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..3, any::<u8>()], 1..9), 1..11),
        is_tables: bool,
        copies in 1usize..24,
    ) {
        let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
        let kind = if is_tables { TABLES } else { *kind.get(&KINDS) };
        let mut columns: Vec<_> = patterns.iter().map(|pattern| filled(&[], pattern)).collect();
        columns[0] = filled(&begin, &patterns[0]);
        let file = recording(&vec![block(kind, &columns); copies]);
        let (_, peak) = read(&file);
        prop_assert!(peak <= LIMIT + EACH_BYTE * file.len(), "kind {} × {}: {} MB", kind, copies, peak / MB);
    }
}
