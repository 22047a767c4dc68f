//! A signal that ends an image: what its thread, which waits in the handler, wrote, and what is read of the process
//! meanwhile.

use super::faults::Faults;
use super::finding::{Access, Crash, Operation, Region, Zeroed};
use super::slots::Guarded;
use super::thread_name;
use crate::rundir::process_file::ProcessFile;
use crate::wire::guard::{self, crash};
use crate::wire::process;
use mallow_arch::registers::SAVED_SP;
use std::sync::atomic::Ordering;

/// `SI_KERNEL`: a general protection fault has no address.
const BY_KERNEL: i32 = 0x80;

/// The last wrong access of each thread that was answered with a page of zeros.
#[derive(Default)]
pub struct Zeroings(Vec<Zeroed>);

impl Zeroings {
    pub fn note(&mut self, zeroed: Zeroed) {
        match self.0.iter_mut().find(|known| known.operation.tid == zeroed.operation.tid) {
            Some(known) => *known = zeroed,
            None => self.0.push(zeroed),
        }
    }

    /// The last wrong access until `at_ns` by thread `tid`, else by another one: the page is there for all threads.
    fn before(&self, tid: u32, at_ns: u64) -> Option<&Zeroed> {
        let earlier = self.0.iter().filter(|zeroed| zeroed.operation.at_ns <= at_ns);
        earlier.max_by_key(|zeroed| (zeroed.operation.tid == tid, zeroed.operation.at_ns))
    }
}

/// The crash of an image, once; its process ends then. None: there is none, or it was taken.
pub fn take(source: &ProcessFile, guarded: &Guarded, faults: &mut Faults, zeroings: &Zeroings) -> Option<Crash> {
    let (shared, at) = (source.shared(), guarded.field(guard::CRASH));
    let state = shared.word32(at + crash::STATE);
    if state.load(Ordering::Acquire) != guard::CRASH_ASKS {
        return None;
    }
    let registers: [u64; guard::CRASH_REGISTERS] = std::array::from_fn(|n| shared.get64(at + crash::REGISTERS + 8 * n));
    let pid = source.pid_here();
    let thread = |tid| thread_name(pid, tid);
    let signal = shared.get32(at + crash::SIGNAL) as i32;
    let code = shared.get32(at + crash::CODE) as i32;
    let is_fault = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP].contains(&signal);
    let address = (code > 0 && code != BY_KERNEL && is_fault).then(|| shared.get64(at + crash::ADDRESS));
    let access = match shared.get32(at + crash::ACCESS) {
        1 => Some(Access::Read),
        2 => Some(Access::Write),
        3 => Some(Access::Execute),
        _ => None,
    };
    let (tid, at_ns) = (shared.get32(at + crash::TID), shared.get64(at + crash::AT_NS));
    let (stack, without_stack) = faults.stack_of(pid, &registers, shared.get32(process::GENERATION));
    let region = address.map_or(Region::Unknown, |address| Region::of(pid, address, registers[SAVED_SP]));
    let range = guarded.range(shared);
    // A block has nothing to do with an address in memory of another kind.
    let near = address.filter(|address| region == Region::Nothing || range.contains(address));
    let block = near
        .and_then(|address| guarded.nearest(shared, &range, address))
        .and_then(|index| guarded.block(shared, index, &thread));
    let crash = Crash {
        pid: source.pid,
        serial: source.serial,
        signal,
        code,
        sender: (code <= 0).then(|| shared.get32(at + crash::SENDER)),
        address,
        access: access.filter(|_| address.is_some()),
        region,
        operation: Operation { at_ns, tid, thread: thread(tid), stack },
        without_stack,
        registers: registers.to_vec(),
        block,
        after: zeroings.before(tid, at_ns).cloned(),
    };
    state.store(guard::CRASH_ANSWERED, Ordering::Release);
    shared.futex_wake(at + crash::STATE);
    Some(crash)
}
