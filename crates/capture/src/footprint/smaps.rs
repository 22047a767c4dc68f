//! The mappings of a process with their sizes: `/proc/PID/smaps`.

use super::Failure;
use crate::wire::{LIBRARY_NAME, is_table_directory};
use mallow_proc::{DELETED, SmapsLine, read_smaps};
use mallow_profile::{Mapping, MappingFlags, MappingKind, MemorySizes};

/// Mappings that a process may have: each costs memory here.
const MOST: usize = 1 << 20;

/// The mappings of process `pid`, by address. `directory`: name of the run directory, whose files are Mallow's share,
/// as are the library and unwind tables wherever they lie.
pub fn mappings(pid: u32, directory: &str) -> Result<Vec<Mapping>, Failure> {
    let mut lines = Lines { all: Vec::new(), directory };
    read_smaps(pid, &mut |line| lines.add(line)).map_err(|error| Failure::of(&error))?;
    let mut all = lines.finish();
    // A process that has no memory any more is about to end.
    if all.is_empty() {
        return Err(Failure::Gone);
    }
    all.sort_by_key(|mapping| mapping.start);
    let mut end = 0;
    // The kernel goes from address to address; one that was moved meanwhile could come twice.
    all.retain(|mapping| {
        let is_apart = mapping.start >= end;
        end = end.max(mapping.end);
        is_apart
    });
    Ok(all)
}

struct Lines<'a> {
    all: Vec<Mapping>,
    directory: &'a str,
}

impl Lines<'_> {
    fn add(&mut self, line: SmapsLine<'_>) {
        let has_room = self.all.len() < MOST;
        match (line, self.all.last_mut()) {
            (SmapsLine::Mapping(one), _) if has_room => self.all.push(mapping(one, self.directory)),
            (SmapsLine::Size { name, bytes }, Some(mapping)) => add_size(name, bytes, &mut mapping.sizes),
            (SmapsLine::Flag(name), Some(mapping)) => mapping.flags.0 |= flag(name),
            _ => {}
        }
    }

    fn finish(self) -> Vec<Mapping> {
        let mut all = self.all;
        // Memory that continues the library's own data is its `.bss`.
        for at in 1..all.len() {
            let (before, after) = all.split_at_mut(at);
            let (Some(last), Some(mapping)) = (before.last(), after.first_mut()) else { continue };
            let is_data =
                last.kind == MappingKind::Mallow && !last.name.is_empty() && last.flags.has(MappingFlags::WRITE);
            if is_data && last.end == mapping.start && is_anonymous(mapping) && !last.flags.has(MappingFlags::SHARED) {
                mapping.kind = MappingKind::Mallow;
            }
        }
        all
    }
}

fn add_size(name: &[u8], bytes: u64, sizes: &mut MemorySizes) {
    let field = match name {
        b"Size" => &mut sizes.size,
        b"Rss" => &mut sizes.rss,
        b"Pss" => &mut sizes.pss,
        b"Shared_Clean" => &mut sizes.shared_clean,
        b"Shared_Dirty" => &mut sizes.shared_dirty,
        b"Private_Clean" => &mut sizes.private_clean,
        b"Private_Dirty" => &mut sizes.private_dirty,
        b"Anonymous" => &mut sizes.anonymous,
        b"LazyFree" => &mut sizes.lazy_free,
        b"AnonHugePages" | b"ShmemPmdMapped" | b"FilePmdMapped" => &mut sizes.huge,
        b"Swap" => &mut sizes.swap,
        b"SwapPss" => &mut sizes.swap_pss,
        b"Locked" => &mut sizes.locked,
        b"Shared_Hugetlb" | b"Private_Hugetlb" => &mut sizes.hugetlb,
        _ => return,
    };
    *field = field.saturating_add(bytes);
}

fn flag(name: &[u8]) -> u32 {
    match name {
        b"nr" => MappingFlags::NO_RESERVE,
        b"lo" => MappingFlags::LOCKED,
        b"ht" => MappingFlags::HUGETLB,
        b"hg" => MappingFlags::HUGE,
        b"nh" => MappingFlags::NO_HUGE,
        _ => 0,
    }
}

fn mapping(line: mallow_proc::Mapping<&[u8]>, directory: &str) -> Mapping {
    let line = line.into_owned();
    let rights = [
        (line.readable, MappingFlags::READ),
        (line.writable, MappingFlags::WRITE),
        (line.executable, MappingFlags::EXECUTE),
        (line.shared, MappingFlags::SHARED),
    ];
    let flags = MappingFlags(rights.into_iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag));
    let kind = kind(&line.path, line.inode != 0, flags, directory);
    Mapping { start: line.start, end: line.end, kind, flags, name: line.path, ..Mapping::default() }
}

