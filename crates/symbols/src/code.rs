//! Machine code: where functions begin and end, and their instructions as text. Of this processor alone.

use std::ops::Range;
use std::sync::Arc;

use mallow_arch::instruction::{Decoder, Instruction};
use mallow_arch::machine::{self, NAME};
use mallow_profile::NameSource;
use object::{Object, ObjectSegment};

use crate::demangle::demangle;
use crate::module::ModuleSymbols;
use crate::unwind_entries::UnwindEntries;

/// Functions of more bytes than this are not read to their end.
const LONGEST: u64 = 4 << 20;

/// Why a module's code cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The file is not there, or not the one that was recorded.
    #[error("{0}")]
    Module(NameSource),
    #[error("not code of {NAME}")]
    Machine,
}

/// The code of a module. [`crate::Symbolizer::code`] finds it.
pub struct Code {
    known: Arc<Result<ModuleSymbols, NameSource>>,
}

impl Code {
    pub(crate) fn new(known: Arc<Result<ModuleSymbols, NameSource>>) -> Result<Self, CodeError> {
        let code = Self { known };
        let machine = code.known()?.files.image.parse().map(|file| file.architecture());
        match machine {
            Ok(found) if found == machine::ARCHITECTURE => Ok(code),
            _ => Err(CodeError::Machine),
        }
    }

    fn known(&self) -> Result<&ModuleSymbols, CodeError> {
        self.known.as_ref().as_ref().map_err(|found| CodeError::Module(found.clone()))
    }

    /// The addresses of the function at `address`: by its symbol and its unwind information, whichever says more. None
    /// where neither knows it.
    pub fn function(&self, address: u64) -> Option<Range<u64>> {
        let known = self.known().ok()?;
        let symbol = known.symbols.range(address);
        let unwind = known.files.image.parse().ok().and_then(|file| UnwindEntries::of(&file)?.range(address));
        match (symbol, unwind) {
            (Some(symbol), Some(unwind)) => Some(symbol.start.max(unwind.start)..symbol.end.min(unwind.end)),
            (symbol, unwind) => symbol.or(unwind),
        }
    }

    /// The name of the function at `address`, demangled, and how far into it that is.
    pub fn name(&self, address: u64) -> Option<(String, u64)> {
        let known = self.known().ok()?;
        if let (Some(raw), Some(range)) = (known.symbols.find(address), known.symbols.range(address)) {
            let name = demangle(&String::from_utf8_lossy(raw), known.style).into_owned();
            return Some((name, address - range.start));
        }
        known.plt.find(address).map(|name| (format!("{}@plt", demangle(name, known.style)), 0))
    }

    /// The instructions from the beginning of `range` to its end. None where the file does not have it.
    pub fn instructions(&self, range: Range<u64>) -> Vec<Instruction> {
        let Ok(known) = self.known() else { return Vec::new() };
        let length = range.end.saturating_sub(range.start).min(LONGEST);
        let Ok(file) = known.files.image.parse() else { return Vec::new() };
        let bytes = file.segments().find_map(|segment| segment.data_range(range.start, length).ok().flatten());
        Decoder::new(bytes.unwrap_or_default(), range.start).collect()
    }

    /// The name of the function that an instruction calls or jumps to, and how far into it that is.
    pub fn target(&self, instruction: &Instruction) -> Option<(String, u64)> {
        if let Some(target) = instruction.target() {
            return self.name(target);
        }
        let known = self.known().ok()?;
        let name = known.plt.slot(instruction.slot()?)?;
        Some((demangle(name, known.style).into_owned(), 0))
    }
}
