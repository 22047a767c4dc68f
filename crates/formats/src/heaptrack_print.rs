//! What `heaptrack_print` prints: lists of the largest places by several measures. Numbers of bytes are rounded there.

use mallow_profile::{Counts, Frame, FrameId, Line, Quantities, Quantity, Stacks};

use super::builder::Builder;
use super::input::{Lines, hexadecimal, name};
use super::{Addresses, Foreign, FormatError, InputFormat};

/// A list of the text, with the quantity that it ranks by.
struct Section {
    title: &'static str,
    quantity: Quantity,
    /// Text behind the number of a place.
    unit: &'static str,
    /// Text before the whole sum, at the end.
    total: &'static str,
    field: fn(&mut Counts) -> &mut u64,
}

const SECTIONS: [Section; 4] = [
    Section {
        title: "MOST CALLS TO ALLOCATION FUNCTIONS",
        quantity: Quantity::Allocations,
        unit: "calls",
        total: "calls to allocation functions:",
        field: |c| &mut c.allocations,
    },
    Section {
        title: "PEAK MEMORY CONSUMERS",
        quantity: Quantity::PeakBytes,
        unit: "",
        total: "peak heap memory consumption:",
        field: |c| &mut c.peak_bytes,
    },
    Section {
        title: "MEMORY LEAKS",
        quantity: Quantity::LiveBytes,
        unit: "leaked",
        total: "total memory leaked:",
        field: |c| &mut c.live_bytes,
    },
    Section {
        title: "MOST TEMPORARY ALLOCATIONS",
        quantity: Quantity::Temporary,
        unit: "temporary",
        total: "temporary memory allocations:",
        field: |c| &mut c.temporary,
    },
];

fn section(line: &[u8]) -> Option<usize> {
    SECTIONS.iter().position(|section| line == section.title.as_bytes())
}

/// Whether one of the lists begins.
pub fn looks_like<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
    lines.any(|line| section(line).is_some())
}

/// A frame that more lines may follow.
struct Pending {
    function: String,
    place: Option<(String, u32)>,
    module: Option<String>,
}

struct Reading {
    builder: Builder,
    /// Innermost frames that the stacks below share.
    shared: Vec<FrameId>,
    /// Part of the place's number that no stack has claimed yet.
    left: u64,
    /// The stack under construction, and its number.
    stack: Option<(Vec<FrameId>, u64)>,
    /// The function of the last frame, until its place is known.
    frame: Option<Pending>,
    /// Whether `frame` goes to the shared frames.
    of_shared: bool,
}

/// A line that begins a place, or a stack of one.
enum Head {
    Place(u64),
    Stack(u64),
}

/// Reads the lists. The part of the whole sums that they leave out has no stack.
pub fn read(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut it = Reading {
        builder: Builder::new(InputFormat::HeaptrackPrint),
        shared: Vec::new(),
        left: 0,
        stack: None,
        frame: None,
        of_shared: false,
    };
    let mut now: Option<&Section> = None;
    let mut quantities = Quantities::default();
    let mut sums = Counts::default();
    let mut totals: [Option<u64>; SECTIONS.len()] = [None; SECTIONS.len()];
    while let Some(line) = lines.next()? {
        it.builder.read(line.len() + 1);
        if let Some(index) = section(line) {
            it.close(now, &mut sums)?;
            now = Some(&SECTIONS[index]);
            quantities = quantities.with(SECTIONS[index].quantity);
            continue;
        }
        let text = name(line).into_owned();
        if let Some(command) = text.strip_prefix("Debuggee command was: ") {
            it.builder.profile.command = vec![command.to_owned()];
        } else if let Some(index) = SECTIONS.iter().position(|section| text.starts_with(section.total)) {
            it.close(now.take(), &mut sums)?;
            let rest = text[SECTIONS[index].total.len()..].trim();
            let Some(total) = amount(rest.split(' ').next().unwrap_or_default()) else {
                return Err(lines.damaged("this is no sum"));
            };
            totals[index] = Some(total);
        } else if let Some(section) = now {
            match head(&text, section) {
                Some(Head::Place(number)) => {
                    it.close(now, &mut sums)?;
                    (it.left, it.of_shared) = (number, true);
                }
                Some(Head::Stack(number)) => {
                    it.end_stack(section, &mut sums)?;
                    (it.stack, it.of_shared) = (Some((Vec::new(), number)), false);
                }
                None if text.trim().is_empty() => it.close(now, &mut sums)?,
                None if text.starts_with('-') => {
                    return Err(lines.unusable("is the difference of two: give it the two data files instead"));
                }
                None => it.line(&text),
            }
        }
    }
    it.close(now, &mut sums)?;
    for (section, total) in SECTIONS.iter().zip(totals) {
        let Some(total) = total else { continue };
        let mut rest = Counts::default();
        let missing = total.saturating_sub(*(section.field)(&mut sums));
        *(section.field)(&mut rest) = missing;
        if missing > 0 || !quantities.has(section.quantity) {
            it.builder.add(Stacks::ROOT, rest);
        }
        quantities = quantities.with(section.quantity);
    }
    it.builder.remarks.push(
        "heaptrack_print lists the largest places alone and rounds bytes: what it left out has no stack; the whole is in its \
         data file"
            .to_owned(),
    );
    Ok(it.builder.finish(quantities, None, Addresses::Opaque))
}

