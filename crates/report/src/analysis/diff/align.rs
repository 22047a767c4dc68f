//! Two stacks, function by function, at minimum cost.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::diagonals::{Columns, Diagonals, Facts, OVERLOADED, RenameCosts};
use super::items::{Learnt, Weights};
use super::renames::Renames;
use super::rows::Step;
use super::stacks::{AFTER, BEFORE, Joint, Token};
use crate::names;

/// What of a pair of stacks differs may be so large: functions of one times functions of the other.
const CELLS: usize = 1 << 16;

/// Of a function that one stack lacks: what part of its weight that costs.
const LACKING: f32 = 1.0;
/// The same where nothing of that side has it: it was put into its caller, or no longer is.
const INLINED: f32 = 0.6;
/// Of two functions that are each on one side alone: they may be one with two names, which need not resemble each
/// other.
const RENAMED: [f32; 2] = [0.1, 0.5];
/// Of what is known already.
const KNOWN: f32 = 0.02;

/// Comparing two names is as much work as so many pairs of functions.
const NAMES: u64 = 16;

/// How two stacks go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// The function is on both.
    Same,
    /// Two functions that are one.
    Renamed,
    /// It is on the one before alone.
    Before,
    /// It is on the one after alone.
    After,
}

impl Op {
    /// As it is shown.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Self::Same => &[Step::Both],
            Self::Renamed => &[Step::Before, Step::After],
            Self::Before => &[Step::Before],
            Self::After => &[Step::After],
        }
    }
}

/// What differences cost.
pub(super) struct Costs<'a> {
    pub joint: &'a Joint<'a>,
    pub weights: &'a Weights,
    pub learnt: &'a Learnt,
    /// Functions may be put into their callers.
    pub inlining: bool,
    work: Cell<u64>,
    known: RefCell<Renames>,
    /// By side and function.
    facts: [Vec<Facts>; 2],
    bigrams: RefCell<FxHashMap<Token, Vec<u32>>>,
    scratch: RefCell<Scratch>,
}

/// Memory that every alignment needs again.
#[derive(Default)]
struct Scratch {
    was: Columns,
    is: Columns,
    /// Of the functions that are on one side alone, as [`Renames`] has them.
    numbers: [Vec<u32>; 2],
    renames: RenameCosts,
    diagonals: Diagonals,
}

impl<'a> Costs<'a> {
    pub fn new(joint: &'a Joint<'a>, weights: &'a Weights, learnt: &'a Learnt, inlining: bool) -> Self {
        let (work, bigrams, scratch) = Default::default();
        let known = RefCell::new(Renames::new(weights, learnt, KNOWN));
        let facts = Default::default();
        let mut costs = Self { joint, weights, learnt, inlining, work, known, facts, bigrams, scratch };
        let facts = |side| (0..joint.functions() as u32).map(|token| costs.facts_of(Token(token), side)).collect();
        costs.facts = [facts(BEFORE), facts(AFTER)];
        costs
    }

    /// What was done so far: pairs of functions that were looked at, those that may be renamed twice, and names that were compared
    /// counting [`NAMES`].
    pub fn work(&self) -> u64 {
        self.work.get()
    }

    /// What it costs that one stack lacks a function of `side`.
    fn lacking(&self, token: Token, side: usize) -> f32 {
        self.facts[side].get(token.0 as usize).map_or(0.0, |facts| facts.lacking)
    }

    fn lacking_of(&self, token: Token, side: usize) -> f32 {
        let weight = self.weights.weight(token);
        match () {
            () if self.learnt.gone[side].contains_key(&token) => weight * KNOWN,
            () if self.inlining && self.weights.one_sided(token) => weight * INLINED,
            () => weight * LACKING,
        }
    }

    /// What it costs that the one has `before` where the other has `after`; None where these are two functions.
    fn renamed(&self, before: Token, after: Token) -> Option<f32> {
        if before == after {
            return Some(0.0);
        }
        let weight = self.weights.weight(before) + self.weights.weight(after);
        // Most functions are on both sides: those need no search.
        if !(self.weights.one_sided(before) && self.weights.one_sided(after)) {
            return self.weights.overloaded(before, after).then_some(weight * OVERLOADED);
        }
        let mut known = self.known.borrow_mut();
        let (from, to) = (known.number(before), known.number(after));
        let cost = known.get(from, to);
        Some(cost.unwrap_or_else(|| self.compare_names(&mut known, (before, after), (from, to))))
    }

