//! The memory of a process at one moment, as the kernel accounts for it: totals, mappings, pages, and where live blocks
//! lay.
//!
//! Totals and mappings are part of a [`crate::Profile`]. Pages and blocks are a [`HeapMap`], which may have millions of
//! rows: it is read only where somebody asks for it.

use crate::known_heap::KnownHeap;
use crate::peak_rss::PeakRss;
use crate::process::ProcessId;

/// Sizes that the kernel accounts for, in bytes; `/proc/PID/smaps` has them under these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySizes {
    /// Address space, resident or not.
    pub size: u64,
    /// Memory that is resident, which is also the sum of the four sizes by sharing and writing.
    pub rss: u64,
    /// `rss`, with each shared page divided by the number of processes that have it.
    pub pss: u64,
    /// Pages that other processes map, too, unchanged since they were read from a file.
    pub shared_clean: u64,
    /// Pages that other processes map, too, and that were written.
    pub shared_dirty: u64,
    /// Pages of this process alone, unchanged.
    pub private_clean: u64,
    /// Pages of this process alone, written.
    pub private_dirty: u64,
    /// The part of `rss` that belongs to no file.
    pub anonymous: u64,
    /// The part of `rss` that the process has given back (`MADV_FREE`), and the kernel may take at any time.
    pub lazy_free: u64,
    /// The part of `rss` in huge pages.
    pub huge: u64,
    /// The part of the mapping in swap.
    pub swap: u64,
    /// `swap`, divided as `pss`.
    pub swap_pss: u64,
    /// The part of `pss` that is locked in memory.
    pub locked: u64,
    /// Pages of hugetlbfs, which no other size includes.
    pub hugetlb: u64,
}

/// What a mapping is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MappingKind {
    /// `[heap]`: what `brk` made.
    Heap,
    /// Private memory of no file: of an allocator, or the program's own.
    #[default]
    Anonymous,
    /// The first thread's stack.
    Stack,
    /// The stack of another thread.
    ThreadStack,
    /// Code of a file.
    FileText,
    /// Anything else of a file; private pages that were written are in its `anonymous`.
    FileData,
    /// Mallow's own: files that it shares with the process, and its library with the memory that this has mapped.
    Mallow,
    /// Memory shared with other processes: POSIX and System V shared memory, memfd, shared anonymous mappings.
    Shared,
    /// `[vdso]`, `[vvar]` and the like.
    Kernel,
    /// The `.bss` of a module: private memory of no file that its program headers ask for. Its name is the module's.
    Bss,
}

impl MappingKind {
    /// All kinds; the position of each is its number in a recording.
    pub const ALL: [Self; 10] = [
        Self::Heap,
        Self::Anonymous,
        Self::Stack,
        Self::ThreadStack,
        Self::FileText,
        Self::FileData,
        Self::Mallow,
        Self::Shared,
        Self::Kernel,
        Self::Bss,
    ];
}

/// Flags of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingFlags(pub u32);

impl MappingFlags {
    /// The mapping can be read.
    pub const READ: u32 = 1;
    /// The mapping can be written.
    pub const WRITE: u32 = 1 << 1;
    /// The mapping can be executed.
    pub const EXECUTE: u32 = 1 << 2;
    /// The mapping is shared, not private.
    pub const SHARED: u32 = 1 << 3;
    /// The mapping was made with `MAP_NORESERVE`.
    pub const NO_RESERVE: u32 = 1 << 4;
    /// The mapping is locked in memory (`mlock`).
    pub const LOCKED: u32 = 1 << 5;
    /// The mapping is of hugetlbfs.
    pub const HUGETLB: u32 = 1 << 6;
    /// Huge pages were asked for (`MADV_HUGEPAGE`).
    pub const HUGE: u32 = 1 << 7;
    /// Huge pages were ruled out (`MADV_NOHUGEPAGE`).
    pub const NO_HUGE: u32 = 1 << 8;
    /// All flags that have a meaning.
    pub const KNOWN: u32 = (1 << 9) - 1;

    /// Whether all of `flags` are set.
    pub fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }
}

