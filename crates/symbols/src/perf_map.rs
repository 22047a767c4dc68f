//! `/tmp/perf-PID.map`: where JITs list the names of the code that they generate.
//!
//! A line is `START SIZE name`, both numbers in hexadecimal. A JIT that uses an address again writes a line again, so a
//! later line takes the place of what it overlaps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{FileType, Mode, OFlags};

/// Larger files are read up to here.
const FILE_LIMIT: u64 = 512 << 20;
/// Limit of entries: more are not taken in.
const ENTRY_LIMIT: usize = 4 << 20;
/// Limit of a line's bytes; the rest is cut off.
const LINE_LIMIT: u64 = 4096;

#[derive(Debug, Default)]
pub struct PerfMap {
    /// Start → (end, name), disjoint.
    entries: BTreeMap<u64, (u64, Box<str>)>,
    malformed: u64,
    cut: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PerfMapError {
    /// The map cannot be opened or read. With `NotFound` there is none, which is the usual case.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A symbolic link, FIFO or the like. The directory is open to all, so such a thing may be a trap.
    #[error("not a regular file")]
    NotRegular,
    /// The map belongs to neither us nor the owner of the process.
    #[error("belongs to user {0}")]
    OtherOwner(u32),
    #[error("writable by everybody")]
    WorldWritable,
    /// The map was last written before the process began: it is that of an earlier process with the same id.
    #[error("older than the process")]
    Stale,
}

impl PerfMap {
    /// Reads a map. It must be a regular file that belongs to us or to `owner` (the user of the process, where known),
    /// and that was written after `not_before`.
    pub fn read(path: &Path, owner: Option<u32>, not_before: Option<SystemTime>) -> Result<Self, PerfMapError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file: File = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => file.into(),
            Err(rustix::io::Errno::LOOP) => return Err(PerfMapError::NotRegular),
            Err(e) => return Err(io::Error::from(e).into()),
        };
        // Of the open file, not of the path, which may be another one by now.
        let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(PerfMapError::NotRegular);
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() && Some(stat.st_uid) != owner {
            return Err(PerfMapError::OtherOwner(stat.st_uid));
        }
        if stat.st_mode & 0o002 != 0 {
            return Err(PerfMapError::WorldWritable);
        }
        if let Some(not_before) = not_before
            && file.metadata()?.modified()? < not_before
        {
            return Err(PerfMapError::Stale);
        }
        let mut map = Self::parse(BufReader::new((&file).take(FILE_LIMIT)))?;
        map.cut |= u64::try_from(stat.st_size).unwrap_or(0) > FILE_LIMIT;
        Ok(map)
    }

    /// Reads lines up to the end of `from`.
    pub fn parse(mut from: impl BufRead) -> io::Result<Self> {
        let mut map = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut from).take(LINE_LIMIT).read_until(b'\n', &mut line)? == 0 {
                return Ok(map);
            }
            if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 == LINE_LIMIT {
                skip_line(&mut from)?;
            }
            match fields(&line) {
                Some((start, end, name)) => {
                    map.insert(start, end, &name);
                    if map.entries.len() >= ENTRY_LIMIT {
                        map.cut = true;
                        return Ok(map);
                    }
                }
                None => map.malformed += u64::from(!line.trim_ascii().is_empty()),
            }
        }
    }

    /// The name of the code at `address`.
    pub fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.entries.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lines that made no sense, and were passed over.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// True where the file has more than is reasonable, and its rest was not read.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    fn insert(&mut self, start: u64, end: u64, name: &str) {
        if let Some((_, before)) = self.entries.range_mut(..start).next_back()
            && before.0 > start
        {
            let (old_end, old_name) = before.clone();
            before.0 = start;
            if old_end > end {
                self.entries.insert(end, (old_end, old_name));
            }
        }
        while let Some((&at, _)) = self.entries.range(start..end).next() {
            if let Some((old_end, old_name)) = self.entries.remove(&at)
                && old_end > end
            {
                self.entries.insert(end, (old_end, old_name));
            }
        }
        self.entries.insert(start, (end, name.into()));
    }
}

fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let available = from.fill_buf()?;
        if available.is_empty() {
            return Ok(());
        }
        match available.iter().position(|&byte| byte == b'\n') {
            Some(at) => {
                from.consume(at + 1);
                return Ok(());
            }
            None => {
                let length = available.len();
                from.consume(length);
            }
        }
    }
}

/// Start, end and name of a line. None: the line is malformed.
fn fields(line: &[u8]) -> Option<(u64, u64, String)> {
    let mut fields = line.trim_ascii().splitn(3, |&byte| byte == b' ' || byte == b'\t');
    let mut number = || {
        let text = std::str::from_utf8(fields.next()?).ok()?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = String::from_utf8_lossy(fields.next()?.trim_ascii()).into_owned();
    let end = start.checked_add(size)?;
    (size > 0 && !name.is_empty()).then_some((start, end, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> PerfMap {
        PerfMap::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn names_may_have_spaces_and_numbers_a_prefix() {
        let map = map("7f00 10 LazyCompile:~foo file.js:3\n0x8000 0x20 b\r\n9000 1 last");
        assert_eq!(map.find(0x7f00), Some("LazyCompile:~foo file.js:3"));
        assert_eq!(map.find(0x7f0f), Some("LazyCompile:~foo file.js:3"));
        assert_eq!(map.find(0x7f10), None);
        assert_eq!(map.find(0x801f), Some("b"));
        assert_eq!(map.find(0x9000), Some("last"));
        assert_eq!((map.len(), map.malformed()), (3, 0));
    }

    #[test]
    fn later_lines_win() {
        let map = map("100 100 old\n140 40 inner\n1f0 20 over the end\n80 90 over the start\n");
        let names: Vec<_> = [0x80, 0x10f, 0x110, 0x13f, 0x140, 0x17f, 0x180, 0x1ef, 0x1f0, 0x20f, 0x210]
            .map(|address| map.find(address).unwrap_or("-"))
            .into();
        assert_eq!(
            names,
            ["over the start", "over the start", "old", "old", "inner", "inner", "old", "old", "over the end"]
                .into_iter()
                .chain(["over the end", "-"])
                .collect::<Vec<_>>()
        );
        let all = super::tests::map("100 10 a\n110 10 b\n120 10 c\nf0 100 all\n");
        assert_eq!((all.len(), all.find(0x118)), (1, Some("all")));
    }

    #[test]
    fn malformed_lines_are_counted() {
        let map =
            map("nonsense\n100 10\n100 0 empty\n\n-1 10 minus\nffffffffffffffff 10 over\n100 10 ok\n\u{fffd} 1 x\n");
        assert_eq!((map.len(), map.malformed()), (1, 6));
        assert_eq!(map.find(0x100), Some("ok"));
        let bytes: &[u8] = b"100 10 a\xff\xfeb\n";
        assert_eq!(PerfMap::parse(bytes).unwrap().find(0x100), Some("a\u{fffd}\u{fffd}b"));
    }

    #[test]
    fn long_lines_are_cut_and_the_next_is_read() {
        for length in [4000, 4087, 4088, 4089, 4090, 10_000, 100_000] {
            let map = map(&format!("100 10 {}\n200 10 next\n", "x".repeat(length)));
            assert_eq!(map.find(0x200), Some("next"), "{length}");
            assert_eq!(map.find(0x100).map(str::len), Some(length.min(4089)), "{length}");
            assert_eq!(map.malformed(), 0, "{length}");
        }
    }
}
