//! What stands around an allocation: who may call its function, whether a line adds to a text in a loop, and whether a
//! map is its function's own.

use std::collections::BTreeSet;

use super::{Function, GoSource};

/// Methods that interfaces of the standard library have: what has one is called through them.
const OF_INTERFACES: &[&str] = &[
    "Close",
    "Error",
    "Format",
    "GoString",
    "Is",
    "Len",
    "Less",
    "MarshalBinary",
    "MarshalJSON",
    "MarshalText",
    "Pop",
    "Push",
    "Read",
    "ReadAt",
    "ReadByte",
    "ReadFrom",
    "RoundTrip",
    "Scan",
    "Seek",
    "ServeHTTP",
    "String",
    "Swap",
    "UnmarshalBinary",
    "UnmarshalJSON",
    "UnmarshalText",
    "Unwrap",
    "Value",
    "Write",
    "WriteAt",
    "WriteByte",
    "WriteString",
    "WriteTo",
];

/// Beginnings of functions that package testing calls.
const OF_TESTS: &[&str] = &["Test", "Benchmark", "Fuzz", "Example"];

impl GoSource {
    /// Names of functions that are used as values, `.m` of methods: by `handle(f)`, `x.m`, or as a method of an
    /// interface. Other names that are used so are among them.
    pub fn values(&self) -> BTreeSet<String> {
        let mut values = self.interface_methods();
        for token in 0..self.places.len() {
            let (before, name, next) = (self.word_before(token), self.word(token), self.word(token + 1));
            let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            if !is_name || matches!(next, "(" | "[" | "." | ":" | ":=" | "=" | "{") || matches!(before, "func" | "var")
            {
                continue;
            }
            values.insert(if before == "." { format!(".{name}") } else { name.to_owned() });
        }
        values
    }

    /// Names of functions and methods that have a parameter of type any.
    pub fn functions_of_any(&self) -> BTreeSet<String> {
        let is_any = |of: &str| {
            let of: String = of.chars().filter(|c| !c.is_whitespace()).collect();
            matches!(of.trim_start_matches("..."), "any" | "interface{}")
        };
        let takes_any = |function: &&Function| function.parameters.iter().any(|(_, of)| is_any(of));
        self.functions.iter().filter(takes_any).filter_map(|function| function.name.clone()).collect()
    }

