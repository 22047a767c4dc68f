//! Waiting until a process rings.

use crate::wire::{Shared, control};
use std::time::Duration;

/// Sleeps while the doorbell of the control file is `rung`, for `longest` at most, and less where a signal comes.
/// Processes see that somebody sleeps, and wake it when a ring or a log fills: else that is not worth a system call.
pub fn sleep(control: &Shared, rung: u32, longest: Duration) {
    control.set32(control::ASLEEP, 1);
    control.futex_wait(control::DOORBELL, rung, longest);
    control.set32(control::ASLEEP, 0);
}
