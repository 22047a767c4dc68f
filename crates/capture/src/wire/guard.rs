//! Guarded slots: `preload/base/wire_guard.h`.

pub const GUARD: u32 = 64;
pub const EVERY: u32 = 128;
pub const ABORT: u32 = 256;
pub const LEAKS: u32 = 512;
pub const HANDLER: u32 = 1024;
pub const CRASHES: u32 = 2048;
pub const SIZES: u64 = 16;
pub const SUPPLIES: usize = 9;
pub const SUPPLY_SLOTS: u32 = 256;
pub const PATTERNED_FIRST: u32 = 1;
pub const PATTERNED_LAST: u32 = 2;
pub const PATTERN: u8 = 0xa5;
pub const FINDINGS_MOST: u32 = 64;
pub const NOT: u32 = 0;
pub const OFFERED: u32 = 1;
pub const TAKEN: u32 = 2;
pub const REFUSED: u32 = 3;
pub const FILTERED: u32 = 4;
pub const GIVEN_UP: u32 = 5;
pub const NO_ADDRESSES: u32 = 6;
pub const PROTECTS: u32 = 7;
pub const HANDLED: u32 = 8;
pub const FAULTS_MOST: usize = 16;
pub const FAULT_STATE: u32 = 7;
pub const ASKS: u32 = 2;
pub const ANSWERED: u32 = 3;
pub const ENDS: u32 = 4;
pub const CRASH_NONE: u32 = 0;
pub const CRASH_WRITTEN: u32 = 1;
pub const CRASH_ASKS: u32 = 2;
pub const CRASH_ANSWERED: u32 = 3;
pub const CRASH_REGISTERS: usize = mallow_arch::registers::SAVED;
pub const DOUBLE_FREE: u32 = 1;
pub const INTERIOR: u32 = 2;
pub const FOREIGN: u32 = 3;
pub const FOREIGN_STACK: u8 = 1;
pub const FOREIGN_MODULE: u8 = 2;
pub const FOREIGN_UNMAPPED: u8 = 3;
pub const FOREIGN_MAPPED: u8 = 4;
pub const SLACK: u32 = 4;
pub const MISMATCH: u32 = 5;
pub const OPERATION_MALLOC: u8 = 1;
pub const OPERATION_NEW: u8 = 3;
pub const OPERATION_NEW_ARRAY: u8 = 4;
pub const OPERATION_NEW_EITHER: u8 = 5;
pub const FREEING_FREE: u8 = 1;
pub const FREEING_REALLOC: u8 = 2;
pub const FREEING_DELETE: u8 = 3;
pub const FREEING_DELETE_ARRAY: u8 = 4;
pub const OPERATORS_SEEN: u32 = 1;
pub const OPERATORS_REPLACED: u32 = 2;
pub const OPERATORS_UNFIT: u32 = 3;

pub const STATE: usize = 0;
pub const DESCRIPTOR: usize = 4;
pub const KEEPER: usize = 8;
pub const BEAT: usize = 12;
pub const START: usize = 16;
pub const BYTES: usize = 24;
pub const GUARDED_OFFSET: usize = 32;
pub const GUARDED: usize = 40;
pub const UNGUARDED: usize = 48;
pub const UNFIT: usize = 56;
pub const WANTED: usize = 64;
pub const FINDINGS: usize = 68;
pub const SLOTS: usize = 72;
pub const SLOTS_BYTES: usize = 80;
pub const SUPPLY: usize = 88;
pub const FINDING: usize = SUPPLY + SUPPLIES * supply::SIZE;
pub const FAULT: usize = FINDING + FINDINGS_MOST as usize * finding::SIZE;
pub const CRASH: usize = FAULT + FAULTS_MOST * fault::SIZE;
pub const OPERATORS: usize = CRASH + crash::SIZE;
pub const UNCOMPARED: usize = OPERATORS + 4;
pub const SIZE: usize = UNCOMPARED + 4;

/// Byte offsets in `struct mallow_supply`.
pub mod supply {
    pub const SIZE: usize = 8 + super::ready::SIZE * super::SUPPLY_SLOTS as usize;
    pub const ASKED: usize = 0;
    pub const DONE: usize = 4;
    pub const READY: usize = 8;
}

/// Byte offsets in `struct mallow_ready`.
pub mod ready {
    pub const SIZE: usize = 16;
    pub const ADDRESS: usize = 0;
    pub const PAGES: usize = 8;
    pub const PATTERNED: usize = 12;
}

/// Byte offsets in `struct mallow_guard_finding`.
pub mod finding {
    pub const SIZE: usize = 48;
    pub const ADDRESS: usize = 0;
    pub const AT_NS: usize = 8;
    pub const KIND: usize = 16;
    pub const TID: usize = 20;
    pub const STACK: usize = 24;
    pub const SLOT: usize = 28;
    pub const BYTES: usize = 32;
    /// Offset in the `bytes` of a MISMATCH: 1 if the freeing operator was given a size, which is the 8 bytes before.
    pub const HAS_SIZE: usize = 8;
    /// Offset in the `bytes` of a MISMATCH: `enum mallow_operation`.
    pub const OPERATION: usize = 9;
    /// Offset in the `bytes` of a MISMATCH: `enum mallow_freeing`.
    pub const FREEING: usize = 10;
    /// Offset in the `bytes` of a MISMATCH: log2 + 1 of the alignment given to operator new; 0: none.
    pub const NEW_ALIGNMENT: usize = 11;
    /// Offset in the `bytes` of a MISMATCH: log2 + 1 of the alignment given to operator delete; 0: none.
    pub const DELETE_ALIGNMENT: usize = 12;
}

/// Byte offsets in `struct mallow_guard_fault`.
pub mod fault {
    pub const SIZE: usize = 32;
    pub const STATE: usize = 0;
    pub const TID: usize = 4;
    pub const ADDRESS: usize = 8;
    pub const REGISTERS: usize = 16;
    pub const WRITE: usize = 24;
}

/// Byte offsets in `struct mallow_guard_crash`.
pub mod crash {
    pub const SIZE: usize = 176;
    pub const STATE: usize = 0;
    pub const TID: usize = 4;
    pub const SIGNAL: usize = 8;
    pub const CODE: usize = 12;
    pub const SENDER: usize = 16;
    pub const ACCESS: usize = 20;
    pub const ADDRESS: usize = 24;
    pub const AT_NS: usize = 32;
    pub const REGISTERS: usize = 40;
}

/// Byte offsets in `struct mallow_guarded`.
pub mod guarded {
    pub const SIZE: usize = 32;
    pub const START: usize = 0;
    pub const FREED_NS: usize = 8;
    pub const FREE_TID: usize = 16;
    pub const FREE_STACK: usize = 20;
    pub const PAGES: usize = 24;
    pub const OPERATION: usize = 26;
    pub const TOUCHED: usize = 28;
}
