//! `/proc/PID/status`: the named fields of a process or thread.

use std::io;

use crate::numbers::{decimal, hexadecimal, short};
use crate::task::Task;

/// Text of a `status` file. The methods return None for a field that is not there: fields come and go with versions of
/// the kernel, and a process that has no memory any more has no sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status(Vec<u8>);

impl Status {
    /// Reads it, which every user may do unless `/proc` is mounted with `hidepid`.
    pub fn read(task: impl Into<Task>) -> io::Result<Self> {
        task.into().read("status").map(Self)
    }

    /// The status that a text has. Lines that are no fields do no harm.
    pub fn parse(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// The name, at most 15 bytes of a program's: with `\n` for newlines and `\\` for backslashes, without blanks at
    /// its ends. What is not UTF-8 becomes U+FFFD.
    pub fn name(&self) -> Option<String> {
        self.field("Name").map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// `R`, `S`, `D`, `Z`, `X` and so on: proc_pid_status(5).
    pub fn state(&self) -> Option<u8> {
        self.field("State")?.first().copied()
    }

    /// The process that it is a thread of.
    pub fn group(&self) -> Option<u32> {
        short(self.field("Tgid")?)
    }

    pub fn parent(&self) -> Option<u32> {
        short(self.field("PPid")?)
    }

    /// The thread that traces it; 0 if none does.
    pub fn tracer(&self) -> Option<u32> {
        short(self.field("TracerPid")?)
    }

    /// Real, effective, saved and file system user.
    pub fn users(&self) -> Option<[u32; 4]> {
        let mut words = words(self.field("Uid")?);
        let mut user = || short(words.next()?);
        Some([user()?, user()?, user()?, user()?])
    }

    pub fn threads(&self) -> Option<u32> {
        short(self.field("Threads")?)
    }

    /// The id in the process's own pid namespace.
    pub fn innermost_pid(&self) -> Option<u32> {
        short(words(self.field("NSpid")?).last()?)
    }

    /// None before Linux 6.8.
    pub fn is_kernel_thread(&self) -> Option<bool> {
        self.field("Kthread").map(|value| value == b"1")
    }

    /// Effective capabilities, a bit each.
    pub fn effective_capabilities(&self) -> Option<u64> {
        hexadecimal(self.field("CapEff")?)
    }

    /// 0: no filters of system calls, 1: strict mode, 2: filters. None without seccomp in the kernel.
    pub fn seccomp_mode(&self) -> Option<u32> {
        short(self.field("Seccomp")?)
    }

    pub fn seccomp_filters(&self) -> Option<u32> {
        short(self.field("Seccomp_filters")?)
    }

    /// Signals that wait for this thread alone, a bit each.
    pub fn pending_signals(&self) -> Option<u64> {
        hexadecimal(self.field("SigPnd")?)
    }

    /// Size of the address space, in bytes.
    pub fn virtual_bytes(&self) -> Option<u64> {
        self.bytes("VmSize")
    }

    /// Bytes that count against RLIMIT_DATA.
    pub fn data_bytes(&self) -> Option<u64> {
        self.bytes("VmData")
    }

    /// RSS, in bytes: the kernel's own count, which may lag behind by some pages.
    pub fn rss_bytes(&self) -> Option<u64> {
        self.bytes("VmRSS")
    }

    /// The highest RSS so far, in bytes.
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        self.bytes("VmHWM")
    }

    /// A field such as `VmRSS:     1234 kB`, in bytes.
    fn bytes(&self, name: &str) -> Option<u64> {
        Some(decimal(self.field(name)?.strip_suffix(b" kB")?)?.saturating_mul(1024))
    }

    fn field(&self, name: &str) -> Option<&[u8]> {
        let value = |line| <[u8]>::strip_prefix(line, name.as_bytes())?.strip_prefix(b":");
        self.0.split(|&byte| byte == b'\n').find_map(value).map(<[u8]>::trim_ascii)
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let status = Status::parse(
            &b"Name:\tcaf\xe9 Tgid:\\n(1)\nState:\tT (stopped)\nTgid:\t7\nPPid:\t2\nTracerPid:\t9\nUid:\t1\t2\t3\t4\nNSpid:\t70\t1\n\
            VmSize:\t 18446744073709551615 kB\nVmHWM:\t     12 kB\nVmRSS:\t       8 kB\nVmData:\t12\nThreads:\t3\nKthread:\t1\n\
            SigPnd:\t0000000000000800\nCapEff:\t000001ffffffffff\nSeccomp_filters:\t1\nSeccomp:\t2\n"[..],
        );
        assert_eq!(status.name().as_deref(), Some("caf\u{fffd} Tgid:\\n(1)"));
        assert_eq!((status.state(), status.group(), status.parent()), (Some(b'T'), Some(7), Some(2)));
        assert_eq!((status.tracer(), status.users(), status.threads()), (Some(9), Some([1, 2, 3, 4]), Some(3)));
        assert_eq!((status.innermost_pid(), status.is_kernel_thread()), (Some(1), Some(true)));
        assert_eq!((status.effective_capabilities(), status.pending_signals()), (Some((1 << 41) - 1), Some(0x800)));
        assert_eq!((status.seccomp_mode(), status.seccomp_filters()), (Some(2), Some(1)));
        assert_eq!((status.peak_rss_bytes(), status.rss_bytes()), (Some(12 << 10), Some(8 << 10)));
        assert_eq!((status.virtual_bytes(), status.data_bytes()), (Some(u64::MAX), None));
        let empty = Status::default();
        assert_eq!(
            (empty.name(), empty.users(), empty.is_kernel_thread(), empty.rss_bytes()),
            (None, None, None, None)
        );
    }

    #[test]
    fn this_process_has_a_status() {
        let (status, pid) = (Status::read(Task::Own).unwrap(), std::process::id());
        assert_eq!((status.group(), status.tracer()), (Some(pid), Some(0)));
        assert!(status.peak_rss_bytes() >= status.rss_bytes() && status.rss_bytes() > Some(0));
        let thread = Task::Thread { process: pid, thread: pid };
        assert_eq!(Status::read(thread).unwrap().group(), Some(pid));
        assert!(Task::from(pid).owner().is_ok());
        assert_eq!(Status::read(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
