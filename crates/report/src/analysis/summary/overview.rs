//! What a person wants to know first about a recording.

use mallow_profile::{Counts, FamilyCounts, Origin, Precisions, Profile, Quantity, StackId, StringId, add_precisions};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::processes::{FamilyRow, ProcessRow, family_rows, process_rows};
use crate::analysis::leaks::emergency_pool::is_emergency_pool;
use crate::analysis::numbers::{Ending, Least, LeftOut, Measure, Totals};
use crate::analysis::rss::resident::{HighestRss, highest_rss};
use crate::analysis::sampled::Estimate;
use crate::analysis::sampled::intervals::{PrecisionTable, TotalEstimates, total_estimates};
use crate::analysis::stacks::custom_allocators::{
    AllocatorInsideRow, CustomAllocatorRow, allocators_inside, custom_allocators,
};
use crate::analysis::stacks::functions::{Frame, FunctionId, Functions, Named, Stack};
use crate::analysis::stacks::profile_views::ProfileViews;
use crate::analysis::stacks::tell_apart::tell_apart;

/// The overview of a recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// Tool that the file is of; None for Mallow's own.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Start of the recording by the wall clock, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Milliseconds from the begin of the recording to its end.
    pub duration_ms: u64,
    /// Milliseconds that the command ran, without its wait for mallow at its exit.
    pub ran_ms: u64,
    /// Start of the command, in milliseconds since the recording began.
    pub run_begin_ms: u64,
    /// Milliseconds within which all of this was allocated.
    #[serde(skip)]
    pub window_ms: u64,
    /// CPU time of the command and the processes that it waited for, also where a filter is on. Null: not known.
    pub cpu_us: Option<u64>,
    #[serde(flatten)]
    pub ending: Ending,
    /// Sums over all processes.
    #[serde(flatten)]
    pub totals: Totals,
    /// The totals with their intervals; left out where the profile is not sampled, or the precision of its numbers is
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<TotalEstimates>,
    /// Moment of the peak, in milliseconds since the recording began.
    pub peak_ms: u64,
    /// Allocations by the function that was called; those that were not called are left out.
    pub families: Vec<FamilyRow>,
    /// Process images, in order of their start.
    pub processes: Vec<ProcessRow>,
    /// Processes; exec begins a new image of the same one, so `processes` may have more rows.
    pub processes_in_all: u64,
    /// Threads of all processes. One that called exec counts once.
    pub threads_in_all: u64,
    /// Allocators above malloc, whose blocks are missing; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom_allocators: Vec<CustomAllocatorRow>,
    /// Allocators inside of executables and libraries whose calls are counted; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocators_inside: Vec<AllocatorInsideRow>,
    /// Programs that the command executed and that were not recorded, or what the files of a sum lack, a sentence each;
    /// left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
    /// The highest RSS, and what of it was live heap; left out where no memory was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_rss: Option<HighestRss>,
    /// Number of the sites, the same stack in several processes being one.
    pub sites: u64,
    /// The largest places by each measure that the profile has.
    pub largest: Vec<Largest>,
    /// Memory for exceptions that libstdc++ sets aside at its start: in the totals, at no place. Left out without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emergency_pool: Option<Totals>,
}

impl Overview {
    /// Whether several programs allocated. False where the profile does not know processes.
    pub fn has_several_programs(&self) -> bool {
        let allocated = self.processes.iter().filter(|process| process.totals.allocations > 0);
        let mut names = allocated.map(ProcessRow::program);
        let first = names.next();
        self.origin.as_ref().is_none_or(|origin| origin.quantities.has(Quantity::Processes))
            && names.any(|name| Some(name) != first)
    }
}

/// The largest places by one measure.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Largest {
    /// Measure of the list.
    pub by: Measure,
    /// Total of the whole recording, by the measure `by`.
    pub total: u64,
    /// Places where the measure is above 0, shown here or not.
    pub places: u64,
    /// Places, the largest first by the measure `by`.
    pub largest: Vec<Place>,
    /// Sums of the places that are not shown; null where all are.
    pub hidden: Option<LeftOut<Totals>>,
}

impl Largest {
    /// Leaves out places with less of the measure.
    pub fn leave_out(&mut self, least: Least) {
        let (by, min) = (self.by, least.of(self.total));
        LeftOut::small(&mut self.hidden, &mut self.largest, |place| by.of(&place.totals) >= min, |place| place.totals);
    }
}

