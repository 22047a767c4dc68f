//! The calling convention of Go's compiler, and what its code did before a call.

use iced_x86::{Code, FlowControl, Mnemonic, OpKind, Register};

use super::instruction::Instruction;

/// A register that holds an argument of a function of Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument(Register);

/// A register is loaded at most so many instructions before the call that gets it.
pub const BEFORE: usize = 40;

/// Number of instructions that [`shared_block_size`] takes.
pub const SHARED_BLOCK: usize = 5;

/// Address of the immediate operand that is the size of a shared block in `if offset+size <= limit && block != 0`: `cmp
/// $size, R; ja new; mov N(S), B; test B, B; je new`. None: the instructions are others.
pub fn shared_block_size(code: &[Instruction], limit: u64) -> Option<u64> {
    let [compare, above, load, test, none] = code else { return None };
    let [compare, above, load, test, none] = [compare.0, above.0, load.0, test.0, none.0];
    let is = compare.code() == Code::Cmp_rm64_imm8
        && compare.op0_kind() == OpKind::Register
        && compare.immediate8to64() == limit as i64
        && above.mnemonic() == Mnemonic::Ja
        && load.mnemonic() == Mnemonic::Mov
        && test.mnemonic() == Mnemonic::Test
        && none.mnemonic() == Mnemonic::Je
        && test.op0_register() == load.op0_register()
        && above.near_branch_target() == none.near_branch_target();
    // The number is the last byte.
    is.then(|| compare.next_ip() - 1)
}

/// The register in which a function of the runtime gets a type, by Go's calling convention.
pub fn type_argument(callee: &str) -> Option<Argument> {
    let register = match callee.strip_prefix("runtime.")? {
        "growslice" | "growsliceNoAlias" => Register::RSI,
        name if name.starts_with("mallocgc") => Register::RBX,
        "newobject" | "makeslice" | "makeslice64" | "makeslicecopy" | "newarray" | "makechan" | "makechan64"
        | "makemap" | "makemap64" | "convT" | "convTnoptr" => Register::RAX,
        name if name.starts_with("mapassign") => Register::RAX,
        _ => return None,
    };
    Some(Argument(register))
}

/// The register in which a function of the runtime gets how many elements a slice has room for.
pub fn elements_argument(callee: &str) -> Option<Argument> {
    matches!(callee, "runtime.makeslice" | "runtime.makeslice64").then_some(Argument(Register::RCX))
}

/// Whether the instruction's first operand is this register, or a part of it, and changes.
fn writes(instruction: &iced_x86::Instruction, register: Register) -> bool {
    instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == register
        && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push)
}

/// Whether the register is zero behind the instructions `before`: the last that changed it is `xor` with itself.
pub fn is_zero(before: &[Instruction], Argument(register): Argument) -> bool {
    let last = before.iter().rev().take(BEFORE).map(|one| &one.0);
    let mut straight = last.take_while(|one| one.flow_control() == FlowControl::Next);
    straight.find(|one| writes(one, register)).is_some_and(|one| {
        one.mnemonic() == Mnemonic::Xor
            && one.op1_kind() == OpKind::Register
            && one.op1_register().full_register() == register
    })
}

/// The address that a register was loaded with by the instructions `before`.
pub fn loaded(before: &[Instruction], Argument(mut register): Argument) -> Option<u64> {
    for Instruction(instruction) in before.iter().rev().take(BEFORE) {
        // What stands before a jump does not lead here, and a call leaves no register as it was.
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            _ => return None,
        }
        if !writes(instruction, register) {
            continue;
        }
        match instruction.mnemonic() {
            Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                return Some(instruction.ip_rel_memory_address());
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                register = instruction.op1_register().full_register();
            }
            _ => return None,
        }
    }
    None
}

