//! Reading heap profiles as text: jemalloc's `heap_v2` and those of gperftools. Stacks are addresses; the end
//! says which files they lie in, as the kernel lists them.
//!
//! ```text
//! heap_v2/524288                                  heap profile: 15: 8937 [ 2571: 285639] @ heapprofile
//!   t*: 28: 56637 [0: 0]                             1: 4096 [ 1: 4096] @ 0x7f16842a2630 0x55a3d1efba62
//! @ 0x7f16842a2630 0x55a3d1efba62
//!   t*: 1: 1024 [0: 0]
//!   t0: 1: 1024 [0: 0]
//! ```

use mallow_profile::{Counts, Frame, FrameId, ModuleId, Profile, Quantities, Quantity, StackId};
use rustc_hash::FxHashMap;

use crate::formats::builder::{Builder, DEPTH};
use crate::formats::input::{Lines, decimal, hexadecimal, name};
use crate::formats::{Addresses, Foreign, FormatError, InputFormat};

/// Stacks of addresses, until the files are known that they lie in.
struct Raw {
    builder: Builder,
    frames: FxHashMap<u64, FrameId>,
    stack: Vec<FrameId>,
    /// One allocation in so many bytes was recorded; 1: all were.
    period: f64,
    /// Sums of all allocations are there, not of live blocks alone.
    accumulated: bool,
}

impl Raw {
    fn new(format: InputFormat, period: u64) -> Self {
        Self {
            builder: Builder::new(format),
            frames: FxHashMap::default(),
            stack: Vec::new(),
            period: period.max(1) as f64,
            accumulated: false,
        }
    }

    fn stack(&mut self, addresses: &[u8]) -> Result<Option<StackId>, FormatError> {
        self.stack.clear();
        for text in addresses.split(u8::is_ascii_whitespace).filter(|text| !text.is_empty()) {
            let Some(address) = hexadecimal(text) else { return Ok(None) };
            let frame =
                *self.frames.entry(address).or_insert_with(|| self.builder.add_frame(Frame::new(None, address, false)));
            self.stack.push(frame);
            if self.stack.len() > DEPTH {
                break;
            }
        }
        self.builder.stack(self.stack.iter().copied()).map(Some)
    }

    fn add(&mut self, stack: StackId, numbers: [u64; 4]) {
        let [live, live_bytes, all, all_bytes] = numbers;
        self.accumulated |= all > 0;
        let (live, live_bytes) = self.unbiased(live, live_bytes);
        let (allocations, allocated_bytes) = self.unbiased(all, all_bytes);
        self.builder.add(stack, Counts { allocations, allocated_bytes, live, live_bytes, ..Counts::default() });
    }

    /// A block of `size` bytes is in the sample with a probability of `1 - exp(-size / period)`. The blocks of a stack are
    /// taken to be all of one size, as all readers of these profiles do; jemalloc prepares its numbers for that.
    fn unbiased(&self, blocks: u64, bytes: u64) -> (u64, u64) {
        if self.period <= 1.0 || blocks == 0 || bytes == 0 {
            return (blocks, bytes);
        }
        let seen = -(-(bytes as f64 / blocks as f64) / self.period).exp_m1();
        let scale = |n: u64| (n as f64 / seen).round() as u64;
        (scale(blocks), scale(bytes))
    }

    fn finish(mut self, maps: &[Map]) -> Foreign {
        place(&mut self.builder, maps);
        let mut quantities = vec![Quantity::Live, Quantity::LiveBytes];
        if self.accumulated {
            quantities.extend([Quantity::Allocations, Quantity::AllocatedBytes]);
        }
        let sampled = (self.period > 1.0).then_some(self.period as u64);
        self.builder.finish(Quantities::of(&quantities), sampled, Addresses::FileOffsets)
    }
}

/// `1: 4096 [ 1: 4096]`, and what comes after it.
fn numbers(text: &[u8]) -> Option<([u64; 4], &[u8])> {
    let mut all = [0; 4];
    let mut rest = text;
    for (number, end) in all.iter_mut().zip(b":[:]") {
        rest = rest.trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *number = decimal(&rest[..digits])?;
        rest = rest[digits..].trim_ascii_start().strip_prefix(&[*end])?;
    }
    Some((all, rest))
}

