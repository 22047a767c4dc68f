//! Names of threads, as `/proc` has them: read by mallow, when a thread's block appears and at each census after that,
//! because programs name threads once they run. A thread that is gone before the next census has the name that it was
//! seen with, or none.

use crate::rundir::process_file::ProcessFile;
use rustc_hash::FxHashMap;

/// Threads that are looked at each time: a look costs about 10 µs.
const LOOKS: u32 = 32;
/// Bytes that the kernel keeps of a name.
const LONGEST: usize = 15;

/// Names of an image's threads.
#[derive(Debug, Default)]
pub struct ThreadNames {
    known: FxHashMap<u32, String>,
    /// Thread blocks that were looked at when they appeared.
    seen: u32,
    /// Index of the thread block with which the next census begins.
    next: u32,
}

impl ThreadNames {
    /// Threads whose blocks are new, with their names; none of a process with one thread.
    pub fn appeared(&mut self, source: &ProcessFile, threads: u32) -> Vec<(u32, String)> {
        if threads <= self.seen.max(1) {
            return Vec::new();
        }
        let first = self.seen;
        self.seen = threads.min(first + LOOKS);
        self.look(source, first..self.seen)
    }

    /// Threads of the next [`LOOKS`] blocks whose names have changed, with their names.
    pub fn census(&mut self, source: &ProcessFile, threads: u32) -> Vec<(u32, String)> {
        if threads <= 1 {
            return Vec::new();
        }
        let first = if self.next >= threads { 0 } else { self.next };
        self.next = threads.min(first + LOOKS);
        self.look(source, first..self.next)
    }

    fn look(&mut self, source: &ProcessFile, blocks: std::ops::Range<u32>) -> Vec<(u32, String)> {
        // In a namespace of its own, the numbers of threads are others.
        let Some(pid) = source.writer().map(|writer| writer.pid()).filter(|pid| *pid == source.pid) else {
            return Vec::new();
        };
        let mut changed = Vec::new();
        for tid in blocks.filter_map(|block| source.owner_tid(block)) {
            let Ok(text) = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")) else { continue };
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            let name = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]).into_owned();
            if self.known.get(&tid) != Some(&name) {
                self.known.insert(tid, name.clone());
                changed.push((tid, name));
            }
        }
        changed
    }
}
