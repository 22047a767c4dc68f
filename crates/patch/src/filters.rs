//! The seccomp filters of one thread.

use std::io;

use mallow_proc::{Status, Task};

use crate::seccomp::{Answer, Filter, SystemCall};
use crate::trace;

/// The kernel has a thread that was stopped in a call with a timeout go on by this call.
pub(crate) const RESTART: SystemCall =
    SystemCall { name: "restart_syscall", number: libc::SYS_restart_syscall, arguments: [Some(0); 6] };

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    None,
    Strict,
    Filter,
}

/// [`Mode::None`] where the thread is gone.
pub(crate) fn mode(pid: u32, tid: u32) -> Mode {
    match Status::read(Task::Thread { process: pid, thread: tid }).ok().and_then(|status| status.seccomp_mode()) {
        Some(1) => Mode::Strict,
        None | Some(0) => Mode::None,
        Some(_) => Mode::Filter,
    }
}

/// Whether a stopped thread may go on with a call that has a timeout as the kernel has it go on. False where that is
/// not known.
pub(crate) fn may_restart(tid: u32) -> bool {
    match filters(tid) {
        Ok(filters) => filters.iter().all(|filter| filter.answers(&RESTART).1 == Answer::Allowed),
        // It has none. A kernel that cannot show filters says the same.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => true,
        Err(_) => mode(tid, tid) == Mode::None,
    }
}

/// All filters of a thread that is held.
pub(crate) fn filters(tid: u32) -> io::Result<Vec<Filter>> {
    let mut all = Vec::new();
    loop {
        match trace::seccomp_filter(tid, all.len()) {
            Ok(instructions) => all.push(Filter::new(instructions)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) && !all.is_empty() => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}
