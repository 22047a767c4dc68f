//! Whether a process whose system calls are restricted (seccomp) may be attached to: the calls that mallow, the dynamic
//! linker and the library make in it, tried on its filters.

use super::error::AttachError;
use libc::*;
use mallow_patch::{Sandbox, SandboxError, SystemCall, is_sandboxed};

/// What to do instead, where the process itself installs its filter: the library then knows what it forbids.
const OTHERWISE: &str = "start the command under mallow: mallow watch -- COMMAND";

const RW: i32 = PROT_READ | PROT_WRITE;
const ANONYMOUS: i32 = MAP_PRIVATE | MAP_ANONYMOUS;
const OPEN: i32 = O_RDONLY | O_CLOEXEC;
const CREATE: i32 = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
/// `MADV_POPULATE_WRITE`, since Linux 5.14.
const POPULATE_WRITE: i32 = 23;

/// A call of whose arguments those are known that are flags. Numbers below 0 are not: the C library extends them to 64
/// bits in another way than the library does.
macro_rules! call {
    ($name:ident, $number:expr $(, $at:literal = $value:expr)*) => {{
        #[allow(unused_mut)]
        let mut arguments = [None; 6];
        $(arguments[$at] = Some($value as u64);)*
        SystemCall { name: stringify!($name), number: $number, arguments }
    }};
}

macro_rules! map {
    ($rights:expr, $flags:expr) => {
        call!(mmap, SYS_mmap, 2 = $rights, 3 = $flags)
    };
}

/// The calls, as a supervisor of seccomp saw those of a process that was attached to (seccomp_unotify(2)), and those
/// that the library makes in rarer cases. With each C library, as nothing says which of its versions calls what.
fn needed() -> Vec<SystemCall> {
    vec![
        // Stopped threads go on; those that work for mallow.
        call!(restart_syscall, SYS_restart_syscall),
        call!(rt_sigreturn, SYS_rt_sigreturn),
        call!(sched_yield, SYS_sched_yield),
        map!(RW, ANONYMOUS | MAP_NORESERVE),
        map!(PROT_READ | PROT_EXEC, ANONYMOUS | MAP_FIXED_NOREPLACE),
        call!(mprotect, SYS_mprotect, 2 = PROT_READ | PROT_EXEC),
        call!(munmap, SYS_munmap),
        call!(memfd_create, SYS_memfd_create, 1 = MFD_CLOEXEC),
        call!(close, SYS_close),
        // The dynamic linker loads the library.
        call!(openat, SYS_openat, 2 = OPEN),
        call!(read, SYS_read),
        call!(pread64, SYS_pread64),
        call!(fstat, SYS_fstat),
        call!(newfstatat, SYS_newfstatat, 3 = AT_EMPTY_PATH),
        map!(PROT_READ, MAP_PRIVATE | MAP_DENYWRITE),
        map!(PROT_READ, MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED),
        map!(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED),
        map!(RW, MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED),
        map!(RW, ANONYMOUS | MAP_FIXED),
        map!(RW, ANONYMOUS),
        call!(mprotect, SYS_mprotect, 2 = PROT_READ),
        call!(mprotect, SYS_mprotect, 2 = RW),
        call!(brk, SYS_brk),
        call!(futex, SYS_futex, 1 = FUTEX_WAIT | FUTEX_PRIVATE_FLAG),
        call!(futex, SYS_futex, 1 = FUTEX_WAKE | FUTEX_PRIVATE_FLAG),
        // The library joins the run, by a descriptor where no path leads to it.
        call!(socketpair, SYS_socketpair, 0 = AF_UNIX, 1 = SOCK_SEQPACKET | SOCK_CLOEXEC, 2 = 0),
        call!(setsockopt, SYS_setsockopt, 1 = SOL_SOCKET, 2 = SO_RCVTIMEO),
        call!(recvmsg, SYS_recvmsg, 2 = MSG_CMSG_CLOEXEC),
        call!(fcntl, SYS_fcntl, 1 = F_DUPFD_CLOEXEC),
        call!(fcntl, SYS_fcntl, 1 = F_OFD_SETLK),
        call!(openat, SYS_openat, 2 = OPEN | O_NOFOLLOW),
        call!(openat, SYS_openat, 2 = O_RDWR | O_CLOEXEC | O_NOFOLLOW),
        call!(openat, SYS_openat, 2 = O_PATH | O_CLOEXEC),
        call!(openat, SYS_openat, 2 = O_PATH | O_CLOEXEC | O_NOFOLLOW),
        call!(openat, SYS_openat, 2 = O_PATH | O_CLOEXEC | O_DIRECTORY),
        call!(openat, SYS_openat, 2 = OPEN | O_DIRECTORY),
        call!(openat, SYS_openat, 2 = CREATE, 3 = 0o600),
        call!(ftruncate, SYS_ftruncate),
        map!(RW, MAP_SHARED | MAP_NORESERVE),
        map!(PROT_READ, MAP_PRIVATE),
        call!(prlimit64, SYS_prlimit64, 0 = 0, 2 = 0),
        call!(getpid, SYS_getpid),
        call!(getppid, SYS_getppid),
        call!(gettid, SYS_gettid),
        call!(geteuid, SYS_geteuid),
        call!(getcwd, SYS_getcwd),
        call!(readlinkat, SYS_readlinkat),
        call!(statfs, SYS_statfs),
        call!(fstatfs, SYS_fstatfs),
        // It records, and waits for mallow.
        call!(madvise, SYS_madvise, 2 = POPULATE_WRITE),
        call!(madvise, SYS_madvise, 2 = MADV_WIPEONFORK),
        call!(madvise, SYS_madvise, 2 = MADV_DONTDUMP),
        call!(madvise, SYS_madvise, 2 = MADV_DONTNEED),
        call!(rt_sigprocmask, SYS_rt_sigprocmask, 3 = 8),
        call!(clock_gettime, SYS_clock_gettime),
        call!(futex, SYS_futex, 1 = FUTEX_WAIT),
        call!(futex, SYS_futex, 1 = FUTEX_WAKE),
        call!(pwrite64, SYS_pwrite64),
        call!(write, SYS_write),
        call!(getdents64, SYS_getdents64),
        call!(prctl, SYS_prctl, 0 = PR_CAP_AMBIENT, 1 = PR_CAP_AMBIENT_IS_SET),
    ]
}

