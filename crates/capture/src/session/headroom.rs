//! How much memory mallow may take before somebody runs out of it: it is often in one control group with the target.

use mallow_proc::{GroupMemory, Status};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Bytes that the machine has available (`MemAvailable` of proc(5)), that a control group of this process may still
/// take, or that its own limit of addresses leaves, whichever is least. 0 where the machine does not say.
pub fn available() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text)).unwrap_or_default();
    let groups = GroupMemory::read(std::process::id()).into_iter().map(|group| group.most.saturating_sub(group.used));
    groups.chain(of_limit()).fold(machine, u64::min)
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes that RLIMIT_AS leaves. None: it is unlimited, or what is used is not known.
fn of_limit() -> Option<u64> {
    let most = getrlimit(Resource::As).current?;
    let used = Status::read(std::process::id()).ok()?.virtual_bytes()?;
    Some(most.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_it_has_available() {
        assert_eq!(of_machine("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(of_machine("MemTotal: 9 kB\n"), None);
        assert!(available() > 0);
    }
}
