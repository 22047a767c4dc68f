//! What it costs that a function of one side has the name of one of the other, as far as it was asked for: by rows of
//! numbers, because an alignment asks for each pair of functions.

use super::items::{Learnt, Weights};
use super::stacks::{AFTER, BEFORE, Token};

/// Most costs that are remembered, 4 bytes each: two stacks that were renamed nearly throughout have few in common with
/// the next two.
const REMEMBERED: usize = 1 << 24;
/// The number of a function that has none.
const NONE: u32 = u32::MAX;

/// Costs of pairs of functions, each on one side alone.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// By token, the function's index among those that only the program of its side has, or [`NONE`].
    numbers: Vec<u32>,
    /// Functions that only the second side has.
    columns: usize,
    rows: Vec<Vec<f32>>,
    remembered: usize,
    /// Learnt pairs with their cost; never forgotten.
    learnt: Vec<(u32, u32, f32)>,
}

impl Renames {
    /// A learnt pair costs `known` of both functions' weight; no other cost is known yet.
    pub fn new(weights: &Weights, learnt: &Learnt, known: f32) -> Self {
        let mut sums = [0u32; 2];
        let numbers: Vec<u32> = weights
            .exclusive_sides()
            .map(|side| {
                let Some(side) = side else { return NONE };
                sums[side] += 1;
                sums[side] - 1
            })
            .collect();
        let number = |token: Token| numbers.get(token.0 as usize).copied().filter(|&number| number != NONE);
        let pair = |(&from, &to): (&Token, &Token)| {
            let cost = (weights.weight(from) + weights.weight(to)) * known;
            Some((number(from)?, number(to)?, cost))
        };
        let pairs = learnt.renamed.iter().filter_map(pair).collect();
        let (rows, columns) = (vec![Vec::new(); sums[BEFORE] as usize], sums[AFTER] as usize);
        let mut renames = Self { columns, rows, remembered: 0, learnt: pairs, numbers };
        renames.forget();
        renames
    }

    /// Forgets all costs but those of learnt pairs.
    fn forget(&mut self) {
        self.rows.iter_mut().for_each(|row| *row = Vec::new());
        self.remembered = 0;
        for (before, after, cost) in std::mem::take(&mut self.learnt) {
            self.put(before, after, cost);
            self.learnt.push((before, after, cost));
        }
    }

    /// [`NONE`] if the function is not on one side alone.
    pub fn number(&self, token: Token) -> u32 {
        self.numbers.get(token.0 as usize).copied().unwrap_or(NONE)
    }

    #[inline]
    pub fn get(&self, before: u32, after: u32) -> Option<f32> {
        let cost = *self.rows.get(before as usize)?.get(after as usize)?;
        (!cost.is_nan()).then_some(cost)
    }

    /// Remembers a cost by both functions' numbers. Above [`REMEMBERED`] all others but the learnt ones are forgotten
    /// first.
    pub fn set(&mut self, before: u32, after: u32, cost: f32) {
        if self.remembered >= REMEMBERED {
            self.forget();
        }
        self.put(before, after, cost);
    }

    fn put(&mut self, before: u32, after: u32, cost: f32) {
        let Some(row) = self.rows.get_mut(before as usize) else { return };
        if row.is_empty() {
            row.resize(self.columns, f32::NAN);
            self.remembered += self.columns;
        }
        if let Some(known) = row.get_mut(after as usize) {
            *known = cost;
        }
    }
}
