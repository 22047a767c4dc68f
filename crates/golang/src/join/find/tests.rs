//! Which diagnostic is found for an allocation.

use super::*;
use crate::join::Call;
use crate::join::fit::same;
use crate::join::fixture::{allocation, call, escapes, place, position, stays};
use crate::model::{Kind, Position, Reason};

/// What each allocation was found to be: the place of the diagnostic, and among how many.
fn found(list: Vec<Diagnostic>, allocations: &[Allocation]) -> Vec<Option<(u32, u32, String, usize)>> {
    let compiled = Compiled::new(list);
    let key = |found: Found| {
        let Diagnostic { position, what, .. } = found.diagnostics[0];
        (position.line, position.column, what.clone(), found.diagnostics.len())
    };
    compiled.find(allocations).into_iter().map(|found| found.map(key)).collect()
}

fn one(line: u32, column: u32, what: &str) -> Option<(u32, u32, String, usize)> {
    Some((line, column, what.to_owned(), 1))
}

fn object(address: u64, chain: &[AllocationLine], of: &str) -> Allocation {
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
    let places = compiled.find(&allocations).into_iter().map(|found| found.map(|f| &f.diagnostics[0].inlined_at));
    let lines: Vec<Option<Vec<u32>>> = places.map(|at| Some(at?.iter().map(|at| at.line).collect())).collect();
    assert_eq!(lines, [Some(vec![20]), Some(vec![30]), Some(vec![]), Some(vec![7, 20]), None]);
}

/// `runtime.CallersFrames(pcs)`, whose `&Frames{...}` the line that calls it allocates.
#[test]
fn what_a_function_of_the_runtime_makes_where_it_is_inlined() {
    let mut inlined = escapes(Kind::Composite, "&runtime.Frames{...}", &["symtab.go:81:2", "a.go:10:29", "b.go:3:1"]);
    let line = [place("p.Cap", "a.go:10"), place("p.F", "b.go:3")];
    let object = || object(1, &line, "runtime.Frames");
    assert_eq!(found(vec![inlined.clone()], &[object()]), [None], "a function of somebody else has a line of its own");
    inlined.position.file = "/usr/lib/go/src/runtime/symtab.go".to_owned();
    assert_eq!(found(vec![inlined], &[object()]), [one(81, 2, "&runtime.Frames{...}")]);
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
    assert_eq!(found(list(), &[value]), [None], "no array is the slice of arguments, and no call makes a block for i");
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
    assert_eq!(columns(found(list(), &allocations[..2])), [(9, 3), (9, 3)]);
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
    let list =
        vec![stays(Kind::Make, "make([]int, n)", &["a.go:5:3"]), escapes(Kind::Make, "make([]int, m)", &["a.go:5:30"])];
    let makes = allocation(1, &line, Some(call("runtime.makeslice", Some("int"))));
    assert_eq!(found(list, &[makes]), [one(5, 30, "make([]int, m)")]);
}

#[test]
fn two_places_of_a_line_are_not_one_expression() {
    let line = [place("p.F", "a.go:5")];
    let list = || {
        vec![stays(Kind::Make, "make([]int, n)", &["a.go:5:3"]), escapes(Kind::Make, "make([]int, m)", &["a.go:5:30"])]
    };
    let makes = |address| allocation(address, &line, Some(call("runtime.makeslice", Some("int"))));
    assert_eq!(found(list(), &[makes(2), makes(1)]), [one(5, 30, "make([]int, m)"), one(5, 3, "make([]int, n)")]);
    // Three places, two expressions: nobody knows.
    let Some((5, 3, what, 2)) = found(list(), &[makes(1), makes(2), makes(3)]).remove(0) else { panic!("one") };
    assert_eq!(what, "make([]int, n)");
}

