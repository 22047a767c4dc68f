//! Rows of a comparison from stacks that belong together.

use mallow_profile::StackId;

use super::report::{DiffFrame, DiffRow, DiffStack, Mark, Why};
use super::stacks::{AFTER, BEFORE, Group, Joint};
use crate::analysis::compare::changes::difference;
use crate::analysis::numbers::Measure;

/// Stacks that are one, as indices into the groups: none, one or several of each side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Match {
    pub before: Vec<usize>,
    pub after: Vec<usize>,
    pub confidence: f64,
    pub why: Vec<Why>,
}

/// The stacks that have a function, by its position among those that keep something, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackSide {
    Both,
    Before,
    After,
}

pub(super) fn value(group: &Group, side: usize, by: Measure) -> u64 {
    by.of(&group.counts[side].into())
}

/// Sums of both sides of a match.
pub(super) fn numbers(groups: &[Group], of: &Match, by: Measure) -> (u64, u64) {
    let sum = |members: &[usize], side| {
        members.iter().fold(0, |sum: u64, &at| sum.saturating_add(value(&groups[at], side, by)))
    };
    (sum(&of.before, BEFORE), sum(&of.after, AFTER))
}

/// `steps` returns how two groups align.
pub(super) fn row(
    joint: &Joint,
    groups: &[Group],
    of: &Match,
    by: Measure,
    steps: impl Fn(&Group, &Group) -> Vec<StackSide>,
) -> DiffRow {
    let (before, after) = numbers(groups, of, by);
    let pairs = of.before.len().max(of.after.len());
    let stack = |at: usize| {
        // The one that became several, or that several became, stands beside each of them, and counts once.
        let side = |members: &[usize], side: usize| {
            let group = members.get(at).or(members.first()).map(|&member| &groups[member]);
            let amount = members.get(at).map(|&member| value(&groups[member], side, by));
            (group.and_then(|group| Some((group, group.stacks[side]?))), amount)
        };
        let ((was, before), (is, after)) = (side(&of.before, BEFORE), side(&of.after, AFTER));
        let steps = match (was, is) {
            (Some((was, _)), Some((is, _))) if was.node != is.node => Some(steps(was, is)),
            _ => None,
        };
        let stacks = [was.map(|(_, stack)| stack), is.map(|(_, stack)| stack)];
        DiffStack { before, after, frames: frames(joint, stacks, steps.as_deref()), cut: is_cut(joint, stacks) }
    };
    DiffRow {
        before,
        after,
        change: difference(before, after),
        confidence: of.confidence,
        why: of.why.clone(),
        stacks: (0..pairs).map(stack).collect(),
    }
}

fn is_cut(joint: &Joint, stacks: [Option<StackId>; 2]) -> bool {
    stacks.iter().enumerate().any(|(side, stack)| stack.is_some_and(|stack| joint.is_cut(side, stack)))
}

/// The functions of two stacks that are one, or of one stack. Without `steps`, both have the same functions.
fn frames(joint: &Joint, stacks: [Option<StackId>; 2], steps: Option<&[StackSide]>) -> Vec<DiffFrame> {
    let [before, after] = stacks;
    let all = |side: usize, stack: Option<StackId>, of: Mark| {
        let frame = move |(step, _)| DiffFrame { of, frame: joint.functions_of(side).frame(step) };
        stack.into_iter().flat_map(move |stack| joint.steps(side, stack).map(frame))
    };
    match (before, after, steps) {
        (Some(before), Some(after), Some(steps)) => {
            let mut out = Vec::new();
            let (mut was, mut is) = (joint.steps(BEFORE, before), joint.steps(AFTER, after));
            for step in steps {
                // What no function stays of is on the way of either. That of the side after is shown.
                if *step != StackSide::After {
                    let found = was.by_ref().find(|(_, token)| token.is_some());
                    if let (Some((function, _)), StackSide::Before) = (found, *step) {
                        let frame = joint.functions_of(BEFORE).frame(function);
                        out.push(DiffFrame { of: Mark::Before, frame });
                    }
                }
                if *step != StackSide::Before {
                    let of = if *step == StackSide::Both { Mark::Both } else { Mark::After };
                    for (function, token) in is.by_ref() {
                        let of = if token.is_some() { of } else { Mark::Both };
                        out.push(DiffFrame { of, frame: joint.functions_of(AFTER).frame(function) });
                        if token.is_some() {
                            break;
                        }
                    }
                }
            }
            out.extend(
                is.map(|(function, _)| DiffFrame { of: Mark::Both, frame: joint.functions_of(AFTER).frame(function) }),
            );
            out
        }
        (None, after, _) => all(AFTER, after, Mark::After).collect(),
        (before, None, _) => all(BEFORE, before, Mark::Before).collect(),
        (Some(_), after, None) => all(AFTER, after, Mark::Both).collect(),
    }
}
