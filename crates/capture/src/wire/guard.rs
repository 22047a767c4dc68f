//! Guarded slots: `preload/base/wire_guard.h`.

/// `MALLOW_GUARD`
pub const GUARD: u32 = 64;
/// `MALLOW_GUARD_EVERY`
pub const EVERY: u32 = 128;
/// `MALLOW_GUARD_ABORT`
pub const ABORT: u32 = 256;
/// `MALLOW_GUARD_LEAKS`
pub const LEAKS: u32 = 512;
/// `MALLOW_GUARD_HANDLER`
pub const HANDLER: u32 = 1024;
/// `MALLOW_GUARD_CRASHES`
pub const CRASHES: u32 = 2048;
/// `MALLOW_GUARD_SIZES`
pub const SIZES: u64 = 16;
/// `MALLOW_SUPPLIES`
pub const SUPPLIES: usize = 9;
/// `MALLOW_SUPPLY_SLOTS`
pub const SUPPLY_SLOTS: u32 = 256;
/// `MALLOW_PATTERNED_FIRST`
pub const PATTERNED_FIRST: u32 = 1;
/// `MALLOW_PATTERNED_LAST`
pub const PATTERNED_LAST: u32 = 2;
/// `MALLOW_GUARD_PATTERN`
pub const PATTERN: u8 = 0xa5;
/// `MALLOW_GUARD_FINDINGS`
pub const FINDINGS_MOST: u32 = 64;
/// `MALLOW_GUARD_NOT`
pub const NOT: u32 = 0;
/// `MALLOW_GUARD_OFFERED`
pub const OFFERED: u32 = 1;
/// `MALLOW_GUARD_TAKEN`
pub const TAKEN: u32 = 2;
/// `MALLOW_GUARD_REFUSED`
pub const REFUSED: u32 = 3;
/// `MALLOW_GUARD_FILTERED`
pub const FILTERED: u32 = 4;
/// `MALLOW_GUARD_GIVEN_UP`
pub const GIVEN_UP: u32 = 5;
/// `MALLOW_GUARD_NO_ADDRESSES`
pub const NO_ADDRESSES: u32 = 6;
/// `MALLOW_GUARD_PROTECTS`
pub const PROTECTS: u32 = 7;
/// `MALLOW_GUARD_HANDLED`
pub const HANDLED: u32 = 8;
/// `MALLOW_GUARD_FAULTS`
pub const FAULTS_MOST: usize = 16;
/// `MALLOW_FAULT_STATE`
pub const FAULT_STATE: u32 = 7;
/// `MALLOW_FAULT_ASKS`
pub const ASKS: u32 = 2;
/// `MALLOW_FAULT_ANSWERED`
pub const ANSWERED: u32 = 3;
/// `MALLOW_FAULT_ENDS`
pub const ENDS: u32 = 4;
/// `MALLOW_CRASH_NONE`
pub const CRASH_NONE: u32 = 0;
/// `MALLOW_CRASH_WRITTEN`
pub const CRASH_WRITTEN: u32 = 1;
/// `MALLOW_CRASH_ASKS`
pub const CRASH_ASKS: u32 = 2;
/// `MALLOW_CRASH_ANSWERED`
pub const CRASH_ANSWERED: u32 = 3;
/// `MALLOW_CRASH_REGISTERS`
pub const CRASH_REGISTERS: usize = mallow_arch::registers::SAVED;
/// `MALLOW_ERROR_DOUBLE_FREE`
pub const DOUBLE_FREE: u32 = 1;
/// `MALLOW_ERROR_INTERIOR`
pub const INTERIOR: u32 = 2;
/// `MALLOW_ERROR_FOREIGN`
pub const FOREIGN: u32 = 3;
/// `MALLOW_FOREIGN_STACK`
pub const FOREIGN_STACK: u8 = 1;
/// `MALLOW_FOREIGN_MODULE`
pub const FOREIGN_MODULE: u8 = 2;
/// `MALLOW_FOREIGN_UNMAPPED`
pub const FOREIGN_UNMAPPED: u8 = 3;
/// `MALLOW_FOREIGN_MAPPED`
pub const FOREIGN_MAPPED: u8 = 4;
/// `MALLOW_ERROR_SLACK`
pub const SLACK: u32 = 4;
/// `MALLOW_ERROR_MISMATCH`
pub const MISMATCH: u32 = 5;
/// `MALLOW_OPERATION_MALLOC`
pub const OPERATION_MALLOC: u8 = 1;
/// `MALLOW_OPERATION_NEW`
pub const OPERATION_NEW: u8 = 3;
/// `MALLOW_OPERATION_NEW_ARRAY`
pub const OPERATION_NEW_ARRAY: u8 = 4;
/// `MALLOW_OPERATION_NEW_EITHER`
pub const OPERATION_NEW_EITHER: u8 = 5;
/// `MALLOW_FREEING_FREE`
pub const FREEING_FREE: u8 = 1;
/// `MALLOW_FREEING_REALLOC`
pub const FREEING_REALLOC: u8 = 2;
/// `MALLOW_FREEING_DELETE`
pub const FREEING_DELETE: u8 = 3;
/// `MALLOW_FREEING_DELETE_ARRAY`
pub const FREEING_DELETE_ARRAY: u8 = 4;
/// `MALLOW_OPERATORS_SEEN`
pub const OPERATORS_SEEN: u32 = 1;
/// `MALLOW_OPERATORS_REPLACED`
pub const OPERATORS_REPLACED: u32 = 2;
/// `MALLOW_OPERATORS_UNFIT`
pub const OPERATORS_UNFIT: u32 = 3;

