//! Stacks as sequences of functions: inlined functions are functions, and each knows how interesting it is.

use std::sync::OnceLock;

use mallow_profile::{Counts, Frame as Raw, FrameId, ModuleId, Profile, Site, StackId, Stacks, StringId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::function_kind::{FunctionKind, classify, measures};
use super::scripts::Scripts;
pub(crate) use super::step::{FunctionId, Step};
use super::tell_apart::{Row, Shown};
use super::wrappers::{DEPTH, Passage, Requests, wrappers};
use crate::names;

/// The function that a site is named by, and how the program got from it to the allocator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub step: Step,
    /// The function that the named one called to get its memory; None where that is an allocating function.
    pub through: Option<Step>,
    /// Functions of the program's own without names that were looked past, between the named one and the allocator.
    pub nameless: u64,
}

impl Named {
    /// Equal for sites of one line of one function.
    pub fn key(&self) -> (FunctionId, Option<StringId>, u32) {
        (self.step.function, self.step.file, self.step.line)
    }
}

/// A function in a stack, as reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frame {
    /// Demangled name, or `module+0xoffset` where none is known: of the function's beginning, if unwind information
    /// shows it.
    pub function: String,
    /// Source file, as debug information names it; null where no line is known.
    pub file: Option<String>,
    /// Line in `file`, from 1; null where no line is known.
    pub line: Option<u32>,
    /// Other functions that have the same code: the linker or the compiler found that they are the same and kept one,
    /// and which of them was called is not known. At most some dozens; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<String>,
    /// Path of the ELF file that the function is in; null where none is known.
    pub module: Option<String>,
    /// Link-time address in the module, in hexadecimal; the plain address without a module.
    pub address: String,
    /// The compiler put this function into the next one.
    pub inlined: bool,
    /// Reports look past the function: it only passes the request on.
    pub looked_past: bool,
    /// Functions without names between this one and the allocator, which rows look past. Left out where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub nameless: u64,
    /// `function` is a name, and not an address.
    #[serde(skip)]
    pub named: bool,
    /// Whether the function exists to hand out memory.
    #[serde(skip)]
    pub allocates: bool,
    /// Another row's function has the same name without its arguments: lists show them.
    #[serde(skip)]
    pub keeps_arguments: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Row for Frame {
    fn shown(&self) -> Option<Shown<'_>> {
        let (file, module) = (self.file.as_deref(), self.module.as_deref());
        Some(Shown { function: &self.function, file, line: self.line, module, by: None })
    }

    fn keep_arguments(&mut self) {
        self.keeps_arguments = true;
    }
}

/// A whole stack, as reports show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stack {
    /// Functions of the stack, the innermost first.
    pub frames: Vec<Frame>,
    /// The outermost frames are missing.
    pub cut: bool,
}

impl Stack {
    /// The functions of the program's own, the innermost first; all where there are none.
    pub fn own(&self) -> Vec<&Frame> {
        let own: Vec<_> = self.frames.iter().filter(|f| !f.looked_past).collect();
        if own.is_empty() { self.frames.iter().collect() } else { own }
    }

    /// The program's own functions that called `frame`, the innermost first, without those that have no name between
    /// two that have.
    pub fn callers_of(&self, frame: &Frame) -> Vec<&Frame> {
        self.callers_and_gaps(frame).into_iter().map(|(caller, _)| caller).collect()
    }

    /// [`Self::callers_of`], each with whether functions without names were left out between it and the one before.
    pub fn callers_and_gaps(&self, frame: &Frame) -> Vec<(&Frame, bool)> {
        let own = self.own();
        let from = own.iter().position(|f| f.function == frame.function).map_or(0, |at| at + 1);
        let callers = &own[from.min(own.len())..];
        // Behind the last one with a name, who asked is one without: of a stripped program that calls a library, all.
        let (between, outer) = callers.split_at(callers.iter().rposition(|f| f.named).map_or(0, |at| at + 1));
        let mut gap = false;
        let mut found = Vec::new();
        for &caller in between {
            if caller.named {
                found.push((caller, std::mem::take(&mut gap)));
            } else {
                gap = true;
            }
        }
        found.extend(outer.iter().map(|caller| (*caller, false)));
        found
    }

