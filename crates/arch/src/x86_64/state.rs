//! What is known of the registers at an instruction of a function: where its caller's frame and registers are.

use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::context::Context;
use super::instruction::Instruction;
use super::rule::*;

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RSP: usize = 4;
const RBP_NUMBER: usize = 5;
/// rax, rcx, rdx, rsi, rdi and r8 to r11: a function that is called may change them (System V x86-64 ABI 3.2.1).
const CHANGED_BY_CALLS: [usize; 9] = [RAX, RCX, RDX, 6, 7, 8, 9, 10, 11];
/// LLVM marks the rbp that a frame saves with this bit, if the frame holds the context of an async function of Swift.
const ASYNC_MARK_BIT: i64 = 60;
/// rbx, rbp and r12 to r15, in the order of [`Rule::kind`].
const KEPT: [usize; 6] = [3, RBP_NUMBER, 12, 13, 14, 15];

const KEPT_RBX: usize = 0;
const R15: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    /// The value of this register of [`KEPT`] when the function was called.
    Entry(u8),
    /// The CFA plus so much.
    Cfa(i32),
    /// The stack pointer that the function aligned, plus so much. Its distance from the CFA differs from call to call.
    Aligned(i32),
}

impl Value {
    fn plus(self, bytes: i64) -> Self {
        let add = |offset: i32| i32::try_from(i64::from(offset) + bytes).ok();
        match self {
            Self::Cfa(offset) => add(offset).map_or(Self::Unknown, Self::Cfa),
            Self::Aligned(offset) => add(offset).map_or(Self::Unknown, Self::Aligned),
            _ => Self::Unknown,
        }
    }

    /// True for an address below `limit`, where both are relative to the same.
    fn is_below(self, limit: Self) -> bool {
        match (self, limit) {
            (Self::Cfa(a), Self::Cfa(b)) | (Self::Aligned(a), Self::Aligned(b)) => a < b,
            _ => false,
        }
    }

    fn meet(&mut self, other: Self) {
        if *self != other {
            *self = Self::Unknown;
        }
    }
}

/// What is known before an instruction is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    register: [Value; 16],
    /// The address where each register of [`KEPT`] was saved.
    saved: [Value; KEPT.len()],
    /// The address where a value relative to the CFA was saved, as functions do that align their stack; `cfa_value` is
    /// that value.
    cfa_slot: Value,
    cfa_value: Value,
}

/// Registers that an instruction uses, for [`State::step`]: it is reused from one to the next.
pub struct Uses(InstructionInfoFactory);

impl Default for Uses {
    fn default() -> Self {
        Self(InstructionInfoFactory::new())
    }
}

impl State {
    /// The state at the first instruction of a function.
    pub fn entry() -> Self {
        let mut register = [Value::Unknown; 16];
        for (i, &number) in KEPT.iter().enumerate() {
            register[number] = Value::Entry(i as u8);
        }
        register[RSP] = Value::Cfa(RETURN_SLOT);
        Self { register, saved: [Value::Unknown; KEPT.len()], cfa_slot: Value::Unknown, cfa_value: Value::Unknown }
    }

    /// True where a function may return, or end by a tail call.
    #[inline]
    pub fn may_end(&self) -> bool {
        let kept = KEPT.iter().enumerate().all(|(i, &number)| self.register[number] == Value::Entry(i as u8));
        kept && self.register[RSP] == Value::Cfa(RETURN_SLOT)
    }

    /// True where an async function of Swift may go on with another: that begins with a context in r14, and with what
    /// is returned or passed in r13 and r12.
    #[inline]
    pub fn may_continue(&self) -> bool {
        let kept = [KEPT_RBX, FP, R15].iter().all(|&i| self.register[KEPT[i]] == Value::Entry(i as u8));
        kept && self.returns()
    }

    /// True where a return finds the return address.
    #[inline]
    pub fn returns(&self) -> bool {
        self.register[RSP] == Value::Cfa(RETURN_SLOT)
    }

    /// True where a return would not find the return address: what was taken for the function's beginning is none.
    #[inline]
    pub fn return_misses_address(&self) -> bool {
        !matches!(self.register[RSP], Value::Cfa(RETURN_SLOT) | Value::Unknown)
    }

    /// Keeps what both states have in common.
    #[inline]
    pub fn meet(&mut self, other: &Self) {
        self.register.iter_mut().zip(other.register).for_each(|(mine, other)| mine.meet(other));
        self.saved.iter_mut().zip(other.saved).for_each(|(mine, other)| mine.meet(other));
        self.cfa_slot.meet(other.cfa_slot);
        self.cfa_value.meet(other.cfa_value);
    }

