//! Sizes of `struct mallow_patches` and of what follows it.

/// `MALLOW_PATCHES_MAGIC`
pub const MAGIC_VALUE: u32 = 0x584c_414d;
/// Size of the struct.
pub const BYTES: usize = 16;
/// Size of `struct mallow_area`.
pub const AREA_BYTES: usize = 32;
/// Size of `struct mallow_write`.
pub const WRITE_BYTES: usize = 40;
