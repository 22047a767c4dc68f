//! What stays the same of a function from build to build: its name, without what compilers, linkers and tools append.
//!
//! | rule | what is one | example |
//! | --- | --- | --- |
//! | `addresses` | a function at any address | `run+0x19`, `run+0x2c` |
//! | `clones` | a function and the copies and parts that a compiler makes of it | `f.constprop.0`, `f.cold`, `f.18`, `f [clone .isra.0]`, `specialized f` |
//! | `hashes` | names that hold a hash of their crate, file or unit | `a::f::h0123456789abcdef`, `core[d0b5e2a1]::f` |
//! | `closures` | closures and lambdas of one function, whatever their number | `f::{closure#2}`, `main.f.func1`, `closure #1 in f` |
//! | `thunks` | stacks with and without functions that a compiler puts in between to adapt a call | `thunk for …`, `partial apply for …`, `…TRTA.18` |
//! | `start` | stacks with and without what calls `main`, or a thread's first function | `_start`, `(below main)`, `start_thread` |
//! | `lines` | calls at any line of a function | `f (a.c:12)`, `f (a.c:15)` |
//! | `files` | a function in any file | `f (a.c)`, `f (src/b.c)` |
//! | `inlining` | a function that was put into its caller, and one that was not | |
//! | `pairing` | stacks that are not equal by the other rules, and plainly the same: renamed, split, merged | |

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use crate::analysis::stacks::function_kind;
use crate::names;

/// A rule by which two functions, or two stacks, are one although they are not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    Addresses,
    Clones,
    Hashes,
    Closures,
    Thunks,
    Start,
    Lines,
    Files,
    Inlining,
    Pairing,
}

impl Rule {
    /// All rules with the names that the command line has for them.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Addresses, "addresses"),
        (Self::Clones, "clones"),
        (Self::Hashes, "hashes"),
        (Self::Closures, "closures"),
        (Self::Thunks, "thunks"),
        (Self::Start, "start"),
        (Self::Lines, "lines"),
        (Self::Files, "files"),
        (Self::Inlining, "inlining"),
        (Self::Pairing, "pairing"),
    ];
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().find(|(_, name)| *name == text);
        named.map(|(rule, _)| *rule).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("the rules are {}", names.join(", "))
        })
    }
}

/// The rules that hold; by default all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u16);

impl Default for Rules {
    fn default() -> Self {
        Self::ALL
    }
}

impl Rules {
    pub const ALL: Self = Self(u16::MAX);

    pub fn without(rules: &[Rule]) -> Self {
        Self(rules.iter().fold(u16::MAX, |set, rule| set & !(1 << *rule as u16)))
    }

    pub fn has(self, rule: Rule) -> bool {
        self.0 & 1 << rule as u16 != 0
    }
}

/// What of a function's name is the same in another build; None where the function itself is not.
pub fn function(name: &str, rules: Rules) -> Option<Cow<'_, str>> {
    let mut name = Cow::Borrowed(name);
    if rules.has(Rule::Addresses) {
        cut(&mut name, names::without_offset);
    }
    if rules.has(Rule::Thunks) && is_thunk(&name) || rules.has(Rule::Start) && is_start(&name) {
        return None;
    }
    if rules.has(Rule::Closures) {
        without_numbers(&mut name);
    }
    if rules.has(Rule::Clones) {
        cut(&mut name, without_clones);
    }
    if rules.has(Rule::Hashes) {
        without_hashes(&mut name);
    }
    Some(name)
}

/// Replaces the name by what `rule` leaves of it, unless that is empty.
fn cut(name: &mut Cow<'_, str>, rule: fn(&str) -> &str) {
    match name {
        Cow::Borrowed(text) => *text = Some(rule(text)).filter(|left| !left.is_empty()).unwrap_or(text),
        Cow::Owned(text) => {
            let left = rule(text);
            if !left.is_empty() && left.len() < text.len() {
                *text = left.to_owned();
            }
        }
    }
}

