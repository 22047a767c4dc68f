//! All stacks of a recording as one tree of calls, folded for people or to the letter.

use mallow_profile::{FrameId, Profile, StackId, Stacks};
use rustc_hash::FxHashMap;

use super::functions::{FunctionId, Functions, Step};
use crate::analysis::compare::changes::{Amount, RowSource};
use crate::analysis::numbers::Measure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CallId(pub u32);

impl CallId {
    /// The caller of the outermost functions.
    pub const ROOT: Self = Self(0);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Callee {
    Program,
    Function(FunctionId),
    /// Stands for the outermost frames of a stack that is cut.
    Missing,
    Unknown,
}

/// A function, called on one call path from the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<A> {
    pub caller: CallId,
    pub callee: Callee,
    /// Calls of the same function further in were folded into this one.
    pub recursive: bool,
    /// The compiler put the function into the one that called it, wherever it is called on this path.
    pub inlined: bool,
    /// What the function itself allocated on this path.
    pub own: A,
    /// What the function and all that it called allocated on this path.
    pub cum: A,
}

/// The tree of calls of the sites that count by one measure. A call has a higher number than its caller.
///
/// To the letter (`raw`), a call path is a stack with its inlined functions. Folded, it is the path that a person would
/// describe:
///
/// - Functions that are looked past belong to their caller, and what they allocate too, as in [`super::top`].
/// - So do functions without a name, where the path has a named one of the same module already: the same few addresses
///   would be everywhere.
/// - A function that is on the path already begins the path from there again. Recursion takes no room then, and no
///   function is on a path twice; what was called in between is not seen.
pub(crate) struct Calls<A> {
    calls: Vec<Call<A>>,
}

/// Recursion through more functions than this is not folded. Bounds the cost of deep stacks.
const FAR: usize = 1024;

/// A place on a call path, while the tree is made.
#[derive(Clone, Copy)]
struct PathPosition {
    call: CallId,
    /// Whether one more call of the same function is recursion. A single one is not: compilers split functions, and `f`
    /// calls `f.part.0` by the same name.
    again: bool,
}

struct Builder<'a, A> {
    profile: &'a Profile,
    functions: &'a Functions<'a>,
    raw: bool,
    calls: Vec<Call<A>>,
    children: FxHashMap<(CallId, Callee), CallId>,
    /// By stack, the position that its innermost frame has reached.
    places: FxHashMap<StackId, PathPosition>,
}

impl<A: Amount> Calls<A> {
    /// The tree. Costs a step for each frame that a stack does not share with another.
    pub fn new(source: RowSource<'_, A>, raw: bool, by: Measure) -> Self {
        let root = Call {
            caller: CallId::ROOT,
            callee: Callee::Program,
            recursive: false,
            inlined: false,
            own: A::default(),
            cum: A::default(),
        };
        let (children, places) = (FxHashMap::default(), FxHashMap::default());
        let RowSource { profile, functions, .. } = source;
        let mut builder = Builder { profile, functions, raw, calls: vec![root], children, places };
        (source.sites)(&mut |stack, amount| {
            if amount.values(by) != [0; 2] {
                let end = builder.end(stack);
                builder.calls[end.0 as usize].own += amount;
            }
        });
        let mut calls = builder.calls;
        for index in (0..calls.len()).rev() {
            let Call { caller, own, .. } = calls[index];
            calls[index].cum += own;
            if index > 0 {
                let cum = calls[index].cum;
                calls[caller.0 as usize].cum += cum;
            }
        }
        Self { calls }
    }

    pub fn get(&self, id: CallId) -> &Call<A> {
        &self.calls[id.0 as usize]
    }

    /// Yields callers before callees, the root first.
    pub fn iter(&self) -> impl Iterator<Item = (CallId, &Call<A>)> {
        self.calls.iter().enumerate().map(|(index, call)| (CallId(index as u32), call))
    }
}

impl<A: Amount> Builder<'_, A> {
    /// The call to which the site of this stack belongs.
    fn end(&mut self, stack: StackId) -> CallId {
        let named = self.functions.named_at(stack);
        if named.is_none() && stack != Stacks::CUT_ROOT {
            return self.child(CallId::ROOT, Callee::Unknown, false);
        }
        let Some((mut left, _)) = named.filter(|_| !self.raw) else { return self.place(stack).call };
        let mut at = stack;
        while let Some((frame, caller)) = self.profile.stacks.top(at) {
            let steps = self.functions.steps_called(frame, caller, false);
            if left < steps.len() {
                let mut place = self.place(caller);
                for (index, step) in steps.iter().enumerate().skip(left).rev() {
                    place = if index == left { self.take(place, step) } else { self.step(place, step) };
                }
                return place.call;
            }
            left -= steps.len();
            at = caller;
        }
        self.place(stack).call
    }

    /// Where all frames of a stack lead. Without recursion: stacks may be as deep as a file says.
    fn place(&mut self, stack: StackId) -> PathPosition {
        let mut frames: Vec<(StackId, FrameId, StackId)> = Vec::new();
        let mut at = stack;
        let mut place = loop {
            if let Some(&known) = self.places.get(&at) {
                break known;
            }
            match self.profile.stacks.top(at) {
                Some((frame, caller)) => {
                    frames.push((at, frame, caller));
                    at = caller;
                }
                None if at == Stacks::CUT_ROOT => {
                    break PathPosition { call: self.child(CallId::ROOT, Callee::Missing, false), again: false };
                }
                None => break PathPosition { call: CallId::ROOT, again: false },
            }
        };
        for (stack, frame, caller) in frames.into_iter().rev() {
            for step in self.functions.steps_called(frame, caller, false).iter().rev() {
                place = self.step(place, step);
            }
            self.places.insert(stack, place);
        }
        place
    }

    /// One function further in, if it is not looked past.
    fn step(&mut self, place: PathPosition, step: &Step) -> PathPosition {
        if self.raw {
            let callee = Callee::Function(step.function);
            return PathPosition { call: self.child(place.call, callee, step.inlined()), again: false };
        }
        let looked_past =
            self.functions.is_looked_past(step) || step.nameless && self.module_is_named(place.call, step);
        if looked_past { PathPosition { again: true, ..place } } else { self.take(place, step) }
    }

    fn take(&mut self, place: PathPosition, step: &Step) -> PathPosition {
        let callee = Callee::Function(step.function);
        let mut at = place.call;
        for _ in 0..FAR {
            let call = &mut self.calls[at.0 as usize];
            if call.callee == callee {
                call.recursive |= place.again || at != place.call;
                return PathPosition { call: at, again: true };
            }
            if at == CallId::ROOT {
                break;
            }
            at = call.caller;
        }
        PathPosition { call: self.child(place.call, callee, step.inlined()), again: false }
    }

    fn module_is_named(&self, from: CallId, step: &Step) -> bool {
        let mut at = from;
        for _ in 0..FAR {
            let call = &self.calls[at.0 as usize];
            if let Callee::Function(function) = call.callee
                && self.functions.is_named_in(function, step.module)
            {
                return true;
            }
            at = call.caller;
            if at == CallId::ROOT {
                break;
            }
        }
        false
    }

    fn child(&mut self, caller: CallId, callee: Callee, inlined: bool) -> CallId {
        let calls = &mut self.calls;
        let child = *self.children.entry((caller, callee)).or_insert_with(|| {
            let (own, cum) = (A::default(), A::default());
            calls.push(Call { caller, callee, recursive: false, inlined, own, cum });
            CallId(calls.len() as u32 - 1)
        });
        calls[child.0 as usize].inlined &= inlined;
        child
    }
}
