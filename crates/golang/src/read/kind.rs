//! What an expression of the compiler allocates.

use crate::chain;
use crate::model::{FlowStep, Kind, Verdict};

/// The kind of the expression `what`, with the escape flow where it is known. The compiler prints a value that is put
/// into an interface as the value alone: an expression that does not allocate by itself is boxed.
pub fn of(what: &str, verdict: Verdict, flow: &[FlowStep]) -> Kind {
    if verdict == Verdict::Moved {
        return Kind::Variable;
    }
    let literal = what.ends_with("{...}") || what.ends_with("{}");
    match what {
        "func literal" => Kind::Closure,
        "... argument" => Kind::Variadic,
        "append" => Kind::Append,
        _ if what.starts_with("append(") => Kind::Append,
        _ if what.starts_with("make(map[") => Kind::MakeMap,
        _ if what.starts_with("make(chan ") || what.starts_with("make(<-chan ") => Kind::MakeChan,
        _ if what.starts_with("make(") => Kind::Make,
        _ if what.starts_with("new(") => Kind::New,
        _ if what.starts_with('&') => Kind::Composite,
        _ if literal && what.starts_with("[]") => Kind::SliceLiteral,
        _ if literal && what.starts_with("map[") => Kind::MapLiteral,
        _ if ["string(", "([]byte)(", "([]rune)("].iter().any(|begin| what.starts_with(begin)) => Kind::Conversion,
        _ if concatenates(what, flow) => Kind::Concatenation,
        _ => Kind::Boxed,
    }
}

pub fn is_name(what: &str) -> bool {
    !what.is_empty() && what.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The method's value into whose closure a parameter goes, without an expression that says so.
pub fn method_value(flows: &[String]) -> Option<String> {
    let (to, from) = flows.last()?.split_once(" ← ")?;
    (from == "{temp}").then(|| chain::storage(to).map(str::to_owned))?
}

/// A sum of strings. A sum of numbers looks the same, but is allocated only where it is put into an interface. The next
/// step shows that, except where it is assigned or returned.
fn concatenates(what: &str, flow: &[FlowStep]) -> bool {
    let mut quoted = None;
    let mut sum = false;
    let mut text = false;
    let mut escaped = false;
    for (at, c) in what.char_indices() {
        match quoted {
            Some(_) if escaped => escaped = false,
            Some(quote) => {
                escaped = c == '\\' && quote == '"';
                if c == quote {
                    quoted = None;
                }
            }
            None if c == '"' || c == '`' => {
                quoted = Some(c);
                text = true;
            }
            None => sum |= c == '+' && what[..at].ends_with(' '),
        }
    }
    let boxed = flow.iter().skip(1).take(1).any(|next| next.expression == "... argument");
    sum && (text || !boxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_show_what_they_allocate() {
        for (what, kind) in [
            ("make([]byte, size)", Kind::Make),
            ("make(map[string]int)", Kind::MakeMap),
            ("make(chan int, 1)", Kind::MakeChan),
            ("new(T)", Kind::New),
            ("&bytes.Buffer{...}", Kind::Composite),
            ("[]int{...}", Kind::SliceLiteral),
            ("map[string]int{...}", Kind::MapLiteral),
            ("func literal", Kind::Closure),
            ("... argument", Kind::Variadic),
            ("append(r, &i)", Kind::Append),
            ("append", Kind::Append),
            ("string(b)", Kind::Conversion),
            ("([]byte)(s)", Kind::Conversion),
            ("a + b + \"x\"", Kind::Concatenation),
            ("\" + \"", Kind::Boxed),
            ("\"a \\\" + b\"", Kind::Boxed),
            ("T{...}", Kind::Boxed),
            ("n", Kind::Boxed),
            ("3", Kind::Boxed),
        ] {
            assert_eq!(of(what, Verdict::Escapes, &[]), kind, "{what}");
        }
        assert_eq!(of("x", Verdict::Moved, &[]), Kind::Variable);
    }
}
