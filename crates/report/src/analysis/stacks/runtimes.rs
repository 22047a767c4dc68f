//! What interpreters and libraries keep to their end by design: suppressions that come with Mallow.
//!
//! CPython, perl and the like free at their exit what they must and leave the rest to the kernel. A rule takes a block
//! only if all code between its allocation and the entry of the interpreter, or the outermost frame, is the
//! interpreter's own: an extension module, a library that it calls, or a program with functions of the same names in a
//! module of its own is never taken. Where an interpreter loses no block in an empty program, as valgrind sees it too,
//! lost blocks are reported whatever their stacks are; where it loses blocks of one kind, all others are.

use std::collections::BTreeMap;

use mallow_profile::{ModuleId, ProcessId, Profile, Site, StackId};

use super::functions::Functions;
use crate::analysis::time::live_moment::LiveMoment;

/// The blocks that one interpreter, runtime or library keeps.
#[derive(Debug)]
struct Rule {
    keeper: &'static str,
    /// The kept things and the reason, for people.
    what: &'static str,
    /// Paths of the keeper's modules: `#` is a version, or nothing; `*` is any text. Without a slash, the file's name.
    modules: &'static [&'static str],
    /// Prefixes of names of the keeper's functions in any module: code that is linked into each program.
    linked: &'static [&'static str],
    /// Prefixes of names, of which a function of the keeper on the stack must have one. Empty where its modules alone
    /// are proof.
    marks: &'static [&'static str],
    /// Functions of the keeper's modules that a program calls to start it, or to have made what it keeps: callers do
    /// not matter. A `*` at the end stands for any end.
    entries: &'static [&'static str],
    /// Whether a stack without entries counts, all of whose frames are the keeper's.
    is_program: bool,
    /// Whether the keeper loses blocks in an empty program, so that none that this rule takes is a leak.
    may_lose: bool,
}

