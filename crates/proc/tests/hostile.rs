//! Whatever these files hold, nothing panics, and what is found in them makes sense.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::OnceLock;

use mallow_proc::{
    DELETED, Mapping, SmapsLine, Stat, Status, Task, auxiliary_vector, mappings, parse_smaps, read_maps, read_smaps,
    vdso,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Reads bytes as each of the files.
fn read_all(bytes: &[u8]) {
    let check = |one: Mapping<&[u8]>| {
        assert!(one.start < one.end && one.contains(one.start) && !one.contains(one.end));
        assert!(!one.path.contains(&b'\n') && !one.path.starts_with(b" "));
        assert!(!one.is_closed() || !one.is_data());
        let owned = one.into_owned();
        assert_eq!((owned.is_anonymous(), owned.is_deleted()), (one.is_anonymous(), one.is_deleted()));
        assert!(one.map_file(1).starts_with("/proc/1/map_files"));
    };
    mappings(bytes).for_each(check);
    parse_smaps(&mut &*bytes, &mut |line| match line {
        SmapsLine::Mapping(one) => check(one),
        SmapsLine::Size { name, bytes } => {
            assert!(name.first().is_some_and(u8::is_ascii_uppercase) && !name.contains(&b':'));
            assert!(bytes.is_multiple_of(1024) || bytes == u64::MAX);
        }
        SmapsLine::Flag(flag) => assert!(!flag.is_empty() && !flag.contains(&b' ')),
    })
    .expect("memory does not fail");
    if let Some(stat) = Stat::parse(bytes) {
        let _ = (stat.name(), stat.state(), stat.threads(), stat.start_ticks());
        let _ = (stat.minor_faults(), stat.child_minor_faults());
    }
    let status = Status::parse(bytes);
    let _ = (status.name(), status.state(), status.group(), status.parent(), status.tracer(), status.users());
    let _ = (status.threads(), status.innermost_pid(), status.is_kernel_thread(), status.effective_capabilities());
    let _ = (status.seccomp_mode(), status.seccomp_filters(), status.virtual_bytes(), status.data_bytes());
    let _ = (status.rss_bytes(), status.peak_rss_bytes(), status.pending_signals());
}

/// The files of this process, one behind the other.
fn real() -> Vec<u8> {
    static FILES: OnceLock<Vec<u8>> = OnceLock::new();
    let file = |name| std::fs::read(format!("/proc/self/{name}")).expect(name);
    FILES.get_or_init(|| ["maps", "smaps", "stat", "status"].map(file).concat()).clone()
}

/// Pieces that these files are made of, and what a hostile process puts among them.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed: [&[u8]; 36] = [
        b"\n",
        b" ",
        b"  ",
        b"-",
        b":",
        b"\t",
        b"(",
        b")",
        b") ",
        b"0",
        b"7f00",
        b"8000",
        b"ffffffffffffffff",
        b"10000000000000000",
        b"18446744073709551616",
        b"rw-p",
        b"---p",
        b"r-xs",
        b"fe:00",
        b" kB",
        b"/a b",
        b" (deleted)",
        b"[anon:",
        b"[stack]",
        b"[vdso]",
        b"\\012",
        b"/SYSV",
        b"\xe9",
        b"Rss:",
        b"VmFlags: rd",
        b"VmRSS:",
        b"State:",
        b"Uid:",
        b"NSpid:",
        b"Name:",
        b"\x00",
    ];
    prop_oneof![
        8 => proptest::sample::select(fixed.to_vec()).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..8),
        2 => Just(b"7f00-8000 rw-p 00000000 00:00 0 ".to_vec()),
    ]
}

