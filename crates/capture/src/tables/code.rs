//! Rules of functions without call frame information, from their instructions.
//!
//! Each function is followed from its beginning along all of its jumps, with what is known of the registers. Where that
//! does not determine the caller's frame there is no rule, and a walk ends. What was taken for the beginning of a
//! function is believed only if its returns find the return address.

use super::function::{Exit, Function, Outcome};
use super::layout::Rule;
use mallow_arch::Flow;
use mallow_arch::context::{self, Context};
use mallow_arch::instruction::{Decoder, Instruction};
use mallow_arch::state::{State, Uses};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Instructions that are read of one function, and of all together: bounds for hostile files.
const FUNCTION_LIMIT: usize = 100_000;
pub(super) const WORK_LIMIT: usize = 8_000_000;

#[derive(Clone, Copy)]
pub(super) struct Bytes<'data> {
    pub start: u64,
    pub data: &'data [u8],
}

impl<'data> Bytes<'data> {
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.data.len() as u64)
    }

    /// The bytes whose addresses lie in `range`; None: there are none.
    pub fn part(&self, range: Range<u64>) -> Option<Self> {
        let (start, end) = (range.start.max(self.start), range.end.min(self.end()));
        let data = self.data.get(start.checked_sub(self.start)? as usize..end.checked_sub(self.start)? as usize)?;
        (!data.is_empty()).then_some(Self { start, data })
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }

    fn from(&self, address: u64) -> &'data [u8] {
        address.checked_sub(self.start).and_then(|at| self.data.get(at as usize..)).unwrap_or_default()
    }
}

/// Addresses at which functions begin, as far as symbols say.
#[derive(Default)]
pub(super) struct Starts {
    /// Addresses of functions by their beginning, each of which is there once.
    pub functions: Vec<Range<u64>>,
    /// The file's own table of symbols has functions, so that `functions` are all.
    pub complete: bool,
    /// Beginnings of Swift's async functions that begin with their own context, in order.
    pub asynchronous: Vec<u64>,
}

impl Starts {
    fn is_async(&self, address: u64) -> bool {
        self.asynchronous.binary_search(&address).is_ok()
    }
}

/// The rule that holds at the instruction in `range`.
pub(super) struct Known {
    pub range: Range<u64>,
    pub rule: Rule,
}

/// Where the context of an async function is at the instruction in `range`.
pub(super) struct KnownContext {
    pub range: Range<u64>,
    pub context: Context,
}

/// Where an async function that begins with its own context in r14 has it, by address; empty where the code makes no
/// sense.
pub(super) fn contexts(code: &Bytes<'_>, work_left: &mut usize) -> Vec<KnownContext> {
    let starts = Starts::default();
    let mut reader = Reader::new(std::slice::from_ref(code), &starts);
    reader.work_left = *work_left;
    let mut function = Function::new(code.start..code.end(), true);
    reader.follow(&mut function);
    reader.follow_tables(&mut function);
    *work_left = reader.work_left;
    let outcome = function.outcome();
    if outcome.wrong {
        return Vec::new();
    }
    let sure = function.states.iter().filter(|&(address, &(end, _))| end != *address && outcome.sure.contains(address));
    let known = sure.filter_map(|(&start, &(end, state))| {
        state.context().map(|context| KnownContext { range: start..end, context })
    });
    let mut known: Vec<_> = known.collect();
    known.sort_unstable_by_key(|known| known.range.start);
    known
}

/// The rules of the code in `gaps`, by address. `gaps` must be in order and not overlap.
pub(super) fn rules(gaps: &[Bytes<'_>], starts: &Starts) -> Vec<Known> {
    let mut reader = Reader::new(gaps, starts);
    for function in &starts.functions {
        if reader.gap(function.start).is_some() && !reader.known.contains_key(&function.start) {
            reader.function(function.clone());
        }
    }
    if !starts.complete {
        gaps.iter().for_each(|gap| reader.search(gap));
    }
    let known = reader.known.into_iter();
    let mut known: Vec<Known> = known.map(|(start, (end, rule))| Known { range: start..end, rule }).collect();
    known.sort_unstable_by_key(|known| known.range.start);
    known
}

struct Reader<'a, 'data> {
    gaps: &'a [Bytes<'data>],
    starts: &'a Starts,
    /// Rules of instructions by their address, each with the instruction's end.
    known: FxHashMap<u64, (u64, Rule)>,
    /// Ends of instructions that were followed and believed, with or without a rule, by their address.
    tried: FxHashMap<u64, u64>,
    work_left: usize,
    uses: Uses,
}

