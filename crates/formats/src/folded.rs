//! Folded stacks: one a line, the outermost frame first, semicolons between frames, a space or a tab, a number. They do
//! not say what the number counts.

use std::io::{self, Write};

use mallow_profile::{Counts, Frame, FrameId, Line, Profile, Quantities, Quantity};

use super::builder::Builder;
use super::frames::{Table, plain};
use super::input::{Lines, hexadecimal, name};
use super::{Addresses, Foreign, FormatError, InputFormat};
use mallow_report::analysis::by_stack;

/// Whether lines are a stack and a number, at least one of them with several frames.
pub fn looks_like<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut several = false;
    for line in lines.filter(|line| !is_comment(line)) {
        let Some((stack, _)) = parse(line) else { return false };
        several |= stack.contains(&b';');
    }
    several
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b"#")
}

/// Stack and number of a line. A number above 2^64 - 1 becomes that, and so does a sum of such: `Builder::finish` says
/// so.
fn parse(line: &[u8]) -> Option<(&[u8], u64)> {
    let space = line.iter().rposition(|&byte| matches!(byte, b' ' | b'\t'))?;
    let (stack, number) = (line[..space].trim_ascii_end(), &line[space + 1..]);
    // Some tools write weights with decimals.
    let number = std::str::from_utf8(number).ok().filter(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'.'))?;
    let number = number.parse().or_else(|_| number.parse::<f64>().map(|n| n.round() as u64)).ok()?;
    (!stack.is_empty()).then_some((stack, number))
}

/// Reads stacks. Their numbers are taken for allocations, unless the file's first comment names another measure, as
/// Mallow's do.
pub fn read(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut builder = Builder::new(InputFormat::Folded);
    let mut quantity = None;
    while let Some(line) = lines.next()? {
        if let Some(comment) = line.strip_prefix(b"# ") {
            quantity = quantity.or_else(|| measure(comment));
        }
        if is_comment(line) {
            continue;
        }
        builder.read(line.len() + 1);
        let Some((stack, number)) = parse(line) else {
            return Err(lines.damaged("this is no stack with a number"));
        };
        // Some tools put a semicolon behind each frame.
        let frames = stack.rsplit(|&byte| byte == b';').map(<[u8]>::trim_ascii).filter(|frame| !frame.is_empty());
        let frames: Vec<_> = frames.map(|frame| frame_of(&name(frame), &mut builder)).collect();
        let stack = builder.stack(frames)?;
        let mut counts = Counts::default();
        *field(quantity.unwrap_or(Quantity::Allocations), &mut counts) = number;
        builder.add(stack, counts);
    }
    if quantity.is_none() {
        builder.remarks.push("folded stacks do not say what they count: taken for allocations".to_owned());
    }
    Ok(builder.finish(Quantities::of(&[quantity.unwrap_or(Quantity::Allocations)]), None, Addresses::Opaque))
}

/// Measures that a comment may name.
const MEASURES: [(&str, Quantity); 5] = [
    ("allocations", Quantity::Allocations),
    ("allocated_bytes", Quantity::AllocatedBytes),
    ("peak_bytes", Quantity::PeakBytes),
    ("live_bytes", Quantity::LiveBytes),
    ("temporary", Quantity::Temporary),
];

/// Prefix of the measure in the first comment of a file that Mallow wrote.
const MARK: &str = "mallow: ";

fn measure(comment: &[u8]) -> Option<Quantity> {
    let wanted = comment.strip_prefix(MARK.as_bytes())?;
    MEASURES.iter().find(|(name, _)| name.as_bytes() == wanted).map(|(_, quantity)| *quantity)
}

fn field(quantity: Quantity, counts: &mut Counts) -> &mut u64 {
    match quantity {
        Quantity::AllocatedBytes => &mut counts.allocated_bytes,
        Quantity::PeakBytes => &mut counts.peak_bytes,
        Quantity::LiveBytes => &mut counts.live_bytes,
        Quantity::Temporary => &mut counts.temporary,
        _ => &mut counts.allocations,
    }
}

/// Writes stacks with one measure. A comment names it, unless it is that which readers take for granted.
pub fn write(profile: &Profile, quantity: Quantity, mut out: impl Write) -> io::Result<()> {
    if let Some((name, _)) = MEASURES.iter().find(|(_, it)| *it == quantity && *it != Quantity::Allocations) {
        writeln!(out, "# {MARK}{name}")?;
    }
    let mut table = Table::new(profile);
    let mut line = String::new();
    for (stack, mut counts) in by_stack(profile) {
        let value = *field(quantity, &mut counts);
        if value == 0 {
            continue;
        }
        line.clear();
        for function in table.stack(stack).into_iter().rev() {
            let name = &table.functions[function as usize].name;
            // What separates frames is no part of a name here.
            line.extend(plain(name).chars().map(|c| if c == ';' { ',' } else { c }));
            line.push(';');
        }
        if line.pop().is_none() {
            line.push_str("[unknown]");
        }
        writeln!(out, "{line} {value}")?;
    }
    out.flush()
}

/// Reads a frame: `function`, `function (file.c)` as heaptrack has it, or `function_[i]` of an inlined one as perf's
/// folding has it.
fn frame_of(text: &str, builder: &mut Builder) -> FrameId {
    let text = ["_[i]", "_[k]", "_[j]"].iter().find_map(|mark| text.strip_suffix(mark)).unwrap_or(text);
    let (function, file) = match text.rsplit_once(" (").and_then(|(f, file)| Some((f, file.strip_suffix(')')?))) {
        Some((function, "")) => (function, None),
        Some((function, file)) if file.contains('.') && !file.contains([' ', ',', '*', '&']) => (function, Some(file)),
        _ => (text, None),
    };
    if let Some(address) = function.strip_prefix("0x").and_then(|digits| hexadecimal(digits.as_bytes())) {
        return builder.frame(Frame::new(None, address, true));
    }
    let file = file.map(|file| builder.profile.strings.intern(file));
    let line = Line { function: builder.profile.strings.intern(function), file, line: 0 };
    builder.frame(Frame { lines: vec![line], ..Frame::new(None, 0, true) })
}
