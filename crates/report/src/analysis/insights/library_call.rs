//! What a call of the language's own library does with memory, as far as advice depends on it: a container that such a
//! call hands out in its final size neither grows nor can be kept by its caller.

use super::containers::Container;
use crate::names;

/// The effect of the library's function that the innermost function of the program called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LibraryCall {
    #[default]
    Unknown,
    /// The call fills or enlarges a container that its caller has: `push_back`, `assign`, `Vec::extend`.
    Fills,
    /// The call makes a new container, which its caller can keep and fill again: `std::vector(n)`.
    Makes,
    /// The call copies a value of its own type: `to_vec`, a copy constructor.
    Copies,
    /// The call returns a new container, which it has made in its size: `Path::join`, `std::to_string`.
    Returns,
}

use LibraryCall::*;

/// Functions of Rust's containers that copy what they are given.
const RUST_COPIES: &[&str] = &[
    "clone",
    "clone_from",
    "to_vec",
    "to_vec_in",
    "to_owned",
    "to_string",
    "to_path_buf",
    "to_os_string",
    "into_owned",
    "from",
    "into",
    "from_str",
];

/// Modules of Rust's std whose functions return what they read.
const RETURNING_ROOMS: &[&str] = &["fs", "env", "io"];

/// Prefixes of functions of Rust that work on a container of the caller's, or make one that can be kept and filled
/// again.
const RUST_FILLS: &[&str] = &[
    "push",
    "extend",
    "append",
    "insert",
    "reserve",
    "try_reserve",
    "do_reserve",
    "resize",
    "with_capacity",
    "from_elem",
    "from_iter",
    "spec_",
    "collect",
    "grow",
    "finish_grow",
    "write",
    "read",
    "entry",
    "or_",
    "new",
    "default",
    "split_off",
    "fill",
    "rustc_entry",
    "allocate_in",
    "try_allocate_in",
];

/// Functions that give a container room before it is filled.
const RESERVE: &[&str] = &["reserve", "reserve_exact", "try_reserve", "with_capacity", "with_capacity_in"];

/// Functions of std::string and std::vector that enlarge or fill the caller's.
const CPP_FILLS: &[&str] = &[
    "append",
    "operator+=",
    "push_back",
    "emplace_back",
    "emplace",
    "insert",
    "resize",
    "reserve",
    "replace",
    "assign",
    "shrink_to_fit",
    "getline",
    "operator>>",
    "operator[]",
    "_M_append",
    "_M_mutate",
    "_M_replace",
    "_M_replace_aux",
    "_M_replace_cold",
    "_M_realloc_insert",
    "_M_realloc_append",
    "_M_default_append",
    "_M_fill_insert",
    "_M_fill_assign",
    "_M_range_insert",
    "_M_fill_append",
    "_M_insert_aux",
];

impl LibraryCall {
    /// [`Unknown`] but for sequences and texts of C++ and Rust. `function` is the whole name of what the program
    /// called.
    pub fn of(container: Option<Container>, function: Option<&str>) -> Self {
        let (Some(container), Some(function)) = (container, function) else { return Unknown };
        if container.is_of_cpp() {
            of_cpp(function)
        } else if container.is_of_rust() {
            of_rust(function)
        } else {
            Unknown
        }
    }

    /// Whether the function gives a container room before it is filled: mostly one that is empty.
    pub fn reserves(function: &str) -> bool {
        RESERVE.contains(&last_segment(&names::short(function)))
    }

    /// Whether a block that follows a smaller one may be the same container, grown. What a call makes, returns or
    /// copies is another one each time, and the last one may be freed when the next one is there.
    pub fn may_grow(self) -> bool {
        matches!(self, Unknown | Fills)
    }
}

fn of_rust(function: &str) -> LibraryCall {
    let short = names::short(function);
    let name = last_segment(&short);
    let room = short.strip_prefix("std::").and_then(|rest| rest.split("::").next());
    let is_internal =
        ["alloc::raw_vec::", "hashbrown::"].iter().any(|room| short.trim_start_matches('<').starts_with(room));
    match name {
        _ if room.is_some_and(|room| RETURNING_ROOMS.contains(&room)) => Returns,
        _ if RUST_COPIES.contains(&name) => Copies,
        _ if is_internal || RUST_FILLS.iter().any(|beginning| name.starts_with(beginning)) => Fills,
        _ => Returns,
    }
}

