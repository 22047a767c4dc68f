//! What joining a profile asks of the program and its sources.

use std::ops::Range;

use super::{AllocationLine, Appended, Call, Part};

/// Questions to a program and its sources.
pub trait Seen {
    /// Link-time address and call of a frame.
    fn call(&self, frame: u64) -> (u64, Option<Call>);
    /// The calls on the line of a link-time address, through the same inlined calls, that put a value into an interface
    /// or into a block of its own, in the order of code. Empty where the program does not show them.
    fn calls_of_line(&self, address: u64) -> Vec<(Range<u64>, Call)>;
    /// The function at a link-time address, as the program's symbols name it.
    fn symbol(&self, address: u64) -> Option<String>;
    /// The place is a part of the runtime, and no allocating line of anybody's.
    fn is_runtime(&self, place: &AllocationLine) -> bool;
    /// Part of the benchmark that a line of its function belongs to.
    fn part(&self, benchmark: &AllocationLine) -> Part;
    /// Whether a line of a benchmark's function is in its loop over operations; false where no source shows it.
    fn is_in_loop(&self, benchmark: &AllocationLine) -> bool;
    fn appended(&self, place: &AllocationLine) -> Appended;
    /// The map that the place's line assigns to is its function's own, and gone when that returns.
    fn in_own_map(&self, place: &AllocationLine) -> bool;
    /// The place is in the program's own code, not in a library's.
    fn is_own(&self, place: &AllocationLine) -> bool;
}
