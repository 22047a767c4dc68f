//! Hand-built profiles, for tests of reports.

use mallow_profile::{
    Counts, FamilyCounts, Frame, FrameId, Line, Module, ModuleId, Process, ProcessId, Profile, Site, StackId, Stacks,
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
        self.profile.processes.push(Process {
            pid,
            executable: arguments.first().map_or(String::new(), |a| format!("/usr/bin/{a}")),
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            end_ms,
            threads: 1,
            ..Process::default()
        });
        ProcessId(self.profile.processes.len() as u32 - 1)
    }

    /// A stack, the innermost function first. `function@file:line` or `function` in the program, `function!module` in
    /// a shared object, `+0x12!module` or `+0x12` without a name. `inner | outer` is a frame with an inlined function.
    pub fn stack(&mut self, frames: &[&str]) -> StackId {
        frames.iter().rev().fold(Stacks::ROOT, |parent, text| {
            let frame = self.frame(text);
            self.profile.stacks.push(parent, frame)
        })
    }

    fn frame(&mut self, text: &str) -> FrameId {
        let (functions, module) = match text.rsplit_once('!') {
            Some((functions, module)) => (functions, format!("/usr/lib/{module}")),
            None => (text, "/usr/bin/program".to_owned()),
        };
        let address = functions.strip_prefix("+0x").and_then(|a| u64::from_str_radix(a, 16).ok());
        let lines = match address {
            Some(_) => Vec::new(),
            None => functions.split(" | ").map(|f| self.line(f)).collect(),
        };
        let module = Some(self.module(module));
        // A made-up address that equal frames share.
        let made_up = || 0x1000 + 16 * text.bytes().fold(7u64, |h, b| (h * 31 + u64::from(b)) % 0xffff);
        let frame = Frame { module, address: address.unwrap_or_else(made_up), exact: false, lines };
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
        sites.push(Site {
            process,
            stack,
            counts,
            patterns: Default::default(),
            leaked_oldest_ms: 0,
            leaked_youngest_ms: 0,
        });
        let last = sites.len() - 1;
        &mut sites[last]
    }
}

/// Counts of blocks of one size, of which some are temporary and some leaked; the rest is live at the peak.
pub fn blocks(allocations: u64, size: u64, temporary: u64, leaked: u64) -> Counts {
    Counts {
        allocations,
        allocated_bytes: allocations * size,
        frees: allocations - leaked,
        freed_bytes: (allocations - leaked) * size,
        temporary,
        temporary_bytes: temporary * size,
        leaked,
        leaked_bytes: leaked * size,
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
    (cache.leaked_oldest_ms, cache.leaked_youngest_ms) = (10, 1650);
    b.site(parent, &stack(&["+0x12f0!libplugin.so", "+0x1400!libplugin.so"]), blocks(7, 1_000_000, 0, 0));
    let early = b.site(
        child,
        &["_dl_new_object!ld-linux-x86-64.so.2", "_dl_map_object!ld-linux-x86-64.so.2"],
        blocks(3, 1200, 0, 3),
    );
    (early.leaked_oldest_ms, early.leaked_youngest_ms) = (700, 700);
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
