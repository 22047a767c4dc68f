//! What would make RSS smaller, by how much, and how sure that is.

use mallow_profile::{Footprint, Mapping, MappingFlags, MappingKind, Process};
use serde::Serialize;

use super::geometry::{Allocator, PAGE};
use super::ledger::{ArenaSums, OwnerSums, RssLedger};
use super::owners::{LIBRARY, Owner};
use super::pools::{LITTLE, Pools, least_worth};
use super::territory::TerritoryKind;
use super::undivided::Undivided;
use crate::analysis::stacks::functions::Frame;

/// Change that would make RSS smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// A call of `malloc_trim(0)`.
    MallocTrim,
    /// Fewer arenas of glibc: `MALLOC_ARENA_MAX`.
    ArenaMax,
    /// A fixed threshold for giving back the end of the heap: `MALLOC_TRIM_THRESHOLD_`.
    TrimThreshold,
    /// A fixed threshold from which on blocks have mappings of their own: `MALLOC_MMAP_THRESHOLD_`.
    MmapThreshold,
    /// Threads of glibc keep no freed blocks: `glibc.malloc.tcache_count=0`.
    ThreadCaches,
    /// The allocator gives free pages back at once.
    Decay,
    /// The allocator gives free pages back by a thread of its own, after some seconds.
    BackgroundThread,
    /// numpy does not ask for huge pages.
    NumpyHugePages,
    /// Smaller stacks of threads, where these are locked in memory as a whole.
    ThreadStacks,
    /// A memory pool of their own for the blocks of some places.
    Pool,
    /// An allocator that keeps blocks of one size together.
    OtherAllocator,
}

/// Certainty of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The estimate follows from the pages and the allocator's rules.
    Sure,
    /// Some of what is needed for the estimate is not known: caches of threads, say.
    Likely,
    /// The remedy releases no more than the estimate; how much less is not known.
    AtMost,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// Kind of the remedy.
    pub remedy: RemedyKind,
    /// Function to call, or variable to set in the environment; null where the program has to change.
    pub setting: Option<String>,
    /// Bytes that the remedy is expected to release; of a bound, the most that it can release.
    pub expected_bytes: u64,
    /// Bytes that the remedy can release at the most.
    #[serde(skip)]
    most: u64,
    /// Least bytes that the remedy releases.
    pub least_bytes: u64,
    /// Certainty of the estimate.
    pub certainty: Certainty,
    /// Allocator whose pages are released; null where all allocators' are.
    pub allocator: Option<&'static str>,
    /// Path of the file that has the allocator inside, or is it; null for the C library's, and where it is not known.
    pub module: Option<String>,
    /// Lines that allocate the pinning blocks of a pool, those that pin most first; empty for other remedies.
    pub places: Vec<Frame>,
    /// Blocks that the places of a pool freed themselves may have left the holes. A pool has them as well, unless
    /// blocks that are freed together lie together in it. False for other remedies.
    pub own_holes: bool,
    /// Estimate of the memory that the setting is about, alone and at this moment, where `expected_bytes` is a bound on
    /// more; null elsewhere.
    pub own_bytes: Option<u64>,
}

/// Bytes that glibc keeps at the end of its heap (`M_TOP_PAD`); its trim threshold begins with as many.
const TOP_PAD: u64 = 128 << 10;
/// Most blocks that a thread's cache keeps in glibc: 7 of each of 64 sizes. Each is in use to its arena.
const CACHED: u64 = 7 * 64;
/// Most bytes in a thread's cache: 7 blocks of each size from 32 to 1040 bytes.
const CACHE_MOST: u64 = 7 * 64 * (32 + 1040) / 2;

