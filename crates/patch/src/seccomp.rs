//! What a seccomp filter answers to a system call of which not all is known.
//!
//! Filters are programs of classic BPF over `struct seccomp_data` (linux/seccomp.h): the call's number, the processor,
//! the address of the instruction and six arguments. A word that is not known here makes both branches of a test
//! possible, and the worst answer counts. So does a program that is not understood.

use libc::{
    BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_DIV, BPF_IMM, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K,
    BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MUL, BPF_NEG, BPF_OR, BPF_RET, BPF_RSH, BPF_ST, BPF_STX,
    BPF_SUB, BPF_W, BPF_X, BPF_XOR,
};
use mallow_arch::machine::AUDIT;

/// Operations of linux/filter.h: the accumulator is returned; it is copied to the other register, and back.
const BPF_A: u32 = 0x10;
const BPF_TAX: u32 = 0x00;
const BPF_TXA: u32 = 0x80;

/// Instructions that are followed at the most: each test of an unknown word doubles the ways through a filter.
const STEPS: u32 = 1 << 16;

const DATA: u32 = 64;

/// `struct sock_filter` of linux/filter.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    pub code: u16,
    /// Instructions that are skipped where a test holds.
    pub jt: u8,
    /// Instructions that are skipped where a test does not hold.
    pub jf: u8,
    pub k: u32,
}

/// A system call that a process would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    pub name: &'static str,
    /// The call's number on this processor.
    pub number: i64,
    /// The call's arguments. None: not known.
    pub arguments: [Option<u64>; 6],
}

/// A filter's answer to a call, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// The call is made, perhaps with a note in the kernel's log.
    Allowed,
    /// The call fails, and nothing else happens.
    Fails,
    /// The process or the thread may be killed, may get a signal, or another process decides.
    Forbidden,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

/// Between two instructions. None: a value is not known.
#[derive(Clone, Copy)]
struct Machine {
    at: usize,
    a: Option<u32>,
    x: Option<u32>,
    memory: [Option<u32>; 16],
}

enum Next {
    To(Machine),
    Either(Machine, Machine),
    Ends(Answer),
}

impl Filter {
    pub fn new(instructions: Vec<Instruction>) -> Self {
        Self(instructions)
    }

    /// The mildest and the worst that it may answer to this call.
    pub fn answers(&self, call: &SystemCall) -> (Answer, Answer) {
        let mut open = vec![Machine { at: 0, a: Some(0), x: Some(0), memory: [None; 16] }];
        let (mut mildest, mut worst, mut steps) = (Answer::Forbidden, Answer::Allowed, 0);
        while let Some(mut machine) = open.pop() {
            loop {
                steps += 1;
                if steps > STEPS {
                    return (mildest, Answer::Forbidden);
                }
                match self.step(machine, call) {
                    Next::To(next) => machine = next,
                    Next::Either(one, other) => {
                        open.push(other);
                        machine = one;
                    }
                    Next::Ends(answer) => {
                        mildest = mildest.min(answer);
                        worst = worst.max(answer);
                        break;
                    }
                }
            }
        }
        (mildest, worst)
    }

