//! Lines that allocate, for the tests of what is shown of them.

use mallow_golang::join::{
    Allocation, AllocationLine, Appended, Call, Caller, Compiled, Explained, Part, Room, Type, explain,
};
use mallow_golang::model::{Diagnostic, FlowStep, Kind, Position, Reason, Surroundings, Verdict};

fn place(function: &str, file: &str, line: u32) -> AllocationLine {
    AllocationLine { function: function.to_owned(), file: format!("/home/p/{file}"), line }
}

fn position(file: &str, line: u32) -> Position {
    Position { file: format!("/home/p/{file}"), line, column: 2 }
}

fn allocation(
    chain: Vec<AllocationLine>,
    callee: &str,
    of: Option<(&str, u64)>,
    (allocations, bytes): (f64, f64),
) -> Allocation {
    let of = of.map(|(name, size)| Type { name: name.to_owned(), size, pointers: true, ..Type::default() });
    let call = Some(Call { callee: callee.to_owned(), of, ..Call::default() });
    Allocation {
        chain,
        of_library: false,
        address: 0,
        call,
        calls_of_line: Vec::new(),
        symbol: None,
        allocations,
        bytes,
        small: 0.0,
        shared: 0.0,
        appended: Appended::Grows,
        in_own_map: false,
        called_back: false,
        room: Room::default(),
        part: Part::Operation,
        callers: Vec::new(),
    }
}

/// One by the compiler's reason, inlined; one by the runtime's, in a library; set-up; and one that nobody explains.
pub fn lines() -> Vec<Explained> {
    let buffer =
        vec![place("bytes.NewBuffer", "bytes/buffer.go", 490), place("example.com/a/stream.Copy", "stream.go", 9)];
    let buffer = allocation(buffer, "runtime.newobject", Some(("bytes.Buffer", 40)), (1000.0, 48_000.0));
    let mut grown = allocation(
        vec![place("lib.(*List).Add", "lib/list.go", 30)],
        "runtime.growslice",
        Some(("*lib.Node", 8)),
        (250.0, 16_000.0),
    );
    let caller = |line, allocations| Caller {
        place: place("example.com/a/stream.Copy", "stream.go", line),
        allocations,
        callees: Vec::new(),
    };
    grown.callers = vec![caller(12, 200.0), caller(14, 40.0), caller(20, 10.0)];
    let mut once =
        allocation(vec![place("example.com/a/stream.init", "stream.go", 3)], "runtime.makechan", None, (1.0, 96.0));
    once.part = Part::Once;
    let unknown =
        allocation(vec![place("example.com/a/stream.stub", "stub.s", 1)], "example.com/a.stub", None, (3.0, 24.0));
    let step = |flow: &str, how: &str, expression: &str, line| FlowStep {
        position: position("stream.go", line),
        flow: flow.to_owned(),
        how: how.to_owned(),
        expression: expression.to_owned(),
        ..FlowStep::default()
    };
    let diagnostic = Diagnostic {
        package: "example.com/a/stream".to_owned(),
        function: Some("Copy".to_owned()),
        position: position("bytes/buffer.go", 490),
        inlined_at: vec![position("stream.go", 9)],
        placed: true,
        kind: Kind::Composite,
        what: "&bytes.Buffer{...}".to_owned(),
        verdict: Verdict::Escapes,
        flow: vec![
            step("in ← ~r0", "assign", "in := ~r0", 9),
            step("{heap} ← in", "interface-converted", "in", 11),
            step("{heap} ← in", "call parameter", "io.ReadAll(in)", 11),
        ],
        reason: Reason::Passed { callee: "io.ReadAll".to_owned(), interface: true },
        surroundings: Surroundings::default(),
    };
    explain(vec![buffer, grown, once, unknown], &Compiled::new(vec![diagnostic]))
}
