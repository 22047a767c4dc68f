//! Sums by stack: the same stack in several processes is one site.

use mallow_profile::{Counts, Profile, StackId};

/// The sites of a profile in the order of their stacks' ids. Takes four bytes a site: large profiles have millions, and
/// their counts are not copied.
pub(crate) struct Stacked<'a> {
    profile: &'a Profile,
    /// Indices of sites.
    order: Vec<u32>,
}

impl<'a> Stacked<'a> {
    pub fn of(profile: &'a Profile) -> Self {
        let mut order: Vec<u32> = (0..profile.sites.len() as u32).collect();
        order.sort_unstable_by_key(|&at| (profile.sites[at as usize].stack, at));
        Self { profile, order }
    }

    pub fn iter(&self) -> impl Iterator<Item = (StackId, Counts)> + '_ {
        sums(self.profile, self.order.iter().copied())
    }
}

fn sums(profile: &Profile, order: impl Iterator<Item = u32>) -> impl Iterator<Item = (StackId, Counts)> {
    let mut sites = order.map(|at| &profile.sites[at as usize]).peekable();
    std::iter::from_fn(move || {
        let first = sites.next()?;
        let mut sum = first.counts;
        while let Some(same) = sites.next_if(|next| next.stack == first.stack) {
            sum += same.counts;
        }
        Some((first.stack, sum))
    })
}

/// Sums by stack, in the order of their ids.
pub fn by_stack(profile: &Profile) -> impl Iterator<Item = (StackId, Counts)> + '_ {
    sums(profile, Stacked::of(profile).order.into_iter())
}
