//! Stacks that dtrace or bpftrace has counted, as their scripts print them: frames, the innermost first, and how often.
//! Dtrace's are written too.
//!
//! ```text
//!               libsystem_malloc.dylib`malloc              @malloc_calls[
//!               libswiftCore.dylib`swift_slowAlloc+0x19        malloc+0
//!               app`run()+0x231                                 swift_slowAlloc+28
//!            231000                                         ]: 231000
//! ```

use std::io::{self, Write};

use mallow_profile::{Counts, Frame, FrameId, Line, Profile, Quantities, Quantity};

use super::builder::Builder;
use super::frames::{Table, plain};
use super::input::{Lines, decimal, hexadecimal, name};
use super::{Addresses, Foreign, FormatError, InputFormat};
use mallow_report::analysis::by_stack;
use mallow_report::names::without_offset;

/// Module of a frame that has none, in written files. With it, no frame reads as a number: scripts that compare such
/// files take a line of hexadecimal digits for one.
const NO_MODULE: &str = "??";

/// The quantity of a map of stacks that the line begins, `@name[`; the name says what it adds up.
fn opens_map(line: &[u8]) -> Option<Quantity> {
    let map = line.strip_prefix(b"@")?.strip_suffix(b"[")?;
    let name = map.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').then_some(map)?;
    let says = |part: &[u8]| name.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    Some(if says(b"bytes") || says(b"size") { Quantity::AllocatedBytes } else { Quantity::Allocations })
}

/// The sum in a line that ends a stack: `]: 231000`, or with more keys after the stack: `, sqlite3, 4711]: 231000`.
fn closes_map(line: &[u8]) -> Option<u64> {
    let at = line.windows(3).rposition(|three| three == b"]: ")?;
    let keys = &line[..at];
    (keys.is_empty() || keys.starts_with(b", ")).then(|| decimal(&line[at + 3..]))?
}

/// Whether some line begins a map of stacks.
pub fn looks_like_bpftrace<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
    lines.any(|line| opens_map(line).is_some())
}

/// Whether some line is a frame with its module, or a number alone stands under an indented frame.
pub fn looks_like_dtrace<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut frames, mut module) = (0, false);
    for line in lines {
        let text = line.trim_ascii();
        let indented = line.first().is_some_and(u8::is_ascii_whitespace);
        if !indented || text.is_empty() {
            frames = 0;
        } else if decimal(text).is_some() {
            if frames > 0 && module {
                return true;
            }
            frames = 0;
        } else {
            frames += 1;
            module |= text.contains(&b'`') || text.starts_with(b"0x");
        }
    }
    false
}

/// Reads what dtrace printed. Whatever else is there (a script's greeting, the program's own output) is passed over.
pub fn read_dtrace(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut builder = Builder::new(InputFormat::Dtrace);
    let mut stack = Vec::new();
    while let Some(line) = lines.next()? {
        builder.read(line.len() + 1);
        let text = line.trim_ascii();
        let indented = line.first().is_some_and(u8::is_ascii_whitespace);
        if !indented || text.is_empty() {
            stack.clear();
        } else if let Some(number) = decimal(text) {
            add(&mut builder, &mut stack, Quantity::Allocations, number)?;
        } else {
            stack.push(frame(&name(text), &mut builder));
        }
    }
    Ok(builder.finish(Quantities::of(&[Quantity::Allocations]), None, Addresses::Opaque))
}

/// Reads what bpftrace printed; all other lines are passed over.
pub fn read_bpftrace(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut builder = Builder::new(InputFormat::Bpftrace);
    let mut stack = Vec::new();
    let mut within = None;
    let mut quantities = Quantities::default();
    while let Some(line) = lines.next()? {
        builder.read(line.len() + 1);
        let Some(quantity) = within else {
            within = opens_map(line);
            stack.clear();
            continue;
        };
        if let Some(number) = closes_map(line) {
            within = None;
            quantities = quantities.with(quantity);
            add(&mut builder, &mut stack, quantity, number)?;
        } else if !line.trim_ascii().is_empty() {
            stack.push(frame(&name(line.trim_ascii()), &mut builder));
        }
    }
    if within.is_some() {
        return Err(lines.damaged("the text ends within a stack"));
    }
    Ok(builder.finish(quantities, None, Addresses::Opaque))
}

fn add(builder: &mut Builder, stack: &mut Vec<FrameId>, quantity: Quantity, number: u64) -> Result<(), FormatError> {
    // A number without a stack belongs to something else that was printed.
    if !stack.is_empty() {
        let stack = builder.stack(stack.drain(..))?;
        let mut counts = Counts::default();
        match quantity {
            Quantity::AllocatedBytes => counts.allocated_bytes = number,
            _ => counts.allocations = number,
        }
        builder.add(stack, counts);
    }
    Ok(())
}

/// Reads a frame: `module\`function+0x12`, `function+18`, `0x7f12 function+18 (module)` or `0x7f12`.
fn frame(text: &str, builder: &mut Builder) -> FrameId {
    let (module, text) = match text.split_once('`') {
        Some((module, function)) => (Some(module), function),
        None => match text.rsplit_once(" (").and_then(|(f, m)| Some((f, m.strip_suffix(')')?))) {
            // In perf's way, the address comes first; `f(int (*)(char))` is no module.
            Some((function, module)) if module.starts_with('/') || module.starts_with('[') => (Some(module), function),
            _ => (None, text),
        },
    };
    let module = module.filter(|path| *path != NO_MODULE).map(|path| builder.module(path));
    if let Some(address) = text.strip_prefix("0x").and_then(|digits| hexadecimal(digits.as_bytes())) {
        return builder.frame(Frame::new(module, address, false));
    }
    let function = without_offset(without_address(text));
    let line = Line { function: builder.profile.strings.intern(function), file: None, line: 0 };
    builder.frame(Frame { lines: vec![line], ..Frame::new(module, 0, true) })
}

/// Removes the address that perf's way puts in front.
fn without_address(text: &str) -> &str {
    match text.split_once(' ') {
        Some((address, function)) if address.len() >= 8 && hexadecimal(address.as_bytes()).is_some() => {
            function.trim_start()
        }
        _ => text,
    }
}

/// Writes allocations by stack, as dtrace prints `@[ustack()] = count()`: each frame with its module, the innermost
/// first, the number below them, an empty line. Inlined functions are frames.
pub fn write_dtrace(profile: &Profile, mut out: impl Write) -> io::Result<()> {
    let mut table = Table::new(profile);
    for (stack, counts) in by_stack(profile) {
        if counts.allocations == 0 {
            continue;
        }
        writeln!(out)?;
        let functions = table.stack(stack);
        for function in &functions {
            let function = &table.functions[*function as usize];
            let module = function.module.map_or(NO_MODULE, |path| path.rsplit('/').next().unwrap_or(path));
            // What a frame without a name is called begins with its module.
            let name =
                function.name.strip_prefix(module).and_then(|name| name.strip_prefix('+')).unwrap_or(&function.name);
            // The first such sign ends the module's name.
            writeln!(out, "              {}`{}", plain(module).replace('`', "'"), plain(name))?;
        }
        if functions.is_empty() {
            writeln!(out, "              {NO_MODULE}`[unknown]")?;
        }
        writeln!(out, " {:>16}", counts.allocations)?;
    }
    out.flush()
}
