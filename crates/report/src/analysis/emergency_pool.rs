//! What libstdc++ sets aside at its start for exceptions when memory is scarce: a block of some 72 kB of each C++ program,
//! live from the first moment to the last. No view calls it a leak, and no report has a row of it.

use mallow_profile::StackId;

use super::function_kind::FunctionKind;
use super::functions::Functions;
use super::step::Step;

/// The initialiser, as a static libstdc++ has it in the program's own module.
const INITIALISER: &str = "_GLOBAL__sub_I_eh_alloc.cc";

/// The library, or the linker, begins to run initialisers here: the C library, and the dynamic linker.
const STARTERS: [&str; 4] = ["ld-linux", "ld-2", "libc.so", "libc-2"];

/// Is the stack that of the pool? The shape decides, since the library is mostly without names: its initialiser alone is between
/// the loader and the allocator. Where libstdc++ is linked statically, it is known by the name of its initialiser; a stripped
/// program with it has a block of its own.
pub(super) fn is_emergency_pool(functions: &Functions<'_>, stack: StackId) -> bool {
    let base = |step: &Step| {
        let path = step.module.and_then(|module| functions.module_path(module)).unwrap_or_default();
        path.rsplit('/').next().unwrap_or(path)
    };
    let is_starter = |step: &Step| STARTERS.iter().any(|starter| base(step).starts_with(starter));
    let is_inside = |step: &Step| {
        base(step).starts_with("libstdc++.so") || functions.known_name(step.function) == Some(INITIALISER)
    };
    let mut steps = functions.steps(stack).skip_while(|step| step.kind == FunctionKind::Allocator).peekable();
    let mut inside = false;
    while steps.next_if(|step| is_inside(step)).is_some() {
        inside = true;
    }
    inside && steps.peek().is_some_and(|step| is_starter(step))
}
