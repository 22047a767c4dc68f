//! One reading of a process's memory.

use super::environment::Environment;
use super::own::OwnRanges;
use super::pagemap::{PAGE, Pagemap};
use super::{Failure, bss, caches, heaps, smaps, stacks, tables, zeros};
use mallow_proc::{Stat, Status};
use mallow_profile::{
    AddressRange, Footprint, HeapKind, KnownHeap, MappingFlags, MemorySizes, PageRun, PageState, ProcessId,
    ThreadCaches,
};
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Process id in mallow's own pid namespace.
    pub pid: u32,
    /// Number of the process in the recording.
    pub process: u32,
    /// Name of the run directory: mappings of its files are Mallow's own.
    pub directory: &'a str,
    /// Address of the process's list of what the library has mapped
    /// ([`crate::rundir::process_file::ProcessFile::own_list`]); 0: it has none.
    pub own_list: u64,
    /// Live blocks that may lie in slots of samples, by address.
    pub sampled: &'a [Range<u64>],
    /// The process began with fork, or ran before: it may have blocks that no event tells of.
    pub has_older_blocks: bool,
    /// The process waits at its exit.
    pub is_at_exit: bool,
}

/// What was read. The footprint's flags, time and live blocks are for others to fill in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Number of the reading in its process: 1, 2, 3, …; 0: not yet given.
    pub number: u64,
    pub footprint: Footprint,
    /// Pages of the mappings that have any.
    pub pages: Vec<PageRun>,
    /// Freed blocks that threads keep.
    pub caches: ThreadCaches,
    /// Where the allocator keeps its tables.
    pub tables: Vec<AddressRange>,
    /// Heaps that their contents name.
    pub heaps: Vec<KnownHeap>,
    /// Bytes of zeros in huge pages that the process asked for.
    pub huge_zeros: u64,
}

/// Reads the memory of a process. Both files take its mmap lock, but never for long: page faults go on, and a thread
/// that maps memory waits for a part of it.
fn read(subject: &Subject) -> Result<Reading, Failure> {
    let pid = subject.pid;
    let mut footprint = account(subject)?;
    let mut pagemap = Pagemap::open(pid)?;
    for mapping in &mut footprint.mappings {
        // A page of a block may have lost its rights, and is in memory still.
        let is_there = mapping.sizes.rss > 0 || mapping.sizes.swap > 0;
        let is_wanted = smaps::is_anonymous(mapping) && (mapping.flags.has(MappingFlags::WRITE) || is_there);
        if !is_wanted || mapping.flags.has(MappingFlags::HUGETLB) {
            continue;
        }
        mapping.has_pages = pagemap.read(mapping)?;
        if !mapping.has_pages {
            footprint.gap = Some("more pages, or more holes between them, than mallow has room for".to_owned());
        }
    }
    let caches = caches::read(pid, &footprint.mappings);
    let tables = tables::read(pid, &footprint.mappings, &pagemap.runs);
    let heaps = heaps::read(pid, &footprint.mappings, &pagemap.runs, subject.has_older_blocks);
    let huge_zeros = zeros::read(pid, &footprint.mappings, &pagemap.runs);
    Ok(Reading { number: 0, footprint, pages: pagemap.runs, caches, tables, heaps, huge_zeros })
}

/// The footprint of a process without a look at its pages: totals and mappings alone.
pub fn account(subject: &Subject) -> Result<Footprint, Failure> {
    let Subject { pid, process, directory, own_list, sampled, is_at_exit, .. } = *subject;
    // First: what comes while the mappings are read is not of the moment that is noted.
    let peak_rss = resident(pid).map(|now| now.peak).unwrap_or_default();
    let mut mappings = smaps::mappings(pid, directory)?;
    let mut pagemap = Pagemap::open(pid)?;
    bss::divide(pid, &mut pagemap, &mut mappings)?;
    stacks::mark(pid, &mut pagemap, &mut mappings)?;
    let own = OwnRanges::read(pid, own_list);
    own.divide(&mut pagemap, &mut mappings)?;
    let sampled_bytes = own.held(&mut pagemap, &mappings, sampled)?;
    let environment = Environment::of(pid);
    Ok(Footprint {
        process: ProcessId(process),
        is_at_exit,
        fixes_thresholds: environment.fixes_thresholds(),
        settings: environment.settings(),
        has_background_thread: stacks::has_background_thread(pid),
        peak_rss,
        threads: stacks::threads(pid),
        page_bytes: PAGE as u32,
        totals: smaps::totals(&mappings),
        mappings,
        sampled_bytes,
        ..Footprint::default()
    })
}

impl Reading {
    pub fn of(subject: &Subject) -> Result<Self, Failure> {
        read(subject)
    }

    /// Whether pages are as many as the sizes of their mappings say, and still there when their heads were read, but
    /// for a twentieth of RSS. Sizes are read before pages, and pages before heads: in between, a running process maps
    /// and unmaps.
    pub fn is_settled(&self) -> bool {
        let unmapped = self.heaps.iter().filter(|heap| heap.kind == HeapKind::Unmapped);
        let mut differs = unmapped.fold(0u64, |sum, heap| sum.saturating_add(heap.end - heap.start));
        let mut runs = self.pages.iter().peekable();
        for mapping in self.footprint.mappings.iter().filter(|mapping| mapping.has_pages) {
            while runs.next_if(|run| run.start < mapping.start).is_some() {}
            let mut pages: u64 = 0;
            while let Some(run) = runs.next_if(|run| run.start < mapping.end) {
                pages += if run.state.has(PageState::RESIDENT) { run.pages } else { 0 };
            }
            differs = differs.saturating_add(mapping.sizes.rss.abs_diff(pages.saturating_mul(PAGE)));
        }
        differs <= self.footprint.totals.rss / SETTLED
    }
}

