//! The allocators of a module, by its symbols.

use crate::preflight::{
    APART, Family, Signature, family_of, is_marker, is_sure, is_usable_size, maker_of, malloc_inlined_into, options_of,
    seeming, signature_in_library, signature_of, variable_of,
};
use mallow_symbols::{FunctionSymbol, FunctionSymbols, SymbolSource, functions};
use std::path::Path;

/// An allocator whose functions are to be patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// The allocator's maker, or which of the maker's functions these are: `operator new of jemalloc`.
    pub name: String,
    /// The last one, in the order of [`SymbolSource`], of the tables that `functions` were found in.
    pub source: SymbolSource,
    /// Functions with known arguments, by link-time address, each address once.
    pub functions: Vec<(FunctionSymbol, Signature)>,
    /// The link-time address of the allocator's function for the usable size of a block.
    pub usable: Option<u64>,
    /// The variable of the environment that this copy reads for how it gives free pages back.
    pub variable: Option<String>,
    /// Options that are compiled into this copy, as its environment variable would have them; empty: none.
    pub options: String,
    /// A function of the module that has an entry function of the allocator inlined: its calls go past the entry.
    /// Empty: none has.
    pub inlined_into: String,
    /// The module is a library that libmallow.so comes before; `functions` are those that are not interposed.
    pub library: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub allocators: Vec<Allocator>,
    /// Maker of an allocator whose texts are in a file without symbols.
    pub stripped: Option<&'static str>,
    pub starts: Vec<u64>,
}

/// What a module is in its process: whether what it exports comes before what libmallow.so does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Program,
    /// A library of the start, which libmallow.so comes before.
    Library,
    /// A library that was loaded later: its functions have no part in the search.
    LaterLibrary,
}

/// Looks into the file of a module.
pub fn survey(file: &Path, role: Role) -> Survey {
    let Some(bytes) = map(file) else { return Survey::default() };
    let Some(found) = seeming(&bytes) else { return Survey::default() };
    let wanted =
        |name: &str| family_of(name).is_some() || is_marker(name) || is_usable_size(name) || name.ends_with("mallctl");
    let symbols = functions(file, &wanted).unwrap_or_default();
    let exported = |symbol: &FunctionSymbol| symbol.name == "malloc" && symbol.source == SymbolSource::Exported;
    let library = role == Role::Library && symbols.wanted.iter().any(exported);
    let mut allocators = if library { allocators_of_library(&symbols) } else { allocators(&symbols) };
    name_variables(&bytes, &mut allocators);
    if let Some(jemalloc) = allocators.iter_mut().find(|one| Some(one.name.as_str()) == Family::Jemalloc.name()) {
        jemalloc.inlined_into = malloc_inlined_into(file).unwrap_or_default();
    }
    let is_hidden = allocators.is_empty() && !symbols.complete && (role == Role::Program || is_sure(found));
    let stripped = is_hidden.then_some(found);
    Survey { allocators, stripped, starts: symbols.starts }
}

/// Maker of the allocator whose messages are in the file of a library. It says nothing where the library's symbols do.
pub fn seeming_in_library(file: &Path) -> Option<&'static str> {
    seeming(&map(file)?).filter(|name| is_sure(name))
}

fn map(file: &Path) -> Option<memmap2::Mmap> {
    let file = std::fs::File::open(file).ok()?;
    // SAFETY: the map is private and read-only; what a writer changes meanwhile is a wrong guess at worst.
    unsafe { memmap2::Mmap::map(&file) }.ok()
}

fn name_variables(bytes: &[u8], allocators: &mut [Allocator]) {
    for allocator in allocators {
        let functions: Vec<&str> = allocator.functions.iter().map(|(symbol, _)| symbol.name.as_str()).collect();
        let maker = allocator.name.rsplit(' ').next().unwrap_or_default();
        allocator.variable = variable_of(maker, bytes, &functions);
        allocator.options = options_of(maker, bytes);
    }
}

fn known() -> impl Iterator<Item = (&'static str, Family)> {
    let families = [Family::Jemalloc, Family::Mimalloc, Family::Tcmalloc, Family::Snmalloc];
    families.into_iter().filter_map(|family| Some((family.name()?, family)))
}

