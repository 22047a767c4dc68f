//! Results that callers store: a value in their place would go to the heap with what it is stored in.

use std::collections::BTreeSet;

use super::brackets::Brackets;
use super::{Function, GoSource};

impl GoSource {
    /// Names of functions whose results are stored where they are called, `.m` of methods: in a field or an element, in
    /// a literal, appended to a slice, or sent; at once, or by a variable that has the result. Functions of other
    /// packages are among them by `.f`.
    pub fn stored_results(&self) -> BTreeSet<String> {
        let mut stored = BTreeSet::new();
        for open in (1..self.places.len()).filter(|&open| self.word(open) == "(") {
            let name = open - 1;
            if !is_name(self.word(name)) {
                continue;
            }
            let start = self.begins_operand(name);
            let is_call = !matches!(self.before(start), "func" | "go" | "defer" | ")");
            let Some(close) = self.closing(open, Brackets::All).filter(|_| is_call) else { continue };
            if self.stores(start, close) || self.variable(start).is_some_and(|variable| self.stores_variable(variable))
            {
                let of_value = self.before(name) == ".";
                stored.insert(format!("{}{}", if of_value { "." } else { "" }, self.word(name)));
            }
        }
        stored
    }

    /// The operand from one token to another is stored as it is.
    fn stores(&self, from: usize, to: usize) -> bool {
        let next = self.word(to + 1);
        let ends_line = self.places.get(to + 1).is_none_or(|next| next.0 > self.places[to].0);
        if !ends_line && !matches!(next, "," | "}" | ")" | ";") {
            return false;
        }
        match self.before(from) {
            // An element of a literal; the statement of a case ends its line.
            ":" => !ends_line && matches!(next, "," | "}"),
            "=" => self.assigns_part(from - 1),
            "-" => from >= 3 && self.word(from - 2) == "<" && self.adjoin(from - 2) && is_operand(self.word(from - 3)),
            "," => self.opening_before(from, Brackets::All).is_some_and(|open| self.before(open) == "append"),
            _ => false,
        }
    }

    /// The sign assigns to a field or to an element.
    fn assigns_part(&self, sign: usize) -> bool {
        let line = self.places[sign].0;
        let begins = |&token: &usize| self.places[token].0 == line && !matches!(self.word(token), "{" | "}" | ";");
        let mut target = (0..sign).rev().take_while(begins).peekable();
        // `==`, `!=`, `+=` and the like are signs of two parts.
        target.peek().is_some_and(|&last| is_operand(self.word(last)))
            && target.all(|token| !matches!(self.word(token), "if" | "for" | "switch" | "var" | "const" | "type"))
            && (0..sign).rev().take_while(begins).any(|token| matches!(self.word(token), "." | "]"))
    }

    /// The variable that is declared with the operand, or gets it: `v := …`, `v, err := …`.
    fn variable(&self, operand: usize) -> Option<usize> {
        let sign = operand.checked_sub(1).filter(|&sign| self.word(sign) == ":=")?;
        let mut first = sign.checked_sub(1)?;
        while self.before(first) == "," {
            first = first.checked_sub(2)?;
        }
        Some(first).filter(|&first| is_name(self.word(first)) && self.word(first) != "_")
    }

    fn stores_variable(&self, variable: usize) -> bool {
        let name = self.word(variable);
        let inside = |function: &Function| (function.body.0..function.body.1).contains(&variable);
        let Some(function) = self.functions.iter().rev().find(|function| inside(function)) else { return false };
        let uses = (variable + 1..function.body.1).filter(|&token| self.word(token) == name);
        uses.into_iter().any(|token| self.before(token) != "." && self.stores(token, token))
    }

    /// The first token of `a.b.c`, which ends with this one.
    fn begins_operand(&self, name: usize) -> usize {
        let mut start = name;
        while start >= 2 && self.word(start - 1) == "." && is_name(self.word(start - 2)) {
            start -= 2;
        }
        start
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn is_operand(word: &str) -> bool {
    is_name(word) || matches!(word, "]" | ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_are_stored() {
        let text = "\
package p
func (t *T) f() *T { return nil }
func all(xs []*T) *T {
	t.left = newLeft(1)
	t.right, err = t.node(2)
	list = append(list, appended())
	m[k] = element()
	o := Outer{
		part: literal(x, y), other: pkg.Literal()}
	ch <- sent()
	v := declared()
	w, err := both()
	list = append(list, v)
	m[k] = w
	one := used()
	one.x = 3
	result = assigned()
	if t.x == compared() { t.n = inside().n }
	switch t.n { case 1: discarded()
	}
	t.n += added()
	f(argument())
	z := <-received()
	go started()
	return returned()
}
func other() { one = used(); t.left = one; deferred() }
";
        let source = GoSource::parse(text.to_owned());
        let expected = [".Literal", ".node", "appended", "both", "declared", "element", "literal", "newLeft", "sent"];
        assert_eq!(source.stored_results().into_iter().collect::<Vec<_>>(), expected);
        for cut in 0..text.len() {
            drop(GoSource::parse(text[..cut].to_owned()).stored_results());
            drop(GoSource::parse(text[cut..].to_owned()).stored_results());
        }
    }
}
