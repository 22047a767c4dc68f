//! Which of the compiler's diagnostics an allocation belongs to.

use rustc_hash::FxHashMap;

use super::instance;
use super::runtime::Family;
use super::{Allocation, Call, Place};
use crate::model::{Diagnostic, Kind, Position, Verdict};
use crate::read::before_cgo;

/// All that the compiler said, by where it stands in the function that was compiled.
#[derive(Debug, Default)]
pub struct Compiled {
    list: Vec<Diagnostic>,
    /// By the last parts of the file's name, and the line.
    at: FxHashMap<(String, u32), Vec<usize>>,
}

/// A diagnostic that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Which.
    pub diagnostic: &'a Diagnostic,
    /// Among so many.
    pub one_of: usize,
}

impl Compiled {
    /// Of these.
    pub fn new(list: Vec<Diagnostic>) -> Self {
        let mut at: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for (index, diagnostic) in list.iter().enumerate() {
            let outermost = diagnostic.inlined_at.last().unwrap_or(&diagnostic.position);
            at.entry((short(&outermost.file), outermost.line)).or_default().push(index);
        }
        Self { list, at }
    }

    /// All of them.
    pub fn all(&self) -> &[Diagnostic] {
        &self.list
    }

    /// For each allocation, what the compiler said of it.
    pub(super) fn find(&self, allocations: &[Allocation]) -> Vec<Option<Found<'_>>> {
        let mut found: Vec<Option<Found>> = vec![None; allocations.len()];
        // Allocations of one function that the same diagnostics come into question for.
        let mut rivals: FxHashMap<(Vec<usize>, Option<&str>), Vec<usize>> = FxHashMap::default();
        for (index, allocation) in allocations.iter().enumerate() {
            let candidates = self.candidates(allocation);
            if !candidates.is_empty() {
                rivals.entry((candidates, allocation.symbol.as_deref())).or_default().push(index);
            }
        }
        for ((candidates, _), mut rivals) in rivals {
            // Code is mostly in the order of the source.
            rivals.sort_by_key(|&index| allocations[index].address);
            let alike = rivals.len() == candidates.len() && self.places_differ(&candidates);
            for (rank, index) in rivals.into_iter().enumerate() {
                let at = if alike { rank } else { rank.min(candidates.len() - 1) };
                let diagnostic = &self.list[candidates[at]];
                let one_of = if alike && candidates.len() > 1 || candidates.len() == 1 { 1 } else { candidates.len() };
                found[index] = Some(Found { diagnostic, one_of });
            }
        }
        found
    }

    /// One instance of a generic function has no order beside another.
    fn places_differ(&self, candidates: &[usize]) -> bool {
        let place = |index: usize| {
            let one = &self.list[index];
            (&one.position, &one.inlined_at, one.kind)
        };
        let differs =
            |(at, &index): (usize, &usize)| candidates[..at].iter().all(|&other| place(other) != place(index));
        candidates.iter().enumerate().all(differs)
    }

    /// The diagnostics that it may be, by column.
    fn candidates(&self, allocation: &Allocation) -> Vec<usize> {
        let Some(outermost) = allocation.chain.last() else { return Vec::new() };
        // Without the program nobody knows what is called: then it is something that the compiler put into the heap.
        let call = allocation.call.as_ref();
        let kinds = match call.map(|call| (call, Family::of(&call.callee))) {
            Some((call, Some(family))) => Some(family.kinds(call)),
            Some((_, None)) => return Vec::new(),
            None => None,
        };
        let Some(here) = self.at.get(&(short(&outermost.file), outermost.line)) else { return Vec::new() };
        let mut best: Vec<usize> = Vec::new();
        let mut score = 0;
        for &index in here {
            let diagnostic = &self.list[index];
            let may = kinds.map_or(diagnostic.allocates(), |kinds| kinds.contains(&diagnostic.kind));
            // Nothing is allocated for a constant in an interface.
            if !may || diagnostic.verdict != Verdict::DoesNotEscape && !diagnostic.allocates() {
                continue;
            }
            let Some(this) = alike(diagnostic, allocation, call) else { continue };
            if this > score {
                best.clear();
                score = this;
            }
            if this == score {
                best.push(index);
            }
        }
        best.sort_by_key(|&index| (self.list[index].position.column, index));
        inner_first(&mut best, |index| &self.list[index].what);
        // An instance of a generic function for each type says the same.
        best.dedup_by(|b, a| {
            let (a, b) = (&self.list[*a], &self.list[*b]);
            (&a.position, &a.what, a.kind, a.verdict) == (&b.position, &b.what, b.kind, b.verdict)
        });
        best
    }
}

