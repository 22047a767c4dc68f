//! The parts of an ELF file that unwind tables are made of.

use super::code::{Bytes, Starts};
use super::error::TableError;
use super::swift;
use gimli::BaseAddresses;
use mallow_arch::{machine, machine_name};
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{CompressionFormat, LittleEndian, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of the largest debug section that is unpacked: no real program has a larger one.
const SECTION_LIMIT: u64 = 1 << 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSection {
    EhFrame,
    DebugFrame,
}

/// An ELF file of this processor.
pub(super) struct Elf<'data> {
    file: ElfFile64<'data, LittleEndian>,
}

/// Call frame information, and the addresses that it is relative to.
pub(super) struct Frames<'data> {
    pub kind: FrameSection,
    pub data: Cow<'data, [u8]>,
    pub bases: BaseAddresses,
}

impl<'data> Elf<'data> {
    /// Fails unless this is an ELF file of this processor; reads its headers.
    pub fn parse(data: &'data [u8]) -> Result<Self, TableError> {
        if !data.starts_with(&elf::ELFMAG) {
            return Err(TableError::NotElf);
        }
        let (class, order) = (data.get(4).copied(), data.get(5).copied());
        if class != Some(elf::ELFCLASS64) || order != Some(elf::ELFDATA2LSB) {
            return Err(TableError::OtherMachine("not a 64-bit little-endian file".into()));
        }
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        let number = header.e_machine.get(LittleEndian);
        if number != machine::ELF {
            let name = machine_name(number).map_or_else(|| format!("ELF machine {number}"), str::to_owned);
            return Err(TableError::OtherMachine(name));
        }
        Ok(Self { file: ElfFile64::parse(data)? })
    }

    /// Link-time address of the first mapped page.
    pub fn base_svma(&self) -> u64 {
        let lowest = self.loads().map(|(_, range)| range.start).min();
        lowest.unwrap_or(0) & !0xfff
    }

    /// Link-time addresses of executable segments.
    pub fn executable(&self) -> Vec<Range<u64>> {
        self.loads().filter(|(flags, _)| flags & elf::PF_X != 0).map(|(_, range)| range).collect()
    }

    /// Link-time address at which the kernel or the dynamic linker enters the file; 0 for most libraries.
    pub fn entry(&self) -> u64 {
        self.file.elf_header().e_entry.get(LittleEndian)
    }

    pub fn build_id(&self) -> Option<Vec<u8>> {
        self.file.build_id().ok().flatten().map(<[u8]>::to_vec)
    }

