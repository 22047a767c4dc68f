//! `preload/base/wire.h` as seen from this side. `crates/capture/tests/wire.rs` compares every size, offset and number with the header.
//!
//! Nothing that a target wrote is trusted: files are read through [`Shared`], which checks bounds and reads each value
//! once.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `MALLOW_WIRE_VERSION`
pub const VERSION: u32 = 4;
/// `MALLOW_CONTROL_MAGIC`
pub const CONTROL_MAGIC: u32 = 0x434c_414d;
/// `MALLOW_PROCESS_MAGIC`
pub const PROCESS_MAGIC: u32 = 0x504c_414d;
/// `MALLOW_DIR_VARIABLE`
pub const DIR_VARIABLE: &str = "MALLOW_DIR";
/// `MALLOW_MODE_COUNT`
pub const MODE_COUNT: u32 = 1;
/// `MALLOW_MODE_TRACE`
pub const MODE_TRACE: u32 = 2;
/// `MALLOW_MODE_IDLE`
pub const MODE_IDLE: u32 = 3;
/// `MALLOW_MODE_SAMPLE`
pub const MODE_SAMPLE: u32 = 4;
/// `MALLOW_MODE_DORMANT`
pub const MODE_DORMANT: u32 = 5;
/// `MALLOW_SAMPLE_LOOK`
pub const SAMPLE_LOOK: u64 = 1 << 20;
/// `MALLOW_PERIOD_MOST`
pub const PERIOD_MOST: u64 = u32::MAX as u64;
/// `MALLOW_NO_CHILDREN`
pub const NO_CHILDREN: u32 = 1;
/// `MALLOW_SELF_CHECK`
pub const SELF_CHECK: u32 = 2;
/// `MALLOW_EPOCH_OVER`
pub const EPOCH_OVER: u64 = u64::MAX;
/// `MALLOW_LARGE_RINGS`
pub const LARGE_RINGS: u32 = 8;
/// `MALLOW_MAX_MODULES`
pub const MAX_MODULES: u32 = 1024;
/// `MALLOW_DEPTH_LIMIT`
pub const DEPTH_LIMIT: u32 = 4096;
/// `MALLOW_PROCESS_READY`
pub const PROCESS_READY: u32 = 1;
/// `MALLOW_PROCESS_CLOSED`
pub const PROCESS_CLOSED: u32 = 2;
/// `MALLOW_SETTING_PYTHON_MALLOC`
pub const SETTING_PYTHON_MALLOC: u32 = 1;
/// `MALLOW_SETTING_ZEND_MALLOC`
pub const SETTING_ZEND_MALLOC: u32 = 2;
/// `MALLOW_ORIGIN_FORK`
pub const ORIGIN_FORK: u32 = 2;
/// `MALLOW_MODULE_WANTED`
pub const MODULE_WANTED: u32 = 1;
/// `MALLOW_MODULE_READY`
pub const MODULE_READY: u32 = 2;
/// `MALLOW_MODULE_WITHOUT`
pub const MODULE_WITHOUT: u32 = 3;
/// `MALLOW_THREAD_FREE`
pub const THREAD_FREE: u32 = 0;
/// `MALLOW_THREAD_OWNED`
pub const THREAD_OWNED: u32 = 1;
/// `MALLOW_FLAG_CUT`
pub const FLAG_CUT: u32 = 4;
/// `MALLOW_EXACT_PC`
pub const EXACT_PC: u64 = 1 << 63;
/// `MALLOW_FAMILY_COUNT`
pub const FAMILIES: usize = 9;

