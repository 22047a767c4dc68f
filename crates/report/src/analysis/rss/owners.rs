//! The allocators of a process, and whose a block is. A process may have several: the C library's, one that is a
//! library, and copies inside of modules, each with its own memory, geometry and settings.
//!
//! A block belongs to a copy inside of a library only if code of that library requested it. Among the allocators that
//! code can reach, the address decides: glibc's blocks with mappings of their own begin 16 bytes behind the beginning
//! of a page, and no block of that size of another allocator does.

use mallow_profile::{AllocatorInside, Footprint, HeapMap, Mapping, MappingKind, PlacedBlock, Process, Profile};

use super::geometry::{Allocator, PAGE};

/// Who can call an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All modules.
    Everywhere,
    /// Its own module.
    OwnModule,
    /// Nobody whose calls Mallow sees: its memory alone shows that it is there.
    Unseen,
}

/// An allocator of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub allocator: Allocator,
    /// The file that it is in; None: the C library's, or not known.
    pub module: Option<String>,
    /// Who can call it.
    pub reach: Reach,
    /// The variable of the environment that this copy reads for the setting by which it gives free pages back. None: it
    /// reads none, or that is not known.
    pub environment: Option<String>,
    /// Options that are compiled into this copy, as that variable would have them; may be empty.
    pub options: String,
}

#[derive(Clone, Debug)]
pub struct Owners {
    /// The C library's is the first one.
    pub all: Vec<Owner>,
    /// Of each site, the copies inside of the module that called: indexes of `groups`, 0 where there are none.
    of_sites: Vec<u32>,
    groups: Vec<Vec<usize>>,
    /// Pages of `[heap]` are the C library's.
    pub heap_is_librarys: bool,
    /// For a test of addresses alone: an allocator that all modules can call, and is no library's.
    foremost: Option<usize>,
}

/// The C library's allocator, among [`Owners::all`].
pub const LIBRARY: usize = 0;

/// mimalloc reserves memory at multiples of this.
const MIMALLOC_ARENA: u64 = 32 << 20;

impl Owners {
    /// Those of a process.
    pub fn of(profile: &Profile, footprint: &Footprint, heap: &HeapMap, process: Option<&Process>) -> Self {
        let has_glibc = footprint.mappings.iter().any(|mapping| is_glibc(&mapping.name));
        let library = if has_glibc { Allocator::Glibc } else { Allocator::Unknown };
        let mut all = vec![Owner {
            allocator: library,
            module: None,
            reach: Reach::Everywhere,
            environment: None,
            options: String::new(),
        }];
        let mut before = "";
        for mapping in footprint.mappings.iter().filter(|mapping| !mapping.name.is_empty()) {
            let Some(allocator) = Allocator::of_library(&mapping.name).filter(|_| mapping.name != before) else {
                continue;
            };
            before = &mapping.name;
            let is_known = |one: &Owner| one.module.as_deref() == Some(&mapping.name);
            if !all.iter().any(is_known) {
                all.push(Owner {
                    allocator,
                    module: Some(mapping.name.clone()),
                    reach: Reach::Everywhere,
                    environment: environment_of(profile, &mapping.name, allocator)
                        .or_else(|| of_library(allocator).map(str::to_owned)),
                    options: options_of(profile, &mapping.name, allocator),
                });
            }
        }
        let program = process.map(|process| process.executable.as_str()).unwrap_or_default();
        for one in profile.allocators_inside.iter().filter(|one| !one.is_library && one.program == program) {
            let allocator = Allocator::of_name(&one.name);
            let is_known = |known: &Owner| known.module.as_deref() == Some(&one.module) && known.allocator == allocator;
            if !all.iter().any(is_known) && Allocator::of_library(&one.module).is_none() {
                let reach = match () {
                    () if one.functions == 0 => Reach::Unseen,
                    () if one.module == program => Reach::Everywhere,
                    () => Reach::OwnModule,
                };
                let environment = environment_of(profile, &one.module, allocator);
                let options = options_of(profile, &one.module, allocator);
                all.push(Owner { allocator, module: Some(one.module.clone()), reach, environment, options });
            }
        }
        // jemalloc's tables are there, and no jemalloc whose calls are seen.
        if !heap.tables.is_empty() && !all.iter().any(|one| one.allocator == Allocator::Jemalloc) {
            let reach = Reach::Unseen;
            all.push(Owner {
                allocator: Allocator::Jemalloc,
                module: None,
                reach,
                environment: None,
                options: String::new(),
            });
        }
        Self::with(profile, heap, all)
    }

    fn with(profile: &Profile, heap: &HeapMap, all: Vec<Owner>) -> Self {
        let foremost = all.iter().skip(1).position(|one| one.reach == Reach::Everywhere).map(|at| at + 1);
        // jemalloc and mimalloc take memory from mmap, unless it has none.
        let takes_breaks = |at: usize| !matches!(all[at].allocator, Allocator::Jemalloc | Allocator::Mimalloc);
        let is_glibc = all[LIBRARY].allocator == Allocator::Glibc;
        let heap_is_librarys = is_glibc && (heap.caches.caches > 0 || !foremost.is_some_and(takes_breaks));
        let mut it = Self { all, of_sites: Vec::new(), groups: vec![Vec::new()], heap_is_librarys, foremost };
        if it.all.iter().any(|one| one.reach == Reach::OwnModule) {
            it.find_sites(profile);
        }
        it
    }

