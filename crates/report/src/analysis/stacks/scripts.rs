//! Frames of scripts: code that an interpreter or a JIT compiler runs, named by its perf map.
//!
//! On a stack that has such frames they are the places: what the interpreter calls to serve them (its own functions,
//! those of extension modules and of their libraries) is looked past, as containers are. So is the language's own
//! library (Node's, Java's) and what serves an `import` of Python, where a script called them. Stacks without such
//! frames are not touched.

use mallow_profile::{Frame, FrameId, ModuleId, Profile, StackId};

use super::function_kind::FunctionKind;
use super::step::Step;

/// Prefixes of the file names of interpreters and their libraries; a version, a suffix or nothing follows.
const INTERPRETERS: &[&str] =
    &["python", "libpython", "pypy", "libpypy", "node", "libnode", "libjvm", "java", "libjli", "libjava"];

/// Prefixes of names in perf maps that are parts of the virtual machine, and no functions of a script.
const MACHINE: &[&str] = &[
    // V8's.
    "Builtin:",
    "BytecodeHandler:",
    "Stub:",
    "RegExp:",
    "Handler:",
    "Bytecode:",
    "Wasm:",
    // HotSpot's.
    "Interpreter",
    "StubRoutines",
    "RuntimeStub",
    "I2C/C2I",
    "MethodHandles",
    "MethodHandle adapters",
    "vtable",
    "itable",
    "DeoptimizationBlob",
    "UncommonTrapBlob",
    "ExceptionBlob",
    "SafepointBlob",
    "flush_icache_stub",
    "native signature",
];

const JVM: &str = "libjvm.so";

/// Prefix of the names of files of Node's own library.
const NODE_LIBRARY: &str = "node:";

/// Prefixes of the qualified names of Java's own library.
const JAVA_LIBRARY: &[&str] = &["java.", "javax.", "jdk.", "sun.", "com.sun."];

/// Prefixes of the names of files that serve an `import` of Python.
const IMPORTS: &[&str] = &["<frozen importlib.", "<frozen zipimport>"];

/// Whether a source file serves an `import` of Python: the importing function is the place.
fn imports(file: &str) -> bool {
    IMPORTS.iter().any(|begin| file.starts_with(begin)) || file.ends_with("/importlib/__init__.py")
}

/// Whether the function is of the language's own library that scripts call.
fn is_library(function: &str, file: Option<&str>) -> bool {
    let java = || function.contains('(') && JAVA_LIBRARY.iter().any(|begin| function.starts_with(begin));
    file.map_or_else(java, |file| file.starts_with(NODE_LIBRARY) || imports(file))
}

/// Whether the path is that of an interpreter's program or library, by the shape of its file name: `python3.12`,
/// `libpython3.so.1.0`, `node`.
fn is_interpreter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    INTERPRETERS.iter().any(|begin| {
        name.strip_prefix(begin)
            .is_some_and(|rest| rest.chars().next().is_none_or(|c| c.is_ascii_digit() || ".-".contains(c)))
    })
}

/// Whether the name is that of a part of a virtual machine in its perf map.
fn is_machine(name: &str) -> bool {
    MACHINE.iter().any(|begin| name.starts_with(begin))
}

pub(in crate::analysis) struct Scripts {
    /// By module, whether it is an interpreter's.
    interpreters: Vec<bool>,
    /// By frame, whether it is a part of the virtual machine that its perf map names.
    machine: Vec<bool>,
    /// By frame, whether it serves an `import` of Python.
    imports: Vec<bool>,
    /// By frame, whether it is a function of a script.
    frames: Vec<bool>,
    /// By frame, whether it is a function of a script and of the language's own library.
    library: Vec<bool>,
    /// By stack, whether a frame of it is of a script.
    stacks: Vec<bool>,
    /// By stack, whether a frame of it is of a script and not of the language's own library.
    own_stacks: Vec<bool>,
    /// The steps of all frames, as views have them where a script called them.
    within: Vec<Step>,
    /// The steps of all frames where a script called them that is not the library's: the library's are looked past as
    /// well.
    within_own: Vec<Step>,
    /// The steps of all frames where they are further out than a script's functions.
    around: Vec<Step>,
}