/// Remedies that are worth it, those that are expected to release most first; those that are only bounds come last. The
/// flag says whether live bytes that were freed in the second before made bounds of some. `needed` bytes more were live
/// at another moment of this RSS. `undivided` is what the account stands for, and does not divide.
pub fn remedies(
    footprint: &Footprint,
    process: &Process,
    ledger: &RssLedger<'_>,
    needed: u64,
    undivided: Option<&Undivided>,
) -> (Vec<Remedy>, bool) {
    if ledger.older_blocks {
        return (Vec::new(), false);
    }
    let mut all = if ledger.owners.has_glibc() { of_glibc(footprint, process, ledger) } else { Vec::new() };
    let unowned = unowned(footprint, process, ledger);
    for (owner, own) in ledger.owners.all.iter().zip(&ledger.by_owner) {
        let is_new = |remedy: &Remedy| !is_in_force(footprint, ledger, owner, remedy);
        all.extend(of_others(owner, own, unowned).into_iter().filter(is_new));
    }
    all.extend(of_python(footprint, ledger));
    all.push(of_stacks(footprint, ledger));
    // What it empties has to be given back, which fails for pages that are locked in memory.
    let is_locked = |one: &Mapping| one.kind == MappingKind::Heap && one.flags.has(MappingFlags::LOCKED);
    all.extend(pool(ledger).filter(|_| !footprint.mappings.iter().any(is_locked)));
    // What was free may have been what grew to the highest.
    if undivided.is_some() || footprint.is_at_exit && footprint.fell_from().is_some() {
        all.iter_mut().for_each(bound);
    }
    // What was in use a moment ago is free for a moment, or because the program ends.
    let freed = footprint.recent_live.map_or(0, |recent| recent.bytes.saturating_sub(footprint.live_bytes));
    let is_momentary = |remedy: &Remedy| remedy.expected_bytes < freed.saturating_mul(2);
    all.iter_mut().filter(|remedy| is_momentary(remedy)).for_each(bound);
    // Of what is free here, so much is needed again.
    all.iter_mut().filter(|remedy| remedy.expected_bytes / 10 < needed).for_each(bound);
    let least = least_worth(footprint);
    all.retain(|remedy| remedy.expected_bytes >= least);
    let was_in_use = all.iter().any(is_momentary);
    all.sort_by_key(|remedy| (remedy.certainty == Certainty::AtMost, std::cmp::Reverse(remedy.expected_bytes)));
    for remedy in all.iter_mut().filter(|remedy| remedy.certainty == Certainty::AtMost) {
        let is_about_a_part = matches!(remedy.remedy, RemedyKind::TrimThreshold | RemedyKind::MmapThreshold);
        remedy.own_bytes = Some(remedy.expected_bytes).filter(|&own| is_about_a_part && own < remedy.most);
        // Of what came on top of it up to the highest, no more than what lay where the remedy reaches.
        let on_top = undivided.map_or(0, |undivided| reached(undivided, remedy.remedy));
        remedy.expected_bytes = remedy.expected_bytes.max(remedy.most).saturating_add(on_top);
    }
    (all, was_in_use)
}

/// Bytes of what was not divided that a remedy may reach; 0 where it is not known.
fn reached(undivided: &Undivided, remedy: RemedyKind) -> u64 {
    let Some(blocks) = undivided.blocks else { return 0 };
    let reached = match remedy {
        RemedyKind::MallocTrim
        | RemedyKind::ArenaMax
        | RemedyKind::TrimThreshold
        | RemedyKind::MmapThreshold
        | RemedyKind::ThreadCaches
        | RemedyKind::Pool
        | RemedyKind::OtherAllocator => blocks.heap_bytes,
        // Twice the requested bytes, for what these took beside.
        RemedyKind::Decay | RemedyKind::BackgroundThread => blocks.other_bytes.saturating_mul(2),
        RemedyKind::NumpyHugePages | RemedyKind::ThreadStacks => 0,
    };
    reached.min(undivided.bytes)
}

/// Makes the estimates bounds, which may be 0. What was in use until the program's end is free after it, when nobody
/// has a use for it; what is free for a moment is in use before or after it.
fn bound(remedy: &mut Remedy) {
    (remedy.certainty, remedy.least_bytes) = (Certainty::AtMost, 0);
}

fn remedy(remedy: RemedyKind, setting: &str, least: u64, expected: u64, certainty: Certainty) -> Remedy {
    let setting = Some(setting.to_owned()).filter(|setting| !setting.is_empty());
    Remedy {
        remedy,
        setting,
        expected_bytes: expected,
        most: expected,
        least_bytes: least.min(expected),
        certainty,
        allocator: Some("glibc"),
        module: None,
        places: Vec::new(),
        own_holes: false,
        own_bytes: None,
    }
}