/// Byte offsets in `struct mallow_control`.
pub mod control {
    /// Size of the file.
    pub const FILE_BYTES: usize = 4096;
    /// `magic`
    pub const MAGIC: usize = 0;
    /// `version`
    pub const VERSION: usize = 4;
    /// `mode`
    pub const MODE: usize = 8;
    /// `flags`
    pub const FLAGS: usize = 12;
    /// `max_depth`
    pub const MAX_DEPTH: usize = 16;
    /// `reader_pid`
    pub const READER_PID: usize = 20;
    /// `root_pid`
    pub const ROOT_PID: usize = 24;
    /// `large_ring_words`
    pub const LARGE_RING_WORDS: usize = 28;
    /// `small_ring_words`
    pub const SMALL_RING_WORDS: usize = 32;
    /// `max_threads`
    pub const MAX_THREADS: usize = 36;
    /// `failed_processes`
    pub const FAILED_PROCESSES: usize = 40;
    /// `warmups`
    pub const WARMUPS: usize = 44;
    /// `runs`
    pub const RUNS: usize = 48;
    /// `operations`
    pub const OPERATIONS: usize = 52;
    /// `quiet_ms`
    pub const QUIET_MS: usize = 56;
    /// `epoch`
    pub const EPOCH: usize = 64;
    /// `doorbell`
    pub const DOORBELL: usize = 128;
    /// `asleep`
    pub const ASLEEP: usize = 132;
    /// `period`
    pub const PERIOD: usize = 192;
    /// `stack_bytes`
    pub const STACK_BYTES: usize = 200;
    /// `max_slots`
    pub const MAX_SLOTS: usize = 208;
    /// `max_ends`
    pub const MAX_ENDS: usize = 212;
    /// `settle_ms`
    pub const SETTLE_MS: usize = 216;
    /// `reader`
    pub const READER: usize = 256;
    /// `ping`
    pub const PING: usize = 260;
    /// `pong`
    pub const PONG: usize = 264;
    /// `reader_start`
    pub const READER_START: usize = 272;
    /// `silent`
    pub const SILENT: usize = 280;
    /// `unreached_more`
    pub const UNREACHED_MORE: usize = 320;
    /// `unreached`
    pub const UNREACHED: usize = 328;
}

/// Byte offsets in `struct mallow_unreached`.
pub mod unreached {
    /// Size of the struct.
    pub const BYTES: usize = 128;
    /// `MALLOW_MAX_UNREACHED`
    pub const MAX: u32 = 24;
    /// `MALLOW_UNREACHED_NOTED`
    pub const NOTED: u32 = 2;
    /// `MALLOW_UNREACHED_WITHOUT`
    pub const WITHOUT: u32 = 3;
    /// `state`
    pub const STATE: usize = 0;
    /// `pid`
    pub const PID: usize = 4;
    /// `name`
    pub const NAME: usize = 8;
}

/// Byte offsets in `struct mallow_process`.
pub mod process {
    /// Size of the struct.
    pub const BYTES: usize = 4096;
    /// `magic`
    pub const MAGIC: usize = 0;
    /// `version`
    pub const VERSION: usize = 4;
    /// `state`
    pub const STATE: usize = 8;
    /// `mode`
    pub const MODE: usize = 12;
    /// `pid`
    pub const PID: usize = 16;
    /// `parent_pid`
    pub const PARENT_PID: usize = 20;
    /// `origin`
    pub const ORIGIN: usize = 24;
    /// `serial`
    pub const SERIAL: usize = 28;
    /// `start_ns`
    pub const START_NS: usize = 32;
    /// `modules_offset`
    pub const MODULES_OFFSET: usize = 48;
    /// `threads_offset`
    pub const THREADS_OFFSET: usize = 56;
    /// `rings_offset`
    pub const RINGS_OFFSET: usize = 64;
    /// `max_threads`
    pub const MAX_THREADS: usize = 72;
    /// `large_ring_words`
    pub const LARGE_RING_WORDS: usize = 76;
    /// `small_ring_words`
    pub const SMALL_RING_WORDS: usize = 80;
    /// `modules`
    pub const MODULES: usize = 84;
    /// `threads`
    pub const THREADS: usize = 88;
    /// `unrecorded`
    pub const UNRECORDED: usize = 96;
    /// `executable_len`
    pub const EXECUTABLE_LEN: usize = 112;
    /// `arguments_len`
    pub const ARGUMENTS_LEN: usize = 116;
    /// `sampling`
    pub const SAMPLING: usize = 120;
    /// `held`
    pub const HELD: usize = 128;
    /// `settings`
    pub const SETTINGS: usize = 132;
    /// `text`
    pub const TEXT: usize = 136;
}

