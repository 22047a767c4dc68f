//! The kernel's own maximum of a process's RSS.

/// The highest RSS of a process image as the kernel notes it (`VmHWM`): of each moment, not only of those at which
/// mallow looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakRss {
    /// The highest RSS, in bytes.
    pub bytes: u64,
    /// A look before the highest RSS was reached, in milliseconds since the recording began: the last one, but for
    /// looks whose figure the kernel may have added up late.
    pub after_ms: u64,
    /// The look that found the highest RSS, in milliseconds since the recording began.
    pub by_ms: u64,
    /// When the kernel's figure was read last: a higher RSS after that is not known, unless `is_final`.
    pub read_ms: u64,
    /// Whether this is the maximum of the image's whole life.
    pub is_final: bool,
    /// Whether the highest RSS was reached before the process was recorded: mallow attached to it later.
    pub is_older: bool,
}

/// The kernel counts pages of files, anonymous and shared ones on each processor apart, and adds them up after 32 at
/// the earliest: so much may be missing from a figure on two processors, and is in the exact one of the process's end.
/// On more it may be more; see [`LATE_PART`].
const LATE: u64 = 3 * 64 * 4096;
/// One part in so many may be counted late, too.
const LATE_PART: u64 = 50;

impl PeakRss {
    /// Whether a maximum may have been there already when the kernel's figure was `before`: what it adds up late is no
    /// rise.
    pub fn may_be(bytes: u64, before: u64) -> bool {
        bytes.saturating_sub(before) <= LATE + bytes / LATE_PART
    }

    /// Notes the highest RSS at the end of the process, which is final. The last pages that an exit touches are no
    /// moment of their own: up to a hundredth more leaves the time as it was.
    pub fn end(&mut self, ms: u64, bytes: u64) {
        if bytes > self.bytes.saturating_add(self.bytes / 100) {
            let after_ms = if Self::may_be(bytes, self.bytes) { self.after_ms } else { self.read_ms };
            (self.after_ms, self.by_ms, self.is_older) = (after_ms, ms, false);
        }
        *self = Self { bytes: self.bytes.max(bytes), read_ms: self.read_ms.max(ms), is_final: true, ..*self };
    }
}