    /// The functions without names between the one that rows are named by and the allocator.
    pub fn looked_past_without_names(&self) -> impl Iterator<Item = &Frame> {
        let at = self.frames.iter().position(|f| f.nameless > 0).unwrap_or(0);
        self.frames[..at].iter().filter(|f| !f.named && !f.looked_past)
    }

    /// How many functions without names are looked past in this stack by rows that are named by `frame`.
    pub fn nameless_below(&self, frame: &Frame) -> u64 {
        self.frames.iter().find(|f| f.nameless > 0 && f.function == frame.function).map_or(0, |f| f.nameless)
    }
}

/// A stack, as reports show it. For single ones: it costs a pass over the profile's frames.
pub fn stack_of(profile: &Profile, stack: StackId) -> Stack {
    Functions::new(profile).stack(stack)
}

struct Function {
    /// None for a function of which only the address is known, that of `frame`.
    name: Option<StringId>,
    file: Option<StringId>,
    module: Option<ModuleId>,
    frame: FrameId,
    /// A frame with the names of other functions that have the same code.
    folded: Option<FrameId>,
}

/// Made once for a report; costs a pass over the frames, and where places are named, some over the sites.
pub(crate) struct Functions<'a> {
    profile: &'a Profile,
    functions: Vec<Function>,
    steps: Vec<Step>,
    /// By frame, the index of its first step, and one more entry at the end.
    starts: Vec<u32>,
    /// Frames whose innermost part runs a measured region, and has no steps.
    measuring: FxHashSet<FrameId>,
    /// None where no stack has frames of a script.
    scripts: Option<Scripts>,
    /// Executables that were executed by another name, with that name.
    executed: Vec<(ModuleId, &'a str)>,
    /// By function, whether it only passes requests on to the allocator. Found when a view asks for the first time:
    /// that costs a pass over the sites.
    wrappers: OnceLock<Vec<bool>>,
}

/// The name of a function whose file and line alone are known, as symbol tables and debuggers have it.
const UNKNOWN: &str = "??";

/// Identifies a function. A name alone is not enough: files have static functions of the same name.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    InFile(StringId, StringId),
    InModule(StringId, Option<ModuleId>),
    Address(Option<ModuleId>, u64),
}

/// A site's requests: its stack, how many, and their smallest and largest size in bytes.
pub(crate) type SiteRequests = (StackId, u64, (u64, u64));

fn requests_of(site: &Site) -> SiteRequests {
    let patterns = &site.patterns;
    let known = patterns.largest > 0 && patterns.smallest <= patterns.largest;
    let (stack, number, mean) = mean_request(site.stack, &site.counts);
    (stack, number, if known { (patterns.smallest, patterns.largest) } else { mean })
}

/// Requests whose mean size alone is known.
pub(crate) fn mean_request(stack: StackId, counts: &Counts) -> SiteRequests {
    let mean = counts.allocated_bytes.checked_div(counts.allocations).unwrap_or(0);
    (stack, counts.allocations, (mean, mean))
}

impl<'a> Functions<'a> {
    /// Builds the functions of a profile whose sites are kept elsewhere: `requests` lists these. By frame, `files` has
    /// another file that its functions are identified by, and not shown with.
    pub fn with_requests(
        profile: &'a Profile,
        requests: impl Iterator<Item = SiteRequests>,
        files: &FxHashMap<FrameId, Option<StringId>>,
    ) -> Self {
        let it = Self::identified(profile, files);
        Self { wrappers: OnceLock::from(it.find_wrappers(requests)), ..it }
    }

    pub fn new(profile: &'a Profile) -> Self {
        Self::identified(profile, &FxHashMap::default())
    }

