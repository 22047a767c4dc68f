//! Debug information: address → inlined functions and lines, through addr2line.

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use addr2line::{Context, LookupContinuation, LookupResult};

use crate::demangle;
use crate::image::Image;
use crate::locate::Files;
use crate::nesting;
use crate::scope::{self, Scopes};
use crate::sections::{self, Slice, Store};
use crate::split::Split;
use mallow_profile::Note;

/// The debug information of one module. It lives for one batch of addresses: what addr2line keeps of each unit that it
/// was asked about is most of the memory.
pub(crate) struct Dwarf<'a> {
    context: Context<Slice<'a>>,
    split: Split<'a>,
    scopes: Scopes,
}

/// A function at an address, inlined or not.
pub(crate) struct Position<'d> {
    /// Name in the debug information: mangled, or a bare name.
    pub function: Option<&'d [u8]>,
    pub file: Option<&'d str>,
    /// Line number; 0 where unknown.
    pub line: u32,
}

impl<'a> Dwarf<'a> {
    /// Reads the list of units; None where no file has debug information. `probes` are the addresses that will be
    /// asked for, sorted.
    pub fn new(files: &'a Files, store: &'a Store, probes: &[u64]) -> Option<Result<Self, String>> {
        let debug = files.debug()?;
        Some(Self::read(files, debug, store, probes))
    }

    fn read(files: &'a Files, debug: &'a Image, store: &'a Store, probes: &[u64]) -> Result<Self, String> {
        let mut dwarf = load(debug, store)?;
        if let Some(image) = &files.supplementary {
            dwarf.set_sup(load(image, store)?);
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        nesting::check(&dwarf, Some(probes))?;
        let context = Context::from_dwarf(dwarf).map_err(|e| e.to_string())?;
        let paths = [&files.image.path, &debug.path];
        let split = Split::new(paths.into_iter().map(|path| path.as_path()), store);
        Ok(Self { context, split, scopes: Scopes::default() })
    }

    /// Calls `each` for the functions at `address`, the innermost first.
    pub fn find(&mut self, address: u64, notes: &mut Vec<Note>, mut each: impl FnMut(Position)) -> Result<(), String> {
        // addr2line looks for the range from this address to the next.
        if address == u64::MAX {
            return Ok(());
        }
        let mut lookup = self.context.find_frames(address);
        let frames = loop {
            lookup = match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => continuation.resume(self.split.load(load, notes)),
            };
        };
        let mut frames = frames.map_err(|e| e.to_string())?;
        while let Some(frame) = frames.next().map_err(|e| e.to_string())? {
            let mut function = frame.function.as_ref().map(|function| function.name.slice());
            if let (Some(bare), Some(entry)) = (&frame.function, frame.dw_die_offset)
                && scope::is_cpp(bare.language)
                && !demangle::is_mangled_bytes(bare.name.slice())
                && let Some(unit) = self.context.find_dwarf_and_unit(address).skip_all_loads()
                && let Some(whole) = self.scopes.name(unit, entry)
            {
                function = Some(whole.as_bytes());
            }
            // Without the split unit, the line is that of the innermost inlined function, which nothing names: it would
            // pass for one of the function around it.
            if frame.function.is_none() && lacks_split_unit(&self.context, address) {
                continue;
            }
            let location = frame.location;
            let file = location.as_ref().and_then(|location| location.file);
            each(Position { function, file, line: location.and_then(|location| location.line).unwrap_or(0) });
        }
        Ok(())
    }
}

/// Whether the unit at this address is a skeleton, whose functions are in a file that is not here. clang puts functions
/// with inlined calls into the skeleton too (`-fsplit-dwarf-inlining`): the others have none then, and their lines are
/// their own.
fn lacks_split_unit(context: &Context<Slice>, address: u64) -> bool {
    let Some(unit) = context.find_dwarf_and_unit(address).skip_all_loads() else { return false };
    let is_skeleton = unit.dwo_name().is_ok_and(|name| name.is_some());
    let mut entries = unit.entries();
    is_skeleton && entries.next_entry().is_ok() && entries.current().is_some_and(|root| !root.has_children())
}

fn load<'a>(image: &'a Image, store: &'a Store) -> Result<gimli::Dwarf<Slice<'a>>, String> {
    let file = image.parse_any().map_err(|e| e.to_string())?;
    gimli::Dwarf::load(|id| match sections::is_needed(id) {
        true => sections::load(&file, id.name(), store),
        false => Ok(EndianSlice::new(&[], LittleEndian)),
    })
}
