//! Which pages of a process exist: in memory or in swap, shared or its own.
//!
//! The kernel lists runs of pages (`PAGEMAP_SCAN`, from Linux 6.7 on), or has 8 bytes for each page. Either stops once
//! as many were found as smaps counts, so that a reservation of 1 TB with few pages is cheap where they lie at its
//! beginning, and bounded anywhere.

use super::Failure;
use crate::scan::pages::{self, Categories, PageLists};
use mallow_profile::{Mapping, PageRun, PageState};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

pub use crate::scan::pages::PAGE;

/// Entries that are read together: the mmap lock is free in between.
const TOGETHER: u64 = 1 << 15;
/// Bytes that the kernel lists together, for the same reason; more in a mapping of more than so many windows.
const WINDOW: u64 = 1 << 30;
const WINDOWS: u64 = 1 << 10;
/// Entries that are read of a mapping where the kernel has no lists: so many for each page that exists, and so many at
/// least.
const ENTRIES_A_PAGE: u64 = 64;
const ENTRIES_LEAST: u64 = 1 << 18;
/// Most runs that are kept of one process.
const RUNS: usize = 8 << 20;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;

/// The pages of a process.
pub struct Pagemap {
    file: Rc<File>,
    lists: bool,
    entries: Vec<u8>,
    /// What was found so far. No run goes on in another mapping.
    pub runs: Vec<PageRun>,
    /// Index of the first run of the mapping that is being read.
    begin: usize,
}

impl Pagemap {
    pub fn open(pid: u32) -> Result<Self, Failure> {
        let file = File::open(format!("/proc/{pid}/pagemap")).map_err(|error| Failure::of(&error))?;
        Ok(Self { file: Rc::new(file), lists: true, entries: Vec::new(), runs: Vec::new(), begin: 0 })
    }

    /// Adds the pages of a mapping. False: they are not all known, and none was added.
    pub fn read(&mut self, mapping: &Mapping) -> Result<bool, Failure> {
        let expected = (mapping.sizes.rss + mapping.sizes.swap) / PAGE;
        if expected == 0 {
            return Ok(true);
        }
        self.begin = self.runs.len();
        // Only entries say which pages another process has, too: after fork.
        let has_shared = mapping.sizes.shared_clean + mapping.sizes.shared_dirty > 0;
        let is_known = match self.lists {
            true => self.list(mapping, has_shared)?,
            false => false,
        };
        let is_known = if self.lists { is_known } else { self.look(mapping.start, mapping.end, expected, has_shared)? };
        if !is_known {
            self.runs.truncate(self.begin);
        }
        Ok(is_known)
    }

    /// Adds a mapping's pages by the kernel's lists. False: there are too many runs, or this kernel has no lists.
    fn list(&mut self, mapping: &Mapping, has_shared: bool) -> Result<bool, Failure> {
        let file = Rc::clone(&self.file);
        let mut lists = PageLists::of(&file);
        let window = WINDOW.max((mapping.end - mapping.start) / WINDOWS);
        let mut at = mapping.start;
        while at < mapping.end {
            let listed = match lists.next(at, mapping.end.min(at.saturating_add(window))) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(Failure::Gone),
                Err(_) => {
                    // The entries list the whole mapping, what was listed so far as well.
                    self.lists = false;
                    self.runs.truncate(self.begin);
                    return Ok(false);
                }
                Ok(listed) => listed,
            };
            for run in lists.runs() {
                let state = state_of(run.categories);
                match has_shared {
                    true => self.look(run.start, run.end, u64::MAX, true).map(|_| ())?,
                    false => self.push(run.start, (run.end - run.start) / PAGE, state),
                }
            }
            if self.runs.len() > RUNS {
                return Ok(false);
            }
            at = listed.max(at + PAGE);
        }
        Ok(true)
    }

    /// Adds pages by their entries, until `expected` were found. False: too many entries, or too many runs.
    fn look(&mut self, start: u64, end: u64, expected: u64, has_shared: bool) -> Result<bool, Failure> {
        let most = expected.saturating_mul(ENTRIES_A_PAGE).max(ENTRIES_LEAST);
        let (mut at, mut found, mut looked) = (start, 0, 0);
        while at < end && found < expected {
            if looked >= most || self.runs.len() > RUNS {
                return Ok(false);
            }
            let count = ((end - at) / PAGE).min(TOGETHER);
            self.entries.resize(8 * count as usize, 0);
            let mut entries = std::mem::take(&mut self.entries);
            let read = self.file.read_at(&mut entries, at / PAGE * 8).map_err(|error| Failure::of(&error))?;
            // Nothing is read of a process that has ended.
            if read < 8 {
                return Err(Failure::Gone);
            }
            for (page, entry) in (at..).step_by(PAGE as usize).zip(entries[..read].chunks_exact(8)) {
                let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
                // Without shared pages, one that is not this process's own is the page of zeros, which is no RSS.
                let is_zeros = !has_shared && entry & (PRESENT | EXCLUSIVE | OF_A_FILE) == PRESENT;
                if entry & (PRESENT | SWAPPED) != 0 && !is_zeros {
                    found += 1;
                    self.push(page, 1, state(entry, has_shared));
                }
            }
            self.entries = entries;
            looked += read as u64 / 8;
            at += PAGE * (read as u64 / 8);
        }
        Ok(true)
    }

    fn push(&mut self, start: u64, pages: u64, state: PageState) {
        match self.runs[self.begin..].last_mut() {
            Some(last) if last.state == state && last.start + PAGE * last.pages == start => last.pages += pages,
            _ => self.runs.push(PageRun { start, pages, state }),
        }
    }
}

