//! Symbols of functions, by their names.

use std::path::Path;

use mallow_profile::{Module, NameSource};
use object::{Object, ObjectSymbol, SymbolFlags, elf};

use crate::image::Image;
use crate::locate;
use crate::options::Options;
use crate::sections::mini_debug_info;

/// The table that a symbol was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SymbolSource {
    /// `.dynsym`, the names that the module exports.
    Exported,
    /// The table `.symtab`, not compressed.
    SymbolTable,
    /// The symbol table in the compressed `.gnu_debugdata`.
    MiniDebugInfo,
    DebugFile,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Raw name, without a version.
    pub name: String,
    /// Link-time address of the symbol.
    pub address: u64,
    /// In bytes; 0 if unknown.
    pub size: u64,
    /// Whether this is an `STT_GNU_IFUNC`: the address is that of its resolver.
    pub ifunc: bool,
    pub source: SymbolSource,
}

/// Functions of a module's symbol tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSymbols {
    /// Functions that were asked for, sorted by name and address.
    pub wanted: Vec<FunctionSymbol>,
    /// Link-time addresses at which functions of the module begin, sorted: not only of the wanted ones.
    pub starts: Vec<u64>,
    /// Whether the tables have more than exported names.
    pub complete: bool,
}

/// The functions of the module at `path` whose names are `wanted`, from its symbol tables and its debug file.
pub fn functions(path: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<FunctionSymbols, NameSource> {
    let build_id = Image::open(path).ok().and_then(|image| image.build_id().ok()).unwrap_or_default();
    let module = Module { path: path.to_string_lossy().into_owned(), build_id };
    let files = locate::files(&module, 0, &Options::default(), &[])?;
    let mut all = FunctionSymbols::default();
    let own = files.image.parse().map_err(|error| NameSource::Unreadable(error.to_string()))?;
    all.add(own.dynamic_symbols(), SymbolSource::Exported, wanted);
    all.add(own.symbols(), SymbolSource::SymbolTable, wanted);
    if let Some(mini) = mini_debug_info(&files.image)
        && let Ok(mini) = mini.parse()
    {
        all.add(mini.symbols(), SymbolSource::MiniDebugInfo, wanted);
    }
    if let Some(Ok(separate)) = files.separate.as_ref().map(|image| image.parse()) {
        all.add(separate.symbols(), SymbolSource::DebugFile, wanted);
    }
    all.starts.sort_unstable();
    all.starts.dedup();
    all.wanted.sort_by(|a, b| (&a.name, a.address, a.source).cmp(&(&b.name, b.address, b.source)));
    all.wanted.dedup_by(|b, a| (&a.name, a.address) == (&b.name, b.address));
    Ok(all)
}

impl FunctionSymbols {
    fn add<'a, S: ObjectSymbol<'a>>(
        &mut self,
        symbols: impl Iterator<Item = S>,
        source: SymbolSource,
        wanted: &dyn Fn(&str) -> bool,
    ) {
        for symbol in symbols.filter(|symbol| !symbol.is_undefined()) {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
            let kind = st_info & 15;
            if kind != elf::STT_FUNC && kind != elf::STT_GNU_IFUNC {
                continue;
            }
            self.complete |= source != SymbolSource::Exported;
            let address = symbol.address();
            self.starts.push(address);
            let Ok(name) = symbol.name() else { continue };
            // A table other than .dynsym has the version in the name: `pvalloc@@GLIBC_2.2.5`.
            let name = name.split_once('@').map_or(name, |(name, _)| name);
            if wanted(name) {
                let ifunc = kind == elf::STT_GNU_IFUNC;
                self.wanted.push(FunctionSymbol { name: name.to_owned(), address, size: symbol.size(), ifunc, source });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_each_table() {
        let own = functions(&std::env::current_exe().unwrap(), &|name| name == "main").unwrap();
        assert_eq!((own.wanted.len(), own.wanted[0].source, own.complete), (1, SymbolSource::SymbolTable, true));
        assert!(own.starts.len() > 1000 && own.starts.is_sorted() && own.starts.contains(&own.wanted[0].address));
        let libc =
            functions(Path::new("/lib/x86_64-linux-gnu/libc.so.6"), &|name| ["malloc", "strlen"].contains(&name));
        if let Ok(libc) = libc {
            assert_eq!(libc.wanted.iter().filter(|symbol| symbol.source == SymbolSource::Exported).count(), 2);
            assert!(libc.wanted.iter().any(|symbol| symbol.name == "strlen" && symbol.ifunc));
        }
        assert!(functions(Path::new("/etc/passwd"), &|_| true).is_err());
    }
}