/// Puts expressions that contain others behind these, as they are evaluated: `f(b)` comes before `string(f(b))`.
/// Precondition: they are in the order of their columns.
fn inner_first<'a>(list: &mut [usize], what: impl Fn(usize) -> &'a str) {
    let mut at = 0;
    while at < list.len() {
        let outer = what(list[at]);
        let inside = |&index: &usize| what(index).len() < outer.len() && outer.contains(what(index));
        match list[at + 1..].iter().rposition(inside) {
            Some(last) => list[at..=at + 1 + last].rotate_left(1),
            None => at += 1,
        }
    }
}

/// Is the conversion that the compiler names the one that this function of the runtime does? None where the name is that of
/// a type of the program's own.
fn converts(callee: &str, what: &str) -> Option<bool> {
    const RESULTS: [&str; 3] = ["([]byte)(", "([]rune)(", "string("];
    let is = RESULTS.into_iter().find(|result| what.starts_with(result))?;
    let expected = match callee.strip_prefix("runtime.")? {
        "stringtoslicebyte" | "rawbyteslice" => "([]byte)(",
        "stringtoslicerune" | "rawruneslice" => "([]rune)(",
        "slicebytetostring" | "slicerunetostring" | "intstring" => "string(",
        _ => return None,
    };
    Some(is == expected)
}

/// How well a diagnostic fits; None where it is another place's.
fn alike(diagnostic: &Diagnostic, allocation: &Allocation, call: Option<&Call>) -> Option<u32> {
    let chain = allocation.chain.as_slice();
    let mut score = same_instance(diagnostic, allocation.symbol.as_deref());
    let inlined = diagnostic.inlined_at.len() + 1;
    if inlined == chain.len() {
        let positions = std::iter::once(&diagnostic.position).chain(&diagnostic.inlined_at);
        if !positions.zip(chain).all(|(position, place)| same(position, place)) {
            return None;
        }
        score += 8;
    } else if matches!(diagnostic.kind, Kind::Variable | Kind::NewValue | Kind::SliceLiteral)
        && !diagnostic.inlined_at.is_empty()
    {
        // Parameters and results of a function that is inside of another are variables of that one, and a slice that it returns
        // is filled there.
        if inlined != chain.len() + 1 || !diagnostic.inlined_at.iter().zip(chain).all(|(p, place)| same(p, place)) {
            return None;
        }
        score += 8;
    } else if inlined > 1 || diagnostic.placed {
        return None;
    }
    // One that the compiler left in the heap is likelier than one that is not.
    if diagnostic.verdict != Verdict::DoesNotEscape {
        score += 4;
    }
    // What a function is there for is likelier than what else it is used for: makeslice copies and appends, too.
    let meant = call.and_then(|call| Family::of(&call.callee)?.meant());
    if diagnostic.kind == Kind::Boxed || meant == Some(diagnostic.kind) {
        score += 1;
    }
    if let Some(call) = call.filter(|_| diagnostic.kind == Kind::Conversion) {
        score += match converts(&call.callee, &diagnostic.what) {
            Some(true) => 2,
            Some(false) => return None,
            None => 0,
        };
    }
    if let Some(of) = call.and_then(|call| call.of.as_ref()) {
        score += match fits(diagnostic, &of.name) {
            Some(true) => 2,
            Some(false) => return None,
            None => 0,
        };
    }
    Some(score)
}

