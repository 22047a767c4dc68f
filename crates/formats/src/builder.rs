//! Builds a profile from stacks of another tool.

use mallow_profile::{
    Counts, Frame, FrameId, Module, ModuleId, Origin, Process, ProcessId, Profile, Quantities, Quantity, Site, StackId,
    Stacks,
};
use rustc_hash::FxHashMap;

use super::{Addresses, Foreign, FormatError, InputFormat};

/// Most frames of a stack; deeper ones are cut, as `record --max-depth` cuts them at the most.
pub const DEPTH: usize = 4096;
/// Frames in different stacks that are believed of any file; larger ones may have one more for each [`BYTES_A_NODE`].
const NODES: u64 = 4 << 20;
/// Bytes of a file for each frame beyond [`NODES`]. Frames that stacks share count once: real files have one for a
/// hundred.
const BYTES_A_NODE: u64 = 2;

pub struct Builder {
    /// Callers may set strings, command and times.
    pub profile: Profile,
    /// One-line remarks for people, as in [`Foreign`].
    pub remarks: Vec<String>,
    /// The first process, and of most files the only one.
    pub process: Process,
    format: InputFormat,
    modules: FxHashMap<Box<str>, ModuleId>,
    frames: FxHashMap<Frame, FrameId>,
    others: Vec<Process>,
    sites: FxHashMap<(ProcessId, StackId), u32>,
    path: Vec<FrameId>,
    /// The last stack, the outermost frame first, and what it stood upon: the next one is often the same for a while.
    last: (StackId, Vec<(FrameId, StackId)>),
    bytes: u64,
}

impl Builder {
    pub fn new(format: InputFormat) -> Self {
        Self {
            profile: Profile::default(),
            remarks: Vec::new(),
            process: Process::default(),
            others: Vec::new(),
            format,
            modules: FxHashMap::default(),
            frames: FxHashMap::default(),
            sites: FxHashMap::default(),
            path: Vec::new(),
            last: (Stacks::ROOT, Vec::new()),
            bytes: 0,
        }
    }

