//! What a scan of a process's memory at its exit found: which of the blocks that were live then something still points
//! to.

use crate::process::ProcessId;
use crate::stacks::StackId;

/// Findings of the scan of one process image at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The process image that was scanned.
    pub process: ProcessId,
    /// Whether the memory was scanned, and if not, why.
    pub outcome: ScanOutcome,
    /// Lost blocks, each pair of stacks once. What else is live of a scanned process is reachable.
    pub lost: Vec<LostBlocks>,
    /// Cycles of lost blocks that no other block holds, those with the most bytes first.
    pub cycles: Vec<LostCycle>,
}

/// Whether the memory of a process image was scanned at its end, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScanOutcome {
    /// The memory was scanned.
    #[default]
    Scanned,
    /// The image ended by exec, which gives back all of its memory: what was live then is no leak.
    Exec,
    /// Why the memory was not scanned, as what follows "not scanned:".
    Failed(String),
}

/// Lost blocks that were allocated with one stack: neither the program's roots nor a reachable block pointed to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostBlocks {
    /// The stack that allocated the blocks.
    pub stack: StackId,
    /// The stack of the lost block that holds them, directly or through others, and that no other lost block holds.
    /// None: no other lost block holds them, so that each is a leak.
    pub head: Option<StackId>,
    /// What the head of the lost blocks is: the block that no other lost block holds.
    pub kind: LostKind,
    /// Blocks of the stack that are lost.
    pub blocks: u64,
    /// Requested bytes of the lost blocks.
    pub bytes: u64,
}

/// What a lost block is, where its contents show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LostKind {
    /// A block whose contents do not tell what it is.
    #[default]
    Other,
    /// A string of CPython, 3.12 or later, that is immortal: the interpreter interned it, or made it of a name in code,
    /// and frees it at no time. Nothing points to it once the interpreter has given up its table of them.
    ImmortalString,
}

/// Lost blocks that point to each other in a circle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostCycle {
    /// Number of circles whose blocks are of these sites.
    pub count: u64,
    /// Blocks in them, and held by them.
    pub blocks: u64,
    /// Requested bytes of the blocks in `blocks`.
    pub bytes: u64,
    /// Stacks of their blocks, in the order of allocation. A circle of many sites names the first ones.
    pub stacks: Vec<StackId>,
}

/// Adds lost blocks up by their pairs of stacks and their kinds, and puts them in the order of these.
pub fn sum_lost(mut all: Vec<LostBlocks>) -> Vec<LostBlocks> {
    all.sort_unstable_by_key(|lost| (lost.stack, lost.head, lost.kind));
    all.dedup_by(|next, sum| {
        let is_same = (next.stack, next.head, next.kind) == (sum.stack, sum.head, sum.kind);
        if is_same {
            sum.blocks = sum.blocks.saturating_add(next.blocks);
            sum.bytes = sum.bytes.saturating_add(next.bytes);
        }
        is_same
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_stacks_add_up() {
        let lost = |stack, head: Option<u32>, blocks| LostBlocks {
            stack: StackId(stack),
            head: head.map(StackId),
            kind: LostKind::Other,
            blocks,
            bytes: 10 * blocks,
        };
        let string = LostBlocks { kind: LostKind::ImmortalString, ..lost(3, None, 8) };
        let all = vec![lost(3, None, 1), string, lost(2, Some(3), 2), lost(3, None, 4), lost(2, None, u64::MAX / 10)];
        assert_eq!(sum_lost(all), [lost(2, None, u64::MAX / 10), lost(2, Some(3), 2), lost(3, None, 5), string]);
    }
}
