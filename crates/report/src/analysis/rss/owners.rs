//! The allocators of a process, and whose a block is. A process may have several: the C library's, one that is a
//! library, and copies inside of modules, each with its own memory, geometry and settings.
//!
//! A block belongs to a copy inside of a library only if code of that library requested it. Among the allocators that
//! code can reach, names of its functions decide, then the address: glibc's blocks with mappings of their own begin 16
//! bytes behind the beginning of a page, and no block of that size of another allocator does.

use mallow_profile::{
    AllocatorInside, Footprint, HeapMap, Mapping, MappingKind, PlacedBlock, Process, Profile, Site, StackId,
};

use rustc_hash::FxHashSet;

use super::geometry::{Allocator, PAGE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Everywhere,
    /// The module that the allocator is in.
    OwnModule,
    /// No module whose calls Mallow sees: the memory alone shows that the allocator is there.
    Unseen,
}

/// A copy of an allocator in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub allocator: Allocator,
    /// The file with the allocator; None for the C library's, and where it is not known.
    pub module: Option<String>,
    pub reach: Reach,
    /// Environment variable that this copy reads for the setting by which it gives free pages back; None where it reads
    /// none, or that is not known.
    pub environment: Option<String>,
    /// Options that are compiled into this copy, written as in that variable; may be empty.
    pub options: String,
}

#[derive(Clone, Debug)]
pub struct Owners {
    /// The allocator of the C library is the first one.
    pub all: Vec<Owner>,
    /// By site, the index into `groups` of the copies inside of the module that called; 0 where there are none.
    of_sites: Vec<u32>,
    groups: Vec<Vec<usize>>,
    /// Whether pages of `[heap]` are the C library's.
    pub heap_is_librarys: bool,
    /// Index of an allocator that all modules can call, and that is not the C library's. Used where the address alone
    /// must tell.
    foremost: Option<usize>,
}

/// Index of the C library's allocator in [`Owners::all`].
pub const LIBRARY: usize = 0;

/// Most functions whose names are looked at between a module's code that needs memory and the allocator inside.
const NAMING_FRAMES: usize = 8;

/// mimalloc reserves memory at multiples of this.
const MIMALLOC_ARENA: u64 = 32 << 20;

impl Owners {
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
        self.of_sites = profile.sites.iter().map(|site| self.group_of(profile, site, &of_modules)).collect();
        self.forget_unnamed();
    }

    /// The index of the group of copies that a site may have asked. Of several in its module, it is the one that the
    /// innermost functions there are named after, as in `MimallocAllocator::AllocateAligned`.
    fn group_of(&mut self, profile: &Profile, site: &Site, of_modules: &[u32]) -> u32 {
        let frame_of = |stack: StackId| {
            let (frame, caller) = profile.stacks.top(stack)?;
            Some((profile.frames.get(frame.0 as usize)?, caller))
        };
        let Some(module) = frame_of(site.stack).and_then(|(frame, _)| frame.module) else { return 0 };
        let group = of_modules.get(module.0 as usize).copied().unwrap_or(0);
        let several = &self.groups[group as usize];
        if several.len() < 2 {
            return group;
        }
        let mut stack = site.stack;
        for _ in 0..NAMING_FRAMES {
            let Some((frame, caller)) = frame_of(stack).filter(|(frame, _)| frame.module == Some(module)) else {
                break;
            };
            for line in &frame.lines {
                let name = profile.strings.get(line.function).to_lowercase();
                let is_named = |at: &&usize| self.all[**at].allocator.name().is_some_and(|own| name.contains(own));
                let mut named = several.iter().filter(is_named);
                if let (Some(&one), None) = (named.next(), named.next()) {
                    return self.group_alone(one);
                }
            }
            stack = caller;
        }
        group
    }

    fn group_alone(&mut self, owner: usize) -> u32 {
        let known = self.groups.iter().position(|group| *group == [owner]);
        known.unwrap_or_else(|| {
            self.groups.push(vec![owner]);
            self.groups.len() - 1
        }) as u32
    }

    /// Makes copies that no function is named after [`Reach::Unseen`], where another one of their module is named: they
    /// are not called, and have tables at the most.
    fn forget_unnamed(&mut self) {
        let used: FxHashSet<u32> = self.of_sites.iter().copied().collect();
        let alone = |group: u32| match self.groups[group as usize][..] {
            [one] => Some(one),
            _ => None,
        };
        let named: Vec<usize> = used.into_iter().filter_map(alone).collect();
        for group in self.groups.iter_mut().filter(|group| group.iter().any(|owner| named.contains(owner))) {
            let forgotten = group.extract_if(.., |owner| !named.contains(owner));
            forgotten.for_each(|owner| self.all[owner].reach = Reach::Unseen);
        }
    }

    /// Indices of the copies inside of the module that requested the blocks of a site.
    pub fn inside(&self, site: u32) -> &[usize] {
        let group = self.of_sites.get(site as usize).copied().unwrap_or(0);
        self.groups.get(group as usize).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn may_own(&self, owner: usize, site: u32) -> bool {
        match self.all.get(owner).map(|one| one.reach) {
            Some(Reach::Everywhere) => true,
            Some(Reach::OwnModule) => self.inside(site).contains(&owner),
            Some(Reach::Unseen) | None => false,
        }
    }

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

    /// The owner of a block outside of `[heap]` and of glibc's arenas. `mapping` is the beginning of the mapping that
    /// the block lies in.
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

    /// The owner of a mapping without live blocks, by its name: some allocators name theirs, and some kernels show
    /// that.
    pub fn of_name(&self, mapping: &Mapping) -> Option<usize> {
        let name = mapping.name.strip_prefix("[anon:")?;
        self.all.iter().position(|one| one.allocator.name().is_some_and(|own| name.starts_with(own)))
    }

    /// The owner of the tables: the only jemalloc. None where several are there, because nothing says whose they are.
    pub fn of_tables(&self) -> Option<usize> {
        let mut all = (0..self.all.len()).filter(|&at| self.all[at].allocator == Allocator::Jemalloc);
        let first = all.next();
        first.filter(|_| all.next().is_none())
    }
}

