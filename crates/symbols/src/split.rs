//! Split DWARF: units whose functions are in a `.dwp` package or in `.dwo` files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use addr2line::gimli::{self, EndianSlice, LittleEndian};

use crate::image::Image;
use crate::nesting;
use crate::sections::{self, Slice, Store};
use mallow_profile::Note;

/// Sources of the split units of one module.
pub(crate) struct Split<'a> {
    store: &'a Store,
    package: Option<gimli::DwarfPackage<Slice<'a>>>,
}

impl<'a> Split<'a> {
    /// Opens `FILE.dwp` beside one of `images`, if there is one.
    pub fn new<'i>(images: impl Iterator<Item = &'i Path>, store: &'a Store) -> Self {
        let package = images.into_iter().find_map(|path| {
            let mut path = path.as_os_str().to_os_string();
            path.push(".dwp");
            package(Path::new(&path), store)
        });
        Self { store, package }
    }

    /// The unit that addr2line asks for; without one it goes on with the lines alone.
    pub fn load(&self, load: SplitDwarfLoad<Slice<'a>>, notes: &mut Vec<Note>) -> Option<Arc<gimli::Dwarf<Slice<'a>>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
            && nesting::check(&unit, None).is_ok()
        {
            return Some(Arc::new(unit));
        }
        let part = |slice: &Option<Slice<'a>>| slice.map(|slice| PathBuf::from(OsStr::from_bytes(slice.slice())));
        let mut path = part(&load.comp_dir).unwrap_or_default();
        path.push(part(&load.path)?);
        let found = self.object(&path, &load);
        let note = Note::SplitMissing(path);
        if found.is_none() && notes.len() < NOTES && !notes.contains(&note) {
            notes.push(note);
        }
        found
    }

    fn object(&self, path: &Path, load: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<gimli::Dwarf<Slice<'a>>>> {
        let image = self.store.images.alloc(Image::open(path).ok()?);
        let file = image.parse_any().ok()?;
        let mut dwarf = gimli::Dwarf::load(|id| match id.dwo_name().filter(|_| sections::is_needed(id)) {
            Some(name) => sections::load(&file, name, self.store),
            None => Ok(EndianSlice::new(&[], LittleEndian)),
        })
        .ok()?;
        let header = dwarf.units().next().ok()??;
        if dwarf.unit(header).ok()?.dwo_id != Some(load.dwo_id) || nesting::check(&dwarf, None).is_err() {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        Some(Arc::new(dwarf))
    }
}

/// Most missing files to report: a few, not each of thousands.
const NOTES: usize = 8;

fn package<'a>(path: &Path, store: &'a Store) -> Option<gimli::DwarfPackage<Slice<'a>>> {
    let image = store.images.alloc(Image::open(path).ok()?);
    let file = image.parse_any().ok()?;
    let empty = EndianSlice::new(&[], LittleEndian);
    // All sections: a unit's part is cut out of each one.
    let load = |id: gimli::SectionId| id.dwo_name().map_or(Ok(empty), |name| sections::load(&file, name, store));
    gimli::DwarfPackage::load(|id| load(id).map_err(|_| gimli::Error::MissingSplitUnit), empty).ok()
}
