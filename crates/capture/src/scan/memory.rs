//! Reading the memory of another process, or of a copy of it: words of pages that exist.
//!
//! A page that nobody touched has no pointers, and reading it would make it exist. The kernel lists the pages that do
//! (`PAGEMAP_SCAN`, from Linux 6.7 on), or has 8 bytes for each page, which makes a sparse mapping of 1 TB cost some
//! seconds.

use super::Failure;
use super::copied_pages::PagesCopy;
use super::mappings::failure;
use super::pages::{PAGE, PageLists};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const WINDOW_BYTES: u64 = 1 << 20;
const PAGES: u64 = 1 << 16;
/// Bits of a page's entry in pagemap: it is in memory, or in swap.
const EXISTS: u64 = 0b11 << 62;

enum Source<'a> {
    Process {
        pid: i32,
        pagemap: File,
        /// The kernel has PAGEMAP_SCAN, as far as is known.
        lists: bool,
    },
    Copy(&'a PagesCopy),
}

pub struct Memory<'a> {
    source: Source<'a>,
    /// Runs of pages that exist in `known`, by address: start and end. Of a copy, all that it has.
    runs: Vec<(u64, u64)>,
    known: (u64, u64),
    entries: Vec<u8>,
    words: Vec<u64>,
    from: u64,
    enough: &'a (dyn Fn() -> bool + Sync),
    /// When reading ends with [`Failure::Stopped`]; None: never.
    until: Option<Instant>,
}

impl<'a> Memory<'a> {
    /// Memory of process `pid`, which may be read for so long.
    pub fn of(pid: u32, enough: &'a (dyn Fn() -> bool + Sync), time: Duration) -> Result<Self, Failure> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(|error| failure(&error))?;
        let pid = i32::try_from(pid).map_err(|_| Failure::Gone)?;
        Ok(Self::new(Source::Process { pid, pagemap, lists: true }, enough, Some(Instant::now() + time)))
    }

    pub fn of_copy(copy: &'a PagesCopy, enough: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { runs: copy.runs().collect(), ..Self::new(Source::Copy(copy), enough, None) }
    }

    fn new(source: Source<'a>, enough: &'a (dyn Fn() -> bool + Sync), until: Option<Instant>) -> Self {
        Self { source, runs: Vec::new(), known: (0, 0), entries: Vec::new(), words: Vec::new(), from: 0, enough, until }
    }

    /// Forgets what was read of a process, which may have changed; does nothing to a copy.
    pub fn renew(&mut self) {
        if let Source::Process { .. } = self.source {
            self.words.clear();
            self.known = (0, 0);
        }
    }

    /// Runs of pages that exist from `start` to `end`, by address: start and end of each.
    pub fn existing(&mut self, start: u64, end: u64) -> Result<Vec<(u64, u64)>, Failure> {
        let (mut runs, mut at) = (Vec::new(), start);
        while at < end {
            let (from, stop) = self.next_run(at, end)?;
            if from < stop.min(end) {
                runs.push((from, stop.min(end)));
            }
            at = stop;
        }
        Ok(runs)
    }

    /// Calls `each` with the aligned words of a range, in pieces, and the address of each piece; what does not exist is
    /// passed over. What follows the range up to `ahead` may be read with it.
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

    /// The words from this address on; 0 where there are none. So many bytes ahead may be read with them.
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

    /// Reads what exists from this address on, up to `end` at the most. Some: nothing exists up to that address.
    fn fill(&mut self, at: u64, end: u64) -> Result<Option<u64>, Failure> {
        if (self.enough)() || self.until.is_some_and(|until| Instant::now() > until) {
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
        let pid = match &self.source {
            Source::Process { pid, .. } => *pid,
            Source::Copy(copy) => {
                copy.read(self.from, &mut self.words);
                return Ok(None);
            }
        };
        // SAFETY: the local vector is the memory of `words`, of that length; the kernel checks the remote one.
        let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
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

    /// Start and end of the first run of pages that exist at or behind an address; both are the same where no page
    /// exists up to there, as far as that is known.
    fn next_run(&mut self, at: u64, end: u64) -> Result<(u64, u64), Failure> {
        let from = at / PAGE * PAGE;
        let is_known = match self.source {
            Source::Process { .. } => self.known.0 <= from && from < self.known.1,
            // From the start, all of them.
            Source::Copy(_) => true,
        };
        if !is_known {
            self.runs.clear();
            let end = end.next_multiple_of(PAGE).max(from + PAGE);
            let known = self.list(from, end)?;
            self.known = (from, known.map_or_else(|| self.look(from, end), Ok)?);
        }
        let next = self.runs.partition_point(|&(_, stop)| stop <= at);
        Ok(match (self.runs.get(next), &self.source) {
            (Some(&(start, stop)), _) => (start.max(at), stop),
            (None, Source::Process { .. }) => (self.known.1, self.known.1),
            (None, Source::Copy(_)) => (end, end),
        })
    }

    /// Fills `runs` from the kernel's list. Returns up to which address; None: this kernel has no lists.
    fn list(&mut self, start: u64, end: u64) -> Result<Option<u64>, Failure> {
        let Source::Process { pagemap, lists: has_lists @ true, .. } = &mut self.source else { return Ok(None) };
        let mut lists = PageLists::of(pagemap);
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
                *has_lists = false;
                Ok(None)
            }
        }
    }

    /// Fills `runs` from pagemap's entries. Returns up to which address.
    fn look(&mut self, start: u64, end: u64) -> Result<u64, Failure> {
        let Source::Process { pagemap, .. } = &self.source else { return Ok(end) };
        let count = ((end - start) / PAGE).min(PAGES);
        self.entries.resize(8 * count as usize, 0);
        let read = pagemap.read_at(&mut self.entries, start / PAGE * 8).map_err(|error| failure(&error))?;
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
            if let Source::Process { lists: has_lists, .. } = &mut memory.source {
                *has_lists = lists;
            }
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
