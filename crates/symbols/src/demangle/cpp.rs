//! C++'s names, by the demangler of the C++ runtime that this program is linked with: the one of c++filt, gdb and perf,
//! so that names are equal to theirs.
//!
//! It writes as much as a name asks for, and a short name that repeats its own parts can ask for terabytes. So a name
//! that might become long is measured first, with `cpp_demangle`, which stops at a limit.

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

/// Limit of a result's bytes.
const OUTPUT: usize = 64 << 10;

/// A name is demangled at once where its parts cannot make it longer than this.
const SURE: usize = 8 << 20;

/// The demangled name, without the type that a function template returns; None for what is no C++ name.
pub(super) fn demangle(name: &str) -> Option<String> {
    // macOS has one more underscore.
    let name = if name.starts_with("__Z") { &name[1..] } else { name };
    // A conversion in a template may be read in two ways, and the runtime tries both: with each, its time doubles.
    // Names that people write have one at most.
    if !name.starts_with("_Z") || name.matches("cv").count() > 1 {
        return None;
    }
    if longest(name) > SURE {
        measure(name)?;
    }
    let demangled = runtime(name).filter(|demangled| demangled.len() <= OUTPUT)?;
    Some(match is_special(name) {
        true => demangled,
        false => without_return_type(&demangled).to_owned(),
    })
}

/// Demangles by `cpp_demangle`: for names that are too long or too hard for the runtime's demangler.
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

/// Text that takes at most `left` more bytes.
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

/// No more than so many characters can be written for a name, builtin types aside.
///
/// A reference stands for a part that was complete before it. That of `S1_` was complete when the first reference to
/// it, or to a later part, was read: it is no longer than what was written by then, however often it comes. A
/// template's argument (`T_`) is no longer than all that precedes it. Letters of identifiers that look like references
/// count as such.
fn longest(name: &str) -> usize {
    let (mut written, mut counted) = (0usize, 0);
    // Numbers of parts and how much was written when each was referred to for the first time; both ascend.
    let mut firsts: Vec<(usize, usize)> = Vec::new();
    for (at, kind) in name.match_indices(['S', 'T']) {
        let digits = &name[at + 1..];
        let end = digits.find(|c: char| !c.is_ascii_digit() && !c.is_ascii_uppercase()).unwrap_or(digits.len());
        if !digits[end..].starts_with('_') {
            continue;
        }
        written = written.saturating_add(at - counted);
        counted = at;
        let part = usize::from_str_radix(&digits[..end], 36)
            .map_or(usize::from(end > 0) * usize::MAX, |n| n.saturating_add(1));
        let length = match firsts.iter().find(|(number, _)| *number >= part) {
            Some(&(_, length)) if kind == "S" => length,
            _ => written,
        };
        if kind == "S" && firsts.last().is_none_or(|&(last, _)| last < part) {
            firsts.push((part, written));
        }
        written = written.saturating_add(length);
    }
    written.saturating_add(name.len() - counted)
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

/// Whether a whole word stands between these texts.
fn is_word(before: &str, after: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !before.ends_with(part) && !after.starts_with(part)
}
