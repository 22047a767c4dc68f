//! What only the source decides: the compiler says the same of `go` and of a `defer` in a loop, and names variables of
//! its own.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::chain::{self, outermost};
use crate::model::{Assigned, Diagnostic, FlowStep, Kind, Position, Reason, Scope, Verdict};
use crate::names::written;
use crate::source::{GoSource, Statement};

/// Settles diagnostics by the sources of their files. `source` may have none of a file: then what is not known stays
/// so.
pub fn settle(list: &mut [Diagnostic], source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) {
    surround(list, source);
    for one in list.iter_mut().filter(|one| one.verdict != Verdict::DoesNotEscape) {
        match &one.reason {
            Reason::GoOrDefer => start(one, source),
            Reason::Outlived { variable, .. } if *variable == one.what => {
                let place = one.flow.last().and_then(chain::assigned).unwrap_or(variable).to_owned();
                one.reason = Reason::InItself { place };
            }
            Reason::Outlived { variable, .. }
                if !one.flow.last().is_some_and(|last| last.flow.starts_with("{temp}")) =>
            {
                if let Some(reason) = one.flow.last().and_then(|last| declared(one, last, variable, source)) {
                    one.reason = reason;
                }
            }
            Reason::Captured if captured_by_loop(one, source) => one.reason = Reason::CapturedByLoop,
            Reason::Captured => one.surroundings.assigned_by_literals = assigned_by_literals(one, source),
            Reason::Passed { callee, .. } if calls_variable(one, callee, source) => {
                one.reason = Reason::PassedToUnknown { callee: callee.clone() };
                if let Some(last) = one.flow.last_mut() {
                    last.unknown_callee = true;
                }
            }
            _ => {}
        }
        if one.kind == Kind::Closure && is_loop(&one.position, source) {
            one.kind = Kind::LoopBody;
        }
        if one.kind == Kind::Variable && chain::is_temporary(&one.what) {
            let at = (one.position.line, one.position.column);
            if let Some(new) = source(&one.position.file).and_then(|source| source.new_call(at)) {
                (one.what, one.kind) = (new, Kind::NewValue);
            }
        }
    }
}

/// Looks at what is around each allocation, in the sources of the package that the diagnostics name.
fn surround(list: &mut [Diagnostic], source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) {
    let files: BTreeSet<String> = list.iter().map(|one| one.position.file.clone()).collect();
    let (mut values, mut any, mut stored) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for source in files.iter().filter_map(|file| source(file)) {
        values.append(&mut source.values());
        any.append(&mut source.functions_of_any());
        stored.append(&mut source.stored_results());
    }
    let stored_inlined = stored_where_inlined(list);
    for one in list.iter_mut() {
        let around = &mut one.surroundings;
        around.in_interface = chain::has_interface(&one.flow);
        around.stored_by_callers = one.inlined_at.is_empty() && stored_inlined.contains(&one.position)
            || one.function.as_deref().is_some_and(|function| stored.contains(&called(function)));
        let Some(source) = source(&one.position.file) else { continue };
        let at = (one.position.line, one.position.column);
        around.fixed_signature = source.has_fixed_signature(at, &values);
        around.adds_in_loop = one.kind == Kind::Concatenation && source.adds_in_loop(at);
        around.passed_as_any = match &one.reason {
            Reason::Passed { callee, .. } => callee.rsplit('.').next().is_some_and(|name| any.contains(name)),
            _ => false,
        };
    }
}

/// Positions of what is returned, and stored by the code that the function is inlined in.
fn stored_where_inlined(list: &[Diagnostic]) -> BTreeSet<Position> {
    let stored = |one: &&Diagnostic| {
        let keeps = matches!(
            one.reason,
            Reason::Stored { .. } | Reason::Appended | Reason::Sent | Reason::InMap | Reason::PartOf { .. }
        );
        keeps && one.verdict != Verdict::DoesNotEscape && !one.inlined_at.is_empty()
    };
    list.iter().filter(stored).map(|one| one.position.clone()).collect()
}

