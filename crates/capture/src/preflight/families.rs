//! Families of allocators, by the names of their functions. This is the one table of them.

/// Bytes of static thread-local storage that libmallow.so needs of a process that it is loaded into.
pub const LIBRARY_TLS: u64 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The C library's names, which any allocator may define: see [`maker_of`].
    C,
    /// `operator new` and `operator delete`, which any allocator may define.
    Cpp,
    /// jemalloc under names of its own.
    Jemalloc,
    /// mimalloc under names of its own.
    Mimalloc,
    /// tcmalloc under names of its own.
    Tcmalloc,
    /// snmalloc under names of its own.
    Snmalloc,
    /// The allocator that a Rust program sets by `#[global_allocator]`.
    Rust,
}

impl Family {
    /// The allocator's name. None: the functions' names do not say whose they are.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::C | Self::Cpp => None,
            Self::Jemalloc => Some(JEMALLOC_NAME),
            Self::Mimalloc => Some(MIMALLOC_NAME),
            Self::Tcmalloc => Some(TCMALLOC_NAME),
            Self::Snmalloc => Some(SNMALLOC_NAME),
            Self::Rust => Some("Rust's global allocator"),
        }
    }
}

pub(super) const JEMALLOC_NAME: &str = "jemalloc";
const MIMALLOC_NAME: &str = "mimalloc";
const TCMALLOC_NAME: &str = "tcmalloc";
const SNMALLOC_NAME: &str = "snmalloc";

const C: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
    "cfree",
    "free_sized",
    "free_aligned_sized",
];

/// Names that jemalloc has in addition to the C library's; without a prefix where it stands in for the C library.
const JEMALLOC: &[&str] = &["mallocx", "rallocx", "xallocx", "dallocx", "sdallocx", "smallocx"];

/// Prefixes of Rust's crates, of jemalloc itself, and of DuckDB's and Arrow's builds: a longer one before its
/// beginning.
const JEMALLOC_PREFIXES: &[&str] = &["_rjem_je_", "_rjem_", "je_arrow_", "je_", "jemalloc_", "duckdb_je_"];

/// `mi_` and one of these, or one of them with `heap_` or `theap_` in between. `mi_cfree` is not one: it cannot be
/// patched, as it begins with a call, and ends in `mi_free`.
const MIMALLOC: &[&str] = &[
    "malloc",
    "malloc_small",
    "malloc_aligned",
    "malloc_aligned_at",
    "mallocn",
    "zalloc",
    "zalloc_small",
    "zalloc_aligned",
    "zalloc_aligned_at",
    "calloc",
    "calloc_aligned",
    "calloc_aligned_at",
    "realloc",
    "realloc_aligned",
    "realloc_aligned_at",
    "reallocn",
    "reallocf",
    "reallocarray",
    "reallocarr",
    "rezalloc",
    "rezalloc_aligned",
    "rezalloc_aligned_at",
    "recalloc",
    "recalloc_aligned",
    "recalloc_aligned_at",
    "expand",
    "free",
    "aligned_recalloc",
    "aligned_offset_recalloc",
    "free_small",
    "free_size",
    "free_size_aligned",
    "free_aligned",
    "umalloc",
    "umalloc_small",
    "umalloc_aligned",
    "uzalloc_small",
    "uzalloc_aligned",
    "ucalloc",
    "urealloc",
    "ufree",
    "posix_memalign",
    "memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "new",
    "new_n",
    "new_nothrow",
    "new_aligned",
    "new_aligned_nothrow",
    "new_realloc",
    "new_reallocn",
    "alloc_new",
    "alloc_new_n",
    "strdup",
    "strndup",
    "realpath",
];

