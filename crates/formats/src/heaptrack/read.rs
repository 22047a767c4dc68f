//! Reading.

use mallow_profile::{Frame, FrameId, Line, ModuleId, Quantities, Quantity, StackId, Stacks, StringId};
use rustc_hash::FxHashMap;

use super::CALLS;
use super::ledger::HeaptrackLedger;
use crate::builder::{Builder, DEPTH};
use crate::input::{Lines, hexadecimal, name};
use crate::{Addresses, Foreign, FormatError, InputFormat};

/// Newest version of files that is known.
const VERSION: u64 = 3;

struct Reader {
    builder: Builder,
    version: u64,
    raw: bool,
    /// Strings by their numbers in the file; `modules` has those that are also paths of modules.
    strings: Vec<StringId>,
    modules: FxHashMap<u64, ModuleId>,
    frames: Vec<FrameId>,
    stacks: Vec<StackId>,
    /// Size and site by the number of the kind.
    kinds: Vec<(u64, u32)>,
    ledger: HeaptrackLedger,
    /// Kind or address of the last event, if that was an allocation; kind 0 after a free.
    last: Option<u64>,
    loaded: Loaded,
    blocks: FxHashMap<u64, (u64, u32)>,
    by_address: FxHashMap<u64, FrameId>,
    /// Number of frees of blocks that were not seen allocated.
    unknown: u64,
    attached: bool,
    /// Whether Mallow wrote the file, so that addresses are those of calls.
    calls: bool,
    string: Vec<u8>,
}

/// Modules of a raw file that are loaded.
#[derive(Default)]
struct Loaded {
    executable: String,
    /// Begin and end of each segment, its module, and the address that the module is loaded at.
    segments: Vec<(u64, u64, ModuleId, u64)>,
    sorted: bool,
}

impl Loaded {
    fn find(&mut self, address: u64) -> Option<(ModuleId, u64)> {
        if !std::mem::replace(&mut self.sorted, true) {
            self.segments.sort_by_key(|segment| segment.0);
        }
        let at = self.segments.partition_point(|segment| segment.0 <= address).checked_sub(1)?;
        let &(_, end, module, base) = self.segments.get(at)?;
        (address < end).then_some((module, base))
    }
}

pub fn read(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut reader = Reader {
        builder: Builder::new(InputFormat::Heaptrack),
        version: 0,
        raw: false,
        strings: Vec::new(),
        modules: FxHashMap::default(),
        frames: Vec::new(),
        stacks: Vec::new(),
        kinds: Vec::new(),
        ledger: HeaptrackLedger::default(),
        last: None,
        loaded: Loaded::default(),
        blocks: FxHashMap::default(),
        by_address: FxHashMap::default(),
        unknown: 0,
        attached: false,
        calls: false,
        string: Vec::new(),
    };
    while let Some(line) = lines.next_whole()? {
        let missing = match reader.line(line) {
            Ok(missing) => missing,
            Err(Fault::Line(what)) => return Err(lines.damaged(what)),
            Err(Fault::Whole(what)) => return Err(lines.unusable(what)),
            Err(Fault::Other(error)) => return Err(error),
        };
        if missing > 0 {
            reader.long_string(&mut lines, missing)?;
        }
    }
    reader.finish(&lines)
}

enum Fault {
    Line(&'static str),
    Whole(String),
    Other(FormatError),
}

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        Self::Other(error)
    }
}

struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn more(&mut self) -> Option<u64> {
        let end = self.0.iter().position(|&byte| byte == b' ').unwrap_or(self.0.len());
        let number = hexadecimal(&self.0[..end])?;
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Some(number)
    }

    fn next(&mut self) -> Result<u64, Fault> {
        self.more().ok_or(Fault::Line("a number is missing"))
    }
}

impl Reader {
    /// Takes a line in. A string may go on in the next lines: returns how many bytes of it are missing.
    fn line(&mut self, line: &[u8]) -> Result<u64, Fault> {
        self.builder.read(line.len() + 1);
        let (Some(&letter), rest) = (line.first(), line.get(2..).unwrap_or_default()) else { return Ok(0) };
        let mut numbers = Numbers(rest);
        match letter {
            b'+' => self.allocate(&mut numbers)?,
            b'-' => self.free(&mut numbers)?,
            b'c' => self.ledger.at(numbers.next()?),
            b't' => self.stack(&mut numbers)?,
            b'a' => {
                let (size, stack) = (numbers.next()?, numbers.next()?);
                let stack = self.stack_of(stack)?;
                self.kinds.push((size, self.builder.site(stack) as u32));
            }
            b's' => return self.begin_string(rest),
            b'i' => self.frame(&mut numbers)?,
            b'm' => self.module(rest)?,
            b'v' => {
                let heaptrack = numbers.next()?;
                // Before version 1.0 there was a time without a second number.
                self.version = numbers.more().unwrap_or(u64::from(heaptrack == 0x10200));
                if self.version > VERSION {
                    return Err(Fault::Whole(format!(
                        "has version {}, and versions up to {VERSION} are known: heaptrack_print reads it",
                        self.version
                    )));
                }
                if self.version == 0 {
                    return Err(Fault::Whole("is older than heaptrack 1.0: record it with a newer one".to_owned()));
                }
            }
            b'X' => self.builder.profile.command = vec![name(rest).into_owned()],
            b'x' => {
                self.raw = true;
                let path = if self.version >= 3 { sized(rest)?.0 } else { rest };
                self.loaded.executable = name(path).into_owned();
            }
            b'A' => self.attached = true,
            b'#' => self.calls |= line == CALLS.as_bytes(),
            b'R' | b'I' | b'S' => {}
            _ => return Err(Fault::Line("this is no line of heaptrack's")),
        }
        Ok(0)
    }

