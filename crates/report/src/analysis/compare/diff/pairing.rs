//! Stacks that are the same although they are not equal: found at minimum cost, and only where that is plain.
//!
//! 1. What pairs of the largest stacks have in common shows which functions have another name, or were put into their
//!    callers, everywhere. Stacks that are equal with that are pairs.
//! 2. Of what is left, stacks that share rare functions, or all functions but one, are aligned. The best of those pairs
//!    are chosen together, so that no stack is in two.
//! 3. A stack with numbers left over, and others that have exactly these, are one that became several, or the other way
//!    round.
//!
//! Nothing depends on the order of stacks or files: groups and tokens are in the order of their texts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::align::{Costs, Op};
use super::assign::{Edge, assign};
use super::candidates::{Effort, Entry, Index, MOST};
use super::evidence::{Requests, fit, requests, supports_names};
use super::items::{Item, Learnt, Weights, items};
use super::likeness::{Comparison, NUMBERS, numbers};
use super::normalise::{Rule, Rules};
use super::programs::{EachFunction, Programs};
use super::report::Why;
use super::rows::Match;
use super::split;
use super::stacks::{AFTER, BEFORE, Group, Joint, Token};

/// Score below which two stacks are no pair.
pub(super) const LEAST: f32 = 0.6;
/// Likeness of functions below which two stacks are no pair, however equal the numbers are.
pub(super) const LEAST_ALIKE: f32 = 0.45;
/// How near a rival's score must be to lower the confidence of a pair.
const RIVAL: f32 = 0.1;
/// Score from which on no better partner is searched for.
const CERTAIN: f32 = 0.97;
/// Similarity from which on two names speak for one function: `load_users` and `load_orders` have more than half in
/// common. A function that took another one's place, with its numbers, has not.
const LIKE_NAMES: f32 = 0.3;
/// Largest stacks of the first side that rounds of learning pair.
const SAMPLE: usize = 3000;
/// Largest stacks of the second side that rounds of learning search.
const AMONG: usize = 10 * SAMPLE;
/// Most rounds of learning; they end when one finds nothing new.
const ROUNDS: usize = 4;
/// Work on pairs in all, as [`Costs::work`] has it: some seconds. 20,000 stacks of 30 functions, with all their
/// candidates, take a twentieth of it.
const WORK: u64 = 1 << 31;
/// Work of one round of learning at the most, as [`Costs::work`] has it.
const LEARNING: u64 = WORK / 8;

pub(super) struct Pairing {
    pub matches: Vec<Match>,
    learnt: Learnt,
    weights: Weights,
    inlining: bool,
}

impl Pairing {
    /// What a function of the first profile is called in the second, as far as many pairs agree on it.
    pub fn renamed(&self, token: Token) -> Token {
        self.learnt.renamed.get(&token).copied().unwrap_or(token)
    }

    pub fn ops(&self, joint: &Joint, before: &Group, after: &Group) -> Vec<Op> {
        let costs = Costs::new(joint, &self.weights, &self.learnt, self.inlining);
        let tokens = |group: &Group| joint.tokens(group.node).collect::<Vec<_>>();
        costs.ops(&tokens(before), &tokens(after))
    }
}

/// The stacks of one side, with what was learnt and without.
struct SideItems {
    items: Vec<Item>,
    translated: Vec<Vec<Token>>,
    /// By stack, the innermost function of the program's own after translation; of a script, that of the script.
    requesting: Vec<Option<Token>>,
}

impl SideItems {
    /// At most [`MOST`] stacks, the largest first.
    fn of(joint: &Joint, groups: &[Group], weights: &Weights, side: usize) -> Self {
        let mut items = items(joint, groups, weights, side);
        items.sort_by_key(|item| (Reverse((item.counts.allocations, item.counts.allocated_bytes)), item.group));
        items.truncate(MOST);
        let (translated, requesting) = Default::default();
        let mut of_side = Self { items, translated, requesting };
        of_side.translate(joint, &Learnt::default(), side);
        of_side
    }