/// `&Session{Data: make([]byte, len(b)), Tags: map[string]string{}}`.
#[test]
fn what_the_runtime_makes_decides_what_an_expression_may_be() {
    let line = [place("p.F", "a.go:5")];
    let list = || {
        vec![
            escapes(Kind::Make, "make([]byte, len(b))", &["a.go:5:40"]),
            escapes(Kind::Make, "make(Header)", &["a.go:5:60"]),
            escapes(Kind::MakeChan, "make(chan int)", &["a.go:5:70"]),
            escapes(Kind::MapLiteral, "map[string]string{}", &["a.go:5:80"]),
        ]
    };
    let row = |address, callee, of| allocation(address, &line, Some(call(callee, of)));
    let whats = |rows: &[Allocation]| -> Vec<Vec<String>> {
        let compiled = Compiled::new(list());
        let of = |found: Option<Found>| found.expect("one").diagnostics.iter().map(|d| d.what.clone()).collect();
        compiled.find(rows).into_iter().map(of).collect()
    };
    // The type of the program's own may be a map as well.
    assert_eq!(whats(&[row(1, "runtime.makemap_small", None)]), [["make(Header)", "map[string]string{}"]]);
    assert_eq!(whats(&[row(1, "runtime.makechan", None)]), [["make(chan int)"]]);
    let all = [
        row(1, "runtime.makeslice", Some("uint8")),
        row(2, "runtime.makemap_small", None),
        row(3, "runtime.makechan", None),
        row(4, "runtime.makemap_small", None),
    ];
    let expected = [["make([]byte, len(b))"], ["make(Header)"], ["make(chan int)"], ["map[string]string{}"]];
    assert_eq!(whats(&all), expected);
}

#[test]
fn sizes_and_elements_tell_two_of_one_line_apart() {
    let line = [place("p.F", "a.go:5")];
    let sized = |bytes, callee, of| Allocation { bytes, ..allocation(1, &line, Some(call(callee, of))) };
    // Values of 8 bytes each.
    let list = || {
        vec![
            escapes(Kind::Make, "make([]T, 100)", &["a.go:5:3"]),
            escapes(Kind::Make, "make([]T, 0, 1000)", &["a.go:5:30"]),
        ]
    };
    for (bytes, expected) in [(896.0, one(5, 3, "make([]T, 100)")), (8192.0, one(5, 30, "make([]T, 0, 1000)"))] {
        assert_eq!(found(list(), &[sized(bytes, "runtime.makeslice", Some("p.T"))]), [expected]);
    }
    let list = || {
        vec![
            escapes(Kind::Append, "append(ks, k)", &["a.go:5:3"]),
            escapes(Kind::Append, "append([]string(nil), ks...)", &["a.go:5:30"]),
        ]
    };
    let grows = |of| found(list(), &[sized(80.0, "runtime.growslice", Some(of))]);
    assert_eq!(grows("int"), [one(5, 3, "append(ks, k)")]);
    let Some((5, 3, _, 2)) = grows("string").remove(0) else { panic!("both") };
}

#[test]
fn arrays_below_slices_tell_two_of_one_line_apart() {
    let line = [place("p.F", "a.go:5")];
    let list = || {
        vec![
            escapes(Kind::Make, "make([]int, 4)", &["a.go:5:3"]),
            escapes(Kind::Make, "make([]int, 0, 8)", &["a.go:5:30"]),
            escapes(Kind::MapLiteral, "map[int]int{}", &["a.go:5:50"]),
            escapes(Kind::NewValue, "new(t)", &["a.go:5:60"]),
        ]
    };
    let whats = |of| -> Vec<String> {
        let compiled = Compiled::new(list());
        let found = compiled.find(&[object(1, &line, of)]).remove(0).expect("one");
        found.diagnostics.iter().map(|diagnostic| diagnostic.what.clone()).collect()
    };
    // The type of what `new` is given is not known: it may be an array, too.
    assert_eq!(whats("[8]int"), ["make([]int, 0, 8)", "new(t)"]);
    assert_eq!(whats("p.T"), ["new(t)"]);
    assert_eq!(whats("internal/runtime/maps.Map"), ["map[int]int{}", "new(t)"]);
}

