//! Footprints as columns of a recording; `docs/FORMAT.md` describes them.

use crate::bytes::{Cursor, Nonsense, fold, put, put_bytes, unfold};
use mallow_profile::{
    AddressRange, CachedBlock, Footprint, HeapKind, HeapMap, KnownHeap, Mapping, MappingFlags, MappingKind,
    MemorySizes, PageRun, PageState, PeakRss, PlacedBlock, ProcessId, RecentLive, RssPoint, RssSeries, SizeClasses,
    ThreadCaches,
};

/// Rows of one block of the recording: each of its columns has room for them.
const ROWS: usize = 1 << 19;
/// Bytes of names after which the mappings of a footprint are written without their names.
const NAMES: usize = 4 << 20;
/// Most bytes of names of a footprint's mappings together, each as often as a mapping has it.
const ALL_NAMES: usize = 64 << 20;
/// Mappings of one footprint: each column has room for them.
const MAPPINGS: u64 = 1 << 18;
/// Sizes of the kernel are multiples of this.
const UNIT: u64 = 1024;

const HIGHEST: u64 = 1;
const LAST: u64 = 2;
const AT_EXIT: u64 = 4;
const WITHOUT_MAP: u64 = 8;
const RECENT: u64 = 16;
const FIXED_THRESHOLDS: u64 = 32;
const LIVE_RESIDENT: u64 = 64;
const THREADS: u64 = 128;
const SETTINGS: u64 = 256;
const BACKGROUND_THREAD: u64 = 512;
/// All flags of a footprint.
const FLAGS: u64 = 1023;
/// Settings of one footprint.
const SETTINGS_MOST: usize = 64;

/// Flags of the kernel's maximum.
const PEAK: u64 = 1;
const FINAL: u64 = 2;
const OLDER: u64 = 4;

/// Encodes a footprint without its heap map as the columns of one block; mappings beyond [`MAPPINGS`] are left out.
pub fn write_footprint(footprint: &Footprint) -> Vec<Vec<u8>> {
    let mut head = Vec::new();
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(footprint.is_highest, HIGHEST)
        | flag(footprint.is_last, LAST)
        | flag(footprint.is_at_exit, AT_EXIT)
        | flag(footprint.gap.is_some(), WITHOUT_MAP)
        | flag(footprint.recent_live.is_some(), RECENT)
        | flag(footprint.fixes_thresholds, FIXED_THRESHOLDS)
        | flag(footprint.live_resident.is_some(), LIVE_RESIDENT)
        | flag(footprint.threads > 0, THREADS)
        | flag(!footprint.settings.is_empty(), SETTINGS)
        | flag(footprint.has_background_thread, BACKGROUND_THREAD);
    put(&mut head, footprint.process.0.into());
    put(&mut head, footprint.ms);
    put(&mut head, flags);
    put(&mut head, footprint.page_bytes.into());
    put(&mut head, footprint.peak_rss / UNIT);
    put(&mut head, footprint.live_blocks);
    put(&mut head, footprint.live_bytes);
    if let Some(recent) = footprint.recent_live {
        put(&mut head, recent.ms);
        put(&mut head, recent.bytes);
    }
    footprint.live_resident.into_iter().for_each(|bytes| put(&mut head, bytes));
    if footprint.threads > 0 {
        put(&mut head, footprint.threads);
    }
    if !footprint.settings.is_empty() {
        let settings = &footprint.settings[..footprint.settings.len().min(SETTINGS_MOST)];
        put(&mut head, settings.len() as u64);
        settings.iter().for_each(|setting| put_bytes(&mut head, setting.as_bytes()));
    }
    if let Some(gap) = &footprint.gap {
        put_bytes(&mut head, gap.as_bytes());
    }
    let mappings = &footprint.mappings[..footprint.mappings.len().min(MAPPINGS as usize)];
    put(&mut head, mappings.len() as u64);
    let (mut addresses, mut kinds, mut names, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut end, mut before, mut room) = (0, "", ALL_NAMES);
    for mapping in mappings {
        put(&mut addresses, mapping.start - end);
        put(&mut addresses, mapping.end - mapping.start);
        end = mapping.end;
        let kind = MappingKind::ALL.iter().position(|&kind| kind == mapping.kind).unwrap_or_default() as u64;
        put(&mut kinds, kind << 1 | u64::from(mapping.has_pages));
        put(&mut kinds, mapping.flags.0.into());
        let has_room = names.len() < NAMES && mapping.name.len() <= room;
        let name = if has_room { &*mapping.name } else { "" };
        room -= name.len();
        put(&mut names, (name == before).into());
        if name != before {
            put_bytes(&mut names, name.as_bytes());
            before = name;
        }
        mapping.sizes.all().into_iter().for_each(|size| put(&mut sizes, size / UNIT));
    }
    vec![head, addresses, kinds, names, sizes]
}

