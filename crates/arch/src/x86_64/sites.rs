//! Calls and jumps to given functions, found without decoding.

use memchr::memchr2_iter;

/// `call` and `jmp` with a displacement of 32 bits (Intel SDM, volume 2).
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
const LENGTH: usize = 5;

/// The addresses of calls and jumps to these targets, in code that lies at `start`. Data that looks like such an
/// instruction counts as one.
pub fn sites(code: &[u8], start: u64, targets: &[u64]) -> Vec<u64> {
    let is_site = |at: &usize| {
        let displacement = code.get(at + 1..at + LENGTH).and_then(|bytes| bytes.first_chunk::<4>());
        displacement.is_some_and(|bytes| {
            let next = start.wrapping_add((at + LENGTH) as u64);
            targets.contains(&next.wrapping_add_signed(i32::from_le_bytes(*bytes).into()))
        })
    };
    memchr2_iter(CALL, JUMP, code).filter(is_site).map(|at| start.wrapping_add(at as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_jumps_are_found_at_the_addresses_that_they_reach() {
        // At 0x1000: nop; call 0x1100; nop; jmp 0x1100; call 0x1101
        let mut code = vec![0x90, CALL, 0xfa, 0, 0, 0, 0x90, JUMP, 0xf4, 0, 0, 0, CALL, 0xf0, 0, 0, 0];
        assert_eq!(sites(&code, 0x1000, &[0x1100]), [0x1001, 0x1007]);
        code.truncate(10);
        assert_eq!(sites(&code, 0x1000, &[0x1100]), [0x1001]);
        // Behind what calls it.
        assert_eq!(sites(&[CALL, 0xf9, 0xff, 0xff, 0xff], 0x1002, &[0x1000]), [0x1002]);
    }
}
