//! What stands in the way of tracing a process, by name, and what to do about it.

use std::fs;
use std::io;
use std::path::PathBuf;

use mallow_arch::machine::{self, NAME};

use crate::cgroup;
use crate::memory::Memory;
use crate::process::{Process, State};

/// A reason why a process cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    #[error("there is no process {0}")]
    Gone(u32),
    /// The number is that of a thread.
    #[error("{thread} is a thread of process {process}")]
    Thread {
        /// The id that was asked about.
        thread: u32,
        process: u32,
    },
    /// A thread of the kernel.
    #[error("{0} is a thread of the kernel")]
    Kernel(u32),
    /// The process has ended, and its parent has not waited for it.
    #[error("process {0} has ended and waits for its parent (a zombie)")]
    Zombie(u32),
    /// A signal stopped the process: it can be traced, but nothing of it runs.
    #[error("process {0} is stopped")]
    Stopped(u32),
    /// The process is frozen with its control group: nothing of it runs.
    #[error("process {0} is frozen with its control group, as by docker pause")]
    Frozen(u32),
    /// The process waits in the kernel for something that no signal interrupts.
    #[error("process {0} waits in the kernel for something that cannot be interrupted")]
    Uninterruptible(u32),
    #[error("process {pid} is already traced, by {tracer}{}", named(.name))]
    Traced {
        pid: u32,
        tracer: u32,
        /// The name of that one; empty if unknown.
        name: String,
    },
    /// Yama keeps processes from tracing any but their own children.
    #[error("the kernel lets a process trace its own children alone (kernel.yama.ptrace_scope is {0})")]
    Yama(u8),
    #[error("the process belongs to another user ({user})")]
    OtherUser { user: u32 },
    /// The process has, or had, rights that the caller lacks.
    #[error("the process runs, or was started, with rights of its own (setuid, file capabilities)")]
    Privileged,
    /// The process lives in another user namespace, in which the caller has no rights.
    #[error("the process is in another user namespace, as those of containers are")]
    UserNamespace,
    /// The kernel refuses for another reason.
    #[error("the kernel does not let mallow trace the process: {0}")]
    Refused(String),
    #[error("it is a 32-bit program; Mallow knows {NAME} alone so far")]
    ThirtyTwoBits,
    /// A program of another processor, run by an emulator.
    #[error("it is no program of {NAME}")]
    OtherProcessor,
    /// Fully static: there is no dynamic linker that could load a library.
    #[error("it is statically linked: it has no dynamic linker that could load Mallow's library")]
    Static,
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" ({name})") }
}

impl Obstacle {
    /// What the user can do against the obstacle. None: nothing helps.
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Gone(_) => "name one that runs: pgrep NAME lists them".to_owned(),
            Self::Thread { process, .. } => format!("name the process: -p {process}"),
            Self::Kernel(_) | Self::Zombie(_) => return None,
            Self::Stopped(pid) => format!("let it continue: kill -CONT {pid}"),
            Self::Frozen(_) => "thaw it first: docker unpause, or 0 in the group's cgroup.freeze".to_owned(),
            Self::Uninterruptible(_) => "try again later".to_owned(),
            Self::Traced { tracer, .. } => format!("detach that debugger or tracer, or end it: kill {tracer}"),
            Self::Yama(3) => "reboot with another setting: 3 cannot be changed while the system runs".to_owned(),
            Self::Yama(2) => "run mallow as root".to_owned(),
            Self::Yama(_) => "run mallow as root, or set it to 0: sysctl kernel.yama.ptrace_scope=0".to_owned(),
            Self::OtherUser { .. } => "run mallow as that user or as root".to_owned(),
            Self::Privileged => "run mallow as root".to_owned(),
            Self::UserNamespace => "run mallow as root, outside of the container".to_owned(),
            Self::Refused(_) => {
                "run mallow as root with CAP_SYS_PTRACE: in a container, --cap-add=SYS_PTRACE".to_owned()
            }
            Self::ThirtyTwoBits => "build it without -m32".to_owned(),
            Self::OtherProcessor => format!("build it for {NAME}"),
            Self::Static => "link it dynamically (without -static)".to_owned(),
        })
    }

    /// Whether the obstacle ends by itself: attaching waits for that.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Uninterruptible(_))
    }

    /// All obstacles of a process that can be seen without touching it, the gravest first: it is neither stopped nor
    /// attached to.
    pub fn all(pid: u32) -> Vec<Self> {
        let Ok(process) = Process::read(pid) else { return vec![Self::Gone(pid)] };
        let mut all = Vec::new();
        // A process whose leader is a zombie may have other threads: they keep its memory.
        if process.group != pid && process.group != 0 {
            return vec![Self::Thread { thread: pid, process: process.group }];
        }
        if process.kernel {
            return vec![Self::Kernel(pid)];
        }
        if process.state == State::Zombie {
            return vec![Self::Zombie(pid)];
        }
        all.extend(Self::of_tracer(pid, process.tracer));
        if let Err(error) = Memory::open(pid) {
            all.push(permission(&process, &error));
        }
        all.extend(program(&process));
        match process.state {
            _ if cgroup::is_frozen(pid) => all.push(Self::Frozen(pid)),
            State::Stopped if process.tracer == 0 => all.push(Self::Stopped(pid)),
            State::Uninterruptible => all.push(Self::Uninterruptible(pid)),
            _ => {}
        }
        all
    }

    /// The obstacle that a tracer is; None for `tracer` 0. `tracer` may be any thread, as ptrace belongs to threads.
    fn of_tracer(pid: u32, tracer: u32) -> Option<Self> {
        if tracer == 0 {
            return None;
        }
        let tracer = Process::read(tracer).map_or(tracer, |thread| thread.group);
        let name = Process::read(tracer).map(|tracer| tracer.name).unwrap_or_default();
        Some(Self::Traced { pid, tracer, name })
    }

    /// Why the kernel refused to trace a thread of a process.
    pub(crate) fn of_refusal(pid: u32, tid: u32, error: io::Error) -> Self {
        if error.raw_os_error() == Some(libc::ESRCH) {
            return Self::Gone(pid);
        }
        // Another tracer may hold this thread alone.
        let traced = Process::read(tid).ok().and_then(|thread| Self::of_tracer(pid, thread.tracer));
        match traced.or_else(|| Self::all(pid).into_iter().next()) {
            Some(obstacle) => obstacle,
            None => Self::Refused(error.to_string()),
        }
    }
}

