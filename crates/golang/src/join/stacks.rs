//! The stacks of a profile with what each allocates, apart by what its blocks are for.

use mallow_profile::{FrameId, Profile, Site, StackId};
use rustc_hash::FxHashMap;

use super::room::holds;
use super::seen::Seen;
use super::{AllocationLine, Call, Room};

/// Bytes of the blocks that Go's runtime lets small objects share.
const SMALL: u64 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub allocations: u64,
    pub bytes: u64,
    /// Blocks of [`SMALL`] bytes among them.
    pub small: u64,
}

impl Counts {
    /// The counts of a site. Small blocks are known only where all of its blocks have one size.
    pub fn of(counts: &mallow_profile::Counts) -> Self {
        let (allocations, bytes) = (counts.allocations, counts.allocated_bytes);
        let small = allocations.checked_mul(SMALL).is_some_and(|all| all == bytes);
        Self { allocations, bytes, small: if small { allocations } else { 0 } }
    }

    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            allocations: of(self.allocations, other.allocations),
            bytes: of(self.bytes, other.bytes),
            small: of(self.small, other.small),
        }
    }

    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    pub fn less(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    pub fn scaled(self, by: f64) -> Self {
        self.each(self, |n, _| (n as f64 * by).round() as u64)
    }
}

/// A frame with its inlined functions, the innermost first.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct FrameKey {
    pub address: u64,
    pub places: Vec<AllocationLine>,
    /// Use of the block by the map of the line that allocates.
    pub room: Room,
    /// The block is the runtime's own: the line makes no objects of its size.
    of_runtime: bool,
}

/// The frame of the line that allocates; none of what the runtime allocates for itself.
pub(super) fn leaf(stack: &[FrameKey], seen: &dyn Seen) -> Option<usize> {
    let at = stack.iter().position(|frame| frame.places.iter().any(|place| !seen.is_runtime(place)))?;
    (!stack[at].of_runtime).then_some(at)
}

/// Counts by stack; blocks of a map apart by their use, and blocks of the runtime's own apart, where the program can be
/// asked. The second of `asked`: a site may have blocks of several sizes.
pub(super) fn stacks(profile: &Profile, asked: Option<(&dyn Seen, bool)>) -> FxHashMap<Vec<FrameKey>, Counts> {
    let mut keys: FxHashMap<FrameId, FrameKey> = FxHashMap::default();
    let mut sites: Vec<(Vec<FrameKey>, &Site)> =
        profile.sites.iter().map(|site| (stack_of(profile, site.stack, &mut keys), site)).collect();
    if let Some((seen, mixed)) = asked {
        ask(&mut sites, seen, mixed);
    }
    let mut sums: FxHashMap<Vec<FrameKey>, Counts> = FxHashMap::default();
    for (stack, site) in sites {
        let sum = sums.entry(stack).or_default();
        *sum = sum.plus(Counts::of(&site.counts));
    }
    sums
}

/// Asks the program what the blocks of each site are for.
fn ask(sites: &mut [(Vec<FrameKey>, &Site)], seen: &dyn Seen, mixed: bool) {
    let mut calls: FxHashMap<u64, Option<Call>> = FxHashMap::default();
    // What makes objects of one size, by its address: the sites whose blocks have it, and those whose blocks have not.
    let mut sized: FxHashMap<u64, (Vec<usize>, Vec<usize>)> = FxHashMap::default();
    for (index, (stack, site)) in sites.iter_mut().enumerate() {
        let Some(frame) = leaf(stack, seen).and_then(|at| stack.get_mut(at)) else { continue };
        let Some(call) = calls.entry(frame.address).or_insert_with(|| seen.call(frame.address).1) else { continue };
        let (allocations, bytes) = (site.counts.allocations, site.counts.allocated_bytes);
        let of = call.of.as_ref();
        let map = of.and_then(|of| of.map).map(|map| map.room(allocations, bytes, mixed));
        frame.room = map.unwrap_or_default();
        if let Some(size) = call.size() {
            let (fitting, others) = sized.entry(frame.address).or_default();
            let holds = holds(size, of.is_some_and(|of| of.pointers), allocations, bytes);
            if holds { fitting.push(index) } else { others.push(index) }
        }
    }
    for (fitting, others) in sized.into_values() {
        // The collector that begins there, or is waited for, has records of its own; sizes that are not the program's
        // may be unknown here.
        for other in others {
            let beside = |fitting: &usize| sites[*fitting].1.stack == sites[other].1.stack;
            let known = if mixed { fitting.iter().any(beside) } else { !fitting.is_empty() };
            if let Some(at) = leaf(&sites[other].0, seen).filter(|_| known) {
                sites[other].0[at].of_runtime = true;
            }
        }
    }
}

pub(super) fn stack_of(profile: &Profile, stack: StackId, keys: &mut FxHashMap<FrameId, FrameKey>) -> Vec<FrameKey> {
    let frames = profile.stacks.frames(stack);
    frames.map(|id| keys.entry(id).or_insert_with(|| key(profile, id)).clone()).collect()
}

fn key(profile: &Profile, id: FrameId) -> FrameKey {
    let Some(frame) = profile.frames.get(id.0 as usize) else {
        return FrameKey { address: 0, places: Vec::new(), room: Room::default(), of_runtime: false };
    };
    let place = |line: &mallow_profile::Line| AllocationLine {
        function: profile.strings.get(line.function).to_owned(),
        file: line.file.map(|file| profile.strings.get(file).to_owned()).unwrap_or_default(),
        line: line.line,
    };
    // What is kept of a call is, in some profiles, the address behind it.
    let address = frame.address.saturating_sub(u64::from(!frame.exact));
    FrameKey { address, places: frame.lines.iter().map(place).collect(), room: Room::default(), of_runtime: false }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Known, Stack, profile};
    use super::super::{OperationSums, allocations, each};
    use super::*;

    /// A collection that begins on a line waits for others, with a record of 112 bytes.
    #[test]
    fn what_the_collector_has_for_itself_is_on_no_line() {
        const LARGE: u64 = 90_112;
        let stack: Stack = &[(500, "own.F"), (90, "testing.(*B).runN")];
        let other: Stack = &[(500, "own.F"), (501, "own.G"), (90, "testing.(*B).runN")];
        let rows = [(stack, 3000, 3000 * LARGE), (stack, 30, 30 * 112), (other, 3, 3 * 112)];
        let listed = each(&Profile::default(), &profile(&rows), 3000, &Known);
        let [line] = &listed.allocations[..] else { panic!("{listed:?}") };
        assert_eq!((line.allocations, line.bytes), (1.0, LARGE as f64));
        assert_eq!(listed.nowhere, OperationSums { allocations: 0.011, bytes: 33.0 * 112.0 / 3000.0 });
        // A profile may have one sum of all sizes by stack: only two of one stack show that it has not.
        let listed = allocations(&profile(&rows), &Known);
        assert_eq!((listed.allocations[0].allocations, listed.nowhere.allocations), (3003.0, 30.0));
        // A size that nothing confirms is the line's.
        let listed = each(&Profile::default(), &profile(&rows[1..]), 1, &Known);
        assert_eq!((listed.sum().allocations, listed.nowhere.allocations), (33.0, 0.0));
    }
}
