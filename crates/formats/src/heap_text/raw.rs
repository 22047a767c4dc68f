//! Stacks of addresses with counts, until the end of the text says which files the addresses lie in.

use mallow_profile::{Counts, Frame, FrameId, ModuleId, Profile, Quantities, Quantity};
use rustc_hash::FxHashMap;

use super::maps::Map;
use super::names::{Named, SymbolTable};
use crate::builder::{Builder, DEPTH};
use crate::input::{Lines, hexadecimal};
use crate::{Addresses, Foreign, FormatError, InputFormat};

pub struct Raw {
    pub builder: Builder,
    /// The table before the profile, where a tool put the names of its addresses there.
    pub symbols: SymbolTable,
    /// Whether addresses are those of the files' own symbol tables.
    pub link_time: bool,
    format: InputFormat,
    frames: FxHashMap<u64, FrameId>,
    /// The last stack, the innermost address first, with the names below it, and its counts.
    stack: Vec<u64>,
    names: Vec<Vec<Named>>,
    named: Option<usize>,
    counts: Option<[u64; 4]>,
    /// Mean bytes from one recorded allocation to the next; 1 where all were recorded.
    period: f64,
    /// Whether there are sums of all allocations, not of live blocks alone.
    accumulated: bool,
}

impl Raw {
    pub fn new(lines: &Lines, period: u64, symbols: SymbolTable) -> Self {
        Self {
            builder: Builder::new(lines.format()),
            symbols,
            link_time: false,
            format: lines.format(),
            frames: FxHashMap::default(),
            stack: Vec::new(),
            names: Vec::new(),
            named: None,
            counts: None,
            period: period.max(1) as f64,
            accumulated: false,
        }
    }

    /// Begins a stack; false where the text is none.
    pub fn begin(&mut self, addresses: &[u8]) -> Result<bool, FormatError> {
        self.flush()?;
        for text in addresses.split(u8::is_ascii_whitespace).filter(|text| !text.is_empty()) {
            let Some(address) = hexadecimal(text) else { return Ok(false) };
            self.stack.push(address);
            if self.stack.len() > DEPTH {
                break;
            }
        }
        self.names.resize_with(self.stack.len(), Vec::new);
        Ok(true)
    }

    pub fn count(&mut self, counts: [u64; 4]) {
        self.counts = Some(counts);
    }

    /// Adds a name below the stack that was begun. Functions of one address are in one another, the innermost first,
    /// unless the stack has the address several times in a row.
    pub fn name(&mut self, address: Option<u64>, name: Named) {
        let is_of = |entry: u64, wanted: u64| entry == wanted || entry.wrapping_sub(1) == wanted;
        let at = match (address, self.named) {
            (None, last) => last,
            (Some(address), None) => self.stack.iter().position(|&entry| is_of(entry, address)),
            (Some(address), Some(last)) => {
                let next = last + 1;
                let later =
                    || self.stack.iter().skip(next).position(|&entry| is_of(entry, address)).map(|at| at + next);
                let repeated = self.stack.get(next).is_some_and(|&entry| is_of(entry, address));
                match is_of(self.stack[last], address) && !repeated {
                    true => Some(last),
                    false => later(),
                }
            }
        };
        let Some(at) = at else { return };
        self.names[at].push(name);
        self.named = Some(at);
    }