/// Reads a profile of jemalloc.
pub fn read_jemalloc(mut lines: Lines) -> Result<Foreign, FormatError> {
    let period = lines.next()?.and_then(|line| decimal(line.strip_prefix(b"heap_v2/")?.trim_ascii()));
    let Some(period) = period else { return Err(lines.damaged("the sampling period is missing")) };
    let mut raw = Raw::new(InputFormat::Jemalloc, period);
    let mut stack = None;
    loop {
        let Some(line) = lines.next()? else {
            return Ok(raw.finish(&[]));
        };
        raw.builder.read(line.len() + 1);
        let text = line.trim_ascii();
        if let Some(addresses) = text.strip_prefix(b"@") {
            stack = raw.stack(addresses)?;
            if stack.is_none() {
                return Err(lines.damaged("this is no stack of addresses"));
            }
        } else if let Some(counts) = text.strip_prefix(b"t*:") {
            let Some((counts, _)) = numbers(counts) else { return Err(lines.damaged("these are no counts")) };
            // Before the first stack come the sums.
            if let Some(stack) = stack.take() {
                raw.add(stack, counts);
            }
        } else if text == b"MAPPED_LIBRARIES:" {
            let maps = maps(&mut lines)?;
            return Ok(raw.finish(&maps));
        } else if !(text.is_empty() || text.starts_with(b"t")) {
            return Err(lines.damaged("this belongs to no heap profile"));
        }
    }
}

/// Reads a profile of gperftools.
pub fn read_gperftools(mut lines: Lines) -> Result<Foreign, FormatError> {
    let head = lines.next()?.and_then(|line| {
        let (_, rest) = numbers(line.strip_prefix(b"heap profile:")?)?;
        let kind = rest.trim_ascii_start().strip_prefix(b"@")?.trim_ascii();
        Some(name(kind).into_owned())
    });
    let period = match head.as_deref().map(|head| head.split_once('/').unwrap_or((head, ""))) {
        Some(("heapprofile" | "heap", "")) => 1,
        Some(("heap_v2" | "heap" | "heapz_v2", period)) => match decimal(period.as_bytes()) {
            Some(period) => period,
            None => return Err(lines.damaged("the sampling period is missing")),
        },
        Some((other, _)) => return Err(lines.unusable(format!("counts {other}, not blocks of the heap"))),
        None => return Err(lines.damaged("this is no head of a heap profile")),
    };
    let mut raw = Raw::new(InputFormat::Gperftools, period);
    loop {
        let Some(line) = lines.next()? else {
            return Ok(raw.finish(&[]));
        };
        raw.builder.read(line.len() + 1);
        let text = line.trim_ascii();
        if text == b"MAPPED_LIBRARIES:" {
            let maps = maps(&mut lines)?;
            return Ok(raw.finish(&maps));
        }
        // Go, and Mallow, name the functions of a stack in comments.
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let parsed =
            numbers(text).and_then(|(counts, rest)| Some((counts, rest.trim_ascii_start().strip_prefix(b"@")?)));
        let Some((counts, addresses)) = parsed else { return Err(lines.damaged("these are no counts with a stack")) };
        match raw.stack(addresses)? {
            Some(stack) => raw.add(stack, counts),
            None => return Err(lines.damaged("this is no stack of addresses")),
        }
    }
}

/// One file in memory.
struct Map {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// Lines as `/proc/PID/maps` has them. What is no file is passed over.
fn maps(lines: &mut Lines) -> Result<Vec<Map>, FormatError> {
    let mut maps = Vec::new();
    while let Some(line) = lines.next()? {
        let text = name(line);
        let mut words = text.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let Some((start, end)) =
            range.and_then(|(a, b)| Some((hexadecimal(a.as_bytes())?, hexadecimal(b.as_bytes())?)))
        else {
            continue;
        };
        let Some(offset) = words.nth(1).and_then(|offset| hexadecimal(offset.as_bytes())) else { continue };
        // The path may have spaces.
        let Some(path) = text.find('/').map(|at| text[at..].to_owned()) else { continue };
        if start < end {
            maps.push(Map { start, end, offset, path });
        }
    }
    maps.sort_by_key(|map| map.start);
    Ok(maps)
}

/// Sets for each frame the file that it lies in, and where there.
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
