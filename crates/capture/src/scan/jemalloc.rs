//! jemalloc's memory for itself, which is no root: caches of threads still have addresses of blocks that they handed
//! out.
//!
//! It comes in pieces that begin with a head (jemalloc 5, `src/base.c`: `base_block_t` and the extent in it), at
//! multiples of a huge page:
//!
//! | word | holds |
//! | --- | --- |
//! | 0 | size of the piece, huge pages |
//! | 1 | address of the piece before it; 0: it is the first |
//! | 2 | bits of the extent |
//! | 3 | where what is not used yet begins |
//! | 4 | how much that is: up to the end of the piece |

use super::Failure;
use super::memory::Memory;
use mallow_proc::Mapping;
use std::ops::Range;

const HUGE_PAGE: u64 = 2 << 20;
const HEAD: usize = 5;

/// The pieces that lie in a mapping, by address.
pub fn pieces(mapping: &Mapping, memory: &mut Memory<'_>) -> Result<Vec<Range<u64>>, Failure> {
    let mut found = Vec::new();
    if !mapping.is_anonymous() || !mapping.is_data() {
        return Ok(found);
    }
    let mut at = mapping.start.checked_next_multiple_of(HUGE_PAGE).unwrap_or(u64::MAX);
    while at < mapping.end {
        let head = memory.array(at, 0)?;
        let end = piece(at, head).filter(|&end| end <= mapping.end);
        found.extend(end.map(|end| at..end));
        at = end.unwrap_or(at.saturating_add(HUGE_PAGE));
    }
    Ok(found)
}

/// The pieces, and what lies between two of them and has blocks: jemalloc allocates from its own heap, as the arrays of
/// addresses in caches, before the first block there.
pub fn own(pieces: Vec<Range<u64>>, has_blocks: impl Fn(&Range<u64>) -> bool) -> Vec<Range<u64>> {
    let gaps = pieces.windows(2).map(|two| two[0].end..two[1].start);
    let between: Vec<_> = gaps.filter(|gap| gap.start < gap.end && has_blocks(gap)).collect();
    pieces.into_iter().chain(between).collect()
}

/// Where a piece ends that begins at `at` with this head; None: no piece has such a head.
fn piece(at: u64, [size, before, _, unused, left]: [u64; HEAD]) -> Option<u64> {
    let end = at.checked_add(size).filter(|_| size > 0 && size.is_multiple_of(HUGE_PAGE))?;
    let follows = before.is_multiple_of(HUGE_PAGE) && before != at;
    let fits = unused >= at + 8 * HEAD as u64 && unused.checked_add(left) == Some(end);
    (follows && fits).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::{HUGE_PAGE, own, piece};

    #[test]
    fn what_lies_between_two_pieces_and_has_blocks_is_its_own() {
        let pieces = vec![10..20, 20..30, 50..60, 80..90];
        let all = [10..20, 20..30, 50..60, 80..90, 30..50];
        assert_eq!(own(pieces, |gap| gap.start == 30), all);
        assert_eq!(own(Vec::new(), |_| true), []);
    }

    #[test]
    fn a_head_says_what_it_is() {
        const AT: u64 = 0x7f76_a7a0_0000;
        let end = AT + 2 * HUGE_PAGE;
        let head = [2 * HUGE_PAGE, AT - HUGE_PAGE, 0x1234, AT + 0x1_6980, end - AT - 0x1_6980];
        assert_eq!(piece(AT, head), Some(end));
        assert_eq!(piece(AT, [2 * HUGE_PAGE, 0, 0, end, 0]), Some(end), "the first one, used up");
        for (word, wrong) in [
            (0, 0),
            (0, 4096),
            (0, u64::MAX),
            (0, HUGE_PAGE),
            (1, AT),
            (1, 8),
            (3, AT),
            (3, end + 8),
            (4, 0),
            (4, u64::MAX),
        ] {
            let mut head = head;
            head[word] = wrong;
            assert_eq!(piece(AT, head), None, "{word}: {wrong:#x}");
        }
        assert_eq!(piece(AT, [0; 5]), None);
    }
}
