//! Symbol tables: address → raw name.

use std::ops::Range;
use std::sync::Arc;

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionIndex, SymbolKind};

use crate::demangle::is_mangled_bytes;
use crate::image::Image;

/// All function symbols of a module, as disjoint ranges. 16 bytes a range, 24 a symbol; names stay in their images.
#[derive(Default)]
pub(crate) struct SymbolTable {
    images: Vec<Arc<Image>>,
    symbols: Vec<Symbol>,
    /// Sorted by start. Each reaches to the next one's start and shows an index of `symbols`, or NONE.
    ranges: Vec<(u64, u32)>,
    /// Mangled names of functions that `symbols` has by another name: its index there, sorted, and the name.
    /// Constructors have two names, and what a linker folds has many.
    aliases: Vec<(u32, Symbol)>,
}

struct Symbol {
    image: u32,
    name_length: u32,
    name_offset: u64,
}

const NONE: u32 = u32::MAX;

struct Candidate<'a> {
    start: u64,
    /// Past its last byte; `start` for a symbol without a size.
    end: u64,
    section_end: u64,
    image: u32,
    function: bool,
    local: bool,
    name: &'a [u8],
}

impl SymbolTable {
    /// Takes in both symbol tables of each image. Damaged ones count as empty.
    pub fn new(images: Vec<Arc<Image>>) -> Self {
        let mut candidates = Vec::new();
        for (index, image) in images.iter().enumerate() {
            if let Ok(file) = image.parse() {
                collect(&file, index as u32, &mut candidates);
            }
        }
        candidates.sort_unstable_by(compare);
        let symbol = |candidate: &Candidate| Symbol {
            image: candidate.image,
            name_length: candidate.name.len() as u32,
            name_offset: candidate.name.as_ptr() as u64 - images[candidate.image as usize].as_ptr() as u64,
        };
        let aliases = aliases(&candidates).map(|(of, candidate)| (of, symbol(candidate))).collect();
        candidates.dedup_by(|b, a| is_same_code(a, b));
        let ranges = ranges(&candidates);
        let symbols = candidates.iter().map(symbol).collect();
        Self { symbols, ranges, images, aliases }
    }

    /// The addresses around `address` that show one function. Another function inside of it divides it.
    pub fn range(&self, address: u64) -> Option<Range<u64>> {
        let after = self.ranges.partition_point(|&(start, _)| start <= address);
        let &(start, symbol) = self.ranges.get(after.checked_sub(1)?)?;
        self.symbols.get(symbol as usize)?;
        Some(start..self.ranges.get(after)?.0)
    }

    /// The raw name of the function at `address`.
    pub fn find(&self, address: u64) -> Option<&[u8]> {
        self.name(self.symbols.get(self.index(address)? as usize)?)
    }

    /// Other raw names of the function at `address`, all mangled and each once, with its index among the functions of
    /// the module.
    pub fn aliases(&self, address: u64) -> Option<(u32, impl Iterator<Item = &[u8]>)> {
        let index = self.index(address)?;
        let of = |end: fn(u32, u32) -> bool| self.aliases.partition_point(|&(of, _)| end(of, index));
        let aliases = &self.aliases[of(|of, index| of < index)..of(|of, index| of <= index)];
        (!aliases.is_empty()).then(|| (index, aliases.iter().filter_map(|(_, symbol)| self.name(symbol))))
    }

    fn index(&self, address: u64) -> Option<u32> {
        let index = self.ranges.partition_point(|&(start, _)| start <= address).checked_sub(1)?;
        Some(self.ranges[index].1).filter(|&index| index != NONE)
    }

    fn name(&self, symbol: &Symbol) -> Option<&[u8]> {
        let start = symbol.name_offset as usize;
        self.images[symbol.image as usize].get(start..start + symbol.name_length as usize)
    }
}

fn is_same_code(a: &Candidate, b: &Candidate) -> bool {
    (a.start, a.end) == (b.start, b.end)
}

