//! The stacks behind a figure, and which of them made it another one.
//!
//! Stacks are identified by what stays the same of their functions from build to build
//! ([`crate::analysis::diff::Rule`]). Functions that only pass the request on count too: a vector that grows where it
//! did not is another stack.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mallow_profile::{
    Counts, Frame as Raw, FrameId, Line, Module, ModuleId, ProcessId, Profile, Site, StackId, Stacks,
};
use serde::{Deserialize, Serialize};

use crate::analysis::compare::diff::{AFTER, BEFORE, Rules, Why, function, paired};
use crate::analysis::stacks::by_stack::by_stack;
use crate::analysis::stacks::function_kind::{FunctionKind, begins_a_stack, classify, of_runtime};
use crate::analysis::stacks::functions::{Frame, Functions};

/// A stack and what was allocated there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SiteCount {
    /// Functions, the innermost first, with a place where one is known: `parse (parser.c:12)`. Of the C library and its
    /// like it is the file that they are in, which says more: `fopen [libc.so.6]`.
    pub stack: Vec<String>,
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
}

impl SiteCount {
    /// The functions of the stack as [`function_of`] returns them: equal in another build.
    fn key(&self) -> Vec<Cow<'_, str>> {
        self.stack.iter().filter_map(|step| function_of(step)).collect()
    }
}

/// What of a step's function is the same in another build; None where nothing is.
fn function_of(step: &str) -> Option<Cow<'_, str>> {
    function(name_of(step), Rules::ALL)
}

/// The function of a step, without the place or the file behind it.
pub fn name_of(step: &str) -> &str {
    let place =
        |at: usize| step[at..step.len() - 1].rsplit_once(':').is_some_and(|(_, line)| line.parse::<u32>().is_ok());
    let open = step.ends_with(')').then(|| step.rfind(" (")).flatten().filter(|&at| place(at));
    let name = open.map_or(step, |at| &step[..at]);
    module_of(name).map_or(name, |(name, _)| name)
}

/// Function and file of a step that names its file, not a place in the source.
fn module_of(step: &str) -> Option<(&str, &str)> {
    let (function, module) = step.strip_suffix(']')?.rsplit_once(" [")?;
    module.contains(".so").then_some((function, module))
}

/// The sites of a profile, the largest first, those of equal names as one. Files below `base`, a directory without a
/// slash at its end, are named by their path from there, others by their file names alone.
pub fn sites(profile: &Profile, base: &str) -> Vec<SiteCount> {
    let functions = Functions::new(profile);
    let mut sums: BTreeMap<Vec<String>, (SiteCount, u64)> = BTreeMap::new();
    for (stack, counts) in by_stack(profile) {
        if counts.allocations == 0 {
            continue;
        }
        let mut frames: Vec<_> =
            functions.steps_measured(stack).into_iter().map(|step| functions.frame(&step)).collect();
        // What comes before `main`, or a thread's first function, is another one with each C library, and identifies
        // nothing.
        let root = |frame: &Frame| begins_a_stack(&frame.function) || !frame.named && frame.looked_past;
        let own = frames.iter().rposition(|frame| !root(frame)).map_or(frames.len(), |at| at + 1);
        frames.truncate(own);
        let frames = frames.into_iter();
        let steps = frames.map(|frame| match (&frame.file, frame.line) {
            _ if frame.named && frame.module.as_deref().is_some_and(of_runtime) => {
                let module = frame.module.as_deref().unwrap_or_default();
                format!("{} [{}]", frame.function, module.rsplit('/').next().unwrap_or(module))
            }
            (Some(file), Some(line)) => {
                let below = file.strip_prefix(base).and_then(|rest| rest.strip_prefix('/'));
                let below = below.map(|below| below.trim_start_matches("./"));
                let file = below.unwrap_or_else(|| file.rsplit('/').next().unwrap_or(file));
                format!("{} ({file}:{line})", frame.function)
            }
            _ => frame.function,
        });
        let site = SiteCount {
            stack: steps.collect(),
            allocations: counts.allocations,
            allocated_bytes: counts.allocated_bytes,
        };
        let key = site.key().into_iter().map(Cow::into_owned).collect();
        let (sum, largest) = sums.entry(key).or_default();
        // The lines that are shown are those of the largest one.
        if site.allocations > *largest {
            *largest = site.allocations;
            sum.stack.clone_from(&site.stack);
        }
        sum.allocations += site.allocations;
        sum.allocated_bytes += site.allocated_bytes;
    }
    let mut sites: Vec<_> = sums.into_values().map(|(sum, _)| sum).collect();
    sites.sort_by(|a, b| b.allocations.cmp(&a.allocations).then_with(|| a.stack.cmp(&b.stack)));
    sites
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    /// Function, with a place where one is known.
    pub step: &'a str,
    /// Number of functions within this one that only pass the request on and are not shown.
    pub within: usize,
    /// Consecutive functions of this name that the line stands for: the function called itself, or several are called
    /// so.
    pub times: usize,
}