    fn interface_methods(&self) -> BTreeSet<String> {
        let mut methods = BTreeSet::new();
        let begins = (0..self.places.len()).filter(|&at| self.word(at) == "interface" && self.word(at + 1) == "{");
        for begin in begins {
            let mut depth = 0_usize;
            for token in begin + 1..self.places.len() {
                match self.word(token) {
                    "(" if depth == 1 => drop(methods.insert(format!(".{}", self.word(token - 1)))),
                    _ => {}
                }
                match self.word(token) {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
        methods
    }

    /// Whether others decide the parameters and results of the innermost function of a line: it is a literal, what Go
    /// or its tests call, a method of an interface, or one of these values.
    pub fn has_fixed_signature(&self, at: super::At, values: &BTreeSet<String>) -> bool {
        let functions = self.functions_at(at);
        let Some(function) = functions.first() else { return false };
        let Some(name) = &function.name else { return true };
        match self.is_method(function) {
            true => OF_INTERFACES.contains(&name.as_str()) || values.contains(&format!(".{name}")),
            false => {
                ["main", "init"].contains(&name.as_str())
                    || OF_TESTS.iter().any(|of_tests| name.starts_with(of_tests)) && self.takes_test(function)
                    || values.contains(name)
            }
        }
    }

    fn is_method(&self, function: &Function) -> bool {
        self.word(function.start + 1) == "("
    }

    fn takes_test(&self, function: &Function) -> bool {
        function.parameters.iter().any(|(_, of)| of.starts_with("*testing."))
    }

    /// The line is in a loop and adds to a variable: `s += t`, `s = s + t`.
    pub fn adds_in_loop(&self, at: super::At) -> bool {
        self.in_loop(at)
            && self.tokens_of(at.0).any(|token| match self.word(token) {
                "+" => self.word(token + 1) == "=" && self.adjoin(token),
                "=" => self.word(token + 2) == "+" && self.word_before(token) == self.word(token + 1),
                _ => false,
            })
    }

    /// The maps to whose elements the line assigns are made by its function, which uses them for nothing else than
    /// their elements: they are gone when it returns.
    pub fn has_own_maps(&self, line: u32) -> bool {
        let functions = self.functions_at((line, u32::MAX));
        let mut targets =
            self.tokens_of(line).filter(|&token| self.word(token + 1) == "[" && self.begins_statement(token));
        let Some(first) = targets.next() else { return false };
        let is_own = |token: usize| {
            let name = self.word(token);
            functions.iter().any(|function| self.declares(function, name) && self.uses_elements_alone(function, name))
        };
        is_own(first) && targets.all(is_own)
    }

    fn uses_elements_alone(&self, function: &Function, name: &str) -> bool {
        let of_map = |token: usize| matches!(self.word(token), "make" | "map");
        let (from, to) = function.body;
        (from..to).filter(|&token| self.word(token) == name && self.word_before(token) != ".").all(|token| {
            match (self.word_before(token), self.word(token + 1)) {
                (_, ":=" | "=") => of_map(token + 2),
                (_, "[") | ("var" | "range", _) => true,
                ("(", _) => {
                    let called = token.checked_sub(2).map_or("", |called| self.word(called));
                    matches!(called, "len" | "clear" | "delete")
                }
                _ => false,
            }
        })
    }

    fn begins_statement(&self, token: usize) -> bool {
        let is_first = token.checked_sub(1).is_none_or(|before| self.places[before].0 < self.places[token].0);
        is_first || matches!(self.word_before(token), "{" | ";" | "}")
    }

    fn tokens_of(&self, line: u32) -> impl Iterator<Item = usize> {
        let from = self.places.partition_point(|&(at, _)| at < line);
        let to = self.places.partition_point(|&(at, _)| at <= line);
        from..to
    }

    /// Nothing stands between the token and the next one.
    pub(super) fn adjoin(&self, token: usize) -> bool {
        self.offsets.get(token).zip(self.offsets.get(token + 1)).is_some_and(|(here, next)| here.1 == next.0)
    }

    fn word_before(&self, token: usize) -> &str {
        token.checked_sub(1).map_or("", |before| self.word(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
package p

var sessions = map[string][]byte{}

type doer interface { do(n int); Other(func(x int)) }

func login(w http.ResponseWriter, r *http.Request) { sessions[key()] = make([]byte, 9) }
func called() { direct(1); s.field = 2 }
func (t *T) do(n int) { t.m[n] = 1 }
func (t *T) own(n int) { t.value() }
func (t *T) Write(b []byte) (int, error) { return 0, nil }
func (t *T) value() {}
func returns(n int) func() int { return func() int { return n } }
func main() { http.HandleFunc(\"/\", login); f := t.value; called() }
func decode(in interface{}, out any) error { return nil }
func (t *T) print(format string, values ...interface {}) {}
func count(words []string) int {
	counts := make(map[string]int)
	var alias = sessions
	text := \"\"
	for _, word := range words {
		counts[word]++
		alias[word] = nil
		text += word
		text = text + word
		other := word + \"x\"
	}
	text += \"end\"
	return len(counts)
}
func fill(words []string) map[string]int {
	made := make(map[string]int)
	for _, word := range words { made[word] = 1 }
	return made
}
func BenchmarkX(b *testing.B) { b.Run(\"\", func(b *testing.B) { x() }) }
";

    fn line(text: &str) -> u32 {
        TEXT.lines().position(|line| line.contains(text)).expect("a line") as u32 + 1
    }

    #[test]
    fn functions_whose_signatures_are_fixed() {
        let source = GoSource::parse(TEXT.to_owned());
        let values = source.values();
        let is_fixed = |text: &str| {
            let at = line(text);
            let column = TEXT.lines().nth(at as usize - 1).and_then(|line| line.find('{')).expect("a body") as u32 + 3;
            source.has_fixed_signature((at, column), &values)
        };
        for fixed in ["func login", ") do(", ") Write(", ") value(", "func main", "func BenchmarkX"] {
            assert!(is_fixed(fixed), "{fixed}");
        }
        for free in ["func called", ") own("] {
            assert!(!is_fixed(free), "{free}");
        }
        let in_returns = (line("func returns"), 36);
        assert!(!source.has_fixed_signature(in_returns, &values), "a result of the type of a function has no body");
        // The literal within.
        let at = (line("func BenchmarkX"), 70);
        assert!(source.has_fixed_signature(at, &BTreeSet::new()));
    }

    #[test]
    fn functions_with_parameters_of_type_any() {
        let all: Vec<_> = GoSource::parse(TEXT.to_owned()).functions_of_any().into_iter().collect();
        assert_eq!(all, ["decode", "print"]);
    }

    #[test]
    fn maps_that_are_gone_when_their_function_returns() {
        let source = GoSource::parse(TEXT.to_owned());
        let is_own = |text: &str| source.has_own_maps(line(text));
        assert!(is_own("counts[word]++"));
        for kept in ["sessions[key()]", "t.m[n]", "alias[word]", "made[word]", "return len"] {
            assert!(!is_own(kept), "{kept}");
        }
    }

    #[test]
    fn texts_that_are_added_up_in_loops() {
        let source = GoSource::parse(TEXT.to_owned());
        let adds = |text: &str| source.adds_in_loop((line(text), 20));
        assert!(adds("text += word") && adds("text = text + word"));
        assert!(!adds("other := word") && !adds("text += \"end\""));
    }
}