/// Why its memory may not be opened, from what can be seen without that right.
fn permission(process: &Process, error: &io::Error) -> Obstacle {
    match error.kind() {
        io::ErrorKind::NotFound => return Obstacle::Gone(process.pid),
        io::ErrorKind::PermissionDenied => {}
        _ => return Obstacle::Refused(error.to_string()),
    }
    let own = rustix::process::geteuid().as_raw();
    let scope = yama();
    if let Some(user) = process.users[..3].iter().copied().find(|user| *user != own).filter(|_| own != 0) {
        return match process.users[..3].contains(&own) {
            true => Obstacle::Privileged,
            false => Obstacle::OtherUser { user },
        };
    }
    if own != 0 && process.owner != own {
        return Obstacle::Privileged;
    }
    match scope {
        Some(scope @ 1..) => Obstacle::Yama(scope),
        _ if process.other_user_namespace().unwrap_or_else(is_mapped) => Obstacle::UserNamespace,
        _ => Obstacle::Refused(error.to_string()),
    }
}

/// Whether this process is in a user namespace other than the first one, which has all users.
fn is_mapped() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Yama's setting. None: this kernel has no Yama.
fn yama() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

/// Obstacles of the executable, as far as it can be read.
fn program(process: &Process) -> Option<Obstacle> {
    let header = process.executable_begin(4096).ok()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    if header.get(4) == Some(&1) {
        return Some(Obstacle::ThirtyTwoBits);
    }
    let machine = header.get(18..20).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if machine != Some(machine::ELF) {
        return Some(Obstacle::OtherProcessor);
    }
    // `ld.so ./program` is the dynamic linker itself, which asks for none.
    let linker = |path: PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-"));
    match crate::module::has_interpreter(&header) {
        Some(false) if !process.executable().is_ok_and(linker) => Some(Obstacle::Static),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacles_of_simple_cases() {
        assert_eq!(Obstacle::all(std::process::id()), []);
        assert_eq!(Obstacle::all(u32::MAX), [Obstacle::Gone(u32::MAX)]);
        let ended = std::process::Command::new("true").spawn().unwrap();
        let pid = ended.id();
        let mut state = None;
        for _ in 0..1000 {
            state = Process::read(pid).ok().map(|process| process.state);
            if state == Some(State::Zombie) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!((state, Obstacle::all(pid)), (Some(State::Zombie), vec![Obstacle::Zombie(pid)]));
        let mut ended = ended;
        ended.wait().unwrap();
        assert_eq!(Obstacle::all(pid), [Obstacle::Gone(pid)]);
    }

    #[test]
    fn each_has_one_line_and_a_remedy_if_something_helps() {
        let traced = Obstacle::Traced { pid: 7, tracer: 8, name: "gdb".into() };
        assert_eq!(traced.to_string(), "process 7 is already traced, by 8 (gdb)");
        for obstacle in [
            traced,
            Obstacle::Yama(1),
            Obstacle::Yama(3),
            Obstacle::OtherUser { user: 1000 },
            Obstacle::Privileged,
            Obstacle::UserNamespace,
            Obstacle::ThirtyTwoBits,
            Obstacle::Static,
        ] {
            assert!(obstacle.remedy().is_some_and(|remedy| !remedy.contains('\n')), "{obstacle}");
            assert!(!obstacle.to_string().contains('\n'));
        }
    }
}