    fn identified(profile: &'a Profile, files: &FxHashMap<FrameId, Option<StringId>>) -> Self {
        let mut ids: FxHashMap<Key, (FunctionId, FunctionKind)> = FxHashMap::default();
        let (functions, steps, starts, measuring) = (Vec::new(), Vec::new(), vec![0], FxHashSet::default());
        let executed = executed(profile);
        let wrappers = OnceLock::new();
        let mut it = Self { profile, functions, steps, starts, measuring, scripts: None, executed, wrappers };
        for (index, raw) in profile.frames.iter().enumerate() {
            let frame = FrameId(index as u32);
            let none = [(None, None, 0)];
            let known = |name: &StringId| profile.strings.get(*name) != UNKNOWN;
            let lines: Vec<_> = raw.lines.iter().map(|l| (Some(l.function).filter(known), l.file, l.line)).collect();
            let lines = if lines.is_empty() { &none[..] } else { &lines };
            let first = it.steps.len();
            for (depth, &(name, file, line)) in lines.iter().enumerate() {
                let text = |id: StringId| profile.strings.get(id);
                if measures(name.map(text), file.map(text), module_path(profile, raw.module)) {
                    // What it calls the program's function through, of the language's own, goes with it.
                    while it.steps.len() > first && it.steps.last().is_some_and(|s| s.kind == FunctionKind::Runtime) {
                        it.steps.pop();
                    }
                    if it.steps.len() == first {
                        it.measuring.insert(frame);
                    }
                    continue;
                }
                let key = match (name, files.get(&frame).copied().unwrap_or(file)) {
                    (Some(name), Some(file)) => Key::InFile(name, file),
                    (Some(name), None) => Key::InModule(name, raw.module),
                    (None, _) => Key::Address(raw.module, raw.start.unwrap_or(raw.address)),
                };
                let (function, kind) = *ids.entry(key).or_insert_with(|| {
                    it.functions.push(Function { name, file, module: raw.module, frame, folded: None });
                    let module = module_path(profile, raw.module);
                    (FunctionId(it.functions.len() as u32 - 1), classify(name.map(text), file.map(text), module))
                });
                let inlined = depth + 1 < lines.len();
                if raw.folded.is_some() && !inlined {
                    it.functions[function.0 as usize].folded.get_or_insert(frame);
                }
                it.steps.push(Step {
                    function,
                    kind,
                    nameless: name.is_none(),
                    name,
                    module: raw.module,
                    file,
                    line,
                    frame,
                    inlined,
                });
            }
            it.starts.push(it.steps.len() as u32);
        }
        it.scripts = Scripts::find(profile, &it.steps);
        it
    }

    /// Whether views look past the step, from its callers to the allocator: it is not the program's own, or only passes
    /// requests on to the allocator, as the stacks of the profile show.
    pub fn is_looked_past(&self, step: &Step) -> bool {
        step.kind != FunctionKind::Own || self.is_wrapper(step)
    }

    fn is_wrapper(&self, step: &Step) -> bool {
        let wrappers = self.wrappers.get_or_init(|| self.find_wrappers(self.profile.sites.iter().map(requests_of)));
        step.kind == FunctionKind::Own && wrappers[step.function.0 as usize]
    }

    fn find_wrappers(&self, requests: impl Iterator<Item = SiteRequests>) -> Vec<bool> {
        let (mut all, mut passages) = (Requests::default(), Vec::new());
        for (stack, number, sizes) in requests {
            self.passages(stack, &mut passages);
            all.add(number, sizes, &passages);
        }
        wrappers(self.functions.len(), &all)
    }

    /// The innermost functions of the program's own, each once where it calls itself.
    fn passages(&self, stack: StackId, into: &mut Vec<Passage>) {
        /// Frames of the language's library between two of them are few.
        const STEPS: usize = 8 * DEPTH;
        into.clear();
        let mut direct = true;
        for step in self.steps(stack).take(STEPS) {
            match step.kind {
                FunctionKind::Allocator => {}
                FunctionKind::Runtime => direct = false,
                FunctionKind::Own => {
                    let line = match step.file {
                        Some(file) if step.line > 0 => u64::from(file.0) << 32 | u64::from(step.line),
                        _ => 1 << 63 | u64::from(step.frame.0),
                    };
                    let function = step.function.0;
                    // What the compiler split and put together again calls itself.
                    if into.last().is_none_or(|inner| inner.function != function) {
                        let module = step.module.map_or(u32::MAX, |module| module.0);
                        into.push(Passage { function, module, line, direct });
                    }
                    direct = true;
                }
            }
            if into.len() == DEPTH {
                break;
            }
        }
    }