/// A mapping of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address of the mapping.
    pub start: u64,
    /// First address behind the mapping.
    pub end: u64,
    /// Use of the memory, as far as its name and flags show it.
    pub kind: MappingKind,
    /// Permissions and advice that the kernel reports.
    pub flags: MappingFlags,
    /// A file's path, a name in brackets, or nothing.
    pub name: String,
    /// The part of the footprint's totals in this mapping.
    pub sizes: MemorySizes,
    /// The heap map has its pages. They are those of this mapping; a page that it does not list is neither in memory
    /// nor in swap.
    pub has_pages: bool,
}

/// The memory of one process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The process image whose memory was read.
    pub process: ProcessId,
    /// Moment of the reading, in milliseconds since the recording began.
    pub ms: u64,
    /// Whether this footprint stands for the highest RSS of the process: the highest that was read, or of those up to a
    /// fiftieth below it the first one, or one with markedly more live bytes. Where the process freed most of its
    /// blocks just before its exit, it is the highest one before that.
    pub is_highest: bool,
    /// Whether no later footprint of the process was read.
    pub is_last: bool,
    /// The process waited at its exit meanwhile, so the blocks are those of this very moment.
    pub is_at_exit: bool,
    /// The highest RSS that the kernel had noted by then (`VmHWM`): at the highest footprint, it may be more than
    /// `totals.rss`.
    pub peak_rss: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Sums over the mappings.
    pub totals: MemorySizes,
    /// All mappings, by address.
    pub mappings: Vec<Mapping>,
    /// Threads of the process; 0: the recording does not say.
    pub threads: u64,
    /// Blocks that were live at `ms`.
    pub live_blocks: u64,
    /// Requested bytes of the live blocks.
    pub live_bytes: u64,
    /// Bytes of the live blocks that are in memory; None: pages were not read, or the recording does not say.
    pub live_resident: Option<u64>,
    /// The most live bytes that a look at the process found in the second before; None: nobody looked, or the recording
    /// does not say.
    pub recent_live: Option<RecentLive>,
    /// Bytes in memory of live blocks in Mallow's mappings: samples of a watched program lie in slots of its library. 0
    /// in recordings, whose blocks are all the allocator's.
    pub sampled_bytes: u64,
    /// The process's environment fixes glibc's thresholds: they do not rise with what it frees.
    pub fixes_thresholds: bool,
    /// Variables of its environment, each as NAME=VALUE, that other allocators than glibc's read. Empty where the
    /// recording does not say.
    pub settings: Vec<String>,
    /// A thread runs that gives back free pages of a jemalloc.
    pub has_background_thread: bool,
    /// Why the recording has no [`HeapMap`] of it, as what follows "no pages:"; None: it has one.
    pub gap: Option<String>,
}

/// The live bytes of a process shortly before a [`Footprint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentLive {
    /// Moment at which so many bytes were live, in milliseconds since the recording began.
    pub ms: u64,
    /// Requested bytes that were live.
    pub bytes: u64,
}

/// Bits of a page, which all pages of a [`PageRun`] have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageState(pub u8);

impl PageState {
    /// The page is in memory: it counts as RSS.
    pub const RESIDENT: u8 = 1;
    /// The page is in swap.
    pub const SWAPPED: u8 = 1 << 1;
    /// Another process has it, too: after fork, and neither wrote it.
    pub const SHARED: u8 = 1 << 2;
    /// Part of a huge page.
    pub const HUGE: u8 = 1 << 3;
    /// All bits that have a meaning.
    pub const KNOWN: u8 = (1 << 4) - 1;

    /// Whether all of `bits` are set.
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

/// Pages next to each other with the same state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRun {
    /// Address of the first page.
    pub start: u64,
    /// Pages of 4 KiB, one after the other.
    pub pages: u64,
    /// What all of these pages have in common.
    pub state: PageState,
}

/// A live block where it lay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Address of the block, as the program has it.
    pub address: u64,
    /// Size that was asked for, in bytes.
    pub size: u64,
    /// Index of its site in [`crate::Profile::sites`].
    pub site: u32,
}

