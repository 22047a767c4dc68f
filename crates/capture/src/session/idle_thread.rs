//! A thread in the idle scheduling class: all others go first, here and in the target.

use std::sync::atomic::{AtomicI32, Ordering};

/// Thread id of the thread; 0: it has not entered the class.
#[derive(Default)]
pub struct IdleThread(AtomicI32);

impl IdleThread {
    /// The calling thread enters the class. Where that is refused, it works as all others do.
    pub fn enter(&self) {
        // First: in the class, it may not get that far.
        // SAFETY: a system call without pointers.
        self.0.store(unsafe { libc::gettid() }, Ordering::Release);
        set_class(0, libc::SCHED_IDLE);
    }

    /// Another thread takes the thread out of the class, which needs privileges: on a machine whose processors are all
    /// busy, it may get none for minutes, not even to end.
    pub fn leave(&self) {
        let thread = self.0.load(Ordering::Acquire);
        if thread != 0 {
            set_class(thread, libc::SCHED_OTHER);
        }
    }
}

fn set_class(thread: i32, class: i32) {
    // SAFETY: the parameter is valid, and 0 is the only priority of these classes. The thread is one of this process
    // that has not been joined; where it has ended, the call fails.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(thread, class, &parameter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_enters_the_class_and_is_taken_out_of_it() {
        let (idle, both) = (IdleThread::default(), std::sync::Barrier::new(2));
        // SAFETY: a system call without pointers.
        let class = || unsafe { libc::sched_getscheduler(0) };
        let (inside, outside) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                idle.enter();
                let inside = class();
                both.wait();
                both.wait();
                (inside, class())
            });
            both.wait();
            idle.leave();
            both.wait();
            thread.join().expect("its classes")
        });
        assert_eq!(inside, libc::SCHED_IDLE);
        // Others need a limit of nice values that allows it.
        if rustix::process::geteuid().is_root() {
            assert_eq!(outside, libc::SCHED_OTHER);
        }
    }
}
