//! What kind of function a frame is: one that hands out memory, one of the runtime, or the program's own.
//!
//! The innermost frames of nearly every stack are the same few functions: `operator new`, a container growing, a
//! wrapper that checks for NULL. Naming them says nothing. A site is therefore named by the first function of the
//! program's own (or of a library that the program chose): everything that only passes the request on is looked past.
//! The rules go by name, source file and module, so that they hold with debug information and without.

use mallow_profile::FAMILIES;

use crate::names;

/// How near to the allocator a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionKind {
    /// It exists to hand out memory: `operator new`, `strdup`, `xmalloc`, `RawVec`.
    Allocator,
    /// The language's own library: its containers, its start-up code, its C functions that allocate inside. What compilers
    /// and generators write counts as such: copies, derived functions, serializers.
    Runtime,
    /// Everything else.
    Own,
}

/// Whole names of functions that hand out memory, apart from [`FAMILIES`]. Underscores in front are ignored.
const ALLOCATORS: &[&str] = &[
    "strdup",
    "strndup",
    "wcsdup",
    "asprintf",
    "vasprintf",
    "asprintf_chk",
    "vasprintf_chk",
    "vasprintf_internal",
    "getline",
    "getdelim",
    "IO_getdelim",
    "operator new",
    "operator new[]",
    "rust_alloc",
    "rust_alloc_zeroed",
    "rust_realloc",
    "rdl_alloc",
    "rdl_alloc_zeroed",
    "rdl_realloc",
    "rg_alloc",
    "rg_alloc_zeroed",
    "rg_realloc",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xreallocarray",
    "xzalloc",
    "xstrdup",
    "xstrndup",
    "xmemdup",
    "xmemdupz",
    "xmallocz",
    "xnmalloc",
    "xcharalloc",
    "x2realloc",
    "x2nrealloc",
    "ximalloc",
    "xirealloc",
    "xpalloc",
    "xasprintf",
    "xvasprintf",
    "safe_malloc",
    "safe_calloc",
    "safe_realloc",
    "do_xmalloc",
    "do_xmallocz",
    "zmalloc",
    "zcalloc",
    "zrealloc",
    "ztrymalloc",
    "ztrycalloc",
    "ztryrealloc",
    "ztrymalloc_usable",
    "zmalloc_usable",
    "ztrymalloc_usable_internal",
    "ztryrealloc_usable_internal",
    "zmalloc_usable_internal",
    "zrealloc_usable",
    "zcalloc_usable",
    "ztryrealloc_usable",
    "ztrycalloc_usable",
    "zcalloc_num",
    "ztrycalloc_usable_internal",
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
    "CRYPTO_strndup",
    "CRYPTO_memdup",
    "g_malloc",
    "g_malloc0",
    "g_malloc_n",
    "g_malloc0_n",
    "g_realloc",
    "g_realloc_n",
    "g_try_malloc",
    "g_strdup",
    "g_strndup",
    "g_slice_alloc",
    "g_slice_alloc0",
    "g_memdup",
    "g_memdup2",
    "PyMem_Malloc",
    "PyMem_Calloc",
    "PyMem_Realloc",
    "PyMem_RawMalloc",
    "PyMem_RawCalloc",
    "PyMem_RawRealloc",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "PyMem_DebugRawAlloc",
    "PyMem_New",
    "PyObject_MallocWithType",
    "default_malloc",
    "default_calloc",
    "default_realloc",
    "npy_alloc_cache",
    "npy_alloc_cache_zero",
    "npy_alloc_cache_dim",
    "PyDataMem_NEW",
    "PyDataMem_NEW_ZEROED",
    "PyDataMem_RENEW",
    "PyDataMem_UserNEW",
    "PyDataMem_UserNEW_ZEROED",
    "PyDataMem_UserRENEW",
    "PyArray_NewFromDescr",
    "PyArray_NewFromDescr_int",
    "PyArray_NewFromDescrAndBase",
    "PyArray_NewLikeArray",
    "PyArray_NewLikeArray_int",
    "PyArray_NewLikeArrayWithShape",
    "PyArray_New",
    "PyArray_Zeros",
    "PyArray_Zeros_int",
    "PyArray_Empty",
    "PyArray_Empty_int",
    "ChunkPool::allocate",
    "ChunkPool::allocate_chunk",
    "Chunk::operator new",
    "Arena::grow",
    "Arena::operator new",
    "AnyObj::operator new",
    "ResourceObj::operator new",
    "CHeapObjBase::operator new",
    "resource_allocate_bytes",
    "sqlite3MemMalloc",
    "sqlite3MemRealloc",
    "mallocWithAlarm",
    "sqlite3Malloc",
    "sqlite3MallocZero",
    "sqlite3Realloc",
    "sqlite3_malloc",
    "sqlite3_malloc64",
    "sqlite3_realloc",
    "sqlite3_realloc64",
    "sqlite3DbMallocRaw",
    "sqlite3DbMallocRawNN",
    "sqlite3DbMallocZero",
    "sqlite3DbRealloc",
    "sqlite3DbStrDup",
    "sqlite3DbStrNDup",
    "dbMallocRawFinish",
    "dbReallocFinish",
    "sqlite3DbReallocOrFree",
    "av_malloc",
    "av_mallocz",
    "av_realloc",
    "av_calloc",
    "AllocateHeap",
    "os::malloc",
    "os::realloc",
    "swift_slowAlloc",
    "swift_slowAllocTyped",
    "swift_allocObject",
    "ggc_internal_alloc",
    "ggc_internal_cleared_alloc",
    "ggc_realloc",
    "gmp_default_allocate",
    "gmp_default_reallocate",
    "llvm::allocate_buffer",
    "llvm::safe_malloc",
];

