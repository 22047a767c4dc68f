//! Heap profiles of php-memprof: a table of functions, and live bytes by stack in the layout of a CPU profile, whose
//! sampling period is 0. Numbers are words of 8 bytes, little-endian.
//!
//! ```text
//! --- symbol
//! binary=/tmp/memprof.heap
//! 0x0000000000000008 root
//! 0x0000000000000010 main /srv/index.php
//! ---
//! --- profile
//! 0 3 0 0 0           head: 0, the words that follow, version, sampling period, 0
//! 4096 1 0x10         bytes, depth, functions, the innermost first; `root` is in no stack
//! ```

use mallow_profile::{Counts, Frame, FrameId, Line, Quantities, Quantity};
use rustc_hash::FxHashMap;

use super::names::SymbolTable;
use crate::builder::Builder;
use crate::input::Lines;
use crate::{Addresses, Foreign, FormatError, InputFormat};

const HEAD: [u64; 5] = [0, 3, 0, 0, 0];
/// The first entry of each table: its number, and the name of the function.
const ROOT: (u64, &str) = (8, "root");

/// Reads what follows `--- profile`.
pub fn read(mut lines: Lines, symbols: &SymbolTable) -> Result<Foreign, FormatError> {
    let bytes = lines.rest()?;
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let head: Vec<u64> = words.by_ref().take(HEAD.len()).collect();
    if head != HEAD || symbols.name(ROOT.0) != Some(ROOT.1) {
        return Err(lines.unusable(
            "was written by pprof --raw, which says what none of its numbers counts: give the heap profile that it was made of",
        ));
    }
    lines.set_format(InputFormat::Memprof);
    let mut builder = Builder::new(InputFormat::Memprof);
    builder.read(bytes.len());
    let mut frames = FxHashMap::default();
    let cut = || lines.damaged("it ends within a stack");
    while let Some(live_bytes) = words.next() {
        let depth = words.next().and_then(|depth| usize::try_from(depth).ok()).ok_or_else(cut)?;
        if depth > words.len() {
            return Err(cut());
        }
        let functions = words.by_ref().take(depth);
        let stack: Vec<FrameId> = functions.map(|number| frame(&mut builder, &mut frames, symbols, number)).collect();
        let stack = builder.stack(stack)?;
        builder.add(stack, Counts { live_bytes, ..Counts::default() });
    }
    if !bytes.len().is_multiple_of(8) {
        return Err(cut());
    }
    Ok(builder.finish(Quantities::of(&[Quantity::LiveBytes]), None, Addresses::Opaque))
}

/// The frame of the function with this number.
fn frame(builder: &mut Builder, frames: &mut FxHashMap<u64, FrameId>, symbols: &SymbolTable, number: u64) -> FrameId {
    *frames.entry(number).or_insert_with(|| {
        let strings = &mut builder.profile.strings;
        let line = |name| Line { function: strings.intern(name), file: None, line: 0 };
        let lines = symbols.name(number).map(line).into_iter().collect();
        builder.add_frame(Frame { lines, ..Frame::new(None, number, false) })
    })
}