const TCMALLOC: &[&str] = &[
    "malloc",
    "malloc_skip_new_handler",
    "free",
    "free_sized",
    "calloc",
    "cfree",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "new",
    "new_nothrow",
    "newarray",
    "newarray_nothrow",
    "new_aligned",
    "new_aligned_nothrow",
    "newarray_aligned",
    "newarray_aligned_nothrow",
    "delete",
    "delete_sized",
    "delete_nothrow",
    "delete_aligned",
    "delete_sized_aligned",
    "delete_aligned_nothrow",
    "deletearray",
    "deletearray_sized",
    "deletearray_nothrow",
    "deletearray_aligned",
    "deletearray_sized_aligned",
    "deletearray_aligned_nothrow",
];

const SNMALLOC: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "memalign",
    "aligned_alloc",
    "rust_alloc",
    "rust_alloc_zeroed",
    "rust_dealloc",
    "rust_realloc",
];

/// Functions that rustc calls of `#[global_allocator]`. `__rdl_*` is the standard library's default, which calls
/// malloc.
const RUST: &[&str] = &["__rg_alloc", "__rg_alloc_zeroed", "__rg_dealloc", "__rg_realloc"];

/// The family of the allocation function with this raw name. None: no allocation function has it.
pub fn family_of(symbol: &str) -> Option<Family> {
    if C.contains(&symbol) {
        return Some(Family::C);
    }
    if is_operator(symbol) {
        return Some(Family::Cpp);
    }
    if let Some(rest) = symbol.strip_prefix("mi_") {
        let (name, of_heap) = without_heap(rest);
        // `mi_heap_new` makes a heap.
        return (MIMALLOC.contains(&name) && !(of_heap && name == "new")).then_some(Family::Mimalloc);
    }
    if let Some(rest) = symbol.strip_prefix("tc_").or_else(|| symbol.strip_prefix("TCMallocInternal")) {
        let rest = rest.to_ascii_lowercase();
        return TCMALLOC.contains(&rest.as_str()).then_some(Family::Tcmalloc);
    }
    if let Some(rest) = symbol.strip_prefix("sn_") {
        return SNMALLOC.contains(&rest).then_some(Family::Snmalloc);
    }
    if RUST.contains(&symbol) || rust_mangled(symbol).is_some_and(|name| RUST.contains(&name)) {
        return Some(Family::Rust);
    }
    let rest = JEMALLOC_PREFIXES.iter().find_map(|prefix| symbol.strip_prefix(prefix)).unwrap_or(symbol);
    let known = JEMALLOC.contains(&rest) || rest != symbol && C.contains(&rest);
    known.then_some(Family::Jemalloc)
}

/// A mimalloc name without `mi_` and without `heap_` or `theap_`, and whether that was there: then a heap is the first
/// argument.
pub(super) fn without_heap(name: &str) -> (&str, bool) {
    let of_heap = name.strip_prefix("heap_").or_else(|| name.strip_prefix("theap_"));
    of_heap.map_or((name, false), |rest| (rest, true))
}

pub(super) fn without_prefix(symbol: &str) -> &str {
    const OTHERS: [&str; 4] = ["mi_", "tc_", "TCMallocInternal", "sn_"];
    let prefixes = JEMALLOC_PREFIXES.iter().chain(&OTHERS);
    prefixes.into_iter().find_map(|prefix| symbol.strip_prefix(prefix)).unwrap_or(symbol)
}

