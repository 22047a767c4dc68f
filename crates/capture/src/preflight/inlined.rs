//! Entry functions of allocators that other code has inlined, as in unity builds and with LTO. Their calls pass the
//! entry by, and every patch.

use super::families::family_of;
use mallow_symbols::{callers, functions};
use std::path::Path;

/// What jemalloc's malloc calls where its fast path, a function of its headers, ends: `je_malloc_default`.
const SLOW_MALLOC: &str = "malloc_default";

pub(crate) const APART: &str = "build jemalloc apart from what uses it, without LTO and not as one source file";

/// A function of this file that has jemalloc's malloc inlined, by its raw name: one that calls the slow path and is
/// neither malloc nor what operator new falls back to (`fallback_impl`). None: there is none, or no symbol shows it.
/// Searches all of the file's code.
pub(crate) fn malloc_inlined_into(file: &Path) -> Option<String> {
    let is_own = |name: &String| {
        let whole = name.split('.').next().unwrap_or(name);
        family_of(whole).is_some() || whole.contains("fallback_impl") || whole.ends_with(SLOW_MALLOC)
    };
    let slow = functions(file, &|name| name.ends_with(SLOW_MALLOC)).ok()?.wanted;
    slow.iter().flat_map(|slow| callers(file, slow)).find(|name| !is_own(name))
}
