//! What an account of the highest RSS does not divide: memory that came on top of its moment, and what is known of it.

use mallow_profile::{Footprint, Profile};
use serde::Serialize;

use super::large::AtPeak;
use super::ledger::RssLedger;
use super::peak::KernelPeak;

/// The kernel's maximum is markedly above the RSS that is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Undivided {
    /// Bytes by which the highest RSS is above this moment's.
    pub bytes: u64,
    /// Blocks that were live at the maximum and are not at the account's moment. Null: not known, or not where they
    /// lay.
    pub blocks: Option<UndividedBlocks>,
}

/// Blocks that were live while RSS was at its maximum, and are not at the account's moment, by where they lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndividedBlocks {
    /// The moment of most live bytes, in milliseconds since the recording began.
    pub ms: u64,
    /// Upper bound of the bytes in glibc's heap.
    pub heap_bytes: u64,
    /// Bytes in mappings of their own: freeing such a block gives its memory back to the kernel, and no remedy gives it
    /// back again.
    pub mapped_bytes: u64,
    /// Requested bytes in memory of other allocators.
    pub other_bytes: u64,
}

/// An account stands for the highest RSS of its process if that is at most one part in so many above it.
const BELOW: u64 = 50;

impl Undivided {
    /// None unless the footprint stands for the highest RSS, and where it divides nearly all of that.
    pub(super) fn of(
        profile: &Profile,
        footprint: &Footprint,
        peak: &KernelPeak,
        ledger: &RssLedger<'_>,
    ) -> Option<Self> {
        let bytes = peak.peak_rss.saturating_sub(footprint.totals.rss);
        if !footprint.is_highest || bytes <= footprint.totals.rss / BELOW {
            return None;
        }
        // Which blocks were live is known of one moment: that of most live bytes.
        let ms = profile.peak_ms;
        let reached = peak.peak_after_ms.zip(peak.peak_by_ms).filter(|(after, by)| (*after..=*by).contains(&ms));
        let AtPeak { heap, mapped, unknown, others } = ledger.large.at_peak;
        // Of some, nothing tells where they lay: a sum of the others would be read as one of all.
        let is_known = reached.is_some() && unknown <= bytes / BELOW;
        let heap_bytes = heap.saturating_add(unknown);
        let blocks = UndividedBlocks { ms, heap_bytes, mapped_bytes: mapped, other_bytes: others };
        Some(Self { bytes, blocks: is_known.then_some(blocks) })
    }
}
