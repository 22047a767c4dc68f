//! What a Go source says and its compiler does not: which statement starts a closure, which names are results, and what
//! is in a loop.

mod append;
mod benchmark;
mod brackets;
mod capture;
mod copy;
mod stored;
mod surroundings;
mod token;

pub use append::Target;
use token::{Token, tokens};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Go,
    Defer,
}

/// A place: line and column, as the compiler prints them.
pub type At = (u32, u32);

/// A function, or a function literal, with a body.
#[derive(Debug, Default)]
pub struct Function {
    /// None for a literal.
    pub name: Option<String>,
    /// Parameters that have names, with their types.
    pub parameters: Vec<(String, String)>,
    pub results: Vec<String>,
    /// Index of the token `func`.
    start: usize,
    body: (usize, usize),
}

#[derive(Debug)]
pub struct GoSource {
    text: String,
    places: Vec<At>,
    offsets: Vec<(usize, usize)>,
    functions: Vec<Function>,
    /// Tokens of each loop's `for` and of its braces.
    loops: Vec<(usize, usize, usize)>,
}

impl GoSource {
    /// Reads a source. What is not understood is left out.
    pub fn parse(text: String) -> Self {
        let tokens = tokens(&text);
        let ends = ends(&tokens);
        let words = || tokens.iter().enumerate().filter(|(_, token)| token.word);
        let functions = words().filter(|(_, token)| token.text == "func");
        let functions = functions.filter_map(|(at, _)| function(&tokens, &ends, at));
        let mut functions: Vec<Function> = functions.collect();
        // A result of the type of a function has no body: what follows it is its function's.
        functions.dedup_by_key(|function| function.body);
        let loops = words().filter(|(_, token)| token.text == "for");
        let body = |at| body_of_loop(&tokens, &ends, at).map(|open| (at, open, ends[open]));
        let loops = loops.filter_map(|(at, _)| body(at)).collect();
        let places = tokens.iter().map(|token| (token.line, token.column)).collect();
        let offsets = tokens.iter().map(|token| (token.offset, token.offset + token.text.len())).collect();
        Self { places, offsets, functions, loops, text }
    }

    /// The statement whose call this is: of a function literal, or of the wrapper that the compiler makes.
    pub fn statement(&self, at: At) -> Option<Statement> {
        let mut token = self.at(at)?;
        loop {
            match self.word(token) {
                "go" => return Some(Statement::Go),
                "defer" => return Some(Statement::Defer),
                "func" | "(" => token = token.checked_sub(1)?,
                _ => return None,
            }
        }
    }

    /// `new(expr)`, where the compiler names only what it moves to the heap: at the parenthesis of the call.
    pub fn new_call(&self, at: At) -> Option<String> {
        let open = self.at(at)?;
        let new = open.checked_sub(1).filter(|&new| self.word(new) == "new" && self.word(open) == "(")?;
        let mut depth = 0_usize;
        for token in open..self.offsets.len() {
            match self.word(token) {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let whole = &self.text[self.offsets[new].0..self.offsets[token].1];
                return Some(if whole.contains('\n') { "new(…)".to_owned() } else { whole.to_owned() });
            }
        }
        None
    }

    /// A loop begins there: the compiler makes a closure of its body, where it is one over a function.
    pub fn is_loop(&self, at: At) -> bool {
        self.at(at).is_some_and(|token| self.word(token) == "for")
    }

    /// Functions that have this place, the innermost first.
    pub fn functions_at(&self, at: At) -> Vec<&Function> {
        let Some(token) = self.near(at) else { return Vec::new() };
        let inside = |function: &&Function| (function.body.0..=function.body.1).contains(&token);
        self.functions.iter().rev().filter(inside).collect()
    }

    /// Identifies the innermost function of a place, its parameters and results included.
    pub fn innermost(&self, at: At) -> Option<usize> {
        let token = self.near(at)?;
        self.functions.iter().rposition(|function| (function.start..=function.body.1).contains(&token))
    }

