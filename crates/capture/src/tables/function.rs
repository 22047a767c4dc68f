//! One function whose instructions are followed: where its jumps lead, how it leaves, and which of its code is certain.

use mallow_arch::state::State;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

pub(super) struct Function {
    /// Addresses as the function's symbol says; empty where it has none.
    pub range: Range<u64>,
    /// The function is an async one of Swift, which ends with another context in r14.
    pub is_async: bool,
    pub states: FxHashMap<u64, (u64, State)>,
    pub waiting: Vec<u64>,
    /// What holds at each target of jumps through tables; None: there is no such jump.
    pub inside: Option<State>,
    /// Pairs of instructions that lead from one to the next; true where that is behind a call, which may not return.
    pub edges: Vec<(u64, u64, bool)>,
    /// Addresses that were taken for targets of tables.
    pub through_tables: Vec<u64>,
    pub exits: FxHashMap<u64, Exit>,
    pub too_large: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// The instruction returns, or goes on with another function in its place.
    Leave,
    /// The instruction leads into code that is known, and has the same rule there.
    Join,
    /// The instruction leads into code that is known, and has another rule.
    Clash,
}

pub(super) struct Outcome {
    /// Addresses of instructions that the entry leads to, for certain.
    pub sure: FxHashSet<u64>,
    /// The function leaves with another stack pointer than it began with, or is more than one function.
    pub wrong: bool,
    /// Each time that the function leaves, its caller's registers are what they were.
    pub strict: bool,
    pub leaves: bool,
}

impl Function {
    pub fn new(range: Range<u64>, is_async: bool) -> Self {
        let start = range.start;
        let mut function = Self {
            range,
            is_async,
            states: FxHashMap::default(),
            waiting: Vec::new(),
            inside: None,
            edges: Vec::new(),
            through_tables: Vec::new(),
            exits: FxHashMap::default(),
            too_large: false,
        };
        function.reach(start, &State::entry());
        function
    }

    /// Notes that some path leads to `address` with this state.
    pub fn reach(&mut self, address: u64, state: &State) {
        match self.states.get_mut(&address) {
            None => {
                self.states.insert(address, (address, *state));
            }
            Some((_, known)) => {
                let before = *known;
                known.meet(state);
                if *known == before {
                    return;
                }
            }
        }
        self.waiting.push(address);
    }

    /// Whether the function may return with this state, or go on with another function in its place.
    pub fn may_end(&self, state: &State) -> bool {
        if self.is_async { state.may_continue() } else { state.may_end() }
    }

    /// Decides what is certain. Code behind a call is believed within the addresses of a symbol; elsewhere if it leads
    /// out of the function: a call that does not return may be the last instruction, with other code behind it.
    pub fn outcome(&self) -> Outcome {
        let mut before: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
        let mut after: FxHashMap<u64, Vec<(u64, bool)>> = FxHashMap::default();
        for &(from, to, is_call) in &self.edges {
            before.entry(to).or_default().push(from);
            after.entry(from).or_default().push((to, is_call));
        }
        let state = |address: &u64| self.states.get(address).map(|(_, state)| state);
        let good = |(address, exit): (&u64, &Exit)| match exit {
            Exit::Leave => state(address).is_some_and(State::returns),
            Exit::Join => true,
            Exit::Clash => false,
        };
        let mut waiting: Vec<u64> = self.exits.iter().filter(|&exit| good(exit)).map(|(&address, _)| address).collect();
        let mut leading_out: FxHashSet<u64> = waiting.iter().copied().collect();
        while let Some(address) = waiting.pop() {
            let callers = before.get(&address).into_iter().flatten();
            waiting.extend(callers.filter(|&&from| leading_out.insert(from)));
        }
        let mut sure: FxHashSet<u64> = self.through_tables.iter().copied().chain([self.range.start]).collect();
        waiting.extend(&sure);
        while let Some(address) = waiting.pop() {
            for &(to, is_call) in after.get(&address).into_iter().flatten() {
                let believed = !is_call || self.range.contains(&to) || leading_out.contains(&to);
                if believed && sure.insert(to) {
                    waiting.push(to);
                }
            }
        }
        let mut outcome = Outcome { sure, wrong: self.too_large, strict: true, leaves: false };
        for (address, exit) in self.exits.iter().filter(|(address, _)| outcome.sure.contains(address)) {
            outcome.leaves = true;
            match (exit, state(address)) {
                (Exit::Leave, Some(state)) => {
                    outcome.wrong |= state.return_misses_address();
                    outcome.strict &= self.may_end(state);
                }
                (Exit::Join, _) => {}
                _ => outcome.wrong = true,
            }
        }
        outcome
    }

    pub fn jump_inside(&mut self, state: &State) {
        match &mut self.inside {
            Some(inside) => inside.meet(state),
            None => self.inside = Some(*state),
        }
    }
}
