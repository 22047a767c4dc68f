//! Which functions a person looks past when asking "who allocates?".
//!
//! The innermost frames of nearly every stack are the same few functions: `operator new`, a container growing, a
//! wrapper that checks for NULL. Naming them tells nothing. A site is therefore named by the first function of the
//! program's own (or of a library that the program chose): everything that only passes the request on is looked past.
//! The rules go by name, source file and module, so that they hold with debug information and without.

use mallow_profile::FAMILIES;

use crate::names;

/// How near to the allocator a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// It exists to hand out memory: `operator new`, `strdup`, `xmalloc`, `RawVec`.
    Allocator,
    /// The language's own library: its containers, its start-up code, its C functions that allocate inside. What compilers
    /// and generators write counts as such: copies, derived functions, serializers.
    Runtime,
    /// Everything else.
    Own,
}

/// Whole names of functions that hand out memory, besides [`FAMILIES`]. Underscores in front are ignored.
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
    "zcalloc_num",
    "ztrycalloc_usable_internal",
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
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
pub fn interest(function: Option<&str>, file: Option<&str>, module: Option<&str>) -> Interest {
    if let Some(function) = function {
        if names::swift::function(function).is_some_and(|swift| {
            swift.synthesized || swift.module.is_some_and(|module| SWIFT_MODULES.contains(&module))
        }) {
            return Interest::Runtime;
        }
        let short = names::short(function);
        let bare = short.trim_start_matches('_');
        // Rust's inherent methods may be written `<alloc::vec::Vec<…>>::push`.
        let path = short.trim_start_matches('<');
        if FAMILIES.contains(&bare) || ALLOCATORS.contains(&bare) || ALLOCATOR_PATHS.iter().any(|p| path.starts_with(p))
        {
            return Interest::Allocator;
        }
        let library = match trait_impl(&short) {
            Some((of, of_trait)) => library_impl(of, of_trait) || DERIVED.contains(&of_trait),
            None => {
                RUNTIME_PATHS.iter().any(|p| path.starts_with(p))
                    || SWIFT_RUNTIME.iter().any(|p| bare.starts_with(p))
                    || ROOTS.contains(&short.as_str())
            }
        };
        if library || is_copy(function) || is_in_macro(function) {
            return Interest::Runtime;
        }
    }
    let from_library = |file: &str| {
        RUNTIME_SOURCES.iter().any(|p| file.contains(p)) || (file.starts_with("/rustc/") && file.contains("/library/"))
    };
    if file.is_some_and(|file| from_library(file) || is_generated(file)) || module.is_some_and(of_runtime) {
        return Interest::Runtime;
    }
    Interest::Own
}

/// True for what copies a value of a type of the program's own.
pub fn copies_own(function: &str) -> bool {
    if let Some((of, of_trait)) = trait_impl(&names::short(function)) {
        return ["core::clone::Clone", "alloc::borrow::ToOwned"].contains(&of_trait) && !library_impl(of, of_trait);
    }
    is_copy(function) && !RUNTIME_PATHS.iter().any(|path| function.starts_with(path))
}

/// A C++ class's copy constructor or assignment, most of which the compiler writes.
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
mod tests {
    use super::{Interest, interest, measures};

    #[test]
    fn what_runs_a_region_is_known_with_debug_information_and_without() {
        for (function, file, module, expected) in [
            ("measure", "", "/home/a/.cache/mallow/libmallow-0.1.0-aa.so", true),
            ("mallow_measure_in", "", "/bin/a", true),
            ("mallow_measure", "/usr/include/mallow.h", "/bin/a", true),
            (
                "void mallow::measure<main::{lambda()#1}>(char const*, main::{lambda()#1}&&, mallow_scope)",
                "",
                "/bin/a",
                true,
            ),
            ("mallow::measure<T>(T)::{lambda(void*)#1}::operator()(void*) const", "/src/mallow.h", "/bin/a", true),
            ("mallow_measure::measure_in::call::<regions::main::{closure#0}>", "", "/bin/a", true),
            ("<mallow_measure::Region>::begin", "", "/bin/a", true),
            ("closure #1 (A) -> () in MallowMeasure.measure(identifier: Swift.String) -> ()", "", "/bin/a", true),
            ("MallowMeasure.measure(scope: MallowMeasure.Scope) -> ()", "", "/bin/a", true),
            ("generic specialization <A> of MallowMeasure.measure(identifier: Swift.String) -> ()", "", "/bin/a", true),
            ("main::{lambda()#1}::operator()() const", "/src/mallow.cpp", "/bin/a", false),
            ("main", "/src/mallow.h", "/bin/a", false),
            ("mallow_measure_all", "", "/bin/a", false),
            ("App.keep(region: MallowMeasure.Region) -> ()", "", "/bin/a", false),
            ("MyMallowMeasure.f() -> ()", "", "/bin/a", false),
            ("regions::main::{closure#0}", "", "/bin/a", false),
            ("call<mallow::measure<T>>", "", "/bin/a", false),
        ] {
            let file = (!file.is_empty()).then_some(file);
            assert_eq!(measures(Some(function), file, Some(module)), expected, "{function}");
        }
        assert!(!measures(None, None, None));
    }