fn of_glibc(footprint: &Footprint, process: &Process, ledger: &RssLedger<'_>) -> Vec<Remedy> {
    let arenas: Vec<ArenaSums> = ledger.arenas.iter().filter(|arena| arena.owner == LIBRARY).copied().collect();
    let sums = &ledger.by_owner[LIBRARY].sums;
    let sum = |of: fn(&ArenaSums) -> u64| arenas.iter().map(of).sum::<u64>();
    let main = |of: fn(&ArenaSums) -> u64| {
        arenas.iter().filter(|arena| arena.kind == TerritoryKind::MainArena).map(of).sum::<u64>()
    };
    let mut all = Vec::new();
    // Other arenas keep their ends.
    let (between, top) = (sum(|arena| arena.trim_between), main(|arena| arena.trim_top));
    let stacks = footprint.mappings.iter().filter(|mapping| mapping.kind == MappingKind::ThreadStack).count();
    // Pages that are locked in memory stay: `madvise` fails there.
    let expected = between.saturating_sub(sum(|arena| arena.trim_locked)) + top;
    // What they hold is not in the gaps, where it is known.
    let cached = if ledger.knows_caches { 0 } else { CACHED * PAGE };
    let cached = cached.saturating_mul(stacks as u64 + 1).min(expected);
    let certainty = if cached <= expected / 10 { Certainty::Sure } else { Certainty::Likely };
    all.push(remedy(RemedyKind::MallocTrim, "malloc_trim(0)", expected - cached, expected, certainty));

    // Either setting is what glibc begins with, and fixes it. Where its thresholds have not risen, or the environment
    // fixes them, it changes nothing.
    if ledger.large.rose {
        let tops = arenas.iter().map(|arena| arena.trim_top);
        let kept: u64 = tops.map(|top| top.saturating_sub(if top > 2 * TOP_PAD { TOP_PAD } else { top })).sum();
        // Blocks lie elsewhere under either setting, and leave other gaps.
        let most = between.saturating_add(kept).saturating_add(sum(|arena| arena.holes));
        // What is free in smaller gaps was no large block, whatever the program had of these.
        let gaps = sum(|arena| arena.trim_large);
        let free = gaps.saturating_add(kept);
        let expected = ledger.large.given_up.min(free);
        // Freed small blocks that lie next to each other leave large gaps as well, and nothing says whose a gap was.
        let is_theirs = free.saturating_sub(ledger.large.small_given_up) >= expected / 10 * 9;
        let certainty = if is_theirs { Certainty::Likely } else { Certainty::AtMost };
        let blocks =
            remedy(RemedyKind::MmapThreshold, "MALLOC_MMAP_THRESHOLD_=131072", 0, expected.max(kept), certainty);
        // Of lua's 38.5 MB, blocks of 63 bytes had left 30, and the setting released nothing.
        let has_blocks = expected > 0 && (is_theirs || expected >= free / 2);
        // Either setting fixes both thresholds (`do_set_trim_threshold` and `do_set_mmap_threshold` of malloc.c): what
        // was said of the ends alone, 4.06 MB, was 11.4, as large blocks had left the rest. Under it blocks lie
        // elsewhere, and ends are given back at frees that reach them: where most of what is free lies between blocks,
        // 1.04 MB of ends were 0, and 545 kB were 1.7 MB.
        let beside = ledger.large.given_up.min(gaps);
        let (bytes, certainty) = match beside > kept / 10 {
            true => (kept.saturating_add(beside), Certainty::AtMost),
            false if most - kept > kept / 4 => (kept, Certainty::AtMost),
            false => (kept, Certainty::Likely),
        };
        let ends = remedy(RemedyKind::TrimThreshold, "MALLOC_TRIM_THRESHOLD_=131072", 0, bytes, certainty);
        all.push(Remedy { most, ..if has_blocks { blocks } else { ends } });
    }

    // What several arenas have free now, one had needed at its own peak; a single one needs no more than the peak of
    // all.
    let is_thread = |arena: &&ArenaSums| arena.kind == TerritoryKind::ThreadArena;
    let threads = || arenas.iter().filter(is_thread);
    if threads().count() > 1 {
        let free: u64 = threads().map(ArenaSums::free).sum();
        let used: u64 = arenas.iter().filter(|a| a.kind != TerritoryKind::OwnMappings).map(|arena| arena.used).sum();
        let resident: u64 = arenas.iter().filter(|a| a.kind != TerritoryKind::OwnMappings).map(|a| a.resident).sum();
        let live = sums.live_bytes.max(1);
        let peak = u128::from(process.own_peak_bytes.max(live)) * u128::from(used) / u128::from(live);
        let holes: u64 = arenas.iter().map(|arena| arena.holes).sum();
        let needed = u64::try_from(peak).unwrap_or(u64::MAX).max(used.saturating_add(holes));
        let expected = resident.saturating_sub(needed).min(free);
        // Where most of what is free was needed at one time, the rest is within the error of that: six threads that
        // were all at their peaks had 6.7 MB of 28 MB too much, and gave 0 MB back. What threads kept of freed blocks
        // at the peak was in no live block, and one arena has it between all other blocks: 64 threads that had filled
        // their caches and ended were promised 2.0 MB, and took 12 MB more.
        let cached = CACHE_MOST.saturating_mul(threads().count() as u64);
        let is_likely = expected > free / 2 && expected > 2 * cached;
        let certainty = if is_likely { Certainty::Likely } else { Certainty::AtMost };
        let found = remedy(RemedyKind::ArenaMax, "MALLOC_ARENA_MAX=1", 0, expected, certainty);
        all.push(Remedy { most: resident.saturating_sub(used), ..found });
    }
    // What is not kept joins its free neighbours; live blocks between them may pin the pages all the same.
    let most = [sums.holes_bytes, sums.free_bytes].into_iter().fold(sums.cached_bytes, u64::saturating_add);
    let setting = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0";
    let found = remedy(RemedyKind::ThreadCaches, setting, 0, sums.cached_bytes, Certainty::AtMost);
    all.push(Remedy { most, ..found });
    // Offered for the holes; it has other free pages, caches, headers and rounding as well.
    let beside = [sums.free_bytes, sums.cached_bytes, sums.allocator_bytes, sums.rounding_bytes];
    let most = beside.into_iter().fold(sums.holes_bytes, u64::saturating_add);
    all.push(Remedy { most, ..remedy(RemedyKind::OtherAllocator, "", 0, sums.holes_bytes, Certainty::AtMost) });
    all
}