    /// `.eh_frame`, by section or by program header, and `.debug_frame` where there is none.
    pub fn frames(&self) -> Result<Frames<'data>, TableError> {
        let mut bases = BaseAddresses::default();
        for section in self.file.sections() {
            let address = section.address();
            match section.name_bytes() {
                Ok(b".text") => bases = bases.set_text(address),
                Ok(b".got") => bases = bases.set_got(address),
                _ => {}
            }
        }
        if let Some(section) = self.file.section_by_name(".eh_frame") {
            let data = section.data()?;
            if !data.is_empty() {
                let bases = bases.set_eh_frame(section.address());
                return Ok(Frames { kind: FrameSection::EhFrame, data: data.into(), bases });
            }
        }
        if let Some((address, data)) = self.eh_frame_by_program_header() {
            let bases = bases.set_eh_frame(address);
            return Ok(Frames { kind: FrameSection::EhFrame, data: data.into(), bases });
        }
        self.debug_frames(bases)
    }

    /// `.debug_frame` of a file that has code of Go's; None: it has none of either.
    pub fn go_frames(&self) -> Option<Frames<'data>> {
        let is_table = |name: &[u8]| name.ends_with(b".gopclntab");
        let is_go = self.file.sections().any(|section| section.name_bytes().is_ok_and(is_table));
        self.debug_frames(BaseAddresses::default()).ok().filter(|_| is_go)
    }

    fn debug_frames(&self, bases: BaseAddresses) -> Result<Frames<'data>, TableError> {
        let section = self.file.section_by_name(".debug_frame").ok_or(TableError::NoFrames)?;
        let packed = section.compressed_data()?;
        if packed.format != CompressionFormat::None && packed.uncompressed_size > SECTION_LIMIT {
            return Err(TableError::TooLarge);
        }
        let data = packed.decompress()?;
        if data.is_empty() {
            return Err(TableError::NoFrames);
        }
        Ok(Frames { kind: FrameSection::DebugFrame, data, bases })
    }

    /// Finds `.eh_frame` and its address as the C library does, without section headers.
    fn eh_frame_by_program_header(&self) -> Option<(u64, &'data [u8])> {
        let segments = self.file.elf_program_headers();
        let hdr = segments.iter().find(|s| s.p_type(LittleEndian) == elf::PT_GNU_EH_FRAME)?;
        let address = hdr.p_vaddr(LittleEndian);
        let data = hdr.data(LittleEndian, self.file.data()).ok()?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(address);
        let parsed = gimli::EhFrameHdr::new(data, gimli::LittleEndian).parse(&bases, 8).ok()?;
        let gimli::Pointer::Direct(eh_frame) = parsed.eh_frame_ptr() else { return None };
        self.file.elf_program_headers().iter().find_map(|segment| {
            let start = segment.p_vaddr(LittleEndian);
            if segment.p_type(LittleEndian) != elf::PT_LOAD {
                return None;
            }
            let data = segment.data(LittleEndian, self.file.data()).ok()?;
            let skip = usize::try_from(eh_frame.checked_sub(start)?).ok()?;
            data.get(skip..).filter(|data| !data.is_empty()).map(|data| (eh_frame, data))
        })
    }

    /// Code that the file holds, by address, without overlaps. Headers and constants that share a segment with it, as
    /// older linkers had it, are left out by the section table.
    pub fn code(&self) -> Vec<Bytes<'data>> {
        let mut found = Vec::new();
        for segment in self.file.elf_program_headers() {
            if segment.p_type(LittleEndian) != elf::PT_LOAD || segment.p_flags(LittleEndian) & elf::PF_X == 0 {
                continue;
            }
            let Ok(data) = segment.data(LittleEndian, self.file.data()) else { continue };
            let whole = Bytes { start: segment.p_vaddr(LittleEndian), data };
            if segment.p_offset(LittleEndian) != 0 {
                found.push(whole);
            } else {
                let sections = self.file.sections().filter(|section| section.kind() == SectionKind::Text);
                found.extend(
                    sections.filter_map(|section| whole.part(section.address()..section.address() + section.size())),
                );
            }
        }
        found.sort_by_key(|bytes| bytes.start);
        found.dedup_by(|next, bytes| next.start < bytes.end());
        found
    }

    /// Functions of the file, by its symbols. What compilers move out of a function has a symbol too, and is left out.
    pub fn starts(&self) -> Starts {
        let symbols = self.file.symbols().chain(self.file.dynamic_symbols());
        let is_function = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
            symbol.is_definition()
                && symbol.kind() == SymbolKind::Text
                && symbol.size() > 0
                && symbol.name_bytes().is_ok_and(|name| !name.windows(5).any(|part| part == b".cold"))
        };
        let mut functions: Vec<_> = symbols
            .filter(is_function)
            .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
            .collect();
        functions.sort_unstable_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        functions.dedup_by_key(|function| function.start);
        let complete = self.file.symbols().any(|symbol| is_function(&symbol));
        let asynchronous = self.async_functions().into_iter().map(|function| function.start).collect();
        Starts { functions, complete, asynchronous }
    }

    /// Addresses of the async functions of Swift that start with their own context, as far as symbols say, in order.
    pub fn async_functions(&self) -> Vec<Range<u64>> {
        let symbols = || self.file.symbols().chain(self.file.dynamic_symbols()).filter(|symbol| symbol.is_definition());
        let names: FxHashSet<&[u8]> =
            symbols().filter_map(|symbol| swift::pointed_to(symbol.name_bytes().ok()?)).collect();
        let is_async = |name: &[u8]| names.contains(name) || swift::continues(name);
        let mut functions: Vec<Range<u64>> = symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter(|symbol| symbol.name_bytes().is_ok_and(is_async))
            .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
            .collect();
        functions.sort_unstable_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        functions.dedup_by_key(|function| function.start);
        functions
    }

    fn loads(&self) -> impl Iterator<Item = (u32, Range<u64>)> + '_ {
        let loads = self.file.elf_program_headers().iter().filter(|s| s.p_type(LittleEndian) == elf::PT_LOAD);
        loads.map(|segment| {
            let start = segment.p_vaddr(LittleEndian);
            (segment.p_flags(LittleEndian), start..start.saturating_add(segment.p_memsz(LittleEndian)))
        })
    }
}
