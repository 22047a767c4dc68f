//! Joins what a program allocated with what its compiler said.
//!
//! A place is the whole chain of inlined functions down to one machine instruction, not a file and a line: so several
//! allocations on one line are kept apart, and one function that was inlined in many places.

mod allocation;
mod callers;
mod either;
mod explanation;
mod find;
mod fit;
#[cfg(test)]
mod fixture;
mod instance;
mod order;
mod room;
mod runtime;
mod saved;
mod seen;
mod sites;
mod stacks;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::advice::Advice;
use crate::applies::Occasion;
use crate::model::{Diagnostic, Kind, Reason, Surroundings, Verdict};

use runtime::Family;

pub use allocation::{Allocation, AllocationLine, Appended, Call, Caller, Part, Type};
pub use explanation::{Explanation, ReasonSource};
pub use find::{Compiled, Found};
pub use room::{Map, Room};
pub use saved::SavedOperations;
pub use seen::Seen;
pub use sites::{Apart, Listed, OperationSums, Runs, allocations, each};

/// An allocation with its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explained {
    #[serde(flatten)]
    pub allocation: Allocation,
    #[serde(flatten)]
    pub explanation: Explanation,
}

pub fn explain(allocations: Vec<Allocation>, compiled: &Compiled) -> Vec<Explained> {
    let found = compiled.find(&allocations);
    let explained = |(mut allocation, found): (Allocation, Option<Found>)| {
        let (mut diagnostics, together) = found.map(|found| (found.diagnostics, found.together)).unwrap_or_default();
        if !together {
            let cause = allocation.call.as_ref().and_then(|call| runtime::explain(call, &allocation, None));
            diagnostics = of_each_expression(diagnostics, cause.is_some_and(|cause| cause.decides));
        }
        name_files(&mut allocation.chain, &diagnostics);
        let each = || diagnostics.iter().map(|diagnostic| explanation(&allocation, Some(diagnostic))).collect();
        let explanation = match diagnostics[..] {
            [] => explanation(&allocation, None),
            [diagnostic] => explanation(&allocation, Some(diagnostic)),
            _ if together => either::together(diagnostics.iter().map(|d| d.what.clone()).collect(), each()),
            _ => either::of(each()),
        };
        Explained { allocation, explanation }
    };
    allocations.into_iter().zip(found).map(explained).collect()
}

/// Names the files that `//line` directives name: the compiler knows the one of each line, a profile one of each
/// function.
fn name_files(chain: &mut [AllocationLine], diagnostics: &[&Diagnostic]) {
    let positions =
        |one: &Diagnostic| std::iter::once(&one.position).chain(&one.inlined_at).cloned().collect::<Vec<_>>();
    let Some((first, others)) = diagnostics.split_first() else { return };
    let named = positions(first);
    let agree =
        others.iter().all(|other| positions(other).iter().map(|at| &at.file).eq(named.iter().map(|at| &at.file)));
    if named.len() != chain.len() || !agree {
        return;
    }
    for (place, position) in chain.iter_mut().zip(named).filter(|(_, position)| position.column == 0) {
        place.file = position.file;
    }
}

/// One of the diagnostics of each expression of the source. Where one is inlined into another package, the compiler
/// qualifies its names: `append(*btree.s, btree.zero)` there is `append(*s, zero)` here. Reasons have names, too; where
/// the runtime's `decides`, they are not looked at.
fn of_each_expression(diagnostics: Vec<&Diagnostic>, decides: bool) -> Vec<&Diagnostic> {
    let mut each: Vec<&Diagnostic> = Vec::new();
    for diagnostic in diagnostics {
        let is_same = |other: &&mut &Diagnostic| {
            diagnostic.position.column > 0
                && (other.kind, &other.position) == (diagnostic.kind, &diagnostic.position)
                && (decides || other.reason == diagnostic.reason)
        };
        match each.iter_mut().find(is_same) {
            Some(other) if diagnostic.what.len() < other.what.len() => *other = diagnostic,
            Some(_) => {}
            None => each.push(diagnostic),
        }
    }
    each
}

