//! Programs of Go: which function of the runtime a place calls to allocate, for which type, and a copy of the program
//! in which a heap profile sees each small allocation.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use mallow_arch::go::{
    BEFORE, SHARED_BLOCK, constant, elements_argument, is_zero, loaded, shared_block_size, type_argument,
};
use mallow_arch::instruction::{Decoder, Instruction};
use mallow_arch::machine;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

use crate::go_lines::GoLines;
use crate::go_types::{GoType, GoTypes};
use crate::image::Image;
use crate::symtab::SymbolTable;

/// Functions of more bytes than this are not read.
const LONGEST: u64 = 1 << 20;
/// Code for the collector, which may stand anywhere.
const BARRIER: &str = "runtime.gcWriteBarrier";
/// `maxTinySize` of Go's allocator: smaller objects without pointers share blocks of this size.
pub const TINY: u64 = 16;

pub struct GoProgram {
    image: Arc<Image>,
    symbols: SymbolTable,
    /// Link-time address of the names of types.
    types: Option<u64>,
    /// Link-time addresses of the beginnings of code and of functions' data.
    code: Option<(u64, u64)>,
}

/// The call by which a place allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoCall {
    /// Name of the runtime's function: `runtime.growslice`.
    pub callee: String,
    /// Type that the callee is asked to allocate: for slices, that of the elements.
    pub of: Option<GoType>,
    /// Capacity of a slice, in elements; None where that is no constant.
    pub elements: Option<u64>,
    /// The function that the code calls next, write barriers left out: the one that gets a closure.
    pub next: Option<String>,
    /// Whether the call gets no type: the compiler put several small variables into one block.
    pub combined: bool,
}

impl GoProgram {
    /// Reads its symbols. None where the file is no program of Go's for this processor.
    pub fn open(path: &Path) -> Option<Self> {
        let image = Arc::new(Image::open(path).ok()?);
        let file = image.parse().ok()?;
        if file.architecture() != machine::ARCHITECTURE {
            return None;
        }
        file.section_by_name(".go.buildinfo")?;
        let (mut types, mut text, mut data) = (None, None, None);
        for symbol in file.symbols() {
            let of = match symbol.name_bytes() {
                Ok(b"runtime.types") => &mut types,
                Ok(b"runtime.text") => &mut text,
                Ok(b"go:func.*") => &mut data,
                _ => continue,
            };
            *of = Some(symbol.address());
        }
        let code = text.zip(data);
        let symbols = SymbolTable::new(vec![image.clone()]);
        Some(Self { symbols, types, code, image })
    }

