//! The library without libdl, which glibc had apart until 2.34: where the C library itself has dlopen and its kin, one
//! file less is loaded into each program, and none stays in a process that was attached to.

use object::Endianness;
use object::elf::{DT_NEEDED, Dyn64, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};

/// The first glibc that has libdl's functions in libc.so.6.
pub const ONE_FILE: (u32, u32) = (2, 34);

/// The library's bytes with libc.so.6 in the place of libdl.so.2 among the libraries that it needs.
pub fn without_libdl(library: &[u8]) -> Vec<u8> {
    let mut bytes = library.to_vec();
    if let Some((at, name)) = name_of_libdl(library) {
        bytes[at..at + 8].copy_from_slice(&name.to_le_bytes());
    }
    bytes
}

/// Offset in the file of the number that names libdl, and the number that names the C library: offsets of strings.
fn name_of_libdl(library: &[u8]) -> Option<(usize, u64)> {
    let header = FileHeader64::<Endianness>::parse(library).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, library).ok()?;
    let (section, (entries, link)) = sections.iter().find_map(|s| Some((s, s.dynamic(endian, library).ok()??)))?;
    let strings = sections.strings(endian, library, link).ok()?;
    let named = |name: &[u8]| {
        let is_it = |entry: &Dyn64<Endianness>| {
            let offset = u32::try_from(entry.d_val.get(endian)).unwrap_or(u32::MAX);
            entry.d_tag.get(endian) == DT_NEEDED && strings.get(offset) == Ok(name)
        };
        entries.iter().position(is_it)
    };
    let (libdl, libc) = (named(b"libdl.so.2")?, named(b"libc.so.6")?);
    let at = section.sh_offset(endian) as usize + libdl * size_of::<Dyn64<Endianness>>() + size_of::<u64>();
    Some((at, entries.get(libc)?.d_val.get(endian)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_replaced_and_nothing_else() {
        let library = include_bytes!(env!("MALLOW_LIBRARY"));
        let (at, name) = name_of_libdl(library).expect("it was built with libdl");
        let without = without_libdl(library);
        let differ: Vec<_> = (0..library.len()).filter(|&i| library[i] != without[i]).collect();
        assert!(!differ.is_empty() && differ.iter().all(|i| (at..at + 8).contains(i)), "{differ:?} {name}");
    }
}
