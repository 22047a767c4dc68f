//! Crashes: signals that ended guarded processes, with names and in words.

use std::collections::BTreeMap;

use mallow_arch::registers::{NAMES, SAVED_SP};
use mallow_capture::guard::{Access, Crash, Region};
use mallow_capture::watch::Watch;
use mallow_profile::{Profile, Stacks};
use serde::Serialize;

use super::super::watch::ending_signals::name_of;
use super::identity;
use super::steps::{self, BlockDocument, OperationDocument, block_of, intern, looks_alike, step};
use super::words;
use crate::output::text::units::of;

/// Codes of SIGFPE: `FPE_INTDIV`, `FPE_FLTDIV` and `FPE_FLTINV`.
const INTEGER_DIVISION: i32 = 1;
const FLOAT_DIVISION: i32 = 3;
const FLOAT_INVALID: i32 = 7;

/// Below this address a pointer is NULL and an offset: nothing is mapped there (`vm.mmap_min_addr`).
const LOWEST: u64 = 1 << 16;

/// A crash, as a report shows it and JSON has it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CrashDocument {
    /// Identity of the crash, stable from run to run: a hash of the signal, the access and the program's own frames.
    pub identity: String,
    /// Process id; of several processes, that of the first one.
    pub pid: u32,
    /// Name of the signal: `SIGSEGV`.
    pub signal: String,
    /// Name of the signal's code: `SEGV_MAPERR`; null where Mallow has no name for the code.
    pub code: Option<&'static str>,
    /// Accessed address, in hexadecimal; null: not known, or the signal was sent.
    pub address: Option<String>,
    /// Kind of the access: `read`, `write` or `execute`; null where memory was not accessed.
    pub access: Option<&'static str>,
    /// Description of the address, or of the signal's cause, for people.
    pub place: String,
    /// Memory that is mapped at the address: `unknown`, `unmapped`, `stack`, `file`, `heap` or `mapped`.
    pub region: &'static str,
    /// Processes that the signal ended at this place.
    pub count: u64,
    /// Thread that got the signal, and its stack.
    pub error: OperationDocument,
    /// Reason why the stack of the thread is not known or not whole; null where it is whole.
    pub without_stack: Option<String>,
    /// Guarded block nearest to the address; null where the address is not in or near guarded memory.
    pub block: Option<BlockDocument>,
    /// The thread's registers by name, in hexadecimal.
    pub registers: BTreeMap<&'static str, String>,
    /// The wrong access before that Mallow answered with zeros, from which the crash may come; null where there was
    /// none, or another process sent the signal.
    pub after: Option<ZeroedDocument>,
    /// What to do next, a sentence.
    pub advice: String,
}

/// A wrong access before a crash: of the same thread, or, where that made none, the last one of another thread.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ZeroedDocument {
    /// Kind of the error, as in `errors`.
    pub kind: &'static str,
    /// Kind of the access: `read` or `write`.
    pub access: &'static str,
    /// Accessed address, or the first one of its page, in hexadecimal.
    pub address: String,
    /// True: the thread that crashed made the access. False: another thread.
    pub same_thread: bool,
    /// Thread and stack of the access.
    pub error: OperationDocument,
}

impl CrashDocument {
    /// The crash, and the free and the allocation of the nearest block.
    pub fn steps(&self) -> Vec<&OperationDocument> {
        steps::all(&self.error, self.block.as_ref())
    }
}

