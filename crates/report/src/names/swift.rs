//! Swift's names, as its demangler prints them: a short form, and which module a function is from.
//!
//! `generic specialization <Swift.Int> of (extension in NIO):Swift.Array.f<A>(at: A, _: [A]) throws -> ()` is
//! `specialized Array.f(at:_:)` of the module NIO. Swift's own short form is the model (`swift demangle --simplified`),
//! without what is in angle brackets.

mod brackets;

use brackets::{find, group, is_operator};

/// The parts of a demangled name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    /// The name for lists, without modules, types, generic arguments and conventions; for nested closures the innermost
    /// alone.
    pub short: String,
    /// The module with the source; None where the name does not say.
    pub module: Option<&'a str>,
    /// Whether the compiler made the function, and no source has it: thunks, outlined copies, accessors of metadata.
    pub synthesized: bool,
}

/// Deepest nested name that is taken apart.
const MAX_NESTING: u32 = 16;

/// Prefixes by which the demangler marks a copy of a function that has a name of its own.
const COPIES: [&str; 2] = ["merged ", "function merged "];
const SPECIALIZED: &str = "specialized ";
const SPECIALIZATIONS: [&str; 7] = [
    "generic specialization <",
    "generic not re-abstracted specialization <",
    "generic partial specialization <",
    "generic not-reabstracted partial specialization <",
    "generic pre-specialization <",
    "function signature specialization <",
    "inlined generic function <",
];
const RESUMED: [&str; 2] = [" suspend resume partial function for ", " await resume partial function for "];
const SUFFIX: &str = " with unmangled suffix ";

/// Prefixes of names of functions that no source has.
const SYNTHESIZED: [&str; 18] = [
    "associated conformance ",
    "associated type ",
    "base witness ",
    "canonical ",
    "default associated ",
    "dispatch thunk of ",
    "generic ",
    "instantiation function ",
    "lazy protocol witness ",
    "merged ",
    "metaclass ",
    "method lookup function ",
    "outlined ",
    "protocol witness table ",
    "reabstraction thunk ",
    "thunk for ",
    "type metadata ",
    "vtable thunk ",
];

/// Takes a name apart that Swift's demangler printed whole or in its short form; None for any other name.
pub(crate) fn function(name: &str) -> Option<Function<'_>> {
    if !is_swift(name) {
        return None;
    }
    let whole = has_types(name) || is_synthesized(name);
    let mut reader =
        Reader { whole, out: String::with_capacity(name.len().min(120)), module: None, synthesized: false };
    reader.function(name, MAX_NESTING)?;
    let short = reader.out.trim_end().to_owned();
    (!short.is_empty()).then_some(Function { short, module: reader.module, synthesized: reader.synthesized })
}

/// Whether the function, by its short name, allocates an object and calls its `init`: the compiler writes one for each
/// initializer of a class.
pub(crate) fn is_allocating_initializer(short: &str) -> bool {
    let name = short.split_once('(').map_or(short, |(name, _)| name);
    let name = name.strip_prefix(SPECIALIZED).unwrap_or(name);
    name.rsplit_once('.').is_some_and(|(_, method)| method == "__allocating_init") && !name.contains(' ')
}

/// Removes marks of a copy or a part of a function: specialised, merged, resumed after an `await`.
pub(crate) fn without_copies(name: &str) -> &str {
    let mut rest = name;
    while let Some((_, after)) = copy(rest) {
        rest = after;
    }
    match rest.find(SUFFIX) {
        Some(at) if at > 0 => &rest[..at],
        _ => rest,
    }
}

/// The first of these marks: whether it is a specialisation's, and what is behind it.
fn copy(name: &str) -> Option<(bool, &str)> {
    if let Some(rest) = name.strip_prefix(SPECIALIZED) {
        return Some((true, rest));
    }
    if let Some(rest) = COPIES.iter().find_map(|mark| name.strip_prefix(mark)) {
        return Some((false, rest));
    }
    if let Some(mark) = SPECIALIZATIONS.iter().find(|mark| name.starts_with(**mark)) {
        let arguments = &name[mark.len() - 1..];
        return arguments[group(arguments)?..].strip_prefix(" of ").map(|rest| (true, rest));
    }
    let number = name.strip_prefix('(')?.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(')')?;
    RESUMED.iter().find_map(|mark| number.strip_prefix(mark)).map(|rest| (false, rest))
}