    /// The number of functions; ids are below it.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// The functions of a stack, the innermost first. A frame that the profile does not have is passed over.
    pub fn steps(&self, stack: StackId) -> impl Iterator<Item = &Step> {
        self.frames(stack).flat_map(|(_, steps)| steps)
    }

    /// The frames of a stack with their functions, as [`Self::steps`] has them.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = (FrameId, &[Step])> {
        let on_stack = self.scripts.as_ref().is_some_and(|scripts| scripts.is_on(stack));
        let mut at = stack;
        std::iter::from_fn(move || {
            let (frame, caller) = self.profile.stacks.top(at)?;
            at = caller;
            Some((frame, if on_stack { self.steps_called(frame, caller, on_stack) } else { self.steps_of(frame) }))
        })
    }

    /// The functions of a frame that `caller` leads to, the innermost first. Where frames of a script are `on_stack`,
    /// what serves these is looked past.
    pub fn steps_called(&self, frame: FrameId, caller: StackId, on_stack: bool) -> &[Step] {
        let scripts = self.scripts.as_ref().and_then(|scripts| scripts.steps(frame, caller, on_stack));
        self.slice(scripts.unwrap_or(&self.steps), frame)
    }

    /// Whether the step is a function of a script.
    pub fn is_script(&self, step: &Step) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.is_script(step))
    }

    /// Whether no view names the step as what a place called: it is the interpreter's own, on a stack with frames of a
    /// script.
    pub fn is_interpreters(&self, stack: StackId, step: &Step) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.is_on(stack) && scripts.is_interpreters(step))
    }

    /// The functions of a frame, the innermost first; empty for a frame that the profile does not have.
    pub fn steps_of(&self, frame: FrameId) -> &[Step] {
        self.slice(&self.steps, frame)
    }

    fn slice<'s>(&self, steps: &'s [Step], frame: FrameId) -> &'s [Step] {
        let at = frame.0 as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => &steps[from as usize..to as usize],
            _ => &[],
        }
    }

    /// All functions of a stack, the innermost first, without those that run a measured region, and without the
    /// language's own between these and the program's function.
    pub fn steps_measured(&self, stack: StackId) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for frame in self.profile.stacks.frames(stack) {
            if self.measuring.contains(&frame) {
                let kept = steps.iter().rposition(|step| step.kind != FunctionKind::Runtime).map_or(0, |at| at + 1);
                steps.truncate(kept);
            }
            steps.extend(self.steps_of(frame));
        }
        steps
    }

    /// Whether the function has a known name and is in this module.
    pub fn is_named_in(&self, id: FunctionId, module: Option<ModuleId>) -> bool {
        let f = &self.functions[id.0 as usize];
        f.name.is_some() && f.module == module
    }

    /// What the site of this stack is named by; None for a stack without frames.
    ///
    /// That is the innermost function of the program's own that is no wrapper. Where it has no name (a static function
    /// of a stripped library), it is the first of its module that has one: the same few addresses would stand for
    /// everything otherwise. Where there is no function of the program's own (the dynamic linker at work, say), it is
    /// the outermost wrapper, or the innermost of the runtime that is no allocating function, and at last the innermost
    /// of all.
    pub fn named(&self, stack: StackId) -> Option<Named> {
        self.named_at(stack).map(|(_, named)| named)
    }

    /// [`Self::named`], with its index among the steps of the stack.
    pub fn named_at(&self, stack: StackId) -> Option<(usize, Named)> {
        let mut runtime = None;
        let mut wrapper = None;
        let mut through = None;
        let mut nameless: Option<(usize, Named)> = None;
        let (mut passed, mut last) = (0u64, None);
        for (at, &step) in self.steps(stack).enumerate() {
            if step.kind == FunctionKind::Own && step.nameless && !self.is_wrapper(&step) && last != Some(step.function)
            {
                (passed, last) = (passed + 1, Some(step.function));
            }
            match (step.kind, nameless) {
                (FunctionKind::Own, None) if self.is_wrapper(&step) => {
                    wrapper = Some((at, step));
                    through = if step.nameless { through } else { Some(step) };
                }
                (FunctionKind::Own, Some(_)) if self.is_wrapper(&step) => {}
                (FunctionKind::Own, None) if step.nameless => {
                    nameless = Some((at, Named { step, through, nameless: 0 }))
                }
                (FunctionKind::Own, None) => return Some((at, Named { step, through, nameless: 0 })),
                (FunctionKind::Own, Some(_)) if step.nameless => {}
                (FunctionKind::Own, Some((_, inner))) if step.module == inner.step.module => {
                    return Some((at, Named { step, through: inner.through, nameless: passed }));
                }
                (FunctionKind::Runtime, None) => {
                    runtime = runtime.or(Some((at, step)));
                    let says_nothing = step.nameless || self.is_interpreters(stack, &step);
                    through = if says_nothing { through } else { Some(step) };
                }
                (FunctionKind::Own, Some(inner)) => return Some(inner),
                (FunctionKind::Runtime, Some(_)) | (FunctionKind::Allocator, _) => {}
            }
        }
        // std's function stands for the closure that the compiler put into it.
        if let (None, None, Some((_, inner))) = (nameless, wrapper, runtime) {
            let runs =
                |step: &Step| self.known_name(step.function).is_some_and(|name| names::run_by_std(name).is_some());
            if let Some((at, &step)) = self.steps(stack).enumerate().find(|(_, step)| runs(step)) {
                let through = Some(inner).filter(|inner| inner.function != step.function);
                return Some((at, Named { step, through, nameless: 0 }));
            }
        }
        let step = wrapper.or(runtime).or_else(|| self.steps(stack).next().map(|&step| (0, step)));
        nameless.or(step.map(|(at, step)| (at, Named { step, through: None, nameless: 0 })))
    }

    /// The name of a function: `module+0xoffset` where none is known.
    pub fn name(&self, id: FunctionId) -> String {
        let f = &self.functions[id.0 as usize];
        match f.name {
            Some(name) => self.profile.strings.get(name).to_owned(),
            None => {
                let frame = &self.profile.frames[f.frame.0 as usize];
                place_named(frame.module.and_then(|module| self.module_path(module)), beginning(frame))
            }
        }
    }

    /// The name of a function, where one is known.
    pub fn known_name(&self, id: FunctionId) -> Option<&str> {
        self.functions[id.0 as usize].name.map(|name| self.profile.strings.get(name))
    }

    pub fn file(&self, id: FunctionId) -> Option<String> {
        self.functions[id.0 as usize].file.map(|f| self.profile.strings.get(f).to_owned())
    }

    pub fn module(&self, id: FunctionId) -> Option<String> {
        self.module_path(self.functions[id.0 as usize].module?).map(str::to_owned)
    }

    /// The path of a module; of a program the one by which it was executed.
    pub fn module_path(&self, module: ModuleId) -> Option<&str> {
        let executed = self.executed.iter().find(|(of, _)| *of == module);
        executed.map_or_else(|| module_path(self.profile, Some(module)), |(_, path)| Some(*path))
    }

    pub fn place(&self, named: &Named) -> Frame {
        Frame { nameless: named.nameless, ..self.frame(&named.step) }
    }

    pub fn frame(&self, step: &Step) -> Frame {
        let raw = &self.profile.frames[step.frame.0 as usize];
        let is_whole = !step.inlined && step.kind != FunctionKind::Allocator;
        let folded = raw.folded.filter(|_| is_whole).map_or(Vec::new(), |names| self.one_code(names));
        Frame {
            function: self.name(step.function),
            keeps_arguments: reads_like_another(&self.name(step.function), &folded),
            folded,
            file: step.file.map(|f| self.profile.strings.get(f).to_owned()),
            line: (step.line > 0).then_some(step.line),
            module: raw.module.and_then(|module| self.module_path(module)).map(str::to_owned),
            address: format!("{:#x}", raw.address),
            inlined: step.inlined,
            looked_past: self.is_looked_past(step),
            nameless: 0,
            named: !step.nameless,
            allocates: step.kind == FunctionKind::Allocator,
        }
    }

    /// Names of the other functions that have the same code.
    pub fn folded(&self, id: FunctionId) -> Vec<String> {
        let frame = self.functions[id.0 as usize].folded.map(|frame| &self.profile.frames[frame.0 as usize]);
        frame.and_then(|frame| frame.folded).map_or(Vec::new(), |names| self.one_code(names))
    }

    fn one_code(&self, names: StringId) -> Vec<String> {
        self.profile.strings.get(names).lines().map(str::to_owned).collect()
    }

    pub fn stack(&self, stack: StackId) -> Stack {
        let mut frames: Vec<Frame> = self.steps(stack).map(|s| self.frame(s)).collect();
        if let Some((at, named)) = self.named_at(stack)
            && let Some(frame) = frames.get_mut(at)
        {
            frame.nameless = named.nameless;
        }
        Stack { frames, cut: self.profile.stacks.is_cut(stack) || stack == Stacks::CUT_ROOT }
    }
}