fn kind(name: &str, has_file: bool, flags: MappingFlags, directory: &str) -> MappingKind {
    let is_shared_memory = || {
        let file = name.strip_suffix(DELETED).unwrap_or(name);
        let places = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "[anon_shmem"];
        places.iter().any(|place| file.starts_with(place))
    };
    // In a file system, or in memory where mallow had attached.
    let is_library =
        || name.rsplit('/').next().is_some_and(|file| file.trim_start_matches("memfd:").starts_with(LIBRARY_NAME));
    let is_of_run = || !directory.is_empty() && name.split('/').any(|part| part == directory);
    let is_table = || name.rsplit('/').nth(1).is_some_and(is_table_directory);
    match name {
        "[heap]" => MappingKind::Heap,
        "[stack]" => MappingKind::Stack,
        // Written by hand and not listed: the kernel's pages have several names, and get new ones.
        _ if name.starts_with("[v") || name == "[uprobes]" || name == "[sigpage]" => MappingKind::Kernel,
        _ if is_library() || is_of_run() || is_table() => MappingKind::Mallow,
        _ if is_shared_memory() && flags.has(MappingFlags::SHARED) => MappingKind::Shared,
        // A private mapping of it is memory of no file.
        "/dev/zero" => MappingKind::Anonymous,
        _ if has_file && flags.has(MappingFlags::EXECUTE) => MappingKind::FileText,
        _ if has_file => MappingKind::FileData,
        _ if flags.has(MappingFlags::SHARED) => MappingKind::Shared,
        _ => MappingKind::Anonymous,
    }
}

/// Private memory of no file, but for the first thread's stack.
pub fn is_anonymous(mapping: &Mapping) -> bool {
    use MappingKind::{Anonymous, Bss, Heap, ThreadStack};
    matches!(mapping.kind, Anonymous | Heap | ThreadStack | Bss)
}

/// Readable private memory of no file, but for `[heap]`, modules' `.bss` and the first thread's stack.
pub fn is_mapped(mapping: &Mapping) -> bool {
    let is_named = matches!(mapping.kind, MappingKind::Heap | MappingKind::Bss);
    is_anonymous(mapping) && !is_named && mapping.flags.has(MappingFlags::READ)
}

pub fn totals(mappings: &[Mapping]) -> MemorySizes {
    mappings.iter().map(|mapping| mapping.sizes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::table_directory;
    use mallow_proc::parse_smaps;

    const SMAPS: &str = "\
5000-6000 r-xp 00000000 fe:00 24                     /usr/bin/a b (deleted)
Size:                  4 kB
Rss:                   4 kB
VmFlags: rd ex mr mw me
6000-9000 rw-p 00000000 00:00 0                          [heap]
Size:                 12 kB
Rss:                   8 kB
Anonymous:             8 kB
AnonHugePages:      2048 kB
Swap:                  4 kB
THPeligible:           0
VmFlags: rd wr mr mw me nr lo hg
7000-8000 nonsense
a000-b000 rw-p 00001000 00:18 3                          /dev/shm/mallow-7/libmallow.so
b000-c000 rw-p 00000000 00:00 0
c000-d000 rw-s 00000000 00:18 3                          /dev/shm/mallow-7/p-1-0
d000-e000 rw-p 00000000 00:00 0
e000-e800 r--s 00000000 00:18 3                          /root/.cache/mallow/TABLES/0123abcd
e800-f000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
f000-10000 r--p 00000000 00:00 0                         [vvar]
20000-21000 rw-p 00000000 00:00 0                        [stack]
";

    fn parsed(mut text: &[u8], directory: &str) -> Vec<Mapping> {
        let mut lines = Lines { all: Vec::new(), directory };
        parse_smaps(&mut text, &mut |line| lines.add(line)).expect("memory");
        lines.finish()
    }

    #[test]
    fn mappings_have_kinds_and_sizes() {
        let text = SMAPS.replace("TABLES", &table_directory());
        let all = parsed(text.as_bytes(), "mallow-7");
        use MappingKind::*;
        let kinds: Vec<_> = all.iter().map(|mapping| mapping.kind).collect();
        assert_eq!(kinds, [FileText, Heap, Mallow, Mallow, Mallow, Anonymous, Mallow, Shared, Kernel, Stack]);
        assert_eq!(all[0].name, "/usr/bin/a b (deleted)");
        let heap = &all[1];
        assert_eq!((heap.start, heap.end, heap.sizes.rss, heap.sizes.swap), (0x6000, 0x9000, 8192, 4096));
        assert_eq!((heap.sizes.size, heap.sizes.anonymous, heap.sizes.huge), (12288, 8192, 2 << 20));
        let expected = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::NO_RESERVE;
        assert_eq!(heap.flags.0, expected | MappingFlags::LOCKED | MappingFlags::HUGE);
        assert_eq!(totals(&all).rss, 12288);
    }

    /// 67 MB of a program that had written to a private mapping of a memfd were "shared memory".
    #[test]
    fn private_mappings_of_shared_memory_are_not_shared() {
        use MappingKind::*;
        let of = |name: &str, rights: &str| {
            let line = format!("6000-9000 {rights} 00000000 00:01 9  {name}\n");
            parsed(line.as_bytes(), "mallow-7")[0].kind
        };
        let names = ["/memfd:ring (deleted)", "/dev/shm/data"];
        assert_eq!(names.map(|name| of(name, "rw-s")), [Shared; 2]);
        assert_eq!(names.map(|name| of(name, "rw-p")), [FileData; 2]);
        assert_eq!([of("/dev/zero", "rw-s"), of("/dev/zero", "rw-p")], [Shared, Anonymous]);
    }

    /// Of this process, and of text that ends anywhere.
    #[test]
    fn any_text_is_read() {
        assert!(mappings(std::process::id(), "").expect("own mappings").len() > 10);
        assert_eq!(mappings(u32::MAX, ""), Err(Failure::Gone));
        for end in 0..SMAPS.len() {
            parsed(&SMAPS.as_bytes()[..end], "");
        }
        assert_eq!(parsed(b"\xff\xff\nRss: 1 kB\nSize\n-\n9-8 rw-p 0 0 0\n", ""), []);
    }
}
