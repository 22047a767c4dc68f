//! The DWARF expressions that unwind information uses in practice, worked out for an unknown machine state.
//!
//! An expression is evaluated over values of the shape "register plus constant", "memory at register plus constant,
//! plus constant", and the shape of a PLT stub's frame. An expression that leaves these shapes has no value here.

use gimli::{Encoding, EndianSlice, Expression, LittleEndian, Operation, Register};
use mallow_arch::dwarf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number that no register is part of.
    Constant(i64),
    /// `base + offset`.
    Sum { base: Base, offset: i64 },
    /// `*(base + offset) + extra`.
    Deref { base: Base, offset: i64, extra: i64 },
    /// `pc & 15`.
    PcLow,
    /// `(pc & 15) >= from ? 1 : 0`.
    PcFrom { from: i64 },
    /// `(pc & 15) >= from ? 8 : 0`.
    PcStep { from: i64 },
    /// `base + offset + ((pc & 15) >= from ? 8 : 0)`.
    Plt { base: Base, offset: i64, from: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Register(Register),
    /// The canonical frame address, which is on the stack when a register's expression begins.
    Cfa,
}

/// Values on the stack at the most: no expression that has a value here needs as many.
const STACK: usize = 8;
/// Operations at the most: no expression that has a value here needs as many. Bounds the time that a hostile file
/// takes.
const OPERATIONS: usize = 32;

/// The value of `expression`, begun with `start` on the stack. None where its value has no shape of [`Value`].
pub(super) fn evaluate(
    expression: Expression<EndianSlice<'_, LittleEndian>>,
    encoding: Encoding,
    start: Option<Value>,
) -> Option<Value> {
    let mut stack = [Value::Constant(0); STACK];
    let mut depth = 0_usize;
    if let Some(start) = start {
        stack[0] = start;
        depth = 1;
    }
    let mut operations = expression.operations(encoding);
    for _ in 0..OPERATIONS {
        let Some(operation) = operations.next().ok()? else {
            return depth.checked_sub(1).map(|top| stack[top]);
        };
        let result = match operation {
            Operation::Nop => continue,
            Operation::UnsignedConstant { value } => Value::Constant(i64::try_from(value).ok()?),
            Operation::SignedConstant { value } => Value::Constant(value),
            Operation::RegisterOffset { register, offset, .. } => Value::Sum { base: Base::Register(register), offset },
            Operation::CallFrameCFA => Value::Sum { base: Base::Cfa, offset: 0 },
            Operation::PlusConstant { value } => {
                add(pop(&stack, &mut depth)?, Value::Constant(i64::try_from(value).ok()?))?
            }
            Operation::Deref { size: 8, space: false, .. } => match pop(&stack, &mut depth)? {
                Value::Sum { base, offset } => Value::Deref { base, offset, extra: 0 },
                _ => return None,
            },
            Operation::Plus => {
                let right = pop(&stack, &mut depth)?;
                add(pop(&stack, &mut depth)?, right)?
            }
            Operation::Minus => match pop(&stack, &mut depth)? {
                Value::Constant(n) => add(pop(&stack, &mut depth)?, Value::Constant(n.checked_neg()?))?,
                _ => return None,
            },
            Operation::And | Operation::Ge | Operation::Shl => {
                let right = pop(&stack, &mut depth)?;
                pc_step(&operation, pop(&stack, &mut depth)?, right)?
            }
            _ => return None,
        };
        *stack.get_mut(depth)? = result;
        depth += 1;
    }
    None
}

fn pop(stack: &[Value; STACK], depth: &mut usize) -> Option<Value> {
    *depth = depth.checked_sub(1)?;
    Some(stack[*depth])
}

fn add(left: Value, right: Value) -> Option<Value> {
    match (left, right) {
        (Value::Constant(a), Value::Constant(b)) => Some(Value::Constant(a.checked_add(b)?)),
        (Value::Sum { base, offset }, Value::Constant(n)) | (Value::Constant(n), Value::Sum { base, offset }) => {
            Some(Value::Sum { base, offset: offset.checked_add(n)? })
        }
        (Value::Deref { base, offset, extra }, Value::Constant(n))
        | (Value::Constant(n), Value::Deref { base, offset, extra }) => {
            Some(Value::Deref { base, offset, extra: extra.checked_add(n)? })
        }
        (Value::Sum { base, offset }, Value::PcStep { from })
        | (Value::PcStep { from }, Value::Sum { base, offset }) => Some(Value::Plt { base, offset, from }),
        (Value::Plt { base, offset, from }, Value::Constant(n)) => {
            Some(Value::Plt { base, offset: offset.checked_add(n)?, from })
        }
        _ => None,
    }
}

/// One of the steps by which linkers write `((pc & 15) >= n) << 3`.
fn pc_step(operation: &Operation<EndianSlice<'_, LittleEndian>>, left: Value, right: Value) -> Option<Value> {
    let pc = Value::Sum { base: Base::Register(dwarf::PC), offset: 0 };
    match (operation, left, right) {
        (Operation::And, value, Value::Constant(15)) | (Operation::And, Value::Constant(15), value) if value == pc => {
            Some(Value::PcLow)
        }
        (Operation::Ge, Value::PcLow, Value::Constant(from)) => Some(Value::PcFrom { from }),
        (Operation::Shl, Value::PcFrom { from }, Value::Constant(3)) => Some(Value::PcStep { from }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::Format;

    const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 1 };

    fn value(bytes: &[u8], start: Option<Value>) -> Option<Value> {
        evaluate(Expression(EndianSlice::new(bytes, LittleEndian)), ENCODING, start)
    }

    #[test]
    fn plt_stubs() {
        // breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
        let stub = |from: u8| vec![0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30 + from, 0x2a, 0x33, 0x24, 0x22];
        for from in [5, 9, 10, 11] {
            let plt = Value::Plt { base: Base::Register(dwarf::SP), offset: 8, from: from.into() };
            assert_eq!(value(&stub(from), None), Some(plt));
        }
        let mut other_mask = stub(11);
        other_mask[4] = 0x37;
        assert_eq!(value(&other_mask, None), None);
    }

    #[test]
    fn frames_found_through_memory() {
        let fp = Base::Register(dwarf::FP);
        // breg6 -8; deref
        let deref = Value::Deref { base: fp, offset: -8, extra: 0 };
        assert_eq!(value(&[0x76, 0x78, 0x06], None), Some(deref));
        // breg6 -8; deref; plus_uconst 16
        let extra = Value::Deref { base: fp, offset: -8, extra: 16 };
        assert_eq!(value(&[0x76, 0x78, 0x06, 0x23, 16], None), Some(extra));
        // Two steps through memory have no shape.
        assert_eq!(value(&[0x76, 0x78, 0x06, 0x06], None), None);
    }

    #[test]
    fn offsets_from_the_cfa() {
        let cfa = Value::Sum { base: Base::Cfa, offset: 0 };
        // plus_uconst 24; lit8; minus
        assert_eq!(value(&[0x23, 24, 0x38, 0x1c], Some(cfa)), Some(Value::Sum { base: Base::Cfa, offset: 16 }));
    }

    #[test]
    fn nonsense_has_no_value() {
        assert_eq!(value(&[], None), None);
        assert_eq!(value(&[0x22], None), None); // plus of nothing
        assert_eq!(value(&[0x30; 9], None), None); // deeper than the stack
        assert_eq!(value(&[0x96; 100], None), None); // too long
        assert_eq!(value(&[0x2f, 0xfd, 0xff], None), None); // skip -3: an endless loop
    }
}
