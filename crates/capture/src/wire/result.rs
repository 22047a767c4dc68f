//! What `struct mallow_result` holds.

/// Size of the struct.
pub const BYTES: usize = 256;
/// `magic`
pub const MAGIC: usize = 0;
pub const MAGIC_VALUE: u32 = 0x524c_414d;
/// `kind`
pub const KIND: usize = 4;
/// `pid`
pub const PID: usize = 8;
/// `tid`
pub const TID: usize = 12;
/// `flags`
pub const FLAGS: usize = 16;
/// `run`
pub const RUN: usize = 20;
/// `number`
pub const NUMBER: usize = 24;
/// `name_len`
pub const NAME_LEN: usize = 28;
/// `operations`
pub const OPERATIONS: usize = 32;
/// `allocations`
pub const ALLOCATIONS: usize = 40;
/// `bytes`
pub const ALLOCATED_BYTES: usize = 48;
/// `frees`
pub const FREES: usize = 56;
/// `reallocs_in_place`
pub const REALLOCS_IN_PLACE: usize = 64;
/// `reallocs_moved`
pub const REALLOCS_MOVED: usize = 72;
/// `unrecorded`
pub const UNRECORDED: usize = 80;
/// `descriptors_before`
pub const DESCRIPTORS_BEFORE: usize = 88;
/// `descriptors_after`
pub const DESCRIPTORS_AFTER: usize = 92;
/// `name`
pub const NAME: usize = 128;
/// `MALLOW_RESULT_BEGUN`
pub const BEGUN: u32 = 1;
/// `MALLOW_RESULT_WARMUP`
pub const WARMUP: u32 = 2;
/// `MALLOW_RESULT_RUN`
pub const MEASURED: u32 = 3;
/// `MALLOW_RESULT_CHECK`
pub const CHECK: u32 = 4;
/// `MALLOW_RESULT_PLANTED`
pub const PLANTED: u32 = 5;
/// `MALLOW_RESULT_THIS_THREAD`
pub const THIS_THREAD: u32 = 1;
/// `MALLOW_RESULT_RESTLESS`
pub const RESTLESS: u32 = 2;
/// `MALLOW_RESULT_NAME_CUT`
pub const NAME_CUT: u32 = 4;
/// `MALLOW_CHECK_ALLOCATIONS`
pub const CHECK_ALLOCATIONS: u64 = 4;
/// `MALLOW_CHECK_BYTES`
pub const CHECK_BYTES: u64 = 24 + 48 + 4096 + 200;
