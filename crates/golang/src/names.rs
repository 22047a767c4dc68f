//! Names of functions, as compilers and profiles have them.

/// A function's name without the types that it is made for: `(*G[…]).Put` is `(*G).Put`.
pub fn without_types(name: &str) -> String {
    let mut depth = 0_u32;
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// The function of the source that a function literal, or the body of a loop over a function, is in: literals are
/// numbered, and one more changes the numbers.
pub fn written(name: &str) -> String {
    let name = without_types(name);
    let end = [".func", "-range", ".gowrap", ".deferwrap"].iter().filter_map(|mark| {
        name.match_indices(mark)
            .map(|(at, _)| at)
            .find(|at| name[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    });
    let end = end.min().unwrap_or(name.len());
    name[..end].to_owned()
}

/// Package fmt formats: it neither reads, nor makes an error that wraps others.
pub fn formats(function: &str) -> bool {
    let name = function.strip_prefix("fmt.").unwrap_or_default().to_ascii_lowercase();
    !name.is_empty() && !["errorf", "scan", "(*ss)", "readrune"].iter().any(|other| name.contains(other))
}

/// Functions of package fmt whose result is a string: a block, whatever makes it.
pub fn returns_text(function: &str) -> bool {
    function.starts_with("fmt.Sprint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_types_and_literals() {
        assert_eq!(without_types("(*G[go.shape.int,map[string]T]).Put"), "(*G).Put");
        assert_eq!(written("Closures.func1.2"), "Closures");
        assert_eq!(written("(*T).function"), "(*T).function");
        assert_eq!(written("glob..func3"), "glob.");
        assert_eq!(written("NewG[go.shape.struct { x func1 }].func1"), "NewG");
        assert_eq!(written("(*T).funcs.func12.gowrap1"), "(*T).funcs");
    }

    #[test]
    fn package_fmt_formats_but_for_errors_and_what_it_reads() {
        let names = ["fmt.Sprintf", "fmt.(*pp).doPrintf", "fmt.errorf", "fmt.Errorf", "fmt.Sscanf", "fmt.(*ss).doScan"];
        assert_eq!(names.map(formats), [true, true, false, false, false, false]);
    }
}