/// Reads what [`write_footprint`] wrote. `processes`: how many the recording has.
pub fn read_footprint(columns: &mut [Cursor], processes: usize) -> Result<Footprint, Nonsense> {
    let [head, addresses, kinds, names, sizes] = columns else {
        return Err(Nonsense("a footprint has another number of columns"));
    };
    let process = head.small()?;
    if process as usize >= processes {
        return Err(Nonsense("a footprint of no process"));
    }
    let (ms, flags, page_bytes) = (head.number()?, head.number()?, head.small()?);
    let (peak_rss, live_blocks, live_bytes) = (size(head)?, head.number()?, head.number()?);
    let recent_live = match flags & RECENT {
        0 => None,
        _ => Some(RecentLive { ms: head.number()?, bytes: head.number()? }),
    };
    let live_resident = if flags & LIVE_RESIDENT != 0 { Some(head.number()?) } else { None };
    let threads = if flags & THREADS != 0 { head.number()? } else { 0 };
    let settings = if flags & SETTINGS != 0 { head.number()? } else { 0 };
    if settings > SETTINGS_MOST as u64 {
        return Err(Nonsense("a footprint has too many settings"));
    }
    let settings = (0..settings).map(|_| head.string()).collect::<Result<_, _>>()?;
    let gap = if flags & WITHOUT_MAP != 0 { Some(head.string()?) } else { None };
    let count = head.number()?;
    if flags > FLAGS || count > MAPPINGS {
        return Err(Nonsense("a footprint makes no sense"));
    }
    let mut footprint = Footprint {
        process: ProcessId(process),
        ms,
        is_highest: flags & HIGHEST != 0,
        is_last: flags & LAST != 0,
        is_at_exit: flags & AT_EXIT != 0,
        page_bytes,
        peak_rss,
        live_blocks,
        live_bytes,
        recent_live,
        live_resident,
        threads,
        fixes_thresholds: flags & FIXED_THRESHOLDS != 0,
        has_background_thread: flags & BACKGROUND_THREAD != 0,
        settings,
        gap,
        ..Footprint::default()
    };
    let (mut end, mut name, mut room) = (0u64, String::new(), ALL_NAMES);
    for _ in 0..count {
        let start = end.checked_add(addresses.number()?).ok_or(WIDE)?;
        end = start.checked_add(addresses.number()?).ok_or(WIDE)?;
        let (kind, flags) = (kinds.number()?, MappingFlags(kinds.small()?));
        let of_kind = usize::try_from(kind >> 1).ok().and_then(|number| MappingKind::ALL.get(number));
        let kind_of = *of_kind.ok_or(Nonsense("a mapping of no known kind"))?;
        if names.number()? == 0 {
            name = names.string()?;
        }
        room = room.checked_sub(name.len()).ok_or(Nonsense("names of mappings that are too long"))?;
        let mut all = [0; 14];
        for one in &mut all {
            *one = size(sizes)?;
        }
        let (sizes, name, has_pages) = (MemorySizes::of(all), name.clone(), kind & 1 != 0);
        footprint.mappings.push(Mapping { start, end, kind: kind_of, flags, name, sizes, has_pages });
    }
    footprint.totals = footprint.mappings.iter().map(|mapping| mapping.sizes).sum();
    footprint.check().map_err(Nonsense)?;
    Ok(footprint)
}

