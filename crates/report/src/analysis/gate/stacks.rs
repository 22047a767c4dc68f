//! The stacks behind a figure, and which of them made it another one.
//!
//! Stacks are told by what stays the same of their functions from build to build ([`crate::analysis::diff::Rule`]).
//! Functions that only pass the request on count too: a vector that grows where it did not is another stack.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mallow_profile::Profile;
use serde::{Deserialize, Serialize};

use crate::analysis::diff::{Rules, function};
use crate::analysis::functions::Functions;
use crate::analysis::overview::by_stack;

/// A stack and what was allocated there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteCount {
    /// Functions, the innermost first, with a place where one is known: `parse (parser.c:12)`.
    pub stack: Vec<String>,
    /// Allocations.
    pub allocations: u64,
    /// Their requested bytes.
    pub allocated_bytes: u64,
}

impl SiteCount {
    /// What stays the same from build to build.
    fn key(&self) -> Vec<Cow<'_, str>> {
        self.stack.iter().filter_map(|step| function_of(step)).collect()
    }
}

/// What stays the same of the function of a step; None where nothing does.
fn function_of(step: &str) -> Option<Cow<'_, str>> {
    let place =
        |at: usize| step[at..step.len() - 1].rsplit_once(':').is_some_and(|(_, line)| line.parse::<u32>().is_ok());
    let open = step.ends_with(')').then(|| step.rfind(" (")).flatten().filter(|&at| place(at));
    function(open.map_or(step, |at| &step[..at]), Rules::ALL)
}

/// The sites of a profile, the largest first, those of equal names as one. Files below `base`, a directory without a
/// slash at its end, are named by their way from there, others by their names alone.
pub fn sites(profile: &Profile, base: &str) -> Vec<SiteCount> {
    let functions = Functions::new(profile);
    let mut sums: BTreeMap<Vec<String>, (SiteCount, u64)> = BTreeMap::new();
    for (stack, counts) in by_stack(profile) {
        if counts.allocations == 0 {
            continue;
        }
        let steps = functions.stack(stack).frames.into_iter().map(|frame| match (&frame.file, frame.line) {
            (Some(file), Some(line)) => {
                let below = file.strip_prefix(base).and_then(|rest| rest.strip_prefix('/'));
                let file = below.unwrap_or_else(|| file.rsplit('/').next().unwrap_or(file));
                format!("{} ({file}:{line})", frame.function)
            }
            _ => frame.function,
        });
        let site = SiteCount {
            stack: steps.collect(),
            allocations: counts.allocations,
            allocated_bytes: counts.allocated_bytes,
        };
        let key = site.key().into_iter().map(Cow::into_owned).collect();
        let (sum, largest) = sums.entry(key).or_default();
        // The lines that are shown are those of the largest one.
        if site.allocations > *largest {
            *largest = site.allocations;
            sum.stack.clone_from(&site.stack);
        }
        sum.allocations += site.allocations;
        sum.allocated_bytes += site.allocated_bytes;
    }
    let mut sites: Vec<_> = sums.into_values().map(|(sum, _)| sum).collect();
    sites.sort_by(|a, b| b.allocations.cmp(&a.allocations).then_with(|| a.stack.cmp(&b.stack)));
    sites
}

/// How a stack changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was not there before.
    New,
    /// It is there no more.
    Gone,
    /// Its numbers changed.
    Changed,
}

/// A stack whose numbers are not what they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How.
    pub change: Change,
    /// As it is now, or was where it is gone.
    pub stack: Vec<String>,
    /// Allocations before and now.
    pub before: u64,
    /// See `before`.
    pub now: u64,
    /// Requested bytes before and now.
    pub bytes_before: u64,
    /// See `bytes_before`.
    pub bytes_now: u64,
}

impl Difference {
    /// Allocations more than before.
    pub fn allocations(&self) -> i64 {
        self.now.wrapping_sub(self.before) as i64
    }

    /// Requested bytes more than before.
    pub fn bytes(&self) -> i64 {
        self.bytes_now.wrapping_sub(self.bytes_before) as i64
    }
}

