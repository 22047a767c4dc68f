//! The filters that are on: what they mean for a recording, how views show them, and the message where they leave
//! nothing.

use anyhow::{Result, bail};
use mallow_capture::recording::{Extent, Selection, Span};
use mallow_profile::Profile;
use mallow_report::analysis::{Measure, Pattern, TopOptions, top};
use serde::Serialize;

use super::processes;
use crate::flags::{FilterFlags, When};
use crate::output::text::units::{bytes, count, of, range, span};
use crate::output::text::{Line, Look, Page, gaps};

/// Filters, as views show them. Those that are not set are left out.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Filters {
    /// Process ids or names (`--process`); left out without the filter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    process: Vec<String>,
    /// Thread ids (`--thread`); left out without the filter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thread: Vec<u32>,
    /// Names of measured regions (`--region`); left out without the filter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    region: Vec<String>,
    /// Range of time (`--time`); left out without the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<TimeFilter>,
    /// Requested sizes of blocks (`--size`), in bytes; left out without the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Bounds>,
    /// Lifetimes of blocks (`--lifetime`), in milliseconds; left out without the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime_ms: Option<Bounds>,
    /// Regular expression that a function of the stack matches (`--focus`); left out without the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    focus: Option<String>,
    /// Regular expression that no function of the stack matches (`--ignore`); left out without the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore: Option<String>,
    /// Regular expression of functions that are taken out of stacks (`--hide`); left out without the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    hide: Option<String>,
    /// Descriptions of the filters for people, in the order of the flags.
    #[serde(skip)]
    descriptions: Vec<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TimeFilter {
    /// Event that lies in the range, or state that blocks have in it: `allocated`, `freed` or `live`.
    when: &'static str,
    /// First millisecond since the recording began.
    from_ms: u64,
    /// First millisecond after the range, since the recording began; null: the end.
    to_ms: Option<u64>,
}

/// Range of a number: `from` is inside of it, `to` is above it.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Bounds {
    /// Smallest value inside of the range: bytes of `size`, milliseconds of `lifetime_ms`.
    from: u64,
    /// Smallest value above the range; null: no end.
    to: Option<u64>,
}

impl From<Span> for Bounds {
    fn from(Span { from, to }: Span) -> Self {
        Self { from, to }
    }
}

/// What the numbers of a view are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    #[default]
    All,
    /// Single blocks that were chosen: the peak is theirs.
    Blocks,
    /// The stacks that match: the peak is that of all stacks.
    Stacks,
}

impl Part {
    /// The remark on a peak, and whose it is.
    pub fn peak_remark(self, remark: String) -> String {
        let whose = match self {
            Self::All => return remark,
            Self::Blocks => "the peak of these blocks",
            Self::Stacks => "the peak of all stacks",
        };
        if remark.is_empty() { whose.to_owned() } else { format!("{remark}; {whose}") }
    }
}

impl Filters {
    pub fn part(&self) -> Part {
        let blocks = [&self.size, &self.lifetime_ms].iter().any(|bounds| bounds.is_some()) || self.time.is_some();
        match self.focus.is_some() || self.ignore.is_some() {
            true => Part::Stacks,
            false if blocks || !(self.process.is_empty() && self.thread.is_empty() && self.region.is_empty()) => {
                Part::Blocks
            }
            false => Part::All,
        }
    }

