//! A profile of some of its stacks, or without some of their functions.

use mallow_profile::{
    Counts, FamilyCounts, Frame, FrameId, Line, LostBlocks, ModuleId, ProcessId, Profile, Scan, Site, StackId, Stacks,
    StringId, add_precisions, sum_lost,
};
use regex::Regex;
use rustc_hash::FxHashMap;

use super::functions::place_name;
use crate::names;

/// A regular expression for functions, files and modules. It matches anywhere in a name, and so does its text letter by
/// letter: names are full of `+`, `*` and brackets, and people copy them.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl std::str::FromStr for Pattern {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Regex::new(text).map(Self)
    }
}

impl Pattern {
    /// The text of the pattern, as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the pattern matches a name, as it is or as reports show it.
    pub fn matches(&self, name: &str) -> bool {
        self.is_in(name) || self.is_in(&names::short(name))
    }

    /// Whether the pattern matches the text as it is.
    fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text) || text.contains(self.as_str())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Narrowing {
    /// Keeps only stacks with a function that this matches, by its name, its file or its module.
    pub focus: Option<Pattern>,
    /// Leaves out stacks with a function that this matches.
    pub ignore: Option<Pattern>,
    /// Leaves out the functions that this matches, and keeps their stacks.
    pub hide: Option<Pattern>,
}

impl Narrowing {
    pub fn is_none(&self) -> bool {
        self.focus.is_none() && self.ignore.is_none() && self.hide.is_none()
    }
}

#[derive(Debug)]
pub struct Narrowed {
    /// Narrowed by sites. What its processes have beside sums of sites stays as it was, but for the functions called:
    /// these are not known by site.
    pub profile: Profile,
    /// By old site, the new index; None where it is left out. Several may have become one.
    pub sites: Vec<Option<u32>>,
    /// Whether focus, ignore and hide, in this order, matched a function of any site; true for one that was not asked
    /// for.
    pub matched: [bool; 3],
}

/// Leaves out stacks and functions. The peak stays at its moment: counts at the peak say what part of it the stacks
/// that are left have.
pub fn narrow(mut profile: Profile, by: &Narrowing) -> Narrowed {
    let hits = [&by.focus, &by.ignore, &by.hide].map(|pattern| pattern.as_ref().map(|p| Hits::of(&profile, p)));
    let within = hits.each_ref().map(|hits| hits.as_ref().map(|hits| hits.within(&profile.stacks)));
    let mut matched = hits.each_ref().map(Option::is_none);
    let moved = hits[2].as_ref().map(|hide| without(&mut profile, hide));
    let mut sites: Vec<Site> = Vec::new();
    let mut known: FxHashMap<(ProcessId, StackId), u32> = FxHashMap::default();
    let mut numbers = Vec::with_capacity(profile.sites.len());
    for site in std::mem::take(&mut profile.sites) {
        let at = site.stack.0 as usize;
        let hit = within.each_ref().map(|within| within.as_ref().is_some_and(|w| w.get(at).is_some_and(|&hit| hit)));
        for (matched, hit) in matched.iter_mut().zip(hit) {
            *matched |= hit;
        }
        let [focus, ignore, _] = hit;
        if (by.focus.is_some() && !focus) || ignore {
            numbers.push(None);
            continue;
        }
        let stack = moved.as_ref().and_then(|moved| moved.get(at)).copied().unwrap_or(site.stack);
        let number = *known.entry((site.process, stack)).or_insert(sites.len() as u32);
        numbers.push(Some(number));
        match sites.get_mut(number as usize) {
            Some(into) => merge(into, &site),
            None => sites.push(Site { stack, ..site }),
        }
    }
    profile.sites = sites;
    if !by.is_none() {
        // Of the blocks that are left, the peak is known at one moment alone.
        profile.processes.iter_mut().for_each(|process| (process.own_peak_bytes, process.own_peak_ms) = (0, 0));
        // The kernel knows processes, and no stacks.
        profile.footprints.clear();
        profile.rss.clear();
        profile.size_classes.clear();
    }
    let left_out = |stack: StackId| {
        let hit = |at: usize| within[at].as_ref().is_some_and(|w| w.get(stack.0 as usize).is_some_and(|&hit| hit));
        (by.focus.is_some() && !hit(0)) || hit(1)
    };
    let new = |stack: StackId| {
        let moved = moved.as_ref().and_then(|moved| moved.get(stack.0 as usize)).copied();
        (!left_out(stack)).then_some(moved.unwrap_or(stack))
    };
    profile.scans.iter_mut().for_each(|scan| narrow_scan(scan, &new));
    add_up(&mut profile);
    Narrowed { profile, sites: numbers, matched }
}

