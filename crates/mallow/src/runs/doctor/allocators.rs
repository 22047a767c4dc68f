//! The allocators that are in a process, and whether the entries of their functions can be patched.

use std::collections::BTreeMap;

use mallow_capture::inside::seeming_in_library;
use mallow_capture::preflight::{Family, Finding, Status, family_of, is_marker, maker_of};
use mallow_patch::{Code, Detour, Draft, Function, Maps, Memory, Module, Refusal};
use mallow_symbols::{FunctionSymbol, FunctionSymbols, SymbolSource, functions};
use serde::Serialize;

/// An allocator in a module.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Allocator {
    /// Name of the allocator: `glibc`, `jemalloc`, ….
    name: String,
    /// Path of the module, as the process has it.
    module: String,
    /// Source of the functions' addresses: `exported names`, `symbol table`, `compressed symbol table` or `debug file`.
    symbols: &'static str,
    /// Path of the module that gets the program's calls of malloc. Left out where the allocator has function names of
    /// its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    malloc_goes_to: Option<String>,
    /// Functions of the allocator, one for each address.
    entries: Vec<EntryCheck>,
}

/// A function of an allocator.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EntryCheck {
    /// Names of the function: its address may have several.
    names: Vec<String>,
    /// Link-time address of the function in the module.
    address: u64,
    /// Mallow can patch the function's first instructions.
    patchable: bool,
    /// Bytes of instructions that a patch would displace; left out where the function cannot be patched.
    #[serde(skip_serializing_if = "Option::is_none")]
    displaced_bytes: Option<u64>,
    /// Reason why the function cannot be patched, a sentence; left out where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Default)]
pub struct Allocators {
    pub all: Vec<Allocator>,
    /// Paths of modules that export names alone: what is inside of them under other names is not known.
    pub stripped: Vec<String>,
    /// Libraries among these with the messages of an allocator, and its name.
    pub hidden: Vec<(String, &'static str)>,
}

/// Looks for allocators in modules, which come in the order of the dynamic linker's search.
pub fn allocators(modules: &[&Module], maps: &Maps, memory: &Memory) -> Allocators {
    let wanted = |name: &str| family_of(name).is_some() || is_marker(name);
    let symbols: Vec<_> = modules.iter().map(|module| functions(&module.file, &wanted).unwrap_or_default()).collect();
    let exports = |symbols: &FunctionSymbols| {
        symbols.wanted.iter().any(|symbol| symbol.name == "malloc" && symbol.source == SymbolSource::Exported)
    };
    let first = symbols.iter().position(exports).map(|index| short(&modules[index].path).to_owned());
    let mut all = Vec::new();
    let (mut stripped, mut hidden) = (Vec::new(), Vec::new());
    for (module, symbols) in modules.iter().zip(&symbols) {
        if !symbols.complete {
            stripped.push(module.path.clone());
        }
        let groups = groups(module, symbols);
        if groups.is_empty() {
            let seeming = if symbols.complete { None } else { seeming_in_library(&module.file) };
            hidden.extend(seeming.map(|name| (module.path.clone(), name)));
            continue;
        }
        let entries = Entries::of(module, maps, memory, symbols);
        for ((name, own_names), symbols) in groups {
            let source = symbols.iter().map(|symbol| symbol.source).max().unwrap_or(SymbolSource::Exported);
            all.push(Allocator {
                name,
                module: module.path.clone(),
                symbols: word(source),
                malloc_goes_to: first.clone().filter(|_| !own_names),
                entries: entries.check(&symbols),
            });
        }
    }
    Allocators { all, stripped, hidden }
}

fn word(source: SymbolSource) -> &'static str {
    match source {
        SymbolSource::Exported => "exported names",
        SymbolSource::SymbolTable => "symbol table",
        SymbolSource::MiniDebugInfo => "compressed symbol table",
        SymbolSource::DebugFile => "debug file",
    }
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The allocation functions of a module, by allocator. True: they have names of their own, not the C library's.
fn groups<'a>(module: &Module, symbols: &'a FunctionSymbols) -> BTreeMap<(String, bool), Vec<&'a FunctionSymbol>> {
    let maker = maker_of(symbols.wanted.iter().map(|symbol| symbol.name.as_str()));
    let defines = |name: &str| symbols.wanted.iter().any(|symbol| symbol.name == name);
    let stands_in = defines("malloc");
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for symbol in &symbols.wanted {
        let Some(family) = family_of(&symbol.name) else { continue };
        // A method or a local function may have one of these names: they count where the module stands in for the C
        // library.
        let key = match family {
            Family::C | Family::Cpp if stands_in => (maker.unwrap_or("an allocator of unknown make").to_owned(), false),
            Family::C => continue,
            // They call malloc.
            Family::Cpp if module.soname.starts_with("libstdc++.so") || module.soname.starts_with("libc++.so") => {
                continue;
            }
            Family::Cpp => ("operator new, which need not call malloc".to_owned(), true),
            Family::Jemalloc | Family::Mimalloc | Family::Tcmalloc | Family::Snmalloc | Family::Rust => {
                let name = family.name().unwrap_or_default().to_owned();
                let same = stands_in && maker == Some(name.as_str());
                (name, !same)
            }
        };
        groups.entry(key).or_default().push(symbol);
    }
    groups
}