/// Returns the functions of the program's own, and of those that only pass the request on the ones that the program
/// called, unless they exist to hand out memory. Returns all of them where none is the program's.
pub fn informative_steps(stack: &[String]) -> Vec<Shown<'_>> {
    let of = |step: &str| {
        let name = name_of(step);
        let nameless = name.rsplit_once("+0x").map(|(module, _)| module);
        classify(Some(name), None, module_of(step).map(|(_, module)| module).or(nameless))
    };
    // Rust's `main` calls another one of that name, which is not the program's.
    let start = stack.iter().position(|step| step.starts_with("std::rt::lang_start")).unwrap_or(stack.len());
    let stack = if start > 0 { &stack[..start] } else { stack };
    let Some(outermost) = stack.iter().rposition(|step| of(step) == FunctionKind::Own) else {
        return stack.iter().map(|step| Shown { step, within: 0, times: 1 }).collect();
    };
    let mut shown: Vec<(Shown, FunctionKind)> = Vec::new();
    for step in &stack[..=outermost] {
        let kind = of(step);
        let mut one = Shown { step, within: 0, times: 1 };
        match shown.last().copied() {
            Some((inner, FunctionKind::Allocator))
                if kind == FunctionKind::Own && shown.len() == 1 && inner.times == 1 =>
            {
                shown.pop();
            }
            Some((inner, of_inner)) if kind != FunctionKind::Own && of_inner != FunctionKind::Own => {
                one.within = inner.within + 1;
                shown.pop();
            }
            Some((inner, FunctionKind::Own)) if kind == FunctionKind::Own && name_of(inner.step) == name_of(step) => {
                one = Shown { times: inner.times + 1, ..inner };
                shown.pop();
            }
            _ => {}
        }
        shown.push((one, kind));
    }
    shown.into_iter().map(|(shown, _)| shown).collect()
}

/// Change of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The stack was not there before.
    New,
    /// The stack is there no more.
    Gone,
    /// The stack is there with other numbers.
    Changed,
}

/// A stack whose numbers are not what they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Direction of the difference.
    pub change: Change,
    /// Functions of the stack, the innermost first, as they are now; of a stack that is gone, as they were.
    pub stack: Vec<String>,
    /// Allocations with the stack in the baseline, or in the first run.
    pub before: u64,
    /// Allocations with the stack now, or in the second run.
    pub now: u64,
    /// Requested bytes of `before`.
    pub bytes_before: u64,
    /// Requested bytes of `now`.
    pub bytes_now: u64,
    /// Reasons why a stack that is not equal is taken as the same; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<Why>,
}

impl Difference {
    pub fn allocations(&self) -> i64 {
        self.now.wrapping_sub(self.before) as i64
    }

    pub fn bytes(&self) -> i64 {
        self.bytes_now.wrapping_sub(self.bytes_before) as i64
    }
}

/// A line of the program, and what its stacks have more than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceChange {
    /// The innermost function of the program's own.
    pub function: String,
    /// Stacks that lead to the function.
    pub stacks: usize,
    /// Allocations more than before.
    pub allocations: i64,
    /// Requested bytes more than before.
    pub bytes: i64,
}