/// The number that a register has at the instruction `at` of a function's whole code, whichever way leads there: only
/// what stands straight before it is read.
pub fn constant(code: &[Instruction], at: usize, Argument(mut register): Argument) -> Option<u64> {
    let leads_to = |address: u64| code.iter().any(|one| !one.is_call() && one.target() == Some(address));
    let mut behind = at;
    while let Some(before) = behind.checked_sub(1).filter(|before| at - before <= BEFORE) {
        if leads_to(code[behind].address()) {
            return None;
        }
        behind = before;
        let instruction = &code[before].0;
        if instruction.flow_control() != FlowControl::Next {
            return None;
        }
        if !writes(instruction, register) {
            continue;
        }
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => register = instruction.op1_register().full_register(),
            (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64) => {
                return Some(instruction.immediate(1));
            }
            (Mnemonic::Xor, OpKind::Register) if instruction.op1_register().full_register() == register => {
                return Some(0);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::instruction::Decoder;
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<Instruction> {
        Decoder::new(bytes, 0x1000).collect()
    }

    const LEA_RAX: &[u8] = &[0x48, 0x8d, 0x05, 0x10, 0, 0, 0]; // lea 0x10(%rip), %rax
    const LEA_RCX: &[u8] = &[0x48, 0x8d, 0x0d, 0x20, 0, 0, 0]; // lea 0x20(%rip), %rcx
    const RCX_TO_RAX: &[u8] = &[0x48, 0x89, 0xc8]; // mov %rcx, %rax
    const FROM_MEMORY: &[u8] = &[0x48, 0x8b, 0x44, 0x24, 8]; // mov 8(%rsp), %rax
    const CLEAR_EBX: &[u8] = &[0x31, 0xdb]; // xor %ebx, %ebx
    const TEST_RAX: &[u8] = &[0x48, 0x85, 0xc0]; // test %rax, %rax
    const JUMP: &[u8] = &[0xeb, 0]; // jmp
    const BRANCH: &[u8] = &[0x74, 0]; // je
    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0]; // call

    #[test]
    fn a_register_is_followed_to_the_address_that_it_was_loaded_with() {
        for (what, parts, expected) in [
            ("loaded", vec![LEA_RAX], Some(0x1017)),
            ("loaded before something else", vec![LEA_RAX, CLEAR_EBX, TEST_RAX], Some(0x1017)),
            ("moved", vec![LEA_RCX, RCX_TO_RAX], Some(0x1027)),
            ("the last counts", vec![LEA_RAX, LEA_RCX, RCX_TO_RAX], Some(0x102e)),
            ("branches may be passed", vec![LEA_RAX, BRANCH], Some(0x1017)),
            ("read from memory", vec![LEA_RAX, FROM_MEMORY], None),
            ("what is before a jump does not lead here", vec![LEA_RAX, JUMP], None),
            ("a call leaves no register as it was", vec![LEA_RAX, CALL], None),
            ("never", vec![LEA_RCX], None),
        ] {
            assert_eq!(loaded(&decoded(&parts.concat()), Argument(Register::RAX)), expected, "{what}");
        }
        let far = [LEA_RAX, &CLEAR_EBX.repeat(BEFORE)].concat();
        assert_eq!(loaded(&decoded(&far), Argument(Register::RAX)), None, "too far away");
    }

    #[test]
    fn a_register_that_is_cleared_is_zero() {
        for (what, parts, expected) in [
            ("cleared", vec![CLEAR_EBX, LEA_RAX], true),
            ("another one", vec![LEA_RAX], false),
            ("cleared before a jump leads here", vec![CLEAR_EBX, BRANCH], false),
            ("cleared before a call", vec![CLEAR_EBX, CALL], false),
        ] {
            assert_eq!(is_zero(&decoded(&parts.concat()), Argument(Register::RBX)), expected, "{what}");
        }
    }

    const TWO_TO_EBX: &[u8] = &[0xbb, 2, 0, 0, 0]; // mov $2, %ebx
    const RBX_TO_RCX: &[u8] = &[0x48, 0x89, 0xd9]; // mov %rbx, %rcx
    const FOUR_TO_ECX: &[u8] = &[0xb9, 4, 0, 0, 0]; // mov $4, %ecx
    const CLEAR_ECX: &[u8] = &[0x31, 0xc9]; // xor %ecx, %ecx
    const MORE_RCX: &[u8] = &[0x48, 0xff, 0xc1]; // inc %rcx

    #[test]
    fn a_number_that_a_register_has_whichever_way_leads_there() {
        let argument = elements_argument("runtime.makeslice").expect("a register");
        for (what, parts, expected) in [
            ("the same for both", vec![TWO_TO_EBX, RBX_TO_RCX, LEA_RAX, CALL], Some(2)),
            ("its own", vec![FOUR_TO_ECX, TWO_TO_EBX, CALL], Some(4)),
            ("none", vec![CLEAR_ECX, CALL], Some(0)),
            ("one more", vec![FOUR_TO_ECX, MORE_RCX, CALL], None),
            ("of another function", vec![FOUR_TO_ECX, CALL, LEA_RAX, CALL], None),
            ("passed by where a branch is taken", vec![FOUR_TO_ECX, BRANCH, CALL], None),
            ("never", vec![TWO_TO_EBX, CALL], None),
        ] {
            let code = decoded(&parts.concat());
            assert_eq!(constant(&code, code.len() - 1, argument), expected, "{what}");
        }
        // `if few { n = 4 } else { n = 2 }`: two ways lead to the call.
        let either = [FOUR_TO_ECX, &[0xeb, 5], &[0xb9, 2, 0, 0, 0], CALL].concat();
        let code = decoded(&either);
        assert_eq!(constant(&code, code.len() - 1, argument), None);
        let far = [FOUR_TO_ECX, &CLEAR_EBX.repeat(BEFORE), CALL].concat();
        let code = decoded(&far);
        assert_eq!(constant(&code, code.len() - 1, argument), None, "too far away");
    }

    #[test]
    fn registers_of_types() {
        for (callee, register) in [
            ("runtime.growslice", Some(Register::RSI)),
            ("runtime.mallocgcSmallNoscan", Some(Register::RBX)),
            ("runtime.newobject", Some(Register::RAX)),
            ("runtime.mapassign_fast64", Some(Register::RAX)),
            ("runtime.convTstring", None),
            ("main.newobject", None),
        ] {
            assert_eq!(type_argument(callee), register.map(Argument), "{callee}");
        }
    }

    #[test]
    fn where_small_objects_are_put_together() {
        let code = |size: u8, above: u8, none: u8, tested: u8| {
            let mut bytes = vec![0x48, 0x83, 0xf9, size]; // cmp $size, %rcx
            bytes.extend([0x77, above]); // ja new
            bytes.extend([0x48, 0x8b, 0x46, 0x10]); // mov 0x10(%rsi), %rax
            bytes.extend([0x48, 0x85, tested]); // test %rax, %rax
            bytes.extend([0x74, none]); // je new
            decoded(&bytes)
        };
        // Both jumps lead to 0x1020.
        assert_eq!(shared_block_size(&code(16, 0x1a, 0x11, 0xc0), 16), Some(0x1003));
        assert_eq!(shared_block_size(&code(8, 0x1a, 0x11, 0xc0), 16), None, "another size");
        assert_eq!(shared_block_size(&code(16, 0x1b, 0x11, 0xc0), 16), None, "they lead to two places");
        assert_eq!(shared_block_size(&code(16, 0x1a, 0x11, 0xdb), 16), None, "another register is looked at");
        assert_eq!(shared_block_size(&code(16, 0x1a, 0x11, 0xc0)[..4], 16), None);
    }
}
