//! Which threads may run a function for mallow: those that hold no lock that it could need.
//!
//! A thread is judged by its whole stack. Each run of frames within the C library is there because of one of its
//! functions, the outermost one; only functions that wait, and those that threads begin with, are known to hold
//! nothing.

use mallow_patch::{Frame, Module};
use std::ops::Range;

/// Functions of the C library that wait for something and hold no lock of it meanwhile.
const WAITING: &[&str] = &[
    "accept",
    "accept4",
    "__accept",
    "alarm",
    "clock_nanosleep",
    "__clock_nanosleep",
    "close",
    "connect",
    "__connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd_read",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "flock",
    "fsync",
    "getpid",
    "gettid",
    "getrandom",
    "ioctl",
    "kill",
    "lseek",
    "lseek64",
    "madvise",
    "mq_receive",
    "mq_send",
    "mq_timedreceive",
    "mq_timedsend",
    "msgrcv",
    "msgsnd",
    "nanosleep",
    "__nanosleep",
    "open",
    "open64",
    "__open",
    "__open64",
    "openat",
    "openat64",
    "pause",
    "poll",
    "__poll",
    "ppoll",
    "pread",
    "pread64",
    "preadv",
    "pselect",
    "__pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_barrier_wait",
    "pthread_join",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "___pthread_mutex_lock",
    "__pthread_mutex_lock",
    "pwrite",
    "pwrite64",
    "pwritev",
    "read",
    "__read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sched_yield",
    "__sched_yield",
    "select",
    "__select",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
    "semop",
    "semtimedop",
    "send",
    "__send",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "sigpause",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "splice",
    "syscall",
    "thrd_join",
    "thrd_sleep",
    "cnd_wait",
    "cnd_timedwait",
    "mtx_lock",
    "usleep",
    "wait",
    "wait3",
    "wait4",
    "__wait4",
    "waitid",
    "waitpid",
    "write",
    "__write",
    "writev",
];

/// Functions that hold the lock of a stream that they read. Nothing that mallow calls reads streams: they may be used
/// where they wait in `read`.
const READING: &[&str] = &[
    "getchar",
    "fgetc",
    "getc",
    "_IO_getc",
    "fgets",
    "fread",
    "_IO_fread",
    "getline",
    "getdelim",
    "__getdelim",
    "_IO_getline",
    "_IO_getline_info",
    "__uflow",
    "_IO_default_uflow",
    "__underflow",
    "_IO_file_underflow",
    "_IO_fgets",
    "fgets_unlocked",
];

/// Functions of the C library that call a thread's own first function.
const BEGINNING: &[&str] =
    &["__libc_start_main", "__libc_start_call_main", "__clone", "__clone3", "clone", "clone3", "start_thread"];

/// What is known of a process's modules, to decide on stacks.
pub struct Holders {
    /// Modules in which a thread may hold a lock: what of the C library and of the allocators is not judged by
    /// function.
    closed: Vec<(Range<u64>, String)>,
    library: Vec<Range<u64>>,
    /// Address, size and name of the C library's exports, sorted.
    functions: Vec<(u64, u64, String)>,
}

/// Names of modules that belong to glibc.
const GLIBC: &[&str] = &["libc.so.6", "libpthread.so.0", "librt.so.1"];

impl Holders {
    /// `allocator` says whether a module is the program's allocator; `own` is the code of an allocator in the
    /// executable.
    pub fn of(modules: &[Module], allocator: &dyn Fn(&Module) -> bool, own: Vec<Range<u64>>) -> Self {
        let closed = own.into_iter().map(|range| (range, "the allocator of the program".to_owned())).collect();
        let mut all = Self { closed, library: Vec::new(), functions: Vec::new() };
        for module in modules {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            let is_linker = module.soname.starts_with("ld-") || name.starts_with("ld-");
            if GLIBC.contains(&module.soname.as_str()) {
                all.library.push(module.range.clone());
                let exports = module.exports();
                all.functions.extend(exports.iter().map(|e| (e.address, e.size, e.name.to_owned())));
            } else if is_linker
                || allocator(module)
                || ["libdl.so.2", "libgcc_s.so.1"].contains(&module.soname.as_str())
            {
                all.closed.push((module.range.clone(), name.to_owned()));
            }
        }
        all.functions.sort();
        all
    }

    /// Why a thread with this stack, innermost frame first, must not be used. None: it may.
    pub fn obstacle(&self, frames: &[Frame]) -> Option<String> {
        let in_library = |frame: &Frame| self.library.iter().any(|range| range.contains(&frame.inside()));
        for frame in frames {
            if let Some((_, name)) = self.closed.iter().find(|(range, _)| range.contains(&frame.inside())) {
                return Some(format!("a thread is in {name}"));
            }
        }
        for (index, frame) in frames.iter().enumerate() {
            let is_outermost = frames.get(index + 1).is_none_or(|next| !in_library(next));
            if !in_library(frame) || !is_outermost {
                continue;
            }
            let names = self.names(frame.inside());
            // The program's first function is in the program itself.
            let is_root = index + 2 >= frames.len();
            let known = |list: &[&str]| names.iter().any(|name| list.contains(name));
            let first = self.first_of_run(frames, index, &in_library);
            let reads = || self.names(frames[first].inside()).iter().any(|name| ["read", "__read"].contains(name));
            if !(known(WAITING) || known(READING) && reads() || is_root && self.begins(frames, index, &in_library)) {
                let name = names.first().copied().unwrap_or("a function without a name");
                return Some(format!("a thread is in {name} of the C library"));
            }
        }
        None
    }

    /// Whether the outermost frames are those with which threads begin, and nothing of the C library else.
    fn begins(&self, frames: &[Frame], last: usize, in_library: &dyn Fn(&Frame) -> bool) -> bool {
        let first = self.first_of_run(frames, last, in_library);
        // A thread whose whole stack is the C library's own does something for it.
        first > 0
            && (first..=last).all(|index| {
                let names = self.names(frames[index].inside());
                names.is_empty() || names.iter().any(|name| BEGINNING.contains(name))
            })
    }

    /// Index of the innermost frame in the run of the C library's frames that ends with frame `last`.
    fn first_of_run(&self, frames: &[Frame], last: usize, in_library: &dyn Fn(&Frame) -> bool) -> usize {
        (0..=last).rev().take_while(|&index| in_library(&frames[index])).last().unwrap_or(last)
    }

    /// The names of the function at an address.
    fn names(&self, address: u64) -> Vec<&str> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let covers = |(start, size, _): &&(u64, u64, String)| address - *start < *size;
        self.functions[..after].iter().rev().take(64).filter(covers).map(|(.., name)| name.as_str()).collect()
    }
}
