//! Live samples by site, without what is known.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use mallow_profile::{Lost, Process, ProcessId, Profile, Sample, SampleKey, StackId};
use rustc_hash::{FxHashMap, FxHasher};

use super::baseline::Baseline;
use super::places::{Held, PlaceGroup, by_growth, freed_by_others, places_of, watched_places};
use super::{Samples, Unseen, WatchLosses, Watched, WatchedProcess, WatchedSite, Which};
use crate::analysis::leaks::document::suppressed_by;
use crate::analysis::leaks::suppressions::Suppressions;
use crate::analysis::numbers::LeftOut;
use crate::analysis::sampled::{CallPath, SampleLedger, SiteFigures, Standings, Sum, Verdict};
use crate::analysis::stacks::callers::Callers;
use crate::analysis::stacks::custom_allocators::custom_allocators;
use crate::analysis::stacks::functions::Functions;

/// A watched program at some moment.
pub struct WatchState<'a> {
    /// Names, stacks and processes that `ledger` refers to.
    pub profile: &'a Profile,
    pub ledger: &'a SampleLedger,
    /// CLOCK_MONOTONIC at the report's moment.
    pub now_ns: u64,
    /// Nanoseconds for which the program has been watched.
    pub watched_ns: u64,
    /// The moment, in milliseconds since 1970 UTC.
    pub at_unix_ms: u64,
    /// Milliseconds that the program had run when mallow attached to it; None where it was started under mallow.
    pub attached_ms: Option<u64>,
    /// Mean bytes between samples; None where sampling is switched off.
    pub period_bytes: Option<u64>,
    /// The reason why nothing of the command's own program can be sampled, where that is known.
    pub unseen: Option<&'a Unseen>,
    /// Whether a process runs.
    pub runs: &'a dyn Fn(ProcessId) -> bool,
}

pub struct WatchOptions<'a> {
    /// The reason for the report, in a word.
    pub occasion: &'a str,
    pub which: Which,
    /// Age below which [`Which::Old`] leaves samples out, but for those of sites that grow.
    pub older_than_ms: u64,
    /// Sites that are left out.
    pub suppressions: &'a Suppressions,
    /// Sites that are left out unless they grow.
    pub baseline: Option<&'a Baseline>,
    /// Whether a sample is left out.
    pub muted: &'a dyn Fn(SampleKey) -> bool,
    /// Whether a place is left out, by its [`super::WatchedPlace::id`].
    pub muted_place: &'a dyn Fn(u64) -> bool,
    /// Most sites that are listed.
    pub limit: usize,
}

#[derive(Default)]
struct Group {
    stacks: Vec<StackId>,
    samples: Vec<(SampleKey, Sample)>,
}

struct Candidate {
    id: u64,
    stack: StackId,
    path: CallPath,
    figures: SiteFigures,
    samples: Vec<Sample>,
}