    /// Rewrites the stacks as the other side would call their functions.
    fn translate(&mut self, joint: &Joint, learnt: &Learnt, side: usize) {
        self.translated = self.items.iter().map(|item| learnt.translate(&item.tokens, side)).collect();
        let renamed = |token: Token| learnt.renamed.get(&token).copied().filter(|_| side == BEFORE).unwrap_or(token);
        let own = |(item, tokens): (&Item, &Vec<Token>)| match item.of_script {
            Some(function) => Some(renamed(function)),
            None => tokens.iter().copied().find(|&token| joint.is_own(token)),
        };
        self.requesting = self.items.iter().zip(&self.translated).map(own).collect();
    }

    fn at(&self, at: usize) -> (&[Token], Option<Token>) {
        (&self.translated[at], self.requesting[at])
    }
}

/// How alike pairs of stacks are, from one round of learning to the next: what a round learns changes few of them.
#[derive(Default)]
struct Likenesses {
    /// By index of the item of each side; None: too little alike.
    known: FxHashMap<(usize, usize), Option<f32>>,
}

impl Likenesses {
    /// Forgets the pairs that something new changes. Costs a look at each function of each stack.
    fn forget(&mut self, sides: &[SideItems; 2], learnt: &Learnt, more: &Learnt) {
        let new_names = || more.renamed.iter().filter(|(from, to)| learnt.renamed.get(from) != Some(to));
        let new = |side: usize| {
            let gone = more.gone[side].keys().filter(|token| !learnt.gone[side].contains_key(token));
            let names = new_names().map(|(from, to)| if side == BEFORE { from } else { to });
            gone.chain(names).copied().collect::<FxHashSet<Token>>()
        };
        let changes = [BEFORE, AFTER].map(|side| {
            let new = new(side);
            let changes = |item: &Item| item.tokens.iter().any(|token| new.contains(token));
            sides[side].items.iter().map(changes).collect::<Vec<bool>>()
        });
        self.known.retain(|(before, after), _| !changes[BEFORE][*before] && !changes[AFTER][*after]);
    }
}

/// Pairs what only one side has; `matches` has no others. `progress` is called with how much is done, from 0 to 1.
pub(super) fn pair(
    joint: &Joint,
    groups: &[Group],
    rules: Rules,
    comparison: Comparison,
    each_function: &EachFunction<'_>,
    progress: &dyn Fn(f64),
) -> Pairing {
    /// Part of the whole that a round of learning counts in `progress`, at the most.
    const ROUND: f64 = 0.1;
    let learning = ROUND * ROUNDS as f64;
    let weights = Weights::of(joint, groups, Programs::of(joint, rules, each_function));
    let mut learnt = Learnt::default();
    let inlining = rules.has(Rule::Inlining);
    let mut sides = [BEFORE, AFTER].map(|side| SideItems::of(joint, groups, &weights, side));
    let mut likenesses = Likenesses::default();
    for round in 0..ROUNDS {
        let progress = |part: f64| progress(ROUND * (round as f64 + part));
        let costs = Costs::new(joint, &weights, &learnt, inlining);
        let search = Search { sample: SAMPLE, learning: true, work: LEARNING };
        let (edges, _) = edges(&sides, &costs, comparison, search, &mut likenesses, &progress);
        let mut pairs: Vec<Edge> = chosen(&edges, &sides).into_iter().map(|at| edges[at]).collect();
        pairs.retain(|pair| {
            supports_names([BEFORE, AFTER].map(|side| &sides[side].items[..]), pair, &costs, comparison)
        });
        let more = learn(&sides, &pairs, &costs);
        if more.renamed.keys().all(|token| learnt.renamed.contains_key(token))
            && [BEFORE, AFTER].iter().all(|&side| more.gone[side].keys().all(|t| learnt.gone[side].contains_key(t)))
        {
            break;
        }
        likenesses.forget(&sides, &learnt, &more);
        learnt.renamed.extend(more.renamed);
        for side in [BEFORE, AFTER] {
            learnt.gone[side].extend(more.gone[side].iter());
            sides[side].translate(joint, &learnt, side);
        }
    }
    let matches = {
        let costs = Costs::new(joint, &weights, &learnt, inlining);
        let whole = Search { sample: usize::MAX, learning: false, work: WORK };
        let progress = |part: f64| progress(learning + (1.0 - learning) * part);
        let (edges, rests) = edges(&sides, &costs, comparison, whole, &mut likenesses, &progress);
        let pairs: Vec<Edge> = chosen(&edges, &sides).into_iter().map(|at| edges[at]).collect();
        let confidence = confidences(&edges, &pairs, &sides);
        let items = [BEFORE, AFTER].map(|side| &sides[side].items[..]);
        let mut pairs: Vec<(Edge, f32)> = pairs.into_iter().zip(confidence).collect();
        pairs.retain(|(pair, confidence)| *confidence >= LEAST && supports_names(items, pair, &costs, comparison));
        let describe = |edge: &Edge| why(&sides, edge, &costs, comparison);
        split::matches(items, &pairs, &rests, &edges, comparison, describe)
    };
    Pairing { matches, learnt, weights, inlining }
}

