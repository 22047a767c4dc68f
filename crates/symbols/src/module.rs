//! One module: its files, its symbols, and the places that they name.

use std::sync::Arc;

use mallow_profile::{Frame, FrameId, Line, Module, NameSource, Note, Profile, StringId, Strings};
use object::Object;
use rustc_hash::FxHashMap;

use crate::demangle::{Style, demangle, is_mangled_bytes};
use crate::dwarf::{Dwarf, Position};
use crate::locate::{self, Files};
use crate::options::Options;
use crate::plt::Plt;
use crate::sections::{Store, mini_debug_info};
use crate::symtab::SymbolTable;
use crate::unwind_entries::UnwindEntries;

/// The function of a place with only file and line known.
pub const UNKNOWN: &str = "??";

/// Limit of a name's bytes; the rest is cut off: a damaged table may give a whole file as one name, many times.
const LENGTH: usize = 32 << 10;

/// Limit of other names of one code: the rest says nothing more, and a damaged table may have a million.
const FOLDED: usize = 64;

pub(crate) struct ModuleSymbols {
    pub files: Files,
    pub symbols: SymbolTable,
    pub plt: Plt,
    pub style: Style,
    /// The best symbol table of the module.
    pub found: NameSource,
}

impl ModuleSymbols {
    /// Reads what the module's files say. Debug information is not read yet.
    pub fn new(module: &Module, ended_unix_ms: u64, options: &Options, pids: &[u32]) -> Result<Self, NameSource> {
        let files = locate::files(module, ended_unix_ms, options, pids)?;
        let parsed = files.image.parse().map_err(|e| NameSource::Unreadable(e.to_string()))?;
        let go = parsed.section_by_name(".go.buildinfo").is_some();
        let style = Style { rust_hashes: options.rust_hashes, verbatim: go };
        let mini = mini_debug_info(&files.image).map(Arc::new);
        let images: Vec<_> = [Some(files.image.clone()), files.separate.clone(), mini].into_iter().flatten().collect();
        let has = |table: fn(&object::File) -> bool| images.iter().any(|i| i.parse().is_ok_and(|file| table(&file)));
        let found = if has(|file| file.symbols().next().is_some()) {
            NameSource::SymbolTable
        } else if has(|file| file.dynamic_symbols().next().is_some()) {
            NameSource::DynamicSymbols
        } else {
            NameSource::Nothing
        };
        let symbols = SymbolTable::new(images);
        let local = |address| symbols.find(address).map(|name| String::from_utf8_lossy(name).into());
        let plt = Plt::new(&files.image, local);
        Ok(Self { files, symbols, plt, style, found })
    }

    /// Fills the lines of `frames`, in the order of their addresses: neighbours are in one unit, and often at one
    /// place.
    pub fn fill(&self, profile: &mut Profile, frames: &[FrameId], notes: &mut Vec<Note>) {
        let Profile { frames: all, strings, .. } = profile;
        let empty = frames.iter().filter(|id| all[id.0 as usize].lines.is_empty());
        let mut probes: Vec<_> = empty.map(|&id| (probe(&all[id.0 as usize]), id)).collect();
        if probes.is_empty() {
            return;
        }
        probes.sort_unstable();
        let store = Store::default();
        let addresses: Vec<_> = probes.iter().map(|probe| probe.0).collect();
        let mut dwarf = match Dwarf::new(&self.files, &store, &addresses) {
            Some(Err(why)) => {
                damaged(notes, why);
                None
            }
            Some(Ok(dwarf)) => Some(dwarf),
            None => None,
        };
        let mut batch = Batch { known: self, names: FxHashMap::default(), folded: None, strings };
        let file = self.files.image.parse().ok();
        let unwind = file.as_ref().and_then(UnwindEntries::of);
        let mut last: Option<(u64, FrameId)> = None;
        for (address, id) in probes {
            let lines = match last {
                Some((same, before)) if same == address => all[before.0 as usize].lines.clone(),
                _ => batch.lines(address, dwarf.as_mut(), notes),
            };
            let folded = lines.last().and_then(|outermost| batch.folded(address, outermost.function));
            let frame = &mut all[id.0 as usize];
            if lines.is_empty() {
                // Calls of one function are known to be of one, whatever its name is.
                frame.start = unwind.as_ref().and_then(|unwind| unwind.indexed(address)).map(|range| range.start);
            }
            (frame.lines, frame.folded) = (lines, folded);
            last = Some((address, id));
        }
    }
}

