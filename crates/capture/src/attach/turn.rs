//! One mallow after the other works on a process: attaching, detaching and patching later libraries take turns.
//!
//! The turn is a lock on a file of the process in `/proc`. The kernel ends it with the mallow that has it, however that
//! ends, and nothing is written anywhere.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

/// What another mallow does meanwhile, for a message.
pub const WAITING: &str = "another mallow attaches to the process or detaches from it";

/// A turn. Dropping it ends it.
#[derive(Debug)]
pub struct Turn {
    _locked: File,
}

impl Turn {
    /// Waits for the turn on process `pid`, `patience` at the most. None: another mallow has it still, or `given_up`
    /// returned true.
    pub fn wait(pid: u32, patience: Duration, given_up: &mut dyn FnMut(&str) -> bool) -> io::Result<Option<Self>> {
        let file = File::open(format!("/proc/{pid}/status"))?;
        let deadline = Instant::now() + patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self { _locked: file })),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if given_up(WAITING) || Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_until_it_is_dropped() {
        let pid = std::process::id();
        let turn = || Turn::wait(pid, Duration::ZERO, &mut |_| false).expect("it runs");
        let first = turn();
        assert!(first.is_some() && turn().is_none() && turn().is_none());
        drop(first);
        assert!(turn().is_some());
        let mut asked = 0;
        let first = turn();
        let second = Turn::wait(pid, Duration::from_secs(60), &mut |_| {
            asked += 1;
            asked > 3
        });
        assert!(second.expect("it runs").is_none() && asked == 4);
        drop(first);
        assert!(Turn::wait(u32::MAX, Duration::ZERO, &mut |_| false).is_err());
    }
}
