//! What the colours of boxes mean: modules, and source files where one module would be nearly all of the picture.

use std::cmp::Reverse;

use mallow_profile::Stacks;
use rustc_hash::FxHashMap;

use super::model::{Flame, FlameGroup, FlameOptions, GroupKind};
use crate::analysis::compare::changes::{Amount, RowSource};
use crate::analysis::stacks::calls::{Callee, Calls};
use crate::analysis::stacks::function_kind::{FunctionKind, classify};
use crate::analysis::stacks::functions::{FunctionId, Functions};

/// Percentage of the whole that a module's functions must allocate themselves for it to dominate; one colour says
/// nothing then. Its functions are grouped by file if the files of at least half of that are known.
const DOMINATES: u128 = 66;

pub struct Groups {
    groups: Vec<FlameGroup>,
    /// By function, the index of its group.
    of: Vec<usize>,
    by_file_in: Option<String>,
}

impl Groups {
    /// Costs a step for each frame of each stack.
    pub fn new<A: Amount>(source: RowSource<'_, A>, calls: &Calls<A>, options: FlameOptions) -> Self {
        let functions = source.functions;
        let mut own = vec![0u64; functions.len()];
        for (_, call) in calls.iter() {
            if let Callee::Function(id) = call.callee {
                let sum = &mut own[id.0 as usize];
                *sum = sum.saturating_add(call.own.values(options.by)[1]);
            }
        }
        let by_file_in = dominant(functions, &own);
        let mut known: FxHashMap<GroupKind, usize> = FxHashMap::default();
        let mut it = Self { groups: Vec::new(), of: Vec::with_capacity(own.len()), by_file_in };
        for (index, own) in own.into_iter().enumerate() {
            let id = FunctionId(index as u32);
            let module = functions.module(id);
            let file = functions.file(id).filter(|_| module.is_some() && module == it.by_file_in);
            let runtime = module.is_some() && classify(None, None, module.as_deref()) == FunctionKind::Runtime;
            let kind = match (file, module) {
                (Some(file), _) => GroupKind::File(file),
                // Two files at one path (one was rebuilt meanwhile) are one to people.
                (None, Some(path)) => GroupKind::Module(path),
                (None, None) => GroupKind::Generated,
            };
            let group = *known.entry(kind).or_insert_with_key(|kind| {
                it.groups.push(FlameGroup { kind: kind.clone(), runtime, own: 0, cum: 0 });
                it.groups.len() - 1
            });
            let sum = &mut it.groups[group].own;
            *sum = sum.saturating_add(own);
            it.of.push(group);
        }
        it.add_callees(source, options);
        it
    }

    /// Adds to each group the sites of all stacks that a function of it is on, each stack once. Functions that are no
    /// boxes count for nothing.
    fn add_callees<A: Amount>(&mut self, source: RowSource<'_, A>, options: FlameOptions) {
        let functions = source.functions;
        let mut counted = vec![0u64; self.groups.len()];
        let mut number = 0;
        (source.sites)(&mut |stack, amount| {
            let value = amount.values(options.by)[1];
            if value == 0 || stack == Stacks::CUT_ROOT {
                return;
            }
            number += 1;
            let mut count = |function: FunctionId| {
                let group = self.of[function.0 as usize];
                if std::mem::replace(&mut counted[group], number) != number {
                    let sum = &mut self.groups[group].cum;
                    *sum = sum.saturating_add(value);
                }
            };
            functions
                .steps(stack)
                .filter(|step| options.raw || !functions.is_looked_past(step))
                .for_each(|step| count(step.function));
            if let Some(named) = functions.named(stack).filter(|_| !options.raw) {
                count(named.step.function);
            }
        });
    }

    /// The path of the module whose functions are grouped by file.
    pub fn by_file_in(&self) -> Option<&str> {
        self.by_file_in.as_deref()
    }

    pub fn of(&self, function: FunctionId) -> usize {
        self.of[function.0 as usize]
    }

    /// Writes the groups that allocate or that boxes have, the largest cumulative value first, and the functions'
    /// indices of them.
    pub fn finish(&self, flame: &mut Flame) {
        let mut used: Vec<bool> = self.groups.iter().map(|group| group.own > 0).collect();
        flame.functions.iter().filter_map(|function| function.group).for_each(|group| used[group] = true);
        let mut order: Vec<usize> = (0..used.len()).filter(|&at| used[at]).collect();
        let groups = &self.groups;
        order.sort_by_key(|&at| (Reverse((groups[at].cum, groups[at].own)), &groups[at].kind));
        let mut place = vec![0; used.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
        flame.groups = order.iter().map(|&at| groups[at].clone()).collect();
        flame.functions.iter_mut().for_each(|function| function.group = function.group.map(|group| place[group]));
    }
}

/// The module of the program that nearly all is allocated in, if the source files of its functions are known.
fn dominant(functions: &Functions<'_>, own: &[u64]) -> Option<String> {
    let mut modules: FxHashMap<String, (u128, u128)> = FxHashMap::default();
    let mut whole = 0;
    for (index, &own) in own.iter().enumerate().filter(|(_, own)| **own > 0) {
        let id = FunctionId(index as u32);
        whole += u128::from(own);
        let Some(module) = functions.module(id) else { continue };
        let (all, in_files) = modules.entry(module).or_default();
        *all += u128::from(own);
        if functions.file(id).is_some() {
            *in_files += u128::from(own);
        }
    }
    let (module, (all, in_files)) = modules.into_iter().max_by(|a, b| (a.1.0, &b.0).cmp(&(b.1.0, &a.0)))?;
    let own = classify(None, None, Some(&module)) == FunctionKind::Own;
    (own && all * 100 >= whole * DOMINATES && in_files * 2 >= all).then_some(module)
}
