//! Reading the memory of another process: words of pages that exist.
//!
//! A page that nobody touched has no pointers, and reading it would make it exist. The kernel lists the pages that do
//! (`PAGEMAP_SCAN`, from Linux 6.7 on), or has 8 bytes for each page, which makes a sparse mapping of 1 TB cost some
//! seconds.

use super::Failure;
use super::mappings::failure;
use super::pages::{PAGE, PageLists};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes that are read together.
const WINDOW_BYTES: u64 = 1 << 20;
/// Pages that are asked for together.
const PAGES: u64 = 1 << 16;
/// Bits of a page's entry in pagemap: it is in memory, or in swap.
const EXISTS: u64 = 0b11 << 62;
pub struct Memory<'a> {
    pid: i32,
    pagemap: File,
    /// The kernel lists pages.
    lists: bool,
    /// Pages that exist, as far as they are known: from the first address to the second.
    runs: Vec<(u64, u64)>,
    known: (u64, u64),
    entries: Vec<u8>,
    words: Vec<u64>,
    from: u64,
    enough: &'a (dyn Fn() -> bool + Sync),
    until: Instant,
}

impl<'a> Memory<'a> {
    /// That of process `pid`, for so long.
    pub fn of(pid: u32, enough: &'a (dyn Fn() -> bool + Sync), time: Duration) -> Result<Self, Failure> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(|error| failure(&error))?;
        Ok(Self {
            pid: i32::try_from(pid).map_err(|_| Failure::Gone)?,
            pagemap,
            lists: true,
            runs: Vec::new(),
            known: (0, 0),
            entries: Vec::new(),
            words: Vec::new(),
            from: 0,
            enough,
            until: Instant::now() + time,
        })
    }

    /// Forgets what was read.
    pub fn renew(&mut self) {
        self.words.clear();
        self.known = (0, 0);
    }

