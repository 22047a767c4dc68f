//! `struct mallow_attachment` of `preload/base/wire_attachment.h`: byte offsets and states.

/// `MALLOW_ATTACHMENT_MAGIC`
pub const MAGIC_VALUE: u32 = 0x414c_414d;
/// Bytes of it.
pub const BYTES: usize = 1256;
/// `MALLOW_LATE`
pub const LATE_MOST: usize = 12;
/// `MALLOW_LATE_MEMORY`
pub const MEMORY: usize = 10;
/// `MALLOW_INSIDE_MOST`
pub const INSIDE_MOST: usize = 3;
/// `MALLOW_ATTACHMENT_JOINED`
pub const JOINED: u32 = 1;
/// `magic`
pub const MAGIC: usize = 0;
/// `version`
pub const VERSION: usize = 4;
/// `late`
pub const LATE: usize = 8;
/// `state`
pub const STATE: usize = 12;
/// `join`
pub const JOIN: usize = 16;
/// `leave`
pub const LEAVE: usize = 24;
/// `tls`
pub const TLS: usize = 32;
/// `arrival`
pub const ARRIVAL: usize = 40;
/// `socket`
pub const SOCKET: usize = 44;
/// `stub`, addresses by `enum mallow_stub`.
pub const STUB: usize = 48;
/// `MALLOW_STUBS`
pub const STUBS: usize = super::ask::STUBS;
/// `patched`, of `module` and `area` each.
pub const PATCHED: usize = 184;
/// Bytes of an entry of it.
pub const PATCHED_BYTES: usize = 16;
/// `MALLOW_PATCHED_MOST`
pub const PATCHED_MOST: usize = 16;
/// `inside`, of `start` and `bytes` each.
pub const INSIDE: usize = 440;
/// Bytes of an entry of it.
pub const INSIDE_BYTES: usize = 16;
/// `entries`, of `function`, `replacement` and `trampoline` each.
pub const ENTRIES: usize = 488;
/// Bytes of an entry of it.
pub const ENTRY_BYTES: usize = 24;
/// `directory`
pub const DIRECTORY: usize = 776;
/// Bytes of it, with the zero at its end.
pub const DIRECTORY_BYTES: usize = 480;
