//! Names of PLT stubs, which have no symbols: `malloc@plt`. x86-64 alone.

use object::read::elf::SectionHeader as _;
use object::{Architecture, Endianness, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable};
use rustc_hash::FxHashMap;

use crate::image::Image;

/// The stubs of a module, by the slot that each jumps through.
#[derive(Default)]
pub(crate) struct Plt {
    sections: Vec<Stubs>,
    /// GOT slot → raw name.
    slots: FxHashMap<u64, Box<str>>,
    /// Position in `.rela.plt` → GOT slot.
    order: Vec<u64>,
}

struct Stubs {
    start: u64,
    entry: u64,
    code: Vec<u8>,
}

/// Real ones have 16 bytes for each imported function.
const LIMIT: u64 = 64 << 20;

impl Plt {
    /// Reads the stubs and their relocations; what is damaged counts as absent. `local` names a function of this module
    /// by its address, for stubs of IFUNCs.
    pub fn new(image: &Image, local: impl Fn(u64) -> Option<Box<str>>) -> Self {
        let Ok(file) = image.parse() else { return Self::default() };
        let object::File::Elf64(elf) = &file else { return Self::default() };
        if file.architecture() != Architecture::X86_64 {
            return Self::default();
        }
        let mut plt = Self::default();
        for (name, entry) in [(".plt", 16), (".plt.sec", 16), (".plt.got", 8), (".iplt", 16)] {
            let Some(section) = elf.section_by_name(name) else { continue };
            // With CET the stubs of .plt.got are 16 bytes each; the header says so, and is not always set.
            let entry = match section.elf_section_header().sh_entsize.get(Endianness::Little) {
                size @ (8 | 16) => size,
                _ => entry,
            };
            match section.data() {
                Ok(code) if code.len() as u64 <= LIMIT => {
                    plt.sections.push(Stubs { start: section.address(), entry, code: code.to_vec() });
                }
                _ => {}
            }
        }
        if plt.sections.is_empty() {
            return plt;
        }
        let table = elf.dynamic_symbol_table();
        for section in elf.sections() {
            let Ok(Some((relocations, _))) = section.elf_section_header().rela(Endianness::Little, &**image) else {
                continue;
            };
            let in_order = section.name() == Ok(".rela.plt");
            for relocation in relocations {
                let slot = relocation.r_offset.get(Endianness::Little);
                if in_order {
                    plt.order.push(slot);
                }
                let name = match relocation.r_type(Endianness::Little, false) {
                    object::elf::R_X86_64_JUMP_SLOT | object::elf::R_X86_64_GLOB_DAT => {
                        let index = object::SymbolIndex(relocation.r_sym(Endianness::Little, false) as usize);
                        let symbol = table.as_ref().and_then(|table| table.symbol_by_index(index).ok());
                        symbol.and_then(|symbol| symbol.name().ok().map(Box::from))
                    }
                    object::elf::R_X86_64_IRELATIVE => local(relocation.r_addend.get(Endianness::Little) as u64),
                    _ => None,
                };
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    plt.slots.insert(slot, name);
                }
            }
        }
        plt
    }

    /// The raw name of the function that the stub at `address` jumps to.
    pub fn find(&self, address: u64) -> Option<&str> {
        let inside = |stubs: &&Stubs| address.checked_sub(stubs.start).is_some_and(|at| at < stubs.code.len() as u64);
        let stubs = self.sections.iter().find(inside)?;
        let offset = (address - stubs.start) / stubs.entry * stubs.entry;
        let code = stubs.code.get(offset as usize..)?;
        let code = &code[..code.len().min(stubs.entry as usize)];
        let slot = match jump(code) {
            Some((length, displacement)) => {
                (stubs.start + offset).wrapping_add(length).wrapping_add_signed(displacement)
            }
            None => *self.order.get(pushed(code)?)?,
        };
        self.slots.get(&slot).map(|name| &**name)
    }
}

impl Plt {
    /// The addresses of the stubs that jump to a function of this raw name.
    pub fn stubs_of(&self, name: &str) -> Vec<u64> {
        let stubs = |one: &Stubs| {
            let entries = one.code.len() as u64 / one.entry;
            (0..entries).map(|at| one.start + at * one.entry).collect::<Vec<_>>()
        };
        self.sections.iter().flat_map(stubs).filter(|address| self.find(*address) == Some(name)).collect()
    }

    /// The raw name of the function that the GOT slot at `address` holds.
    pub fn slot(&self, address: u64) -> Option<&str> {
        self.slots.get(&address).map(|name| &**name)
    }
}

const ENDBR64: &[u8] = b"\xf3\x0f\x1e\xfa";
const BND: &[u8] = b"\xf2";

/// `jmp *displacement(%rip)`: bytes up to its end, and the displacement.
fn jump(code: &[u8]) -> Option<(u64, i64)> {
    let rest = code.strip_prefix(ENDBR64).unwrap_or(code);
    let rest = rest.strip_prefix(BND).unwrap_or(rest);
    let displacement = rest.strip_prefix(b"\xff\x25")?.first_chunk::<4>()?;
    let length = code.len() - rest.len() + 6;
    Some((length as u64, i32::from_le_bytes(*displacement).into()))
}

/// `push $index`: the stub that the dynamic linker is entered through at the first call.
fn pushed(code: &[u8]) -> Option<usize> {
    let rest = code.strip_prefix(ENDBR64).unwrap_or(code);
    let index = rest.strip_prefix(b"\x68")?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*index) as usize)
}
