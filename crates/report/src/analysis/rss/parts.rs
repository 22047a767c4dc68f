//! The parts of RSS. They always add up to it: what is left, in either direction, is a part, too.

use mallow_profile::{Footprint, HeapKind, MappingKind, Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::file_data;
use super::ledger::{OwnerSums, PlaceEntry, PlaceSums, RssLedger};
use super::owners::LIBRARY;
use crate::analysis::stacks::functions::{Frame, Functions};

/// Kind of memory in RSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Requested bytes of live blocks, resident or not.
    Live,
    /// Bytes that the allocator gives beyond the requests.
    Rounding,
    /// Headers, and what else the allocator is known to use for itself.
    Allocator,
    /// Free bytes in pages that live blocks pin.
    Holes,
    /// Holes and rounding in one, of an allocator whose size classes are unknown.
    HolesAndRounding,
    /// Pages without a live block that the allocator has not given back.
    FreePages,
    /// Freed blocks that threads keep for their next requests: glibc's tcache.
    ThreadCaches,
    /// Older blocks, holes and free pages in one, of a process that may have blocks from before it was recorded.
    OlderOrFree,
    /// Memory of allocators and of the program's own mappings, where pages were not read.
    Undivided,
    /// Bytes of live blocks that were never touched; below 0.
    NeverTouched,
    /// Bytes of live blocks in swap; below 0.
    Swapped,
    /// Pools of CPython's allocator of small objects.
    Pymalloc,
    /// V8's heap of objects.
    V8Heap,
    /// The JVM's heap of objects.
    JavaHeap,
    /// Heap of Go's runtime.
    GoHeap,
    /// Anonymous mappings that no live block lies in: of the program, of its runtimes, or of an allocator for itself.
    Mappings,
    /// Stacks of all threads.
    Stacks,
    /// Code of the program and its libraries.
    Text,
    /// Data of the program and its libraries.
    Data,
    /// Memory that is shared between processes.
    Shared,
    /// Pages that the kernel puts into each process.
    Kernel,
    /// Memory that Mallow itself takes.
    Mallow,
    /// Memory that changed while it was read: the kernel's figure less the others.
    Unsettled,
}

/// A part of RSS.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Kind of memory of the part.
    pub part: PartKind,
    /// Bytes of the part; below 0 where it is missing from RSS.
    pub bytes: i64,
    /// Allocator whose part it is; null where its name is not known, and for parts of no allocator.
    pub allocator: Option<&'static str>,
    /// Path of the file that has the allocator inside, or is it; null for the C library's, for parts of no allocator,
    /// and where it is not known.
    pub module: Option<String>,
    /// Number of the allocator among those of the process.
    #[serde(skip)]
    pub owner: Option<usize>,
    /// Place with most of the part; null where no place has any, or several allocators have such a part.
    pub largest: Option<CausePlace>,
    /// Name of the largest mapping of the part; of data, the file that has most. Null where the part does not consist
    /// of mappings, or the mapping has no name.
    pub mapping: Option<String>,
    /// Bytes of all data of the file in `mapping`; null for parts other than data.
    pub file_bytes: Option<u64>,
    /// Bytes of `file_bytes` in `.bss`: static variables without a value in the file. Null where `file_bytes` is.
    pub bss_bytes: Option<u64>,
    /// Bytes of CPython's pools in use, as the pools' own heads say; null for other parts. The rest is free, or pinned
    /// by what is in use.
    pub used_bytes: Option<u64>,
}

/// A place, and what it has of a part.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CausePlace {
    #[serde(flatten)]
    pub frame: Frame,
    /// Bytes of the part that the place has; of free pages, live bytes that the place had at the peak and has no more.
    pub bytes: u64,
}

/// Largest part of RSS that is not Mallow's own: the cause of its size.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// Kind of memory of the largest part.
    pub part: PartKind,
    /// Bytes of the part that are in memory.
    pub bytes: u64,
    /// The highest RSS is above what is divided by more than this part is above the next one, or its place above the
    /// next one: there, another may be the largest.
    pub of_divided: bool,
    /// Allocator whose part it is; null where its name is not known, and for parts of no allocator.
    pub allocator: Option<&'static str>,
    /// Path of the file that has the allocator inside, or is it; null for the C library's, for parts of no allocator,
    /// and where it is not known.
    pub module: Option<String>,
    /// Place with most of the part; of free pages, the one that had used most of them at the peak of live bytes. Null
    /// where none is known.
    pub place: Option<CausePlace>,
    /// Place whose live blocks take most memory with rounding and headers; `bytes` has both. Null: it is `place`, or
    /// takes hardly more, or the cause is another part than live blocks.
    pub heaviest: Option<CausePlace>,
    /// Name of the largest mapping of the part; of data, the file that has most. Null where the part does not consist
    /// of mappings, or the mapping has no name.
    pub mapping: Option<String>,
    /// Bytes of all data of the file in `mapping`; null for parts other than data.
    pub file_bytes: Option<u64>,
    /// Bytes of `file_bytes` in `.bss`: static variables without a value in the file. Null where `file_bytes` is.
    pub bss_bytes: Option<u64>,
}