    #[test]
    fn allocators_and_runtimes_are_looked_past() {
        use Interest::{Allocator, Own, Runtime};
        for (function, file, module, expected) in [
            ("operator new(unsigned long)", "", "/lib/libstdc++.so.6", Allocator),
            ("__strdup", "", "/lib/libc.so.6", Allocator),
            ("xmalloc", "", "/usr/bin/git", Allocator),
            ("std::__new_allocator<int>::allocate(unsigned long, void const*)", "", "/bin/a", Allocator),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", "", "/bin/a", Allocator),
            ("__rustc::__rust_alloc", "", "/bin/a", Allocator),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "", "/bin/a", Runtime),
            ("void std::__sort<int*>(int*, int*)", "", "/bin/a", Runtime),
            ("<alloc::string::String as core::clone::Clone>::clone", "", "/bin/a", Runtime),
            ("<T as core::convert::Into<U>>::into", "", "/bin/a", Runtime),
            ("<alloc::vec::Vec<u8>>::push", "", "/bin/a", Runtime),
            ("<alloc::raw_vec::RawVec<u8>>::grow_one", "", "/bin/a", Allocator),
            (
                "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<A>",
                "/rustc/0/library/alloc/src/slice.rs",
                "/bin/a",
                Runtime,
            ),
            ("<<user::Row as user::Load>::load as core::ops::function::FnOnce<()>>::call_once", "", "/bin/a", Runtime),
            ("<&dyn user::T as core::fmt::Debug>::fmt", "", "/bin/a", Runtime),
            ("<user::Row>::parse", "", "/bin/a", Own),
            ("a>::<b", "", "/bin/a", Own),
            ("<&str as core::fmt::Display>::fmt", "", "/bin/a", Runtime),
            ("fopen", "", "/usr/lib/libc.so.6", Runtime),
            ("allocate", "/usr/include/c++/12/bits/alloc.h", "/bin/a", Runtime),
            ("next", "/rustc/0123/library/core/src/iter/x.rs", "/bin/a", Runtime),
            ("_start", "", "/bin/a", Runtime),
            ("std::vector<int, std::allocator<int> > user::make<int>(int)", "", "/bin/a", Own),
            // Copies are their callers', whoever wrote them; so is generated code.
            ("<user::Row as core::clone::Clone>::clone", "/src/main.rs", "/bin/a", Runtime),
            ("<user::Row as core::fmt::Debug>::fmt", "/src/main.rs", "/bin/a", Runtime),
            ("<user::Row as core::fmt::Display>::fmt", "/src/main.rs", "/bin/a", Own),
            (
                "<user::_::<impl serde::de::Deserialize for user::Row>::deserialize::__Visitor as serde::de::Visitor>::visit_map",
                "/src/main.rs",
                "/bin/a",
                Runtime,
            ),
            ("user::Row::Row(user::Row const&)", "/src/row.h", "/bin/a", Runtime),
            ("user::Box<int>::Box(user::Box<int> const&)", "", "/bin/a", Runtime),
            ("user::Row::operator=(user::Row const&)", "", "/bin/a", Runtime),
            ("user::Row::Row(user::Table const&)", "", "/bin/a", Own),
            ("user::Row::merge(user::Row const&)", "", "/bin/a", Own),
            ("user::Row::InternalSwap()", "/src/build/row.pb.cc", "/bin/a", Runtime),
            ("user::Window::qt_metacast(char const*)", "/src/moc_window.cpp", "/bin/a", Runtime),
            ("<alloc::vec::Vec<T> as user::Table>::rows", "", "/bin/a", Own),
            ("stdx::f()", "", "/bin/a", Own),
            ("main", "/home/me/main.c", "/bin/a", Own),
            ("_IO_mine", "", "/bin/libcurl.so", Own),
            ("swift_allocObject", "", "/usr/lib/swift/libswiftCore.so", Allocator),
            ("static Swift.String.+= infix(inout Swift.String, Swift.String) -> ()", "", "/bin/a", Runtime),
            ("Swiftly.run() -> ()", "", "/bin/a", Own),
            // What a program's own file has of Swift's library, as swiftc specialised it.
            (
                "generic specialization <(Swift.String, Swift.String)> of Swift.ContiguousArray._createNewBuffer(bufferIsUnique: Swift.Bool, minimumCapacity: Swift.Int, growForAppend: Swift.Bool) -> ()",
                "",
                "/bin/a",
                Runtime,
            ),
            (
                "merged function signature specialization <Arg[0] = [Closure Propagated : closure #1 (app.A) -> Swift.Bool in app.f() -> (), Argument Types : []> of generic specialization <[app.A]> of (extension in Swift):Swift.Sequence.filter((A.Element) throws -> Swift.Bool) throws -> [A.Element]",
                "",
                "/bin/a",
                Runtime,
            ),
            (
                "closure #1 (inout Swift.UnsafeMutableBufferPointer<A>, inout Swift.Int) throws -> () in Swift.Array.init<A where A == A1.Element, A1: Swift.Sequence>(A1) -> [A]",
                "",
                "/bin/a",
                Runtime,
            ),
            (
                "(1) suspend resume partial function for static (extension in _Concurrency):Swift.Task< where A == Swift.Never, B == Swift.Never>.sleep(nanoseconds: Swift.UInt64) async throws -> ()",
                "",
                "/bin/a",
                Runtime,
            ),
            ("Foundation.NSString.appending(Swift.String) -> Swift.String", "", "/bin/a", Runtime),
            (
                "protocol witness for Swift.Sequence.makeIterator() -> A.Iterator in conformance Swift.String.UTF8View : Swift.Sequence in Swift",
                "",
                "/bin/a",
                Runtime,
            ),
            (
                "reabstraction thunk helper from @escaping @callee_guaranteed () -> () to @escaping @callee_guaranteed () -> (@out ())",
                "",
                "/bin/a",
                Runtime,
            ),
            (
                "partial apply forwarder for reabstraction thunk helper from @escaping @callee_guaranteed () -> () to @escaping @callee_guaranteed () -> (@out ())",
                "",
                "/bin/a",
                Runtime,
            ),
            ("outlined copy of app.Row?", "", "/bin/a", Runtime),
            ("initializeWithCopy value witness for app.Row", "", "/bin/a", Runtime),
            ("type metadata accessor for app.Row", "", "/bin/a", Runtime),
            ("dispatch thunk of app.Handler.read(app.Row) -> ()", "", "/bin/a", Runtime),
            ("__swift_instantiateConcreteTypeFromMangledName", "", "/bin/a", Runtime),
            ("swift::metadataimpl::allocate(unsigned long)", "", "/bin/a", Runtime),
            // The program's own, although the names tell of the library.
            ("(extension in app):Swift.Array< where A == app.Row>.rows() -> [app.Row]", "", "/bin/a", Own),
            ("generic specialization <Swift.String> of app.Cache.store(A) -> ()", "", "/bin/a", Own),
            (
                "function signature specialization <Arg[0] = [Closure Propagated : closure #1 (Swift.Int) -> () in Swift.Array.f() -> ()]> of app.each((Swift.Int) -> ()) -> ()",
                "",
                "/bin/a",
                Own,
            ),
            ("closure #1 () -> Swift.Int in app.run() -> ()", "", "/bin/a", Own),
            ("partial apply forwarder for closure #1 () -> Swift.Int in app.run() -> ()", "", "/bin/a", Own),
            // What the witness calls is often inlined into it.
            (
                "protocol witness for Swift.Sequence.makeIterator() -> A.Iterator in conformance app.Rows : Swift.Sequence in app",
                "",
                "/bin/a",
                Own,
            ),
            ("one-time initialization function for shared", "", "/bin/a", Own),
            ("app.Swift.run() -> ()", "", "/bin/a", Own),
            ("runtime.mallocgc", "/usr/local/go/src/runtime/malloc.go", "", Runtime),
            ("runtimes.Find", "/src/runtimes/find.go", "", Own),
        ] {
            let file = (!file.is_empty()).then_some(file);
            assert_eq!(interest(Some(function), file, Some(module)), expected, "{function}");
        }
        assert_eq!(interest(None, None, Some("/lib/x86_64-linux-gnu/libc.so.6")), Interest::Runtime);
        assert_eq!(interest(None, None, None), Interest::Own);
    }
}
