//! `preload/base/wire.h`, `base/wire_attachment.h` and `hook/ask.h` as seen from this side. Names are those of the
//! headers without `MALLOW_` and what the module says already; offsets are in bytes. `crates/capture/tests/wire.rs`
//! lists which name stands for which, and compares every size, offset and number.
//!
//! Nothing that a target wrote is trusted: files are read through [`Shared`], which checks bounds and reads each value
//! once.

pub const VERSION: u32 = 20;
pub const CONTROL_MAGIC: u32 = 0x434c_414d;
pub const PROCESS_MAGIC: u32 = 0x504c_414d;
pub const DIR_VARIABLE: &str = "MALLOW_DIR";
/// File name of the library in the cache, and of the memory that it is attached from.
pub const LIBRARY_NAME: &str = "libmallow.so";
pub const MODE_COUNT: u32 = 1;
pub const MODE_TRACE: u32 = 2;
pub const MODE_IDLE: u32 = 3;
pub const MODE_SAMPLE: u32 = 4;
pub const MODE_DORMANT: u32 = 5;
pub const SAMPLE_LOOK: u64 = 1 << 20;
pub const PERIOD_MOST: u64 = u32::MAX as u64;
pub const NO_CHILDREN: u32 = 1;
pub const SELF_CHECK: u32 = 2;
pub const SCAN: u32 = 4;
pub const SCAN_FORKED: u32 = 8;
pub const INSIDE: u32 = 16;
pub const MEMORY: u32 = 32;
pub const NO_ARGUMENTS: u32 = 4096;
pub const EXIT_NOT: u32 = 0;
pub const EXIT_WAITS: u32 = 1;
pub const EXIT_GO_ON: u32 = 2;
pub const EXIT_SANDBOXED: u32 = 3;
pub const EXIT_GAVE_UP: u32 = 4;
pub const EXIT_EXEC: u32 = 5;
pub const EPOCH_OVER: u64 = u64::MAX;
pub const LARGE_RINGS: u32 = 8;
pub const MAX_MODULES: u32 = 1024;
pub const TABLE_WAIT_MS: u64 = 2000;
pub const MAX_SIZE_CLASSES: u32 = 96;
pub const DEPTH_LIMIT: u32 = 4096;
pub const PROCESS_READY: u32 = 1;
pub const PROCESS_CLOSED: u32 = 2;
pub const SETTING_PYTHON_MALLOC: u32 = 1;
pub const SETTING_ZEND_MALLOC: u32 = 2;
pub const ORIGIN_EXEC: u32 = 1;
pub const ORIGIN_FORK: u32 = 2;
pub const ORIGIN_ATTACH: u32 = 3;
pub const MODULE_WANTED: u32 = 1;
pub const MODULE_READY: u32 = 2;
pub const MODULE_WITHOUT: u32 = 3;
pub const MODULE_LATE: u32 = 4;
pub const THREAD_FREE: u32 = 0;
pub const THREAD_OWNED: u32 = 1;
pub const FLAG_CUT: u32 = 4;
pub const EXACT_PC: u64 = 1 << 63;
pub const FAMILIES: usize = 9;

