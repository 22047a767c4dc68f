//! Names of PLT stubs, which have no symbols: `malloc@plt`. Of this processor alone.

use mallow_arch::machine;
use mallow_arch::plt::{self, Slot};
use mallow_arch::relocation::{SlotValue, slot_value};
use object::read::elf::SectionHeader as _;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable};
use rustc_hash::FxHashMap;

use crate::image::Image;

/// The stubs of a module, by the slot that each jumps through.
#[derive(Default)]
pub(crate) struct Plt {
    sections: Vec<Stubs>,
    /// Raw names by GOT slot.
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
        if file.architecture() != machine::ARCHITECTURE {
            return Self::default();
        }
        let mut plt = Self::default();
        for (name, entry) in plt::SECTIONS {
            let Some(section) = elf.section_by_name(name) else { continue };
            let size = section.elf_section_header().sh_entsize.get(Endianness::Little);
            let entry = if plt::SIZES.contains(&size) { size } else { entry };
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
                let name = match slot_value(relocation.r_type(Endianness::Little, false)) {
                    Some(SlotValue::Symbol) => {
                        let index = object::SymbolIndex(relocation.r_sym(Endianness::Little, false) as usize);
                        let symbol = table.as_ref().and_then(|table| table.symbol_by_index(index).ok());
                        symbol.and_then(|symbol| symbol.name().ok().map(Box::from))
                    }
                    Some(SlotValue::Resolved) => local(relocation.r_addend.get(Endianness::Little) as u64),
                    None => None,
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
        let slot = match plt::slot(code, stubs.start + offset)? {
            Slot::At(address) => address,
            Slot::OfRelocation(index) => *self.order.get(index)?,
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
