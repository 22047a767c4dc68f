//! Where Go's runtime calls C code: `runtime.asmcgocall` leaves the goroutine's stack for its thread's, which no rule
//! for a register can follow.
//!
//! It puts the goroutine (`g`) on the thread's stack, and how far below the top of the goroutine's stack it was
//! (`depth`). Which words these are differs between versions of Go: the code shows it. A call from the thread's own
//! stack keeps the stack pointer.
//!
//! ```text
//! push %rbp; mov %rsp,%rbp … mov %rsp,%rdx …
//!   mov %rdi,8(%rsp)            g
//!   mov 8(%rdi),%rdi            the top of its stack
//!   sub %rdx,%rdi
//!   mov %rdi,(%rsp)             depth
//!   call …
//! …
//!   movq $0,8(%rsp)             no goroutine
//!   mov %rdx,(%rsp)             the stack pointer
//!   call …
//! ```

use memchr::memmem;

use super::rule::*;

const ENTRY: &[u8] = b"\x55\x48\x89\xe5"; // push %rbp; mov %rsp,%rbp
const DEPTH: &[u8] = b"\x48\x8b\x7f\x08\x48\x29\xd7"; // mov 8(%rdi),%rdi; sub %rdx,%rdi
const STACK_POINTER: &[u8] = b"\x48\x89\xe2"; // mov %rsp,%rdx
/// Bytes that the function has at the most on either side.
const REACH: usize = 256;

pub struct Call {
    /// Link-time address behind the call.
    pub return_address: u64,
    pub rule: Rule,
}

/// All calls of C code that Go's runtime makes in some code, which lies at `start`.
pub fn calls(code: &[u8], start: u64) -> Vec<Call> {
    memmem::find_iter(code, DEPTH).filter_map(|at| of_function(code, start, at)).flatten().collect()
}

/// Calls of the function whose [`DEPTH`] lies at `at`.
fn of_function(code: &[u8], start: u64, at: usize) -> Option<Vec<Call>> {
    let before = code.get(at.saturating_sub(REACH)..at)?;
    let entry = memmem::rfind(before, ENTRY)?;
    memmem::find(before.get(entry..)?, STACK_POINTER)?;
    let (goroutine, store) = store(before.get(before.len().checked_sub(5)?..)?, Register::Rdi)?;
    let behind = at + DEPTH.len();
    let (depth, stored) = self::store(code.get(behind..)?, Register::Rdi)?;
    let end = call_end(code, behind + stored)?;
    let rule = |cfa_kind, offset, extra| Rule {
        cfa_kind,
        cfa_reg: CFA_SP,
        kind: std::array::from_fn(|which| if matches!(which, FP | RA) { SAVED_AT_CFA } else { SAVED_UNDEFINED }),
        cfa_offset: offset,
        cfa_extra: extra,
        offset: std::array::from_fn(|which| match which {
            FP => 2 * RETURN_SLOT,
            RA => RETURN_SLOT,
            _ => 0,
        }),
        ..Rule::NONE
    };
    let call = |end: usize, rule| Call { return_address: start + end as u64, rule };
    let mut calls = vec![call(end, rule(CFA_GOROUTINE, goroutine, depth))];
    calls.extend(from_own_stack(code, end).map(|(end, saved)| call(end, rule(CFA_DEREF, saved, -2 * RETURN_SLOT))));
    (store == 5).then_some(calls)
}

/// The call from the thread's own stack that follows: its end, and where the stack pointer lies.
fn from_own_stack(data: &[u8], from: usize) -> Option<(usize, i32)> {
    let rest = data.get(from..data.len().min(from + REACH))?;
    // movq $0,N(%rsp)
    let zero = memmem::find(rest, b"\x48\xc7\x44\x24").filter(|at| rest.get(at + 5..at + 9) == Some(&[0; 4]))?;
    let (saved, stored) = store(rest.get(zero + 9..)?, Register::Rdx)?;
    Some((call_end(data, from + zero + 9 + stored)?, saved))
}

