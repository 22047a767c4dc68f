//! Control groups with a limit of memory, of both versions: how much of it is used.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory of a control group that has a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    pub directory: PathBuf,
    /// The file with the limit, in this directory.
    pub limit: &'static str,
    /// Bytes that are used, and that may be. Pages of files that the kernel can drop when memory is scarce count as
    /// unused.
    pub used: u64,
    pub most: u64,
}

impl GroupMemory {
    /// Limited groups among those that process `pid` is in, up to the root.
    pub fn read(pid: u32) -> Vec<Self> {
        let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let found = hierarchies(&membership, &mounts);
        found.iter().flat_map(|(mount, group, version)| limits_up_to(mount, group, *version)).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Mount points of hierarchies with the memory controller, each with the directory of a process's group in it.
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

/// Mount point of the hierarchy that a line of `/proc/self/mountinfo` describes, and the directory of the group with
/// this path. None: the line is of no such hierarchy.
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

fn limits_up_to(mount: &Path, group: &Path, version: Version) -> Vec<GroupMemory> {
    let within = group.ancestors().take_while(|directory| directory.starts_with(mount));
    within.filter_map(|directory| limit_of(directory, version)).collect()
}

fn limit_of(directory: &Path, version: Version) -> Option<GroupMemory> {
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
    Some(GroupMemory { directory: directory.to_owned(), limit: max, used, most })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(found, [GroupMemory { directory: outer, limit: "memory.max", used: 500_000, most: 1_000_000 }]);
        write(&inner, "memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limits_up_to(&inner, &inner, Version::One), []);
    }
}