    fn step(&self, mut machine: Machine, call: &SystemCall) -> Next {
        // Jumps lead forwards alone, so this ends.
        let Some(&Instruction { code, jt, jf, k }) = self.0.get(machine.at) else {
            return Next::Ends(Answer::Forbidden);
        };
        machine.at += 1;
        let code = u32::from(code);
        let is_register = code & BPF_X != 0;
        match code & 7 {
            BPF_LD if code == BPF_LD | BPF_W | BPF_ABS && k <= DATA - 4 && k.is_multiple_of(4) => {
                machine.a = word(call, k)
            }
            BPF_LD | BPF_LDX if code & !1 == BPF_LD | BPF_W | BPF_LEN => set(&mut machine, code, Some(DATA)),
            BPF_LD | BPF_LDX if code & !1 == BPF_LD | BPF_IMM => set(&mut machine, code, Some(k)),
            BPF_LD | BPF_LDX if code & !1 == BPF_LD | BPF_MEM => {
                let Some(&kept) = machine.memory.get(k as usize) else { return Next::Ends(Answer::Forbidden) };
                set(&mut machine, code, kept);
            }
            BPF_ST | BPF_STX => {
                let value = if code & 7 == BPF_ST { machine.a } else { machine.x };
                let Some(kept) = machine.memory.get_mut(k as usize) else { return Next::Ends(Answer::Forbidden) };
                *kept = value;
            }
            BPF_ALU => {
                let operand = if is_register { machine.x } else { Some(k) };
                match calculate(code & 0xf0, machine.a, operand) {
                    Some(value) => machine.a = value,
                    None => return Next::Ends(Answer::Forbidden),
                }
            }
            BPF_JMP if code & 0xf0 == BPF_JA => machine.at = machine.at.saturating_add(k as usize),
            BPF_JMP => {
                let operand = if is_register { machine.x } else { Some(k) };
                let to = |skipped: u8| Machine { at: machine.at + usize::from(skipped), ..machine };
                let (Some(a), Some(b)) = (machine.a, operand) else { return Next::Either(to(jt), to(jf)) };
                let holds = match code & 0xf0 {
                    BPF_JEQ => a == b,
                    BPF_JGT => a > b,
                    BPF_JGE => a >= b,
                    BPF_JSET => a & b != 0,
                    _ => return Next::Ends(Answer::Forbidden),
                };
                return Next::To(to(if holds { jt } else { jf }));
            }
            BPF_RET => {
                let value = match code & 0x18 {
                    BPF_K => Some(k),
                    BPF_A => machine.a,
                    _ => None,
                };
                return Next::Ends(value.map_or(Answer::Forbidden, meaning));
            }
            BPF_MISC if code & 0xf8 == BPF_TAX => machine.x = machine.a,
            BPF_MISC if code & 0xf8 == BPF_TXA => machine.a = machine.x,
            _ => return Next::Ends(Answer::Forbidden),
        }
        Next::To(machine)
    }
}

/// `BPF_LD` sets the accumulator, `BPF_LDX` the other register.
fn set(machine: &mut Machine, code: u32, value: Option<u32>) {
    match code & 7 == BPF_LDX {
        true => machine.x = value,
        false => machine.a = value,
    }
}

/// The word at offset `at` of `struct seccomp_data`. None: not known.
fn word(call: &SystemCall, at: u32) -> Option<u32> {
    match at {
        0 => Some(call.number as u32),
        4 => Some(AUDIT),
        // Where the instruction is.
        8 | 12 => None,
        _ => {
            let argument = (*call.arguments.get((at as usize - 16) / 8)?)?;
            Some(if at.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 })
        }
    }
}

/// None: no such operation, or one that the kernel ends the filter for. The inner None: not known.
fn calculate(operation: u32, a: Option<u32>, b: Option<u32>) -> Option<Option<u32>> {
    let (a, b) = match (a, b) {
        (Some(a), _) if operation == BPF_NEG => return Some(Some(a.wrapping_neg())),
        (Some(a), Some(b)) => (a, b),
        // By 0, the filter ends.
        _ if operation == BPF_DIV && b.is_none() => return None,
        _ => return Some(None),
    };
    Some(Some(match operation {
        BPF_ADD => a.wrapping_add(b),
        BPF_SUB => a.wrapping_sub(b),
        BPF_MUL => a.wrapping_mul(b),
        BPF_DIV => a.checked_div(b)?,
        BPF_AND => a & b,
        BPF_OR => a | b,
        BPF_XOR => a ^ b,
        BPF_LSH => a.checked_shl(b)?,
        BPF_RSH => a.checked_shr(b)?,
        _ => return None,
    }))
}