    fn find_sites(&mut self, profile: &Profile) {
        let mut of_modules = vec![0; profile.modules.len()];
        for (module, group) in profile.modules.iter().zip(&mut of_modules) {
            let is_inside = |one: &&Owner| one.reach == Reach::OwnModule && one.module.as_ref() == Some(&module.path);
            let own: Vec<usize> = (1..self.all.len()).filter(|&at| is_inside(&&self.all[at])).collect();
            if !own.is_empty() {
                *group = self.groups.len() as u32;
                self.groups.push(own);
            }
        }
        let group_of = |site: &mallow_profile::Site| {
            let frame = profile.stacks.top(site.stack)?.0;
            let module = profile.frames.get(frame.0 as usize)?.module?;
            of_modules.get(module.0 as usize).copied()
        };
        self.of_sites = profile.sites.iter().map(|site| group_of(site).unwrap_or(0)).collect();
    }

    /// The copies inside of the module that requested the blocks of a site.
    pub fn inside(&self, site: u32) -> &[usize] {
        let group = self.of_sites.get(site as usize).copied().unwrap_or(0);
        self.groups.get(group as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the blocks of a site may be those of an owner.
    pub fn may_own(&self, owner: usize, site: u32) -> bool {
        match self.all.get(owner).map(|one| one.reach) {
            Some(Reach::Everywhere) => true,
            Some(Reach::OwnModule) => self.inside(site).contains(&owner),
            Some(Reach::Unseen) | None => false,
        }
    }

    /// Whether the C library's allocator is glibc's.
    pub fn has_glibc(&self) -> bool {
        self.all[LIBRARY].allocator == Allocator::Glibc
    }

    /// Whether all blocks are the C library's.
    fn is_alone(&self) -> bool {
        self.all.iter().skip(1).all(|one| one.reach == Reach::Unseen)
    }

    /// Whether all blocks are glibc's.
    pub fn is_alone_glibc(&self) -> bool {
        self.has_glibc() && self.all.len() == 1
    }

    /// Whether an allocator that all modules can call is there beside the C library's.
    pub fn has_foremost(&self) -> bool {
        self.foremost.is_some()
    }

    /// Whose a block outside of `[heap]` and of glibc's arenas is. `mapping`: where the mapping begins that it lies in.
    pub fn of_block(&self, block: &PlacedBlock, mapping: u64) -> usize {
        if self.is_alone() || self.has_glibc() && block.address % PAGE == 16 && block.size >= PAGE {
            return LIBRARY;
        }
        match self.inside(block.site) {
            [] => self.foremost.unwrap_or(LIBRARY),
            [one] => *one,
            several => {
                let is = |of: Allocator| several.iter().copied().find(|&one| self.all[one].allocator == of);
                let at_arena = mapping.is_multiple_of(MIMALLOC_ARENA);
                let of_mimalloc = is(Allocator::Mimalloc).filter(|_| at_arena);
                let others = || several.iter().copied().find(|&one| self.all[one].allocator != Allocator::Mimalloc);
                of_mimalloc.or_else(others).unwrap_or(several[0])
            }
        }
    }

    /// Whose a mapping without live blocks is by its name: some allocators name theirs, and some kernels show that.
    pub fn of_name(&self, mapping: &Mapping) -> Option<usize> {
        let name = mapping.name.strip_prefix("[anon:")?;
        self.all.iter().position(|one| one.allocator.name().is_some_and(|own| name.starts_with(own)))
    }

    /// Who keeps tables: the only jemalloc. Of several, nothing says whose they are.
    pub fn of_tables(&self) -> Option<usize> {
        let mut all = (0..self.all.len()).filter(|&at| self.all[at].allocator == Allocator::Jemalloc);
        let first = all.next();
        first.filter(|_| all.next().is_none())
    }
}

/// What the copy in a file reads, as the recording found it there.
fn environment_of(profile: &Profile, module: &str, allocator: Allocator) -> Option<String> {
    let mut all = copies(profile, module, allocator).map(|one| &one.environment);
    all.find(|environment| !environment.is_empty()).cloned()
}

/// What is compiled into it.
fn options_of(profile: &Profile, module: &str, allocator: Allocator) -> String {
    let mut all = copies(profile, module, allocator).map(|one| &one.options);
    all.find(|options| !options.is_empty()).cloned().unwrap_or_default()
}

fn copies<'a>(
    profile: &'a Profile,
    module: &'a str,
    allocator: Allocator,
) -> impl Iterator<Item = &'a AllocatorInside> {
    let is_it = move |one: &&AllocatorInside| {
        one.module == module && one.name.rsplit(' ').next().map(Allocator::of_name) == Some(allocator)
    };
    profile.allocators_inside.iter().filter(is_it)
}

/// What an allocator that is a library, and so has no prefix, reads; for recordings that do not say. mimalloc changed
/// the name.
fn of_library(allocator: Allocator) -> Option<&'static str> {
    match allocator {
        Allocator::Jemalloc => Some("MALLOC_CONF"),
        Allocator::Tcmalloc => Some("TCMALLOC_AGGRESSIVE_DECOMMIT"),
        Allocator::Mimalloc | Allocator::Glibc | Allocator::Unknown => None,
    }
}

/// Its file is libc.so.6 with any version and libc-2.31.so in old ones; musl's is ld-musl.
fn is_glibc(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file == "libc.so.6" || file.starts_with("libc-2.")
}

/// Whether a mapping may hold an allocator's memory: private, of no file. A block that a program made a stack of is its
/// allocator's, and an allocator may have its memory in a static array.
pub fn may_be_managed(mapping: &Mapping) -> bool {
    use MappingKind::{Anonymous, Bss, Heap, ThreadStack};
    matches!(mapping.kind, Heap | Anonymous | ThreadStack | Bss)
}
