//! Code whose calls of allocation functions are none of the program's: the allocator's own.

use super::error::AttachError;
use super::library::LateEntry;
use crate::preflight::family_of;
use crate::wire::attachment;
use mallow_patch::Module;
use mallow_symbols::functions;
use std::ops::Range;

/// Functions of the C library's allocator. They are of one object file, and lie together.
const OWN: &[&str] = &[
    "malloc",
    "free",
    "realloc",
    "calloc",
    "memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "posix_memalign",
    "malloc_trim",
    "malloc_usable_size",
    "mallinfo",
    "mallinfo2",
    "malloc_stats",
    "malloc_info",
    "mallopt",
];

/// How far functions of [`OWN`] may lie from `malloc`, in bytes.
const FAR: u64 = 64 << 10;

/// Whether a module other than the C library defines the program's allocation functions.
pub fn is_allocator(module: &Module) -> bool {
    module.soname != "libc.so.6" && module.export("malloc").is_some()
}

/// The code of the allocator in an executable that defines the program's allocation functions. A thread in there may
/// hold its locks, or have half of a list in hand. Each such stack has a function that is known by its name: the public
/// one that was called, or, where that went on by a jump, an inner one.
pub fn code_of(executable: &Module) -> Result<Vec<Range<u64>>, AttachError> {
    const PREFIXES: &[&str] = &["je_", "_rjem_", "jemalloc_", "mi_", "_mi_", "tc_"];
    const PARTS: &[&str] = &["tcmalloc", "snmalloc"];
    let is_own = |name: &str| {
        // GCC splits functions: `malloc.cold`.
        let name = name.split('.').next().unwrap_or_default();
        family_of(name).is_some()
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || PARTS.iter().any(|part| name.contains(part))
    };
    let symbols = functions(&executable.file, &is_own).unwrap_or_default();
    if !symbols.complete {
        return Err(AttachError::Unsupported(
            "its allocator is inside of the executable, which is stripped: start it under mallow (mallow record -- COMMAND)"
                .to_owned(),
        ));
    }
    let place = |address: u64| executable.bias.wrapping_add(address);
    // Sizes of functions in assembly may be 0: up to the next one.
    let end = |start: u64| {
        let next = symbols.starts.partition_point(|&other| other <= start);
        symbols.starts.get(next).map_or(executable.range.end, |&next| place(next))
    };
    Ok(symbols.wanted.iter().map(|symbol| place(symbol.address)..end(symbol.address)).collect())
}

/// Code of Mallow's library, which is first, and of modules that define an entry; of the C library, its allocator
/// alone.
pub fn ranges(modules: &[Module], library: &Range<u64>, entries: &[(usize, LateEntry)]) -> Vec<Range<u64>> {
    let mut all = vec![library.clone()];
    let of_memory = || entries.iter().filter(|(index, _)| *index < attachment::MEMORY);
    for module in modules {
        if !of_memory().any(|(_, entry)| module.range.contains(&entry.function)) {
            continue;
        }
        match module.soname == "libc.so.6" {
            true => all.extend(allocator_of(module)),
            false => all.push(module.range.clone()),
        }
    }
    all
}

/// The code of the C library's allocator, with what is between it and the exported functions before and after.
fn allocator_of(module: &Module) -> Option<Range<u64>> {
    let exports = module.exports();
    let malloc = exports.iter().find(|export| export.name == "malloc")?.address;
    let own = exports.iter().filter(|export| OWN.contains(&export.name) && export.address.abs_diff(malloc) < FAR);
    let (mut start, mut end) = (malloc, malloc);
    for export in own {
        start = start.min(export.address);
        end = end.max(export.address + export.size);
    }
    let before = exports.iter().filter(|export| export.address < start && export.size > 0);
    let before = before.map(|export| export.address + export.size).max().unwrap_or(start);
    let after = exports.iter().map(|export| export.address).filter(|&address| address >= end).min().unwrap_or(end);
    Some(before.min(start).max(start.saturating_sub(FAR))..after.min(end + FAR))
}