/// Points for a diagnostic of the same instance of a generic function: that decides before all else. Compilers before 1.25
/// do not name the function; then the expression may name its types.
fn same_instance(diagnostic: &Diagnostic, symbol: Option<&str>) -> u32 {
    let Some(types) = symbol.and_then(instance::types) else { return 1 };
    match diagnostic.function.as_deref().and_then(instance::types) {
        Some(of) if of == types => 33,
        None if instance::names_types(&diagnostic.what, &types) => 17,
        _ => 1,
    }
}

fn same(position: &Position, place: &Place) -> bool {
    let file = || match before_cgo(&position.file) {
        // Code of another package that cgo rewrote has no directory.
        Some(name) => place.file.rsplit('/').next() == Some(name.as_str()),
        None => short(&position.file) == short(&place.file),
    };
    position.line == place.line && file()
}

/// Can what the compiler names be of this type? None where it does not name a type.
fn fits(diagnostic: &Diagnostic, name: &str) -> Option<bool> {
    let what = diagnostic.what.as_str();
    if diagnostic.kind == Kind::Variadic {
        // The array below the slice of arguments.
        return Some(name.starts_with('['));
    }
    let written = match diagnostic.kind {
        Kind::Composite => what.strip_prefix('&')?.split('{').next()?,
        Kind::New => what.strip_prefix("new(")?.strip_suffix(')')?,
        Kind::Make => what.strip_prefix("make([]")?.split(',').next()?,
        _ => return None,
    };
    // Types of generic functions are named by their shapes, and those without a name by their fields.
    if written.contains("go.shape") || name.contains("go.shape") || written.contains('[') || written.contains("struct")
    {
        return None;
    }
    let last = |name: &str| name.rsplit(['.', '*']).next().unwrap_or(name).to_owned();
    let pointers = |name: &str| name.chars().take_while(|&c| c == '*').count();
    let (written, name) = (alias(written), alias(name));
    (name.starts_with(|c: char| c.is_alphabetic() || c == '*'))
        .then(|| pointers(&written) == pointers(&name) && last(&written) == last(&name))
        // What a name stands for is not known here.
        .filter(|same| *same || !is_basic(&name) && !name.contains('['))
}

fn alias(name: &str) -> String {
    match name {
        "byte" => "uint8".to_owned(),
        "rune" => "int32".to_owned(),
        "any" => "interface {}".to_owned(),
        _ => name.to_owned(),
    }
}

fn is_basic(name: &str) -> bool {
    !name.contains('.')
}

