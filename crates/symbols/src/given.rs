//! Files that a user names for modules which are not where they were, or which have more names elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use mallow_profile::Module;

use crate::image::{Image, ImageError, is_same};

/// Most files of a directory that are looked at.
const FILES: usize = 20_000;
/// Depth below the directory to which files are looked at.
const DEPTH: usize = 16;

/// Programs, libraries and debug files, by their build-ids and names, and a directory that holds recorded paths.
#[derive(Debug, Default)]
pub struct Given {
    below: Option<PathBuf>,
    named: Vec<Named>,
}

/// One path that was named: a file, or a directory with many.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
    used: AtomicBool,
}

impl Given {
    /// Files and directories, and where paths lead to. Fails for what is not there, and for a file that is no ELF file.
    pub fn new(paths: &[PathBuf], below: Option<&Path>) -> Result<Self, (PathBuf, io::Error)> {
        let mut named = Vec::new();
        for path in paths {
            let fail = |error| (path.clone(), error);
            let mut files = Vec::new();
            if fs::metadata(path).map_err(fail)?.is_dir() {
                let mut left = FILES;
                walk(path, DEPTH, &mut left, &mut files).map_err(fail)?;
            } else {
                let image = Image::open(path).and_then(|image| image.build_id());
                let build_id = image.map_err(|error| match error {
                    ImageError::Open(error) => fail(error),
                    ImageError::Format(why) => fail(io::Error::other(why)),
                })?;
                files.push((path.clone(), build_id));
            }
            named.push(Named { path: path.clone(), files, used: AtomicBool::new(false) });
        }
        if let Some(below) = below {
            fs::read_dir(below).map_err(|error| (below.to_owned(), error))?;
        }
        Ok(Self { below: below.map(Path::to_owned), named })
    }

    /// The file for a module: of its build-id, and where it has none, at its path or of its name.
    pub(crate) fn image(&self, module: &Module) -> Option<Image> {
        let inside = self.below.as_ref().map(|below| below.join(module.path.trim_start_matches('/')));
        if let Some(image) = inside.and_then(|path| Image::open(&path).ok())
            && (module.build_id.is_empty() || image.build_id().is_ok_and(|id| is_same(&module.build_id, &id)))
        {
            return Some(image);
        }
        let name = Path::new(&module.path).file_name();
        self.find(|path, id| match module.build_id.is_empty() {
            true => name.is_some() && path.file_name() == name,
            false => !id.is_empty() && is_same(&module.build_id, id),
        })
        .next()
    }

    /// Files of this build-id, which is not empty.
    pub(crate) fn of_build(&self, build_id: &[u8]) -> impl Iterator<Item = Image> {
        self.find(move |_, id| !build_id.is_empty() && id == build_id)
    }

    fn find(&self, is_it: impl Fn(&Path, &[u8]) -> bool) -> impl Iterator<Item = Image> {
        let all = self.named.iter().flat_map(|named| named.files.iter().map(move |file| (named, file)));
        all.filter(move |(_, (path, id))| is_it(path, id)).filter_map(|(named, (path, _))| {
            let image = Image::open(path).ok()?;
            named.used.store(true, Ordering::Relaxed);
            Some(image)
        })
    }

    /// Paths that were named and are of no module.
    pub fn unused(&self) -> impl Iterator<Item = &Path> {
        self.named.iter().filter(|named| !named.used.load(Ordering::Relaxed)).map(|named| named.path.as_path())
    }
}

/// ELF files of a directory and of those in it. Links are not followed, and what cannot be read is passed over.
fn walk(directory: &Path, depth: usize, left: &mut usize, files: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.flatten().take(*left).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let Some(fewer) = left.checked_sub(1) else { break };
        *left = fewer;
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            let _ = walk(&path, depth - 1, left, files);
        } else if kind.is_file()
            && let Ok(build_id) = Image::open(&path).and_then(|image| image.build_id())
        {
            files.push((path, build_id));
        }
    }
    Ok(())
}