/// Whether Swift's demangler prints such names. A dotted path alone may be Go's or Java's as well.
fn is_swift(name: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "(extension in ",
        "default argument ",
        "key path ",
        "one-time initialization function for ",
        "partial apply ",
        "protocol witness for ",
        "static ",
        "variable initialization expression of ",
    ];
    (!name.contains("::") || name.contains("Propagated : "))
        && (copy(name).is_some()
            || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
            || is_synthesized(name)
            || name.contains("closure #")
            || has_types(name)
            || labels_alone(name))
}

fn is_synthesized(name: &str) -> bool {
    SYNTHESIZED.iter().any(|beginning| name.starts_with(beginning)) || name.contains(" value witness for ")
}

/// Whether the name has types, and modules, which the short form does not have.
fn has_types(name: &str) -> bool {
    const MARKS: [&str; 5] = [") -> ", ") async -> ", ") throws -> ", ") async throws -> ", ") throws("];
    const ACCESSORS: [&str; 9] = [
        ".getter : ",
        ".setter : ",
        ".modify : ",
        ".read : ",
        ".modify2 : ",
        ".read2 : ",
        "ddressor : ",
        "didset : ",
        "willset : ",
    ];
    const ENDS: [&str; 3] = [".__deallocating_deinit", ".__isolated_deallocating_deinit", ".__ivar_destroyer"];
    // A method of Go's may have this name, too, in a package's path.
    let deinit = |path: &str| path.contains('.') && !path.contains(['/', '(', '*']);
    name.contains('.')
        && (MARKS.iter().chain(&ACCESSORS).any(|mark| name.contains(mark))
            || ENDS.iter().any(|end| name.ends_with(end))
            || name.strip_suffix(".deinit").is_some_and(deinit)
            || name.contains(" : ")
                && (name.contains("variable initialization expression of ") || name.contains("key path ")))
}

/// Whether the name is the short form of a function: `HTTPHeaders.add(name:value:)`.
fn labels_alone(name: &str) -> bool {
    name.strip_suffix(":)").and_then(|head| head.rsplit_once('(')).is_some_and(|(path, labels)| {
        !path.is_empty()
            && !path.contains("::")
            && labels.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'`'))
    })
}

struct Reader<'a> {
    /// Whether paths begin with a module.
    whole: bool,
    out: String,
    module: Option<&'a str>,
    synthesized: bool,
}

