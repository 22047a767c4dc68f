//! Properties of a program, from its ELF file.

use super::c_library;
use super::families::{self, Family, seeming};
use super::finding::{Finding, Status};
use super::inlined::{APART, malloc_inlined_into};
use super::purpose::{Purpose, STRIPPED};
use super::rights;
use crate::tables::{self, TableError};
use crate::wire;
use mallow_arch::machine::{self, NAME};
use mallow_arch::machine_name;
use mallow_profile::AllocatorKind;
use mallow_symbols::demangled;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "program";
pub(super) const ALLOCATOR: &str = "allocator";
const RUNTIME: &str = "runtime";
const UNWINDING: &str = "stacks";

/// All checks of a program, up to the first one after which others make no sense. `settings` are variables that are set
/// for the program alone.
pub(super) fn check(path: &Path, settings: &[(OsString, OsString)]) -> Vec<Finding> {
    let mut all: Vec<Finding> = rights::check(path).into_iter().collect();
    let shown = path.display();
    let bytes = match tables::map(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            all.push(Finding::partly(PROGRAM, format!("{shown} cannot be looked into: {error}"), "let it be read"));
            return all;
        }
    };
    match dynamic_program(path, &bytes) {
        Err(finding) => all.push(finding),
        Ok((file, linker)) => {
            all.push(Finding::works(PROGRAM, format!("{shown}, {NAME}, dynamically linked")));
            match c_library::check(path, &linker) {
                finding if finding.is_fatal() => all.push(finding),
                finding => {
                    all.push(finding);
                    let facts = Facts::of(&file);
                    all.extend([allocator(path, &facts, true), unwinding(path, &bytes)]);
                    let set = |name: &str| {
                        let here = settings.iter().rev().find(|(set, _)| set.as_os_str() == OsStr::new(name));
                        here.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name)).unwrap_or_default()
                    };
                    all.extend(runtime(path, &facts, &set));
                }
            }
        }
    }
    all
}

/// Allocators above malloc of a program that ran, as [`check`] has them, unless all of their blocks are seen.
/// `settings` are what its environment says (`wire::SETTING_…`), and `arguments` may say that it does not look there.
/// `inside`: what the file says of an allocator inside counts; otherwise that is known better.
pub(super) fn above_malloc(
    path: &Path,
    facts: &Facts,
    arguments: &[String],
    settings: u32,
    inside: bool,
) -> Vec<Finding> {
    let set = |name: &str| match name {
        "PYTHONMALLOC" if settings & wire::SETTING_PYTHON_MALLOC != 0 && !ignores_environment(arguments) => {
            "malloc".into()
        }
        "USE_ZEND_ALLOC" if settings & wire::SETTING_ZEND_MALLOC != 0 => "0".into(),
        _ => OsString::new(),
    };
    let all = [inside.then(|| allocator(path, facts, false)), runtime(path, facts, &set)];
    all.into_iter().flatten().filter(|finding| finding.status != Status::Works).collect()
}

/// Whether Python ignores its environment variables, by -E or -I.
fn ignores_environment(arguments: &[String]) -> bool {
    for option in arguments.iter().skip(1) {
        let Some(letters) = option.strip_prefix('-').filter(|letters| !letters.is_empty() && !letters.starts_with('-'))
        else {
            return false;
        };
        // What follows one of these letters is its value; c and m end the options.
        let end = letters.find(['c', 'm', 'W', 'X']).unwrap_or(letters.len());
        if letters[..end].contains(['E', 'I']) {
            return true;
        }
        if letters[end..].starts_with(['c', 'm']) {
            return false;
        }
    }
    false
}

/// What hides a program that runs: as [`check`] has it, and nothing that is a matter of degree. `patched`: allocators
/// inside are, at its start.
pub(super) fn out_of_sight(path: &Path, patched: bool) -> Option<Finding> {
    let bytes = tables::map(path).ok()?;
    let seen = || match dynamic_program(path, &bytes) {
        Err(finding) => Some(finding),
        Ok((file, _)) => Some(allocator(path, &Facts::of(&file), patched)).filter(Finding::is_fatal),
    };
    rights::check(path).or_else(seen)
}

