//! Names of Go functions for people.

use mallow_golang::names::without_types;

use crate::output::text::Look;

/// A function without the directories of its package and without the types that it is made for, unless whole names are
/// asked for.
pub fn short(function: &str, look: &Look) -> String {
    let name = shortened(function, look);
    if look.full_names {
        return name;
    }
    name.rsplit('/').next().unwrap_or(&name).to_owned()
}

/// An instance of a generic function, with its types: `gen.(*List[int]).Grow` of
/// `example.com/gen.(*List[go.shape.int]).Grow`. None where it is not generic.
pub fn instance(symbol: &str) -> Option<String> {
    if !symbol.contains('[') {
        return None;
    }
    let mut out = String::with_capacity(symbol.len());
    let mut part = 0;
    for c in symbol.chars() {
        if c == '/' {
            out.truncate(part);
            continue;
        }
        out.push(c);
        if !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '~' | '%')) {
            part = out.len();
        }
    }
    Some(out.replace("go.shape.*uint8", "*…").replace("go.shape.", ""))
}

/// Part that all names of a function have in common: `gen.List.Grow` of `gen.(*List[...]).Grow`.
pub fn compared(function: &str) -> String {
    without_types(function).replace(['(', ')', '*'], "")
}

/// The name without the types that a generic function or type is for: `NewG[…]`.
pub fn shortened(name: &str, look: &Look) -> String {
    if look.full_names {
        return name.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut depth = 0_u32;
    let mut generic = 0;
    for c in name.chars() {
        match c {
            // What stands behind a name is its types; `[]T` and `map[K]V` are types themselves.
            '[' if generic == 0
                && out.ends_with(|c: char| c.is_alphanumeric() || c == '_')
                && !out.ends_with("map") =>
            {
                depth += 1;
                generic = depth;
                out.push_str("[…]");
                continue;
            }
            '[' => depth += 1,
            ']' => {
                depth = depth.saturating_sub(1);
                if generic > depth {
                    generic = 0;
                    continue;
                }
            }
            _ => {}
        }
        if generic == 0 {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_generic_code_are_left_out() {
        let look = Look::default();
        for (name, short) in [
            ("NewG[int,struct { p.a []int; b map[string]T }]", "NewG[…]"),
            ("&G[string,int]{...}", "&G[…]{...}"),
            ("(*G[string,map[K]int]).Put.func1", "(*G[…]).Put.func1"),
            ("make(map[string]int)", "make(map[string]int)"),
            ("make([]byte, n)", "make([]byte, n)"),
            ("part of &G[int]{...} and H[T]", "part of &G[…]{...} and H[…]"),
            ("]][[", "]][["),
        ] {
            assert_eq!(shortened(name, &look), short);
            assert_eq!(shortened(name, &Look { full_names: true, ..look }), name);
        }
    }

    #[test]
    fn generic_methods_keep_their_names() {
        let look = Look::default();
        for (name, expected, types) in [
            ("example.com/gen.(*List[...]).Grow", "gen.(*List[…]).Grow", "gen.(*List[...]).Grow"),
            ("example.com/gen.Map[go.shape.int,go.shape.*uint8]", "gen.Map[…]", "gen.Map[int,*…]"),
            ("a.com/b/c.F[a.com/x/y.T].func1", "c.F[…].func1", "c.F[y.T].func1"),
        ] {
            assert_eq!((short(name, &look), instance(name).as_deref()), (expected.to_owned(), Some(types)));
            assert_eq!(short(name, &Look { full_names: true, ..look }), name);
        }
        assert_eq!((short("a.com/b/c.(*T).m", &look), instance("c.(*T).m")), ("c.(*T).m".to_owned(), None));
        assert_eq!(compared("a/gen.(*List[...]).Grow"), "a/gen.List.Grow");
    }
}
