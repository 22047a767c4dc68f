//! What a recording says.

use std::ops::Range;

use crate::code::{Frame, Module};
use crate::counts::Counts;
use crate::footprint::{Footprint, RssSeries, SizeClasses};
use crate::lookup::Summary;
use crate::process::{AllocatorInside, CustomAllocator, Process, Thread, replaced_by_exec};
use crate::quantities::{Origin, Quantity};
use crate::scan::Scan;
use crate::site::Site;
use crate::stacks::Stacks;
use crate::strings::Strings;

/// A run of a measured region that ended. [`crate::Event::Region`] marks where it began and ended among the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of the run among those of the recording, from 1.
    pub number: u32,
    /// The region's name. Several runs have one.
    pub name: String,
    /// Number of the run among those of one measurement, warm-ups and others each from 0.
    pub run: u32,
    /// Whether the run came first and is not to be counted.
    pub warmup: bool,
    /// Operations that it performed; 0: unknown.
    pub operations: u64,
}

/// How the recording ended, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Exit status of the command as a shell shows it (128 + signal). None: it was still running, or is not known.
    pub exit_status: Option<i32>,
    /// Why the file stops before the run did, in words; None for a whole recording.
    pub cut_short: Option<String>,
    /// Events lost, over all processes.
    pub lost: u64,
    /// Records that made no sense and were passed over (the target wrote over them).
    pub damaged: u64,
}

/// Content of a recording, or of another tool's file. Ids index the vectors.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The tool and file format that the profile was read from; None for a recording of Mallow's, which has every
    /// quantity.
    pub origin: Option<Origin>,
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Wall clock at the start, milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// How long the recording went on.
    pub duration_ms: u64,
    /// From when to when the command ran, with its processes, in milliseconds since the recording began; None: for all
    /// of its time. Mallow begins before the command, and on a busy machine notices late that it has ended.
    pub run_ms: Option<Range<u64>>,
    /// CPU time of the command and of the processes that it waited for, in microseconds; of an attached process, while
    /// mallow was attached. Of the whole run, also in a selection. None: it is not known.
    pub cpu_us: Option<u64>,
    /// What the recording lacks, and how the command ended.
    pub ending: Ending,
    /// Sums over all processes; `peak_bytes` is the highest live sum.
    pub totals: Counts,
    /// When the live bytes were highest, in milliseconds since the recording began.
    pub peak_ms: u64,
    /// The time within which all of it was allocated, in milliseconds since the recording began, where a filter says
    /// so.
    pub window_ms: Option<Range<u64>>,
    /// Function and file names.
    pub strings: Strings,
    /// Loaded files, by [`crate::ModuleId`].
    pub modules: Vec<Module>,
    /// Places in code, by [`crate::FrameId`].
    pub frames: Vec<Frame>,
    /// Stacks as paths in a trie.
    pub stacks: Stacks,
    /// Process images in order of their start.
    pub processes: Vec<Process>,
    /// Threads of all processes, in the order in which they were first seen.
    pub threads: Vec<Thread>,
    /// Names of `threads`, by their indices: empty where unknown, and fewer than threads in recordings of earlier
    /// versions.
    pub thread_names: Vec<String>,
    /// Sites, one for each (process, stack).
    pub sites: Vec<Site>,
    /// Runs of measured regions, in the order of their ends.
    pub regions: Vec<Region>,
    /// Allocators above malloc, by process; recordings of earlier versions have none.
    pub custom_allocators: Vec<CustomAllocator>,
    /// Allocators inside of executables and libraries, each once; recordings of earlier versions have none.
    pub allocators_inside: Vec<AllocatorInside>,
    /// What scans of processes at their exit found, each process once: of those that had live blocks then. None in a
    /// merged profile and in one of another tool; recordings that were cut short have none.
    pub scans: Vec<Scan>,
    /// The memory of processes as the kernel accounts for it, by process and time: of each the highest that was read
    /// and the last one. None in a selection, in a merged profile, and where `--no-rss` was given.
    pub footprints: Vec<Footprint>,
    /// RSS over time, each process once; none where there are no footprints.
    pub rss: Vec<RssSeries>,
    /// Usable sizes of allocators whose size classes no formula has, each process at most once.
    pub size_classes: Vec<SizeClasses>,
    /// What the command executed that was not recorded, and of a merged profile what its files lack, each a sentence
    /// without a full stop; recordings of earlier versions have none.
    pub unrecorded: Vec<String>,
    /// What was found when the names of the frames were looked up, where the recording carries them. Then they are all
    /// there is: files of this machine may be other ones. None: names are to be looked up.
    pub names: Option<Summary>,
}

impl Profile {
    /// Whether the profile has this quantity. Where it does not, the counts of the quantity are 0 and mean nothing.
    pub fn has(&self, quantity: Quantity) -> bool {
        self.origin.as_ref().is_none_or(|origin| origin.quantities.has(quantity))
    }

    /// Whether numbers are estimates from a sample.
    pub fn is_sampled(&self) -> bool {
        self.origin.as_ref().is_some_and(Origin::is_sampled)
    }

    /// Milliseconds that the process which waited longest for unwind tables waited for them.
    pub fn longest_table_wait_ms(&self) -> u64 {
        self.processes.iter().map(|process| process.table_wait_ms).max().unwrap_or(0)
    }

    /// For each process image the one that it replaced by exec ([`replaced_by_exec`]).
    pub fn replaced_by_exec(&self) -> Vec<Option<usize>> {
        replaced_by_exec(self.processes.iter().map(|p| ((p.pid, &*p.source), p.serial, p.forked || p.attached)))
    }

    /// Number of processes, of which each may have several images.
    pub fn processes_in_all(&self) -> u64 {
        self.replaced_by_exec().iter().filter(|replaced| replaced.is_none()).count() as u64
    }

    /// The quantities that it does not have.
    pub fn missing(&self) -> impl Iterator<Item = Quantity> + '_ {
        Quantity::ALL.into_iter().filter(|&quantity| !self.has(quantity))
    }
}
