//! The formats that Mallow reads.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// Protocol buffers of pprof: Go, tcmalloc, jemalloc's tools, parca and others.
    Pprof,
    /// Data files of heaptrack, interpreted or raw.
    Heaptrack,
    /// The text that `heaptrack_print` prints.
    HeaptrackPrint,
    /// JSON of valgrind's DHAT, and of the dhat crate.
    Dhat,
    Massif,
    Jemalloc,
    Gperftools,
    /// Heap profiles of php-memprof in the format that it calls pprof.
    Memprof,
    GoText,
    Dtrace,
    Bpftrace,
    /// One stack a line, with a number.
    Folded,
    /// Single events of a sampler's probes.
    Probes,
}

impl InputFormat {
    /// Whether the functions of the format with this name are those of Go, which need no demangling.
    pub fn has_go_names(name: &str) -> bool {
        [Self::Pprof, Self::GoText].iter().any(|format| format.name() == name)
    }

    /// All formats that views read.
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