/// Byte offsets in `struct mallow_control`.
pub mod control {
    pub const FILE_BYTES: usize = 4096;
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const MODE: usize = 8;
    pub const FLAGS: usize = 12;
    pub const MAX_DEPTH: usize = 16;
    pub const READER_PID: usize = 20;
    pub const ROOT_PID: usize = 24;
    pub const LARGE_RING_WORDS: usize = 28;
    pub const SMALL_RING_WORDS: usize = 32;
    pub const MAX_THREADS: usize = 36;
    pub const FAILED_PROCESSES: usize = 40;
    pub const WARMUPS: usize = 44;
    pub const RUNS: usize = 48;
    pub const OPERATIONS: usize = 52;
    pub const QUIET_MS: usize = 56;
    pub const EPOCH: usize = 64;
    pub const DOORBELL: usize = 128;
    pub const ASLEEP: usize = 132;
    pub const PERIOD: usize = 192;
    pub const STACK_BYTES: usize = 200;
    pub const MAX_SLOTS: usize = 208;
    pub const MAX_ENDS: usize = 212;
    pub const SETTLE_MS: usize = 216;
    pub const ASKS: usize = 220;
    pub const GUARD_PAGES: usize = 224;
    pub const GUARD_PLACE: usize = 228;
    pub const GUARD_ALIGNMENT: usize = 232;
    pub const GUARD_FILTERS: usize = 236;
    pub const GUARD_KEEPER: usize = 240;
    pub const READER: usize = 256;
    pub const PING: usize = 260;
    pub const PONG: usize = 264;
    pub const READER_START: usize = 272;
    pub const SILENT: usize = 280;
    pub const UNREACHED_MORE: usize = 320;
    pub const UNREACHED: usize = 328;
}

/// Byte offsets in `struct mallow_unreached`.
pub mod unreached {
    pub const BYTES: usize = 128;
    pub const MAX: u32 = 24;
    pub const NOTED: u32 = 2;
    pub const WITHOUT: u32 = 3;
    pub const UNLINKED: u32 = 4;
    pub const STATE: usize = 0;
    pub const PID: usize = 4;
    pub const NAME: usize = 8;
}

/// Byte offsets in `struct mallow_process`.
pub mod process {
    pub const BYTES: usize = 4096;
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const STATE: usize = 8;
    pub const MODE: usize = 12;
    pub const PID: usize = 16;
    pub const PARENT_PID: usize = 20;
    pub const ORIGIN: usize = 24;
    pub const SERIAL: usize = 28;
    pub const START_NS: usize = 32;
    pub const MODULES_OFFSET: usize = 48;
    pub const THREADS_OFFSET: usize = 56;
    pub const RINGS_OFFSET: usize = 64;
    pub const MAX_THREADS: usize = 72;
    pub const LARGE_RING_WORDS: usize = 76;
    pub const SMALL_RING_WORDS: usize = 80;
    pub const MODULES: usize = 84;
    pub const THREADS: usize = 88;
    pub const GENERATION: usize = 92;
    pub const UNRECORDED: usize = 96;
    pub const EXIT_STATE: usize = 104;
    pub const SIZE_CLASSES: usize = 108;
    pub const EXECUTABLE_LEN: usize = 112;
    pub const ARGUMENTS_LEN: usize = 116;
    pub const SAMPLING: usize = 120;
    pub const HELD: usize = 128;
    pub const SETTINGS: usize = 132;
    pub const EXIT_SP: usize = 136;
    pub const EXIT_THREAD: usize = 144;
    pub const EXIT_SIGNALS: usize = 152;
    pub const USABLE_SIZES: usize = 160;
    pub const OWN: usize = 544;
    pub const TEXT: usize = 552;
}

/// `struct mallow_own`, in words: the address of the next list, then a start and bytes of each range.
pub mod own {
    /// Words of `struct mallow_own`, each of 8 bytes.
    pub const WORDS: usize = 511;
    pub const SLOTS: u64 = 1;
}

/// Byte offsets in `struct mallow_module`.
pub mod module {
    pub const BYTES: usize = 512;
    pub const START: usize = 0;
    pub const END: usize = 8;
    pub const GENERATION: usize = 16;
    pub const STATUS: usize = 20;
    pub const BUILD_ID_LEN: usize = 24;
    pub const PATH_LEN: usize = 28;
    pub const BUILD_ID: usize = 32;
    pub const BUILD_ID_BYTES: usize = 32;
    pub const PATH: usize = 64;
    pub const PATH_BYTES: usize = 448;
}

