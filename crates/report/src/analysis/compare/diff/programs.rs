//! Which functions two programs have, beside those that their stacks show.

use std::collections::BTreeSet;

use mallow_profile::ModuleId;
use rustc_hash::FxHashMap;

use super::normalise::{Rule, Rules, function};
use super::stacks::{AFTER, BEFORE, Joint, Token};
use crate::analysis::stacks::function_kind::FunctionKind;

/// Calls back with the name of each function of these modules of a side, and returns whether those are all functions.
/// Names of other things may be among them.
pub type EachFunction<'a> = dyn Fn(usize, &BTreeSet<ModuleId>, &mut dyn FnMut(&str)) -> bool + 'a;

/// An [`EachFunction`] for when the files of the programs are not at hand.
pub fn no_files(_: usize, _: &BTreeSet<ModuleId>, _: &mut dyn FnMut(&str)) -> bool {
    false
}

#[derive(Debug)]
pub(super) struct Programs {
    has: [Vec<bool>; 2],
    complete: bool,
}

impl Programs {
    /// Functions of any frame are functions of the program, and so are those of files that both programs have the same
    /// build of. Asks for the others where a function of BEFORE alone may be one of AFTER alone.
    pub fn of(joint: &Joint, rules: Rules, each_function: &EachFunction<'_>) -> Self {
        let mut has = [BEFORE, AFTER].map(|side| {
            let mut has = vec![false; joint.functions()];
            joint.first_steps(side).keys().for_each(|token| has[token.0 as usize] = true);
            joint.shared_functions(1 - side).for_each(|token| has[token.0 as usize] = true);
            has
        });
        let alone = |side: usize| -> Vec<Token> {
            let tokens = (0..joint.functions() as u32).map(Token).filter(|&token| joint.is_own(token));
            tokens.filter(|token| has[side][token.0 as usize] && !has[1 - side][token.0 as usize]).collect()
        };
        let alone = [alone(BEFORE), alone(AFTER)];
        // Without these rules, a function is more than its name.
        let by_name = [Rule::Lines, Rule::Files, Rule::Inlining].into_iter().all(|rule| rules.has(rule));
        if !by_name || alone.iter().any(Vec::is_empty) {
            return Self { has, complete: false };
        }
        let mut complete = true;
        for side in [BEFORE, AFTER] {
            let wanted: FxHashMap<&str, Token> = alone[1 - side].iter().map(|&t| (joint.text(t), t)).collect();
            let found = &mut has[side];
            complete &= each_function(side, &joint.modules_of_own(side), &mut |name| {
                let token = function(name, rules).and_then(|text| wanted.get(&*text).copied());
                if let Some(token) = token {
                    found[token.0 as usize] = true;
                }
            });
        }
        Self { has, complete }
    }

    /// Whether the function is known to be in the side's program.
    pub fn has(&self, side: usize, token: Token) -> bool {
        self.has[side].get(token.0 as usize).copied().unwrap_or(false)
    }

    pub fn are_known(&self) -> bool {
        self.complete
    }
}

impl Joint<'_> {
    /// The modules that functions of the program's own are in.
    fn modules_of_own(&self, side: usize) -> BTreeSet<ModuleId> {
        let steps = self.all_steps(side).filter(|step| step.kind == FunctionKind::Own);
        steps.filter_map(|step| step.module).collect()
    }
}
