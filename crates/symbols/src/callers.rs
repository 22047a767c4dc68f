//! Functions of a module that call one of its functions directly, or through its stub in the PLT.

use std::ops::Range;
use std::path::Path;

use mallow_arch::sites::sites;
use object::{Object, ObjectSection, SectionKind};

use crate::functions::{FunctionSymbol, functions};
use crate::image::Image;
use crate::plt::Plt;

/// The names of the functions with a symbol in which a direct call of `callee`, or a jump to it, lies; each once. Bytes
/// are not decoded: data that looks like such an instruction counts as one. Empty, too, where the file cannot be read.
pub fn callers(path: &Path, callee: &FunctionSymbol) -> Vec<String> {
    let Ok(image) = Image::open(path) else { return Vec::new() };
    let Ok(file) = image.parse() else { return Vec::new() };
    let mut targets = Plt::new(&image, |_| None).stubs_of(&callee.name);
    targets.push(callee.address);
    let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let sites: Vec<u64> =
        code.flat_map(|section| sites(section.data().unwrap_or_default(), section.address(), &targets)).collect();
    if sites.is_empty() {
        return Vec::new();
    }
    let mut all = functions(path, &|_| true).map(|found| found.wanted).unwrap_or_default();
    all.sort_by_key(|symbol| symbol.address);
    let mut names: Vec<String> = sites.iter().filter_map(|site| Some(owner(&all, *site)?.name.clone())).collect();
    names.sort();
    names.dedup();
    names
}

/// The function whose code has the address; `all` are sorted by theirs.
fn owner(all: &[FunctionSymbol], address: u64) -> Option<&FunctionSymbol> {
    let range = |symbol: &FunctionSymbol| -> Range<u64> { symbol.address..symbol.address.saturating_add(symbol.size) };
    let before = all.partition_point(|symbol| symbol.address <= address);
    // Aliases have the same address.
    all[..before].iter().rev().take(8).find(|symbol| range(symbol).contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_between_functions_is_of_none() {
        let symbol = |name: &str, address, size| FunctionSymbol {
            name: name.to_owned(),
            address,
            size,
            ifunc: false,
            source: crate::SymbolSource::SymbolTable,
        };
        let all = [symbol("a", 16, 16), symbol("b", 40, 8), symbol("alias", 40, 8)];
        let name = |address| owner(&all, address).map(|symbol| symbol.name.as_str());
        assert_eq!([15, 16, 31, 32, 47, 48].map(name), [None, Some("a"), Some("a"), None, Some("alias"), None]);
    }
}
