//! Whether an append is the only one to a slice that has nothing yet: then it makes one block, whatever its capacity.

use super::GoSource;
use super::append::is_empty;
use super::brackets::Brackets;

impl GoSource {
    /// The line appends to a variable of its function that is declared without room, `var args []T`, and this is the
    /// one append to it: in no loop that the declaration is outside of. What is not understood is no copy.
    pub fn appends_once(&self, slice: &str, line: u32) -> bool {
        let mut calls =
            self.append_calls(line).filter(|&call| self.word(call + 2) == slice && self.ends_there(call + 2));
        let (Some(call), None) = (calls.next(), calls.next()) else { return false };
        let Some(declared) = self.declared_empty(slice, call) else { return false };
        !self.appends_later(slice, call) && !self.is_referred_to(slice, declared, call)
    }

    /// Whether the operand is this token alone.
    fn ends_there(&self, token: usize) -> bool {
        matches!(self.word(token + 1), "," | ")")
    }

    /// The declaration that is in force at a token: in its block or in one around it, in the same function, with no
    /// loop between. None where the variable has something there, or may have.
    fn declared_empty(&self, slice: &str, at: usize) -> Option<usize> {
        let assigned = self.statement_of(at);
        let mut token = assigned;
        while let Some(before) = token.checked_sub(1) {
            token = before;
            match self.word(token) {
                // A block that has ended: another branch, or what comes before.
                "}" => {
                    let open = self.opening_before(token, Brackets::Braces)?;
                    if self.sets(slice, open, token) {
                        return None;
                    }
                    token = open;
                }
                "{" => {
                    if let Some(function) = self.functions.iter().find(|function| function.body.0 == token) {
                        return function.results.iter().any(|result| result == slice).then_some(token);
                    }
                    if self.loops.iter().any(|&(_, open, _)| open == token) {
                        return None;
                    }
                    token = self.before_other_branches(token);
                }
                // Another case is another branch.
                "case" | "default" => token = self.opening_before(token, Brackets::Braces)? + 1,
                word if word == slice && self.before(token) != "." => {
                    return self.is_declared_empty(token).then_some(token);
                }
                _ => {}
            }
        }
        None
    }

    /// The first token of the statement: `args` of `args = append(args, …)`.
    fn statement_of(&self, call: usize) -> usize {
        let line = self.places[call].0;
        let mut first = call;
        while let Some(before) = first.checked_sub(1) {
            if self.places[before].0 < line || matches!(self.word(before), "{" | "}" | ";" | ":") {
                break;
            }
            first = before;
        }
        first
    }

    /// `var args []T`, `args := []T{}`, `args := make([]T, 0)`.
    fn is_declared_empty(&self, name: usize) -> bool {
        let of_type = |from: usize| self.word(from) == "[" && self.word(from + 1) == "]";
        if self.before(name) == "var" {
            let line = self.places[name].0;
            let rest = (name + 1..self.places.len()).take_while(|&token| self.places[token].0 == line);
            return of_type(name + 1) && !rest.into_iter().any(|token| self.word(token) == "=");
        }
        let declares = self.word(name + 1) == ":=" && !matches!(self.before(name), "," | "if" | "for" | "switch");
        let operands = || self.right_of(name + 1);
        declares && matches!(&operands()[..], [only] if is_empty(only))
    }

    /// The variable is assigned to, appended to or referred to within these braces.
    fn sets(&self, slice: &str, open: usize, close: usize) -> bool {
        (open..close).any(|token| {
            self.word(token) == slice
                && self.before(token) != "."
                && (matches!(self.word(token + 1), "=" | ":=" | ",") || matches!(self.before(token), "&" | "," | "var"))
        })
    }

    /// Whether the address of the slice is taken between the tokens `from` and `to`.
    fn is_referred_to(&self, slice: &str, from: usize, to: usize) -> bool {
        (from..to).any(|token| self.word(token) == "&" && self.word(token + 1) == slice)
    }

