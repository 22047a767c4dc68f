//! The cache that clients of debuginfod share: debug files by build-id, verified before they get their name.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mallow_profile::{Module, ModuleSummary, Note};
use object::{Object, ObjectSection};
use rustix::fs::{AtFlags, CWD, linkat};

use crate::image::{Image, ImageError};
use crate::options;
use crate::vdso;

/// `DIRECTORY/BUILDID/debuginfo`, as elfutils' client writes it and gdb, perf and Mallow read it.
#[derive(Clone, Debug)]
pub struct DebugCache {
    directory: PathBuf,
}

/// Why a file is not the debug file that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DebugFileError {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is no whole ELF file, for this reason.
    #[error("no debug file: {0}")]
    NotElf(String),
    /// The debug file is of another build: its build-id, empty without one.
    #[error("the debug file of another build, {}", if .0.is_empty() { "without a build-id".to_owned() } else { hex(.0) })]
    OtherBuild(Vec<u8>),
}

impl DebugCache {
    /// The user's: `DEBUGINFOD_CACHE_PATH`, or a directory in the user's cache. None without a home directory.
    pub fn of_user() -> Option<Self> {
        options::debuginfod_cache().map(|directory| Self { directory })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A file without a name, for the debug file of this build-id: what ends mallow leaves nothing of it behind.
    pub fn begin(&self, build_id: &[u8]) -> io::Result<NewDebugFile> {
        DirBuilder::new().recursive(true).mode(0o755).create(&self.directory)?;
        let directory = self.directory.join(hex(build_id));
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let entry = CacheEntry(directory);
        Ok(NewDebugFile { file: tempfile::tempfile_in(&entry.0)?, entry, build_id: build_id.to_vec() })
    }
}

/// The directory of a build-id. One in which nothing is vanishes when this is dropped.
#[derive(Debug)]
struct CacheEntry(PathBuf);

impl Drop for CacheEntry {
    fn drop(&mut self) {
        // It fails for one that holds a file.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A debug file that is being written.
#[derive(Debug)]
pub struct NewDebugFile {
    file: File,
    entry: CacheEntry,
    build_id: Vec<u8>,
}

impl Write for NewDebugFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewDebugFile {
    /// Verifies the file, and puts it into the cache in one step: a whole ELF file with the build-id that was asked
    /// for.
    pub fn keep(mut self) -> Result<PathBuf, DebugFileError> {
        self.file.flush()?;
        let unnamed = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        verify(&unnamed, &self.build_id)?;
        self.file.set_permissions(Permissions::from_mode(0o400))?;
        let path = self.entry.0.join("debuginfo");
        // Another mallow that found nothing may have removed it.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.entry.0)?;
        if linkat(CWD, &unnamed, CWD, &path, AtFlags::SYMLINK_FOLLOW).is_ok() {
            return Ok(path);
        }
        // There is one, of another build or the empty mark of a miss; or the file system has no files without names.
        let mut beside = tempfile::Builder::new().prefix("debuginfo.").tempfile_in(&self.entry.0)?;
        self.file.rewind()?;
        io::copy(&mut self.file, &mut beside)?;
        beside.as_file().set_permissions(Permissions::from_mode(0o400))?;
        beside.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }
}

fn verify(path: &Path, build_id: &[u8]) -> Result<(), DebugFileError> {
    let not_elf = |error: ImageError| DebugFileError::NotElf(error.to_string());
    let image = Image::open(path).map_err(not_elf)?;
    let file = image.parse_any().map_err(not_elf)?;
    let found = image.build_id().map_err(not_elf)?;
    if found != build_id {
        return Err(DebugFileError::OtherBuild(found));
    }
    let ends = file.sections().filter_map(|section| section.file_range());
    let end = ends.map(|(start, length)| start.saturating_add(length)).max().unwrap_or(0);
    if end > image.len() as u64 {
        return Err(DebugFileError::NotElf(format!("it ends after {} of {end} bytes", image.len())));
    }
    Ok(())
}

/// The build-id of the debug file that would add names of this module; None if there is none to ask for.
pub fn missing_debug_file(module: &Module, summary: &ModuleSummary) -> Option<Vec<u8>> {
    if summary.notes.iter().any(|note| matches!(note, Note::SupplementaryMissing(_))) {
        let debug = summary.debug_file.as_deref().unwrap_or(Path::new(&module.path));
        let image = Image::open(debug).ok()?;
        let file = image.parse_any().ok()?;
        return file.gnu_debugaltlink().ok()?.map(|(_, build_id)| build_id.to_vec()).filter(|id| !id.is_empty());
    }
    let lacks = summary.located == 0 && summary.debug_file.is_none() && module.path != vdso::PATH;
    (lacks && module.build_id.len() > 1).then(|| module.build_id.clone())
}

/// A build-id as it is written.
pub fn hex(build_id: &[u8]) -> String {
    build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}
