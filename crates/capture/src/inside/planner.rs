//! The patches of an image: all functions of an allocator, or none of it.

use super::question::{PlacedArea, Question};
use super::survey::{Allocator, Role, Survey, survey};
use crate::preflight::{IS_STRIPPED, STRIPPED};
use mallow_patch::{Code, Detour, Draft, Function, Mapping, Maps, Module, Process};
use mallow_profile::AllocatorInside;
use mallow_symbols::{SymbolSource, demangled};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// Plans patches, and remembers surveys of files by device, inode, size, time of the last change and role.
#[derive(Default)]
pub struct Planner {
    surveys: FxHashMap<(u64, u64, u64, i64, Role), Survey>,
    /// Memory with the patches of libraries that came after the start of their process.
    areas: FxHashMap<ProcessKey, Vec<UsedArea>>,
}

/// Process id in the asking image's namespace, which another process may have too, and the address of its first stub.
type ProcessKey = (u32, u64);

/// Memory with the patches of a library, which may be gone.
#[derive(Clone, Debug)]
pub struct UsedArea {
    range: Range<u64>,
    module: Range<u64>,
    inode: u64,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub placed: Vec<PlacedArea>,
    /// Allocators that are patched, and those that cannot be.
    pub findings: Vec<Finding>,
    /// Memory of the patches in `placed`, where the image asked after its start; empty at a start.
    pub areas: Vec<UsedArea>,
    /// Every module of the image was looked into.
    pub complete: bool,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub allocator: AllocatorInside,
    /// Where it is patched there is nothing to say: it is a library, whose calls are counted in any case.
    pub expected: bool,
}

impl Finding {
    pub fn is_news(&self) -> bool {
        self.allocator.functions == 0 || !self.expected
    }

    pub fn fail(&mut self, problem: String) {
        self.allocator.functions = 0;
        self.allocator.problem = problem;
        self.allocator.is_library = false;
    }
}

impl UsedArea {
    fn has_room_for(&self, draft: &Draft) -> bool {
        let reach = self.range.start.min(draft.module().start)..self.range.end.max(draft.module().end);
        draft.bytes() <= self.range.end - self.range.start && reach.end - reach.start < i32::MAX as u64
    }
}

fn key_of(question: &Question) -> ProcessKey {
    (question.pid, question.stubs[0])
}

/// Takes back the patches of all allocators in a module, and notes why.
pub fn fail_module(findings: &mut [Finding], module: &Module, why: &str) {
    for finding in findings.iter_mut().filter(|finding| finding.allocator.module == module.path) {
        finding.fail(why.to_owned());
    }
}

/// Libraries without an allocator that has other names than the C library's. They are in every process.
const PLAIN: &[&str] =
    &["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libmallow.so"];

pub struct ModuleDetours {
    /// Index in the list of modules.
    pub module: usize,
    pub detours: Vec<Detour>,
    pub code: Code,
}

impl Planner {
    pub fn plan(&mut self, question: &Question) -> Plan {
        let mut maps = Maps::parse(&question.maps);
        let process = process(question.pid, &maps);
        let is_start = question.libraries.is_empty();
        let (modules, bad) = match is_start {
            true => Module::all(&process, &maps),
            false => Module::all(&process, &maps.of_files_at(&question.libraries)),
        };
        let mut plan = Plan { complete: bad.is_empty() && !modules.is_empty(), ..Plan::default() };
        let program = program(&process, &maps);
        let (all, findings) = self.detours(&modules, program.as_deref(), &question.stubs, !is_start);
        plan.findings = findings;
        let mut gone = self.areas_of_gone(question, &maps);
        for ModuleDetours { module, detours, code } in all {
            let module = &modules[module];
            let draft = Draft::of(&code, detours).0;
            if draft.is_empty() {
                continue;
            }
            let at = gone.iter().position(|one| one.has_room_for(&draft));
            let area = match at {
                Some(at) => Some(gone.swap_remove(at).range.start),
                None => maps.free_area_near(draft.module(), draft.bytes()),
            };
            match area.and_then(|area| draft.place(area).ok()) {
                Some(placed) => {
                    maps.reserve(placed.range());
                    let mapping =
                        maps.iter().find(|mapping| mapping.inode != 0 && module.range.contains(&mapping.start));
                    let inode = mapping.map_or(0, |mapping| mapping.inode);
                    let (range, module) = (placed.range(), module.range.clone());
                    plan.areas.extend((!is_start).then_some(UsedArea { range, module, inode }));
                    plan.placed.push(PlacedArea { placed, reused: at.is_some() });
                }
                None => fail_module(&mut plan.findings, module, "there is no room for patches near it"),
            }
        }
        self.areas.entry(key_of(question)).or_default().append(&mut gone);
        plan
    }