/// Beginnings of qualified names that are all about handing out memory.
const ALLOCATOR_PATHS: &[&str] = &[
    "std::allocator",
    "std::__new_allocator",
    "std::__allocate",
    "__gnu_cxx::new_allocator",
    "__gnu_cxx::__alloc",
    "std::pmr::new_delete_resource",
    "std::__detail::_Hashtable_alloc",
    "std::libcpp_allocate",
    "alloc::alloc::",
    "alloc::raw_vec::",
    "__rustc::",
    "hashbrown::raw::alloc",
];

/// Beginnings of qualified names of the languages' own libraries.
const RUNTIME_PATHS: &[&str] = &[
    "std::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "__cxa_",
    "alloc::",
    "core::",
    "hashbrown::",
    "[",
    "str>",
    "__rust_begin_short_backtrace",
    // Swift's; its functions are known by their modules.
    "swift::",
    // Go's.
    "runtime.",
    "internal/runtime/",
    "internal/bytealg.",
];

/// Containers of libiberty and GCC, by their short names.
const CONTAINERS: &[&str] = &[
    "htab_create",
    "htab_create_alloc",
    "htab_create_alloc_ex",
    "htab_create_typed_alloc",
    "htab_try_create",
    "htab_expand",
    "htab_find_slot",
    "htab_find_slot_with_hash",
    "hash_table<…>::hash_table",
    "hash_table<…>::alloc_entries",
    "hash_table<…>::expand",
    "hash_table<…>::find_slot_with_hash",
];

/// Modules of Swift's own libraries. Their generic functions are specialised in the program that uses them, and their small
/// ones inlined: most of what an array or a dictionary does is code of the program's own file.
const SWIFT_MODULES: &[&str] = &[
    "Swift",
    "SwiftShims",
    "SwiftOnoneSupport",
    "_Concurrency",
    "_StringProcessing",
    "_RegexParser",
    "RegexBuilder",
    "_Differentiation",
    "_Backtracing",
    "Distributed",
    "Observation",
    "Synchronization",
    "Dispatch",
    "Foundation",
    "FoundationEssentials",
    "FoundationInternationalization",
    "FoundationNetworking",
    "FoundationXML",
    "_FoundationCollections",
];

/// Beginnings of the names of Swift's runtime and of what its compiler makes, underscores in front left out.
const SWIFT_RUNTIME: &[&str] = &["swift_", "objectdestroy", "block_copy_helper", "block_destroy_helper"];

/// Functions that run before `main`, or below a thread's first function.
const ROOTS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "__libc_csu_init",
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
    "lang_start",
    "_GLOBAL__sub_I",
];

/// Shared objects that are the runtime as a whole: a file name begins with one of these.
const RUNTIME_MODULES: &[&str] = &[
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-musl",
    "ld-2",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "libgcc_s.so",
    "libpthread",
    "libdl",
    "libmallow",
    "libswift",
    "libFoundation",
    "lib_Foundation",
    "libBlocksRuntime.so",
    "libdispatch.so",
];

/// Parts of source paths that belong to the languages' own libraries.
const RUNTIME_SOURCES: &[&str] = &["/include/c++/", "/libstdc++-v3/", "/rustlib/src/rust/library/", "/libcxx/include/"];

/// Rust's traits whose functions the compiler derives, or that make copies: who asks for the copy allocates it.
const DERIVED: &[&str] =
    &["core::clone::Clone", "core::default::Default", "core::fmt::Debug", "alloc::borrow::ToOwned"];

/// Ends of the names of source files that a generator wrote.
const GENERATED_SOURCES: &[&str] =
    &[".pb.cc", ".pb.h", ".pb.go", ".pb.swift", ".pb-c.c", ".grpc.swift", "_generated.h", "_generated.rs"];

