//! What flows from the drain (which reads a run directory) to the replay (which makes sense of it).
//!
//! Chunks come in the order in which the drain saw things. The spool file holds the same chunks, so that what was
//! drained survives the death of mallow.

/// One step of a recording, as the drain saw it. All numbers come from a target and may be nonsense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// A process image appeared. It comes before everything else of its process.
    Process(ProcessStart),
    /// A module became known: it comes before the first words that refer to it.
    Module(ModuleStart),
    /// Words of one ring, whole records, in the ring's order, without PAD records. `preload/base/wire.h` describes
    /// them.
    Words {
        /// Number of the process, as in [`ProcessStart::process`].
        process: u32,
        /// Number of the ring in its process.
        ring: u32,
        /// Position in the ring after the last of `words`.
        end: u64,
        words: &'a [u64],
    },
    /// Every ring of every process was read once since the last `Round`. A record that another one depends on is in
    /// the same round as that other one, in an earlier round, or in the very next.
    Round {
        /// Milliseconds since the recording began.
        ms: u64,
    },
    /// A process is at its exit, or its image has ended by exec. All that it did before an exit is in earlier rounds.
    Exit {
        process: u32,
        /// Of several chunks of a process, the last one counts.
        kind: ExitKind,
    },
    /// A process shows these arguments, from here on.
    Arguments {
        process: u32,
        /// All arguments, the program's name first.
        words: Vec<String>,
    },
    /// A thread has this name, from here on.
    ThreadName { process: u32, tid: u32, name: String },
    /// A reading of a process's memory begins, or has ended. The begin comes before what the process did after it is
    /// replayed; another begin of the same reading takes its place.
    Reading {
        process: u32,
        /// Number of the reading in its process: 1, 2, 3, …
        number: u64,
        is_end: bool,
        /// How far each ring was written at that begin or end, indexed by the number of the ring.
        heads: &'a [u64],
    },
    /// A part of a reading of a process's memory, as [`crate::footprint::Reading::to_words`] has it. All that the
    /// process did before the reading is in earlier rounds, or in the last one or two.
    Memory {
        process: u32,
        /// True if no part of this reading follows.
        is_last: bool,
        words: &'a [u64],
    },
    /// What the allocator of a process gives for requests, as the process found at its exit.
    SizeClasses {
        process: u32,
        /// All usable sizes in bytes, ascending.
        usable: &'a [u64],
    },
    /// The RSS of a process.
    Rss {
        process: u32,
        /// Milliseconds since the recording began.
        ms: u64,
        /// RSS in bytes.
        rss: u64,
        /// Highest RSS in bytes that the kernel had noted by then.
        peak: u64,
        /// How far each ring was written at that moment, indexed by the number of the ring.
        heads: &'a [u64],
    },
    /// The highest RSS of the process's whole life, found at its end.
    FinalRss {
        process: u32,
        /// Milliseconds since the recording began.
        ms: u64,
        /// Highest RSS in bytes.
        peak: u64,
    },
    /// A process waited for mallow at its exit, and waits no more.
    ExitWait {
        process: u32,
        /// Duration of the wait in milliseconds.
        ms: u64,
    },
    /// A process waited for unwind tables.
    TableWait {
        process: u32,
        /// Duration of all waits in milliseconds; simultaneous ones of several threads count once.
        ms: u64,
        /// Number of tables that came too late.
        late: u64,
    },
    /// Nothing more comes from this process.
    ProcessEnd {
        process: u32,
        /// Milliseconds since the recording began.
        ms: u64,
        /// Events that the process could not write into its rings and did not announce there.
        lost: u64,
    },
}

/// How a process image ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// The process waits until its memory was scanned.
    Waits,
    /// The process had waited for longer than it may.
    OutOfTime,
    /// The process did not wait, because a filter may forbid its system calls.
    Sandboxed,
    /// The process stopped waiting: mallow was stopped, or did not answer.
    GaveUp,
    Killed,
    Exec,
}

impl ExitKind {
    /// All kinds; the index of a kind is its number in the spool.
    pub const ALL: [Self; 6] = [Self::Waits, Self::OutOfTime, Self::Sandboxed, Self::GaveUp, Self::Killed, Self::Exec];
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStart {
    /// Number of the process in this recording: 0, 1, 2, …
    pub process: u32,
    pub pid: u32,
    pub parent_pid: u32,
    /// Number in the name of the process's file. Another image of that pid may have had it before.
    pub serial: u32,
    /// The image began with fork.
    pub forked: bool,
    /// Mallow attached to the process while that ran.
    pub attached: bool,
    /// Milliseconds since the recording began.
    pub start_ms: u64,
    /// What the process's environment says of allocators above malloc: `wire::SETTING_…`, or-ed.
    pub settings: u32,
    pub executable: String,
    /// All arguments, the program's name first.
    pub arguments: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleStart {
    pub process: u32,
    /// First address: an address a in `start..end` is link-time address `a - start + base_svma`.
    pub start: u64,
    pub end: u64,
    pub base_svma: u64,
    /// Module generation of the process from which on the module is valid. Of two modules that cover an address, the
    /// one with the highest generation not above the ring's current one counts.
    pub generation: u32,
    /// GNU build-id, or empty.
    pub build_id: Vec<u8>,
    /// Path as the target saw it.
    pub path: String,
}
