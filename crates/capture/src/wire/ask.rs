//! Byte offsets in `struct mallow_ask`, and its states.

pub const BYTES: usize = 424;
pub const MAGIC_VALUE: u32 = 0x414c_414d;
pub const WAITS: u32 = 1;
pub const NOTHING: u32 = 2;
pub const ANSWERED: u32 = 3;
pub const PATCHED: u32 = 4;
pub const FAILED: u32 = 5;
pub const GIVEN_UP: u32 = 6;
pub const THREADS: u32 = 1000;
pub const CHANGED: u32 = 1001;
pub const STUBS: usize = 17;
pub const LIBRARIES: usize = 32;
pub const MAGIC: usize = 0;
pub const VERSION: usize = 4;
pub const STATE: usize = 8;
pub const PID: usize = 12;
pub const KEY: usize = 16;
pub const MAPS_BYTES: usize = 24;
pub const ERROR: usize = 28;
pub const STUB: usize = 32;
pub const LIBRARY: usize = 168;