/// Narrows a scan to the stacks that are left. A lost block whose holder is left out is held by none.
fn narrow_scan(scan: &mut Scan, new: &impl Fn(StackId) -> Option<StackId>) {
    let lost = std::mem::take(&mut scan.lost).into_iter();
    let lost =
        lost.filter_map(|lost| Some(LostBlocks { stack: new(lost.stack)?, head: lost.head.and_then(new), ..lost }));
    scan.lost = sum_lost(lost.collect());
    scan.cycles.retain_mut(|cycle| {
        let stacks: Option<Vec<StackId>> = cycle.stacks.iter().copied().map(new).collect();
        cycle.stacks = stacks.unwrap_or_default();
        !cycle.stacks.is_empty()
    });
}

/// Adds a site to one that has become the same.
fn merge(into: &mut Site, site: &Site) {
    if site.counts.live > 0 {
        let first = into.counts.live == 0;
        let oldest = if first { site.live_oldest_ms } else { into.live_oldest_ms.min(site.live_oldest_ms) };
        into.live_oldest_ms = oldest;
        into.live_youngest_ms = into.live_youngest_ms.max(site.live_youngest_ms);
    }
    into.counts += site.counts;
    into.patterns += &site.patterns;
    add_precisions(&mut into.precisions, site.precisions.as_deref());
}

pub(in crate::analysis) fn add_up(profile: &mut Profile) {
    profile.totals = Counts::default();
    for process in &mut profile.processes {
        process.totals = Counts::default();
        process.families = FamilyCounts::default();
        process.foreign_frees = 0;
    }
    for site in &profile.sites {
        profile.totals += site.counts;
        if let Some(process) = profile.processes.get_mut(site.process.0 as usize) {
            process.totals += site.counts;
        }
    }
}

struct Hits {
    /// By frame, whether a function, its file or the module matches.
    frames: Vec<bool>,
    /// By string, whether it matches as the name of a function or a file.
    strings: Vec<bool>,
    modules: Vec<bool>,
}

impl Hits {
    fn of(profile: &Profile, pattern: &Pattern) -> Self {
        let mut hits = Self {
            frames: Vec::new(),
            strings: profile.strings.iter().map(|name| pattern.matches(name)).collect(),
            modules: profile.modules.iter().map(|module| pattern.is_in(&module.path)).collect(),
        };
        let nameless = |frame: &Frame| frame.lines.is_empty() && pattern.is_in(&place_name(profile, frame));
        let hit = |frame: &Frame| frame.lines.iter().any(|line| hits.line(line)) || hits.module(frame);
        hits.frames = profile.frames.iter().map(|frame| hit(frame) || nameless(frame)).collect();
        hits
    }

    fn string(&self, id: StringId) -> bool {
        self.strings.get(id.0 as usize).is_some_and(|&hit| hit)
    }

    fn line(&self, line: &Line) -> bool {
        self.string(line.function) || line.file.is_some_and(|file| self.string(file))
    }

    fn module(&self, frame: &Frame) -> bool {
        frame.module.is_some_and(|ModuleId(module)| self.modules.get(module as usize).is_some_and(|&hit| hit))
    }

