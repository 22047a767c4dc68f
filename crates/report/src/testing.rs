//! Hand-built profiles, for tests of reports.

pub mod random;

use mallow_profile::{
    Counts, FamilyCounts, Footprint, Frame, FrameId, HeapMap, Line, Mapping, MappingFlags, MappingKind, MemorySizes,
    Module, ModuleId, PageRun, PageState, Patterns, PlacedBlock, Process, ProcessId, Profile, Site, StackId, Stacks,
    ThreadCaches,
};

/// Builds a profile from stacks written as names.
#[derive(Default)]
pub struct Builder {
    /// What was built so far; a test may set the rest.
    pub profile: Profile,
}

impl Builder {
    /// A process with this pid; a site that names no process belongs to the first.
    pub fn process(&mut self, pid: u32, arguments: &[&str], end_ms: u64) -> ProcessId {
        // All are children of the first.
        let parent_pid = self.profile.processes.first().map_or(0, |first| first.pid);
        self.profile.processes.push(Process {
            pid,
            parent_pid,
            executable: arguments.first().map_or(String::new(), |a| format!("/usr/bin/{a}")),
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            end_ms,
            threads: 1,
            ..Process::default()
        });
        ProcessId(self.profile.processes.len() as u32 - 1)
    }

    /// A stack, the innermost function first. `function@file:line` or `function` in the program, `function!module` in
    /// a shared object, `+0x12!module` or `+0x12` without a name. `inner | outer` is a frame with an inlined function,
    /// `function@file:0!` one in no module, as a script's; `function = other = another` has one code with others.
    pub fn stack(&mut self, frames: &[&str]) -> StackId {
        frames.iter().rev().fold(Stacks::ROOT, |parent, text| {
            let frame = self.frame(text);
            self.profile.stacks.push(parent, frame)
        })
    }

    fn frame(&mut self, text: &str) -> FrameId {
        let (functions, module) = match text.rsplit_once('!') {
            Some((functions, "")) => (functions, None),
            Some((functions, module)) => (functions, Some(format!("/usr/lib/{module}"))),
            None => (text, Some("/usr/bin/program".to_owned())),
        };
        let address = functions.strip_prefix("+0x").and_then(|a| u64::from_str_radix(a, 16).ok());
        let (functions, others) =
            functions.split_once(" = ").map_or((functions, None), |(f, others)| (f, Some(others)));
        let folded = others.map(|others| self.profile.strings.intern(&others.replace(" = ", "\n")));
        let lines = match address {
            Some(_) => Vec::new(),
            None => functions.split(" | ").map(|f| self.line(f)).collect(),
        };
        let module = module.map(|module| self.module(module));
        // A made-up address that equal frames share.
        let made_up = || 0x1000 + 16 * text.bytes().fold(7u64, |h, b| (h * 31 + u64::from(b)) % 0xffff);
        let frame = Frame { lines, folded, ..Frame::new(module, address.unwrap_or_else(made_up), false) };
        let at = self.profile.frames.iter().position(|f| *f == frame).unwrap_or_else(|| {
            self.profile.frames.push(frame);
            self.profile.frames.len() - 1
        });
        FrameId(at as u32)
    }

    fn line(&mut self, text: &str) -> Line {
        let (function, place) = text.split_once('@').map_or((text, None), |(f, p)| (f, Some(p)));
        let function = self.profile.strings.intern(function);
        let Some((file, line)) = place.and_then(|p| p.rsplit_once(':')) else {
            return Line { function, file: None, line: 0 };
        };
        Line { function, file: Some(self.profile.strings.intern(file)), line: line.parse().unwrap_or(0) }
    }

    fn module(&mut self, path: String) -> ModuleId {
        let modules = &mut self.profile.modules;
        let at = modules.iter().position(|m| m.path == path).unwrap_or_else(|| {
            modules.push(Module { path, build_id: Vec::new() });
            modules.len() - 1
        });
        ModuleId(at as u32)
    }

    /// A site of the process with these counts, which are added to all totals.
    pub fn site(&mut self, process: ProcessId, frames: &[&str], counts: Counts) -> &mut Site {
        let stack = self.stack(frames);
        self.profile.totals += counts;
        if let Some(p) = self.profile.processes.get_mut(process.0 as usize) {
            p.totals += counts;
            let mut families = FamilyCounts::default();
            families.calls[0] = (counts.allocations, counts.allocated_bytes);
            families.frees = counts.frees;
            p.families += families;
        }
        let sites = &mut self.profile.sites;
        sites.push(Site::of(process, stack, counts));
        let last = sites.len() - 1;
        &mut sites[last]
    }
}

/// Counts of blocks of one size, some of them temporary and some live at the end; the rest is live at the peak.
pub fn blocks(allocations: u64, size: u64, temporary: u64, live: u64) -> Counts {
    Counts {
        allocations,
        allocated_bytes: allocations * size,
        frees: allocations - live,
        freed_bytes: (allocations - live) * size,
        temporary,
        temporary_bytes: temporary * size,
        live,
        live_bytes: live * size,
        peak: allocations - temporary,
        peak_bytes: (allocations - temporary) * size,
        ..Counts::default()
    }
}

