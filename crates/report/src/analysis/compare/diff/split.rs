//! One stack that became several, and several that became one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mallow_profile::Counts;

use super::assign::Edge;
use super::items::Item;
use super::likeness::{Comparison, NUMBERS};
use super::report::Why;
use super::rows::Match;
use super::stacks::{AFTER, BEFORE};

/// Numbers are the same if they differ by at most one part in so many.
const NEARLY: u64 = 50;
/// Numbers below this are the same by chance.
const ENOUGH: u64 = 4;
/// Likeness of functions below which a stack is no part of another one.
const ALIKE: f32 = 0.6;
/// Most stacks that one stack becomes.
const PARTS: usize = 16;

/// Adds stacks to one side of a pair where the other has numbers left over that they account for. `rests` are edges
/// with stacks that both sides have.
pub(super) fn matches(
    items: [&[Item]; 2],
    pairs: &[(Edge, f32)],
    rests: &[Edge],
    all: &[Edge],
    comparison: Comparison,
    why: impl Fn(&Edge) -> Vec<Why>,
) -> Vec<Match> {
    let mut free = [BEFORE, AFTER].map(|side| items[side].iter().map(|item| !item.rest).collect::<Vec<bool>>());
    for (pair, _) in pairs {
        free[BEFORE][pair.before] = false;
        free[AFTER][pair.after] = false;
    }
    let partner = pairs.iter().enumerate();
    let mut of_pair: [BTreeMap<usize, usize>; 2] = Default::default();
    for (at, (pair, _)) in partner {
        of_pair[BEFORE].insert(pair.before, at);
        of_pair[AFTER].insert(pair.after, at);
    }
    let mut matches: Vec<Match> = pairs
        .iter()
        .map(|(pair, confidence)| Match {
            before: vec![items[BEFORE][pair.before].group],
            after: vec![items[AFTER][pair.after].group],
            confidence: f64::from(*confidence),
            why: why(pair),
        })
        .collect();
    // What one side has too much of, on `side`, and stacks of the other that are like it.
    for side in [BEFORE, AFTER] {
        let mut like: BTreeMap<usize, Vec<Edge>> = BTreeMap::new();
        for edge in all.iter().chain(rests) {
            let (one, other) = ends(edge, side);
            if free[1 - side][other] && edge.alike >= ALIKE {
                like.entry(one).or_default().push(*edge);
            }
        }
        let mut order: Vec<(usize, Vec<Edge>)> = like.into_iter().collect();
        order.sort_by_key(|(one, _)| (Reverse(items[side][*one].counts.allocations), *one));
        for (one, mut edges) in order {
            let item = &items[side][one];
            let pair = of_pair[side].get(&one).copied();
            let left = match pair {
                Some(at) => {
                    let other = ends(&pairs[at].0, side).1;
                    let Some(left) = minus(&item.counts, &items[1 - side][other].counts) else { continue };
                    left
                }
                None => item.counts,
            };
            edges.retain(|edge| free[1 - side][ends(edge, side).1]);
            edges.sort_by(|a, b| b.alike.total_cmp(&a.alike).then((a.before, a.after).cmp(&(b.before, b.after))));
            let several = pair.is_none() && !item.rest;
            let least = if several { 2 } else { 1 };
            let Some(parts) = parts(&left, &edges, items[1 - side], side, comparison, least) else { continue };
            for edge in &parts {
                free[1 - side][ends(edge, side).1] = false;
            }
            free[side][one] = false;
            let others = parts.iter().map(|edge| items[1 - side][ends(edge, side).1].group);
            // Their numbers are those of the whole.
            let alike = parts.iter().fold(1f32, |least, edge| least.min(edge.alike));
            let sure = alike * (1.0 - NUMBERS) + NUMBERS;
            let what = if side == BEFORE { Why::Split } else { Why::Merged };
            match pair {
                Some(at) => {
                    let of = &mut matches[at];
                    let side_of = if side == BEFORE { &mut of.after } else { &mut of.before };
                    side_of.extend(others);
                    of.confidence = of.confidence.min(f64::from(sure));
                    of.why.insert(0, what);
                }
                None => {
                    // A stack that both sides have stands beside those that have what it has less.
                    let own = vec![item.group];
                    let others: Vec<usize> = item.rest.then_some(item.group).into_iter().chain(others).collect();
                    let (before, after) = if side == BEFORE { (own, others) } else { (others, own) };
                    let mut whys = vec![what];
                    for edge in &parts {
                        whys.extend(why(edge).into_iter().filter(|w| *w != Why::SameNumbers));
                    }
                    whys.dedup();
                    matches.push(Match { before, after, confidence: f64::from(sure), why: whys });
                }
            }
        }
    }
    matches
}

/// The edge's item on `side`, and the one on the other side.
fn ends(edge: &Edge, side: usize) -> (usize, usize) {
    if side == BEFORE { (edge.before, edge.after) } else { (edge.after, edge.before) }
}

fn minus(a: &Counts, b: &Counts) -> Option<Counts> {
    Some(Counts {
        allocations: a.allocations.checked_sub(b.allocations)?,
        allocated_bytes: a.allocated_bytes.checked_sub(b.allocated_bytes)?,
        ..Counts::default()
    })
}

/// The stack whose numbers are what is left over, or the most alike ones that together have it.
fn parts(
    left: &Counts,
    edges: &[Edge],
    others: &[Item],
    side: usize,
    comparison: Comparison,
    least: usize,
) -> Option<Vec<Edge>> {
    let measure = |counts: &Counts| if comparison.allocations { counts.allocations } else { counts.allocated_bytes };
    let whole = measure(left);
    if whole < ENOUGH {
        return None;
    }
    let near = |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / NEARLY;
    let same = |counts: &Counts| {
        near(measure(counts), whole) && (!comparison.bytes || near(counts.allocated_bytes, left.allocated_bytes))
    };
    let counts = |edge: &Edge| &others[ends(edge, side).1].counts;
    if least == 1
        && let Some(edge) = edges.iter().find(|edge| same(counts(edge)))
    {
        return Some(vec![*edge]);
    }
    let (mut sum, mut parts) = (Counts::default(), Vec::new());
    for edge in edges.iter().take(PARTS) {
        if measure(&sum).saturating_add(measure(counts(edge))) <= whole.saturating_add(whole / NEARLY) {
            sum += *counts(edge);
            parts.push(*edge);
        }
    }
    (same(&sum) && parts.len() >= least).then_some(parts)
}
