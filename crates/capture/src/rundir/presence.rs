//! How targets know that mallow reads: a thread whose end the kernel writes into the control page, whatever ended it.
//!
//! The word `reader` of the control page is a robust futex of that thread. Where mallow dies, by SIGKILL and the killer
//! of processes without memory too, the kernel marks the word, and every target sees it with a load: no process needs
//! to wait in vain, and none has to be able to see mallow's process. The thread does nothing but answer those that ask
//! whether mallow is stopped: it touches no disk, so one that does not even run when it is asked is stopped.

use crate::wire::{Shared, control};
use mallow_proc::{Stat, Task};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The kernel's `struct robust_list_head`, with the only entry that this thread's list ever has, whose futex lies
/// `word` bytes from the entry.
#[repr(C)]
struct List {
    first: usize,
    word: isize,
    pending: usize,
    entry: usize,
}

const LIST_HEAD_BYTES: usize = std::mem::offset_of!(List, entry);

/// Says that mallow reads, until this is dropped.
pub struct Presence {
    control: Arc<Shared>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Presence {
    /// Says so in the control page, which is that of the file `control`, once this returns.
    pub fn begin(control: &File) -> io::Result<Self> {
        let control = Arc::new(Shared::map(control, control::FILE_BYTES)?);
        let over = Arc::new(AtomicBool::new(false));
        let (ready, begun) = sync_channel(1);
        let (page, end) = (Arc::clone(&control), Arc::clone(&over));
        let thread = std::thread::Builder::new()
            .name("presence".to_owned())
            .stack_size(64 << 10)
            .spawn(move || be_present(&page, &end, &ready))?;
        let presence = Self { control, over, thread: Some(thread) };
        begun.recv().map_err(io::Error::other)??;
        Ok(presence)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.control.word32(control::PING).fetch_add(1, Ordering::AcqRel);
        self.control.futex_wake(control::PING);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a mallow reads, in whichever pid namespace: its thread answers within [`ANSWER`]. A mallow that is stopped
/// does not.
pub fn answers(control: &Shared) -> bool {
    let reader = control.get32(control::READER);
    if reader == 0 || reader & libc::FUTEX_OWNER_DIED != 0 {
        return false;
    }
    let asked = control.word32(control::PING).fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    control.futex_wake(control::PING);
    let began = Instant::now();
    while (control.get32(control::PONG).wrapping_sub(asked) as i32) < 0 {
        if began.elapsed() > ANSWER {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// How long the thread may take, which does nothing but answer: on a busy machine it waits for a processor.
const ANSWER: Duration = Duration::from_secs(1);

fn be_present(page: &Shared, over: &AtomicBool, ready: &SyncSender<io::Result<()>>) {
    take_no_signals();
    // Shared memory, as the kernel's killer of processes may take private memory away before it looks at the list.
    let (access, bytes) = (ProtFlags::READ | ProtFlags::WRITE, size_of::<List>());
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
    let list = match unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::SHARED) } {
        Ok(memory) => memory.cast::<List>(),
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    let head = list as usize;
    let reader = page.word32(control::READER);
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // SAFETY: the memory is writable, aligned to a page, and as large as a `List`. The kernel reads the list when this
    // thread ends; by then it knows of none, or the process ends as well. This thread locks no other robust mutex,
    // whose list the C library would keep.
    unsafe {
        let entry = head + std::mem::offset_of!(List, entry);
        let word = (reader.as_ptr() as isize).wrapping_sub(entry as isize);
        list.write_volatile(List { first: entry, word, pending: 0, entry: head });
        // Where the kernel has no such lists, targets find out by waiting once.
        libc::syscall(libc::SYS_set_robust_list, list, LIST_HEAD_BYTES);
    }
    page.set64(control::READER_START, own_start().unwrap_or(0));
    page.set32(control::READER, tid);
    let _ = ready.send(Ok(()));
    loop {
        let ping = page.get32(control::PING);
        page.set32(control::PONG, ping);
        if over.load(Ordering::Acquire) {
            break;
        }
        page.futex_wait(control::PING, ping, Duration::from_secs(3600));
    }
    // Somebody else may read by now.
    let _ = reader.compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed);
    // SAFETY: the kernel knows of no list any more when the memory goes; nothing else refers to it.
    unsafe {
        libc::syscall(libc::SYS_set_robust_list, 0, LIST_HEAD_BYTES);
        let _ = munmap(list.cast(), bytes);
    }
}

/// Signals to the process are its other threads', which may hold them back while their handlers change.
fn take_no_signals() {
    // SAFETY: a set of signals is plain memory, and the mask is this thread's own.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// When this thread began, in clock ticks since the system did.
fn own_start() -> Option<u64> {
    Stat::read(Task::OwnThread).ok()?.start_ticks()
}
