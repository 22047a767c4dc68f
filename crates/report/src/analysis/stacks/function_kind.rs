//! What kind of function a frame is: one that hands out memory, one of the runtime, or the program's own.
//!
//! The innermost frames of nearly every stack are the same few functions: `operator new`, a container growing, a
//! wrapper that checks for NULL. Naming them says nothing. A site is therefore named by the first function of the
//! program's own (or of a library that the program chose): everything that only passes the request on is looked past.
//! The rules go by name, source file and module, so that they hold with debug information and without.

use mallow_profile::FAMILIES;

use crate::names;

mod third_party;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionKind {
    /// A function that exists to hand out memory: `operator new`, `strdup`, `xmalloc`, `RawVec`.
    Allocator,
    /// The language's own library: its containers, its start-up code, its C functions that allocate inside. What
    /// compilers and generators write counts as such: copies, derived functions, serializers.
    Runtime,
    Own,
}

/// Functions of the C library that hand out memory, apart from [`FAMILIES`], underscores in front left out. C reserves
/// these names, so they count in every module, unless the source shows another author.
const C_ALLOCATORS: &[&str] = &[
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
];

/// Whole names of functions that the languages themselves allocate by.
const ALLOCATORS: &[&str] = &[
    "operator new",
    "operator new[]",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rg_alloc",
    "__rg_alloc_zeroed",
    "__rg_realloc",
];

/// Whole names of functions that Swift's runtime allocates by.
const SWIFT_ALLOCATORS: &[&str] = &["swift_slowAlloc", "swift_slowAllocTyped", "swift_allocObject"];

/// Prefixes of qualified names of functions that hand out memory.
const ALLOCATOR_PATHS: &[&str] = &[
    "std::allocator",
    "std::__new_allocator",
    "std::__allocate",
    "__gnu_cxx::new_allocator",
    "__gnu_cxx::__alloc",
    "std::pmr::new_delete_resource",
    "std::__detail::_Hashtable_alloc",
    "std::libcpp_allocate",
    "__rustc::",
];

/// Prefixes of names of Rust's functions that hand out memory. A namespace of C++ may have the name of such a crate.
const RUST_ALLOCATOR_PATHS: &[&str] = &["alloc::alloc::", "alloc::raw_vec::", "hashbrown::raw::alloc"];

/// Prefixes of qualified names of the languages' own libraries.
const RUNTIME_PATHS: &[&str] = &[
    "std::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "__cxa_",
    "[",
    "str>",
    "__rust_begin_short_backtrace",
    // Go's.
    "runtime.",
    "internal/runtime/",
    "internal/bytealg.",
];

/// Prefixes of names of Rust's own library. A namespace of C++ may have the name of such a crate.
const RUST_RUNTIME_PATHS: &[&str] = &["alloc::", "core::", "hashbrown::"];

/// Modules of Swift's own libraries. Their generic functions are specialised in the program that uses them, and their
/// small ones inlined: most of what an array or a dictionary does is code of the program's own file.
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

/// Prefixes of the names of Swift's runtime and of what its compiler makes, underscores in front left out. They count
/// in every module, since a program may contain the runtime, unless the source shows another author.
const SWIFT_RUNTIME: &[&str] = &["swift_", "swift::", "objectdestroy", "block_copy_helper", "block_destroy_helper"];

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

/// Prefixes of the file names of shared objects that are the runtime as a whole.
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

/// Parts of the source paths of the C library and of Swift's runtime, as their builds write them.
const C_SOURCES: &[&str] = &[
    "/glibc",
    "/musl",
    "../sysdeps/",
    "./nptl/",
    "./csu/",
    "./malloc/",
    "./string/",
    "./wcsmbs/",
    "./debug/",
    "./stdio-common/",
    "./libio/",
];
const SWIFT_SOURCES: &[&str] = &["/swift/", "<compiler-generated>"];

