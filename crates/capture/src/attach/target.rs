//! A process to attach to: its modules, and the patches of their functions.

use super::error::AttachError;
use super::library::{CLibrary, LateEntry, LoadedLibrary};
use crate::inside::{Finding, ModuleDetours, Planner, fail_module};
use crate::wire::attachment;
use mallow_arch::entry::CHANGED;
use mallow_patch::{Code, Detour, Draft, Function, Maps, Memory, Module, Process};

const PAGE: u64 = 4096;

/// A function with its index in the library's table.
pub type Entry = (usize, LateEntry);

/// What attaching and detaching need to know of a process.
pub struct Target {
    pub pid: u32,
    pub modules: Vec<Module>,
    /// Opened for writing.
    pub memory: Memory,
    pub libc: CLibrary,
    program: Option<String>,
}

/// Allocators inside of a process's modules.
pub struct Inside {
    pub detours: Vec<ModuleDetours>,
    pub findings: Vec<Finding>,
}

impl Target {
    /// The process of this number, with the mappings that its modules were read from.
    pub fn of(pid: u32) -> Result<(Self, Maps), AttachError> {
        let process = Process::read(pid)?;
        let maps = Maps::read(pid)?;
        let (modules, _) = Module::all(&process, &maps);
        let libc = CLibrary::of(&modules)?;
        let program = process.executable().ok().map(|path| path.to_string_lossy().into_owned());
        Ok((Self { pid, modules, memory: Memory::open_writable(pid)?, libc, program }, maps))
    }

    /// A target for the same process, with the modules alone that are mapped at `addresses`.
    pub fn at(&self, maps: &Maps, addresses: &[u64]) -> Result<Self, AttachError> {
        let (modules, _) = Module::all(&Process::read(self.pid)?, &maps.of_files_at(addresses));
        let memory = Memory::open_writable(self.pid)?;
        Ok(Self { pid: self.pid, modules, memory, libc: self.libc, program: self.program.clone() })
    }

    pub fn executable(&self) -> Option<&Module> {
        self.modules.iter().find(|module| Some(&module.path) == self.program.as_ref())
    }

    /// Splits functions into those outside of the executable, and allocation functions in it; its others are left out.
    /// An allocator in the executable has more functions than the library knows, and is patched as one inside.
    pub fn split(&self, entries: Vec<Entry>) -> (Vec<Entry>, Vec<Entry>) {
        let own = self.executable().map_or(0..0, |module| module.range.clone());
        let (others, mut own): (Vec<Entry>, _) =
            entries.into_iter().partition(|(_, entry)| !own.contains(&entry.function));
        own.retain(|(index, _)| *index < attachment::MEMORY);
        (others, own)
    }

    /// The allocators inside of the process's modules. Takes as long as reading their symbols. `later`: the modules
    /// have come since mallow attached.
    pub fn inside(&self, planner: &mut Planner, library: &LoadedLibrary, later: bool) -> Result<Inside, AttachError> {
        let stubs = library.stubs(&self.memory)?;
        let (detours, findings) = planner.detours(&self.modules, self.program.as_deref(), &stubs, later);
        Ok(Inside { detours, findings })
    }

    /// The patches of `entries`, and of allocators inside, by module. Of an allocator inside, all functions are
    /// patched, or none; it is then named in `inside`. `is_patched`: patches may be in place already.
    pub fn drafts(&self, entries: &[Entry], inside: &mut Inside, is_patched: bool) -> Result<Vec<Draft>, AttachError> {
        let mut drafts = Vec::new();
        for (index, module) in self.modules.iter().enumerate() {
            let here = entries.iter().map(|(_, entry)| *entry).filter(|entry| module.range.contains(&entry.function));
            let here: Vec<LateEntry> = here.collect();
            let own = inside.detours.iter().find(|own| own.module == index && !own.detours.is_empty());
            if here.is_empty() && own.is_none() {
                continue;
            }
            let exports = module.exports();
            let mut starts = module.code_starts();
            starts.extend(exports.iter().map(|export| export.address));
            starts.extend(own.iter().flat_map(|own| own.code.starts()));
            let code = match is_patched {
                true => Code::of_file(module, starts),
                false => Code::read(module, &self.memory, starts),
            };
            let of = |entry: &LateEntry| {
                let size = exports.iter().filter(|e| e.address == entry.function).map(|e| e.size).max().unwrap_or(0);
                let function = Function { address: entry.function, size, ifunc: false };
                Detour { function, to: entry.replacement, data: None }
            };
            let late: Vec<Detour> = here.iter().map(of).collect();
            if let Some(own) = own {
                // The same function may have names of both kinds: the first one counts.
                match draft(&code, late.iter().chain(&own.detours).cloned().collect()) {
                    Ok(draft) => {
                        drafts.push(draft);
                        continue;
                    }
                    Err((_, why)) => fail_module(&mut inside.findings, module, &why),
                }
            }
            if late.is_empty() {
                continue;
            }
            drafts.push(draft(&code, late).map_err(|(address, reason)| {
                let name = exports.iter().find(|export| export.address == address).map(|export| export.name);
                let function = name.unwrap_or("a function").to_owned();
                AttachError::Refused { function, module: module.path.clone(), reason }
            })?);
        }
        let covered = |entry: &LateEntry| drafts.iter().any(|draft| draft.module().contains(&entry.function));
        match entries.iter().find(|(_, entry)| !covered(entry)) {
            Some((_, entry)) => Err(AttachError::Unsupported(format!(
                "an allocation function at {:#x} is in no module whose file can be read",
                entry.function
            ))),
            None => Ok(drafts),
        }
    }
}

/// The patches of all `detours` of a module; an error is one that cannot be patched, and why.
fn draft(code: &Code, detours: Vec<Detour>) -> Result<Draft, (u64, String)> {
    // A mallow that is killed while it writes leaves all of a page's bytes or none.
    if let Some(one) = detours.iter().find(|one| one.function.address % PAGE > PAGE - CHANGED) {
        let address = one.function.address;
        return Err((address, format!("a function at {address:#x} lies on the border of two pages")));
    }
    let (draft, refused) = Draft::of(code, detours);
    match refused.into_iter().next() {
        Some((function, why)) => Err((function.address, why.to_string())),
        None => Ok(draft),
    }
}
