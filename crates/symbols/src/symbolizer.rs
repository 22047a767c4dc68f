//! The whole: frames of a profile, module by module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use mallow_profile::{Frame, FrameId, Line, Module, ModuleId, Profile, StringId, Strings};
use object::Object;
use rustc_hash::FxHashMap;

use crate::code::{Code, CodeError};
use crate::demangle::{Style, demangle, is_mangled_bytes};
use crate::dwarf::{Dwarf, Position};
use crate::locate::{self, Files};
use crate::plt::Plt;
use crate::sections::{Store, mini_debug_info};
use crate::symtab::SymbolTable;
use mallow_profile::{Found, ModuleSummary, Note, Summary};

/// The function of a place of which only file and line are known.
pub const UNKNOWN: &str = "??";

/// The rest of longer names is cut off: a damaged table may give a whole file as one name, many times.
const LENGTH: usize = 32 << 10;

/// Where to look and what to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories with separate debug files, as `debug-file-directory` of gdb has them: searched in this order, for
    /// `.build-id/xx/rest.debug` and for what `.gnu_debuglink` names.
    pub debug_directories: Vec<PathBuf>,
    /// Where `debuginfod-find`, and tools with a client, keep what they fetched: `BUILDID/debuginfo`.
    pub debuginfod_cache: Option<PathBuf>,
    /// Keep the hash at the end of Rust names.
    pub rust_hashes: bool,
}

impl Default for Options {
    fn default() -> Self {
        let debug_directories = vec![PathBuf::from("/usr/lib/debug")];
        Self { debug_directories, debuginfod_cache: debuginfod_cache(), rust_hashes: false }
    }
}

/// As debuginfod's client finds it: DEBUGINFOD_CACHE_PATH, else a directory in the user's cache.
fn debuginfod_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(cache.join("debuginfod_client"))
    })
}

/// Finds names and lines. It keeps the symbol tables of modules that it has seen; debug information is read again by
/// each call that needs it, and released at its end.
pub struct Symbolizer {
    options: Options,
    /// By path and build-id, and by when the recording ended where there is no build-id, so that one symbolizer may
    /// serve several profiles.
    modules: FxHashMap<(Module, u64), Arc<Result<Known, Found>>>,
}

/// What is kept of a module.
pub(crate) struct Known {
    pub files: Files,
    pub symbols: SymbolTable,
    pub plt: Plt,
    pub style: Style,
    /// The best symbol table.
    pub found: Found,
}