/// Answer of a `SECCOMP_RET_*` value; an action that is not known here is the worst.
fn meaning(returned: u32) -> Answer {
    match returned & libc::SECCOMP_RET_ACTION_FULL {
        libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG => Answer::Allowed,
        libc::SECCOMP_RET_ERRNO => Answer::Fails,
        _ => Answer::Forbidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u32 = 0;
    const FIRST: u32 = 16;
    const ALLOW: Instruction = ends(libc::SECCOMP_RET_ALLOW);
    const REFUSE: Instruction = ends(libc::SECCOMP_RET_ERRNO | 1);
    const KILL: Instruction = ends(libc::SECCOMP_RET_KILL_PROCESS);

    const fn one(code: u32, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code: code as u16, jt, jf, k }
    }
    const fn ends(k: u32) -> Instruction {
        one(BPF_RET | BPF_K, 0, 0, k)
    }
    const fn load(at: u32) -> Instruction {
        one(BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
    }
    const fn equal(k: u32, jt: u8, jf: u8) -> Instruction {
        one(BPF_JMP | BPF_JEQ | BPF_K, jt, jf, k)
    }
    fn answer(filter: &[Instruction], number: i64, first: Option<u64>) -> Answer {
        let arguments = [first, None, None, None, None, None];
        Filter::new(filter.to_vec()).answers(&SystemCall { name: "", number, arguments }).1
    }

    #[test]
    fn the_number_decides() {
        let filter = [load(NUMBER), equal(7, 0, 1), REFUSE, equal(8, 0, 1), KILL, ALLOW];
        assert_eq!(answer(&filter, 7, None), Answer::Fails);
        assert_eq!(answer(&filter, 8, None), Answer::Forbidden);
        assert_eq!(answer(&filter, 9, None), Answer::Allowed);
        assert_eq!(answer(&[load(4), equal(AUDIT, 0, 1), ALLOW, KILL], 0, None), Answer::Allowed);
    }

    /// As libseccomp tests an argument: its upper half and then its lower one.
    #[test]
    fn an_unknown_argument_gets_the_worst_answer() {
        let filter = [load(FIRST + 4), equal(1, 0, 3), load(FIRST), equal(2, 0, 1), KILL, ALLOW];
        assert_eq!(answer(&filter, 0, Some(1 << 32 | 2)), Answer::Forbidden);
        assert_eq!(answer(&filter, 0, Some(2)), Answer::Allowed);
        assert_eq!(answer(&filter, 0, None), Answer::Forbidden);
        let mild = [load(FIRST), equal(1, 0, 1), REFUSE, ALLOW];
        assert_eq!(answer(&mild, 0, None), Answer::Fails);
        // Where the instruction is, nobody knows.
        assert_eq!(answer(&[load(8), equal(1, 0, 1), REFUSE, ALLOW], 0, None), Answer::Fails);
        let call = SystemCall { name: "", number: 0, arguments: [None; 6] };
        assert_eq!(Filter::new(mild.to_vec()).answers(&call), (Answer::Allowed, Answer::Fails));
        // A test that both sides of allow.
        assert_eq!(answer(&[load(FIRST), equal(1, 0, 1), ALLOW, ALLOW], 0, None), Answer::Allowed);
    }

    #[test]
    fn arithmetic_and_memory_are_followed() {
        let masked = |operation, k| one(BPF_ALU | operation | BPF_K, 0, 0, k);
        let filter = [load(FIRST), masked(BPF_AND, 0xf0), masked(BPF_RSH, 4), equal(3, 0, 1), ALLOW, KILL];
        assert_eq!(answer(&filter, 0, Some(0x133)), Answer::Allowed);
        assert_eq!(answer(&filter, 0, Some(0x143)), Answer::Forbidden);
        let kept = [
            load(NUMBER),
            one(BPF_ST, 0, 0, 3),
            one(BPF_LD | BPF_IMM, 0, 0, 0),
            one(BPF_LDX | BPF_MEM, 0, 0, 3),
            one(BPF_MISC | BPF_TXA, 0, 0, 0),
            equal(5, 0, 1),
            ALLOW,
            KILL,
        ];
        assert_eq!(answer(&kept, 5, None), Answer::Allowed);
        assert_eq!(answer(&kept, 6, None), Answer::Forbidden);
        assert_eq!(answer(&[load(NUMBER), one(BPF_RET | BPF_A, 0, 0, 0)], 0x7fff_0000, None), Answer::Allowed);
    }

    /// A way through that doubles with each test is not followed for ever, and nonsense is no permission.
    #[test]
    fn what_is_not_understood_is_forbidden() {
        let mut endless: Vec<_> = (0..4000).flat_map(|_| [load(FIRST), equal(1, 0, 0)]).collect();
        endless.push(ALLOW);
        assert_eq!(answer(&endless, 0, None), Answer::Forbidden);
        for bad in [
            vec![],
            vec![load(NUMBER)],
            vec![load(64), ALLOW],
            vec![load(1), ALLOW],
            vec![one(BPF_JMP | BPF_JA, 0, 0, u32::MAX), ALLOW],
            vec![one(BPF_ST, 0, 0, 16), ALLOW],
            vec![one(BPF_LD | BPF_MEM, 0, 0, u32::MAX), ALLOW],
            vec![one(BPF_ALU | BPF_DIV | BPF_K, 0, 0, 0), ALLOW],
            vec![one(BPF_ALU | BPF_LSH | BPF_K, 0, 0, 32), ALLOW],
            vec![one(0xffff, 0, 0, 0), ALLOW],
            vec![ends(libc::SECCOMP_RET_TRACE)],
            vec![ends(0x7fc0_0000 /* SECCOMP_RET_USER_NOTIF */)],
            vec![ends(libc::SECCOMP_RET_TRAP)],
        ] {
            assert_eq!(answer(&bad, 0, None), Answer::Forbidden, "{bad:?}");
        }
    }
}
