//! Programs that a process executes while mallow is attached to it. A forked child takes its patches and its part of
//! the run with it; exec replaces them, so nothing of what follows is seen.

use crate::pace::Pace;
use crate::rundir::owner::{descendants, is_in_run};
use mallow_proc::auxiliary_vector;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Least time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Most programs that a sentence names.
const NAMED: usize = 4;

/// Programs that a process and its descendants have executed since it was attached to.
pub(super) struct ExecutedPrograms {
    pid: u32,
    run: PathBuf,
    /// Pids of descendants from before, which have no part in the run.
    before: BTreeSet<u32>,
    /// The image of the process itself then. A child that still has it was forked, and has executed nothing; where
    /// addresses are not random (`setarch -R`), a child that executes the same program is taken for one.
    itself: Option<Image>,
    /// The image of each process at the last look.
    images: FxHashMap<u32, Image>,
    /// Paths of executed programs, with the pids that executed them.
    programs: BTreeMap<PathBuf, BTreeSet<u32>>,
    pace: Pace,
}

/// What a forked child has of its parent and exec changes, read without the lock of the process's mappings. The
/// auxiliary vector has the addresses of the dynamic linker and of the stack, which the kernel chooses anew.
#[derive(PartialEq, Eq)]
struct Image {
    program: PathBuf,
    vector: Vec<u8>,
}

impl Image {
    /// None: the process is gone, or cannot be looked into.
    fn of(pid: u32) -> Option<Self> {
        let vector = auxiliary_vector(pid).ok()?;
        Some(Self { program: std::fs::read_link(format!("/proc/{pid}/exe")).ok()?, vector })
    }
}

impl ExecutedPrograms {
    /// Takes note of process `pid` before it is attached to in the run of directory `run`: what it executes between the
    /// patches and the first look would else be taken for older.
    pub fn of(pid: u32, run: &Path) -> Self {
        let before = descendants(pid).into_iter().collect();
        let (images, programs) = (FxHashMap::default(), BTreeMap::new());
        Self { pid, run: run.to_owned(), before, itself: Image::of(pid), images, programs, pace: Pace::new(PAUSE) }
    }

    /// Looks at the process and its descendants, where the pace allows a look.
    pub fn look(&mut self) {
        if let Some(look) = self.pace.begin() {
            self.look_now();
            self.pace.end(look, false);
        }
    }

    /// Looks whatever the pace says, as at the end.
    pub fn look_now(&mut self) {
        let before = std::mem::take(&mut self.images);
        for pid in std::iter::once(self.pid).chain(descendants(self.pid)).filter(|pid| !self.before.contains(pid)) {
            let Some(image) = Image::of(pid) else { continue };
            // The mappings decide; reading them holds up the process's own page faults. What it became after its image
            // was read is seen at the next look.
            if before.get(&pid) != Some(&image)
                && self.itself.as_ref() != Some(&image)
                && is_in_run(pid, &self.run) == Some(false)
                && let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe"))
            {
                self.programs.entry(program).or_default().insert(pid);
            }
            self.images.insert(pid, image);
        }
    }

    /// A sentence about the executed programs; None: there are none.
    pub fn sentence(&self) -> Option<String> {
        let itself = self.programs.iter().find(|(_, pids)| pids.contains(&self.pid));
        if let Some((program, _)) = itself {
            return Some(format!(
                "process {} became {} by exec: nothing after that is included; attach again, or start it under mallow",
                self.pid,
                program.display()
            ));
        }
        let mut names: Vec<String> = self.programs.keys().map(|program| program.display().to_string()).collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        (!names.is_empty()).then(|| {
            format!(
                "programs that the process executed are not included: {}; start it under mallow to see them too",
                names.join(", ")
            )
        })
    }
}