/// Adds up what is the same allocation of the source: compilers make several of one. Operations come first, what no
/// figure has comes last; of each the most first.
pub fn merge(explained: Vec<Explained>) -> Vec<Explained> {
    let mut merged: Vec<Explained> = Vec::new();
    let mut known: FxHashMap<_, usize> = FxHashMap::default();
    for line in explained {
        let column = line.explanation.diagnostic.as_ref().map(|d| (d.position.column, d.position.line));
        let Allocation { chain, call, part, .. } = &line.allocation;
        let call = call.as_ref().map(|call| (call.callee.clone(), call.of.clone()));
        let what = (line.explanation.what.clone(), line.allocation.room);
        let key = (chain.clone(), call, *part, what, column);
        let Some(&at) = known.get(&key) else {
            known.insert(key, merged.len());
            merged.push(line);
            continue;
        };
        // What only one of the places can follow is no advice on both.
        let remedy = &mut merged[at].explanation.remedy;
        *remedy = remedy.take().filter(|remedy| line.explanation.remedy.as_ref() == Some(remedy));
        let sum = &mut merged[at].allocation;
        if sum.symbol != line.allocation.symbol {
            sum.symbol = None;
        }
        sum.allocations += line.allocation.allocations;
        sum.bytes += line.allocation.bytes;
        sum.small += line.allocation.small;
        sum.shared += line.allocation.shared;
        for caller in line.allocation.callers {
            match sum.callers.iter_mut().find(|known| known.place == caller.place) {
                Some(known) => {
                    known.allocations += caller.allocations;
                    known.callees.extend(caller.callees);
                }
                None => sum.callers.push(caller),
            }
        }
    }
    merged.sort_by(|a, b| {
        let (a, b) = (&a.allocation, &b.allocation);
        let most = b.allocations.total_cmp(&a.allocations).then(b.bytes.total_cmp(&a.bytes));
        a.part.cmp(&b.part).then(most)
    });
    merged
}

fn explanation(allocation: &Allocation, diagnostic: Option<&Diagnostic>) -> Explanation {
    let cause = allocation.call.as_ref().and_then(|call| runtime::explain(call, allocation, diagnostic));
    let boxes = allocation.call.as_ref().is_some_and(|call| Family::of(&call.callee) == Some(Family::Box));
    let kind = match diagnostic {
        _ if boxes => Kind::Boxed,
        // The compiler prints `x.Method` alone: the code shows that it is no value in an interface.
        Some(_) if allocation.call.as_ref().is_some_and(runtime::is_method_value) => Kind::MethodValue,
        Some(diagnostic) => diagnostic.kind,
        None => Kind::Other,
    };
    let maps = |call: &Call| Family::of(&call.callee) == Some(Family::MapGrowth);
    let what = match (diagnostic, &cause) {
        // What is put into a map is not its literal.
        (_, Some(cause)) if allocation.call.as_ref().is_some_and(maps) => cause.what.clone(),
        (Some(diagnostic), _) => runtime::named(diagnostic, kind, allocation.call.as_ref()),
        (None, Some(cause)) => cause.what.clone(),
        (None, None) => "not known".to_owned(),
    };
    let call = allocation.call.as_ref();
    let surroundings = diagnostic.map(|diagnostic| diagnostic.surroundings).unwrap_or_default();
    let remedy = |advice: Option<Advice>, reason: &Reason| {
        let occasion = Occasion {
            kind,
            what: diagnostic.map_or("", |diagnostic| diagnostic.what.as_str()),
            reason,
            of: call.and_then(|call| call.of.as_ref()),
            allocator: call.map(|call| call.callee.as_str()),
            function: allocation.chain.first().map(|place| place.function.as_str()),
            surroundings: Surroundings {
                fixed_signature: allocation.called_back || surroundings.fixed_signature,
                ..surroundings
            },
        };
        let saves = advice != Some(Advice::KeptSlice) || allocation.appended == Appended::Grows;
        // Code of the runtime is what it is, wherever it is inlined.
        let is_programs = diagnostic.is_none_or(|diagnostic| !fit::is_of_runtime(&diagnostic.position));
        let possible = advice.filter(|_| saves && is_programs).and_then(|advice| occasion.fitted(advice));
        callers::advice(allocation, possible).map(|advice| advice.text().to_owned())
    };
    let escapes = diagnostic.filter(|d| d.verdict != Verdict::DoesNotEscape && d.reason != Reason::Unknown);
    let kept = diagnostic.map(|diagnostic| {
        let decided = decided(diagnostic, allocation);
        // Its path begins with no conversion to an interface.
        if kind == Kind::MethodValue { Diagnostic { kind, ..decided } } else { decided }
    });
    let escapes = escapes.and(kept.as_ref());
    let steps = kept.as_ref().map(Diagnostic::chain).unwrap_or_default();
    match (escapes, cause) {
        // Where the runtime's own reason is the true one whatever escapes: a slice or a map that grows.
        (_, Some(cause)) if cause.decides || escapes.is_none() => Explanation {
            what,
            source: if cause.reason.is_empty() { ReasonSource::None } else { ReasonSource::Runtime },
            reason: cause.reason,
            steps,
            remedy: remedy(cause.remedy, &Reason::Unknown),
            one_of: 1,
            diagnostic: kept,
        },
        (Some(diagnostic), _) => Explanation {
            what,
            reason: diagnostic.reason.words(),
            source: ReasonSource::Compiler,
            steps,
            remedy: remedy(Advice::of(kind, &diagnostic.reason), &diagnostic.reason),
            one_of: 1,
            diagnostic: kept,
        },
        (None, _) => Explanation {
            what,
            reason: String::new(),
            source: ReasonSource::None,
            steps,
            remedy: None,
            one_of: 1,
            diagnostic: kept,
        },
    }
}