/// Whether a function's name without its arguments is also that of one of `others`.
pub(crate) fn reads_like_another(function: &str, others: &[String]) -> bool {
    !others.is_empty() && others.iter().any(|other| names::short(other) == names::short(function))
}

fn module_path(profile: &Profile, module: Option<ModuleId>) -> Option<&str> {
    profile.modules.get(module?.0 as usize).map(|m| m.path.as_str())
}

/// The names by which all processes of an executable executed it, where they agree.
fn executed(profile: &Profile) -> Vec<(ModuleId, &str)> {
    let mut names: FxHashMap<&str, &str> = FxHashMap::default();
    for process in &profile.processes {
        let name = names.entry(&process.executable).or_insert(&process.executed_as);
        if *name != process.executed_as {
            *name = "";
        }
    }
    let modules = profile.modules.iter().enumerate();
    let named = modules.map(|(number, module)| (number, names.get(module.path.as_str()).copied().unwrap_or_default()));
    named.filter(|(_, name)| !name.is_empty()).map(|(number, name)| (ModuleId(number as u32), name)).collect()
}

/// The name of a frame without a function's name, in filters and exports.
pub fn place_name(profile: &Profile, frame: &Raw) -> String {
    place_named(module_path(profile, frame.module), beginning(frame))
}

