//! One profile for several analyses.

use std::sync::OnceLock;

use mallow_profile::{Counts, Profile, StackId};

use super::by_stack::Stacked;
use super::function_sums::FunctionSums;
use super::functions::Functions;
use super::line_sums::LineSums;
use crate::analysis::compare::changes::RowSource;
use crate::analysis::sampled::intervals::PrecisionTable;

/// One profile for several analyses. What they all need to know of its functions is found once, as are the sums by
/// function and by line, which are those of each measure: a page asks for the same rows by seven of them.
pub struct ProfileViews<'a> {
    pub(in crate::analysis) profile: &'a Profile,
    pub(in crate::analysis) functions: Functions<'a>,
    pub(in crate::analysis) stacks: Stacked<'a>,
    pub(in crate::analysis) precisions: Option<PrecisionTable>,
    pub(super) function_sums: OnceLock<FunctionSums<Counts>>,
    /// Those of the functions that the first pattern matched.
    pub(super) line_sums: OnceLock<LineSums<Counts>>,
}

impl<'a> ProfileViews<'a> {
    pub fn of(profile: &'a Profile) -> Self {
        Self {
            profile,
            functions: Functions::new(profile),
            stacks: Stacked::of(profile),
            precisions: PrecisionTable::of(profile),
            function_sums: OnceLock::new(),
            line_sums: OnceLock::new(),
        }
    }

    /// Whether the views are of this very profile.
    pub fn are_of(&self, profile: &Profile) -> bool {
        std::ptr::eq(self.profile, profile)
    }

    /// Calls `view` with the sites.
    pub(super) fn view<R>(&self, view: impl FnOnce(RowSource<'_, Counts>) -> R) -> R {
        let sites = |each: &mut dyn FnMut(StackId, Counts)| {
            self.stacks.iter().for_each(|(stack, counts)| each(stack, counts));
        };
        view(RowSource {
            profile: self.profile,
            functions: &self.functions,
            totals: self.profile.totals,
            sites: &sites,
            first_old: u32::MAX,
            precisions: self.precisions.as_ref(),
        })
    }
}
