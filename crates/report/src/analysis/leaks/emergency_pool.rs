//! What libstdc++ sets aside at its start for exceptions when memory is scarce: a block of some 72 kB of each C++
//! program, live from the first moment to the last. No view calls it a leak, and the report has no row of it. Elsewhere
//! its row is called by what it is: the library has no name for the initialiser, and an address tells nobody anything.

use mallow_profile::{Frame, FrameId, Line, Profile, StackId};

use crate::analysis::stacks::function_kind::FunctionKind;
use crate::analysis::stacks::functions::Functions;
use crate::analysis::stacks::step::Step;

/// The name that [`name_emergency_pool`] gives to the initialiser.
pub const EMERGENCY_POOL: &str = "libstdc++'s emergency pool";

/// The initialiser, as a static libstdc++ has it in the program's own module. Compilers name it by the file, or by the
/// first function in it that others may call.
const INITIALISERS: [&str; 3] =
    ["_GLOBAL__sub_I_eh_alloc.cc", "_GLOBAL__sub_I__ZN9__gnu_cxx9__freeresEv", EMERGENCY_POOL];
/// The end of the path of its source file, with debug information.
const SOURCE: &str = "libsupc++/eh_alloc.cc";
/// Prefix of other functions of that file: they allocate exceptions.
const EXCEPTIONS: &str = "__cxa_";

/// Prefixes of the files of the C library and the dynamic linker, which run initialisers.
const STARTERS: [&str; 4] = ["ld-linux", "ld-2", "libc.so", "libc-2"];

const LIBRARY: &str = "libstdc++.so";

/// Gives the frames of the initialiser a name. Frames that symbols had a name for keep it, but for the initialiser's.
/// Costs a pass over the stacks if the library is there without names.
pub fn name_emergency_pool(profile: &mut Profile) {
    let mut frames: Vec<FrameId> = frames_of_initialiser(profile);
    let nameless: Vec<bool> = profile.frames.iter().map(|frame| is_nameless_in_library(profile, frame)).collect();
    if nameless.contains(&true) {
        let cut: Vec<StackId> =
            profile.sites.iter().map(|site| site.stack).filter(|of| profile.stacks.is_cut(*of)).collect();
        let of_initialiser = |stack: StackId, may_be_cut: bool| {
            let (frame, mut caller) = profile.stacks.top(stack)?;
            nameless.get(frame.0 as usize).filter(|&&nameless| nameless)?;
            loop {
                match profile.stacks.top(caller) {
                    Some((of, next)) if begins(profile, of, &[LIBRARY]) => caller = next,
                    Some((of, _)) => break begins(profile, of, &STARTERS).then_some(frame),
                    None => break may_be_cut.then_some(frame),
                }
            }
        };
        let all = (0..u32::try_from(profile.stacks.len()).unwrap_or(u32::MAX)).map(StackId);
        frames.extend(all.filter_map(|stack| of_initialiser(stack, false)));
        frames.extend(cut.into_iter().filter_map(|stack| of_initialiser(stack, true)));
    }
    let function = if frames.is_empty() { return } else { profile.strings.intern(EMERGENCY_POOL) };
    for FrameId(at) in frames {
        if let Some(frame) = profile.frames.get_mut(at as usize) {
            let (file, line) = frame.lines.first().map_or((None, 0), |line| (line.file, line.line));
            (frame.lines, frame.folded) = (vec![Line { function, file, line }], None);
        }
    }
}

/// The frames whose outermost function is named as the initialiser.
fn frames_of_initialiser(profile: &Profile) -> Vec<FrameId> {
    let is_it = |frame: &Frame| {
        frame.lines.last().is_some_and(|line| INITIALISERS[..2].contains(&profile.strings.get(line.function)))
    };
    (0..).zip(&profile.frames).filter(|(_, frame)| is_it(frame)).map(|(at, _)| FrameId(at)).collect()
}

fn is_nameless_in_library(profile: &Profile, frame: &Frame) -> bool {
    let module = frame.module.and_then(|module| profile.modules.get(module.0 as usize));
    frame.lines.is_empty() && module.is_some_and(|module| base_of(&module.path).starts_with(LIBRARY))
}

