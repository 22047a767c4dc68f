//! Function names, shortened for people.
//!
//! A demangled C++ name repeats types that nobody reads: return type, parameters, template arguments. What is left
//! here is the qualified name, which is enough to find the function and to see which library it belongs to.

pub(crate) mod swift;

/// The qualified name alone: without return type, parameters and anonymous namespaces, template arguments folded to
/// `<…>`. Swift's functions have no module, and the labels of their parameters, which distinguish overloads.
///
/// Works on what demanglers of C++, Rust, Go and Swift print. A name that is not understood (unbalanced brackets, say)
/// comes back as it is. Costs one pass; nesting does not multiply it.
pub fn short(name: &str) -> String {
    shortened(name, Arguments::Folded)
}

/// [`short`] with the arguments of templates and generics, which distinguish instances of one function:
/// `gen.Map[go.shape.int]`. Of a name that is longer than [`LONGEST`] with all of them, those of the function itself
/// are left, without arguments of their own: `basic_json<…>::create<std::map<…>>`.
pub fn with_arguments(name: &str) -> String {
    let all = shortened(name, Arguments::Kept);
    if all.len() <= LONGEST { all } else { shortened(name, Arguments::Own) }
}

/// Bytes of a name that is read at one look.
const LONGEST: usize = 120;

/// The arguments of templates and generics that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    Folded,
    /// The last ones, without their own.
    Own,
    Kept,
}