/// The name by which a function is called, `.m` of `(*T).m`.
fn called(function: &str) -> String {
    let function = written(function);
    match function.rsplit_once('.') {
        Some((_, method)) => format!(".{method}"),
        None => function,
    }
}

fn is_loop(position: &Position, source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) -> bool {
    source(&position.file).is_some_and(|source| source.is_loop((position.line, position.column)))
}

/// Whether the body of a loop captures the variable: the compiler's own variables are those of loops, and of others the
/// place that refers to them is in no function literal of its own.
fn captured_by_loop(one: &Diagnostic, source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) -> bool {
    if chain::is_state(&one.what) {
        return true;
    }
    let Some(last) = one.flow.last().filter(|last| last.position.file == one.position.file) else { return false };
    let Some(source) = source(&one.position.file) else { return false };
    let used = source.innermost((last.position.line, last.position.column));
    used.is_some() && used == source.innermost((one.position.line, one.position.column))
}

fn assigned_by_literals(one: &Diagnostic, source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) -> Assigned {
    // Code of another package names its variables with the package.
    let name = one.what.rsplit('.').next().unwrap_or(&one.what);
    let at = (one.position.line, one.position.column);
    source(&one.position.file).map(|source| source.assigned_by_literals(at, name)).unwrap_or_default()
}

fn start(one: &mut Diagnostic, source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) {
    let at = (one.position.line, one.position.column);
    let statement = source(&one.position.file).and_then(|source| source.statement(at));
    let (how, reason) = match statement {
        Some(Statement::Go) => ("go", Reason::Goroutine),
        Some(Statement::Defer) => ("defer", Reason::Deferred),
        None => return,
    };
    if let Some(last) = one.flow.last_mut() {
        last.how = how.to_owned();
    }
    one.reason = reason;
}

/// Whether the callee of the last step is a variable of its function, which has any code.
fn calls_variable(one: &Diagnostic, callee: &str, source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>) -> bool {
    let Some(last) = one.flow.last().filter(|last| last.inlined_at.is_empty() && !callee.contains(['.', '['])) else {
        return false;
    };
    let Some(source) = source(&last.position.file) else { return false };
    let functions = source.functions_at((last.position.line, last.position.column));
    functions.iter().any(|function| source.has(function, callee))
}