impl<'a> Reader<'a> {
    fn function(&mut self, name: &'a str, nesting: u32) -> Option<()> {
        let nesting = nesting.checked_sub(1)?;
        let mut rest = name;
        let mut in_closure = false;
        // Of what encloses a closure: words in front of a name, or of one more closure.
        let mut words = String::new();
        loop {
            if let Some((specialized, after)) = copy(rest) {
                if specialized && !self.out.ends_with(SPECIALIZED) && !in_closure {
                    self.out.push_str(SPECIALIZED);
                }
                rest = after;
                continue;
            }
            self.synthesized |= SYNTHESIZED.iter().any(|beginning| rest.starts_with(beginning));
            if let Some(after) = rest.strip_prefix("partial apply forwarder") {
                self.out.push_str("partial apply");
                rest = after;
                if rest.is_empty() || rest.starts_with(SUFFIX) {
                    self.synthesized = true;
                    return Some(());
                }
                rest = rest.strip_prefix(" for ")?;
                self.out.push_str(" for ");
                continue;
            }
            if let Some(after) = rest.strip_prefix("reabstraction thunk ") {
                return self.thunk(after, nesting);
            }
            // What the compiler makes for a type has the type's parameters in front of it.
            if rest.starts_with('<') && operator(rest).is_none() {
                rest = rest[group(rest)?..].trim_start();
                continue;
            }
            let Some((word, after)) = rest.split_once(' ') else { break };
            // What encloses a closure may be one too: it is passed over, with its type.
            if let Some(numbered) = after.strip_prefix('#') {
                words.clear();
                rest = self.numbered(word, numbered, &mut in_closure)?;
                continue;
            }
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '-' | '$' | '_');
            if !word.chars().all(is_word) || matches!(after.split(' ').next(), Some("infix" | "prefix" | "postfix")) {
                break;
            }
            if word == "witness" && after.starts_with("for ") && self.out.ends_with("value ") {
                self.synthesized = true;
            }
            let into = if in_closure { &mut words } else { &mut self.out };
            into.push_str(word);
            into.push(' ');
            rest = after;
        }
        self.out.push_str(&words);
        rest = self.entity(rest, nesting)?;
        if let Some(at) = find(rest, " in ") {
            let mut words = rest[at..].split(' ').skip(1);
            if let (Some(within), Some(of), Some(number)) = (words.next(), words.next(), words.next())
                && number.starts_with('#')
            {
                self.out.push_str(&format!(" {within} {of} {number}"));
            }
        }
        if let Some(at) = find(rest, " in conformance ") {
            let of = &rest[at + " in conformance ".len()..];
            self.out.push_str(" in conformance ");
            self.module = find(of, " in ").map(|at| &of[at + " in ".len()..]).or(self.module);
            self.type_name(of, nesting)?;
        }
        Some(())
    }

    /// Reads `closure #1 (A) -> B in …`, `inner #1 (at: A) -> B in …`, `variable #0 of …`; returns what is left behind
    /// it.
    fn numbered(&mut self, word: &str, numbered: &'a str, in_closure: &mut bool) -> Option<&'a str> {
        let digits = numbered.find(|c: char| !c.is_ascii_digit()).unwrap_or(numbered.len());
        let after = &numbered[digits..];
        if !*in_closure {
            self.out.push_str(&format!("{word} #{}", &numbered[..digits]));
        }
        if let Some(of) = after.strip_prefix(" of ") {
            self.out.push_str(" of ");
            return Some(of);
        }
        let is_closure = word == "closure";
        if !is_closure
            && !*in_closure
            && after.starts_with([' ', '('])
            && !after.starts_with(" : ")
            && let Some(parameters) = after.find('(')
        {
            labels(&mut self.out, &after[parameters..], self.whole)?;
        }
        let Some(at) = find(after, " in ") else { return Some("") };
        if !*in_closure {
            self.out.push_str(" in ");
        }
        *in_closure = true;
        Some(&after[at + " in ".len()..])
    }

    /// Reads `helper <A> from @escaping (X) -> Y to …`, and writes the type that the helper takes, without conventions.
    fn thunk(&mut self, text: &'a str, nesting: u32) -> Option<()> {
        self.synthesized = true;
        self.out.push_str("thunk for ");
        let from = text.find("from ").map_or(text, |at| &text[at + "from ".len()..]);
        let from = find(from, " to ").map_or(from, |at| &from[..at]);
        self.out.push_str(&type_text(from, nesting)?);
        Some(())
    }

    /// Writes `(extension in M):M.Type<A>.(name in _4F71…)<B>(at: C) -> D` as `Type.name(at:)`; returns what is left
    /// behind the parameters.
    fn entity(&mut self, name: &'a str, nesting: u32) -> Option<&'a str> {
        let mut rest = name;
        let mut extension = None;
        while let Some(of) = rest.strip_prefix("(extension in ") {
            let end = of.find("):")?;
            extension = Some(&of[..end]);
            rest = &of[end + 2..];
        }
        // A module is a plain name in front of a dot; `A` is a generic parameter. What is in a local type has none.
        let local = find(rest, " in ").map(|at| &rest[at + " in ".len()..]);
        let local = local.filter(|of| of.split(' ').nth(1).is_some_and(|number| number.starts_with('#')));
        if self.whole
            && local.is_none()
            && let Some(dot) = rest.find('.')
            && is_module(&rest[..dot])
        {
            self.module = extension.or(Some(&rest[..dot]));
            rest = &rest[dot + 1..];
        } else {
            self.module = extension.or(self.module);
        }
        loop {
            if let Some(end) = operator(rest) {
                self.out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            match rest.chars().next() {
                None => return Some(rest),
                Some('.') if self.out.is_empty() => rest = &rest[1..],
                Some('.') => {
                    self.out.push('.');
                    rest = &rest[1..];
                }
                Some('<') => rest = &rest[group(rest)?..],
                Some('(') if self.out.is_empty() || self.out.ends_with(['.', ' ']) => {
                    let end = group(rest)?;
                    let inner = &rest[1..end - 1];
                    match private(inner) {
                        // `Type.(in _4F71…).init`: a private initialiser.
                        Some("") => self.out.truncate(self.out.trim_end_matches('.').len()),
                        Some(private) => self.out.push_str(private),
                        None if inner.contains(" in ") => {
                            let mut local =
                                Reader { whole: self.whole, out: String::new(), module: None, synthesized: false };
                            local.function(inner, nesting)?;
                            self.module = self.module.or(local.module);
                            self.out.push_str(&format!("({})", local.out));
                        }
                        None => {
                            self.out.push_str(&type_text(&rest[..end], nesting)?);
                        }
                    }
                    rest = &rest[end..];
                }
                Some('(') => {
                    labels(&mut self.out, rest, self.whole)?;
                    return Some(&rest[group(rest)?..]);
                }
                Some('[') => {
                    let end = group(rest)?;
                    self.out.push_str(&type_text(&rest[..end], nesting)?);
                    rest = &rest[end..];
                }
                Some('`') => {
                    let end = rest[1..].find('`')? + 2;
                    self.out.push_str(&rest[..end]);
                    rest = &rest[end..];
                }
                Some(' ') => return Some(rest),
                Some(c) => {
                    self.out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
    }

    /// Writes the type that a text begins with, without modules and arguments.
    fn type_name(&mut self, text: &'a str, nesting: u32) -> Option<()> {
        let end = [" : ", " in "].iter().filter_map(|mark| find(text, mark)).min().unwrap_or(text.len());
        self.out.push_str(&type_text(&text[..end], nesting)?);
        Some(())
    }
}

/// The private name `join` of `(join in _4F71A82B8274C31663F264B9B041CCCC)`: the file's key distinguishes it.
fn private(inner: &str) -> Option<&str> {
    let (name, key) = inner.rsplit_once(" in _").or(inner.strip_prefix("in _").map(|key| ("", key)))?;
    (key.len() == 32 && key.bytes().all(|b| b.is_ascii_hexdigit()) && !name.contains(' ')).then_some(name)
}

fn is_module(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next();
    let generic = first.is_some_and(|c| c.is_ascii_uppercase()) && chars.all(|c| c.is_ascii_digit());
    let plain = text.chars().all(|c| c.is_alphanumeric() || c == '_');
    !text.is_empty() && plain && !generic && !matches!(text, "Any" | "Self")
}

/// Length of `+= infix` and its like, which a text begins with.
fn operator(text: &str) -> Option<usize> {
    let end = text.find(|c| !is_operator(c)).filter(|&end| end > 0)?;
    let fix = [" infix", " prefix", " postfix"].into_iter().find(|fix| text[end..].starts_with(fix))?;
    let end = end + fix.len();
    text[end..].starts_with(['<', '(', ':']).then_some(end).or((end == text.len()).then_some(end))
}

/// Writes `(at: A, B)` as `(at:_:)`.
fn labels(out: &mut String, text: &str, whole: bool) -> Option<()> {
    let end = group(text)?;
    if !whole {
        out.push_str(&text[..end]);
        return Some(());
    }
    out.push('(');
    let mut rest = &text[1..end - 1];
    while !rest.is_empty() {
        let comma = find(rest, ", ");
        let one = &rest[..comma.unwrap_or(rest.len())];
        let label = one.split_once(": ").map(|(label, _)| label);
        let is_label =
            |text: &&str| text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '`' | '$')) && !text.is_empty();
        out.push_str(label.filter(is_label).unwrap_or("_"));
        out.push(':');
        rest = comma.map_or("", |at| &rest[at + 2..]);
    }
    out.push(')');
    Some(())
}

/// A type without modules, generic arguments and conventions.
fn type_text(text: &str, nesting: u32) -> Option<String> {
    nesting.checked_sub(1)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let boundary = out.is_empty() || out.ends_with([' ', '(', '[', '<']);
        if boundary && let Some(attribute) = rest.strip_prefix('@') {
            let end =
                attribute.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.')).unwrap_or(attribute.len());
            let mut after = &attribute[end..];
            if after.starts_with('(') && attribute.starts_with("convention") {
                after = &after[group(after)?..];
            }
            rest = after.strip_prefix(' ').unwrap_or(after);
        } else if boundary && let Some(of) = rest.strip_prefix("(extension in ") {
            rest = of.split_once("):")?.1;
        } else if boundary && (c.is_alphabetic() || c == '_') {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if rest[end..].starts_with('.') && !rest[end..].starts_with("...") && is_module(&rest[..end]) {
                rest = &rest[end + 1..];
            }
            let end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.')).unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            if end == 0 {
                let c = rest.chars().next()?;
                if c == '('
                    && let Some(name) = private(&rest[1..group(rest)? - 1])
                {
                    out.push_str(name);
                    rest = &rest[group(rest)?..];
                } else {
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        } else if c == '('
            && let Some(end) = group(rest)
            && let Some(name) = private(&rest[1..end - 1])
        {
            out.push_str(name);
            rest = &rest[end..];
        } else if c == '<' && !boundary {
            out.push_str("<…>");
            rest = &rest[group(rest)?..];
        } else if c == '<' {
            rest = &rest[group(rest)?..];
            rest = rest.strip_prefix(' ').unwrap_or(rest);
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