/// Takes a crash. The same signal at the same place in another process adds 1 to its count.
pub fn add(all: &mut Vec<CrashDocument>, crash: &Crash, watch: &mut Watch, name: &mut dyn FnMut(&mut Profile)) {
    let image = (crash.pid, crash.serial);
    let stack = intern(watch, image, &crash.operation.stack);
    let allocated = crash.block.as_ref().map(|block| intern(watch, image, &block.allocated.stack));
    let freed = crash
        .block
        .as_ref()
        .and_then(|block| block.freed.as_ref())
        .map(|operation| intern(watch, image, &operation.stack));
    let is_sent_by_another = crash.sender.is_some_and(|sender| sender != crash.pid);
    let after = crash.after.as_ref().filter(|_| !is_sent_by_another);
    let after = after.map(|zeroed| (zeroed, intern(watch, image, &zeroed.operation.stack)));
    name(watch.profile_mut());
    let at_ns = crash.operation.at_ns;
    let after = after.map(|(zeroed, stack)| ZeroedDocument {
        kind: words::name(zeroed.kind),
        access: if zeroed.write { "write" } else { "read" },
        address: format!("{:#x}", zeroed.address),
        same_thread: zeroed.operation.tid == crash.operation.tid,
        error: step(&zeroed.operation, at_ns, watch.profile(), stack),
    });
    let stacks = (allocated.unwrap_or(Stacks::ROOT), freed.unwrap_or(Stacks::ROOT));
    let mut document = CrashDocument {
        identity: String::new(),
        pid: crash.pid,
        signal: name_of(crash.signal),
        code: code(crash),
        address: crash.address.map(|address| format!("{address:#x}")),
        access: crash.access.map(|access| match access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Execute => "execute",
        }),
        place: place(crash),
        region: words::region(&crash.region),
        count: 1,
        error: step(&crash.operation, at_ns, watch.profile(), stack),
        without_stack: crash.without_stack.clone(),
        block: crash.block.as_ref().map(|block| block_of(block, at_ns, watch.profile(), stacks)),
        registers: NAMES.iter().copied().zip(crash.registers.iter().map(|value| format!("{value:#x}"))).collect(),
        advice: advice(crash, after.as_ref()),
        after,
    };
    document.identity = identity::of(&document.signal, document.access, &document.steps());
    let same = |other: &&mut CrashDocument| {
        !document.error.stack.frames.is_empty()
            && other.signal == document.signal
            && other.access == document.access
            && looks_alike(&other.error.stack, &document.error.stack)
    };
    match all.iter_mut().find(same) {
        Some(known) => known.count += 1,
        None => all.push(document),
    }
}

fn code(crash: &Crash) -> Option<&'static str> {
    Some(match (crash.signal, crash.code) {
        (libc::SIGSEGV, 1) => "SEGV_MAPERR",
        (libc::SIGSEGV, 2) => "SEGV_ACCERR",
        (libc::SIGBUS, 1) => "BUS_ADRALN",
        (libc::SIGBUS, 2) => "BUS_ADRERR",
        (libc::SIGFPE, INTEGER_DIVISION) => "FPE_INTDIV",
        (libc::SIGFPE, 2) => "FPE_INTOVF",
        (libc::SIGFPE, FLOAT_DIVISION) => "FPE_FLTDIV",
        (libc::SIGFPE, 4) => "FPE_FLTOVF",
        (libc::SIGFPE, 5) => "FPE_FLTUND",
        (libc::SIGFPE, 6) => "FPE_FLTRES",
        (libc::SIGFPE, FLOAT_INVALID) => "FPE_FLTINV",
        (libc::SIGILL, 2) => "ILL_ILLOPN",
        _ => return None,
    })
}

fn place(crash: &Crash) -> String {
    let Some(address) = crash.address else {
        return match crash.sender {
            Some(sender) if sender == crash.pid => "the program sent it to itself, as abort and raise do".to_owned(),
            Some(sender) => format!("process {sender} sent it"),
            None if crash.signal == libc::SIGSEGV => {
                "a general protection fault: an address that is invalid or not aligned as a vector instruction needs \
                 it, or a privileged instruction; the kernel does not say which"
                    .to_owned()
            }
            None if crash.signal == libc::SIGSYS => "a system call that a filter (seccomp) forbids".to_owned(),
            None => "the kernel raised it".to_owned(),
        };
    };
    match crash.signal {
        libc::SIGILL => return "an instruction that the processor does not execute".to_owned(),
        libc::SIGFPE => return arithmetic(crash.code).to_owned(),
        libc::SIGTRAP => return "a breakpoint".to_owned(),
        libc::SIGBUS if crash.code == 1 => return "not aligned as its instruction needs it".to_owned(),
        _ => {}
    }
    if is_stack_used_up(crash) {
        return "the end of the thread's stack, which is used up, as by endless recursion".to_owned();
    }
    if let Some(block) = &crash.block {
        return words::within(address, true, block, crash.operation.at_ns);
    }
    match address {
        0 => "a null pointer".to_owned(),
        // Nothing distinguishes an offset from a number that was taken for a pointer.
        1..LOWEST => format!("a null pointer plus {}, or a number", of(address, "byte")),
        _ => region(&crash.region, crash.access, crash.signal),
    }
}

/// The operation that raised SIGFPE. The processor does not distinguish a division by zero from INT_MIN / -1.
fn arithmetic(code: i32) -> &'static str {
    match code {
        INTEGER_DIVISION => "an integer division by zero, or one whose quotient does not fit",
        FLOAT_DIVISION => "a floating-point division by zero",
        FLOAT_INVALID => "a floating-point operation without a result, as the square root of -1",
        _ => "an instruction whose result does not fit",
    }
}

