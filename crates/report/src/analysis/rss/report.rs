//! The report of a process's memory at one moment.

use std::ops::AddAssign;

use mallow_profile::{Footprint, HeapMap, Mapping, MappingFlags, MappingKind, Process, ProcessId, Profile};
use serde::Serialize;

use super::geometry::Allocator;
use super::kept_apart::KeptApart;
use super::ledger::{HeapSums, OwnerSums, PlaceEntry, PlaceSums, RssLedger};
use super::notes::{RssNote, changes};
use super::owners::Owner;
use super::parts::{Cause, Part, cause, parts};
use super::peak::{BusierMoment, FreedAfter, FreedBefore, KeptMoment, KernelPeak, OlderBlocks};
use super::remedies::{Remedy, remedies};
use super::territory::TerritoryKind;
use super::undivided::Undivided;
use crate::analysis::numbers::{Ending, LeftOut};
use crate::analysis::stacks::functions::{Frame, Stack};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RssMoment {
    /// The footprint with the highest RSS.
    #[default]
    Highest,
    End,
    /// The footprint nearest to this time, in milliseconds since the recording began.
    Ms(u64),
}

/// The memory of the processes of a recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rss {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Milliseconds from the begin of the recording to its end.
    pub duration_ms: u64,
    #[serde(flatten)]
    pub ending: Ending,
    /// Processes whose memory was read, those with the highest RSS first.
    pub processes: Vec<RssProcess>,
    /// Account of one of the processes, in full.
    #[serde(flatten)]
    pub account: RssAccount,
}

/// A process whose memory was read.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RssProcess {
    /// Process id.
    pub pid: u32,
    /// Number of the process image among those with this pid, from 0: exec begins the next one.
    pub serial: u32,
    /// Path of the executable.
    pub executable: String,
    /// Highest RSS of the process, by the kernel.
    #[serde(flatten)]
    pub peak: KernelPeak,
    /// Highest RSS of the process that was read, in bytes.
    pub highest_rss: u64,
    /// Moment of `highest_rss`, in milliseconds since the recording began.
    pub highest_ms: u64,
    /// PSS at the moment of `highest_rss`, in bytes.
    pub highest_pss: u64,
    /// Requested bytes of live blocks at the moment of `highest_rss`; null where the process may have some that are not
    /// known.
    pub highest_live_bytes: Option<u64>,
    /// Last RSS of the process that was read, in bytes.
    pub end_rss: u64,
    /// The document's account is of this process.
    pub is_shown: bool,
}

