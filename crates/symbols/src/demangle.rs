//! Names as people write them.
//!
//! - C++ is as c++filt has it, with `std::string` in place of what that stands for. It has its parameters (overloads
//!   are different functions) and no return type: templates alone carry one in their mangled names, so it would come
//!   and go, and it pushes the name itself out of sight.
//! - Rust has no hash at the end, unless it is asked for.
//! - Swift is as `swift demangle` has it, whole, with modules: reports make a short form of it.
//! - What the compiler adds for parts and copies of a function (`.cold`, `.constprop.0`, `.isra.0`, `.part.0`, …) is
//!   dropped: it is the same function in the source, the debug information does not have it either, and sums by
//!   function must not depend on whether there was debug information.
//! - A symbol's version (`@@GLIBC_2.2.5`) and glibc's prefix for internal aliases (`__GI_`) go for the same reason.

mod cpp;
mod swift;

use std::borrow::Cow;

use symbolic_common::Name;
use symbolic_demangle::{Demangle, DemangleOptions};

/// Longer names are shown as they are: no compiler writes them, and demangling may take time that grows with the
/// square.
const LIMIT: usize = 16 << 10;

/// The output buffer of the Swift demangler has 4 KiB; an input near that leaves it no room.
const SWIFT_LIMIT: usize = 2 << 10;

/// Demangling rules of one module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Keep the hash at the end of a Rust name.
    pub rust_hashes: bool,
    /// Names are whole and not mangled: Go's, where `main.cold` is a function called cold.
    pub verbatim: bool,
}

/// The name that reports show for one that is mangled, or what it is where it is not.
pub fn demangled(raw: &str) -> Cow<'_, str> {
    demangle(raw, Style::default())
}

/// The name to show for `raw`, as debug information or a symbol table has it.
pub(crate) fn demangle(raw: &str, style: Style) -> Cow<'_, str> {
    if style.verbatim || raw.len() > LIMIT {
        return Cow::Borrowed(raw);
    }
    let name = without_version(raw);
    let name = name.strip_prefix("__GI_").filter(|rest| !rest.is_empty()).unwrap_or(name);
    if is_rust(name)
        && let Ok(rust) =
            rustc_demangle::try_demangle(if style.rust_hashes { name } else { without_clone_suffixes(name) })
    {
        return Cow::Owned(if style.rust_hashes { rust.to_string() } else { format!("{rust:#}") });
    }
    if swift::is_mangled(name) {
        let name = swift::without_suffix(name);
        let whole = swift(name).map(|whole| swift::with_parts(&swift::with_sugar(&whole), swift));
        return whole.map_or(Cow::Borrowed(name), Cow::Owned);
    }
    let name = without_clone_suffixes(name);
    cpp::demangle(name).or_else(|| cpp::demangle_long(name)).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Whether a mangled name is Rust's. Without the hash at its end, `_ZN…E` is a variable of C++.
fn is_rust(name: &str) -> bool {
    let hash = |at: usize| {
        let hash = name[at + "17h".len()..].bytes();
        hash.take_while(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()).count() == 16
    };
    name.starts_with("_R") || name.starts_with("__R") || name.rfind("17h").is_some_and(hash)
}

/// The name as `swift demangle` prints it.
fn swift(name: &str) -> Option<String> {
    let short = name.len() <= SWIFT_LIMIT;
    let demangled = short.then(|| Name::from(name).demangle(DemangleOptions::complete())).flatten();
    demangled.filter(|demangled| !demangled.is_empty())
}

/// True for a name that says its language, so that it is worth more than a bare one.
pub(crate) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("_R") || swift::is_mangled(name)
}

/// Whether a name as the file has it is mangled: see [`is_mangled`].
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