/// At most 2^56, where user space ends with addresses of 57 bits: a file may say anything, and sums of parts must not
/// overflow.
fn signed(bytes: u64) -> i64 {
    bytes.min(1 << 56).cast_signed()
}

/// A part of an allocator's, by the allocator's sums and by whether the process has older blocks.
type OwnPart = fn(&OwnerSums, bool) -> (PartKind, u64);

/// The parts of a footprint, in the order in which reports show them; those that are 0 are left out, but for live
/// blocks.
pub fn parts(footprint: &Footprint, ledger: Option<&RssLedger<'_>>) -> Vec<Part> {
    let mut bytes: Vec<(PartKind, Option<usize>, i64)> = Vec::new();
    let mut largest = FxHashMap::default();
    if let Some(ledger) = ledger {
        let sums = &ledger.sums;
        bytes.push((PartKind::Live, None, signed(sums.live_bytes)));
        largest.insert(PartKind::Live, largest_of(ledger, |sums| sums.live_bytes));
        largest.insert(PartKind::Rounding, largest_of(ledger, |sums| sums.rounding_bytes));
        for holes in [PartKind::Holes, PartKind::HolesAndRounding] {
            largest.insert(holes, largest_of(ledger, |sums| sums.holes_bytes));
        }
        let kinds: [OwnPart; 5] = [
            |own, _| (PartKind::Rounding, if own.knows_classes { own.sums.rounding_bytes } else { 0 }),
            |own, _| (PartKind::Allocator, own.sums.allocator_bytes),
            |own, older| match (older, own.knows_classes) {
                (true, true) => (PartKind::OlderOrFree, own.sums.holes_bytes + own.sums.free_bytes),
                (true, false) => {
                    (PartKind::OlderOrFree, own.sums.holes_bytes + own.sums.free_bytes + own.sums.rounding_bytes)
                }
                (false, true) => (PartKind::Holes, own.sums.holes_bytes),
                (false, false) => (PartKind::HolesAndRounding, own.sums.holes_bytes + own.sums.rounding_bytes),
            },
            |own, older| (PartKind::FreePages, if older { 0 } else { own.sums.free_bytes }),
            |own, _| (PartKind::ThreadCaches, own.sums.cached_bytes),
        ];
        for kind in kinds {
            for (owner, own) in ledger.by_owner.iter().enumerate() {
                let (part, size) = kind(own, ledger.older_blocks);
                let has_mapped = part == PartKind::OlderOrFree && owner == LIBRARY;
                let size = size.saturating_add(if has_mapped { ledger.older_mapped() } else { 0 });
                bytes.push((part, Some(owner), signed(size)));
            }
        }
        bytes.push((PartKind::NeverTouched, None, -signed(sums.never_touched_bytes)));
        bytes.push((PartKind::Swapped, None, -signed(sums.swapped_bytes)));
        bytes.extend(ledger.runtimes.iter().filter_map(|&(kind, size)| Some((part_of(kind)?, None, signed(size)))));
        // Those whose pages were not read have none in memory, or more than mallow has room for.
        let unread = footprint.mappings.iter().filter(|m| !m.has_pages && OF_KINDS[0].1.contains(&m.kind));
        let unread = unread.fold(0u64, |sum, mapping| sum.saturating_add(mapping.sizes.rss));
        let others: u64 = ledger.others.iter().map(|(_, bytes)| bytes).sum();
        bytes.push((PartKind::Mappings, None, signed(others.saturating_add(unread))));
    }
    for (part, kinds) in OF_KINDS {
        if *part == PartKind::Undivided && ledger.is_some() {
            continue;
        }
        let of_kind = footprint.mappings.iter().filter(|mapping| kinds.contains(&mapping.kind));
        let all = of_kind.fold(0u64, |sum, mapping| sum.saturating_add(mapping.sizes.rss));
        let change = ledger.map_or(0, |ledger| match part {
            PartKind::Data => signed(ledger.unnamed_bss.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)))
                .saturating_sub(signed(ledger.managed_bss)),
            PartKind::Stacks => -signed(ledger.managed_stacks),
            _ => 0,
        });
        bytes.push((*part, None, signed(all).saturating_add(change)));
    }
    let sum = bytes.iter().fold(0i64, |sum, (_, _, bytes)| sum.saturating_add(*bytes));
    bytes.push((PartKind::Unsettled, None, signed(footprint.totals.rss).saturating_sub(sum)));
    bytes.retain(|(part, _, bytes)| *bytes != 0 || *part == PartKind::Live);
    // A place has blocks of several allocators: which of its holes are whose was not added up.
    let is_only = |part| bytes.iter().filter(|(of, ..)| *of == part).count() == 1;
    let part = |&(part, owner, bytes): &(PartKind, Option<usize>, i64)| {
        let of_file = file_data::largest(footprint, ledger).filter(|_| part == PartKind::Data);
        let whose = ledger.zip(owner).map(|(ledger, owner)| &ledger.owners.all[owner]);
        Part {
            part,
            bytes,
            allocator: whose.and_then(|owner| owner.allocator.name()),
            module: whose.and_then(|owner| owner.module.clone()),
            owner,
            largest: largest.get(&part).cloned().flatten().filter(|_| is_only(part)),
            file_bytes: of_file.as_ref().map(|file| file.bytes),
            bss_bytes: of_file.as_ref().map(|file| file.bss),
            mapping: of_file.map(|file| file.name).or_else(|| largest_mapping(footprint, ledger, part)),
            used_bytes: ledger.filter(|_| part == PartKind::Pymalloc).map(|ledger| ledger.pymalloc_used),
        }
    };
    bytes.iter().map(part).collect()
}