/// A remedy: what shows the heap of a Go program, and what limits it.
pub const GO_HEAP: &str = "mallow go profile --live explains its heap profiles, those of runtime/pprof and of \
     http://HOST:PORT/debug/pprof/heap; GOMEMLIMIT limits the heap";

/// A sentence: which blocks of a program are never picked. That is all, where the library cannot be loaded; those of an
/// allocator inside; or of the operators of one that is a library.
pub(super) fn unpicked(path: &Path, purpose: Purpose) -> Option<String> {
    if let Some(finding) = out_of_reach(path) {
        return Some(format!("nothing of it is seen: {}", finding.sentence()));
    }
    let facts = Facts::of_file(path)?;
    let shown = path.display();
    if let Some(name) = facts.allocator_inside() {
        let remedy = purpose.before(facts.hides_allocator());
        return Some(format!("{shown} has {name} inside, which is not {}; {remedy}", purpose.done()));
    }
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    let preloaded = preloaded.split([':', ' ']).map(|library| library.rsplit('/').next().unwrap_or(library));
    let has_operators =
        |library: &&str| ["libjemalloc", "libtcmalloc", "libmimalloc"].iter().any(|name| library.starts_with(name));
    let library = preloaded.chain(facts.needs.iter().map(String::as_str)).find(has_operators);
    let library = library.filter(|_| facts.uses_operators)?;
    let (done, remedy) = (purpose.done(), purpose.before(false));
    Some(format!("{shown} uses operator new of {library}, which is not {done}; {remedy}"))
}

/// What of a program's headers prevents loading libmallow.so into it.
pub(super) fn out_of_reach(path: &Path) -> Option<Finding> {
    let bytes = tables::map(path).ok()?;
    dynamic_program(path, &bytes).err()
}

/// [`runtime`] of a file.
pub(super) fn runtime_of(path: &Path, set: &dyn Fn(&str) -> OsString) -> Option<Finding> {
    Facts::of_file(path).and_then(|facts| runtime(path, &facts, set))
}

/// A program that libmallow.so can be loaded into, as its headers show, and its dynamic linker.
fn dynamic_program<'a>(path: &Path, bytes: &'a [u8]) -> Result<(ElfFile64<'a, Endianness>, PathBuf), Finding> {
    let shown = path.display();
    let fails = |found: String, remedy: &str| Err(Finding::fails(PROGRAM, found, remedy));
    if bytes.is_empty() {
        return fails(format!("{shown} is an empty file"), "build or install it again");
    }
    if bytes.get(4) == Some(&1) {
        return fails(
            format!("{shown} is a 32-bit program; Mallow knows {NAME} alone so far"),
            "build it without -m32",
        );
    }
    let parsed = ElfFile64::<Endianness>::parse(bytes).map_err(|error| {
        Finding::fails(PROGRAM, format!("{shown} is a damaged ELF file: {error}"), "build or install it again")
    })?;
    let (endian, header) = (parsed.endian(), parsed.elf_header());
    let number = header.e_machine.get(endian);
    if number != machine::ELF {
        let what = machine_name(number).map_or_else(String::new, |name| format!(" ({name})"));
        let found = format!("{shown} is built for another processor{what}; Mallow knows {NAME} alone so far");
        return fails(found, &format!("build it for {NAME}"));
    }
    let linker = parsed.elf_program_headers().iter().find_map(|s| s.interpreter(endian, bytes).ok().flatten());
    match linker {
        Some(linker) => Ok((parsed, PathBuf::from(OsStr::from_bytes(linker)))),
        // The dynamic linker itself, executed with a program as its argument: it reads LD_PRELOAD for that.
        None if has_name(&parsed, bytes) => Ok((parsed, path.to_owned())),
        None if is_go(&parsed) => {
            fails(format!("{shown} is a Go program, statically linked: Go's heap is its own, not malloc's"), GO_HEAP)
        }
        None => fails(
            format!("{shown} is statically linked: its allocator is inside it, out of reach"),
            "link it dynamically (without -static)",
        ),
    }
}

