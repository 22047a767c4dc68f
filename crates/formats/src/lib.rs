//! Files of other tools: one file a format, which reads it, writes it, or both.
//!
//! Which format a file has is found out from its content. A reader makes a [`Foreign`]: a profile, its quantities, and
//! what its addresses mean. Files are hostile until read: every reader bounds its memory by what the file has really
//! brought, takes ids that lead nowhere for damage, and never recurses as deep as a file says.

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod aggregation;
mod builder;
mod detect;
pub mod dhat;
mod error;
mod firefox;
pub mod folded;
mod foreign;
mod frames;
mod heap_text;
pub mod heaptrack;
mod heaptrack_print;
mod input;
mod input_format;
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

use std::io::Read;

use mallow_profile::Quantity;

pub use aggregation::write_dtrace;
pub use error::{At, FormatError};
pub use firefox::write as write_firefox;
pub use foreign::{Addresses, Foreign};
pub use frames::{Function, functions, pictured};
pub use heap_text::write as write_heap_text;
pub use input::Progress;
use input::{Input, Lines};
pub use input_format::InputFormat;
pub use packing::{Packed, Packing};
pub use pprof::SampleType;
pub use speedscope::write as write_speedscope;
pub use trim::trim;

/// Reads a pprof profile with a site for each sample. Go's heap profiles have a sample for each stack and size of
/// blocks.
pub fn read_samples(file: impl Read + Send, packed_length: Option<u64>) -> Result<Foreign, FormatError> {
    let mut progress = |_| {};
    pprof::read_samples(&mut Input::open(file, packed_length, &mut progress)?)
}

/// Reads a profile of another tool. `packed_length` is the file's length, as far as it is known: it bounds what a
/// packed file may unpack to.
pub fn read(
    file: impl Read + Send,
    packed_length: Option<u64>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Foreign, FormatError> {
    read_chosen(file, packed_length, &[], progress)
}

/// [`read`], but of a pprof profile only the `chosen` values, if there are any.
pub fn read_chosen(
    file: impl Read + Send,
    packed_length: Option<u64>,
    chosen: &[SampleType],
    progress: &mut dyn FnMut(Progress),
) -> Result<Foreign, FormatError> {
    let mut input = Input::open(file, packed_length, progress)?;
    let format = detect::detect(input.head()?)?;
    let mut foreign = match format {
        InputFormat::Pprof => pprof::read(&mut input, chosen),
        InputFormat::Heaptrack => heaptrack::read(Lines::new(input, format)),
        InputFormat::HeaptrackPrint => heaptrack_print::read(Lines::new(input, format)),
        InputFormat::Dhat => dhat::read(input),
        InputFormat::Massif => massif::read(Lines::new(input, format)),
        InputFormat::Jemalloc | InputFormat::Gperftools | InputFormat::Memprof | InputFormat::GoText => {
            heap_text::read(Lines::new(input, format))
        }
        InputFormat::Dtrace => aggregation::read_dtrace(Lines::new(input, format)),
        InputFormat::Bpftrace => aggregation::read_bpftrace(Lines::new(input, format)),
        InputFormat::Folded => folded::read(Lines::new(input, format)),
        InputFormat::Probes => {
            let what = "has single events: mallow import reads it, and makes a profile of it".to_owned();
            Err(FormatError::Unusable { format, what })
        }
    }?;
    if !chosen.is_empty() && format != InputFormat::Pprof {
        foreign.remarks.push(format!("a {format} file has no sample types: --sample-type changes nothing"));
    }
    let usable = foreign.profile.origin.as_ref().is_some_and(|origin| {
        Quantity::ALL.into_iter().any(|quantity| quantity != Quantity::Times && origin.quantities.has(quantity))
    });
    match usable {
        true => Ok(foreign),
        false => Err(FormatError::Unusable { format, what: "holds no stacks with numbers".to_owned() }),
    }
}
