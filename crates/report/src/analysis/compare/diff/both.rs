//! Two profiles as one, for views of rows: the stacks of the second, each with its numbers before and after, and what
//! only the first has.
//!
//! Which stacks are one, [`super::diff()`] says: what it pairs has its numbers in one place here too. The functions of
//! a stack that is gone are those of the second profile where it has them, under its names, with the lines and files of
//! the first.

use std::collections::BTreeMap;

use mallow_profile::{Counts, Frame, FrameId, Line, ModuleId, Profile, StackId, Stacks, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::likeness::{Comparison, numbers};
use super::normalise::{Rules, function};
use super::programs::{EachFunction, no_files};
use super::stacks::{AFTER, BEFORE, Group, Joint, NodeId, Token, file_name};
use super::{Compared, compared};
use crate::analysis::compare::changes::{Both, Change, ChangedPrecisions};
use crate::analysis::numbers::Measure;
use crate::analysis::sampled::intervals::PrecisionTable;
use crate::analysis::stacks::by_stack::by_stack;
use crate::analysis::stacks::functions::Step;
use crate::names;

/// Most stacks of a side that differ by their lines alone and are aligned in the order of their lines. Of more, only
/// those with equal lines are one.
const LINES: usize = 200;

type Members = Vec<(StackId, Counts)>;

/// A stack of the first profile that goes to a group of the second, and whether it is the same stack.
type Incoming = (StackId, Counts, bool);

impl Both {
    /// Costs what the comparison costs.
    pub fn new(before: &Profile, after: &Profile, by: Measure, rules: Rules) -> Self {
        Self::with_progress(before, after, by, rules, &no_files, &|_| {})
    }

    /// `each_function` names the functions of the programs' files. `progress` is called now and then with how much of
    /// the comparison is done, from 0 to 1.
    pub fn with_progress(
        before: &Profile,
        after: &Profile,
        by: Measure,
        rules: Rules,
        each_function: &EachFunction<'_>,
        progress: &dyn Fn(f64),
    ) -> Self {
        Self::of(&compared(before, after, by, rules, each_function, progress), before, after, by)
    }

    pub(super) fn of(compared: &Compared<'_>, before: &Profile, after: &Profile, by: Measure) -> Self {
        let Compared { joint, groups, pairing, comparison } = compared;
        let targets = targets(groups, pairing.as_ref().map_or(&[], |pairing| &pairing.matches));
        let renamed = |token: Token| pairing.as_ref().map_or(token, |pairing| pairing.renamed(token));
        let of_node: FxHashMap<NodeId, usize> = groups.iter().enumerate().map(|(at, group)| (group.node, at)).collect();
        let mut members: [Vec<Members>; 2] = [vec![Vec::new(); groups.len()], vec![Vec::new(); groups.len()]];
        for (side, profile) in [before, after].into_iter().enumerate() {
            for (stack, counts) in by_stack(profile) {
                if let Some(&group) = of_node.get(&joint.node(side, stack)) {
                    members[side][group].push((stack, counts));
                }
            }
        }
        let [befores, afters] = members;
        let mut precisions = PrecisionTable::of_two([before, after]).map(Precise::new);
        let mut sums: FxHashMap<StackId, [Counts; 2]> = FxHashMap::default();
        let mut formerly: FxHashMap<StackId, BTreeMap<String, Counts>> = FxHashMap::default();
        let mut old = Old::new(joint, before, after, renamed);
        let mut incoming: Vec<Vec<Incoming>> = vec![Vec::new(); groups.len()];
        for (group, all) in befores.into_iter().enumerate() {
            let sizes: Vec<Counts> = targets[group].iter().map(|&at| groups[at].counts[AFTER]).collect();
            let (mut whole, mut given) = (Counts::default(), vec![Counts::default(); sizes.len()]);
            for (stack, counts) in all {
                match &targets[group][..] {
                    [] => {
                        let at = old.stack(stack);
                        sums.entry(at).or_default()[BEFORE] += counts;
                        precisions.iter_mut().for_each(|all| all.add(BEFORE, stack, at));
                    }
                    &[target] => incoming[target].push((stack, counts, target == group)),
                    several => {
                        precisions.iter_mut().for_each(|all| all.divide(stack));
                        // Each gets what it is short of: what rounding leaves does not add up over the stacks.
                        whole += counts;
                        for ((&target, part), given) in several.iter().zip(divided(whole, &sizes)).zip(&mut given) {
                            incoming[target].push((stack, difference_of(part, *given), false));
                            *given = part;
                        }
                    }
                }
            }
        }
        for (group, afters) in afters.into_iter().enumerate() {
            for &(stack, counts) in &afters {
                sums.entry(stack).or_default()[AFTER] += counts;
                precisions.iter_mut().for_each(|all| all.add(AFTER, stack, stack));
            }
            let (unlined, lined) = joint.without_lines(std::mem::take(&mut incoming[group]), &afters);
            let sizes: Vec<Counts> = afters.iter().map(|&(_, counts)| counts).collect();
            for (stack, counts) in unlined {
                precisions.iter_mut().for_each(|all| all.divide(stack));
                for (&(at, _), part) in afters.iter().zip(divided(counts, &sizes)) {
                    sums.entry(at).or_default()[BEFORE] += part;
                }
            }
            let places = joint.in_order_of_lines(&lined, &afters, *comparison);
            for ((stack, counts, same), place) in lined.into_iter().zip(places) {
                let at = match (place, groups[group].stacks[AFTER]) {
                    (Some(at), _) => at,
                    (None, _) if same => old.stack(stack),
                    (None, largest) => largest.unwrap_or(Stacks::ROOT),
                };
                sums.entry(at).or_default()[BEFORE] += counts;
                precisions.iter_mut().for_each(|all| all.add(BEFORE, stack, at));
                if let Some(function) = joint.former_function(stack, at).filter(|_| !same) {
                    *formerly.entry(at).or_default().entry(function).or_default() += counts;
                }
            }
        }
        let Old { profile, first: first_old, files_now, .. } = old;
        let mut sites: Vec<(StackId, Change)> =
            sums.into_iter().map(|(stack, [before, after])| (stack, Change::of(before, after, by))).collect();
        sites.sort_unstable_by_key(|&(stack, _)| stack);
        let moved = sites.iter().fold(0u64, |sum, (_, change)| sum.saturating_add(change.moved));
        let totals = Change { before: before.totals, after: after.totals, moved };
        let precisions = precisions.map(|all| Box::new(all.into_changed()));
        Self { profile, totals, sites, formerly, first_old, files_now, precisions }
    }
}

/// The precision of both profiles' numbers, by the stacks of the result.
struct Precise {
    changed: ChangedPrecisions,
    /// Stacks of BEFORE whose numbers were divided: no precision is known of the parts.
    divided: FxHashSet<StackId>,
}

impl Precise {
    fn new(tables: [PrecisionTable; 2]) -> Self {
        let changed = ChangedPrecisions { tables, by_stack: FxHashMap::default() };
        Self { changed, divided: FxHashSet::default() }
    }

    fn divide(&mut self, stack: StackId) {
        self.divided.insert(stack);
    }

    /// Adds the precision of a side's stack to that of stack `at` of the result.
    fn add(&mut self, side: usize, stack: StackId, at: StackId) {
        if side == AFTER || !self.divided.contains(&stack) {
            let precisions = self.changed.tables[side].get(stack);
            self.changed.by_stack.entry(at).or_default()[side] += precisions;
        }
    }

    fn into_changed(self) -> ChangedPrecisions {
        self.changed
    }
}

/// By group, the groups whose stacks of the second profile get its numbers of before: itself, those that it is paired
/// with, or none.
fn targets(groups: &[Group], matches: &[super::rows::Match]) -> Vec<Vec<usize>> {
    let own = |(at, group): (usize, &Group)| if group.stacks[AFTER].is_some() { vec![at] } else { Vec::new() };
    let mut targets: Vec<Vec<usize>> = groups.iter().enumerate().map(own).collect();
    for of in matches {
        of.before.iter().for_each(|&at| targets[at].clone_from(&of.after));
    }
    targets
}

fn difference_of(mut more: Counts, mut less: Counts) -> Counts {
    for (number, less) in more.numbers_mut().into_iter().zip(less.numbers_mut()) {
        *number = number.saturating_sub(*less);
    }
    more
}

/// Divides numbers in proportion to `sizes`; the parts add up to the whole.
fn divided(mut whole: Counts, sizes: &[Counts]) -> Vec<Counts> {
    let mut parts = vec![Counts::default(); sizes.len()];
    for (field, number) in whole.numbers_mut().into_iter().enumerate() {
        let sizes: Vec<u64> = sizes.iter().map(|&size| *{ size }.numbers_mut()[field]).collect();
        let all: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
        let (mut left, mut to_come) = (*number, all);
        for (part, size) in parts.iter_mut().zip(sizes) {
            // The last part with a size gets what is left.
            let share = match to_come {
                0 => 0,
                _ => (u128::from(left) * u128::from(size) / to_come) as u64,
            };
            *part.numbers_mut()[field] = share;
            (left, to_come) = (left - share, to_come - u128::from(size));
        }
        if let Some(first) = parts.first_mut() {
            *first.numbers_mut()[field] += left;
        }
    }
    parts
}

impl Joint<'_> {
    /// The function that requested the memory of a stack of BEFORE, where it is another one than that of the stack of
    /// AFTER.
    fn former_function(&self, before: StackId, after: StackId) -> Option<String> {
        let requesting = |side: usize, stack: StackId| {
            let functions = self.functions_of(side);
            functions.named(stack).map(|named| functions.name(named.step.function))
        };
        let (was, is) = (requesting(BEFORE, before)?, requesting(AFTER, after)?);
        // Copies of a function, overloads and instances of a template have one name.
        let stays = |name: &str| function(name, Rules::ALL).map(|name| names::short(&name));
        (stays(&was) != stays(&is)).then_some(was)
    }

    /// Stacks before without lines, of a format that has none, and the others. The former are all of those after, where
    /// these have lines: in proportion to their numbers, as nothing tells which.
    fn without_lines(&self, before: Vec<Incoming>, after: &[(StackId, Counts)]) -> (Members, Vec<Incoming>) {
        if after.iter().all(|&(stack, _)| self.is_unlined(AFTER, stack)) {
            return (Vec::new(), before);
        }
        let (unlined, lined): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|&(stack, _, same)| same && self.is_unlined(BEFORE, stack));
        (unlined.into_iter().map(|(stack, counts, _)| (stack, counts)).collect(), lined)
    }

    /// Stacks of one function after another, which differ by their lines: where those before are now. Both are taken in
    /// the order of their lines, which inserted and removed lines leave as it is, so that their numbers agree best. Of
    /// one build each line is what it is, and is gone where the second profile has nothing of it.
    fn in_order_of_lines(
        &self,
        before: &[Incoming],
        after: &[(StackId, Counts)],
        comparison: Comparison,
    ) -> Vec<Option<StackId>> {
        if let &[(only, _)] = after
            && self.is_unlined(AFTER, only)
        {
            return vec![Some(only); before.len()];
        }
        let lined = |side: usize, stack: StackId| self.lines(side, stack);
        let mut places = vec![None; before.len()];
        let is_fixed = |side: usize, stack: StackId| self.is_of_one_build(side, stack);
        let (fixed_after, moved_after): (Vec<usize>, Vec<usize>) =
            (0..after.len()).partition(|&at| is_fixed(AFTER, after[at].0));
        let (fixed_before, moved_before): (Vec<usize>, Vec<usize>) =
            (0..before.len()).partition(|&at| before[at].2 && is_fixed(BEFORE, before[at].0));
        // Maps of scripts have no lines: two files may have functions of one name.
        let code = |side: usize, stack: StackId| (lined(side, stack), self.script_files(side, stack));
        let of_code: FxHashMap<(Vec<u32>, u64), StackId> =
            fixed_after.iter().rev().map(|&at| (code(AFTER, after[at].0), after[at].0)).collect();
        for at in fixed_before {
            places[at] = of_code.get(&code(BEFORE, before[at].0)).copied();
        }
        // What was paired by more than lines goes to what is of one build as well.
        let open = if moved_before.iter().all(|&at| before[at].2) { moved_after } else { (0..after.len()).collect() };
        if let ([one], [only]) = (&moved_before[..], &open[..]) {
            places[*one] = Some(after[*only].0);
            return places;
        }
        let mut was: Vec<(Vec<u32>, usize)> =
            moved_before.iter().map(|&at| (lined(BEFORE, before[at].0), at)).collect();
        let mut is: Vec<(Vec<u32>, usize)> = open.iter().map(|&at| (lined(AFTER, after[at].0), at)).collect();
        was.sort_unstable();
        is.sort_unstable();
        if was.len() > LINES || is.len() > LINES {
            let known: FxHashMap<&[u32], usize> = is.iter().map(|(lines, at)| (&lines[..], *at)).collect();
            for (lines, at) in &was {
                places[*at] = known.get(&lines[..]).map(|&to| after[to].0);
            }
            return places;
        }
        // Numbers count, and unchanged lines a little: as much as a tie needs.
        let alike = |i: usize, j: usize| {
            let ((lines, a), (now, b)) = (&was[i], &is[j]);
            let near = numbers(&before[*a].1, &after[*b].1, comparison);
            0.05 + near + if lines == now { 0.25 } else { 0.0 }
        };
        let width = is.len() + 1;
        let mut best = vec![0f32; (was.len() + 1) * width];
        for i in (0..was.len()).rev() {
            for j in (0..is.len()).rev() {
                let skip = best[(i + 1) * width + j].max(best[i * width + j + 1]);
                best[i * width + j] = skip.max(alike(i, j) + best[(i + 1) * width + j + 1]);
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < was.len() && j < is.len() {
            let here = best[i * width + j];
            if here <= best[(i + 1) * width + j] {
                i += 1;
            } else if here <= best[i * width + j + 1] {
                j += 1;
            } else {
                places[was[i].1] = Some(after[is[j].1].0);
                (i, j) = (i + 1, j + 1);
            }
        }
        places
    }
}

/// Stacks of the first profile, written with functions of the second where it has them.
struct Old<'a, R> {
    joint: &'a Joint<'a>,
    before: &'a Profile,
    renamed: R,
    profile: Profile,
    first: u32,
    /// By token, a step of the second profile with that function.
    known: FxHashMap<Token, Step>,
    modules: Vec<ModuleId>,
    frames: FxHashMap<Frame, FrameId>,
    files_now: FxHashMap<FrameId, Option<StringId>>,
    stacks: FxHashMap<StackId, StackId>,
}