/// Byte offsets in `struct mallow_module`.
pub mod module {
    /// Size of the struct.
    pub const BYTES: usize = 512;
    /// `start`
    pub const START: usize = 0;
    /// `end`
    pub const END: usize = 8;
    /// `generation`
    pub const GENERATION: usize = 16;
    /// `status`
    pub const STATUS: usize = 20;
    /// `build_id_len`
    pub const BUILD_ID_LEN: usize = 24;
    /// `path_len`
    pub const PATH_LEN: usize = 28;
    /// `build_id`
    pub const BUILD_ID: usize = 32;
    /// Size of `build_id`.
    pub const BUILD_ID_BYTES: usize = 32;
    /// `path`
    pub const PATH: usize = 64;
    /// Size of `path`.
    pub const PATH_BYTES: usize = 448;
}

/// Byte offsets in `struct mallow_thread`.
pub mod thread {
    /// Size of the struct.
    pub const BYTES: usize = 320;
    /// `owner`
    pub const OWNER: usize = 0;
    /// `tid`
    pub const TID: usize = 4;
    /// `head`
    pub const HEAD: usize = 8;
    /// `lost`
    pub const LOST: usize = 16;
    /// `ring_words`
    pub const RING_WORDS: usize = 24;
    /// `tail`
    pub const TAIL: usize = 64;
    /// `waiting`
    pub const WAITING: usize = 72;
    /// `frees`
    pub const FREES: usize = 128;
    /// `realloc_frees`
    pub const REALLOC_FREES: usize = 136;
    /// `realloc_in_place`
    pub const REALLOC_IN_PLACE: usize = 144;
    /// `realloc_moved`
    pub const REALLOC_MOVED: usize = 152;
    /// `counter`
    pub const COUNTER: usize = 160;
}

/// Byte offsets in `struct mallow_sampling`.
pub mod sampling {
    /// Size of the struct.
    pub const BYTES: usize = 128;
    /// `slots_offset`
    pub const SLOTS_OFFSET: usize = 0;
    /// `ends_offset`
    pub const ENDS_OFFSET: usize = 8;
    /// `stacks_offset`
    pub const STACKS_OFFSET: usize = 16;
    /// `stacks_bytes`
    pub const STACKS_BYTES: usize = 24;
    /// `max_slots`
    pub const MAX_SLOTS: usize = 32;
    /// `max_ends`
    pub const MAX_ENDS: usize = 36;
    /// `exited`
    pub const EXITED: usize = 40;
    /// `over`
    pub const OVER: usize = 44;
    /// `mode`
    pub const MODE: usize = 64;
    /// `slots`
    pub const SLOTS: usize = 68;
    /// `period`
    pub const PERIOD: usize = 72;
    /// `stacks_used`
    pub const STACKS_USED: usize = 80;
    /// `begun`
    pub const BEGUN: usize = 88;
    /// `ended`
    pub const ENDED: usize = 96;
    /// `without_slot`
    pub const WITHOUT_SLOT: usize = 104;
    /// `without_stack`
    pub const WITHOUT_STACK: usize = 112;
    /// `missed`
    pub const MISSED: usize = 120;
}

/// `MALLOW_OVER_LEFT`
pub const OVER_LEFT: u32 = 1;
/// `MALLOW_OVER_FILTER`
pub const OVER_FILTER: u32 = 2;