/// Reads `2547 calls to allocation functions with 174K peak consumption from`, and in the other lists their own words;
/// a colon is at the end where a stack of the place follows.
fn head(text: &str, section: &Section) -> Option<Head> {
    let (rest, place) = match text.strip_suffix(" from:") {
        Some(rest) => (rest, false),
        None => (text.strip_suffix(" from")?, true),
    };
    let (number, words) = rest.split_once(' ')?;
    let number = amount(number).filter(|_| words.starts_with(section.unit))?;
    Some(if place { Head::Place(number) } else { Head::Stack(number) })
}

/// Reads `2547`, `16B` or `173.89K`.
fn amount(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        _ => return None,
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    match digits.parse::<u64>() {
        Ok(whole) if factor == 1.0 => Some(whole),
        _ => digits.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| (n * factor).round() as u64),
    }
}

impl Reading {
    /// Takes in a line of a frame: its function, or the function's place.
    fn line(&mut self, text: &str) {
        let bare = text.trim_start();
        let indent = text.len() - bare.len();
        // Frames of a place's own begin at the margin; where stacks are not put together, they are indented by two.
        let (at, module) = (bare.strip_prefix("at "), bare.strip_prefix("in "));
        if let (Some(frame), Some(at)) = (&mut self.frame, at.filter(|_| indent >= 2)) {
            frame.place = at.rsplit_once(':').and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)));
        } else if let (Some(frame), Some(module)) = (&mut self.frame, module.filter(|_| indent >= 2)) {
            frame.module = Some(module.to_owned()).filter(|module| module != "??");
        } else if bare.starts_with("and ") && bare.ends_with(" other places") {
            self.end_frame();
        } else {
            self.end_frame();
            self.frame = Some(Pending { function: bare.to_owned(), place: None, module: None });
        }
    }

    fn end_frame(&mut self) {
        let Some(Pending { function, place, module }) = self.frame.take() else { return };
        let builder = &mut self.builder;
        let module = module.map(|path| builder.module(&path));
        let frame = match function.strip_prefix("0x").and_then(|digits| hexadecimal(digits.as_bytes())) {
            Some(address) => Frame::new(module, address, true),
            None => {
                let (file, line) = place.map_or((None, 0), |(file, line)| (Some(file), line));
                let file = file.map(|file| builder.profile.strings.intern(&file));
                let line = Line { function: builder.profile.strings.intern(&function), file, line };
                Frame { lines: vec![line], ..Frame::new(module, 0, true) }
            }
        };
        let frame = builder.frame(frame);
        match &mut self.stack {
            _ if self.of_shared => self.shared.push(frame),
            Some((stack, _)) => stack.push(frame),
            None => {}
        }
    }

    fn end_stack(&mut self, section: &Section, sums: &mut Counts) -> Result<(), FormatError> {
        self.end_frame();
        if let Some((stack, number)) = self.stack.take() {
            self.left = self.left.saturating_sub(number);
            let whole = self.shared.iter().chain(&stack).copied().collect::<Vec<_>>();
            self.add(section, &whole, number, sums)?;
        }
        Ok(())
    }

    /// Ends a place: the part that none of its stacks has claimed is its own.
    fn close(&mut self, section: Option<&Section>, sums: &mut Counts) -> Result<(), FormatError> {
        let Some(section) = section else { return Ok(()) };
        self.end_stack(section, sums)?;
        let (left, shared) = (std::mem::take(&mut self.left), std::mem::take(&mut self.shared));
        if left > 0 && !shared.is_empty() {
            self.add(section, &shared, left, sums)?;
        }
        Ok(())
    }

    fn add(&mut self, section: &Section, stack: &[FrameId], number: u64, sums: &mut Counts) -> Result<(), FormatError> {
        let mut counts = Counts::default();
        *(section.field)(&mut counts) = number;
        *sums += counts;
        let stack = self.builder.stack(stack.iter().copied())?;
        self.builder.add(stack, counts);
        Ok(())
    }
}