const WIDE: Nonsense = Nonsense("an address that no process has");

fn size(column: &mut Cursor) -> Result<u64, Nonsense> {
    column.number()?.checked_mul(UNIT).ok_or(Nonsense("a size is too large"))
}

/// Encodes pages as blocks, which follow the footprint's.
pub fn write_pages(pages: &[PageRun], page_bytes: u32) -> impl Iterator<Item = Vec<Vec<u8>>> {
    let page = u64::from(page_bytes).max(1);
    let mut end = 0;
    pages.chunks(ROWS).map(move |runs| {
        let (mut starts, mut counts, mut states) = (Vec::new(), Vec::new(), Vec::new());
        for run in runs {
            put(&mut starts, (run.start - end) / page);
            put(&mut counts, run.pages);
            states.push(run.state.0);
            end = run.start + run.pages * page;
        }
        vec![starts, counts, states]
    })
}

/// Adds a block of [`write_pages`] to `map`. What they add up to is for [`HeapMap::check`].
pub fn read_pages(columns: &mut [Cursor], page_bytes: u32, map: &mut HeapMap) -> Result<(), Nonsense> {
    let [starts, counts, states] = columns else { return Err(Nonsense("pages have another number of columns")) };
    let page = u64::from(page_bytes).max(1);
    let last = map.pages.last();
    let mut end = last.and_then(|run| run.start.checked_add(run.pages.checked_mul(page)?)).unwrap_or(0);
    while !starts.is_empty() {
        let ahead = starts.number()?.checked_mul(page).ok_or(WIDE)?;
        let start = end.checked_add(ahead).ok_or(WIDE)?;
        let run = PageRun { start, pages: counts.number()?, state: PageState(states.byte()?) };
        end = run.pages.checked_mul(page).and_then(|bytes| start.checked_add(bytes)).ok_or(WIDE)?;
        map.pages.push(run);
    }
    if counts.is_empty() && states.is_empty() { Ok(()) } else { Err(Nonsense("pages of no run")) }
}

