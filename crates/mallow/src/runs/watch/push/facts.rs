//! What the kernel knows of a process that is watched: read once, while it runs.

use mallow_fleet::push::ProcessFacts;
use mallow_proc::Stat;

use crate::runs::process_files::{read, read_path};

/// Facts of process `here` of this machine, which calls itself `pid` and runs `executable`. A fact that cannot be read
/// stays empty.
pub fn facts(here: Option<u32>, pid: u32, executable: &str) -> ProcessFacts {
    let of = |name: &str| here.map(|pid| read(pid, name)).unwrap_or_default();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    ProcessFacts {
        pid,
        start_ticks: here.and_then(|pid| Stat::read(pid).ok()?.start_ticks()).unwrap_or_default(),
        boot: text(read_path("/proc/sys/kernel/random/boot_id")).trim().to_owned(),
        executable: executable.to_owned(),
        environment: of("environ"),
        cgroup: text(of("cgroup")),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::facts;

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = facts(Some(std::process::id()), 7, "/bin/x");
        assert!(own.pid == 7 && own.start_ticks > 0 && !own.environment.is_empty() && !own.host.is_empty());
        let gone = facts(None, 7, "/bin/x");
        assert!(gone.start_ticks == 0 && gone.environment.is_empty() && gone.executable == "/bin/x");
    }
}
