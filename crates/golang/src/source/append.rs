//! What a line appends to, as its source has it: the compiler says only that it appends.

use super::{Function, GoSource};

/// The slice that is appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One without room by its expression, a copy: `append([]T(nil), items...)`.
    Empty,
    /// A variable or a field, however its receiver is called: `order`, `.order`, `.order[]`, `*`.
    Slice(String),
}

impl Target {
    /// Whether this is the name of a variable alone, which other functions may give to other variables.
    fn is_variable(name: &str) -> bool {
        name.chars().all(|c| c.is_alphanumeric() || c == '_')
    }
}

impl GoSource {
    /// Target of each append of the line, in the order of the columns.
    pub fn appends(&self, line: u32) -> Vec<Target> {
        self.append_calls(line).map(|call| self.target(call + 2)).collect()
    }

    pub(super) fn append_calls(&self, line: u32) -> impl Iterator<Item = usize> {
        let first = self.places.partition_point(|&(at, _)| at < line);
        (first..self.places.len())
            .take_while(move |&token| self.places[token].0 == line)
            .filter(|&token| self.word(token) == "append" && self.word(token + 1) == "(" && self.before(token) != ".")
    }

    /// The front of a slice that the line appends to is cut off somewhere, `s.order = s.order[1:]`: what is cut off is
    /// lost to its capacity. Variables of a function are looked for in it, all else in the whole source.
    pub fn cuts_front(&self, slice: &str, line: u32) -> bool {
        let functions = self.functions_at((line, u32::MAX));
        let own = |function: &&&Function| Target::is_variable(slice) && self.has(function, slice);
        let range = match functions.iter().rev().find(own) {
            Some(function) => function.start..function.body.1,
            None => 0..self.places.len(),
        };
        self.cuts(range, slice)
    }

    /// Whether this source cuts the front of a slice that its package shares: a field, or a variable of the package.
    pub fn cuts_front_of_package(&self, slice: &str) -> bool {
        self.cuts(0..self.places.len(), slice)
    }

    pub(super) fn before(&self, token: usize) -> &str {
        token.checked_sub(1).map_or("", |before| self.word(before))
    }

    fn target(&self, from: usize) -> Target {
        let to = self.end_of_operand(from, &[",", ")"]);
        let words: Vec<&str> = (from..to).map(|token| self.word(token)).collect();
        if is_empty(&words) { Target::Empty } else { Target::Slice(name(&words)) }
    }

