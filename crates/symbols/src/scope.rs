//! Whole names for C++ functions whose debug information has only the last part.
//!
//! GCC gives no mangled name to what is not visible outside of its unit: functions in anonymous namespaces, lambdas,
//! and templates over them. Inlined, they would all be called `operator()` or `__sort<…>`. Their scopes are the entries
//! around their declaration.

use std::fmt::Write;

use addr2line::gimli::{self, AttributeValue, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use crate::sections::Slice;

/// Steps from an entry to its declaration and out of its scopes; more are a circle.
const STEPS: usize = 64;

/// Limit of a name's bytes: longer ones say nothing.
const LENGTH: usize = 4096;

/// Parents of the entries that make scopes, of each unit that was asked about. One walk over a unit, about 12 bytes for
/// each of its functions and classes.
#[derive(Default)]
pub(crate) struct Scopes {
    units: FxHashMap<Key, FxHashMap<usize, usize>>,
    names: FxHashMap<(Key, usize), Option<Box<str>>>,
}

/// A unit: its offset, and for a split one its id, as each split file begins at 0.
type Key = (Option<u64>, usize);

/// True where scopes are joined by `::` and tell functions apart.
pub(crate) fn is_cpp(language: Option<gimli::DwLang>) -> bool {
    matches!(
        language,
        Some(
            gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20
        )
    )
}

impl Scopes {
    /// The name of the function at `entry` with its scopes; None where there is nothing to add.
    pub fn name(&mut self, unit: UnitRef<Slice>, entry: UnitOffset) -> Option<&str> {
        let at = (unit.dwo_id.map(|id| id.0), unit.header.offset().0);
        let parents = self.units.entry(at).or_insert_with(|| parents(unit).unwrap_or_default());
        let name = self.names.entry((at, entry.0)).or_insert_with(|| qualified(unit, entry, parents));
        name.as_deref()
    }
}

/// Entry → the entry around it, for functions, classes and namespaces. Those directly in the unit have none.
fn parents(unit: UnitRef<Slice>) -> gimli::Result<FxHashMap<usize, usize>> {
    let mut parents = FxHashMap::default();
    let mut open: Vec<(isize, usize)> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset().0, entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if is_scope(abbreviation.tag()) {
            while open.pop_if(|inner| inner.0 >= depth).is_some() {}
            if let Some(&(_, parent)) = open.last() {
                parents.insert(offset, parent);
            }
            open.push((depth, offset));
        }
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(parents)
}

fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_subprogram
    )
}

fn qualified(unit: UnitRef<Slice>, entry: UnitOffset, parents: &FxHashMap<usize, usize>) -> Option<Box<str>> {
    let mut parts: Vec<String> = Vec::new();
    let mut at = Some(entry);
    while let Some(entry) = at.filter(|_| parts.len() < STEPS) {
        let (name, declared, tag) = declaration(unit, entry)?;
        let name = name.unwrap_or_else(|| match tag {
            gimli::DW_TAG_namespace => "(anonymous namespace)".into(),
            _ if parts.last().is_some_and(|inner| inner.starts_with("operator()")) => "{lambda}".into(),
            _ => "{unnamed}".into(),
        });
        parts.push(name);
        at = parents.get(&declared.0).map(|&parent| UnitOffset(parent));
    }
    if parts.len() < 2 {
        return None;
    }
    let mut whole = String::new();
    for part in parts.iter().rev() {
        let separator = if whole.is_empty() { "" } else { "::" };
        write!(whole, "{separator}{part}").ok()?;
    }
    (whole.len() <= LENGTH).then(|| whole.into())
}

/// The name of an entry, where it was first declared, and as what.
fn declaration(unit: UnitRef<Slice>, entry: UnitOffset) -> Option<(Option<String>, UnitOffset, gimli::DwTag)> {
    let mut at = entry;
    let mut name = None;
    for _ in 0..STEPS {
        let entry = unit.entry(at).ok()?;
        if name.is_none()
            && let Some(value) = entry.attr_value(gimli::DW_AT_name)
        {
            let text = unit.attr_string(value).ok().filter(|text| text.slice().len() <= LENGTH)?;
            name = Some(String::from_utf8_lossy(text.slice()).into_owned());
        }
        let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
        match origin.or_else(|| entry.attr_value(gimli::DW_AT_specification)) {
            Some(AttributeValue::UnitRef(to)) => at = to,
            Some(AttributeValue::DebugInfoRef(to)) => at = to.to_unit_offset(&unit.header)?,
            Some(_) => return None,
            None => return Some((name, at, entry.tag())),
        }
    }
    None
}