    fn frame(&self, frame: FrameId) -> bool {
        self.frames.get(frame.0 as usize).is_some_and(|&hit| hit)
    }

    /// By stack, whether a frame of it matches. Callers have lower numbers than what they call.
    fn within(&self, stacks: &Stacks) -> Vec<bool> {
        let mut within = vec![false; stacks.len()];
        for at in 0..within.len() {
            if let Some((frame, caller)) = stacks.top(StackId(at as u32)) {
                within[at] = self.frame(frame) || within[caller.0 as usize];
            }
        }
        within
    }
}

/// Takes functions out of frames, and frames that have none left out of stacks. Returns the new number of each stack.
fn without(profile: &mut Profile, hide: &Hits) -> Vec<StackId> {
    let mut gone = hide.frames.clone();
    for (gone, frame) in gone.iter_mut().zip(&mut profile.frames) {
        if !hide.module(frame) && !frame.lines.is_empty() {
            frame.lines.retain(|line| !hide.line(line));
            *gone = frame.lines.is_empty();
        }
    }
    let old = std::mem::take(&mut profile.stacks);
    let mut moved = vec![Stacks::ROOT; old.len()];
    for at in 0..moved.len() {
        let id = StackId(at as u32);
        moved[at] = match old.top(id) {
            None if old.is_cut(id) => Stacks::CUT_ROOT,
            None => Stacks::ROOT,
            Some((frame, caller)) => {
                let caller = moved[caller.0 as usize];
                let gone = gone.get(frame.0 as usize).is_some_and(|&gone| gone);
                if gone { caller } else { profile.stacks.push(caller, frame) }
            }
        };
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::{Narrowed, Narrowing, Pattern, narrow};
    use crate::analysis::{Measure, TopOptions, overview, top};
    use crate::testing::{Builder, blocks, parser};
    use mallow_profile::{Counts, Process, Profile, Stacks};

    fn by(focus: &str, ignore: &str, hide: &str) -> Narrowing {
        let pattern = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a regular expression"));
        Narrowing { focus: pattern(focus), ignore: pattern(ignore), hide: pattern(hide) }
    }

    fn allocations(profile: &Profile) -> Vec<u64> {
        profile.sites.iter().map(|site| site.counts.allocations).collect()
    }

    #[test]
    fn focus_and_ignore_go_by_function_file_and_module() {
        for (focus, ignore, expected, matched) in [
            ("", "", &[900_000, 100_000, 12, 7, 3][..], [true, true]),
            // The name as it is, and as reports show it.
            ("parse_row\\(", "", &[900_000, 100_000], [true, true]),
            ("^app::Parser::parse_row$", "", &[900_000, 100_000], [true, true]),
            ("load\\.cc$", "", &[900_000, 100_000, 12], [true, true]),
            ("libstdc", "", &[900_000, 100_000], [true, true]),
            // An inlined function, and one without a name.
            ("Cache::put", "", &[12], [true, true]),
            ("plugin\\.so\\+0x12f0", "", &[7], [true, true]),
            ("", "libplugin|^_dl_", &[900_000, 100_000, 12], [true, true]),
            ("^app::load$", "strdup", &[900_000], [true, true]),
            ("nobody", "", &[], [false, true]),
            ("main", "nobody", &[900_000, 100_000, 12, 7], [true, false]),
        ] {
            let Narrowed { profile, sites, matched: actual } = narrow(parser(), &by(focus, ignore, ""));
            assert_eq!(allocations(&profile), expected, "{focus} {ignore}");
            assert_eq!(actual, [matched[0], matched[1], true], "{focus} {ignore}");
            let kept: Vec<_> = sites.into_iter().flatten().collect();
            assert_eq!(kept, (0..expected.len() as u32).collect::<Vec<_>>());
            let sum = profile.sites.iter().fold(Counts::default(), |mut sum, site| {
                sum += site.counts;
                sum
            });
            assert_eq!(profile.totals, sum);
            let by_process = profile.processes.iter().map(|process| process.totals.allocations).sum::<u64>();
            assert_eq!(by_process, sum.allocations);
            let overview = overview(&profile, 9);
            assert!(overview.families.is_empty(), "the functions called are not known by stack");
            let peaks: Vec<_> = overview.processes.iter().map(|process| process.own_peak_bytes).collect();
            let narrowed = !(focus.is_empty() && ignore.is_empty());
            let expected = |process: &Process| match narrowed {
                // Without bytes there was no peak.
                true => (process.totals.allocated_bytes == 0).then_some(0),
                false => Some(process.totals.peak_bytes),
            };
            assert_eq!(peaks, profile.processes.iter().map(expected).collect::<Vec<_>>());
        }
    }

    /// `a+0x10` as a regular expression has no plus in it, and `f(int*)` no brackets.
    #[test]
    fn a_name_that_was_copied_matches() {
        for (pattern, name) in [("git+0x289719", "git+0x289719"), ("f(int*)", "f(int*)"), ("^f$", "f")] {
            let pattern: Pattern = pattern.parse().expect("a pattern");
            assert!(pattern.matches(name) && !pattern.matches("g"), "{name}");
        }
    }

    #[test]
    fn hidden_functions_leave_their_callers() {
        let before = parser();
        let Narrowed { profile, sites, matched } = narrow(before.clone(), &by("", "", "parse_row|^strdup$|Cache::put"));
        assert_eq!((profile.totals, matched), (before.totals, [true; 3]));
        // Nothing has become the same.
        assert_eq!(sites, (0..5).map(Some).collect::<Vec<_>>());
        let rows = top(&profile, TopOptions { by: Measure::Bytes, cum: false, raw: false, limit: 9 });
        let names: Vec<_> = rows.functions.iter().map(|row| row.function.as_str()).collect();
        assert!(names.contains(&"app::load") && names.contains(&"app::reload"), "{names:?}");
        // The function that another was put into is still there.
        let cache = overview(&profile, 9).largest[3].largest[0].frame.clone().expect("a frame");
        assert_eq!((cache.function.as_str(), cache.line), ("app::load", Some(91)));
    }

    #[test]
    fn stacks_that_have_become_the_same_are_one_site() {
        let mut b = Builder::default();
        let first = b.process(1, &["a"], 10);
        let second = b.process(2, &["a"], 10);
        for (process, stack, live, oldest, youngest) in [
            (first, &["f", "a", "main"][..], 0, 0, 0),
            (first, &["f", "b!libb.so", "main"], 2, 5, 8),
            (second, &["f", "a", "main"], 1, 3, 3),
            (first, &["f", "main"], 1, 6, 9),
            (first, &["a"], 0, 0, 0),
        ] {
            let site = b.site(process, stack, blocks(4, 8, 0, live));
            (site.live_oldest_ms, site.live_youngest_ms) = (oldest, youngest);
        }
        let Narrowed { profile, sites, .. } = narrow(b.profile, &by("", "", "^a$|libb"));
        assert_eq!(sites, [0, 0, 1, 0, 2].map(Some));
        assert_eq!(allocations(&profile), [12, 4, 4]);
        let site = &profile.sites[0];
        assert_eq!((site.counts.live, site.live_oldest_ms, site.live_youngest_ms), (3, 5, 9));
        assert_eq!(profile.stacks.depth(site.stack), 2);
        assert_eq!(profile.sites[2].stack, Stacks::ROOT);
    }

    #[test]
    fn ids_that_lead_nowhere_are_withstood() {
        let mut profile = parser();
        profile.sites[0].stack = mallow_profile::StackId(77_777);
        profile.sites[1].process = mallow_profile::ProcessId(99);
        profile.frames.truncate(3);
        profile.modules.clear();
        let narrowed = narrow(profile, &by(".", "nobody", "main"));
        assert!(narrowed.sites[0].is_none());
    }
}
