//! A userfaultfd of another process. All of its requests concern that process's memory.

use crate::wire::guard;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;

/// An access to a page that is missing. Its thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address that was accessed, or the first one of its page.
    pub address: u64,
    pub write: bool,
    pub tid: u32,
}

#[derive(Debug)]
pub struct Userfault {
    descriptor: OwnedFd,
    /// Faults have exact addresses (Linux 5.18).
    pub exact: bool,
}

const API: u64 = 0xaa;
const FEATURE_THREAD_ID: u64 = 1 << 8;
const FEATURE_EXACT_ADDRESS: u64 = 1 << 11;
const REGISTER_MISSING: u64 = 1;
const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_WRITE: u64 = 1;

const IOCTL_API: u64 = 0xc018_aa3f;
const IOCTL_REGISTER: u64 = 0xc020_aa00;
const IOCTL_WAKE: u64 = 0x8010_aa02;
const IOCTL_COPY: u64 = 0xc028_aa03;
const IOCTL_ZEROPAGE: u64 = 0xc020_aa04;

const PAGE: u64 = 4096;

/// Page-aligned: the kernel copies it at once.
#[repr(align(4096))]
struct Pattern([u8; PAGE as usize]);
static PATTERN: Pattern = Pattern([guard::PATTERN; PAGE as usize]);

fn request(descriptor: BorrowedFd<'_>, number: u64, words: &mut [u64]) -> io::Result<()> {
    // SAFETY: each of the requests above reads and writes the words that its callers pass: 2 to 5 of them, as the
    // kernel's header has it. IOCTL_COPY also reads one page, which is a constant; none touches other memory of this
    // process.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), number as _, words.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Userfault {
    /// Begins to use a descriptor that nobody has used yet, for the missing pages of a range.
    pub fn register(descriptor: OwnedFd, start: u64, bytes: u64) -> io::Result<Self> {
        let begin = |features| request(descriptor.as_fd(), IOCTL_API, &mut [API, features, 0]);
        let exact = begin(FEATURE_THREAD_ID | FEATURE_EXACT_ADDRESS).is_ok();
        if !exact {
            begin(FEATURE_THREAD_ID)?;
        }
        request(descriptor.as_fd(), IOCTL_REGISTER, &mut [start, bytes, REGISTER_MISSING, 0])?;
        Ok(Self { descriptor, exact })
    }

    /// Fills pages with zeros, and lets threads go on that wait for them. Pages that are there already stay as they
    /// are. False: the process has no memory any more.
    pub fn fill(&self, start: u64, bytes: u64) -> bool {
        let mut at = start;
        let end = start.saturating_add(bytes);
        let mut refused = 0;
        while at < end {
            let mut words = [at, end - at, 0, 0];
            let result = request(self.descriptor.as_fd(), IOCTL_ZEROPAGE, &mut words);
            let done = (words[3] as i64).max(0) as u64;
            at = at.saturating_add(done);
            match result.map_err(|error| error.raw_os_error()) {
                Ok(()) => {}
                Err(Some(libc::EEXIST)) => at = at.saturating_add(PAGE),
                Err(Some(libc::EAGAIN)) if refused < 1000 => refused += 1,
                Err(Some(libc::ESRCH)) => return false,
                // A page that cannot be filled would hold its thread for ever.
                Err(_) => {
                    self.wake(at);
                    at = at.saturating_add(PAGE);
                }
            }
        }
        true
    }

    /// Makes a slot's pages ready: those of `patterned` (`wire::guard`) get the pattern, and the others zeros. Returns
    /// which have the pattern: not a page that was there already, or for which there is no memory.
    ///
    /// A page of zeros would take a fault and a copy at its first write, in the thread that allocates. A copy here
    /// costs less, and takes memory from here on.
    pub fn make_ready(&self, start: u64, bytes: u64, patterned: u32) -> u32 {
        let end = start.saturating_add(bytes);
        let last = end.saturating_sub(PAGE);
        let mut done = 0;
        if last == start {
            if patterned != 0 && self.copy_pattern(start) {
                return guard::PATTERNED_FIRST;
            }
            self.fill(start, bytes);
            return 0;
        }
        if patterned & guard::PATTERNED_FIRST != 0 && self.copy_pattern(start) {
            done |= guard::PATTERNED_FIRST;
        }
        if patterned & guard::PATTERNED_LAST != 0 && self.copy_pattern(last) {
            done |= guard::PATTERNED_LAST;
        }
        let from = if done & guard::PATTERNED_FIRST != 0 { start + PAGE } else { start };
        let to = if done & guard::PATTERNED_LAST != 0 { last } else { end };
        if from < to {
            self.fill(from, to - from);
        }
        done
    }

    /// Whether the page, which was missing, has the pattern now.
    fn copy_pattern(&self, page: u64) -> bool {
        for _ in 0..1000 {
            let mut words = [page, PATTERN.0.as_ptr() as u64, PAGE, 0, 0];
            match request(self.descriptor.as_fd(), IOCTL_COPY, &mut words).map_err(|error| error.raw_os_error()) {
                Ok(()) => return true,
                Err(Some(libc::EAGAIN)) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Lets the threads go on that wait for a page.
    pub fn wake(&self, page: u64) {
        let _ = request(self.descriptor.as_fd(), IOCTL_WAKE, &mut [page & !(PAGE - 1), PAGE]);
    }

    /// The next fault; None: there is none now.
    pub fn next(&self) -> io::Result<Option<Fault>> {
        let mut message = [0_u8; 32];
        match rustix::io::read(&self.descriptor, &mut message) {
            Ok(32) => {}
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let word = |at: usize| message[at..at + 8].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        let fault = Fault { address: word(16), write: word(8) & FAULT_WRITE != 0, tid: word(24) as u32 };
        Ok((message[0] == EVENT_PAGEFAULT).then_some(fault))
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
