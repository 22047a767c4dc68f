//! Allocations, diagnostics and profiles for the tests of this room.

use mallow_profile::{Counts, Frame, Line, Process, ProcessId, Profile, Site, Stacks};

use super::{Allocation, AllocationLine, Appended, Call, Part, Room, Seen, Type};
use crate::model::{Diagnostic, Kind, Position, Reason, Surroundings, Verdict};

/// `a.go:12` of a function; files are in a directory of their own.
pub fn place(function: &str, at: &str) -> AllocationLine {
    let (file, line) = at.split_once(':').expect("a line");
    AllocationLine {
        function: function.to_owned(),
        file: format!("/home/p/{file}"),
        line: line.parse().expect("a number"),
    }
}

/// A call of the runtime, with a type by its name where it has one.
pub fn call(callee: &str, of: Option<&str>) -> Call {
    let of = of.map(|name| Type { name: name.to_owned(), size: 8, pointers: true, ..Type::default() });
    Call { callee: callee.to_owned(), of, ..Call::default() }
}

/// One allocation at an address, the innermost place first.
pub fn allocation(address: u64, chain: &[AllocationLine], call: Option<Call>) -> Allocation {
    let chain = chain.to_vec();
    Allocation {
        chain,
        of_library: false,
        address,
        call,
        calls_of_line: Vec::new(),
        symbol: None,
        allocations: 1.0,
        bytes: 8.0,
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

/// `a.go:12:5`.
pub fn position(at: &str) -> Position {
    let parts: Vec<&str> = at.split(':').collect();
    let number = |at: usize| parts[at].parse().expect("a number");
    Position { file: format!("/home/p/{}", parts[0]), line: number(1), column: number(2) }
}

/// What escapes there, with where it is inlined, the innermost first.
pub fn escapes(kind: Kind, what: &str, at: &[&str]) -> Diagnostic {
    Diagnostic {
        package: "example.com/p".to_owned(),
        function: Some("F".to_owned()),
        position: position(at[0]),
        inlined_at: at[1..].iter().map(|at| position(at)).collect(),
        placed: true,
        kind,
        what: what.to_owned(),
        verdict: Verdict::Escapes,
        flow: Vec::new(),
        reason: Reason::Returned,
        surroundings: Surroundings::default(),
    }
}

/// What does not.
pub fn stays(kind: Kind, what: &str, at: &[&str]) -> Diagnostic {
    Diagnostic { verdict: Verdict::DoesNotEscape, ..escapes(kind, what, at) }
}

/// Functions of the runtime are Go's; what begins with `own.` is the program's own. Each frame calls
/// `runtime.newobject`; those from address 500 on with a type of 90,000 bytes.
pub struct Known;

impl Seen for Known {
    fn call(&self, frame: u64) -> (u64, Option<Call>) {
        // A program whose code begins 1000 further.
        let of = || Type { name: "own.Large".to_owned(), size: 90_000, pointers: true, ..Type::default() };
        let call = Call { of: (frame >= 500).then(of), ..call("runtime.newobject", None) };
        (frame + 1000, Some(call))
    }

    fn calls_of_line(&self, _: u64) -> Vec<(std::ops::Range<u64>, Call)> {
        Vec::new()
    }

    fn symbol(&self, _: u64) -> Option<String> {
        None
    }

    fn is_runtime(&self, place: &AllocationLine) -> bool {
        place.function.starts_with("runtime.")
    }

    fn part(&self, benchmark: &AllocationLine) -> Part {
        if benchmark.function.ends_with("Untimed") { Part::Untimed } else { Part::Operation }
    }

    fn is_in_loop(&self, benchmark: &AllocationLine) -> bool {
        benchmark.function.ends_with("InLoop")
    }

    fn appended(&self, place: &AllocationLine) -> Appended {
        if place.function.ends_with("Copy") { Appended::Copies } else { Appended::Grows }
    }

    fn in_own_map(&self, place: &AllocationLine) -> bool {
        place.function.ends_with("Count")
    }

    fn is_own(&self, place: &AllocationLine) -> bool {
        place.function.starts_with("own.")
    }
}

/// The innermost frame first: each by its address and its functions, the innermost first.
pub type Stack<'a> = &'a [(u64, &'a str)];

/// A profile of stacks with allocations and bytes. A frame's line is its address.
pub fn profile(stacks: &[(Stack, u64, u64)]) -> Profile {
    let mut profile = Profile { processes: vec![Process::default()], ..Profile::default() };
    for &(frames, allocations, allocated_bytes) in stacks {
        let mut stack = Stacks::ROOT;
        for &(address, functions) in frames.iter().rev() {
            let file = Some(profile.strings.intern("/home/p/a.go"));
            let strings = &mut profile.strings;
            let line = |name| Line { function: strings.intern(name), file, line: address as u32 };
            let lines = functions.split(" in ").map(line).collect();
            let frame = Frame { lines, ..Frame::new(None, address, true) };
            let at = profile.frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
                profile.frames.push(frame);
                profile.frames.len() - 1
            });
            stack = profile.stacks.push(stack, mallow_profile::FrameId(at as u32));
        }
        let counts = Counts { allocations, allocated_bytes, ..Counts::default() };
        profile.sites.push(Site::of(ProcessId(0), stack, counts));
    }
    profile
}
