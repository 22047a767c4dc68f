//! Swift's names: what LLVM appends to the mangled ones, and types as people write them.

/// Mangled names begin with one of these.
const BEGINNINGS: [&str; 7] = ["$s", "_$s", "$S", "_$S", "$e", "_$e", "_T0"];

pub(super) fn is_mangled(name: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The name without `.17`, which LLVM appends where two functions have one name, and without `.resume.0`, the second
/// half of a coroutine: the demangler would take the whole name apart in another way.
pub(super) fn without_suffix(mut name: &str) -> &str {
    while let Some((head, last)) = name.rsplit_once('.')
        && !head.is_empty()
        && (last == "resume" || !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        name = head;
    }
    name
}

/// Demangles the names in a name: `function signature specialization <Arg[0] = [Closure Propagated : $s3app…]> of f`.
pub(super) fn with_parts(name: &str, demangle: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(MANGLED_PART) {
        let (head, part) = rest.split_at(at + MANGLED_PART.len() - 2);
        out.push_str(head);
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$')).unwrap_or(part.len());
        out.push_str(demangle(&part[..end]).as_deref().unwrap_or(&part[..end]));
        rest = &part[end..];
    }
    out + rest
}

const MANGLED_PART: &str = "Propagated : $s";

/// Deeper nested types stay as they are.
const MAX_NESTING: u32 = 64;

/// `Swift.Array<Swift.Optional<A>>` as `[A?]`, as `swift demangle` writes it.
pub(super) fn with_sugar(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    sugar(name, &mut out, MAX_NESTING, false);
    out
}

/// Writes `text` with types as people write them. Where types are `adjacent`, one may begin right behind the last
/// letter of another one.
fn sugar(text: &str, out: &mut String, nesting: u32, adjacent: bool) {
    let mut rest = text;
    while let Some((at, part)) = Part::next(rest) {
        let (head, tail) = rest.split_at(at);
        out.push_str(head);
        rest = part.write(tail, out, nesting, adjacent);
    }
    out.push_str(rest);
}

/// Parts of a name that `swift demangle` prints by rules of their own.
#[derive(Clone, Copy)]
enum Part {
    /// `[Constant Propagated Function : f() -> Swift.Optional<A>]`: a name in a name has no short forms.
    Function,
    /// `Argument Types : [Swift.IntA?]`: no separator stands between the types.
    Arguments,
    /// `@substituted <A, B> (A) -> (B) for <Swift.IntA?>`: neither here.
    Substitutions,
    /// A type of Swift's library.
    Type,
}

impl Part {
    /// The first one of a text, and where it begins: a list with its bracket, a function behind it.
    fn next(text: &str) -> Option<(usize, Self)> {
        let marks = [
            ("Propagated Function : ", 0, Self::Function),
            ("Argument Types : [", "[".len(), Self::Arguments),
            (" for <", "<".len(), Self::Substitutions),
            ("Swift.", "Swift.".len(), Self::Type),
        ];
        let at = |(mark, back, part): (&str, usize, Self)| Some((text.find(mark)? + mark.len() - back, part));
        marks.into_iter().filter_map(at).min_by_key(|&(at, _)| at)
    }

    /// Writes the part that a text begins with; what is left behind it.
    fn write<'a>(self, text: &'a str, out: &mut String, nesting: u32, adjacent: bool) -> &'a str {
        let Some(nesting) = nesting.checked_sub(1) else {
            out.push_str(text);
            return "";
        };
        match self {
            Self::Function => {
                // Operators are names too, so angle brackets are not counted.
                let mut depth = 1u32;
                let closes = |byte| {
                    depth = match byte {
                        b'[' => depth + 1,
                        b']' => depth - 1,
                        _ => depth,
                    };
                    depth == 0
                };
                let (function, rest) = text.split_at(text.bytes().position(closes).unwrap_or(text.len()));
                out.push_str(function);
                rest
            }
            Self::Arguments | Self::Substitutions => {
                let (list, rest) = text.split_at(group(text).map_or(text.len(), |(end, _)| end));
                sugar(list, out, nesting, true);
                rest
            }
            Self::Type => generic(&text["Swift.".len()..], out, nesting, adjacent).unwrap_or_else(|| {
                out.push_str("Swift.");
                &text["Swift.".len()..]
            }),
        }
    }
}

/// A whole type, and not the first half of a module's name: `Swift.Int`, `Any`, `A` or `B1`.
fn is_type(word: &str) -> bool {
    let parameter = word.trim_end_matches(|c: char| c.is_ascii_digit());
    word.contains('.') && !word.ends_with('.')
        || word == "Any"
        || parameter.len() == 1 && parameter.chars().all(|c| c.is_ascii_uppercase())
}

/// Writes what a text begins with, if it is a type that has a shorter form; what is left behind it.
fn generic<'a>(text: &'a str, out: &mut String, nesting: u32, adjacent: bool) -> Option<&'a str> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let before = &out[out.trim_end_matches(word).len()..];
    if !(before.is_empty() || adjacent && is_type(before)) {
        return None;
    }
    let name = ["Optional", "Array", "Dictionary"].into_iter().find(|name| text.starts_with(name))?;
    let arguments = &text[name.len()..];
    let (end, comma) = group(arguments)?;
    let inner = &arguments[1..end - 1];
    if has(inner, " where ") {
        return None;
    }
    match (name, comma) {
        ("Array", None) => {
            out.push('[');
            sugar(inner, out, nesting, false);
            out.push(']');
        }
        ("Dictionary", Some(comma)) => {
            out.push('[');
            sugar(&arguments[1..comma], out, nesting, false);
            out.push_str(" : ");
            sugar(arguments[comma + 1..end - 1].trim_start(), out, nesting, false);
            out.push(']');
        }
        ("Optional", None) => {
            // A function or a protocol would take the question mark for its last type's.
            // The arrow of a type that is local to a function stands behind the type's own name.
            let function = find(inner, " -> ").is_some_and(|arrow| find(inner, " #").is_none_or(|local| arrow < local));
            let loose = function || inner.starts_with("any ") || inner.starts_with("some ") || has(inner, " & ");
            if loose {
                out.push('(');
            }
            sugar(inner, out, nesting, false);
            out.push_str(if loose { ")?" } else { "?" });
        }
        _ => return None,
    }
    Some(&arguments[end..])
}

/// Whether `part` is in the text, outside of brackets.
fn has(text: &str, part: &str) -> bool {
    find(text, part).is_some()
}

/// Place of the first `part`, which begins with a blank, outside of brackets.
fn find(text: &str, part: &str) -> Option<usize> {
    let mut depth = 0i32;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if text[..at].ends_with('-') => {}
            '>' | ')' | ']' => depth -= 1,
            ' ' if depth == 0 && text[at..].starts_with(part) => return Some(at),
            _ => {}
        }
    }
    None
}

/// Length of the group in brackets that a text begins with, and the place of its first comma.
fn group(text: &str) -> Option<(usize, Option<usize>)> {
    let (mut depth, mut comma, mut before) = (0i32, None, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 1 => comma = comma.or(Some(at)),
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then_some((at + c.len_utf8(), comma));
        }
        before = c;
    }
    None
}