/// A path as the kernel writes it: without newlines, and not beginning with a blank.
fn path() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40).prop_map(|bytes| {
        let bytes: Vec<u8> = bytes.into_iter().filter(|&byte| byte != b'\n' && byte != 0).collect();
        if bytes.is_empty() { bytes } else { [b"/", &bytes[..]].concat() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn bytes_are_read(bytes in vec(any::<u8>(), 0..2000)) {
        read_all(&bytes);
    }

    #[test]
    fn pieces_are_read(pieces in vec(piece(), 0..60)) {
        read_all(&pieces.concat());
    }

    /// Cut anywhere, with bytes of it replaced.
    #[test]
    fn damaged_files_are_read(from: usize, to: usize, changes in vec((any::<usize>(), any::<u8>()), 0..20)) {
        let mut bytes = real();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let (from, to) = (from % bytes.len(), to % bytes.len());
        read_all(&bytes[from.min(to)..from.max(to)]);
    }

    /// What the kernel writes of a mapping is that mapping.
    #[test]
    fn a_mapping_is_read_as_it_was_written(
        (start, bytes) in (0..1u64 << 56, 1..1u64 << 40),
        rights: [bool; 4],
        (offset, inode) in any::<(u64, u64)>(),
        device in (0..1u32 << 12, 0..1u32 << 20),
        path in path(),
    ) {
        let [readable, writable, executable, shared] = rights;
        let end = start + bytes;
        let right = |has, letter| if has { letter } else { '-' };
        let letters: String = [right(readable, 'r'), right(writable, 'w'), right(executable, 'x')].iter().collect();
        let sharing = if shared { 's' } else { 'p' };
        let head = format!("{start:08x}-{end:08x} {letters}{sharing} {offset:08x} {:02x}:{:02x} {inode} ", device.0, device.1);
        let line = [format!("{head:<73}").as_bytes(), &path, b"\n"].concat();
        let expected =
            Mapping { start, end, readable, writable, executable, shared, offset, device, inode, path: &path[..] };
        prop_assert_eq!(mappings(&line).collect::<Vec<_>>(), [expected]);
        prop_assert_eq!(expected.is_deleted(), path.ends_with(DELETED.as_bytes()));
    }

    /// No name of a process changes what its numbers are.
    #[test]
    fn a_name_hides_no_number(name in vec(any::<u8>(), 0..16), faults: u64, start: u64, state in "[RSDZTtXI]") {
        let numbers = format!(") {state} 1 7 7 0 -1 4194304 {faults} 3 0 0 1 2 0 0 20 0 5 0 {start} 9 9\n");
        let line = [b"7 (", &name[..], numbers.as_bytes()].concat();
        let stat = Stat::parse(&line).expect("a whole line");
        prop_assert_eq!((stat.name(), stat.state()), (&name[..], state.as_bytes()[0]));
        prop_assert_eq!((stat.minor_faults(), stat.start_ticks()), (Some(faults), Some(start)));
        prop_assert_eq!((stat.child_minor_faults(), stat.threads()), (Some(3), Some(5)));
    }
}

#[test]
fn huge_files_are_read() {
    let long = [b"7f00-8000 rw-p 00000000 00:00 0 /", &[b'x'; 1 << 20][..]].concat();
    assert_eq!(mappings(&long).next().map(|one| one.path.len()), Some((1 << 20) + 1));
    read_all(&long);
    let many = b"7f00-8000 rw-p 00000000 00:00 0 \nRss: 4 kB\n".repeat(100_000);
    assert_eq!(mappings(&many).count(), 100_000);
    read_all(&many);
    read_all(&b"(".repeat(1 << 20));
    read_all(&b"Uid:".repeat(1 << 18));
}

/// Ends with the test.
struct Hostile(Child);

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A living process whose names hold all that separates fields. It lies in a directory with such a name, too.
#[test]
fn a_process_with_hostile_names_is_read() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().join(OsStr::from_bytes(b"a b\n00-ff rwxs \xe9 [vdso] (deleted)"));
    std::fs::create_dir(&directory).expect("a directory");
    let name = b"x) R (\nUid:\t\xe9 (deleted)";
    let program = directory.join(OsStr::from_bytes(name));
    std::fs::copy("/bin/sleep", &program).expect("a copy");
    let hostile = Hostile(Command::new(&program).arg("60").spawn().expect("it starts"));
    let pid = hostile.0.id();
    // It shares the memory of this process until it executes.
    let sleeps = |stat: &Stat| stat.state() == b'S' && stat.name() == &name[..15];
    while !sleeps(&Stat::read(pid).expect("it lives")) {
        std::thread::yield_now();
    }
    let text = read_maps(pid).expect("maps");
    let all: Vec<_> = mappings(&text).collect();
    assert_eq!(all.len(), text.iter().filter(|&&byte| byte == b'\n').count(), "each line is a mapping");
    let code = all.iter().find(|one| one.executable && one.path.ends_with(b"x) R (\\012Uid:\t\xe9 (deleted)"));
    assert!(code.is_some_and(|code| code.inode > 0 && code.path.starts_with(b"/")), "{all:?}");
    assert!(all.iter().any(|one| one.path == b"[stack]"));
    let mut found = (0, 0);
    let mut count = |line: SmapsLine<'_>| match line {
        SmapsLine::Mapping(_) => found.0 += 1,
        SmapsLine::Size { name: b"Size", bytes } => found.1 += bytes,
        _ => {}
    };
    read_smaps(pid, &mut count).expect("smaps");
    assert_eq!(found, (all.len(), all.iter().map(|one| one.end - one.start).sum()));
    let status = Status::read(Task::Thread { process: pid, thread: pid }).expect("status");
    assert_eq!(status.name().as_deref(), Some("x) R (\\nUid:\t\u{fffd} ("));
    assert_eq!((status.group(), status.parent()), (Some(pid), Some(std::process::id())));
    assert_eq!(status.users(), Status::read(Task::Own).expect("own").users());
    assert!(status.rss_bytes() > Some(0) && status.peak_rss_bytes() >= status.rss_bytes());
    let stat = Stat::read(pid).expect("stat");
    assert!(stat.threads() == Some(1) && stat.start_ticks() >= Stat::read(Task::Own).expect("own").start_ticks());
    assert_ne!(auxiliary_vector(pid).expect("auxv"), auxiliary_vector(Task::Own).expect("own"));
}

#[test]
fn the_vdso_is_an_elf_file() {
    let Some(image) = vdso().expect("own mappings") else {
        return eprintln!("not run: the_vdso_is_an_elf_file: the kernel gives this process none");
    };
    assert!(image.starts_with(b"\x7fELF") && image.len().is_multiple_of(4096));
}
