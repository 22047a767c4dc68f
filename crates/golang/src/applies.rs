//! Where a suggestion can be followed: it follows from the reason, but not for each value, and not into code of others.

use crate::advice::Advice;
use crate::join::Type;
use crate::model::{Assigned, Kind, Reason, Surroundings};
use crate::source::{GoSource, Target};

/// Ending of the compiler's name of a type that generic code is given at run time: `<node DYNAMICTYPE>`. The type
/// itself is in no message.
const SHAPED: &str = " DYNAMICTYPE>";
/// The function of the runtime that puts a string into an interface.
const BOXED_STRING: &str = "runtime.convTstring";
/// Bytes of the largest key or value that a map holds itself; it has a pointer to a larger one, in a block of its own.
const IN_MAP: u64 = 128;
/// Bytes of the largest variable that a function literal captures by value; the compiler has it capture the address of
/// a larger one.
const BY_VALUE: u64 = 128;

pub struct Occasion<'a> {
    pub kind: Kind,
    pub what: &'a str,
    /// Reason of the allocation.
    pub reason: &'a Reason,
    /// The type of what is allocated, where the program describes it.
    pub of: Option<&'a Type>,
    /// The function of the runtime that allocates, where that is known.
    pub allocator: Option<&'a str>,
    /// The function of the source: `(*T).m`, or `example.com/p.(*T).m`.
    pub function: Option<&'a str>,
    pub surroundings: Surroundings,
}

