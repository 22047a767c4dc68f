//! What a scan of a process's memory at its exit found: which of the leaked blocks something still points to.

use crate::process::ProcessId;
use crate::stacks::StackId;

/// Of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Whose.
    pub process: ProcessId,
    /// Why its memory was not scanned, as what follows "not scanned:"; None: it was.
    pub failure: Option<String>,
    /// Sites with lost blocks, each stack once. What else leaked is reachable.
    pub sites: Vec<LostSite>,
    /// Cycles of lost blocks that no other block holds, those with the most bytes first.
    pub cycles: Vec<LostCycle>,
}

/// The lost blocks of a site: neither the program's roots nor a reachable block pointed to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostSite {
    /// The site's stack.
    pub stack: StackId,
    /// Blocks that no other lost block holds.
    pub heads: u64,
    /// Their bytes.
    pub head_bytes: u64,
    /// Lost blocks that are held by those heads alone, directly or through others, whatever their sites.
    pub held: u64,
    /// Their bytes.
    pub held_bytes: u64,
    /// All lost blocks of this site: its heads, and those that other lost blocks hold.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

/// Lost blocks that point to each other in a circle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostCycle {
    /// How many circles there are of blocks of these sites.
    pub count: u64,
    /// Blocks in them, and held by them.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Stacks of their blocks, in the order of allocation. A circle of many sites names the first ones.
    pub stacks: Vec<StackId>,
}
