//! Reads what the compiler says of a package, from Go 1.22 on.
//!
//! The text of `-m=2` is the whole of it, but has of inlined code the outermost position alone. The JSON of
//! `-json=0,DIR` has all positions, but says neither in which function something is nor what is not in the heap; and of
//! two sources with the same base name (one may be another package's) it keeps one. So the text is what is read, and
//! the JSON adds the positions. Where there is no text, the JSON is read alone.

mod block;
mod diagnostics;
mod directives;
mod json;
mod kind;
mod line;
mod named;
mod paths;
mod text;

use std::collections::{HashMap, HashSet, VecDeque};

use self::block::{Block, MessageSubject};
use self::diagnostics::UnknownLines;
use self::json::Json;
use self::named::Named;
use self::text::{Batch, Last, Text};
use crate::chain;
use crate::model::{Diagnostic, FlowStep, Kind, Position, Reason, Surroundings, Verdict};

pub use self::diagnostics::{Diagnostics, InlinedCall, Leak, ReadError};
pub use self::directives::LineDirectives;
pub use self::paths::{absolute, before_cgo};

/// Reads what was said of `package`. Names of files in `text` start at `directory`, which is absolute; `json` holds the
/// content of each file.
pub fn read(package: &str, directory: &str, json: &[String], text: &str) -> Result<Diagnostics, ReadError> {
    read_generated(package, directory, json, text, &mut |_| None)
}

/// Reads as [`read`] does, where sources may have `//line` directives: `directives` are those of a source.
pub fn read_generated(
    package: &str,
    directory: &str,
    json: &[String],
    text: &str,
    directives: &mut dyn FnMut(&str) -> Option<LineDirectives>,
) -> Result<Diagnostics, ReadError> {
    let mut counted = UnknownLines::default();
    let mut placed = Json::default();
    for file in json {
        json::read(file, &mut placed, &mut counted)?;
    }
    let mut text = text::read(text, directory, &mut counted);
    let named = Named::new(&mut placed, directory, directives);
    named.rename_json(&mut placed);
    named.rename_text(&mut text);
    rewritten(&mut placed, &text.batches);
    if text.batches.iter().all(|batch| batch.blocks.is_empty() && batch.last.is_empty()) {
        text.batches = vec![alone(placed)];
    } else {
        place(&mut text.batches, placed.blocks);
    }
    let mut found = Diagnostics::default();
    for batch in std::mem::take(&mut text.batches) {
        found.take(package, batch, &text);
    }
    let calls = first_calls(&text.inlined);
    let steps = found.list.iter_mut().map(|one| &mut one.flow).chain(found.leaks.iter_mut().map(|leak| &mut leak.flow));
    steps.flatten().for_each(|step| name_call(step, &calls));
    found.see_through_interfaces();
    found.inlined = text.inlined;
    found.passed_over = counted.passed_over;
    found.examples = counted.examples;
    Ok(found)
}

/// Gives sources that cgo rewrote their own names: JSON has `x.cgo1.go`, and no directory, where the text has `x.go`.
fn rewritten(placed: &mut Json, batches: &[Batch]) {
    let blocks = batches.iter().flat_map(|batch| &batch.blocks).flat_map(|block| &block.at);
    let last = batches.iter().flat_map(|batch| &batch.last).map(|last| &last.position);
    let named: HashSet<&str> = blocks.chain(last).map(|position| position.file.as_str()).collect();
    placed.positions(|position| {
        let Some(name) = paths::before_cgo(&position.file) else { return };
        let own = |file: &&&str| file.strip_suffix(name.as_str()).is_some_and(|before| before.ends_with('/'));
        if let Some(file) = named.iter().find(own) {
            position.file = (*file).to_owned();
        }
    });
}

/// JSON without text: what has no decision of its own is a variable.
fn alone(placed: Json) -> Batch {
    let decided: HashSet<&[Position]> = placed.decided.iter().map(Vec::as_slice).collect();
    let mut seen = HashSet::new();
    let mut last = Vec::new();
    for block in &placed.blocks {
        let MessageSubject::Allocation(what) = &block.subject else { continue };
        if seen.insert((block.at.clone(), what)) {
            let verdict = if decided.contains(block.at.as_slice()) { Verdict::Escapes } else { Verdict::Moved };
            last.push(Last { position: block.at[0].clone(), what: short(what).to_owned(), verdict });
        }
    }
    Batch { blocks: placed.blocks, last }
}