/// Account of the memory of one process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RssAccount {
    /// Process id.
    pub pid: u32,
    /// Number of the process image among those with this pid, from 0: exec begins the next one.
    pub serial: u32,
    /// Path of the executable.
    pub executable: String,
    /// Moment of the account, in milliseconds since the recording began.
    pub ms: u64,
    /// The moment stands for the highest RSS: no higher one was read, or only after the process had freed most of its
    /// blocks at its exit.
    pub is_highest: bool,
    /// The moment is the last one that was read.
    pub is_last: bool,
    /// The process waited at its exit at the moment of the account: it is the end of the process.
    pub is_at_exit: bool,
    /// RSS as the kernel has it: the sum of `parts`.
    pub rss: u64,
    /// PSS in bytes: RSS with each shared page divided by the number of processes that have it.
    pub pss: u64,
    /// Highest RSS of the process, by the kernel.
    #[serde(flatten)]
    pub peak: KernelPeak,
    /// Allocator that manages most of the memory; null where it is unknown.
    pub allocator: Option<&'static str>,
    /// Allocators that manage some of the memory, those with most first.
    pub allocators: Vec<AllocatorRow>,
    /// Live blocks that were allocated while the process was recorded.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Reason why there may be live blocks that are not known; null: there are none.
    pub older_blocks: Option<OlderBlocks>,
    /// Live bytes within the second before this moment, where most of them were freed in it, or so many that a remedy
    /// is a bound. Null elsewhere.
    pub freed_before: Option<FreedBefore>,
    /// A moment of the same RSS with markedly more live bytes: remedies are bounds then. Null: none is known, there are
    /// no remedies, or the account is not that of the highest RSS.
    pub busier: Option<BusierMoment>,
    /// The last moment, where RSS was nearly the same and markedly less was live. Null: it was not so, or the account
    /// is not that of the highest RSS.
    pub kept: Option<KeptMoment>,
    /// The end of the process, where markedly less was live than at this moment, the last one that was read. Null: it
    /// was not so, or the moment is another one.
    pub freed_after: Option<FreedAfter>,
    /// Growth from this moment to the highest RSS; null: hardly any, or the account is not that of the highest RSS.
    pub undivided: Option<Undivided>,
    /// Bytes of `live_bytes` that lie in no part: where no pages were read, or in mappings that came after the reading.
    pub elsewhere_bytes: u64,
    /// Pages that were unmapped while the memory was read, before anything said whose they were: a part of what changed
    /// while it was read.
    pub unmapped_bytes: u64,
    /// Parts of RSS; the sum of their bytes is `rss`.
    pub parts: Vec<Part>,
    /// Largest part of RSS that is in memory; null where none is.
    pub cause: Option<Cause>,
    /// Remedies that would make RSS smaller.
    pub remedies: Vec<Remedy>,
    /// Places with live blocks, shown here or not.
    pub places_in_all: u64,
    /// Places with the most live bytes, rounding and holes.
    pub places: Vec<RssPlace>,
    /// Sums of the places that are not shown; null where all are.
    pub hidden: Option<LeftOut<PlaceTotals>>,
    /// Blocks by usable size, those with most rounding first.
    pub size_classes: Vec<SizeClassRow>,
    /// Free pages by where they lie.
    pub free_pages: Vec<FreeRow>,
    /// The largest mappings that no allocator of the program manages.
    pub mappings: Vec<MappingRow>,
    /// Stacks of threads beside the first one; null where pages were not read.
    pub thread_stacks: Option<ThreadStacks>,
    /// Whether glibc's heap has no room to grow: it goes on in mappings, which keep what was freed there.
    pub heap_is_blocked: bool,
    /// Kinds of memory that are counted beside the parts.
    pub kept_apart: KeptApart,
    /// Limits of the account.
    pub limits: Vec<RssNote>,
    /// Settings of the process that the recording changed, a sentence each.
    pub changed: Vec<&'static str>,
    /// Reason why the account has no pages; null where it has them.
    pub no_pages: Option<String>,
}

/// Sums over the live blocks of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceTotals {
    /// Number of live blocks.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Bytes of `live_bytes` that are in memory.
    pub resident_bytes: u64,
    /// Usable bytes of the live blocks that were not requested.
    pub rounding_bytes: u64,
    /// Share of the free bytes in pages that the blocks pin.
    pub holes_bytes: u64,
}

impl AddAssign for PlaceTotals {
    fn add_assign(&mut self, other: Self) {
        self.live = self.live.saturating_add(other.live);
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        self.resident_bytes = self.resident_bytes.saturating_add(other.resident_bytes);
        self.rounding_bytes = self.rounding_bytes.saturating_add(other.rounding_bytes);
        self.holes_bytes = self.holes_bytes.saturating_add(other.holes_bytes);
    }
}

/// A line of a function of the program's own, with what its blocks take and pin.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RssPlace {
    /// The function; without its keys where the place's sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    #[serde(flatten)]
    pub totals: PlaceTotals,
    /// Free bytes in pages that the place's blocks alone pin: they would be released with these blocks elsewhere.
    pub alone_bytes: u64,
    /// Pages that have both blocks of the place and free bytes.
    pub pinned_pages: u64,
    /// Call sites of the place with live blocks.
    pub sites: u64,
    /// Stack of the call site with the most live bytes.
    pub largest_site: Stack,
}

/// Blocks of one usable size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeClassRow {
    /// Usable size of a block of the class, in bytes.
    pub usable: u64,
    /// Live blocks of the size class.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Usable bytes of the class's blocks that were not requested.
    pub rounding_bytes: u64,
}