/// A closure of `go`, or of a `defer` in a loop, goes to the function that the code calls next.
fn decided(diagnostic: &Diagnostic, allocation: &Allocation) -> Diagnostic {
    let mut decided = diagnostic.clone();
    if decided.reason != Reason::GoOrDefer {
        return decided;
    }
    let next = allocation.call.as_ref().and_then(|call| call.next.as_deref()).unwrap_or_default();
    let (how, reason) = match next {
        "runtime.newproc" => ("go", Reason::Goroutine),
        _ if next.starts_with("runtime.deferproc") => ("defer", Reason::Deferred),
        _ => return decided,
    };
    if let Some(last) = decided.flow.last_mut() {
        last.how = how.to_owned();
    }
    decided.reason = reason;
    decided
}

#[cfg(test)]
mod tests {
    use super::fixture::{allocation, call, escapes, place, stays};
    use super::*;
    use crate::model::{Kind, Reason};

    fn explained(callee: &str, of: Option<&str>, list: Vec<Diagnostic>) -> Explanation {
        let here = allocation(1, &[place("p.F", "a.go:5")], Some(call(callee, of)));
        explain(vec![here], &Compiled::new(list)).remove(0).explanation
    }

    #[test]
    fn the_compiler_says_why_where_it_put_it_into_the_heap() {
        let actual = explained("runtime.newobject", Some("p.T"), vec![escapes(Kind::New, "new(T)", &["a.go:5:9"])]);
        assert_eq!((actual.source, actual.what.as_str()), (ReasonSource::Compiler, "new(T)"));
        assert_eq!((actual.reason, actual.remedy.is_some()), (Reason::Returned.words(), true));
    }

    #[test]
    fn the_runtime_says_why_where_the_compiler_left_it_on_the_stack_or_is_silent() {
        let make = "make([]int, n)";
        let actual = explained("runtime.makeslice", Some("int"), vec![stays(Kind::Make, make, &["a.go:5:9"])]);
        assert_eq!((actual.source, actual.what.as_str()), (ReasonSource::Runtime, make));
        assert_eq!(actual.reason, "it does not escape, but its size is known at run time only");
        let actual = explained("runtime.makeslice", Some("int"), Vec::new());
        assert_eq!((actual.source, actual.what.as_str()), (ReasonSource::Runtime, "make([]int, n)"));
        assert_eq!(actual.reason, "its size is known at run time only");
        let two = Call { elements: Some(2), ..call("runtime.makeslice", Some("int")) };
        let here = allocation(1, &[place("p.F", "a.go:5")], Some(two));
        let actual = explain(vec![here], &Compiled::new(Vec::new())).remove(0).explanation;
        let of_constant = (actual.source, actual.what.as_str(), actual.reason.as_str(), actual.remedy);
        assert_eq!(of_constant, (ReasonSource::None, "make([]int, 2)", "", None));
    }

