//! Programs of Go: which function of the runtime a place calls to allocate, for which type, and a copy of the program
//! in which a heap profile sees each small allocation.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

use crate::go_lines::GoLines;
use crate::go_types::{GoType, GoTypes};
use crate::image::Image;
use crate::symtab::SymbolTable;

/// Functions of more bytes than this are not read.
const LONGEST: u64 = 1 << 20;
/// A type is loaded at most so many instructions before the call that gets it.
const BEFORE: usize = 40;
/// Code for the collector, which may stand anywhere.
const BARRIER: &str = "runtime.gcWriteBarrier";
/// `maxTinySize` of Go's allocator: smaller objects without pointers share blocks of this size.
pub const TINY: u64 = 16;

/// A program of Go's.
pub struct GoProgram {
    image: Arc<Image>,
    symbols: SymbolTable,
    /// Where the names of types begin.
    types: Option<u64>,
    /// Where code begins, and where the data of functions does.
    code: Option<(u64, u64)>,
}

/// The call by which a place allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoCall {
    /// `runtime.growslice`.
    pub callee: String,
    /// What it is asked to allocate: for slices, what they are made of.
    pub of: Option<GoType>,
    /// The function that the code calls next, write barriers left out: where a closure goes to.
    pub next: Option<String>,
    /// It is given no type: the compiler put several small variables into one block.
    pub combined: bool,
}

impl GoProgram {
    /// Reads its symbols. None where the file is no program of Go's for x86-64.
    pub fn open(path: &Path) -> Option<Self> {
        let image = Arc::new(Image::open(path).ok()?);
        let file = image.parse().ok()?;
        if file.architecture() != object::Architecture::X86_64 {
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

    /// The function at this link-time address.
    pub fn function(&self, address: u64) -> Option<String> {
        self.symbols.find(address).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The call at this link-time address, which may be any byte of it.
    pub fn call(&self, address: u64) -> Option<GoCall> {
        let code = self.instructions(self.symbols.range(address)?)?;
        let index = code.partition_point(|instruction| instruction.ip() <= address).checked_sub(1)?;
        (address < code.get(index)?.next_ip()).then(|| self.call_of(&code, index)).flatten()
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
            let callee = self.symbols.find(direct(instruction)?)?;
            const PUT: [&[u8]; 3] = [b"runtime.convT", b"runtime.newobject", b"runtime.mallocgc"];
            let puts = PUT.iter().any(|name| callee.starts_with(name));
            let last = instruction.next_ip().checked_sub(1)?;
            let there = puts && lines.chain(&of, last).is_some_and(|there| there == here);
            there.then(|| Some((instruction.ip()..instruction.next_ip(), self.call_of(&code, index)?))).flatten()
        };
        Some(code.iter().enumerate().filter_map(known).collect())
    }

    /// The code of a function; None of one that is too long.
    fn instructions(&self, range: Range<u64>) -> Option<Vec<Instruction>> {
        let length = range.end.checked_sub(range.start).filter(|&length| length <= LONGEST)?;
        let bytes = self.bytes(range.start, length)?;
        Some(Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE).into_iter().collect())
    }

    /// The call that this instruction of a function's code is.
    fn call_of(&self, code: &[Instruction], index: usize) -> Option<GoCall> {
        let (before, after) = (code.get(..index)?, code.get(index + 1..)?);
        let called = |call: &Instruction| {
            let callee = self.symbols.find(direct(call)?)?;
            Some(String::from_utf8_lossy(callee).into_owned())
        };
        let callee = called(code.get(index)?)?;
        let register = argument(&callee);
        let of = register.and_then(|register| self.of_type(loaded(before, register)?));
        let combined = callee.starts_with("runtime.mallocgc") && register.is_some_and(|of| is_zero(before, of));
        let calls = after.iter().take(BEFORE).filter(|instruction| instruction.mnemonic() == Mnemonic::Call);
        let next = calls.map(called).find(|next| !next.as_deref().is_some_and(|n| n.starts_with(BARRIER))).flatten();
        Some(GoCall { callee, of, next, combined })
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
            let code: Vec<_> =
                Decoder::with_ip(64, &bytes, symbol.address(), DecoderOptions::NONE).into_iter().collect();
            let mut places = code.windows(5).filter_map(combines);
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

/// Where the size of a shared block stands in `if offset+size <= 16 && block != 0`:
/// `cmp $16, R; ja new; mov N(S), B; test B, B; je new`.
fn combines(code: &[Instruction]) -> Option<u64> {
    let [compare, above, load, test, none] = code else { return None };
    let is = compare.code() == Code::Cmp_rm64_imm8
        && compare.op0_kind() == OpKind::Register
        && compare.immediate8to64() == TINY as i64
        && above.mnemonic() == Mnemonic::Ja
        && load.mnemonic() == Mnemonic::Mov
        && test.mnemonic() == Mnemonic::Test
        && none.mnemonic() == Mnemonic::Je
        && test.op0_register() == load.op0_register()
        && above.near_branch_target() == none.near_branch_target();
    // The number is the last byte.
    is.then(|| compare.next_ip() - 1)
}

/// The register in which a function of the runtime gets a type, by Go's calling convention.
fn argument(callee: &str) -> Option<Register> {
    match callee.strip_prefix("runtime.")? {
        "growslice" | "growsliceNoAlias" => Some(Register::RSI),
        name if name.starts_with("mallocgc") => Some(Register::RBX),
        "newobject" | "makeslice" | "makeslice64" | "makeslicecopy" | "newarray" | "makechan" | "makechan64"
        | "makemap" | "makemap64" | "convT" | "convTnoptr" => Some(Register::RAX),
        name if name.starts_with("mapassign") => Some(Register::RAX),
        _ => None,
    }
}

/// Where a call that names its function leads.
fn direct(instruction: &Instruction) -> Option<u64> {
    (instruction.code() == Code::Call_rel32_64).then(|| instruction.near_branch_target())
}

/// The register is zero: that was the last that was done with it.
fn is_zero(before: &[Instruction], register: Register) -> bool {
    let writes = |instruction: &&Instruction| {
        instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == register
            && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push)
    };
    let straight = before.iter().rev().take(BEFORE).take_while(|one| one.flow_control() == FlowControl::Next);
    straight.into_iter().find(writes).is_some_and(|one| {
        one.mnemonic() == Mnemonic::Xor
            && one.op1_kind() == OpKind::Register
            && one.op1_register().full_register() == register
    })
}

/// The address that a register was loaded with.
fn loaded(before: &[Instruction], register: Register) -> Option<u64> {
    let mut register = register;
    for instruction in before.iter().rev().take(BEFORE) {
        // What stands before a jump does not lead here, and a call leaves no register as it was.
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            _ => return None,
        }
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            continue;
        }
        if instruction.op0_register().full_register() != register
            || matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push)
        {
            continue;
        }
        match instruction.mnemonic() {
            Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                return Some(instruction.ip_rel_memory_address());
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                register = instruction.op1_register().full_register();
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<Instruction> {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).into_iter().collect()
    }

