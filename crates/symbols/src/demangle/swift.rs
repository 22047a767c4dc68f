//! Swift's names: what LLVM appends to the mangled ones, and types as people write them.

/// Mangled names begin with one of these.
const BEGINNINGS: [&str; 7] = ["$s", "_$s", "$S", "_$S", "$e", "_$e", "_T0"];

/// Is it a mangled name?
pub(super) fn is_mangled(name: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Without `.17`, which LLVM appends where two functions have one name, and without `.resume.0`, the second half of a
/// coroutine: the demangler would take the whole name apart in another way.
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
    while let Some(at) = rest.find(PART) {
        let (head, part) = rest.split_at(at + PART.len() - 2);
        out.push_str(head);
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$')).unwrap_or(part.len());
        out.push_str(demangle(&part[..end]).as_deref().unwrap_or(&part[..end]));
        rest = &part[end..];
    }
    out + rest
}

const PART: &str = "Propagated : $s";

/// Deeper nested types stay as they are.
const MAX_NESTING: u32 = 64;

/// `Swift.Array<Swift.Optional<A>>` as `[A?]`, as `swift demangle` writes it.
pub(super) fn with_sugar(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    sugar(name, &mut out, MAX_NESTING);
    out
}

fn sugar(text: &str, out: &mut String, nesting: u32) {
    let mut rest = text;
    while let Some(at) = rest.find("Swift.") {
        out.push_str(&rest[..at]);
        let boundary = !out.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
        let of = &rest[at..];
        rest = match of
            .get("Swift.".len()..)
            .filter(|_| boundary && nesting > 0)
            .and_then(|of| generic(of, out, nesting - 1))
        {
            Some(after) => after,
            None => {
                out.push_str("Swift.");
                &of["Swift.".len()..]
            }
        };
    }
    out.push_str(rest);
}

/// Writes what a text begins with, if it is a type that has a shorter form; what is left behind it.
fn generic<'a>(text: &'a str, out: &mut String, nesting: u32) -> Option<&'a str> {
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
            sugar(inner, out, nesting);
            out.push(']');
        }
        ("Dictionary", Some(comma)) => {
            out.push('[');
            sugar(&arguments[1..comma], out, nesting);
            out.push_str(" : ");
            sugar(arguments[comma + 1..end - 1].trim_start(), out, nesting);
            out.push(']');
        }
        ("Optional", None) => {
            // A function or a protocol would take the question mark for its last type's.
            let loose =
                has(inner, " -> ") || inner.starts_with("any ") || inner.starts_with("some ") || has(inner, " & ");
            if loose {
                out.push('(');
            }
            sugar(inner, out, nesting);
            out.push_str(if loose { ")?" } else { "?" });
        }
        _ => return None,
    }
    Some(&arguments[end..])
}

/// Is `part` in it, in no bracket?
fn has(text: &str, part: &str) -> bool {
    let mut depth = 0i32;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if text[..at].ends_with('-') => {}
            '>' | ')' | ']' => depth -= 1,
            ' ' if depth == 0 && text[at..].starts_with(part) => return true,
            _ => {}
        }
    }
    false
}

/// Of the group in angle brackets that a text begins with its length, and the place of its first comma.
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
