//! Stacks that are to be paired, and what their functions weigh.

use mallow_profile::Counts;
use rustc_hash::FxHashMap;

use crate::names;

use super::programs::Programs;
use super::stacks::{AFTER, BEFORE, Group, Joint, Token};

/// Functions of a stack that are looked at, the innermost. Bounds the cost of deep stacks.
const DEEPEST: usize = 512;

/// Weight of a function that is not the program's own, as a part of what its rarity gives: it is on the call path of
/// nearly everything.
const NOT_OWN: f32 = 0.3;

/// A stack that is to be paired.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Index into the groups.
    pub group: usize,
    /// The functions, the innermost first, at most [`DEEPEST`].
    pub tokens: Vec<Token>,
    /// Numbers of this side that no equal stack of the other side has: all of them, or the excess over an equal
    /// stack's.
    pub counts: Counts,
    /// Whether the other side has an equal stack, with less.
    pub rest: bool,
    /// The sum of the functions' weights.
    pub weight: f32,
    /// The script's function that requested the memory; None on a stack without frames of scripts.
    pub of_script: Option<Token>,
}

pub(super) struct Weights {
    weights: Vec<f32>,
    on: Vec<[bool; 2]>,
    programs: Programs,
    /// By token, a number that functions share whose names differ in arguments and templates alone.
    shorts: Vec<u32>,
    /// By such a number, how many functions have it.
    overloads: Vec<u32>,
}

impl Weights {
    /// A function weighs more the fewer stacks it is on. Costs a step for each function of each stack.
    pub fn of(joint: &Joint, groups: &[Group], programs: Programs) -> Self {
        let all = joint.functions();
        let mut stacks = vec![0u32; all];
        let mut last = vec![usize::MAX; all];
        let mut on = vec![[false; 2]; all];
        for (at, group) in groups.iter().enumerate() {
            for token in joint.tokens(group.node).take(DEEPEST) {
                let index = token.0 as usize;
                for side in [BEFORE, AFTER] {
                    on[index][side] |= group.stacks[side].is_some();
                }
                if last[index] != at {
                    last[index] = at;
                    stacks[index] += 1;
                }
            }
        }
        let weight = |(index, &stacks): (usize, &u32)| {
            let rare = ((groups.len() + 1) as f32 / stacks.max(1) as f32).ln() + 0.1;
            if joint.is_own(Token(index as u32)) { rare } else { rare * NOT_OWN }
        };
        let mut known: FxHashMap<String, u32> = FxHashMap::default();
        let shorts = (0..all as u32).map(|token| {
            let next = known.len() as u32;
            *known.entry(names::short(joint.text(Token(token)))).or_insert(next)
        });
        let shorts: Vec<u32> = shorts.collect();
        let mut overloads = vec![0u32; known.len()];
        shorts.iter().for_each(|&short| overloads[short as usize] += 1);
        Self { weights: stacks.iter().enumerate().map(weight).collect(), on, programs, shorts, overloads }
    }

    pub fn weight(&self, token: Token) -> f32 {
        self.weights.get(token.0 as usize).copied().unwrap_or(0.0)
    }

    /// Whether these are overloads, or instances of one template.
    pub fn overloaded(&self, a: Token, b: Token) -> bool {
        self.short(a) == self.short(b)
    }

    pub fn short(&self, token: Token) -> u32 {
        self.shorts.get(token.0 as usize).copied().unwrap_or(u32::MAX)
    }

    pub fn has_overloads(&self, token: Token) -> bool {
        self.overloads.get(self.short(token) as usize).is_some_and(|&functions| functions > 1)
    }

    /// By token, the side of a function that the program of the other side does not have; None for all others.
    pub fn exclusive_sides(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let side = |(index, on): (usize, &[bool; 2])| {
            let (side, other) = if on[BEFORE] { (BEFORE, AFTER) } else { (AFTER, BEFORE) };
            (on[side] && !on[other] && !self.programs.has(other, Token(index as u32))).then_some(side)
        };
        self.on.iter().enumerate().map(side)
    }

    /// Whether the function is on stacks of one side, and the program of the other side does not have it, as far as it
    /// is known.
    pub fn exclusive(&self, token: Token) -> bool {
        let other = if self.on.get(token.0 as usize).is_some_and(|on| on[BEFORE]) { AFTER } else { BEFORE };
        self.one_sided(token) && !self.programs.has(other, token)
    }

    pub fn programs_are_known(&self) -> bool {
        self.programs.are_known()
    }

    pub fn one_sided(&self, token: Token) -> bool {
        self.on.get(token.0 as usize).is_some_and(|on| on[BEFORE] != on[AFTER])
    }
}

/// One item for each stack of a side that the other side lacks, or has with less; in the order of the groups. Stacks of
/// files that are the same on both sides have no item.
pub(super) fn items(joint: &Joint, groups: &[Group], weights: &Weights, side: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for (group, of) in groups.iter().enumerate() {
        let [own, other] = [of.counts[side], of.counts[1 - side]];
        let counts = Counts {
            allocations: own.allocations.saturating_sub(other.allocations),
            allocated_bytes: own.allocated_bytes.saturating_sub(other.allocated_bytes),
            ..own
        };
        let rest = of.stacks[1 - side].is_some();
        if of.stacks[side].is_none() || rest && (counts.allocations, counts.allocated_bytes) == (0, 0) {
            continue;
        }
        // It is what it is: nothing of it was renamed or inlined.
        if of.stacks[side].is_some_and(|stack| joint.is_of_one_build(side, stack)) {
            continue;
        }
        let tokens: Vec<Token> = joint.tokens(of.node).take(DEEPEST).collect();
        let weight = tokens.iter().map(|&token| weights.weight(token)).sum();
        let of_script = of.stacks[side].and_then(|stack| joint.requesting_of_script(side, stack));
        items.push(Item { group, tokens, counts, rest, weight, of_script });
    }
    items
}

/// Functions that were found to be others, or to be on the path on one side alone, from many pairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    /// New names by old ones.
    pub renamed: FxHashMap<Token, Token>,
    /// By side, functions that the other side's stacks lack, because the compiler put them into their callers there.
    pub gone: [FxHashMap<Token, ()>; 2],
}

impl Learnt {
    /// The functions of a stack as the second profile would have them, as far as it is known, and those that
    /// both have.
    pub fn translate(&self, tokens: &[Token], side: usize) -> Vec<Token> {
        let left = tokens.iter().filter(|token| !self.gone[side].contains_key(token));
        left.map(|token| if side == BEFORE { self.renamed.get(token).copied().unwrap_or(*token) } else { *token })
            .collect()
    }
}
