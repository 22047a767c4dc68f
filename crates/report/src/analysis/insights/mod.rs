//! Habits that cost: what a colleague would point at who looked over somebody's shoulder.
//!
//! An insight has a place, its evidence in numbers, what could be done about it and what that would save at the most.
//! Scripts and interpreters have none: [`interpreted`]. A program without such habits has no insights: each insight is
//! worth a hundredth of malloc's time, or of the peak, and is not small in itself ([`worth`]).

mod call_paths;
mod containers;
mod growth;
mod insight;
mod interpreted;
mod joined;
mod language;
mod last_growth;
mod library_call;
mod lifetimes;
mod outside;
mod popular_containers;
mod remedies;
mod search;
mod worth;

use mallow_profile::{ProcessId, Profile, Quantity};

use crate::analysis::stacks::custom_allocators::has_python_malloc;
use crate::analysis::stacks::profile_views::ProfileViews;
use call_paths::CallPaths;
use containers::Containers;
pub use insight::{Evidence, Insight, Insights, MallocTime, Outside, OutsideModule, Savings};
use insight::{Finding, matters};
use interpreted::Interpreted;
use worth::Whole;

/// At most `limit` insights are in full. Empty where the profile does not have patterns.
pub fn insights(profile: &Profile, limit: usize) -> Insights {
    insights_of(&ProfileViews::of(profile), limit)
}

/// [`insights`] of a profile of which more is asked.
pub fn insights_of(views: &ProfileViews<'_>, limit: usize) -> Insights {
    let ProfileViews { profile, functions, .. } = views;
    if !profile.has(Quantity::Patterns) {
        return Insights::default();
    }
    let mut containers = Containers::new(functions);
    let paths = CallPaths::new(profile, functions, &mut containers);
    let whole = Whole::of(profile);
    let interpreted = Interpreted::of(profile, functions);
    let mut found = search::search(&paths, functions, &whole, &interpreted);
    found.extend(popular_containers::find(&paths, functions, &whole, &found));
    let mut found: Vec<Finding> = found.into_iter().map(|(_, finding)| finding).collect();
    found.extend(outside::find(views, &whole));
    found.retain(|finding| !interpreted.is(&finding.step));
    // What may save a hundredth of the run, or of the peak, comes first.
    let rank = |f: &Finding| {
        let (malloc, peak) = (whole.malloc_share(&f.saves), whole.peak_share(&f.saves));
        let is_first = matters(whole.run_share(&f.saves), peak);
        f64::from(u8::from(is_first)) + malloc.max(peak)
    };
    let mut ranked: Vec<(f64, Finding)> = found.into_iter().map(|f| (rank(&f), f)).collect();
    ranked.sort_by(|(a, f), (b, g)| b.total_cmp(a).then(f.largest.cmp(&g.largest)));
    let insights_in_all = ranked.len() as u64;
    // More digits would be an estimate's pretence.
    let rounded = |share: f64| (share * 1e4).round() / 1e4;
    let is_small = |(_, f): &&(f64, Finding)| {
        !matters(whole.run_share(&f.saves).map(rounded), rounded(whole.peak_share(&f.saves)))
    };
    let small_in_all = ranked.iter().filter(is_small).count() as u64;
    ranked.truncate(limit);
    let insight = |(_, f): (f64, Finding)| Insight {
        frame: functions.frame(&f.step),
        through: f.through.map(|through| functions.name(through)),
        sites: f.sites,
        largest_site: functions.stack(f.largest),
        evidence: f.evidence,
        remedy: f.remedy,
        saves: f.saves,
        malloc_share: rounded(whole.malloc_share(&f.saves)),
        peak_share: rounded(whole.peak_share(&f.saves)),
        run_share: whole.run_share(&f.saves).map(rounded),
    };
    let malloc_time =
        whole.malloc_of_run().map(|(least, most)| MallocTime { least: rounded(least), most: rounded(most) });
    let mut processes = (0..profile.processes.len() as u32).map(ProcessId);
    let has_python_malloc = processes.any(|process| has_python_malloc(profile, process));
    Insights {
        insights_in_all,
        small_in_all,
        insights: ranked.into_iter().map(insight).collect(),
        malloc_time,
        interpreted_allocations: interpreted.allocations(&paths),
        has_python_malloc,
    }
}

#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod tests;
