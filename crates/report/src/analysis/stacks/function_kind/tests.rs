use super::{FunctionKind, classify, measures};

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
    use FunctionKind::{Allocator, Own, Runtime};
    for (function, file, module, expected) in [
        ("operator new(unsigned long)", "", "/lib/libstdc++.so.6", Allocator),
        ("__strdup", "", "/lib/libc.so.6", Allocator),
        ("xmalloc", "", "/usr/bin/git", Allocator),
        ("ggc_internal_alloc(unsigned long, void (*)(void*))", "", "/usr/lib/gcc/cc1plus", Allocator),
        ("__gmp_default_allocate", "", "/lib/libgmp.so.10", Allocator),
        ("xmalloc.part.0", "", "/usr/bin/git", Allocator),
        ("htab_find_slot_with_hash", "", "/usr/lib/gcc/cc1plus", Runtime),
        ("hash_table<int_cst_hasher, false, xcallocator>::hash_table(unsigned long, bool)", "", "/bin/cc1", Runtime),
        // The C library's names are the program's own where its source shows that; start-up code's too.
        ("getline", "/home/me/kr/longest.c", "/bin/a", Own),
        ("getline", "", "/bin/a", Allocator),
        ("strndup", "./string/strndup.c", "/bin/a", Allocator),
        ("start_thread", "/home/me/pool.c", "/bin/a", Own),
        ("clone", "/home/me/sheep.c", "/bin/a", Own),
        ("clone", "../sysdeps/unix/sysv/linux/x86_64/clone.S", "/bin/a", Runtime),
        ("rust_alloc", "", "/bin/a", Own),
        // A namespace of C++ may be called as a crate of Rust's is.
        ("core::Engine::load(int)", "", "/bin/a", Own),
        ("core::Engine::load() const", "", "/bin/a", Own),
        ("alloc::alloc::Pool::take(unsigned long) [clone .isra.0]", "", "/bin/a", Own),
        ("core::Engine::load", "/home/me/engine.cpp", "/bin/a", Own),
        ("core::fmt::format", "", "/bin/a", Runtime),
        ("alloc::vec::Vec<u8>::push", "/rustc/0/library/alloc/src/vec/mod.rs", "/bin/a", Runtime),
        // A program may contain Swift's runtime, and a program in C may have such names.
        ("swift_allocObject", "", "/bin/a", Allocator),
        ("swift_message_parse", "/home/bank/swift_message.c", "/bin/a", Own),
        ("swift::Message::parse()", "/home/bank/message.cc", "/bin/a", Own),
        ("app.Node.__allocating_init(value: Swift.Int) -> app.Node", "", "/bin/a", Runtime),
        ("generic specialization <Swift.Int> of app.Box.__allocating_init(A) -> app.Box<A>", "", "/bin/a", Runtime),
        ("closure #1 () -> () in app.Node.__allocating_init() -> app.Node", "", "/bin/a", Own),
        ("app.Node.init(value: Swift.Int) -> app.Node", "", "/bin/a", Own),
        ("hash_table<int_cst_hasher, false, xcallocator>::traverse<int>(int)", "", "/bin/cc1", Own),
        ("my_htab_find_slot", "", "/bin/a", Own),
        ("std::sys::backtrace::__rust_begin_short_backtrace::<app::main::{closure#0}, ()>", "", "/bin/a", Runtime),
        ("std::sys::backtrace::__rust_begin_short_backtrace::<fn(), ()>", "", "/bin/a", Runtime),
        ("std::sys::backtrace::__rust_begin_short_backtrace", "", "/bin/a", Runtime),
        ("std::__new_allocator<int>::allocate(unsigned long, void const*)", "", "/bin/a", Allocator),
        ("alloc::raw_vec::RawVec<T,A>::grow_one", "", "/bin/a", Allocator),
        ("__rustc::__rust_alloc", "", "/bin/a", Allocator),
        // Whoever implements Rust's traits of allocators, here or there, with generics or without.
        ("<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc", "", "/bin/a", Allocator),
        ("<mimalloc::MiMalloc as core::alloc::global::GlobalAlloc>::realloc", "/src/mi.rs", "/bin/a", Allocator),
        (
            "<app::Counting<std::alloc::System> as core::alloc::global::GlobalAlloc>::alloc_zeroed",
            "",
            "/bin/a",
            Allocator,
        ),
        ("<&app::Arena as core::alloc::Allocator>::allocate", "/src/main.rs", "/bin/a", Allocator),
        ("<&bumpalo::Bump as allocator_api2::stable::alloc::Allocator>::allocate", "", "/bin/a", Allocator),
        ("<app::Bank as app::desk::Allocator>::allocate", "", "/bin/a", Own),
        ("<app::Arena as app::GlobalAllocate>::alloc", "", "/bin/a", Own),
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "", "/bin/a", Runtime),
        ("void std::__sort<int*>(int*, int*)", "", "/bin/a", Runtime),
        ("<alloc::string::String as core::clone::Clone>::clone", "", "/bin/a", Runtime),
        ("<T as core::convert::Into<U>>::into", "", "/bin/a", Runtime),
        ("<alloc::vec::Vec<u8>>::push", "", "/bin/a", Runtime),
        ("<alloc::raw_vec::RawVec<u8>>::grow_one", "", "/bin/a", Allocator),
        ("<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<A>", "/rustc/0/library/alloc/src/slice.rs", "/bin/a", Runtime),
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
        assert_eq!(classify(Some(function), file, Some(module)), expected, "{function}");
    }
    assert_eq!(classify(None, None, Some("/lib/x86_64-linux-gnu/libc.so.6")), FunctionKind::Runtime);
    assert_eq!(classify(None, None, None), FunctionKind::Own);
}