fn begins(profile: &Profile, frame: FrameId, names: &[&str]) -> bool {
    let module = profile.frames.get(frame.0 as usize).and_then(|frame| frame.module);
    let module = module.and_then(|module| profile.modules.get(module.0 as usize));
    module.is_some_and(|module| names.iter().any(|name| base_of(&module.path).starts_with(name)))
}

fn base_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether the stack is that of the pool. The initialiser is known by its name or its source, whatever calls it:
/// programs that were built with an older C library run initialisers themselves (`__libc_csu_init`), and a stack may be
/// cut. Without both, as the library mostly is, the shape decides: the library's code alone is between the loader and
/// the allocator, or it has no name and the stack is cut behind it. A stripped program with a static libstdc++ has a
/// block of its own.
pub(in crate::analysis) fn is_emergency_pool(functions: &Functions<'_>, stack: StackId) -> bool {
    let base = |step: &Step| base_of(step.module.and_then(|module| functions.module_path(module)).unwrap_or_default());
    let is_starter = |step: &Step| STARTERS.iter().any(|starter| base(step).starts_with(starter));
    let is_initialiser = |step: &Step| {
        let name = functions.known_name(step.function).unwrap_or_default();
        let is_in_source = || functions.file(step.function).is_some_and(|file| file.ends_with(SOURCE));
        INITIALISERS.contains(&name) || !name.starts_with(EXCEPTIONS) && is_in_source()
    };
    let mut steps = functions.steps(stack).skip_while(|step| step.kind == FunctionKind::Allocator).peekable();
    let (mut inside, mut has_name) = (false, false);
    while let Some(step) = steps.next_if(|step| is_initialiser(step) || base(step).starts_with(LIBRARY)) {
        if is_initialiser(step) {
            return true;
        }
        inside = true;
        has_name |= functions.known_name(step.function).is_some();
    }
    inside && steps.peek().map_or(!has_name, |step| is_starter(step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Builder, blocks};

    const LOADER: [&str; 2] = ["call_init!ld-linux-x86-64.so.2", "_dl_init!ld-linux-x86-64.so.2"];

    fn names_after(stacks: &[&[&str]]) -> Vec<String> {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        for stack in stacks {
            b.site(p, stack, blocks(1, 9, 0, 1));
        }
        name_emergency_pool(&mut b.profile);
        let functions = Functions::new(&b.profile);
        let name =
            |at: usize| functions.steps(b.profile.sites[at].stack).next().map(|step| functions.name(step.function));
        (0..stacks.len()).filter_map(name).collect()
    }

    #[test]
    fn the_initialiser_is_called_by_what_it_allocates() {
        let pool = [&["+0xa7a1a!libstdc++.so.6"], &LOADER[..]].concat();
        let linked = ["_GLOBAL__sub_I_eh_alloc.cc!a", "call_init!libc.so.6"];
        assert_eq!(names_after(&[&pool, &linked]), [EMERGENCY_POOL; 2]);
        // The library's nameless functions that the program calls, and initialisers of others, keep their addresses.
        let called = ["+0xa7a1a!libstdc++.so.6", "main@a.cc:1"];
        let others = [&["+0x1000!liba.so"], &LOADER[..]].concat();
        assert_eq!(names_after(&[&called, &others]), ["libstdc++.so.6+0xa7a1a", "liba.so+0x1000"]);
    }

    #[test]
    fn exceptions_are_not_of_the_pool() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        let source = "../src/libstdc++-v3/libsupc++/eh_alloc.cc";
        b.site(p, &[&format!("__cxa_allocate_exception@{source}:400!libstdc++.so.6"), "f@a.cc:1"], blocks(1, 9, 0, 1));
        b.site(p, &[&format!("pool::pool()@{source}:123!libstdc++.so.6"), LOADER[0]], blocks(1, 9, 0, 1));
        let functions = Functions::new(&b.profile);
        let of_pool: Vec<_> = b.profile.sites.iter().map(|site| is_emergency_pool(&functions, site.stack)).collect();
        assert_eq!(of_pool, [false, true]);
    }
}
