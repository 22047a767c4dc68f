//! What is at an address of a process.

use super::finding::Region;
use crate::wire::guard;
use mallow_patch::Maps;

impl Region {
    /// What is at an address of a process that waits. `sp`: the stack pointer of one of its threads.
    pub fn of(pid: u32, address: u64, sp: u64) -> Self {
        match Maps::read(pid) {
            Ok(maps) if !maps.is_empty() => Self::in_maps(&maps, address, sp),
            _ => Self::Unknown,
        }
    }

    /// What is at an address that was freed. `bytes`: what the process wrote of it, which counts where the process has
    /// ended, or changed its mappings.
    pub fn of_report(pid: u32, address: u64, bytes: &[u8]) -> Self {
        let sp = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let seen = match bytes.get(8) {
            Some(&guard::FOREIGN_STACK) => Self::Stack,
            Some(&guard::FOREIGN_MODULE) => Self::File { path: String::new(), writable: true },
            Some(&guard::FOREIGN_UNMAPPED) => return Self::Nothing,
            Some(&guard::FOREIGN_MAPPED) => Self::Mapped { before: 0, bytes: 0 },
            _ => Self::Unknown,
        };
        match Self::of(pid, address, sp) {
            Self::Unknown | Self::Nothing => seen,
            now => now,
        }
    }

    fn in_maps(maps: &Maps, address: u64, sp: u64) -> Self {
        let Some(mapping) = maps.find(address) else { return Self::Nothing };
        let is_anonymous = mapping.is_anonymous();
        match mapping.path.as_str() {
            "[stack]" => Self::Stack,
            "[heap]" => Self::Heap,
            _ if is_anonymous && mapping.contains(sp) => Self::Stack,
            // Static data without values of the file's lie behind it.
            _ if is_anonymous => match maps.iter().find(|one| one.end == mapping.start && one.path.starts_with('/')) {
                Some(file) if file.writable => Self::File { path: file.path.clone(), writable: mapping.writable },
                _ => Self::Mapped { before: address - mapping.start, bytes: mapping.end - mapping.start },
            },
            path => Self::File { path: path.to_owned(), writable: mapping.writable },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_its_mapping_is() {
        let maps = Maps::parse(
            b"400000-401000 r-xp 00000000 08:01 7 /bin/x\n401000-402000 rw-p 00001000 08:01 7 /bin/x\n\
             402000-404000 rw-p 00000000 00:00 0\n500000-501000 rw-p 00000000 00:00 0 [heap]\n\
             600000-604000 rw-p 00000000 00:00 0\n700000-704000 rw-p 00000000 00:00 0\n\
             800000-801000 rw-p 00000000 00:00 0 [stack]\n",
        );
        let of = |address| Region::in_maps(&maps, address, 0x70_1000);
        let file = |writable| Region::File { path: "/bin/x".to_owned(), writable };
        assert_eq!([of(0x18), of(0x40_0010), of(0x40_1010)], [Region::Nothing, file(false), file(true)]);
        assert_eq!([of(0x40_2010), of(0x50_0010), of(0x80_0010)], [file(true), Region::Heap, Region::Stack]);
        assert_eq!(of(0x60_0010), Region::Mapped { before: 16, bytes: 0x4000 });
        assert_eq!(of(0x70_0010), Region::Stack);
    }
}