/// A line of a function of the program's own, with all sites that it names.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// The function; without its keys where the place's sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    /// Sums over the sites of the place.
    #[serde(flatten)]
    pub totals: Totals,
    /// Estimate of the place's amount by the measure of the list. Left out where nothing was sampled, or the precision
    /// is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Call sites of the place.
    pub sites: u64,
    /// Call site of the place that has most by the measure of the list.
    pub largest_site: PlaceSite,
}

/// One call site of a place.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceSite {
    /// Sums of the call site.
    #[serde(flatten)]
    pub totals: Totals,
    #[serde(flatten)]
    pub stack: Stack,
}

type Key = Option<(FunctionId, Option<StringId>, u32)>;

struct Group {
    named: Option<Named>,
    counts: Counts,
    /// None where numbers were counted.
    precisions: Option<Box<Precisions>>,
    sites: u64,
    /// By measure, the site with the most, and its counts.
    largest: [(u64, StackId, Counts); Measure::ALL.len()],
}

/// Lists at most `limit` places for each measure.
pub fn overview(profile: &Profile, limit: usize) -> Overview {
    overview_of(&ProfileViews::of(profile), limit)
}

/// [`overview`] of a profile of which more is asked.
pub fn overview_of(views: &ProfileViews<'_>, limit: usize) -> Overview {
    let ProfileViews { profile, functions, stacks, precisions, .. } = views;
    let mut sites = 0;
    let mut pool: Option<Counts> = None;
    let stacks = stacks.iter().inspect(|_| sites += 1).filter(|(stack, counts)| {
        let of_pool = is_emergency_pool(functions, *stack);
        if of_pool {
            *pool.get_or_insert_default() += *counts;
        }
        !of_pool
    });
    let groups = group(functions, stacks, precisions.as_ref());
    let mut families = FamilyCounts::default();
    for process in &profile.processes {
        families += process.families;
    }
    let totals = Totals::from(profile.totals);
    let ending = Ending::of(profile);
    let (processes_in_all, threads_in_all) = people(profile);
    // Attaching takes time before there is a process.
    let begin = profile.processes.iter().map(|process| process.start_ms).min().unwrap_or(0);
    let run = profile.run_ms.clone().unwrap_or(begin.min(profile.duration_ms)..profile.duration_ms);
    let ran_ms = run.end.saturating_sub(run.start).saturating_sub(ending.exit_wait_ms);
    let whole = ran_ms.saturating_sub(ending.table_wait_ms);
    let window_ms = profile.window_ms.as_ref().map_or(whole, |window| window.end.saturating_sub(window.start));
    let measures = Measure::ALL.into_iter().filter(|by| profile.has(by.quantity()));
    Overview {
        origin: profile.origin.clone(),
        command: profile.command.clone(),
        started_unix_ms: profile.started_unix_ms,
        duration_ms: profile.duration_ms,
        ran_ms,
        run_begin_ms: run.start,
        window_ms,
        cpu_us: profile.cpu_us,
        ending,
        totals,
        estimates: total_estimates(profile),
        peak_ms: profile.peak_ms,
        families: family_rows(&families),
        processes: process_rows(profile),
        processes_in_all,
        threads_in_all,
        unrecorded: profile.unrecorded.clone(),
        allocators_inside: allocators_inside(&profile.allocators_inside),
        custom_allocators: custom_allocators(&profile.custom_allocators, |number| {
            profile.processes.get(number).map(|process| process.executable.as_str())
        }),
        highest_rss: highest_rss(profile),
        sites,
        largest: measures.map(|by| largest(functions, &groups, &totals, by, limit, precisions.as_ref())).collect(),
        emergency_pool: pool.map(Totals::from),
    }
}

/// Numbers of processes and of threads; exec begins no new ones.
fn people(profile: &Profile) -> (u64, u64) {
    let replaced = profile.replaced_by_exec();
    let known: FxHashSet<(u32, u32)> = profile.threads.iter().map(|thread| (thread.process.0, thread.tid)).collect();
    // After exec its thread has the process's id.
    let of_both = |before: usize, after: usize| {
        let id = profile.processes.get(after).map_or(0, |process| process.pid);
        known.contains(&(before as u32, id)) && known.contains(&(after as u32, id))
    };
    let pairs = || replaced.iter().enumerate().filter_map(|(after, before)| Some(((*before)?, after)));
    let twice = pairs().filter(|&(before, after)| of_both(before, after)).count() as u64;
    let threads: u64 = profile.processes.iter().map(|process| u64::from(process.threads)).sum();
    (profile.processes.len().saturating_sub(pairs().count()) as u64, threads.saturating_sub(twice))
}

