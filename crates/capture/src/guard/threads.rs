//! Threads of a process that may be in another pid namespace, where they have other numbers than here.

use mallow_proc::{Status, Task};
use std::fs;

/// Whether `/proc` shows another pid namespace than this process is in: a number there is another process's.
pub fn proc_is_foreign() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.and_then(|own| own.to_str()?.parse().ok()) != Some(std::process::id())
}

/// The number here of a thread that has `tid` in its own namespace. None: it has ended, or cannot be known.
pub fn here(pid: u32, tid: u32) -> Option<u32> {
    if proc_is_foreign() {
        return None;
    }
    let innermost = |task: Task| Status::read(task).ok()?.innermost_pid();
    let process = innermost(pid.into())?;
    if process == pid {
        return Some(tid);
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|here| innermost(Task::Thread { process: pid, thread: *here }) == Some(tid))
}

/// The name of a thread by its number in its own namespace; empty: it has ended, or cannot be known.
pub fn name(pid: u32, tid: u32) -> String {
    let name = here(pid, tid).and_then(|here| fs::read(format!("/proc/{pid}/task/{here}/comm")).ok());
    String::from_utf8_lossy(&name.unwrap_or_default()).trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_this_namespace_has_its_own_number() {
        let pid = std::process::id();
        assert!(!proc_is_foreign());
        assert_eq!((here(pid, pid), name(pid, u32::MAX)), (Some(pid), String::new()));
        assert!(!name(pid, pid).is_empty());
    }
}