/// An allocator of the process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllocatorRow {
    /// Name of the allocator; null where it is unknown.
    pub allocator: Option<&'static str>,
    /// Path of the file that has the allocator inside, or is it; null for the C library's, and where it is not known.
    pub module: Option<String>,
    /// Variable of the environment that this copy of the allocator reads for giving free pages back; null where it
    /// reads none that Mallow knows.
    pub environment: Option<String>,
    #[serde(flatten)]
    pub sums: HeapSums,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FreeRow {
    /// Name of the allocator; null where it is not known.
    pub allocator: Option<&'static str>,
    /// Path of the file that has the allocator inside, or is it; null for the C library's, and where it is not known.
    pub module: Option<String>,
    /// Kind of the arenas, or of the allocator's mappings.
    pub arena: TerritoryKind,
    /// Arenas of this kind with free pages.
    pub arenas: u64,
    /// Free bytes between blocks.
    pub between_bytes: u64,
    /// Free bytes behind the last block.
    pub top_bytes: u64,
    /// Free bytes in arenas without a live block.
    pub unused_bytes: u64,
    /// Free bytes in pages that only blocks in caches of threads pin.
    pub beside_cached_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappingRow {
    /// Path of the mapped file, or a name in brackets; empty for a mapping without a name.
    pub name: String,
    /// First address of the mapping, in hexadecimal.
    pub start: String,
    /// Bytes of address space of the mapping, resident or not.
    pub size: u64,
    /// Bytes that are in memory and managed by no allocator of the program.
    pub rss: u64,
}

/// Stacks of threads beside the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadStacks {
    /// Threads with a stack.
    pub stacks: u64,
    /// Stacks of ended threads that the C library keeps.
    pub ended: u64,
    /// Bytes of the stacks that are in memory.
    pub resident_bytes: u64,
    /// Bytes of `resident_bytes` that are locked in memory.
    pub locked_bytes: u64,
    /// Bytes of address space of the stacks, in memory or not.
    pub reserved_bytes: u64,
}

/// The index of the footprint that is shown: of the process with this index, or of the one with the highest RSS.
pub fn shown_footprint(profile: &Profile, process: Option<u32>, at: RssMoment) -> Option<usize> {
    let all = || profile.footprints.iter().enumerate();
    let process = match process {
        Some(number) => ProcessId(number),
        None => {
            let peak = |footprint: &Footprint| KernelPeak::of(profile, footprint.process).map(|peak| peak.peak_rss);
            all().max_by_key(|(index, footprint)| (peak(footprint), std::cmp::Reverse(*index)))?.1.process
        }
    };
    let own = all().filter(|(_, footprint)| footprint.process == process);
    let found = match at {
        RssMoment::Highest => own.max_by_key(|(_, footprint)| (footprint.is_highest, footprint.totals.rss)),
        RssMoment::End => own.max_by_key(|(_, footprint)| (footprint.is_last, footprint.ms)),
        RssMoment::Ms(ms) => own.min_by_key(|(_, footprint)| footprint.ms.abs_diff(ms)),
    };
    found.map(|(index, _)| index)
}

/// The report of a footprint, by its index, with at most `limit` places and rows of each list; None without such a
/// footprint.
pub fn rss(profile: &Profile, index: usize, heap: Option<&HeapMap>, limit: usize) -> Option<Rss> {
    let footprint = profile.footprints.get(index)?;
    let process = profile.processes.get(footprint.process.0 as usize)?;
    let ledger = heap.map(|heap| RssLedger::of(profile, footprint, heap));
    Some(Rss {
        command: profile.command.clone(),
        duration_ms: profile.duration_ms,
        ending: Ending::of(profile),
        processes: processes(profile, footprint.process),
        account: account(profile, footprint, process, ledger.as_ref(), limit)?,
    })
}

fn processes(profile: &Profile, shown: ProcessId) -> Vec<RssProcess> {
    let mut rows: Vec<RssProcess> = Vec::new();
    let peaks = KernelPeak::all(profile);
    for own in profile.footprints.chunk_by(|one, next| one.process == next.process) {
        let highest = own.iter().max_by_key(|footprint| (footprint.is_highest, footprint.totals.rss));
        let last = own.iter().max_by_key(|footprint| (footprint.is_last, footprint.ms));
        let (Some(highest), Some(last)) = (highest, last) else { continue };
        let id = highest.process;
        let Some(process) = profile.processes.get(id.0 as usize) else { continue };
        let Some(&peak) = peaks.get(&id) else { continue };
        rows.push(RssProcess {
            pid: process.pid,
            serial: process.serial,
            executable: executed(process),
            peak,
            highest_rss: highest.totals.rss,
            highest_ms: highest.ms,
            highest_pss: highest.totals.pss,
            highest_live_bytes: OlderBlocks::of(process).is_none().then_some(highest.live_bytes),
            end_rss: last.totals.rss,
            is_shown: id == shown,
        });
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.peak.peak_rss));
    rows
}