    const LEA_RAX: &[u8] = &[0x48, 0x8d, 0x05, 0x10, 0, 0, 0]; // lea 0x10(%rip), %rax
    const LEA_RCX: &[u8] = &[0x48, 0x8d, 0x0d, 0x20, 0, 0, 0]; // lea 0x20(%rip), %rcx
    const RCX_TO_RAX: &[u8] = &[0x48, 0x89, 0xc8]; // mov %rcx, %rax
    const FROM_MEMORY: &[u8] = &[0x48, 0x8b, 0x44, 0x24, 8]; // mov 8(%rsp), %rax
    const CLEAR_EBX: &[u8] = &[0x31, 0xdb]; // xor %ebx, %ebx
    const TEST_RAX: &[u8] = &[0x48, 0x85, 0xc0]; // test %rax, %rax
    const JUMP: &[u8] = &[0xeb, 0]; // jmp
    const BRANCH: &[u8] = &[0x74, 0]; // je
    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0]; // call

    #[test]
    fn a_register_is_followed_to_the_address_that_it_was_loaded_with() {
        for (what, parts, expected) in [
            ("loaded", vec![LEA_RAX], Some(0x1017)),
            ("loaded before something else", vec![LEA_RAX, CLEAR_EBX, TEST_RAX], Some(0x1017)),
            ("moved", vec![LEA_RCX, RCX_TO_RAX], Some(0x1027)),
            ("the last counts", vec![LEA_RAX, LEA_RCX, RCX_TO_RAX], Some(0x102e)),
            ("branches may be passed", vec![LEA_RAX, BRANCH], Some(0x1017)),
            ("read from memory", vec![LEA_RAX, FROM_MEMORY], None),
            ("what is before a jump does not lead here", vec![LEA_RAX, JUMP], None),
            ("a call leaves no register as it was", vec![LEA_RAX, CALL], None),
            ("never", vec![LEA_RCX], None),
        ] {
            assert_eq!(loaded(&decoded(&parts.concat()), Register::RAX), expected, "{what}");
        }
        let far = [LEA_RAX, &CLEAR_EBX.repeat(BEFORE)].concat();
        assert_eq!(loaded(&decoded(&far), Register::RAX), None, "too far away");
    }

    #[test]
    fn a_register_that_is_cleared_is_zero() {
        for (what, parts, expected) in [
            ("cleared", vec![CLEAR_EBX, LEA_RAX], true),
            ("another one", vec![LEA_RAX], false),
            ("cleared before a jump leads here", vec![CLEAR_EBX, BRANCH], false),
            ("cleared before a call", vec![CLEAR_EBX, CALL], false),
        ] {
            assert_eq!(is_zero(&decoded(&parts.concat()), Register::RBX), expected, "{what}");
        }
    }

    #[test]
    fn registers_of_types() {
        for (callee, register) in [
            ("runtime.growslice", Some(Register::RSI)),
            ("runtime.mallocgcSmallNoscan", Some(Register::RBX)),
            ("runtime.newobject", Some(Register::RAX)),
            ("runtime.mapassign_fast64", Some(Register::RAX)),
            ("runtime.convTstring", None),
            ("main.newobject", None),
        ] {
            assert_eq!(argument(callee), register, "{callee}");
        }
    }

    #[test]
    fn where_small_objects_are_put_together() {
        let code = |size: u8, above: u8, none: u8, tested: u8| {
            let mut bytes = vec![0x48, 0x83, 0xf9, size]; // cmp $size, %rcx
            bytes.extend([0x77, above]); // ja new
            bytes.extend([0x48, 0x8b, 0x46, 0x10]); // mov 0x10(%rsi), %rax
            bytes.extend([0x48, 0x85, tested]); // test %rax, %rax
            bytes.extend([0x74, none]); // je new
            decoded(&bytes)
        };
        // Both jumps lead to 0x1020.
        assert_eq!(combines(&code(16, 0x1a, 0x11, 0xc0)), Some(0x1003));
        assert_eq!(combines(&code(8, 0x1a, 0x11, 0xc0)), None, "another size");
        assert_eq!(combines(&code(16, 0x1b, 0x11, 0xc0)), None, "they lead to two places");
        assert_eq!(combines(&code(16, 0x1a, 0x11, 0xdb)), None, "another register is looked at");
        assert_eq!(combines(&code(16, 0x1a, 0x11, 0xc0)[..4]), None);
    }
}
