//! A thread that made a wrong access and waits: in the kernel, or in the signal handler that takes userfaultfd's place.

use super::slots::PAGE;
use super::threads;
use super::uffd::{Fault, Userfault};
use crate::wire::guard::fault;
use crate::wire::{Shared, guard};
use std::sync::atomic::Ordering;

pub enum Hold<'a> {
    /// In the kernel, for a page.
    Missing(&'a Userfault, Fault),
    /// In the handler: its entry begins at this byte of the process file, and had this state.
    Protected(&'a Shared, usize, u32),
}

impl<'a> Hold<'a> {
    /// Those that wait in the signal handler of an image whose part begins at this byte.
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

    /// Whether the address is exact, and not that of its page.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Missing(userfault, _) => userfault.exact,
            Self::Protected(..) => true,
        }
    }

    /// Where its registers are, in the memory of its process. None: in the kernel.
    pub fn registers(&self) -> Option<u64> {
        match *self {
            Self::Missing(..) => None,
            Self::Protected(shared, at, _) => Some(shared.get64(at + fault::REGISTERS)),
        }
    }

    /// Lets it go on, with a page that is there. Once more does nothing.
    pub fn let_go(&self) {
        match self {
            Self::Missing(userfault, fault) => drop(userfault.fill(fault.address & !(PAGE - 1), PAGE)),
            Self::Protected(..) => self.answer(guard::ANSWERED),
        }
    }

    /// Lets it make the access once more.
    pub fn wake(&self) {
        match self {
            Self::Missing(userfault, fault) => userfault.wake(fault.address & !(PAGE - 1)),
            // It opens the page all the same: nobody would answer it twice.
            Self::Protected(..) => self.answer(guard::ANSWERED),
        }
    }

    /// Its number here: in a pid namespace it has another one than it says. None: that cannot be known.
    pub fn thread(&self, pid: u32) -> Option<u32> {
        threads::here(pid, self.fault().tid)
    }

    /// Ends its program with its registers as they are. It is stopped, where it waits in the kernel, and takes the
    /// signal when it goes on; from the handler it sends it to itself.
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