/// Whether it is a library with a name for the linker.
fn has_name(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> bool {
    let endian = file.endian();
    let mut sections = file.elf_program_headers().iter().filter_map(|s| s.dynamic(endian, bytes).ok().flatten());
    sections.any(|entries| entries.iter().any(|entry| entry.d_tag.get(endian) == elf::DT_SONAME))
}

fn is_go(file: &ElfFile64<'_, Endianness>) -> bool {
    file.section_by_name(".go.buildinfo").is_some()
}

/// Symbols that reveal whose code is in a program.
const MARKERS: [&str; 15] = [
    "malloc",
    "mallctl",
    "je_malloc",
    "_rjem_malloc",
    "mi_malloc",
    "tc_malloc",
    "TCMallocInternalMalloc",
    "__asan_init",
    "__tsan_init",
    "__msan_init",
    "__hwasan_init",
    "__lsan_init",
    "Py_BytesMain",
    "napi_create_object",
    "_emalloc",
];

pub(super) struct Facts {
    /// The [`MARKERS`] that the program defines.
    defines: FxHashSet<&'static str>,
    /// An allocator under names of its own, of which the program defines several functions.
    inside: Option<&'static str>,
    /// The libraries that the program names.
    needs: Vec<String>,
    /// The program imports `operator new`.
    uses_operators: bool,
    go: bool,
    /// An allocator whose texts are in the file, which has no table of symbols but the exported ones.
    stripped: Option<&'static str>,
}

impl Facts {
    /// None: the file cannot be read, or is no ELF file.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        // A name that a target wrote may be that of a device.
        let bytes = path.is_file().then(|| tables::map(path).ok())??;
        ElfFile64::<Endianness>::parse(&*bytes).ok().map(|file| Self::of(&file))
    }

    fn of(file: &ElfFile64<'_, Endianness>) -> Self {
        let (mut defines, mut known) = (FxHashSet::default(), FxHashMap::default());
        for symbol in file.dynamic_symbols().chain(file.symbols()).filter(|s| s.is_definition()) {
            let Ok(name) = symbol.name() else { continue };
            defines.extend(MARKERS.into_iter().find(|marker| *marker == name));
            let own = families::without_prefix(name);
            if own != name
                && let Some(family) = families::family_of(name)
            {
                known.entry(family).or_insert_with(FxHashSet::default).insert(own);
            }
        }
        let mut known: Vec<(Family, FxHashSet<&str>)> = known.into_iter().collect();
        known.sort_by_key(|(family, _)| *family);
        // A program may have a function of such a name for itself. What a linker keeps of an allocator frees what it
        // allocates.
        let is_allocator = |functions: &FxHashSet<&str>| functions.len() >= FEW_FUNCTIONS && functions.contains("free");
        let inside = known.iter().find(|(_, functions)| is_allocator(functions)).and_then(|(family, _)| family.name());
        let uses_operators = file.dynamic_symbols().any(|symbol| symbol.is_undefined() && symbol.name() == Ok("_Znwm"));
        let mut needs = Vec::new();
        if let Ok(table) = file.elf_dynamic_table() {
            for entry in table.iter().filter(|entry| entry.tag == elf::DT_NEEDED) {
                needs.extend(table.string(entry).ok().map(|name| String::from_utf8_lossy(name).into_owned()));
            }
        }
        let is_stripped = file.symbols().next().is_none();
        let stripped = is_stripped.then(|| seeming(file.data())).flatten();
        let inside = defined(&defines, &INSIDE).map(allocator_of).or(inside);
        Self { defines, inside, needs, uses_operators, go: is_go(file), stripped }
    }

    /// An allocator under names of its own inside of the program.
    pub(super) fn allocator_inside(&self) -> Option<&'static str> {
        self.inside.or(self.stripped)
    }

    /// Whether nothing finds the functions of that allocator.
    pub(super) fn hides_allocator(&self) -> bool {
        self.inside.is_none() && self.stripped.is_some()
    }

    fn defines(&self, names: &[&'static str]) -> Option<&'static str> {
        defined(&self.defines, names)
    }

    /// The first library that the program names whose name begins so.
    fn needs(&self, begin: &str) -> Option<&str> {
        self.needs.iter().map(String::as_str).find(|name| name.starts_with(begin))
    }
}

fn defined(defines: &FxHashSet<&'static str>, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| defines.contains(name))
}

/// Fewer functions than these with an allocator's names are no allocator.
const FEW_FUNCTIONS: usize = 3;

/// The [`MARKERS`] of allocators.
const INSIDE: [&str; 6] = ["mallctl", "je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc", "TCMallocInternalMalloc"];

const SANITIZERS: [&str; 5] = ["__asan_init", "__hwasan_init", "__msan_init", "__tsan_init", "__lsan_init"];

fn sanitizer_of(symbol: &str) -> &'static str {
    match symbol {
        "__asan_init" => "AddressSanitizer",
        "__hwasan_init" => "HWAddressSanitizer",
        "__msan_init" => "MemorySanitizer",
        "__tsan_init" => "ThreadSanitizer",
        _ => "LeakSanitizer",
    }
}

