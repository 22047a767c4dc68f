//! A site: what one stack of one process did.

use crate::counts::Counts;
use crate::patterns::Habits;
use crate::process::ProcessId;
use crate::stacks::StackId;

/// A whole stack of one process, with what was allocated there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Whose.
    pub process: ProcessId,
    /// Where. [`crate::Stacks::ROOT`] where no frame is known.
    pub stack: StackId,
    /// How much.
    pub counts: Counts,
    /// What it does with its blocks.
    pub patterns: Habits,
    /// When the oldest and the youngest of the leaked blocks were allocated, ms since the recording began; 0 without leaks.
    pub leaked_oldest_ms: u64,
    /// See `leaked_oldest_ms`.
    pub leaked_youngest_ms: u64,
}
