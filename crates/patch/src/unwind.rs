//! The stack of a stopped thread, unwound from outside by the rules of its modules' `.eh_frame`.
//!
//! Nothing is guessed: but for code whose bytes say what it does ([`trampoline`]), no frame pointer is followed where
//! there is no rule, and a stack counts as known only if its last frame says that it is the last.

use std::io;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, EvaluationResult, LittleEndian, Location, Register,
    RegisterRule, UnwindContext, UnwindSection, Value,
};
use mallow_arch::dwarf::{self, KEPT};
use mallow_arch::registers::{Registers, SAVED};
use object::{Object, ObjectSection};

use crate::memory::{Memory, Window};
use crate::module::Module;
use crate::trampoline;

/// Stacks of more frames than this are not unwound.
const DEEPEST: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Address of the instruction that is executed next in this frame.
    pub address: u64,
    /// Whether the frame was interrupted at `address`: the instruction before it is no call.
    pub interrupted: bool,
}

impl Frame {
    /// An address of the function that the frame is of, even where a call is the function's last instruction.
    pub fn inside(&self) -> u64 {
        if self.interrupted { self.address } else { self.address.wrapping_sub(1) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwindError {
    #[error("code at {0:#x} belongs to no module")]
    NoModule(u64),
    #[error("there is no unwind information for {0:#x}")]
    NoRule(u64),
    /// A rule is not understood, or leads to memory that cannot be read.
    #[error("the unwind information for {0:#x} cannot be followed")]
    Rule(u64),
    /// The stack has more frames than are followed.
    #[error("the stack is too deep")]
    Endless,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The unwind information of all modules of a process.
pub struct Unwinder<'a> {
    modules: Vec<Rules<'a>>,
}

struct Rules<'a> {
    range: Range<u64>,
    bases: BaseAddresses,
    frames: EhFrame<Slice<'a>>,
    index: gimli::ParsedEhFrameHdr<Slice<'a>>,
}

/// Values of registers, by their numbers in DWARF. None: the frame has lost it.
type Values = [Option<u64>; dwarf::REGISTERS];

impl<'a> Unwinder<'a> {
    /// Rules of the modules that have `.eh_frame_hdr`; the others have none.
    pub fn new(modules: &'a [Module]) -> Self {
        Self { modules: modules.iter().filter_map(Rules::of).collect() }
    }

    /// The frames of a thread that a signal interrupted, the innermost first, and whether they are all: it waits in the
    /// signal's handler. `registers`: where in its memory the kernel saved them (`gregs` of `mcontext_t`, in glibc's
    /// `sys/ucontext.h`).
    pub fn walk_interrupted(&self, registers: u64, memory: &Memory) -> io::Result<(Vec<Frame>, bool)> {
        let mut saved = [0; SAVED * 8];
        memory.read(registers, &mut saved)?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| saved[at * 8 + byte]));
        Ok(self.walk_saved(&std::array::from_fn(word), memory))
    }

    /// Frames of a thread with these registers (`gregs` of `mcontext_t`), the innermost first, and whether they are
    /// all.
    pub fn walk_saved(&self, registers: &[u64; SAVED], memory: &Memory) -> (Vec<Frame>, bool) {
        let walk = self.walk(&Registers::of_saved(registers), memory);
        (walk.frames, walk.unknown.is_none())
    }

    /// The frames of a thread that has these registers, the innermost first.
    pub(crate) fn frames(&self, registers: &Registers, memory: &Memory) -> Result<Vec<Frame>, UnwindError> {
        let walk = self.walk(registers, memory);
        walk.unknown.map_or(Ok(walk.frames), |(error, _)| Err(error))
    }

    /// The frames of a thread that has these registers as far as they are known.
    pub(crate) fn walk(&self, registers: &Registers, memory: &Memory) -> Walk {
        let mut values: Values = registers.numbered().map(Some);
        let mut frame = Frame { address: registers.pc(), interrupted: true };
        let mut frames = Vec::new();
        let mut context = UnwindContext::new();
        let memory = &Window::new(memory);
        loop {
            // A step that fails may have changed the values.
            let sp = values[usize::from(dwarf::SP.0)];
            frames.push(frame);
            let step = match self.rules(&frame) {
                Ok(rules) => rules.step(&frame, &mut values, memory, &mut context),
                Err(unknown) => return_of_trampoline(&frame, &mut values, memory).map(Some).ok_or(unknown),
            };
            let unknown = match step {
                Ok(Some(caller)) if frames.len() < DEEPEST => {
                    frame = caller;
                    continue;
                }
                Ok(Some(_)) => Some((UnwindError::Endless, sp)),
                Ok(None) => None,
                Err(error) => Some((error, sp)),
            };
            return Walk { frames, unknown };
        }
    }

    /// The rules of the module that a frame's code is in.
    fn rules(&self, frame: &Frame) -> Result<&Rules<'a>, UnwindError> {
        let rules = self.modules.iter().find(|rules| rules.range.contains(&frame.inside()));
        rules.ok_or(UnwindError::NoModule(frame.address))
    }
}

/// The caller of a frame of code that is known by its bytes; `values` are its registers afterwards. None: the frame is
/// of no such code.
fn return_of_trampoline(frame: &Frame, values: &mut Values, memory: &Window) -> Option<Frame> {
    // Between its other instructions, it has another stack.
    let sp = values[usize::from(dwarf::SP.0)].filter(|_| !frame.interrupted)?;
    let caller = trampoline::caller(frame.address, sp, memory)?;
    values[usize::from(dwarf::SP.0)] = Some(caller.sp);
    if let Some(frame_pointer) = caller.frame_pointer {
        values[usize::from(dwarf::FP.0)] = Some(frame_pointer);
    }
    Some(Frame { address: caller.address, interrupted: false })
}

