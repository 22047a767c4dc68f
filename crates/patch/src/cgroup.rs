//! Whether a process is frozen with its control group.

use std::fs;
use std::path::{Path, PathBuf};

const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const FREEZER: &str = "/sys/fs/cgroup/freezer";

/// False where that cannot be seen, as in a container.
pub(crate) fn is_frozen(pid: u32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups.lines().filter_map(files).flatten().any(|(file, is_yes)| {
        fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| is_yes.contains(&line.trim())))
    })
}

/// Files that say it of a line of `/proc/PID/cgroup`, with the lines in them that mean yes. None: it is of no freezer.
fn files(line: &str) -> Option<Vec<(PathBuf, &'static [&'static str])>> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let below = |root: &str, file: &str| Path::new(root).join(path.trim_start_matches('/')).join(file);
    match controllers {
        "" => Some(UNIFIED.iter().map(|root| (below(root, "cgroup.events"), &["frozen 1"][..])).collect()),
        _ if controllers.split(',').any(|one| one == "freezer") => {
            Some(vec![(below(FREEZER, "freezer.state"), &["FROZEN", "FREEZING"][..])])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_looked_at() {
        let first = |line| files(line).map(|all| all[0].0.to_string_lossy().into_owned());
        assert_eq!(first("0::/a/b").as_deref(), Some("/sys/fs/cgroup/a/b/cgroup.events"));
        assert_eq!(first("7:freezer:/x:y").as_deref(), Some("/sys/fs/cgroup/freezer/x:y/freezer.state"));
        assert_eq!([first("3:cpu,cpuacct:/"), first(""), first("1:name=systemd:/")], [None, None, None]);
        assert!(!is_frozen(std::process::id()));
    }
}
