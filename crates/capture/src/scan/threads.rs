//! The threads of a process that waits at its exit.

use mallow_proc::{Stat, Task};
use std::fs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread id, as mallow sees it.
    pub tid: u32,
    /// Stack pointer; None unless the thread sleeps in a system call.
    pub sp: Option<u64>,
    /// Processor time of the thread in nanoseconds; None where that is not known.
    pub ran_ns: Option<u64>,
    pub asleep: bool,
}

/// The threads of process `pid`, by id.
pub fn threads(pid: u32) -> Vec<Thread> {
    thread_ids(pid).into_iter().map(|tid| thread(pid, tid)).collect()
}

/// Ids of the threads of process `pid`, sorted; empty where it is gone.
pub fn thread_ids(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut all: Vec<u32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

fn thread(pid: u32, tid: u32) -> Thread {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).unwrap_or_default();
    // "NUMBER ARGUMENTS… SP PC", or "running".
    let call = read("syscall");
    let words: Vec<&str> = call.split_whitespace().collect();
    let sp = (words.len() >= 3).then(|| words[words.len() - 2]).and_then(|word| word.strip_prefix("0x"));
    let state = Stat::read(Task::Thread { process: pid, thread: tid }).map(|stat| stat.state());
    Thread {
        tid,
        sp: sp.and_then(|word| u64::from_str_radix(word, 16).ok()),
        ran_ns: read("schedstat").split_whitespace().next().and_then(|word| word.parse().ok()),
        asleep: matches!(state, Ok(b'S' | b'D' | b'T' | b't' | b'I')),
    }
}

/// How far below the frames of exit the system call of the thread that waits is, at the most: the dynamic linker's
/// frame there has a word for each module.
const CALL_BYTES: u64 = 128 << 10;

impl Thread {
    /// Whether this is the thread that waits, in what exit called from the frame at `sp`.
    pub fn waits_at(&self, sp: u64) -> bool {
        self.sp.is_some_and(|own| own <= sp && sp - own < CALL_BYTES)
    }
}

/// Whether nothing can have changed the memory between two looks: no thread ran but the one that waits at `sp`.
pub fn stood_still(before: &[Thread], after: &[Thread], sp: u64) -> bool {
    let slept = |(a, b): (&Thread, &Thread)| {
        let both_wait = a.waits_at(sp) && b.waits_at(sp);
        a.tid == b.tid && (both_wait || (a.asleep && b.asleep && a.ran_ns.is_some() && a == b))
    };
    match (before, after) {
        ([_], [_]) => true,
        _ => before.len() == after.len() && before.iter().zip(after).all(slept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_waits_may_run() {
        let thread = |tid, sp, ran| Thread { tid, sp: Some(sp), ran_ns: Some(ran), asleep: true };
        let before = [thread(1, 0x9000, 5), thread(2, 0x100_000, 7)];
        let waited = [thread(1, 0x9010, 6), before[1]];
        assert!(stood_still(&before, &waited, 0x9100));
        assert!(!stood_still(&before, &[before[0], thread(2, 0x100_000, 8)], 0x9100));
        assert!(!stood_still(&before, &before[..1], 0x9100));
        assert!(stood_still(&before[..1], &[thread(1, 0, 99)], 0x9100));
    }
}
