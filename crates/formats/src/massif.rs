//! massif's snapshots: the bytes of the highest one and of the last, and their stacks. massif takes stacks in some
//! snapshots alone, and takes the peak's only when the heap shrinks after it. Without them, the stacks are those of the
//! largest snapshot that has some.

use mallow_profile::{Counts, FrameId, Quantities, Quantity, StackId, Stacks};

use super::builder::{Builder, DEPTH};
use super::input::{Lines, decimal, name};
use super::valgrind::Text;
use super::{Addresses, Foreign, FormatError, InputFormat};

/// Text in the description of a file that counts pages, not blocks.
const PAGES: &str = "--pages-as-heap=yes";

/// Whether a snapshot begins, after a description or at once.
pub fn looks_like<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut ruled = false;
    lines.take(8).any(|line| std::mem::replace(&mut ruled, line.starts_with(b"#---")) && line.starts_with(b"snapshot="))
}

/// The numbers of one snapshot, and its stacks where it has them.
#[derive(Clone, Default)]
struct Snapshot {
    number: u64,
    time: f64,
    bytes: u64,
    /// Live bytes by stack.
    stacks: Option<Vec<(StackId, u64)>>,
}

pub fn read(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut builder = Builder::new(InputFormat::Massif);
    let mut per_ms = None;
    let mut now = Snapshot::default();
    let mut snapshots = 0u64;
    let mut peak: Option<Snapshot> = None;
    let mut detailed: Option<Snapshot> = None;
    let mut pages = false;
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii_start();
        builder.read(line.len() + 1);
        let (key, value) = match line.iter().position(|byte| matches!(byte, b'=' | b':')) {
            Some(at) => (&line[..at], line[at + 1..].trim_ascii()),
            None => (line, &b""[..]),
        };
        match key {
            b"desc" => pages = value.windows(PAGES.len()).any(|part| part == PAGES.as_bytes()),
            b"cmd" => builder.profile.command = vec![name(value).into_owned()],
            b"time_unit" => {
                per_ms = match value {
                    b"ms" => Some(1.0),
                    b"s" => Some(0.001),
                    _ => None,
                };
            }
            b"snapshot" => {
                now = Snapshot { number: decimal(value).unwrap_or(snapshots), ..Snapshot::default() };
                snapshots += 1;
            }
            b"time" => {
                let time = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                now.time = time.ok_or_else(|| lines.damaged("this is no time"))?;
            }
            b"mem_heap_B" => now.bytes = decimal(value).ok_or_else(|| lines.damaged("this is no number of bytes"))?,
            b"heap_tree" => {
                if value != b"empty" {
                    now.stacks = Some(tree(&mut lines, &mut builder)?);
                }
                if peak
                    .as_ref()
                    .is_none_or(|peak| now.bytes > peak.bytes || (now.bytes == peak.bytes && peak.stacks.is_none()))
                {
                    peak = Some(now.clone());
                }
                if now.stacks.is_some() && detailed.as_ref().is_none_or(|known| now.bytes >= known.bytes) {
                    detailed = Some(now.clone());
                }
            }
            _ => {}
        }
    }
    let Some(mut peak) = peak else { return Err(lines.unusable("holds no snapshot")) };
    // Of a program that only grew, the last snapshot is the highest one.
    let grew = now.number == peak.number;
    if let Some(detailed) = detailed.filter(|_| peak.stacks.is_none()) {
        builder.remarks.push(format!(
            "massif took no stacks in its highest snapshot ({}, {} bytes): they are those of snapshot {}, the largest that has some, \
             and what it had less ({} bytes) has no stack",
            peak.number,
            peak.bytes,
            detailed.number,
            peak.bytes - detailed.bytes
        ));
        peak.stacks = detailed.stacks;
    }
    if grew {
        now.stacks.clone_from(&peak.stacks);
    }
    put(&mut builder, peak.stacks.take(), peak.bytes, |counts| &mut counts.peak_bytes);
    put(&mut builder, now.stacks.take(), now.bytes, |counts| &mut counts.live_bytes);
    let mut quantities = vec![Quantity::PeakBytes, Quantity::LiveBytes];
    if let Some(per_ms) = per_ms {
        quantities.push(Quantity::Times);
        builder.profile.duration_ms = (now.time / per_ms) as u64;
        builder.profile.peak_ms = (peak.time / per_ms) as u64;
    }
    builder.remarks.push(format!(
        "massif looks at its program now and then: peak and live are those of {snapshots} snapshots, the last of which need \
         not be the end, and what is small has no stack of its own"
    ));
    if pages {
        builder
            .remarks
            .push(format!("{PAGES}: its bytes are pages that were mapped, code and files among them, not blocks"));
    }
    Ok(builder.finish(Quantities::of(&quantities), None, Addresses::Opaque))
}

/// Adds the part of `total` that is in no stack at an unknown place.
fn put(builder: &mut Builder, stacks: Option<Vec<(StackId, u64)>>, total: u64, field: fn(&mut Counts) -> &mut u64) {
    let mut left = total;
    let mut add = |stack, bytes: u64| {
        let mut counts = Counts::default();
        *field(&mut counts) = bytes.min(left);
        left -= bytes.min(left);
        builder.add(stack, counts);
    };
    for (stack, bytes) in stacks.into_iter().flatten() {
        add(stack, bytes);
    }
    add(Stacks::ROOT, u64::MAX);
}

/// A node of a tree that has children to come.
struct Node {
    children: u64,
    bytes: u64,
    frame: Option<FrameId>,
}

/// Reads a tree: `n2: 48 0x1234: main (a.c:3)` has two children, which follow it. The first one is the whole.
fn tree(lines: &mut Lines, builder: &mut Builder) -> Result<Vec<(StackId, u64)>, FormatError> {
    let mut stacks = Vec::new();
    let mut path: Vec<Node> = Vec::new();
    loop {
        let Some(line) = lines.next()? else { return Err(lines.damaged("the text ends within a tree")) };
        builder.read(line.len() + 1);
        let parsed = node(line.trim_ascii_start()).map(|(c, b, text)| (c, b, name(text).into_owned()));
        let Some((children, bytes, text)) = parsed else { return Err(lines.damaged("this is no node of a tree")) };
        if let Some(parent) = path.last_mut() {
            parent.children -= 1;
            parent.bytes = parent.bytes.saturating_sub(bytes);
        }
        // The root is no frame, and what is below the threshold has none: it stays with its parent.
        let frame = match path.is_empty() || text.starts_with("in ") {
            true => None,
            false => Some(Text::parse(&text).to_frame(builder)),
        };
        path.push(Node { children, bytes, frame });
        if path.len() > DEPTH {
            return Err(lines.damaged(format!("the tree is deeper than {DEPTH}")));
        }
        while let Some(node) = path.last().filter(|node| node.children == 0) {
            if node.bytes > 0 {
                // Nodes go from the allocator outwards: the path is a stack, the innermost frame first.
                let bytes = node.bytes;
                stacks.push((builder.stack(path.iter().filter_map(|node| node.frame))?, bytes));
            }
            path.pop();
        }
        if path.is_empty() {
            return Ok(stacks);
        }
    }
}

/// Number of children, bytes, and the text of the place.
fn node(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let rest = line.strip_prefix(b"n")?;
    let colon = rest.iter().position(|&byte| byte == b':')?;
    let children = decimal(&rest[..colon])?;
    let rest = rest[colon + 1..].trim_ascii_start();
    let space = rest.iter().position(|&byte| byte == b' ')?;
    Some((children, decimal(&rest[..space])?, &rest[space + 1..]))
}