    /// Adds the last stack to the profile.
    fn flush(&mut self) -> Result<(), FormatError> {
        let (mut stack, mut names) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.names));
        self.named = None;
        if let Some(counts) = self.counts.take() {
            // Go hides its runtime where a stack begins and ends, as in its other profiles.
            let hidden = names.iter().take_while(|names| names.is_empty()).count();
            let (first, last) = match self.format == InputFormat::GoText && hidden < names.len() {
                true => (hidden, names.len() - names.iter().rev().take_while(|names| names.is_empty()).count()),
                false => (0, names.len()),
            };
            let mut frames = Vec::with_capacity(last - first);
            for (at, (&address, names)) in stack.iter().zip(&names).enumerate().take(last).skip(first) {
                frames.push(self.frame(address, at == 0, names));
            }
            let stack = self.builder.stack(frames)?;
            self.add(stack, counts);
        }
        stack.clear();
        names.clear();
        (self.stack, self.names) = (stack, names);
        Ok(())
    }

    fn frame(&mut self, address: u64, innermost: bool, names: &[Named]) -> FrameId {
        let id = match self.frames.get(&address) {
            Some(&id) => id,
            None => {
                let lines = self.symbols.lines(self.format, address, innermost, &mut self.builder.profile.strings);
                let id = self.builder.add_frame(Frame { lines, ..Frame::new(None, address, false) });
                self.frames.insert(address, id);
                id
            }
        };
        let Profile { frames, strings, .. } = &mut self.builder.profile;
        let lines = &mut frames[id.0 as usize].lines;
        if lines.is_empty() {
            lines.extend(names.iter().map(|name| name.line(strings)));
        }
        id
    }

    fn add(&mut self, stack: mallow_profile::StackId, numbers: [u64; 4]) {
        let [live, live_bytes, all, all_bytes] = numbers;
        self.accumulated |= all > 0;
        let (live, live_bytes) = self.unbiased(live, live_bytes);
        let (allocations, allocated_bytes) = self.unbiased(all, all_bytes);
        self.builder.add(stack, Counts { allocations, allocated_bytes, live, live_bytes, ..Counts::default() });
    }

    /// Estimates all blocks and bytes from the recorded ones. A block of `size` bytes is in the sample with a
    /// probability of `1 - exp(-size / period)`. The blocks of a stack are taken to be all of one size, as all readers
    /// of these profiles do; jemalloc prepares its numbers for that.
    fn unbiased(&self, blocks: u64, bytes: u64) -> (u64, u64) {
        if self.period <= 1.0 || blocks == 0 || bytes == 0 {
            return (blocks, bytes);
        }
        let seen = -(-(bytes as f64 / blocks as f64) / self.period).exp_m1();
        let go = self.format == InputFormat::GoText;
        // Go's tools round down.
        let scale = |n: u64| if go { (n as f64 * (1.0 / seen)) as u64 } else { (n as f64 / seen).round() as u64 };
        (scale(blocks), scale(bytes))
    }

    pub fn finish(mut self, maps: &[Map]) -> Result<Foreign, FormatError> {
        self.flush()?;
        place(&mut self.builder, maps);
        let mut quantities = vec![Quantity::Live, Quantity::LiveBytes];
        if self.accumulated {
            quantities.extend([Quantity::Allocations, Quantity::AllocatedBytes]);
        }
        let sampled = (self.period > 1.0).then_some(self.period as u64);
        let named = self.builder.profile.frames.iter().all(|frame| !frame.lines.is_empty());
        let addresses = match (named, self.link_time) {
            (true, _) => Addresses::Opaque,
            (false, true) => Addresses::LinkTime,
            (false, false) => Addresses::FileOffsets,
        };
        Ok(self.builder.finish(Quantities::of(&quantities), sampled, addresses))
    }
}

/// Sets the module of each frame, and the address within it.
fn place(builder: &mut Builder, maps: &[Map]) {
    let modules: Vec<ModuleId> = maps.iter().map(|map| builder.module(&map.path)).collect();
    let Profile { frames, .. } = &mut builder.profile;
    for frame in frames {
        // A return address may be the first one behind its file.
        let inside = frame.address.wrapping_sub(1);
        let at = maps.partition_point(|map| map.start <= inside);
        let Some((map, &module)) = at.checked_sub(1).map(|at| (&maps[at], &modules[at])) else { continue };
        if inside < map.end {
            frame.module = Some(module);
            frame.address = frame.address.wrapping_sub(map.start).wrapping_add(map.offset);
        }
    }
    // The first file is the program itself.
    if let Some(map) = maps.first() {
        builder.process.executable.clone_from(&map.path);
        builder.profile.command = vec![map.path.clone()];
    }
}
