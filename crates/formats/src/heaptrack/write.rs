//! Writing: an interpreted file, which heaptrack's own views read.

use std::io::{self, Write};

use mallow_profile::{Event, FrameId, Moment, Profile, Quantity, StackId};
use rustc_hash::FxHashMap;

use super::CALLS;
use crate::frames::{functions, plain, title};

/// The quantities that a written file has. Reallocs are frees and allocations there, and heaptrack counts as temporary
/// what it takes for that.
pub const CARRIES: [Quantity; 9] = [
    Quantity::Allocations,
    Quantity::AllocatedBytes,
    Quantity::Frees,
    Quantity::FreedBytes,
    Quantity::Live,
    Quantity::LiveBytes,
    Quantity::Peak,
    Quantity::PeakBytes,
    Quantity::Times,
];

/// Writes the events that are added, of one process.
pub struct Writer<'p, W> {
    profile: &'p Profile,
    out: W,
    strings: FxHashMap<String, u64>,
    /// By frame and by stack, the number in the file, from 1; 0 where it is not written yet.
    frames: Vec<u64>,
    stacks: Vec<u64>,
    written: (u64, u64),
    /// By size and site, the number of the kind, in the order of their first allocations: heaptrack_gui fails where
    /// another kind is allocated first.
    kinds: FxHashMap<(u64, u32), u64>,
    /// Size and site of kind 0, which only the first allocation is of: heaptrack takes each of its frees that follows
    /// another free for temporary. Later ones like it have a number of their own.
    first: Option<(u64, u32)>,
    ms: u64,
    failed: io::Result<()>,
}

impl<'p, W: Write> Writer<'p, W> {
    /// Begins a file. Of several processes, the caller chooses one.
    pub fn new(profile: &'p Profile, mut out: W) -> io::Result<Self> {
        writeln!(out, "v 10400 3\n{CALLS}\nX {}", plain(&title(profile)))?;
        Ok(Self {
            profile,
            out,
            strings: FxHashMap::default(),
            frames: vec![0; profile.frames.len()],
            stacks: vec![0; profile.stacks.len()],
            written: (0, 0),
            kinds: FxHashMap::default(),
            first: None,
            ms: 0,
            failed: Ok(()),
        })
    }

    /// Writes the next event. A failure is reported by [`Self::finish`].
    pub fn add(&mut self, at: Moment, event: Event) {
        if self.failed.is_ok() {
            self.failed = self.event(at, event);
        }
    }

    /// Fails if an earlier write did.
    pub fn finish(mut self) -> io::Result<()> {
        self.failed?;
        if self.profile.duration_ms > self.ms {
            writeln!(self.out, "c {:x}", self.profile.duration_ms)?;
        }
        self.out.flush()
    }

    fn event(&mut self, at: Moment, event: Event) -> io::Result<()> {
        if at.ms > self.ms {
            self.ms = at.ms;
            writeln!(self.out, "c {:x}", at.ms)?;
        }
        let (freed, call) = match event {
            Event::Allocate(call) => (None, Some(call)),
            Event::Reallocate { call, old, .. } => (old, Some(call)),
            Event::Free(block) | Event::ReallocFree(block) => (block, None),
            Event::UnseenFree(block) => (Some(block), None),
            Event::Region { .. } | Event::EndProcess => (None, None),
        };
        if let Some(block) = freed {
            let shape = (block.size, block.site);
            // A block that is written was allocated: a kind without a number is the first one's.
            match self.kinds.get(&shape).copied().or((self.first == Some(shape)).then_some(0)) {
                Some(kind) => writeln!(self.out, "- {kind:x}")?,
                None => return Err(io::Error::other("a block is freed that was not allocated")),
            }
        }
        if let Some(call) = call {
            let kind = self.kind(call.size, call.site)?;
            writeln!(self.out, "+ {kind:x}")?;
        }
        Ok(())
    }

    fn kind(&mut self, size: u64, site: u32) -> io::Result<u64> {
        if let Some(&kind) = self.kinds.get(&(size, site)) {
            return Ok(kind);
        }
        let stack = match self.profile.sites.get(site as usize) {
            Some(site) => self.stack(site.stack)?,
            None => 0,
        };
        writeln!(self.out, "a {size:x} {stack:x}")?;
        if self.first.is_none() {
            self.first = Some((size, site));
            return Ok(0);
        }
        let kind = self.kinds.len() as u64 + 1;
        self.kinds.insert((size, site), kind);
        Ok(kind)
    }

    fn stack(&mut self, stack: StackId) -> io::Result<u64> {
        // From the outermost one that has not been written yet.
        let mut path = Vec::new();
        let mut at = stack;
        while let Some((frame, parent)) = self.profile.stacks.top(at) {
            if self.stacks[at.0 as usize] > 0 {
                break;
            }
            path.push((at, frame));
            at = parent;
        }
        let mut parent = self.stacks.get(at.0 as usize).copied().unwrap_or(0);
        for (stack, frame) in path.into_iter().rev() {
            let frame = self.frame(frame)?;
            writeln!(self.out, "t {frame:x} {parent:x}")?;
            self.written.1 += 1;
            parent = self.written.1;
            self.stacks[stack.0 as usize] = parent;
        }
        Ok(parent)
    }

    fn frame(&mut self, frame: FrameId) -> io::Result<u64> {
        let at = frame.0 as usize;
        if let Some(&number) = self.frames.get(at).filter(|number| **number > 0) {
            return Ok(number);
        }
        let raw = self.profile.frames.get(at);
        let address = raw.map_or(0, |raw| raw.address.saturating_sub(u64::from(!raw.exact)));
        let all = functions(self.profile, frame);
        let module = match all.first().and_then(|function| function.module) {
            Some(module) => self.string(module)?,
            None => 0,
        };
        let mut line = format!("i {address:x} {module:x}");
        // A frame without a name is shown as its address.
        if raw.is_some_and(|raw| !raw.lines.is_empty()) {
            for function in &all {
                let name = self.string(&function.name)?;
                let file = function.file.map_or(Ok(0), |file| self.string(file))?;
                line.push_str(&format!(" {name:x} {file:x} {:x}", function.line));
            }
        }
        writeln!(self.out, "{line}")?;
        self.written.0 += 1;
        if let Some(number) = self.frames.get_mut(at) {
            *number = self.written.0;
        }
        Ok(self.written.0)
    }

    fn string(&mut self, text: &str) -> io::Result<u64> {
        let text = plain(text);
        if let Some(&number) = self.strings.get(text.as_ref()) {
            return Ok(number);
        }
        writeln!(self.out, "s {:x} {text}", text.len())?;
        let number = self.strings.len() as u64 + 1;
        self.strings.insert(text.into_owned(), number);
        Ok(number)
    }
}
