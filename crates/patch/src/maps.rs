//! The mappings of a process.

use std::io;
use std::ops::Range;

use mallow_arch::{entry, machine};
use mallow_proc::{Mapping, mappings, read_maps};

pub const PAGE: u64 = 4096;

/// Reach of code for operands and other code, in bytes, less what the instruction itself takes.
const REACH: u64 = entry::REACH - PAGE;

/// Below this address nothing is mapped: `vm.mmap_min_addr` is at most this on every distribution.
const LOWEST: u64 = 1 << 16;

const HIGHEST: u64 = machine::ADDRESSES_END;

/// All mappings of a process, sorted by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(Vec<Mapping>);

impl Maps {
    /// Reads the mappings of a process: its page faults and calls of mmap wait for some microseconds.
    pub fn read(pid: u32) -> io::Result<Self> {
        read_maps(pid).map(|text| Self::parse(&text))
    }

    /// The mappings that a text of `/proc/PID/maps` has, by address.
    pub fn parse(text: &[u8]) -> Self {
        let mut all: Vec<_> = mappings(text).map(Mapping::into_owned).collect();
        all.sort_by_key(|mapping| mapping.start);
        Self(all)
    }

    /// All mappings of the files that are mapped at one of these addresses.
    pub fn of_files_at(&self, addresses: &[u64]) -> Self {
        let is_at = |mapping: &&Mapping| addresses.iter().any(|&address| mapping.contains(address));
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
        let none = Mapping { start: range.start, end: range.end, ..Mapping::default() };
        self.0.insert(at, none);
    }

    /// Whether there are no mappings, as of a kernel thread or of a zombie.
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
        let mapping = |start, end| Mapping { start, end, ..Mapping::default() };
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
    fn a_mapping_is_found_by_an_address() {
        let maps = Maps::parse(b"7f00-7f10 r-xp 0 fd:01 42 /usr/lib/x.so\n1000-2000 rw-p 0 00:00 0 \nnonsense\n");
        let start_of = |address| maps.find(address).map(|mapping| mapping.start);
        assert_eq!([0xfff, 0x1000, 0x1fff, 0x2000].map(start_of), [None, Some(0x1000), Some(0x1000), None]);
        assert_eq!([0x7eff, 0x7f00, 0x7f0f, 0x7f10].map(start_of), [None, Some(0x7f00), Some(0x7f00), None]);
        assert_eq!(maps.of_files_at(&[0x7f08]).iter().count(), 1);
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
