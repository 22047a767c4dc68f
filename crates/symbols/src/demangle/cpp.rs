//! C++'s names, by the demangler of the C++ runtime that this program is linked with: the one of c++filt, gdb and perf, so that
//! names are equal to theirs.
//!
//! It writes as much as a name asks for, and a short name that repeats its own parts can ask for terabytes. So a name with
//! many references to its parts is measured first, with `cpp_demangle`, which stops at a limit.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

unsafe extern "C" {
    /// The Itanium C++ ABI's: returns NUL-terminated text from malloc, or NULL.
    fn __cxa_demangle(
        mangled: *const c_char,
        buffer: *mut c_char,
        length: *mut usize,
        status: *mut c_int,
    ) -> *mut c_char;
}

/// Longer results are not made.
const OUTPUT: usize = 64 << 10;

/// A name with so few references to its parts is at most some ten megabytes long: no order of them is worse than each three
/// repeating the whole of what precedes them.
const REFERENCES: usize = 27;

/// The demangled name, without the type that a function template returns; None for what is no C++ name.
pub(super) fn demangle(name: &str) -> Option<String> {
    // macOS has one more underscore.
    let name = if name.starts_with("__Z") { &name[1..] } else { name };
    if !name.starts_with("_Z") {
        return None;
    }
    if references(name) > REFERENCES {
        measure(name)?;
    }
    let demangled = runtime(name).filter(|demangled| demangled.len() <= OUTPUT)?;
    Some(match is_special(name) {
        true => demangled,
        false => without_return_type(&demangled).to_owned(),
    })
}

/// As `demangle`, by `cpp_demangle`: it knows names that are too long for the runtime's demangler.
pub(super) fn demangle_long(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = parse(name)?;
    let mut out = Bounded { text: String::new(), left: OUTPUT };
    symbol.structured_demangle(&mut out, &options().no_return_type()).ok()?;
    Some(out.text)
}

fn runtime(name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    let mut status = 0;
    // SAFETY: the name ends with a NUL, and the function may be given no buffer.
    let text = unsafe { __cxa_demangle(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), &raw mut status) };
    if text.is_null() {
        return None;
    }
    // SAFETY: text with a NUL at its end, which is ours.
    let demangled = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: from malloc, and not used any more.
    unsafe { libc::free(text.cast()) };
    (status == 0 && !demangled.is_empty()).then_some(demangled)
}

/// Something if the demangled name is not too long.
fn measure(name: &str) -> Option<()> {
    let mut out = Bounded { text: String::new(), left: OUTPUT };
    parse(name)?.structured_demangle(&mut out, &options()).ok()
}

fn parse(name: &str) -> Option<Symbol<&str>> {
    Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(160)).ok()
}

fn options() -> DemangleOptions {
    DemangleOptions::new().recursion_limit(192)
}

/// Text up to a length.
struct Bounded {
    text: String,
    left: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left = self.left.checked_sub(text.len()).ok_or(fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

/// How many `S_`, `S1A_`, `T_` and `T0_` there may be in a name. Those in the names of its parts count as well.
fn references(name: &str) -> usize {
    let reference = |part: &str| {
        let id = part.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        id.starts_with('_')
    };
    let starts = name.match_indices(['S', 'T']);
    starts.filter(|(at, _)| reference(&name[at + 1..])).count()
}

/// Tables, thunks and guard variables: nothing in front of these is a type.
fn is_special(name: &str) -> bool {
    name.starts_with("_ZT") || name.starts_with("_ZG")
}

const ANONYMOUS: &str = "(anonymous namespace)";

/// `void std::__sort<int*>(int*, int*)` without `void`: function templates alone have a return type in their names.
fn without_return_type(name: &str) -> &str {
    let (mut open, mut start) = (Vec::new(), 0);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let at = name.len() - rest.len();
        let mut taken = c.len_utf8();
        let outside = open.is_empty();
        match c {
            '(' if outside && rest.starts_with(ANONYMOUS) => taken = ANONYMOUS.len(),
            '(' if outside && !name[..at].ends_with("decltype ") => {
                // The name itself may be in it: `void (*f<int>(int))(char)`.
                return if at == start { name } else { &name[start..] };
            }
            '<' | '(' | '[' | '{' => open.push(c),
            // In an expression it compares.
            '>' => {
                open.pop_if(|open| *open == '<' && !name[..at].ends_with('-'));
            }
            ')' | ']' | '}' => {
                let opens = match c {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                let at = open.iter().rposition(|&c| c == opens);
                open.truncate(at.unwrap_or(open.len()));
            }
            ' ' if outside && !name[..at].ends_with("decltype") => start = at + 1,
            // What follows may be a type, or a symbol that looks like a bracket.
            'o' if outside && rest.starts_with("operator") && is_word(&name[..at], &rest["operator".len()..]) => {
                return &name[start..];
            }
            _ => {}
        }
        rest = &rest[taken..];
    }
    name
}

/// Is there a whole word between these?
fn is_word(before: &str, after: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !before.ends_with(part) && !after.starts_with(part)
}