/// Whose malloc the program calls. `patched`: functions of an allocator that is known are patched when the program
/// starts.
fn allocator(path: &Path, facts: &Facts, patched: bool) -> Finding {
    let shown = path.display();
    // It ends the program where another library comes before it, and where it comes first, nobody else sees a call.
    if let Some(library) = ["libasan.so", "libhwasan.so"].iter().find_map(|name| facts.needs(name)) {
        return Finding::fails(
            ALLOCATOR,
            format!(
                "{shown} is built with a sanitizer ({library}), which ends it where another library is loaded first"
            ),
            "build it without -fsanitize=address",
        );
    }
    let sanitizer = facts.defines(&SANITIZERS).map(sanitizer_of);
    let inside = sanitizer.or(facts.inside);
    if let (Some(name), None, true) = (inside, sanitizer, patched) {
        let is_jemalloc = Some(name) == Family::Jemalloc.name();
        if let Some(function) = is_jemalloc.then(|| malloc_inlined_into(path)).flatten() {
            let function = demangled(&function);
            let found =
                format!("{shown} has {name} inside, whose malloc is inlined in {function}: calls pass Mallow by");
            return Finding::fails(ALLOCATOR, found, APART);
        }
        return Finding::works(
            ALLOCATOR,
            format!("{shown} has {name} inside: its functions are patched at the start; mallow watch does not see it"),
        );
    }
    // The dynamic linker looks there first.
    if facts.defines.contains("malloc") {
        let name = inside.map(|name| format!(" ({name})")).unwrap_or_default();
        let remedy = match sanitizer {
            Some(_) => "build it without -fsanitize",
            None => "build it without that, or link the allocator as a shared library, which Mallow sees",
        };
        return Finding::fails(
            ALLOCATOR,
            format!("{shown} has an allocator of its own{name}, which its calls never leave"),
            remedy,
        );
    }
    if let (Some(name), None) = (inside, sanitizer) {
        return Finding::partly(
            ALLOCATOR,
            format!(
                "{shown} has {name} inside under names of its own: calls of malloc are seen, those of {name} are not"
            ),
            "build it without that, or link the allocator as a shared library, which Mallow sees",
        );
    }
    if let Some(name) = facts.stripped {
        return Finding::partly(
            ALLOCATOR,
            format!("{shown} seems to have {name} inside, and is stripped: calls of that are not seen"),
            STRIPPED,
        );
    }
    let shared = ["libjemalloc", "libtcmalloc", "libmimalloc", "libtsan", "liblsan"];
    Finding::works(
        ALLOCATOR,
        match shared.iter().find_map(|name| facts.needs(name)) {
            Some(library) => format!("{library}, a shared library, which Mallow sees"),
            None => "none in the program: malloc is that of a shared library, which Mallow sees".to_owned(),
        },
    )
}

