//! `preload/base/wire.h`, `base/wire_attachment.h` and `hook/ask.h` as seen from this side.
//! `crates/capture/tests/wire.rs` compares every size, offset and number with the headers.
//!
//! Nothing that a target wrote is trusted: files are read through [`Shared`], which checks bounds and reads each value
//! once.

/// `MALLOW_WIRE_VERSION`
pub const VERSION: u32 = 20;
/// `MALLOW_CONTROL_MAGIC`
pub const CONTROL_MAGIC: u32 = 0x434c_414d;
/// `MALLOW_PROCESS_MAGIC`
pub const PROCESS_MAGIC: u32 = 0x504c_414d;
/// `MALLOW_DIR_VARIABLE`
pub const DIR_VARIABLE: &str = "MALLOW_DIR";
/// The library's file name, in a file system and in memory.
pub const LIBRARY_NAME: &str = "libmallow.so";
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
/// `MALLOW_SCAN`
pub const SCAN: u32 = 4;
/// `MALLOW_SCAN_FORKED`
pub const SCAN_FORKED: u32 = 8;
/// `MALLOW_INSIDE`
pub const INSIDE: u32 = 16;
/// `MALLOW_MEMORY`
pub const MEMORY: u32 = 32;
/// `MALLOW_NO_ARGUMENTS`
pub const NO_ARGUMENTS: u32 = 4096;
/// `MALLOW_EXIT_NOT`
pub const EXIT_NOT: u32 = 0;
/// `MALLOW_EXIT_WAITS`
pub const EXIT_WAITS: u32 = 1;
/// `MALLOW_EXIT_GO_ON`
pub const EXIT_GO_ON: u32 = 2;
/// `MALLOW_EXIT_SANDBOXED`
pub const EXIT_SANDBOXED: u32 = 3;
/// `MALLOW_EXIT_GAVE_UP`
pub const EXIT_GAVE_UP: u32 = 4;
/// `MALLOW_EXIT_EXEC`
pub const EXIT_EXEC: u32 = 5;
/// `MALLOW_EPOCH_OVER`
pub const EPOCH_OVER: u64 = u64::MAX;
/// `MALLOW_LARGE_RINGS`
pub const LARGE_RINGS: u32 = 8;
/// `MALLOW_MAX_MODULES`
pub const MAX_MODULES: u32 = 1024;
/// `MALLOW_TABLE_WAIT_MS`
pub const TABLE_WAIT_MS: u64 = 2000;
/// `MALLOW_MAX_SIZE_CLASSES`
pub const MAX_SIZE_CLASSES: u32 = 96;
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
/// `MALLOW_ORIGIN_EXEC`
pub const ORIGIN_EXEC: u32 = 1;
/// `MALLOW_ORIGIN_FORK`
pub const ORIGIN_FORK: u32 = 2;
/// `MALLOW_ORIGIN_ATTACH`
pub const ORIGIN_ATTACH: u32 = 3;
/// `MALLOW_MODULE_WANTED`
pub const MODULE_WANTED: u32 = 1;
/// `MALLOW_MODULE_READY`
pub const MODULE_READY: u32 = 2;
/// `MALLOW_MODULE_WITHOUT`
pub const MODULE_WITHOUT: u32 = 3;
/// `MALLOW_MODULE_LATE`
pub const MODULE_LATE: u32 = 4;
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
    /// `asks`
    pub const ASKS: usize = 220;
    /// `guard_pages`
    pub const GUARD_PAGES: usize = 224;
    /// `guard_place`
    pub const GUARD_PLACE: usize = 228;
    /// `guard_alignment`
    pub const GUARD_ALIGNMENT: usize = 232;
    /// `guard_filters`
    pub const GUARD_FILTERS: usize = 236;
    /// `guard_keeper`
    pub const GUARD_KEEPER: usize = 240;
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
    /// `MALLOW_UNREACHED_UNLINKED`
    pub const UNLINKED: u32 = 4;
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
    /// `generation`
    pub const GENERATION: usize = 92;
    /// `unrecorded`
    pub const UNRECORDED: usize = 96;
    /// `exit_state`
    pub const EXIT_STATE: usize = 104;
    /// `size_classes`
    pub const SIZE_CLASSES: usize = 108;
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
    /// `exit_sp`
    pub const EXIT_SP: usize = 136;
    /// `exit_thread`
    pub const EXIT_THREAD: usize = 144;
    /// `exit_signals`
    pub const EXIT_SIGNALS: usize = 152;
    /// `usable_sizes`
    pub const USABLE_SIZES: usize = 160;
    /// `own`
    pub const OWN: usize = 544;
    /// `text`
    pub const TEXT: usize = 552;
}

/// `struct mallow_own`, in words: the address of the next list, then a start and bytes of each range.
pub mod own {
    /// Size of the struct, in words.
    pub const WORDS: usize = 511;
    /// `MALLOW_OWN_SLOTS`
    pub const SLOTS: u64 = 1;
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
    /// `guard`
    pub const GUARD: usize = 48;
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

/// `MALLOW_ENDING_EXIT`
pub const ENDING_EXIT: u32 = 1;
/// `MALLOW_ENDING_AT_ONCE`
pub const ENDING_AT_ONCE: u32 = 2;
/// `MALLOW_ENDING_EXEC`
pub const ENDING_EXEC: u32 = 3;
/// `MALLOW_OVER_LEFT`
pub const OVER_LEFT: u32 = 1;
/// `MALLOW_OVER_FILTER`
pub const OVER_FILTER: u32 = 2;
/// `MALLOW_OVER_FOREIGN`
pub const OVER_FOREIGN: u32 = 3;

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

pub mod ask;
pub mod attachment;
pub(crate) mod faults;
pub mod guard;
pub mod patches;
pub mod record;
pub mod result;
mod shared;

pub use shared::{Segment, Shared};

/// The directory of tables of this version, in the cache of a user.
pub fn table_directory() -> String {
    format!("unwind-{VERSION}")
}

/// Whether a directory of this name has tables of this version: processes that are recorded have them mapped.
pub fn is_table_directory(name: &str) -> bool {
    name.strip_prefix("unwind-").is_some_and(|version| version == VERSION.to_string())
}