    /// Notes where the image has written patches: before it says so, another of its threads may have taken the place.
    pub fn note(&mut self, question: &Question, areas: Vec<UsedArea>) {
        self.areas.entry(key_of(question)).or_default().extend(areas);
    }

    /// Takes out the memory whose libraries are gone, and that is still mapped: nobody runs the patches there.
    fn areas_of_gone(&mut self, question: &Question, maps: &Maps) -> Vec<UsedArea> {
        let used = self.areas.entry(key_of(question)).or_default();
        if question.libraries.is_empty() {
            used.clear();
        }
        let is_new = |one: &UsedArea| question.libraries.iter().any(|address| one.module.contains(address));
        let is_there = |one: &UsedArea| maps.iter().any(|m| m.inode == one.inode && one.module.contains(&m.start));
        let is_mapped = |one: &UsedArea| {
            let is_it =
                |m: &Mapping| m.executable && m.path.is_empty() && m.start <= one.range.start && one.range.end <= m.end;
            maps.iter().any(is_it)
        };
        used.extract_if(.., |one| (is_new(one) || !is_there(one)) && is_mapped(one)).collect()
    }

    /// What is to be patched in these modules; `program` is the path of the executable. `later`: they came after the
    /// start, so libmallow.so does not call their functions. Such a library's `malloc` is called by those alone that
    /// look for it there.
    pub fn detours(
        &mut self,
        modules: &[Module],
        program: Option<&str>,
        stubs: &[u64],
        later: bool,
    ) -> (Vec<ModuleDetours>, Vec<Finding>) {
        let (mut all, mut findings) = (Vec::new(), Vec::new());
        let shown = program.unwrap_or_default();
        for (index, module) in modules.iter().enumerate() {
            if PLAIN.contains(&module.soname.as_str()) || module.soname.starts_with("ld-linux") {
                continue;
            }
            let is_program = Some(module.path.as_str()) == program;
            let role = match (is_program, later) {
                (true, _) => Role::Program,
                (false, false) => Role::Library,
                (false, true) => Role::LaterLibrary,
            };
            let survey = self.survey(module, role);
            if let Some(name) = survey.stripped {
                findings.push(stripped(shown, module, name));
            }
            if survey.allocators.is_empty() {
                continue;
            }
            let starts = survey.starts.iter().map(|start| module.bias.wrapping_add(*start)).collect();
            let code = Code::of_file(module, starts);
            let mut detours = Vec::new();
            for allocator in &survey.allocators {
                let planned = match allocator.inlined_into.is_empty() {
                    true => detours_of(allocator, module, &code, stubs, later),
                    false => Err(format!(
                        "its malloc is inlined in {}, so that calls pass it by",
                        demangled(&allocator.inlined_into)
                    )),
                };
                let mut finding = finding(shown, module, allocator);
                match planned {
                    Ok(planned) => detours.extend(planned),
                    Err(why) => {
                        finding.fail(why);
                        finding.allocator.remedy = allocator.remedy().to_owned();
                    }
                }
                findings.push(finding);
            }
            all.push(ModuleDetours { module: index, detours, code });
        }
        (all, findings)
    }

    fn survey(&mut self, module: &Module, role: Role) -> Survey {
        let Ok(metadata) = std::fs::metadata(&module.file) else { return Survey::default() };
        let key = (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime_nsec() ^ metadata.mtime(), role);
        self.surveys.entry(key).or_insert_with(|| survey(&module.file, role)).clone()
    }
}