/// Differences by the program's line that they come from, the largest change first.
pub fn places(differences: &[Difference]) -> Vec<PlaceChange> {
    let mut sums: BTreeMap<&str, (usize, i64, i64)> = BTreeMap::new();
    for difference in differences {
        let (stacks, allocations, bytes) = sums.entry(own_step(&difference.stack)).or_default();
        *stacks += 1;
        *allocations += difference.allocations();
        *bytes += difference.bytes();
    }
    let mut places: Vec<_> = sums
        .into_iter()
        .map(|(step, (stacks, allocations, bytes))| PlaceChange {
            function: step.to_owned(),
            stacks,
            allocations,
            bytes,
        })
        .collect();
    places.sort_by_key(|place| std::cmp::Reverse((place.allocations.abs(), place.bytes.abs())));
    places
}

/// The innermost step that is the program's own; the innermost of all where none is.
fn own_step(stack: &[String]) -> &str {
    let shown = informative_steps(stack);
    let own = shown.iter().find(|shown| classify(Some(name_of(shown.step)), None, None) == FunctionKind::Own);
    own.or(shown.first()).map_or("", |shown| shown.step)
}

/// All stacks whose numbers differ, the largest change first; together they are the difference of the totals. Stacks
/// that are plainly the same are one, as in `mallow diff`, although a function has another name or was put into its
/// caller.
pub fn difference(before: &[SiteCount], now: &[SiteCount]) -> Vec<Difference> {
    let sides = [before, now];
    let [(was, was_at), (is, is_at)] = sides.map(named);
    let places = [was_at, is_at];
    let mut differences: Vec<_> = paired(&was, &is)
        .into_iter()
        .map(|pair| {
            let sum = |side: usize, of: fn(&SiteCount) -> u64| {
                let sites = pair.stacks[side].iter().filter_map(|stack| places[side].get(stack)).flatten();
                sites.fold(0u64, |sum, &at| sum.saturating_add(of(&sides[side][at])))
            };
            let allocations = [BEFORE, AFTER].map(|side| sum(side, |site| site.allocations));
            let bytes = [BEFORE, AFTER].map(|side| sum(side, |site| site.allocated_bytes));
            let shown = [AFTER, BEFORE].into_iter().find_map(|side| {
                let at = *places[side].get(pair.stacks[side].first()?)?.first()?;
                Some(sides[side][at].stack.clone())
            });
            Difference {
                // Of a mean that was rounded to 0 allocations, bytes are left.
                change: match [BEFORE, AFTER].map(|side| (allocations[side], bytes[side])) {
                    [(0, 0), _] => Change::New,
                    [_, (0, 0)] => Change::Gone,
                    _ => Change::Changed,
                },
                stack: shown.unwrap_or_default(),
                before: allocations[0],
                now: allocations[1],
                bytes_before: bytes[0],
                bytes_now: bytes[1],
                why: pair.why,
            }
        })
        .filter(|d| d.before != d.now || d.bytes_before != d.bytes_now)
        .collect();
    differences.sort_by_key(|d| (std::cmp::Reverse((d.allocations().abs(), d.bytes().abs())), d.stack.clone()));
    differences
}

