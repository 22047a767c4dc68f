//! How near a watched program is to a limit of its memory: `memory.max` of its control groups, RLIMIT_AS and
//! RLIMIT_DATA, or a size of RSS that was set.

use std::fs;
use std::path::{Path, PathBuf};

use mallow_proc::Status;

use crate::flags::SaveAt;
use crate::output::text::Look;
use crate::output::text::units::{bytes, share};

/// What counts against a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The limit: `memory.max of /sys/fs/cgroup/web`, `RLIMIT_AS of process 4711`.
    pub limit: String,
    /// What is used of it, in words, and in bytes.
    pub what: &'static str,
    pub used: u64,
    /// How much may be used.
    pub most: u64,
}

impl Usage {
    fn share(&self) -> f64 {
        self.used as f64 / self.most.max(1) as f64
    }

    /// `912 MB of RSS, 91.2 % of 1.00 GB, memory.max of /sys/fs/cgroup/web`
    pub fn text(&self, look: &Look) -> String {
        let (used, most) = (bytes(self.used, look.exact), bytes(self.most, look.exact));
        format!("{used} of {}, {} of {most}, {}", self.what, share(self.share()), self.limit)
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

/// Whether it is time to save.
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
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let found = hierarchies(&membership, &mounts);
    found.iter().flat_map(|(mount, group, version)| limits_up_to(mount, group, *version)).collect()
}

/// Which version of control groups a hierarchy is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where a hierarchy with the memory controller is mounted, and a process's group in it.
fn hierarchies(membership: &str, mounts: &str) -> Vec<(PathBuf, PathBuf, Version)> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let version = match controllers {
            "" => Version::Two,
            names if names.split(',').any(|name| name == "memory") => Version::One,
            _ => continue,
        };
        if let Some((mount, group)) = mounts.lines().find_map(|line| mounted(line, path, version)) {
            found.push((mount, group, version));
        }
    }
    found
}

/// Of a line of `/proc/self/mountinfo`: where the hierarchy is mounted, and the directory of the group with this path.
fn mounted(line: &str, path: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    let (fields, rest) = line.split_once(" - ")?;
    let mut rest = rest.split(' ');
    let (kind, options) = (rest.next()?, rest.nth(1).unwrap_or_default());
    let is_it = match version {
        Version::Two => kind == "cgroup2",
        Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    let (root, mount) = (fields.split(' ').nth(3)?, fields.split(' ').nth(4)?);
    // In a container the root of the mount may be the container's own group.
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    is_it.then(|| (PathBuf::from(mount), Path::new(mount).join(below.trim_start_matches('/'))))
}

fn limits_up_to(mount: &Path, group: &Path, version: Version) -> Vec<Usage> {
    let within = group.ancestors().take_while(|directory| directory.starts_with(mount));
    within.filter_map(|directory| limit_of(directory, version)).collect()
}

/// The limit of a control group. Pages of files that the kernel can drop when memory is scarce do not count against it.
fn limit_of(directory: &Path, version: Version) -> Option<Usage> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let (max, current, [file, shared]) = match version {
        Version::Two => ("memory.max", "memory.current", ["file", "shmem"]),
        Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes", ["total_cache", "total_shmem"]),
    };
    // Version 1 has a number near the largest one where there is no limit.
    const UNLIMITED: u64 = 1 << 60;
    let most = read(max)?.trim().parse::<u64>().ok().filter(|most| *most > 0 && *most < UNLIMITED)?;
    let current = read(current)?.trim().parse::<u64>().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let of = |name: &str| {
        let found =
            stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
        found.unwrap_or(0)
    };
    let used = current.saturating_sub(of(file).saturating_sub(of(shared)));
    Some(Usage {
        limit: format!("{max} of {}", directory.display()),
        what: "memory that is no page of a file",
        used,
        most,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{SaveAt, Usage, Version, hierarchies, is_crossed, limits_up_to, nearest, soft_limit};

    const MOUNTS: &str = "\
25 1 8:1 / / rw - ext4 /dev/sda1 rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 /docker/abc /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn groups_are_found_in_both_versions() {
        let found = hierarchies("4:memory:/web/one\n3:cpuset:/x\n0::/docker/abc/app\n", MOUNTS);
        let expected = [
            ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/web/one", Version::One),
            ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/app", Version::Two),
        ];
        let expected = expected.map(|(mount, group, version)| (mount.into(), group.into(), version));
        assert_eq!(found, expected);
        assert_eq!(hierarchies("nonsense\n1:cpu:/\n", MOUNTS), []);
    }

    #[test]
    fn the_limit_of_an_outer_group_counts_and_pages_of_files_do_not() {
        let place = tempfile::tempdir().expect("a directory");
        let inner = place.path().join("outer/inner");
        fs::create_dir_all(&inner).expect("directories");
        let write = |of: &Path, name: &str, text: &str| fs::write(of.join(name), text).expect("a file");
        write(&inner, "memory.max", "max\n");
        let outer = place.path().join("outer");
        write(&outer, "memory.max", "1000000\n");
        write(&outer, "memory.current", "900000\n");
        write(&outer, "memory.stat", "anon 300000\nfile 500000\nshmem 100000\n");
        let found = limits_up_to(place.path(), &inner, Version::Two);
        assert_eq!(found.iter().map(|usage| (usage.used, usage.most)).collect::<Vec<_>>(), [(500_000, 1_000_000)]);
        assert!(is_crossed(SaveAt::Share(0.5), &found[0]) && !is_crossed(SaveAt::Share(0.51), &found[0]));
        write(&inner, "memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limits_up_to(&inner, &inner, Version::One), []);
    }

    #[test]
    fn figures_of_the_kernel_are_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax data size             unlimited            unlimited            bytes\n\
                      Max address space         1048576000           unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max data size"), None);
        assert_eq!(soft_limit(limits, "Max address space"), Some(1_048_576_000));
        let own = nearest(SaveAt::Bytes(1 << 40), &[std::process::id()]).expect("a size");
        assert!(own.used > 1 << 20 && !is_crossed(SaveAt::Bytes(1 << 40), &own) && is_crossed(SaveAt::Bytes(1), &own));
        let usage = Usage { limit: "RLIMIT_AS of process 7".to_owned(), what: "address space", used: 900, most: 1000 };
        assert_eq!(
            usage.text(&Default::default()),
            "900 B of address space, 90.0 % of 1.00 kB, RLIMIT_AS of process 7"
        );
    }
}