fn state_of(categories: Categories) -> PageState {
    let bit = |category, bit| if categories & category != 0 { bit } else { 0 };
    PageState(
        bit(pages::PRESENT, PageState::RESIDENT)
            | bit(pages::SWAPPED, PageState::SWAPPED)
            | bit(pages::HUGE, PageState::HUGE),
    )
}

/// A private page that is not this process's alone is one of another process, too: forked, or of a file.
fn state(entry: u64, has_shared: bool) -> PageState {
    let is_shared = has_shared && entry & PRESENT != 0 && entry & (EXCLUSIVE | OF_A_FILE) == 0;
    PageState(match (entry & PRESENT != 0, is_shared) {
        (true, true) => PageState::RESIDENT | PageState::SHARED,
        (true, false) => PageState::RESIDENT,
        (false, _) => PageState::SWAPPED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists and entries say the same of this process: pages with holes, one of zeros, and pages that a child has, too.
    #[test]
    fn lists_and_entries_agree() {
        const PAGES: usize = 300;
        // SAFETY: a mapping of its own, of that length; every third page is written, and another one is read.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let bytes = PAGES * PAGE as usize;
            let at = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
            let bytes = at.cast::<u8>();
            (0..PAGES).step_by(3).for_each(|page| bytes.add(page * PAGE as usize).write_volatile(1));
            bytes.add(PAGE as usize).read_volatile();
            at as u64
        };
        let mut mapping = Mapping { start, end: start + PAGES as u64 * PAGE, ..Mapping::default() };
        mapping.sizes.rss = PAGES.div_ceil(3) as u64 * PAGE;
        let mut found = Vec::new();
        for lists in [true, false] {
            let mut pagemap = Pagemap::open(std::process::id()).expect("own pagemap");
            pagemap.lists = lists;
            assert_eq!(pagemap.read(&mapping), Ok(true));
            found.push(pagemap.runs);
        }
        assert_eq!(found[0].len(), PAGES.div_ceil(3));
        assert_eq!(found[0], found[1]);
        assert!(found[0].iter().all(|run| run.state.0 == PageState::RESIDENT && run.pages == 1));
        // Enough were found: the rest is not looked at.
        let mut pagemap = Pagemap::open(std::process::id()).expect("own pagemap");
        pagemap.lists = false;
        mapping.sizes.rss = PAGE;
        assert_eq!(pagemap.read(&mapping), Ok(true));
        assert!(!pagemap.runs.is_empty());
        // SAFETY: the mapping from above, which nobody uses any more.
        unsafe { libc::munmap(start as *mut libc::c_void, PAGES * PAGE as usize) };
        assert_eq!(Pagemap::open(u32::MAX).map(|_| ()), Err(Failure::Gone));
    }

    #[test]
    fn entries_say_what_a_page_is() {
        let state = |entry, has_shared| state(entry, has_shared).0;
        assert_eq!(state(PRESENT | EXCLUSIVE, true), PageState::RESIDENT);
        assert_eq!(state(PRESENT, true), PageState::RESIDENT | PageState::SHARED);
        assert_eq!(state(PRESENT, false), PageState::RESIDENT);
        assert_eq!(state(SWAPPED, true), PageState::SWAPPED);
    }
}
