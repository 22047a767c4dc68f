//! `struct mallow_attachment` of `preload/base/wire_attachment.h`: byte offsets and states.

pub const MAGIC_VALUE: u32 = 0x414c_414d;
pub const BYTES: usize = 1256;
pub const LATE_MOST: usize = 12;
pub const MEMORY: usize = 10;
pub const INSIDE_MOST: usize = 3;
pub const JOINED: u32 = 1;
pub const MAGIC: usize = 0;
pub const VERSION: usize = 4;
pub const LATE: usize = 8;
pub const STATE: usize = 12;
pub const JOIN: usize = 16;
pub const LEAVE: usize = 24;
pub const TLS: usize = 32;
pub const ARRIVAL: usize = 40;
pub const SOCKET: usize = 44;
pub const STUB: usize = 48;
pub const STUBS: usize = super::ask::STUBS;
/// Offset of pairs `module`, `area`: addresses.
pub const PATCHED: usize = 184;
pub const PATCHED_BYTES: usize = 16;
pub const PATCHED_MOST: usize = 16;
/// Offset of pairs `start`, `bytes`.
pub const INSIDE: usize = 440;
pub const INSIDE_BYTES: usize = 16;
/// Offset of triples `function`, `replacement`, `trampoline`: addresses.
pub const ENTRIES: usize = 488;
pub const ENTRY_BYTES: usize = 24;
pub const DIRECTORY: usize = 776;
/// Room for the path of the run directory, with the zero at its end.
pub const DIRECTORY_BYTES: usize = 480;
