//! How many blocks a remedy needs, where several call paths lead to one line.

use mallow_profile::{Counts, Patterns};

use super::{one, sizes};
use crate::testing::{Builder, blocks};

/// Two calls of one line may have a block each at the same time.
#[test]
fn blocks_of_two_calls_of_a_line_need_two() {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    // The second is the same line, at another address; the third the same call again, from elsewhere.
    for frames in
        [&["f@a.c:5", "main@a.c:10"][..], &["f@a.c:05", "main@a.c:10"], &["f@a.c:5", "g@a.c:7", "main@a.c:11"]]
    {
        let patterns = Patterns { alternating: 30_000, ..sizes(5000, 5000) };
        b.site(process, frames, blocks(30_000, 5000, 0, 0)).patterns = patterns.into();
    }
    let remedy = "Keep one for each of 2 call paths outside of the loop; one for each of 3 call paths where they have one \
                  at once.";
    assert_eq!(one(&b.profile).remedy, remedy);
}

/// What a function makes for its callers may be live in each of them at once; what is gone before anything else is
/// allocated is not.
#[test]
fn blocks_that_callers_keep_need_one_for_each() {
    let of_temporary = |temporary: u64| {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        for caller in ["read@a.c:20", "parse@a.c:30", "plan@a.c:40"] {
            let counts = Counts { temporary, ..blocks(30_000, 40, 0, 0) };
            b.site(process, &["make_node@a.c:5", caller], counts).patterns =
                Patterns { alternating: 30_000, ..sizes(40, 40) }.into();
        }
        one(&b.profile).remedy
    };
    let one_block = "Keep one outside of the loop, or take one on the stack.";
    assert_eq!(of_temporary(30_000), one_block);
    let each = "Keep one outside of the loop, or take one on the stack; one for each of 3 call paths where they have one \
                at once.";
    assert_eq!(of_temporary(10_000), each);
}

/// A merge sort has a block at each level while the next one sorts its halves; a tree walk frees its block before it
/// goes down.
#[test]
fn blocks_of_a_recursion_need_one_at_each_level() {
    let of_levels = |helper: &[&str], temporary: u64| {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        for level in 1..=3 {
            let frames = [helper, &["sort@a.c:5"].repeat(level), &["main@a.c:10"]].concat();
            let counts = Counts { temporary, ..blocks(30_000, 5000, 0, 0) };
            b.site(process, &frames, counts).patterns = Patterns { alternating: 30_000, ..sizes(8, 20_000) }.into();
        }
        one(&b.profile).remedy
    };
    let each = "Keep one block for each of 3 call paths outside of the loop, as large as it has to be.";
    assert_eq!(of_levels(&[], 15_000), each);
    assert_eq!(of_levels(&["room_for@a.c:2"], 15_000), each, "by a function that each level calls");
    let one_block = "Keep one block outside of the loop, as large as it has to be.";
    assert_eq!(of_levels(&[], 30_000), one_block);
}
