//! Where allocation functions have their arguments.

use super::families::{Family, family_of, without_heap, without_prefix};

/// Arguments of a function, by the stub of the library that serves it: `enum mallow_stub`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `(size, …)`
    Allocate,
    /// `(x, size, …)`
    AllocateSecond,
    /// `(count, size, …)`
    AllocateCount,
    /// `(x, count, size, …)`
    AllocateCountSecond,
    /// `(text, …)`: returns a string.
    AllocateText,
    /// `(result, alignment, size)`
    AllocateResult,
    /// `(block, …)`
    Free,
    /// `(block, size, …)`
    Reallocate,
    /// `(x, block, size, …)`
    ReallocateSecond,
    /// `(block, count, size, …)`
    ReallocateCount,
    /// `(x, block, count, size, …)`
    ReallocateCountSecond,
    /// `(block, x, y, size)`
    ReallocateFourth,
    /// `(block, size, …)`, returns the usable size.
    Resize,
    /// `(block, size)`, returns the block or NULL.
    Expand,
    /// `operator new` of a library: `(size, …)`
    New,
    /// `operator new` of a library: `(size, alignment, …)`
    NewAligned,
    /// `operator delete` of a library: `(block, …)`
    Delete,
}

impl Call {
    /// Whether an allocator that is a library can be patched without a function of this kind: it neither frees, nor is
    /// an operator of C++.
    pub fn may_be_left_out(self) -> bool {
        !matches!(self, Self::Free | Self::New | Self::NewAligned | Self::Delete)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    pub call: Call,
    /// The function of the C library that its calls count as: an index of `mallow_profile::FAMILIES`.
    pub counts_as: u32,
}

/// The arguments of the allocation function with this raw name. None: it is no allocation function, or one that the
/// other functions of its family serve.
pub fn signature_of(symbol: &str) -> Option<Signature> {
    let family = family_of(symbol)?;
    if family == Family::Cpp {
        let frees = symbol.starts_with("_Zd");
        let (call, counts_as) = if frees { (Call::Free, MALLOC) } else { (Call::Allocate, MALLOC) };
        return Some(Signature { call, counts_as });
    }
    let name = without_prefix(symbol);
    let (name, of_heap) = if family == Family::Mimalloc { without_heap(name) } else { (name, false) };
    let (call, counts_as) = plain(name, family)?;
    let call = if of_heap { second(call)? } else { call };
    Some(Signature { call, counts_as })
}

/// [`signature_of`] for an allocator that is a library: `operator new` and `operator delete` lead to libmallow.so's
/// functions.
pub fn signature_in_library(symbol: &str) -> Option<Signature> {
    let signature = signature_of(symbol)?;
    if family_of(symbol) != Some(Family::Cpp) {
        return Some(signature);
    }
    let call = match signature.call {
        Call::Free => Call::Delete,
        _ if symbol.contains("align_val_t") => Call::NewAligned,
        _ => Call::New,
    };
    Some(Signature { call, ..signature })
}

const MALLOC: u32 = 0;
const CALLOC: u32 = 1;
const REALLOC: u32 = 2;
const REALLOCARRAY: u32 = 3;
const ALIGNED_ALLOC: u32 = 4;
const MEMALIGN: u32 = 5;
const POSIX_MEMALIGN: u32 = 6;
const VALLOC: u32 = 7;
const PVALLOC: u32 = 8;

fn plain(name: &str, family: Family) -> Option<(Call, u32)> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "malloc" | "mallocx" | "malloc_small" | "malloc_skip_new_handler" => (Call::Allocate, MALLOC),
        "umalloc" | "umalloc_small" => (Call::Allocate, MALLOC),
        "new" | "new_nothrow" | "newarray" | "newarray_nothrow" | "alloc_new" => (Call::Allocate, MALLOC),
        "new_aligned" | "new_aligned_nothrow" | "newarray_aligned" | "newarray_aligned_nothrow" => {
            (Call::Allocate, MALLOC)
        }
        "zalloc" | "zalloc_small" | "zalloc_aligned" | "zalloc_aligned_at" => (Call::Allocate, CALLOC),
        "uzalloc_small" | "uzalloc_aligned" => (Call::Allocate, CALLOC),
        "malloc_aligned" | "malloc_aligned_at" | "umalloc_aligned" => (Call::Allocate, ALIGNED_ALLOC),
        "mallocn" | "new_n" | "alloc_new_n" => (Call::AllocateCount, MALLOC),
        "calloc" | "calloc_aligned" | "calloc_aligned_at" | "ucalloc" => (Call::AllocateCount, CALLOC),
        "aligned_alloc" => (Call::AllocateSecond, ALIGNED_ALLOC),
        "memalign" => (Call::AllocateSecond, MEMALIGN),
        "posix_memalign" => (Call::AllocateResult, POSIX_MEMALIGN),
        "valloc" => (Call::Allocate, VALLOC),
        "pvalloc" => (Call::Allocate, PVALLOC),
        "strdup" | "strndup" => (Call::AllocateText, MALLOC),
        "realloc" | "rallocx" | "reallocf" | "new_realloc" | "urealloc" => (Call::Reallocate, REALLOC),
        "realloc_aligned" | "realloc_aligned_at" => (Call::Reallocate, REALLOC),
        "rezalloc" | "rezalloc_aligned" | "rezalloc_aligned_at" => (Call::Reallocate, REALLOC),
        "reallocn" | "reallocarray" | "new_reallocn" => (Call::ReallocateCount, REALLOCARRAY),
        "recalloc" | "recalloc_aligned" | "recalloc_aligned_at" => (Call::ReallocateCount, REALLOCARRAY),
        "aligned_recalloc" | "aligned_offset_recalloc" => (Call::ReallocateCount, REALLOCARRAY),
        "xallocx" => (Call::Resize, REALLOC),
        "expand" => (Call::Expand, REALLOC),
        "free" | "cfree" | "dallocx" | "sdallocx" | "free_small" | "ufree" => (Call::Free, MALLOC),
        "free_sized" | "free_aligned_sized" | "free_size" | "free_size_aligned" | "free_aligned" => {
            (Call::Free, MALLOC)
        }
        name if name.starts_with("delete") => (Call::Free, MALLOC),
        "rust_alloc" if family == Family::Snmalloc => (Call::AllocateSecond, MALLOC),
        "rust_alloc_zeroed" if family == Family::Snmalloc => (Call::AllocateSecond, CALLOC),
        "rust_dealloc" if family == Family::Snmalloc => (Call::Free, MALLOC),
        "rust_realloc" if family == Family::Snmalloc => (Call::ReallocateFourth, REALLOC),
        _ => return None,
    })
}

