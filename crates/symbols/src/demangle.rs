//! Names as people write them.
//!
//! - C++ has its parameters (overloads are different functions) and no return type: templates alone carry one in their
//!   mangled names, so it would come and go, and it pushes the name itself out of sight.
//! - Rust has no hash at the end, unless it is asked for.
//! - Swift is as `swift demangle` has it, whole, with modules: reports make a short form of it.
//! - What the compiler adds for parts and copies of a function (`.cold`, `.constprop.0`, `.isra.0`, `.part.0`, …) is
//!   dropped: it is the same function in the source, the debug information does not have it either, and sums by
//!   function must not depend on whether there was debug information.
//! - A symbol's version (`@@GLIBC_2.2.5`) and glibc's prefix for internal aliases (`__GI_`) go for the same reason.

mod swift;

use std::borrow::Cow;

use symbolic_common::Name;
use symbolic_demangle::{Demangle, DemangleOptions};

/// Longer names are shown as they are: no compiler writes them, and demangling may take time that grows with the square.
const LIMIT: usize = 16 << 10;

/// The output buffer of the Swift demangler has 4 KiB; an input near that leaves it no room.
const SWIFT_LIMIT: usize = 2 << 10;

/// Rules for one module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Keep the hash at the end of a Rust name.
    pub rust_hashes: bool,
    /// Names are whole and not mangled: Go's, where `main.cold` is a function called cold.
    pub verbatim: bool,
}

/// The name to show for `raw`, as debug information or a symbol table has it.
pub(crate) fn demangle(raw: &str, style: Style) -> Cow<'_, str> {
    if style.verbatim || raw.len() > LIMIT {
        return Cow::Borrowed(raw);
    }
    let name = without_version(raw);
    let name = name.strip_prefix("__GI_").filter(|rest| !rest.is_empty()).unwrap_or(name);
    if style.rust_hashes
        && let Ok(rust) = rustc_demangle::try_demangle(name)
    {
        return Cow::Owned(rust.to_string());
    }
    if swift::is_mangled(name) {
        let name = swift::without_suffix(name);
        let whole = swift(name).map(|whole| swift::with_parts(&swift::with_sugar(&whole), swift));
        return whole.map_or(Cow::Borrowed(name), Cow::Owned);
    }
    let name = without_clone_suffixes(name);
    let options = DemangleOptions::complete().return_type(false);
    match is_mangled(name).then(|| Name::from(name).demangle(options)).flatten() {
        Some(demangled) if !demangled.is_empty() => Cow::Owned(demangled),
        _ => Cow::Borrowed(name),
    }
}

/// As the demangler prints it.
fn swift(name: &str) -> Option<String> {
    let short = name.len() <= SWIFT_LIMIT;
    let demangled = short.then(|| Name::from(name).demangle(DemangleOptions::complete())).flatten();
    demangled.filter(|demangled| !demangled.is_empty())
}

/// True for a name that says its language, so that it is worth more than a bare one.
pub(crate) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("_R") || swift::is_mangled(name)
}

/// As `is_mangled`, of a name as the file has it.
pub(crate) fn is_mangled_bytes(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(is_mangled)
}

/// `memcpy@@GLIBC_2.14` without what follows the name. A name may not begin with the sign: then it is something else.
fn without_version(name: &str) -> &str {
    match name.find('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// What GCC and LLVM append to the names of parts and copies. Those of the first row may stand alone, all may have a
/// number behind them.
const CLONES: [&str; 3] = ["cold", "localalias", "lto_priv"];
const NUMBERED_CLONES: [&str; 6] = ["constprop", "isra", "part", "llvm", "clone", "__uniq"];

fn without_clone_suffixes(mut name: &str) -> &str {
    while let Some(shorter) = without_last_clone_suffix(name) {
        name = shorter;
    }
    name
}

fn without_last_clone_suffix(name: &str) -> Option<&str> {
    let (head, last) = name.rsplit_once('.')?;
    let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let (head, word) = if number { head.rsplit_once('.')? } else { (head, last) };
    let known = CLONES.contains(&word) || number && NUMBERED_CLONES.contains(&word);
    (known && !head.is_empty()).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(raw: &str) -> String {
        demangle(raw, Style::default()).into_owned()
    }

    #[test]
    fn cpp_has_parameters_and_no_return_type() {
        assert_eq!(shown("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(shown("_Z3maxIiET_S0_S0_"), "max<int>(int, int)");
        assert_eq!(shown("_Znwm"), "operator new(unsigned long)");
        // GCC's name for a constructor before it knows which kind it is: debug information has it.
        assert_eq!(shown("_ZN3FooC4Ev"), "Foo::Foo()");
    }

    #[test]
    fn rust_has_no_hash_unless_asked_for() {
        let legacy = "_ZN4core3ptr13drop_in_place17h0123456789abcdefE";
        assert_eq!(shown(legacy), "core::ptr::drop_in_place");
        let hashes = Style { rust_hashes: true, ..Style::default() };
        assert_eq!(demangle(legacy, hashes), "core::ptr::drop_in_place::h0123456789abcdef");
        assert_eq!(shown("_RNvCskwGfYPst2Cb_3foo16example_function"), "foo::example_function");
        assert_eq!(shown("_ZN4main3run17h0123456789abcdefE.llvm.1234567890"), "main::run");
    }

    #[test]
    fn swift() {
        assert_eq!(
            shown("$s8mangling12GenericUnionO3FooyACyxGSicAEmlF"),
            "mangling.GenericUnion.Foo<A>(mangling.GenericUnion<A>.Type) -> (Swift.Int) -> mangling.GenericUnion<A>"
        );
        assert_eq!(shown("$sSa6appendyyxnF"), "Swift.Array.append(__owned A) -> ()");
        assert_eq!(shown("_T0s10DictionaryV"), "Swift.Dictionary");
    }

    #[test]
    fn copies_are_the_same_function() {
        for raw in ["work", "work.cold", "work.part.0", "work.isra.0.cold", "work.constprop.12", "work.cold.3"] {
            assert_eq!(shown(raw), "work", "{raw}");
        }
        assert_eq!(shown("_ZN3foo3barEi.isra.0"), "foo::bar(int)");
        assert_eq!(shown("work.part"), "work.part");
        assert_eq!(shown(".cold"), ".cold");
        assert_eq!(shown("a.b.7"), "a.b.7");
    }

    #[test]
    fn versions_and_internal_aliases_go() {
        assert_eq!(shown("memcpy@@GLIBC_2.14"), "memcpy");
        assert_eq!(shown("_ZNSs4swapERSs@GLIBCXX_3.4"), shown("_ZNSs4swapERSs"));
        assert_eq!(shown("__GI___libc_malloc"), "__libc_malloc");
        assert_eq!(shown("@x"), "@x");
    }

    #[test]
    fn go_names_stay() {
        let go = Style { verbatim: true, ..Style::default() };
        assert_eq!(demangle("main.cold", go), "main.cold");
        assert_eq!(demangle("main.(*T).part.0", go), "main.(*T).part.0");
    }

    #[test]
    fn what_is_not_mangled_stays() {
        for raw in ["main", "", "_Z", "_ZN", "_R", "$s", "_start", "x86.get_pc_thunk", "\u{fffd}\u{0}"] {
            assert_eq!(shown(raw), raw);
        }
    }
}
