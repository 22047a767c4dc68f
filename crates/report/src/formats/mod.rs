//! Files of other tools: one file a format, which reads it, writes it, or both.
//!
//! Which format a file has is found out from its content. A reader makes a [`Foreign`]: a profile, what it tells, and what
//! its addresses mean. Files are hostile until read: every reader bounds its memory by what the file has really brought,
//! takes ids that lead nowhere for damage, and never recurses as deep as a file says.

mod aggregation;
mod builder;
mod detect;
pub mod dhat;
mod firefox;
pub mod folded;
mod frames;
mod heap_text;
pub mod heaptrack;
mod heaptrack_print;
mod input;
mod massif;
mod packing;
pub mod pprof;
pub mod probes;
#[cfg(test)]
mod round_trips;
mod speedscope;
pub mod table;
mod trim;
mod valgrind;

use std::fmt;
use std::io::{self, Read};

use mallow_profile::{Profile, Word};

pub use firefox::write as write_firefox;
pub use frames::pictured;
pub use input::Progress;
use input::{Input, Lines};
pub use packing::{Packed, Packing};
pub use speedscope::write as write_speedscope;
pub use trim::trim;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
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
    /// Stacks that dtrace has counted.
    Dtrace,
    /// Stacks that bpftrace has counted.
    Bpftrace,
    /// One stack a line, with a number.
    Folded,
    /// Single events of a sampler's probes.
    Probes,
}

impl Format {
    /// All that views read.
    pub const ALL: [Self; 10] = [
        Self::Pprof,
        Self::Heaptrack,
        Self::HeaptrackPrint,
        Self::Dhat,
        Self::Massif,
        Self::Jemalloc,
        Self::Gperftools,
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
            Self::Dtrace => "dtrace",
            Self::Bpftrace => "bpftrace",
            Self::Folded => "folded",
            Self::Probes => "probe text",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What the addresses of a foreign profile's frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Nothing to look names up by: what has a name has it from the file.
    Opaque,
    /// Link-time addresses in their modules, as in a recording.
    LinkTime,
    /// Offsets into the files of their modules.
    FileOffsets,
}

/// A profile of another tool.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// What it says; its origin says what it tells.
    pub profile: Profile,
    /// What the addresses of its frames are.
    pub addresses: Addresses,
    /// What a person has to know to read its numbers, in one line each.
    pub remarks: Vec<String>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It could not be read at all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none of the formats.
    #[error("this is neither a recording of mallow nor a profile that it reads ({formats}){0}", formats = all())]
    Unknown(&'static str),
    /// It began as a format and went on as something else.
    #[error("this {format} profile is damaged at {at}: {what}")]
    Damaged {
        /// Which.
        format: Format,
        /// `byte 12` or `line 3`.
        at: At,
        /// What is wrong.
        what: String,
    },
    /// It is whole, and says nothing about allocations, or not in a way that can be read.
    #[error("this {format} profile {what}")]
    Unusable {
        /// Which.
        format: Format,
        /// Why, and what to do instead.
        what: String,
    },
}

/// The names of all formats that views read.
fn all() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Counted from 1, of the text.
    Line(u64),
    /// Counted from 0, of what was packed.
    Byte(u64),
    /// Nowhere in particular.
    Somewhere,
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(out, "line {line}"),
            Self::Byte(byte) => write!(out, "byte {byte}"),
            Self::Somewhere => out.write_str("some place"),
        }
    }
}

/// Reads a profile of another tool. `packed_length` is the file's length, as far as it is known: it bounds what a packed
/// file may unpack to.
pub fn read(
    file: impl Read + Send,
    packed_length: Option<u64>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Foreign, FormatError> {
    let mut input = Input::open(file, packed_length, progress)?;
    let format = detect::detect(input.head()?)?;
    let foreign = match format {
        Format::Pprof => pprof::read(&mut input),
        Format::Heaptrack => heaptrack::read(Lines::new(input, format)),
        Format::HeaptrackPrint => heaptrack_print::read(Lines::new(input, format)),
        Format::Dhat => dhat::read(input),
        Format::Massif => massif::read(Lines::new(input, format)),
        Format::Jemalloc => heap_text::read_jemalloc(Lines::new(input, format)),
        Format::Gperftools => heap_text::read_gperftools(Lines::new(input, format)),
        Format::Dtrace => aggregation::read_dtrace(Lines::new(input, format)),
        Format::Bpftrace => aggregation::read_bpftrace(Lines::new(input, format)),
        Format::Folded => folded::read(Lines::new(input, format)),
        Format::Probes => {
            let what = "has single events: mallow import reads it, and makes a profile of it".to_owned();
            Err(FormatError::Unusable { format, what })
        }
    }?;
    let told = foreign
        .profile
        .origin
        .as_ref()
        .is_some_and(|origin| Word::ALL.into_iter().any(|word| word != Word::Times && origin.tells.has(word)));
    match told {
        true => Ok(foreign),
        false => Err(FormatError::Unusable { format, what: "holds no stacks with numbers".to_owned() }),
    }
}
