//! What is allocated before `main` begins, and when it is over.

use mallow_profile::{Counts, ModuleId, Profile, StackId, Stacks};
use rustc_hash::{FxHashMap, FxHashSet};

use super::worth::{Whole, at_least, large_bytes};
use super::{Evidence, Finding, Outside, OutsideModule, Savings};
use crate::analysis::stacks::function_kind::FunctionKind;
use crate::analysis::stacks::functions::{FunctionId, Functions, Step};
use crate::analysis::stacks::profile_views::ProfileViews;

/// Fewer allocations and bytes outside of main than these are what any program has.
const ALLOCATIONS: u64 = 1000;
const BYTES: u64 = 1 << 20;
/// Most modules that are named.
const MODULES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    After,
}

#[derive(Default)]
struct OutsideSums {
    counts: Counts,
    sites: u64,
    functions: FxHashSet<FunctionId>,
    modules: FxHashMap<ModuleId, u64>,
    largest: Option<(u64, StackId, Step)>,
}

/// Functions of the C library that run what is to run at the end. `dlclose` calls others of them, too: `_dl_call_fini`
/// and `__cxa_finalize`.
const EXITS: &[&str] = &["exit", "__run_exit_handlers", "_dl_fini"];
/// `main`, what calls it, and what calls a thread's first function.
const MAINS: &[&str] = &["main", "__libc_start_call_main", "start_thread", "clone", "clone3", "__clone3"];

/// At most one finding for each [`When`].
pub(super) fn find(views: &ProfileViews<'_>, whole: &Whole) -> Vec<Finding> {
    let ProfileViews { profile, functions, stacks, .. } = views;
    let stages = Stages::new(profile, functions);
    let (mut before, mut after) = (OutsideSums::default(), OutsideSums::default());
    for (stack, counts) in stacks.iter() {
        let (sums, step) = match stages.of(stack) {
            Stage::Outside(When::Before, Some(step)) => (&mut before, step),
            Stage::Outside(When::After, Some(step)) => (&mut after, step),
            _ => continue,
        };
        sums.counts += counts;
        sums.sites += 1;
        sums.functions.insert(step.function);
        if let Some(module) = step.module {
            let sum = sums.modules.entry(module).or_default();
            *sum = sum.saturating_add(counts.allocations);
        }
        if sums.largest.is_none_or(|(most, ..)| counts.allocations > most) {
            sums.largest = Some((counts.allocations, stack, step));
        }
    }
    let all = [(When::Before, before), (When::After, after)];
    all.into_iter().filter_map(|(when, sums)| finding(when, sums, profile, whole)).collect()
}

fn finding(when: When, sums: OutsideSums, profile: &Profile, whole: &Whole) -> Option<Finding> {
    let OutsideSums { counts, sites, functions, modules, largest } = sums;
    let many = counts.allocations >= ALLOCATIONS && at_least(counts.allocations, 1, whole.counts.allocations);
    let large = counts.allocated_bytes >= BYTES && at_least(counts.allocated_bytes, 1, whole.counts.allocated_bytes);
    let (_, largest, step) = largest.filter(|_| many || large)?;
    let path = |id: ModuleId| profile.modules.get(id.0 as usize).map(|module| module.path.clone());
    let modules =
        modules.into_iter().filter_map(|(id, allocations)| Some(OutsideModule { module: path(id)?, allocations }));
    let mut modules: Vec<OutsideModule> = modules.collect();
    modules.sort_by(|a, b| b.allocations.cmp(&a.allocations).then_with(|| a.module.cmp(&b.module)));
    modules.truncate(MODULES);
    let outside = Outside {
        allocations: counts.allocations,
        allocated_bytes: counts.allocated_bytes,
        functions: functions.len() as u64,
        modules,
    };
    let (evidence, remedy) = match when {
        When::Before => (
            Evidence::BeforeMain(outside),
            "Each start pays for it: build what is needed when it is first used, or at compile time.",
        ),
        When::After => (
            Evidence::AfterMain(outside),
            "The memory is gone in a moment: leave out what only tidies up, or end with quick_exit.",
        ),
    };
    Some(Finding {
        evidence,
        remedy: remedy.to_owned(),
        saves: Savings { allocations: counts.allocations, large_bytes: large_bytes(&counts), ..Savings::default() },
        step,
        through: None,
        sites,
        largest,
    })
}

