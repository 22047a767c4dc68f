//! A Go program and its sources: what joining a profile with the compiler needs to know of them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mallow_golang::join::{AllocationLine, Appended, Call, Map, Part, Seen, Type};
use mallow_golang::source::{GoSource, Target};
use mallow_golang::tool::source;
use mallow_symbols::{GoCall, GoProgram, GoType};

/// A program's code and its own sources.
pub struct ProgramSource<'a> {
    /// None: the program's file is not here.
    pub program: Option<&'a GoProgram>,
    /// Directory of Go's standard library.
    pub root: &'a Path,
    /// Directory of the program's own sources.
    pub directory: &'a Path,
    sources: Mutex<HashMap<String, Option<Arc<GoSource>>>>,
}

impl<'a> ProgramSource<'a> {
    pub fn new(program: Option<&'a GoProgram>, root: &'a Path, directory: &'a Path) -> Self {
        Self { program, root, directory, sources: Mutex::default() }
    }

    fn source(&self, file: &str) -> Option<Arc<GoSource>> {
        // Whoever panicked with it left a whole table.
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.entry(file.to_owned()).or_insert_with(|| source(Path::new(file)).map(Arc::new)).clone()
    }
}

impl ProgramSource<'_> {
    /// The front of the slice is cut off by its function, or elsewhere in its package.
    fn cuts_front(&self, place: &AllocationLine, slice: &str) -> bool {
        if self.source(&place.file).is_some_and(|source| source.cuts_front(slice, place.line)) {
            return true;
        }
        // A variable may be another one in another file.
        if !slice.contains(['.', '*', '[']) {
            return false;
        }
        let others = Path::new(&place.file).parent().and_then(|directory| directory.read_dir().ok());
        let files = others.into_iter().flatten().flatten().map(|entry| entry.path());
        let names = files.filter_map(|path| path.to_str().filter(|name| name.ends_with(".go")).map(str::to_owned));
        names.into_iter().any(|file| self.source(&file).is_some_and(|source| source.cuts_front_of_package(slice)))
    }
}

fn call(call: GoCall) -> Call {
    let of = |of: GoType| Type {
        name: of.name,
        size: of.size,
        pointers: of.pointers,
        parts: of.parts,
        links_itself: of.links_itself,
        map: of.map.map(|map| Map { slots: map.slots, key: map.key, value: map.value, overflows: map.overflows }),
    };
    let (elements, combined) = (call.elements, call.combined);
    Call { callee: call.callee, of: call.of.map(of), elements, next: call.next, combined }
}

impl Seen for ProgramSource<'_> {
    fn call(&self, frame: u64) -> (u64, Option<Call>) {
        let Some(program) = self.program else { return (frame, None) };
        let address = program.address(frame).unwrap_or(frame);
        (address, program.call(address).map(call))
    }

    fn calls_of_line(&self, address: u64) -> Vec<(Range<u64>, Call)> {
        let calls = self.program.and_then(|program| program.calls_of_line(address)).unwrap_or_default();
        calls.into_iter().map(|(range, of)| (range, call(of))).collect()
    }

    fn symbol(&self, address: u64) -> Option<String> {
        self.program.and_then(|program| program.function(address))
    }

    fn is_runtime(&self, place: &AllocationLine) -> bool {
        let runtime = ["runtime.", "internal/runtime/"].iter().any(|name| place.function.starts_with(name));
        // Functions of the runtime that have names of other packages.
        let inside = || {
            let file = Path::new(&place.file).strip_prefix(self.root).ok();
            file.is_some_and(|file| ["src/runtime", "src/internal/runtime"].iter().any(|part| file.starts_with(part)))
        };
        runtime || inside()
    }

    fn part(&self, benchmark: &AllocationLine) -> Part {
        // Go's own test code makes a context for each benchmark, and resets the timer before it calls it.
        if Path::new(&benchmark.file).starts_with(self.root) && !self.directory.starts_with(self.root) {
            return Part::Untimed;
        }
        self.source(&benchmark.file).map_or(Part::Operation, |source| source.part(benchmark.line))
    }

    fn is_in_loop(&self, benchmark: &AllocationLine) -> bool {
        self.source(&benchmark.file).is_some_and(|source| source.is_in_loop(benchmark.line))
    }

    fn appended(&self, place: &AllocationLine) -> Appended {
        if place.function == "bytes.growSlice" {
            return Appended::Buffer;
        }
        let targets = self.source(&place.file).map(|source| source.appends(place.line)).unwrap_or_default();
        let once = |slice: &str| self.source(&place.file).is_some_and(|source| source.appends_once(slice, place.line));
        let mut kinds = targets.iter().map(|target| match target {
            Target::Empty => Appended::Copies,
            Target::Slice(slice) if once(slice) => Appended::Copies,
            Target::Slice(slice) if self.is_own(place) && self.cuts_front(place, slice) => Appended::Queue,
            Target::Slice(_) => Appended::Grows,
        });
        let first = kinds.next().unwrap_or_default();
        if kinds.all(|kind| kind == first) { first } else { Appended::Unclear }
    }

    fn in_own_map(&self, place: &AllocationLine) -> bool {
        self.source(&place.file).is_some_and(|source| source.has_own_maps(place.line))
    }

    fn is_own(&self, place: &AllocationLine) -> bool {
        const MODULES: &str = "/pkg/mod/";
        let file = Path::new(&place.file);
        let library = place.file.contains(MODULES) && !self.directory.to_string_lossy().contains(MODULES);
        file.is_absolute() && !library && (!file.starts_with(self.root) || self.directory.starts_with(self.root))
    }
}