    /// Describes the filters for this recording.
    pub fn of(flags: &FilterFlags, profile: &Profile) -> Self {
        let mut descriptions = Vec::new();
        if !flags.process.is_empty() {
            descriptions.push(format!("process {}", flags.process.join(", ")));
        }
        if !flags.thread.is_empty() {
            let threads: Vec<_> = flags.thread.iter().map(u32::to_string).collect();
            descriptions.push(format!("thread {}", threads.join(", ")));
        }
        if !flags.region.is_empty() {
            descriptions.push(format!("region {}", flags.region.join(", ")));
        }
        let when = match flags.when.unwrap_or_default() {
            When::Allocated => "allocated",
            When::Live => "live",
            When::Freed => "freed",
        };
        let time = flags.time.as_ref().map(|time| {
            descriptions.push(format!("{when} within {}", time.text));
            let Span { from, to } = time.of(profile.duration_ms);
            TimeFilter { when, from_ms: from, to_ms: to }
        });
        let texts = [
            ("size", flags.size.as_ref().map(|size| &size.text)),
            ("lifetime", flags.lifetime.as_ref().map(|l| &l.text)),
        ];
        let waits = profile.longest_table_wait_ms();
        let waits = match flags.lifetime.is_some() && waits > 0 {
            true => format!(", of which up to {} may be waits for Mallow's unwind tables", span(waits)),
            false => String::new(),
        };
        let pattern = |pattern: &Option<Pattern>| pattern.as_ref().map(|p| p.as_str().to_owned());
        let (focus, ignore, hide) = (pattern(&flags.focus), pattern(&flags.ignore), pattern(&flags.hide));
        descriptions.extend(texts.iter().filter_map(|(name, text)| text.map(|text| format!("{name} {text}"))));
        // Lifetimes come last of these.
        descriptions.last_mut().into_iter().for_each(|last| last.push_str(&waits));
        let named = [("focus", &focus), ("ignore", &ignore), ("hide", &hide)];
        descriptions.extend(named.iter().filter_map(|(name, text)| text.as_ref().map(|text| format!("{name} {text}"))));
        Self {
            process: flags.process.clone(),
            thread: flags.thread.clone(),
            region: flags.region.clone(),
            time,
            size: flags.size.as_ref().map(|size| size.span.into()),
            lifetime_ms: flags.lifetime.as_ref().map(|lifetime| lifetime.span.into()),
            focus,
            ignore,
            hide,
            descriptions,
        }
    }

    pub fn is_none(&self) -> bool {
        self.descriptions.is_empty()
    }

    /// The filters in words; None where none is on.
    pub fn describe(&self) -> Option<String> {
        (!self.is_none()).then(|| format!("Filtered by {}", self.descriptions.join("; ")))
    }

    /// The lines that come before any view: what the numbers lack, and which part of the recording they are of.
    pub fn notices(&self, lacking: Vec<String>) -> Vec<String> {
        let incomplete = lacking.into_iter().map(|text| format!("{}{text}", gaps::INCOMPLETE));
        incomplete.chain(self.describe()).collect()
    }

    /// The same as text above a view.
    pub fn first_lines(&self, lacking: Vec<String>, look: &Look) -> String {
        let mut page = Page::new(*look);
        gaps::show(lacking, &mut page);
        page.into_text() + &self.above(String::new(), look)
    }

    /// The text of a view, below a line that names the filters.
    pub fn above(&self, text: String, look: &Look) -> String {
        let Some(description) = self.describe() else { return text };
        let mut page = Page::new(*look);
        page.line(Line::new().faint(description));
        page.into_text() + &text
    }
}

/// The blocks of a recording that the flags select. Fails where there is no such process or thread, or no such time.
pub fn selection(flags: &FilterFlags, profile: &Profile) -> Result<Selection> {
    let mut selection = Selection {
        sizes: flags.size.as_ref().map(|size| size.span),
        lifetimes: flags.lifetime.as_ref().map(|lifetime| lifetime.span),
        ..Selection::default()
    };
    if !flags.process.is_empty() {
        let mut numbers = Vec::new();
        for wanted in &flags.process {
            numbers.extend(processes::find(profile, wanted)?);
        }
        numbers.sort_unstable();
        numbers.dedup();
        selection.processes = Some(numbers);
    }
    if !flags.thread.is_empty() {
        let mut indexes = Vec::new();
        for &wanted in &flags.thread {
            let before = indexes.len();
            indexes.extend((0..).zip(&profile.threads).filter(|(_, t)| t.tid == wanted).map(|(index, _)| index));
            if indexes.len() == before {
                bail!("--thread {wanted}: there is no such thread; {}", threads(profile));
            }
        }
        selection.threads = Some(indexes);
    }
    if !flags.region.is_empty() {
        let mut numbers = Vec::new();
        for wanted in &flags.region {
            let before = numbers.len();
            let runs = profile.regions.iter().filter(|region| region.name == *wanted && !region.warmup);
            numbers.extend(runs.map(|region| region.number));
            if numbers.len() == before {
                bail!("--region {wanted}: no run of such a region was measured; {}", regions(profile));
            }
        }
        selection.regions = Some(numbers);
    }
    if let Some(time) = &flags.time {
        let within = time.of(profile.duration_ms);
        if within.to.is_some_and(|to| to <= within.from) {
            let took = span(profile.duration_ms);
            bail!("--time {}: outside this recording, which took {took}; its clock ticks in milliseconds", time.text);
        }
        selection.time = Some((flags.when.unwrap_or_default().into(), within));
    }
    Ok(selection)
}