    /// The rule here. None: the caller's frame cannot be found.
    pub fn rule(&self) -> Option<Rule> {
        let mut rule = Rule { cfa_kind: CFA_OFFSET, ..Rule::NONE };
        let by = |number: usize| match self.register[number] {
            Value::Cfa(offset) if offset != i32::MIN => Some(-offset),
            _ => None,
        };
        if let Some(offset) = by(RSP).filter(|&offset| offset >= 8) {
            (rule.cfa_reg, rule.cfa_offset) = (CFA_SP, offset);
        } else if let Some(offset) = by(RBP_NUMBER) {
            (rule.cfa_reg, rule.cfa_offset) = (FP as u8, offset);
        } else if let Some((reg, offset, extra)) = self.by_memory() {
            (rule.cfa_kind, rule.cfa_reg, rule.cfa_offset, rule.cfa_extra) = (CFA_DEREF, reg, offset, extra);
        } else {
            let (reg, offset) = KEPT.iter().enumerate().find_map(|(i, &number)| Some((i, by(number)?)))?;
            (rule.cfa_reg, rule.cfa_offset) = (reg as u8, offset);
        }
        for (i, &number) in KEPT.iter().enumerate() {
            (rule.kind[i], rule.offset[i]) = match (self.register[number], self.saved[i]) {
                (Value::Entry(register), _) if usize::from(register) == i => (SAVED_SAME, 0),
                (_, Value::Cfa(offset)) => (SAVED_AT_CFA, offset),
                (_, Value::Aligned(offset)) => {
                    self.aligned_source(offset).map_or((SAVED_UNDEFINED, 0), |(reg, offset)| {
                        (if reg == CFA_SP { SAVED_AT_SP } else { SAVED_AT_FP }, offset)
                    })
                }
                _ => (SAVED_UNDEFINED, 0),
            };
        }
        (rule.kind[RA], rule.offset[RA]) = (SAVED_AT_CFA, RETURN_SLOT);
        Some(rule)
    }

    /// Place of the value that r14 had at the function's entry: an async function's context.
    pub fn context(&self) -> Option<Context> {
        let entry = Value::Entry(CONTEXT as u8);
        let words = |offset: i32| u8::try_from(-i64::from(offset) / 8).ok().filter(|_| offset % 8 == 0 && offset < 0);
        let saved = match self.saved[CONTEXT] {
            Value::Cfa(offset) => words(offset).map(Context::AtCfa),
            _ => None,
        };
        let in_register = || KEPT.iter().position(|&number| self.register[number] == entry);
        saved.or_else(|| in_register().map(|index| Context::InRegister(index as u8)))
    }

    /// The CFA as it was saved in the aligned part of the frame: register, offset from it, and what to add.
    fn by_memory(&self) -> Option<(u8, i32, i32)> {
        let (Value::Aligned(slot), Value::Cfa(value)) = (self.cfa_slot, self.cfa_value) else { return None };
        let (register, offset) = self.aligned_source(slot)?;
        Some((register, offset, value.checked_neg()?))
    }

    /// An offset from the aligned stack pointer as one from rbp, or from rsp.
    fn aligned_source(&self, offset: i32) -> Option<(u8, i32)> {
        [(RBP_NUMBER, FP as u8), (RSP, CFA_SP)].into_iter().find_map(|(number, reg)| match self.register[number] {
            Value::Aligned(base) => Some((reg, offset.checked_sub(base)?)),
            _ => None,
        })
    }

    fn store(&mut self, address: Value, value: Value) {
        if address == Value::Unknown {
            return;
        }
        for (i, saved) in self.saved.iter_mut().enumerate() {
            if value == Value::Entry(i as u8) {
                if *saved == Value::Unknown {
                    *saved = address;
                }
            } else if *saved == address {
                *saved = Value::Unknown;
            }
        }
        if matches!((address, value), (Value::Aligned(_), Value::Cfa(_))) {
            if self.cfa_slot == Value::Unknown {
                (self.cfa_slot, self.cfa_value) = (address, value);
            }
        } else if self.cfa_slot == address {
            (self.cfa_slot, self.cfa_value) = (Value::Unknown, Value::Unknown);
        }
    }

    fn load(&self, address: Value) -> Value {
        if address == Value::Unknown {
            return Value::Unknown;
        }
        if self.cfa_slot == address {
            return self.cfa_value;
        }
        self.saved.iter().position(|&saved| saved == address).map_or(Value::Unknown, |i| Value::Entry(i as u8))
    }

    fn set_rsp(&mut self, value: Value) {
        self.register[RSP] = value;
        // Words below the stack pointer are given up.
        for saved in &mut self.saved {
            if saved.is_below(value) {
                *saved = Value::Unknown;
            }
        }
        if self.cfa_slot.is_below(value) {
            (self.cfa_slot, self.cfa_value) = (Value::Unknown, Value::Unknown);
        }
    }

    fn set(&mut self, number: usize, value: Value) {
        if number == RSP { self.set_rsp(value) } else { self.register[number] = value }
    }

    fn push(&mut self, value: Value) {
        let to = self.register[RSP].plus(-8);
        self.register[RSP] = to;
        self.store(to, value);
    }

    fn pop(&mut self) -> Value {
        let value = self.load(self.register[RSP]);
        self.set_rsp(self.register[RSP].plus(8));
        value
    }