impl Symbolizer {
    /// A symbolizer that has read nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, modules: FxHashMap::default() }
    }

    /// Fills the lines of all frames of the profile.
    pub fn symbolize_all(&mut self, profile: &mut Profile) -> Summary {
        let all = u32::try_from(profile.frames.len()).unwrap_or(u32::MAX);
        self.symbolize(profile, &mut (0..all).map(FrameId))
    }

    /// Fills the lines of `frames`. Those that have lines keep them; ids of another profile are passed over. Each call
    /// reads the debug information of its modules anew, so ask for many frames at once.
    pub fn symbolize(&mut self, profile: &mut Profile, frames: &mut dyn Iterator<Item = FrameId>) -> Summary {
        let mut summary = Summary::default();
        let mut seen = vec![false; profile.frames.len()];
        let mut modules: BTreeMap<ModuleId, Vec<FrameId>> = BTreeMap::new();
        for id in frames {
            let Some(frame) = profile.frames.get(id.0 as usize) else { continue };
            if std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            match frame.module.filter(|module| profile.modules.len() > module.0 as usize) {
                Some(module) => modules.entry(module).or_default().push(id),
                None => {
                    summary.without_module += 1;
                    summary.without_module_named += u32::from(!frame.lines.is_empty());
                }
            }
        }
        for (module, frames) in modules {
            summary.modules.push(self.module(profile, module, &frames));
        }
        summary
    }

    /// The machine code of a module of the profile.
    pub fn code(&mut self, profile: &Profile, id: ModuleId) -> Result<Code, CodeError> {
        match profile.modules.get(id.0 as usize) {
            Some(_) => Code::new(self.known(profile, id)),
            None => Err(CodeError::Module(Found::Nothing)),
        }
    }

    /// Precondition: the profile has the module.
    pub(crate) fn known(&mut self, profile: &Profile, id: ModuleId) -> Arc<Result<Known, Found>> {
        let module = &profile.modules[id.0 as usize];
        let ended_unix_ms = profile.started_unix_ms.saturating_add(profile.duration_ms);
        let key = (module.clone(), if module.build_id.is_empty() { ended_unix_ms } else { 0 });
        let open = || Arc::new(Known::new(module, ended_unix_ms, &self.options));
        self.modules.entry(key).or_insert_with(open).clone()
    }

    pub(crate) fn module(&mut self, profile: &mut Profile, id: ModuleId, frames: &[FrameId]) -> ModuleSummary {
        let known = self.known(profile, id);
        let mut summary = ModuleSummary {
            module: id,
            found: Found::Nothing,
            debug_file: None,
            notes: Vec::new(),
            frames: frames.len() as u32,
            named: 0,
            located: 0,
            remedy: None,
        };
        match &*known {
            Err(found) => summary.found = found.clone(),
            Ok(known) => {
                summary.found = known.found.clone();
                summary.debug_file = known.files.separate.as_ref().map(|image| image.path.clone());
                summary.notes.clone_from(&known.files.notes);
                known.fill(profile, frames, &mut summary.notes);
            }
        }
        for frame in frames {
            let lines = &profile.frames[frame.0 as usize].lines;
            summary.named += u32::from(lines.iter().any(|line| profile.strings.get(line.function) != UNKNOWN));
            summary.located += u32::from(lines.iter().any(|line| line.file.is_some()));
        }
        // A program without debug information has a little all the same, of the C library's start-up code.
        if summary.located > 0 {
            summary.found = Found::DebugInformation;
        }
        summary
    }
}

impl Known {
    fn new(module: &Module, ended_unix_ms: u64, options: &Options) -> Result<Self, Found> {
        let files = locate::files(module, ended_unix_ms, options)?;
        let parsed = files.image.parse().map_err(|e| Found::Unreadable(e.to_string()))?;
        let go = parsed.section_by_name(".go.buildinfo").is_some();
        let style = Style { rust_hashes: options.rust_hashes, verbatim: go };
        let mini = mini_debug_info(&files.image).map(Arc::new);
        let images: Vec<_> = [Some(files.image.clone()), files.separate.clone(), mini].into_iter().flatten().collect();
        let has = |table: fn(&object::File) -> bool| images.iter().any(|i| i.parse().is_ok_and(|file| table(&file)));
        let found = if has(|file| file.symbols().next().is_some()) {
            Found::SymbolTable
        } else if has(|file| file.dynamic_symbols().next().is_some()) {
            Found::DynamicSymbols
        } else {
            Found::Nothing
        };
        let symbols = SymbolTable::new(images);
        let local = |address| symbols.find(address).map(|name| String::from_utf8_lossy(name).into());
        let plt = Plt::new(&files.image, local);
        Ok(Self { files, symbols, plt, style, found })
    }

    /// Fills the lines of `frames`, in the order of their addresses: neighbours are in one unit, and often at one place.
    fn fill(&self, profile: &mut Profile, frames: &[FrameId], notes: &mut Vec<Note>) {
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
        let mut batch = Batch { known: self, names: FxHashMap::default(), strings };
        let mut last: Option<(u64, FrameId)> = None;
        for (address, id) in probes {
            let lines = match last {
                Some((same, before)) if same == address => all[before.0 as usize].lines.clone(),
                _ => batch.lines(address, dwarf.as_mut(), notes),
            };
            all[id.0 as usize].lines = lines;
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
    known: &'k Known,
    strings: &'s mut Strings,
    /// Raw name → the name to show. Inlined functions come again and again.
    names: FxHashMap<Box<[u8]>, StringId>,
}

impl Batch<'_, '_> {
    fn lines(&mut self, address: u64, dwarf: Option<&mut Dwarf>, notes: &mut Vec<Note>) -> Vec<Line> {
        let mut lines = Vec::new();
        // The outermost function is not always told, or told without its scope.
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
