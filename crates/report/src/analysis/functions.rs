//! Stacks as sequences of functions: inlined functions are functions, and each knows how interesting it is.

use mallow_profile::{Frame as Raw, FrameId, ModuleId, Profile, StackId, Stacks, StringId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::interest::{Interest, interest, measures};
use super::wrappers::{DEPTH, Passage, Request, wrappers};

/// Index of a function in [`Functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionId(pub u32);

/// One function of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub function: FunctionId,
    pub interest: Interest,
    /// It only passes requests on to the allocator, as the stacks of the profile show.
    pub wrapper: bool,
    /// No name is known, the address alone.
    pub nameless: bool,
    name: Option<StringId>,
    pub module: Option<ModuleId>,
    file: Option<StringId>,
    pub line: u32,
    pub frame: FrameId,
    pub inlined: bool,
}

impl Step {
    /// Views look past it, from its callers to the allocator.
    pub fn is_looked_past(&self) -> bool {
        self.interest != Interest::Own || self.wrapper
    }

    /// The compiler put it into the next one.
    pub fn inlined(&self) -> bool {
        self.inlined
    }

    /// The frame that it is in.
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// Its name, where one is known.
    pub fn name(&self) -> Option<StringId> {
        self.name
    }

    /// Its source file.
    pub fn file(&self) -> Option<StringId> {
        self.file
    }

    /// Steps with equal keys read the same.
    pub fn text_key(&self, cut: bool) -> (FunctionId, Option<StringId>, u32, bool) {
        (self.function, self.file, self.line, cut)
    }
}

/// The function that a site is named by, and how the program got from it to the allocator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub step: Step,
    /// The function that it called to get its memory, where that is more than an allocating function.
    pub through: Option<Step>,
}

impl Named {
    /// Sites with equal keys are of one place: one line of one function.
    pub fn key(&self) -> (FunctionId, Option<StringId>, u32) {
        (self.step.function, self.step.file, self.step.line)
    }
}

/// A function in a stack, as reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Demangled name, or `module+0xoffset` where none is known.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// Source line.
    pub line: Option<u32>,
    /// Path of the ELF file.
    pub module: Option<String>,
    /// Link-time address in the module, in hexadecimal; the plain address without a module.
    pub address: String,
    /// The compiler put this function into the next one.
    pub inlined: bool,
    /// It only passes the request on, and reports look past it.
    pub looked_past: bool,
    /// `function` is a name, and not an address.
    #[serde(skip)]
    pub named: bool,
}

/// A whole stack, as reports show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// The innermost function first.
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

    /// Those of them that called `frame`, without those that have no name, if others have.
    pub fn callers_of(&self, frame: &Frame) -> Vec<&Frame> {
        let own = self.own();
        let from = own.iter().position(|f| f.function == frame.function).map_or(0, |at| at + 1);
        let callers = &own[from.min(own.len())..];
        let named: Vec<_> = callers.iter().copied().filter(|f| f.named).collect();
        if named.is_empty() { callers.to_vec() } else { named }
    }
}

/// A stack, as reports show it. For single ones: it costs a pass over the profile's frames.
pub fn stack_of(profile: &Profile, stack: StackId) -> Stack {
    Functions::new(profile).stack(stack)
}

struct Function {
    /// None: known by its address alone, that of `frame`.
    name: Option<StringId>,
    file: Option<StringId>,
    module: Option<ModuleId>,
    frame: FrameId,
}

/// The functions of a profile. Made once for a report; costs a pass over the frames.
pub(crate) struct Functions<'a> {
    profile: &'a Profile,
    functions: Vec<Function>,
    steps: Vec<Step>,
    /// Of each frame, where its steps begin; one more entry at the end.
    starts: Vec<u32>,
    /// Frames of which the innermost part runs a measured region, and has no steps.
    measuring: FxHashSet<FrameId>,
}

/// The name of a function of which only file and line are known, as symbol tables and debuggers have it.
const UNKNOWN: &str = "??";

/// Functions with equal keys are one. A name alone is not enough: files have static functions of the same name.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    InFile(StringId, StringId),
    InModule(StringId, Option<ModuleId>),
    Address(Option<ModuleId>, u64),
}