/// Encodes what allocators keep for themselves as one block, which follows the footprint's.
pub fn write_kept(map: &HeapMap) -> Vec<Vec<u8>> {
    let caches = &map.caches;
    let (mut head, mut addresses, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    put(&mut head, caches.caches);
    put(&mut head, caches.is_complete.into());
    let mut address = 0;
    for block in &caches.blocks[..caches.blocks.len().min(ROWS)] {
        put(&mut addresses, block.address - address);
        put(&mut sizes, block.size);
        address = block.address;
    }
    let (mut ranges, mut end) = (Vec::new(), 0);
    for range in &map.tables[..map.tables.len().min(ROWS / 4)] {
        put(&mut ranges, range.start - end);
        put(&mut ranges, range.end - range.start);
        end = range.end;
    }
    let Some(known) = &map.heaps else { return vec![head, addresses, sizes, ranges] };
    put(&mut head, map.huge_zeros);
    let (mut heaps, mut end) = (Vec::new(), 0);
    for heap in &known[..known.len().min(ROWS / 4)] {
        let kind = HeapKind::ALL.iter().position(|&kind| kind == heap.kind).unwrap_or_default() as u64;
        for number in [kind, heap.start - end, heap.end - heap.start, heap.used] {
            put(&mut heaps, number);
        }
        end = heap.end;
    }
    vec![head, addresses, sizes, ranges, heaps]
}

pub fn read_kept(columns: &mut [Cursor], map: &mut HeapMap) -> Result<(), Nonsense> {
    let (columns, heaps) = match columns {
        [head, addresses, sizes, ranges] => ([head, addresses, sizes, ranges], None),
        [head, addresses, sizes, ranges, heaps] => ([head, addresses, sizes, ranges], Some(heaps)),
        _ => return Err(Nonsense("what allocators keep has another number of columns")),
    };
    let [head, addresses, sizes, ranges] = columns;
    let (caches, is_complete) = (head.number()?, head.number()?);
    let mut read = ThreadCaches { caches, is_complete: is_complete == 1, blocks: Vec::new() };
    let mut address = 0u64;
    while !addresses.is_empty() {
        address = address.checked_add(addresses.number()?).ok_or(WIDE)?;
        read.blocks.push(CachedBlock { address, size: sizes.number()? });
    }
    map.caches = read;
    let mut end = 0u64;
    while !ranges.is_empty() {
        let start = end.checked_add(ranges.number()?).ok_or(WIDE)?;
        end = start.checked_add(ranges.number()?).ok_or(WIDE)?;
        map.tables.push(AddressRange { start, end });
    }
    if let Some(column) = heaps {
        map.huge_zeros = head.number()?;
        let (mut known, mut end) = (Vec::new(), 0u64);
        while !column.is_empty() {
            let kind = usize::try_from(column.number()?).ok().and_then(|kind| HeapKind::ALL.get(kind));
            let kind = *kind.ok_or(Nonsense("a heap of no known kind"))?;
            let start = end.checked_add(column.number()?).ok_or(WIDE)?;
            end = start.checked_add(column.number()?).ok_or(WIDE)?;
            known.push(KnownHeap { kind, start, end, used: column.number()? });
        }
        map.heaps = Some(known);
    }
    if is_complete <= 1 && head.is_empty() && sizes.is_empty() {
        Ok(())
    } else {
        Err(Nonsense("what allocators keep makes no sense"))
    }
}

/// Encodes live blocks, which are by address, as blocks that follow the footprint's.
pub fn write_blocks(blocks: &[PlacedBlock]) -> impl Iterator<Item = Vec<Vec<u8>>> {
    let (mut address, mut site) = (0, 0);
    blocks.chunks(ROWS).map(move |blocks| {
        let (mut addresses, mut sites, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for block in blocks {
            put(&mut addresses, block.address - address);
            put(&mut sites, fold(block.site.into(), site));
            put(&mut sizes, block.size);
            (address, site) = (block.address, block.site.into());
        }
        vec![addresses, sites, sizes]
    })
}

/// Adds a block of [`write_blocks`] to `map`.
pub fn read_blocks(columns: &mut [Cursor], map: &mut HeapMap) -> Result<(), Nonsense> {
    let [addresses, sites, sizes] = columns else { return Err(Nonsense("live blocks have another number of columns")) };
    let last = map.blocks.last().copied().unwrap_or_default();
    let (mut address, mut site) = (last.address, u64::from(last.site));
    while !addresses.is_empty() {
        address = address.checked_add(addresses.number()?).ok_or(WIDE)?;
        site = unfold(sites.number()?, site);
        let number = u32::try_from(site).map_err(|_| Nonsense("a live block of no site"))?;
        map.blocks.push(PlacedBlock { address, size: sizes.number()?, site: number });
    }
    if sites.is_empty() && sizes.is_empty() { Ok(()) } else { Err(Nonsense("live blocks of no address")) }
}

/// Encodes RSS over time of one or more processes, and the kernel's maxima, as a column each.
pub fn write_series(all: &[RssSeries]) -> [Vec<u8>; 2] {
    let (mut column, mut peaks) = (Vec::new(), Vec::new());
    for series in all {
        put(&mut column, series.process.0.into());
        put(&mut column, series.points.len() as u64);
        let mut before = 0;
        for point in &series.points {
            put(&mut column, point.ms - before);
            put(&mut column, point.rss / UNIT);
            put(&mut column, point.live_bytes);
            before = point.ms;
        }
        write_peak(series.peak.as_ref(), &mut peaks);
    }
    [column, peaks]
}

fn write_peak(peak: Option<&PeakRss>, column: &mut Vec<u8>) {
    let Some(peak) = peak else { return put(column, 0) };
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    put(column, PEAK | flag(peak.is_final, FINAL) | flag(peak.is_older, OLDER));
    [peak.bytes / UNIT, peak.after_ms, peak.by_ms, peak.read_ms].into_iter().for_each(|number| put(column, number));
}

fn read_peak(column: &mut Cursor) -> Result<Option<PeakRss>, Nonsense> {
    let flags = column.number()?;
    match flags {
        0 => return Ok(None),
        _ if flags & PEAK == 0 || flags > PEAK | FINAL | OLDER => {
            return Err(Nonsense("the highest RSS of a process makes no sense"));
        }
        _ => {}
    }
    Ok(Some(PeakRss {
        bytes: size(column)?,
        after_ms: column.number()?,
        by_ms: column.number()?,
        read_ms: column.number()?,
        is_final: flags & FINAL != 0,
        is_older: flags & OLDER != 0,
    }))
}

/// Reads what [`write_series`] wrote. Recordings of version 2 have no second column.
pub fn read_series(columns: &mut [Cursor], processes: usize) -> Result<Vec<RssSeries>, Nonsense> {
    let (column, mut peaks) = match columns {
        [column] => (column, None),
        [column, peaks] => (column, Some(peaks)),
        _ => return Err(Nonsense("RSS over time has another number of columns")),
    };
    let mut all = Vec::new();
    while !column.is_empty() {
        let process = process(column, processes)?;
        let mut series = RssSeries { process, points: Vec::new(), peak: None };
        let mut ms = 0u64;
        for _ in 0..column.number()? {
            ms = ms.checked_add(column.number()?).ok_or(Nonsense("a time is too late"))?;
            series.points.push(RssPoint { ms, rss: size(column)?, live_bytes: column.number()? });
        }
        if let Some(peaks) = &mut peaks {
            series.peak = read_peak(peaks)?;
        }
        all.push(series);
    }
    if peaks.is_none_or(|peaks| peaks.is_empty()) { Ok(all) } else { Err(Nonsense("the highest RSS of no process")) }
}

pub fn write_classes(all: &[SizeClasses]) -> Vec<u8> {
    let mut column = Vec::new();
    for classes in all {
        put(&mut column, classes.process.0.into());
        put(&mut column, classes.usable.len() as u64);
        classes.usable.iter().for_each(|&usable| put(&mut column, usable));
    }
    column
}

pub fn read_classes(columns: &mut [Cursor], processes: usize) -> Result<Vec<SizeClasses>, Nonsense> {
    let [column] = columns else { return Err(Nonsense("size classes have another number of columns")) };
    let mut all = Vec::new();
    while !column.is_empty() {
        let process = process(column, processes)?;
        let mut usable = Vec::new();
        for _ in 0..column.number()? {
            usable.push(column.number()?);
        }
        if !usable.is_sorted() {
            return Err(Nonsense("size classes are not in their order"));
        }
        all.push(SizeClasses { process, usable });
    }
    Ok(all)
}

fn process(column: &mut Cursor, processes: usize) -> Result<ProcessId, Nonsense> {
    match column.small()? {
        process if (process as usize) < processes => Ok(ProcessId(process)),
        _ => Err(Nonsense("memory of no process")),
    }
}

/// A footprint with what belongs to it, as columns: what a recording writes. Smaller than what it was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    pub footprint: Footprint,
    pub pages: Vec<Vec<Vec<u8>>>,
    /// The block of [`write_kept`]. None: nothing was read of that.
    pub kept: Option<Vec<Vec<u8>>>,
    /// The blocks of [`write_blocks`].
    pub blocks: Vec<Vec<Vec<u8>>>,
}

impl Packed {
    /// Precondition: the map is that of the footprint, as [`HeapMap::check`] has it.
    pub fn new(footprint: Footprint, map: &HeapMap) -> Self {
        let is_with_map = footprint.gap.is_none();
        let pages = write_pages(&map.pages, footprint.page_bytes).filter(|_| is_with_map).collect();
        let blocks = write_blocks(&map.blocks).filter(|_| is_with_map).collect();
        let has_kept = map.caches.caches > 0 || !map.tables.is_empty() || map.heaps.is_some();
        let kept = (is_with_map && has_kept).then(|| write_kept(map));
        Self { footprint, pages, kept, blocks }
    }

    /// Bytes of pages, live blocks and what allocators keep, before they are compressed.
    pub fn map_bytes(&self) -> usize {
        self.pages.iter().chain(&self.blocks).chain(&self.kept).flatten().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{Site, StackId};
    use proptest::prelude::*;

    fn cursors(columns: &[Vec<u8>]) -> Vec<Cursor> {
        columns.iter().cloned().map(Cursor::new).collect()
    }

    fn site(process: u32) -> Site {
        let (counts, patterns) = Default::default();
        let process = ProcessId(process);
        Site { process, stack: StackId(0), counts, patterns, live_oldest_ms: 0, live_youngest_ms: 0, precisions: None }
    }

    fn footprint() -> Footprint {
        let names = ["/bin/a", "/bin/a", "", "[heap]"];
        let mappings = names.iter().zip(1..).map(|(name, at)| Mapping {
            start: at << 32,
            end: (at << 32) + (at << 20),
            kind: MappingKind::ALL[at as usize % 9],
            flags: MappingFlags(at as u32),
            name: (*name).to_owned(),
            sizes: MemorySizes::of(std::array::from_fn(|field| 1024 * (at * 100 + field as u64))),
            has_pages: at > 2,
        });
        let mappings: Vec<Mapping> = mappings.collect();
        Footprint {
            process: ProcessId(1),
            ms: 1 << 40,
            is_last: true,
            peak_rss: 5 << 20,
            page_bytes: 4096,
            totals: mappings.iter().map(|mapping| mapping.sizes).sum(),
            mappings,
            live_blocks: 3,
            live_bytes: 1 << 50,
            ..Footprint::default()
        }
    }

    #[test]
    fn a_footprint_comes_back() {
        let recent = Some(RecentLive { ms: 77, bytes: 1 << 41 });
        let gaps = [(None, None), (Some("too many".to_owned()), recent), (None, recent)];
        for (gap, recent_live) in gaps {
            let footprint = Footprint {
                gap,
                recent_live,
                is_highest: true,
                is_at_exit: true,
                fixes_thresholds: true,
                has_background_thread: true,
                settings: vec!["MALLOC_CONF=a:1".to_owned(), String::new()],
                ..footprint()
            };
            let columns = write_footprint(&footprint);
            assert_eq!(read_footprint(&mut cursors(&columns), 2), Ok(footprint.clone()));
            assert!(read_footprint(&mut cursors(&columns), 1).is_err());
            for column in 0..columns.len() {
                let mut cut = columns.clone();
                cut[column].pop();
                assert!(read_footprint(&mut cursors(&cut), 2).is_err());
            }
        }
    }

    #[test]
    fn pages_and_blocks_come_back_in_several_blocks() {
        let footprint = footprint();
        let start = footprint.mappings[2].start;
        let state = |at| PageState(if at % 3 == 0 { PageState::SWAPPED } else { PageState::RESIDENT });
        let pages = (0..200).map(|at| PageRun { start: start + 8192 * at, pages: 1 + at % 2, state: state(at) });
        let count = ROWS as u64 + 7;
        let blocks = (0..count).map(|at| PlacedBlock { address: 16 * at, size: at * at, site: (at % 2) as u32 });
        let cached = |at: u64| CachedBlock { address: 40 * at, size: at * at };
        let caches = ThreadCaches { caches: 3, is_complete: true, blocks: (1..90).map(cached).collect() };
        let map = HeapMap {
            pages: pages.collect(),
            blocks: blocks.collect(),
            caches,
            tables: vec![AddressRange { start: 9, end: 99 }; 1],
            heaps: Some(vec![
                KnownHeap { kind: HeapKind::Pymalloc, start: 64, end: 128, used: 48 },
                KnownHeap { kind: HeapKind::V8, start: 4096, end: 9999, used: 0 },
            ]),
            huge_zeros: 12345,
        };
        assert_eq!(map.check(&footprint, &[site(1), site(1)]), Ok(()));
        let packed = Packed::new(footprint.clone(), &map);
        let mut read = HeapMap::default();
        for columns in &packed.pages {
            assert_eq!(read_pages(&mut cursors(columns), 4096, &mut read), Ok(()));
        }
        let columns = packed.kept.as_ref().expect("caches and tables");
        assert_eq!(read_kept(&mut cursors(columns), &mut read), Ok(()));
        for column in 0..columns.len() {
            let mut cut = columns.clone();
            cut[column].pop();
            assert!(read_kept(&mut cursors(&cut), &mut HeapMap::default()).is_err());
        }
        assert_eq!(packed.blocks.len(), 2);
        for columns in &packed.blocks {
            assert_eq!(read_blocks(&mut cursors(columns), &mut read), Ok(()));
        }
        assert!(read == map && packed.map_bytes() > 3 * count as usize);
        let without = Footprint { gap: Some("none".to_owned()), ..footprint };
        assert_eq!(Packed::new(without, &map).map_bytes(), 0);
    }

    #[test]
    fn series_and_classes_come_back() {
        let points = (0..9).map(|at| RssPoint { ms: at * at, rss: at << 12, live_bytes: at * 7 }).collect();
        let peak =
            PeakRss { bytes: 9 << 20, after_ms: 70, by_ms: 77, read_ms: 1 << 33, is_final: true, is_older: false };
        let older = Some(PeakRss { is_final: false, is_older: true, ..peak });
        let series = vec![
            RssSeries { process: ProcessId(1), points, peak: Some(peak) },
            RssSeries::default(),
            RssSeries { peak: older, ..RssSeries::default() },
        ];
        let columns = || cursors(&write_series(&series));
        assert_eq!(read_series(&mut columns(), 2), Ok(series.clone()));
        assert!(read_series(&mut columns(), 1).is_err());
        // A recording of version 2 has the first column alone.
        let without = series.iter().map(|series| RssSeries { peak: None, ..series.clone() }).collect();
        assert_eq!(read_series(&mut columns()[..1], 2), Ok(without));
        for column in 0..2 {
            let mut cut = write_series(&series);
            cut[column].pop();
            assert!(read_series(&mut cursors(&cut), 2).is_err());
        }
        let mut classes = vec![SizeClasses { process: ProcessId(0), usable: vec![8, 16, 48] }];
        let column = |classes: &[SizeClasses]| vec![Cursor::new(write_classes(classes))];
        assert_eq!(read_classes(&mut column(&classes), 1), Ok(classes.clone()));
        assert!(read_classes(&mut column(&classes), 0).is_err());
        classes[0].usable.push(9);
        assert!(read_classes(&mut column(&classes), 1).is_err());
    }

    proptest! {
        /// Any columns are read, or refused; what is read keeps what the model promises.
        #[test]
        fn any_columns_are_read(columns in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 5)) {
            let mut map = HeapMap::default();
            if let Ok(footprint) = read_footprint(&mut cursors(&columns), 9) {
                prop_assert_eq!(footprint.check(), Ok(()));
            }
            let _ = read_pages(&mut cursors(&columns[..3]), 4096, &mut map);
            let _ = read_blocks(&mut cursors(&columns[..3]), &mut map);
            let _ = (read_series(&mut cursors(&columns[..2]), 9), read_classes(&mut cursors(&columns[..1]), 9));
        }
    }
}