/// Functions with mangled names that are at the place of a better name, with the number of that among those that are
/// left. Precondition: the candidates are sorted.
fn aliases<'c, 'a>(candidates: &'c [Candidate<'a>]) -> impl Iterator<Item = (u32, &'c Candidate<'a>)> {
    let same = (0..).zip(candidates.chunk_by(is_same_code));
    same.filter(|(_, same)| same.len() > 1 && same[0].end > same[0].start).flat_map(|(of, same)| {
        let mut before = same[0].name;
        same[1..].iter().filter_map(move |candidate| {
            let is_new = std::mem::replace(&mut before, candidate.name) != candidate.name;
            (is_new && candidate.function && is_mangled_bytes(candidate.name)).then_some((of, candidate))
        })
    })
}

/// The order of symbols: by start; of those with the same start the longest first, those without a size last; of equals
/// the better name first.
fn compare(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    a.start.cmp(&b.start).then(b.end.cmp(&a.end)).then_with(|| rank(a).cmp(&rank(b)))
}

/// Functions before labels, exported and weak names before local ones, `read` before `__read`, the short before the
/// long; names themselves at last, so that the choice does not depend on the order in the file.
fn rank<'a>(candidate: &Candidate<'a>) -> (bool, bool, usize, usize, &'a [u8]) {
    let name = candidate.name;
    let underscores = if name.starts_with(b"_Z") { 0 } else { name.iter().take_while(|&&byte| byte == b'_').count() };
    (!candidate.function, candidate.local, underscores, name.len(), name)
}

fn collect<'a>(file: &object::File<'a>, image: u32, into: &mut Vec<Candidate<'a>>) {
    // Past the last byte of each section with code; 0 for the others.
    let mut code = Vec::new();
    for section in file.sections() {
        let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if sh_flags & u64::from(object::elf::SHF_EXECINSTR) != 0 {
            let index = section.index().0;
            // Indexes come from a table in the file, so their number is bounded by its size.
            code.resize(code.len().max(index + 1), 0);
            code[index] = section.address().saturating_add(section.size());
        }
    }
    let section_end = |index: Option<SectionIndex>| index.and_then(|i| code.get(i.0)).copied().unwrap_or(0);
    for table in [file.symbol_table(), file.dynamic_symbol_table()].into_iter().flatten() {
        for symbol in table.symbols() {
            // IFUNCs are Text as well. Unknown: labels of assembly.
            let function = symbol.kind() == SymbolKind::Text;
            if !(function || symbol.kind() == SymbolKind::Unknown && symbol.is_definition()) {
                continue;
            }
            let start = symbol.address();
            let section_end = section_end(symbol.section_index());
            let Ok(name) = symbol.name_bytes() else { continue };
            if start >= section_end || name.is_empty() || symbol.is_local() && is_mapping_symbol(name) {
                continue;
            }
            let end = start.saturating_add(symbol.size()).min(section_end);
            into.push(Candidate { start, end, section_end, image, function, local: symbol.is_local(), name });
        }
    }
}

/// `$a`, `$d`, `$t`, `$x` and what may follow them (`$d.7`, `$xrv64gc`): they say where code and data begin on Arm and
/// RISC-V, and name no function. Swift's mangled names begin with the same sign.
fn is_mapping_symbol(name: &[u8]) -> bool {
    match name {
        [b'$', b'a' | b'd' | b't' | b'x', rest @ ..] => rest.is_empty() || rest[0] == b'.' || rest.starts_with(b"rv"),
        _ => false,
    }
}