const RULES: [Rule; 11] = [
    Rule {
        keeper: "CPython",
        what: "what the interpreter has for itself and for Python code",
        modules: &["python#", "libpython#.so#", "*/lib-dynload/*.so"],
        linked: &[],
        marks: &["Py", "_Py"],
        // `new_arena`: the table of pymalloc's arenas grows in whoever's call needs the next one.
        entries: &["Py_BytesMain", "Py_Main", "Py_RunMain", "Py_Initialize*", "Py_Finalize*", "new_arena"],
        is_program: true,
        may_lose: false,
    },
    Rule {
        keeper: "perl",
        what: "what the interpreter has for itself and for Perl code; it frees little at its exit (PERL_DESTRUCT_LEVEL)",
        modules: &["perl#", "libperl.so#", "*/perl/#/auto/*.so", "*/perl-base/auto/*.so"],
        linked: &[],
        marks: &["perl_", "Perl_", "PerlIO", "boot_"],
        entries: &["perl_construct", "perl_parse", "perl_run", "perl_alloc"],
        is_program: true,
        may_lose: true,
    },
    Rule {
        keeper: "ruby",
        what: "what the interpreter has for itself and for Ruby code; it frees little at its exit (RUBY_FREE_AT_EXIT)",
        modules: &["ruby#", "libruby#.so#", "libruby-#.so#", "*/ruby/#/*.so"],
        linked: &[],
        marks: &["ruby", "rb_", "Init_", "libruby"],
        entries: &["ruby_setup", "ruby_init", "ruby_options", "ruby_process_options", "ruby_run_node", "ruby_sysinit"],
        is_program: true,
        may_lose: true,
    },
    Rule {
        keeper: "Node.js",
        what: "what node, V8, libuv and OpenSSL in it keep",
        modules: &["node", "nodejs", "libnode.so#"],
        linked: &[],
        marks: &["node::", "v8::", "uv_"],
        entries: &["node::Start*"],
        is_program: true,
        may_lose: false,
    },
    Rule {
        keeper: "the JVM",
        what: "what the virtual machine and its own libraries keep",
        modules: &["libjvm.so", "libjli.so", "*/jvm/*/bin/java", "*/jvm/*/lib/*.so"],
        linked: &[],
        marks: &[],
        entries: &["JNI_CreateJavaVM*", "JLI_Launch*"],
        is_program: true,
        may_lose: true,
    },
    Rule {
        keeper: "bash",
        what: "variables, functions and the script; it frees nothing at its exit",
        modules: &["*/bin/bash"],
        linked: &[],
        marks: &[
            "initialize_",
            "set_",
            "parse_and_execute",
            "execute_",
            "reader_loop",
            "tilde_initialize",
            "cmd_init",
            "uwp_init",
            "xmalloc",
            "bind_",
            "shell_",
        ],
        entries: &[],
        is_program: true,
        may_lose: false,
    },
    Rule {
        keeper: "GLib",
        what: "its types, quarks and interned strings, which it never frees",
        modules: &[
            "libglib-2.0.so#",
            "libgobject-2.0.so#",
            "libgio-2.0.so#",
            "libgmodule-2.0.so#",
            "libgthread-2.0.so#",
        ],
        linked: &[],
        marks: &[],
        entries: &[
            "g_type_register_*",
            "g_type_add_interface_*",
            "g_type_class_ref",
            "g_type_ensure",
            "g_type_init*",
            "g_quark_from_*",
            "g_intern_*",
            "g_enum_register_static",
            "g_flags_register_static",
            "g_get_language_names*",
            "g_get_charset",
            "g_get_filename_charsets",
        ],
        is_program: false,
        may_lose: false,
    },
    Rule {
        keeper: "fontconfig",
        what: "its configuration and the list of fonts, which it keeps until FcFini",
        modules: &["libfontconfig.so#", "libexpat.so#", "libfreetype.so#"],
        linked: &[],
        marks: &[],
        entries: &["FcInit*", "FcConfigGetCurrent", "FcConfigReference"],
        is_program: false,
        may_lose: false,
    },
    Rule {
        keeper: "Rust's runtime",
        what: "what it has before main of each program, as the main thread's name",
        modules: &[],
        linked: &["std::", "alloc::", "core::", "<std::", "<alloc::", "<core::", "__rust_", "__rdl_", "__rustc::"],
        marks: &[],
        entries: &["std::rt::init", "std::rt::lang_start_internal"],
        is_program: false,
        may_lose: false,
    },
    Rule {
        keeper: "glibc",
        what: "the time zone, which localtime and its like read once",
        modules: &["libc.so#"],
        linked: &[],
        marks: &[],
        entries: &["localtime*", "gmtime*", "mktime*", "timelocal", "tzset*", "__tz_convert"],
        is_program: false,
        may_lose: false,
    },
    Rule {
        keeper: "glibc",
        what: "buffers of streams that are open at the end, as stdout is",
        modules: &["libc.so#"],
        linked: &[],
        marks: &[],
        entries: &["_IO_file_doallocate"],
        is_program: false,
        may_lose: false,
    },
];

/// Modules that any keeper calls: the C library, the dynamic linker, the C++ library.
const BELOW: [&str; 10] = [
    "libc.so#",
    "libm.so#",
    "libdl.so#",
    "libpthread.so#",
    "librt.so#",
    "ld-linux-x86-64.so#",
    "libstdc++.so#",
    "libgcc_s.so#",
    "libz.so#",
    "[vdso]",
];

/// Index into [`RULES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::analysis) struct RuleId(u8);

impl RuleId {
    /// The rule of CPython, which keeps the immortal strings.
    pub const CPYTHON: Self = Self(0);
    /// The rule of streams' buffers.
    const STREAMS: Self = Self(RULES.len() as u8 - 1);

    fn rule(self) -> &'static Rule {
        &RULES[usize::from(self.0) % RULES.len()]
    }

    pub fn keeper(self) -> &'static str {
        self.rule().keeper
    }

    /// Whether the keeper keeps lost blocks, too.
    pub fn may_lose(self) -> bool {
        self.rule().may_lose
    }

    pub fn what(self) -> &'static str {
        self.rule().what
    }

    /// Whether all that the rule takes is known to be kept by design. Of an interpreter it is not: what its script
    /// keeps, or leaks, has the same stacks.
    pub fn is_judged(self) -> bool {
        !self.rule().is_program
    }
}

