//! What the numbers and the call paths of a recording lack.

use mallow_report::analysis::custom_allocators;

use super::recording::Recording;
use crate::output::stdio;
use crate::output::text::gaps;

const NOTHING_SEEN: &str = "no allocation was seen; the program made none, or its allocator is out of sight (a static \
                            program, or one with an allocator of its own)";

impl Recording {
    /// Says on standard error what the recording lacks: for pictures, JSON and files of other tools.
    pub fn warn_of_gaps(&self) {
        self.warn_of(&self.incomplete());
    }

    /// Says these gaps of it on standard error.
    pub fn warn_of(&self, lacking: &[String]) {
        for text in lacking {
            stdio::notify(&format!("{}: {text}", self.path().display()));
        }
    }

    /// Gaps of the numbers and of the call paths, a sentence each.
    pub fn incomplete(&self) -> Vec<String> {
        let mut all = self.incomplete_totals();
        all.extend(gaps::late_tables(&self.profile.processes));
        all
    }

    /// Gaps of the numbers, allocators that Mallow does not see included, a sentence each: totals would be others
    /// without them.
    pub fn incomplete_totals(&self) -> Vec<String> {
        let profile = &self.profile;
        let allocators = custom_allocators(&profile.custom_allocators, |number| {
            profile.processes.get(number).map(|process| process.executable.as_str())
        });
        let ending = &profile.ending;
        let mut all: Vec<String> = gaps::allocators(&allocators, profile.processes.len()).collect();
        let unrecorded = if self.gaps_reported { &[] } else { &profile.unrecorded[..] };
        match profile.origin {
            None => all.extend(gaps::unrecorded(unrecorded)),
            Some(_) => all.extend(gaps::imported(unrecorded)),
        }
        all.extend(gaps::lacks(ending.cut_short.as_deref(), ending.lost, ending.damaged));
        let is_unseen =
            profile.totals.allocations == 0 && profile.ending.cut_short.is_none() && profile.origin.is_none();
        all.extend((is_unseen && self.filters.is_none()).then(|| NOTHING_SEEN.to_owned()));
        all
    }
}