impl Scripts {
    /// None for a profile without an interpreter or without frames of scripts: that costs a look at each frame. `steps`
    /// are those of all frames.
    pub fn find(profile: &Profile, steps: &[Step]) -> Option<Self> {
        let interpreters: Vec<bool> = profile.modules.iter().map(|module| is_interpreter(&module.path)).collect();
        if !interpreters.contains(&true) {
            return None;
        }
        let name = |frame: &Frame| frame.lines.first().map(|line| profile.strings.get(line.function));
        let file = |frame: &Frame| frame.lines.first()?.file.map(|file| profile.strings.get(file));
        // Java's methods have their parameters; whatever else the virtual machine made has not.
        let jvm = profile.modules.iter().any(|module| module.path.ends_with(JVM));
        let machine =
            |frame: &Frame, name: &str| is_machine(name) || jvm && file(frame).is_none() && !name.contains('(');
        let is_script = |frame: &Frame| frame.module.is_none() && name(frame).is_some_and(|name| !machine(frame, name));
        let frames: Vec<bool> = profile.frames.iter().map(is_script).collect();
        if !frames.contains(&true) {
            return None;
        }
        let of_script = |of: &dyn Fn(&Frame) -> bool| -> Vec<bool> {
            profile.frames.iter().zip(&frames).map(|(frame, &script)| script && of(frame)).collect()
        };
        let library = of_script(&|frame| name(frame).is_some_and(|name| is_library(name, file(frame))));
        let imports = of_script(&|frame| file(frame).is_some_and(imports));
        // Callers have lower numbers.
        let stacks_with = |frames: &dyn Fn(usize) -> bool| {
            let mut stacks = vec![false; profile.stacks.len()];
            for number in 0..stacks.len() {
                if let Some((frame, caller)) = profile.stacks.top(StackId(number as u32)) {
                    stacks[number] =
                        frames(frame.0 as usize) || stacks.get(caller.0 as usize).copied().unwrap_or(false);
                }
            }
            stacks
        };
        let script = |frame: usize| frames.get(frame).copied().unwrap_or(false);
        let stacks = stacks_with(&script);
        let own_stacks = stacks_with(&|frame| script(frame) && !library[frame]);
        let machine = |frame: &Frame| frame.module.is_none() && name(frame).is_some_and(|name| machine(frame, name));
        let machine = profile.frames.iter().map(machine).collect();
        let (within, within_own, around) = Default::default();
        let mut it =
            Self { interpreters, machine, imports, frames, library, stacks, own_stacks, within, within_own, around };
        it.set_steps(profile, steps);
        Some(it)
    }

    fn set_steps(&mut self, profile: &Profile, steps: &[Step]) {
        // A program that embeds an interpreter has functions of its own.
        let is_program = |path: &str| profile.processes.iter().any(|process| process.executable == path);
        let modules = profile.modules.iter().zip(&self.interpreters);
        let programs: Vec<bool> =
            modules.map(|(module, interpreter)| !interpreter && is_program(&module.path)).collect();
        let native = |step: &Step| step.module.is_some_and(|m| !programs.get(m.0 as usize).copied().unwrap_or(false));
        let runtime = |step: &Step, looked_past: bool| {
            let mut step = *step;
            if step.kind == FunctionKind::Own && looked_past {
                step.kind = FunctionKind::Runtime;
            }
            step
        };
        self.within = steps.iter().map(|step| runtime(step, native(step) || self.is_machines(step))).collect();
        let library = |step: &Step| at(&self.library, step.frame);
        self.within_own = self.within.iter().map(|step| runtime(step, library(step))).collect();
        self.around = steps.iter().map(|step| runtime(step, self.is_interpreters(step))).collect();
    }

    fn is_machines(&self, step: &Step) -> bool {
        at(&self.machine, step.frame)
    }

    pub fn is_script(&self, step: &Step) -> bool {
        at(&self.frames, step.frame)
    }

    /// Whether the step is a function of an interpreter or a virtual machine, or serves an `import`.
    pub fn is_interpreters(&self, step: &Step) -> bool {
        let of_module = |module: ModuleId| self.interpreters.get(module.0 as usize).copied().unwrap_or(false);
        step.module.is_some_and(of_module) || self.is_machines(step) || at(&self.imports, step.frame)
    }

    /// Whether the stack has frames of a script.
    pub fn is_on(&self, stack: StackId) -> bool {
        self.stacks.get(stack.0 as usize).copied().unwrap_or(false)
    }

