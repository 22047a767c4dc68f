//! An earlier state of a profile that is written as what changed since.

use mallow_profile::{Counts, ProcessId, Profile, StackId};
use rustc_hash::FxHashMap;

/// The counts of each site of an earlier state. Sums of processes that have ended are one process without an id, which
/// comes after all others and so has another number later.
#[derive(Default)]
pub struct Earlier {
    counts: FxHashMap<(u32, u32), Counts>,
}

/// The number of the processes that ended.
const ENDED: u32 = u32::MAX;

fn process_key(profile: &Profile, process: ProcessId) -> u32 {
    match profile.processes.get(process.0 as usize) {
        Some(known) if known.pid > 0 => process.0,
        _ => ENDED,
    }
}

impl Earlier {
    pub fn of(profile: &Profile) -> Self {
        let mut counts: FxHashMap<(u32, u32), Counts> = FxHashMap::default();
        for site in &profile.sites {
            *counts.entry((process_key(profile, site.process), site.stack.0)).or_default() += site.counts;
        }
        Self { counts }
    }

    /// Returns the counts of a site, and 0 when asked again.
    pub fn take(&mut self, profile: &Profile, process: ProcessId, stack: StackId) -> Counts {
        self.counts.remove(&(process_key(profile, process), stack.0)).unwrap_or_default()
    }

    /// Sites that `now` has no longer, in an order that is always the same.
    pub fn without_site(&self, now: &Profile) -> Vec<(ProcessId, StackId)> {
        let mut gone: Vec<_> = self.counts.keys().copied().collect();
        let still: std::collections::HashSet<(u32, u32)> =
            now.sites.iter().map(|site| (process_key(now, site.process), site.stack.0)).collect();
        gone.retain(|key| !still.contains(key));
        gone.sort_unstable();
        gone.into_iter().map(|(process, stack)| (ProcessId(process), StackId(stack))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::{Options, write_as};
    use crate::read;
    use mallow_report::testing::parser;

    #[test]
    fn a_difference_has_what_came_and_nothing_of_what_stayed() {
        let before = parser();
        let mut now = before.clone();
        let site = &mut now.sites[0];
        site.counts.allocations += 7;
        site.counts.allocated_bytes += 7000;
        let mut bytes = Vec::new();
        write_as(&now, &Options { since: Some(&before), ..Options::default() }, &mut bytes).expect("a profile");
        let changed = read(&bytes[..], None, &mut |_| {}).expect("a profile").profile;
        assert_eq!((changed.totals.allocations, changed.totals.allocated_bytes), (7, 7000));
        assert_eq!(changed.sites.len(), 1, "{:?}", changed.sites);
    }

    #[test]
    fn what_is_gone_counts_below_zero() {
        let before = parser();
        let mut now = before.clone();
        let gone = now.sites.remove(0);
        let mut bytes = Vec::new();
        write_as(&now, &Options { since: Some(&before), ..Options::default() }, &mut bytes).expect("a profile");
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut plain).expect("gzip");
        // A varint of ten bytes: the negative number itself.
        let mut wanted = Vec::new();
        prost::encoding::encode_varint((gone.counts.allocations as i64).wrapping_neg() as u64, &mut wanted);
        assert!(plain.windows(wanted.len()).any(|window| window == wanted), "{}", gone.counts.allocations);
    }

    #[test]
    fn without_names_there_are_addresses_and_build_ids_alone() {
        let profile = parser();
        let mut bytes = Vec::new();
        write_as(&profile, &Options { names: false, ..Options::default() }, &mut bytes).expect("a profile");
        let again = read(&bytes[..], None, &mut |_| {}).expect("a profile").profile;
        assert!(again.frames.iter().all(|frame| frame.lines.is_empty()), "{:?}", again.frames);
        assert_eq!(again.totals.allocations, profile.totals.allocations);
    }
}