/// The address to look up: inside the call instruction for a return address.
fn probe(frame: &Frame) -> u64 {
    frame.address.saturating_sub(u64::from(!frame.exact))
}

fn damaged(notes: &mut Vec<Note>, why: String) {
    if !notes.iter().any(|note| matches!(note, Note::Damaged(_))) {
        notes.push(Note::Damaged(why));
    }
}

/// One pass over a module's addresses.
struct Batch<'k, 's> {
    known: &'k ModuleSymbols,
    strings: &'s mut Strings,
    /// Raw name → the name to show. Inlined functions come again and again.
    names: FxHashMap<Box<[u8]>, StringId>,
    /// The last function with several names, by its index and the name that is shown, and its other names.
    folded: Option<((u32, StringId), Option<StringId>)>,
}

impl Batch<'_, '_> {
    fn lines(&mut self, address: u64, dwarf: Option<&mut Dwarf>, notes: &mut Vec<Note>) -> Vec<Line> {
        let mut lines = Vec::new();
        // The outermost function is not always named, or named without its scope.
        let mut outermost_is_bare = true;
        if let Some(dwarf) = dwarf {
            let result = dwarf.find(address, notes, |Position { function, file, line }| {
                outermost_is_bare = !function.is_some_and(is_mangled_bytes);
                let function = self.name(function.filter(|name| !name.is_empty()).unwrap_or(UNKNOWN.as_bytes()));
                let file =
                    file.filter(|file| !file.is_empty() && file.len() <= LENGTH).map(|file| self.strings.intern(file));
                lines.push(Line { function, file, line });
            });
            if let Err(why) = result {
                damaged(notes, why);
            }
        }
        match lines.last() {
            None => lines.extend(self.symbol(address)),
            Some(outermost) if outermost_is_bare => {
                let unknown = self.strings.get(outermost.function) == UNKNOWN;
                if let Some(raw) = self.known.symbols.find(address).filter(|raw| unknown || is_mangled_bytes(raw)) {
                    let function = self.name(raw);
                    if let Some(outermost) = lines.last_mut() {
                        outermost.function = function;
                    }
                }
            }
            Some(_) => {}
        }
        lines
    }

    /// The names of other functions whose code the linker or the compiler found to be the same as that at `address`, in
    /// one string ([`Frame::folded`]). `shown`: the name that it goes by. Names tell such functions from one that has
    /// several: those of constructors and of versions read the same, and an alias of a C function is no mangled name.
    fn folded(&mut self, address: u64, shown: StringId) -> Option<StringId> {
        let known = self.known;
        let (index, aliases) = known.symbols.aliases(address)?;
        if let Some((of, folded)) = self.folded
            && of == (index, shown)
        {
            return folded;
        }
        let raw = known.symbols.find(address).filter(|raw| is_mangled_bytes(raw));
        let mut names: Vec<StringId> = Vec::new();
        let mut bytes = 0;
        for raw in raw.into_iter().chain(aliases).take(4 * FOLDED) {
            let name = self.name(raw);
            let text = self.strings.get(name);
            if names.len() > FOLDED || bytes + text.len() > LENGTH {
                break;
            }
            if !names.contains(&name) && !text.contains(" thunk to ") {
                bytes += text.len();
                names.push(name);
            }
        }
        let is_folded = names.len() > 1;
        names.retain(|name| *name != shown);
        let names: Vec<&str> = names.iter().map(|name| self.strings.get(*name)).collect();
        let folded = is_folded.then(|| names.join("\n")).map(|names| self.strings.intern(&names));
        self.folded = Some(((index, shown), folded));
        folded
    }

    /// The function by symbol table or PLT.
    fn symbol(&mut self, address: u64) -> Option<Line> {
        let known = self.known;
        let function = match known.symbols.find(address) {
            Some(raw) => self.name(raw),
            None => {
                let name = known.plt.find(address)?;
                self.strings.intern(&format!("{}@plt", demangle(name, known.style)))
            }
        };
        Some(Line { function, file: None, line: 0 })
    }

    fn name(&mut self, raw: &[u8]) -> StringId {
        let raw = &raw[..raw.len().min(LENGTH)];
        if let Some(&id) = self.names.get(raw) {
            return id;
        }
        let id = self.strings.intern(&demangle(&String::from_utf8_lossy(raw), self.known.style));
        self.names.insert(raw.into(), id);
        id
    }
}
