//! The messages of the compiler, which its text and its JSON have in common.

/// Position of what the compiler makes itself, such as the state of a loop over a function.
pub const NOWHERE: &str = "<unknown line number>";

/// Splits `file.go:12:3: message`. Files may have colons; a message may have numbers between colons, so the first place
/// counts.
pub fn placed(line: &str) -> Option<(&str, u32, u32, &str)> {
    if let Some(message) = line.strip_prefix(NOWHERE).and_then(|rest| rest.strip_prefix(": ")) {
        return Some((NOWHERE, 0, 0, message));
    }
    let mut from = 0;
    while let Some(colon) = line[from..].find(':') {
        let file = &line[..from + colon];
        let rest = &line[from + colon + 1..];
        if let Some((number, after)) = number(rest)
            && !file.is_empty()
        {
            if let Some(message) = after.strip_prefix(": ") {
                return Some((file, number, 0, message));
            }
            if let Some((column, after)) = after.strip_prefix(':').and_then(self::number)
                && let Some(message) = after.strip_prefix(": ")
            {
                return Some((file, number, column, message));
            }
        }
        from += colon + 1;
    }
    None
}

/// A place without a message: `file.go:12:3`.
pub fn place(text: &str) -> Option<(&str, u32, u32)> {
    if text == NOWHERE {
        return Some((NOWHERE, 0, 0));
    }
    let (before, last) = text.rsplit_once(':')?;
    let last = last.parse().ok()?;
    match before.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => Some((file, line, last)),
        None => Some((before, last, 0)),
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An allocation, followed by its flows; with the function, from Go 1.25 on.
    Escape { what: &'a str, function: Option<&'a str> },
    /// A parameter that leaks, followed by its flows.
    Leak { parameter: &'a str, to: &'a str, function: Option<&'a str>, derefs: u32 },
    /// `to ← from`, followed by its steps; the reference is `&`, `*` or nothing.
    Flow { to: &'a str, from: &'a str },
    /// One step: an expression, and what it does.
    From { expression: &'a str, how: &'a str, at: Option<&'a str> },
    /// Steps of the flow are missing.
    Truncated,
    /// The last word on an allocation.
    Escapes(&'a str),
    /// The last word on a variable.
    Moved(&'a str),
    /// The last word on what is not in the heap.
    Stays(&'a str),
    /// A call whose body is inside of its caller now.
    Inlined(&'a str),
    /// First line of a function.
    Function(&'a str),
    /// A known line that is not about allocations.
    Unrelated,
}

/// Beginnings of other compiler messages. What a parameter leaks comes with its flows.
const UNRELATED: [&str; 12] = [
    "leaking param",
    "devirtualizing ",
    "partially devirtualizing ",
    "cannot devirtualize ",
    "zero-copy string->[]byte conversion",
    "zero-copy ",
    "mutates param: ",
    "calls param: ",
    "marking ",
    "assuming ",
    "index bounds check elided",
    "loop variable ",
];
/// Endings, or middles, of messages that do not begin as [`UNRELATED`] has it.
const MIDDLES: [&str; 5] = [
    " capturing by ",
    " ignoring self-assignment in ",
    " will be kept alive",
    " does not escape, mutate, or call",
    " considered 'big'; ",
];

/// The message of a line; None where it is not known.
pub fn message(text: &str) -> Option<Line<'_>> {
    // Text and JSON differ in how far these are indented.
    if let Some(inner) = text.strip_prefix("  ").map(str::trim_start) {
        if let Some(step) = inner.strip_prefix("from ") {
            return self::step(step);
        }
        if let Some(flow) = inner.strip_prefix("flow: ") {
            return self::flow(flow.strip_suffix(':')?);
        }
        return inner.starts_with("warning: truncated explanation").then_some(Line::Truncated);
    }
    if let Some(leak) = text.strip_prefix("parameter ")
        && let Some(leak) = self::leak(leak)
    {
        return Some(leak);
    }
    if let Some(what) = text.strip_prefix("moved to heap: ") {
        return Some(Line::Moved(what));
    }
    if let Some(what) = text.strip_suffix(" escapes to heap:") {
        return Some(Line::Escape { what, function: None });
    }
    if let Some((what, function)) = text.strip_suffix(':').and_then(|text| text.rsplit_once(" escapes to heap in ")) {
        return Some(Line::Escape { what, function: Some(function) });
    }
    if let Some(what) = text.strip_suffix(" escapes to heap") {
        return Some(Line::Escapes(what));
    }
    if let Some(what) = text.strip_suffix(" does not escape") {
        return Some(Line::Stays(what));
    }
    if let Some(callee) = text.strip_prefix("inlining call to ") {
        return Some(Line::Inlined(callee));
    }
    // Longest first: names of generic functions have spaces.
    if let Some(rest) = text.strip_prefix("can inline ") {
        return Some(Line::Function(rest.split_once(" with cost ").map_or(rest, |(name, _)| name)));
    }
    if let Some(rest) = text.strip_prefix("cannot inline ") {
        return Some(Line::Function(rest.split_once(": ").map_or(rest, |(name, _)| name)));
    }
    let known = UNRELATED.iter().any(|begin| text.starts_with(begin)) || MIDDLES.iter().any(|part| text.contains(part));
    known.then_some(Line::Unrelated)
}

fn leak(text: &str) -> Option<Line<'_>> {
    let (rest, derefs) = text.strip_suffix(':').unwrap_or(text).rsplit_once(" with derefs=")?;
    let derefs = derefs.parse().ok()?;
    let (parameter, rest) = rest.split_once(" leaks to ")?;
    // `{storage for …}` may have the word too; a function's name has it only inside of a shape.
    let inside = if rest.starts_with('{') { rest.rfind("} for ").map(|at| at + 1) } else { rest.find(" for ") };
    let (to, function) = match inside {
        Some(at) => (&rest[..at], Some(&rest[at + " for ".len()..])),
        None => (rest, None),
    };
    Some(Line::Leak { parameter, to, function, derefs })
}

fn flow(text: &str) -> Option<Line<'_>> {
    let (to, from) = match text.split_once(" ← ") {
        Some(both) => both,
        // Until Go 1.24; an expression may have the sign as well.
        None if text.starts_with('{') => {
            let at = text.find("} = ")?;
            (&text[..=at], &text[at + "} = ".len()..])
        }
        None => text.split_once(" = ")?,
    };
    Some(Line::Flow { to, from })
}

fn step(text: &str) -> Option<Line<'_>> {
    // JSON has the place beside.
    let (text, at) = match text.strip_suffix(')') {
        Some(text) => (text, None),
        None => text.rsplit_once(") at ").map(|(text, at)| (text, Some(at)))?,
    };
    let (expression, how) = text.rsplit_once(" (")?;
    Some(Line::From { expression, how, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_whatever_their_files_are_called() {
        assert_eq!(placed("./a.go:12:3: x: y"), Some(("./a.go", 12, 3, "x: y")));
        assert_eq!(
            placed("<autogenerated>:1: inlining call to T.V"),
            Some(("<autogenerated>", 1, 0, "inlining call to T.V"))
        );
        assert_eq!(placed("a:b 3:c.go:7:1: m"), Some(("a:b 3:c.go", 7, 1, "m")));
        assert_eq!(placed("# example.com/p"), None);
        assert_eq!(place("<autogenerated>:1"), Some(("<autogenerated>", 1, 0)));
        assert_eq!(place("../x.go:3:40"), Some(("../x.go", 3, 40)));
        assert_eq!(place("<unknown line number>"), Some(("<unknown line number>", 0, 0)));
        let made = "<unknown line number>: #next escapes to heap in F:";
        assert_eq!(placed(made), Some(("<unknown line number>", 0, 0, "#next escapes to heap in F:")));
        assert_eq!(place("nothing"), None);
    }

    #[test]
    fn flows_have_an_arrow_or_an_equals_sign() {
        for (text, to, from) in [
            ("   flow: {heap} ← &{storage for make([]byte, n)}:", "{heap}", "&{storage for make([]byte, n)}"),
            ("   flow: {heap} = &{storage for make([]byte, n)}:", "{heap}", "&{storage for make([]byte, n)}"),
            ("   flow: {storage for \"a = b\"} = &x:", "{storage for \"a = b\"}", "&x"),
            ("   flow: ~r0 = **p:", "~r0", "**p"),
        ] {
            assert_eq!(message(text), Some(Line::Flow { to, from }), "{text}");
        }
    }

    #[test]
    fn steps_keep_brackets_of_expressions() {
        let at = Some("./a.go:1:2");
        assert_eq!(
            message("     from f(g(x), \"(no) at\") (call parameter) at ./a.go:1:2"),
            Some(Line::From { expression: "f(g(x), \"(no) at\")", how: "call parameter", at })
        );
        assert_eq!(message("     from x (spill)"), Some(Line::From { expression: "x", how: "spill", at: None }));
    }

    #[test]
    fn leaks_name_their_function_since_go_1_25() {
        let shape = "(*G[go.shape.struct { x for y }]).Put";
        for (text, to, function) in [
            ("parameter p leaks to {heap} with derefs=1:", "{heap}", None),
            ("parameter p leaks to {heap} for F with derefs=1:", "{heap}", Some("F")),
            (&format!("parameter p leaks to ~r0 for {shape} with derefs=1:"), "~r0", Some(shape)),
            ("parameter p leaks to {storage for t.M} for F with derefs=1", "{storage for t.M}", Some("F")),
        ] {
            assert_eq!(message(text), Some(Line::Leak { parameter: "p", to, function, derefs: 1 }), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed_at() {
        assert_eq!(message("function init considered 'big'; reducing max cost of inlinees"), Some(Line::Unrelated));
        for text in ["", "x flies to the moon", "flow: a ← b:", "   flow: a:", "     from x", "undefined: y"] {
            assert_eq!(message(text), None, "{text}");
        }
    }
}