/// A small program that parses rows: its parser copies strings, its cache leaks, a child process joins in.
pub fn parser() -> Profile {
    let mut b = Builder::default();
    let parent = b.process(4711, &["program", "--rows", "9000"], 1710);
    let child = b.process(4712, &["helper"], 900);
    let main =
        ["app::run(int)@/src/app/main.cc:40", "main@/src/app/main.cc:12", "__libc_start_main!libc.so.6", "_start"];
    let stack = |inner: &[&'static str]| [inner, &main].concat();
    let row = "app::Parser::parse_row(std::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)@/src/app/parser.cc:212";
    b.site(
        parent,
        &stack(&[
            "operator new(unsigned long)!libstdc++.so.6",
            "std::string::_M_create(unsigned long&, unsigned long)!libstdc++.so.6",
            row,
            "app::load@/src/app/load.cc:88",
        ]),
        blocks(900_000, 40, 400_000, 0),
    );
    b.site(
        parent,
        &stack(&["operator new(unsigned long)!libstdc++.so.6", row, "app::reload@/src/app/load.cc:99"]),
        blocks(100_000, 24, 0, 0),
    );
    let cache = b.site(
        parent,
        &stack(&["strdup!libc.so.6", "app::Cache::put@/src/app/cache.h:31 | app::load@/src/app/load.cc:91"]),
        blocks(12, 1000, 0, 12),
    );
    (cache.live_oldest_ms, cache.live_youngest_ms) = (10, 1650);
    b.site(parent, &stack(&["+0x12f0!libplugin.so", "+0x1400!libplugin.so"]), blocks(7, 1_000_000, 0, 0));
    let early = b.site(
        child,
        &["_dl_new_object!ld-linux-x86-64.so.2", "_dl_map_object!ld-linux-x86-64.so.2"],
        blocks(3, 1200, 0, 3),
    );
    (early.live_oldest_ms, early.live_youngest_ms) = (700, 700);
    let mut profile = b.profile;
    profile.command = ["program", "--rows", "9000"].map(str::to_owned).to_vec();
    profile.started_unix_ms = 1_700_000_000_000;
    profile.duration_ms = 1710;
    profile.ending.exit_status = Some(0);
    profile.peak_ms = 950;
    for process in &mut profile.processes {
        process.own_peak_bytes = process.totals.peak_bytes;
        process.own_peak_ms = 950;
    }
    profile
}

/// [`parser`] later: rows are parsed twice as often, and a place of the first process is gone.
pub fn parser_later() -> Profile {
    let mut later = parser();
    later.sites[0].counts += blocks(900_000, 40, 500_000, 0);
    later.totals += blocks(900_000, 40, 500_000, 0);
    let gone = later.sites.remove(1);
    later.totals.allocations -= gone.counts.allocations;
    later.totals.allocated_bytes -= gone.counts.allocated_bytes;
    later
}

/// A program with habits of many kinds.
pub fn habits() -> Profile {
    let mut b = Builder::default();
    let process = b.process(4711, &["program"], 900);
    let sizes = |smallest, largest| Patterns { smallest, largest, ..Patterns::default() };
    let main = ["main@/src/app/main.cc:12", "__libc_start_call_main!libc.so.6", "__libc_start_main_impl!libc.so.6"];
    let stack = |inner: &[&'static str]| [inner, &main].concat();
    let mut habit = |frames: &[&'static str], counts, patterns: Patterns| {
        b.site(process, &stack(frames), counts).patterns = patterns.into()
    };
    habit(&["app::work@/src/app/work.cc:7"], blocks(300_000, 100, 0, 0), sizes(100, 100));
    let grown = Patterns { growth_steps: 66_000, grown_buffers: 6_000, copied_bytes: 96_000_000, ..sizes(4, 16_384) };
    let push = "std::vector<int, std::allocator<int> >::push_back(int const&)";
    let new = "operator new(unsigned long)!libstdc++.so.6";
    let frames = [new, push, "app::Index::add(int)@/src/app/index.cc:31", "app::load@/src/app/load.cc:88"];
    habit(&frames, blocks(72_000, 2_000, 0, 6_000), grown);
    let rebuilt = Patterns {
        growth_steps: 40_000,
        grown_buffers: 10_000,
        copied_bytes: 2_480_000,
        alternating: 10_000,
        ..sizes(8, 128)
    };
    habit(&[new, push, "app::tokens@/src/app/parser.cc:51"], blocks(50_000, 60, 0, 0), rebuilt);
    let scratch = Patterns { alternating: 80_000, ..sizes(512, 512) };
    habit(
        &["app::checksum@/src/app/sum.cc:14", "app::load@/src/app/load.cc:90"],
        blocks(80_000, 512, 80_000, 0),
        scratch,
    );
    let varied = Patterns { alternating: 29_000, ..sizes(17, 70_000) };
    habit(&["app::quote@/src/app/quote.cc:9"], blocks(30_000, 40, 20_000, 0), varied);
    let nodes = Patterns { freed_in_runs: 119_000, runs: 40, overhead_bytes: 120_000 * 8, ..sizes(40, 40) };
    habit(&["app::Tree::insert@/src/app/tree.cc:70"], blocks(120_000, 40, 0, 0), nodes);
    let sent = Patterns { freed_by_others: 25_000, ..sizes(96, 96) };
    habit(&["app::Queue::send@/src/app/queue.cc:22"], blocks(25_000, 96, 0, 0), sent);
    let table = Patterns { kept: 1, kept_bytes: 64 << 20, kept_slack: 32 << 20, ..sizes(64 << 20, 64 << 20) };
    habit(&["app::Table::grow@/src/app/table.cc:40"], blocks(1, 64 << 20, 0, 1), table);
    let before = ["app::Registry::Registry@/src/app/registry.cc:5", "_GLOBAL__sub_I_registry@/src/app/registry.cc:90"];
    let start = ["call_init!libc.so.6", "__libc_start_main_impl!libc.so.6", "_start"];
    b.site(process, &[&before[..], &start].concat(), blocks(12_000, 48, 0, 12_000)).patterns = sizes(48, 48).into();
    let mut profile = b.profile;
    profile.command = vec!["program".to_owned()];
    profile.duration_ms = 900;
    profile.peak_ms = 700;
    profile.ending.exit_status = Some(0);
    profile
}

/// A process of glibc's whose heap has holes: each other block of a cache was freed, and a burst left free pages behind
/// it.
pub fn fragmented() -> (Profile, HeapMap) {
    const PAGE: u64 = 4096;
    const HEAP: u64 = 0x5555_0000_0000;
    const LIBC: u64 = 0x7f00_0000_0000;
    let mut b = Builder::default();
    let process = b.process(4711, &["server"], 900);
    b.site(
        process,
        &["app::Cache::put(int)@/src/app/cache.cc:31", "main@/src/app/main.cc:12"],
        blocks(9000, 500, 0, 4500),
    );
    b.site(process, &["app::burst@/src/app/burst.cc:7", "main@/src/app/main.cc:14"], blocks(4000, 1000, 0, 0));
    let mapping = |kind, start: u64, pages: u64, resident: u64, name: &str| Mapping {
        start,
        end: start + pages * PAGE,
        kind,
        flags: MappingFlags(MappingFlags::READ | MappingFlags::WRITE),
        name: name.to_owned(),
        sizes: MemorySizes { size: pages * PAGE, rss: resident * PAGE, pss: resident * PAGE, ..MemorySizes::default() },
        has_pages: matches!(kind, MappingKind::Heap | MappingKind::Anonymous),
    };
    let mappings = vec![
        mapping(MappingKind::Heap, HEAP, 2200, 2100, "[heap]"),
        mapping(MappingKind::Anonymous, LIBC - 300 * PAGE, 200, 100, ""),
        mapping(MappingKind::FileText, LIBC, 400, 300, "/usr/lib/libc.so.6"),
        mapping(MappingKind::FileData, LIBC + 400 * PAGE, 9, 9, "/usr/lib/libc.so.6"),
        mapping(MappingKind::Stack, 0x7fff_0000_0000, 33, 5, "[stack]"),
    ];
    let totals = mappings.iter().fold(MemorySizes::default(), |mut sum, mapping| {
        sum.rss += mapping.sizes.rss;
        sum.pss += mapping.sizes.pss;
        sum
    });
    let run = |mapping: &Mapping| PageRun {
        start: mapping.start,
        pages: mapping.sizes.rss / PAGE,
        state: PageState(PageState::RESIDENT),
    };
    let heap = HeapMap {
        pages: mappings.iter().filter(|mapping| mapping.has_pages).map(run).collect(),
        blocks: (0..4500).map(|n| PlacedBlock { address: HEAP + 0x2b0 + n * 1024, size: 500, site: 0 }).collect(),
        caches: ThreadCaches { caches: 1, is_complete: true, blocks: Vec::new() },
        tables: Vec::new(),
        ..HeapMap::default()
    };
    b.profile.footprints = vec![Footprint {
        process,
        ms: 2850,
        is_highest: true,
        is_last: true,
        is_at_exit: true,
        peak_rss: totals.rss,
        page_bytes: PAGE as u32,
        totals,
        mappings,
        live_blocks: 4500,
        live_bytes: 4500 * 500,
        ..Footprint::default()
    }];
    let mut profile = b.profile;
    profile.command = vec!["server".to_owned()];
    profile.duration_ms = 2900;
    profile.peak_ms = 400;
    (profile.processes[0].own_peak_bytes, profile.processes[0].own_peak_ms) = (6_250_000, 400);
    (profile, heap)
}
