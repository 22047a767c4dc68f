//! What of huge pages nobody wrote, or wrote zeros to. The kernel makes a huge page of zeros at the first touch of any
//! byte in it, so most of one may be nobody's. Without the advice of `madvise` there would be no such page: where the
//! kernel makes them for advice alone.

use super::peek::words;
use mallow_profile::{Mapping, MappingFlags, PageRun, PageState};
use std::fs;

/// Pages that are looked at, and the words in each.
const SAMPLES: usize = 1 << 12;
const WORDS: usize = 512;
const MODE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// An estimate of the bytes of zeros in huge pages that a process got by asking for them, by a sample of their pages. 0
/// where the kernel makes huge pages without being asked.
pub fn read(pid: u32, mappings: &[Mapping], pages: &[PageRun]) -> u64 {
    let is_asked = fs::read_to_string(MODE).is_ok_and(|mode| mode.contains("[madvise]"));
    let Some(pid) = i32::try_from(pid).ok().filter(|_| is_asked) else { return 0 };
    let is_advised = |address: u64| {
        let at = mappings.partition_point(|mapping| mapping.end <= address);
        mappings.get(at).is_some_and(|m| m.start <= address && m.flags.has(MappingFlags::HUGE))
    };
    let is_huge = |run: &&PageRun| run.state.has(PageState::HUGE | PageState::RESIDENT) && is_advised(run.start);
    let huge: Vec<&PageRun> = pages.iter().filter(is_huge).collect();
    let all: u64 = huge.iter().fold(0, |sum, run| sum.saturating_add(run.pages));
    // An odd step, so that it meets all places of a huge page.
    let step = (all / SAMPLES as u64).max(1) | 1;
    let mut places = Vec::new();
    let mut skip = 0;
    for run in huge {
        let mut page = skip;
        while page < run.pages {
            places.push(run.start + (page << 12));
            page += step;
        }
        skip = page - run.pages;
    }
    let read = words::<WORDS>(pid, &places);
    let seen = read.iter().flatten().count() as u64;
    let zeros = read.iter().flatten().filter(|page| page.iter().all(|&word| word == 0)).count() as u64;
    let share = u128::from(all << 12) * u128::from(zeros) / u128::from(seen.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