/// The code of a module whose functions would be patched.
struct Entries<'a> {
    module: &'a Module,
    maps: &'a Maps,
    code: Code,
}

impl<'a> Entries<'a> {
    fn of(module: &'a Module, maps: &'a Maps, memory: &Memory, symbols: &FunctionSymbols) -> Self {
        let starts = symbols.starts.iter().map(|start| module.bias.wrapping_add(*start)).collect();
        Self { module, maps, code: Code::read(module, memory, starts) }
    }

    /// Each address once, with all of its names: whether it can be patched, by the plan for all of them.
    fn check(&self, symbols: &[&FunctionSymbol]) -> Vec<EntryCheck> {
        let mut by_address: BTreeMap<u64, Vec<&FunctionSymbol>> = BTreeMap::new();
        for symbol in symbols {
            by_address.entry(symbol.address).or_default().push(symbol);
        }
        let detours = by_address.iter().map(|(address, symbols)| self.detour(*address, symbols)).collect();
        let (draft, refused) = Draft::of(&self.code, detours);
        let refused: BTreeMap<u64, Refusal> =
            refused.into_iter().map(|(function, why)| (function.address, why)).collect();
        let room = self.maps.free_area_near(draft.module(), draft.bytes()).is_some();
        let check = |(address, symbols): (u64, Vec<&FunctionSymbol>)| {
            let at = self.module.bias.wrapping_add(address);
            let displaced_bytes = draft.displaced_bytes(at).filter(|_| room);
            let mut names: Vec<_> = symbols.iter().map(|symbol| symbol.name.clone()).collect();
            names.sort_by_key(|name| rank(name));
            EntryCheck {
                names,
                address,
                patchable: displaced_bytes.is_some(),
                displaced_bytes,
                refused: match displaced_bytes {
                    Some(_) => None,
                    None => Some(refused.get(&at).unwrap_or(&Refusal::OutOfReach).to_string()),
                },
            }
        };
        by_address.into_iter().map(check).collect()
    }

    fn detour(&self, link_address: u64, symbols: &[&FunctionSymbol]) -> Detour {
        let address = self.module.bias.wrapping_add(link_address);
        let size = symbols.iter().map(|symbol| symbol.size).max().unwrap_or(0);
        let ifunc = symbols.iter().any(|symbol| symbol.ifunc);
        Detour { function: Function { address, size, ifunc }, to: 0, data: None }
    }
}

/// Rank of a function's name in a check: usual functions first, short names first.
fn rank(name: &str) -> (usize, usize) {
    const FIRST: [&str; 4] = ["malloc", "calloc", "realloc", "free"];
    let plain = name.rsplit('_').next().unwrap_or(name);
    let prefixed = |known: &&str| *known == plain;
    (FIRST.iter().position(prefixed).unwrap_or(FIRST.len()), name.len())
}

impl Allocator {
    pub fn finding(&self) -> Finding {
        const CHECK: &str = "allocator";
        const NAMED: usize = 4;
        let module = short(&self.module);
        let (good, bad): (Vec<_>, Vec<_>) = self.entries.iter().partition(|entry| entry.patchable);
        let mut found = format!("{} in {module} ({}): ", self.name, self.symbols);
        let mut names: Vec<&str> = good.iter().filter_map(|entry| entry.names.first()).map(String::as_str).collect();
        names.sort_by_key(|name| rank(name));
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        found += &match (names.is_empty(), more) {
            (true, _) => "no function can be patched".to_owned(),
            (false, 0) => format!("{} can be patched", names.join(", ")),
            (false, more) => format!("{} and {more} more can be patched", names.join(", ")),
        };
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for entry in &bad {
            let name = entry.names.first().map(String::as_str).unwrap_or_default();
            reasons.entry(entry.refused.as_deref().unwrap_or_default()).or_default().push(name);
        }
        for (why, names) in reasons {
            found += &format!("; not {} ({why})", names.join(", "));
        }
        let elsewhere = self.malloc_goes_to.as_deref().filter(|other| *other != module);
        if let Some(other) = elsewhere {
            found += &format!("; the program's calls of malloc go to {other}");
        }
        let status = match (good.is_empty(), bad.is_empty() || elsewhere.is_some()) {
            (true, false) if self.malloc_goes_to.is_some() => Status::Fails,
            (_, true) => Status::Works,
            _ => Status::Partly,
        };
        Finding { status, ..Finding::works(CHECK, found) }
    }
}