impl Occasion<'_> {
    /// The suggestion that can be followed here: this one, or another one that does the same.
    pub fn fitted(&self, advice: Advice) -> Option<Advice> {
        // A value that callers store by reference goes to the heap there.
        if !self.takes(advice) || advice == Advice::ByValue && self.surroundings.stored_by_callers {
            return None;
        }
        if !self.surroundings.fixed_signature {
            return Some(advice);
        }
        // Neither a parameter nor a result can be changed.
        match (advice, self.reason) {
            (Advice::CallersBuffer, Reason::Returned) => None,
            (Advice::CallersBuffer | Advice::ConstantSize, _) => Some(Advice::Kept),
            (Advice::CallersSlice | Advice::CallersMap | Advice::ByValue | Advice::Method, _) => None,
            _ => Some(advice),
        }
    }

    /// Whether the suggestion can be followed here.
    fn takes(&self, advice: Advice) -> bool {
        let callee = match self.reason {
            Reason::Passed { callee, .. } => Some(callee.as_str()),
            _ => None,
        };
        match advice {
            // Code has no value that can be held in place of it, and a value in an interface is a block as well. Of
            // what is passed another function decides.
            Advice::ByValue
            | Advice::PassedValue
            | Advice::PartByValue
            | Advice::StoredValue
            | Advice::SentValue
            | Advice::MapOfValues
            | Advice::SliceOfValues
                if matches!(self.kind, Kind::Closure | Kind::LoopBody | Kind::MethodValue)
                    || self.surroundings.in_interface && advice != Advice::PassedValue =>
            {
                false
            }
            // There is nothing to format: io.WriteString takes it as it is.
            Advice::Format => !(self.allocator == Some(BOXED_STRING) && callee.is_some_and(prints)),
            Advice::KeptSlice => !self.copies(),
            // What lives on as a string is a block, however it was put together.
            Advice::AppendText => !self.lives_on() || self.surroundings.adds_in_loop,
            Advice::StoredValue | Advice::MapOfValues if self.is_large_in_map() => false,
            Advice::OneOfBoth => !self.converts_runes(),
            // A variable is captured by reference, all else by value already.
            Advice::CapturedCopy => {
                self.kind == Kind::Variable && !self.must_not_be_copied() && self.is_captured_by_value()
            }
            // A parameter of type any has no methods to call; those of other packages are mostly that.
            Advice::OwnMethods if self.surroundings.passed_as_any => false,
            // The method that keeps its receiver is one of its own.
            Advice::OwnMethods if callee.is_some_and(|callee| self.is_of(receiver(callee))) => false,
            Advice::OwnMethods => callee.is_none_or(|callee| !of_another_package(callee) || reads_or_writes(callee)),
            Advice::Concrete => callee.is_none_or(|callee| !of_another_package(callee)),
            Advice::PassedValue => {
                let possible = |callee| !of_another_package(callee) && !self.is_of(receiver(callee));
                callee.is_none_or(possible) && !self.is_linked() && !self.must_not_be_moved()
            }
            Advice::PartByValue if self.is_receiver() => false,
            Advice::StoredValue | Advice::PartByValue => !self.is_linked() && !self.must_not_be_moved(),
            Advice::ByValue | Advice::SentValue | Advice::MapOfValues | Advice::SliceOfValues => {
                !self.must_not_be_moved()
            }
            // Where the compiler names no part, the value is referred to in ways that it does not show.
            Advice::LateReference => {
                matches!(self.reason, Reason::InItself { place } if place.contains(['.', '[']))
            }
            _ => true,
        }
    }

    /// Whether something in the heap holds the allocation.
    fn lives_on(&self) -> bool {
        matches!(
            self.reason,
            Reason::PartOf { .. }
                | Reason::Stored { .. }
                | Reason::InMap
                | Reason::Appended
                | Reason::Sent
                | Reason::InInterface
                | Reason::Goroutine
        )
    }

    /// `append([]T(nil), items...)` makes one block of the right size anyway.
    fn copies(&self) -> bool {
        let appends = GoSource::parse(self.what.to_owned()).appends(1);
        !appends.is_empty() && appends.iter().all(|target| *target == Target::Empty)
    }

    /// A map has its block by itself as well. What is indexed may be a slice: the compiler says the same of both.
    fn is_large_in_map(&self) -> bool {
        let indexed = matches!(self.reason, Reason::Stored { place } if place.ends_with(']'));
        (indexed || *self.reason == Reason::InMap) && self.of.is_some_and(|of| of.size > IN_MAP)
    }

    fn converts_runes(&self) -> bool {
        const RUNES: [&str; 4] = ["stringtoslicerune", "rawruneslice", "slicerunetostring", "intstring"];
        let name = self.allocator.and_then(|allocator| allocator.strip_prefix("runtime."));
        self.what.starts_with("([]rune)(")
            || self.what.starts_with("string(rune(")
            || name.is_some_and(|name| RUNES.contains(&name))
    }

    /// The name of its type, as the runtime or the expression has it.
    fn type_name(&self) -> Option<&str> {
        let new = || self.what.strip_prefix("new(").and_then(|rest| rest.strip_suffix(')'));
        let literal = || self.what.strip_prefix('&').and_then(|rest| rest.split('{').next());
        self.of.map(|of| of.name.as_str()).or_else(new).or_else(literal)
    }

    /// Whether the type, or a part of it, is one that `go vet` refuses to copy, or that panics as a copy.
    fn must_not_be_copied(&self) -> bool {
        let parts = self.of.iter().flat_map(|of| &of.parts).map(String::as_str);
        self.type_name()
            .into_iter()
            .chain(parts)
            .any(|name| name.starts_with("sync.") || name.starts_with("atomic.") || name == "strings.Builder")
    }

    /// A copy is another value: a lock, or a node that others of its type point to.
    fn must_not_be_moved(&self) -> bool {
        self.must_not_be_copied() || self.of.is_some_and(|of| of.links_itself) || self.what.contains(SHAPED)
    }

    /// A copy that nobody assigns would be captured by value: the function literals only read it, as far as the source
    /// shows, and it is small.
    fn is_captured_by_value(&self) -> bool {
        let refers = || self.of.is_some_and(|of| ["*", "[]", "map["].iter().any(|begin| of.name.starts_with(begin)));
        let reads = match self.surroundings.assigned_by_literals {
            Assigned::Nothing => true,
            Assigned::Part => refers(),
            Assigned::Whole => false,
        };
        reads && self.of.is_none_or(|of| of.size <= BY_VALUE)
    }

    /// The value of a method, `x.m`, refers to it.
    fn is_receiver(&self) -> bool {
        matches!(self.reason, Reason::PartOf { whole } if is_method_value(whole))
    }

    fn is_of(&self, name: Option<&str>) -> bool {
        name.is_some() && self.type_name().map(last) == name
    }

    /// A method makes a value of its own type: nodes of a list or a tree refer to each other.
    fn is_linked(&self) -> bool {
        self.is_of(self.function.and_then(receiver))
    }
}