#[derive(Clone, Copy)]
enum Register {
    Rdx = 2,
    Rdi = 7,
}

/// `mov REGISTER,N(%rsp)`, with N from 0 to 127: N, and the bytes of the instruction.
fn store(code: &[u8], register: Register) -> Option<(i32, usize)> {
    let modrm = 0x04 | (register as u8) << 3;
    match *code.first_chunk::<5>()? {
        [0x48, 0x89, mode, 0x24, _] if mode == modrm => Some((0, 4)),
        [0x48, 0x89, mode, 0x24, offset @ 0..=0x7f] if mode == modrm | 0x40 => Some((offset.into(), 5)),
        _ => None,
    }
}

/// The end of a call that follows at once, or behind moves of its argument out of rbx.
fn call_end(data: &[u8], mut at: usize) -> Option<usize> {
    while data.get(at..)?.starts_with(b"\x48\x89\xdf") || data.get(at..)?.starts_with(b"\x48\x89\xd9") {
        at += 3;
    }
    match data.get(at..)? {
        [0xe8, ..] => Some(at + 5).filter(|&end| end <= data.len()),
        [0xff, 0xd0, ..] => Some(at + 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `runtime.asmcgocall` of Go 1.26, from its beginning to the end of the second call.
    const FUNCTION: &str = "55 4889e5 64488b3c25f8ffffff 4883ff00 7470 4c8b4730 498b7048 4839f7 7463 498b30 4839f7 745b 488b442410 \
                            488b5c2418 4889e2 e846daffff 6448893425f8ffffff 488b6638 4883ec10 4883e4f0 48897c2408 488b7f08 \
                            4829d7 48893c24 e87cffffff 488b7c2408 488b7708 482b3424 6448893c25f8ffffff 4889f4 89442420 5d c3 \
                            488b442410 488b5c2418 4889e2 4883ec10 4883e4f0 48c744240800000000 48891424 e836ffffff";

    fn bytes(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("a byte")).collect()
    }

    #[test]
    fn both_calls_of_the_function_have_a_rule() {
        let code = bytes(FUNCTION);
        let found = calls(&code, 0x47_ea20);
        let [other, own] = &found[..] else { panic!("{} calls", found.len()) };
        assert_eq!((other.return_address, own.return_address), (0x47_ea84, 0x47_eaca));
        assert_eq!((other.rule.cfa_kind, other.rule.cfa_offset, other.rule.cfa_extra), (CFA_GOROUTINE, 8, 0));
        assert_eq!((own.rule.cfa_kind, own.rule.cfa_offset, own.rule.cfa_extra), (CFA_DEREF, 0, 16));
        assert!(found.iter().all(|call| call.rule.is_valid() && call.rule.quick().is_none()));
    }

    #[test]
    fn other_words_on_the_stack_are_those_of_the_code() {
        let code =
            bytes(&FUNCTION.replace("48897c2408 488b7f08", "48897c2430 488b7f08").replace("48893c24", "48897c2428"));
        let found = calls(&code, 0);
        assert_eq!((found[0].rule.cfa_offset, found[0].rule.cfa_extra), (0x30, 0x28));
    }

    #[test]
    fn code_that_is_cut_or_damaged_has_no_rule_that_was_not_read() {
        let code = bytes(FUNCTION);
        for end in 0..code.len() {
            let found = calls(&code[..end], 0);
            assert!(found.iter().all(|call| call.return_address <= end as u64), "{end}");
        }
        for at in 0..code.len() {
            let mut damaged = code.clone();
            damaged[at] ^= 0x40;
            for call in calls(&damaged, u64::MAX - 0x400) {
                assert!(call.rule.is_valid() && (0..=127).contains(&call.rule.cfa_offset), "{at}");
            }
        }
    }
}