/// A freed block that glibc keeps for the next request of one thread; its arena counts it as in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedBlock {
    /// Address of the block, as the program had it.
    pub address: u64,
    /// Usable size in bytes.
    pub size: u64,
}

/// What glibc's caches of threads (tcache) hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadCaches {
    /// Number of caches that were read.
    pub caches: u64,
    /// Whether the cache of every thread was read in full.
    pub is_complete: bool,
    /// Blocks in the caches, and the caches themselves but for that of the first thread, by address, each address once.
    pub blocks: Vec<CachedBlock>,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    /// First address of the range.
    pub start: u64,
    /// First address behind the range.
    pub end: u64,
}

/// Pages and live blocks at the moment of a [`Footprint`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapMap {
    /// Pages in memory or in swap of the mappings with `has_pages`, by address, without overlaps.
    pub pages: Vec<PageRun>,
    /// Freed blocks that glibc keeps for single threads.
    pub caches: ThreadCaches,
    /// Where an allocator keeps its tables, as it says itself, by address, without overlaps.
    pub tables: Vec<AddressRange>,
    /// Heaps that their contents name, by address, without overlaps. None: nobody looked for them.
    pub heaps: Option<Vec<KnownHeap>>,
    /// An estimate of the bytes of zeros in huge pages that the process asked for by `madvise`; 0 where the kernel
    /// makes such pages unasked.
    pub huge_zeros: u64,
    /// Live blocks, by address, each address once.
    pub blocks: Vec<PlacedBlock>,
}

/// RSS of a process over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssSeries {
    /// The process image whose RSS was read.
    pub process: ProcessId,
    /// Readings by time. Longer recordings keep fewer of them, spread evenly, and always the highest and the last one.
    pub points: Vec<RssPoint>,
    /// The kernel's own maximum; None in recordings of earlier versions.
    pub peak: Option<PeakRss>,
}

/// One reading of an [`RssSeries`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssPoint {
    /// Milliseconds since the recording began.
    pub ms: u64,
    /// RSS at that moment, in bytes.
    pub rss: u64,
    /// Requested bytes of the process's live blocks.
    pub live_bytes: u64,
}

/// What an allocator really gives for requests, as `malloc_usable_size` reported it in the process at its exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeClasses {
    /// The process whose allocator has these sizes.
    pub process: ProcessId,
    /// Usable sizes, ascending: a request gets the first one that is not smaller. Nothing is known of requests above
    /// the last one.
    pub usable: Vec<u64>,
}

impl SizeClasses {
    /// The usable size of a block of `requested` bytes, where it is known.
    pub fn usable(&self, requested: u64) -> Option<u64> {
        let at = self.usable.partition_point(|&usable| usable < requested);
        self.usable.get(at).copied()
    }
}

impl MemorySizes {
    /// All sizes, in the order of a recording.
    pub fn all(&self) -> [u64; 14] {
        let Self { size, rss, pss, shared_clean, shared_dirty, private_clean, private_dirty, .. } = *self;
        let Self { anonymous, lazy_free, huge, swap, swap_pss, locked, hugetlb, .. } = *self;
        [
            size,
            rss,
            pss,
            shared_clean,
            shared_dirty,
            private_clean,
            private_dirty,
            anonymous,
            lazy_free,
            huge,
            swap,
            swap_pss,
            locked,
            hugetlb,
        ]
    }

    /// The reverse of [`MemorySizes::all`].
    pub fn of(all: [u64; 14]) -> Self {
        let [size, rss, pss, shared_clean, shared_dirty, private_clean, private_dirty, rest @ ..] = all;
        let [anonymous, lazy_free, huge, swap, swap_pss, locked, hugetlb] = rest;
        Self {
            size,
            rss,
            pss,
            shared_clean,
            shared_dirty,
            private_clean,
            private_dirty,
            anonymous,
            lazy_free,
            huge,
            swap,
            swap_pss,
            locked,
            hugetlb,
        }
    }
}

impl std::ops::AddAssign for MemorySizes {
    fn add_assign(&mut self, other: Self) {
        let (sums, others) = (self.all(), other.all());
        *self = Self::of(std::array::from_fn(|at| sums[at].saturating_add(others[at])));
    }
}