pub(crate) struct Walk {
    /// Frames from the innermost on.
    pub frames: Vec<Frame>,
    /// Why the caller of the last frame is not known, and the stack pointer in that frame, if that is known. None: the
    /// last frame has no caller.
    pub unknown: Option<(UnwindError, Option<u64>)>,
}

impl Module {
    /// Beginnings of functions, and of parts of them, that the module's unwind information has, in no order.
    pub fn code_starts(&self) -> Vec<u64> {
        let Some(rules) = Rules::of(self) else { return Vec::new() };
        let Some(table) = rules.index.table() else { return Vec::new() };
        let mut entries = table.iter(&rules.bases);
        let mut starts = Vec::new();
        while let Ok(Some((gimli::Pointer::Direct(start), _))) = entries.next() {
            starts.push(start);
        }
        starts
    }
}

impl<'a> Rules<'a> {
    fn of(module: &'a Module) -> Option<Self> {
        let file = object::File::parse(&*module.bytes).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address().wrapping_add(module.bias), section.data().ok()?))
        };
        let (frames_at, frames) = section(".eh_frame")?;
        let (index_at, index) = section(".eh_frame_hdr")?;
        let mut bases = BaseAddresses::default().set_eh_frame(frames_at).set_eh_frame_hdr(index_at);
        if let Some((text, _)) = section(".text") {
            bases = bases.set_text(text);
        }
        if let Some((got, _)) = section(".got") {
            bases = bases.set_got(got);
        }
        let index = EhFrameHdr::new(index, LittleEndian).parse(&bases, 8).ok()?;
        Some(Self { range: module.range.clone(), bases, frames: EhFrame::new(frames, LittleEndian), index })
    }

    /// The caller of a frame; `values` are its registers afterwards. None: there is no caller.
    fn step(
        &self,
        frame: &Frame,
        values: &mut Values,
        memory: &Window,
        context: &mut UnwindContext<usize>,
    ) -> Result<Option<Frame>, UnwindError> {
        let none = |_| UnwindError::NoRule(frame.address);
        let table = self.index.table().ok_or(UnwindError::NoRule(frame.address))?;
        let at = frame.inside();
        let entry = table.fde_for_address(&self.frames, &self.bases, at, EhFrame::cie_from_offset).map_err(none)?;
        let row = entry.unwind_info_for_address(&self.frames, &self.bases, context, at).map_err(none)?;
        let bad = UnwindError::Rule(frame.address);
        let encoding = entry.cie().encoding();
        let evaluate = |expression: &gimli::UnwindExpression<usize>, cfa: Option<u64>, values: &Values| {
            let expression = expression.get(&self.frames).ok()?;
            evaluate(expression, encoding, cfa, values, memory)
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                value(values, *register).map(|base| base.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => evaluate(expression, None, values),
        };
        let cfa = cfa.ok_or(bad.clone())?;
        let mut caller: Values = [None; dwarf::REGISTERS];
        for (number, slot) in caller.iter_mut().enumerate() {
            let register = Register(number as u16);
            let word = |address: u64| memory.word(address);
            *slot = match row.register(register) {
                Some(RegisterRule::Undefined) if register == dwarf::RA => return Ok(None),
                // What no rule names is kept if the calling convention says so, and lost otherwise.
                None if register == dwarf::SP => Some(cfa),
                None if KEPT.contains(&register) => values[number],
                Some(RegisterRule::SameValue) => values[number],
                Some(RegisterRule::Offset(offset)) => word(cfa.wrapping_add_signed(offset)),
                Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
                Some(RegisterRule::Register(other)) => value(values, other),
                Some(RegisterRule::Expression(expression)) => evaluate(&expression, Some(cfa), values).and_then(word),
                Some(RegisterRule::ValExpression(expression)) => evaluate(&expression, Some(cfa), values),
                _ => None,
            };
        }
        let stack = usize::from(dwarf::SP.0);
        let signal = entry.is_signal_trampoline();
        // The stack shrinks towards its beginning, except where a handler has a stack of its own.
        if !signal && caller[stack] <= values[stack] {
            return Err(bad);
        }
        *values = caller;
        let address = caller[usize::from(dwarf::RA.0)].ok_or(bad)?;
        Ok(Some(Frame { address, interrupted: signal }))
    }
}

fn value(values: &Values, register: Register) -> Option<u64> {
    values.get(usize::from(register.0)).copied().flatten()
}

fn evaluate(
    expression: gimli::Expression<Slice>,
    encoding: gimli::Encoding,
    cfa: Option<u64>,
    values: &Values,
    memory: &Window,
) -> Option<u64> {
    let mut evaluation = expression.evaluation(encoding);
    if let Some(cfa) = cfa {
        evaluation.set_initial_value(cfa);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size, space: None, .. } if size <= 8 => {
                let mut bytes = [0; 8];
                memory.read(address, &mut bytes[..usize::from(size)])?;
                evaluation.resume_with_memory(Value::Generic(u64::from_le_bytes(bytes))).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                evaluation.resume_with_register(Value::Generic(value(values, register)?)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [gimli::Piece { location: Location::Address { address }, .. }] => Some(*address),
        _ => None,
    }
}
