//! Functions of a module that call one of its functions directly, or through its stub in the PLT. x86-64 alone.

use std::ops::Range;
use std::path::Path;

use memchr::memchr2_iter;
use object::{Object, ObjectSection, SectionKind};

use crate::functions::{FunctionSymbol, functions};
use crate::image::Image;
use crate::plt::Plt;

/// `call` and `jmp` with a displacement of 32 bits (Intel SDM, volume 2).
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
const LENGTH: usize = 5;

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

/// The addresses of calls and jumps to these targets, in code that lies at `start`.
fn sites(code: &[u8], start: u64, targets: &[u64]) -> Vec<u64> {
    let is_site = |at: &usize| {
        let displacement = code.get(at + 1..at + LENGTH).and_then(|bytes| bytes.first_chunk::<4>());
        displacement.is_some_and(|bytes| {
            let next = start.wrapping_add((at + LENGTH) as u64);
            targets.contains(&next.wrapping_add_signed(i32::from_le_bytes(*bytes).into()))
        })
    };
    memchr2_iter(CALL, JUMP, code).filter(is_site).map(|at| start.wrapping_add(at as u64)).collect()
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
    fn calls_and_jumps_are_found_at_the_addresses_that_they_reach() {
        // At 0x1000: nop; call 0x1100; nop; jmp 0x1100; call 0x1101
        let mut code = vec![0x90, CALL, 0xfa, 0, 0, 0, 0x90, JUMP, 0xf4, 0, 0, 0, CALL, 0xf0, 0, 0, 0];
        assert_eq!(sites(&code, 0x1000, &[0x1100]), [0x1001, 0x1007]);
        code.truncate(10);
        assert_eq!(sites(&code, 0x1000, &[0x1100]), [0x1001]);
        // Behind what calls it.
        assert_eq!(sites(&[CALL, 0xf9, 0xff, 0xff, 0xff], 0x1002, &[0x1000]), [0x1002]);
    }

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