/// `var b Buffer; print(&b, k, m[k])`, and `m[k]` is a small number, which needs no block.
#[test]
fn calls_that_allocate_nothing_take_their_expressions() {
    let line = [place("p.F", "a.go:5")];
    let list = || {
        vec![
            Diagnostic { verdict: Verdict::Moved, ..escapes(Kind::Variable, "b", &["a.go:5:3"]) },
            escapes(Kind::Boxed, "k", &["a.go:5:30"]),
            escapes(Kind::Boxed, "ok", &["a.go:5:33"]),
            escapes(Kind::Boxed, "len(k)", &["a.go:5:37"]),
            escapes(Kind::Boxed, "m[k]", &["a.go:5:45"]),
        ]
    };
    let calls = [
        (10..15, call("runtime.newobject", Some("q.Buffer"))),
        (20..25, call("runtime.convTstring", None)),
        (30..35, call("runtime.convT64", None)),
        (40..45, call("runtime.convT64", None)),
    ];
    let row = |at: usize| Allocation {
        calls_of_line: calls.to_vec(),
        ..allocation(calls[at].0.start + 4, &line, Some(calls[at].1.clone()))
    };
    // Three calls for four values: nothing shows which of them needs none, but a number is no string.
    let whats = |rows: &[Allocation]| -> Vec<Vec<String>> {
        let compiled = Compiled::new(list());
        let of = |found: Option<Found>| found.expect("one").diagnostics.iter().map(|d| d.what.clone()).collect();
        compiled.find(rows).into_iter().map(of).collect()
    };
    assert_eq!(whats(&[row(0), row(1)]), [vec!["b"], vec!["k", "ok"]]);
    assert_eq!(whats(&[row(3), row(0)]), [vec!["len(k)", "m[k]"], vec!["b"]]);
    let three = || list().into_iter().filter(|one| one.what != "ok").collect::<Vec<_>>();
    assert_eq!(found(three(), &[row(0), row(1)]), [one(5, 3, "b"), one(5, 30, "k")]);
    assert_eq!(found(three(), &[row(2), row(1)]), [one(5, 37, "len(k)"), one(5, 30, "k")]);
}

/// `S = fmt.Sprintf("%d-%s", i+1000, "x")`: the number of 8 bytes is not the string of 16.
#[test]
fn a_number_is_no_string() {
    let line = [place("p.F", "a.go:5")];
    let (number, text) = ("i + 1000", "fmt.Sprintf(\"%d-%s\", ... argument...)");
    let list = || vec![escapes(Kind::Boxed, text, &["a.go:5:15"]), escapes(Kind::Boxed, number, &["a.go:5:28"])];
    let calls = [(20..25, call("runtime.convT64", None)), (30..35, call("runtime.convTstring", None))];
    let row = |at: usize| Allocation {
        calls_of_line: calls.to_vec(),
        ..allocation(calls[at].0.start + 4, &line, Some(calls[at].1.clone()))
    };
    assert_eq!(found(list(), &[row(0), row(1)]), [one(5, 28, number), one(5, 15, text)]);
    assert_eq!(found(list(), &[row(1), row(0)]), [one(5, 15, text), one(5, 28, number)]);
}

/// `x, y := a, b; return &x, &y`: Go gives small variables one block.
#[test]
fn small_variables_share_a_block() {
    let line = [place("p.F", "a.go:5")];
    let moved = |what: &str, at: &str| Diagnostic { verdict: Verdict::Moved, ..escapes(Kind::Variable, what, &[at]) };
    let list = || vec![moved("x", "a.go:5:3"), moved("y", "a.go:5:6"), escapes(Kind::Boxed, "x + y", &["a.go:5:9"])];
    let combined = Call { combined: true, ..call("runtime.mallocgc", None) };
    let block = allocation(1, &line, Some(combined));
    let together = |rows: &[Allocation]| {
        let compiled = Compiled::new(list());
        compiled.find(rows).remove(0).expect("one").together
    };
    assert!(together(std::slice::from_ref(&block)));
    let other = allocation(3, &line, Some(call("runtime.newobject", Some("int"))));
    assert!(!together(&[block, other]), "one of them may have a block of its own");
    assert!(!together(&[allocation(1, &line, Some(call("runtime.newobject", Some("int"))))]));
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
        let here = AllocationLine { file: file.to_owned(), ..place("p.F", "a.go:5") };
        found(vec![escapes(Kind::New, "new(T)", &["a.go:5:9"])], &[object(1, &[here], "p.T")]).remove(0).is_some()
    };
    assert!(of("/home/p/a.go") && of("example.com/p/a.go"), "-trimpath leaves the package's name");
    assert!(!of("/home/q/a.go") && !of("/home/p/b.go"));
    // The outermost line is looked up, the others are compared: what cgo rewrote has no directory.
    let cgo = Position { file: "a.cgo1.go".to_owned(), ..position("a.go:3:1") };
    assert!(same(&cgo, &place("p.F", "a.go:3")));
    assert!(!same(&cgo, &place("p.F", "b.go:3")) && !same(&cgo, &place("p.F", "a.go:4")));
}