    #[cold]
    fn compare_names(&self, known: &mut Renames, (before, after): (Token, Token), (from, to): (u32, u32)) -> f32 {
        self.work.set(self.work.get() + NAMES);
        let cost = self.renamed_by_name(before, after);
        known.set(from, to, cost);
        cost
    }

    fn renamed_by_name(&self, before: Token, after: Token) -> f32 {
        let [alike, unlike] = RENAMED;
        let weight = self.weights.weight(before) + self.weights.weight(after);
        weight * (unlike - (unlike - alike) * self.similarity(before, after))
    }

    /// How much two names have in common, from 0 to 1: pairs of letters, as Dice has it.
    pub fn similarity(&self, a: Token, b: Token) -> f32 {
        if self.weights.overloaded(a, b) {
            return 1.0;
        }
        let mut bigrams = self.bigrams.borrow_mut();
        for token in [a, b] {
            bigrams.entry(token).or_insert_with(|| self.parts(token));
        }
        let (Some(a), Some(b)) = (bigrams.get(&a), bigrams.get(&b)) else { return 0.0 };
        let (mut common, mut i, mut j) = (0usize, 0, 0);
        while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
            common += usize::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        2.0 * common as f32 / (a.len() + b.len()).max(1) as f32
    }

    fn parts(&self, token: Token) -> Vec<u32> {
        /// Longer names resemble each other by their beginnings.
        const LONG: usize = 256;
        let short = names::short(self.joint.text(token));
        let letters: Vec<u32> = short.chars().flat_map(char::to_lowercase).take(LONG).map(u32::from).collect();
        let mut pairs: Vec<u32> = letters.windows(2).map(|two| two[0] << 16 ^ two[1]).collect();
        pairs.sort_unstable();
        pairs
    }

    /// The least cost of making one stack the other; None where it is out of reach, or above `most`.
    ///
    /// This is where a comparison spends its time. Cells of one diagonal do not depend on each other, so a processor works on several
    /// at once, and the sums are the same to the last bit as those of [`Costs::row`].
    pub fn cost(&self, before: &[Token], after: &[Token], most: f32) -> Option<f32> {
        let (_, x, y) = middle(before, after);
        let width = y.len() + 1;
        if (x.len() + 1).checked_mul(width)? > CELLS {
            return None;
        }
        let scratch = &mut *self.scratch.borrow_mut();
        let facts = |side: usize| move |token: &Token| self.facts[side].get(token.0 as usize).copied();
        scratch.was.set(x.iter().filter_map(facts(BEFORE)));
        scratch.is.set(y.iter().rev().filter_map(facts(AFTER)));
        let mut known = self.known.borrow_mut();
        let functions =
            |i: usize, j: usize| (x[scratch.was.one_sided_at[i]], y[y.len() - 1 - scratch.is.one_sided_at[j]]);
        let [from, to] = &mut scratch.numbers;
        from.clear();
        from.extend(scratch.was.one_sided_at.iter().map(|&at| known.number(x[at])));
        to.clear();
        to.extend(scratch.is.one_sided_at.iter().map(|&at| known.number(y[y.len() - 1 - at])));
        scratch.renames.set(&scratch.was, &scratch.is, |i, j| {
            let pair = (from[i], to[j]);
            known.get(pair.0, pair.1).unwrap_or_else(|| self.compare_names(&mut known, functions(i, j), pair))
        });
        drop(known);
        let cost = scratch.diagonals.cost(&scratch.was, &scratch.is, &scratch.renames);
        self.work.set(self.work.get() + (width * (x.len() + 1) + scratch.renames.len()) as u64);
        Some(cost).filter(|cost| *cost <= most)
    }