    fn allocate(&mut self, numbers: &mut Numbers) -> Result<(), Fault> {
        let first = numbers.next()?;
        if !self.raw {
            let &(size, site) = self.kinds.get(first as usize).ok_or(Fault::Line("there is no such allocation"))?;
            self.ledger.allocate(site, size);
            self.last = Some(first);
            return Ok(());
        }
        let (stack, address) = (numbers.next()?, numbers.next()?);
        let stack = self.stack_of(stack)?;
        let site = self.builder.site(stack) as u32;
        self.ledger.allocate(site, first);
        self.last = Some(address);
        if let Some((size, site)) = self.blocks.insert(address, (first, site)) {
            // Its free was not seen.
            self.ledger.free(site, size, false);
            self.unknown += 1;
        }
        Ok(())
    }

    fn free(&mut self, numbers: &mut Numbers) -> Result<(), Fault> {
        let number = numbers.next()?;
        let temporary = self.last == Some(number);
        // heaptrack keeps the number of the last allocation, and 0 after a free: a free of kind 0 is temporary to it
        // then.
        self.last = (!self.raw).then_some(0);
        let block = match self.raw {
            true => self.blocks.remove(&number),
            false => Some(*self.kinds.get(number as usize).ok_or(Fault::Line("there is no such allocation"))?),
        };
        let known = block.is_some_and(|(size, site)| self.ledger.free(site, size, temporary));
        self.unknown += u64::from(!known);
        Ok(())
    }

    fn stack_of(&self, number: u64) -> Result<StackId, Fault> {
        match number {
            0 => Ok(Stacks::ROOT),
            _ => self.stacks.get(number as usize - 1).copied().ok_or(Fault::Line("there is no such stack")),
        }
    }

    fn stack(&mut self, numbers: &mut Numbers) -> Result<(), Fault> {
        let (frame, parent) = (numbers.next()?, numbers.next()?);
        let parent = self.stack_of(parent)?;
        let frame = match self.raw {
            true => self.at_address(frame),
            false => match frame {
                0 => return Err(Fault::Line("a stack without a frame")),
                _ => self.frames.get(frame as usize - 1).copied().ok_or(Fault::Line("there is no such frame"))?,
            },
        };
        // A stack deeper than others may be is no stack of its own.
        let deep = self.builder.profile.stacks.depth(parent) as usize >= DEPTH;
        self.stacks.push(if deep { parent } else { self.builder.push(parent, frame)? });
        Ok(())
    }

    fn at_address(&mut self, address: u64) -> FrameId {
        if let Some(&frame) = self.by_address.get(&address) {
            return frame;
        }
        let (module, address_in) = match self.loaded.find(address) {
            Some((module, base)) => (Some(module), address.wrapping_sub(base)),
            None => (None, address),
        };
        // heaptrack has gone back into the call already.
        let frame = self.builder.frame(Frame::new(module, address_in, true));
        self.by_address.insert(address, frame);
        frame
    }

    fn frame(&mut self, numbers: &mut Numbers) -> Result<(), Fault> {
        let (address, module) = (numbers.next()?, numbers.next()?);
        let mut lines = Vec::new();
        while let Some(function) = numbers.more() {
            let (file, line) = (numbers.more().unwrap_or(0), numbers.more().unwrap_or(0));
            let file = if file == 0 { None } else { Some(self.string(file)?) };
            if function != 0 {
                let line = u32::try_from(line).unwrap_or(0);
                lines.push(Line { function: self.string(function)?, file, line });
            }
        }
        let module = match module {
            0 => None,
            number => Some(self.module_of(number)?),
        };
        // Its own writer's go back to what they were.
        let (address, exact) = if self.calls { (address.wrapping_add(1), false) } else { (address, true) };
        self.frames.push(self.builder.add_frame(Frame { lines, ..Frame::new(module, address, exact) }));
        Ok(())
    }