/// The largest places of some sites by a measure.
pub(crate) fn places(functions: &Functions<'_>, stacks: &[(StackId, Counts)], by: Measure, limit: usize) -> Largest {
    let total = stacks.iter().fold(Counts::default(), |mut sum, (_, counts)| {
        sum += *counts;
        sum
    });
    largest(functions, &group(functions, stacks.iter().copied(), None), &total.into(), by, limit, None)
}

fn group(
    functions: &Functions<'_>,
    stacks: impl Iterator<Item = (StackId, Counts)>,
    table: Option<&PrecisionTable>,
) -> Vec<Group> {
    let mut groups: FxHashMap<Key, Group> = FxHashMap::default();
    for (stack, counts) in stacks {
        let named = functions.named(stack);
        let group = groups.entry(named.map(|n| n.key())).or_insert_with(|| Group {
            named,
            counts: Counts::default(),
            precisions: None,
            sites: 0,
            largest: [(0, stack, counts); Measure::ALL.len()],
        });
        group.counts += counts;
        add_precisions(&mut group.precisions, table.map(|table| table.get(stack)).as_ref());
        group.sites += 1;
        let totals = Totals::from(counts);
        for (best, by) in group.largest.iter_mut().zip(Measure::ALL) {
            let value = by.of(&totals);
            if value > best.0 {
                *best = (value, stack, counts);
            }
        }
    }
    groups.into_values().collect()
}

fn largest(
    functions: &Functions<'_>,
    groups: &[Group],
    totals: &Totals,
    by: Measure,
    limit: usize,
    table: Option<&PrecisionTable>,
) -> Largest {
    let index = by as usize;
    let mut ranked: Vec<(u64, &Group)> = groups.iter().map(|g| (by.of(&g.counts.into()), g)).collect();
    ranked.retain(|(value, _)| *value > 0);
    let places = ranked.len() as u64;
    ranked.sort_by_key(|(value, g)| (std::cmp::Reverse(*value), g.largest[index].1));
    let hidden = LeftOut::after(limit, ranked.iter().map(|(_, group)| group.counts.into()));
    ranked.truncate(limit);
    let place = |group: &Group| {
        let (_, stack, counts) = group.largest[index];
        // Of the site that is shown, so that `through` and the stack agree.
        let named = functions.named(stack);
        let (through, nameless) = named.map_or((None, 0), |n| (n.through, n.nameless));
        Place {
            frame: group.named.map(|n| Frame { nameless, ..functions.frame(&n.step) }),
            through: through.map(|s| functions.name(s.function)),
            totals: group.counts.into(),
            estimate: table.zip(group.precisions.as_deref()).and_then(|(table, precisions)| {
                table.estimate(by.of(&group.counts.into()), precisions.of(by.quantity())?)
            }),
            sites: group.sites,
            largest_site: PlaceSite { totals: counts.into(), stack: functions.stack(stack) },
        }
    };
    let mut largest: Vec<Place> = ranked.iter().map(|(_, group)| place(group)).collect();
    tell_apart(largest.iter_mut().filter_map(|place| place.frame.as_mut()));
    Largest { by, total: by.of(totals), places, largest, hidden }
}

#[cfg(test)]
mod tests {
    use super::{Measure, Place, overview};
    use crate::testing::{Builder, blocks, parser};

    fn places(by: Measure) -> Vec<Place> {
        let all = overview(&parser(), usize::MAX).largest;
        all.into_iter().find(|l| l.by == by).map(|l| l.largest).unwrap_or_default()
    }