fn allocators(symbols: &FunctionSymbols) -> Vec<Allocator> {
    let names = || symbols.wanted.iter().map(|symbol| symbol.name.as_str());
    let defines = |name: &str| names().any(|defined| defined == name);
    // Another malloc may be a wrapper around that of the C library, whose calls are seen without this.
    let stands_in = defines("malloc").then(|| maker_of(names())).flatten();
    let mut all = Vec::new();
    for (name, family) in known() {
        let whole = stands_in == Some(name);
        // Functions with such names that call malloc are no allocator.
        let proved = match family {
            Family::Jemalloc => names().any(|name| name.ends_with("mallctl")),
            Family::Mimalloc => defines("mi_version") || defines("mi_free"),
            Family::Tcmalloc => defines("tc_version") || names().any(|name| name.starts_with("TCMallocInternal")),
            _ => true,
        };
        let belongs = |symbol: &&FunctionSymbol| match family_of(&symbol.name) {
            Some(Family::C | Family::Cpp) => whole,
            Some(other) => other == family && proved,
            None => false,
        };
        all.extend(Allocator::of(name, symbols, symbols.wanted.iter().filter(belongs), signature_of));
    }
    all
}

/// libmallow.so comes before an allocator that is a library, and its functions call those of the same name there. What
/// has no definition in libmallow.so is reached past it: the operators, and functions with names of their own.
fn allocators_of_library(symbols: &FunctionSymbols) -> Vec<Allocator> {
    let names = || symbols.wanted.iter().map(|symbol| symbol.name.as_str());
    let maker = maker_of(names());
    let Some((name, family)) = known().find(|(name, _)| Some(*name) == maker) else { return Vec::new() };
    // Each of the two groups whole, or not: a delete that is not seen would make leaks of all that new returns.
    let group = |(what, family): (&str, Family)| {
        let found = symbols.wanted.iter().filter(|symbol| family_of(&symbol.name) == Some(family));
        let found = found.filter(|symbol| symbol.source == SymbolSource::Exported);
        let all = Allocator::of(name, symbols, found, signature_in_library)?;
        Some(Allocator { name: format!("{what} of {name}"), library: true, ..all })
    };
    [("operator new", Family::Cpp), ("functions without an equal in the C library", family)]
        .into_iter()
        .filter_map(group)
        .collect()
}

impl Allocator {
    /// What to do where the functions are not patched; empty: nothing is known.
    pub fn remedy(&self) -> &'static str {
        if self.inlined_into.is_empty() { "" } else { APART }
    }

    fn of<'a>(
        name: &'static str,
        symbols: &FunctionSymbols,
        found: impl Iterator<Item = &'a FunctionSymbol>,
        signature: impl Fn(&str) -> Option<Signature>,
    ) -> Option<Self> {
        let mut functions: Vec<(FunctionSymbol, Signature)> =
            found.filter_map(|symbol| Some((symbol.clone(), signature(&symbol.name)?))).collect();
        // Aliases: all of them have the same arguments; the shortest name is shown.
        functions.sort_by_key(|(symbol, _)| (symbol.address, symbol.name.len()));
        functions.dedup_by_key(|(symbol, _)| symbol.address);
        let usable = |wanted: &str| {
            let found = |symbol: &&FunctionSymbol| match wanted {
                "" => is_usable_size(&symbol.name),
                wanted => symbol.name == wanted,
            };
            symbols.wanted.iter().find(found).filter(|symbol| !symbol.ifunc).map(|symbol| symbol.address)
        };
        let usable = match name {
            "mimalloc" => usable("mi_usable_size"),
            "tcmalloc" => usable("tc_malloc_size").or_else(|| usable("malloc_usable_size")),
            "snmalloc" => None,
            _ => usable(""),
        };
        let source = functions.iter().map(|(symbol, _)| symbol.source).max()?;
        Some(Self {
            name: name.to_owned(),
            source,
            functions,
            usable,
            variable: None,
            options: String::new(),
            inlined_into: String::new(),
            library: false,
        })
    }
}
