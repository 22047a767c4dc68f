//! Errors in words.

use mallow_capture::guard::{Block, Finding, Kind, Region};
use mallow_profile::FAMILIES;

use super::operations;
use crate::output::text::units::{of, span};

pub const LEAK: &str = "leak";

pub const USE_AFTER_FREE: &str = "use-after-free";

/// Name of a crash, which is no [`Kind`].
pub const CRASH: &str = "crash";

/// Why nothing is known of a crash but its signal.
pub const UNSEEN: &str = "its thread had no stack left for a handler, as after endless recursion, or blocked the signal, or had a handler of its own, or was not guarded";

/// Less was guarded than `--require-guarded` asks for: no [`Kind`].
pub const TOO_LITTLE: &str = "too-little-guarded";

/// The name of a kind, as JSON has it.
pub fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::UseAfterFree => USE_AFTER_FREE,
        Kind::Overflow => "overflow",
        Kind::Underflow => "underflow",
        Kind::Wild => "wild-access",
        Kind::DoubleFree => "double-free",
        Kind::InteriorFree => "interior-free",
        Kind::ForeignFree => "foreign-free",
        Kind::Slack => "write-beside-block",
        Kind::Leak => LEAK,
        Kind::MismatchedFree => "mismatched-free",
    }
}

/// Explanation of a kind for people who do not know it.
pub fn describe(name: &str) -> &'static str {
    match name {
        USE_AFTER_FREE => "An access to memory that was freed",
        "overflow" => "An access behind the end of a heap block",
        "underflow" => "An access before the beginning of a heap block",
        "wild-access" => "An access to heap addresses that belong to no block",
        "double-free" => "A block was freed twice",
        "interior-free" => "An address inside of a block was freed",
        "foreign-free" => "An address was freed that no allocator returned",
        "mismatched-free" => "A block was freed by an operation that does not belong to its allocation",
        CRASH => "A signal ended the program",
        TOO_LITTLE => "Fewer allocations were guarded than required",
        LEAK => "Heap blocks that nothing, or nothing but each other, points to when the process exits",
        _ => "Bytes beside a heap block were written",
    }
}

/// Remedy for an error at this address, of this block.
pub fn advice(kind: Kind, address: u64, block: Option<&Block>) -> &'static str {
    let is_before = block.is_some_and(|block| address < block.address);
    // The function that allocated it asked for an alignment, which no flag changes.
    let family = block.and_then(|block| FAMILIES.get(usize::from(block.family))).copied().unwrap_or_default();
    let is_aligned = ["aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc"].contains(&family);
    match kind {
        Kind::UseAfterFree => "Drop the pointer where the block is freed, or free it after its last use.",
        Kind::Overflow => "Check the index or length against the size of the allocation.",
        Kind::Underflow => "Check the index: it is below 0, or a pointer went back too far.",
        Kind::Wild => "The pointer is computed wrongly, or was overwritten.",
        Kind::DoubleFree => "Only one owner may free the block: set the pointer to NULL, or remove one free.",
        Kind::InteriorFree => "Free the address that the allocation returned.",
        Kind::ForeignFree => "Only what malloc and its relatives returned can be freed.",
        Kind::Slack if is_before => "Somebody wrote there while the block lived: --place begin finds who.",
        Kind::Slack if is_aligned => {
            "Somebody wrote there while the block lived: its alignment leaves these bytes beside it, with any flag."
        }
        Kind::Slack => {
            "Somebody wrote there while the block lived: --place end --alignment 1 finds who; 2, 4 or 8 where the program needs aligned blocks."
        }
        Kind::Leak => "Free the blocks before their last pointers go, or keep the pointers.",
        Kind::MismatchedFree => {
            "malloc belongs to free, new to delete, and new[] to delete[], of the same size and alignment."
        }
    }
}

/// Place of the error's address.
pub fn place(finding: &Finding) -> String {
    let Some(block) = &finding.block else {
        return match finding.kind {
            Kind::ForeignFree => no_block(finding),
            _ => "near no block".to_owned(),
        };
    };
    match finding.mismatch {
        Some(mismatch) => operations::place(block, mismatch),
        None => within(finding.address, finding.exact, block, finding.operation.at_ns),
    }
}

/// Place of an address that was freed, and is no block.
fn no_block(finding: &Finding) -> String {
    match finding.region.as_ref().unwrap_or(&Region::Unknown) {
        Region::Unknown => "no block of the allocator".to_owned(),
        Region::Nothing => "an address where nothing is mapped".to_owned(),
        Region::Stack => "on a thread's stack".to_owned(),
        Region::File { path, .. } if path.is_empty() => "in static memory of a program or library".to_owned(),
        Region::File { path, .. } => format!("in static memory of {path}"),
        Region::Heap => "in the allocator's heap, and no block there".to_owned(),
        Region::Mapped { bytes: 0, .. } => "in mapped memory, and no block there".to_owned(),
        Region::Mapped { before: 0, bytes } => format!("the beginning of {} of mapped memory", of(*bytes, "byte")),
        Region::Mapped { before, bytes } => {
            format!("{} into {} of mapped memory", of(*before, "byte"), of(*bytes, "byte"))
        }
    }
}

/// The name of a region, as JSON has it.
pub fn region(region: &Region) -> &'static str {
    match region {
        Region::Unknown => "unknown",
        Region::Nothing => "unmapped",
        Region::Stack => "stack",
        Region::File { .. } => "file",
        Region::Heap => "heap",
        Region::Mapped { .. } => "mapped",
    }
}

/// Place of an address relative to a block; `exact`: else it is the first of its page.
pub fn within(address: u64, exact: bool, block: &Block, at_ns: u64) -> String {
    let end = block.address.saturating_add(block.size);
    let size = of(block.size, "byte");
    let state = match &block.freed {
        None => format!("a block of {size}"),
        Some(freed) => {
            let ms = at_ns.saturating_sub(freed.at_ns) / 1_000_000;
            format!("a block of {size}, freed {} before by thread {}{}", span(ms), freed.tid, named(&freed.thread))
        }
    };
    let about = if exact { "" } else { "within the page that begins " };
    let place = if address < block.address {
        format!("{} before {state}", of(block.address - address, "byte"))
    } else if address >= end && block.size > 0 {
        match address - end {
            0 => format!("right behind {state}"),
            beyond => format!("{} behind the end of {state}", of(beyond, "byte")),
        }
    } else if address == block.address {
        format!("the beginning of {state}")
    } else {
        format!("{} into {state}", of(address - block.address, "byte"))
    };
    format!("{about}{place}")
}

/// A thread's name behind its number.
pub fn named(thread: &str) -> String {
    if thread.is_empty() { String::new() } else { format!(" ({thread})") }
}