/// Limit of a list's entries that are named.
const NAMED: usize = 6;

fn listed(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if more > 0 {
        all.push(format!("and {} more", count(more as u64)));
    }
    all.join(", ")
}

fn threads(profile: &Profile) -> String {
    let mut all: Vec<u32> = profile.threads.iter().map(|thread| thread.tid).filter(|&tid| tid != 0).collect();
    all.sort_unstable();
    all.dedup();
    match all.is_empty() {
        true => "the recording knows no threads by their ids".to_owned(),
        false => format!("there are {}", listed(all.iter().map(u32::to_string).collect())),
    }
}

fn regions(profile: &Profile) -> String {
    let mut names: Vec<String> = profile.regions.iter().map(|region| region.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    match names.is_empty() {
        true => "the program measured none with mallow.h".to_owned(),
        false => format!("there are {}", listed(names)),
    }
}

/// The message where no block is selected. `extent`: the extent of the chosen processes and threads.
pub fn nothing_selected(flags: &FilterFlags, extent: &Extent) -> String {
    let mut on = Vec::new();
    let mut there = Vec::new();
    if !flags.process.is_empty() {
        on.push(format!("--process {}", flags.process.join(",")));
    }
    if !flags.thread.is_empty() {
        let threads: Vec<_> = flags.thread.iter().map(u32::to_string).collect();
        on.push(format!("--thread {}", threads.join(",")));
    }
    if !flags.region.is_empty() {
        on.push(format!("--region {}", flags.region.join(",")));
        there.push("regions that allocated nothing then".to_owned());
    }
    if extent.allocations == 0 {
        return format!(
            "nothing was allocated by {}",
            if on.is_empty() { "this command".to_owned() } else { on.join(" ") }
        );
    }
    let between = |(least, most): (u64, u64), show: &dyn Fn(u64) -> String| range(show(least), &show(most));
    if let Some(time) = &flags.time {
        let when = flags.when.unwrap_or_default();
        on.push(format!("--time {}", time.text));
        if when != When::Allocated {
            on.push(format!("--when {}", if when == When::Live { "live" } else { "freed" }));
        }
        if when != When::Freed {
            there.push(format!("allocations at {}", between(extent.allocated_ms, &span)));
        }
        if when != When::Allocated {
            there.push(match extent.freed_ms {
                Some(freed) => format!("frees at {}", between(freed, &span)),
                None => "no frees".to_owned(),
            });
        }
    }
    if let Some(size) = &flags.size {
        on.push(format!("--size {}", size.text));
        there.push(format!("sizes {}", between(extent.sizes, &|size| bytes(size, true))));
    }
    if let Some(lifetime) = &flags.lifetime {
        on.push(format!("--lifetime {}", lifetime.text));
        there.push(format!("lifetimes {}", between(extent.lifetimes, &span)));
    }
    let all = of(extent.allocations, "block");
    format!("no block matches {}; of {all}: {}", on.join(" "), there.join(", "))
}

/// The message where no stack is left.
pub fn nothing_left(flags: &FilterFlags, before: &Profile, focused: bool) -> String {
    let text = |pattern: &Option<Pattern>| pattern.as_ref().map_or(String::new(), |p| p.as_str().to_owned());
    if focused {
        let focus = flags.focus.as_ref().map_or(String::new(), |focus| format!("--focus {} ", focus.as_str()));
        return format!("nothing is left by {focus}--ignore {}", text(&flags.ignore));
    }
    let options = TopOptions { by: Measure::Bytes, cum: false, raw: false, limit: 3 };
    let names: Vec<_> =
        top(before, options).functions.iter().map(|f| mallow_report::names::short(&f.function)).collect();
    let there = if names.is_empty() {
        "no stack is known".to_owned()
    } else {
        format!("most is allocated by {}", names.join(", "))
    };
    format!("--focus {}: no function, file or module is called so; {there}", text(&flags.focus))
}

/// Messages about patterns that change nothing.
pub fn unmatched(flags: &FilterFlags, matched: [bool; 3]) -> Vec<String> {
    let patterns = [("ignore", &flags.ignore, matched[1]), ("hide", &flags.hide, matched[2])];
    let lacking = patterns.into_iter().filter(|(_, _, matched)| !matched);
    lacking
        .filter_map(|(name, pattern, _)| {
            pattern.as_ref().map(|p| format!("--{name} {}: no function, file or module is called so", p.as_str()))
        })
        .collect()
}
