//! Whether function literals assign a variable that they capture.

use super::brackets::Brackets;
use super::{At, Function, GoSource};
use crate::model::Assigned;

/// Operators that an `=` behind them makes an assignment of: `+=`, `<<=`.
const OPERATORS: [&str; 10] = ["+", "-", "*", "/", "%", "&", "|", "^", "<", ">"];

impl GoSource {
    /// What function literals assign of the variable that is declared at a place: by `=`, `+=`, `++`, or its address.
    /// [`Assigned::Nothing`] where a name that is declared once more may be another variable.
    pub fn assigned_by_literals(&self, declared: At, name: &str) -> Assigned {
        let Some((from, to)) = self.scope(declared) else { return Assigned::Nothing };
        let again = (from + 1..to).find(|&token| self.word(token) == name && self.is_declared(token));
        let within = |token: usize| token > from && token < again.unwrap_or(to) && self.is_captured(from, token, name);
        let whole = |left: &[&str]| match left {
            [first] if *first == name => Assigned::Whole,
            [first, next, ..] if *first == name && matches!(*next, "." | "[") => Assigned::Part,
            _ => Assigned::Nothing,
        };
        let assigned = |token: usize| match self.word(token) {
            word if word == name && self.is_address(token) => match self.word(token + 1) {
                "." | "[" => Assigned::Part,
                _ => Assigned::Whole,
            },
            "=" if self.is_assignment(token) => {
                self.targets(token).iter().map(|left| whole(left)).max().unwrap_or_default()
            }
            "+" | "-" if self.is_increment(token) => {
                self.left_of(token).last().map(|left| whole(left)).unwrap_or_default()
            }
            _ => Assigned::Nothing,
        };
        (from..to).filter(|&token| within(token)).map(assigned).max().unwrap_or_default()
    }

    /// The tokens from a declaration to the end of its block; of a parameter, to the end of its function.
    fn scope(&self, declared: At) -> Option<(usize, usize)> {
        let from = self.at(declared)?;
        let function = &self.functions[self.innermost(declared)?];
        if from < function.body.0 {
            return Some((from, function.body.1));
        }
        let block = self.opening_before(from, Brackets::Braces)?;
        Some((from, self.closing(block, Brackets::Braces)?))
    }

    /// A function literal that the variable is declared outside of has the token, and no variable of its own of this
    /// name.
    fn is_captured(&self, declared: usize, token: usize, name: &str) -> bool {
        let literal = |function: &&Function| {
            function.name.is_none() && function.start > declared && (function.body.0..=function.body.1).contains(&token)
        };
        let has = |function: &Function| {
            function.parameters.iter().any(|(parameter, _)| parameter == name)
                || function.results.iter().any(|result| result == name)
        };
        let mut literals = self.functions.iter().filter(literal).peekable();
        literals.peek().is_some() && !literals.any(has)
    }

    /// `name := …`, also among others, or `var name`.
    fn is_declared(&self, token: usize) -> bool {
        let mut next = token + 1;
        while self.word(next) == "," {
            next += 2;
        }
        self.before(token) == "var" || self.before(token) != "." && self.word(next) == ":="
    }

    fn is_assignment(&self, token: usize) -> bool {
        let before = |by: usize| token.checked_sub(by).map_or("", |before| self.word(before));
        self.word(token + 1) != "="
            && match before(1) {
                "=" | "!" => false,
                "<" | ">" => before(1) == before(2),
                _ => true,
            }
    }

    /// Operands on the left of an assignment, without the operator of `+=`.
    fn targets(&self, assignment: usize) -> Vec<Vec<&str>> {
        let mut targets = self.left_of(assignment);
        for target in &mut targets {
            while target.len() > 1 && target.last().is_some_and(|last| OPERATORS.contains(last)) {
                target.pop();
            }
        }
        targets
    }

    /// `x++` or `x--`, which is a statement.
    fn is_increment(&self, token: usize) -> bool {
        let line = |token: usize| self.places.get(token).map_or(0, |place| place.0);
        self.word(token + 1) == self.word(token)
            && self.adjoin(token)
            && (matches!(self.word(token + 2), "}" | ";" | "{" | "") || line(token + 2) > line(token))
    }

    /// `&name`, which is no `a & name` and no `a && name`.
    fn is_address(&self, token: usize) -> bool {
        let operand = || {
            let before = token.checked_sub(2).map_or("", |before| self.word(before));
            let ends = before
                .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '&' | ')' | ']' | '"' | '\'' | '`'));
            ends && !matches!(before, "return" | "case" | "range" | "if" | "switch")
        };
        self.before(token) == "&" && !operand()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
package p

func literals(param int, other int) {
	plain, sum, shifted, counted, lost := 0, 0, 0, 0, 0
	both, read, compared, outside, passed := 0, 0, 0, 0, 0
	var record, pointer, nested, shadowed, table T
	go func() {
		plain = read
		sum += read
		shifted <<= read
		counted++
		lost--
		both, _ = f()
		if compared == read || compared <= read && compared != read { g(read & read) }
		record.field = 1
		*pointer = 1
		f(&passed)
		func() { nested = 1 }()
		shadowed := 1
		shadowed = 2
		table[read]++
		param = 1
		other := 2
		other.plain = read
	}()
	outside = 1
	each, none := 0, 0
	go func(none int) { for each = range x { none = 1 } }()
}
";

    fn assigned(name: &str) -> Assigned {
        let place = |(at, line): (usize, &str)| {
            let words = line.match_indices(name).find(|(column, _)| {
                let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                !is_part(line[..*column].chars().last()) && !is_part(line[column + name.len()..].chars().next())
            });
            words.map(|(column, _)| (at as u32 + 1, column as u32 + 1))
        };
        let declared = TEXT.lines().enumerate().find_map(place).expect("a declaration");
        GoSource::parse(TEXT.to_owned()).assigned_by_literals(declared, name)
    }

    #[test]
    fn what_literals_assign() {
        for name in ["plain", "sum", "shifted", "counted", "lost", "both", "nested", "param", "each", "passed"] {
            assert_eq!(assigned(name), Assigned::Whole, "{name}");
        }
        for name in ["record", "table"] {
            assert_eq!(assigned(name), Assigned::Part, "{name}");
        }
        for name in ["read", "compared", "outside", "pointer", "shadowed", "other", "none"] {
            assert_eq!(assigned(name), Assigned::Nothing, "{name}");
        }
    }

    #[test]
    fn damaged_sources_are_read() {
        for cut in 0..TEXT.len() {
            for text in [&TEXT[..cut], &TEXT[cut..]] {
                let source = GoSource::parse(text.to_owned());
                for at in [(3, 15), (4, 2), (6, 6), (1, 1), (2, 3)] {
                    let _ = source.assigned_by_literals(at, "plain");
                }
            }
        }
    }
}
