//! The mappings of a process: `/proc/PID/maps`.

use super::Failure;
use std::fs;
use std::io;

/// Mappings that a process may have: what it says is its own affair, and each costs memory here.
const MOST: usize = 1 << 20;

/// One line of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Past its last.
    pub end: u64,
    /// It can be read.
    pub readable: bool,
    /// It can be read and written.
    pub writable: bool,
    /// It can be executed.
    pub executable: bool,
    /// It can neither be read, written nor executed: a guard, or reserved addresses.
    pub closed: bool,
    /// A file's path, a name in brackets, or nothing.
    pub name: String,
}

impl Mapping {
    /// Of no file, and not the heap or a stack that the kernel knows.
    pub fn is_anonymous(&self) -> bool {
        self.name.is_empty() || self.name.starts_with("[anon")
    }
}

/// The mappings of a process, by address.
pub fn mappings(pid: u32) -> Result<Vec<Mapping>, Failure> {
    let text = fs::read(format!("/proc/{pid}/maps")).map_err(|error| failure(&error))?;
    let text = String::from_utf8_lossy(&text);
    Ok(parse(&text))
}

/// Why a file of `/proc/PID` cannot be read.
pub fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::Forbidden,
        _ if error.raw_os_error() == Some(libc::EPERM) => Failure::Forbidden,
        _ => Failure::Gone,
    }
}

fn parse(text: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = text.lines().filter_map(line).take(MOST).collect();
    all.sort_unstable_by_key(|mapping| mapping.start);
    all
}

/// `55d0-55e0 rw-p 00000000 00:00 0   [heap]`
fn line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start();
        let end = trimmed.find(' ').unwrap_or(trimmed.len());
        let (field, after) = trimmed.split_at(end);
        rest = after;
        field
    };
    let (range, rights) = (field(), field());
    for _ in 0..3 {
        field();
    }
    let name = rest.trim_start().to_owned();
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    (start < end).then_some(Mapping {
        start,
        end,
        readable: rights.starts_with('r'),
        writable: rights.starts_with("rw"),
        executable: rights.as_bytes().get(2) == Some(&b'x'),
        closed: rights.starts_with("---"),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = "7f10-7f20 ---p 00000000 00:00 0\n5000-6000 rw-p 00001000 08:01 12   /a b (deleted)\nnonsense\n";
        let all = parse(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].start, all[0].end, all[0].writable), (0x5000, 0x6000, true));
        assert_eq!(all[0].name, "/a b (deleted)");
        assert!(all[1].closed && all[1].is_anonymous() && !all[1].writable);
    }
}
