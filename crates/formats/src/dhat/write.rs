//! Writing.

use std::io::{self, Write};
use std::ops::Range;

use mallow_profile::{FrameId, Profile, Quantity, Stacks};
use serde::Serialize;

use super::lives::Lives;
use crate::frames::{Function, functions, title};
use mallow_report::analysis::by_stack;

/// The quantities that a written file has.
pub fn carries(lives: bool) -> Vec<Quantity> {
    let mut quantities = vec![Quantity::Allocations, Quantity::AllocatedBytes];
    if lives {
        quantities.extend([
            Quantity::Frees,
            Quantity::FreedBytes,
            Quantity::Peak,
            Quantity::PeakBytes,
            Quantity::Live,
            Quantity::LiveBytes,
        ]);
        quantities.push(Quantity::Times);
    }
    quantities
}

/// The head of a file, in DHAT's own order.
#[derive(Serialize)]
#[allow(non_snake_case, reason = "DHAT's name of it")]
struct Head<'a> {
    dhatFileVersion: u32,
    mode: &'a str,
    verb: &'a str,
    bklt: bool,
    bkacc: bool,
    tu: &'a str,
    Mtu: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tuth: Option<u64>,
    cmd: String,
    pid: u32,
    te: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tg: Option<u64>,
}

#[derive(Serialize)]
struct Point {
    tb: u64,
    tbk: u64,
    #[serde(flatten)]
    lived: Option<Lived>,
    fs: Vec<u32>,
}

#[derive(Serialize)]
struct Lived {
    tl: u64,
    mb: u64,
    mbk: u64,
    gb: u64,
    gbk: u64,
    eb: u64,
    ebk: u64,
}

/// Writes a file. Without lives of blocks, the file has what was allocated in all, and nothing of peaks and ends: DHAT
/// has these together or not at all.
pub fn write(profile: &Profile, lives: Option<&Lives>, mut out: impl Write) -> io::Result<()> {
    // Microseconds: of a unit, the millionfold has to have a name too.
    let time = |ms: u64| ms.saturating_mul(1000);
    let head = Head {
        dhatFileVersion: 2,
        mode: "heap",
        verb: "Allocated",
        bklt: lives.is_some(),
        bkacc: false,
        tu: "µs",
        Mtu: "s",
        tuth: lives.map(|_| 1000),
        cmd: title(profile),
        pid: profile.processes.first().map_or(0, |process| process.pid),
        te: time(profile.duration_ms),
        tg: lives.map(|_| time(profile.peak_ms)),
    };
    let head = serde_json::to_string(&head)?;
    write!(out, "{}\n,\"pps\":\n [", head.trim_end_matches('}'))?;
    let mut table = Frames { profile, texts: Vec::new(), known: vec![None; profile.frames.len()], cut: None };
    let mut first = true;
    // Each stack once: readers refuse a stack that comes again.
    for (stack, c) in by_stack(profile) {
        let lived = lives.map(|lives| {
            let life = lives.of(stack);
            Lived {
                tl: time(life.lived_ms),
                mb: life.most.0,
                mbk: life.most.1,
                gb: c.peak_bytes,
                gbk: c.peak,
                eb: c.live_bytes,
                ebk: c.live,
            }
        });
        let mut fs: Vec<u32> = profile.stacks.frames(stack).flat_map(|frame| table.indexes(frame)).collect();
        if profile.stacks.is_cut(stack) || stack == Stacks::CUT_ROOT {
            fs.push(table.cut());
        }
        if fs.is_empty() {
            fs.push(ROOT);
        }
        if !std::mem::replace(&mut first, false) {
            write!(out, "\n ,")?;
        }
        serde_json::to_writer(&mut out, &Point { tb: c.allocated_bytes, tbk: c.allocations, lived, fs })?;
    }
    write!(out, "\n ]\n,\"ftbl\":\n [\"[root]\"")?;
    for text in &table.texts {
        write!(out, "\n ,")?;
        serde_json::to_writer(&mut out, text)?;
    }
    writeln!(out, "\n ]\n}}")?;
    out.flush()
}

/// The frame that stands for no stack.
const ROOT: u32 = 0;

/// The table of frames. Functions of one address were put into one another.
struct Frames<'p> {
    profile: &'p Profile,
    texts: Vec<String>,
    known: Vec<Option<Range<u32>>>,
    cut: Option<u32>,
}

impl Frames<'_> {
    /// The frame that stands for missing ones: the stack would be the same as a whole one otherwise.
    fn cut(&mut self) -> u32 {
        *self.cut.get_or_insert_with(|| {
            self.texts.push("[outer frames are missing]".to_owned());
            self.texts.len() as u32
        })
    }

    fn indexes(&mut self, frame: FrameId) -> Range<u32> {
        let next = self.texts.len() as u32;
        let Some(known) = self.known.get_mut(frame.0 as usize) else { return ROOT..ROOT };
        let texts = &mut self.texts;
        known
            .get_or_insert_with(|| {
                // Tools that know no addresses have frames that are different all the same.
                let address = match self.profile.frames[frame.0 as usize].address {
                    0 => u64::from(next) + 1,
                    address => address,
                };
                texts.extend(functions(self.profile, frame).iter().map(|function| text(address, function)));
                // The root is the first of them.
                next + 1..texts.len() as u32 + 1
            })
            .clone()
    }
}

/// A frame as `0x12: name (file.c:3)`.
fn text(address: u64, Function { name, file, line, module }: &Function) -> String {
    let place = match (file, module) {
        (Some(file), _) => format!("{file}:{line}"),
        (None, Some(module)) => format!("in {module}"),
        (None, None) => "in ???".to_owned(),
    };
    format!("{address:#x}: {name} ({place})")
}