    #[test]
    fn what_grows_grows_whether_it_escapes_or_not() {
        for list in [vec![escapes(Kind::Append, "append(x, y)", &["a.go:5:9"])], Vec::new()] {
            let actual = explained("runtime.growslice", Some("int"), list);
            assert_eq!(
                (actual.source, actual.reason.as_str()),
                (ReasonSource::Runtime, "the slice grows beyond its capacity")
            );
        }
        let of_map = |room| {
            let call = call("runtime.mapassign_faststr", Some("map[string]int"));
            let here = allocation(1, &[place("p.F", "a.go:5")], Some(call));
            explain(vec![Allocation { room, ..here }], &Compiled::new(Vec::new())).remove(0).explanation
        };
        let growth = of_map(Room { growth: true, ..Room::default() });
        assert_eq!((growth.what.as_str(), growth.source), ("growth of a map[string]int", ReasonSource::Runtime));
        // It may be a map that is made once and keeps what it has: cleared, it loses that.
        assert_eq!(growth.remedy.as_deref(), Some(Advice::SizedMap.text()));
        let call = call("runtime.mapassign_faststr", Some("map[string]int"));
        let here = allocation(1, &[place("p.F", "a.go:5")], Some(call));
        let own = Allocation { room: Room { growth: true, ..Room::default() }, in_own_map: true, ..here };
        let growth = explain(vec![own], &Compiled::new(Vec::new())).remove(0).explanation;
        assert_eq!(growth.remedy.as_deref(), Some(Advice::KeptMap.text()));
        for (room, what) in [
            (Room { slots: true, ..Room::default() }, "slots of a map[string]int"),
            (Room { value: true, ..Room::default() }, "a value of a map[string]int"),
            (Room::default(), "room in a map[string]int"),
        ] {
            let explained = of_map(room);
            assert_eq!((explained.what.as_str(), explained.remedy), (what, None));
        }
    }

    /// A library's caller, net/http of a handler, passes in what the function's type says.
    #[test]
    fn who_is_called_back_gets_no_parameter() {
        let passed = Reason::PassedToUnknown { callee: "w.Write".to_owned() };
        let make = || Diagnostic { reason: passed.clone(), ..escapes(Kind::Make, "make([]byte, 50)", &["a.go:5:9"]) };
        for (called_back, expected) in [(false, Advice::CallersBuffer), (true, Advice::Kept)] {
            let here = allocation(1, &[place("p.F", "a.go:5")], Some(call("runtime.mallocgc", None)));
            let explained = explain(vec![Allocation { called_back, ..here }], &Compiled::new(vec![make()])).remove(0);
            assert_eq!(explained.explanation.remedy.as_deref(), Some(expected.text()));
        }
    }

    #[test]
    fn a_copy_and_a_queue_save_nothing_by_a_capacity() {
        let list = || vec![escapes(Kind::Append, "append(x, y)", &["a.go:5:9"])];
        let appended = |appended| {
            let here = allocation(1, &[place("p.F", "a.go:5")], Some(call("runtime.growslice", Some("int"))));
            let explained =
                explain(vec![Allocation { appended, ..here }], &Compiled::new(list())).remove(0).explanation;
            (explained.reason, explained.remedy.as_deref() == Some(Advice::KeptSlice.text()))
        };
        assert_eq!(appended(Appended::Grows), ("the slice grows beyond its capacity".to_owned(), true));
        for (kind, words) in [
            (Appended::Copies, "a copy: append is given a slice without room, and makes one block for all"),
            (Appended::Queue, "the slice grows beyond its capacity; each cut of its front takes capacity away"),
            (Appended::Unclear, "append needs more room than its slice has"),
        ] {
            assert_eq!(appended(kind), (words.to_owned(), false));
        }
    }

    #[test]
    fn what_packages_ask_the_runtime_for_needs_no_compiler() {
        for callee in ["runtime.newarray", "runtime.mapiterinit", "runtime.Caller", "runtime.(*Frames).Next"] {
            let actual = explained(callee, None, Vec::new());
            assert!(actual.source == ReasonSource::Runtime && actual.what.contains(callee), "{actual:?}");
        }
    }