impl<'a> Functions<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        let mut ids: FxHashMap<Key, (FunctionId, Interest)> = FxHashMap::default();
        let (functions, steps, starts, measuring) = (Vec::new(), Vec::new(), vec![0], FxHashSet::default());
        let mut it = Self { profile, functions, steps, starts, measuring };
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
                    while it.steps.len() > first && it.steps.last().is_some_and(|s| s.interest == Interest::Runtime) {
                        it.steps.pop();
                    }
                    if it.steps.len() == first {
                        it.measuring.insert(frame);
                    }
                    continue;
                }
                let key = match (name, file) {
                    (Some(name), Some(file)) => Key::InFile(name, file),
                    (Some(name), None) => Key::InModule(name, raw.module),
                    (None, _) => Key::Address(raw.module, raw.address),
                };
                let (function, interest) = *ids.entry(key).or_insert_with(|| {
                    it.functions.push(Function { name, file, module: raw.module, frame });
                    let module = module_path(profile, raw.module);
                    (FunctionId(it.functions.len() as u32 - 1), interest(name.map(text), file.map(text), module))
                });
                it.steps.push(Step {
                    function,
                    interest,
                    wrapper: false,
                    nameless: name.is_none(),
                    name,
                    module: raw.module,
                    file,
                    line,
                    frame,
                    inlined: depth + 1 < lines.len(),
                });
            }
            it.starts.push(it.steps.len() as u32);
        }
        it.find_wrappers();
        it
    }

    /// Costs some passes over the sites, and the innermost functions of each.
    fn find_wrappers(&mut self) {
        let found = wrappers(self.functions.len(), |each| {
            let mut request = Request::default();
            for site in &self.profile.sites {
                let (counts, patterns) = (&site.counts, &site.patterns);
                let mean = counts.allocated_bytes.checked_div(counts.allocations).unwrap_or(0);
                let known = patterns.largest > 0 && patterns.smallest <= patterns.largest;
                request.sizes = if known { (patterns.smallest, patterns.largest) } else { (mean, mean) };
                request.number = counts.allocations;
                self.passages(site.stack, &mut request.passages);
                each(&request);
            }
        });
        for step in &mut self.steps {
            step.wrapper = step.interest == Interest::Own && found[step.function.0 as usize];
        }
    }

    /// The innermost functions of the program's own, each once where it calls itself.
    fn passages(&self, stack: StackId, into: &mut Vec<Passage>) {
        /// Frames of the language's library between two of them are few.
        const STEPS: usize = 8 * DEPTH;
        into.clear();
        let mut direct = true;
        for step in self.steps(stack).take(STEPS) {
            match step.interest {
                Interest::Allocator => {}
                Interest::Runtime => direct = false,
                Interest::Own => {
                    let line = match step.file {
                        Some(file) if step.line > 0 => u64::from(file.0) << 32 | u64::from(step.line),
                        _ => 1 << 63 | u64::from(step.frame.0),
                    };
                    let function = step.function.0;
                    // What the compiler split and put together again calls itself.
                    if into.last().is_none_or(|inner| inner.function != function) {
                        into.push(Passage { function, line, direct });
                    }
                    direct = true;
                }
            }
            if into.len() == DEPTH {
                break;
            }
        }
    }

    /// How many functions there are; their ids are below it.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// The functions of a stack, the innermost first. A frame that the profile does not have is passed over.
    pub fn steps(&self, stack: StackId) -> impl Iterator<Item = &Step> {
        self.profile.stacks.frames(stack).flat_map(|frame| self.steps_of(frame))
    }

    /// The functions of a frame, the innermost first; none of one that the profile does not have.
    pub fn steps_of(&self, frame: FrameId) -> &[Step] {
        let at = frame.0 as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => &self.steps[from as usize..to as usize],
            _ => &[],
        }
    }

    /// All functions of a stack, the innermost first, without what a measured region is run by: the language's own
    /// between the program's function and that, too.
    pub fn steps_measured(&self, stack: StackId) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for frame in self.profile.stacks.frames(stack) {
            if self.measuring.contains(&frame) {
                let kept = steps.iter().rposition(|step| step.interest != Interest::Runtime).map_or(0, |at| at + 1);
                steps.truncate(kept);
            }
            steps.extend(self.steps_of(frame));
        }
        steps
    }

    /// True for a function of this module of which the name is known.
    pub fn is_named_in(&self, id: FunctionId, module: Option<ModuleId>) -> bool {
        let f = &self.functions[id.0 as usize];
        f.name.is_some() && f.module == module
    }

    /// What the site of this stack is named by; None for a stack without frames.
    ///
    /// The innermost function of the program's own that is no wrapper. Where that has no name (a static function of a stripped library),
    /// the first of its module that has one: the same few addresses would stand for everything otherwise. Where there is
    /// no function of the program's own (the dynamic linker at work, say), the outermost wrapper, or the innermost of the runtime that is no
    /// allocating function, and at last the innermost of all.
    pub fn named(&self, stack: StackId) -> Option<Named> {
        self.named_at(stack).map(|(_, named)| named)
    }

    /// As [`Self::named`], with its position among the steps of the stack.
    pub fn named_at(&self, stack: StackId) -> Option<(usize, Named)> {
        let mut runtime = None;
        let mut wrapper = None;
        let mut through = None;
        let mut nameless: Option<(usize, Named)> = None;
        for (at, &step) in self.steps(stack).enumerate() {
            match (step.interest, nameless) {
                (Interest::Own, None) if step.wrapper => {
                    wrapper = Some((at, step));
                    through = if step.nameless { through } else { Some(step) };
                }
                (Interest::Own, Some(_)) if step.wrapper => {}
                (Interest::Own, None) if step.nameless => nameless = Some((at, Named { step, through })),
                (Interest::Own, None) => return Some((at, Named { step, through })),
                (Interest::Own, Some(_)) if step.nameless => {}
                (Interest::Own, Some((_, inner))) if step.module == inner.step.module => {
                    return Some((at, Named { step, through: inner.through }));
                }
                (Interest::Runtime, None) => {
                    runtime = runtime.or(Some((at, step)));
                    through = if step.nameless { through } else { Some(step) };
                }
                (Interest::Own, Some(inner)) => return Some(inner),
                (Interest::Runtime, Some(_)) | (Interest::Allocator, _) => {}
            }
        }
        let step = wrapper.or(runtime).or_else(|| self.steps(stack).next().map(|&step| (0, step)));
        nameless.or(step.map(|(at, step)| (at, Named { step, through: None })))
    }

    /// The name of a function: `module+0xoffset` where none is known.
    pub fn name(&self, id: FunctionId) -> String {
        let f = &self.functions[id.0 as usize];
        match f.name {
            Some(name) => self.profile.strings.get(name).to_owned(),
            None => place_name(self.profile, &self.profile.frames[f.frame.0 as usize]),
        }
    }

    /// The name of a function, where one is known.
    pub fn known_name(&self, id: FunctionId) -> Option<&str> {
        self.functions[id.0 as usize].name.map(|name| self.profile.strings.get(name))
    }

    /// Source file of a function.
    pub fn file(&self, id: FunctionId) -> Option<String> {
        self.functions[id.0 as usize].file.map(|f| self.profile.strings.get(f).to_owned())
    }

    /// Path of the module of a function.
    pub fn module(&self, id: FunctionId) -> Option<String> {
        module_path(self.profile, self.functions[id.0 as usize].module).map(str::to_owned)
    }

    /// Path of a module.
    pub fn module_path(&self, module: ModuleId) -> Option<&str> {
        module_path(self.profile, Some(module))
    }

    /// A step, as reports show it.
    pub fn frame(&self, step: &Step) -> Frame {
        let raw = &self.profile.frames[step.frame.0 as usize];
        Frame {
            function: self.name(step.function),
            file: step.file.map(|f| self.profile.strings.get(f).to_owned()),
            line: (step.line > 0).then_some(step.line),
            module: module_path(self.profile, raw.module).map(str::to_owned),
            address: format!("{:#x}", raw.address),
            inlined: step.inlined,
            looked_past: step.is_looked_past(),
            named: !step.nameless,
        }
    }

    /// A whole stack, as reports show it.
    pub fn stack(&self, stack: StackId) -> Stack {
        Stack {
            frames: self.steps(stack).map(|s| self.frame(s)).collect(),
            cut: self.profile.stacks.is_cut(stack) || stack == Stacks::CUT_ROOT,
        }
    }
}

fn module_path(profile: &Profile, module: Option<ModuleId>) -> Option<&str> {
    profile.modules.get(module?.0 as usize).map(|m| m.path.as_str())
}

pub(crate) fn place_name(profile: &Profile, frame: &Raw) -> String {
    match module_path(profile, frame.module) {
        Some(path) => format!("{}+{:#x}", path.rsplit('/').next().unwrap_or(path), frame.address),
        None => format!("{:#x}", frame.address),
    }
}