/// `x.m`: the compiler names other wholes with their braces or parentheses.
pub fn is_method_value(whole: &str) -> bool {
    whole.contains('.') && whole.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

/// `T` of `(*T).m`, and of `example.com/p.(*T).m`.
fn receiver(function: &str) -> Option<&str> {
    let (_, rest) = function.split_once("(*")?;
    rest.split_once(").").map(|(name, _)| last(name))
}

/// `T` of `p.T[int]`.
fn last(name: &str) -> &str {
    let plain = name.split('[').next().unwrap_or(name);
    plain.rsplit('.').next().unwrap_or(plain)
}

/// The compiler names functions and types of the package that it compiles without the package.
fn of_another_package(callee: &str) -> bool {
    let callee = callee.split('[').next().unwrap_or(callee);
    match callee.strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        Some((receiver, _)) => receiver.contains('.'),
        None => callee.contains('.'),
    }
}

/// Functions of package fmt that write their arguments without a format.
fn prints(callee: &str) -> bool {
    ["fmt.Fprint", "fmt.Fprintln", "fmt.Print", "fmt.Println"].contains(&callee)
}

/// Functions of packages whose interfaces have methods.
fn reads_or_writes(callee: &str) -> bool {
    ["io.", "bufio."].iter().any(|package| callee.trim_start_matches("(*").starts_with(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(callee: &str, interface: bool) -> Reason {
        Reason::Passed { callee: callee.to_owned(), interface }
    }

    fn in_itself(place: &str) -> Reason {
        Reason::InItself { place: place.to_owned() }
    }

    fn of(name: &str) -> Type {
        Type { name: name.to_owned(), size: 8, pointers: true, ..Type::default() }
    }

    fn occasion<'a>(kind: Kind, what: &'a str, reason: &'a Reason, of: Option<&'a Type>) -> Occasion<'a> {
        Occasion {
            kind,
            what,
            reason,
            of,
            allocator: None,
            function: Some("example.com/p.F"),
            surroundings: Surroundings::default(),
        }
    }

    /// Of a function whose parameters and results others decide.
    fn fixed(one: Occasion) -> Occasion {
        Occasion { surroundings: Surroundings { fixed_signature: true, ..one.surroundings }, ..one }
    }

    fn suggestion(one: &Occasion) -> Option<Advice> {
        Advice::of(one.kind, one.reason).and_then(|advice| one.fitted(advice))
    }

    #[test]
    fn what_cannot_be_followed_is_not_suggested() {
        let stored = Reason::Stored { place: "n.l".to_owned() };
        let (add, append) = (passed("(*sync.WaitGroup).Add", false), passed("(*Node).AppendChild", false));
        let (store, keep) = (passed("atomic.StorePointer", false), passed("keep", false));
        let (json, slice) = (passed("json.Unmarshal", true), passed("sort.Slice", true));
        let (error, scan) = (passed("fmt.Errorf", true), passed("fmt.Sscan", true));
        let parse = passed("(*yyParserImpl).Parse", true);
        let guarded = Type { parts: vec!["p.inner".to_owned(), "sync.Mutex".to_owned()], ..of("p.Guarded") };
        let node = Type { links_itself: true, ..of("p.Node[int]") };
        let receiver = Reason::PartOf { whole: "r.one".to_owned() };
        let (indexed, large) = (Reason::Stored { place: "m[i]".to_owned() }, Type { size: 129, ..of("p.Rec") });
        for one in [
            occasion(Kind::Variable, "wg", &add, Some(&of("sync.WaitGroup"))),
            occasion(Kind::Variable, "mu", &keep, Some(&of("sync.Mutex"))),
            occasion(Kind::Variable, "n", &Reason::Captured, Some(&of("atomic.Int64"))),
            occasion(Kind::Composite, "&sync.Mutex{...}", &Reason::Returned, None),
            occasion(Kind::New, "new(sync.Mutex)", &Reason::Sent, None),
            occasion(Kind::Composite, "&Guarded{...}", &Reason::Returned, Some(&guarded)),
            occasion(Kind::Variable, "g", &keep, Some(&guarded)),
            occasion(Kind::Variable, "b", &Reason::Returned, Some(&of("strings.Builder"))),
            occasion(Kind::Composite, "&Node[int]{...}", &Reason::Returned, Some(&node)),
            occasion(Kind::Composite, "&Node[int]{...}", &stored, Some(&node)),
            occasion(Kind::Composite, "&Node[int]{...}", &Reason::Appended, Some(&node)),
            occasion(Kind::New, "new(<node DYNAMICTYPE>)", &Reason::Returned, None),
            occasion(Kind::Composite, "&Rec{...}", &indexed, Some(&large)),
            occasion(Kind::Composite, "&Rec{...}", &Reason::InMap, Some(&large)),
            occasion(Kind::Closure, "func literal", &stored, None),
            occasion(Kind::Closure, "func literal", &Reason::InMap, None),
            occasion(Kind::Closure, "func literal", &Reason::Appended, None),
            occasion(Kind::Closure, "func literal", &Reason::Sent, None),
            occasion(Kind::Append, "append(([]Item)(nil), items...)", &Reason::Returned, None),
            occasion(Kind::Variable, "r", &in_itself("r"), None),
            occasion(Kind::Variable, "r", &receiver, None),
            occasion(Kind::Make, "make([]int, n)", &Reason::Captured, Some(&of("int"))),
            occasion(Kind::Composite, "&Rec{...}", &store, Some(&of("p.Rec"))),
            occasion(Kind::Composite, "&Node{...}", &append, Some(&of("p.Node"))),
            occasion(Kind::Composite, "&Node{...}", &append, None),
            occasion(Kind::Variable, "r", &json, Some(&of("p.Rec"))),
            occasion(Kind::Composite, "&yyParserImpl{}", &parse, None),
            occasion(Kind::Boxed, "keys", &slice, None),
            occasion(Kind::Boxed, "n", &error, None),
            occasion(Kind::Variadic, "... argument", &error, None),
            occasion(Kind::Boxed, "&n", &scan, None),
            occasion(Kind::Conversion, "([]rune)(s)", &stored, None),
            // One string is a block, however it is put together.
            occasion(Kind::Concatenation, "\"a\" + s", &Reason::PartOf { whole: "&errorString{...}".to_owned() }, None),
            occasion(Kind::Concatenation, "\"a\" + s", &stored, None),
            // A field may have it for good.
            occasion(Kind::Make, "make([]byte, n)", &stored, None),
            occasion(Kind::MakeMap, "make(map[int]int)", &indexed, None),
            occasion(Kind::MakeMap, "make(map[int]int)", &stored, None),
            fixed(occasion(Kind::Make, "make([]byte, n)", &Reason::Returned, None)),
            fixed(occasion(Kind::MakeMap, "make(map[int]int)", &Reason::Returned, None)),
            fixed(occasion(Kind::Closure, "func literal", &Reason::Returned, None)),
            fixed(occasion(Kind::Composite, "&Rec{...}", &Reason::Returned, None)),
            Occasion {
                allocator: Some("runtime.intstring"),
                ..occasion(Kind::Conversion, "string(r)", &Reason::Returned, None)
            },
            Occasion {
                function: Some("example.com/p.(*node).insert"),
                ..occasion(Kind::Composite, "&node{...}", &stored, Some(&of("p.node")))
            },
        ] {
            assert_eq!(suggestion(&one), None, "{} {:?}", one.what, one.reason);
        }
    }

    #[test]
    fn what_a_literal_assigns_is_captured_by_its_address() {
        let assigned = |assigned, of| {
            let one = occasion(Kind::Variable, "v", &Reason::Captured, of);
            let surroundings = Surroundings { assigned_by_literals: assigned, ..one.surroundings };
            suggestion(&Occasion { surroundings, ..one }).is_some()
        };
        let (record, pointer) = (of("p.Rec"), of("*p.Rec"));
        let [fits, large] = [128, 129].map(|size| Type { size, ..of("p.Rec") });
        for (of, expected) in [(Some(&record), [true, false, false]), (Some(&pointer), [true, true, false])] {
            let given = [Assigned::Nothing, Assigned::Part, Assigned::Whole].map(|what| assigned(what, of));
            assert_eq!(given, expected, "{of:?}");
        }
        assert_eq!([&fits, &large].map(|of| assigned(Assigned::Nothing, Some(of))), [true, false]);
    }

    #[test]
    fn a_parameter_of_type_any_has_no_methods() {
        let (read, of) = (passed("readAll", true), of("p.Reader"));
        let own = occasion(Kind::Variable, "r", &read, Some(&of));
        assert_eq!(suggestion(&own), Some(Advice::OwnMethods));
        let any = Occasion { surroundings: Surroundings { passed_as_any: true, ..own.surroundings }, ..own };
        assert_eq!(suggestion(&any), None);
    }

    #[test]
    fn a_value_in_an_interface_is_a_block_as_well() {
        let stored = Reason::Stored { place: "s.top".to_owned() };
        let part = Reason::PartOf { whole: "&Session{...}".to_owned() };
        for reason in [&Reason::Appended, &Reason::Returned, &Reason::Sent, &Reason::InMap, &stored, &part] {
            let plain = occasion(Kind::Composite, "&Rec{...}", reason, None);
            assert!(suggestion(&plain).is_some(), "{reason:?}");
            let surroundings = Surroundings { in_interface: true, ..plain.surroundings };
            assert_eq!(suggestion(&Occasion { surroundings, ..plain }), None, "{reason:?}");
        }
    }

    #[test]
    fn a_string_that_is_printed_is_not_formatted() {
        let string = |reason| Occasion { allocator: Some(BOXED_STRING), ..occasion(Kind::Boxed, "s", reason, None) };
        let (print, format) = (passed("fmt.Fprint", true), passed("fmt.Fprintf", true));
        assert_eq!(suggestion(&string(&print)), None);
        assert_eq!(suggestion(&string(&format)), Some(Advice::Format));
        assert_eq!(suggestion(&occasion(Kind::Boxed, "n", &print, None)), Some(Advice::Format));
    }

    #[test]
    fn what_can_be_followed_is_suggested() {
        let (stored, keep) = (Reason::Stored { place: "h.p".to_owned() }, passed("keep", false));
        let (read, any) = (passed("io.ReadAtLeast", true), passed("readAll", true));
        let part = Reason::PartOf { whole: "T{...}".to_owned() };
        let stack = in_itself("r.stack");
        let (indexed, fits) = (Reason::Stored { place: "m[i]".to_owned() }, Type { size: 128, ..of("p.Rec") });
        let large = Type { size: 129, ..of("p.Rec") };
        let (sprint, put) = (passed("fmt.Sprint", true), passed("(*List).Put", false));
        for (one, expected) in [
            (occasion(Kind::Composite, "&Rec{...}", &stored, Some(&of("p.Rec"))), Advice::StoredValue),
            (occasion(Kind::Composite, "&Rec{...}", &stored, Some(&large)), Advice::StoredValue),
            (occasion(Kind::Composite, "&Rec{...}", &indexed, Some(&fits)), Advice::StoredValue),
            (occasion(Kind::Composite, "&Rec{...}", &Reason::InMap, Some(&fits)), Advice::MapOfValues),
            (occasion(Kind::Append, "append(xs, x)", &Reason::Returned, None), Advice::KeptSlice),
            (occasion(Kind::Variable, "p", &keep, Some(&of("p.Point"))), Advice::PassedValue),
            (occasion(Kind::Variable, "r", &stack, Some(&of("p.Room"))), Advice::LateReference),
            (occasion(Kind::Variable, "x", &part, Some(&of("p.Point"))), Advice::PartByValue),
            (occasion(Kind::Composite, "&Rec{...}", &Reason::Returned, Some(&of("p.Rec"))), Advice::ByValue),
            (occasion(Kind::Composite, "&Item{...}", &put, Some(&of("p.Item"))), Advice::PassedValue),
            (occasion(Kind::Composite, "&bytes.Buffer{...}", &read, None), Advice::OwnMethods),
            (occasion(Kind::Composite, "&Reader{...}", &any, None), Advice::OwnMethods),
            (occasion(Kind::Boxed, "n", &any, None), Advice::Concrete),
            (occasion(Kind::Boxed, "n", &sprint, None), Advice::FormatText),
            (occasion(Kind::Variable, "n", &Reason::Captured, Some(&of("int"))), Advice::CapturedCopy),
            (occasion(Kind::Conversion, "([]byte)(s)", &stored, None), Advice::OneOfBoth),
            (occasion(Kind::Make, "make([]byte, n)", &indexed, None), Advice::OneArray),
            (occasion(Kind::Make, "make([]byte, n)", &keep, None), Advice::CallersBuffer),
            (fixed(occasion(Kind::Make, "make([]byte, n)", &keep, None)), Advice::Kept),
            (occasion(Kind::Concatenation, "a + b", &Reason::Returned, None), Advice::AppendText),
            (
                Occasion {
                    surroundings: Surroundings { adds_in_loop: true, ..Surroundings::default() },
                    ..occasion(Kind::Concatenation, "a + b", &stored, None)
                },
                Advice::AppendText,
            ),
        ] {
            assert_eq!(suggestion(&one), Some(expected), "{} {:?}", one.what, one.reason);
        }
    }
}