/// `standings` are those of all reports of this watch so far.
pub fn watched(state: &WatchState<'_>, options: &WatchOptions<'_>, standings: &mut Standings) -> Watched {
    // What was live at the peak is no look at what is live now.
    let mut apart = if options.which == Which::Peak { Some(standings.clone()) } else { None };
    let standings = apart.as_mut().unwrap_or(standings);
    let requests = state.ledger.requests().map(|(stack, number, mean)| (stack, number, (mean, mean)));
    let functions = Functions::with_requests(state.profile, requests, &FxHashMap::default());
    let run = run(state);
    let draw = |id: u64| draw(id, run);
    let mut ids: FxHashMap<StackId, u64> = FxHashMap::default();
    let mut groups: FxHashMap<u64, Group> = FxHashMap::default();
    let (mut all_bytes, mut all_blocks) = (Sum::default(), Sum::default());
    let live: Vec<(SampleKey, Sample)> = match (options.which, state.ledger.peak()) {
        (Which::Peak, Some(peak)) => peak.live.clone(),
        _ => state.ledger.live().map(|(key, sample)| (key, *sample)).collect(),
    };
    for &(key, sample) in &live {
        all_bytes.add_bytes(&sample);
        all_blocks.add_count(&sample);
        let id = *ids.entry(sample.stack).or_insert_with(|| id(&functions, state.profile, sample.stack));
        let group = groups.entry(id).or_default();
        if !group.stacks.contains(&sample.stack) {
            group.stacks.push(sample.stack);
        }
        group.samples.push((key, sample));
    }
    let mut uses = vec![false; options.suppressions.patterns().len()];
    let (mut muted_samples, mut suppressed_samples, mut known_samples) = (0, 0, 0);
    let mut callers = Callers::new(&functions);
    let mut lines: BTreeMap<u64, Vec<Candidate>> = BTreeMap::new();
    for (id, group) in groups {
        let Some(&stack) = group.stacks.iter().min() else { continue };
        let all = group.samples.len() as u64;
        if let Some(by) = suppressed_by(&functions, options.suppressions, stack) {
            uses[by] = true;
            suppressed_samples += all;
            continue;
        }
        let mut figures = state.ledger.site(&group.stacks);
        figures.growth = standings.settle(id, &figures.evidence);
        let growing = figures.growth.verdict == Verdict::Growing;
        if !growing && options.baseline.is_some_and(|baseline| baseline.has(&functions, stack)) {
            known_samples += all;
            continue;
        }
        let line = functions.named(stack).map_or(0, |named| callers.name(&named.step));
        let is_muted = (options.muted_place)(line);
        let unmuted = group.samples.iter().filter(|(key, _)| !is_muted && !(options.muted)(*key));
        let samples: Vec<Sample> = unmuted.map(|(_, sample)| *sample).collect();
        muted_samples += all - samples.len() as u64;
        if samples.is_empty() {
            continue;
        }
        let path = CallPath { stacks: group.stacks, callers: callers.of(stack) };
        lines.entry(line).or_default().push(Candidate { id, stack, path, figures, samples });
    }
    let mut places: Vec<PlaceGroup> = Vec::new();
    let mut reported_bytes = Sum::default();
    let mut rows: Vec<(StackId, WatchedSite)> = Vec::new();
    for (line, mut candidates) in lines {
        candidates.sort_unstable_by_key(|candidate| candidate.stack);
        let paths: Vec<CallPath> = candidates.iter_mut().map(|candidate| std::mem::take(&mut candidate.path)).collect();
        let (mut of_line, which) = places_of(state.ledger, line, &paths, standings);
        for (Candidate { id, stack, figures, samples, .. }, at) in candidates.into_iter().zip(which) {
            let Some(group) = of_line.get_mut(at) else { continue };
            if (options.muted_place)(group.id) {
                muted_samples += samples.len() as u64;
                continue;
            }
            // Growth shows a leak before its blocks are old. One site's is none where its place lets go as much.
            let grows = group.figures.growth.verdict >= Verdict::SoFar;
            let mut held = Held::default();
            for sample in &samples {
                let age_ms = state.now_ns.saturating_sub(sample.at_ns) / 1_000_000;
                if options.which == Which::Old && !grows && age_ms < options.older_than_ms {
                    continue;
                }
                let pid = state.profile.processes.get(sample.process.0 as usize).map_or(0, |process| process.pid);
                held.add(sample, age_ms, pid);
            }
            if held.bytes.samples() == 0 {
                continue;
            }
            held.pids.sort_unstable();
            reported_bytes += held.bytes;
            group.add(stack, &held);
            rows.push((
                stack,
                WatchedSite {
                    live_bytes: held.bytes.estimate(draw(id)),
                    live: held.blocks.estimate(draw(id)),
                    samples: held.bytes.samples(),
                    growth: figures.growth,
                    oldest_ms: held.oldest_ms,
                    youngest_ms: held.youngest_ms,
                    byte_seconds: figures.byte_seconds,
                    freed_by_others: freed_by_others(&figures),
                    pids: held.pids,
                    id,
                    place: group.id,
                    stack: Default::default(),
                },
            ));
        }
        places.extend(of_line);
    }
    standings.name(places.iter().filter(|place| place.figures.growth.verdict >= Verdict::SoFar).map(|place| place.id));
    rows.sort_by(|(a_stack, a), (b_stack, b)| {
        let by_growth = by_growth((&a.growth, &a.live_bytes), (&b.growth, &b.live_bytes));
        by_growth.then(a_stack.cmp(b_stack))
    });
    let hidden = LeftOut::after(options.limit, rows.iter().map(|(_, site)| Samples { samples: site.samples }));
    let (sites_in_all, growing) =
        (rows.len() as u64, rows.iter().filter(|(_, site)| site.growth.verdict == Verdict::Growing).count() as u64);
    rows.truncate(options.limit);
    let used = options.suppressions.patterns().iter().zip(&uses);
    Watched {
        attached_ms: state.attached_ms,
        occasion: options.occasion.to_owned(),
        which: options.which,
        older_than_ms: options.older_than_ms,
        at_unix_ms: state.at_unix_ms,
        watched_ms: state.watched_ns / 1_000_000,
        command: state.profile.command.clone(),
        processes: processes(state, &live),
        period_bytes: state.period_bytes,
        live_bytes: all_bytes.estimate(draw(0)),
        live: all_blocks.estimate(draw(0)),
        samples: all_bytes.samples(),
        reported_bytes: reported_bytes.estimate(draw(0)),
        reported_samples: reported_bytes.samples(),
        growing,
        places: watched_places(&functions, places, options.limit, draw),
        sites: rows.into_iter().map(|(stack, site)| WatchedSite { stack: functions.stack(stack), ..site }).collect(),
        sites_in_all,
        hidden,
        muted_samples,
        suppressed_samples,
        known_samples,
        unused_suppressions: used.filter(|(_, used)| !**used).map(|(pattern, _)| pattern.text.clone()).collect(),
        memory: None,
        lost: WatchLosses::of(state.ledger.losses()),
        custom_allocators: custom_allocators(&state.profile.custom_allocators, |number| {
            state.profile.processes.get(number).map(|process| process.executable.as_str())
        }),
        unseen: state.unseen.cloned(),
    }
}