/// Two slices of one type: what they save by sharing blocks is taken off both, and says nothing of their sizes.
#[test]
fn a_constant_length_is_found_by_the_code_or_by_whole_blocks() {
    let line = [place("p.F", "a.go:5")];
    let list = || vec![escapes(Kind::Make, "make([]int, 2)", &["a.go:5:9"])];
    let two = one(5, 9, "make([]int, 2)");
    for (elements, bytes, shared, expected) in [
        (Some(2), 12.0, 4.0, two.clone()),
        (Some(2), 12.0, 0.0, two.clone()),
        (Some(3), 16.0, 0.0, None),
        (None, 12.0, 4.0, two),
        (None, 40.0, 0.0, None),
    ] {
        let call = Call { elements, ..call("runtime.makeslice", Some("int")) };
        let here = Allocation { bytes, shared, ..allocation(1, &line, Some(call)) };
        assert_eq!(found(list(), &[here]), [expected], "{elements:?} {bytes} {shared}");
    }
}

/// A grammar's places have no columns: nothing shows in which order its expressions are.
#[test]
fn what_has_no_column_may_be_any_of_its_line() {
    let line = [place("p.F", "a.y:5")];
    let list = || {
        let stored = Reason::Stored { place: "last".to_owned() };
        let first = Diagnostic { reason: stored, ..escapes(Kind::Composite, "&Point{...}", &["a.y:5:0"]) };
        vec![first, escapes(Kind::Composite, "&Point{...}", &["a.y:5:0"]), escapes(Kind::New, "new(T)", &["a.y:5:0"])]
    };
    let points = [object(100, &line, "p.Point"), object(200, &line, "p.Point")];
    assert_eq!(
        found(list(), &points),
        [Some((5, 0, "&Point{...}".to_owned(), 2)), Some((5, 0, "&Point{...}".to_owned(), 2))]
    );
    assert_eq!(found(list(), &[object(300, &line, "p.T")]), [one(5, 0, "new(T)")]);
}

#[test]
fn a_file_without_a_directory_is_of_its_functions_package() {
    let list = || vec![escapes(Kind::New, "new(T)", &["a.y:5:0"])];
    let bare = |function: &str| {
        let place = AllocationLine { file: "a.y".to_owned(), ..place(function, "a.y:5") };
        object(1, &[place], "p.T")
    };
    assert_eq!(found(list(), &[bare("example.com/p.F")]), [one(5, 0, "new(T)")]);
    assert_eq!(found(list(), &[bare("example.com/q.F")]), [None]);
}

/// A profile has one file for each function, also where directives name several.
#[test]
fn a_line_of_another_file_of_the_function_is_found() {
    let list = || vec![escapes(Kind::New, "new(T)", &["a.y:5:0"])];
    assert_eq!(found(list(), &[object(1, &[place("p.F", "skeleton:5")], "p.T")]), [one(5, 0, "new(T)")]);
    for (function, at) in [("p.G", "skeleton:5"), ("p.F", "other/skeleton:5"), ("p.F", "skeleton:6")] {
        assert_eq!(found(list(), &[object(1, &[place(function, at)], "p.T")]), [None], "{function} {at}");
    }
    let columns = vec![escapes(Kind::New, "new(T)", &["a.go:5:9"])];
    assert_eq!(found(columns, &[object(1, &[place("p.F", "b.go:5")], "p.T")]), [None]);
}