impl std::iter::Sum for MemorySizes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |mut sum, sizes| {
            sum += sizes;
            sum
        })
    }
}

impl Footprint {
    /// Whether most of what was live shortly before had been freed by then: what is free now was in use a moment ago,
    /// as at an exit that frees all. A part of less than a tenth of RSS does not count.
    pub fn fell_from(&self) -> Option<RecentLive> {
        let freed = |recent: &RecentLive| recent.bytes.saturating_sub(self.live_bytes);
        self.recent_live.filter(|recent| self.live_bytes < recent.bytes / 2 && freed(recent) > self.totals.rss / 10)
    }

    /// Whether mappings are in their order and apart, and the totals are their sums.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.page_bytes.is_power_of_two() {
            return Err("pages of a size that no processor has");
        }
        let mut end = 0;
        for mapping in &self.mappings {
            if mapping.start < end || mapping.end <= mapping.start {
                return Err("mappings are not in the order of their addresses");
            }
            end = mapping.end;
            if mapping.flags.0 & !MappingFlags::KNOWN != 0 {
                return Err("a mapping has an unknown flag");
            }
        }
        let sums: MemorySizes = self.mappings.iter().map(|mapping| mapping.sizes).sum();
        if sums != self.totals { Err("the totals are not the sums of the mappings") } else { Ok(()) }
    }

    /// The mapping that has an address.
    pub fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let at = self.mappings.partition_point(|mapping| mapping.end <= address);
        self.mappings.get(at).filter(|mapping| mapping.start <= address)
    }
}