    /// Calls `each` with the words of a range, in pieces, with the address of each piece. What follows the range up to
    /// `ahead` may be read with it.
    pub fn words(
        &mut self,
        start: u64,
        end: u64,
        ahead: u64,
        mut each: impl FnMut(u64, &[u64]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut at = start.next_multiple_of(8);
        while at + 8 <= end {
            let window_end = self.from + 8 * self.words.len() as u64;
            if (at < self.from || at >= window_end)
                && let Some(next) = self.fill(at, ahead.max(end))?
            {
                at = next;
                continue;
            }
            let skip = ((at - self.from) / 8) as usize;
            let count = ((end - at) / 8).min((self.words.len() - skip) as u64) as usize;
            each(at, &self.words[skip..skip + count])?;
            at += 8 * count as u64;
        }
        Ok(())
    }

    /// The words from this address on; 0 where there are none. So many bytes may be read with them.
    pub fn array<const N: usize>(&mut self, at: u64, ahead: u64) -> Result<[u64; N], Failure> {
        let mut words = [0; N];
        let end = at.saturating_add(8 * N as u64);
        self.words(at, end, end.saturating_add(ahead), |from, read| {
            for (word, read) in words.iter_mut().skip((from.saturating_sub(at) / 8) as usize).zip(read) {
                *word = *read;
            }
            Ok(())
        })?;
        Ok(words)
    }

    /// Reads what exists from this address on, up to `end` at the most. Some: nothing is there, up to that address.
    fn fill(&mut self, at: u64, end: u64) -> Result<Option<u64>, Failure> {
        if (self.enough)() || Instant::now() > self.until {
            return Err(Failure::Stopped);
        }
        let (start, stop) = self.next_run(at, end)?;
        if start > at {
            return Ok(Some(start));
        }
        let end = end.next_multiple_of(PAGE).min(stop).min(at + WINDOW_BYTES);
        self.from = at & !7;
        let bytes = (end - self.from) & !7;
        self.words.resize((bytes / 8) as usize, 0);
        let local = libc::iovec { iov_base: self.words.as_mut_ptr().cast(), iov_len: bytes as usize };
        let remote = libc::iovec { iov_base: self.from as *mut libc::c_void, iov_len: bytes as usize };
        // SAFETY: the local vector is the memory of `words`, of that length; the kernel checks the remote one.
        let read = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
        match read {
            8.. => {
                self.words.truncate(read as usize / 8);
                Ok(None)
            }
            _ => {
                let error = std::io::Error::last_os_error();
                self.words.clear();
                match error.raw_os_error() {
                    Some(libc::EPERM) if read < 0 => Err(Failure::Forbidden),
                    Some(libc::ESRCH) if read < 0 => Err(Failure::Gone),
                    // Unmapped meanwhile, or a device.
                    _ => Ok(Some((at / PAGE + 1) * PAGE)),
                }
            }
        }
    }

    /// The pages that exist at or behind an address, to some end; an empty run where there are none up to `end`, or up
    /// to where that is not known yet.
    fn next_run(&mut self, at: u64, end: u64) -> Result<(u64, u64), Failure> {
        let from = at / PAGE * PAGE;
        if from < self.known.0 || from >= self.known.1 {
            self.runs.clear();
            let end = end.next_multiple_of(PAGE).max(from + PAGE);
            let known = if self.lists { self.list(from, end)? } else { None };
            self.known = (from, known.map_or_else(|| self.look(from, end), Ok)?);
        }
        let next = self.runs.partition_point(|&(_, stop)| stop <= at);
        Ok(match self.runs.get(next) {
            Some(&(start, stop)) => (start.max(at), stop),
            None => (self.known.1, self.known.1),
        })
    }

    /// Asks the kernel for a list. Returns how far it goes; None: this kernel has none.
    fn list(&mut self, start: u64, end: u64) -> Result<Option<u64>, Failure> {
        let mut lists = PageLists::of(&self.pagemap);
        match lists.next(start, end) {
            Ok(listed) => {
                for run in lists.runs() {
                    // Pages in memory and in swap are runs of their own.
                    match self.runs.last_mut() {
                        Some(last) if last.1 == run.start => last.1 = run.end,
                        _ => self.runs.push((run.start, run.end)),
                    }
                }
                Ok(Some(listed))
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(Failure::Gone),
            Err(_) => {
                self.lists = false;
                Ok(None)
            }
        }
    }

    /// Looks at the entries of pages. Returns how far.
    fn look(&mut self, start: u64, end: u64) -> Result<u64, Failure> {
        let count = ((end - start) / PAGE).min(PAGES);
        self.entries.resize(8 * count as usize, 0);
        let read = self.pagemap.read_at(&mut self.entries, start / PAGE * 8).map_err(|error| failure(&error))?;
        // Nothing is read of a process that has ended.
        if read < 8 {
            return Err(Failure::Gone);
        }
        for (page, entry) in (start..).step_by(PAGE as usize).zip(self.entries[..read].chunks_exact(8)) {
            if u64::from_le_bytes(entry.try_into().unwrap_or_default()) & EXISTS != 0 {
                match self.runs.last_mut() {
                    Some(last) if last.1 == page => last.1 = page + PAGE,
                    _ => self.runs.push((page, page + PAGE)),
                }
            }
        }
        Ok(start + PAGE * (read as u64 / 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this process: two pages of a large mapping.
    #[test]
    fn only_pages_that_exist_are_read() {
        const BYTES: usize = 1 << 30;
        // SAFETY: a mapping of its own, of that length; two words in it are written.
        let words = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let at = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, BYTES, libc::MADV_NOHUGEPAGE);
            let words = at.cast::<u64>();
            words.add(5000).write_volatile(0xabc);
            words.add(BYTES / 8 - 1).write_volatile(0xdef);
            words
        };
        let enough = || false;
        for lists in [true, false] {
            let mut memory = Memory::of(std::process::id(), &enough, Duration::from_secs(60)).expect("own memory");
            memory.lists = lists;
            let (start, mut seen, mut read) = (words as u64, Vec::new(), 0);
            let each = |at: u64, words: &[u64]| {
                read += words.len();
                seen.extend(
                    (at..).step_by(8).zip(words).filter(|(_, word)| **word != 0).map(|(at, word)| (at - start, *word)),
                );
                Ok(())
            };
            memory.words(start, start + BYTES as u64, start + BYTES as u64, each).expect("readable");
            assert_eq!(seen, [(40_000, 0xabc), (BYTES as u64 - 8, 0xdef)]);
            assert!(read <= 4 * 512, "{read}");
        }
    }
}
