//! Stacks that are to be paired, and what their functions weigh.

use mallow_profile::Counts;
use rustc_hash::FxHashMap;

use crate::names;

use super::programs::Programs;
use super::stacks::{AFTER, BEFORE, Group, Joint, Token};

/// Functions further out than this are not looked at. Bounds the cost of deep stacks.
const DEEPEST: usize = 512;

/// Functions that are not the program's own distinguish less: they are on the call path of nearly everything.
const NOT_OWN: f32 = 0.3;

/// A stack that is to be paired.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Index among the groups.
    pub group: usize,
    /// Its functions, the innermost first.
    pub tokens: Vec<Token>,
    /// What is in the side's numbers and in no equal stack of the other: all of it, or what an equal one has less.
    pub counts: Counts,
    /// The other side has the same stack, with less.
    pub rest: bool,
    /// What its functions weigh in all.
    pub weight: f32,
}

/// What is known of functions over all stacks.
pub(super) struct Weights {
    weights: Vec<f32>,
    on: Vec<[bool; 2]>,
    programs: Programs,
    /// Functions with equal numbers are called the same but for arguments and templates.
    shorts: Vec<u32>,
    /// By these numbers: how many functions have them.
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

    /// Are these overloads, or instances of one template?
    pub fn overloaded(&self, a: Token, b: Token) -> bool {
        self.short(a) == self.short(b)
    }

    /// A number that overloads and instances of one template share.
    pub fn short(&self, token: Token) -> u32 {
        self.shorts.get(token.0 as usize).copied().unwrap_or(u32::MAX)
    }

    /// Has the function overloads, or instances of a template beside it?
    pub fn has_overloads(&self, token: Token) -> bool {
        self.overloads.get(self.short(token) as usize).is_some_and(|&functions| functions > 1)
    }

    /// The side that each function is on, of those that the program of the other side does not have, as far as it is
    /// known.
    pub fn exclusive_sides(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let side = |(index, on): (usize, &[bool; 2])| {
            let (side, other) = if on[BEFORE] { (BEFORE, AFTER) } else { (AFTER, BEFORE) };
            (on[side] && !on[other] && !self.programs.has(other, Token(index as u32))).then_some(side)
        };
        self.on.iter().enumerate().map(side)
    }

    /// Is the function on stacks of one side, and the program of the other side does not have it, as far as it is
    /// known?
    pub fn exclusive(&self, token: Token) -> bool {
        let other = if self.on.get(token.0 as usize).is_some_and(|on| on[BEFORE]) { AFTER } else { BEFORE };
        self.one_sided(token) && !self.programs.has(other, token)
    }

    /// Whether all functions of both programs are known.
    pub fn programs_are_known(&self) -> bool {
        self.programs.are_known()
    }

    /// Is the function on stacks of one side alone?
    pub fn one_sided(&self, token: Token) -> bool {
        self.on.get(token.0 as usize).is_some_and(|on| on[BEFORE] != on[AFTER])
    }
}

/// What a side has that the other has not: in stacks of its own, and more in those that both have.
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
        items.push(Item { group, tokens, counts, rest, weight });
    }
    items
}

/// Functions that were found to be others, or to be on the path on one side alone, from many pairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    /// New names, by the old ones.
    pub renamed: FxHashMap<Token, Token>,
    /// Functions of the first that were put into their callers, and functions of the second that no longer are.
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
