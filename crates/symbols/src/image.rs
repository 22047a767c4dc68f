//! A file in memory, whole and read-only.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectKind};
use rustix::fs::{FileType, Mode, OFlags};

/// The bytes of an ELF file, with where they came from.
pub(crate) struct Image {
    pub path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    Map(memmap2::Mmap),
    Owned(Vec<u8>),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("{0}")]
    Open(io::Error),
    /// The file is not of the wanted format.
    #[error("{0}")]
    Format(String),
}

impl Image {
    /// Maps `path`. Only regular files: opening a FIFO or a device could block or do something.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let fail = |e: rustix::io::Errno| ImageError::Open(e.into());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file: File = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?.into();
        let stat = rustix::fs::fstat(&file).map_err(fail)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ImageError::Format("not a regular file".into()));
        }
        // SAFETY: the map is private and read-only. Another process that writes to the file changes bytes which are
        // treated as hostile anyway, through slices that no code assumes to be valid in any form.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(ImageError::Open)?;
        Ok(Self { path: path.to_path_buf(), bytes: Bytes::Map(map) })
    }

    /// The file under another path, beside which its debug files are looked for.
    pub fn known_as(self, path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..self }
    }

    /// An image that came from elsewhere than a file of its own.
    pub fn from_bytes(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self { path, bytes: Bytes::Owned(bytes) }
    }

    /// Reads the headers: cheap, so it is done again where it is needed.
    pub fn parse(&self) -> Result<object::File<'_>, ImageError> {
        let file = self.parse_any()?;
        if file.kind() == ObjectKind::Relocatable {
            return Err(ImageError::Format("an object file that was not linked".into()));
        }
        Ok(file)
    }

    /// Parses files that were not linked, too: `.dwo` files, and dwz's files of shared debug information.
    pub fn parse_any(&self) -> Result<object::File<'_>, ImageError> {
        let format = |e: object::Error| ImageError::Format(e.to_string());
        if !self.starts_with(b"\x7fELF") {
            return Err(ImageError::Format("not an ELF file".into()));
        }
        let file = object::File::parse(&**self).map_err(format)?;
        if !file.is_little_endian() {
            return Err(ImageError::Format("big-endian".into()));
        }
        Ok(file)
    }

    /// The GNU build-id; empty where the file has none.
    pub fn build_id(&self) -> Result<Vec<u8>, ImageError> {
        let id = self.parse_any()?.build_id().map_err(|e| ImageError::Format(e.to_string()))?;
        Ok(id.unwrap_or_default().to_vec())
    }

    /// Whether a program header leads to a build-id, so that it is in memory where the file is loaded. Go's linker
    /// makes a section of one that no program header covers.
    pub fn loads_build_id(&self) -> bool {
        let is_id = |(kind, name): (u32, &[u8])| kind == NT_GNU_BUILD_ID && name == b"GNU";
        let find = || {
            let header = FileHeader64::<LittleEndian>::parse(&**self).ok()?;
            let all = header.program_headers(LittleEndian, &**self).ok()?;
            let notes = all.iter().filter_map(|one| one.notes(LittleEndian, &**self).ok().flatten());
            let notes = notes.flat_map(|mut notes| std::iter::from_fn(move || notes.next().ok().flatten()));
            Some(notes.map(|note| (note.n_type(LittleEndian), note.name())).any(is_id))
        };
        find().unwrap_or(false)
    }
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Map(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// wire.h keeps this many bytes of a build-id.
const RECORDED_BUILD_ID: usize = 32;

/// A file without a build-id is taken for the recorded one if that had none: there is nothing to compare but when it
/// was written.
pub(crate) fn is_same(recorded: &[u8], now: &[u8]) -> bool {
    recorded == now || recorded.len() == RECORDED_BUILD_ID && now.starts_with(recorded)
}