/// Suffixes that GCC and LLVM append to the names of parts and copies. Those of the first row may stand alone, all may
/// have a number behind them.
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
    use proptest::prelude::*;

    fn shown(raw: &str) -> String {
        demangle(raw, Style::default()).into_owned()
    }

    #[test]
    fn cpp_has_parameters_and_no_return_type() {
        assert_eq!(shown("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(shown("_Z3maxIiET_S0_S0_"), "max<int>(int, int)");
        assert_eq!(shown("_Znwm"), "operator new(unsigned long)");
        // What the type of std::make_shared's result is made of.
        let made =
            "_ZSt11make_sharedI4NodeJiEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES3_E4typeEEDpOT0_";
        assert_eq!(shown(made), "std::make_shared<Node, int>(int&&)");
        assert_eq!(shown("_ZSt4pickIdEPFviET_"), "void (*std::pick<double>(double))(int)");
        assert_eq!(shown("_ZN1A1fIiEEDTcl1gfp_EET_"), "A::f<int>(int)");
        assert_eq!(
            shown("_ZltIiEbRKSt6vectorIT_SaIS1_EERK4ConvIS1_E"),
            "operator< <int>(std::vector<int, std::allocator<int> > const&, Conv<int> const&)"
        );
        assert_eq!(
            shown("_ZN12_GLOBAL__N_14hideINS_6HiddenEEEPT_S2_"),
            "(anonymous namespace)::hide<(anonymous namespace)::Hidden>((anonymous namespace)::Hidden)"
        );
        assert_eq!(shown("_ZN12_GLOBAL__N_16hiddenE"), "(anonymous namespace)::hidden");
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
        let copy = "$ss22_ContiguousArrayBufferV19_uninitializedCount15minimumCapacityAByxGSi_SitcfC";
        let copies = [".693", ".resume.0", ".resume.0.12"].map(|suffix| shown(&format!("{copy}{suffix}")));
        assert_eq!(copies, [shown(copy), shown(copy), shown(copy)]);
    }

    #[test]
    fn as_the_languages_own_tools_print_them() {
        let rows = include_str!("../../../tests/names/swift.tsv").lines().map(|row| row.split('\t'));
        let mut checked = 0;
        for mut row in rows {
            let (Some(raw), Some(whole)) = (row.next(), row.next()) else { panic!("a name without its long form") };
            assert_eq!(shown(raw), whole, "{raw}");
            checked += 1;
        }
        assert_eq!(checked, 500);
        for row in include_str!("../../../tests/names/cpp.tsv").lines() {
            let Some((raw, whole)) = row.split_once('\t') else { panic!("a name without its long form") };
            let (ours, theirs) = (abbreviated(&shown(raw)), abbreviated(whole));
            assert!(ours == theirs || theirs.ends_with(&format!(" {ours}")), "{raw}\n{ours}\n{theirs}");
        }
    }

    /// Names in names, and types without anything between them.
    #[test]
    fn parts_of_swift_names_as_swift_demangle_prints_them() {
        let rows = include_str!("../../../tests/names/swift_parts.tsv").lines();
        let rows: Vec<_> = rows.map(|row| row.split_once('\t').expect("a name and its long form")).collect();
        assert_eq!(rows.len(), 24);
        for (raw, whole) in rows {
            assert_eq!(shown(raw), whole, "{raw}");
        }
        // A module whose name ends like that of Swift's library.
        assert_eq!(swift::with_sugar("Argument Types : [MySwift.Array<A>]"), "Argument Types : [MySwift.Array<A>]");
    }

    /// c++filt writes out what people call a string; what it leaves mangled is no name.
    fn abbreviated(name: &str) -> String {
        let mut name = name.to_owned();
        for (long, short) in [
            ("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
            ("std::basic_ostream<char, std::char_traits<char> >", "std::ostream"),
            ("std::basic_istream<char, std::char_traits<char> >", "std::istream"),
            ("std::basic_iostream<char, std::char_traits<char> >", "std::iostream"),
        ] {
            name = name.replace(&format!("{long} >"), &format!("{short}>")).replace(long, short);
        }
        name
    }

    #[test]
    fn all_names_of_the_cpp_library_are_as_cppfilt_has_them() {
        let run = |command: &mut std::process::Command| command.output().expect("binutils").stdout;
        let library = run(std::process::Command::new("c++").arg("-print-file-name=libstdc++.so.6"));
        let library = String::from_utf8_lossy(&library).trim().to_owned();
        let table =
            run(std::process::Command::new("nm").args(["-D", "--defined-only", "--without-symbol-versions", &library]));
        let table = String::from_utf8_lossy(&table).into_owned();
        let names: Vec<&str> =
            table.lines().filter_map(|line| line.split(' ').nth(2)).filter(|name| name.starts_with("_Z")).collect();
        let folder = tempfile::tempdir().expect("a directory");
        let list = folder.path().join("names");
        std::fs::write(&list, names.join("\n")).expect("a file");
        let filtered = run(std::process::Command::new("c++filt").stdin(std::fs::File::open(&list).expect("a file")));
        let filtered = String::from_utf8_lossy(&filtered).into_owned();
        let differ = names.iter().zip(filtered.lines()).filter(|(raw, theirs)| {
            let (ours, theirs) = (abbreviated(&shown(raw)), abbreviated(theirs));
            ours != theirs && !theirs.ends_with(&format!(" {ours}"))
        });
        let differ: Vec<_> = differ.collect();
        assert!(
            names.len() > 3000 && differ.len() * 1000 <= names.len(),
            "{} of {}: {differ:?}",
            differ.len(),
            names.len()
        );
    }

    #[test]
    fn names_that_ask_for_more_than_there_is() {
        // Each part has the one before it twice, or three times: written out, the longer ones would fill any memory.
        for (parts, ways, known) in [(8, 2, true), (60, 2, false), (5, 3, true), (40, 3, false), (300, 2, false)] {
            let mut name = "_Z1fI1aIiiiE".to_owned();
            let mut last = "S1_".to_owned();
            for part in 0..parts {
                let letter = char::from(b'b' + (part % 20) as u8);
                name += &format!("1{letter}I{}E", last.repeat(ways));
                last = format!("S{}_", base36(part * 2 + 3));
            }
            let name = name + "EvT_";
            assert_eq!(shown(&name) != name, known, "{parts} parts, each {ways} times");
        }
        // Takes minutes where each of its conversions is tried in two ways.
        let hard = "_Z1fIXsrclILNDp_1aT_cvvcvDTET_LIIvS1_XXclT0__S1_S1_IsrsrclStS2_vS_IS2_NF3fooclDpS2_vJET_S_JDTDTT0_ZS__DTDpDpEZDpS2_S5_vT0_NS5_IIZFLS2_DTLclIS2_S5_T0_DTNJDpvT0_XS2_X1aT_S2_Ev";
        assert_eq!(shown(hard), hard);
    }

    fn base36(number: usize) -> String {
        let digit = |n: usize| char::from_digit(n as u32, 36).map(|c| c.to_ascii_uppercase()).expect("a digit");
        if number < 36 { digit(number).to_string() } else { format!("{}{}", base36(number / 36), digit(number % 36)) }
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_name_makes_the_demangler_panic(parts in proptest::collection::vec(part(), 0..10)) {
            let name = parts.concat();
            demangled(&name);
            demangle(&name, Style { rust_hashes: true, ..Style::default() });
            swift::with_parts(&swift::with_sugar(&name), |part| Some(part.to_owned()));
            cpp::demangle_long(&name);
        }
    }

    /// Pieces of mangled names, and of demangled ones.
    fn part() -> impl Strategy<Value = String> {
        const PARTS: [&str; 62] = [
            "_Z",
            "__Z",
            "_ZN",
            "_R",
            "_RNv",
            "$s",
            "_$s",
            "$e",
            "_T0",
            "17h",
            "0123456789abcdef",
            "E",
            "S_",
            "S0_",
            "T_",
            "I",
            "N",
            "3foo",
            "4main",
            "1a",
            "9",
            "é",
            "\u{0}",
            "@",
            "@@GLIBC_2.2",
            "__GI_",
            ".cold",
            ".part.0",
            ".resume.0",
            ".17",
            "Swift.",
            "Swift.Array",
            "Swift.Optional",
            "Swift.Dictionary",
            "Swift.Int",
            "<",
            ">",
            "(",
            ")",
            "[",
            "]",
            ", ",
            " -> ",
            " for <",
            "Propagated : $s",
            "Propagated Function : ",
            "Argument Types : [",
            "operator",
            "operator<",
            "decltype ",
            "decltype",
            "::",
            " ",
            "-",
            ":",
            "v",
            "i",
            "P",
            "K",
            "St",
            "Sa",
            "{lambda(",
        ];
        prop_oneof![proptest::sample::select(PARTS.to_vec()).prop_map(str::to_owned), "[ -~é]{0,6}"]
    }
}