/// Whether a reading takes the place of the highest one so far. An RSS that stays, or creeps, is not yet another
/// maximum: the moment that is kept is the one when it was reached. Pages that a process shared with its parent and has
/// copied since leave RSS as it is: more of it is the process's own then, and PSS is higher.
pub fn is_higher(sizes: &MemorySizes, highest: &MemorySizes) -> bool {
    let is_above = |size: u64, other: u64| size > other.saturating_add(highest.rss / HIGHER);
    let is_below = sizes.rss < highest.rss - highest.rss / HIGHER;
    is_above(sizes.rss, highest.rss) || !is_below && is_above(sizes.private_dirty, highest.private_dirty)
}

/// Pages and sizes of mappings agree within this part of RSS.
const SETTLED: u64 = 20;

/// A size is higher if it is above by more than one part in so many of the highest RSS.
pub const HIGHER: u64 = 50;

/// RSS without a look at mappings, in bytes: the kernel's own counts, which may lag behind by some pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    pub rss: u64,
    /// Highest RSS so far (`VmHWM`); 0: the kernel does not say.
    pub peak: u64,
}

/// The RSS of a process. None: it is gone, or has no memory any more.
pub fn resident(pid: u32) -> Option<Resident> {
    let status = Status::read(pid).ok()?;
    let rss = status.rss_bytes().filter(|&rss| rss > 0)?;
    Some(Resident { rss, peak: status.peak_rss_bytes().unwrap_or_default() })
}

/// Pages that a process got without a file being read, since it began: the first use of a page, and the copy of one
/// that it had shared.
pub fn copied_pages(pid: u32) -> Option<u64> {
    Stat::read(pid).ok()?.minor_faults()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::HeapMap;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_copy_of_what_was_shared_is_higher() {
        let sizes = |rss, private_dirty| MemorySizes { rss, private_dirty, ..MemorySizes::default() };
        let highest = sizes(1000, 300);
        assert!(is_higher(&sizes(1021, 0), &highest) && !is_higher(&sizes(1020, 0), &highest));
        assert!(is_higher(&sizes(1000, 321), &highest) && !is_higher(&sizes(1000, 320), &highest));
        assert!(is_higher(&sizes(980, 980), &highest) && !is_higher(&sizes(979, 979), &highest));
    }

    /// Of this process: a reservation of a terabyte with three pages, two of them next to each other.
    #[test]
    fn a_huge_reservation_has_the_pages_that_were_touched() {
        const BYTES: usize = 1 << 40;
        // SAFETY: a mapping of its own, of that length; three bytes in it are written, and one is read.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let at = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, BYTES, libc::MADV_NOHUGEPAGE);
            let bytes = at.cast::<u8>();
            for byte in [4096 * 5, 4096 * 6, BYTES - 4096] {
                bytes.add(byte).write_volatile(1);
            }
            bytes.add(4096 * 9).read_volatile();
            at as u64
        };
        let subject = Subject {
            pid: std::process::id(),
            process: 0,
            directory: "",
            own_list: 0,
            sampled: &[],
            has_older_blocks: false,
            is_at_exit: false,
        };
        let Reading { footprint, pages, .. } = read(&subject).expect("own memory");
        let mapping = footprint.mapping_at(at + 4096 * 5).expect("mapping");
        assert!(mapping.has_pages && mapping.flags.has(MappingFlags::NO_RESERVE | MappingFlags::NO_HUGE));
        let within: Vec<_> = pages.iter().filter(|run| (at..at + BYTES as u64).contains(&run.start)).collect();
        let places: Vec<_> = within.iter().map(|run| (run.start - at, run.pages)).collect();
        assert_eq!(places, [(4096 * 5, 2), (BYTES as u64 - 4096, 1)]);
        assert!(within.iter().all(|run| run.state.0 == PageState::RESIDENT));
        assert_eq!(footprint.check(), Ok(()));
        assert_eq!(HeapMap { pages, ..HeapMap::default() }.check(&footprint, &[]), Ok(()));
        // Other tests allocate meanwhile: one of some readings is near the kernel's count.
        let is_near = || {
            let Resident { rss, peak } = resident(std::process::id()).expect("status");
            assert!(peak > 0 && peak + (1 << 20) > rss, "{peak} {rss}");
            let account = account(&subject).expect("own memory");
            rss.abs_diff(account.totals.rss) < 16 << 20
        };
        assert!((0..100).any(|_| is_near()));
        assert!(footprint.peak_rss > 0);
        assert_eq!(resident(u32::MAX), None);
        let before = copied_pages(std::process::id()).expect("stat");
        // SAFETY: these pages of the mapping are no other's, and were not written.
        (0..64).for_each(|page| unsafe { (at as *mut u8).add(4096 * (100 + page)).write_volatile(1) });
        assert!(copied_pages(std::process::id()).expect("stat") >= before + 64);
        // SAFETY: the mapping from above, which nobody uses any more.
        unsafe { libc::munmap(at as *mut libc::c_void, BYTES) };
    }

    /// A process that is named in Latin-1 has an RSS and faults like any other.
    #[test]
    fn a_name_that_is_not_utf_8_hides_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
        std::fs::copy("/bin/sleep", &program).expect("a copy");
        let mut child = std::process::Command::new(&program).arg("60").spawn().expect("it starts");
        let before_exec = |pid| std::fs::read(format!("/proc/{pid}/comm")).expect("a name") != b"caf\xe9\n";
        while before_exec(child.id()) {
            std::thread::yield_now();
        }
        let found = (resident(child.id()), copied_pages(child.id()));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(found.0.is_some() && found.1.is_some(), "{found:?}");
    }
}
