//! The stacks that a baseline sums up, because each of them allocates little.

use serde::{Deserialize, Serialize};

use super::stacks::{Change, Difference, SiteCount, difference};

/// The sum of the stacks that a baseline does not keep one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Number of the stacks that are summed up.
    pub stacks: u64,
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Most allocations that one of the stacks has.
    pub largest_allocations: u64,
    /// Most requested bytes that one of the stacks has.
    pub largest_bytes: u64,
}

impl Rest {
    pub fn add(&mut self, site: &SiteCount) {
        self.stacks += 1;
        self.allocations = self.allocations.saturating_add(site.allocations);
        self.allocated_bytes = self.allocated_bytes.saturating_add(site.allocated_bytes);
        self.largest_allocations = self.largest_allocations.max(site.allocations);
        self.largest_bytes = self.largest_bytes.max(site.allocated_bytes);
    }

    pub fn is_none(&self) -> bool {
        self.stacks == 0
    }

    /// Whether a stack without a pair may be one that is summed up here: it is not larger than the largest of them.
    fn may_hold(&self, difference: &Difference) -> bool {
        difference.change == Change::New
            && difference.now <= self.largest_allocations
            && difference.bytes_now <= self.largest_bytes
    }
}

/// Sums of the stacks that the baseline has only as a sum, and of those of this run that may be among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Smaller {
    /// Stacks that the baseline has only as a sum.
    pub stacks_before: u64,
    /// Stacks of this run without a pair in the baseline that are not larger than those.
    pub stacks_now: u64,
    /// Sum of the allocations of the stacks in `stacks_before`.
    pub before: u64,
    /// Sum of the allocations of the stacks in `stacks_now`.
    pub now: u64,
    /// Sum of the requested bytes of the stacks in `stacks_before`.
    pub bytes_before: u64,
    /// Sum of the requested bytes of the stacks in `stacks_now`.
    pub bytes_now: u64,
}

impl Smaller {
    pub fn allocations(&self) -> i64 {
        self.now.wrapping_sub(self.before) as i64
    }

    pub fn bytes(&self) -> i64 {
        self.bytes_now.wrapping_sub(self.bytes_before) as i64
    }
}

/// Lists the stacks whose numbers differ, and sums up those that are too small to tell whether they do; None where the
/// baseline sums up nothing. List and sum together are the difference of the totals.
pub fn difference_with_rest(
    before: &[SiteCount],
    rest: &Rest,
    now: &[SiteCount],
) -> (Vec<Difference>, Option<Smaller>) {
    let differences = difference(before, now);
    if rest.is_none() {
        return (differences, None);
    }
    let (small, differences): (Vec<_>, Vec<_>) = differences.into_iter().partition(|one| rest.may_hold(one));
    let mut smaller = Smaller {
        stacks_before: rest.stacks,
        before: rest.allocations,
        bytes_before: rest.allocated_bytes,
        ..Smaller::default()
    };
    for one in &small {
        smaller.stacks_now += 1;
        smaller.now = smaller.now.saturating_add(one.now);
        smaller.bytes_now = smaller.bytes_now.saturating_add(one.bytes_now);
    }
    (differences, Some(smaller))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(stack: &[&str], allocations: u64) -> SiteCount {
        let stack = stack.iter().map(|step| (*step).to_owned()).collect();
        SiteCount { stack, allocations, allocated_bytes: 8 * allocations }
    }

    #[test]
    fn small_stacks_are_one_sum_and_larger_ones_are_new() {
        let before = [site(&["a", "main"], 100)];
        let mut rest = Rest::default();
        for small in [site(&["b", "main"], 3), site(&["c", "main"], 2)] {
            rest.add(&small);
        }
        let now =
            [site(&["a", "main"], 101), site(&["b", "main"], 3), site(&["d", "main"], 3), site(&["e", "main"], 4)];
        let (differences, smaller) = difference_with_rest(&before, &rest, &now);
        let listed: Vec<_> = differences.iter().map(|d| (d.stack[0].as_str(), d.change, d.allocations())).collect();
        assert_eq!(listed, [("e", Change::New, 4), ("a", Change::Changed, 1)]);
        let smaller = smaller.expect("a sum");
        assert_eq!((smaller.stacks_before, smaller.stacks_now, smaller.allocations(), smaller.bytes()), (2, 2, 1, 8));
        let all = differences.iter().map(Difference::allocations).sum::<i64>() + smaller.allocations();
        assert_eq!(all, 111 - 105);
        assert_eq!(difference_with_rest(&before, &Rest::default(), &now).1, None);
    }
}
