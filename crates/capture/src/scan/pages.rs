//! The kernel's lists of pages that exist (`PAGEMAP_SCAN`, from Linux 6.7 on).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

pub const PAGE: u64 = 4096;
const RUNS: usize = 512;

/// `PAGE_IS_…` of linux/fs.h, or-ed.
pub type Categories = u64;
pub const PRESENT: Categories = 1 << 3;
pub const SWAPPED: Categories = 1 << 4;
pub const HUGE: Categories = 1 << 6;
const ZERO: Categories = 1 << 5;
/// `PAGEMAP_SCAN`
const SCAN: libc::c_ulong = 0xc060_6610;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    runs: u64,
    runs_length: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ListedRun {
    pub start: u64,
    pub end: u64,
    pub categories: Categories,
}

/// Lists of the pages that exist in a process, without the shared page of zeros.
pub struct PageLists<'a> {
    pagemap: &'a File,
    runs: [ListedRun; RUNS],
    count: usize,
}

impl<'a> PageLists<'a> {
    pub fn of(pagemap: &'a File) -> Self {
        Self { pagemap, runs: [ListedRun::default(); RUNS], count: 0 }
    }

    /// Asks for the next list. Returns up to which address it goes: at least the page after `start`, at most `end`. An
    /// error other than ESRCH says that this kernel has no lists.
    pub fn next(&mut self, start: u64, end: u64) -> io::Result<u64> {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start,
            end,
            runs: self.runs.as_mut_ptr() as u64,
            runs_length: RUNS as u64,
            inverted: ZERO,
            all_of: ZERO,
            any_of: PRESENT | SWAPPED,
            returned: PRESENT | SWAPPED | HUGE,
            ..ScanArguments::default()
        };
        // SAFETY: the argument has the size that it says, and leads to as many runs as it says; the kernel writes no
        // more.
        let count = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), SCAN, &raw mut arguments) };
        self.count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?.min(RUNS);
        Ok(arguments.walk_end.clamp(start + PAGE, end))
    }

    /// The runs of the last list. Pages with different categories are runs of their own.
    pub fn runs(&self) -> &[ListedRun] {
        &self.runs[..self.count]
    }
}
