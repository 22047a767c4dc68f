//! Unwind tables: a module's call frame information as sorted fixed-size rules that the target can walk with.
//!
//! [`build`] reads `.eh_frame` (or `.debug_frame`) once, so that the target needs to know no DWARF. Code that these do not
//! describe gets the rules that its instructions tell. The file layout is the "unwind tables" part of `preload/wire.h`.
//! [`TableCache`] keeps the tables of a user by build-id.

mod cache;
mod code;
mod elf;
mod expression;
mod image;
mod layout;
mod machine;
mod row;
mod rows;
mod view;

pub use cache::{CacheError, TableCache, build_to, write_table};
pub use layout::{Rule, WIRE_VERSION};
pub use view::TableView;

use elf::{Elf, FrameSection, Frames};
use gimli::{BaseAddresses, DebugFrame, EhFrame, LittleEndian};
use rows::{Code, Collector};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why there is no table for a file.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file does not begin as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// A machine for which there are no tables.
    #[error("unwind tables are made for x86-64 only, not for {0}")]
    OtherMachine(String),
    /// Neither `.eh_frame` nor `.debug_frame`.
    #[error("no call frame information (.eh_frame, .debug_frame)")]
    NoFrames,
    /// More than the layout, or any real program, has.
    #[error("call frame information too large")]
    TooLarge,
    /// The ELF structure is damaged.
    #[error("damaged ELF file: {0}")]
    Elf(#[from] object::Error),
    /// The call frame information is damaged.
    #[error("damaged call frame information: {0}")]
    Frames(#[from] gimli::Error),
    /// What should be a table file is none, or is of another version.
    #[error("not an unwind table of this version")]
    NotTable,
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What a table holds, and what could not be put into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Functions with rows.
    pub functions: usize,
    /// Rows, after merging.
    pub rows: usize,
    /// Different rules.
    pub rules: usize,
    /// Rows that the layout has no rule for: NONE stands there.
    pub unrepresentable_rows: usize,
    /// Functions whose call frame instructions are damaged from some point on: NONE stands there.
    pub unreadable_functions: usize,
    /// Functions outside of executable segments: dropped by the linker.
    pub functions_elsewhere: usize,
    /// Instructions without call frame information that have a rule all the same.
    pub analyzed_instructions: usize,
}

/// The table file for an ELF image: a file's bytes, or the vdso's in memory.
pub fn build(elf: &[u8]) -> Result<Vec<u8>, TableError> {
    build_with_stats(elf).map(|(image, _)| image)
}

/// As [`build`], with what it found.
pub fn build_with_stats(elf: &[u8]) -> Result<(Vec<u8>, TableStats), TableError> {
    let elf = Elf::parse(elf)?;
    let code = Code { base: elf.base_svma(), executable: elf.executable(), entry: elf.entry() };
    let frames = match elf.frames() {
        Err(TableError::NoFrames) => None,
        frames => Some(frames?),
    };
    let (rows, rules, mut stats) = match &frames {
        Some(Frames { kind: FrameSection::DebugFrame, data, bases }) => {
            let mut section = DebugFrame::new(data, LittleEndian);
            section.set_address_size(8);
            Collector::new(&section, bases, &code, data.len()).collect(&elf)?
        }
        _ => {
            let bases = BaseAddresses::default();
            let (data, bases) = frames.as_ref().map_or((&[][..], &bases), |found| (&found.data[..], &found.bases));
            let mut section = EhFrame::new(data, LittleEndian);
            section.set_address_size(8);
            Collector::new(&section, bases, &code, data.len()).collect(&elf)?
        }
    };
    if frames.is_none() && stats.analyzed_instructions == 0 {
        return Err(TableError::NoFrames);
    }
    let image = image::lay_out(code.base, &rows, &rules, &mut stats)?;
    Ok((image, stats))
}

/// Whether there is call frame information for an ELF image, that can be read.
pub fn has_frames(elf: &[u8]) -> Result<(), TableError> {
    let elf = Elf::parse(elf)?;
    elf.frames()?;
    Ok(())
}

/// The table file for the ELF file at `path`.
pub fn build_file(path: &Path) -> Result<Vec<u8>, TableError> {
    build(&map(path)?)
}

/// Page-aligned lowest link-time address of an ELF image's loaded segments; 0 where it cannot be told.
pub fn base_svma(elf: &[u8]) -> u64 {
    Elf::parse(elf).map_or(0, |elf| elf.base_svma())
}

/// The GNU build-id of an ELF image.
pub fn build_id(elf: &[u8]) -> Option<Vec<u8>> {
    Elf::parse(elf).ok()?.build_id()
}

/// A private mapping. A file that shrinks while it is read would end this process: mapped files are those that the
/// target has mapped too, and it would end as well.
pub(crate) fn map(path: &Path) -> Result<memmap2::Mmap, TableError> {
    // A path that a target names may be a pipe, and opening one would wait.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(TableError::NotElf);
    }
    // SAFETY: mapped read-only and private; see above for a file that changes under it.
    Ok(unsafe { memmap2::Mmap::map(&file)? })
}
