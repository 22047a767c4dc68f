//! Two stacks, function by function, at minimum cost.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::diagonals::{Alignment, Columns, Diagonals, Facts, OVERLOADED, RenameCosts, Table};
use super::items::{Learnt, Weights};
use super::renames::Renames;
use super::rows::StackSide;
use super::stacks::{AFTER, BEFORE, Joint, Token};
use crate::names;

/// Most cells that the table of a pair of stacks may have: functions that differ of one, times those of the other.
const CELLS: usize = 1 << 16;

/// Cost of a function that one stack lacks, as a part of its weight.
const LACKING: f32 = 1.0;
/// Cost, as a part of its weight, of a function that one stack lacks and that the other program has nowhere: the
/// compiler put it into its caller, or no longer does.
const INLINED: f32 = 0.6;
/// Costs, as a part of both weights, of taking two functions for one with two names: with equal names, and with names
/// that have nothing in common. Each function is on one side alone.
const RENAMED: [f32; 2] = [0.1, 0.5];
/// Cost, as a part of the weight, of a difference that other pairs of stacks have shown already.
const KNOWN: f32 = 0.02;

/// What the comparison of two names adds to [`Costs::work`], in pairs of functions.
const NAMES: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Same,
    /// Two functions that are one, or overloads of one.
    Renamed,
    /// The function is on the stack of BEFORE alone.
    Before,
    /// The function is on the stack of AFTER alone.
    After,
}

impl Op {
    pub fn steps(self) -> &'static [StackSide] {
        match self {
            Self::Same => &[StackSide::Both],
            Self::Renamed => &[StackSide::Before, StackSide::After],
            Self::Before => &[StackSide::Before],
            Self::After => &[StackSide::After],
        }
    }
}

pub(super) struct Costs<'a> {
    pub joint: &'a Joint<'a>,
    pub weights: &'a Weights,
    pub learnt: &'a Learnt,
    /// Whether functions may have been put into their callers, at the cost [`INLINED`].
    pub inlining: bool,
    work: Cell<u64>,
    known: RefCell<Renames>,
    /// Indexed by side, then by token.
    facts: [Vec<Facts>; 2],
    bigrams: RefCell<FxHashMap<Token, Vec<u32>>>,
    scratch: RefCell<Scratch>,
}

/// Buffers that alignments reuse.
#[derive(Default)]
struct Scratch {
    was: Columns,
    is: Columns,
    /// By side, the numbers in [`Renames`] of the functions that may have another name on the other side.
    numbers: [Vec<u32>; 2],
    renames: RenameCosts,
    diagonals: Diagonals,
    table: Table,
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

    /// The work so far: cells of tables, those that may be renamed twice, and [`NAMES`] for each two names compared.
    pub fn work(&self) -> u64 {
        self.work.get()
    }

    /// The cost of a function of `side` that the other stack lacks.
    fn lacking(&self, token: Token, side: usize) -> f32 {
        self.facts[side].get(token.0 as usize).map_or(0.0, |facts| facts.lacking)
    }

    fn lacking_of(&self, token: Token, side: usize) -> f32 {
        let weight = self.weights.weight(token);
        match () {
            () if self.learnt.gone[side].contains_key(&token) => weight * KNOWN,
            () if self.inlining && self.weights.exclusive(token) => weight * INLINED,
            () => weight * LACKING,
        }
    }

