//! Numbers of one profile, or of two that are compared: views of rows are made of either.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use mallow_profile::{Counts, FrameId, Precisions, Profile, StackId, StringId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::numbers::{Measure, Totals};
use crate::analysis::sampled::intervals::PrecisionTable;
use crate::analysis::stacks::functions::{Functions, mean_request};

/// The numbers of a site, of one profile or of two that are compared.
pub(crate) trait Amount: Copy + Default + PartialEq + AddAssign {
    type Shown: Shown;

    /// The number by which the largest sites are chosen: never less than that of a part.
    fn weight(&self, by: Measure) -> u64;
    /// By the measure, the number of the profile that is compared with, 0 without one, and of the one that is shown.
    fn values(&self, by: Measure) -> [u64; 2];
    fn shown(&self, by: Measure) -> Self::Shown;

    fn rank(&self, by: Measure) -> u64 {
        self.shown(by).rank(by)
    }
}

pub trait Shown: Copy + Default + PartialEq + AddAssign + Serialize {
    /// The number that rows are sorted by; the largest is first.
    fn rank(&self, by: Measure) -> u64;
    /// The number of the measure; where profiles are compared, of both together.
    fn whole(&self, by: Measure) -> u64;
}

impl Amount for Counts {
    type Shown = Totals;

    fn weight(&self, by: Measure) -> u64 {
        by.of(&(*self).into())
    }

    fn values(&self, by: Measure) -> [u64; 2] {
        [0, self.weight(by)]
    }

    fn shown(&self, _: Measure) -> Totals {
        (*self).into()
    }
}

impl Shown for Totals {
    fn rank(&self, by: Measure) -> u64 {
        by.of(self)
    }

    fn whole(&self, by: Measure) -> u64 {
        by.of(self)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub before: Counts,
    pub after: Counts,
    /// Sum of each stack's absolute change, by the measure of the comparison.
    pub moved: u64,
}

impl Change {
    pub fn of(before: Counts, after: Counts, by: Measure) -> Self {
        let [was, is] = [before, after].map(|counts| by.of(&counts.into()));
        Self { before, after, moved: was.abs_diff(is) }
    }
}

impl AddAssign for Change {
    fn add_assign(&mut self, other: Self) {
        self.before += other.before;
        self.after += other.after;
        self.moved = self.moved.saturating_add(other.moved);
    }
}

impl Amount for Change {
    type Shown = Changed;

    fn weight(&self, _: Measure) -> u64 {
        self.moved
    }

    fn values(&self, by: Measure) -> [u64; 2] {
        [self.before, self.after].map(|counts| by.of(&counts.into()))
    }

    fn shown(&self, by: Measure) -> Changed {
        let [before, after] = self.values(by);
        Changed { change: difference(before, after), before: self.before.into(), after: self.after.into() }
    }
}

/// Numbers before and after, as reports show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// `after` - `before`, by the measure `by` of the document.
    pub change: i64,
    /// Sums in the first profile.
    pub before: Totals,
    /// Sums in the second profile.
    pub after: Totals,
}

impl AddAssign for Changed {
    fn add_assign(&mut self, other: Self) {
        self.change = self.change.saturating_add(other.change);
        self.before += other.before;
        self.after += other.after;
    }
}

impl Shown for Changed {
    fn rank(&self, _: Measure) -> u64 {
        self.change.unsigned_abs()
    }

    fn whole(&self, by: Measure) -> u64 {
        by.of(&self.before).saturating_add(by.of(&self.after))
    }
}

/// `after` - `before`, as far as there is room for it.
pub fn difference(before: u64, after: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before { i64::MAX } else { i64::MIN })
}

/// Calls back with each stack, once, and the stack's amount.
pub(crate) type Each<'a, A> = dyn Fn(&mut dyn FnMut(StackId, A)) + 'a;

/// The sites of one profile, or of two that are compared, as the views of rows read them.
#[derive(Clone, Copy)]
pub(crate) struct RowSource<'a, A> {
    pub profile: &'a Profile,
    pub functions: &'a Functions<'a>,
    /// Sums over all sites.
    pub totals: A,
    /// Calls back with each site. Large profiles have millions of them: they are not copied.
    pub sites: &'a Each<'a, A>,
    /// Frames from this one on are of the profile that is compared with.
    pub first_old: u32,
    /// The precision of each stack's numbers; None where they were counted, and where two profiles are compared.
    pub precisions: Option<&'a PrecisionTable>,
}

/// Two profiles as one, made by [`super::diff::Both::new`]: the second one's stacks, and what only the first has.
#[derive(Debug)]
pub struct Both {
    pub(crate) profile: Profile,
    pub(crate) totals: Change,
    pub(crate) sites: Vec<(StackId, Change)>,
    /// By stack of the second profile, and by name of a function that requested memory instead in the first: the first
    /// profile's numbers.
    pub(crate) formerly: FxHashMap<StackId, BTreeMap<String, Counts>>,
    pub(crate) first_old: u32,
    /// By frame of the first profile whose file has another name in the second: the file that the function has there.
    pub(crate) files_now: FxHashMap<FrameId, Option<StringId>>,
    /// None where the numbers of neither profile are estimates.
    pub(crate) precisions: Option<Box<ChangedPrecisions>>,
}

impl Both {
    /// Calls `view` with the changes of the sites of both profiles.
    pub(crate) fn view<R>(&self, view: impl FnOnce(RowSource<'_, Change>) -> R) -> R {
        let sites =
            |each: &mut dyn FnMut(StackId, Change)| self.sites.iter().for_each(|&(stack, change)| each(stack, change));
        let (profile, functions, totals, first_old) = (&self.profile, &self.functions(), self.totals, self.first_old);
        view(RowSource { profile, functions, totals, sites: &sites, first_old, precisions: None })
    }

    /// The functions on the stacks of both. A wrapper of the allocator is one by what it does in either profile.
    pub(crate) fn functions(&self) -> Functions<'_> {
        let of = |&(stack, Change { before, after, .. }): &(StackId, Change)| {
            [before, after].map(|counts| mean_request(stack, &counts))
        };
        let requests = self.sites.iter().flat_map(of).filter(|(_, number, _)| *number > 0);
        Functions::with_requests(&self.profile, requests, &self.files_now)
    }

    /// The sum of each stack's absolute change, by the measure that the profiles were compared by.
    pub fn moved(&self) -> u64 {
        self.totals.moved
    }

    pub fn totals(&self, by: Measure) -> Changed {
        self.totals.shown(by)
    }
}

/// The precision of both profiles' numbers, by stack of each and by stack of the two as one.
#[derive(Debug)]
pub(crate) struct ChangedPrecisions {
    pub tables: [PrecisionTable; 2],
    pub by_stack: FxHashMap<StackId, [Precisions; 2]>,
}

#[cfg(test)]
mod tests;