/// Found in a program that is linked with Python, and need not start it.
pub(super) const LINKED_PYTHON: &str = "Where the program starts Python, which it is linked with, objects of up to 512 bytes lie in arenas of Python's own, by mmap: they are not seen";

fn allocator_of(symbol: &str) -> &'static str {
    let maker = families::maker_of(std::iter::once(symbol));
    maker.or_else(|| families::family_of(symbol)?.name()).unwrap_or("an allocator")
}

/// A runtime that allocates past malloc. `set` gives the value of a variable in the program's environment.
fn runtime(path: &Path, facts: &Facts, set: &dyn Fn(&str) -> OsString) -> Option<Finding> {
    let shown = path.display();
    if facts.go {
        return Some(Finding::partly(
            RUNTIME,
            format!("{shown} is a Go program: Go's heap is its own, not malloc's; what its C code allocates is seen"),
            GO_HEAP,
        ));
    }
    if facts.defines(&["Py_BytesMain"]).is_some() || facts.needs("libpython").is_some() {
        let value = set("PYTHONMALLOC");
        // The interpreter with a shared libpython has no such function itself.
        let is_named = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
        let is_python = is_named || facts.defines(&["Py_BytesMain"]).is_some();
        return Some(if ["malloc", "malloc_debug"].iter().any(|direct| value == OsStr::new(direct)) {
            Finding::works(RUNTIME, format!("Python, with PYTHONMALLOC={}", value.display()))
        } else {
            let arenas = Finding::partly(
                RUNTIME,
                match is_python {
                    true => {
                        "Python allocates objects of up to 512 bytes in arenas of its own, by mmap: they are not seen"
                    }
                    // Debian's ledger and gdb have it for scripts, and run without.
                    false => LINKED_PYTHON,
                },
                "set PYTHONMALLOC=malloc to see each",
            );
            Finding { allocator: AllocatorKind::Python, ..arenas }
        });
    }
    if facts.needs("libjli.so").is_some() {
        return Some(Finding::partly(
            RUNTIME,
            "Java's heap is the virtual machine's own; what native code allocates is seen",
            "use -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer for compiled methods",
        ));
    }
    if facts.defines(&["napi_create_object"]).is_some() || facts.needs("libnode.so").is_some() {
        return Some(Finding::partly(
            RUNTIME,
            "JavaScript's heap is V8's own; what native code allocates is seen",
            "with --perf-basic-prof, compiled functions have names",
        ));
    }
    if let Some(library) = facts.needs("libgc.so").or_else(|| facts.needs("libguile-")) {
        return Some(Finding::partly(
            RUNTIME,
            format!(
                "Boehm's collector, by way of {library}, has a heap of its own: what is allocated there is not seen"
            ),
            "GC_PRINT_STATS=1 has the collector print its size",
        ));
    }
    if facts.defines(&["_emalloc"]).is_some() && set("USE_ZEND_ALLOC") != OsStr::new("0") {
        return Some(Finding::partly(
            RUNTIME,
            "PHP allocates in chunks of 2 MB of its own, by mmap: its blocks are not seen",
            "set USE_ZEND_ALLOC=0 to see each",
        ));
    }
    None
}

fn unwinding(path: &Path, bytes: &[u8]) -> Finding {
    let shown = path.display();
    match tables::has_frames(bytes).and_then(|()| tables::build(bytes)) {
        Ok(_) => Finding::works(UNWINDING, "the program has unwind tables"),
        Err(TableError::NoFrames) => Finding::partly(
            UNWINDING,
            format!(
                "{shown} has no unwind tables: stacks follow its instructions, and are cut where these do not show the caller"
            ),
            "build it without -fno-asynchronous-unwind-tables, or with -fno-omit-frame-pointer",
        ),
        Err(error) => Finding::partly(
            UNWINDING,
            format!(
                "{shown} has unwind tables that cannot be read ({error}): stacks follow frame pointers, and are marked as cut"
            ),
            "build it again, or with -fno-omit-frame-pointer",
        ),
    }
}
