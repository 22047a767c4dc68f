//! Amounts by the measure that a view sorts by.

use anstyle::{AnsiColor, Style};
use mallow_report::analysis::Measure;

use super::look::Look;
use super::units::{bytes, count};

/// The number, as the measure counts.
pub fn amount(by: Measure, n: u64, look: &Look) -> String {
    if by.is_bytes() { bytes(n, look.exact) } else { count(n) }
}

pub fn change(by: Measure, n: i64, look: &Look) -> String {
    signed(n, amount(by, n.unsigned_abs(), look))
}

/// An amount with the sign of a number.
pub fn signed(n: i64, amount: String) -> String {
    let sign = match n {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{amount}")
}

/// Style of a change: red where there is more, blue where there is less.
pub fn change_style(n: i64) -> Style {
    let colour = if n > 0 { AnsiColor::Red } else { AnsiColor::Blue };
    Style::new().fg_color(Some(colour.into())).bold()
}

/// Name of the measure in a title.
pub fn measured(by: Measure) -> &'static str {
    match by {
        Measure::Allocations => "allocations",
        Measure::Bytes => "allocated bytes",
        Measure::Peak => "bytes live at the peak",
        Measure::Live => "live bytes",
        Measure::Temporary => "temporary allocations",
    }
}