/// All stacks whose numbers differ, the largest change first. Their sums are the difference of the totals.
pub fn difference(before: &[SiteCount], now: &[SiteCount]) -> Vec<Difference> {
    type Pair<'a> = (Option<&'a [String]>, [u64; 2], [u64; 2]);
    let mut pairs: BTreeMap<Vec<Cow<str>>, Pair> = BTreeMap::new();
    for (side, sites) in [before, now].into_iter().enumerate() {
        for site in sites {
            let (stack, allocations, bytes) = pairs.entry(site.key()).or_default();
            *stack = Some(&site.stack);
            allocations[side] += site.allocations;
            bytes[side] += site.allocated_bytes;
        }
    }
    let mut differences: Vec<_> = pairs
        .into_values()
        .filter(|(_, allocations, bytes)| allocations[0] != allocations[1] || bytes[0] != bytes[1])
        .map(|(stack, allocations, bytes)| Difference {
            change: match allocations {
                [0, _] => Change::New,
                [_, 0] => Change::Gone,
                _ => Change::Changed,
            },
            stack: stack.unwrap_or_default().to_vec(),
            before: allocations[0],
            now: allocations[1],
            bytes_before: bytes[0],
            bytes_now: bytes[1],
        })
        .collect();
    differences.sort_by_key(|d| (std::cmp::Reverse((d.allocations().abs(), d.bytes().abs())), d.stack.clone()));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Builder, blocks};

    fn site(stack: &[&str], allocations: u64, bytes: u64) -> SiteCount {
        SiteCount { stack: stack.iter().map(|s| (*s).to_owned()).collect(), allocations, allocated_bytes: bytes }
    }

    #[test]
    fn a_profile_has_its_sites_the_largest_first() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let q = b.process(2, &["a"], 10);
        b.site(p, &["make@/src/a.c:1", "main@/src/a.c:9"], blocks(2, 10, 0, 0));
        b.site(q, &["make@/src/a.c:2", "main@/src/a.c:9"], blocks(3, 10, 0, 0));
        b.site(p, &["other@/src/lib/a.c:4", "main@/src/a.c:9"], blocks(9, 1, 0, 0));
        assert_eq!(
            sites(&b.profile, "/src"),
            [site(&["other (lib/a.c:4)", "main (a.c:9)"], 9, 9), site(&["make (a.c:2)", "main (a.c:9)"], 5, 50)]
        );
    }

    #[test]
    fn lines_and_clones_are_no_difference() {
        let before = [site(&["f.constprop.0 (a.c:1)", "g.llvm.77", "operator+(A, B) (x.cc:3)"], 5, 50)];
        let now = [site(&["f.isra.0.constprop.3 (a.c:8)", "g", "operator+(A, B)"], 5, 50)];
        assert_eq!(difference(&before, &now), []);
        for name in ["operator()(int) const", "call(int (*)(int))"] {
            assert_eq!(function_of(name).as_deref(), Some(name));
        }
    }

    #[test]
    fn differences_add_up_and_the_largest_comes_first() {
        let before = [site(&["a", "main"], 10, 100), site(&["b", "main"], 5, 50), site(&["c", "main"], 7, 70)];
        let now = [site(&["a", "main"], 11, 120), site(&["c", "main"], 7, 70), site(&["d", "main"], 900, 9)];
        let all = difference(&before, &now);
        let told: Vec<_> = all.iter().map(|d| (d.change, d.stack[0].as_str(), d.allocations(), d.bytes())).collect();
        assert_eq!(told, [(Change::New, "d", 900, 9), (Change::Gone, "b", -5, -50), (Change::Changed, "a", 1, 20)]);
        let sum = |sites: &[SiteCount]| sites.iter().map(|s| s.allocations as i64).sum::<i64>();
        assert_eq!(all.iter().map(Difference::allocations).sum::<i64>(), sum(&now) - sum(&before));
    }

    #[test]
    fn bytes_alone_are_a_difference_too() {
        let all = difference(&[site(&["a"], 1, 10)], &[site(&["a"], 1, 30)]);
        assert_eq!((all.len(), all[0].allocations(), all[0].bytes()), (1, 0, 20));
    }
}
