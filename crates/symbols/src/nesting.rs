//! A guard: debug information that is nested too deeply.
//!
//! addr2line calls itself for each function that is inlined into an inlined function. A file of 100 kB can nest as many
//! levels and overflow the stack, which no caller can catch. So the entries are walked over first; that reads what
//! addr2line reads as well, at about 300 MB/s.

use addr2line::gimli::{self, Dwarf};

use crate::sections::Slice;

/// Deeper than any compiler nests entries (dozens of levels), and what a small thread's stack has room for.
const LEVELS: isize = 500;

/// An error where a unit is nested too deeply; with `probes` (sorted), one that they may lead to.
pub(crate) fn check(dwarf: &Dwarf<Slice>, probes: Option<&[u64]>) -> Result<(), String> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        // addr2line passes over the same ones.
        let Ok(unit) = dwarf.unit(header) else { continue };
        if !probes.is_none_or(|probes| may_have(dwarf, &unit, probes)) {
            continue;
        }
        // Behind an error, addr2line sees no functions at all.
        if depth(&unit).unwrap_or(0) > LEVELS {
            return Err(format!("entries nested more than {LEVELS} deep"));
        }
    }
    Ok(())
}

/// False where the unit's ranges are known and no probe is inside. Without DW_AT_ranges they may come from elsewhere.
fn may_have(dwarf: &Dwarf<Slice>, unit: &gimli::Unit<Slice>, probes: &[u64]) -> bool {
    let has_probe = |unit: &gimli::Unit<Slice>| {
        let mut entries = unit.entries();
        entries.next_dfs().ok()??.attr_value(gimli::DW_AT_ranges)?;
        let mut ranges = dwarf.unit_ranges(unit).ok()?;
        let (mut any, mut inside) = (false, false);
        while let Some(range) = ranges.next().ok()? {
            any |= range.begin < range.end;
            let first = probes.partition_point(|&probe| probe < range.begin);
            inside |= probes.get(first).is_some_and(|&probe| probe < range.end);
        }
        any.then_some(inside)
    };
    has_probe(unit).unwrap_or(true)
}

fn depth(unit: &gimli::Unit<Slice>) -> gimli::Result<isize> {
    let mut deepest = 0;
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        deepest = deepest.max(entries.next_depth());
        if let Some(abbreviation) = entries.read_abbreviation()? {
            entries.skip_attributes(abbreviation.attributes())?;
        }
    }
    Ok(deepest)
}