/// Hashes what the stack reads as: two calls on one line are one site, and so is the same program in several processes.
fn id(functions: &Functions<'_>, profile: &Profile, stack: StackId) -> u64 {
    let mut hasher = FxHasher::default();
    for step in functions.steps(stack) {
        functions.name(step.function).hash(&mut hasher);
        (step.file(), step.line).hash(&mut hasher);
    }
    profile.stacks.is_cut(stack).hash(&mut hasher);
    // The hasher's low bits carry little information.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Hashes what tells this run of the program from others.
fn run(state: &WatchState<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    (state.ledger.began_ns(), state.profile.started_unix_ms).hash(&mut hasher);
    hasher.finish()
}

/// Uniform number in [0, 1) of a site's randomized tests, drawn once in a run. Another run draws anew: with the same
/// number each time, a site's limits would hold too often or too seldom in every run.
fn draw(id: u64, run: u64) -> f64 {
    let mut word = id ^ run;
    for _ in 0..2 {
        word = (word ^ word >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    }
    ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Processes that run or have live samples.
fn processes(state: &WatchState<'_>, samples: &[(SampleKey, Sample)]) -> Vec<WatchedProcess> {
    let mut live = vec![false; state.profile.processes.len()];
    for (_, sample) in samples {
        if let Some(live) = live.get_mut(sample.process.0 as usize) {
            *live = true;
        }
    }
    let all = state.profile.processes.iter().enumerate();
    let listed = all.map(|(index, process)| (process, (state.runs)(ProcessId(index as u32)), live[index]));
    let listed = listed.filter(|(_, running, live)| *running || *live);
    let of = |process: &Process, running| WatchedProcess {
        pid: process.pid,
        executable: process.executable.clone(),
        running,
    };
    listed.map(|(process, running, _)| of(process, running)).collect()
}

impl WatchLosses {
    pub fn of(Lost { events, picks, stacks, damaged, left, filtered, foreign, unsampled }: Lost) -> Self {
        Self { events, picks, stacks, damaged, left, filtered, foreign, unsampled }
    }
}

#[cfg(test)]
mod tests {
    use mallow_estimates::testing::simulation::sample;
    use mallow_profile::{ProcessId, Release, Sample, SampleEvent, SampleKey, StackId, Stacks};

    use super::{WatchOptions, WatchState, Which, draw, watched};
    use crate::analysis::leaks::suppressions::Suppressions;
    use crate::analysis::sampled::{SampleLedger, Standings, Verdict};
    use crate::testing::Builder;

    const SECOND: u64 = 1_000_000_000;
    const PROCESS: ProcessId = ProcessId(0);
    const MEBIBYTE: u64 = 1 << 20;

    /// Feeds a sample of a mebibyte in a slot, and its end if it has one.
    fn feed(ledger: &mut SampleLedger, slot: u32, stack: StackId, at_ns: u64) -> SampleKey {
        let key = SampleKey { process: PROCESS, slot, generation: 1 };
        let sample = Sample { process: PROCESS, at_ns, stack, ..sample(MEBIBYTE, MEBIBYTE / 2) };
        ledger.feed(&SampleEvent::Allocated { key, sample });
        key
    }

    /// Entries move from one table to the other by one line, which a standard library's function tells apart.
    #[test]
    fn where_one_site_takes_what_another_of_the_line_lets_go_old_blocks_alone_are_listed() {
        const SECONDS: u32 = 600;
        const OLD_MS: u64 = 20_000;
        let mut builder = Builder::default();
        builder.process(7, &["server"], 0);
        let mut site = |inner| builder.stack(&["malloc!libc.so.6", inner, "add@table.cpp:7", "main@table.cpp:90"]);
        let from = site("std::vector<Old>::_M_realloc_insert@vector.tcc:5!libstdc++.so.6");
        let to = site("std::vector<New>::_M_realloc_insert@vector.tcc:5!libstdc++.so.6");
        let mut ledger = SampleLedger::new();
        ledger.feed(&SampleEvent::ProcessBegan { process: PROCESS, at_ns: SECOND });
        let first: Vec<SampleKey> = (0..SECONDS).map(|slot| feed(&mut ledger, slot, from, SECOND)).collect();
        let mut standings = Standings::default();
        let mut grew = false;
        for second in 0..SECONDS {
            let now_ns = SECOND * (2 + u64::from(second));
            let release = Release { thread: 1, at_ns: now_ns, stack: Stacks::ROOT };
            ledger.feed(&SampleEvent::Freed { key: first[second as usize], release });
            feed(&mut ledger, SECONDS + second, to, now_ns);
            ledger.advance(now_ns);
            if second % 10 > 0 {
                continue;
            }
            let state = WatchState {
                profile: &builder.profile,
                ledger: &ledger,
                now_ns,
                watched_ns: now_ns - SECOND,
                at_unix_ms: 0,
                attached_ms: None,
                period_bytes: Some(MEBIBYTE / 2),
                unseen: None,
                runs: &|_| true,
            };
            let options = WatchOptions {
                occasion: "interval",
                which: Which::Old,
                older_than_ms: OLD_MS,
                suppressions: &Suppressions::default(),
                baseline: None,
                muted: &|_| false,
                muted_place: &|_| false,
                limit: 10,
            };
            let seen = watched(&state, &options, &mut standings);
            for place in &seen.places.places {
                assert!(place.growth.verdict < Verdict::SoFar, "after {second} s: {place:?}");
                assert!(place.youngest_ms >= OLD_MS, "after {second} s: {place:?}");
            }
            grew |= seen.sites.iter().any(|site| site.growth.verdict == Verdict::Growing);
        }
        assert!(grew, "the site by itself does");
    }

    #[test]
    fn draws_are_uniform_over_runs_and_over_sites() {
        let (site, run) = (0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321);
        assert_eq!(draw(site, run), draw(site, run), "from report to report it stays");
        for of in [|n| draw(0x1234, n * 4_000_000), |n| draw(n, 0x4321)] {
            let mut parts = [0; 10];
            (0..10_000).for_each(|n| parts[(of(n) * 10.0) as usize] += 1);
            assert!(parts.iter().all(|part| (850..1150).contains(part)), "{parts:?}");
        }
    }
}