    /// Counts bytes of the file that have been read: they raise the number of frames that are believed.
    pub fn read(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub fn module(&mut self, path: &str) -> ModuleId {
        if let Some(&id) = self.modules.get(path) {
            return id;
        }
        let id = self.add_module(path, Vec::new());
        self.modules.insert(path.into(), id);
        id
    }

    /// Adds a module, which may have the path of another.
    pub fn add_module(&mut self, path: &str, build_id: Vec<u8>) -> ModuleId {
        self.profile.modules.push(Module { path: path.to_owned(), build_id });
        ModuleId(self.profile.modules.len() as u32 - 1)
    }

    /// Returns the frame that is equal to this one, or adds it.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.frames.get(&frame) {
            return id;
        }
        let id = self.add_frame(frame.clone());
        self.frames.insert(frame, id);
        id
    }

    /// Adds a frame of a file that has each once.
    pub fn add_frame(&mut self, frame: Frame) -> FrameId {
        self.profile.frames.push(frame);
        FrameId(self.profile.frames.len() as u32 - 1)
    }

    /// Returns the stack of these frames. One with more than [`DEPTH`] is cut.
    pub fn stack(&mut self, innermost_first: impl IntoIterator<Item = FrameId>) -> Result<StackId, FormatError> {
        self.stack_on(Stacks::ROOT, innermost_first)
    }

    /// Returns the stack of these frames upon `root`, one of the roots. One with more than [`DEPTH`] frames is cut.
    pub fn stack_on(
        &mut self,
        root: StackId,
        innermost_first: impl IntoIterator<Item = FrameId>,
    ) -> Result<StackId, FormatError> {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let mut all = innermost_first.into_iter();
        path.extend(all.by_ref().take(DEPTH));
        let root = if all.next().is_some() { Stacks::CUT_ROOT } else { root };
        let mut last = std::mem::take(&mut self.last.1);
        let outermost_first = path.iter().rev();
        let shared = match self.last.0 == root {
            true => outermost_first.clone().zip(&last).take_while(|(frame, (known, _))| *frame == known).count(),
            false => 0,
        };
        last.truncate(shared);
        let mut stack = last.last().map_or(root, |(_, stack)| *stack);
        for &frame in outermost_first.skip(shared) {
            stack = self.push(stack, frame)?;
            last.push((frame, stack));
        }
        (self.path, self.last) = (path, (root, last));
        Ok(stack)
    }

    pub fn push(&mut self, parent: StackId, frame: FrameId) -> Result<StackId, FormatError> {
        let stacks = &mut self.profile.stacks;
        if stacks.len() as u64 > NODES + self.bytes / BYTES_A_NODE || stacks.len() >= u32::MAX as usize {
            let what = "claims more stacks than its length could bring".to_owned();
            return Err(FormatError::Unusable { format: self.format, what });
        }
        Ok(stacks.push(parent, frame))
    }

    pub fn add(&mut self, stack: StackId, counts: Counts) {
        let site = self.site(stack);
        self.profile.sites[site].counts += counts;
    }

    /// Adds a process beside the first.
    pub fn add_process(&mut self, process: Process) -> ProcessId {
        self.others.push(process);
        ProcessId(self.others.len() as u32)
    }

    /// Index of the site of this stack, in the first process.
    pub fn site(&mut self, stack: StackId) -> usize {
        self.site_in(ProcessId(0), stack)
    }

    /// Index of the site of this stack, in this process.
    pub fn site_in(&mut self, process: ProcessId, stack: StackId) -> usize {
        if let Some(&at) = self.sites.get(&(process, stack)) {
            return at as usize;
        }
        let at = self.new_site(process, stack);
        // Stacks have numbers of this size, and each has a site of each process at the most.
        self.sites.insert((process, stack), at as u32);
        at
    }

    /// Index of a new site of this stack, beside those that it may have.
    pub fn new_site(&mut self, process: ProcessId, stack: StackId) -> usize {
        self.profile.sites.push(Site::of(process, stack, Counts::default()));
        self.profile.sites.len() - 1
    }

    /// Returns the profile, with its sums. Frees follow from allocations and what was live at the end, where both are
    /// known.
    pub fn finish(mut self, mut quantities: Quantities, sampled_bytes: Option<u64>, addresses: Addresses) -> Foreign {
        let Profile { sites, totals, .. } = &mut self.profile;
        sites.retain(|site| site.counts != Counts::default());
        for (all, live, freed, set) in DERIVED {
            if quantities.has(all) && quantities.has(live) && !quantities.has(freed) {
                sites.iter_mut().for_each(|site| set(&mut site.counts));
                quantities = quantities.with(freed);
            }
        }
        let mut processes = vec![self.process];
        processes.append(&mut self.others);
        for site in sites {
            *totals += site.counts;
            if let Some(process) = processes.get_mut(site.process.0 as usize) {
                process.totals += site.counts;
            }
        }
        if totals.numbers_mut().into_iter().any(|number| *number == u64::MAX) {
            let what = "numbers above 2^64 - 1 do not fit: where one stands for a sum, the true sum is that or more";
            self.remarks.push(what.to_owned());
        }
        // Of several it is known what they had when all together had most, and not what each had at most.
        if let [only] = &mut processes[..] {
            if only.arguments.is_empty() {
                only.arguments.clone_from(&self.profile.command);
            }
            only.end_ms = self.profile.duration_ms;
            (only.own_peak_bytes, only.own_peak_ms) = (only.totals.peak_bytes, self.profile.peak_ms);
        }
        self.profile.processes = processes;
        self.profile.origin = Some(Origin { format: self.format.name(), quantities, sampled_bytes });
        Foreign { profile: self.profile, addresses, remarks: self.remarks }
    }
}

type Derived = (Quantity, Quantity, Quantity, fn(&mut Counts));

/// Quantities that follow from two others: what was allocated and is not live at the end has been freed.
const DERIVED: [Derived; 2] = [
    (Quantity::Allocations, Quantity::Live, Quantity::Frees, |c| c.frees = c.allocations.saturating_sub(c.live)),
    (Quantity::AllocatedBytes, Quantity::LiveBytes, Quantity::FreedBytes, |c| {
        c.freed_bytes = c.allocated_bytes.saturating_sub(c.live_bytes);
    }),
];
