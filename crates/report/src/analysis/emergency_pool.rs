//! What libstdc++ sets aside at its start for exceptions when memory is scarce: a block of some 72 kB of each C++ program,
//! live from the first moment to the last. No view calls it a leak, and no report has a row of it.

use mallow_profile::StackId;

use super::function_kind::FunctionKind;
use super::functions::Functions;
use super::step::Step;

/// The initialiser, as a static libstdc++ has it in the program's own module. Compilers name it by the file, or by the first
/// function in it that others may call.
const INITIALISERS: [&str; 2] = ["_GLOBAL__sub_I_eh_alloc.cc", "_GLOBAL__sub_I__ZN9__gnu_cxx9__freeresEv"];
/// The end of the path of its source file, with debug information.
const SOURCE: &str = "libsupc++/eh_alloc.cc";

/// The library, or the linker, begins to run initialisers here: the C library, and the dynamic linker.
const STARTERS: [&str; 4] = ["ld-linux", "ld-2", "libc.so", "libc-2"];

/// Is the stack that of the pool? The initialiser is known by its name or its source, whatever calls it: programs that were built
/// with an older C library run initialisers themselves (`__libc_csu_init`), and a stack may be cut. Without both, as the library
/// mostly is, the shape decides: the library's code alone is between the loader and the allocator, or it has no name and the
/// stack is cut behind it. A stripped program with a static libstdc++ has a block of its own.
pub(super) fn is_emergency_pool(functions: &Functions<'_>, stack: StackId) -> bool {
    let base = |step: &Step| {
        let path = step.module.and_then(|module| functions.module_path(module)).unwrap_or_default();
        path.rsplit('/').next().unwrap_or(path)
    };
    let is_starter = |step: &Step| STARTERS.iter().any(|starter| base(step).starts_with(starter));
    let is_initialiser = |step: &Step| {
        functions.known_name(step.function).is_some_and(|name| INITIALISERS.contains(&name))
            || functions.file(step.function).is_some_and(|file| file.ends_with(SOURCE))
    };
    let mut steps = functions.steps(stack).skip_while(|step| step.kind == FunctionKind::Allocator).peekable();
    let (mut inside, mut has_name) = (false, false);
    while let Some(step) = steps.next_if(|step| is_initialiser(step) || base(step).starts_with("libstdc++.so")) {
        if is_initialiser(step) {
            return true;
        }
        inside = true;
        has_name |= functions.known_name(step.function).is_some();
    }
    inside && steps.peek().map_or(!has_name, |step| is_starter(step))
}
