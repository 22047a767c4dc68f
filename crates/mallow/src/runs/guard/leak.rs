//! Lost blocks of one allocation stack, for JSON and in words.

use mallow_capture::guard::Kind;
use serde::Serialize;

use super::words;
use crate::output::text::units::of;

/// Sums of the lost blocks of a leak.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeakDocument {
    /// Blocks among `count` that are part of a cycle, whose blocks point to each other.
    pub cycles: u64,
    /// Requested bytes of the blocks in `count`.
    pub bytes: u64,
    /// Blocks that only the blocks in `count` hold.
    pub held: u64,
    /// Requested bytes of the blocks in `held`.
    pub held_bytes: u64,
}

impl LeakDocument {
    /// Number of the lost blocks, and the pointers to them, as a clause.
    pub fn place(&self, blocks: u64) -> String {
        let what = match (self.cycles, blocks) {
            (0, _) => "that nothing points to",
            (_, 1) => "that nothing points to but a cycle through itself",
            (cycles, _) if cycles >= blocks => "that nothing points to but cycles through themselves",
            _ => "that nothing points to but, for some, cycles through themselves",
        };
        let lost = format!("{}, {}, {what}", of(blocks, "block"), of(self.bytes, "byte"));
        match self.held {
            0 => lost,
            held => format!("{lost}, and {} of {} that they hold", of(held, "block"), of(self.held_bytes, "byte")),
        }
    }

    pub fn advice(&self, blocks: u64) -> &'static str {
        match self.cycles {
            0 => words::advice(Kind::Leak, 0, None),
            cycles if cycles >= blocks => {
                "Free them before the last pointer from outside goes. Where pointers of the cycle count references, \
                 make one of them weak, or clear it before that."
            }
            _ => {
                "Free the blocks before their last pointers go. Where pointers of a cycle count references, make one \
                 of them weak, or clear it before that."
            }
        }
    }
}