/// The path by which the process was executed.
fn executed(process: &Process) -> String {
    if process.executed_as.is_empty() { &process.executable } else { &process.executed_as }.clone()
}

fn account(
    profile: &Profile,
    footprint: &Footprint,
    process: &Process,
    ledger: Option<&RssLedger<'_>>,
    limit: usize,
) -> Option<RssAccount> {
    let peak = KernelPeak::of(profile, footprint.process)?;
    let busier = BusierMoment::of(profile, footprint);
    let needed = busier.map_or(0, |moment| moment.more(footprint.live_bytes));
    let kept = KeptMoment::of(profile, footprint);
    let freed_after = FreedAfter::of(footprint, process);
    let parts = parts(footprint, ledger);
    // Of another moment than the highest, that moment's parts are all that is asked for.
    let on_top = if footprint.is_highest { peak.peak_rss.saturating_sub(footprint.totals.rss) } else { 0 };
    let undivided = ledger.and_then(|ledger| Undivided::of(profile, footprint, &peak, ledger));
    let offered = ledger.map(|ledger| remedies(footprint, process, ledger, needed, undivided.as_ref()));
    let (remedies, was_in_use) = offered.unwrap_or_default();
    // What is live in one of the two moments alone may be no page of either: it says something of remedies only.
    let busier = busier.filter(|_| !remedies.is_empty());
    let freed_before = FreedBefore::of(footprint, was_in_use);
    let notes = Notes {
        is_freed: freed_before.is_some(),
        is_busier: busier.is_some(),
        is_kept: kept.is_some(),
        is_freed_after: freed_after.is_some(),
        is_undivided: undivided.is_some() && !remedies.is_empty(),
    };
    let mut entries: Vec<&PlaceEntry> = ledger.map(|ledger| ledger.places.iter().collect()).unwrap_or_default();
    let weight =
        |sums: &PlaceSums| sums.live_bytes.saturating_add(sums.rounding_bytes).saturating_add(sums.holes_bytes);
    entries.sort_by_key(|entry| (std::cmp::Reverse(weight(&entry.sums)), entry.largest.1));
    let places_in_all = entries.len() as u64;
    let hidden = LeftOut::after(limit, entries.iter().map(|entry| totals(&entry.sums)));
    let shown = entries.into_iter().take(limit);
    Some(RssAccount {
        pid: process.pid,
        serial: process.serial,
        executable: executed(process),
        ms: footprint.ms,
        is_highest: footprint.is_highest,
        is_last: footprint.is_last,
        is_at_exit: footprint.is_at_exit,
        rss: footprint.totals.rss,
        pss: footprint.totals.pss,
        peak,
        allocator: ledger.and_then(|ledger| allocator_rows(ledger).first()?.allocator),
        allocators: ledger.map(allocator_rows).unwrap_or_default(),
        live: footprint.live_blocks,
        live_bytes: footprint.live_bytes,
        older_blocks: OlderBlocks::of(process),
        freed_before,
        busier,
        kept,
        freed_after,
        undivided,
        elsewhere_bytes: ledger.map_or(0, |ledger| ledger.elsewhere.live_bytes),
        unmapped_bytes: ledger.map_or(0, RssLedger::unmapped),
        cause: cause(profile, footprint, ledger, &parts, on_top),
        remedies,
        places_in_all,
        places: ledger.map(|ledger| shown.map(|entry| place(ledger, entry)).collect()).unwrap_or_default(),
        hidden,
        size_classes: ledger.map(|ledger| size_classes(ledger, limit)).unwrap_or_default(),
        free_pages: ledger.map(free_rows).unwrap_or_default(),
        mappings: mappings(footprint, ledger, limit),
        thread_stacks: ledger.map(|ledger| thread_stacks(footprint, ledger)),
        heap_is_blocked: ledger.is_some_and(|ledger| ledger.owners.has_glibc()) && is_blocked(&footprint.mappings),
        kept_apart: KeptApart::of(footprint),
        limits: limits(footprint, ledger, &peak, notes),
        changed: changes(profile, footprint.process),
        no_pages: footprint.gap.clone(),
        parts,
    })
}