fn part_of(kind: HeapKind) -> Option<PartKind> {
    match kind {
        // An allocator's; the blocks are among its older ones.
        HeapKind::GlibcArena => None,
        HeapKind::Pymalloc => Some(PartKind::Pymalloc),
        HeapKind::V8 => Some(PartKind::V8Heap),
        HeapKind::Java => Some(PartKind::JavaHeap),
        HeapKind::Go => Some(PartKind::GoHeap),
        HeapKind::GlibcBlock => None,
        // They are what changed while it was read.
        HeapKind::Unmapped => None,
    }
}

/// Parts by the kinds of mappings. The first one stands for what is divided where pages were read.
const OF_KINDS: &[(PartKind, &[MappingKind])] = &[
    (PartKind::Undivided, &[MappingKind::Heap, MappingKind::Anonymous]),
    (PartKind::Stacks, &[MappingKind::Stack, MappingKind::ThreadStack]),
    (PartKind::Text, &[MappingKind::FileText]),
    (PartKind::Data, &[MappingKind::FileData, MappingKind::Bss]),
    (PartKind::Shared, &[MappingKind::Shared]),
    (PartKind::Kernel, &[MappingKind::Kernel]),
    (PartKind::Mallow, &[MappingKind::Mallow]),
];

fn largest_mapping(footprint: &Footprint, ledger: Option<&RssLedger<'_>>, part: PartKind) -> Option<String> {
    let mapping = match (part, ledger) {
        (PartKind::Mappings, Some(ledger)) => {
            let most = ledger.others.iter().max_by_key(|(_, bytes)| bytes);
            most.and_then(|(index, _)| footprint.mappings.get(*index))
        }
        _ => {
            let kinds = OF_KINDS.iter().find(|(of, _)| *of == part)?.1;
            footprint.mappings.iter().filter(|mapping| kinds.contains(&mapping.kind)).max_by_key(|m| m.sizes.rss)
        }
    };
    mapping.map(|mapping| mapping.name.clone()).filter(|name| !name.is_empty())
}

fn largest_of(ledger: &RssLedger<'_>, of: impl Fn(&PlaceSums) -> u64) -> Option<CausePlace> {
    let entry = largest_entry(ledger, &of)?;
    Some(CausePlace { frame: ledger.functions.place(&entry.named?), bytes: of(&entry.sums) })
}

fn largest_entry<'a>(ledger: &'a RssLedger<'_>, of: impl Fn(&PlaceSums) -> u64) -> Option<&'a PlaceEntry> {
    ledger.places.iter().max_by_key(|entry| of(&entry.sums)).filter(|entry| of(&entry.sums) > 0)
}

/// By how many bytes the largest place is above the next one.
fn lead_of_places(ledger: &RssLedger<'_>, of: impl Fn(&PlaceSums) -> u64) -> u64 {
    let [first, second] = ledger.places.iter().fold([0; 2], |[first, second], entry| match of(&entry.sums) {
        bytes if bytes > first => [bytes, first],
        bytes => [first, second.max(bytes)],
    });
    first - second
}