/// Whether the function is one of Swift's adapters between calling conventions, which forward a call and do nothing
/// else. Mangled names end with the kind.
fn is_thunk(name: &str) -> bool {
    let name = names::swift::without_copies(name);
    static MANGLED: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^_?\$[sS].*T[Rr](T[AaRrm])*(\.[0-9]+)?$|^_?\$[sS].*TA(\.[0-9]+)?$").ok());
    const BEGINNINGS: [&str; 7] = [
        "thunk for ",
        "dispatch thunk of ",
        "vtable thunk for ",
        "reabstraction thunk ",
        "partial apply for ",
        "partial apply forwarder for ",
        "partial apply forwarder with unmangled suffix",
    ];
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || (name.starts_with('$') || name.starts_with("_$"))
            && MANGLED.as_ref().is_some_and(|regex| regex.is_match(name))
}

/// Whether the function calls `main`, or the first function of a thread.
fn is_start(name: &str) -> bool {
    name == "(below main)" || name.starts_with("__libc_start_") || function_kind::begins_a_stack(name)
}

/// Suffixes of copies and parts of a function, as GCC and LLVM write them.
const CLONES: [&str; 10] =
    ["cold", "constprop", "isra", "part", "llvm", "clone", "lto_priv", "localalias", "__uniq", "warm"];
fn without_clones(name: &str) -> &str {
    // `generic specialization <Swift.Int> of f`, `merged f`, `f with unmangled suffix ".7"`.
    let mut name = names::swift::without_copies(name);
    // As demanglers show them.
    for mark in [" [clone ", " (."] {
        name = name.find(mark).filter(|&at| at > 0).map_or(name, |at| &name[..at]);
    }
    while let Some(shorter) = without_clone(name) {
        name = shorter;
    }
    name
}

fn without_clone(name: &str) -> Option<&str> {
    let (head, last) = name.rsplit_once('.')?;
    let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    (!head.is_empty() && (number || CLONES.contains(&last))).then_some(head)
}