impl<'a, 'data> Reader<'a, 'data> {
    fn new(gaps: &'a [Bytes<'data>], starts: &'a Starts) -> Self {
        Self {
            gaps,
            starts,
            known: FxHashMap::default(),
            tried: FxHashMap::default(),
            work_left: WORK_LIMIT,
            uses: Uses::default(),
        }
    }

    /// Bytes behind its start from which on the frame of a function holds a context; None: it never does.
    fn framed_from(&self, start: u64) -> Option<u64> {
        context::framed_from(self.gap(start)?.from(start))
    }

    fn gap(&self, address: u64) -> Option<Bytes<'data>> {
        let after = self.gaps.partition_point(|gap| gap.start <= address);
        self.gaps[..after].last().copied().filter(|gap| gap.contains(address))
    }

    fn is_start(&self, address: u64) -> bool {
        self.starts.functions.binary_search_by_key(&address, |function| function.start).is_ok()
    }

    /// Follows the function that a symbol names.
    fn function(&mut self, range: Range<u64>) {
        let is_async = self.framed_from(range.start).is_some() || self.starts.is_async(range.start);
        let mut function = Function::new(range, is_async);
        self.follow(&mut function);
        self.follow_tables(&mut function);
        let outcome = function.outcome();
        self.take(&function, &outcome, !outcome.wrong);
    }

    /// Follows the code of a function that no jump leads to: it is reached through tables.
    fn follow_tables(&mut self, function: &mut Function) {
        let mut at = function.range.start;
        while let Some(gap) = self.gap(at).filter(|_| at < function.range.end && !function.too_large) {
            let Some(inside) = function.inside else { return };
            match function.states.get(&at) {
                Some(&(end, _)) if end > at => at = end,
                Some(_) => match padding(&gap, at) {
                    Some(end) => at = end,
                    None => return,
                },
                None => match padding(&gap, at) {
                    Some(end) => at = end,
                    None => {
                        function.through_tables.push(at);
                        function.reach(at, &inside);
                        self.follow(function);
                    }
                },
            }
        }
        // Code behind one table may jump through another.
        while let Some(inside) = function.inside.filter(|_| !function.too_large) {
            function.through_tables.clone().into_iter().for_each(|at| function.reach(at, &inside));
            self.follow(function);
            if function.inside == Some(inside) {
                return;
            }
        }
    }

    /// Looks through a gap for functions that no symbol names.
    fn search(&mut self, gap: &Bytes<'data>) {
        let mut at = gap.start;
        while at < gap.end() && self.work_left > 0 {
            if let Some(end) = self.tried.get(&at).copied().filter(|&end| end > at).or_else(|| padding(gap, at)) {
                at = end;
                continue;
            }
            let mut function = Function::new(at..at, self.framed_from(at).is_some());
            self.follow(&mut function);
            let outcome = function.outcome();
            let believed = !outcome.wrong && outcome.strict && outcome.leaves;
            self.take(&function, &outcome, believed);
            if !believed {
                at = self.end_of_block(gap, at);
            }
        }
    }

    /// Where something else may begin: behind the first instruction that does not go on with the next one.
    fn end_of_block(&mut self, gap: &Bytes<'data>, at: u64) -> u64 {
        let mut decoder = Decoder::new(gap.from(at), at);
        let mut end = at;
        while decoder.can_decode() && self.work_left > 0 {
            self.work_left -= 1;
            let instruction = decoder.decode();
            end = instruction.next();
            if instruction.is_invalid()
                || matches!(instruction.flow(), Flow::Return | Flow::Jump | Flow::IndirectJump)
                || ends_by_call(&instruction, gap)
            {
                break;
            }
        }
        end.max(at + 1)
    }

    /// Follows all of a function that waits, as far as the limits allow.
    fn follow(&mut self, function: &mut Function) {
        while let Some(address) = function.waiting.pop() {
            if function.states.len() > FUNCTION_LIMIT || self.work_left == 0 {
                function.too_large = true;
                return;
            }
            self.follow_from(address, function);
        }
    }

    /// Follows straight on from an address, up to what is known already.
    fn follow_from(&mut self, mut address: u64, function: &mut Function) {
        let Some(gap) = self.gap(address) else { return };
        let mut decoder = Decoder::new(gap.from(address), address);
        let mut instruction = Instruction::default();
        let mut before = Instruction::default();
        while decoder.can_decode() && self.work_left > 0 {
            self.work_left -= 1;
            decoder.decode_into(&mut instruction);
            let Some((end, state)) = function.states.get_mut(&address) else { return };
            // Compilers put the latter where nothing can lead.
            if instruction.is_invalid() || instruction.is_unreachable() {
                return;
            }
            let next = instruction.next();
            *end = next;
            let mut state = *state;
            match instruction.flow() {
                Flow::Return => {
                    function.exits.insert(address, Exit::Leave);
                    return;
                }
                Flow::Jump => {
                    self.jump(address, instruction.target().unwrap_or(0), &state, function);
                    return;
                }
                Flow::IndirectJump => {
                    if function.may_end(&state) {
                        function.exits.insert(address, Exit::Leave);
                    } else {
                        function.jump_inside(&state);
                    }
                    return;
                }
                Flow::Trap => return,
                Flow::ConditionalJump => {
                    self.jump(address, instruction.target().unwrap_or(0), &state, function);
                    state.leave_loop(&instruction, &before);
                }
                _ => state.step(&instruction, &mut self.uses),
            }
            let within = function.range.contains(&next);
            if self.is_start(next) || !gap.contains(next) || (!within && ends_by_call(&instruction, &gap)) {
                return;
            }
            function.edges.push((address, next, instruction.is_call()));
            before = instruction;
            let waiting = function.waiting.len();
            function.reach(next, &state);
            if function.waiting.len() == waiting {
                return;
            }
            function.waiting.pop();
            address = next;
        }
    }

    fn jump(&self, from: u64, target: u64, state: &State, function: &mut Function) {
        let is_other = self.is_start(target) && !function.states.contains_key(&target);
        if is_other || self.gap(target).is_none() {
            function.exits.insert(from, Exit::Leave);
        } else if let Some((_, rule)) = self.known.get(&target) {
            let exit = if state.rule() == Some(*rule) { Exit::Join } else { Exit::Clash };
            function.exits.insert(from, exit);
        } else {
            function.edges.push((from, target, false));
            function.reach(target, state);
        }
    }

    fn take(&mut self, function: &Function, outcome: &Outcome, believed: bool) {
        let start = function.range.start;
        let framed_from =
            self.framed_from(start).filter(|_| function.is_async).map(|bytes| start.saturating_add(bytes));
        for (&address, &(end, state)) in &function.states {
            // Where they are equal, there is no instruction.
            if end != address && believed && outcome.sure.contains(&address) {
                self.tried.insert(address, end);
                let context = match framed_from {
                    Some(from) => (address >= from).then_some(Context::Framed),
                    None => state.context().filter(|_| function.is_async),
                };
                if let Some(rule) = state.rule() {
                    let rule = context.map_or(rule, |context| context.add_to(rule));
                    self.known.insert(address, (end, rule));
                }
            }
        }
    }
}