/// Bytes of mappings without a live block that may be an allocator's free memory, as far as the program has freed that
/// much: twice the requested bytes, for what these took beside.
fn unowned(footprint: &Footprint, process: &Process, ledger: &RssLedger<'_>) -> u64 {
    let is_unnamed = |index: usize| footprint.mappings.get(index).is_some_and(|mapping| mapping.name.is_empty());
    let unnamed = ledger.others.iter().filter(|(index, _)| is_unnamed(*index)).map(|(_, bytes)| bytes).sum::<u64>();
    let freed = process.own_peak_bytes.saturating_sub(ledger.sums.live_bytes);
    unnamed.min(freed.saturating_mul(2))
}

/// Bytes that a thread needs of its stack, unless it is known to need more.
const ENOUGH_STACK: u64 = 256 << 10;
/// Bytes of a thread's stack where neither the program nor the user sets another size.
const USUAL_STACK: u64 = 8 << 20;

/// The remedy for locked stacks: locked memory is in memory whether it is used or not, so a smaller stack is less RSS.
/// Elsewhere, pages of a stack are those that a thread has touched, and it would touch as many of a smaller one.
fn of_stacks(footprint: &Footprint, ledger: &RssLedger<'_>) -> Remedy {
    let stacks = ledger.stacks.iter().filter_map(|&index| footprint.mappings.get(index));
    let is_whole = |mapping: &&Mapping| {
        let size = mapping.end - mapping.start;
        mapping.flags.has(MappingFlags::LOCKED) && mapping.sizes.rss >= size / 10 * 9
    };
    let locked: Vec<&Mapping> = stacks.filter(is_whole).collect();
    let saved = locked.iter().fold(0u64, |sum, m| sum.saturating_add(m.sizes.rss.saturating_sub(ENOUGH_STACK)));
    // glibc keeps the guard in it or beside it.
    let is_usual = |mapping: &&&Mapping| (mapping.end - mapping.start).abs_diff(USUAL_STACK) <= 16 * PAGE;
    let is_java = footprint.mappings.iter().any(|mapping| mapping.name.ends_with("/libjvm.so"));
    let setting = match locked.iter().filter(is_usual).count() * 2 > locked.len() {
        _ if is_java => "-Xss256k",
        true => "ulimit -s 256",
        false => "",
    };
    Remedy { allocator: None, ..remedy(RemedyKind::ThreadStacks, setting, 0, saved, Certainty::Likely) }
}

/// Settings with which another allocator gives free pages back, where this copy of it reads any. `unowned` is memory
/// that may belong to it.
fn of_others(owner: &Owner, own: &OwnerSums, unowned: u64) -> Vec<Remedy> {
    let Some(variable) = owner.environment.as_deref() else { return Vec::new() };
    let settings: &[(RemedyKind, &str)] = match owner.allocator {
        Allocator::Jemalloc => &[
            (RemedyKind::Decay, "dirty_decay_ms:0,muzzy_decay_ms:0"),
            (RemedyKind::BackgroundThread, "background_thread:true"),
        ],
        Allocator::Tcmalloc => &[(RemedyKind::Decay, "t")],
        Allocator::Mimalloc => &[(RemedyKind::Decay, "0")],
        Allocator::Glibc | Allocator::Unknown => &[],
    };
    // Among them are caches of threads, and what the allocator needs for itself.
    let most = own.sums.free_bytes.saturating_add(unowned);
    let of_setting = |&(kind, value): &(RemedyKind, &str)| {
        let setting = format!("{variable}={value}");
        let found = remedy(kind, &setting, 0, most, Certainty::AtMost);
        Remedy { allocator: owner.allocator.name(), module: owner.module.clone(), ..found }
    };
    settings.iter().map(of_setting).collect()
}