/// What `struct mallow_slot` holds.
pub mod slot {
    /// Size of the struct.
    pub const BYTES: usize = 64;
    /// `sequence`
    pub const SEQUENCE: usize = 0;
    /// `address`
    pub const ADDRESS: usize = 8;
    /// `size`
    pub const SIZE: usize = 16;
    /// `began_ns`
    pub const BEGAN_NS: usize = 24;
    /// `period`
    pub const PERIOD: usize = 32;
    /// `tid`
    pub const TID: usize = 36;
    /// `stack`
    pub const STACK: usize = 40;
    /// `family`
    pub const FAMILY: usize = 44;
    /// `flags`
    pub const FLAGS: usize = 45;
    /// `id`
    pub const ID: usize = 48;
    /// `MALLOW_SLOT_FREE`
    pub const STATE_FREE: u64 = 0;
    /// `MALLOW_SLOT_BUSY`
    pub const STATE_BUSY: u64 = 1;
    /// `MALLOW_SLOT_LIVE`
    pub const STATE_LIVE: u64 = 2;
    /// `MALLOW_SAMPLE_INHERITED`
    pub const INHERITED: u8 = 1;
}

/// What `struct mallow_end` holds.
pub mod end {
    /// Size of the struct.
    pub const BYTES: usize = 128;
    /// `number`
    pub const NUMBER: usize = 0;
    /// `sample`
    pub const SAMPLE: usize = 8;
    /// `ended_ns`
    pub const ENDED_NS: usize = 72;
    /// `moved_to`
    pub const MOVED_TO: usize = 80;
    /// `tid`
    pub const TID: usize = 88;
    /// `stack`
    pub const STACK: usize = 92;
    /// `slot`
    pub const SLOT: usize = 96;
    /// `kind`
    pub const KIND: usize = 100;
    /// `MALLOW_END_FREED`
    pub const FREED: u32 = 1;
    /// `MALLOW_END_REALLOCATED`
    pub const REALLOCATED: u32 = 2;
}

/// Byte offsets in `struct mallow_stack`.
pub mod stack {
    /// Size of the struct.
    pub const BYTES: usize = 24;
    /// `hash`
    pub const HASH: usize = 0;
    /// `depth`
    pub const DEPTH: usize = 8;
    /// `generation`
    pub const GENERATION: usize = 12;
    /// `flags`
    pub const FLAGS: usize = 16;
    /// `pc`
    pub const PC: usize = 24;
}

pub(crate) mod faults;
pub mod record;
pub mod result;

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

    /// Size of the mapping.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 4-byte word at `offset`, a multiple of 4.
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        static ZERO: AtomicU32 = AtomicU32::new(0);
        if !offset.is_multiple_of(4) || offset.checked_add(4).is_none_or(|end| end > self.bytes) {
            ZERO.store(0, Ordering::Relaxed);
            return &ZERO;
        }
        // SAFETY: inside the mapping, which lives as long as self; aligned; any bit pattern is a value.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) }
    }

    /// The 8-byte word at `offset`, a multiple of 8.
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        static ZERO: AtomicU64 = AtomicU64::new(0);
        if !offset.is_multiple_of(8) || offset.checked_add(8).is_none_or(|end| end > self.bytes) {
            ZERO.store(0, Ordering::Relaxed);
            return &ZERO;
        }
        // SAFETY: as in word32.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Reads a 4-byte word.
    pub fn get32(&self, offset: usize) -> u32 {
        self.word32(offset).load(Ordering::Acquire)
    }

    /// Reads an 8-byte word.
    pub fn get64(&self, offset: usize) -> u64 {
        self.word64(offset).load(Ordering::Acquire)
    }

    /// Writes a 4-byte word.
    pub fn set32(&self, offset: usize, value: u32) {
        self.word32(offset).store(value, Ordering::Release);
    }

    /// Writes an 8-byte word.
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

    /// Copies bytes; fewer where the mapping ends.
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

/// Memory that only the kernel reads: another process may write it at the same time.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    start: *const u8,
    bytes: usize,
    of: PhantomData<&'a Shared>,
}

impl<'a> Segment<'a> {
    /// Words of our own.
    pub fn of(words: &'a [u64]) -> Self {
        Self { start: words.as_ptr().cast(), bytes: size_of_val(words), of: PhantomData }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// For writev, from byte `skip` on.
    pub fn iovec(&self, skip: usize) -> libc::iovec {
        let skip = skip.min(self.bytes);
        libc::iovec { iov_base: self.start.wrapping_add(skip).cast_mut().cast(), iov_len: self.bytes - skip }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and references into it borrow self.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}