/// Cuts the candidates, which may overlap and nest, into disjoint ranges: at each address the one counts that starts
/// last, and one without a size only where no other covers it. One pass, so that no table makes it slow.
fn ranges(candidates: &[Candidate]) -> Vec<(u64, u32)> {
    let mut sweep = Sweep { open: Vec::new(), ranges: Vec::with_capacity(candidates.len()) };
    for (index, group) in groups(candidates) {
        let start = group[0].start;
        sweep.close_until(start);
        for (offset, candidate) in group.iter().enumerate().filter(|(_, candidate)| candidate.end > start) {
            sweep.open.push((candidate.end, (index + offset) as u32));
        }
        match sweep.open.last() {
            Some(&(_, top)) => sweep.show(start, top),
            None => {
                let last = index + group.len() - 1;
                let next = candidates.get(last + 1).map_or(u64::MAX, |candidate| candidate.start);
                sweep.show(start, last as u32);
                sweep.show(group[group.len() - 1].section_end.min(next), NONE);
            }
        }
    }
    sweep.close_until(u64::MAX);
    sweep.ranges
}

/// Runs of candidates with one start, with the index of the first.
fn groups<'c, 'a>(candidates: &'c [Candidate<'a>]) -> impl Iterator<Item = (usize, &'c [Candidate<'a>])> {
    let mut index = 0;
    candidates.chunk_by(|a, b| a.start == b.start).map(move |group| {
        index += group.len();
        (index - group.len(), group)
    })
}

struct Sweep {
    /// Ends and indexes of what covers the current address; the last one counts.
    open: Vec<(u64, u32)>,
    ranges: Vec<(u64, u32)>,
}

impl Sweep {
    fn show(&mut self, start: u64, index: u32) {
        match self.ranges.last_mut() {
            Some(last) if last.0 == start => last.1 = index,
            Some(last) if last.1 == index => {}
            _ => self.ranges.push((start, index)),
        }
    }