/// `operator new`, `new[]`, `delete`, `delete[]` in all of their forms, as the Itanium C++ ABI writes them.
fn is_operator(symbol: &str) -> bool {
    let new = symbol.strip_prefix("_Znwm").or_else(|| symbol.strip_prefix("_Znam"));
    let delete = symbol.strip_prefix("_ZdlPv").or_else(|| symbol.strip_prefix("_ZdaPv"));
    new.is_some_and(|rest| ["", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"].contains(&rest))
        || delete.is_some_and(|rest| {
            let rest = rest.strip_prefix('m').unwrap_or(rest);
            ["", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"].contains(&rest)
        })
}

/// `_RNvCs4fqI2P2rA04_7___rustc10___rg_alloc`: newer compilers mangle these names.
fn rust_mangled(symbol: &str) -> Option<&str> {
    let (_, name) = symbol.strip_prefix("_R")?.split_once("_7___rustc")?;
    // The name's length, and an underscore where a digit or another one follows.
    let name = name.trim_start_matches(|digit: char| digit.is_ascii_digit());
    name.strip_prefix('_')
}

/// Symbols that show who has made the allocator that a module exports under the C library's names. The first one
/// counts.
const MARKERS: &[(&str, &str)] = &[
    ("mallctl", JEMALLOC_NAME),
    ("je_mallctl", JEMALLOC_NAME),
    ("_rjem_mallctl", JEMALLOC_NAME),
    ("mi_version", MIMALLOC_NAME),
    ("mi_malloc", MIMALLOC_NAME),
    ("tc_version", TCMALLOC_NAME),
    ("tc_malloc", TCMALLOC_NAME),
    ("TCMallocInternalMalloc", TCMALLOC_NAME),
    ("MallocExtension_GetNumericProperty", TCMALLOC_NAME),
    ("sn_rust_alloc", SNMALLOC_NAME),
    ("__asan_init", "AddressSanitizer"),
    ("__tsan_init", "ThreadSanitizer"),
    ("gnu_get_libc_version", "glibc"),
    ("__libc_start_main", "musl"),
];

/// Texts that are in each file with such an allocator inside, stripped or not: messages and names of variables.
const TEXTS: &[(&str, &[u8])] = &[
    (JEMALLOC_NAME, b"<jemalloc>"),
    (MIMALLOC_NAME, b"mimalloc: "),
    (TCMALLOC_NAME, b"TCMALLOC_"),
    (SNMALLOC_NAME, b"snmalloc"),
];

/// The first allocator whose text is in a file: a guess, which symbols confirm. 50 ms for 100 MB.
pub fn seeming(file: &[u8]) -> Option<&'static str> {
    TEXTS.iter().find(|(_, text)| memchr::memmem::find(file, text).is_some()).map(|(name, _)| *name)
}

/// Whether the text of this allocator is in no other code: that of its messages. A library that calls an allocator, or
/// sets it up, has the names of its functions and of its variables.
pub fn is_sure(seeming: &str) -> bool {
    matches!(seeming, JEMALLOC_NAME | MIMALLOC_NAME)
}

/// The environment variable by which this copy of an allocator takes the setting that gives free pages back.
/// `functions` are names of its functions. None: no variable is known, or several that its functions do not decide
/// between.
pub fn variable_of(allocator: &str, file: &[u8], functions: &[&str]) -> Option<String> {
    let has = |text: &[u8]| memchr::memmem::find(file, text).is_some();
    match allocator {
        JEMALLOC_NAME => {
            let mut all: Vec<String> = memchr::memmem::find_iter(file, b"MALLOC_CONF\0")
                .filter_map(|at| {
                    let is_of_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
                    let before = file.get(at.saturating_sub(64)..at)?;
                    let start = before.iter().rposition(|byte| !is_of_name(byte)).filter(|&last| before[last] == 0)?;
                    Some(format!("{}MALLOC_CONF", String::from_utf8_lossy(before.get(start + 1..)?)))
                })
                .collect();
            all.sort_unstable();
            all.dedup();
            if all.len() > 1 {
                let prefix = functions.iter().find_map(|name| name.strip_suffix("malloc"))?.to_ascii_uppercase();
                all.retain(|name| name.strip_suffix("MALLOC_CONF") == Some(&prefix));
            }
            all.pop()
        }
        // From 2.1 on, and before.
        MIMALLOC_NAME if has(b"\0purge_delay\0") => Some("MIMALLOC_PURGE_DELAY".to_owned()),
        MIMALLOC_NAME if has(b"\0decommit_delay\0") => Some("MIMALLOC_DECOMMIT_DELAY".to_owned()),
        TCMALLOC_NAME if has(b"\0TCMALLOC_AGGRESSIVE_DECOMMIT\0") => Some("TCMALLOC_AGGRESSIVE_DECOMMIT".to_owned()),
        _ => None,
    }
}

/// Whether [`maker_of`] looks at this name.
pub fn is_marker(symbol: &str) -> bool {
    MARKERS.iter().any(|(marker, _)| *marker == symbol)
}

/// Who has made the allocator of a module that defines these symbols. None: no symbol says it.
pub fn maker_of<'a>(symbols: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    let defined = |marker: &str| symbols.clone().any(|symbol| symbol == marker);
    MARKERS.iter().find(|(marker, _)| defined(marker)).map(|(_, maker)| *maker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_belong_to_families() {
        for (symbol, family) in [
            ("malloc", Some(Family::C)),
            ("mallocx", Some(Family::Jemalloc)),
            ("je_malloc", Some(Family::Jemalloc)),
            ("_rjem_sdallocx", Some(Family::Jemalloc)),
            ("_rjem_je_malloc", Some(Family::Jemalloc)),
            ("je_malloc_default", None),
            ("mi_heap_zalloc_aligned_at", Some(Family::Mimalloc)),
            ("mi_heap_new", None),
            ("mi_heap_alloc_new", Some(Family::Mimalloc)),
            ("mi_theap_malloc_small", Some(Family::Mimalloc)),
            ("mi_theap_get_default", None),
            ("mi_ufree", Some(Family::Mimalloc)),
            ("duckdb_je_sdallocx", Some(Family::Jemalloc)),
            ("je_arrow_mallocx", Some(Family::Jemalloc)),
            ("mi_heap_delete", None),
            ("tc_deletearray_sized", Some(Family::Tcmalloc)),
            ("TCMallocInternalMalloc", Some(Family::Tcmalloc)),
            ("tc_version", None),
            ("sn_rust_alloc", Some(Family::Snmalloc)),
            ("__rg_dealloc", Some(Family::Rust)),
            ("_RNvCs4fqI2P2rA04_7___rustc10___rg_alloc", Some(Family::Rust)),
            ("_RNvCs4fqI2P2rA04_7___rustc11___rdl_alloc", None),
            ("_Znwm", Some(Family::Cpp)),
            ("_ZdaPvmSt11align_val_t", Some(Family::Cpp)),
            ("_ZnwmPv", None),
            ("free_list", None),
            ("", None),
        ] {
            assert_eq!(family_of(symbol), family, "{symbol}");
        }
    }

    #[test]
    fn a_copy_of_jemalloc_has_its_own_variable() {
        let of = |file: &[u8], functions: &[&str]| variable_of("jemalloc", file, functions);
        let arrow = b"x\0JE_ARROW_MALLOC_CONF\0value of the environment variable MALLOC_CONF\0";
        assert_eq!(of(arrow, &[]).as_deref(), Some("JE_ARROW_MALLOC_CONF"));
        assert_eq!(of(b"\0MALLOC_CONF\0", &["malloc"]).as_deref(), Some("MALLOC_CONF"));
        let two = b"\0_RJEM_MALLOC_CONF\0\0MALLOC_CONF\0";
        assert_eq!(of(two, &["_rjem_mallocx", "_rjem_malloc"]).as_deref(), Some("_RJEM_MALLOC_CONF"));
        assert_eq!((of(two, &["je_malloc"]), of(b"MALLOC_CONF", &[]), of(b"", &[])), (None, None, None));
        assert_eq!(variable_of("mimalloc", b"\0decommit_delay\0", &[]).as_deref(), Some("MIMALLOC_DECOMMIT_DELAY"));
        assert_eq!(variable_of("snmalloc", two, &[]), None);
    }

    #[test]
    fn the_maker_of_a_module_is_known_by_its_other_symbols() {
        let maker = |symbols: &[&str]| maker_of(symbols.iter().copied());
        assert_eq!(maker(&["malloc", "mallctl"]), Some("jemalloc"));
        assert_eq!(maker(&["__libc_start_main", "gnu_get_libc_version"]), Some("glibc"));
        assert_eq!(maker(&["__libc_start_main", "malloc"]), Some("musl"));
        assert_eq!(maker(&["malloc"]), None);
        assert!(is_marker("mi_version") && !is_marker("malloc"));
    }
}
