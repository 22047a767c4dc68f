//! A shared library for 32-bit programs that has nothing in it, so that their dynamic linker finds what it can load.

use mallow_arch::machine;

const HEADER: u32 = 52;
const SEGMENT: u32 = 32;
const SEGMENTS: u32 = 3;
const DYNAMIC: u32 = HEADER + SEGMENTS * SEGMENT;
const DYNAMIC_BYTES: u32 = 6 * 8;
const HASH: u32 = DYNAMIC + DYNAMIC_BYTES;
const SYMBOLS: u32 = HASH + 16;
const STRINGS: u32 = SYMBOLS + 16;
const BYTES: u32 = STRINGS + 4;

/// An ELF file for 32-bit programs: one segment, no code, and no symbol but the first one of each table. A header of
/// its own asks for a stack that is not executable.
pub fn library() -> Vec<u8> {
    const READ_WRITE: u32 = 6;
    const PAGE: u32 = 4096;
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const PT_GNU_STACK: u32 = 0x6474_e551;
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1];
    file.resize(16, 0);
    const ET_DYN: u16 = 3;
    file.extend([ET_DYN, machine::ELF_32].iter().flat_map(|half| half.to_le_bytes()));
    let mut words = |all: &[u32]| file.extend(all.iter().flat_map(|word| word.to_le_bytes()));
    // Version, entry, where program headers and section headers are, flags; then sizes and numbers, two to a word.
    words(&[1, 0, HEADER, 0, 0, HEADER | SEGMENT << 16, SEGMENTS, 0]);
    // The dynamic linker writes addresses into the dynamic section.
    words(&[PT_LOAD, 0, 0, 0, BYTES, BYTES, READ_WRITE, PAGE]);
    words(&[PT_DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC_BYTES, DYNAMIC_BYTES, READ_WRITE, 4]);
    words(&[PT_GNU_STACK, 0, 0, 0, 0, 0, READ_WRITE, 16]);
    // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL.
    words(&[4, HASH, 5, STRINGS, 6, SYMBOLS, 10, 1, 11, 16, 0, 0]);
    // One bucket and one chain, both empty; the null symbol; the empty string.
    words(&[1, 1, 0, 0, 0, 0, 0, 0, 0]);
    file
}

#[cfg(test)]
mod tests {
    use object::read::elf::ElfFile32;
    use object::{Architecture, Endianness, Object};

    #[test]
    fn it_is_a_library_without_anything() {
        let bytes = super::library();
        assert_eq!(bytes.len(), super::BYTES as usize);
        let file = ElfFile32::<Endianness>::parse(&*bytes).unwrap();
        assert_eq!((file.architecture(), file.kind()), (Architecture::I386, object::ObjectKind::Dynamic));
        assert!(file.exports().unwrap().is_empty() && file.imports().unwrap().is_empty());
    }
}