/// Gives blocks of the text their positions. The same code wrote both in the same order, JSON sorted by the outermost
/// position: of blocks that say the same, the first is the first.
fn place(batches: &mut [Batch], placed: Vec<Block>) {
    type Key = (Position, MessageSubject, Vec<String>);
    let mut by_key: HashMap<Key, VecDeque<Block>> = HashMap::new();
    let key = |block: &Block| {
        let (position, subject, flows) = block.key();
        (position.clone(), subject.clone(), flows.to_vec())
    };
    for block in placed {
        by_key.entry(key(&block)).or_default().push_back(block);
    }
    for block in batches.iter_mut().flat_map(|batch| &mut batch.blocks) {
        if let Some(same) = by_key.get_mut(&key(block)).and_then(VecDeque::pop_front) {
            block.at = same.at;
            block.placed = true;
            block.steps = same.steps;
        }
    }
}

/// The compiler's last word on an `append` leaves out what is appended.
fn short(what: &str) -> &str {
    if what.starts_with("append(") { "append" } else { what }
}

impl Diagnostics {
    fn take(&mut self, package: &str, batch: Batch, text: &Text) {
        let function = |named: Option<String>, at: &Position| named.or_else(|| text.function(at));
        // The verdict on each expression, and its escape flows, in order.
        let mut blocks: Vec<((Position, String), Vec<Block>)> = Vec::new();
        let mut index: HashMap<(Position, String), usize> = HashMap::new();
        let mut method_values: HashSet<String> = HashSet::new();
        for block in batch.blocks {
            match &block.subject {
                MessageSubject::Allocation(what) => {
                    method_values.extend(kind::method_value(&block.flows));
                    let key = (block.at[0].clone(), short(what).to_owned());
                    let at = *index.entry(key.clone()).or_insert_with(|| {
                        blocks.push((key, Vec::new()));
                        blocks.len() - 1
                    });
                    blocks[at].1.push(block);
                }
                MessageSubject::Leak { parameter, to, derefs } => {
                    method_values.extend(kind::method_value(&block.flows));
                    self.leaks.push(Leak {
                        package: package.to_owned(),
                        function: function(block.function.clone(), &block.at[0]),
                        parameter: parameter.clone(),
                        to: to.clone(),
                        derefs: *derefs,
                        position: block.innermost().0,
                        flow: block.steps,
                    });
                }
            }
        }
        let mut decided: HashMap<(Position, String), Vec<Verdict>> = HashMap::new();
        for last in batch.last {
            let key = (last.position, last.what);
            if last.verdict != Verdict::DoesNotEscape && index.contains_key(&key) {
                decided.entry(key).or_default().push(last.verdict);
                continue;
            }
            // A parameter, or a value in an interface that is nowhere but on the stack: neither is an allocation.
            if last.verdict == Verdict::DoesNotEscape && kind::is_name(&key.1) {
                continue;
            }
            self.list.push(Diagnostic {
                package: package.to_owned(),
                function: function(None, &key.0),
                position: key.0,
                inlined_at: Vec::new(),
                placed: false,
                kind: kind::of(&key.1, last.verdict, &[]),
                what: key.1,
                verdict: last.verdict,
                flow: Vec::new(),
                reason: Reason::Unknown,
                surroundings: Surroundings::default(),
            });
        }
        for (key, blocks) in blocks {
            // The wrapper of a `go` statement's call is explained, and not decided on in words.
            let verdicts = decided.remove(&key).unwrap_or_default();
            let verdict = |n: usize| verdicts.get(n).or(verdicts.last()).copied().unwrap_or(Verdict::Escapes);
            for (n, (same, boxed)) in shared(blocks, verdicts.len()).into_iter().enumerate() {
                let Some(best) = same.iter().find(|block| intrinsic(block)).or(same.first()).cloned() else { continue };
                let MessageSubject::Allocation(what) = &best.subject else { continue };
                let verdict = verdict(n);
                let kind = match kind::of(what, verdict, &best.steps) {
                    _ if boxed => Kind::Boxed,
                    Kind::Boxed if method_values.contains(what) => Kind::MethodValue,
                    kind => kind,
                };
                let (position, inlined_at) = somewhere(&best);
                self.list.push(Diagnostic {
                    package: package.to_owned(),
                    function: function(best.function.clone(), &best.at[0]),
                    position,
                    inlined_at,
                    placed: best.placed,
                    kind,
                    what: what.clone(),
                    verdict,
                    reason: match (Reason::of(kind, &best.steps), kind::method_value(&best.flows)) {
                        (Reason::Unknown, Some(whole)) => Reason::PartOf { whole },
                        // The method's receiver, whose address is taken for it.
                        (Reason::Outlived { variable, .. }, Some(whole)) if variable == *what => {
                            Reason::PartOf { whole }
                        }
                        (reason, _) => reason,
                    },
                    flow: best.steps,
                    surroundings: Surroundings::default(),
                });
            }
        }
    }
}