/// The variable that the copy in a file reads, as the recording found it there.
fn environment_of(profile: &Profile, module: &str, allocator: Allocator) -> Option<String> {
    let mut all = copies(profile, module, allocator).map(|one| &one.environment);
    all.find(|environment| !environment.is_empty()).cloned()
}

/// The options that are compiled into the copy in a file.
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

/// The variable that an allocator reads if it is a library, and so has no prefix; for recordings that do not say.
/// mimalloc changed the name.
fn of_library(allocator: Allocator) -> Option<&'static str> {
    match allocator {
        Allocator::Jemalloc => Some("MALLOC_CONF"),
        Allocator::Tcmalloc => Some("TCMALLOC_AGGRESSIVE_DECOMMIT"),
        Allocator::Mimalloc | Allocator::Glibc | Allocator::Unknown => None,
    }
}

/// Whether the file is glibc's: libc.so.6 with any version, and libc-2.31.so in old ones; musl's is ld-musl.
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

#[cfg(test)]
mod tests {
    use super::super::tests::{Made, glibc};
    use super::*;

    /// jemalloc and mimalloc inside of the module that has the sites. Returns those that each of two sites may have
    /// asked, and those that nobody asks.
    fn asked(function: Option<&str>) -> ([Vec<Allocator>; 2], Vec<Allocator>) {
        let mut made = Made::new(glibc(10, 10), &[]);
        let profile = &mut made.profile;
        let frame = profile.stacks.top(profile.sites[0].stack).expect("a frame").0.0 as usize;
        let module = profile.frames[frame].module.expect("a module");
        profile.modules[module.0 as usize].path = "/usr/lib/libarrow.so".to_owned();
        let inside = |name: &str| AllocatorInside {
            module: "/usr/lib/libarrow.so".to_owned(),
            name: name.to_owned(),
            program: profile.processes[0].executable.clone(),
            functions: 3,
            ..AllocatorInside::default()
        };
        profile.allocators_inside = vec![inside("jemalloc"), inside("mimalloc")];
        if let Some(function) = function {
            profile.frames[frame].lines[0].function = profile.strings.intern(function);
        }
        let owners = Owners::of(profile, &profile.footprints[0], &made.heap, profile.processes.first());
        let names = |all: &[usize]| all.iter().map(|&at| owners.all[at].allocator).collect();
        let unseen: Vec<usize> = (0..owners.all.len()).filter(|&at| owners.all[at].reach == Reach::Unseen).collect();
        ([0, 1].map(|site| names(owners.inside(site))), names(&unseen))
    }

    #[test]
    fn of_two_copies_in_a_module_functions_name_the_one_that_is_used() {
        let both = vec![Allocator::Jemalloc, Allocator::Mimalloc];
        assert_eq!(asked(None), ([both.clone(), both.clone()], vec![]));
        assert_eq!(asked(Some("jemalloc_or_mimalloc")), ([both.clone(), both], vec![]));
        let mimalloc = vec![Allocator::Mimalloc];
        let named = asked(Some("arrow::BaseMemoryPoolImpl<arrow::(anonymous namespace)::MimallocAllocator>::Allocate"));
        assert_eq!(named, ([mimalloc.clone(), mimalloc], vec![Allocator::Jemalloc]));
    }
}
