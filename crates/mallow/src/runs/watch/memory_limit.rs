//! How near a watched program is to a limit of its memory: `memory.max` of its control groups, RLIMIT_AS and
//! RLIMIT_DATA, or a size of RSS that was set.

use std::fs;

use mallow_proc::{GroupMemory, Status};

use crate::flags::SaveAt;
use crate::output::text::Look;
use crate::output::text::units::{bytes, percent};

/// Memory that counts against a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The limit: `memory.max of /sys/fs/cgroup/web`, `RLIMIT_AS of process 4711`.
    pub limit: String,
    /// Kind of the memory in use, in words; `used` has its bytes.
    pub what: &'static str,
    pub used: u64,
    /// The limit in bytes.
    pub most: u64,
}

impl Usage {
    fn share(&self) -> f64 {
        self.used as f64 / self.most.max(1) as f64
    }

    /// `912 MB of RSS, 91.2 % of 1.00 GB, memory.max of /sys/fs/cgroup/web`
    pub fn text(&self, look: &Look) -> String {
        let (used, most) = (bytes(self.used, look.exact), bytes(self.most, look.exact));
        format!("{used} of {}, {} of {most}, {}", self.what, percent(self.used, self.most), self.limit)
    }
}

/// The usage that is nearest to its limit, of these processes; None: there is no limit.
pub fn nearest(at: SaveAt, pids: &[u32]) -> Option<Usage> {
    let all: Vec<Usage> = match at {
        SaveAt::Bytes(most) => {
            let used = pids.iter().filter_map(|pid| Status::read(*pid).ok()?.rss_bytes()).sum();
            vec![Usage { limit: "the size of --save-at".to_owned(), what: "RSS", used, most }]
        }
        SaveAt::Share(_) => pids.iter().flat_map(|pid| [groups(*pid), limits(*pid)].concat()).collect(),
    };
    all.into_iter().max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// Whether the usage has reached the amount at which evidence is saved.
pub fn is_crossed(at: SaveAt, usage: &Usage) -> bool {
    match at {
        SaveAt::Share(share) => usage.share() >= share,
        SaveAt::Bytes(most) => usage.used >= most,
    }
}

/// The resource limits of a process that it may come to by allocating.
fn limits(pid: u32) -> Vec<Usage> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let status = Status::read(pid).unwrap_or_default();
    let rows = [
        ("Max address space", "RLIMIT_AS", "address space", status.virtual_bytes()),
        ("Max data size", "RLIMIT_DATA", "data", status.data_bytes()),
    ];
    let of = |(row, name, what, used): (&str, &str, &'static str, Option<u64>)| {
        let most = soft_limit(&limits, row)?;
        Some(Usage { limit: format!("{name} of process {pid}"), what, used: used.unwrap_or_default(), most })
    };
    rows.into_iter().filter_map(of).collect()
}

/// The soft limit of a row of `/proc/PID/limits`; None: unlimited.
fn soft_limit(limits: &str, row: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(row))?.split_whitespace().next()?.parse().ok()
}

/// The control groups of a process with a limit of memory, up to the root.
fn groups(pid: u32) -> Vec<Usage> {
    let usage = |group: GroupMemory| Usage {
        limit: format!("{} of {}", group.limit, group.directory.display()),
        what: "memory that is no page of a file",
        used: group.used,
        most: group.most,
    };
    GroupMemory::read(pid).into_iter().map(usage).collect()
}

#[cfg(test)]
mod tests {
    use super::{SaveAt, Usage, is_crossed, nearest, soft_limit};

    #[test]
    fn figures_of_the_kernel_are_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax data size             unlimited            unlimited            bytes\n\
                      Max address space         1048576000           unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max data size"), None);
        assert_eq!(soft_limit(limits, "Max address space"), Some(1_048_576_000));
        let own = nearest(SaveAt::Bytes(1 << 40), &[std::process::id()]).expect("a size");
        assert!(own.used > 1 << 20 && !is_crossed(SaveAt::Bytes(1 << 40), &own) && is_crossed(SaveAt::Bytes(1), &own));
        let usage = Usage { limit: "RLIMIT_AS of process 7".to_owned(), what: "address space", used: 900, most: 1000 };
        assert!(is_crossed(SaveAt::Share(0.9), &usage) && !is_crossed(SaveAt::Share(0.91), &usage));
        assert_eq!(
            usage.text(&Default::default()),
            "900 B of address space, 90.0 % of 1.00 kB, RLIMIT_AS of process 7"
        );
        // RSS may be far above a size when it is looked at.
        let usage = Usage { limit: "the size of --save-at".to_owned(), what: "RSS", used: 1130, most: 1000 };
        assert_eq!(usage.text(&Default::default()), "1.13 kB of RSS, 113.0 % of 1.00 kB, the size of --save-at");
    }
}