/// The stacks as a profile, and by stack of it the indices of the sites.
fn named(sites: &[SiteCount]) -> (Profile, BTreeMap<StackId, Vec<usize>>) {
    let mut profile = Profile::default();
    let mut frames: BTreeMap<(&str, Option<&str>), FrameId> = BTreeMap::new();
    let mut modules: BTreeMap<&str, ModuleId> = BTreeMap::new();
    let mut places: BTreeMap<StackId, Vec<usize>> = BTreeMap::new();
    for (at, site) in sites.iter().enumerate() {
        let stack = site.stack.iter().rev().fold(Stacks::ROOT, |caller, step| {
            // The file of a step shows whose it is: the C library's functions are not the program's own.
            let (name, module) = (name_of(step), module_of(step).map(|(_, module)| module));
            let module_id = module.map(|path| {
                *modules.entry(path).or_insert_with(|| {
                    profile.modules.push(Module { path: path.to_owned(), build_id: Vec::new() });
                    ModuleId(profile.modules.len() as u32 - 1)
                })
            });
            let frame = *frames.entry((name, module)).or_insert_with(|| {
                let line = Line { function: profile.strings.intern(name), file: None, line: 0 };
                profile.frames.push(Raw { lines: vec![line], ..Raw::new(module_id, 0, true) });
                FrameId(profile.frames.len() as u32 - 1)
            });
            profile.stacks.push(caller, frame)
        });
        places.entry(stack).or_default().push(at);
        let counts =
            Counts { allocations: site.allocations, allocated_bytes: site.allocated_bytes, ..Counts::default() };
        profile.totals += counts;
        profile.sites.push(Site::of(ProcessId(0), stack, counts));
    }
    (profile, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Builder, blocks};

    fn site(stack: &[&str], allocations: u64, bytes: u64) -> SiteCount {
        SiteCount { stack: stack.iter().map(|s| (*s).to_owned()).collect(), allocations, allocated_bytes: bytes }
    }

    #[test]
    fn a_profile_has_its_sites_the_largest_first() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let q = b.process(2, &["a"], 10);
        b.site(p, &["make@/src/a.c:1", "main@/src/a.c:9"], blocks(2, 10, 0, 0));
        b.site(q, &["make@/src/a.c:2", "main@/src/a.c:9"], blocks(3, 10, 0, 0));
        b.site(p, &["fopen@/glibc/io.c:3!libc.so.6", "other@/src/lib/a.c:4", "main@/src/a.c:9"], blocks(9, 1, 0, 0));
        assert_eq!(
            sites(&b.profile, "/src"),
            [
                site(&["fopen [libc.so.6]", "other (lib/a.c:4)", "main (a.c:9)"], 9, 9),
                site(&["make (a.c:2)", "main (a.c:9)"], 5, 50)
            ]
        );
    }

    #[test]
    fn what_runs_a_region_is_no_part_of_its_stacks() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let stack = [
            "make",
            "std::panicking::catch_unwind | mallow_measure::measure_in::call::<C>",
            "measure@/src/measure.c:1!libmallow-0.1.0.so",
            "mallow_measure::measure::<C> | main@/src/a.rs:9",
        ];
        b.site(p, &stack, blocks(2, 10, 0, 0));
        b.site(p, &["std::vector<int>::push_back", stack[2], "std::f", "main@/src/a.rs:9"], blocks(1, 10, 0, 0));
        assert_eq!(
            sites(&b.profile, "/src"),
            [site(&["make", "main (a.rs:9)"], 2, 20), site(&["std::f", "main (a.rs:9)"], 1, 10)]
        );
    }

    #[test]
    fn the_informative_functions_are_shown() {
        let lines = |stack: &[&str]| {
            let stack: Vec<String> = stack.iter().map(|step| (*step).to_owned()).collect();
            let line = |shown: &Shown| format!("{} {}{}", shown.within, shown.step, "×".repeat(shown.times - 1));
            informative_steps(&stack).iter().map(line).collect::<Vec<_>>()
        };
        let whole = [
            "operator new",
            "std::vector<int>::push_back (vector:5)",
            "f (a.cc:1)",
            "std::sort<int>",
            "main",
            "_start",
        ];
        assert_eq!(
            lines(&whole),
            ["1 std::vector<int>::push_back (vector:5)", "0 f (a.cc:1)", "0 std::sort<int>", "0 main"]
        );
        let rust = ["alloc::vec::Vec<u8>::push", "a::main (a.rs:1)", "std::rt::lang_start::<()> (rt.rs:2)", "main"];
        assert_eq!(lines(&rust), ["0 alloc::vec::Vec<u8>::push", "0 a::main (a.rs:1)"]);
        let libc = ["_IO_new_file [libc.so.6]", "fopen [libc.so.6]", "read (a.c:1)", "start_thread [libc.so.6]"];
        assert_eq!(lines(&libc), ["1 fopen [libc.so.6]", "0 read (a.c:1)"]);
        assert_eq!(lines(&["malloc", "libc.so.6+0x12"]), ["0 malloc", "0 libc.so.6+0x12"]);
        assert_eq!(lines(&["libc.so.6+0x12", "program+0x3"]), ["0 libc.so.6+0x12", "0 program+0x3"]);
        let deep = ["operator new", "f (a.cc:1)", "f (a.cc:2)", "f (a.cc:2)", "g", "f (a.cc:2)", "main"];
        assert_eq!(lines(&deep), ["0 f (a.cc:1)××", "0 g", "0 f (a.cc:2)", "0 main"]);
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn lines_and_clones_are_no_difference() {
        let before = [site(&["f.constprop.0 (a.c:1)", "g.llvm.77", "operator+(A, B) (x.cc:3)"], 5, 50)];
        let now = [site(&["f.isra.0.constprop.3 (a.c:8)", "g", "operator+(A, B)"], 5, 50)];
        assert_eq!(difference(&before, &now), []);
        for name in ["operator()(int) const", "call(int (*)(int))"] {
            assert_eq!(function_of(name).as_deref(), Some(name));
        }
        assert_eq!((name_of("fopen [libc.so.6]"), name_of("operator new[] (a.cc:4)")), ("fopen", "operator new[]"));
    }

    #[test]
    fn differences_add_up_and_the_largest_comes_first() {
        let before = [site(&["a", "main"], 10, 100), site(&["b", "main"], 5, 50), site(&["c", "main"], 7, 70)];
        let now = [site(&["a", "main"], 11, 120), site(&["c", "main"], 7, 70), site(&["d", "main"], 900, 9)];
        let all = difference(&before, &now);
        let listed: Vec<_> = all.iter().map(|d| (d.change, d.stack[0].as_str(), d.allocations(), d.bytes())).collect();
        assert_eq!(listed, [(Change::New, "d", 900, 9), (Change::Gone, "b", -5, -50), (Change::Changed, "a", 1, 20)]);
        let sum = |sites: &[SiteCount]| sites.iter().map(|s| s.allocations as i64).sum::<i64>();
        assert_eq!(all.iter().map(Difference::allocations).sum::<i64>(), sum(&now) - sum(&before));
    }

    #[test]
    fn stacks_with_another_name_are_no_difference() {
        let path = |inner: &[&'static str]| [inner, &["work (w.c:9)", "serve (w.c:70)", "main (a.c:9)"]].concat();
        let before = [
            site(&path(&["parse_row (p.c:4)", "load (l.c:3)"]), 900, 9000),
            site(&path(&["write_all (o.c:9)"]), 400, 6400),
            site(&path(&["gone (g.c:1)"]), 3, 30),
        ];
        let now = [
            site(&path(&["read_row (p.c:4)", "load (l.c:3)"]), 900, 9000),
            site(&path(&["put (o.c:2)", "write_all (o.c:9)"]), 401, 6400),
            site(&path(&["copied (c.c:1)", "extra (c.c:5)"]), 5000, 50),
        ];
        let all = difference(&before, &now);
        let listed: Vec<_> = all.iter().map(|d| (d.change, d.stack[0].as_str(), d.allocations(), d.bytes())).collect();
        let expected = [
            (Change::New, "copied (c.c:1)", 5000, 50),
            (Change::Gone, "gone (g.c:1)", -3, -30),
            (Change::Changed, "put (o.c:2)", 1, 0),
        ];
        assert_eq!(listed, expected);
        assert!(all[0].why.is_empty() && matches!(&all[2].why[..], [Why::New { function }] if function == "put"));
    }

    #[test]
    fn stacks_of_one_line_are_one_place() {
        let now = [
            site(&["operator new", "grow (a.cc:7)", "b", "main"], 5, 50),
            site(&["std::vector<int>::push_back", "grow (a.cc:7)", "c", "main"], 6, 60),
            site(&["grow (a.cc:8)", "main"], 1, 10),
        ];
        let all = places(&difference(&[site(&["grow (a.cc:8)", "d", "main"], 20, 1)], &now));
        let listed: Vec<_> = all.iter().map(|p| (p.function.as_str(), p.stacks, p.allocations, p.bytes)).collect();
        assert_eq!(listed, [("grow (a.cc:8)", 2, -19, 9), ("grow (a.cc:7)", 2, 11, 110)]);
        assert_eq!(places(&[]), []);
    }

    #[test]
    fn bytes_alone_are_a_difference_too() {
        let all = difference(&[site(&["a"], 1, 10)], &[site(&["a"], 1, 30)]);
        assert_eq!((all.len(), all[0].allocations(), all[0].bytes()), (1, 0, 20));
    }
}