/// `state`
pub const STATE: usize = 0;
/// `descriptor`
pub const DESCRIPTOR: usize = 4;
/// `keeper`
pub const KEEPER: usize = 8;
/// `beat`
pub const BEAT: usize = 12;
/// `start`
pub const START: usize = 16;
/// `bytes`
pub const BYTES: usize = 24;
/// `guarded_offset`
pub const GUARDED_OFFSET: usize = 32;
/// `guarded`
pub const GUARDED: usize = 40;
/// `unguarded`
pub const UNGUARDED: usize = 48;
/// `unfit`
pub const UNFIT: usize = 56;
/// `wanted`
pub const WANTED: usize = 64;
/// `findings`
pub const FINDINGS: usize = 68;
/// `slots`
pub const SLOTS: usize = 72;
/// `slots_bytes`
pub const SLOTS_BYTES: usize = 80;
/// `supply`
pub const SUPPLY: usize = 88;
/// `finding`
pub const FINDING: usize = SUPPLY + SUPPLIES * supply::SIZE;
/// `fault`
pub const FAULT: usize = FINDING + FINDINGS_MOST as usize * finding::SIZE;
/// `crash`
pub const CRASH: usize = FAULT + FAULTS_MOST * fault::SIZE;
/// `operators`
pub const OPERATORS: usize = CRASH + crash::SIZE;
/// `uncompared`
pub const UNCOMPARED: usize = OPERATORS + 4;
/// Size of the struct.
pub const SIZE: usize = UNCOMPARED + 4;

/// Byte offsets in `struct mallow_supply`.
pub mod supply {
    /// Size of the struct.
    pub const SIZE: usize = 8 + super::ready::SIZE * super::SUPPLY_SLOTS as usize;
    /// `asked`
    pub const ASKED: usize = 0;
    /// `done`
    pub const DONE: usize = 4;
    /// `ready`
    pub const READY: usize = 8;
}

/// Byte offsets in `struct mallow_ready`.
pub mod ready {
    /// Size of the struct.
    pub const SIZE: usize = 16;
    /// `address`
    pub const ADDRESS: usize = 0;
    /// `pages`
    pub const PAGES: usize = 8;
    /// `patterned`
    pub const PATTERNED: usize = 12;
}

/// Byte offsets in `struct mallow_guard_finding`.
pub mod finding {
    /// Size of the struct.
    pub const SIZE: usize = 48;
    /// `address`
    pub const ADDRESS: usize = 0;
    /// `at_ns`
    pub const AT_NS: usize = 8;
    /// `kind`
    pub const KIND: usize = 16;
    /// `tid`
    pub const TID: usize = 20;
    /// `stack`
    pub const STACK: usize = 24;
    /// `slot`
    pub const SLOT: usize = 28;
    /// `bytes`
    pub const BYTES: usize = 32;
    /// In `bytes` of `MALLOW_ERROR_MISMATCH`: whether the size before is one.
    pub const HAS_SIZE: usize = 8;
    /// There: `enum mallow_operation`
    pub const OPERATION: usize = 9;
    /// There: `enum mallow_freeing`
    pub const FREEING: usize = 10;
    /// There: the alignment of operator new.
    pub const NEW_ALIGNMENT: usize = 11;
    /// There: the alignment of operator delete.
    pub const DELETE_ALIGNMENT: usize = 12;
}

/// Byte offsets in `struct mallow_guard_fault`.
pub mod fault {
    /// Size of the struct.
    pub const SIZE: usize = 32;
    /// `state`
    pub const STATE: usize = 0;
    /// `tid`
    pub const TID: usize = 4;
    /// `address`
    pub const ADDRESS: usize = 8;
    /// `registers`
    pub const REGISTERS: usize = 16;
    /// `write`
    pub const WRITE: usize = 24;
}

/// Byte offsets in `struct mallow_guard_crash`.
pub mod crash {
    /// Size of the struct.
    pub const SIZE: usize = 176;
    /// `state`
    pub const STATE: usize = 0;
    /// `tid`
    pub const TID: usize = 4;
    /// `signal`
    pub const SIGNAL: usize = 8;
    /// `code`
    pub const CODE: usize = 12;
    /// `sender`
    pub const SENDER: usize = 16;
    /// `access`
    pub const ACCESS: usize = 20;
    /// `address`
    pub const ADDRESS: usize = 24;
    /// `at_ns`
    pub const AT_NS: usize = 32;
    /// `registers`
    pub const REGISTERS: usize = 40;
}

/// Byte offsets in `struct mallow_guarded`.
pub mod guarded {
    /// Size of the struct.
    pub const SIZE: usize = 32;
    /// `start`
    pub const START: usize = 0;
    /// `freed_ns`
    pub const FREED_NS: usize = 8;
    /// `free_tid`
    pub const FREE_TID: usize = 16;
    /// `free_stack`
    pub const FREE_STACK: usize = 20;
    /// `pages`
    pub const PAGES: usize = 24;
    /// `operation`
    pub const OPERATION: usize = 26;
    /// `touched`
    pub const TOUCHED: usize = 28;
}