    /// The token outside of brackets that ends what begins at `from`.
    fn end_of_operand(&self, from: usize, ends: &[&str]) -> usize {
        let mut depth = 0_usize;
        let mut at = from;
        while at < self.places.len() {
            let word = self.word(at);
            if depth == 0 && ends.contains(&word) {
                break;
            }
            match word {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 0 => break,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn cuts(&self, range: std::ops::Range<usize>, slice: &str) -> bool {
        const COMPARISONS: [&str; 4] = ["=", "!", "<", ">"];
        let assigns = |&token: &usize| {
            self.word(token) == "=" && self.word(token + 1) != "=" && !COMPARISONS.contains(&self.before(token))
        };
        range.filter(assigns).any(|assignment| {
            let left = self.left_of(assignment);
            let right = self.right_of(assignment);
            left.len() == right.len() && left.iter().zip(&right).any(|(to, from)| name(to) == slice && is_cut(from))
        })
    }

    /// Operands on the left of an assignment, as words.
    pub(super) fn left_of(&self, assignment: usize) -> Vec<Vec<&str>> {
        const KEYWORDS: [&str; 6] = ["if", "for", "switch", "case", "var", "else"];
        let line = self.places.get(assignment).map_or(0, |place| place.0);
        let (mut from, mut depth) = (assignment, 0_usize);
        while let Some(before) = from.checked_sub(1).filter(|&before| self.places[before].0 == line) {
            match self.word(before) {
                "]" | ")" => depth += 1,
                "[" | "(" if depth > 0 => depth -= 1,
                "[" | "(" | "{" | "}" | ";" | ":" if depth == 0 => break,
                word if KEYWORDS.contains(&word) => break,
                _ => {}
            }
            from = before;
        }
        self.operands(from, assignment)
    }

    /// Operands on the right of an assignment, as words: they end with their line, if no bracket is open there.
    pub(super) fn right_of(&self, assignment: usize) -> Vec<Vec<&str>> {
        let from = assignment + 1;
        let (mut to, mut depth) = (from, 0_usize);
        while to < self.places.len() {
            let continues = to == from || self.places[to].0 == self.places[to - 1].0 || self.before(to) == ",";
            match self.word(to) {
                _ if depth == 0 && !continues => break,
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" | ";" if depth == 0 => break,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            to += 1;
        }
        self.operands(from, to)
    }

    fn operands(&self, from: usize, to: usize) -> Vec<Vec<&str>> {
        let mut operands = Vec::new();
        let mut at = from;
        while at < to {
            let end = self.end_of_operand(at, &[","]).min(to);
            operands.push((at..end).map(|token| self.word(token)).collect());
            at = end + 1;
        }
        operands
    }
}

/// A slice with no room by its expression: `[]T(nil)`, `[]T{}`, `make([]T, 0)`, `s[:0:0]`, `s[:n:n]`.
pub(super) fn is_empty(words: &[&str]) -> bool {
    let commas = || words.iter().filter(|&&word| word == ",").count();
    match words {
        [.., "(", "nil", ")"] | [.., "{", "}"] => true,
        ["make", .., ",", "0", ")"] => commas() == 1,
        _ => {
            let parts = last_brackets(words).map(|inside| inside.split(|&word| word == ":").collect::<Vec<_>>());
            parts.is_some_and(|parts| matches!(parts[..], [_, length, capacity] if length == capacity))
        }
    }
}

/// `x[1:]`, but not `x[0:n]` and `x[:n]`.
fn is_cut(words: &[&str]) -> bool {
    let Some(inside) = last_brackets(words).filter(|inside| inside.contains(&":")) else { return false };
    !matches!(inside, [":", ..] | ["0", ":", ..])
}

/// Content of the brackets that an operand ends with.
fn last_brackets<'a, 'b>(words: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let last = words.len().checked_sub(1).filter(|&last| words[last] == "]")?;
    Some(&words[opening(words, last)? + 1..last])
}

fn opening(words: &[&str], closing: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (0..=closing).rev().find(|&at| {
        match words[at] {
            "]" => depth += 1,
            "[" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// The name of an operand: fields and what pointers refer to without their receiver, which each method may call
/// otherwise.
fn name(words: &[&str]) -> String {
    if let Some(open) = words.len().checked_sub(1).filter(|&last| words[last] == "]").and_then(|at| opening(words, at))
    {
        return name(&words[..open]) + "[]";
    }
    match words {
        [.., ".", field] => format!(".{field}"),
        ["*", ..] => "*".to_owned(),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
package p

func (s *Store) Put(id int) {
	s.order = append(s.order, id)
	if s.n == 1 { delete(s.items, s.order[0]); s.order = s.order[1:] }
	s.kept = append(s.kept, id)
	s.kept = s.kept[:0]
	s.heap = append(s.heap, s.order[1:]...)
	s.heap = s.heap[0 : s.n-1]
	copy := append([]Item(nil), items...)
	c, d := append([]T{}, a...), append(make([]int, 0), a...)
	e, f := append(s.all[:0:0], 1), append(all[:n:n], 2)
	g := append(make([]int, 0, n), 1)
	*q = append(*q, 1)
	s.of[id] = append(s.of[id], id)
}

func (o *Store) Next() (x int, ok bool) {
	queue = append(queue, 1)
	todo := []int{1}
	todo = append(todo, 2)
	for len(todo) > 0 {
		x, todo = todo[0], todo[1:]
	}
	o.of[x] = o.of[x][2:]
	*p = (*p)[1:]
	s.append(1)
	return
}

func Other() { queue, todo := 1, append(todo, 1); todo = append(todo[1:], queue) }
";

    #[test]
    fn what_a_line_appends_to() {
        let source = GoSource::parse(TEXT.to_owned());
        let slice = |name: &str| Target::Slice(name.to_owned());
        for (line, expected) in [
            (4, vec![slice(".order")]),
            (8, vec![slice(".heap")]),
            (10, vec![Target::Empty]),
            (11, vec![Target::Empty, Target::Empty]),
            (12, vec![Target::Empty, Target::Empty]),
            (13, vec![slice("make([]int,0,n)")]),
            (14, vec![slice("*")]),
            (15, vec![slice(".of[]")]),
            (21, vec![slice("todo")]),
            (27, vec![]),
            (99, vec![]),
        ] {
            assert_eq!(source.appends(line), expected, "{line}");
        }
    }

    #[test]
    fn slices_whose_front_is_cut_off() {
        let source = GoSource::parse(TEXT.to_owned());
        for (slice, line, expected) in [
            (".order", 4, true),
            (".kept", 6, false),
            (".heap", 8, false),
            ("*", 14, true),
            (".of[]", 15, true),
            ("queue", 19, false),
            ("todo", 21, true),
            ("todo", 31, false),
        ] {
            assert_eq!(source.cuts_front(slice, line), expected, "{slice} of line {line}");
        }
        let other = GoSource::parse("package p\nfunc (q *Queue) pop() {\n\tq.order = q.order[1:]\n}\n".to_owned());
        assert!(other.cuts_front_of_package(".order") && !other.cuts_front_of_package(".kept"));
    }

    #[test]
    fn damaged_sources_are_read() {
        for cut in (0..TEXT.len()).step_by(3) {
            for text in [&TEXT[..cut], &TEXT[cut..]] {
                let source = GoSource::parse(text.to_owned());
                for line in 1..32 {
                    let _ = (source.appends(line), source.cuts_front(".order", line), source.cuts_front("todo", line));
                }
            }
        }
    }
}