    /// The place is in a loop of its function.
    pub fn in_loop(&self, at: At) -> bool {
        let Some(token) = self.near(at) else { return false };
        let from = self.functions_at(at).first().map_or(0, |function| function.body.0);
        self.loops.iter().any(|&(start, open, end)| start >= from && (open..=end).contains(&token))
    }

    /// A variable of this name is declared in the function's body, literals included.
    pub fn declares(&self, function: &Function, name: &str) -> bool {
        (function.body.0..function.body.1).filter(|&token| self.word(token) == name).any(|token| {
            let before = token.checked_sub(1).map_or("", |before| self.word(before));
            let mut next = token + 1;
            // `a, b := …`
            while self.word(next) == "," {
                next += 2;
            }
            before == "var" || before != "." && self.word(next) == ":="
        })
    }

    /// The function has a variable or a parameter of this name.
    pub fn has(&self, function: &Function, name: &str) -> bool {
        function.parameters.iter().any(|(parameter, _)| parameter == name) || self.declares(function, name)
    }

    /// Calls of a method in the function's body, literals within it left out: `ResetTimer` of `b.ResetTimer()`.
    pub fn calls(&self, function: &Function, receiver: &str, method: &str) -> Vec<At> {
        self.own_tokens(function)
            .filter(|&token| {
                self.word(token) == receiver
                    && self.word(token + 1) == "."
                    && self.word(token + 2) == method
                    && token.checked_sub(1).is_none_or(|before| self.word(before) != ".")
            })
            .map(|token| self.places[token])
            .collect()
    }

    /// Loops of the function whose header has these tokens: where they begin and end.
    pub fn loops_over(&self, function: &Function, header: &[&str]) -> Vec<(At, At)> {
        let own: Vec<usize> = self.own_tokens(function).collect();
        let is = |&&(start, open, _): &&(usize, usize, usize)| {
            let matches = |t: usize| header.iter().enumerate().all(|(n, word)| self.word(t + n) == *word);
            own.binary_search(&start).is_ok() && (start..open).any(matches)
        };
        self.loops.iter().filter(is).map(|&(start, _, end)| (self.places[start], self.places[end])).collect()
    }

    fn own_tokens(&self, function: &Function) -> impl Iterator<Item = usize> {
        let (from, to) = function.body;
        let inner = self.functions.iter().filter(move |inner| inner.body.0 > from && inner.body.1 < to);
        let inner: Vec<(usize, usize)> = inner.map(|inner| inner.body).collect();
        (from..to).filter(move |token| !inner.iter().any(|&(from, to)| (from..=to).contains(token)))
    }

    fn word(&self, token: usize) -> &str {
        self.offsets.get(token).map_or("", |&(from, to)| &self.text[from..to])
    }

    fn at(&self, at: At) -> Option<usize> {
        self.places.binary_search(&at).ok()
    }

    /// The token there, or the last before it.
    fn near(&self, at: At) -> Option<usize> {
        self.places.partition_point(|&place| place <= at).checked_sub(1)
    }
}

/// Index of the closing token for each opening one, and the last token where nothing closes it.
fn ends(tokens: &[Token]) -> Vec<usize> {
    let mut ends = vec![tokens.len().saturating_sub(1); tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(opened) = open.pop() {
                    ends[opened] = at;
                }
            }
            _ => {}
        }
    }
    ends
}

