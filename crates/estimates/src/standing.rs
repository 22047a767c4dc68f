//! Verdicts from look to look: what was found growing stays so until the evidence against it is as strong as it was for
//! it.
//!
//! A constant leak is tested anew with each look, over another part of its time. Now and then its blocks are unevenly
//! spread, or too few for the number of sites that there are by now, and the test does not find again what it found a
//! minute ago. That is no evidence against growth, and an alert that waits for five minutes of it would begin anew each
//! time.

use rustc_hash::{FxHashMap, FxHashSet};

use super::growth::{CHANCE, Growth, Said, Verdict};
use super::lives::CLOCKS;

/// What some sites show of their growth at one look, for [`Standings::settle`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    pub growth: Growth,
    pub(super) said: [Said; CLOCKS],
    /// CLOCK_MONOTONIC at which the processes with these sites began to be watched.
    pub(super) since_ns: u64,
    /// Number of tests that share the chance of an error.
    pub(super) tests: f64,
}

/// Growth that was found, and not refuted since.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// Growth as the last look has it that found any.
    growth: Growth,
    since_ns: u64,
    /// Weight of a block then and samples of other sites a second, by the clock that saw most of them.
    weight: f64,
    traffic: Option<f64>,
}

/// By the number that names sites, the growth that earlier looks found.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    of: FxHashMap<u64, Standing>,
    /// Ids of places that the last look named as growing.
    named: FxHashSet<u64>,
}

impl Standings {
    /// The growth of the sites that `id` names: as this look says, or as an earlier one did that nothing has refuted.
    pub fn settle(&mut self, id: u64, evidence: &Evidence) -> Growth {
        let Evidence { growth, said, since_ns, tests } = evidence;
        if growth.verdict == Verdict::Growing {
            let heaviest = said.iter().map(Said::weight).fold(0.0, f64::max);
            let traffic = said.iter().find_map(Said::traffic);
            self.of.insert(id, Standing { growth: *growth, since_ns: *since_ns, weight: heaviest, traffic });
            return *growth;
        }
        let Some(standing) = self.of.get(&id) else { return *growth };
        let rare = CHANCE / tests.max(1.0);
        let (rate, weight) = (standing.growth.bytes_per_hour.value, standing.weight);
        let is_refuted = said.iter().any(|said| said.refutes(rate, weight, standing.traffic, rare));
        // Other processes: what is known of those before says nothing of them.
        if is_refuted || *since_ns != standing.since_ns {
            self.of.remove(&id);
            return *growth;
        }
        standing.growth
    }

    /// Whether the last look named these sites as growing.
    pub fn was_named(&self, id: u64) -> bool {
        self.named.contains(&id)
    }

    /// Replaces the ids that the last look named as growing.
    pub fn name(&mut self, ids: impl IntoIterator<Item = u64>) {
        self.named = ids.into_iter().collect();
    }
}