/// Whether the process ran with a remedy's setting. jemalloc's options are a list, and those of the environment
/// override what is compiled in; to tcmalloc, anything but a no says yes.
fn is_in_force(footprint: &Footprint, ledger: &RssLedger<'_>, owner: &Owner, remedy: &Remedy) -> bool {
    let Some((name, value)) = remedy.setting.as_deref().and_then(|setting| setting.split_once('=')) else {
        return false;
    };
    let own = value_of(&footprint.settings, name);
    match owner.allocator {
        Allocator::Tcmalloc => own.is_some_and(|own| own.starts_with(['t', 'T', 'y', 'Y', '1'])),
        Allocator::Jemalloc if remedy.remedy == RemedyKind::BackgroundThread && footprint.has_background_thread => {
            // The thread runs. Whose it is, the settings of all copies tell, or nothing does.
            let has_it = |owner: &&Owner| owner.environment.is_some() && has_options(footprint, owner, value);
            let mut others = ledger.owners.all.iter().filter(|other| other.allocator == Allocator::Jemalloc);
            has_options(footprint, owner, value) || !others.any(|other| has_it(&other))
        }
        Allocator::Jemalloc => has_options(footprint, owner, value),
        _ => own == Some(value),
    }
}

/// Whether a copy of jemalloc runs with all options of a list.
fn has_options(footprint: &Footprint, owner: &Owner, wanted: &str) -> bool {
    let environment = owner.environment.as_deref().and_then(|name| value_of(&footprint.settings, name));
    wanted.split(',').filter_map(|option| option.split_once(':')).all(|(key, value)| {
        let of = |list: &'_ str| option_of(list, key).map(str::to_owned);
        environment.and_then(of).or_else(|| of(&owner.options)).is_some_and(|own| own == value)
    })
}

fn option_of<'a>(list: &'a str, key: &str) -> Option<&'a str> {
    // The last one counts.
    let mut options = list.rsplit(',').filter_map(|option| option.trim().split_once(':'));
    options.find(|(own, _)| *own == key).map(|(_, value)| value)
}

fn value_of<'a>(settings: &'a [String], name: &str) -> Option<&'a str> {
    settings.iter().filter_map(|setting| setting.split_once('=')).find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// Settings of numpy. `PYTHONMALLOC=malloc` is none: where what stays pins pymalloc's arenas, it pins malloc's pages as
/// well, and the objects take more (198 MB became 197 where 176 of them were free).
fn of_python(footprint: &Footprint, ledger: &RssLedger<'_>) -> Vec<Remedy> {
    let has_numpy = footprint.mappings.iter().any(|mapping| mapping.name.contains("_multiarray_umath"));
    let zeros = if has_numpy { ledger.huge_zeros } else { 0 };
    let found = remedy(RemedyKind::NumpyHugePages, "NUMPY_MADVISE_HUGEPAGE=0", 0, zeros, Certainty::AtMost);
    vec![Remedy { allocator: None, ..found }]
}

/// The remedy that pools the fewest places which bring four fifths of what all of them would. Blocks that places freed
/// themselves leave the same holes in a pool.
fn pool(ledger: &RssLedger<'_>) -> Option<Remedy> {
    let Pools { places, together, own_freed } = &ledger.pools;
    let most = *together.last()?;
    let at = together.iter().position(|&sum| sum >= most - most / 5)?;
    let expected = *together.get(at)?;
    let own = own_freed.iter().take(at + 1).fold(0u64, |sum, &one| sum.saturating_add(one));
    let own_holes = own > expected / LITTLE;
    let certainty = if own_holes { Certainty::AtMost } else { Certainty::Likely };
    let least = if own_holes { 0 } else { expected - own };
    let named = places.iter().take(at + 1).filter_map(|&place| ledger.places.get(place as usize)?.named);
    let places = named.map(|named| ledger.functions.place(&named)).collect();
    // The pages are empty then, and have to be given back.
    Some(Remedy { places, own_holes, allocator: None, ..remedy(RemedyKind::Pool, "", least, expected, certainty) })
}
