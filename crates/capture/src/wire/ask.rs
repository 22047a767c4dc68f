//! Byte offsets in `struct mallow_ask`, and its states.

/// Size of the struct.
pub const BYTES: usize = 424;
/// `MALLOW_ASK_MAGIC`
pub const MAGIC_VALUE: u32 = 0x414c_414d;
/// `MALLOW_ASK_WAITS`
pub const WAITS: u32 = 1;
/// `MALLOW_ASK_NOTHING`
pub const NOTHING: u32 = 2;
/// `MALLOW_ASK_ANSWERED`
pub const ANSWERED: u32 = 3;
/// `MALLOW_ASK_PATCHED`
pub const PATCHED: u32 = 4;
/// `MALLOW_ASK_FAILED`
pub const FAILED: u32 = 5;
/// `MALLOW_ASK_GIVEN_UP`
pub const GIVEN_UP: u32 = 6;
/// `MALLOW_ASK_THREADS`
pub const THREADS: u32 = 1000;
/// `MALLOW_ASK_CHANGED`
pub const CHANGED: u32 = 1001;
/// `MALLOW_STUB_COUNT`
pub const STUBS: usize = 17;
/// `MALLOW_ASK_LIBRARIES`
pub const LIBRARIES: usize = 32;
/// `magic`
pub const MAGIC: usize = 0;
/// `version`
pub const VERSION: usize = 4;
/// `state`
pub const STATE: usize = 8;
/// `pid`
pub const PID: usize = 12;
/// `key`
pub const KEY: usize = 16;
/// `maps_bytes`
pub const MAPS_BYTES: usize = 24;
/// `error`
pub const ERROR: usize = 28;
/// `stub`
pub const STUB: usize = 32;
/// `library`
pub const LIBRARY: usize = 168;