impl<'a, R: Fn(Token) -> Token> Old<'a, R> {
    fn new(joint: &'a Joint<'a>, before: &'a Profile, after: &Profile, renamed: R) -> Self {
        let profile = Profile {
            origin: after.origin.clone(),
            command: after.command.clone(),
            duration_ms: after.duration_ms,
            ending: after.ending.clone(),
            totals: after.totals,
            peak_ms: after.peak_ms,
            strings: after.strings.clone(),
            modules: after.modules.clone(),
            frames: after.frames.clone(),
            stacks: after.stacks.clone(),
            ..Profile::default()
        };
        let mut it = Self {
            joint,
            before,
            renamed,
            first: profile.frames.len() as u32,
            profile,
            known: joint.first_steps(AFTER),
            modules: Vec::new(),
            frames: FxHashMap::default(),
            files_now: FxHashMap::default(),
            stacks: FxHashMap::default(),
        };
        for module in &before.modules {
            let modules = &mut it.profile.modules;
            let at = modules.iter().position(|known| known == module).unwrap_or_else(|| {
                modules.push(module.clone());
                modules.len() - 1
            });
            it.modules.push(ModuleId(at as u32));
        }
        it
    }

    fn stack(&mut self, stack: StackId) -> StackId {
        if let Some(&known) = self.stacks.get(&stack) {
            return known;
        }
        let root = if self.before.stacks.is_cut(stack) { Stacks::CUT_ROOT } else { Stacks::ROOT };
        let steps: Vec<(Step, Option<Token>)> =
            self.joint.steps(BEFORE, stack).map(|(step, token)| (*step, token)).collect();
        let mut at = root;
        for (step, token) in steps.into_iter().rev() {
            let frame = self.frame(&step, token);
            at = self.profile.stacks.push(at, frame);
        }
        self.stacks.insert(stack, at);
        at
    }