/// Directory and name of a file: enough to tell files of one program apart, and the same with `-trimpath`.
fn short(file: &str) -> String {
    let mut parts = file.rsplitn(3, '/');
    match (parts.next(), parts.next()) {
        (Some(name), Some(directory)) => format!("{directory}/{name}"),
        (name, _) => name.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{allocation, call, escapes, place, position, stays};
    use super::*;

    /// What each allocation was found to be: the place of the diagnostic, and among how many.
    fn found(list: Vec<Diagnostic>, allocations: &[Allocation]) -> Vec<Option<(u32, u32, String, usize)>> {
        let compiled = Compiled::new(list);
        let key = |found: Found| {
            let Diagnostic { position, what, .. } = found.diagnostic;
            (position.line, position.column, what.clone(), found.one_of)
        };
        compiled.find(allocations).into_iter().map(|found| found.map(key)).collect()
    }

    fn one(line: u32, column: u32, what: &str) -> Option<(u32, u32, String, usize)> {
        Some((line, column, what.to_owned(), 1))
    }

    fn object(address: u64, chain: &[Place], of: &str) -> Allocation {
        allocation(address, chain, Some(call("runtime.newobject", Some(of))))
    }

    #[test]
    fn one_function_in_two_places_is_told_apart_by_where_it_is_inlined() {
        let inner = place("p.New", "a.go:3");
        let list = vec![
            escapes(Kind::Composite, "&T{...}", &["a.go:3:9", "b.go:20:5"]),
            stays(Kind::Composite, "&T{...}", &["a.go:3:9", "b.go:30:5"]),
            escapes(Kind::Composite, "&T{...}", &["a.go:3:9"]),
            escapes(Kind::Composite, "&T{...}", &["a.go:3:9", "c.go:7:1", "b.go:20:5"]),
        ];
        let chains = [
            vec![inner.clone(), place("p.F", "b.go:20")],
            vec![inner.clone(), place("p.F", "b.go:30")],
            vec![inner.clone()],
            vec![inner.clone(), place("p.G", "c.go:7"), place("p.F", "b.go:20")],
            vec![inner, place("p.F", "b.go:40")],
        ];
        let compiled = Compiled::new(list);
        let allocations: Vec<_> = (0..).zip(&chains).map(|(at, chain)| object(at, chain, "p.T")).collect();
        let places = compiled.find(&allocations).into_iter().map(|found| found.map(|f| &f.diagnostic.inlined_at));
        let lines: Vec<Option<Vec<u32>>> = places.map(|at| Some(at?.iter().map(|at| at.line).collect())).collect();
        assert_eq!(lines, [Some(vec![20]), Some(vec![30]), Some(vec![]), Some(vec![7, 20]), None]);
    }

    /// `return NewRow(c...)`, where `c` was built by append, and the function that is inlined has a literal of its own.
    #[test]
    fn a_slice_that_moves_to_the_heap_is_no_literal_of_the_line() {
        let line = [place("p.F", "a.go:5")];
        let literal = || vec![escapes(Kind::SliceLiteral, "[]int{...}", &["a.go:5:9"])];
        let moves = || allocation(1, &line, Some(call("runtime.moveSlice", Some("q.Matcher"))));
        assert_eq!(found(literal(), &[moves()]), [None]);
        let append = escapes(Kind::Append, "append(c, m)", &["a.go:5:3"]);
        assert_eq!(found([literal(), vec![append]].concat(), &[moves()]), [one(5, 3, "append(c, m)")]);
    }

    /// `keep(i, "x", 2.5)` with `func keep(args ...any)`: one array, and one number.
    #[test]
    fn a_variadic_call_has_its_slice_and_no_constants() {
        let line = [place("p.F", "a.go:5")];
        let list = || {
            vec![
                escapes(Kind::Variadic, "... argument", &["a.go:5:6"]),
                escapes(Kind::Boxed, "i", &["a.go:5:7"]),
                escapes(Kind::Boxed, "\"x\"", &["a.go:5:10"]),
                escapes(Kind::Boxed, "2.5", &["a.go:5:15"]),
            ]
        };
        let array = object(1, &line, "[3]interface {}");
        let number = allocation(2, &line, Some(call("runtime.convT64", None)));
        assert_eq!(found(list(), &[array, number]), [one(5, 6, "... argument"), one(5, 7, "i")]);
        let value = object(1, &line, "p.T");
        assert_eq!(found(list(), &[value]), [one(5, 7, "i")], "no array is the slice of arguments");
    }

    #[test]
    fn the_call_limits_what_it_may_be() {
        let line = [place("p.F", "a.go:5")];
        let list = || {
            vec![
                escapes(Kind::Append, "append(x, y)", &["a.go:5:1"]),
                escapes(Kind::Make, "make([]T, n)", &["a.go:5:2"]),
                escapes(Kind::Boxed, "n", &["a.go:5:3"]),
                escapes(Kind::Closure, "func literal", &["a.go:5:4"]),
                escapes(Kind::Concatenation, "a + b", &["a.go:5:5"]),
                escapes(Kind::Conversion, "string(x)", &["a.go:5:6"]),
                escapes(Kind::MakeChan, "make(chan T)", &["a.go:5:7"]),
                escapes(Kind::MakeMap, "make(map[T]T)", &["a.go:5:8"]),
                escapes(Kind::MapLiteral, "map[T]T{...}", &["a.go:5:9"]),
            ]
        };
        for (callee, of, expected) in [
            ("runtime.growslice", None, one(5, 1, "append(x, y)")),
            ("runtime.makeslice", None, one(5, 2, "make([]T, n)")),
            ("runtime.convT64", None, one(5, 3, "n")),
            ("runtime.newobject", Some("struct { F uintptr; X0 int }"), one(5, 4, "func literal")),
            ("runtime.concatstring2", None, one(5, 5, "a + b")),
            ("runtime.slicebytetostring", None, one(5, 6, "string(x)")),
            ("runtime.makechan", None, one(5, 7, "make(chan T)")),
            ("runtime.newproc", None, one(5, 4, "func literal")),
            ("runtime.mapassign_faststr", None, one(5, 9, "map[T]T{...}")),
            // A call that is no allocation, and one that no expression stands for.
            ("p.other", None, None),
            ("reflect.unsafe_New", None, None),
        ] {
            let found = found(list(), &[allocation(1, &line, Some(call(callee, of)))]);
            assert_eq!(found, [expected], "{callee}");
        }
    }

    #[test]
    fn types_tell_two_of_one_line_apart() {
        let line = [place("p.F", "a.go:5")];
        let list = || {
            vec![
                escapes(Kind::Composite, "&Point{...}", &["a.go:5:9"]),
                escapes(Kind::New, "new(*Point)", &["a.go:5:20"]),
                escapes(Kind::New, "new(byte)", &["a.go:5:30"]),
                escapes(Kind::New, "new(any)", &["a.go:5:40"]),
            ]
        };
        let all = [(1, "uint8"), (4, "p.Point"), (3, "interface {}"), (2, "*p.Point")];
        let allocations: Vec<_> = all.iter().map(|&(address, of)| object(address, &line, of)).collect();
        let expected =
            [one(5, 30, "new(byte)"), one(5, 9, "&Point{...}"), one(5, 40, "new(any)"), one(5, 20, "new(*Point)")];
        assert_eq!(found(list(), &allocations), expected);
        // A type of that name is none of these; what a name of the source stands for may be a basic type.
        assert_eq!(found(list(), &[object(1, &line, "q.Other")]), [None]);
        let Some((_, _, _, among)) = &found(list(), &[object(1, &line, "int")])[0] else { panic!("nothing") };
        assert!(*among > 1);
    }

    #[test]
    fn several_alike_are_in_the_order_of_columns() {
        let line = [place("p.F", "a.go:5")];
        let alike = |column: &str| escapes(Kind::Composite, "&Point{...}", &[&format!("a.go:5:{column}")]);
        let list = || vec![alike("40"), alike("9"), alike("25")];
        let allocations = [object(300, &line, "p.Point"), object(100, &line, "p.Point"), object(200, &line, "p.Point")];
        let columns = |found: Vec<Option<(u32, u32, String, usize)>>| -> Vec<(u32, usize)> {
            found.into_iter().map(|found| found.expect("one")).map(|(_, column, _, among)| (column, among)).collect()
        };
        assert_eq!(columns(found(list(), &allocations)), [(40, 1), (9, 1), (25, 1)]);
        // One of them did not run: the code does not show which.
        assert_eq!(columns(found(list(), &allocations[..2])), [(25, 3), (9, 3)]);
    }

    /// `return string(f([]byte(s)))`: the outer conversion is named first, and done last.
    #[test]
    fn conversions_within_each_other_are_told_apart() {
        let line = [place("p.F", "a.go:7")];
        let conversion = |what: &str, at: &str| escapes(Kind::Conversion, what, &[at]);
        let call = |address, callee| allocation(address, &line, Some(call(callee, None)));
        let list = vec![conversion("string(f(([]byte)(s)))", "a.go:7:17"), conversion("([]byte)(s)", "a.go:7:25")];
        let calls = [call(100, "runtime.stringtoslicebyte"), call(200, "runtime.slicebytetostring")];
        let expected = [one(7, 25, "([]byte)(s)"), one(7, 17, "string(f(([]byte)(s)))")];
        assert_eq!(found(list.clone(), &calls), expected);
        // One of them did not run.
        assert_eq!(found(list, &calls[..1]), expected[..1]);

        // Both by the same function: what is inside comes first. A name of the program's own may be either.
        let outer = "string(f(([]byte)(string(f(b)))))";
        let list = vec![
            conversion(outer, "a.go:7:17"),
            conversion("([]byte)(string(f(b)))", "a.go:7:31"),
            conversion("string(f(b))", "a.go:7:33"),
        ];
        let calls = [call(100, "runtime.slicebytetostring"), call(200, "runtime.slicebytetostring")];
        assert_eq!(found(list, &calls), [one(7, 33, "string(f(b))"), one(7, 17, outer)]);
        let named = vec![conversion("Name(b)", "a.go:7:3"), conversion("Name(c)", "a.go:7:30")];
        assert_eq!(found(named, &calls), [one(7, 3, "Name(b)"), one(7, 30, "Name(c)")]);
    }

    #[test]
    fn what_is_in_the_heap_by_the_compiler_is_likelier() {
        let line = [place("p.F", "a.go:5")];
        let list = vec![
            stays(Kind::Make, "make([]int, n)", &["a.go:5:3"]),
            escapes(Kind::Make, "make([]int, m)", &["a.go:5:30"]),
        ];
        let makes = allocation(1, &line, Some(call("runtime.makeslice", Some("int"))));
        assert_eq!(found(list, &[makes]), [one(5, 30, "make([]int, m)")]);
    }

    #[test]
    fn without_the_program_it_is_what_escapes() {
        let line = [place("p.F", "a.go:5")];
        let list = || {
            vec![
                stays(Kind::Make, "make([]int, n)", &["a.go:5:3"]),
                escapes(Kind::Boxed, "\"text\"", &["a.go:5:10"]),
                escapes(Kind::Composite, "&T{...}", &["a.go:5:20"]),
            ]
        };
        assert_eq!(found(list(), &[allocation(1, &line, None)]), [one(5, 20, "&T{...}")]);
        assert_eq!(found(list()[..2].to_vec(), &[allocation(1, &line, None)]), [None]);
    }

    #[test]
    fn variables_of_inlined_functions_are_their_callers() {
        let mut variable = escapes(Kind::Variable, "n", &["a.go:3:8", "b.go:20:5"]);
        variable.verdict = Verdict::Moved;
        let allocations = [
            object(1, &[place("p.F", "b.go:20")], "int"),
            object(2, &[place("p.F", "b.go:21")], "int"),
            object(3, &[place("p.X", "c.go:9"), place("p.F", "b.go:20")], "int"),
        ];
        assert_eq!(found(vec![variable], &allocations), [one(3, 8, "n"), None, None]);
        // The function that it is in is inside of another one itself.
        let within = escapes(Kind::Variable, "m", &["a.go:3:8", "c.go:9:1", "b.go:20:5"]);
        let (here, elsewhere) = (place("p.X", "c.go:9"), place("p.X", "c.go:8"));
        let outer = place("p.F", "b.go:20");
        let chains = [vec![here, outer.clone()], vec![elsewhere, outer.clone()], vec![outer]];
        let allocations: Vec<_> = (0..).zip(&chains).map(|(at, chain)| object(at, chain, "int")).collect();
        assert_eq!(found(vec![within], &allocations), [one(3, 8, "m"), None, None]);
    }

    #[test]
    fn slices_that_inlined_functions_return_are_filled_by_their_callers() {
        let list = vec![escapes(Kind::SliceLiteral, "[]string{...}", &["a.go:3:9", "b.go:20:5"])];
        let filled = object(1, &[place("p.F", "b.go:20")], "[4]string");
        assert_eq!(found(list.clone(), &[filled]), [one(3, 9, "[]string{...}")]);
        assert_eq!(found(list, &[object(1, &[place("p.F", "b.go:21")], "[4]string")]), [None]);
    }

    #[test]
    fn where_only_the_outermost_line_is_known_that_is_enough() {
        let mut unplaced = escapes(Kind::Composite, "&T{...}", &["b.go:20:5"]);
        let inlined = object(1, &[place("p.New", "a.go:3"), place("p.F", "b.go:20")], "p.T");
        assert_eq!(found(vec![unplaced.clone()], std::slice::from_ref(&inlined)), [None]);
        unplaced.placed = false;
        assert_eq!(found(vec![unplaced], &[inlined]), [one(20, 5, "&T{...}")]);
    }

    #[test]
    fn instances_of_a_generic_function_are_one() {
        let line = [place("p.Make[...]", "a.go:5")];
        let instance = || escapes(Kind::Make, "make([]go.shape.int, n)", &["a.go:5:9"]);
        let makes = allocation(1, &line, Some(call("runtime.makeslice", Some("int"))));
        assert_eq!(found(vec![instance(), instance()], &[makes]), [one(5, 9, "make([]go.shape.int, n)")]);
    }

    #[test]
    fn two_instances_of_a_generic_function_are_two() {
        let line = [place("p.Map[...]", "a.go:5")];
        let instance = |function: Option<&str>, what: &str| Diagnostic {
            function: function.map(str::to_owned),
            ..escapes(Kind::Make, what, &["a.go:5:9"])
        };
        let (numbers, pointers) = ("make([]go.shape.int, n)", "make([]go.shape.*uint8, n)");
        let names = [Some("Map[go.shape.int]"), Some("Map[go.shape.*uint8]")];
        let makes = |address, types: &str| Allocation {
            symbol: Some(format!("example.com/p.Map[{types}]")),
            ..allocation(address, &line, Some(call("runtime.makeslice", None)))
        };
        // The order of their code is another one than that of what the compiler says.
        let both = [makes(100, "go.shape.*uint8"), makes(200, "go.shape.int")];
        let expected = [one(5, 9, pointers), one(5, 9, numbers)];
        for names in [names, [Some("Map"), Some("Map")], [None, None]] {
            let list = vec![instance(names[0], numbers), instance(names[1], pointers)];
            assert_eq!(found(list, &both), expected, "{names:?}");
        }
        // Where neither shows which is which, it is said.
        let list = vec![instance(None, "make([]T, n)"), instance(None, "make([]U, n)")];
        for found in found(list, &both) {
            assert_eq!(found.map(|(_, _, _, one_of)| one_of), Some(2));
        }
    }

    #[test]
    fn files_are_known_by_their_directory_and_name() {
        let of = |file: &str| {
            let here = Place { file: file.to_owned(), ..place("p.F", "a.go:5") };
            found(vec![escapes(Kind::New, "new(T)", &["a.go:5:9"])], &[object(1, &[here], "p.T")]).remove(0).is_some()
        };
        assert!(of("/home/p/a.go") && of("example.com/p/a.go"), "-trimpath leaves the package's name");
        assert!(!of("/home/q/a.go") && !of("/home/p/b.go"));
        // The outermost line is looked up, the others are compared: what cgo rewrote has no directory.
        let cgo = Position { file: "a.cgo1.go".to_owned(), ..position("a.go:3:1") };
        assert!(same(&cgo, &place("p.F", "a.go:3")));
        assert!(!same(&cgo, &place("p.F", "b.go:3")) && !same(&cgo, &place("p.F", "a.go:4")));
    }
}
