//! Live blocks at the end, by stack.

use std::ops::AddAssign;

use mallow_profile::{Profile, Site};
use serde::Serialize;

use crate::analysis::stacks::functions::Stack;

pub(in crate::analysis) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Sums of live blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Live {
    /// Number of live blocks.
    pub live: u64,
    /// Requested bytes of the live blocks.
    pub live_bytes: u64,
}

impl Live {
    pub(in crate::analysis) fn of(site: &LeakSite) -> Self {
        Self { live: site.live, live_bytes: site.live_bytes }
    }

    pub(in crate::analysis) fn less(self, part: Self) -> Self {
        Self { live: self.live.saturating_sub(part.live), live_bytes: self.live_bytes.saturating_sub(part.live_bytes) }
    }
}

impl AddAssign for Live {
    /// Sums stay at their highest where a damaged recording drives them beyond.
    fn add_assign(&mut self, other: Self) {
        self.live = self.live.saturating_add(other.live);
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
    }
}

/// Live blocks that were allocated with one stack.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeakSite {
    /// Number of live blocks.
    pub live: u64,
    /// Requested bytes of the live blocks.
    pub live_bytes: u64,
    /// Lost blocks that no other lost block holds: each is a leak of its own. Left out where 0, as for blocks that are
    /// not lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub heads: u64,
    /// Age of the oldest block at the end of its process, in milliseconds.
    pub oldest_ms: u64,
    /// Age of the youngest block at the end of its process, in milliseconds.
    pub youngest_ms: u64,
    /// Ids of the processes with live blocks of the site.
    pub pids: Vec<u32>,
    #[serde(flatten)]
    pub stack: Stack,
}

impl LeakSite {
    /// The live blocks of a site, without its stack.
    pub(in crate::analysis) fn of(profile: &Profile, site: &Site) -> Self {
        let process = profile.processes.get(site.process.0 as usize);
        let end = process.map_or(profile.duration_ms, |p| p.done_ms());
        Self {
            live: site.counts.live,
            live_bytes: site.counts.live_bytes,
            heads: 0,
            oldest_ms: end.saturating_sub(site.live_oldest_ms),
            youngest_ms: end.saturating_sub(site.live_youngest_ms),
            pids: process.iter().map(|p| p.pid).collect(),
            stack: Stack::default(),
        }
    }

    /// Adds what is live elsewhere. Sums stay at their highest where a damaged recording drives them beyond.
    pub(in crate::analysis) fn add(&mut self, other: &Self) {
        self.live = self.live.saturating_add(other.live);
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        self.heads = self.heads.saturating_add(other.heads);
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.youngest_ms = self.youngest_ms.min(other.youngest_ms);
        for &pid in &other.pids {
            if !self.pids.contains(&pid) {
                self.pids.push(pid);
            }
        }
    }
}