fn totals(sums: &PlaceSums) -> PlaceTotals {
    let &PlaceSums { live, live_bytes, resident_bytes, rounding_bytes, holes_bytes, .. } = sums;
    PlaceTotals { live, live_bytes, resident_bytes, rounding_bytes, holes_bytes }
}

fn place(ledger: &RssLedger<'_>, entry: &PlaceEntry) -> RssPlace {
    let functions = &ledger.functions;
    let through = functions.named(entry.largest.1).and_then(|named| named.through);
    RssPlace {
        frame: entry.named.map(|named| functions.place(&named)),
        through: through.map(|step| functions.name(step.function)),
        totals: totals(&entry.sums),
        alone_bytes: entry.sums.alone_bytes,
        pinned_pages: entry.sums.pinned_pages,
        sites: entry.sites,
        largest_site: functions.stack(entry.largest.1),
    }
}

fn size_classes(ledger: &RssLedger<'_>, limit: usize) -> Vec<SizeClassRow> {
    let row = |(&usable, sums): (&u64, &super::ledger::ClassSums)| SizeClassRow {
        usable,
        live: sums.live,
        live_bytes: sums.live_bytes,
        rounding_bytes: sums.rounding_bytes,
    };
    let mut rows: Vec<SizeClassRow> = ledger.classes.iter().map(row).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.rounding_bytes), row.usable));
    rows.truncate(limit);
    rows
}

/// The allocators that manage any memory; where there are none, the one that would.
fn allocator_rows(ledger: &RssLedger<'_>) -> Vec<AllocatorRow> {
    let row = |(owner, own): (&Owner, &OwnerSums)| AllocatorRow {
        allocator: owner.allocator.name(),
        module: owner.module.clone(),
        environment: owner.environment.clone(),
        sums: own.sums,
    };
    let weight = |sums: &HeapSums| {
        let managed = [sums.live_bytes, sums.allocator_bytes, sums.holes_bytes, sums.free_bytes, sums.cached_bytes];
        managed.into_iter().fold(0u64, u64::saturating_add)
    };
    let mut rows: Vec<AllocatorRow> = ledger.owners.all.iter().zip(&ledger.by_owner).map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(weight(&row.sums)));
    let managing = rows.iter().filter(|row| weight(&row.sums) > 0).count();
    rows.truncate(managing.max(1));
    rows
}