#[derive(Clone, Copy, Debug)]
struct Search {
    /// Stacks of the first side that are searched for, the largest.
    sample: usize,
    /// Whether stacks are compared as they are, not as what was learnt translates them.
    learning: bool,
    /// Work at the most, as [`Costs::work`] has it.
    work: u64,
}

/// Edges between stacks that may be a pair, and edges with stacks that the other side has too, with less, which may
/// have what is left over.
fn edges(
    sides: &[SideItems; 2],
    costs: &Costs<'_>,
    comparison: Comparison,
    Search { sample, learning, work }: Search,
    likenesses: &mut Likenesses,
    progress: &dyn Fn(f64),
) -> (Vec<Edge>, Vec<Edge>) {
    let entry = |side: usize, at: usize| {
        let counts = &sides[side].items[at].counts;
        Entry { tokens: &sides[side].translated[at], numbers: (counts.allocations, counts.allocated_bytes) }
    };
    let [befores, afters] = sides;
    let (mut edges, mut rests) = (Vec::new(), Vec::new());
    // With what was learnt, most stacks are equal to one: those need no search.
    let mut equal: [FxHashMap<&[Token], (usize, usize)>; 2] = Default::default();
    for side in [BEFORE, AFTER] {
        for (at, _) in sides[side].items.iter().enumerate().filter(|(_, item)| !item.rest) {
            equal[side].entry(&sides[side].translated[at]).or_insert((at, 0)).1 += 1;
        }
    }
    let mut done = [vec![false; befores.items.len()], vec![false; afters.items.len()]];
    for (before, tokens) in befores.translated.iter().enumerate() {
        let of = [BEFORE, AFTER].map(|side| equal[side].get(&tokens[..]));
        if let [Some(&(one, 1)), Some(&(after, 1))] = of
            && one == before
        {
            // What one of them has more may be in stacks that split from it.
            let numbers = [entry(BEFORE, before).numbers, entry(AFTER, after).numbers];
            let has_more = |one: (u64, u64), other: (u64, u64)| !learning && one.0 > other.0 && one.1 > other.1;
            done[BEFORE][before] = !has_more(numbers[BEFORE], numbers[AFTER]);
            done[AFTER][after] = !has_more(numbers[AFTER], numbers[BEFORE]);
            if !learning {
                let alike = alike(&befores.items[before], &afters.items[after], costs);
                edges.extend(edge(sides, before, after, alike, costs, comparison).map(|(edge, _)| edge));
            }
        }
    }
    let among = if learning { AMONG } else { usize::MAX };
    let left: Vec<usize> = (0..afters.items.len()).filter(|&at| !done[AFTER][at]).take(among).collect();
    let index = Index::new(left.iter().map(|&at| entry(AFTER, at)));
    let search: Vec<usize> = (0..befores.items.len()).filter(|&at| !done[BEFORE][at]).take(sample).collect();
    let effort = Effort::of(left.len().max(search.len()));
    let mut own: FxHashSet<Token> = FxHashSet::default();
    let all = search.len() as f64;
    for (number, before) in search.into_iter().enumerate() {
        if number.is_multiple_of(64) {
            progress(number as f64 / all);
        }
        // The largest stacks are most of what changed.
        let effort = if number < SAMPLE { Effort::of(1) } else { effort };
        let Some(effort) = effort.after(costs.work(), work) else { break };
        own.clear();
        own.extend(&befores.translated[before]);
        for after in index.candidates(entry(BEFORE, before), effort) {
            let after = left[after as usize];
            if effort.common > 0.0 {
                let common = afters.translated[after].iter().filter(|token| own.contains(token));
                let common: f32 = common.map(|&token| costs.weights.weight(token)).sum();
                let lighter = befores.items[before].weight.min(afters.items[after].weight);
                if common < lighter * effort.common {
                    continue;
                }
            }
            let rest = befores.items[before].rest || afters.items[after].rest;
            if rest && learning {
                continue;
            }
            let likeness = || alike(&befores.items[before], &afters.items[after], costs);
            let known = likenesses.known.get(&(before, after)).copied();
            let alike = known.unwrap_or_else(likeness);
            if learning && known.is_none() {
                likenesses.known.insert((before, after), alike);
            }
            if let Some((edge, fits)) = edge(sides, before, after, alike, costs, comparison) {
                // Numbers of a part are not those of the whole.
                let rest = rest || !fits;
                match rest {
                    true if learning => {}
                    true => rests.push(edge),
                    false => edges.push(edge),
                }
                // There is hardly a better one.
                if !rest && edge.score > CERTAIN {
                    break;
                }
            }
        }
    }
    (edges, rests)
}

