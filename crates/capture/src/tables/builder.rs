//! A module's file, read once and laid out as a table.

use super::elf::{Elf, FrameSection, Frames};
use super::error::TableError;
use super::image::lay_out;
use super::rows::{Code, Collector, Functions};
use super::stats::TableStats;
use gimli::{BaseAddresses, DebugFrame, EhFrame, LittleEndian};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The bytes of the table file for an ELF image: a file's bytes, or the vdso's in memory.
pub fn build(elf: &[u8]) -> Result<Vec<u8>, TableError> {
    build_with_stats(elf).map(|(image, _)| image)
}

/// [`build`], with counts of what was found.
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
            let mut collector = Collector::new(&section, bases, &code, data.len());
            if let Some(functions) = go_functions(&elf, &code)? {
                collector.add_go(&functions);
            }
            collector.collect(&elf)?
        }
    };
    if frames.is_none() && stats.analyzed_instructions == 0 {
        return Err(TableError::NoFrames);
    }
    let image = lay_out(code.base, &rows, &rules, &mut stats)?;
    Ok((image, stats))
}

/// Go's functions in a program that has C code as well: the C compiler writes `.eh_frame`, Go's `.debug_frame`.
fn go_functions(elf: &Elf<'_>, code: &Code) -> Result<Option<Functions>, TableError> {
    let Some(Frames { data, bases, .. }) = elf.go_frames() else { return Ok(None) };
    let mut section = DebugFrame::new(&data, LittleEndian);
    section.set_address_size(8);
    Collector::new(&section, &bases, code, data.len()).functions().map(Some)
}

/// Fails where an ELF image has no call frame information that can be read.
pub fn has_frames(elf: &[u8]) -> Result<(), TableError> {
    let elf = Elf::parse(elf)?;
    elf.frames()?;
    Ok(())
}

pub fn build_file(path: &Path) -> Result<Vec<u8>, TableError> {
    build(&map(path)?)
}

/// Page-aligned lowest link-time address of an ELF image's loaded segments; 0 where it is unknown.
pub fn base_svma(elf: &[u8]) -> u64 {
    Elf::parse(elf).map_or(0, |elf| elf.base_svma())
}

/// The GNU build-id of an ELF image; None: it has none, or the image cannot be read.
pub fn build_id(elf: &[u8]) -> Option<Vec<u8>> {
    Elf::parse(elf).ok()?.build_id()
}

/// Maps a regular file, privately. A file that shrinks while it is read would end this process: mapped files are those
/// that the target has mapped too, and it would end as well.
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