fn shortened(name: &str, arguments: Arguments) -> String {
    if is_place_in_file(name) {
        return name.to_owned();
    }
    if let Some(run) = run_by_std(name) {
        return run.map_or_else(|| INLINED_INTO_STD.to_owned(), |run| shortened(run, arguments));
    }
    let plain = name
        .replace("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
        .replace("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
        .replace("std::__cxx11::", "std::")
        .replace("std::__1::", "std::");
    if let Some(swift) = swift::function(&plain) {
        return swift.short;
    }
    fold(&plain, MAX_NESTING, arguments).unwrap_or(plain)
}

/// Whether this is the name of a place in a file, as functions without a name have: `app (copy)+0x1139`. The file may
/// have any name.
fn is_place_in_file(name: &str) -> bool {
    let offset = name.rsplit_once("+0x").map(|(_, offset)| offset);
    offset.is_some_and(|offset| !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Name that a legacy symbol of Rust has for code that the compiler put into std's own function, and does not name.
const INLINED_INTO_STD: &str = "{closure inlined into std}";

/// The closure that Rust's `__rust_begin_short_backtrace` runs, the first function of a thread: optimised builds put
/// the closure into it. `Some(None)` where the name does not say which, as legacy ones do not. None for all other
/// functions, and where it runs a closure of std's own.
pub(crate) fn run_by_std(name: &str) -> Option<Option<&str>> {
    let (path, arguments) = name.split_once("__rust_begin_short_backtrace")?;
    if !path.is_empty() && path != "std::sys::backtrace::" && path != "std::sys_common::backtrace::" {
        return None;
    }
    if arguments.is_empty() {
        return Some(None);
    }
    let arguments = arguments.strip_prefix("::").unwrap_or(arguments);
    let inner = arguments.get(1..group(arguments, '<', '>')? - 1)?;
    let closure =
        inner.contains("{closure").then(|| first_argument(inner)).filter(|first| !first.starts_with("std::"))?;
    Some(Some(closure))
}

/// The text up to the first comma that is in no brackets.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0i32;
    let end = arguments.find(|c| {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    arguments[..end.unwrap_or(arguments.len())].trim()
}

/// Deepest `<<A as B> as C>` that is taken apart: names come from the recorded program.
const MAX_NESTING: u32 = 16;

/// Left out of names: it says nothing.
const ANONYMOUS: &str = "(anonymous namespace)::";

fn fold(name: &str, nesting: u32, arguments: Arguments) -> Option<String> {
    let nesting = nesting.checked_sub(1)?;
    let mut out = String::with_capacity(name.len());
    let mut return_type_ends = 0;
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let path_start = out.is_empty() || (out.ends_with([' ', '&', '*']) && !ends_with_symbol(&out));
        match c {
            '<' | '>' | '-' | '=' | '!' if ends_with_operator(&out) => {
                taken = rest.find(|c: char| !"<>-=!".contains(c)).unwrap_or(rest.len());
                // `operator< <int>` has its template arguments after a space.
                out.push_str(&rest[..taken]);
            }
            // Constructors of Java.
            '<' if out.ends_with('.') && (rest.starts_with("<init>") || rest.starts_with("<clinit>")) => {
                taken = group(rest, '<', '>')?;
                out.push_str(&rest[..taken]);
            }
            '<' => {
                taken = group(rest, '<', '>')?;
                let inner = &rest[1..taken - 1];
                if path_start && let Some((of, as_)) = split_as(inner) {
                    out.push_str(&format!("<{} as {}>", fold(of, nesting, arguments)?, fold(as_, nesting, arguments)?));
                } else if path_start && !inner.contains("lambda") {
                    out.push_str(&format!("<{}>", fold(inner, nesting, arguments)?));
                } else {
                    match arguments {
                        Arguments::Kept => out.push_str(&rest[..taken]),
                        Arguments::Own if is_last_group(&rest[taken..]) => {
                            out.push_str(&without_nested(&rest[..taken]))
                        }
                        Arguments::Own | Arguments::Folded => out.push_str("<…>"),
                    }
                }
            }
            '(' if rest.starts_with(ANONYMOUS) => taken = ANONYMOUS.len(),
            '(' if ends_with_operator(&out) && rest.starts_with("()") => {
                taken = 2;
                out.push_str("()");
            }
            '(' => {
                taken = group(rest, '(', ')')?;
                if out.trim_end().ends_with("decltype") || out.ends_with('.') || out.is_empty() {
                    out.push_str(&rest[..taken]);
                } else {
                    // Only function templates carry a return type.
                    if out.ends_with('>') {
                        out.drain(..return_type_ends);
                    }
                    return_type_ends = 0;
                    if !rest[taken..].starts_with("::") && !rest[taken..].starts_with(" const::") {
                        return Some(out);
                    }
                    taken += if rest[taken..].starts_with(" const::") { " const".len() } else { 0 };
                }
            }
            '{' => {
                taken = group(rest, '{', '}')?;
                let text = &rest[..taken];
                match (text.find('('), text.rfind(')')) {
                    (Some(open), Some(close)) if open < close => {
                        out.push_str(&text[..open]);
                        out.push_str(&text[close + 1..]);
                    }
                    _ => out.push_str(text),
                }
            }
            '[' => {
                taken = group(rest, '[', ']')?;
                let kept = path_start || arguments != Arguments::Folded && !rest.starts_with("[abi:");
                if kept || ["operator", "new", "delete"].iter().any(|w| out.ends_with(w)) {
                    out.push_str(&rest[..taken]);
                }
            }
            ' ' => {
                if rest.starts_with(" [clone") {
                    return Some(out);
                }
                if !ends_with_operator(&out) && !ends_with_symbol(&out) {
                    return_type_ends = out.len() + 1;
                }
                out.push(' ');
            }
            _ => out.push(c),
        }
        rest = &rest[taken..];
    }
    Some(out)
}

/// Whether no arguments of templates follow in a name, before its parameters.
fn is_last_group(rest: &str) -> bool {
    !rest.split('(').next().unwrap_or(rest).contains('<')
}

/// `<a<b>, c>` as `<a<…>, c>`. Brackets that are not balanced stay as they are.
fn without_nested(arguments: &str) -> String {
    let mut out = String::with_capacity(arguments.len());
    let mut rest = arguments;
    while let Some(c) = rest.chars().next() {
        let nested = if c == '<' && !out.is_empty() { group(rest, '<', '>') } else { None };
        match nested {
            Some(taken) => {
                out.push_str("<…>");
                rest = &rest[taken..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out.replace("> >", ">>")
}

/// Whether the text ends with the word `operator`, and not with `my_operator`.
fn ends_with_operator(out: &str) -> bool {
    out.strip_suffix("operator").is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Whether the text ends with `operator<` or its like, and the space that may follow it.
fn ends_with_symbol(out: &str) -> bool {
    let out = out.trim_end();
    let word = out.trim_end_matches(['<', '>', '-', '=', '!']);
    word.len() < out.len() && ends_with_operator(word)
}

/// Length of the bracketed group that `text` starts with. An arrow closes nothing.
pub(crate) fn group(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close && !(c == '>' && before == '-') {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at + c.len_utf8());
            }
        }
        before = c;
    }
    None
}

/// Splits Rust's `Type as Trait` at the outermost ` as `.
pub(crate) fn split_as(inner: &str) -> Option<(&str, &str)> {
    let mut depth = 0i32;
    let mut before = ' ';
    for (at, c) in inner.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth -= 1,
            ' ' if depth == 0 && inner[at..].starts_with(" as ") => return Some((&inner[..at], &inner[at + 4..])),
            _ => {}
        }
        before = c;
    }
    None
}

/// Removes `+0x12` or `+18` at the end. `operator+` has none.
pub fn without_offset(text: &str) -> &str {
    match text.rsplit_once('+') {
        Some((function, offset)) if !function.is_empty() && !function.ends_with("operator") && is_offset(offset) => {
            function
        }
        _ => text,
    }
}

fn is_offset(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::{short, with_arguments};

    #[test]
    fn a_long_name_has_the_arguments_of_its_function() {
        let class = format!("json::basic_json<std::map, {}>", "std::vector<unsigned char>, ".repeat(6) + "bool");
        let of = |function: &str| with_arguments(&format!("{class}::{function}"));
        let map = "create<std::map<std::vector<int>, long, std::less<void> > >()";
        assert_eq!(of(map), "json::basic_json<…>::create<std::map<…>>");
        assert_eq!(of("create<int, std::vector<int> >(int)"), "json::basic_json<…>::create<int, std::vector<…>>");
        // Those of the class are the last ones.
        let own = format!("json::basic_json<std::map, {}>::clear", "std::vector<…>, ".repeat(6) + "bool");
        assert_eq!(of("clear()"), own);
    }

    #[test]
    fn arguments_distinguish_instances() {
        for (name, expected) in [
            ("gen.Map[go.shape.int]", "gen.Map[go.shape.int]"),
            ("gen.(*List[go.shape.string]).Push", "gen.(*List[go.shape.string]).Push"),
            ("std::vector<int> user::make<int, std::vector<int> >(int)", "user::make<int, std::vector<int> >"),
            ("Table<Row>::grow(unsigned long)", "Table<Row>::grow"),
            ("app::load::<alloc::vec::Vec<u8>>", "app::load::<alloc::vec::Vec<u8>>"),
            ("to_text[abi:cxx11](int)", "to_text"),
            ("main", "main"),
            ("broken<int::f(", "broken<int::f("),
        ] {
            assert_eq!(with_arguments(name), expected);
        }
    }

    #[test]
    fn keeps_what_names_the_function() {
        for (name, expected) in [
            ("main", "main"),
            ("server (v2) x+0x401139", "server (v2) x+0x401139"),
            ("parse_row.isra.0", "parse_row.isra.0"),
            ("ns::Parser::parse(int, char const*) const", "ns::Parser::parse"),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector<…>::push_back"),
            ("void std::__sort<int*, Less>(int*, int*, Less)", "std::__sort<…>"),
            ("std::vector<int, std::allocator<int> > user::make<int>(int)", "user::make<…>"),
            ("(anonymous namespace)::helper(int) [clone .cold]", "helper"),
            ("std::map<int, int> (anonymous namespace)::make<int>()", "make<…>"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long, std::nothrow_t const&)", "operator new[]"),
            ("bool a::operator< <int>(a::T const&, a::T const&)", "a::operator< <…>"),
            ("a::operator<<(std::ostream&, a::T const&)", "a::operator<<"),
            ("a::T::operator->() const", "a::T::operator->"),
            ("a::T::operator()(int) const", "a::T::operator()"),
            ("my_operator<int>::f()", "my_operator<…>::f"),
            ("void run<int>(int)::{lambda(int)#1}::operator()(int) const", "run<…>::{lambda#1}::operator()"),
            ("T::f() const::{lambda()#2}::operator()() const", "T::f::{lambda#2}::operator()"),
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
                "std::string::_M_create",
            ),
            ("to_text[abi:cxx11](int)", "to_text"),
            ("decltype ((f)(x)) ns::call<F>(F)", "ns::call<…>"),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::raw_vec::RawVec<…>::grow_one"),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", "<alloc::vec::Vec<…> as core::clone::Clone>::clone"),
            ("<[T] as alloc::slice::Join<&S>>::join", "<[T] as alloc::slice::Join<…>>::join"),
            ("core::ops::function::FnOnce::call_once::<fn() -> u8>", "core::ops::function::FnOnce::call_once::<…>"),
            ("app::main::{{closure}}", "app::main::{{closure}}"),
            ("main.(*Server).handle", "main.(*Server).handle"),
            ("java.util.zip.Deflater.<init>(int, boolean)", "java.util.zip.Deflater.<init>"),
            ("Store.<clinit>()", "Store.<clinit>"),
            ("app.Store.load(from: Swift.String) -> Swift.Int", "Store.load(from:)"),
            ("closure #1 () -> Swift.Int in app.run(identifier: Swift.String) -> ()", "closure #1 in run(identifier:)"),
            (
                "closure #12 (A) -> () in closure #1 (A<B>) -> () in app.(join in _4F71A82B8274C31663F264B9B041CCCC)(C) -> D",
                "closure #12 in join(_:)",
            ),
            ("app.(words in _4F71A82B8274C31663F264B9B041CCCC).getter : [A]", "words.getter"),
            ("app.(a in _1)(B) -> C", "(a in _1)(_:)"),
            ("closure #1", "closure #1"),
            (
                "std::sys::backtrace::__rust_begin_short_backtrace::<app::main::{closure#0}::{closure#0}, usize>",
                "app::main::{closure#0}::{closure#0}",
            ),
            (
                "std::sys_common::backtrace::__rust_begin_short_backtrace::<app::run<u8, i8>::{closure#0}, ()>",
                "app::run<…>::{closure#0}",
            ),
            ("std::sys::backtrace::__rust_begin_short_backtrace", "{closure inlined into std}"),
            // Neither the pointer to `main` nor std's own closure names anything.
            (
                "std::sys::backtrace::__rust_begin_short_backtrace::<fn(), ()>",
                "std::sys::backtrace::__rust_begin_short_backtrace::<…>",
            ),
            (
                "std::sys::backtrace::__rust_begin_short_backtrace::<std::thread::spawn<app::f>::{closure#1}, ()>",
                "std::sys::backtrace::__rust_begin_short_backtrace::<…>",
            ),
            ("app::__rust_begin_short_backtrace", "app::__rust_begin_short_backtrace"),
            ("broken<int::f(", "broken<int::f("),
            ("", ""),
        ] {
            assert_eq!(short(name), expected, "{name}");
        }
    }

    #[test]
    fn hostile_names_end() {
        for name in ["<".repeat(100_000), format!("{}{}", "<".repeat(50_000), ">".repeat(50_000)), "(".repeat(9999)] {
            assert_eq!(short(&name), name);
        }
    }
}