/// The likeness of two stacks' functions, from 0 to 1; None below about [`LEAST_ALIKE`].
pub(super) fn alike(before: &Item, after: &Item, costs: &Costs<'_>) -> Option<f32> {
    let all = before.weight + after.weight;
    // A little more than what the least likeness allows: rounding decides nothing here.
    let cost = costs.cost(&before.tokens, &after.tokens, all * (1.001 - LEAST_ALIKE))?;
    Some(if all > 0.0 { (1.0 - cost / all).max(0.0) } else { 0.0 })
}

/// The pair, and whether its numbers fit; None where the two are no pair.
fn edge(
    sides: &[SideItems; 2],
    before: usize,
    after: usize,
    alike: Option<f32>,
    costs: &Costs<'_>,
    comparison: Comparison,
) -> Option<(Edge, bool)> {
    let (was, is) = (&sides[BEFORE].items[before], &sides[AFTER].items[after]);
    let alike = alike.filter(|alike| *alike >= LEAST_ALIKE)?;
    let fits = match requests([sides[BEFORE].at(before), sides[AFTER].at(after)], costs) {
        Requests::Same => true,
        Requests::Akin => fit(&was.counts, &is.counts, comparison),
        Requests::Unlike => return None,
    };
    let score = alike * (1.0 - NUMBERS) + NUMBERS * numbers(&was.counts, &is.counts, comparison);
    Some((Edge { before, after, alike, score }, fits))
}

fn chosen(edges: &[Edge], sides: &[SideItems; 2]) -> Vec<usize> {
    let edges_worth = |score: f32| score - LEAST;
    assign(edges, sides[BEFORE].items.len(), sides[AFTER].items.len(), edges_worth)
}

