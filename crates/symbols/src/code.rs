//! Machine code: where functions begin and end, and their instructions as text. x86-64 alone.

use std::ops::Range;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use mallow_profile::NameSource;
use object::{Architecture, Object, ObjectSegment};

use crate::demangle::demangle;
use crate::module::ModuleSymbols;
use crate::unwind_entries::UnwindEntries;

/// Functions of more bytes than this are not read to their end.
const LONGEST: u64 = 4 << 20;

/// Why a module's code cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Its file is not there, or not the one that was recorded.
    #[error("{0}")]
    Module(NameSource),
    /// It is code of another machine.
    #[error("not code of x86-64")]
    Machine,
}

/// The code of a module. [`crate::Symbolizer::code`] finds it.
pub struct Code {
    known: Arc<Result<ModuleSymbols, NameSource>>,
}

/// One instruction of a [`Code`].
#[derive(Clone, Copy, Debug)]
pub struct Instruction(iced_x86::Instruction);

impl Instruction {
    /// Its link-time address.
    pub fn address(&self) -> u64 {
        self.0.ip()
    }

    /// That of the next one: the return address of a call.
    pub fn next(&self) -> u64 {
        self.0.next_ip()
    }

    /// As AT&T's assemblers write it; `(bad)` for bytes that are none.
    pub fn text(&self) -> String {
        let mut formatter = GasFormatter::new();
        let options = formatter.options_mut();
        options.set_space_after_operand_separator(true);
        options.set_branch_leading_zeros(false);
        options.set_uppercase_hex(false);
        let mut text = String::new();
        formatter.format(&self.0, &mut text);
        text
    }
}

impl Code {
    pub(crate) fn new(known: Arc<Result<ModuleSymbols, NameSource>>) -> Result<Self, CodeError> {
        let code = Self { known };
        let machine = code.known()?.files.image.parse().map(|file| file.architecture());
        match machine {
            Ok(Architecture::X86_64) => Ok(code),
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
        let decoder = Decoder::with_ip(64, bytes.unwrap_or_default(), range.start, DecoderOptions::NONE);
        decoder.into_iter().map(Instruction).collect()
    }

    /// The name of the function that an instruction calls or jumps to, and how far into it that is.
    pub fn target(&self, instruction: &Instruction) -> Option<(String, u64)> {
        let Instruction(instruction) = instruction;
        let direct = instruction.near_branch_target();
        if direct != 0 {
            return self.name(direct);
        }
        let through_slot = matches!(instruction.code(), iced_x86::Code::Call_rm64 | iced_x86::Code::Jmp_rm64);
        if !through_slot || !instruction.is_ip_rel_memory_operand() {
            return None;
        }
        let known = self.known().ok()?;
        let name = known.plt.slot(instruction.ip_rel_memory_address())?;
        Some((demangle(name, known.style).into_owned(), 0))
    }
}
