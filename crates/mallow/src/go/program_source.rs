//! A Go program and its sources: what joining a profile with the compiler needs to know of them.

use std::path::Path;

use mallow_golang::join::{Call, Place, Seen, Type};
use mallow_symbols::GoProgram;

/// What is the program's own, and what its code says.
pub struct ProgramSource<'a> {
    /// None: it is not here.
    pub program: Option<&'a GoProgram>,
    /// Where Go's standard library is.
    pub root: &'a Path,
    /// A directory of the program's own.
    pub directory: &'a Path,
}

impl Seen for ProgramSource<'_> {
    fn call(&self, frame: u64) -> (u64, Option<Call>) {
        let Some(program) = self.program else { return (frame, None) };
        let address = program.address(frame).unwrap_or(frame);
        let of = |of: mallow_symbols::GoType| Type { name: of.name, size: of.size, pointers: of.pointers };
        let call = program.call(address).map(|call| Call { callee: call.callee, of: call.of.map(of) });
        (address, call)
    }

    fn is_runtime(&self, place: &Place) -> bool {
        let runtime = ["runtime.", "internal/runtime/"].iter().any(|name| place.function.starts_with(name));
        // Functions of the runtime that have names of other packages.
        let inside = || {
            let file = Path::new(&place.file).strip_prefix(self.root).ok();
            file.is_some_and(|file| ["src/runtime", "src/internal/runtime"].iter().any(|part| file.starts_with(part)))
        };
        runtime || inside()
    }

    fn is_own(&self, place: &Place) -> bool {
        const MODULES: &str = "/pkg/mod/";
        let file = Path::new(&place.file);
        let library = place.file.contains(MODULES) && !self.directory.to_string_lossy().contains(MODULES);
        file.is_absolute() && !library && (!file.starts_with(self.root) || self.directory.starts_with(self.root))
    }
}
