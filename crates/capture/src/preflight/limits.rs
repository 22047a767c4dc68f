//! Limits that leave no room for what Mallow needs in a process: those of this one, which a command inherits, and those
//! of one that runs.

use super::finding::Finding;
use crate::wire;
use rustix::process::{Resource, getrlimit};
use std::fs;

const CHECK: &str = "limits";

/// Soft limits of a process: bytes, or descriptors; MAX: there is no limit.
pub struct Limits {
    descriptors: u64,
    file_size: u64,
    address_space: u64,
    /// Descriptors in use; 0 of this process, whose limits a command inherits.
    open: u64,
}

impl Limits {
    /// The limits of this process.
    pub fn now() -> Self {
        let soft = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
        Self {
            descriptors: soft(Resource::Nofile),
            file_size: soft(Resource::Fsize),
            address_space: soft(Resource::As),
            open: 0,
        }
    }

    /// Read from `/proc/PID/limits` and `/proc/PID/fd`. None: one cannot be read.
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Some(Self {
            descriptors: soft(&text, "Max open files"),
            file_size: soft(&text, "Max file size"),
            address_space: soft(&text, "Max address space"),
            open,
        })
    }
}

/// The soft limit in the row that begins so; MAX: there is no limit.
fn soft(text: &str, row: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(row));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(u64::MAX)
}

/// preload/base/process.c: the file of a process holds the rings of as many threads as fit into the limit of files, and
/// into a sixteenth of the address space.
const ADDRESS_SPACE_SHARE: u64 = 16;
/// Bytes that the file of a process has for the rings of all of its threads.
const ALL_THREADS: u64 = 300 << 20;
/// Bytes that the rings of one thread take of the file.
const RINGS: u64 = 260 << 10;