/// Parts of source paths that belong to the languages' own libraries.
const RUNTIME_SOURCES: &[&str] = &["/include/c++/", "/libstdc++-v3/", "/rustlib/src/rust/library/", "/libcxx/include/"];

/// Rust's traits whose functions the compiler derives, or that make copies: who asks for the copy allocates it.
const DERIVED: &[&str] =
    &["core::clone::Clone", "core::default::Default", "core::fmt::Debug", "alloc::borrow::ToOwned"];

/// Ends of the names of source files that a generator wrote.
const GENERATED_SOURCES: &[&str] =
    &[".pb.cc", ".pb.h", ".pb.go", ".pb.swift", ".pb-c.c", ".grpc.swift", "_generated.h", "_generated.rs"];

/// Classifies a function by its demangled name, its source file and its module's path.
pub fn classify(function: Option<&str>, file: Option<&str>, module: Option<&str>) -> FunctionKind {
    if let Some(kind) = function.and_then(|function| by_name(function, file, module)) {
        return kind;
    }
    let from_library = |file: &str| {
        RUNTIME_SOURCES.iter().any(|p| file.contains(p)) || (file.starts_with("/rustc/") && file.contains("/library/"))
    };
    if file.is_some_and(|file| from_library(file) || is_generated(file)) || module.is_some_and(of_runtime) {
        return FunctionKind::Runtime;
    }
    FunctionKind::Own
}

/// Classifies a function where its name suffices; None otherwise.
fn by_name(function: &str, file: Option<&str>, module: Option<&str>) -> Option<FunctionKind> {
    if let Some(swift) = names::swift::function(function) {
        let of_library = swift.module.is_some_and(|module| SWIFT_MODULES.contains(&module));
        if swift.synthesized || of_library || names::swift::is_allocating_initializer(&swift.short) {
            return Some(FunctionKind::Runtime);
        }
    }
    // Its short name is that of the closure that it runs.
    if names::run_by_std(function).is_some() {
        return Some(FunctionKind::Runtime);
    }
    let short = names::short(function);
    let bare = short.trim_start_matches('_');
    // Rust's inherent methods may be written `<alloc::vec::Vec<…>>::push`.
    let path = short.trim_start_matches('<');
    let begins = |beginnings: &[&str], name: &str| beginnings.iter().any(|p| name.starts_with(p));
    let of_rust = || file.map_or_else(|| !has_parameters(function), |file| file.ends_with(".rs"));
    let of_c = || written_there(file, module, C_SOURCES);
    let of_swift = || written_there(file, module, SWIFT_SOURCES);
    if FAMILIES.contains(&bare)
        || ALLOCATORS.contains(&short.as_str())
        || begins(ALLOCATOR_PATHS, path)
        || begins(RUST_ALLOCATOR_PATHS, path) && of_rust()
        || C_ALLOCATORS.contains(&bare) && of_c()
        || SWIFT_ALLOCATORS.contains(&bare) && of_swift()
    {
        return Some(FunctionKind::Allocator);
    }
    match third_party::purpose(&short, file, module) {
        Some(third_party::Purpose::Allocator) => return Some(FunctionKind::Allocator),
        Some(third_party::Purpose::Container) => return Some(FunctionKind::Runtime),
        None => {}
    }
    let library = match trait_impl(&short) {
        Some((_, of_trait)) if is_trait_of_allocators(of_trait) => return Some(FunctionKind::Allocator),
        Some((of, of_trait)) => library_impl(of, of_trait) || DERIVED.contains(&of_trait),
        None => {
            begins(RUNTIME_PATHS, path)
                || begins(RUST_RUNTIME_PATHS, path) && of_rust()
                || begins(SWIFT_RUNTIME, bare) && of_swift()
                || ROOTS.contains(&short.as_str()) && of_c()
        }
    };
    (library || is_copy(function) || is_in_macro(function)).then_some(FunctionKind::Runtime)
}