/// Whether a module, by its path, is an interpreter's, a virtual machine's or one of their own libraries'.
pub(in crate::analysis) fn is_interpreter(path: &str) -> bool {
    let programs = RULES.iter().filter(|rule| rule.is_program);
    programs.flat_map(|rule| rule.modules).any(|pattern| is_module(pattern, path))
}

/// A set of rules, with the bit of each one's index in [`RULES`].
type Rules = u16;
const ALL: Rules = (1 << RULES.len()) - 1;

/// The rules with keepers that are linked into programs.
const LINKED: Rules = {
    let (mut all, mut at) = (0, 0);
    while at < RULES.len() {
        all |= if RULES[at].linked.is_empty() { 0 } else { 1 << at };
        at += 1;
    }
    all
};

/// What calls a Rust program's own main, and is part of the standard library as all around it.
const CALLS_MAIN: &str = "__rust_begin_short_backtrace";

/// Streams that a process opens without being asked. Of more, some are the program's, which did not close them.
const STANDARD_STREAMS: u64 = 3;

pub(in crate::analysis) struct Runtimes<'a> {
    functions: &'a Functions<'a>,
    /// By module, the rules that it does not contradict, and the rules of which it is one of the keeper's modules.
    modules: Vec<(Rules, Rules)>,
    /// By process, the number of live buffers of streams.
    buffers: BTreeMap<ProcessId, u64>,
}

impl<'a> Runtimes<'a> {
    /// None where the profile is not one of processes that ended.
    pub fn of(profile: &Profile, functions: &'a Functions<'a>) -> Option<Self> {
        let of_module = |path: &str| {
            let is_own = |rule: &Rule| rule.modules.iter().any(|pattern| is_module(pattern, path));
            let own = rules_where(is_own);
            let below = BELOW.iter().any(|pattern| is_module(pattern, path));
            (if below { ALL } else { own }, own)
        };
        // What a process has that runs on is kept to no end: it may be what it grows by.
        if LiveMoment::of(profile) != LiveMoment::End {
            return None;
        }
        let modules: Vec<_> = profile.modules.iter().map(|module| of_module(&module.path)).collect();
        let mut it = Self { functions, modules, buffers: BTreeMap::new() };
        let mut buffers: BTreeMap<ProcessId, u64> = BTreeMap::new();
        for site in profile.sites.iter().filter(|site| site.counts.live > 0) {
            if it.rule_among(ALL, site.stack) == Some(RuleId::STREAMS) {
                let sum = buffers.entry(site.process).or_default();
                *sum = sum.saturating_add(site.counts.live);
            }
        }
        it.buffers = buffers;
        Some(it)
    }

    /// The rule that takes what was allocated at a site; None where none does.
    pub fn rule_of(&self, site: &Site) -> Option<RuleId> {
        let rule = self.rule_among(ALL, site.stack);
        let has_own = self.buffers.get(&site.process).is_some_and(|&buffers| buffers > STANDARD_STREAMS);
        match rule == Some(RuleId::STREAMS) && has_own {
            // An interpreter's are its own, whatever its script opened.
            true => self.rule_among(ALL & !(1 << RuleId::STREAMS.0), site.stack),
            false => rule,
        }
    }