    /// A function without a name stays what it is: its address says nothing of another build.
    fn frame(&mut self, step: &Step, token: Option<Token>) -> FrameId {
        let now = token.filter(|_| !step.nameless).and_then(|token| self.known.get(&(self.renamed)(token)));
        let raw = &self.before.frames[step.frame.0 as usize];
        let mut file_now = None;
        let frame = match now {
            Some(now) => {
                let was = step.file().map(|file| self.before.strings.get(file));
                let strings = &mut self.profile.strings;
                // Builds have directories of their own.
                let is = now.file().map(|file| file_name(strings.get(file)));
                let moved = was.filter(|was| Some(file_name(was)) != is).map(|was| strings.intern(was));
                file_now = moved.map(|_| now.file());
                let raw = &self.profile.frames[now.frame.0 as usize];
                let line = raw.lines.iter().find(|line| Some(line.function) == now.name() && line.file == now.file());
                let line = line.map(|line| Line { line: step.line, file: moved.or(line.file), ..*line });
                let lines = line.into_iter().collect();
                Frame { lines, ..raw.clone() }
            }
            None => {
                let text = |id| self.before.strings.get(id);
                let strings = &mut self.profile.strings;
                let line = step.name().map(|name| Line {
                    function: strings.intern(text(name)),
                    file: step.file().map(|file| strings.intern(text(file))),
                    line: step.line,
                });
                let module = step.module.and_then(|module| self.modules.get(module.0 as usize).copied());
                Frame { module, lines: line.into_iter().collect(), ..raw.clone() }
            }
        };
        if let Some(&id) = self.frames.get(&frame) {
            return id;
        }
        let id = FrameId(self.profile.frames.len() as u32);
        self.profile.frames.push(frame.clone());
        self.frames.insert(frame, id);
        self.files_now.extend(file_now.map(|file| (id, file)));
        id
    }
}