impl HeapMap {
    /// Whether pages lie within mappings of the footprint that have pages, in their order and apart; and blocks are in
    /// their order, and of sites of the footprint's process.
    pub fn check(&self, of: &Footprint, sites: &[crate::Site]) -> Result<(), &'static str> {
        let page = u64::from(of.page_bytes);
        let mut end = 0;
        for run in &self.pages {
            let bytes =
                run.pages.checked_mul(page).filter(|&bytes| bytes > 0).ok_or("a run of no pages, or too many")?;
            let last = run.start.checked_add(bytes).ok_or("a run of too many pages")?;
            if run.start < end || !run.start.is_multiple_of(page) {
                return Err("pages are not in the order of their addresses");
            }
            if !of.mapping_at(run.start).is_some_and(|mapping| mapping.has_pages && last <= mapping.end) {
                return Err("pages of no mapping");
            }
            if run.state.0 & (PageState::RESIDENT | PageState::SWAPPED) == 0 || run.state.0 & !PageState::KNOWN != 0 {
                return Err("pages that are neither in memory nor in swap");
            }
            end = last;
        }
        if !self.caches.blocks.is_sorted_by(|a, b| a.address < b.address) {
            return Err("cached blocks are not in the order of their addresses");
        }
        let is_before = |a: &AddressRange, b: &AddressRange| a.end <= b.start;
        if !self.tables.is_sorted_by(is_before) || self.tables.iter().any(|range| range.end <= range.start) {
            return Err("tables of the allocator are not in the order of their addresses");
        }
        let mut end = 0;
        for heap in self.heaps.iter().flatten() {
            if heap.start < end || heap.end <= heap.start {
                return Err("heaps are not in the order of their addresses");
            }
            end = heap.end;
        }
        let mut next = 0;
        for block in &self.blocks {
            if block.address < next {
                return Err("blocks are not in the order of their addresses");
            }
            next = block.address.saturating_add(1);
            if sites.get(block.site as usize).is_none_or(|site| site.process != of.process) {
                return Err("a block of no site of the process");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeapKind, ProcessId, Site, StackId};

    fn footprint() -> Footprint {
        let sizes = MemorySizes { size: 0x3000, rss: 0x2000, ..MemorySizes::default() };
        let mapping = Mapping { start: 0x1000, end: 0x4000, sizes, has_pages: true, ..Mapping::default() };
        let other = Mapping { start: 0x8000, end: 0x9000, sizes: MemorySizes::default(), ..Mapping::default() };
        Footprint { page_bytes: 4096, totals: sizes, mappings: vec![mapping, other], ..Footprint::default() }
    }

    fn map() -> HeapMap {
        let resident = PageState(PageState::RESIDENT);
        let pages = vec![
            PageRun { start: 0x1000, pages: 1, state: resident },
            PageRun { start: 0x3000, pages: 1, state: PageState(PageState::RESIDENT | PageState::SHARED) },
        ];
        let blocks = vec![0x1010, 0x1020, 0x3ff0].into_iter().map(|address| PlacedBlock { address, size: 8, site: 0 });
        HeapMap { pages, blocks: blocks.collect(), ..HeapMap::default() }
    }

    #[test]
    fn sizes_have_one_order() {
        let sizes = MemorySizes::of(std::array::from_fn(|at| at as u64 + 1));
        assert_eq!((sizes.size, sizes.rss, sizes.hugetlb), (1, 2, 14));
        assert_eq!(MemorySizes::of(sizes.all()), sizes);
        assert_eq!([sizes, sizes].into_iter().sum::<MemorySizes>().all()[13], 28);
    }

    #[test]
    fn a_broken_footprint_is_reported() {
        type Break = fn(&mut Footprint);
        let broken: [(&str, Break); 4] = [
            ("pages of a size that no processor has", |f| f.page_bytes = 0),
            ("mappings are not in the order of their addresses", |f| f.mappings.swap(0, 1)),
            ("a mapping has an unknown flag", |f| f.mappings[0].flags.0 = 1 << 9),
            ("the totals are not the sums of the mappings", |f| f.totals.rss = 0),
        ];
        assert_eq!(footprint().check(), Ok(()));
        for (text, breaks) in broken {
            let mut footprint = footprint();
            breaks(&mut footprint);
            assert_eq!(footprint.check(), Err(text));
        }
    }

    #[test]
    fn a_broken_heap_map_is_reported() {
        let site = Site {
            process: ProcessId(0),
            stack: StackId(0),
            counts: Default::default(),
            patterns: Default::default(),
            live_oldest_ms: 0,
            live_youngest_ms: 0,
            precisions: None,
        };
        let stranger = Site { process: ProcessId(1), ..site.clone() };
        let sites = [site, stranger];
        type Break = fn(&mut HeapMap);
        let heap = |start, end| KnownHeap { kind: HeapKind::V8, start, end, used: 0 };
        assert_eq!(HeapMap { heaps: Some(vec![heap(1, 2), heap(2, 3)]), ..map() }.check(&footprint(), &sites), Ok(()));
        let broken: [(&str, Break); 10] = [
            ("heaps are not in the order of their addresses", |map| {
                map.heaps = Some(vec![KnownHeap { kind: HeapKind::V8, start: 7, end: 7, used: 0 }]);
            }),
            ("a run of no pages, or too many", |map| map.pages[0].pages = 0),
            ("a run of no pages, or too many", |map| map.pages[0].pages = u64::MAX),
            ("pages are not in the order of their addresses", |map| map.pages[1].start = 0x1000),
            ("pages are not in the order of their addresses", |map| map.pages[1].start = 0x2001),
            ("pages of no mapping", |map| map.pages[1].pages = 2),
            ("pages of no mapping", |map| map.pages[1].start = 0x8000),
            ("pages that are neither in memory nor in swap", |map| map.pages[1].state.0 = PageState::SHARED),
            ("blocks are not in the order of their addresses", |map| map.blocks[1].address = 0x1010),
            ("a block of no site of the process", |map| map.blocks[1].site = 1),
        ];
        assert_eq!(map().check(&footprint(), &sites), Ok(()));
        for (text, breaks) in broken {
            let mut map = map();
            breaks(&mut map);
            assert_eq!(map.check(&footprint(), &sites), Err(text));
        }
    }

    #[test]
    fn a_request_gets_the_first_class_that_is_large_enough() {
        let classes = SizeClasses { process: ProcessId(0), usable: vec![8, 16, 32] };
        assert_eq!([0, 8, 9, 32, 33].map(|size| classes.usable(size)), [Some(8), Some(8), Some(16), Some(32), None]);
    }
}
