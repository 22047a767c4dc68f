//! Habits that cost: what a colleague would point at who looked over somebody's shoulder.
//!
//! An insight has a place, its evidence in numbers, what could be done about it and what that would save at the most.
//! A program without such habits has no insights: each insight is worth a hundredth of the program's cost of
//! allocating, or of its peak, and is not small in itself ([`worth`]).

mod call_paths;
mod containers;
mod growth;
mod insight;
mod lifetimes;
mod outside;
mod popular_containers;
mod search;
mod worth;

use mallow_profile::{Profile, Quantity};

use super::functions::Functions;
use call_paths::CallPaths;
use containers::Containers;
use insight::Finding;
pub use insight::{Evidence, Insight, Insights, Outside, OutsideModule, Savings};
use worth::Whole;

/// All insights, at most `limit` of them in full. None where the profile does not have patterns.
pub fn insights(profile: &Profile, limit: usize) -> Insights {
    if !profile.has(Quantity::Patterns) {
        return Insights::default();
    }
    let functions = Functions::new(profile);
    let mut containers = Containers::new(&functions);
    let paths = CallPaths::new(profile, &functions, &mut containers);
    let whole = Whole::of(profile);
    let mut found = search::search(&paths, &functions, &whole);
    found.extend(popular_containers::find(&paths, &whole, &found));
    let mut found: Vec<Finding> = found.into_iter().map(|(_, finding)| finding).collect();
    found.extend(outside::find(profile, &functions, &whole));
    let mut ranked: Vec<(f64, Finding)> = found.into_iter().map(|f| (whole.share(&f.saves), f)).collect();
    ranked.sort_by(|(a, f), (b, g)| b.total_cmp(a).then(f.largest.cmp(&g.largest)));
    let insights_in_all = ranked.len() as u64;
    ranked.truncate(limit);
    let insight = |(share, f): (f64, Finding)| Insight {
        frame: functions.frame(&f.step),
        through: f.through.map(|through| functions.name(through)),
        sites: f.sites,
        largest_site: functions.stack(f.largest),
        evidence: f.evidence,
        remedy: f.remedy,
        saves: f.saves,
        // More digits would be an estimate's pretence.
        share: (share * 1e4).round() / 1e4,
    };
    Insights { insights_in_all, insights: ranked.into_iter().map(insight).collect() }
}

#[cfg(test)]
mod tests;
