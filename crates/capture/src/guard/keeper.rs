//! The keeper: a process of its own that holds the userfaultfds of all images of a run, so that no target waits for a
//! mallow that is stopped or gone. It ends when mallow does; the kernel then lets every thread go, and the guarded
//! range is plain memory.

use super::GuardedEdge;
use super::finding::Message;
use super::image::Image;
use super::slots::Guarded;
use crate::rundir::process_file::{self, ProcessFile};
use crate::wire::{self, Shared, control, guard};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long the keeper sleeps at the most before it looks for new images.
const PAUSE: Duration = Duration::from_millis(10);

/// Works until standard input is closed, or mallow is gone. Messages go to standard output. False: the directory could
/// not be used.
pub fn keep(directory: &Path) -> bool {
    // It is mallow's business, and not the terminal's, when it ends.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP, libc::SIGPIPE, libc::SIGTTOU] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(directory.join("control"));
    let Ok(shared) = opened.and_then(|file| Shared::map(&file, control::FILE_BYTES)) else { return false };
    if shared.get32(control::VERSION) != wire::VERSION {
        return false;
    }
    let flags = shared.get32(control::FLAGS);
    let (fails_fast, leaks) = (flags & guard::ABORT != 0, flags & guard::LEAKS != 0);
    let patterned = patterned(flags, shared.get32(control::GUARD_PLACE));
    let over = AtomicBool::new(false);
    let (messages, written) = channel();
    std::thread::scope(|scope| {
        let (over, shared) = (&over, &shared);
        let writer = scope.spawn(move || write(&written, over, shared));
        scope.spawn(move || {
            // Nothing is ever sent: it ends when mallow closes it, or is gone.
            let _ = std::io::stdin().lock().read(&mut [0]);
            over.store(true, Ordering::Relaxed);
            ring(shared);
        });
        let mut seen = FxHashSet::default();
        // By name: a process that execs may have a file of the same name, as soon as mallow has removed the old one.
        let mut inodes: FxHashMap<OsString, u64> = FxHashMap::default();
        // Images that have not offered themselves to this keeper: they do when they look at the control file.
        let mut waiting: Vec<ProcessFile> = Vec::new();
        loop {
            let rung = shared.get32(control::DOORBELL);
            for (name, source) in process_file::unseen(directory, &seen) {
                if let Some(source) = &source {
                    inodes.insert(name.clone(), source.inode());
                }
                seen.insert(name);
                waiting.extend(source);
            }
            for source in std::mem::take(&mut waiting) {
                // Looked at first: what a dead image wrote stays.
                let alive = source.alive();
                match Guarded::of(&source).filter(|guarded| guarded.keeper(source.shared()) == std::process::id()) {
                    Some(guarded) => {
                        let messages = messages.clone();
                        scope.spawn(move || {
                            Image { source, guarded, messages, fails_fast, leaks, patterned, directory, over }.guard();
                        });
                    }
                    None if alive => waiting.push(source),
                    None => {}
                }
            }
            if over.load(Ordering::Relaxed) {
                break;
            }
            shared.futex_wait(control::DOORBELL, rung, PAUSE);
            let inode = |name: &OsString| std::fs::metadata(directory.join(name)).ok().map(|file| file.ino());
            inodes.retain(|name, known| inode(name) == Some(*known));
            seen.retain(|name| inodes.contains_key(name));
        }
        drop(messages);
        let _ = writer.join();
        true
    })
}

/// Pages of a slot that get the pattern here: those in which bytes are beside the block. Where samples are guarded, few
/// blocks come, and slots that wait for them shall take no memory.
fn patterned(flags: u32, place: u32) -> u32 {
    match place {
        _ if flags & guard::EVERY == 0 => 0,
        place if place == GuardedEdge::End as u32 => guard::PATTERNED_FIRST,
        place if place == GuardedEdge::Begin as u32 => guard::PATTERNED_LAST,
        _ => guard::PATTERNED_FIRST | guard::PATTERNED_LAST,
    }
}

fn ring(shared: &Shared) {
    shared.word32(control::DOORBELL).fetch_add(1, Ordering::AcqRel);
    shared.futex_wake(control::DOORBELL);
}

/// Writes messages as they come: whoever has something to say never waits for a mallow that is stopped. A mallow that
/// is gone reads no more: nothing is held from then on.
fn write(messages: &Receiver<Message>, over: &AtomicBool, shared: &Shared) {
    let out = std::io::stdout();
    while let Ok(message) = messages.recv() {
        let Ok(mut line) = serde_json::to_vec(&message) else { continue };
        line.push(b'\n');
        let mut rest = &line[..];
        while !rest.is_empty() {
            let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let _ = poll(&mut [PollFd::new(&out, PollFlags::OUT)], Some(&pause));
            match out.lock().write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    over.store(true, Ordering::Relaxed);
                    ring(shared);
                    return;
                }
            }
            let _ = out.lock().flush();
        }
    }
}