/// By pair, its score, lowered where another stack would do nearly as well.
fn confidences(edges: &[Edge], pairs: &[Edge], sides: &[SideItems; 2]) -> Vec<f32> {
    let mut best: [Vec<[f32; 2]>; 2] = [BEFORE, AFTER].map(|side| vec![[0.0; 2]; sides[side].items.len()]);
    for edge in edges {
        for (side, at) in [(BEFORE, edge.before), (AFTER, edge.after)] {
            let [first, second] = &mut best[side][at];
            if edge.score > *first {
                (*first, *second) = (edge.score, *first);
            } else {
                *second = second.max(edge.score);
            }
        }
    }
    let rival = |side: usize, at: usize, score: f32| {
        let [first, second] = best[side][at];
        if first > score { first } else { second }
    };
    let confidence = |pair: &Edge| {
        let rival = rival(BEFORE, pair.before, pair.score).max(rival(AFTER, pair.after, pair.score));
        let margin = (pair.score - rival).clamp(0.0, RIVAL);
        pair.score - (RIVAL - margin) / 2.0
    };
    pairs.iter().map(confidence).collect()
}

/// The names that changed and the functions that are on the call path on one side alone, as far as many pairs agree.
fn learn(sides: &[SideItems; 2], pairs: &[Edge], costs: &Costs<'_>) -> Learnt {
    /// Least pairs that must agree: a single one describes itself alone.
    const VOTES: usize = 2;
    let mut renamed: BTreeMap<(Token, Token), usize> = BTreeMap::new();
    let mut lacking: [BTreeMap<Token, usize>; 2] = Default::default();
    let mut seen: [FxHashMap<Token, usize>; 2] = Default::default();
    for pair in pairs {
        let (was, is) = (&sides[BEFORE].items[pair.before].tokens, &sides[AFTER].items[pair.after].tokens);
        let (mut before, mut after) = (was.iter(), is.iter());
        for op in costs.ops(was, is) {
            let before = if op == Op::After { None } else { before.next() };
            let after = if op == Op::Before { None } else { after.next() };
            for (side, token) in [(BEFORE, before), (AFTER, after)] {
                if let Some(token) = token.filter(|&&token| costs.weights.one_sided(token)) {
                    *seen[side].entry(*token).or_default() += 1;
                }
            }
            match (op, before, after) {
                (Op::Renamed, Some(&from), Some(&to)) if costs.joint.may_be_renamed(from, to) => {
                    *renamed.entry((from, to)).or_default() += 1;
                }
                (Op::Before, Some(&token), _) => *lacking[BEFORE].entry(token).or_default() += 1,
                (Op::After, _, Some(&token)) => *lacking[AFTER].entry(token).or_default() += 1,
                _ => {}
            }
        }
    }
    // Nearly always so.
    let mostly = |side: usize, token: Token, votes: usize| {
        let all = seen[side].get(&token).copied().unwrap_or(0);
        votes >= VOTES && votes * 4 >= all * 3 && all > 0
    };
    let mut learnt = Learnt::default();
    for ((from, to), votes) in renamed {
        if mostly(BEFORE, from, votes) && mostly(AFTER, to, votes) {
            learnt.renamed.insert(from, to);
        }
    }
    if costs.inlining {
        for side in [BEFORE, AFTER] {
            let mostly = lacking[side].iter().filter(|&(&token, &votes)| mostly(side, token, votes));
            learnt.gone[side] = mostly.map(|(&token, _)| (token, ())).collect();
        }
    }
    learnt
}

