//! Which files to read for a module: its own, and its separate debug files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mallow_profile::Module;
use object::{Object, ObjectSection};

use crate::image::{Image, ImageError, is_same};
use crate::mapped;
use crate::options::Options;
use crate::vdso;
use mallow_profile::{NameSource, Note};

pub(crate) struct Files {
    pub image: Arc<Image>,
    /// The separate debug file of the module.
    pub separate: Option<Arc<Image>>,
    /// The file of debug information that `image` or `separate` shares with others (dwz).
    pub supplementary: Option<Arc<Image>>,
    pub notes: Vec<Note>,
}

impl Files {
    /// The image that has the debug information, if one has.
    pub fn debug(&self) -> Option<&Arc<Image>> {
        [Some(&self.image), self.separate.as_ref()].into_iter().flatten().find(|image| has_dwarf(image))
    }
}

/// Opens the module's file, if it is the one that was recorded, and its debug files. Where it is not, as on another
/// machine, a debug file of its build-id does as well. `ended_unix_ms` is when the recording ended; 0 where unknown.
/// `pids` are processes that may still have a file that was removed or replaced.
pub(crate) fn files(module: &Module, ended_unix_ms: u64, options: &Options, pids: &[u32]) -> Result<Files, NameSource> {
    let mut notes = Vec::new();
    let given = options.given.as_ref().and_then(|given| given.image(module));
    let image = match given.map_or_else(|| own(module, ended_unix_ms, options), Ok) {
        Ok(image) => image,
        Err(found) => match mapped::image(module, pids) {
            Some(image) => image,
            None => by_build_id(&module.build_id, options, &mut notes).ok_or(found)?,
        },
    };
    let mut files = Files { image: Arc::new(image), separate: None, supplementary: None, notes };
    if !has_dwarf(&files.image) {
        files.separate = separate(&files.image, options, &mut files.notes).map(Arc::new);
    }
    if let Some(debug) = files.debug().cloned() {
        files.supplementary = supplementary(&debug, options, &mut files.notes).map(Arc::new);
    }
    Ok(files)
}

/// The module's own file: below the root directory of its process, or here.
fn own(module: &Module, ended_unix_ms: u64, options: &Options) -> Result<Image, NameSource> {
    let path = Path::new(&module.path);
    let below = options.root.as_ref().map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    if let Some(Ok(image)) = below.map(|path| same(module, Image::open(&path), ended_unix_ms)) {
        return Ok(image);
    }
    let image = if module.path == vdso::PATH { vdso::image() } else { Image::open(path) };
    same(module, image, ended_unix_ms)
}

/// The file, if it is the one that was recorded.
fn same(module: &Module, image: Result<Image, ImageError>, ended_unix_ms: u64) -> Result<Image, NameSource> {
    let image = image.map_err(|error| match error {
        ImageError::Open(e) => NameSource::FileGone(e.to_string()),
        ImageError::Format(why) => NameSource::Unreadable(why),
    })?;
    let build_id = image.build_id().map_err(|e| NameSource::Unreadable(e.to_string()))?;
    // What is not loaded with the file, the recording cannot have.
    let build_id = if module.build_id.is_empty() && !image.loads_build_id() { Vec::new() } else { build_id };
    match is_same(&module.build_id, &build_id) {
        true if build_id.is_empty() && ended_unix_ms > 0 && written_since(&image, ended_unix_ms) => {
            Err(NameSource::WrittenSince)
        }
        true => Ok(image),
        false => Err(NameSource::BuildIdDiffers { now: build_id }),
    }
}

/// A second's grace: clocks of file systems are coarse.
fn written_since(image: &Image, unix_ms: u64) -> bool {
    let ended = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms.saturating_add(1000)));
    let written = image.path.metadata().and_then(|file| file.modified());
    matches!((written, ended), (Ok(written), Some(ended)) if written > ended)
}

fn has_dwarf(image: &Image) -> bool {
    let Ok(file) = image.parse() else { return false };
    // In what `objcopy --only-keep-debug` left behind of a stripped section, there is no data.
    file.section_by_name(".debug_info").is_some_and(|section| section.file_range().is_some_and(|range| range.1 > 0))
}

fn separate(image: &Image, options: &Options, notes: &mut Vec<Note>) -> Option<Image> {
    let build_id = &image.build_id().ok()?[..];
    let given = options.given.as_ref().and_then(|given| given.of_build(build_id).find(has_dwarf));
    if given.is_some() {
        return given;
    }
    if let Some(found) = by_build_id(build_id, options, notes) {
        return Some(found);
    }
    let file = image.parse().ok()?;
    let (name, crc) = file.gnu_debuglink().ok()??;
    let name = Path::new(OsStr::from_bytes(name)).file_name()?;
    let folder = image.path.parent()?;
    let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let mut candidates = vec![folder.join(name), folder.join(".debug").join(name)];
    for directory in &options.debug_directories {
        for folder in [folder, &resolved] {
            candidates.push(directory.join(folder.strip_prefix("/").unwrap_or(folder)).join(name));
        }
    }
    candidates.dedup();
    for path in candidates {
        // The link of an unstripped file may name the file itself.
        if path == image.path {
            continue;
        }
        let Ok(found) = Image::open(&path) else { continue };
        let same_build = found.build_id().is_ok_and(|id| id.is_empty() || build_id.is_empty() || id == build_id);
        if same_build && crc32fast::hash(&found) == crc {
            return Some(found);
        }
        notes.push(Note::DebugFileDiffers(path));
    }
    notes.push(Note::DebugFileMissing(PathBuf::from(name)));
    None
}

/// The debug file by its build-id: DIRECTORY/.build-id/xx/rest.debug, or in debuginfod's cache.
fn by_build_id(build_id: &[u8], options: &Options, notes: &mut Vec<Note>) -> Option<Image> {
    let (first, rest) = build_id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let installed = options.debug_directories.iter().map(|d| d.join(format!(".build-id/{first:02x}/{rest}.debug")));
    let fetched = options.debuginfod_cache.iter().map(|cache| cache.join(format!("{first:02x}{rest}/debuginfo")));
    for path in installed.chain(fetched) {
        let Ok(found) = Image::open(&path) else { continue };
        // An empty file is how clients of debuginfod remember that no server has it.
        if found.is_empty() {
            continue;
        }
        if found.build_id().is_ok_and(|id| id == build_id) {
            return Some(found);
        }
        notes.push(Note::DebugFileDiffers(path));
    }
    None
}

/// The file that `.gnu_debugaltlink` names: what dwz took out of several debug files of a package.
fn supplementary(debug: &Image, options: &Options, notes: &mut Vec<Note>) -> Option<Image> {
    let file = debug.parse().ok()?;
    let (name, build_id) = file.gnu_debugaltlink().ok()??;
    let name = Path::new(OsStr::from_bytes(name));
    // The name is relative to the debug file, which may have been found through a symbolic link.
    let real = debug.path.canonicalize().unwrap_or_else(|_| debug.path.clone());
    let paths = [debug.path.parent(), real.parent()].into_iter().flatten().map(|folder| folder.join(name));
    for path in paths {
        let Ok(found) = Image::open(&path) else { continue };
        if found.build_id().is_ok_and(|id| id == build_id) {
            return Some(found);
        }
        notes.push(Note::DebugFileDiffers(path));
    }
    let found = by_build_id(build_id, options, notes);
    if found.is_none() {
        notes.push(Note::SupplementaryMissing(name.to_path_buf()));
    }
    found
}
