//! Names of code that runtimes make: their perf maps, in the `/tmp` of the process, as they grow.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use mallow_profile::{FrameId, ProcessId, Profile, StackId};
use mallow_symbols::{MapPlace, symbolize_jit_frames};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::attached::age;

/// Frames without a name are looked up again as often, at the most, and so many times as seldom as reading the maps
/// takes.
const AGAIN: Duration = Duration::from_secs(2);
const SHARE: u32 = 50;

/// The `/tmp` of a process: in a container, or with a mount of its own, another one than mallow's. It lasts longer than
/// the process.
pub struct ProcessTmp {
    directory: OwnedFd,
    owner: Option<u32>,
    began: Option<SystemTime>,
}

impl ProcessTmp {
    /// The `/tmp` of a process by its number here; None where it is out of reach.
    pub fn of(pid: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let root = rustix::fs::open(format!("/proc/{pid}/root/"), flags, Mode::empty()).ok()?;
        // A link in it must not lead into the root directory of mallow.
        let within = rustix::fs::openat2(&root, "tmp", flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let directory = within.or_else(|_| rustix::fs::openat(&root, "tmp", flags | OFlags::NOFOLLOW, Mode::empty()));
        Some(Self {
            directory: directory.ok()?,
            owner: std::fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid()),
            began: age(pid).and_then(|age| SystemTime::now().checked_sub(age)),
        })
    }

    /// Place of the process's map.
    pub fn place(&self) -> MapPlace {
        let directory = PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        MapPlace { directory, owner: self.owner, began: self.began }
    }
}

/// Frames in no module of processes that run, and what their maps say of them.
#[derive(Default)]
pub struct ScriptNames {
    /// Number of frames that were looked at.
    seen: usize,
    unnamed: HashSet<FrameId>,
    processes: HashMap<ProcessId, Option<ProcessTmp>>,
    /// When to look up frames that the maps did not have, and new ones.
    next: Option<Instant>,
    next_new: Option<Instant>,
}

impl ScriptNames {
    /// Looks up the frames in no module that have no name yet. `stacks` are those of all processes, `pid` is the number
    /// of one that runs.
    pub fn fill<S: Iterator<Item = (ProcessId, StackId)>>(
        &mut self,
        profile: &mut Profile,
        pid: &dyn Fn(ProcessId) -> Option<u32>,
        stacks: impl Fn() -> S,
    ) {
        let is_unnamed = |profile: &Profile, id: FrameId| {
            profile.frames.get(id.0 as usize).is_some_and(|frame| frame.module.is_none() && frame.lines.is_empty())
        };
        let new = (self.seen..profile.frames.len()).map(|at| FrameId(at as u32));
        self.unnamed.extend(new.filter(|id| is_unnamed(profile, *id)));
        let is_new = self.seen < profile.frames.len();
        self.seen = profile.frames.len();
        // New ones soon: the code may be moved.
        let next = if is_new { self.next_new } else { self.next };
        let is_due = next.is_none_or(|next| Instant::now() >= next);
        if self.unnamed.is_empty() || !is_due {
            return;
        }
        let began = Instant::now();
        let frames = self.by_process(profile, stacks());
        for (process, _) in &frames {
            self.processes.entry(*process).or_insert_with(|| ProcessTmp::of(pid(*process)?));
        }
        let place = |process| self.processes.get(&process)?.as_ref().map(ProcessTmp::place);
        symbolize_jit_frames(profile, frames, &place);
        self.unnamed.retain(|id| is_unnamed(profile, *id));
        let rest = began.elapsed() * SHARE;
        self.next = Some(Instant::now() + AGAIN.max(rest));
        self.next_new = Some(Instant::now() + rest);
    }

    /// Frames without a name, by the process that was in them.
    fn by_process(
        &self,
        profile: &Profile,
        stacks: impl Iterator<Item = (ProcessId, StackId)>,
    ) -> Vec<(ProcessId, Vec<FrameId>)> {
        let (mut seen, mut frames) = (HashSet::new(), HashMap::<ProcessId, HashSet<FrameId>>::new());
        for (process, mut stack) in stacks {
            // Callers that this process was seen with are done.
            while seen.insert((process, stack)) {
                let Some((id, caller)) = profile.stacks.top(stack) else { break };
                if self.unnamed.contains(&id) {
                    frames.entry(process).or_default().insert(id);
                }
                stack = caller;
            }
        }
        frames.into_iter().map(|(process, frames)| (process, frames.into_iter().collect())).collect()
    }
}