/// The reasons why two stacks are one, in the order of their functions.
fn why(sides: &[SideItems; 2], pair: &Edge, costs: &Costs<'_>, comparison: Comparison) -> Vec<Why> {
    let (was, is) = (&sides[BEFORE].items[pair.before], &sides[AFTER].items[pair.after]);
    let (mut before, mut after) = (was.tokens.iter(), is.tokens.iter());
    let mut whys = Vec::new();
    let text = |token: &Token| costs.joint.text(*token).to_owned();
    for op in costs.ops(&was.tokens, &is.tokens) {
        let before = if op == Op::After { None } else { before.next() };
        let after = if op == Op::Before { None } else { after.next() };
        let of_op = match (op, before, after) {
            (Op::Renamed, Some(from), Some(to)) if costs.joint.are_one_code(*from, *to) => [None, None],
            (Op::Renamed, Some(from), Some(to)) if costs.joint.may_be_renamed(*from, *to) => {
                let is_supported =
                    || costs.learnt.renamed.get(from) == Some(to) || costs.similarity(*from, *to) >= LIKE_NAMES;
                let certain = costs.are_known(*from, *to) && is_supported();
                [Some(Why::Renamed { from: text(from), to: text(to), certain }), None]
            }
            (Op::Renamed, Some(from), Some(to)) => {
                [Some(Why::Gone { function: text(from) }), Some(Why::New { function: text(to) })]
            }
            (Op::Before, Some(token), _) => [Some(Why::Gone { function: text(token) }), None],
            (Op::After, _, Some(token)) => [Some(Why::New { function: text(token) }), None],
            _ => [None, None],
        };
        for why in of_op.into_iter().flatten() {
            if !whys.contains(&why) {
                whys.push(why);
            }
        }
    }
    let same = |a: u64, b: u64, compared: bool| !compared || a == b;
    if same(was.counts.allocations, is.counts.allocations, comparison.allocations)
        && same(was.counts.allocated_bytes, is.counts.allocated_bytes, comparison.bytes)
    {
        whys.push(Why::SameNumbers);
    }
    whys
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;

    use super::super::programs::no_files;
    use super::*;
    use crate::analysis::numbers::Measure;
    use crate::testing::{Builder, blocks};

    const STACKS: u64 = 60;
    const DEPTH: u64 = 40;

    /// Stacks of the same few functions, each in an order of its own: all of them have much in common with all others.
    fn mixed(seed: u64) -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let mut random = seed;
        for n in 0..STACKS {
            let names: Vec<String> = (0..DEPTH)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    format!("f{}", (random >> 33) % 20)
                })
                .collect();
            b.site(p, &names.iter().map(String::as_str).collect::<Vec<_>>(), blocks(1000 - n, 8, 0, 0));
        }
        b.profile
    }

    #[test]
    fn work_ends_when_it_is_spent_and_the_largest_come_first() {
        let profiles = [3, 4].map(mixed);
        let joint = Joint::new(profiles.each_ref(), Rules::ALL);
        let groups = joint.groups(Measure::Allocations);
        let weights = Weights::of(&joint, &groups, Programs::of(&joint, Rules::ALL, &no_files));
        let sides = [BEFORE, AFTER].map(|side| SideItems::of(&joint, &groups, &weights, side));
        let learnt = Learnt::default();
        let comparison = Comparison { allocations: true, bytes: true, live: false };
        let searched = |work: u64| {
            let costs = Costs::new(&joint, &weights, &learnt, true);
            let search = Search { sample: usize::MAX, learning: false, work };
            let (found, _) = edges(&sides, &costs, comparison, search, &mut Likenesses::default(), &|_| {});
            (costs.work(), found)
        };
        let cells = (DEPTH + 1) * (DEPTH + 1);
        // No functions have other names here.
        let (whole, all) = searched(u64::MAX / 2);
        assert!(whole <= STACKS * Effort::of(1).most as u64 * cells, "{whole}");
        assert!(whole > 100 * cells, "nothing to bound: {whole}");
        for budget in [0, 3 * cells, 40 * cells] {
            let (spent, some) = searched(budget);
            // A stack that has begun is searched to its end.
            assert!(spent <= 2 * budget + Effort::of(1).most as u64 * cells && spent < whole, "{budget}: {spent}");
            assert!(some.len() < all.len() && some.iter().all(|edge| all.contains(edge)), "{budget}");
            let last = some.iter().map(|edge| edge.before).max().unwrap_or(0);
            assert!(last < STACKS as usize / 2, "{budget}: {last}");
        }
    }

    /// Two builds: the second has other names for some functions, and instances of templates.
    fn builds() -> [Profile; 2] {
        ["", "_checked"].map(|suffix| {
            let mut b = Builder::default();
            let p = b.process(1, &["a"], 10);
            for n in 0..STACKS {
                let name = |at: u64| match (n * 7 + at * 3) % 101 {
                    number if number % 5 == 0 => format!("f{number}{suffix}"),
                    number if number % 5 == 1 => format!("t<{}>(int)", number + suffix.len() as u64 * (at % 2)),
                    number => format!("f{number}"),
                };
                // One stack in three lacks functions.
                let names: Vec<String> = (0..DEPTH - n % 3 * (suffix.len() as u64 % 3)).map(name).collect();
                b.site(p, &names.iter().map(String::as_str).collect::<Vec<_>>(), blocks(1000 - n, 8, 0, 0));
            }
            b.profile
        })
    }

    #[test]
    fn costs_by_diagonals_are_those_of_the_table() {
        let profiles = builds();
        let joint = Joint::new(profiles.each_ref(), Rules::ALL);
        let groups = joint.groups(Measure::Allocations);
        let weights = Weights::of(&joint, &groups, Programs::of(&joint, Rules::ALL, &no_files));
        let learnt = Learnt::default();
        let costs = Costs::new(&joint, &weights, &learnt, true);
        let [befores, afters] = [BEFORE, AFTER].map(|side| SideItems::of(&joint, &groups, &weights, side).items);
        let (mut renamed, mut overloaded) = (0, 0);
        for before in &befores {
            for after in &afters {
                let by_rows = costs.table_by_rows(&before.tokens, &after.tokens);
                assert_eq!(costs.table_by_diagonals(&before.tokens, &after.tokens), by_rows);
                let least = by_rows[by_rows.len() - 1];
                let within = |most: f32| costs.cost(&before.tokens, &after.tokens, most);
                assert_eq!([within(f32::INFINITY), within(least)], [Some(least); 2]);
                assert_eq!(within(least.next_down()), None);
                renamed += usize::from(costs.ops(&before.tokens, &after.tokens).contains(&Op::Renamed));
                overloaded += usize::from(before.tokens.iter().any(|token| weights.has_overloads(*token)));
            }
        }
        assert!(renamed > 100 && overloaded > 100, "{renamed} {overloaded}");
    }

    #[test]
    fn what_a_round_does_not_change_is_aligned_once() {
        let profiles = builds();
        let joint = Joint::new(profiles.each_ref(), Rules::ALL);
        let groups = joint.groups(Measure::Allocations);
        let weights = Weights::of(&joint, &groups, Programs::of(&joint, Rules::ALL, &no_files));
        let sides = [BEFORE, AFTER].map(|side| SideItems::of(&joint, &groups, &weights, side));
        let comparison = Comparison { allocations: true, bytes: true, live: false };
        let mut likenesses = Likenesses::default();
        let mut round = |learnt: &Learnt| {
            let costs = Costs::new(&joint, &weights, learnt, true);
            let search = Search { sample: usize::MAX, learning: true, work: u64::MAX / 2 };
            let (found, _) = edges(&sides, &costs, comparison, search, &mut likenesses, &|_| {});
            (costs.work(), found)
        };
        let learnt = Learnt::default();
        let (first, again) = (round(&learnt), round(&learnt));
        assert!(first.0 > 100_000, "{first:?}");
        assert_eq!(again, (0, first.1), "the same pairs, and no work");
        // A new name: pairs without it stay.
        let all = likenesses.known.len();
        let name = |text: &str| (0..joint.functions() as u32).map(Token).find(|&token| joint.text(token) == text);
        let (Some(from), Some(to)) = (name("f5"), name("f5_checked")) else { panic!("no such functions") };
        let more = Learnt { renamed: [(from, to)].into_iter().collect(), ..Learnt::default() };
        likenesses.forget(&sides, &learnt, &more);
        let has = |side: usize, at: usize, token: Token| sides[side].items[at].tokens.contains(&token);
        let stale = |&(before, after): &(usize, usize)| has(BEFORE, before, from) || has(AFTER, after, to);
        assert!(!likenesses.known.is_empty() && likenesses.known.len() < all, "{all}: {}", likenesses.known.len());
        assert!(!likenesses.known.keys().any(stale));
    }
}