    fn module_of(&mut self, number: u64) -> Result<ModuleId, Fault> {
        if let Some(&module) = self.modules.get(&number) {
            return Ok(module);
        }
        let path = self.string(number)?;
        let path = self.builder.profile.strings.get(path).to_owned();
        let module = self.builder.module(&path);
        self.modules.insert(number, module);
        Ok(module)
    }

    fn string(&self, number: u64) -> Result<StringId, Fault> {
        let at = number.checked_sub(1).and_then(|at| self.strings.get(at as usize));
        at.copied().ok_or(Fault::Line("there is no such string"))
    }

    fn begin_string(&mut self, rest: &[u8]) -> Result<u64, Fault> {
        self.string.clear();
        if self.version < 3 {
            self.string.extend_from_slice(rest);
            self.end_string();
            return Ok(0);
        }
        let (text, missing) = sized(rest)?;
        self.string.extend_from_slice(text);
        if missing == 0 {
            self.end_string();
        }
        Ok(missing)
    }

    fn end_string(&mut self) {
        self.strings.push(self.builder.profile.strings.intern(&name(&self.string)));
    }

    /// Reads the rest of a string with line ends in it.
    fn long_string(&mut self, lines: &mut Lines, mut missing: u64) -> Result<(), FormatError> {
        while missing > 0 {
            let Some(line) = lines.next_whole()? else { break };
            self.builder.read(line.len() + 1);
            self.string.push(b'\n');
            self.string.extend_from_slice(line);
            missing = missing.saturating_sub(line.len() as u64 + 1);
        }
        self.end_string();
        Ok(())
    }

    fn module(&mut self, rest: &[u8]) -> Result<(), Fault> {
        self.raw = true;
        let (path, rest) = match self.version >= 3 {
            true => {
                let (path, missing) = sized_part(rest)?;
                if missing > 0 {
                    return Err(Fault::Line("the path of a module is cut short"));
                }
                (path.0, path.1)
            }
            false => {
                let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
                (&rest[..end], rest.get(end + 1..).unwrap_or_default())
            }
        };
        if path == b"-" {
            self.loaded.segments.clear();
            self.by_address.clear();
            return Ok(());
        }
        let path = if path == b"x" { self.loaded.executable.clone() } else { name(path).into_owned() };
        let module = self.builder.module(&path);
        let mut numbers = Numbers(rest);
        let base = numbers.next()?;
        while let Some(start) = numbers.more() {
            let start = base.wrapping_add(start);
            let end = start.saturating_add(numbers.next()?);
            self.loaded.segments.push((start, end, module, base));
        }
        self.loaded.sorted = false;
        Ok(())
    }

    fn finish(self, lines: &Lines) -> Result<Foreign, FormatError> {
        let Self { mut builder, ledger, .. } = self;
        if self.version == 0 {
            return Err(lines.damaged("the version is missing"));
        }
        builder.profile.duration_ms = ledger.now_ms();
        builder.profile.peak_ms = ledger.peak_ms;
        builder.process.executable = self.loaded.executable;
        for (site, counts) in builder.profile.sites.iter_mut().zip(ledger.finish()) {
            site.counts = counts;
        }
        if lines.cut() {
            builder.profile.ending.cut_short = Some("the file ends in the middle".to_owned());
        }
        if self.attached {
            builder.remarks.push("heaptrack was attached to a running program: what came before is unknown".to_owned());
        }
        if self.unknown > 0 {
            builder.remarks.push(format!("{} blocks were freed that were not seen allocated", self.unknown));
        }
        let quantities = Quantities::of(&[
            Quantity::Allocations,
            Quantity::AllocatedBytes,
            Quantity::Frees,
            Quantity::FreedBytes,
            Quantity::Temporary,
            Quantity::TemporaryBytes,
            Quantity::Live,
            Quantity::LiveBytes,
            Quantity::Peak,
            Quantity::PeakBytes,
            Quantity::Times,
        ]);
        Ok(builder.finish(quantities, None, if self.raw { Addresses::LinkTime } else { Addresses::Opaque }))
    }
}

/// Reads a string behind its length: as much of it as the line has, and how many bytes are missing.
fn sized(rest: &[u8]) -> Result<(&[u8], u64), Fault> {
    let ((text, _), missing) = sized_part(rest)?;
    Ok((text, missing))
}

type Part<'a> = (&'a [u8], &'a [u8]);

/// Reads a string behind its length, with what comes behind it and a space, and how many bytes are missing.
fn sized_part(rest: &[u8]) -> Result<(Part<'_>, u64), Fault> {
    let space = rest.iter().position(|&byte| byte == b' ').ok_or(Fault::Line("a length is missing"))?;
    let length = hexadecimal(&rest[..space]).ok_or(Fault::Line("this is no length"))?;
    let text = &rest[space + 1..];
    let here = usize::try_from(length).unwrap_or(usize::MAX).min(text.len());
    Ok(((&text[..here], text.get(here + 1..).unwrap_or_default()), length - here as u64))
}
