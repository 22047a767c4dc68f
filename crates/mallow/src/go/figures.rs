//! Figures of benchmarks for people.

use mallow_golang::statistics::Summary;

use crate::output::text::units::count;

/// With two digits behind the point where it is no whole number.
pub fn number(value: f64) -> String {
    if value.round() >= 1000.0 || (value - value.round()).abs() < 0.005 {
        return count(value.round().max(0.0) as u64);
    }
    format!("{value:.2}")
}

/// Bytes by operation: a share of a block is known to a digit behind the point.
pub fn size(value: f64) -> String {
    if value.round() >= 1000.0 || (value - value.round()).abs() < 0.05 {
        return count(value.round().max(0.0) as u64);
    }
    format!("{value:.1}")
}

/// Nanoseconds with three digits that matter.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 100.0 => count(ns.round() as u64),
        ns if ns >= 10.0 => format!("{ns:.1}"),
        ns => format!("{ns:.2}"),
    }
}

/// ` ± 3 %`: in 95 of 100 cases the median of all runs is as near. Empty where the runs are too few to say.
pub fn interval(summary: &Summary) -> String {
    summary.percent().map_or(String::new(), |percent| format!(" ± {percent:.0} %"))
}

/// A median with its interval, for a table.
pub fn summarized(summary: &Summary) -> String {
    let percent = summary.percent().map_or("∞".to_owned(), |percent| format!("{percent:.0} %"));
    format!("{} ± {percent}", time(summary.median))
}