    fn rule_among(&self, rules: Rules, stack: StackId) -> Option<RuleId> {
        let (mut possible, mut own, mut marked): (Rules, Rules, Rules) = (rules, 0, 0);
        for step in self.functions.steps(stack) {
            // What a JIT compiler made is in no module.
            let Some(ModuleId(module)) = step.module else { continue };
            let (allowed, mut its) = self.modules.get(module as usize).copied().unwrap_or((0, 0));
            let mut name = None;
            if possible & !allowed & LINKED != 0 {
                let name = name.insert(self.functions.name(step.function));
                its |= linked(name) & possible;
            }
            possible &= allowed | its;
            own |= its & possible;
            if possible == 0 {
                return None;
            }
            if own == 0 {
                continue;
            }
            let name = name.unwrap_or_else(|| self.functions.name(step.function));
            for (at, rule) in (0..).zip(&RULES).filter(|(at, _)| possible & its & (1 << at) != 0) {
                if rule.entries.iter().any(|entry| is_called(entry, &name)) {
                    return Some(RuleId(at));
                }
                if rule.marks.is_empty() || rule.marks.iter().any(|mark| name.starts_with(mark)) {
                    marked |= 1 << at;
                }
            }
        }
        let left = possible & own & marked & rules_where(|rule| rule.is_program);
        (left != 0).then(|| RuleId(left.trailing_zeros() as u8))
    }
}

/// The rules with a keeper of whose functions this is one by its name.
fn linked(name: &str) -> Rules {
    let is_its = |rule: &Rule| rule.linked.iter().any(|start| name.starts_with(start));
    if name.contains(CALLS_MAIN) { 0 } else { rules_where(is_its) }
}

fn rules_where(is: impl Fn(&Rule) -> bool) -> Rules {
    (0..).zip(&RULES).filter(|(_, rule)| is(rule)).fold(0, |all, (at, _)| all | 1 << at)
}

fn is_called(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == entry,
    }
}

/// Whether a module, by its path, is one of a rule's pattern.
fn is_module(pattern: &str, path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    matches(pattern, if pattern.contains('/') { path } else { file })
}

