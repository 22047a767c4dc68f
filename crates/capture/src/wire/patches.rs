//! Sizes of `struct mallow_patches` and of what follows it.

pub const MAGIC_VALUE: u32 = 0x584c_414d;
pub const BYTES: usize = 16;
pub const AREA_BYTES: usize = 32;
pub const WRITE_BYTES: usize = 40;
