//! What two profiles differ in, by stack.
//!
//! Stacks are first compared by what stays the same of their functions from build to build ([`Rule`]), exactly. What is
//! left is paired where that is plain ([`pairing`]).

mod align;
mod assign;
mod both;
mod candidates;
mod diagonals;
mod evidence;
mod items;
mod likeness;
mod moved;
mod normalise;
mod one_way;
mod pairing;
mod places;
mod programs;
mod renamed;
mod renames;
mod report;
mod rows;
mod split;
mod stacks;
mod verdict;

use std::cmp::Reverse;

use mallow_profile::{Profile, Quantity, StackId};
use rustc_hash::FxHashMap;

use crate::analysis::compare::changes::Both;
use crate::analysis::compare::changes::difference;
use crate::analysis::numbers::{Measure, Totals};
use crate::analysis::stacks::by_stack::by_stack;
use likeness::Comparison;
use moved::Moved;
pub use normalise::{Rule, Rules, function};
use pairing::{Pairing, pair};
use places::Places;
pub use programs::{EachFunction, no_files};
pub use report::{
    Diff, DiffFrame, DiffList, DiffPlace, DiffRename, DiffRow, DiffSide, DiffStack, DiffTotal, FormerFunction, Mark,
    State, Verdict, Why,
};
use rows::{Match, numbers, row, value};
pub(crate) use stacks::{AFTER, BEFORE};
use stacks::{Group, Joint, NodeId};

#[derive(Clone, Copy, Debug)]
pub struct DiffOptions {
    pub by: Measure,
    pub rules: Rules,
    /// Rows whose change is below this are left out.
    pub min: u64,
    /// Most rows of each list.
    pub limit: usize,
    /// Whether places may be by another measure where that of the document hardly changed.
    pub any_measure: bool,
    pub places: usize,
}

/// Most places that a verdict explains a total by.
const EXPLAINING: usize = 3;

/// Compares two profiles. Costs a step for each frame that stacks do not share.
pub fn diff(before: &Profile, after: &Profile, options: DiffOptions) -> Diff {
    diff_with_progress(before, after, options, &no_files, &|_| {})
}

/// `each_function` names the functions of the programs' files. `progress` is called now and then with how much is done,
/// from 0 to 1.
pub fn diff_with_progress(
    before: &Profile,
    after: &Profile,
    options: DiffOptions,
    each_function: &EachFunction<'_>,
    progress: &dyn Fn(f64),
) -> Diff {
    let by = options.by;
    let compared = compared(before, after, by, options.rules, each_function, progress);
    let (verdict, totals, places) = explained(&compared, before, after, options);
    let Compared { joint, groups, pairing, .. } = &compared;
    let moved = Moved::of(joint);
    let why = |at: usize| moved.why(joint, &groups[at]);
    let matches = together(groups, why, pairing.as_ref().map_or(&[], |pairing| &pairing.matches));
    let sides = [before, after].map(|profile| DiffSide {
        command: profile.command.clone(),
        origin: profile.origin.clone(),
        value: by.of(&profile.totals.into()),
        totals: profile.totals.into(),
    });
    let [before, after] = sides;
    let mut diff = Diff {
        by,
        change: difference(before.value, after.value),
        before,
        after,
        verdict,
        totals,
        places,
        renamed: renamed::renamed(matches.iter().map(|of| &of.why[..]), &moved, joint),
        only_before: DiffList::default(),
        only_after: DiffList::default(),
        different: DiffList::default(),
        recognised: DiffList::default(),
        equal_stacks: 0,
        elsewhere: 0,
        shown: 0,
        hidden: 0,
    };
    let list = Lister { joint, groups, pairing: pairing.as_ref(), options };
    let mut kinds: [Vec<Match>; 4] = Default::default();
    let mut in_stacks = 0i64;
    for of in matches {
        let (before, after) = numbers(groups, &of, by);
        if (before, after) == (0, 0) {
            continue;
        }
        in_stacks = in_stacks.saturating_add(difference(before, after));
        let kind = match (of.before.is_empty(), of.after.is_empty(), before == after) {
            (_, true, _) => 0,
            (true, ..) => 1,
            (.., false) => 2,
            (.., true) if of.why.is_empty() => {
                diff.equal_stacks += 1;
                continue;
            }
            _ => 3,
        };
        kinds[kind].push(of);
    }
    diff.elsewhere = diff.change.saturating_sub(in_stacks);
    let [only_before, only_after, different, recognised] = kinds;
    diff.only_before = list.list(only_before);
    diff.only_after = list.list(only_after);
    diff.different = list.list(different);
    diff.recognised = list.list(recognised);
    for list in [&diff.only_before, &diff.only_after, &diff.different] {
        let hidden = list.hidden_change();
        diff.hidden = diff.hidden.saturating_add(hidden);
        diff.shown = diff.shown.saturating_add(list.change.saturating_sub(hidden));
    }
    diff
}

fn explained(
    compared: &Compared<'_>,
    before: &Profile,
    after: &Profile,
    options: DiffOptions,
) -> (Verdict, Vec<DiffTotal>, DiffTotal) {
    let both = Both::of(compared, before, after, options.by);
    let all = Places::of(&both, before);
    let total = |by: Measure, limit: usize| {
        let value = |profile: &Profile| by.of(&Totals::from(profile.totals));
        all.total(by, [value(before), value(after)], limit)
    };
    let measures = Measure::ALL.into_iter().filter(|by| before.has(by.quantity()) && after.has(by.quantity()));
    let totals: Vec<DiffTotal> = measures.map(|by| total(by, EXPLAINING)).collect();
    let by = verdict::measure(options.by, &totals, options.any_measure);
    let verdict = Verdict::of(&total(by, EXPLAINING));
    (verdict, totals, total(by, options.places))
}