/// Removes the numbers of closures, lambdas and local functions.
fn without_numbers(name: &mut Cow<'_, str>) {
    // What no number of a closure follows needs no look: most names.
    if !name.contains(['#', '{', '$', '\'']) && !name.contains(".func") && !name.contains("wrap") {
        return;
    }
    static NUMBERS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(#|\$_|'lambda|\.func|\.gowrap|\.deferwrap|-range)[0-9]+(?:\.[0-9]+)*").ok());
    if name.contains("{{closure}}") {
        *name = Cow::Owned(name.replace("{{closure}}", "{closure#}"));
    }
    if let Some(regex) = NUMBERS.as_ref()
        && let Cow::Owned(text) = regex.replace_all(name, "${1}")
    {
        *name = Cow::Owned(text);
    }
}

/// Removes hashes: Rust's at the end, those of crates, and those that Swift names a file by.
fn without_hashes(name: &mut Cow<'_, str>) {
    cut(name, |name| match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    });
    static HASHES: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"([A-Za-z0-9_])\[[0-9a-f]{6,16}\]|( in _)[0-9A-F]{32}").ok());
    if name.contains('[') || name.contains(" in _") {
        let replaced = HASHES.as_ref().map(|regex| regex.replace_all(name, "${1}${2}"));
        if let Some(Cow::Owned(text)) = replaced {
            *name = Cow::Owned(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the rule, with it.
    fn both(rule: Rule, name: &str) -> [Option<String>; 2] {
        let others: Vec<Rule> = Rule::ALL.iter().map(|(rule, _)| *rule).filter(|other| *other != rule).collect();
        let alone = Rules::without(&others);
        let none = Rules::without(&Rule::ALL.map(|(rule, _)| rule));
        [none, alone].map(|rules| function(name, rules).map(Cow::into_owned))
    }

    #[test]
    fn each_rule_takes_off_what_it_names_and_no_other_does() {
        for (rule, name, left) in [
            (Rule::Addresses, "run(int)+0x19", Some("run(int)")),
            (Rule::Addresses, "run+28", Some("run")),
            (Rule::Addresses, "operator+", Some("operator+")),
            (Rule::Clones, "f.constprop.0", Some("f")),
            (Rule::Clones, "f.isra.0.cold", Some("f")),
            (Rule::Clones, "f.18", Some("f")),
            (Rule::Clones, "f.llvm.1234567890", Some("f")),
            (Rule::Clones, "ns::f(int) [clone .part.0]", Some("ns::f(int)")),
            (Rule::Clones, "ns::f(int) (.llvm.77)", Some("ns::f(int)")),
            (Rule::Clones, "specialized merged App.run()", Some("App.run()")),
            (Rule::Clones, "generic specialization <Swift.Int> of A.f(_:)", Some("A.f(_:)")),
            (
                Rule::Clones,
                "merged function signature specialization <Arg[0] = [Constant Propagated Function : generic specialization <A> of Swift.Int.< infix(A, A) -> A], Argument Types : []> of generic specialization <Swift.Int> of A.f(_: Swift.Int) -> ()",
                Some("A.f(_: Swift.Int) -> ()"),
            ),
            (Rule::Clones, "(2) suspend resume partial function for A.f() async -> ()", Some("A.f() async -> ()")),
            (Rule::Clones, "A.f.modify : A with unmangled suffix \".resume.0\"", Some("A.f.modify : A")),
            (Rule::Clones, ".18", Some(".18")),
            (Rule::Clones, "main.run", Some("main.run")),
            (Rule::Hashes, "a::f::h0123456789abcdef", Some("a::f")),
            (Rule::Hashes, "a::f::hello", Some("a::f::hello")),
            (Rule::Hashes, "core[d0b5e2a1]::ops::f", Some("core::ops::f")),
            (Rule::Hashes, "operator new[]", Some("operator new[]")),
            (Rule::Hashes, "<[u8]>::to_vec", Some("<[u8]>::to_vec")),
            (Rule::Hashes, "NIO.(bind0 in _C131C0126670CF68D8B594DDFAE0CE57)(_:)", Some("NIO.(bind0 in _)(_:)")),
            (Rule::Closures, "app::run::{closure#12}", Some("app::run::{closure#}")),
            (Rule::Closures, "app::run::{{closure}}", Some("app::run::{closure#}")),
            (Rule::Closures, "run()::{lambda(int)#2}::operator()(int)", Some("run()::{lambda(int)#}::operator()(int)")),
            (Rule::Closures, "run()::$_3::operator()()", Some("run()::$_::operator()()")),
            (Rule::Closures, "main.run.func1.2", Some("main.run.func")),
            (Rule::Closures, "closure #1 in run(identifier:)", Some("closure # in run(identifier:)")),
            (Rule::Closures, "funky.function", Some("funky.function")),
            (Rule::Thunks, "thunk for @escaping @callee_guaranteed () -> ()", None),
            (Rule::Thunks, "merged dispatch thunk of A.f() -> ()", None),
            (Rule::Thunks, "partial apply for closure #2 in bind0(_:)", None),
            (Rule::Thunks, "$s3NIO7Channel_pxq_q0_r1_lyypypAA15EventLoopFutureCyytGIegnnr_AaB_TRTA.18", None),
            (Rule::Thunks, "$s3NIO7Channel_pxq_q0_r1_TR", None),
            (Rule::Thunks, "$s3NIO7ChannelC4readyyF", Some("$s3NIO7ChannelC4readyyF")),
            (Rule::Start, "_start", None),
            (Rule::Start, "__libc_start_main@@GLIBC_2.34", None),
            (Rule::Start, "(below main)", None),
            (Rule::Start, "main", Some("main")),
        ] {
            let [before, after] = both(rule, name);
            assert_eq!(before.as_deref(), Some(name), "all rules are off");
            assert_eq!(after.as_deref(), left, "{name}");
        }
    }

    #[test]
    fn rules_have_names() {
        for (rule, name) in Rule::ALL {
            assert_eq!(name.parse(), Ok(rule));
            assert_eq!(serde_json::to_value(rule).expect("JSON"), name);
            assert!(Rules::default().has(rule) && !Rules::without(&[rule]).has(rule));
        }
        assert!("lambdas".parse::<Rule>().is_err_and(|error| error.contains("closures")));
    }

    #[test]
    fn hostile_names_end() {
        for name in ["", "::h", ".", "..", "+0x", " [clone ", "#", "$s", "{{closure}}"] {
            let _ = function(name, Rules::default());
        }
        let long = "a.1".repeat(100_000) + &"[0123456]".repeat(10_000);
        assert!(function(&long, Rules::default()).is_some());
    }
}