/// The arguments with a heap before all others. None: that would be more arguments than stubs take.
fn second(call: Call) -> Option<Call> {
    Some(match call {
        Call::Allocate => Call::AllocateSecond,
        Call::AllocateCount => Call::AllocateCountSecond,
        Call::AllocateText => Call::AllocateText,
        Call::Reallocate => Call::ReallocateSecond,
        Call::ReallocateCount => Call::ReallocateCountSecond,
        _ => return None,
    })
}

/// Whether a function of this name returns the usable size of a block of its allocator.
pub fn is_usable_size(symbol: &str) -> bool {
    symbol == "mi_usable_size" || matches!(without_prefix(symbol), "malloc_usable_size" | "malloc_size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_known_by_the_name() {
        for (symbol, expected) in [
            ("malloc", Some((Call::Allocate, MALLOC))),
            ("_rjem_mallocx", Some((Call::Allocate, MALLOC))),
            ("_rjem_xallocx", Some((Call::Resize, REALLOC))),
            ("je_sdallocx", Some((Call::Free, MALLOC))),
            ("mi_heap_malloc_aligned_at", Some((Call::AllocateSecond, ALIGNED_ALLOC))),
            ("mi_heap_recalloc", Some((Call::ReallocateCountSecond, REALLOCARRAY))),
            ("mi_theap_realloc", Some((Call::ReallocateSecond, REALLOC))),
            ("mi_theap_zalloc", Some((Call::AllocateSecond, CALLOC))),
            ("mi_heap_new", None),
            ("mi_urealloc", Some((Call::Reallocate, REALLOC))),
            ("mi_free_small", Some((Call::Free, MALLOC))),
            ("duckdb_je_rallocx", Some((Call::Reallocate, REALLOC))),
            ("mi_zalloc", Some((Call::Allocate, CALLOC))),
            ("mi_new_n", Some((Call::AllocateCount, MALLOC))),
            ("mi_reallocarr", None),
            ("tc_deletearray_sized", Some((Call::Free, MALLOC))),
            ("TCMallocInternalCalloc", Some((Call::AllocateCount, CALLOC))),
            ("sn_rust_realloc", Some((Call::ReallocateFourth, REALLOC))),
            ("__rg_alloc", None),
            ("_ZnamSt11align_val_t", Some((Call::Allocate, MALLOC))),
            ("_ZdlPvm", Some((Call::Free, MALLOC))),
            ("strdup", None),
        ] {
            assert_eq!(signature_of(symbol).map(|s| (s.call, s.counts_as)), expected, "{symbol}");
        }
        assert!(is_usable_size("_rjem_malloc_usable_size") && is_usable_size("mi_usable_size"));
        assert!(is_usable_size("tc_malloc_size") && is_usable_size("malloc_usable_size"));
        assert!(!is_usable_size("usable_size") && !is_usable_size("malloc"));
    }
}
