//! The mappings of a process.

use std::fs;
use std::io;
use std::ops::Range;

/// A page, in bytes.
pub const PAGE: u64 = 4096;

/// How far a 32-bit displacement reaches, less what the instruction itself takes.
const REACH: u64 = (1 << 31) - PAGE;

/// Below this address nothing is mapped: `vm.mmap_min_addr` is at most this on every distribution.
const LOWEST: u64 = 1 << 16;

/// Past the last address of a program with four levels of page tables.
const HIGHEST: u64 = 1 << 47;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// Past its last one.
    pub end: u64,
    /// Whether it can be executed.
    pub executable: bool,
    /// Whether it can be written to.
    pub writable: bool,
    /// Where in its file it begins, in bytes.
    pub offset: u64,
    /// The device of its file, as `major:minor` in hexadecimal.
    pub device: String,
    /// The inode of its file; 0 if there is none.
    pub inode: u64,
    /// The path of its file, or a name such as `[stack]`; empty if it has none. Escapes for newlines are kept.
    pub path: String,
}

impl Mapping {
    /// None: not a line of that file.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let device = fields.next()?.to_owned();
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next().unwrap_or_default().trim_start().to_owned();
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let has = |right| rights.contains(right);
        let (executable, writable) = (has('x'), has('w'));
        (start < end).then_some(Self { start, end, executable, writable, offset, device, inode, path })
    }

    /// Whether its file was removed, or replaced by another one, since it was mapped.
    pub fn is_deleted(&self) -> bool {
        self.path.ends_with(" (deleted)")
    }
}

/// All mappings of a process, sorted by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(Vec<Mapping>);