fn free_rows(ledger: &RssLedger<'_>) -> Vec<FreeRow> {
    let mut rows: Vec<(usize, FreeRow)> = Vec::new();
    for arena in ledger.arenas.iter().filter(|arena| arena.free() > 0) {
        let is_known = |(owner, row): &(usize, FreeRow)| *owner == arena.owner && row.arena == arena.kind;
        let known = rows.iter().position(is_known).unwrap_or_else(|| {
            let owner = &ledger.owners.all[arena.owner];
            let row = FreeRow {
                allocator: owner.allocator.name(),
                module: owner.module.clone(),
                arena: arena.kind,
                arenas: 0,
                between_bytes: 0,
                top_bytes: 0,
                unused_bytes: 0,
                beside_cached_bytes: 0,
            };
            rows.push((arena.owner, row));
            rows.len() - 1
        });
        let row = &mut rows[known].1;
        row.arenas += 1;
        row.between_bytes += arena.between;
        row.top_bytes += arena.top;
        row.unused_bytes += arena.unused;
        row.beside_cached_bytes += arena.beside_cached;
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn mappings(footprint: &Footprint, ledger: Option<&RssLedger<'_>>, limit: usize) -> Vec<MappingRow> {
    let mut rows: Vec<(usize, u64)> = ledger.map(|ledger| ledger.others.clone()).unwrap_or_default();
    for (index, mapping) in footprint.mappings.iter().enumerate() {
        let is_divided = ledger.is_some() && matches!(mapping.kind, MappingKind::Heap | MappingKind::Anonymous);
        if mapping.sizes.rss > 0 && !(is_divided && mapping.has_pages) {
            rows.push((index, mapping.sizes.rss));
        }
    }
    rows.sort_by_key(|&(index, rss)| (std::cmp::Reverse(rss), index));
    rows.truncate(limit);
    let row = |(index, rss): (usize, u64)| {
        let mapping = &footprint.mappings[index];
        let start = format!("{:#x}", mapping.start);
        MappingRow { name: mapping.name.clone(), start, size: mapping.end - mapping.start, rss }
    };
    rows.into_iter().map(row).collect()
}

/// Whether a mapping lies so near behind `[heap]` that the next request may not fit before it (brk fails then).
fn is_blocked(mappings: &[Mapping]) -> bool {
    const NEAR: u64 = 32 << 20;
    let Some(last) = mappings.iter().rposition(|mapping| mapping.kind == MappingKind::Heap) else { return false };
    mappings.get(last + 1).is_some_and(|next| next.start.saturating_sub(mappings[last].end) < NEAR)
}

fn thread_stacks(footprint: &Footprint, ledger: &RssLedger<'_>) -> ThreadStacks {
    let own = ledger.stacks.iter().filter_map(|&index| footprint.mappings.get(index));
    let all = own.fold(ThreadStacks::default(), |sums, mapping| {
        let rss = mapping.sizes.rss;
        let is_locked = mapping.flags.has(MappingFlags::LOCKED);
        ThreadStacks {
            stacks: sums.stacks + 1,
            ended: 0,
            resident_bytes: sums.resident_bytes.saturating_add(rss),
            locked_bytes: sums.locked_bytes.saturating_add(if is_locked { rss } else { 0 }),
            reserved_bytes: sums.reserved_bytes.saturating_add(mapping.end - mapping.start),
        }
    });
    let stacks = match footprint.threads {
        0 => all.stacks,
        threads => all.stacks.min(threads - 1),
    };
    ThreadStacks { stacks, ended: all.stacks - stacks, ..all }
}

struct Notes {
    is_freed: bool,
    is_busier: bool,
    is_kept: bool,
    is_freed_after: bool,
    is_undivided: bool,
}

fn limits(footprint: &Footprint, ledger: Option<&RssLedger<'_>>, peak: &KernelPeak, notes: Notes) -> Vec<RssNote> {
    let mut all = Vec::new();
    let mut add = |is_so: bool, note| all.extend(is_so.then_some(note));
    add(footprint.gap.is_some() || ledger.is_none(), RssNote::NoPages);
    if let Some(ledger) = ledger {
        let rows = allocator_rows(ledger);
        let has = |allocator: Allocator| rows.iter().any(|row| row.allocator == allocator.name());
        let knows_classes = ledger.owners.all.iter().zip(&ledger.by_owner).all(|(owner, own)| {
            own.knows_classes || !rows.iter().any(|row| row.allocator.is_none() && row.module == owner.module)
        });
        let hides_tables = |row: &AllocatorRow| match row.allocator {
            Some("glibc") => false,
            Some("jemalloc") => !ledger.knows_tables,
            _ => true,
        };
        add(ledger.older_blocks, RssNote::OlderBlocks);
        add(!knows_classes, RssNote::UnknownSizeClasses);
        add(rows.iter().any(hides_tables), RssNote::UnknownMetadata);
        add(has(Allocator::Glibc) && !ledger.knows_caches, RssNote::UnknownCaches);
        add(!footprint.is_at_exit, RssNote::WhileRunning);
    }
    add(footprint.is_highest && peak.peak_rss / 20 * 19 > footprint.totals.rss, RssNote::HigherBefore);
    add(notes.is_freed, RssNote::FreedBefore);
    add(notes.is_busier, RssNote::Busier);
    add(notes.is_kept, RssNote::Kept);
    add(notes.is_freed_after, RssNote::FreedAfter);
    add(notes.is_undivided, RssNote::Undivided);
    add(peak.peak_unread_ms.is_some(), RssNote::PeakUnread);
    all
}
