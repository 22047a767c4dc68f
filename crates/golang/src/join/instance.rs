//! Instances of generic functions. A profile has one name for all of them, the program's symbols and the compiler have
//! the types; the compiler names packages without their directories.

/// Types that a function is compiled for, without directories of packages, as diagnostics are compared by. None of a
/// function that is not generic.
pub fn types(function: &str) -> Option<String> {
    let types = &function[function.find('[')?..];
    let mut out = String::with_capacity(types.len());
    let mut part = 0;
    for c in types.chars() {
        if c == '/' {
            out.truncate(part);
            continue;
        }
        out.push(c);
        if matches!(c, '[' | ']' | ',' | ' ' | '*' | '{' | '}' | '(' | ')' | ';') {
            part = out.len();
        }
    }
    Some(out)
}

/// Every shape that the expression names is one that the function is compiled for, and it names one.
pub fn names_types(expression: &str, types: &str) -> bool {
    const SHAPE: &str = "go.shape.";
    let ends = |text: &str| text.find([',', ']', '}', '{', ')', ' ', ';']).unwrap_or(text.len());
    let mut shapes = expression.match_indices(SHAPE).map(|(at, _)| &expression[at..at + ends(&expression[at..])]);
    let known: Vec<&str> = types.match_indices(SHAPE).map(|(at, _)| &types[at..at + ends(&types[at..])]).collect();
    let mut any = false;
    shapes.all(|shape| {
        any = true;
        known.contains(&shape)
    }) && any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_functions() {
        for (symbol, compiler) in [
            ("example.com/gen.(*List[go.shape.int]).Grow", "(*List[go.shape.int]).Grow"),
            (
                "example.com/a/b.F[go.shape.struct { example.com/x.a int; B *c/d.T }]",
                "F[go.shape.struct { x.a int; B *d.T }]",
            ),
            ("a.Map[go.shape.int,go.shape.*uint8].func1", "Map[go.shape.int,go.shape.*uint8].func1"),
        ] {
            assert_eq!(types(symbol), types(compiler), "{symbol}");
        }
        assert_eq!(types("example.com/gen.(*Sq).Area"), None);
        assert_ne!(types("F[go.shape.int]"), types("F[go.shape.int64]"));
    }

    #[test]
    fn expressions_name_types() {
        let types = "[go.shape.int,go.shape.*uint8]";
        for (expression, expected) in [
            ("&node[go.shape.int]{...}", true),
            ("make(map[go.shape.int]go.shape.*uint8)", true),
            ("&node[go.shape.int64]{...}", false),
            ("make([]go.shape.string, n)", false),
            ("make([]int, n)", false),
        ] {
            assert_eq!(names_types(expression, types), expected, "{expression}");
        }
    }
}