/// How near to the allocator a function is, by its demangled name, its source file and its module's path.
pub fn classify(function: Option<&str>, file: Option<&str>, module: Option<&str>) -> FunctionKind {
    if let Some(function) = function {
        if names::swift::function(function).is_some_and(|swift| {
            swift.synthesized || swift.module.is_some_and(|module| SWIFT_MODULES.contains(&module))
        }) {
            return FunctionKind::Runtime;
        }
        // Its short name is that of the closure that it runs.
        if names::run_by_std(function).is_some() {
            return FunctionKind::Runtime;
        }
        let short = names::short(function);
        let bare = short.trim_start_matches('_');
        // Rust's inherent methods may be written `<alloc::vec::Vec<…>>::push`.
        let path = short.trim_start_matches('<');
        if FAMILIES.contains(&bare) || ALLOCATORS.contains(&bare) || ALLOCATOR_PATHS.iter().any(|p| path.starts_with(p))
        {
            return FunctionKind::Allocator;
        }
        let library = match trait_impl(&short) {
            Some((of, of_trait)) => library_impl(of, of_trait) || DERIVED.contains(&of_trait),
            None => {
                RUNTIME_PATHS.iter().any(|p| path.starts_with(p))
                    || SWIFT_RUNTIME.iter().any(|p| bare.starts_with(p))
                    || ROOTS.contains(&short.as_str())
                    || CONTAINERS.contains(&short.as_str())
            }
        };
        if library || is_copy(function) || is_in_macro(function) {
            return FunctionKind::Runtime;
        }
    }
    let from_library = |file: &str| {
        RUNTIME_SOURCES.iter().any(|p| file.contains(p)) || (file.starts_with("/rustc/") && file.contains("/library/"))
    };
    if file.is_some_and(|file| from_library(file) || is_generated(file)) || module.is_some_and(of_runtime) {
        return FunctionKind::Runtime;
    }
    FunctionKind::Own
}

/// True for what copies a value of a type of the program's own.
pub fn copies_own(function: &str) -> bool {
    if let Some((of, of_trait)) = trait_impl(&names::short(function)) {
        return ["core::clone::Clone", "alloc::borrow::ToOwned"].contains(&of_trait) && !library_impl(of, of_trait);
    }
    is_copy(function) && !RUNTIME_PATHS.iter().any(|path| function.starts_with(path))
}

/// A C++ class's copy constructor or assignment; the compiler writes most of them.
fn is_copy(function: &str) -> bool {
    let Some((path, class)) = function.strip_suffix(" const&)").and_then(|f| f.rsplit_once('(')) else { return false };
    let Some(method) = path.strip_prefix(class).and_then(|method| method.strip_prefix("::")) else { return false };
    let name = class.split('<').next().unwrap_or(class);
    method == "operator=" || method == name.rsplit("::").next().unwrap_or(name)
}

/// Functions of Rust that a derive macro wrote are in a constant without a name.
fn is_in_macro(function: &str) -> bool {
    function.contains("::_::")
}

fn is_generated(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    GENERATED_SOURCES.iter().any(|end| name.ends_with(end)) || name.starts_with("moc_") && name.ends_with(".cpp")
}

/// Is this what runs before `main`, or below a thread's first function?
pub fn begins_a_stack(function: &str) -> bool {
    ROOTS.contains(&names::short(function).as_str())
}

/// True for a shared object that is the runtime as a whole, by its path.
pub fn of_runtime(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or(module);
    RUNTIME_MODULES.iter().any(|p| name.starts_with(p))
}

/// True for Mallow's own part of a stack: what runs a measured region, in its library, in `mallow.h` and in the faces. It
/// is between the program's functions and allocates nothing, and no view shows it.
pub fn measures(function: Option<&str>, file: Option<&str>, module: Option<&str>) -> bool {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    if module.is_some_and(|m| base(m).starts_with("libmallow")) {
        return true;
    }
    let Some(function) = function else { return false };
    if file.is_some_and(|file| base(file) == "mallow.h") && function.contains("mallow") {
        return true;
    }
    let of_rust = function.trim_start_matches('<').starts_with("mallow_measure::");
    let of_swift = function.starts_with("MallowMeasure.")
        || [" in MallowMeasure.", " of MallowMeasure."].iter().any(|part| function.contains(part));
    // The template's name alone: its arguments and parameters are the program's.
    let of_c = ["mallow_measure", "mallow_measure_in"].contains(&function);
    of_rust || of_swift || of_c || names::short(function).starts_with("mallow::measure<")
}

/// Type and trait of Rust's `<Type as Trait>::method`.
fn trait_impl(short: &str) -> Option<(&str, &str)> {
    let end = names::group(short, '<', '>')?;
    names::split_as(short.strip_prefix('<')?.get(..end - 2)?)
}

/// Is it code of Rust's library? It is where the trait is the library's, and the type too or built into the language.
/// Calls through function pointers and closures always are.
fn library_impl(of: &str, of_trait: &str) -> bool {
    let library = |path: &str| ["core::", "alloc::", "std::", "hashbrown::"].iter().any(|p| path.starts_with(p));
    let of = of.trim_start_matches(['<', '&', '*', '[', '(']);
    let built_in = !of.contains("::") || of.starts_with("dyn ");
    of_trait.starts_with("core::ops::function::Fn") || (library(of_trait) && (library(of) || built_in))
}

#[cfg(test)]
mod tests;
