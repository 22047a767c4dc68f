//! Where the branches of a module lead.

use mallow_arch::Flow;
use mallow_arch::instruction::Decoder;

/// Targets of all direct jumps of a piece of code, sorted. 16 bytes a jump. Calls are not among them.
///
/// Targets of indirect jumps (tables of `switch`) are not known: no compiler lays such a target into a prologue, but a
/// loop around a `switch` at the very entry of a function could have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// Pairs of a jump's target and its own address, sorted.
    all: Vec<(u64, u64)>,
}

impl Branches {
    /// Decodes `code`, which is at `address`, from its beginning to its end. Decoding starts anew at each of `starts`,
    /// the sorted addresses where functions begin, so that data between functions does not confuse it. About 10 ns a
    /// byte.
    pub fn of(code: &[u8], address: u64, starts: &[u64]) -> Self {
        let mut all = Vec::new();
        let end = address.saturating_add(code.len() as u64);
        let first = starts.partition_point(|&start| start <= address);
        let mut edges = starts[first..].iter().copied().take_while(|&start| start < end).chain([end]);
        let mut from = address;
        while from < end {
            let to = edges.next().unwrap_or(end);
            let bytes = &code[(from - address) as usize..(to - address) as usize];
            for instruction in Decoder::new(bytes, from) {
                let jumps = matches!(instruction.flow(), Flow::Jump | Flow::ConditionalJump | Flow::Transaction);
                if let Some(target) = instruction.target().filter(|_| jumps) {
                    all.push((target, instruction.address()));
                }
            }
            from = to;
        }
        all.sort_unstable();
        Self { all }
    }

    /// The jumps that lead to `from` or to a later address before `to`: target and source.
    pub fn jumps_into(&self, from: u64, to: u64) -> &[(u64, u64)] {
        let begin = self.all.partition_point(|&(target, _)| target < from);
        let end = self.all.partition_point(|&(target, _)| target < to);
        &self.all[begin..end.max(begin)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_found_by_their_targets() {
        // jmp +2; nop; nop; jne -4; call +0; ret
        let code = b"\xeb\x02\x90\x90\x75\xfc\xe8\x00\x00\x00\x00\xc3";
        let branches = Branches::of(code, 0x1000, &[]);
        assert_eq!(branches.jumps_into(0x1000, 0x2000), [(0x1002, 0x1004), (0x1004, 0x1000)]);
        assert_eq!(branches.jumps_into(0x1003, 0x1004), []);
        assert_eq!(branches.jumps_into(0x1004, 0x1003), []);
    }

    #[test]
    fn decoding_starts_anew_at_each_function() {
        // Two bytes of a longer instruction, then `jmp -2` at a function's start.
        let code = b"\x48\xb8\xeb\xfe\x90\x90\x90\x90\x90\x90\xc3";
        assert_eq!(Branches::of(code, 0x1000, &[]), Branches::default());
        assert_eq!(Branches::of(code, 0x1000, &[0x1000, 0x1002]).jumps_into(0, u64::MAX), [(0x1002, 0x1002)]);
    }
}