/// The process that asks, if it has this number here: it may live in another namespace of pids. Otherwise files are
/// looked for by their paths alone; a file that is another one is noticed by its inode.
fn process(pid: u32, maps: &Maps) -> Process {
    let inode = std::fs::metadata(format!("/proc/{pid}/exe")).map(|file| file.ino());
    let same = inode.is_ok_and(|inode| maps.iter().any(|mapping| mapping.executable && mapping.inode == inode));
    let read = |pid| Process::read(pid).ok();
    let own = std::process::id();
    let empty = || Process {
        pid: own,
        name: String::new(),
        state: mallow_patch::State::Alive,
        group: own,
        tracer: 0,
        users: [0; 4],
        owner: 0,
        threads: 1,
        kernel: false,
    };
    read(if same { pid } else { own }).unwrap_or_else(empty)
}

/// The path of the executable, as the process has it: that of the first mapping with code, as no library lies below it,
/// or else what the kernel says.
fn program(process: &Process, maps: &Maps) -> Option<String> {
    let named = process.executable().ok().map(|path| path.to_string_lossy().into_owned());
    let has = |path: &String| maps.iter().any(|mapping| mapping.executable && mapping.path == *path);
    let first = || maps.iter().find(|m| m.executable && m.path.starts_with('/')).map(|m| m.path.clone());
    named.filter(has).or_else(first)
}

/// The detours of all functions of an allocator; of a library, of those that can be patched. An error: one that is
/// needed cannot be patched, so that what the others count would be wrong.
fn detours_of(
    allocator: &Allocator,
    module: &Module,
    code: &Code,
    stubs: &[u64],
    later: bool,
) -> Result<Vec<Detour>, String> {
    let place = |address: u64| module.bias.wrapping_add(address);
    let mut detours = Vec::new();
    for (symbol, signature) in &allocator.functions {
        let function = Function { address: place(symbol.address), size: symbol.size, ifunc: symbol.ifunc };
        match code.plan(&function) {
            Ok(_) => {}
            // A few of a library's many functions, which hardly any program calls; what frees their blocks is seen.
            Err(_) if (allocator.library || later) && signature.call.may_be_left_out() => continue,
            Err(why) => return Err(format!("{}: {why}", symbol.name)),
        }
        let mut data = allocator.usable.map_or(0, place).to_le_bytes().to_vec();
        data.extend(signature.counts_as.to_le_bytes());
        data.extend(u32::from(allocator.library).to_le_bytes());
        data.extend(module.range.start.to_le_bytes());
        data.extend(module.range.end.to_le_bytes());
        let to = stubs.get(signature.call as usize).copied().unwrap_or(0);
        detours.push(Detour { function, to, data: Some(data) });
    }
    Ok(detours)
}

fn finding(program: &str, module: &Module, allocator: &Allocator) -> Finding {
    let found = AllocatorInside {
        program: program.to_owned(),
        module: module.path.clone(),
        name: allocator.name.clone(),
        found_by: match allocator.source {
            SymbolSource::Exported => ".dynsym",
            SymbolSource::SymbolTable => ".symtab",
            SymbolSource::MiniDebugInfo => ".gnu_debugdata",
            SymbolSource::DebugFile => "its debug file",
        }
        .to_owned(),
        functions: allocator.functions.len() as u32,
        problem: String::new(),
        remedy: String::new(),
        environment: allocator.variable.clone().unwrap_or_default(),
        options: allocator.options.clone(),
        is_library: allocator.library,
    };
    Finding { allocator: found, expected: allocator.library }
}

fn stripped(program: &str, module: &Module, name: &str) -> Finding {
    let found = AllocatorInside {
        program: program.to_owned(),
        module: module.path.clone(),
        name: name.to_owned(),
        found_by: "its texts".to_owned(),
        functions: 0,
        problem: IS_STRIPPED.to_owned(),
        remedy: STRIPPED.to_owned(),
        ..AllocatorInside::default()
    };
    Finding { allocator: found, expected: false }
}