    #[test]
    fn what_is_boxed_is_said_to_be_in_an_interface() {
        // The compiler calls it a concatenation, the runtime is called to put it into an interface.
        let actual = explained("runtime.convT64", None, vec![escapes(Kind::Concatenation, "n + 1", &["a.go:5:9"])]);
        assert_eq!(actual.what, "n + 1 in an interface");
    }

    #[test]
    fn where_nobody_says_why_nothing_is_said() {
        let silent = Diagnostic { reason: Reason::Unknown, ..escapes(Kind::New, "new(T)", &["a.go:5:9"]) };
        for (callee, list) in [
            ("runtime.newobject", Vec::new()),
            ("runtime.newobject", vec![silent]),
            ("p.assembly", vec![escapes(Kind::New, "new(T)", &["a.go:5:9"])]),
            ("runtime.newobject", vec![stays(Kind::New, "new(T)", &["a.go:5:9"])]),
        ] {
            let actual = explained(callee, None, list);
            assert_eq!(
                (actual.source, actual.reason.as_str(), actual.remedy),
                (ReasonSource::None, "", None),
                "{callee}"
            );
        }
    }

    #[test]
    fn the_code_decides_between_go_and_defer_where_no_source_is() {
        for (next, expected) in [
            (Some("runtime.newproc"), "starts a goroutine"),
            (Some("runtime.deferprocat"), "deferred in a loop"),
            (Some("runtime.newobject"), "started by go, or deferred in a loop"),
            (None, "started by go, or deferred in a loop"),
        ] {
            let either =
                Diagnostic { reason: Reason::GoOrDefer, ..escapes(Kind::Closure, "func literal", &["a.go:5:9"]) };
            let of = call("runtime.newobject", Some("struct { F uintptr }"));
            let call = Call { next: next.map(str::to_owned), ..of };
            let here = allocation(1, &[place("p.F", "a.go:5")], Some(call));
            let explained = explain(vec![here], &Compiled::new(vec![either])).remove(0).explanation;
            assert_eq!(explained.reason, expected, "{next:?}");
        }
    }

    /// Compiled in its own package and, inlined, in another one.
    #[test]
    fn one_expression_of_two_packages_is_one() {
        let of = |what, place: &str| {
            let reason = Reason::Stored { place: place.to_owned() };
            Diagnostic { reason, ..escapes(Kind::Append, what, &["a.go:5:9"]) }
        };
        let list = Compiled::new(vec![of("append(*lib.s, lib.zero)", "*lib.s"), of("append(*s, zero)", "*s")]);
        let here = allocation(1, &[place("lib.F", "a.go:5")], Some(call("runtime.growslice", None)));
        let explained = explain(vec![here], &list).remove(0).explanation;
        assert_eq!((explained.what.as_str(), explained.one_of), ("append(*s, zero)", 1));
    }

    #[test]
    fn code_of_a_library_is_not_advised_on() {
        for (function, expected) in [
            ("lib.F", None),
            ("fmt.Sprint", Some(Advice::FormatText.text())),
            ("fmt.Fprint", Some(Advice::Format.text())),
        ] {
            let mut here = allocation(1, &[place(function, "a.go:5")], Some(call("runtime.newobject", Some("p.T"))));
            let list = || Compiled::new(vec![escapes(Kind::New, "new(T)", &["a.go:5:9"])]);
            let own = explain(vec![here.clone()], &list()).remove(0).explanation;
            assert_eq!(own.remedy.as_deref(), Some(Advice::ByValue.text()));
            let callees = vec![function.to_owned()];
            here.callers = vec![Caller { place: place("own.G", "b.go:1"), allocations: 1.0, callees }];
            let explained = explain(vec![here], &list()).remove(0).explanation;
            assert_eq!((explained.remedy.as_deref(), explained.reason.as_str()), (expected, "returned"), "{function}");
        }
    }

    /// `r.WithContext(ctx)` is inlined, and makes a request: what it returns is not the caller's to change.
    #[test]
    fn code_of_a_library_that_is_inlined_is_not_advised_on() {
        let chain = [place("net/http.(*Request).WithContext", "request.go:350"), place("own.G", "b.go:9")];
        let list = || Compiled::new(vec![escapes(Kind::New, "new(http.Request)", &["request.go:350:9", "b.go:9:3"])]);
        for (of_library, expected) in [(false, Some(Advice::ByValue.text())), (true, None)] {
            let here = allocation(1, &chain, Some(call("runtime.newobject", Some("http.Request"))));
            let here = Allocation { of_library, ..here };
            let explained = explain(vec![here], &list()).remove(0).explanation;
            assert_eq!((explained.remedy.as_deref(), explained.reason.as_str()), (expected, "returned"));
        }
    }

