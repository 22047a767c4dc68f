//! A site: what one stack of one process did.

use crate::counts::Counts;
use crate::patterns::Habits;
use crate::precision::Precisions;
use crate::process::ProcessId;
use crate::stacks::StackId;

/// A whole stack of one process, with what was allocated there.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Sites of different processes are never one.
    pub process: ProcessId,
    /// The stack that allocated. [`crate::Stacks::ROOT`] where no frame is known.
    pub stack: StackId,
    /// Sums over the allocations.
    pub counts: Counts,
    /// What the site does with its blocks.
    pub patterns: Habits,
    /// When the oldest of the blocks live at the end was allocated, in milliseconds since the recording began; 0
    /// without any.
    pub live_oldest_ms: u64,
    /// When the youngest of the blocks live at the end was allocated, in milliseconds since the recording began; 0
    /// without any.
    pub live_youngest_ms: u64,
    /// Precision of the counts, where they are estimates and it is known. Boxed: recordings have millions of sites and
    /// none of this.
    pub precisions: Option<Box<Precisions>>,
}

impl Site {
    /// A site with counts alone: no patterns, no ages of leaks, and counts that are exact or of unknown precision.
    pub fn of(process: ProcessId, stack: StackId, counts: Counts) -> Self {
        let (patterns, live_oldest_ms, live_youngest_ms, precisions) = Default::default();
        Self { process, stack, counts, patterns, live_oldest_ms, live_youngest_ms, precisions }
    }
}
