//! One row of call frame information as a rule.

use super::expression::{Base, Value, evaluate};
use super::layout::*;
use gimli::{
    CfaRule, Encoding, EndianSlice, LittleEndian, Register, RegisterRule, UnwindContextStorage, UnwindExpression,
    UnwindSection, UnwindTableRow,
};
use mallow_arch::dwarf::{self, saved_index};

pub(super) type Reader<'data> = EndianSlice<'data, LittleEndian>;

/// Space for one evaluation of call frame instructions. gimli's own is five times larger, and clearing it for each of a
/// compiler's 100 000 functions was most of the work.
pub(super) struct Storage;

impl<T: gimli::ReaderOffset> UnwindContextStorage<T> for Storage {
    /// 17 registers and those of a signal frame's vector state that some assembly describes.
    type Rules = [(Register, RegisterRule<T>); 40];
    type Stack = Box<[UnwindTableRow<T, Self>; 16]>;
}

/// Turns rows of one section into rules.
pub(super) struct Converter<'a, S> {
    pub section: &'a S,
    pub encoding: Encoding,
    pub signal_frame: bool,
}

impl<'data, S: UnwindSection<Reader<'data>>> Converter<'_, S> {
    /// The rule of `row`; None: the layout has no rule for it.
    pub fn rule(&self, row: &UnwindTableRow<usize, Storage>) -> Option<Rule> {
        let cfa = self.cfa(row.cfa())?;
        let mut rule = Rule { signal_frame: self.signal_frame.into(), ..Rule::NONE };
        let offset;
        (rule.cfa_kind, rule.cfa_reg, offset, rule.cfa_extra) = match cfa {
            Value::Sum { base, offset } => (CFA_OFFSET, cfa_register(base)?, offset, 0),
            Value::Deref { base, offset, extra } => {
                (CFA_DEREF, cfa_register(base)?, offset, i32::try_from(extra).ok()?)
            }
            Value::Plt { base, offset, from } => (CFA_PLT, cfa_register(base)?, offset, i32::try_from(from).ok()?),
            _ => return None,
        };
        rule.cfa_offset = i32::try_from(offset).ok()?;

        let mut has_return_address = false;
        for &(register, ref how) in row.registers() {
            if register == dwarf::SP {
                if !self.is_cfa(how, cfa) {
                    return None;
                }
                continue;
            }
            let Some(index) = saved_index(register) else { continue };
            let (kind, offset) = self.saved(register, how).unwrap_or((SAVED_UNDEFINED, 0));
            if index == RA {
                match (how, kind) {
                    (RegisterRule::Undefined, _) => return Some(Rule::END),
                    (_, SAVED_UNDEFINED | SAVED_SAME) => return None,
                    _ => has_return_address = true,
                }
            }
            (rule.kind[index], rule.offset[index]) = (kind, offset);
        }
        // No rule for the return address is the architecture's default: it is not known, as if it said so.
        Some(if has_return_address { rule } else { Rule::END })
    }

    fn cfa(&self, rule: &CfaRule<usize>) -> Option<Value> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(Value::Sum { base: Base::Register(*register), offset: *offset })
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, start: Option<Value>) -> Option<Value> {
        evaluate(expression.get(self.section).ok()?, self.encoding, start)
    }

    /// Whether this rule for the stack pointer says what is so without it: the caller's is the CFA.
    fn is_cfa(&self, how: &RegisterRule<usize>, cfa: Value) -> bool {
        match how {
            RegisterRule::ValOffset(0) => true,
            RegisterRule::Expression(expression) => match self.evaluate(expression, Some(CFA)) {
                Some(Value::Sum { base, offset }) => cfa == Value::Deref { base, offset, extra: 0 },
                _ => false,
            },
            RegisterRule::ValExpression(expression) => {
                self.evaluate(expression, Some(CFA)).is_some_and(|value| value == cfa || value == CFA)
            }
            _ => false,
        }
    }

    /// Kind and offset of a saved register; None where the layout cannot say it.
    fn saved(&self, register: Register, how: &RegisterRule<usize>) -> Option<(u8, i32)> {
        let (kind, offset) = match how {
            RegisterRule::SameValue => (SAVED_SAME, 0),
            RegisterRule::Offset(offset) => (SAVED_AT_CFA, *offset),
            RegisterRule::ValOffset(offset) => (SAVED_IS_CFA, *offset),
            RegisterRule::Register(other) if *other == register => (SAVED_SAME, 0),
            RegisterRule::Expression(expression) => match self.evaluate(expression, Some(CFA))? {
                Value::Sum { base, offset } => (memory_kind(base)?, offset),
                _ => return None,
            },
            RegisterRule::ValExpression(expression) => match self.evaluate(expression, Some(CFA))? {
                Value::Sum { base: Base::Cfa, offset } => (SAVED_IS_CFA, offset),
                Value::Sum { base: Base::Register(other), offset: 0 } if other == register => (SAVED_SAME, 0),
                Value::Deref { base, offset, extra: 0 } => (memory_kind(base)?, offset),
                _ => return None,
            },
            _ => return None,
        };
        Some((kind, i32::try_from(offset).ok()?))
    }
}

const CFA: Value = Value::Sum { base: Base::Cfa, offset: 0 };

fn memory_kind(base: Base) -> Option<u8> {
    match base {
        Base::Cfa => Some(SAVED_AT_CFA),
        Base::Register(dwarf::SP) => Some(SAVED_AT_SP),
        Base::Register(dwarf::FP) => Some(SAVED_AT_FP),
        Base::Register(_) => None,
    }
}

fn cfa_register(base: Base) -> Option<u8> {
    match base {
        Base::Register(dwarf::SP) => Some(CFA_SP),
        Base::Register(register) => saved_index(register).filter(|&index| index != RA).map(|index| index as u8),
        Base::Cfa => None,
    }
}