    /// That way, the innermost function first.
    pub fn ops(&self, before: &[Token], after: &[Token]) -> Vec<Op> {
        let outer = before.len();
        let (inner, x, y) = middle(before, after);
        let mut ops = vec![Op::Same; inner];
        let tail = outer - inner - x.len();
        match self.table(x, y) {
            Some(table) => {
                let width = y.len() + 1;
                let (mut i, mut j) = (x.len(), y.len());
                let mut back = Vec::new();
                while i > 0 || j > 0 {
                    let here = table[i * width + j];
                    let from = |i: usize, j: usize, cost: f32| (table[i * width + j] + cost - here).abs() <= 1e-4;
                    let renamed = if i > 0 && j > 0 { self.renamed(x[i - 1], y[j - 1]) } else { None };
                    if renamed.is_some_and(|cost| from(i - 1, j - 1, cost)) {
                        back.push(if x[i - 1] == y[j - 1] { Op::Same } else { Op::Renamed });
                        (i, j) = (i - 1, j - 1);
                    } else if j > 0 && (i == 0 || from(i, j - 1, self.lacking(y[j - 1], AFTER))) {
                        back.push(Op::After);
                        j -= 1;
                    } else {
                        back.push(Op::Before);
                        i -= 1;
                    }
                }
                ops.extend(back.into_iter().rev());
            }
            None => {
                ops.extend(std::iter::repeat_n(Op::Before, x.len()));
                ops.extend(std::iter::repeat_n(Op::After, y.len()));
            }
        }
        ops.extend(std::iter::repeat_n(Op::Same, tail));
        ops
    }

    /// The least cost, as [`Costs::ops`] has it.
    #[cfg(test)]
    pub fn table_cost(&self, before: &[Token], after: &[Token]) -> Option<f32> {
        let (_, x, y) = middle(before, after);
        self.table(x, y)?.last().copied()
    }

    fn table(&self, x: &[Token], y: &[Token]) -> Option<Vec<f32>> {
        let width = y.len() + 1;
        if (x.len() + 1).checked_mul(width)? > CELLS {
            return None;
        }
        let of_y = self.facts(y, AFTER);
        let mut table = vec![0f32; (x.len() + 1) * width];
        first_row(&mut table[..width], &of_y);
        self.work.set(self.work.get() + width as u64);
        for (i, was) in self.facts(x, BEFORE).iter().enumerate() {
            let (above, below) = table.split_at_mut((i + 1) * width);
            self.row(was, &of_y, &above[i * width..], &mut below[..width]);
        }
        Some(table)
    }

    /// What is asked of each function of a stack once, and of each pair of functions without a search.
    fn facts(&self, tokens: &[Token], side: usize) -> Vec<Facts> {
        tokens.iter().filter_map(|token| self.facts[side].get(token.0 as usize).copied()).collect()
    }

    fn facts_of(&self, token: Token, side: usize) -> Facts {
        Facts {
            token,
            short: self.weights.short(token),
            overloaded: self.weights.has_overloads(token),
            weight: self.weights.weight(token),
            lacking: self.lacking_of(token, side),
            one_sided: self.weights.one_sided(token),
        }
    }

    /// One function of the stack before with all of the one after.
    fn row(&self, was: &Facts, of_y: &[Facts], above: &[f32], row: &mut [f32]) {
        self.work.set(self.work.get() + row.len() as u64);
        let mut last = above[0] + was.lacking;
        row[0] = last;
        for ((is, two), to) in of_y.iter().zip(above.windows(2)).zip(&mut row[1..]) {
            let apart = (two[1] + was.lacking).min(last + is.lacking);
            let together = if was.token == is.token {
                Some(0.0)
            } else if !(was.one_sided && is.one_sided) {
                (was.short == is.short).then_some((was.weight + is.weight) * OVERLOADED)
            } else {
                self.renamed(was.token, is.token)
            };
            last = together.map_or(apart, |cost| (two[0] + cost).min(apart));
            *to = last;
        }
    }
}

fn first_row(row: &mut [f32], of_y: &[Facts]) {
    let mut sum = 0f32;
    for (is, to) in of_y.iter().zip(&mut row[1..]) {
        sum += is.lacking;
        *to = sum;
    }
}

/// How many functions two stacks have in common at their inner ends, and what is left of each without those of both ends.
fn middle<'t>(mut x: &'t [Token], mut y: &'t [Token]) -> (usize, &'t [Token], &'t [Token]) {
    let inner = x.iter().zip(y).take_while(|(a, b)| a == b).count();
    (x, y) = (&x[inner..], &y[inner..]);
    let outer = x.iter().rev().zip(y.iter().rev()).take_while(|(a, b)| a == b).count();
    (inner, &x[..x.len() - outer], &y[..y.len() - outer])
}
