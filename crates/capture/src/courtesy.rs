//! Giving way to others while computing. It changes nothing but time.

/// How much has been done since the kernel could last give the processor to another thread.
///
/// A kernel that preempts lazily (Linux 6.12 and later, with `preempt=lazy` or `none`) lets a thread of the idle class
/// go on until its next system call or timer tick, which may be 4 ms away, although the target's threads wait for that
/// processor. So whoever computes in that class makes a system call now and then. `sched_yield` is none for this: it
/// gives the rest of the thread's time away.
#[derive(Debug, Default)]
pub struct Courtesy(usize);

/// Records replayed between two calls: some 100 microseconds.
const MOST: usize = 2048;

impl Courtesy {
    /// Counts `records` that were replayed, and makes a system call after each [`MOST`] of them.
    #[inline]
    pub fn after(&mut self, records: usize) {
        self.0 += records;
        if self.0 >= MOST {
            self.0 = 0;
            let _ = rustix::process::getppid();
        }
    }
}