/// Whether a function may be from these sources. A source file that is known and elsewhere shows another author, unless
/// the module is the runtime's as a whole.
fn written_there(file: Option<&str>, module: Option<&str>, sources: &[&str]) -> bool {
    module.is_some_and(of_runtime) || file.is_none_or(|file| sources.iter().any(|part| file.contains(part)))
}

/// Whether this is the demangled name of a function of C++: Rust's have no parameters.
fn has_parameters(function: &str) -> bool {
    let function = function.split(" [clone").next().unwrap_or(function);
    function.strip_suffix(" const").unwrap_or(function).ends_with(')')
}

/// Whether the function copies a value of a type of the program's own.
pub fn copies_own(function: &str) -> bool {
    if let Some((of, of_trait)) = trait_impl(&names::short(function)) {
        return ["core::clone::Clone", "alloc::borrow::ToOwned"].contains(&of_trait) && !library_impl(of, of_trait);
    }
    let library = RUNTIME_PATHS.iter().chain(RUST_RUNTIME_PATHS).any(|path| function.starts_with(path));
    is_copy(function) && !library
}

/// Whether this is a C++ class's copy constructor or assignment; the compiler writes most of them.
fn is_copy(function: &str) -> bool {
    let Some((path, class)) = function.strip_suffix(" const&)").and_then(|f| f.rsplit_once('(')) else { return false };
    let Some(method) = path.strip_prefix(class).and_then(|method| method.strip_prefix("::")) else { return false };
    let name = class.split('<').next().unwrap_or(class);
    method == "operator=" || method == name.rsplit("::").next().unwrap_or(name)
}

/// Whether a derive macro of Rust wrote the function: it is in a constant without a name.
fn is_in_macro(function: &str) -> bool {
    function.contains("::_::")
}

fn is_generated(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    GENERATED_SOURCES.iter().any(|end| name.ends_with(end)) || name.starts_with("moc_") && name.ends_with(".cpp")
}

/// Whether the function runs before `main`, or below a thread's first function. By its name alone.
pub fn begins_a_stack(function: &str) -> bool {
    ROOTS.contains(&names::short(function).as_str())
}

/// Whether the shared object, by its path, is the runtime as a whole.
pub fn of_runtime(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or(module);
    RUNTIME_MODULES.iter().any(|p| name.starts_with(p))
}

/// Whether this is Mallow's own part of a stack: what runs a measured region, in its library, in `mallow.h` and in the
/// faces. It is between the program's functions and allocates nothing, and no view shows it.
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

/// Whether this is Rust's `core::alloc::GlobalAlloc`, or `Allocator` of it or of a crate that offers it to stable
/// compilers. Whoever implements one, by a library or in the program, hands out memory for others.
fn is_trait_of_allocators(of_trait: &str) -> bool {
    let mut path = of_trait.rsplit("::");
    matches!(
        (path.next(), path.next()),
        (Some("GlobalAlloc"), Some("global" | "alloc")) | (Some("Allocator"), Some("alloc"))
    )
}

/// Type and trait of Rust's `<Type as Trait>::method`.
fn trait_impl(short: &str) -> Option<(&str, &str)> {
    let end = names::group(short, '<', '>')?;
    names::split_as(short.strip_prefix('<')?.get(..end - 2)?)
}

/// Whether this is code of Rust's library: the trait is the library's, and the type too or built into the language.
/// Calls through function pointers and closures always are.
fn library_impl(of: &str, of_trait: &str) -> bool {
    let library = |path: &str| ["core::", "alloc::", "std::", "hashbrown::"].iter().any(|p| path.starts_with(p));
    let of = of.trim_start_matches(['<', '&', '*', '[', '(']);
    let built_in = !of.contains("::") || of.starts_with("dyn ");
    of_trait.starts_with("core::ops::function::Fn") || (library(of_trait) && (library(of) || built_in))
}

#[cfg(test)]
mod tests;