/// The function whose `func` is at a token; none of a type without a body.
fn function(tokens: &[Token], ends: &[usize], func: usize) -> Option<Function> {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let mut at = func + 1;
    let mut found = Function { start: func, ..Function::default() };
    if let Some(name) = tokens.get(at).filter(|token| token.word) {
        found.name = Some(name.text.to_owned());
        at += 1;
    } else if is(at, "(") && tokens.get(ends[at] + 1).is_some_and(|name| name.word) && is(ends[at] + 2, "(") {
        // A method: what stands in the first parentheses is its receiver.
        found.name = tokens.get(ends[at] + 1).map(|name| name.text.to_owned());
        at = ends[at] + 2;
    }
    if is(at, "[") {
        at = ends[at] + 1;
    }
    if !is(at, "(") {
        return None;
    }
    found.parameters = named(tokens, at + 1, ends[at]);
    let mut last = ends[at];
    if is(last + 1, "(") {
        found.results = named(tokens, last + 2, ends[last + 1]).into_iter().map(|(name, _)| name).collect();
        last = ends[last + 1];
    } else {
        // A type: it ends where the body begins, on the same line.
        while let Some(next) = tokens.get(last + 1).filter(|next| next.line == tokens[last].line) {
            let braces = ["struct", "interface"].contains(&tokens[last].text);
            match next.text {
                "{" if !braces => break,
                "{" | "(" | "[" => last = ends[last + 1].max(last + 1),
                "*" | "." | "<" | "-" => last += 1,
                _ if next.word => last += 1,
                _ => return None,
            }
        }
    }
    let open = last + 1;
    if !is(open, "{") || tokens[open].line != tokens[last].line {
        return None;
    }
    found.body = (open, ends[open]);
    Some(found)
}

/// Names of a list of parameters, with their types: none where only types are listed.
fn named(tokens: &[Token], from: usize, to: usize) -> Vec<(String, String)> {
    let mut parts: Vec<Vec<&Token>> = vec![Vec::new()];
    let mut depth = 0_usize;
    for token in tokens.get(from..to).unwrap_or_default() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    let has_type = |part: &[&Token]| {
        // `chan T`, `func()`, `map[K]V` and `pkg.T` begin with a word as well.
        const TYPES: [&str; 5] = ["chan", "func", "map", "struct", "interface"];
        let text = |at: usize| part.get(at).map_or("", |token| token.text);
        let qualified = text(1) == "." && text(2) != ".";
        part.len() > 1 && part[0].word && !TYPES.contains(&part[0].text) && !qualified && text(1) != "["
            // `xs []T` is a name, `T[int]` a type.
            || part.len() > 2 && part[0].word && part[1].text == "[" && {
                part[2].text == "]" && part.len() > 3 || part.last().is_some_and(|last| last.text != "]")
            } && !TYPES.contains(&part[0].text)
    };
    if !parts.iter().any(|part| has_type(part)) {
        return Vec::new();
    }
    let mut of = String::new();
    let mut names: Vec<(String, String)> = Vec::new();
    for part in parts.iter().rev().filter(|part| !part.is_empty()) {
        if has_type(part) {
            of = part[1..].iter().map(|token| token.text).collect();
        }
        if part[0].word {
            names.push((part[0].text.to_owned(), of.clone()));
        }
    }
    names.reverse();
    names
}

