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

/// What the samples of some sites show of their growth at one look, for [`Standings::settle`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// What this look alone says.
    pub growth: Growth,
    pub(super) said: [Said; CLOCKS],
    /// When the processes with these sites began to be watched.
    pub(super) since_ns: u64,
    /// How many tests the chance is over.
    pub(super) tests: f64,
}

/// Growth that was found, and not refuted since.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// As it was found last.
    growth: Growth,
    since_ns: u64,
    /// What a block weighed then, and what other sites allocated, by the clock that saw most of them.
    weight: f64,
    traffic: Option<f64>,
}

/// What was found growing in the looks before, by the number that names the sites.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    of: FxHashMap<u64, Standing>,
    /// Ids of places that the last look named as growing.
    named: FxHashSet<u64>,
}

impl Standings {
    /// How the sites grow that `id` names: as this look says, or as an earlier one that nothing refuted.
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

    /// What this look names as growing.
    pub fn name(&mut self, ids: impl IntoIterator<Item = u64>) {
        self.named = ids.into_iter().collect();
    }
}