    /// The steps of all frames, as they are where `frame` is the innermost of a stack and `caller` the rest of it; None
    /// where they are as elsewhere. `on_stack` says that frames of a script may also be further in.
    pub fn steps(&self, frame: FrameId, caller: StackId, on_stack: bool) -> Option<&[Step]> {
        if self.own_stacks.get(caller.0 as usize).copied().unwrap_or(false) {
            return Some(&self.within_own);
        }
        if self.is_on(caller) {
            return Some(&self.within);
        }
        (on_stack && !at(&self.frames, frame)).then_some(&self.around)
    }
}

fn at(frames: &[bool], frame: FrameId) -> bool {
    frames.get(frame.0 as usize).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::is_interpreter;
    use crate::analysis::{Measure, TopOptions, TreeOptions, overview, top, tree};
    use crate::testing::{Builder, blocks};

    #[test]
    fn interpreters_have_their_name_and_a_version() {
        let known =
            ["/usr/bin/python3.12", "/usr/lib/libpython3.so.1.0", "python", "/bin/node", "libnode.so.115", "libjvm.so"];
        assert!(known.iter().all(|path| is_interpreter(path)));
        let others =
            ["/usr/bin/pythonista", "_json.cpython-312-x86_64-linux-gnu.so", "libnodebug.so", "/opt/python/app"];
        assert!(!others.iter().any(|path| is_interpreter(path)));
    }

    /// What the interpreter calls to serve a script, and what it is called by.
    const INNER: &[&str] = &["list_resize@listobject.c:82!python3.12", "_PyEval_EvalFrameDefault@ceval.c:9!python3.12"];
    const OUTER: &[&str] = &["main@/tmp/np.py:0!", "Py_RunMain@main.c:7!python3.12", "main@python.c:15!python3.12"];

    fn named(b: &Builder) -> Vec<(String, Option<String>, Vec<String>)> {
        let report = overview(&b.profile, 9);
        let place = |place: &crate::analysis::Place| {
            let frame = place.frame.as_ref().expect("a frame");
            let stack = &place.largest_site.stack;
            let callers = stack.callers_of(frame).iter().map(|f| f.function.clone()).collect();
            (frame.function.clone(), place.through.clone(), callers)
        };
        report.largest[0].largest.iter().map(place).collect()
    }

    #[test]
    fn functions_of_scripts_are_the_places() {
        let mut b = Builder::default();
        let p = b.process(1, &["python3.12"], 10);
        b.site(p, &[INNER, &["build@/tmp/np.py:0!"], OUTER].concat(), blocks(9, 8, 0, 0));
        let extension =
            &["default_malloc!_umath.so", "ufunc_call!_umath.so", "_PyEval_EvalFrameDefault@ceval.c:9!python3.12"];
        b.site(p, &[extension, &["reduce@/tmp/np.py:0!"][..], OUTER].concat(), blocks(8, 8, 0, 0));
        b.site(
            p,
            &["stat_entry!Interpreter", "new_dict@dictobject.c:1!python3.12", "main@python.c:15!python3.12"],
            blocks(7, 8, 0, 0),
        );
        let names = named(&b);
        let callers = vec!["main".to_owned()];
        assert_eq!(names[0], ("build".to_owned(), None, callers.clone()));
        assert_eq!(names[1], ("reduce".to_owned(), Some("ufunc_call".to_owned()), callers));
        assert_eq!(names[2].0, "stat_entry", "a stack without frames of a script stays as it is");
        assert_eq!(names[2].2, ["new_dict", "main"]);
        let options = TopOptions { by: Measure::Allocations, cum: true, raw: false, limit: 9 };
        let functions: Vec<_> = top(&b.profile, options).functions.into_iter().map(|f| f.function).collect();
        assert!(
            !functions.iter().any(|f| ["list_resize", "ufunc_call", "Py_RunMain"].contains(&f.as_str())),
            "{functions:?}"
        );
        let raw: Vec<_> =
            top(&b.profile, TopOptions { raw: true, ..options }).functions.into_iter().map(|f| f.function).collect();
        assert!(raw.contains(&"list_resize".to_owned()) && raw.contains(&"ufunc_call".to_owned()), "{raw:?}");
        let options =
            TreeOptions { by: Measure::Allocations, callers: false, raw: false, depth: 99, min: 0, limit: 99 };
        let rows = format!("{:?}", tree(&b.profile, options));
        assert!(rows.contains("build") && !rows.contains("list_resize") && !rows.contains("ufunc_call"), "{rows}");
    }

    #[test]
    fn a_program_that_embeds_an_interpreter_has_places() {
        let mut b = Builder::default();
        let p = b.process(1, &["program"], 10);
        let inner = [
            "app::grow@app.cc:3",
            "_PyEval_EvalFrameDefault!libpython3.12.so.1.0",
            "on_click@/tmp/ui.py:0!",
            "app::run@app.cc:9",
        ];
        b.site(p, &inner, blocks(9, 8, 0, 0));
        assert_eq!(named(&b)[0].0, "app::grow");
        assert_eq!(named(&b)[0].2, ["on_click", "app::run"]);
    }

    #[test]
    fn parts_of_a_virtual_machine_are_no_functions_of_a_script() {
        let mut b = Builder::default();
        let p = b.process(1, &["node"], 10);
        let frames =
            ["node::New!node", "Builtin:HandleApiCall!", "build@/tmp/a.js:0!", "Builtin:JSEntry!", "node::Start!node"];
        b.site(p, &frames, blocks(9, 8, 0, 0));
        b.site(p, &["v8::Grow!node", "Builtin:JSEntry!", "node::Start!node"], blocks(8, 8, 0, 0));
        let names = named(&b);
        assert_eq!((names[0].0.as_str(), names[0].2.len()), ("build", 0));
        assert_eq!((names[1].0.as_str(), names[1].2.len()), ("v8::Grow", 2));
    }

    #[test]
    fn who_imports_a_module_is_the_place() {
        let mut b = Builder::default();
        let p = b.process(1, &["python3.13"], 10);
        let machinery = [
            "new_dict@dictobject.c:1!python3.13",
            "_call_with_frames_removed@<frozen importlib._bootstrap>:0!",
            "_find_and_load@<frozen importlib._bootstrap>:0!",
        ];
        b.site(p, &[&machinery[..], &["<module>@/tmp/np.py:0!"], OUTER].concat(), blocks(9, 8, 0, 0));
        // A function of the module runs when it is imported.
        let module = ["setup@/lib/mod.py:0!", "<module>@/lib/mod.py:0!"];
        b.site(p, &[&module[..], &machinery, OUTER].concat(), blocks(8, 8, 0, 0));
        // No script imported it.
        b.site(p, &[&machinery[..], OUTER.get(1..).expect("two")].concat(), blocks(7, 8, 0, 0));
        let names = named(&b);
        assert_eq!((names[0].0.as_str(), &names[0].1), ("<module>", &None));
        assert_eq!((names[1].0.as_str(), &names[1].2[..]), ("setup", &["<module>".to_owned(), "main".to_owned()][..]));
        assert_eq!((names[2].0.as_str(), &names[2].1), ("_call_with_frames_removed", &None));
    }

    #[test]
    fn the_library_of_a_language_is_looked_past() {
        let mut b = Builder::default();
        let p = b.process(1, &["node"], 10);
        let inner = ["node::New!node", "createUnsafeBuffer@node:internal/buffer:0!", "alloc@node:buffer:0!"];
        let outer = ["Module._compile@node:internal/modules/cjs/loader:0!", "node::Start!node"];
        b.site(p, &[&inner[..], &["build@/tmp/a.js:0!"], &outer].concat(), blocks(9, 8, 0, 0));
        b.site(p, &[&inner[..], &outer].concat(), blocks(8, 8, 0, 0));
        let names = named(&b);
        assert_eq!((names[0].0.as_str(), names[0].1.as_deref()), ("build", Some("alloc")));
        assert_eq!(names[1].0, "createUnsafeBuffer", "of the library alone");
        let mut b = Builder::default();
        let p = b.process(1, &["java"], 10);
        let frames = [
            "deflateInit2_!libz.so.1",
            "java.util.zip.Deflater.init(int, int, boolean)!",
            "java.util.zip.Deflater.<init>(int)!",
            "Store.compress(int)!",
            "StubRoutines (1)!",
            "new_instance Runtime1 stub!",
            "JavaCalls::call_helper!libjvm.so",
        ];
        b.site(p, &frames, blocks(9, 8, 0, 0));
        b.site(p, &["os::malloc!libjvm.so", "resolve_static_call!", "JavaMain!libjli.so"], blocks(8, 8, 0, 0));
        let names = named(&b);
        assert_eq!(names[0].0, "Store.compress(int)");
        assert_eq!(names[0].1.as_deref(), Some("java.util.zip.Deflater.<init>(int)"));
        assert_eq!(names[0].2, [""; 0], "what the virtual machine made is no caller");
    }
}