    fn close_until(&mut self, address: u64) {
        while let Some(&(end, _)) = self.open.last()
            && end <= address
        {
            while self.open.last().is_some_and(|open| open.0 <= end) {
                self.open.pop();
            }
            self.show(end, self.open.last().map_or(NONE, |open| open.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(start: u64, size: u64, name: &'static str) -> Candidate<'static> {
        let local = name.starts_with("local");
        let name = name.as_bytes();
        Candidate { start, end: start + size, section_end: 1000, image: 0, function: true, local, name }
    }

    fn at(candidates: Vec<Candidate<'static>>, address: u64) -> Option<&'static str> {
        let mut candidates = candidates;
        candidates.sort_unstable_by(compare);
        candidates.dedup_by(|b, a| is_same_code(a, b));
        let ranges = ranges(&candidates);
        assert!(ranges.is_sorted_by(|a, b| a.0 < b.0), "{ranges:?}");
        let index = ranges.partition_point(|&(start, _)| start <= address).checked_sub(1)?;
        Some(std::str::from_utf8(candidates.get(ranges[index].1 as usize)?.name).unwrap())
    }

    #[test]
    fn sizes_bound_a_symbol() {
        let table = || vec![candidate(100, 10, "a"), candidate(120, 10, "b")];
        assert_eq!(at(table(), 99), None);
        assert_eq!(at(table(), 100), Some("a"));
        assert_eq!(at(table(), 109), Some("a"));
        assert_eq!(at(table(), 110), None);
        assert_eq!(at(table(), 129), Some("b"));
        assert_eq!(at(table(), 130), None);
    }

    #[test]
    fn without_a_size_a_symbol_reaches_to_the_next_or_the_end_of_its_section() {
        let table = || vec![candidate(100, 0, "a"), candidate(120, 10, "b"), candidate(200, 0, "c")];
        assert_eq!(at(table(), 119), Some("a"));
        assert_eq!(at(table(), 120), Some("b"));
        assert_eq!(at(table(), 130), None);
        assert_eq!(at(table(), 999), Some("c"));
        assert_eq!(at(table(), 1000), None);
    }

    #[test]
    fn a_label_in_a_function_does_not_hide_it_and_a_nested_function_does() {
        let table = || vec![candidate(100, 50, "outer"), candidate(110, 0, "label"), candidate(120, 10, "inner")];
        assert_eq!(at(table(), 111), Some("outer"));
        assert_eq!(at(table(), 120), Some("inner"));
        assert_eq!(at(table(), 130), Some("outer"));
        assert_eq!(at(table(), 150), None);
    }

    #[test]
    fn the_name_that_people_know_wins() {
        let aliases = || vec![candidate(100, 8, "__read"), candidate(100, 8, "read"), candidate(100, 8, "local")];
        assert_eq!(at(aliases(), 100), Some("read"));
        assert_eq!(at(vec![candidate(5, 8, "_ZN1AC2Ev"), candidate(5, 8, "_ZN1AC1Ev")], 6), Some("_ZN1AC1Ev"));
        assert_eq!(at(vec![candidate(5, 0, "start"), candidate(5, 4, "local_sized")], 6), Some("local_sized"));
    }

    #[test]
    fn aliases_are_mangled_names_of_the_same_code() {
        let mut all = vec![
            candidate(5, 8, "_Z1fv"),
            candidate(5, 8, "_Z1gv"),
            candidate(5, 8, "_Z1gv"),
            candidate(5, 8, "f"),
            candidate(5, 9, "_Z5outerv"),
            candidate(20, 0, "_Z1av"),
            candidate(20, 0, "_Z1bv"),
            candidate(30, 4, "_Z1hv"),
            candidate(30, 4, "h"),
        ];
        all.sort_unstable_by(compare);
        let found: Vec<_> = aliases(&all).map(|(of, alias)| (of, std::str::from_utf8(alias.name).unwrap())).collect();
        all.dedup_by(|b, a| is_same_code(a, b));
        let name = |of: u32| std::str::from_utf8(all[of as usize].name).unwrap();
        let found: Vec<_> = found.into_iter().map(|(of, alias)| (name(of), alias)).collect();
        assert_eq!(found, [("f", "_Z1fv"), ("f", "_Z1gv"), ("h", "_Z1hv")]);
    }

    #[test]
    fn swift_functions_are_no_mapping_symbols() {
        for name in ["$a", "$d", "$t", "$x", "$d.7", "$x.main", "$xrv64gc"] {
            assert!(is_mapping_symbol(name.as_bytes()), "{name}");
        }
        for name in ["$s3app4mainyyF", "$S3app4mainyyF", "$e3app4mainyyF", "$", "$dot", "$as", "a", ""] {
            assert!(!is_mapping_symbol(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn equals_the_plain_search_on_any_table() {
        // Every address against a search over all candidates, on tables that overlap in every way.
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for _ in 0..2000 {
            let table: Vec<_> = names.iter().map(|name| candidate(random(40), random(25), name)).collect();
            for address in 0..80 {
                let sized = table.iter().filter(|c| c.start <= address && address < c.end);
                let sized =
                    sized.min_by(|x, y| y.start.cmp(&x.start).then(x.end.cmp(&y.end)).then(rank(x).cmp(&rank(y))));
                let unsized_one = || {
                    let last = table.iter().filter(|c| c.start <= address).map(|c| c.start).max()?;
                    let here: Vec<_> = table.iter().filter(|c| c.start == last).collect();
                    here.iter().all(|c| c.end == last).then_some(())?;
                    // Where one ends behind the label, the label was not shown at all.
                    let covered = table.iter().any(|c| c.start < last && last < c.end);
                    (!covered).then(|| here.into_iter().min_by_key(|c| rank(c)))?
                };
                let expected = sized.or_else(unsized_one).map(|c| std::str::from_utf8(c.name).unwrap());
                let copy =
                    table.iter().map(|c| candidate(c.start, c.end - c.start, std::str::from_utf8(c.name).unwrap()));
                assert_eq!(at(copy.collect(), address), expected, "at {address}");
            }
        }
    }
}