/// The reason for a `variable` that outlives the allocation: [`Reason::Outlived`] with the scope that declares it, or
/// [`Reason::Returned`] for a result. None where the source does not decide.
fn declared(
    one: &Diagnostic,
    last: &FlowStep,
    variable: &str,
    source: &mut dyn FnMut(&str) -> Option<Rc<GoSource>>,
) -> Option<Reason> {
    // Code of another package names its variables with the package.
    let name = variable.rsplit('.').next().unwrap_or(variable);
    let assigned = outermost(&last.position, &last.inlined_at);
    let source = source(&assigned.file)?;
    let functions = source.functions_at((assigned.line, assigned.column));
    let (innermost, outer) = functions.split_first()?;
    let is_result = |function: &&&crate::source::Function| function.results.iter().any(|result| result == name);
    if let Some(at) = functions.iter().position(|function| is_result(&function)) {
        // A name that is declared once more may be another variable.
        return (!functions[..=at].iter().any(|function| source.declares(function, name))).then_some(Reason::Returned);
    }
    let at = outermost(&one.position, &one.inlined_at);
    let scope = if source.has(innermost, name) {
        if at.file != assigned.file || !source.in_loop((at.line, at.column)) {
            return None;
        }
        Scope::Loop
    } else if outer.iter().any(|function| source.has(function, name)) {
        Scope::Function
    } else {
        return None;
    };
    Some(Reason::Outlived { variable: variable.to_owned(), scope })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Advice;
    use crate::read::read;

    const SOURCE: &str = "\
package p

func F(xs []int) (out *T) {
	for range xs {
		defer func() { total++ }()
		go func() { total++ }()
	}
	out = new(T)
	var p *T
	for range xs {
		p = new(T)
	}
	m.ID = new(id)
	func() { p = new(T) }()
	f := func(p *T) {}
	f(&T{})
	n := 0
	for range all { n++ }
	func() { n++ }()
	return p
}
";

    /// What go1.26 says, shortened.
    const SAID: &str = "\
./a.go:5:9: func literal escapes to heap in F:
./a.go:5:9:   flow: {heap} ← &{storage for func literal}:
./a.go:5:9:     from func literal (spill) at ./a.go:5:9
./a.go:6:6: func literal escapes to heap in F:
./a.go:6:6:   flow: {heap} ← &{storage for func literal}:
./a.go:6:6:     from func literal (spill) at ./a.go:6:6
./a.go:8:11: new(T) escapes to heap in F:
./a.go:8:11:   flow: out ← &{storage for new(T)}:
./a.go:8:11:     from new(T) (spill) at ./a.go:8:11
./a.go:8:11:     from out = new(T) (assign) at ./a.go:8:6
./a.go:11:10: new(T) escapes to heap in F:
./a.go:11:10:   flow: p ← &{storage for new(T)}:
./a.go:11:10:     from new(T) (spill) at ./a.go:11:10
./a.go:11:10:     from p = new(T) (assign) at ./a.go:11:5
./a.go:13:12: .autotmp_3 escapes to heap in F:
./a.go:13:12:   flow: {heap} ← &.autotmp_3:
./a.go:13:12:     from &.autotmp_3 (address-of) at ./a.go:13:12
./a.go:13:12:     from m.ID = &.autotmp_3 (assign) at ./a.go:13:7
./a.go:14:18: new(T) escapes to heap in F:
./a.go:14:18:   flow: p ← &{storage for new(T)}:
./a.go:14:18:     from new(T) (spill) at ./a.go:14:18
./a.go:14:18:     from p = new(T) (assign) at ./a.go:14:13
./a.go:16:4: &T{} escapes to heap in F:
./a.go:16:4:   flow: {heap} ← &{storage for &T{}}:
./a.go:16:4:     from &T{} (spill) at ./a.go:16:4
./a.go:16:4:     from f(&T{}) (call parameter) at ./a.go:16:3
./a.go:17:2: n escapes to heap in F:
./a.go:17:2:   flow: {storage for func literal} ← &n:
./a.go:17:2:     from n (captured by a closure) at ./a.go:18:18
./a.go:17:2:     from n (reference) at ./a.go:18:18
./a.go:17:4: m escapes to heap in F:
./a.go:17:4:   flow: {storage for func literal} ← &m:
./a.go:17:4:     from m (captured by a closure) at ./a.go:19:11
./a.go:17:4:     from m (reference) at ./a.go:19:11
./a.go:18:2: #state1 escapes to heap in F:
./a.go:18:2:   flow: {storage for func literal} ← &#state1:
./a.go:18:2:     from #state1 (captured by a closure) at <unknown line number>
./a.go:18:2:     from #state1 (reference) at <unknown line number>
./a.go:3:1: it escapes to heap in F:
./a.go:3:1:   flow: it ← &it:
./a.go:3:1:     from it.buf (address-of) at ./a.go:9:2
./a.go:3:1:     from it.stack = it.buf[:0] (assign) at ./a.go:9:2
./a.go:5:9: func literal escapes to heap
./a.go:6:6: func literal escapes to heap
./a.go:8:11: new(T) escapes to heap
./a.go:11:10: new(T) escapes to heap
./a.go:13:12: moved to heap: .autotmp_3
./a.go:14:18: new(T) escapes to heap
./a.go:16:4: &T{} escapes to heap
./a.go:17:2: moved to heap: n
./a.go:17:4: moved to heap: m
./a.go:18:2: moved to heap: #state1
./a.go:3:1: moved to heap: it
";

    fn settled(source: Option<&str>) -> Vec<(u32, String, String)> {
        let mut found = read("p", "/p", &[], SAID).expect("text");
        let parsed = source.map(|text| Rc::new(GoSource::parse(text.to_owned())));
        settle(&mut found.list, &mut |file| parsed.clone().filter(|_| file == "/p/a.go"));
        let mut all: Vec<_> =
            found.list.iter().map(|one| (one.position.line, one.what.clone(), one.reason.words())).collect();
        all.sort();
        all
    }

    fn expected(rows: [(u32, &str, &str); 11]) -> Vec<(u32, String, String)> {
        rows.map(|(line, what, why)| (line, what.to_owned(), why.to_owned())).to_vec()
    }

    #[test]
    fn the_source_decides() {
        let rows = [
            (3, "it", "its own address is stored in it.stack"),
            (5, "func literal", "deferred in a loop"),
            (6, "func literal", "starts a goroutine"),
            (8, "new(T)", "returned"),
            (11, "new(T)", "assigned to p, which is declared outside of the loop"),
            (13, "new(id)", "stored in m.ID"),
            (14, "new(T)", "assigned to p of the enclosing function"),
            (16, "&T{}", "passed to f, whose code is not known at compile time"),
            (17, "m", "captured by a closure that lives longer"),
            (17, "n", "captured by the body of a loop over a function, which may keep that body"),
            (18, "#state1", "captured by the body of a loop over a function, which may keep that body"),
        ];
        assert_eq!(settled(Some(SOURCE)), expected(rows));
    }

    /// What callers store by reference would go to the heap there.
    #[test]
    fn what_callers_store_is_not_to_be_returned_by_value() {
        const SOURCE: &str =
            "package p\nfunc one() *T { return &T{} }\nfunc use() {}\nfunc (n *T) two() *T { return &T{} }\n";
        let returned = |line: u32, function: &str| {
            let at = format!("./a.go:{line}:9");
            format!(
                "{at}: &T{{}} escapes to heap in {function}:\n{at}:   flow: ~r0 ← &{{storage for &T{{}}}}:\n\
                 {at}:     from &T{{}} (spill) at {at}\n{at}:     from return &T{{}} (return) at {at}\n"
            )
        };
        let said = [returned(2, "one"), returned(4, "(*T).two")].concat()
            + "./a.go:2:9: &T{} escapes to heap\n./a.go:4:9: &T{} escapes to heap\n";
        let advised = |callers: &str| {
            let mut found = read("p", "/p", &[], &said).expect("text");
            let parsed = Rc::new(GoSource::parse(SOURCE.replace("use() {}", callers)));
            settle(&mut found.list, &mut |_| Some(parsed.clone()));
            found.list.iter().map(|one| one.remedy()).collect::<Vec<_>>()
        };
        let by_value = Some(Advice::ByValue);
        assert_eq!(advised("use() { t := one(); f(t.n, t.two().n) }"), [by_value; 2]);
        assert_eq!(advised("use(s *S) { s.all = append(s.all, one()); f(s.all[0].two()) }"), [None, by_value]);
        assert_eq!(advised("use(s *S) { t := one(); left := t.two(); s.m[1] = left }"), [by_value, None]);
    }

    #[test]
    fn what_no_source_decides_stays_open() {
        let rows = [
            (3, "it", "its own address is stored in it.stack"),
            (5, "func literal", "started by go, or deferred in a loop"),
            (6, "func literal", "started by go, or deferred in a loop"),
            (8, "new(T)", "assigned to out, which lives longer"),
            (11, "new(T)", "assigned to p, which lives longer"),
            (13, ".autotmp_3", "stored in m.ID"),
            (14, "new(T)", "assigned to p, which lives longer"),
            (16, "&T{}", "passed to f"),
            (17, "m", "captured by a closure that lives longer"),
            (17, "n", "captured by a closure that lives longer"),
            (18, "#state1", "captured by the body of a loop over a function, which may keep that body"),
        ];
        assert_eq!(settled(None), expected(rows));
        // Another file is no source of it.
        assert_eq!(settled(Some("package p\n")), expected(rows));
    }
}