    /// The link-time address of a place in the file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let file = self.image.parse().ok()?;
        let segment = file.segments().find(|segment| {
            let (start, length) = segment.file_range();
            offset >= start && offset - start < length
        })?;
        (offset - segment.file_range().0).checked_add(segment.address())
    }

    pub fn function(&self, address: u64) -> Option<String> {
        self.symbols.find(address).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The call at this link-time address, which may be any byte of it.
    pub fn call(&self, address: u64) -> Option<GoCall> {
        let code = self.instructions(self.symbols.range(address)?)?;
        let index = code.partition_point(|instruction| instruction.address() <= address).checked_sub(1)?;
        (address < code.get(index)?.next()).then(|| self.call_of(&code, index)).flatten()
    }

    /// All calls that put a value into an interface or into a block of its own on the line of the call at this address,
    /// and through the same inlined calls: this one, too, in the order of code. None where lines of code are not known.
    pub fn calls_of_line(&self, address: u64) -> Option<Vec<(Range<u64>, GoCall)>> {
        let function = self.symbols.range(address)?;
        let code = self.instructions(function.clone())?;
        let (text, data) = self.code?;
        let file = self.image.parse().ok()?;
        let table = file.section_by_name(".gopclntab").or_else(|| file.section_by_name(".data.rel.ro.gopclntab"))?;
        let bytes = |address, length| self.bytes(address, length);
        let lines = GoLines { table: table.data().ok()?, text, data, bytes: &bytes };
        let of = lines.function(function.start)?;
        let here = lines.chain(&of, address)?;
        let known = |(index, instruction): (usize, &Instruction)| {
            let callee = self.symbols.find(instruction.callee()?)?;
            const PUT: [&[u8]; 3] = [b"runtime.convT", b"runtime.newobject", b"runtime.mallocgc"];
            let puts = PUT.iter().any(|name| callee.starts_with(name));
            let last = instruction.next().checked_sub(1)?;
            let there = puts && lines.chain(&of, last).is_some_and(|there| there == here);
            there.then(|| Some((instruction.address()..instruction.next(), self.call_of(&code, index)?))).flatten()
        };
        Some(code.iter().enumerate().filter_map(known).collect())
    }

    /// The code of a function; None of one that is too long.
    fn instructions(&self, range: Range<u64>) -> Option<Vec<Instruction>> {
        let length = range.end.checked_sub(range.start).filter(|&length| length <= LONGEST)?;
        let bytes = self.bytes(range.start, length)?;
        Some(Decoder::new(&bytes, range.start).collect())
    }

    /// The call that this instruction of a function's code is.
    fn call_of(&self, code: &[Instruction], index: usize) -> Option<GoCall> {
        let (before, after) = (code.get(..index)?, code.get(index + 1..)?);
        let called = |call: &Instruction| {
            let callee = self.symbols.find(call.callee()?)?;
            Some(String::from_utf8_lossy(callee).into_owned())
        };
        let callee = called(code.get(index)?)?;
        let register = type_argument(&callee);
        let of = register.and_then(|register| self.of_type(loaded(before, register)?));
        let combined = callee.starts_with("runtime.mallocgc") && register.is_some_and(|of| is_zero(before, of));
        let elements = elements_argument(&callee).and_then(|register| constant(code, index, register));
        let calls = after.iter().take(BEFORE).filter(|instruction| instruction.is_call());
        let next = calls.map(called).find(|next| !next.as_deref().is_some_and(|n| n.starts_with(BARRIER))).flatten();
        Some(GoCall { callee, of, elements, next, combined })
    }

    fn bytes(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        let file = self.image.parse().ok()?;
        file.segments().find_map(|segment| segment.data_range(address, length).ok().flatten()).map(<[u8]>::to_vec)
    }

    fn of_type(&self, address: u64) -> Option<GoType> {
        let bytes = |address, length| self.bytes(address, length);
        GoTypes { bytes: &bytes, names: self.types? }.read(address)
    }

    /// The program, with an allocator that puts each small object into a block of its own, as it does with others
    /// anyway. Heap profiles do not see an object that is put into a block which is there already. Nothing else is
    /// changed, and blocks are as large as before. None where the code is not as known.
    pub fn exact(&self) -> Option<Vec<u8>> {
        let file = self.image.parse().ok()?;
        let mut program = self.image.to_vec();
        let mut changed = 0;
        for symbol in file.symbols() {
            let Ok(name) = symbol.name_bytes() else { continue };
            let whole = name == b"runtime.mallocgc";
            if !whole && !name.starts_with(b"runtime.mallocgcTiny") || symbol.size() > LONGEST {
                continue;
            }
            let bytes = self.bytes(symbol.address(), symbol.size())?;
            let code: Vec<_> = Decoder::new(&bytes, symbol.address()).collect();
            let mut places = code.windows(SHARED_BLOCK).filter_map(|code| shared_block_size(code, TINY));
            match (places.next(), places.next()) {
                (Some(at), None) => {
                    let segment = file
                        .segments()
                        .find(|segment| at >= segment.address() && at - segment.address() < segment.size())?;
                    let offset = (at - segment.address()).checked_add(segment.file_range().0)?;
                    *program.get_mut(usize::try_from(offset).ok()?)? = 0;
                    changed += 1;
                }
                // Since 1.24 the general function leaves small objects to one of their own.
                (None, _) if whole => {}
                _ => return None,
            }
        }
        (changed > 0).then_some(program)
    }
}
