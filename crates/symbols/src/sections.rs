//! Sections of an ELF file, decompressed, within bounds.

use std::io::Read;

use addr2line::gimli::{EndianSlice, LittleEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection};
use typed_arena::Arena;

use crate::image::Image;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// No section of a sane file is larger once decompressed.
const LIMIT: u64 = 4 << 30;

/// `.gnu_debugdata` holds function names alone: a few MB.
const MINI_LIMIT: u64 = 256 << 20;

/// Memory for the dictionary, as `xz` writes it at its highest level: 64 MiB, and the decoder's own.
const MINI_MEMORY_KB: u32 = 80 << 10;

/// Owns what is decompressed or opened while a file's DWARF is read.
#[derive(Default)]
pub(crate) struct Store {
    pub data: Arena<Vec<u8>>,
    pub images: Arena<Image>,
}

/// A section's content: in place, or decompressed into `store`. Empty where it is absent.
pub(crate) fn load<'a>(file: &object::File<'a>, name: &str, store: &'a Store) -> Result<Slice<'a>, String> {
    let data = match file.section_by_name(name) {
        Some(section) => content(&section, store).map_err(|why| format!("{name}: {why}"))?,
        None => &[],
    };
    Ok(EndianSlice::new(data, LittleEndian))
}

/// True for the sections that functions and lines need. Those of variables, macros and types stay untouched: they can
/// be the larger half.
pub(crate) fn is_needed(id: SectionId) -> bool {
    use SectionId::*;
    matches!(
        id,
        DebugAbbrev
            | DebugAddr
            | DebugAranges
            | DebugInfo
            | DebugLine
            | DebugLineStr
            | DebugRanges
            | DebugRngLists
            | DebugStr
            | DebugStrOffsets
    )
}

fn content<'a>(section: &object::Section<'a, '_>, store: &'a Store) -> Result<&'a [u8], String> {
    let compressed = section.compressed_data().map_err(|e| e.to_string())?;
    match compressed.format {
        CompressionFormat::None => return Ok(compressed.data),
        CompressionFormat::Zlib | CompressionFormat::Zstandard => {}
        _ => return Err("unknown compression".into()),
    }
    // zlib cannot do better than 1032 to 1, so a larger claim is false and not worth the memory.
    let claim = compressed.uncompressed_size;
    let zlib = compressed.format == CompressionFormat::Zlib;
    if claim > LIMIT || zlib && claim / 1032 > compressed.data.len() as u64 {
        return Err(format!("claims {claim} bytes"));
    }
    let data = if zlib {
        compressed.decompress().map_err(|e| e.to_string())?.into_owned()
    } else {
        // Not through `decompress`: that goes on for as long as the data says, beyond the size in the header.
        let decoder = zstd::stream::read::Decoder::new(compressed.data).map_err(|e| e.to_string())?;
        let mut data = Vec::new();
        decoder.take(claim).read_to_end(&mut data).map_err(|e| e.to_string())?;
        data
    };
    if data.len() as u64 != claim {
        return Err(format!("{} bytes instead of {claim}", data.len()));
    }
    Ok(store.data.alloc(data))
}

/// The ELF file inside `.gnu_debugdata`: a symbol table compressed with xz.
pub(crate) fn mini_debug_info(image: &Image) -> Option<Image> {
    let file = image.parse().ok()?;
    let data = file.section_by_name(".gnu_debugdata")?.data().ok()?;
    let mut bytes = Vec::new();
    let reader = lzma_rust2::XzReader::new_mem_limit(data, false, MINI_MEMORY_KB);
    reader.take(MINI_LIMIT).read_to_end(&mut bytes).ok()?;
    Some(Image::from_bytes(image.path.clone(), bytes))
}
