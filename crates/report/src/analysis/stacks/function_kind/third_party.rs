//! Functions of libraries and programs that hand out memory for others, as data: each name with what identifies the
//! code that it is from.
//!
//! A name alone identifies nothing: `Arena::grow`, `hash_table<T>::expand` and `safe_malloc` are in HotSpot, GCC and
//! Nmap, and in programs of people who never heard of these. So a name counts only in a module, or from a source file,
//! of the library:
//!
//! - the module's file name is one of the library's, with a version or a suffix behind it and, of a program, a target
//!   triplet in front: `libcrypto.so.3`, `python3.12`, `x86_64-linux-gnu-gcc-12`;
//! - or the path of the function's source file ends with one of the library's files, or has one of its directories in
//!   it. This is how a library that is linked statically, and a program that was renamed, are known: they need debug
//!   information.
//!
//! Everywhere else the function is one of the program's own, and views look past it where the stacks of the profile
//! show a wrapper.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

mod libraries;
mod library;

use libraries::LIBRARIES;
use library::Library;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Allocator,
    Container,
}

/// The purpose of a library's function, by its short name, source file and module; None for a function of no library
/// known here.
pub(super) fn purpose(short: &str, file: Option<&str>, module: Option<&str>) -> Option<Purpose> {
    static NAMES: LazyLock<FxHashMap<&str, Vec<(&Library, Purpose)>>> = LazyLock::new(names);
    let name = without_clones(short.trim_start_matches('_'));
    let libraries = NAMES.get(name)?;
    libraries.iter().find(|(library, _)| library.is_from(file, module)).map(|&(_, purpose)| purpose)
}

fn names() -> FxHashMap<&'static str, Vec<(&'static Library, Purpose)>> {
    let mut names: FxHashMap<_, Vec<_>> = FxHashMap::default();
    for library in LIBRARIES {
        for (list, purpose) in [(library.allocators, Purpose::Allocator), (library.containers, Purpose::Container)] {
            list.iter().for_each(|name| names.entry(*name).or_default().push((library, purpose)));
        }
    }
    names
}

/// Removes what GCC appends to the names of copies and parts of a C function: `xmalloc.part.0`.
fn without_clones(name: &str) -> &str {
    match name.split_once('.') {
        Some((function, rest))
            if ["constprop", "isra", "part", "cold", "lto_priv"].iter().any(|word| rest.starts_with(word)) =>
        {
            function
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests;