    #[test]
    fn a_place_is_the_first_line_of_the_programs_own() {
        let all = places(Measure::Allocations);
        let row = &all[0];
        let frame = row.frame.as_ref().expect("a frame");
        assert!(frame.function.starts_with("app::Parser::parse_row"), "{frame:?}");
        assert_eq!((frame.file.as_deref(), frame.line), (Some("/src/app/parser.cc"), Some(212)));
        assert_eq!((row.sites, row.totals.allocations), (2, 1_000_000));
        assert!(row.through.as_ref().is_some_and(|t| t.contains("_M_create")), "{:?}", row.through);
        assert_eq!(row.largest_site.totals.allocations, 900_000);
        let names: Vec<_> = row.largest_site.stack.own().iter().map(|f| f.function.as_str()).collect();
        assert_eq!(&names[1..], ["app::load", "app::run(int)", "main"]);
    }

    #[test]
    fn a_place_may_be_an_inlined_function_or_an_address() {
        let live = places(Measure::Live);
        let frame = live[0].frame.as_ref().expect("a frame");
        assert_eq!((frame.function.as_str(), frame.line, frame.inlined), ("app::Cache::put", Some(31), true));
        assert_eq!(live[0].through, None, "strdup is an allocating function and says nothing");
        // The dynamic linker alone: no frame of the program's own.
        assert_eq!(live[1].frame.as_ref().map(|f| f.function.as_str()), Some("_dl_new_object"));
        let largest = places(Measure::Peak);
        assert_eq!(largest[1].frame.as_ref().map(|f| f.function.as_str()), Some("libplugin.so+0x12f0"));
    }

