//! Whether a directory is worth listing: the kernel notes when its entries changed, and asking for that is a tenth of
//! the cost.

use rustix::time::{ClockId, clock_gettime};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Another entry within the same tick of the kernel's clock leaves the time as it is. Ticks have 10 ms at the most.
const SETTLED_NS: i128 = 100_000_000;

/// When a directory that was listed had changed last: seconds and nanoseconds; None: list it again.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectoryChanges {
    listed: Option<(i64, i64)>,
}

impl DirectoryChanges {
    /// Whether entries may have changed since this was asked last, after which the caller has listed them.
    pub fn since_last(&mut self, directory: &Path) -> bool {
        let Ok(status) = std::fs::metadata(directory) else { return true };
        let changed = (status.mtime(), status.mtime_nsec());
        if self.listed == Some(changed) {
            return false;
        }
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        let now = clock_gettime(ClockId::Realtime);
        let age = ns(now.tv_sec, now.tv_nsec as i64) - ns(changed.0, changed.1);
        self.listed = (age > SETTLED_NS).then_some(changed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::DirectoryChanges;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_directory_is_listed_again_when_its_entries_changed() {
        let place = tempfile::tempdir().unwrap();
        let mut changes = DirectoryChanges::default();
        let long_ago = |seconds| {
            let time = SystemTime::now() - Duration::from_secs(seconds);
            std::fs::File::open(place.path()).unwrap().set_modified(time).unwrap();
        };
        assert!(
            changes.since_last(place.path()) && changes.since_last(place.path()),
            "just made: it may change in this tick"
        );
        long_ago(60);
        assert!(changes.since_last(place.path()) && !changes.since_last(place.path()));
        std::fs::write(place.path().join("x"), "").unwrap();
        assert!(changes.since_last(place.path()), "an entry came");
        long_ago(90);
        assert!(changes.since_last(place.path()), "a clock that was set back");
        assert!(changes.since_last(&place.path().join("none")), "one that is gone is the caller's business");
    }
}