/// Bytes of the smallest file of a process.
fn smallest(has_rings: bool) -> u64 {
    let head = (wire::process::BYTES + wire::MAX_MODULES as usize * wire::module::BYTES) as u64;
    head + if has_rings { RINGS } else { 0 }
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

struct TooLow {
    what: &'static str,
    /// Name of the limit's option of prlimit(1), without dashes.
    option: &'static str,
    limit: u64,
    enough: u64,
}

fn too_low(limits: &Limits, smallest: u64) -> Option<TooLow> {
    let (what, option, limit) = ("the size of files (ulimit -f)", "fsize", limits.file_size);
    if limit < smallest {
        return Some(TooLow { what, option, limit, enough: smallest });
    }
    let (what, option, limit) = ("address space (ulimit -v)", "as", limits.address_space);
    let is_low = limit / ADDRESS_SPACE_SHARE < smallest;
    is_low.then_some(TooLow { what, option, limit, enough: smallest * ADDRESS_SPACE_SHARE })
}

/// The check of the limits that a command inherits.
pub(super) fn of_machine(limits: &Limits) -> Finding {
    const MALLOWS_OWN: u64 = 64;
    if let Some(TooLow { what, limit, enough, .. }) = too_low(limits, smallest(true)) {
        let found = format!("{what} is limited to {} MiB: programs go unrecorded", mib(limit));
        return Finding::fails(CHECK, found, format!("raise it to {} MiB at least", mib(enough) + 1));
    }
    let mut low = Vec::new();
    if limits.descriptors < MALLOWS_OWN {
        low.push(format!("{} descriptors (ulimit -n): mallow may run out of them", limits.descriptors));
    }
    if limits.file_size < ALL_THREADS {
        low.push(format!("files of {} MiB (ulimit -f): the recording ends there", mib(limits.file_size)));
    }
    if limits.address_space / ADDRESS_SPACE_SHARE < ALL_THREADS {
        let space = mib(limits.address_space);
        low.push(format!("{space} MiB of address space (ulimit -v): of many threads, some go unrecorded"));
    }
    match low.is_empty() {
        true => Finding::works(CHECK, "none is low"),
        false => Finding::partly(CHECK, low.join("; "), "raise them in the shell that starts mallow"),
    }
}

/// Why nothing would be seen of process `pid` if Mallow attached to it; None: its limits leave room. `has_rings`:
/// events are to be recorded or sampled, and not only counted.
pub fn attaching(pid: u32, has_rings: bool) -> Option<Finding> {
    of_process(pid, &Limits::of(pid)?, has_rings)
}

fn of_process(pid: u32, limits: &Limits, has_rings: bool) -> Option<Finding> {
    if limits.open >= limits.descriptors {
        let found = format!("process {pid} has all of its {} descriptors in use (ulimit -n)", limits.descriptors);
        let remedy = format!("prlimit --pid {pid} --nofile={} gives it more", limits.descriptors + 16);
        return Some(Finding::fails(CHECK, found, remedy));
    }
    let TooLow { what, option, limit, .. } = too_low(limits, smallest(has_rings))?;
    let found = format!("{what} of process {pid} is limited to {} MiB: there is no room for its events", mib(limit));
    Some(Finding::fails(CHECK, found, format!("prlimit --pid {pid} --{option}=unlimited lifts that")))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    const NONE: Limits = Limits { descriptors: 1024, file_size: u64::MAX, address_space: u64::MAX, open: 3 };

    #[test]
    fn low_limits_are_reported() {
        assert_eq!(of_machine(&NONE).status, Status::Works);
        for (low, status, expected) in [
            (Limits { descriptors: 16, ..NONE }, Status::Partly, "16 descriptors"),
            (Limits { file_size: 100 << 20, ..NONE }, Status::Partly, "files of 100 MiB"),
            (Limits { file_size: 65536, ..NONE }, Status::Fails, "the size of files (ulimit -f) is limited to 0 MiB"),
            (Limits { address_space: 1 << 30, ..NONE }, Status::Partly, "1024 MiB of address space"),
            (Limits { address_space: 8 << 20, ..NONE }, Status::Fails, "address space (ulimit -v) is limited to 8 MiB"),
        ] {
            let finding = of_machine(&low);
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.found.contains(expected) && finding.remedy.is_some(), "{finding:?}");
        }
    }

    #[test]
    fn limits_of_a_process_leave_room_or_are_named() {
        let said = |limits: &Limits| of_process(7, limits, true).map(|finding| finding.sentence());
        assert_eq!(said(&NONE), None);
        assert_eq!(said(&Limits { descriptors: 8, open: 7, ..NONE }), None);
        let all_open =
            "process 7 has all of its 8 descriptors in use (ulimit -n); prlimit --pid 7 --nofile=24 gives it more";
        assert_eq!(said(&Limits { descriptors: 8, open: 8, ..NONE }).as_deref(), Some(all_open));
        let files = said(&Limits { file_size: 0, ..NONE }).expect("a finding");
        assert!(files.starts_with("the size of files (ulimit -f) of process 7 is limited to 0 MiB"), "{files}");
        assert!(files.ends_with("prlimit --pid 7 --fsize=unlimited lifts that"), "{files}");
        let space = said(&Limits { address_space: 8 << 20, ..NONE }).expect("a finding");
        assert!(space.ends_with("prlimit --pid 7 --as=unlimited lifts that"), "{space}");
        // Both limits have one value, of which files have enough.
        let both = said(&Limits { file_size: 8 << 20, address_space: 8 << 20, ..NONE }).expect("a finding");
        assert!(both.ends_with("prlimit --pid 7 --as=unlimited lifts that"), "{both}");
        // A file without rings is smaller.
        let between = Limits { file_size: smallest(false), ..NONE };
        assert!(of_process(7, &between, true).is_some() && of_process(7, &between, false).is_none());
        assert!(attaching(std::process::id(), true).is_none());
    }

    #[test]
    fn rows_of_limits_are_read() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax file size             1024  unlimited  bytes\n\
                    Max open files            unlimited  4096  files\n";
        assert_eq!(
            [soft(text, "Max file size"), soft(text, "Max open files"), soft(text, "no")],
            [1024, u64::MAX, u64::MAX]
        );
    }
}