impl Maps {
    /// Reads `/proc/PID/maps`. Takes the process's mmap lock for that: its page faults and calls of mmap wait for some
    /// microseconds.
    pub fn read(pid: u32) -> io::Result<Self> {
        let bytes = fs::read(format!("/proc/{pid}/maps"))?;
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// From the text of such a file.
    pub fn parse(text: &str) -> Self {
        let mut all: Vec<_> = text.lines().filter_map(Mapping::parse).collect();
        all.sort_by_key(|mapping| mapping.start);
        Self(all)
    }

    /// Those of files that have one of these addresses.
    pub fn of_files_at(&self, addresses: &[u64]) -> Self {
        let is_at = |mapping: &&Mapping| addresses.iter().any(|address| (mapping.start..mapping.end).contains(address));
        let files: Vec<(u64, &str)> = self.iter().filter(is_at).map(|one| (one.inode, &*one.path)).collect();
        Self(self.iter().filter(|one| files.contains(&(one.inode, &*one.path))).cloned().collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.0.iter()
    }

    /// The mapping that has an address.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.start <= address);
        self.0[..after].last().filter(|mapping| address < mapping.end)
    }

    /// Counts `range` as mapped from here on.
    pub fn reserve(&mut self, range: Range<u64>) {
        let at = self.0.partition_point(|mapping| mapping.start < range.start);
        let (start, end) = (range.start, range.end);
        let none = Mapping {
            start,
            end,
            executable: false,
            writable: false,
            offset: 0,
            device: String::new(),
            inode: 0,
            path: String::new(),
        };
        self.0.insert(at, none);
    }

    /// Whether there are none: those of a kernel thread or of a zombie.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The address of `bytes` free bytes, a multiple of a page, where each byte reaches all of `module` by a 32-bit
    /// displacement: the nearest ones below it, else above. The heap (brk) grows upwards from the executable, so
    /// nothing is placed directly behind a module. None where there is no room.
    pub fn free_area_near(&self, module: Range<u64>, bytes: u64) -> Option<u64> {
        let lowest = module.end.saturating_sub(REACH).max(LOWEST).next_multiple_of(PAGE);
        let highest = module.start.saturating_add(REACH).min(HIGHEST).checked_sub(bytes)? / PAGE * PAGE;
        let (mut below, mut above) = (None, None);
        let mut free = LOWEST;
        let ends = self.0.iter().map(|mapping| (mapping.start, mapping.end)).chain([(HIGHEST, HIGHEST)]);
        for (start, end) in ends {
            // The upper end of each gap: the one that a heap or an array of mappings reaches last.
            if let Some(last) = start.checked_sub(bytes).map(|last| last.min(highest))
                && last >= free.max(lowest)
            {
                match last < module.start {
                    true => below = Some(last),
                    false => above = above.or(Some(last)),
                }
            }
            free = free.max(end);
        }
        below.or(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_area_is_below_the_module_where_there_is_room() {
        let mapping = |start, end| Mapping { start, end, ..Mapping::parse("0-1 r-xp 0 0:0 0").unwrap() };
        let maps = |all: &[(u64, u64)]| Maps(all.iter().map(|&(start, end)| mapping(start, end)).collect());
        let gib = 1 << 30;
        let module = 100 * gib..100 * gib + 0x3000;
        let near = |all: &[(u64, u64)]| maps(all).free_area_near(module.clone(), 3 * PAGE);
        assert_eq!(near(&[(module.start, module.end)]), Some(module.start - 3 * PAGE));
        let tight = [(module.start - gib, module.start - 2 * PAGE), (module.start, module.end)];
        assert_eq!(near(&tight), Some(module.start - gib - 3 * PAGE));
        let full = [(module.start - 3 * gib, module.end), (module.end + gib, module.end + 2 * gib)];
        assert_eq!(near(&full), Some(module.end + gib - 3 * PAGE));
        assert_eq!(near(&[(module.start - 3 * gib, module.end + 4 * gib)]), None);
        // An area that reaches one end of the module but not the other is none.
        let large = 100 * gib..102 * gib;
        assert_eq!(maps(&[(large.start, large.end)]).free_area_near(large, PAGE), None);
        // As an executable at a fixed address has it.
        let fixed = 0x40_0000..0x40_8000;
        assert_eq!(maps(&[(fixed.start, fixed.end)]).free_area_near(fixed.clone(), PAGE), Some(fixed.start - PAGE));
        assert_eq!(maps(&[]).free_area_near(fixed, 4 << 30), None);
    }

    #[test]
    fn lines_are_parsed_and_others_left_out() {
        let maps = Maps::parse(
            "7f00-7f10 r-xp 00001000 fd:01 42                         /usr/lib/with space.so (deleted)\n\
             1000-2000 rw-p 00000000 00:00 0 \nnonsense\n5-4 r--p 0 0:0 0\n",
        );
        let all: Vec<_> = maps.iter().collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].start, all[0].writable, all[0].path.as_str()), (0x1000, true, ""));
        assert!(all[1].executable && all[1].is_deleted() && all[1].offset == 0x1000 && all[1].inode == 42);
        assert_eq!(all[1].path, "/usr/lib/with space.so (deleted)");
        let start_of = |address| maps.find(address).map(|mapping| mapping.start);
        assert_eq!([0xfff, 0x1000, 0x1fff, 0x2000].map(start_of), [None, Some(0x1000), Some(0x1000), None]);
        assert_eq!([0x7eff, 0x7f00, 0x7f0f, 0x7f10].map(start_of), [None, Some(0x7f00), Some(0x7f00), None]);
    }

    #[test]
    fn this_process_has_mappings_and_free_pages() {
        let maps = Maps::read(std::process::id()).unwrap();
        let here = this_process_has_mappings_and_free_pages as fn() as usize as u64;
        let text = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).unwrap();
        assert!(text.executable && !text.writable && text.inode > 0);
        let page = maps.free_area_near(text.start..text.end, PAGE).unwrap();
        assert!(maps.iter().all(|mapping| page + PAGE <= mapping.start || page >= mapping.end));
    }
}