    /// One more append to it follows in its block or in one around it, but for other branches.
    fn appends_later(&self, slice: &str, call: usize) -> bool {
        let mut token = call + 1;
        while token < self.places.len() {
            match self.word(token) {
                "}" => {
                    let Some(open) = self.opening_before(token, Brackets::Braces) else { return true };
                    if self.functions.iter().any(|function| function.body.0 == open) {
                        return false;
                    }
                    while self.word(token + 1) == "else" {
                        let body = (token + 2..self.places.len()).find(|&at| self.word(at) == "{");
                        let Some(end) = body.and_then(|body| self.closing(body, Brackets::Braces)) else { return true };
                        token = end;
                    }
                }
                "case" | "default" => match self
                    .opening_before(token, Brackets::Braces)
                    .and_then(|open| self.closing(open, Brackets::Braces))
                {
                    Some(end) => token = end.saturating_sub(1),
                    None => return true,
                },
                "append" if self.word(token + 1) == "(" && self.word(token + 2) == slice => return true,
                _ => {}
            }
            token += 1;
        }
        false
    }

    /// `if … {} else if … {} else {`: the `if` of the chain that this brace is of, or the brace.
    fn before_other_branches(&self, brace: usize) -> usize {
        let line = self.places[brace].0;
        let mut token = brace;
        // To the `else` of its own line.
        while let Some(before) = token.checked_sub(1).filter(|&before| self.places[before].0 == line) {
            token = before;
            if self.word(token) == "}" {
                if self.word(token + 1) != "else" {
                    return brace;
                }
                let Some(open) = self.opening_before(token, Brackets::Braces) else { return brace };
                return self.before_other_branches(open);
            }
            if self.word(token) == "{" {
                return brace;
            }
        }
        brace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
package p

func call(stack []int, some bool) {
	var args []int
	args = append(args, stack...)
	use(args)
	empty := []int{}
	if some {
		empty = append(empty, stack[1:]...)
	} else if len(stack) > 2 {
		empty = append(empty, stack[2:]...)
	} else {
		empty = append(empty, stack[3:]...)
	}
	var of []int
	switch len(stack) {
	case 1:
		of = append(of, 1)
	default:
		of = append(of, stack...)
	}
	for _, s := range stack {
		inner := make([]int, 0)
		inner = append(inner, s, s)
		use(inner)
	}
}

func result(items []int) (out []int) {
	out = append(out, items...)
	return
}

func grows(stack []int, some bool, given []int) {
	var loop, two, one []int
	var all []int
	for _, s := range stack {
		all = append(all, s)
	}
	twice := []int{}
	twice = append(twice, stack...)
	twice = append(twice, 1)
	later := []int{}
	if some {
		later = append(later, 2)
	}
	later = append(later, 3)
	given = append(given, 4)
	var set []int
	set = given[:0]
	set = append(set, 5)
	var filled = []int{1}
	filled = append(filled, 6)
	room := make([]int, 0, 9)
	room = append(room, 7)
	var kept []int
	func() {
		kept = append(kept, 8)
	}()
	var lent []int
	fill(&lent)
	lent = append(lent, 9)
	s.field = append(s.field, 10)
	var a, b = append(loop, 11), append(two, 12)
	x, y := one, append(one, 13)
}
";

    #[test]
    fn one_append_to_what_has_nothing_is_a_copy() {
        let source = GoSource::parse(TEXT.to_owned());
        let once = |text: &str| {
            let line = TEXT.lines().position(|line| line.contains(text)).expect("a line") as u32 + 1;
            let (_, rest) = text.split_once("append(").expect("an append");
            source.appends_once(rest.split(',').next().expect("a slice"), line)
        };
        for copy in [
            "append(args, stack",
            "append(empty, stack[1:]",
            "append(empty, stack[2:]",
            "append(empty, stack[3:]",
            "append(of, 1",
            "append(of, stack",
            "append(inner, s, s",
            "append(out, items",
        ] {
            assert!(once(copy), "{copy}");
        }
        for grows in [
            "append(all, s",
            "append(twice, stack",
            "append(twice, 1",
            "append(later, 2",
            "append(later, 3",
            "append(given, 4",
            "append(set, 5",
            "append(filled, 6",
            "append(room, 7",
            "append(kept, 8",
            "append(lent, 9",
            "append(s.field, 10",
            "append(loop, 11",
            "append(one, 13",
        ] {
            assert!(!once(grows), "{grows}");
        }
    }

    #[test]
    fn damaged_sources_are_read() {
        for cut in (0..TEXT.len()).step_by(3) {
            for text in [&TEXT[..cut], &TEXT[cut..]] {
                let source = GoSource::parse(text.to_owned());
                for line in 1..70 {
                    for slice in ["args", "empty", "of", "out", "kept"] {
                        let _ = source.appends_once(slice, line);
                    }
                }
            }
        }
    }
}