/// Whether all that attaching, recording and detaching need is allowed in the process. Threads with a filter are
/// stopped for a moment each, to read it.
pub fn check(pid: u32) -> Result<(), AttachError> {
    let sandbox = match Sandbox::read(pid) {
        Ok(sandbox) => sandbox,
        Err(SandboxError::Stop(error)) => return Err(error.into()),
        Err(why) => return Err(AttachError::Sandboxed { what: unread(&why), remedy: remedy_of(&why) }),
    };
    if sandbox == Sandbox::Strict {
        let what = "a thread of it is in seccomp's strict mode, which allows read, write and exit alone".to_owned();
        return Err(AttachError::Sandboxed { what, remedy: OTHERWISE.to_owned() });
    }
    let named = |(name, certain)| if certain { String::from(name) } else { format!("{name} with some arguments") };
    let names: Vec<String> = sandbox.forbidden(&needed()).into_iter().map(named).collect();
    if names.is_empty() {
        return Ok(());
    }
    let (list, it) = (listed(&names), if names.len() == 1 { "it" } else { "these" });
    Err(AttachError::Sandboxed {
        what: format!("a seccomp filter forbids {list}, which mallow needs in it"),
        remedy: format!("allow {it} in the profile or service that sets the filter, or {OTHERWISE}"),
    })
}

/// Whether [`check`] finds no obstacle; false where the filters cannot be read.
pub fn is_open(pid: u32) -> bool {
    !is_sandboxed(pid) || check(pid).is_ok()
}

fn unread(why: &SandboxError) -> String {
    format!("a seccomp filter restricts its system calls, and what it forbids is not known: {why}")
}

fn remedy_of(why: &SandboxError) -> String {
    let first = match why {
        SandboxError::NoRight => "run mallow as root with CAP_SYS_ADMIN",
        SandboxError::OwnFilter => {
            "run mallow without one (Kubernetes: seccompProfile Unconfined; Docker: --security-opt seccomp=unconfined)"
        }
        SandboxError::Refused(_) | SandboxError::Stop(_) => return OTHERWISE.to_owned(),
    };
    format!("{first}, or {OTHERWISE}")
}

/// `a, b and c`
fn listed(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_patch::{Filter, Instruction};

    /// What allows all allows what is needed, and what allows nothing forbids each call by its name.
    #[test]
    fn filters_are_tried_with_what_is_needed() {
        let always = |k| Sandbox::Filters(vec![Filter::new(vec![Instruction { code: 6, jt: 0, jf: 0, k }])]);
        assert_eq!(always(SECCOMP_RET_ALLOW).forbidden(&needed()), []);
        let all = always(SECCOMP_RET_ERRNO).forbidden(&needed());
        assert!(all.len() > 30 && all.iter().all(|(_, certain)| *certain), "{all:?}");
        let one = |name: &str| all.iter().filter(|(other, _)| *other == name).count();
        assert_eq!(["mmap", "openat", "memfd_create"].map(one), [1; 3]);
    }

    #[test]
    fn calls_are_listed_in_words() {
        let listed = |names: &[&str]| listed(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!([listed(&["a"]), listed(&["a", "b"]), listed(&["a", "b", "c"])], ["a", "a and b", "a, b and c"]);
    }
}