    #[test]
    fn addresses_are_looked_past_up_to_a_name_of_their_module() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        b.site(p, &["+0x10!libx.so", "+0x20!libx.so", "x_open!libx.so", "main"], blocks(9, 8, 0, 0));
        b.site(p, &["+0x10!libx.so", "main"], blocks(8, 8, 0, 0));
        b.site(p, &["malloc_hook!libc.so.6", "+0x10", "+0x30!libc.so.6", "+0x20"], blocks(7, 8, 0, 0));
        let report = overview(&b.profile, 9);
        let places: Vec<_> = report.largest[0].largest.iter().collect();
        let names: Vec<_> = places.iter().map(|p| p.frame.as_ref().map_or("", |f| &f.function)).collect();
        assert_eq!(names, ["x_open", "libx.so+0x10", "program+0x10"]);
        assert_eq!(places[2].through.as_deref(), Some("malloc_hook"));
        let stack = &places[0].largest_site.stack;
        let callers = stack.callers_of(places[0].frame.as_ref().expect("a frame"));
        assert_eq!(callers.iter().map(|f| f.function.as_str()).collect::<Vec<_>>(), ["main"]);
    }

    #[test]
    fn wrappers_are_looked_past_to_who_calls_them() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for (caller, n) in [("parse@a.c:1", 900), ("load@a.c:2", 50), ("save@a.c:3", 20), ("index@a.c:4", 10)] {
            b.site(p, &["my_alloc!libx.so", caller, "main@a.c:9"], blocks(n, 8 * n, 0, 0));
        }
        b.site(p, &["my_alloc!libx.so"], blocks(1, 8, 0, 0));
        let report = overview(&b.profile, 9);
        let places: Vec<_> = report.largest[0].largest.iter().collect();
        let names: Vec<_> = places.iter().map(|p| p.frame.as_ref().map_or("", |f| &f.function)).collect();
        assert_eq!(names, ["parse", "load", "save", "index", "my_alloc"], "without a caller it stands for itself");
        assert_eq!(places[0].through.as_deref(), Some("my_alloc"));
        assert!(places[0].largest_site.stack.frames[0].looked_past);
    }

    #[test]
    fn a_copy_is_its_callers() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let clone = "<a::Row as core::clone::Clone>::clone@main.rs";
        for line in [4, 5] {
            let frame = format!("{clone}:{line}");
            b.site(
                p,
                &["<alloc::string::String as core::clone::Clone>::clone", &frame, "a::total_len@main.rs:8"],
                blocks(3, 8, 0, 0),
            );
        }
        let report = overview(&b.profile, 9);
        let places = &report.largest[0].largest;
        assert_eq!(places.len(), 1);
        let frame = places[0].frame.as_ref().expect("a frame");
        assert_eq!((frame.function.as_str(), frame.line), ("a::total_len", Some(8)));
        assert_eq!(places[0].through.as_deref(), Some("<a::Row as core::clone::Clone>::clone"));
    }

    #[test]
    fn lists_are_ranked_cut_and_totalled() {
        let report = overview(&parser(), 1);
        for list in &report.largest {
            assert_eq!(list.largest.len(), 1);
            let whole = places(list.by);
            assert_eq!(list.places, whole.len() as u64);
            let values: Vec<_> = whole.iter().map(|p| list.by.of(&p.totals)).collect();
            assert!(values.is_sorted_by(|a, b| a >= b), "{values:?}");
            assert_eq!(values.iter().sum::<u64>(), list.total);
        }
        assert_eq!(report.processes.len(), 2);
        assert_eq!((report.families.len(), report.families[0].family), (1, "malloc"));
    }

    #[test]
    fn rows_that_would_read_the_same_keep_their_arguments() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        for shape in ["int", "string"] {
            b.site(p, &[&format!("gen.Map[go.shape.{shape}]@gen.go:7"), "main.main@main.go:3"], blocks(2, 9, 0, 0));
        }
        b.site(p, &["gen.Keep[go.shape.int]@gen.go:9", "main.main@main.go:4"], blocks(2, 9, 0, 0));
        let report = overview(&b.profile, 9);
        let frames: Vec<_> = report.largest[0].largest.iter().filter_map(|place| place.frame.as_ref()).collect();
        let mut kept: Vec<_> = frames.iter().map(|f| (f.keeps_arguments, f.function.as_str())).collect();
        kept.sort_unstable();
        let expected =
            [(false, "gen.Keep[go.shape.int]"), (true, "gen.Map[go.shape.int]"), (true, "gen.Map[go.shape.string]")];
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_pool_of_libstdcxx_is_no_row() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        let loader = ["call_init!ld-linux-x86-64.so.2", "_dl_init!ld-linux-x86-64.so.2"];
        b.site(p, &[&["+0xa7a1a!libstdc++.so.6"], &loader[..]].concat(), blocks(1, 72_704, 0, 1));
        b.site(p, &["operator new!libstdc++.so.6", "main@a.cc:1"], blocks(2, 9, 0, 0));
        let report = overview(&b.profile, 9);
        assert_eq!((report.totals.allocations, report.emergency_pool.map(|pool| pool.peak_bytes)), (3, Some(72_704)));
        for list in &report.largest {
            let names: Vec<_> = list.largest.iter().filter_map(|p| p.frame.as_ref()).map(|f| &f.function[..]).collect();
            let pool = report.emergency_pool.map_or(0, |pool| list.by.of(&pool));
            let rows: u64 = list.largest.iter().map(|place| list.by.of(&place.totals)).sum();
            assert!(names.is_empty() || names == ["main"], "{names:?}");
            assert_eq!(rows + pool, list.total, "{:?}", list.by);
        }
    }

    #[test]
    fn the_same_stack_in_two_processes_is_one_site() {
        let mut b = Builder::default();
        let first = b.process(1, &["a"], 10);
        let second = b.process(2, &["a"], 10);
        b.site(first, &["f", "main"], blocks(3, 8, 0, 0));
        b.site(second, &["f", "main"], blocks(4, 8, 0, 0));
        b.site(second, &[], blocks(1, 8, 0, 0));
        let report = overview(&b.profile, 10);
        assert_eq!(report.sites, 2);
        let places = &report.largest[0].largest;
        assert_eq!((places[0].sites, places[0].totals.allocations), (1, 7));
        assert!(places[1].frame.is_none(), "a site without frames is shown all the same");
    }

    #[test]
    fn json_has_the_words_of_the_definitions() {
        let json = serde_json::to_value(overview(&parser(), 1)).expect("serialises");
        for key in [
            "allocations",
            "frees",
            "allocated_bytes",
            "remaining",
            "peak_bytes",
            "peak_ms",
            "live",
            "live_bytes",
            "temporary",
            "temporary_bytes",
            "reallocs_in_place",
            "reallocs_moved",
            "duration_ms",
            "exit_status",
            "lost",
        ] {
            assert!(json.get(key).is_some_and(serde_json::Value::is_number), "{key}");
        }
        let place = &json["largest"][0]["largest"][0];
        assert_eq!((place["line"].as_u64(), place["allocations"].as_u64()), (Some(212), Some(1_000_000)));
        assert_eq!(place["largest_site"]["frames"][0]["function"], "operator new(unsigned long)");
    }
}