/// The brace that opens a loop's body.
fn body_of_loop(tokens: &[Token], ends: &[usize], of: usize) -> Option<usize> {
    let mut at = of + 1;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "{" if !of_literal(tokens, at) => return Some(at),
            "(" | "[" | "{" => at = ends[at].max(at),
            "}" | ")" => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The brace is that of a composite literal with a type of brackets, which alone may stand in a header: `[]T{…}`.
fn of_literal(tokens: &[Token], brace: usize) -> bool {
    let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| token.text);
    let mut at = brace.checked_sub(1);
    if ["struct", "interface"].contains(&text(at)) {
        return true;
    }
    // Back over `pkg.T` or `*T`.
    while let Some(here) = at.filter(|&here| tokens[here].word || matches!(tokens[here].text, "." | "*")) {
        at = here.checked_sub(1);
    }
    if text(at) != "]" || at.map(|at| at + 1) == Some(brace) {
        return false;
    }
    let Some(open) = at.and_then(|at| (0..at).rev().find(|&open| tokens[open].text == "[")) else { return false };
    // `a[i].b {` is an operand, `[]T{`, `[4]T{` and `map[K]V{` are types.
    let before = open.checked_sub(1).and_then(|before| tokens.get(before));
    before.is_none_or(|token| {
        ["map", "range", "return"].contains(&token.text) || !token.word && !matches!(token.text, ")" | "]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
package p

func (l *List[T]) Loop(xs []int, f func(int) error, more ...any) (out *T, err error) {
	for _, x := range []pkg.T{1, 2} {
		defer func() { total += x }()
		go (func() { out = nil })()
	}
	defer add(1, new(x + 1))
	for i := range a[x].b {
		_ = new(
			i)
	}
	return
}

func Plain[T any](int, map[string]T, ...any) interface{ M() } {
	return func() []int { err := 1; b.ResetTimer(); for range b.N { b.StopTimer() }; return nil }
}

type F func(n int) (m int)

func B(b *testing.B) {
	keep(b.N)
	b.ResetTimer()
	for i := 0; i < b.N; i++ { _ = i }
	b.Run(func(b *testing.B) { b.ResetTimer() })
}
";

    fn source() -> GoSource {
        GoSource::parse(TEXT.to_owned())
    }

    #[test]
    fn statements_of_closures() {
        let source = source();
        let (go, defer) = (Some(Statement::Go), Some(Statement::Defer));
        for (at, expected) in [((5, 9), defer), ((6, 7), go), ((8, 2), defer), ((17, 9), None), ((99, 1), None)] {
            assert_eq!(source.statement(at), expected, "{at:?}");
        }
    }

    #[test]
    fn calls_of_new() {
        let source = source();
        assert_eq!(source.new_call((8, 18)).as_deref(), Some("new(x + 1)"));
        assert_eq!(source.new_call((10, 10)).as_deref(), Some("new(…)"));
        assert_eq!((source.new_call((5, 14)), source.new_call((8, 15))), (None, None));
    }

    #[test]
    fn names_of_functions() {
        let source = source();
        let names: Vec<_> = source.functions.iter().map(|f| (f.name.as_deref(), f.results.join(" "))).collect();
        let expected = [
            (Some("Loop"), "out err".to_owned()),
            (None, String::new()),
            (None, String::new()),
            (Some("Plain"), String::new()),
            (None, String::new()),
            (Some("B"), String::new()),
            (None, String::new()),
        ];
        assert_eq!(names, expected);
        let parameters = |at: usize| source.functions[at].parameters.iter().map(|(n, t)| format!("{n} {t}"));
        assert_eq!(parameters(0).collect::<Vec<_>>(), ["xs []int", "f func(int)error", "more ...any"]);
        assert_eq!((parameters(3).count(), parameters(5).collect::<Vec<_>>()), (0, vec!["b *testing.B".to_owned()]));
        let inside: Vec<_> = source.functions_at((6, 17)).iter().map(|f| f.name.as_deref()).collect();
        assert_eq!(inside, [None, Some("Loop")]);
        assert!(source.functions_at((1, 1)).is_empty() && source.functions_at((14, 1)).len() == 1);
    }

    #[test]
    fn loops_belong_to_their_functions() {
        let source = source();
        for (at, expected) in
            [((5, 9), true), ((5, 20), false), ((8, 2), false), ((10, 7), true), ((13, 2), false), ((25, 2), false)]
        {
            assert_eq!(source.in_loop(at), expected, "{at:?}");
        }
    }

    #[test]
    fn declarations_of_a_name() {
        let source = source();
        assert!(source.declares(&source.functions[3], "err"));
        assert!(!source.declares(&source.functions[0], "err") && source.declares(&source.functions[0], "x"));
    }

    #[test]
    fn timers_of_a_benchmark() {
        let source = source();
        let benchmark = &source.functions[5];
        assert_eq!(source.calls(benchmark, "b", "ResetTimer"), [(24, 2)]);
        assert_eq!(source.loops_over(benchmark, &["b", ".", "N"]), [((25, 2), (25, 35))]);
    }

    #[test]
    fn damaged_sources_are_read() {
        for cut in 0..TEXT.len() {
            drop(GoSource::parse(TEXT[..cut].to_owned()));
            let source = GoSource::parse(TEXT[cut..].to_owned());
            for at in [(1, 1), (2, 2), (5, 9), (8, 18)] {
                let _ = (source.statement(at), source.new_call(at), source.in_loop(at), source.functions_at(at).len());
            }
        }
        drop(GoSource::parse("for func ( [ {".repeat(1000)));
    }
}
