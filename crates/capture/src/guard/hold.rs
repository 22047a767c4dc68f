//! A thread that made a wrong access and waits: in the kernel, or in the signal handler that takes userfaultfd's place.

use super::slots::PAGE;
use super::threads;
use super::uffd::{Fault, Userfault};
use crate::wire::guard::fault;
use crate::wire::{Shared, guard};
use std::sync::atomic::Ordering;

pub enum Hold<'a> {
    /// The thread waits in the kernel, for a page.
    Missing(&'a Userfault, Fault),
    /// The thread waits in the handler: its entry begins at this byte of the process file, and had this state.
    Protected(&'a Shared, usize, u32),
}

impl<'a> Hold<'a> {
    /// Threads in the signal handler of an image whose `struct mallow_guard` begins at byte `part` of the process file.
    pub fn in_handlers(shared: &'a Shared, part: usize) -> impl Iterator<Item = Self> {
        let entries = (0..guard::FAULTS_MOST).map(move |n| part + guard::FAULT + n * fault::SIZE);
        entries.filter_map(move |at| {
            let state = shared.word32(at + fault::STATE).load(Ordering::Acquire);
            (state & guard::FAULT_STATE == guard::ASKS).then_some(Self::Protected(shared, at, state))
        })
    }

    pub fn fault(&self) -> Fault {
        match *self {
            Self::Missing(_, fault) => fault,
            Self::Protected(shared, at, _) => Fault {
                address: shared.get64(at + fault::ADDRESS),
                write: shared.get32(at + fault::WRITE) != 0,
                tid: shared.get32(at + fault::TID),
            },
        }
    }

    /// Whether the address of the fault is exact, and not that of its page.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Missing(userfault, _) => userfault.exact,
            Self::Protected(..) => true,
        }
    }

    /// Address of the thread's saved registers in its process. None: it waits in the kernel.
    pub fn registers(&self) -> Option<u64> {
        match *self {
            Self::Missing(..) => None,
            Self::Protected(shared, at, _) => Some(shared.get64(at + fault::REGISTERS)),
        }
    }

    /// Lets the thread go on, with a page that is there. Once more does nothing.
    pub fn let_go(&self) {
        match self {
            Self::Missing(userfault, fault) => drop(userfault.fill(fault.address & !(PAGE - 1), PAGE)),
            Self::Protected(..) => self.answer(guard::ANSWERED),
        }
    }

    /// Lets the thread make the access once more.
    pub fn wake(&self) {
        match self {
            Self::Missing(userfault, fault) => userfault.wake(fault.address & !(PAGE - 1)),
            // It opens the page all the same: nobody would answer it twice.
            Self::Protected(..) => self.answer(guard::ANSWERED),
        }
    }

    /// Number of the thread here: in a pid namespace it has another one than it says. None: that cannot be known.
    pub fn thread(&self, pid: u32) -> Option<u32> {
        threads::here(pid, self.fault().tid)
    }

    /// Ends the program with the thread's registers as they are. A thread that waits in the kernel must be stopped, and
    /// takes the signal when it goes on; one in the handler sends the signal to itself.
    pub fn end(&self, pid: u32) {
        match self {
            Self::Missing(..) => {
                if let Some(thread) = self.thread(pid) {
                    // SAFETY: plain system call. The thread is stopped by us, so its number is its own.
                    unsafe {
                        libc::syscall(libc::SYS_tgkill, pid as libc::pid_t, thread as libc::pid_t, libc::SIGABRT);
                    }
                }
            }
            Self::Protected(..) => self.answer(guard::ENDS),
        }
    }

    fn answer(&self, answer: u32) {
        let Self::Protected(shared, at, asks) = *self else { return };
        let state = at + fault::STATE;
        // One that has waited too long has given its entry back, and another may have it.
        let answered = asks & !guard::FAULT_STATE | answer;
        let _ = shared.word32(state).compare_exchange(asks, answered, Ordering::AcqRel, Ordering::Relaxed);
        shared.futex_wake(state);
    }
}