    /// Behind a conditional jump that was not taken, and that follows `compared`: a loop may have moved rsp down to
    /// what `cmp rsp, other` compares it with.
    pub fn leave_loop(&mut self, jump: &Instruction, compared: &Instruction) {
        let Instruction(compared) = compared;
        if jump.0.mnemonic() != Mnemonic::Jne || compared.mnemonic() != Mnemonic::Cmp {
            return;
        }
        let [a, b] = [0, 1].map(|i| whole_register(compared, i));
        match (a, b) {
            (Some(RSP), Some(other)) | (Some(other), Some(RSP)) => self.register[RSP] = self.register[other],
            _ => {}
        }
    }

    /// The state after an instruction that goes on with the next one, or with its target.
    #[inline]
    pub fn step(&mut self, Instruction(instruction): &Instruction, uses: &mut Uses) {
        let to = whole_register(instruction, 0);
        let from = whole_register(instruction, 1);
        let immediate = is_immediate(instruction, 1).then(|| instruction.immediate(1) as i64);
        match (instruction.mnemonic(), to) {
            (Mnemonic::Push, _) => {
                let is_whole = instruction.stack_pointer_increment() == -8;
                let value = to.filter(|_| is_whole).map_or(Value::Unknown, |number| self.register[number]);
                if is_whole { self.push(value) } else { self.register[RSP] = Value::Unknown }
            }
            (Mnemonic::Pop, Some(number)) => {
                let value = self.pop();
                self.set(number, value);
            }
            (Mnemonic::Call, _) => CHANGED_BY_CALLS.iter().for_each(|&number| self.register[number] = Value::Unknown),
            (Mnemonic::Leave, _) => {
                self.set_rsp(self.register[RBP_NUMBER]);
                self.register[RBP_NUMBER] = self.pop();
            }
            (Mnemonic::Mov, Some(to)) if from.is_some() => {
                self.set(to, from.map_or(Value::Unknown, |from| self.register[from]));
            }
            (Mnemonic::Mov, Some(to)) if instruction.op1_kind() == OpKind::Memory => {
                let value = self.load(self.address(instruction));
                self.set(to, value);
            }
            (Mnemonic::Mov, None) if instruction.op0_kind() == OpKind::Memory => {
                let value = from.map_or(Value::Unknown, |from| self.register[from]);
                self.store(self.address(instruction), value);
            }
            (Mnemonic::Lea, Some(to)) => {
                let value = self.address(instruction);
                self.set(to, value);
            }
            (Mnemonic::Add, Some(to)) if immediate.is_some() => {
                let value = self.register[to].plus(immediate.unwrap_or_default());
                self.set(to, value);
            }
            (Mnemonic::Sub, Some(to)) if immediate.is_some() => {
                let value = self.register[to].plus(immediate.unwrap_or_default().saturating_neg());
                self.set(to, value);
            }
            (Mnemonic::And, Some(RSP)) => self.align(),
            // Swift's mark of a frame with a context: the register holds the same address, marked or not.
            (Mnemonic::Bts | Mnemonic::Btr, Some(RBP_NUMBER)) if immediate == Some(ASYNC_MARK_BIT) => {}
            _ => self.forget(instruction, uses),
        }
    }

    fn align(&mut self) {
        let is_aligned = |value: &Value| matches!(value, Value::Aligned(_));
        let again = self.register.iter().chain(&self.saved).any(is_aligned) || is_aligned(&self.cfa_slot);
        self.register[RSP] = if again { Value::Unknown } else { Value::Aligned(0) };
    }

    /// Any other instruction: what it writes is not known.
    fn forget(&mut self, instruction: &iced_x86::Instruction, uses: &mut Uses) {
        for used in uses.0.info(instruction).used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            let Some(number) = number(used.register().full_register()).filter(|_| writes) else { continue };
            if number == RSP && instruction.is_stack_instruction() {
                let value = self.register[RSP].plus(i64::from(instruction.stack_pointer_increment()));
                self.set_rsp(value);
            } else {
                self.set(number, Value::Unknown);
            }
        }
    }

    fn address(&self, instruction: &iced_x86::Instruction) -> Value {
        let plain = instruction.memory_index() == Register::None && instruction.segment_prefix() == Register::None;
        match number(instruction.memory_base()) {
            Some(base) if plain => self.register[base].plus(instruction.memory_displacement64() as i64),
            _ => Value::Unknown,
        }
    }
}

fn is_immediate(instruction: &iced_x86::Instruction, operand: u32) -> bool {
    matches!(
        instruction.try_op_kind(operand),
        Ok(OpKind::Immediate8 | OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64)
    )
}

/// rax … r15 as 0 to 15.
fn number(register: Register) -> Option<usize> {
    (register.is_gpr64()).then(|| register.number())
}

/// The 64-bit register that an operand is.
fn whole_register(instruction: &iced_x86::Instruction, operand: u32) -> Option<usize> {
    let is_register = matches!(instruction.try_op_kind(operand), Ok(OpKind::Register));
    is_register.then(|| instruction.try_op_register(operand).ok()).flatten().and_then(number)
}