/// Byte offsets in `struct mallow_thread`.
pub mod thread {
    pub const BYTES: usize = 320;
    pub const OWNER: usize = 0;
    pub const TID: usize = 4;
    pub const HEAD: usize = 8;
    pub const LOST: usize = 16;
    pub const RING_WORDS: usize = 24;
    pub const TAIL: usize = 64;
    pub const WAITING: usize = 72;
    pub const FREES: usize = 128;
    pub const REALLOC_FREES: usize = 136;
    pub const REALLOC_IN_PLACE: usize = 144;
    pub const REALLOC_MOVED: usize = 152;
    pub const COUNTER: usize = 160;
}

/// Byte offsets in `struct mallow_sampling`.
pub mod sampling {
    pub const BYTES: usize = 128;
    pub const SLOTS_OFFSET: usize = 0;
    pub const ENDS_OFFSET: usize = 8;
    pub const STACKS_OFFSET: usize = 16;
    pub const STACKS_BYTES: usize = 24;
    pub const MAX_SLOTS: usize = 32;
    pub const MAX_ENDS: usize = 36;
    pub const EXITED: usize = 40;
    pub const OVER: usize = 44;
    pub const GUARD: usize = 48;
    pub const MODE: usize = 64;
    pub const SLOTS: usize = 68;
    pub const PERIOD: usize = 72;
    pub const STACKS_USED: usize = 80;
    pub const BEGUN: usize = 88;
    pub const ENDED: usize = 96;
    pub const WITHOUT_SLOT: usize = 104;
    pub const WITHOUT_STACK: usize = 112;
    pub const MISSED: usize = 120;
}

pub const ENDING_EXIT: u32 = 1;
pub const ENDING_AT_ONCE: u32 = 2;
pub const ENDING_EXEC: u32 = 3;
pub const OVER_LEFT: u32 = 1;
pub const OVER_FILTER: u32 = 2;
pub const OVER_FOREIGN: u32 = 3;

/// What `struct mallow_slot` holds.
pub mod slot {
    pub const BYTES: usize = 64;
    pub const SEQUENCE: usize = 0;
    pub const ADDRESS: usize = 8;
    pub const SIZE: usize = 16;
    pub const BEGAN_NS: usize = 24;
    pub const PERIOD: usize = 32;
    pub const TID: usize = 36;
    pub const STACK: usize = 40;
    pub const FAMILY: usize = 44;
    pub const FLAGS: usize = 45;
    pub const ID: usize = 48;
    pub const STATE_FREE: u64 = 0;
    pub const STATE_BUSY: u64 = 1;
    pub const STATE_LIVE: u64 = 2;
    pub const INHERITED: u8 = 1;
}

/// What `struct mallow_end` holds.
pub mod end {
    pub const BYTES: usize = 128;
    pub const NUMBER: usize = 0;
    pub const SAMPLE: usize = 8;
    pub const ENDED_NS: usize = 72;
    pub const MOVED_TO: usize = 80;
    pub const TID: usize = 88;
    pub const STACK: usize = 92;
    pub const SLOT: usize = 96;
    pub const KIND: usize = 100;
    pub const FREED: u32 = 1;
    pub const REALLOCATED: u32 = 2;
}

/// Byte offsets in `struct mallow_stack`.
pub mod stack {
    pub const BYTES: usize = 24;
    pub const HASH: usize = 0;
    pub const DEPTH: usize = 8;
    pub const GENERATION: usize = 12;
    pub const FLAGS: usize = 16;
    pub const PC: usize = 24;
}

pub mod ask;
pub mod attachment;
pub(crate) mod faults;
pub mod guard;
pub mod patches;
pub mod record;
pub mod result;
mod shared;

pub use shared::{Segment, Shared};

/// Name of the directory in a user's cache that has the unwind tables of this version.
pub fn table_directory() -> String {
    format!("unwind-{VERSION}")
}

/// Whether a directory of the cache has unwind tables of this version, which recorded processes have mapped.
pub fn is_table_directory(name: &str) -> bool {
    name.strip_prefix("unwind-").is_some_and(|version| version == VERSION.to_string())
}
