//! A copy of what a scan reads of a process that waits at its exit: it can end then, and the scan comes when the replay
//! knows which blocks are live.

use super::copied_pages::PagesCopy;
use super::kernel;
use super::mappings::mappings;
use super::memory::Memory;
use super::roots::is_searched;
use super::threads::{Thread, stood_still, threads};
use super::{Exit, ExitPoint, Failure};
use mallow_proc::Mapping;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Copies that are begun, at the most, until no thread ran meanwhile.
const ATTEMPTS: u32 = 3;
/// The longest time that a process waits for its copy.
const TIME: Duration = Duration::from_secs(2);

/// What a scan needs of a process.
#[derive(Clone, PartialEq, Eq)]
pub struct ProcessCopy {
    pub at: ExitPoint,
    pub mappings: Vec<Mapping>,
    pub threads: Vec<Thread>,
    pub held: Vec<u64>,
    pub own: Vec<Range<u64>>,
    pub pages: PagesCopy,
}

impl fmt::Debug for ProcessCopy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProcessCopy").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl ProcessCopy {
    /// Copies a process that waits; None: it has more than `most` bytes of what is searched, this process has no memory
    /// for them, or its threads do not stand still.
    pub fn of(exit: &Exit<'_>, most: u64) -> Result<Option<Self>, Failure> {
        let mut memory = Memory::of(exit.pid, exit.enough, TIME)?;
        for _ in 0..ATTEMPTS {
            memory.renew();
            let before = threads(exit.pid);
            // One runs now: what is copied beside it is for nothing.
            if !stood_still(&before, &before, exit.at.sp) {
                continue;
            }
            let mappings = mappings(exit.pid)?;
            let held = kernel::held(exit.pid);
            let Some(pages) = pages(&mappings, exit.directory, most, &mut memory)? else { return Ok(None) };
            if stood_still(&before, &threads(exit.pid), exit.at.sp) {
                let own = exit.own.to_vec();
                return Ok(Some(Self { at: exit.at, mappings, threads: before, held, own, pages }));
            }
        }
        Ok(None)
    }

    pub fn bytes(&self) -> u64 {
        self.pages.bytes()
    }
}

/// Copies the pages of mappings that are searched. None: they have more than `most` bytes, or there is no memory for
/// them.
fn pages(
    mappings: &[Mapping],
    directory: &str,
    most: u64,
    memory: &mut Memory<'_>,
) -> Result<Option<PagesCopy>, Failure> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| is_searched(mapping, directory)) {
        for (start, end) in memory.existing(mapping.start, mapping.end)? {
            match runs.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => runs.push((start, end)),
            }
        }
    }
    let bytes = runs.iter().fold(0, |sum: u64, (start, end)| sum.saturating_add(end - start));
    if bytes > most {
        return Ok(None);
    }
    let Some(mut copy) = PagesCopy::with_room(bytes / 8) else { return Ok(None) };
    for (start, end) in runs {
        // What cannot be read, as a device's memory, is not there.
        memory.words(start, end, end, |at, words| {
            copy.push(at, words);
            Ok(())
        })?;
    }
    Ok(Some(copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this process: three pages of a large mapping, two of which are neighbours.
    #[test]
    fn a_copy_reads_as_the_process_does() {
        const BYTES: usize = 1 << 30;
        // SAFETY: a mapping of its own, of that length; words in it are written.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let at = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, BYTES, libc::MADV_NOHUGEPAGE);
            for word in [5000, 5120, BYTES / 8 - 1] {
                at.cast::<u64>().add(word).write_volatile(word as u64);
            }
            at as u64
        };
        let (end, enough) = (start + BYTES as u64, || false);
        let mut memory = Memory::of(std::process::id(), &enough, Duration::from_secs(60)).expect("own memory");
        let mut all = mappings(std::process::id()).expect("own mappings");
        all.retain(|mapping| mapping.start <= start && end <= mapping.end);
        (all[0].start, all[0].end) = (start, end);
        let copy = pages(&all, "", 3 << 12, &mut memory).expect("readable").expect("it is small");
        assert_eq!(copy.runs().collect::<Vec<_>>(), [(start + 0x9000, start + 0xb000), (end - 0x1000, end)]);
        assert!(pages(&all, "", (3 << 12) - 1, &mut memory).expect("readable").is_none());
        let mut copied = Memory::of_copy(&copy, &enough);
        // What has no pages, and addresses that no program has, first: they change nothing.
        assert_eq!(copied.array(1 << 63, 0), Ok([0]));
        let mut seen = [Vec::new(), Vec::new()];
        for range in [0..4096, 1 << 62..(1 << 62) + 4096, start..end, start + 40_008..start + 40_960] {
            for (memory, seen) in [&mut memory, &mut copied].into_iter().zip(&mut seen) {
                let each = |at: u64, words: &[u64]| {
                    seen.extend((at..).step_by(8).zip(words.iter().copied()).filter(|(_, word)| *word != 0));
                    Ok(())
                };
                let _ = memory.words(range.start, range.end, range.end, each);
            }
        }
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[1].iter().map(|(_, word)| *word).collect::<Vec<_>>(), [5000, 5120, BYTES as u64 / 8 - 1]);
        assert_eq!(copied.array(start + 40_000, 0), Ok([5000, 0]));
        let mut none = Memory::of_copy(&copy, &|| true);
        assert_eq!(none.array::<1>(start + 40_000, 0), Err(Failure::Stopped));
    }
}
