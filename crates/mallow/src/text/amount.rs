//! Amounts by the measure that a view sorts by.

use mallow_report::analysis::Measure;

use super::Look;
use super::units::{bytes, count};

/// The number, as the measure counts.
pub fn amount(by: Measure, n: u64, look: &Look) -> String {
    if by.is_bytes() { bytes(n, look.exact) } else { count(n) }
}

/// What the measure counts, in a title.
pub fn measured(by: Measure) -> &'static str {
    match by {
        Measure::Allocations => "allocations",
        Measure::Bytes => "allocated bytes",
        Measure::Peak => "bytes live at the peak",
        Measure::Leaked => "leaked bytes",
        Measure::Temporary => "temporary allocations",
    }
}