impl Diagnostics {
    /// Marks values that are passed to methods of interfaces: the callee is not known. The interface itself, which
    /// flows the same way, shows that it is one; a package, which looks alike, does not.
    fn see_through_interfaces(&mut self) {
        let flows = self.list.iter().map(|one| &one.flow).chain(self.leaks.iter().map(|leak| &leak.flow));
        let through = flows.flatten().filter(|step| {
            let (_, from) = step.flow.split_once(" ← ").unwrap_or_default();
            step.how == "call parameter" && chain::calls_through(chain::callee(&step.expression), from)
        });
        let through: HashSet<(Position, String)> =
            through.map(|step| (step.position.clone(), step.expression.clone())).collect();
        let flows = self.list.iter_mut().map(|one| &mut one.flow);
        for step in flows.chain(self.leaks.iter_mut().map(|leak| &mut leak.flow)).flatten() {
            step.unknown_callee =
                step.how == "call parameter" && through.contains(&(step.position.clone(), step.expression.clone()));
        }
        for one in &mut self.list {
            if let Reason::Passed { callee, .. } = &one.reason
                && one.flow.last().is_some_and(|step| step.unknown_callee)
            {
                one.reason = Reason::PassedToUnknown { callee: callee.clone() };
            }
        }
    }
}

/// Whether size or alignment alone puts the allocation into the heap.
fn intrinsic(block: &Block) -> bool {
    block.steps.iter().any(|step| Reason::of_its_own(&step.how).is_some())
}

/// Explanations of expressions that look alike, by allocation: as many as were decided on. One allocation may be
/// explained more than once, and `sink = make([]T, n)` is two that look alike: the slice, and the box around it, which
/// is marked.
fn shared(blocks: Vec<Block>, allocations: usize) -> Vec<(Vec<Block>, bool)> {
    let mut by_place: Vec<Vec<Block>> = Vec::new();
    for block in blocks {
        match by_place.iter_mut().find(|same| same[0].at == block.at) {
            Some(same) => same.push(block),
            None => by_place.push(vec![block]),
        }
    }
    let mut lacking = allocations.saturating_sub(by_place.len());
    let mut out = Vec::new();
    for same in by_place {
        if lacking > 0 && same.len() > 1 {
            let (inner, outer): (Vec<Block>, Vec<Block>) = same.into_iter().partition(into_its_box);
            if inner.is_empty() || outer.is_empty() {
                let mut each = inner.into_iter().chain(outer);
                let mut parts: Vec<Vec<Block>> = each.by_ref().take(lacking).map(|block| vec![block]).collect();
                let rest: Vec<Block> = each.collect();
                lacking = lacking.saturating_sub(parts.len());
                if !rest.is_empty() {
                    parts.push(rest);
                }
                out.extend(parts.into_iter().map(|part| (part, false)));
            } else {
                lacking -= 1;
                out.extend([(inner, false), (outer, true)]);
            }
        } else {
            out.push((same, false));
        }
    }
    out
}

/// The position of an explanation, and the calls that inlined it. What the compiler makes itself, such as the state of
/// a loop over a function, is where it is used first.
fn somewhere(block: &Block) -> (Position, Vec<Position>) {
    let used = block.steps.iter().find(|step| step.position.line > 0).filter(|_| block.at[0].line == 0);
    used.map_or_else(|| block.innermost(), |step| (step.position.clone(), step.inlined_at.clone()))
}

/// Explains a value that is put into an interface, not the interface's own memory.
fn into_its_box(block: &Block) -> bool {
    let MessageSubject::Allocation(what) = &block.subject else { return false };
    let own = format!("{{storage for {what}}} ← &{{storage for {what}}}");
    intrinsic(block) || block.flows.contains(&own)
}

/// The first call of each position, which is the outermost one.
fn first_calls(inlined: &[InlinedCall]) -> HashMap<&Position, &str> {
    let mut calls = HashMap::new();
    for call in inlined {
        calls.entry(&call.position).or_insert(call.callee.as_str());
    }
    calls
}

/// Names the call that a step passes a value to, where its body is inside of the caller: `io.r, io.buf := input, buf`.
fn name_call(step: &mut FlowStep, calls: &HashMap<&Position, &str>) {
    if step.how == "assign-pair" && step.expression.contains(" := ") && step.inlined_at.is_empty() {
        step.callee = calls.get(&step.position).map(|&callee| callee.to_owned());
    }
}
