//! `/proc/PID/stat`: the numbers of a process or thread.

use std::fs::File;
use std::io::{self, Read};

use crate::numbers::decimal;
use crate::task::Task;

/// A line has some 400 bytes, 1,100 at the most.
const MOST: usize = 2048;

/// The one line of a `stat` file: `PID (NAME) STATE …`. The methods return None for what a line that was cut short does
/// not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    text: [u8; MOST],
    length: usize,
    name: (usize, usize),
}

impl Stat {
    /// Reads it, with one call and without allocating. Fails where there is no such task, and where the file holds
    /// something else.
    pub fn read(task: impl Into<Task>) -> io::Result<Self> {
        let mut text = [0; MOST];
        let length = File::open(task.into().file("stat"))?.read(&mut text)?;
        Self::of(text, length).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// None where no name in parentheses is there, with a state behind it. Bytes past the first 2,048 are left out.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut text = [0; MOST];
        let length = bytes.len().min(MOST);
        text.get_mut(..length)?.copy_from_slice(bytes.get(..length)?);
        Self::of(text, length)
    }

    fn of(text: [u8; MOST], length: usize) -> Option<Self> {
        let line = text.get(..length)?;
        // The name may hold anything: it ends with the last ')'.
        let begins = line.iter().position(|&byte| byte == b'(')? + 1;
        let ends = line.iter().rposition(|&byte| byte == b')').filter(|&end| end >= begins)?;
        let is_whole = line.get(ends + 1) == Some(&b' ') && line.get(ends + 2).is_some();
        is_whole.then_some(Self { text, length, name: (begins, ends) })
    }

    /// The name of a thread, or the first 15 bytes of the name of the file that a process executed last. Any bytes, as
    /// the kernel does not escape them here.
    pub fn name(&self) -> &[u8] {
        self.text.get(self.name.0..self.name.1).unwrap_or_default()
    }

    /// `R`, `S`, `D`, `Z`, `X` and so on: proc_pid_stat(5).
    pub fn state(&self) -> u8 {
        self.text.get(self.name.1 + 2).copied().unwrap_or_default()
    }

    /// Page faults for which no file was read.
    pub fn minor_faults(&self) -> Option<u64> {
        self.number(10)
    }

    /// Minor faults of children that were waited for.
    pub fn child_minor_faults(&self) -> Option<u64> {
        self.number(11)
    }

    pub fn threads(&self) -> Option<u64> {
        self.number(20)
    }

    /// Start in clock ticks since the system's start.
    pub fn start_ticks(&self) -> Option<u64> {
        self.number(22)
    }

    /// A field by its number in proc_pid_stat(5): the state is 3.
    fn number(&self, field: usize) -> Option<u64> {
        let fields = self.text.get(self.name.1 + 2..self.length)?.trim_ascii_end();
        decimal(fields.split(|&byte| byte == b' ').nth(field.checked_sub(3)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_ends_with_the_last_parenthesis() {
        let line = b"7 (a) S 1\n(\xe9) D 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 4242 23\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.name(), stat.state()), (&b"a) S 1\n(\xe9"[..], b'D'));
        let numbers = [stat.minor_faults(), stat.child_minor_faults(), stat.threads(), stat.start_ticks()];
        assert_eq!(numbers, [Some(10), Some(11), Some(20), Some(4242)]);
        for cut in 0..line.len() {
            let Some(stat) = Stat::parse(&line[..cut]) else { continue };
            assert!(cut > 6 && [None, Some(4), Some(42), Some(424), Some(4242)].contains(&stat.start_ticks()));
        }
        for other in [&b""[..], b"7 (x", b"7 (x)", b"7 (x) ", b")( S 1", b") (x S 1", b"7 x S 1"] {
            assert_eq!(Stat::parse(other), None);
        }
    }

    #[test]
    fn this_thread_runs() {
        let stat = Stat::read(Task::OwnThread).unwrap();
        assert_eq!(stat.state(), b'R');
        assert!(stat.threads() > Some(0) && stat.start_ticks() > Some(0) && !stat.name().is_empty());
        assert_eq!(Stat::read(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