/// The place whose blocks take most memory with rounding and headers; None where it takes less than a tenth more than
/// the one with most requested bytes in memory.
fn heaviest(ledger: &RssLedger<'_>) -> Option<CausePlace> {
    let largest = largest_entry(ledger, |sums| sums.resident_bytes)?.sums.taken_bytes;
    largest_of(ledger, |sums| sums.taken_bytes).filter(|place| place.bytes > largest.saturating_add(largest / 10))
}

/// The largest part of the program's in memory, and whose it is; None where no part is in memory. What is Mallow's own
/// is no cause: without Mallow it is not there. `on_top` bytes came on top of these parts, and are of no part.
pub fn cause(
    profile: &Profile,
    footprint: &Footprint,
    ledger: Option<&RssLedger<'_>>,
    parts: &[Part],
    on_top: u64,
) -> Option<Cause> {
    // Of live blocks, what was never touched is in no memory; headers and rounding that were not are a small part of
    // that.
    let absent = ledger.map_or(0, |ledger| {
        let resident = ledger.places.iter().map(|entry| entry.sums.resident_bytes).sum::<u64>();
        ledger.sums.live_bytes.saturating_sub(resident)
    });
    let in_memory = |part: &Part| match part.part {
        PartKind::Live => part.bytes.saturating_sub(signed(absent)),
        _ => part.bytes,
    };
    let of_program = || parts.iter().filter(|part| part.part != PartKind::Mallow && in_memory(part) > 0);
    let largest = of_program().max_by_key(|part| in_memory(part))?;
    let others = of_program().filter(|part| !std::ptr::eq(*part, largest));
    let lead = in_memory(largest) - others.map(in_memory).max().unwrap_or(0);
    let place = match (largest.part, ledger) {
        (PartKind::FreePages, Some(ledger)) => {
            used_before(profile, footprint, ledger, largest.owner, largest.bytes.unsigned_abs())
        }
        (PartKind::Live, Some(ledger)) => largest_of(ledger, |sums| sums.resident_bytes),
        _ => largest.largest.clone(),
    };
    let place_lead = match (largest.part, ledger) {
        (PartKind::Live, Some(ledger)) => lead_of_places(ledger, |sums| sums.resident_bytes),
        _ => u64::MAX,
    };
    Some(Cause {
        part: largest.part,
        bytes: in_memory(largest).unsigned_abs(),
        of_divided: on_top > lead.unsigned_abs().min(place_lead),
        allocator: largest.allocator,
        module: largest.module.clone(),
        place,
        heaviest: ledger.filter(|_| largest.part == PartKind::Live).and_then(heaviest),
        mapping: largest.mapping.clone(),
        file_bytes: largest.file_bytes,
        bss_bytes: largest.bss_bytes,
    })
}

/// The place that had more live bytes at the peak than now, of what this allocator may have given it: most of the
/// `free` bytes of pages were its. A block that is larger than they are has left none of them: it had a mapping of its
/// own, which went with it.
fn used_before(
    profile: &Profile,
    footprint: &Footprint,
    ledger: &RssLedger<'_>,
    owner: Option<usize>,
    free: u64,
) -> Option<CausePlace> {
    if profile.peak_ms > footprint.ms {
        return None;
    }
    let functions: &Functions<'_> = &ledger.functions;
    let mut given_up = FxHashMap::default();
    for (at, site) in profile.sites.iter().enumerate() {
        let is_its = owner.is_none_or(|owner| ledger.owners.may_own(owner, at as u32));
        let mean = site.counts.peak_bytes.checked_div(site.counts.peak).unwrap_or(0);
        if site.process != footprint.process || site.counts.peak_bytes == 0 || !is_its || mean > free {
            continue;
        }
        let Some(named) = functions.named(site.stack) else { continue };
        let entry: &mut (u64, StackId) = given_up.entry(named.key()).or_insert((0, site.stack));
        entry.0 = entry.0.saturating_add(site.counts.peak_bytes);
    }
    for entry in &ledger.places {
        if let Some(before) = entry.named.and_then(|named| given_up.get_mut(&named.key())) {
            before.0 = before.0.saturating_sub(entry.sums.live_bytes);
        }
    }
    let (bytes, stack) = given_up.into_values().max_by_key(|(bytes, stack)| (*bytes, std::cmp::Reverse(stack.0)))?;
    let named = functions.named(stack).filter(|_| bytes > 0)?;
    Some(CausePlace { frame: functions.place(&named), bytes })
}
