//! `/proc/PID/maps`: the mappings of a process.

use std::io;
use std::path::PathBuf;

use crate::numbers::{decimal, hexadecimal};
use crate::task::Task;

/// What the kernel writes behind the path of a file that was removed, or replaced, since it was mapped. A file's own
/// name may end so, too.
pub const DELETED: &str = " (deleted)";

/// One line of such a file. `Path` is `&[u8]` for one that refers to the text, and [`into_owned`](Self::into_owned)
/// makes it a `String`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping<Path = String> {
    /// First address of the mapping.
    pub start: u64,
    /// First address behind the mapping; above `start`.
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    /// Writes are seen by others who map the same.
    pub shared: bool,
    /// Offset of the mapping in its file, in bytes.
    pub offset: u64,
    /// Major and minor number of the device that has its file.
    pub device: (u32, u32),
    /// 0 if it is of no file.
    pub inode: u64,
    /// The path of its file, or a name such as `[stack]`; empty if it has none. From the root of the reader, and with
    /// `\012` for newlines, as the kernel writes it.
    pub path: Path,
}

impl<'a> Mapping<&'a [u8]> {
    /// `55d0-55e0 rw-p 00000000 00:00 0   [heap]`, without the newline. None: it is no such line.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let mut range = fields.next()?.splitn(2, |&byte| byte == b'-');
        let (start, end) = (hexadecimal(range.next()?)?, hexadecimal(range.next()?)?);
        let &[read, write, execute, share] = fields.next()? else { return None };
        let offset = hexadecimal(fields.next()?)?;
        let mut device = fields.next()?.splitn(2, |&byte| byte == b':');
        let mut number = || hexadecimal(device.next()?)?.try_into().ok();
        let device = (number()?, number()?);
        let inode = decimal(fields.next()?)?;
        let padded = fields.next().unwrap_or_default();
        let blanks = padded.iter().take_while(|&&byte| byte == b' ').count();
        (start < end).then_some(Self {
            start,
            end,
            readable: read == b'r',
            writable: write == b'w',
            executable: execute == b'x',
            shared: share == b's',
            offset,
            device,
            inode,
            path: padded.get(blanks..).unwrap_or_default(),
        })
    }

    /// A copy that outlives the text. What is not UTF-8 in the path becomes U+FFFD.
    pub fn into_owned(self) -> Mapping {
        let Self { start, end, readable, writable, executable, shared, offset, device, inode, path } = self;
        let path = String::from_utf8_lossy(path).into_owned();
        Mapping { start, end, readable, writable, executable, shared, offset, device, inode, path }
    }
}

impl<Path: AsRef<[u8]>> Mapping<Path> {
    /// Whether the memory belongs to no file, and is no heap or stack that the kernel knows. Programs can name such
    /// memory.
    pub fn is_anonymous(&self) -> bool {
        let path = self.path.as_ref();
        path.is_empty() || path.starts_with(b"[anon")
    }

    /// Whether the memory can neither be read, written nor executed: a guard, or reserved addresses.
    pub fn is_closed(&self) -> bool {
        !(self.readable || self.writable || self.executable)
    }

    pub fn is_data(&self) -> bool {
        self.readable && self.writable
    }

    /// Whether the file was removed, or replaced by another one, since it was mapped.
    pub fn is_deleted(&self) -> bool {
        self.path.as_ref().ends_with(DELETED.as_bytes())
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The path in `/proc` that leads to the mapped file even where that was removed, in the process `pid` that has
    /// this mapping. Opening it takes more rights than reading the mappings.
    pub fn map_file(&self, pid: u32) -> PathBuf {
        PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end))
    }
}

/// The text of `maps`, for [`mappings`]. Takes the process's mmap lock for that: its page faults and calls of mmap wait
/// for some microseconds. Empty where the process has no memory any more, and for threads of the kernel.
pub fn read_maps(task: impl Into<Task>) -> io::Result<Vec<u8>> {
    task.into().read("maps")
}

/// The mappings of such a text, in its order: by address, unless some were moved meanwhile.
pub fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<&[u8]>> {
    text.split(|&byte| byte == b'\n').filter_map(Mapping::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_and_others_left_out() {
        let text = b"1000-2000 rw-p 00000000 00:00 0 \n\
            7f00-7f10 r-xs 00001000 fd:1f 42                         /usr/lib/with  space\xe9.so (deleted)\n\
            7f10-7f20 ---p 00000000 00:00 0\nnonsense\n5-4 r--p 0 0:0 0\n5-5 r--p 0 0:0 0\n7f20-7f30 rw-p 0 00:00 0 [anon:x]\n";
        let all: Vec<_> = mappings(text).collect();
        assert_eq!(
            all.iter().map(|one| (one.start, one.end)).collect::<Vec<_>>()[2..],
            [(0x7f10, 0x7f20), (0x7f20, 0x7f30)]
        );
        let data = Mapping { start: 0x1000, end: 0x2000, readable: true, writable: true, ..Mapping::default() };
        assert_eq!(all[0].into_owned(), data);
        assert!(all[0].is_data() && all[0].is_anonymous() && all[0].contains(0x1fff) && !all[0].contains(0x2000));
        let code = all[1];
        assert!(code.readable && !code.writable && code.executable && code.shared && code.is_deleted());
        assert_eq!((code.offset, code.device, code.inode), (0x1000, (0xfd, 0x1f), 42));
        assert_eq!(code.path, b"/usr/lib/with  space\xe9.so (deleted)");
        assert_eq!(code.into_owned().path, "/usr/lib/with  space\u{fffd}.so (deleted)");
        assert!(all[2].is_closed() && all[2].is_anonymous() && !all[2].is_data());
        assert!(all[3].is_anonymous() && !all[3].is_closed());
    }

    /// The kernel pads addresses in `maps` to eight digits, and not in `map_files`.
    #[test]
    fn a_map_file_has_the_name_that_the_kernel_gives_it() {
        let line = b"00400000-0040b000 r-xp 00000000 08:01 7 /bin/x";
        let mapping = mappings(line).next().unwrap();
        assert_eq!(mapping.map_file(7), std::path::Path::new("/proc/7/map_files/400000-40b000"));
    }

    #[test]
    fn this_process_has_mappings() {
        let text = read_maps(Task::Own).unwrap();
        let here = this_process_has_mappings as fn() as usize as u64;
        let code = mappings(&text).find(|one| one.contains(here)).unwrap();
        assert!(code.executable && !code.writable && code.inode > 0 && !code.is_anonymous());
        assert!(mappings(&text).any(|one| one.path == b"[stack]"));
        assert_eq!(text.split_inclusive(|&byte| byte == b'\n').count(), mappings(&text).count());
        assert_eq!(read_maps(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
