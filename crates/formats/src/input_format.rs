//! The formats that Mallow reads.

use std::fmt;

/// A format that Mallow reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// Protocol buffers of pprof: Go, tcmalloc, jemalloc's tools, parca and others.
    Pprof,
    /// What heaptrack writes, interpreted or raw.
    Heaptrack,
    /// What `heaptrack_print` prints.
    HeaptrackPrint,
    /// JSON of valgrind's DHAT, and of the dhat crate.
    Dhat,
    /// Snapshots of valgrind's massif.
    Massif,
    /// jemalloc's heap profiles.
    Jemalloc,
    /// Heap profiles of gperftools.
    Gperftools,
    /// Heap profiles of php-memprof in the format that it calls pprof.
    Memprof,
    /// Heap profiles of Go as text.
    GoText,
    /// Stacks that dtrace has counted.
    Dtrace,
    /// Stacks that bpftrace has counted.
    Bpftrace,
    /// One stack a line, with a number.
    Folded,
    /// Single events of a sampler's probes.
    Probes,
}

impl InputFormat {
    /// True for the name of a format whose functions are those of Go, which need no demangling.
    pub fn has_go_names(name: &str) -> bool {
        [Self::Pprof, Self::GoText].iter().any(|format| format.name() == name)
    }

    /// All that views read.
    pub const ALL: [Self; 12] = [
        Self::Pprof,
        Self::Heaptrack,
        Self::HeaptrackPrint,
        Self::Dhat,
        Self::Massif,
        Self::Jemalloc,
        Self::Gperftools,
        Self::Memprof,
        Self::GoText,
        Self::Dtrace,
        Self::Bpftrace,
        Self::Folded,
    ];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Heaptrack => "heaptrack",
            Self::HeaptrackPrint => "heaptrack_print",
            Self::Dhat => "DHAT",
            Self::Massif => "massif",
            Self::Jemalloc => "jemalloc",
            Self::Gperftools => "gperftools",
            Self::Memprof => "php-memprof",
            Self::GoText => "Go text",
            Self::Dtrace => "dtrace",
            Self::Bpftrace => "bpftrace",
            Self::Folded => "folded",
            Self::Probes => "probe text",
        }
    }
}

impl fmt::Display for InputFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
