//! Programs that run with other rights than their caller's: the dynamic linker loads no foreign library into them.

use super::finding::Finding;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{getegid, geteuid, getuid};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// None: the program runs with its caller's rights.
pub(super) fn check(path: &Path) -> Option<Finding> {
    let status = fs::metadata(path).ok()?;
    // Such a mount gives nobody other rights, and neither does a process that may have no more (as in many containers).
    if statvfs(path).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOSUID)) || no_new_privileges() {
        return None;
    }
    let shown = path.display();
    let other_user = status.mode() & 0o4000 != 0 && status.uid() != geteuid().as_raw();
    let other_group = status.mode() & 0o2010 == 0o2010 && status.gid() != getegid().as_raw();
    let (whose, remedy) = if other_user {
        ("another user's rights (setuid)", "run it as that user")
    } else if other_group {
        ("another group's rights (setgid)", "run it as that group: sg GROUP -c …")
    } else if !getuid().is_root() && has_capabilities(path) {
        ("rights of its own (file capabilities)", "run a copy of it, which has none, or run it as root")
    } else {
        return None;
    };
    let found = format!("{shown} runs with {whose}, where the dynamic linker loads no foreign library");
    Some(Finding::fails("rights", found, remedy))
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok_and(|length| length > 0)
}

fn no_new_privileges() -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
}
