//! Accesses, allocations and frees as errors and crashes report them, with their threads and stacks.

use mallow_capture::guard::{Addresses, Block, Operation, Operator};
use mallow_capture::watch::Watch;
use mallow_profile::{FAMILIES, FrameId, Profile, StackId, Stacks};
use mallow_report::analysis::{Frame, Stack, stack_of};
use serde::Serialize;

/// An operation on a block, as a report shows it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OperationDocument {
    /// Thread id.
    pub tid: u32,
    /// Name of the thread; empty where it had ended.
    pub thread: String,
    /// Milliseconds from the operation to the error; 0 for the error itself.
    pub before_ms: u64,
    /// Stack of the operation.
    pub stack: Stack,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockDocument {
    /// Address of the first byte, in hexadecimal.
    pub address: String,
    /// Requested bytes of the block.
    pub size: u64,
    /// Function or operator that allocated the block.
    pub family: &'static str,
    /// Allocation of the block.
    pub allocated: OperationDocument,
    /// Free of the block; null: it is live.
    pub freed: Option<OperationDocument>,
}

/// Whether two stacks are the same to the reader: module addresses are not compared.
pub fn looks_alike(a: &Stack, b: &Stack) -> bool {
    let same = |(a, b): (&Frame, &Frame)| {
        a.function == b.function && a.line == b.line && a.file == b.file && a.module == b.module
    };
    a.frames.len() == b.frames.len() && a.frames.iter().zip(&b.frames).all(same)
}

/// An operation for a report. `at_ns` is the moment of the error, `stack` that of the operation in `profile`.
pub fn step(operation: &Operation, at_ns: u64, profile: &Profile, stack: StackId) -> OperationDocument {
    OperationDocument {
        tid: operation.tid,
        thread: operation.thread.clone(),
        before_ms: at_ns.saturating_sub(operation.at_ns) / 1_000_000,
        stack: stack_of(profile, stack),
    }
}

/// The number of a stack of an image; the root where there is none.
pub fn intern(watch: &mut Watch, image: (u32, u32), addresses: &Addresses) -> StackId {
    let Addresses { pcs, generation, cut } = addresses;
    watch.stack(image, *generation, pcs, *cut).unwrap_or(Stacks::ROOT)
}

/// Functions of the library that look at a buffer before the kernel reads or writes it.
const CALLS: [&str; 18] = [
    "read",
    "write",
    "pread",
    "pread64",
    "pwrite",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "preadv64",
    "pwritev",
    "pwritev64",
    "recv",
    "send",
    "recvfrom",
    "sendto",
    "recvmsg",
    "sendmsg",
];

/// The call by which the program let the kernel access memory: the library stands for it, innermost on the stack. None:
/// the program accessed it.
pub fn call_of(profile: &Profile, stack: StackId) -> Option<&'static str> {
    let is_ours = |frame: &FrameId| {
        let module = profile.frames.get(frame.0 as usize).and_then(|frame| frame.module);
        let path = module.and_then(|module| profile.modules.get(module.0 as usize)).map(|module| &*module.path);
        path.and_then(|path| path.rsplit('/').next()).is_some_and(|name| name.starts_with("libmallow"))
    };
    let frame = profile.stacks.frames(stack).take_while(is_ours).last()?;
    let line = profile.frames.get(frame.0 as usize)?.lines.last()?;
    let name = profile.strings.get(line.function);
    // preload/guard/calls.c: the exported function jumps to one of these.
    let checks = ["checked_", "early_"].into_iter().find_map(|prefix| name.strip_prefix(prefix))?;
    CALLS.into_iter().find(|call| *call == checks)
}

/// A block with the stacks of its allocation and its free.
pub fn block_of(block: &Block, at_ns: u64, profile: &Profile, (allocated, freed): (StackId, StackId)) -> BlockDocument {
    BlockDocument {
        address: format!("{:#x}", block.address),
        size: block.size,
        family: family(block),
        allocated: step(&block.allocated, at_ns, profile, allocated),
        freed: block.freed.as_ref().map(|operation| step(operation, at_ns, profile, freed)),
    }
}

/// The function that allocated a block, or the operator.
pub fn family(block: &Block) -> &'static str {
    match block.operator {
        Some(Operator::One) => "operator new",
        Some(Operator::Array) => "operator new[]",
        None => FAMILIES.get(usize::from(block.family)).copied().unwrap_or_default(),
    }
}

/// Operations: the error first, then the free and the allocation of the block.
pub fn all<'a>(error: &'a OperationDocument, block: Option<&'a BlockDocument>) -> Vec<&'a OperationDocument> {
    let freed = block.and_then(|block| block.freed.as_ref());
    [Some(error), freed, block.map(|block| &block.allocated)].into_iter().flatten().collect()
}