    /// The cost of taking `before` for `after`; None where they are two functions.
    fn renamed(&self, before: Token, after: Token) -> Option<f32> {
        if before == after {
            return Some(0.0);
        }
        let weight = self.weights.weight(before) + self.weights.weight(after);
        // Most functions are in both programs: those need no search.
        if !(self.weights.exclusive(before) && self.weights.exclusive(after)) {
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

    /// Whether it is known which of both programs have these functions.
    pub fn are_known(&self, before: Token, after: Token) -> bool {
        self.weights.programs_are_known() && [before, after].iter().all(|&token| self.joint.is_listed(token))
    }

    /// How much two names have in common, from 0 to 1: Dice's coefficient of their pairs of letters; 1 for overloads.
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
        /// Letters of a name that are compared.
        const LONG: usize = 256;
        let short = names::short(self.joint.text(token));
        let letters: Vec<u32> = short.chars().flat_map(char::to_lowercase).take(LONG).map(u32::from).collect();
        let mut pairs: Vec<u32> = letters.windows(2).map(|two| two[0] << 16 ^ two[1]).collect();
        pairs.sort_unstable();
        pairs
    }

    /// The least cost of making one stack the other; None where it is out of reach, or above `most`.
    ///
    /// This is where a comparison spends its time. Cells of one diagonal do not depend on each other, so a processor
    /// works on several at once.
    pub fn cost(&self, before: &[Token], after: &[Token], most: f32) -> Option<f32> {
        let (_, x, y) = middle(before, after);
        if !fits(x, y) {
            return None;
        }
        let scratch = &mut *self.scratch.borrow_mut();
        self.prepare(scratch, x, y);
        let work = (x.len() + 1) * (y.len() + 1) + scratch.renames.len();
        self.work.set(self.work.get() + work as u64);
        let Scratch { was, is, renames, diagonals, .. } = scratch;
        diagonals.cost(&Alignment { was, is, renames }, most)
    }

    /// Writes what an alignment reads of two stacks side by side.
    fn prepare(&self, scratch: &mut Scratch, x: &[Token], y: &[Token]) {
        let facts = |side: usize| move |token: &Token| self.facts[side].get(token.0 as usize).copied();
        scratch.was.set(x.iter().filter_map(facts(BEFORE)));
        scratch.is.set(y.iter().rev().filter_map(facts(AFTER)));
        let mut known = self.known.borrow_mut();
        let functions =
            |i: usize, j: usize| (x[scratch.was.exclusive_at[i]], y[y.len() - 1 - scratch.is.exclusive_at[j]]);
        let [from, to] = &mut scratch.numbers;
        from.clear();
        from.extend(scratch.was.exclusive_at.iter().map(|&at| known.number(x[at])));
        to.clear();
        to.extend(scratch.is.exclusive_at.iter().map(|&at| known.number(y[y.len() - 1 - at])));
        scratch.renames.set(&scratch.was, &scratch.is, |i, j| {
            let pair = (from[i], to[j]);
            known.get(pair.0, pair.1).unwrap_or_else(|| self.compare_names(&mut known, functions(i, j), pair))
        });
    }

    /// The alignment at the least cost, the innermost function first. Where the table is too large, nothing of what
    /// differs is aligned.
    pub fn ops(&self, before: &[Token], after: &[Token]) -> Vec<Op> {
        let outer = before.len();
        let (inner, x, y) = middle(before, after);
        let mut ops = vec![Op::Same; inner];
        let tail = outer - inner - x.len();
        let scratch = &mut *self.scratch.borrow_mut();
        match fits(x, y) {
            true => {
                self.prepare(scratch, x, y);
                self.work.set(self.work.get() + ((x.len() + 1) * (y.len() + 1)) as u64);
                let Scratch { was, is, renames, table, .. } = scratch;
                table.set(&Alignment { was, is, renames });
                let (mut i, mut j) = (x.len(), y.len());
                let mut back = Vec::new();
                while i > 0 || j > 0 {
                    let here = table.at(i, j);
                    let from = |i: usize, j: usize, cost: f32| (table.at(i, j) + cost - here).abs() <= 1e-4;
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
            false => {
                ops.extend(std::iter::repeat_n(Op::Before, x.len()));
                ops.extend(std::iter::repeat_n(Op::After, y.len()));
            }
        }
        ops.extend(std::iter::repeat_n(Op::Same, tail));
        ops
    }

    fn facts_of(&self, token: Token, side: usize) -> Facts {
        Facts {
            token,
            short: self.weights.short(token),
            overloaded: self.weights.has_overloads(token),
            weight: self.weights.weight(token),
            lacking: self.lacking_of(token, side),
            exclusive: self.weights.exclusive(token),
        }
    }
}

fn fits(x: &[Token], y: &[Token]) -> bool {
    (x.len() + 1).checked_mul(y.len() + 1).is_some_and(|cells| cells <= CELLS)
}

/// Returns how many functions two stacks have in common at their inner ends, and what of each is between the common
/// functions of both ends.
fn middle<'t>(mut x: &'t [Token], mut y: &'t [Token]) -> (usize, &'t [Token], &'t [Token]) {
    let inner = x.iter().zip(y).take_while(|(a, b)| a == b).count();
    (x, y) = (&x[inner..], &y[inner..]);
    let outer = x.iter().rev().zip(y.iter().rev()).take_while(|(a, b)| a == b).count();
    (inner, &x[..x.len() - outer], &y[..y.len() - outer])
}

#[cfg(test)]
impl Costs<'_> {
    /// The table of costs in the order of rows, as it is defined.
    pub fn table_by_rows(&self, before: &[Token], after: &[Token]) -> Vec<f32> {
        let (_, x, y) = middle(before, after);
        let width = y.len() + 1;
        let mut table = vec![0f32; (x.len() + 1) * width];
        for i in 0..=x.len() {
            for j in 0..=y.len() {
                let at = i * width + j;
                let gone = (i > 0).then(|| table[at - width] + self.lacking(x[i - 1], BEFORE));
                let new = (j > 0).then(|| table[at - 1] + self.lacking(y[j - 1], AFTER));
                let both = if i > 0 && j > 0 { self.renamed(x[i - 1], y[j - 1]) } else { None };
                let both = both.map(|cost| table[at - width - 1] + cost);
                table[at] = [gone, new, both].into_iter().flatten().reduce(f32::min).unwrap_or(0.0);
            }
        }
        table
    }

    /// The table that [`Costs::ops`] reads, in the order of [`Costs::table_by_rows`].
    pub fn table_by_diagonals(&self, before: &[Token], after: &[Token]) -> Vec<f32> {
        let (_, x, y) = middle(before, after);
        let scratch = &mut *self.scratch.borrow_mut();
        self.prepare(scratch, x, y);
        let Scratch { was, is, renames, table, .. } = scratch;
        table.set(&Alignment { was, is, renames });
        (0..=x.len()).flat_map(|i| (0..=y.len()).map(move |j| (i, j))).map(|(i, j)| table.at(i, j)).collect()
    }
}
