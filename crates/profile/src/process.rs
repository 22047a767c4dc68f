//! Process images, their threads, and the allocators above malloc that they use.

use crate::counts::Counts;
use crate::families::FamilyCounts;
use std::collections::HashMap;
use std::hash::Hash;

/// Index of a process in [`crate::Profile::processes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// One process image: it began with exec or fork and ended with exec, exit or the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id in the system.
    pub pid: u32,
    /// Process id of the parent.
    pub parent_pid: u32,
    /// 0 for the first image of this pid, 1 for the one after its first exec, and so on.
    pub serial: u32,
    /// True where the image began with fork: it may free blocks that its parent allocated.
    pub forked: bool,
    /// True where mallow attached to it while it ran: it may free blocks that are older than the recording.
    pub attached: bool,
    /// Path of the executable.
    pub executable: String,
    /// Path by which it was executed, where that is a link of another name to the executable; else empty.
    pub executed_as: String,
    /// Command line, the program first; cut where very long.
    pub arguments: Vec<String>,
    /// The file that it was read from, where several were merged; else empty.
    pub source: String,
    /// When the image was first seen, in milliseconds since the recording began.
    pub start_ms: u64,
    /// When the image was last seen, in milliseconds since the recording began.
    pub end_ms: u64,
    /// Threads that it had, in all.
    pub threads: u32,
    /// Sums over its sites. `peak` is live at the recording's peak.
    pub totals: Counts,
    /// The highest live bytes of this process alone.
    pub own_peak_bytes: u64,
    /// When `own_peak_bytes` was reached, in milliseconds since the recording began.
    pub own_peak_ms: u64,
    /// Calls by the function that was called.
    pub families: FamilyCounts,
    /// Frees of blocks that it did not allocate while recorded: inherited by fork, or older than the recording.
    pub foreign_frees: u64,
    /// Events that could not be recorded.
    pub lost: u64,
    /// How long the process waited for mallow at its exit, in milliseconds before `end_ms`.
    pub exit_wait_ms: u64,
    /// How long the process waited for unwind tables, in milliseconds.
    pub table_wait_ms: u64,
    /// Modules whose unwind tables the process waited for in vain: stacks that pass through them lack their outer
    /// frames.
    pub late_tables: u64,
}

impl Process {
    /// When the process had done its own work, in milliseconds since the recording began: from there on it waited for
    /// mallow.
    pub fn done_ms(&self) -> u64 {
        self.end_ms.saturating_sub(self.exit_wait_ms)
    }

    /// Whether the process may hold, and free, blocks that were allocated before it was recorded, or by the process
    /// that it was forked from.
    pub fn has_older_blocks(&self) -> bool {
        self.forked || self.attached || self.foreign_frees > 0
    }
}

/// For each process image the earlier one that it replaced by exec, as an index: together they are one process.
/// `images` are whose each is (its pid, and whatever tells equal pids apart), which image of that pid, and whether it
/// began otherwise, with fork.
pub fn replaced_by_exec<K: Eq + Hash>(images: impl IntoIterator<Item = (K, u32, bool)>) -> Vec<Option<usize>> {
    let mut latest: HashMap<K, (usize, u32)> = HashMap::new();
    let replaced = images.into_iter().enumerate().map(|(index, (whose, serial, forked))| {
        let before = latest.insert(whose, (index, serial));
        before.filter(|&(_, earlier)| !forked && serial == earlier.saturating_add(1)).map(|(index, _)| index)
    });
    replaced.collect()
}

/// An allocator inside of an executable or a library: not the C library's, and no library of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatorInside {
    /// The path of the executable.
    pub program: String,
    /// The path of the file that has the allocator inside.
    pub module: String,
    /// The name of the allocator.
    pub name: String,
    /// The table or search by which its functions were found: `.symtab`, for instance.
    pub found_by: String,
    /// Number of functions that are patched, so that calls of them are seen; 0: none.
    pub functions: u32,
    /// Why none is patched; empty where they are.
    pub problem: String,
    /// What to do about `problem`; may be empty.
    pub remedy: String,
    /// The variable of the environment that this copy reads for how it gives free pages back; empty: none that is
    /// known.
    pub environment: String,
    /// Options that are compiled into this copy, as that variable would have them; empty: none that is known.
    pub options: String,
    /// Whether a library holds the allocator, whose calls are seen in any case: there is nothing to say of it.
    pub is_library: bool,
}

/// An allocator above malloc, where a view depends on which one it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocatorKind {
    /// An allocator that no view treats apart.
    #[default]
    Other,
    /// CPython's arenas of small objects.
    Python,
}

/// An allocator above malloc that a process uses: what it hands out is in no number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomAllocator {
    /// The process that allocates with it.
    pub process: ProcessId,
    /// The allocator, as far as views tell them apart.
    pub kind: AllocatorKind,
    /// What the allocator serves, as a sentence without a full stop.
    pub found: String,
    /// What makes the allocator's blocks visible, as an imperative; may be empty.
    pub remedy: String,
}

/// A thread, as far as a recording knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The image that it ran in.
    pub process: ProcessId,
    /// Thread id in the system; 0 where the target did not report it.
    pub tid: u32,
}

#[cfg(test)]
mod tests {
    use super::replaced_by_exec;

    #[test]
    fn an_image_that_exec_made_is_of_the_process_before() {
        let images = [(7, 0, false), (8, 0, true), (8, 1, false), (9, 1, false), (8, 2, true), (8, 3, false)];
        assert_eq!(replaced_by_exec(images), [None, None, Some(1), None, None, Some(4)]);
    }
}
