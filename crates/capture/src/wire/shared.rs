//! Memory that mallow and its targets share.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::faults;

/// A shared mapping of a file that another process writes at the same time.
///
/// Every access is a single atomic load or store inside the mapping; an offset outside reads as 0 and writes nothing.
pub struct Shared {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: all access goes through atomics, as below.
unsafe impl Send for Shared {}
// SAFETY: see Send.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the first `bytes` of `file`, which must be that long; where it is cut short later, it reads as zeros.
    pub fn map(file: &std::fs::File, bytes: usize) -> std::io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        faults::survive();
        if bytes == 0 || file.metadata()?.len() < bytes as u64 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
        };
        Ok(Self { start: start.cast(), bytes })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 4-byte word at `offset`, a multiple of 4; a word outside the mapping is a 0 that leads nowhere.
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        static ZERO: AtomicU32 = AtomicU32::new(0);
        if !offset.is_multiple_of(4) || offset.checked_add(4).is_none_or(|end| end > self.bytes) {
            ZERO.store(0, Ordering::Relaxed);
            return &ZERO;
        }
        // SAFETY: inside the mapping, which lives as long as self; aligned; any bit pattern is a value.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) }
    }

    /// The 8-byte word at `offset`, a multiple of 8; a word outside the mapping is a 0 that leads nowhere.
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        static ZERO: AtomicU64 = AtomicU64::new(0);
        if !offset.is_multiple_of(8) || offset.checked_add(8).is_none_or(|end| end > self.bytes) {
            ZERO.store(0, Ordering::Relaxed);
            return &ZERO;
        }
        // SAFETY: as in word32.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    pub fn get32(&self, offset: usize) -> u32 {
        self.word32(offset).load(Ordering::Acquire)
    }

    pub fn get64(&self, offset: usize) -> u64 {
        self.word64(offset).load(Ordering::Acquire)
    }

    pub fn set32(&self, offset: usize, value: u32) {
        self.word32(offset).store(value, Ordering::Release);
    }

    /// Writes `value` where the word is `expected`, else leaves the word.
    pub fn replace32(&self, offset: usize, expected: u32, value: u32) {
        _ = self.word32(offset).compare_exchange(expected, value, Ordering::AcqRel, Ordering::Acquire);
    }

    pub fn set64(&self, offset: usize, value: u64) {
        self.word64(offset).store(value, Ordering::Release);
    }

    /// Appends a copy of `count` words from `offset` on. Outside the mapping: appends nothing.
    pub fn copy_words(&self, offset: usize, count: usize, to: &mut Vec<u64>) {
        let end = count.checked_mul(8).and_then(|bytes| offset.checked_add(bytes));
        if !offset.is_multiple_of(8) || end.is_none_or(|end| end > self.bytes) {
            return;
        }
        to.reserve(count);
        // SAFETY: source and destination hold `count` words and do not overlap. The producer does not write words below
        // its published head, which is all that callers ask for; one that does all the same changes values, not memory
        // safety, because the copy is of plain integers that are checked afterwards.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(offset).cast::<u64>(), to.as_mut_ptr().add(to.len()), count);
            to.set_len(to.len() + count);
        }
    }

    /// `count` words from `offset` on, for the kernel to copy. None outside the mapping.
    pub fn segment(&self, offset: usize, count: usize) -> Option<Segment<'_>> {
        let bytes = count.checked_mul(8)?;
        let end = offset.checked_add(bytes)?;
        // SAFETY: the segment lies inside the mapping.
        (end <= self.bytes).then(|| Segment { start: unsafe { self.start.add(offset) }, bytes, of: PhantomData })
    }

    /// Copies `count` bytes, or those up to the end of the mapping.
    pub fn copy_bytes(&self, offset: usize, count: usize) -> Vec<u8> {
        let end = offset.saturating_add(count).min(self.bytes);
        (offset..end)
            // SAFETY: each offset is inside the mapping.
            .map(|at| unsafe { self.start.add(at).read_volatile() })
            .collect()
    }

    /// Sleeps while the word at `offset` is `expected`, at most `timeout`.
    pub fn futex_wait(&self, offset: usize, expected: u32, timeout: std::time::Duration) {
        use rustix::thread::futex;
        let timeout =
            rustix::time::Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // A wake-up for any reason is good: callers look again.
        let _ = futex::wait(self.word32(offset), futex::Flags::empty(), expected, Some(&timeout));
    }

    /// Wakes all that sleep on the word at `offset`.
    pub fn futex_wake(&self, offset: usize) {
        use rustix::thread::futex;
        let _ = futex::wake(self.word32(offset), futex::Flags::empty(), i32::MAX as u32);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and references into it borrow self.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}

/// Memory that only the kernel reads: another process may write it at the same time.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    start: *const u8,
    bytes: usize,
    of: PhantomData<&'a Shared>,
}

impl<'a> Segment<'a> {
    pub fn of(words: &'a [u64]) -> Self {
        Self { start: words.as_ptr().cast(), bytes: size_of_val(words), of: PhantomData }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes from `skip` on, for writev; none where `skip` is past the end.
    pub fn iovec(&self, skip: usize) -> libc::iovec {
        let skip = skip.min(self.bytes);
        libc::iovec { iov_base: self.start.wrapping_add(skip).cast_mut().cast(), iov_len: self.bytes - skip }
    }
}