/// How far a program has come, as its stack shows from the outside in.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Begun,
    /// The outermost function alone, which may be the program's entry point.
    Entry,
    /// The dynamic linker, which has called nobody yet.
    Loader,
    /// The C library's start, which runs the program's own initialisers, and then main through a function of its own.
    Start,
    /// In main, in a thread, or unknown.
    Inside,
    /// Outside of main, with the outermost function of the program's own there.
    Outside(When, Option<Step>),
}

/// By stack, its stage: the caller's, and a step further.
struct Stages(Vec<Stage>);

impl Stages {
    fn new(profile: &Profile, functions: &Functions<'_>) -> Self {
        let kinds: Vec<Option<Kind>> =
            (0..functions.len() as u32).map(|id| functions.known_name(FunctionId(id)).and_then(kind)).collect();
        let is_loader = |module: &mallow_profile::Module| module.path.rsplit('/').next().is_some_and(is_loader);
        let loaders: Vec<bool> = profile.modules.iter().map(is_loader).collect();
        let in_loader =
            |step: &Step| step.module.is_some_and(|module| loaders.get(module.0 as usize).copied().unwrap_or(false));
        let mut stages: Vec<Stage> = Vec::with_capacity(profile.stacks.len());
        for stack in 0..profile.stacks.len() as u32 {
            let stack = StackId(stack);
            let stage = match profile.stacks.top(stack) {
                None if stack == Stacks::CUT_ROOT => Stage::Inside,
                None => Stage::Begun,
                Some((frame, caller)) => {
                    let from = stages.get(caller.0 as usize).copied().unwrap_or(Stage::Inside);
                    functions.steps_of(frame).iter().rev().fold(from, |stage, step| {
                        let kind = kinds.get(step.function.0 as usize).copied().flatten();
                        stage.next(step, kind, in_loader(step))
                    })
                }
            };
            stages.push(stage);
        }
        Self(stages)
    }

    fn of(&self, stack: StackId) -> Stage {
        self.0.get(stack.0 as usize).copied().unwrap_or(Stage::Inside)
    }
}

impl Stage {
    fn next(self, step: &Step, kind: Option<Kind>, in_loader: bool) -> Self {
        let runtime = step.kind != FunctionKind::Own;
        match (self, kind) {
            (Self::Outside(when, None), _) if !runtime => Self::Outside(when, Some(*step)),
            (Self::Outside(When::After, _), _) => self,
            (_, Some(Kind::Exit)) if runtime => Self::Outside(When::After, None),
            (Self::Begun | Self::Entry, Some(Kind::Start)) => Self::Start,
            (Self::Begun, Some(Kind::Main)) => Self::Inside,
            (Self::Begun, _) if in_loader => Self::Loader,
            (Self::Begun, _) => Self::Entry,
            (Self::Entry, _) => Self::Inside,
            (Self::Loader, _) if runtime => self,
            (Self::Start, Some(Kind::Main)) => Self::Inside,
            // Without a name, a function of the C library there is the one that calls main.
            (Self::Start, _) if runtime && step.nameless => Self::Inside,
            (Self::Start, _) if runtime => Self::Outside(When::Before, None),
            (Self::Loader | Self::Start, _) => Self::Outside(When::Before, Some(*step)),
            _ => self,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exit,
    Main,
    Start,
}

fn kind(name: &str) -> Option<Kind> {
    match name {
        _ if EXITS.contains(&name) => Some(Kind::Exit),
        _ if MAINS.contains(&name) => Some(Kind::Main),
        _ if name.starts_with("__libc_start_main") => Some(Kind::Start),
        _ => None,
    }
}

fn is_loader(file: &str) -> bool {
    file.starts_with("ld-linux") || file.starts_with("ld-2")
}