pub(super) fn is_padding(gap: &Bytes<'_>) -> bool {
    padding(gap, gap.start).is_some_and(|end| end >= gap.end())
}

/// Whether this is a call that may not return: what follows is filled up to where the next function begins.
fn ends_by_call(instruction: &Instruction, gap: &Bytes<'_>) -> bool {
    let end = || padding(gap, instruction.next()).unwrap_or_else(|| instruction.next());
    instruction.is_call() && end() != instruction.next() && end().is_multiple_of(16)
}

/// The end of the bytes at `at` that fill up to where code begins again; None: there are none.
fn padding(gap: &Bytes<'_>, at: u64) -> Option<u64> {
    let bytes = gap.from(at);
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    if zeros > 1 || zeros == bytes.len() {
        return (zeros > 0).then_some(at + zeros as u64);
    }
    let mut decoder = Decoder::new(bytes, at);
    let mut end = at;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if !(instruction.is_padding() || instruction.is_unreachable()) {
            break;
        }
        end = instruction.next();
    }
    (end > at).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::super::elf::Elf;
    use super::super::view::TableView;
    use super::super::{build, layout::*, map};
    use super::*;
    use std::path::{Path, PathBuf};

    /// Reads code as if it had no call frame information, and compares with what that says.
    fn compare(path: &Path, starts: impl Fn(&Elf<'_>) -> Starts) -> (usize, usize) {
        let data = map(path).expect("file");
        let elf = Elf::parse(&data).expect("ELF");
        let image = build(&data).expect("table");
        let table = TableView::parse(&image).expect("table");
        let found = rules(&elf.code(), &starts(&elf));
        let mut wrong = Vec::new();
        let (mut right, mut other) = (0, 0);
        for Known { range, rule } in &found {
            let wanted = table.rule_at(range.start).expect("a rule");
            if wanted == Rule::NONE || wanted == Rule::END || wanted.cfa_kind == CFA_PLT {
                other += 1;
                continue;
            }
            let same_frame =
                (rule.cfa_kind, rule.cfa_reg, rule.cfa_offset) == (wanted.cfa_kind, wanted.cfa_reg, wanted.cfa_offset);
            // By another register, the same frame may be found: that is not compared.
            if rule.cfa_reg != wanted.cfa_reg {
                other += 1;
            } else if !same_frame {
                wrong.push((range.start, *rule, wanted));
            } else {
                right += 1;
            }
        }
        println!(
            "{}: {} of {} right, {} not compared, {} wrong",
            path.display(),
            right,
            found.len(),
            other,
            wrong.len()
        );
        for (address, rule, wanted) in wrong.iter().take(8) {
            println!("{address:#x}: {rule:?}, not {wanted:?}");
        }
        assert!(wrong.is_empty(), "{} wrong", wrong.len());
        (right, found.len())
    }

    fn mapped(name: &str) -> PathBuf {
        let text = mallow_proc::read_maps(mallow_proc::Task::Own).expect("maps");
        let mut paths = mallow_proc::mappings(&text).map(|mapping| mapping.into_owned().path);
        paths.find(|path| path.contains(name)).expect("a library").into()
    }

    #[test]
    fn rules_from_instructions_match_call_frame_information() {
        // Not the C library: its hand-written arithmetic pushes registers and does not say so.
        let path = mapped("libgcc_s");
        let (right, all) = compare(&path, |elf| elf.starts());
        assert!(right > 10_000, "{right} of {all}");
        compare(&path, |_| Starts::default());
    }
}