/// Whether the access is beside the stack pointer, where no stack is: in the guard page, or below what is mapped.
fn is_stack_used_up(crash: &Crash) -> bool {
    const NEAR: u64 = 1 << 16;
    let sp = crash.registers.get(SAVED_SP).copied();
    let is_near = |address: u64| sp.is_some_and(|sp| address.abs_diff(sp) < NEAR);
    crash.signal == libc::SIGSEGV
        && matches!(crash.region, Region::Nothing | Region::Stack)
        && matches!(crash.access, Some(Access::Read | Access::Write))
        && crash.address.is_some_and(is_near)
}

fn region(region: &Region, access: Option<Access>, signal: i32) -> String {
    let what = match region {
        Region::Unknown => return "an address of which nothing is known: the process had ended".to_owned(),
        Region::Nothing => return "an address where nothing is mapped".to_owned(),
        Region::Stack => "on a thread's stack",
        Region::Heap => "in the allocator's heap",
        Region::File { path, .. } if signal == libc::SIGBUS => {
            return format!("a page of {path} that is not there: behind the file's end, without room, or unreadable");
        }
        Region::File { path, .. } => return format!("in {path}, {}", forbidden(access)),
        Region::Mapped { .. } => "in memory that the program or a library mapped",
    };
    format!("{what}, {}", forbidden(access))
}

fn forbidden(access: Option<Access>) -> &'static str {
    match access {
        Some(Access::Write) => "where writing is forbidden",
        Some(Access::Execute) => "where nothing may be executed",
        Some(Access::Read) => "where reading is forbidden",
        None => "where the access is forbidden",
    }
}

/// The next step for the user. Guard itself may have made the value that the program stumbled over: then the error
/// before comes first, and a check of the value is no remedy.
fn advice(crash: &Crash, after: Option<&ZeroedDocument>) -> String {
    let alone = remedy(crash);
    match after {
        None => alone.to_owned(),
        Some(after) if crash.signal == libc::SIGABRT => format!("{alone} {}", mend_first(crash, after)),
        Some(after) => mend_first(crash, after),
    }
}

fn mend_first(crash: &Crash, after: &ZeroedDocument) -> String {
    let error = identity::name(&format!("{} ({})", after.kind.replace('-', " "), after.access), &[&after.error]);
    let who = match after.same_thread {
        true => "by this thread".to_owned(),
        false => format!("by thread {}{}", after.error.tid, words::named(&after.error.thread)),
    };
    let why = match after.kind {
        words::USE_AFTER_FREE => "the contents of freed blocks are gone under mallow guard, and read as zeros",
        _ => "what lies there without mallow guard is missing under it, and reads as zeros",
    };
    let what = match crash.signal {
        libc::SIGSEGV | libc::SIGBUS => "The pointer",
        libc::SIGFPE if [INTEGER_DIVISION, FLOAT_DIVISION].contains(&crash.code) => "The divisor",
        libc::SIGFPE => "The operand",
        _ => "What the program found wrong",
    };
    format!("First mend the {error}, at {} {who}: {why}. {what} may come from there.", after.address)
}

fn remedy(crash: &Crash) -> &'static str {
    match (crash.signal, crash.address) {
        (libc::SIGABRT, _) => "What the program or a library printed before says why it gave up.",
        (_, None) if crash.sender.is_some() => "A signal that was sent is no error at this place.",
        (libc::SIGSEGV | libc::SIGBUS, Some(0..LOWEST)) => "Check the pointer for NULL before it is used.",
        (libc::SIGSEGV, _) if is_stack_used_up(crash) => {
            "End the recursion, make large local variables heap blocks, or give the thread a larger stack."
        }
        (libc::SIGSEGV, None) => "Check the pointer and its alignment; with --alignment below 16, blocks have less.",
        (libc::SIGSEGV | libc::SIGBUS, _) => "The pointer is computed wrongly, was overwritten, or was never set.",
        (libc::SIGFPE, _) if [INTEGER_DIVISION, FLOAT_DIVISION].contains(&crash.code) => "Check the divisor.",
        (libc::SIGFPE, _) => "Check the operands.",
        (libc::SIGSYS, _) => "Let the filter allow the system call, or do not make it.",
        _ => "The function ended on purpose (__builtin_trap), or its code is not what the compiler made.",
    }
}