/// `#` matches digits and points, with one point in front where something precedes, and `*` anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some(at) = pattern.find(['#', '*']) else { return pattern == text };
    let Some(rest) = text.strip_prefix(&pattern[..at]) else { return false };
    let after = &pattern[at + 1..];
    let is_version = pattern[at..].starts_with('#');
    let most = match is_version {
        true => rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count(),
        false => rest.len(),
    };
    (0..=most).rev().filter(|&end| rest.is_char_boundary(end)).any(|end| matches(after, &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::{RULES, RuleId, Runtimes, is_module};
    use crate::analysis::Functions;
    use crate::testing::{Builder, blocks};

    /// The keeper of what was allocated with this stack, in a process of a program at this path.
    fn keeper(program: &str, frames: &[&str]) -> Option<&'static str> {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, frames, blocks(1, 8, 0, 1));
        for module in &mut b.profile.modules {
            if module.path == "/usr/bin/program" {
                module.path = program.to_owned();
            }
        }
        let functions = Functions::new(&b.profile);
        let rule = Runtimes::of(&b.profile, &functions)?.rule_of(&b.profile.sites[0]);
        rule.map(RuleId::keeper)
    }

    #[test]
    fn an_interpreter_keeps_what_it_alone_allocated() {
        let start = ["__libc_start_main!libc.so.6", "_start"];
        let stack = |frames: &[&'static str]| [frames, &start].concat();
        for (program, frames, expected) in [
            ("/usr/bin/python3.11", stack(&["+0x628017", "Py_BytesMain"]), Some("CPython")),
            ("/usr/bin/python3", stack(&["PyObject_Malloc", "+0x20", "main"]), Some("CPython")),
            // A shared libpython, in a program of its own or not.
            ("/x/python3", stack(&["init!libpython3.11.so.1.0", "Py_BytesMain!libpython3.11.so.1.0"]), Some("CPython")),
            (
                "/x/game",
                stack(&["f!libpython3.11.so.1.0", "Py_InitializeEx!libpython3.11.so.1.0", "main"]),
                Some("CPython"),
            ),
            ("/x/game", stack(&["PyList_New!libpython3.11.so.1.0", "load_list", "main"]), None),
            // An extension, and a library that one calls.
            (
                "/usr/bin/python3",
                stack(&["PyList_New", "leak!ext.so", "_PyEval_EvalFrameDefault", "Py_BytesMain"]),
                None,
            ),
            ("/usr/bin/python3", stack(&["strdup!libc.so.6", "+0x10!libffi.so.8", "+0x20", "Py_BytesMain"]), None),
            ("/usr/bin/perl", stack(&["Perl_safesysmalloc", "perl_parse", "main"]), Some("perl")),
            ("/usr/bin/node", stack(&["f", "node::Start(int, char**)", "main"]), Some("Node.js")),
            ("/usr/bin/bash", stack(&["initialize_shell_variables", "+0x10", "main"]), Some("bash")),
            ("/x/app", vec!["f!libjvm.so", "start_thread!libc.so.6"], Some("the JVM")),
            // Namesakes of a module, and of functions.
            ("/home/me/node", stack(&["Node::add", "main"]), None),
            ("/home/me/python3", stack(&["load", "main"]), None),
            ("/home/me/app", stack(&["Py_BytesMain", "main"]), None),
            ("/home/me/app", stack(&["perl_parse", "main"]), None),
            ("/home/me/app", stack(&["g_quark_from_string", "main"]), None),
            ("/home/me/bash", stack(&["initialize_tables", "main"]), None),
        ] {
            assert_eq!(keeper(program, &frames), expected, "{program}: {frames:?}");
        }
    }

    #[test]
    fn where_an_empty_program_loses_blocks_all_of_them_are_the_keepers() {
        let of = |name: &str| (0..).zip(&RULES).find(|(_, rule)| rule.keeper == name).map(|(at, _)| RuleId(at));
        let may_lose = |name: &str| of(name).map(RuleId::may_lose);
        assert_eq!(["perl", "CPython", "Node.js"].map(may_lose), [Some(true), Some(false), Some(false)]);
        assert_eq!(of("CPython"), Some(RuleId::CPYTHON));
    }

    #[test]
    fn a_library_keeps_what_a_program_has_it_register() {
        let glib = ["g_malloc!libglib-2.0.so.0", "+0x12!libglib-2.0.so.0"];
        let of = |frames: &[&'static str]| keeper("/x/app", &[&glib[..], frames, &["main"]].concat());
        assert_eq!(of(&["g_quark_from_static_string!libglib-2.0.so.0", "register_errors"]), Some("GLib"));
        assert_eq!(of(&["g_type_register_static!libgobject-2.0.so.0", "my_type_get"]), Some("GLib"));
        // A namesake in the program, and blocks that are the program's.
        assert_eq!(of(&["g_quark_from_string"]), None);
        assert_eq!(of(&["g_strdup!libglib-2.0.so.0", "load"]), None);
        assert_eq!(keeper("/x/app", &["FcInit!libmine.so", "main"]), None);
        let fonts = ["+0x10!libfontconfig.so.1", "FcInitLoadConfigAndFonts!libfontconfig.so.1", "load", "main"];
        assert_eq!(keeper("/x/app", &fonts), Some("fontconfig"));
        let stream = ["_IO_file_doallocate!libc.so.6", "_IO_doallocbuf!libc.so.6", "puts!libc.so.6", "main"];
        assert_eq!(keeper("/x/app", &stream), Some("glibc"));
        assert_eq!(RULES[usize::from(RuleId::STREAMS.0)].keeper, "glibc");
        assert_eq!(keeper("/x/app", &["fopen!libc.so.6", "main"]), None);
        assert_eq!(keeper("/x/app", &["_IO_file_doallocate", "main"]), None);
        assert_eq!(
            keeper("/x/app", &["FcPatternDuplicate!libfontconfig.so.1", "FcFontMatch!libfontconfig.so.1", "f"]),
            None
        );
    }

    /// Of Rust 1.95, with debug information and without.
    #[test]
    fn the_runtime_of_rust_keeps_what_it_makes_before_main() {
        let start = ["std::rt::lang_start_internal", "main", "__libc_start_main!libc.so.6", "_start"];
        let of = |frames: &[&'static str]| keeper("/x/app", &[frames, &start].concat());
        let insert = ["alloc::alloc::alloc", "<alloc::boxed::Box<T>>::new_uninit_in", "std::rt::init"];
        assert_eq!(of(&insert), Some("Rust's runtime"));
        assert_eq!(of(&["std::sys::pal::unix::stack_overflow::thread_info::set_current_info"]), Some("Rust's runtime"));
        // The program's own code, and the library's on its behalf.
        let main =
            ["app::main", "std::sys::backtrace::__rust_begin_short_backtrace::<fn(), ()>", "std::rt::lang_start"];
        assert_eq!(of(&main), None);
        assert_eq!(of(&[&["alloc::alloc::alloc", "std::thread::spawn"][..], &main].concat()), None);
        assert_eq!(of(&["alloc::alloc::alloc", main[1], main[2]]), None);
        assert_eq!(keeper("/x/app", &["alloc::alloc::alloc", "load", "std::rt::init", "main"]), None);
    }

    #[test]
    fn the_c_library_keeps_the_time_zone() {
        let read = ["__tzfile_read!libc.so.6"];
        let of = |frames: &[&'static str]| keeper("/x/app", &[&read[..], frames, &["main"]].concat());
        assert_eq!(of(&["__tz_convert!libc.so.6"]), Some("glibc"));
        assert_eq!(of(&["localtime_r!libc.so.6", "f"]), Some("glibc"));
        assert_eq!((of(&[]), of(&["localtime"])), (None, None));
    }

    /// A program that opens files and closes none has as many buffers as it leaks files.
    #[test]
    fn buffers_of_more_streams_than_there_are_at_first_are_the_programs() {
        let of = |program: &str, frames: &[&str], live: [u64; 2]| {
            let mut b = Builder::default();
            let stream = ["_IO_file_doallocate!libc.so.6", "_IO_doallocbuf!libc.so.6", "fputc!libc.so.6"];
            for (pid, live) in (1..).zip(live) {
                let process = b.process(pid, &["a"], 10);
                b.site(process, &[&stream[..], frames].concat(), blocks(live, 4096, 0, live));
            }
            for module in b.profile.modules.iter_mut().filter(|module| module.path == "/usr/bin/program") {
                module.path = program.to_owned();
            }
            let functions = Functions::new(&b.profile);
            let runtimes = Runtimes::of(&b.profile, &functions).expect("rules");
            [0, 1].map(|site| runtimes.rule_of(&b.profile.sites[site]).map(RuleId::keeper))
        };
        assert_eq!(of("/x/app", &["main"], [3, 500]), [Some("glibc"), None]);
        let of_perl = of("/usr/bin/perl", &["PerlIO_openn", "perl_run", "main"], [3, 500]);
        assert_eq!(of_perl, [Some("glibc"), Some("perl")]);
    }

    #[test]
    fn modules_are_known_by_their_paths() {
        for (pattern, path, expected) in [
            ("python#", "/usr/bin/python3.11", true),
            ("python#", "/usr/bin/python3-config", false),
            ("python#", "/usr/bin/ipython", false),
            ("libpython#.so#", "/usr/lib/libpython3.11.so.1.0", true),
            ("*/lib-dynload/*.so", "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", true),
            ("*/lib-dynload/*.so", "/x/site-packages/ext.cpython-311-x86_64-linux-gnu.so", false),
            ("*/ruby/#/*.so", "/usr/lib/x86_64-linux-gnu/ruby/3.1.0/enc/encdb.so", true),
            ("*/ruby/#/*.so", "/var/lib/gems/3.1.0/gems/x/lib/x.so", false),
            ("*/ruby/#/*.so", "/opt/lib/ruby/gems/3.3.0/gems/x/lib/x.so", false),
            ("*/bin/bash", "/usr/bin/bash", true),
            ("*/bin/bash", "/home/me/bash", false),
        ] {
            assert_eq!(is_module(pattern, path), expected, "{pattern} {path}");
        }
        assert!(RULES.iter().all(|rule| rule.is_program || !rule.entries.is_empty()));
    }
}