struct Compared<'a> {
    joint: Joint<'a>,
    groups: Vec<Group>,
    pairing: Option<Pairing>,
    comparison: Comparison,
}

fn compared<'a>(
    before: &'a Profile,
    after: &'a Profile,
    by: Measure,
    rules: Rules,
    each_function: &EachFunction<'_>,
    progress: &dyn Fn(f64),
) -> Compared<'a> {
    let joint = Joint::new([before, after], rules);
    let mut groups = joint.groups(by);
    // By any measure: which stacks are one does not depend on what is asked of them.
    let has = |group: &Group, side: usize| Measure::ALL.into_iter().any(|by| value(group, side, by) > 0);
    groups.retain(|group| [BEFORE, AFTER].iter().any(|&side| has(group, side)));
    joint.sort(&mut groups);
    let both_have = |quantity: Quantity| before.has(quantity) && after.has(quantity);
    let comparison = Comparison {
        allocations: both_have(Quantity::Allocations),
        bytes: both_have(Quantity::AllocatedBytes),
        live: !both_have(Quantity::AllocatedBytes) && both_have(Quantity::LiveBytes),
    };
    let pairing = rules.has(Rule::Pairing).then(|| pair(&joint, &groups, rules, comparison, each_function, progress));
    Compared { joint, groups, pairing, comparison }
}

/// Stacks that are one, or one by itself.
pub(crate) struct Paired {
    pub stacks: [Vec<StackId>; 2],
    /// Reasons why the stacks are one; empty where they are equal.
    pub why: Vec<Why>,
}

/// Pairs the stacks by all rules, without the programs' files. Each stack is in one element.
pub(crate) fn paired(before: &Profile, after: &Profile) -> Vec<Paired> {
    let Compared { joint, groups, pairing, .. } =
        compared(before, after, Measure::Allocations, Rules::ALL, &no_files, &|_| {});
    let mut members: [FxHashMap<NodeId, Vec<StackId>>; 2] = Default::default();
    for (side, profile) in [before, after].into_iter().enumerate() {
        for (stack, _) in by_stack(profile) {
            members[side].entry(joint.node(side, stack)).or_default().push(stack);
        }
    }
    let pairs = together(&groups, |_| Vec::new(), pairing.as_ref().map_or(&[], |pairing| &pairing.matches));
    let of = |side: usize, all: &[usize]| -> Vec<StackId> {
        let nodes = all.iter().filter_map(|&at| members[side].get(&groups[at].node));
        nodes.flatten().copied().collect()
    };
    pairs
        .into_iter()
        .map(|Match { before, after, why, .. }| Paired { stacks: [of(BEFORE, &before), of(AFTER, &after)], why })
        .collect()
}

/// The pairs that were found, and each other group by itself.
fn together(groups: &[Group], why: impl Fn(usize) -> Vec<Why>, pairs: &[Match]) -> Vec<Match> {
    let mut taken = vec![[false; 2]; groups.len()];
    for pair in pairs {
        pair.before.iter().for_each(|&at| taken[at][BEFORE] = true);
        pair.after.iter().for_each(|&at| taken[at][AFTER] = true);
    }
    let alone = (0..groups.len()).map(|at| {
        let has =
            |side: usize| if groups[at].stacks[side].is_some() && !taken[at][side] { vec![at] } else { Vec::new() };
        let (before, after) = (has(BEFORE), has(AFTER));
        let why = if before.is_empty() || after.is_empty() { Vec::new() } else { why(at) };
        Match { before, after, confidence: 1.0, why }
    });
    let alone = alone.filter(|of| !of.before.is_empty() || !of.after.is_empty());
    pairs.iter().cloned().chain(alone).collect()
}

struct Lister<'a> {
    joint: &'a Joint<'a>,
    groups: &'a [Group],
    pairing: Option<&'a Pairing>,
    options: DiffOptions,
}

impl Lister<'_> {
    fn list(&self, mut matches: Vec<Match>) -> DiffList {
        let by = self.options.by;
        let changed = |of: &Match| {
            let (before, after) = numbers(self.groups, of, by);
            (difference(before, after), before.max(after))
        };
        let sum = matches.iter().fold(0i64, |sum, of| sum.saturating_add(changed(of).0));
        let rows_in_all = matches.len() as u64;
        // Groups are in the order of their stacks.
        matches.sort_by_key(|of| {
            let (change, larger) = changed(of);
            (Reverse(change.unsigned_abs()), Reverse(larger), of.before.clone(), of.after.clone())
        });
        let worth = |of: &&Match| changed(of).0.unsigned_abs() >= self.options.min;
        let shown = matches.iter().filter(worth).take(self.options.limit);
        let steps = |before: &Group, after: &Group| {
            let ops = self.pairing.map_or(Vec::new(), |pairing| pairing.ops(self.joint, before, after));
            ops.iter().flat_map(|op| op.steps()).copied().collect()
        };
        let rows = shown.map(|of| row(self.joint, self.groups, of, by, steps)).collect();
        DiffList { rows_in_all, change: sum, rows }
    }
}

#[cfg(test)]
mod tests;