fn of_cpp(function: &str) -> LibraryCall {
    let short = names::short(function);
    let name = last_segment(&short);
    let arguments = function.rsplit_once('(').map_or("", |(_, arguments)| arguments);
    // `(5, 'a')`: so many of one character or element.
    let is_count = arguments.starts_with("unsigned long");
    match name {
        "basic_string" | "string" | "vector" | "_M_construct" if is_count => Makes,
        // From a text or from another one.
        "basic_string" | "string" | "vector" | "_M_create" | "_M_construct" | "operator=" | "_M_assign" => Copies,
        "assign" if !is_count => Copies,
        _ if CPP_FILLS.contains(&name) => Fills,
        "to_string" | "operator+" | "substr" | "str" => Returns,
        _ => Unknown,
    }
}

/// The function's name without type and arguments: `push_back` of `std::vector<…>::push_back`, `to_vec` of
/// `<[u8]>::to_vec::<…>`.
fn last_segment(short: &str) -> &str {
    let name = short.trim_end_matches("<…>").trim_end_matches("::");
    let name = name.rsplit("::").next().unwrap_or(name);
    name.trim_end_matches("<…>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Container::*;

    #[test]
    fn what_calls_of_libraries_do() {
        let string = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        let of = |container, function: &str| LibraryCall::of(Some(container), Some(function));
        for (container, function, expected) in [
            (RustVec, "<std::path::Path>::_join", Returns),
            (RustVec, "std::fs::read::<&str>", Returns),
            (RustVec, "<[u8]>::to_vec", Copies),
            (RustVec, "alloc::slice::<impl [T]>::to_vec", Copies),
            (RustVec, "<alloc::vec::Vec<u8> as core::clone::Clone>::clone", Copies),
            (RustVec, "<alloc::vec::Vec<u8>>::with_capacity", Fills),
            (RustVec, "alloc::vec::from_elem::<u8>", Fills),
            (RustVec, "alloc::vec::Vec<T,A>::push", Fills),
            (RustVec, "<alloc::raw_vec::RawVec<u8>>::grow_one", Fills),
            (RustString, "<alloc::string::String as core::convert::From<&str>>::from", Copies),
            (RustString, "<str>::to_lowercase", Returns),
            (CppVector, "std::vector<int, std::allocator<int> >::push_back(int const&)", Fills),
            (
                CppVector,
                "std::vector<int, std::allocator<int> >::vector(unsigned long, std::allocator<int> const&)",
                Makes,
            ),
            (
                CppVector,
                "std::vector<int, std::allocator<int> >::vector(std::vector<int, std::allocator<int> > const&)",
                Copies,
            ),
            (CppString, &format!("{string}::assign(unsigned long, char)"), Fills),
            (CppString, &format!("{string}::assign(char const*)"), Copies),
            (CppString, &format!("{string}::_M_replace_aux(unsigned long, unsigned long, unsigned long, char)"), Fills),
            (CppString, &format!("{string}::_M_create(unsigned long&, unsigned long)"), Copies),
            (CppString, &format!("{string}::basic_string(char const*, std::allocator<char> const&)"), Copies),
            (CppString, "std::to_string(int)", Returns),
            (CppMap, "std::map<int, int>::operator[](int const&)", Unknown),
            (SwiftArray, "Swift.Array.append(__owned A) -> ()", Unknown),
        ] {
            assert_eq!(of(container, function), expected, "{function}");
        }
        assert_eq!(LibraryCall::of(None, Some("fopen")), Unknown);
        for (function, expected) in [
            ("std::vector<int, std::allocator<int> >::reserve(unsigned long)", true),
            ("<alloc::vec::Vec<u8>>::with_capacity", true),
            ("alloc::vec::Vec<T,A>::push", false),
        ] {
            assert_eq!(LibraryCall::reserves(function), expected, "{function}");
        }
    }
}
