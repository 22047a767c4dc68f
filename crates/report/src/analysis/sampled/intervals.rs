//! Intervals of a profile's numbers, where these are estimates and their precision is known: of one file, of a sum of
//! many, and of what changed between two.

use mallow_estimates::Estimate;
use mallow_profile::{Precision, Precisions, Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::numbers::{Measure, Totals};

/// Uniform number in [0, 1) for the randomized tests: independent of the samples, the same whenever the file is read.
fn draw(profile: &Profile) -> f64 {
    let mut word = profile.started_unix_ms;
    for process in &profile.processes {
        word = word.rotate_left(7) ^ u64::from(process.pid);
    }
    for _ in 0..2 {
        word = (word ^ word >> 31).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0x7fb5_d329_728e_a185);
    }
    ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

#[derive(Debug)]
pub(crate) struct PrecisionTable {
    by_stack: FxHashMap<StackId, Precisions>,
    totals: Precisions,
    draw: f64,
}

impl PrecisionTable {
    /// None where numbers were counted, or nothing is known of how precise they are.
    pub fn of(profile: &Profile) -> Option<Self> {
        if !profile.is_sampled() {
            return None;
        }
        let mut table = Self { by_stack: FxHashMap::default(), totals: Precisions::default(), draw: draw(profile) };
        for site in &profile.sites {
            if let Some(precisions) = &site.precisions {
                *table.by_stack.entry(site.stack).or_default() += **precisions;
                table.totals += **precisions;
            }
        }
        (!table.by_stack.is_empty()).then_some(table)
    }

    /// None where no profile is sampled, or a sampled one does not say how precise it is. Numbers of the other may have
    /// been counted.
    pub fn of_two(profiles: [&Profile; 2]) -> Option<[Self; 2]> {
        let unknown =
            |profile: &&Profile| profile.is_sampled() && profile.sites.iter().all(|site| site.precisions.is_none());
        if !profiles.iter().any(|profile| profile.is_sampled()) || profiles.iter().any(unknown) {
            return None;
        }
        let table = |profile: &Profile| {
            if profile.is_sampled() {
                return Self::of(profile);
            }
            let mut table = Self { by_stack: FxHashMap::default(), totals: Precisions::default(), draw: draw(profile) };
            for site in &profile.sites {
                let counted = Precisions::exact(&site.counts);
                *table.by_stack.entry(site.stack).or_default() += counted;
                table.totals += counted;
            }
            Some(table)
        };
        let [before, after] = profiles;
        Some([table(before)?, table(after)?])
    }

    /// The sum over the sites of a stack.
    pub fn get(&self, stack: StackId) -> Precisions {
        self.by_stack.get(&stack).copied().unwrap_or_default()
    }

    pub fn by(&self, stack: StackId, by: Measure) -> Precision {
        self.by_stack.get(&stack).and_then(|all| all.of(by.quantity())).copied().unwrap_or_default()
    }

    pub fn totals(&self) -> &Precisions {
        &self.totals
    }

    /// The number with its interval; None where its precision is not known.
    pub fn estimate(&self, number: u64, precision: &Precision) -> Option<Estimate> {
        (number > 0 && precision.is_of(number)).then(|| Estimate::of(precision, self.draw))
    }
}

/// The change with its interval; None where the precision of one of the numbers is not known.
pub(crate) fn change_estimate(
    tables: &[PrecisionTable; 2],
    numbers: [u64; 2],
    precisions: [Option<&Precision>; 2],
) -> Option<Estimate> {
    let [before, after] = precisions;
    let (before, after) = (before?, after?);
    let known = before.is_of(numbers[0]) && after.is_of(numbers[1]);
    known.then(|| Estimate::of_change(before, after, tables[1].draw))
}

/// The interval of one of `totals`; None where its precision is not known.
fn of_measure(table: &PrecisionTable, by: Measure, totals: &Totals, precisions: &Precisions) -> Option<Estimate> {
    table.estimate(by.of(totals), precisions.of(by.quantity())?)
}

/// Totals of a sampled profile with their intervals; those whose precision is not known are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TotalEstimates {
    /// Estimate of the allocations; left out where the precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Estimate>,
    /// Estimate of the requested bytes of all allocations; left out where the precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<Estimate>,
    /// Estimate of the live blocks; left out where the precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Estimate>,
    /// Estimate of the requested bytes of the live blocks; left out where the precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<Estimate>,
}

/// None where no number's precision is known.
pub fn total_estimates(profile: &Profile) -> Option<TotalEstimates> {
    let table = PrecisionTable::of(profile)?;
    let (totals, all) = (Totals::from(profile.totals), table.totals());
    let estimates = TotalEstimates {
        allocations: of_measure(&table, Measure::Allocations, &totals, all),
        allocated_bytes: of_measure(&table, Measure::Bytes, &totals, all),
        live: table.estimate(totals.live, &all.live),
        live_bytes: of_measure(&table, Measure::Live, &totals, all),
    };
    (estimates != TotalEstimates::default()).then_some(estimates)
}