/// The beginning of the frame's function, where that is known; else the address of the call.
fn beginning(frame: &Raw) -> u64 {
    frame.start.unwrap_or(frame.address)
}

fn place_named(path: Option<&str>, address: u64) -> String {
    match path {
        Some(path) => format!("{}+{address:#x}", path.rsplit('/').next().unwrap_or(path)),
        None => format!("{address:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Functions;
    use crate::testing::{Builder, blocks};

    #[test]
    fn a_closure_that_was_put_into_std_is_the_place() {
        let run = "std::sys::backtrace::__rust_begin_short_backtrace";
        let of_app = format!("{run}::<app::main::{{closure#0}}, usize>!app");
        let outer = ["core::ops::function::FnOnce::call_once{{vtable.shim}}!app", "start_thread!libc.so.6"];
        let inner = ["malloc!libc.so.6", "alloc::raw_vec::finish_grow!app", "alloc::vec::Vec::push!app"];
        let named = |frames: &[&str]| {
            let mut b = Builder::default();
            let p = b.process(1, &["app"], 10);
            let stack = b.stack(frames);
            b.site(p, frames, blocks(9, 8, 0, 0));
            let functions = Functions::new(&b.profile);
            let named = functions.named(stack).expect("a place");
            let name = |step: super::Step| crate::names::short(&functions.name(step.function));
            (name(named.step), named.through.map(name))
        };
        let through = Some("alloc::vec::Vec::push".to_owned());
        let place = |name: &str| (name.to_owned(), through.clone());
        assert_eq!(named(&[&inner[..], &[&of_app], &outer].concat()), place("app::main::{closure#0}"));
        let legacy = format!("{run}!app");
        assert_eq!(named(&[&inner[..], &[&legacy], &outer].concat()), place("{closure inlined into std}"));
        // One that has a frame of its own is the place as ever.
        assert_eq!(named(&[&inner[..], &["app::fill!app", &of_app], &outer].concat()), place("app::fill"));
    }
}