    /// One function of a library serves several of it: the one that the program's own line calls decides.
    #[test]
    fn a_line_is_advised_on_what_it_calls_itself() {
        let advised = |inner: &str, calls: &[&[&str]]| {
            let mut here = allocation(1, &[place(inner, "a.go:5")], Some(call("runtime.growslice", Some("uint8"))));
            let caller = |(line, callees): (usize, &&[&str])| Caller {
                place: place("own.G", &format!("b.go:{line}")),
                allocations: 1.0,
                callees: callees.iter().map(|&name| name.to_owned()).collect(),
            };
            here.callers = calls.iter().enumerate().map(caller).collect();
            explain(vec![here], &Compiled::new(Vec::new())).remove(0).explanation.remedy
        };
        let print = "fmt.(*buffer).writeString";
        assert_eq!(advised(print, &[&["fmt.Sprintf"]]).as_deref(), Some(Advice::FormatText.text()));
        assert_eq!(advised(print, &[&["fmt.Sprintf", "fmt.Fprint"]]).as_deref(), Some(Advice::Format.text()));
        for calls in [&[&["fmt.Errorf"][..]][..], &[&["log.Printf"]], &[&["fmt.Errorf", "fmt.Sprint"]]] {
            assert_eq!(advised(print, calls), None, "{calls:?}");
        }
        assert_eq!(advised(print, &[&["fmt.Sprint"], &["fmt.Errorf"]]), None, "of two lines one cannot");
        for inner in [print, "reflect.New", "time.NewTimer"] {
            for calls in [&[&[][..]][..], &[&["fmt.Sprint"], &[]]] {
                assert_eq!(advised(inner, calls), None, "{inner}: what {calls:?} call is not known");
            }
        }
        assert_eq!(advised("time.NewTimer", &[&["time.After"]]).as_deref(), Some(Advice::KeptTimer.text()));
        assert_eq!(advised("time.NewTimer", &[&["net/http.(*Client).Do"]]), None);
        assert_eq!(advised("reflect.New", &[&["json.Unmarshal"]]).as_deref(), Some(Advice::NoReflection.text()));
    }

    #[test]
    fn the_same_allocation_of_the_source_is_one_line() {
        let explained = |address, line: &str, callee: &str, column: &str| {
            let mut here = allocation(address, &[place("p.F", line)], Some(call(callee, Some("p.T"))));
            let caller = |at: &str| Caller { place: place("own.G", at), allocations: 1.0, callees: Vec::new() };
            here.callers = vec![caller("b.go:1"), caller(if address == 1 { "b.go:2" } else { "b.go:3" })];
            let list = vec![escapes(Kind::New, "new(T)", &[&format!("{line}:{column}")])];
            explain(vec![here], &Compiled::new(list)).remove(0)
        };
        let one = || explained(1, "a.go:5", "runtime.newobject", "9");
        let merged = merge(vec![one(), explained(2, "a.go:5", "runtime.newobject", "9")]);
        let [sum] = &merged[..] else { panic!("{merged:?}") };
        assert_eq!((sum.allocation.allocations, sum.allocation.bytes), (2.0, 16.0));
        let callers = sum.allocation.callers.iter().map(|caller| (caller.place.line, caller.allocations));
        assert_eq!(callers.collect::<Vec<_>>(), [(1, 2.0), (2, 1.0), (3, 1.0)]);
        for other in [
            explained(2, "a.go:6", "runtime.newobject", "9"),
            explained(2, "a.go:5", "runtime.newarray", "9"),
            explained(2, "a.go:5", "runtime.newobject", "20"),
        ] {
            assert_eq!(merge(vec![one(), other]).len(), 2);
        }
        let mut setup = one();
        setup.allocation.part = Part::Once;
        setup.allocation.allocations = 5.0;
        let merged = merge(vec![setup, one()]);
        assert!(merged.len() == 2 && merged[0].allocation.part.is_operation(), "operations come first");
    }
}
