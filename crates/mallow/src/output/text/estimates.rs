//! Estimates as people read them: `1.20 GB ±8 %`, `900 MB to 1.70 GB`, `not enough samples`.

use mallow_report::analysis::sampled::{Estimate, Growth, NEEDED_SAMPLES, Verdict};

use super::look::Look;
use super::units::{bytes, count, of, range, roughly};

/// Text where nothing can be said.
pub const NOT_ENOUGH: &str = "not enough samples";

pub fn estimated_bytes(estimate: &Estimate, look: &Look) -> String {
    format_estimate(estimate, look, |n| bytes(n, look.exact))
}

/// Bytes with the number of samples: `1.20 GB ±8 % in 312 samples`, `not enough samples (3 of 8)`.
pub fn sampled_bytes(estimate: &Estimate, samples: u64, look: &Look) -> String {
    match estimate.enough() {
        true => format!("{} in {}", estimated_bytes(estimate, look), of(samples, "sample")),
        false => not_enough(samples),
    }
}

/// Number of samples, and the number that an estimate needs: `not enough samples (3 of 8)`.
pub fn not_enough(samples: u64) -> String {
    match samples < NEEDED_SAMPLES {
        true => format!("{NOT_ENOUGH} ({samples} of {NEEDED_SAMPLES})"),
        // Of large blocks, which nearly all are picked, an estimate needs more.
        false => format!("{NOT_ENOUGH} ({})", count(samples)),
    }
}

pub fn estimated_count(estimate: &Estimate, look: &Look) -> String {
    format_estimate(estimate, look, roughly)
}

/// Text for [`NOT_ENOUGH`] in a column.
pub const TOO_FEW: &str = "too few";
/// Columns that [`column_bytes`] takes at the most, without `exact`.
pub const COLUMN: usize = 15;

/// Bytes with the interval, in [`COLUMN`] columns: `432 MB ±7 %`, `400 kB–2.60 MB`, `too few`.
pub fn column_bytes(estimate: &Estimate, look: &Look) -> String {
    let to = if look.ascii { "-" } else { "–" };
    match estimate.enough() {
        true => format_estimate(estimate, look, |n| bytes(n, look.exact)).replace(" to ", to),
        false => TOO_FEW.to_owned(),
    }
}

/// Growth an hour: `14.2 GB/h ±12 %`, `1.20 GB/h to 3.40 GB/h`.
pub fn rate_per_hour(estimate: &Estimate, look: &Look) -> String {
    format_estimate(estimate, look, |n| format!("{}/h", bytes(n, look.exact)))
}

/// A verdict as one word, of nine letters at the most.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "too early",
        Verdict::Steady => "steady",
        Verdict::Shrinking => "shrinking",
        Verdict::Undecided => "undecided",
        Verdict::Uneven => "uneven",
        Verdict::Slowing => "slowing",
        Verdict::SoFar => "so far",
        Verdict::Growing => "growing",
    }
}

fn format_estimate(estimate: &Estimate, look: &Look, amount: impl Fn(u64) -> String) -> String {
    let Some((low, high)) = estimate.interval() else { return NOT_ENOUGH.to_owned() };
    let value = || with_sign(estimate.value, &amount);
    match evenly(estimate.value, low, high) {
        Some(0.0) => value(),
        Some(share) => format!("{} {}", value(), percent_either_way(share, look)),
        None => ends(low, high, &amount),
    }
}

/// Margin of an estimate, for a column beside the number: `±8 %`, `400 kB to 2.60 MB`, `too few`; empty if every
/// allocation was seen.
pub fn margin(estimate: &Estimate, look: &Look, amount: impl Fn(u64) -> String) -> String {
    let Some((low, high)) = estimate.interval() else { return TOO_FEW.to_owned() };
    match evenly(estimate.value, low, high) {
        Some(0.0) => String::new(),
        Some(share) => percent_either_way(share, look),
        None => ends(low, high, &amount),
    }
}

/// Margin of a change: `±8 %`, `-2.00 MB to 12.0 MB, not significant`.
pub fn margin_of_change(change: &Estimate, look: &Look, amount: impl Fn(u64) -> String) -> String {
    match change.interval() {
        Some((low, high)) if change.may_be_zero() => format!("{}, not significant", ends(low, high, &amount)),
        _ => margin(change, look, amount),
    }
}

/// Share of the value by which both ends differ from it. None: an uneven interval, which is printed as its ends, and so
/// is one of what may be twice as much or next to nothing.
fn evenly(value: f64, low: f64, high: f64) -> Option<f64> {
    let (below, above) = (value - low, high - value);
    if below + above <= f64::EPSILON * value.abs() {
        return Some(0.0);
    }
    let deviation = (below + above) / 2.0 / value.abs();
    ((above - below).abs() <= 0.2 * (above + below) && deviation < 0.5).then_some(deviation)
}

fn percent_either_way(share: f64, look: &Look) -> String {
    let sign = if look.ascii { "+-" } else { "±" };
    format!("{sign}{:.0} %", (share * 100.0).max(1.0))
}

fn ends(low: f64, high: f64, amount: &impl Fn(u64) -> String) -> String {
    range(with_sign(low, amount), &with_sign(high, amount))
}

fn with_sign(n: f64, amount: &impl Fn(u64) -> String) -> String {
    format!("{}{}", if n <= -0.5 { "-" } else { "" }, amount(n.abs().round() as u64))
}

/// Growth of a site: `+12.1 MB ±9 %`, `steady`, or that it is unknown.
pub fn growth(growth: &Growth, look: &Look) -> String {
    match growth.verdict {
        Verdict::Unknown => NOT_ENOUGH.to_owned(),
        Verdict::Steady => "steady".to_owned(),
        Verdict::Shrinking => "shrinking".to_owned(),
        Verdict::Undecided => "undecided".to_owned(),
        Verdict::Uneven => "uneven".to_owned(),
        Verdict::Slowing => "slowing down, or pausing".to_owned(),
        Verdict::SoFar | Verdict::Growing => format!("+{}", estimated_bytes(&growth.bytes_per_hour, look)),
    }
}

/// Growth of a site, with what [`growth`] leaves open: `undecided, 1.20 MB to 30.0 MB an hour`.
pub fn growth_in_full(said: &Growth, look: &Look) -> String {
    let words = growth(said, look);
    let rate = estimated_bytes(&said.bytes_per_hour, look);
    match said.verdict {
        Verdict::Unknown | Verdict::Steady | Verdict::Uneven | Verdict::Slowing => words,
        Verdict::Shrinking | Verdict::Undecided => format!("{words}, {rate} an hour"),
        Verdict::SoFar => format!("{words} an hour so far"),
        Verdict::Growing => format!("{words} an hour"),
    }
}

/// The sampling period, or that nothing is sampled.
pub fn period(period_bytes: Option<u64>, look: &Look) -> String {
    match period_bytes {
        Some(period) => format!("a sample in {} on average", bytes(period, look.exact)),
        None => "dormant: nothing more is sampled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::sampled::{Estimate, Growth, Verdict};

    use super::{estimated_bytes, estimated_count, growth, growth_in_full, period};
    use crate::output::text::Look;

    #[test]
    fn estimates_show_their_uncertainty() {
        let look = Look::default();
        let of = |value, low, high| Estimate { value, low: Some(low), high: Some(high), samples: 30 };
        let few = Estimate { value: 5.0, low: None, high: None, samples: 1 };
        let grows = |verdict| {
            let bytes_per_hour = of(1e6, 9e5, 1.1e6);
            growth(&Growth { verdict, bytes_per_hour, ..Growth::default() }, &look)
        };
        let in_full = |verdict, low, high| {
            let bytes_per_hour = of((low + high) / 2.0, low, high);
            growth_in_full(&Growth { verdict, bytes_per_hour, ..Growth::default() }, &look)
        };
        for (actual, expected) in [
            (in_full(Verdict::Undecided, 1e6, 3e7), "undecided, 1.00 MB to 30.0 MB an hour"),
            (in_full(Verdict::Shrinking, -3e7, -1e6), "shrinking, -30.0 MB to -1.00 MB an hour"),
            (in_full(Verdict::SoFar, 9e5, 1.1e6), "+1.00 MB ±10 % an hour so far"),
            (in_full(Verdict::Growing, 9e5, 1.1e6), "+1.00 MB ±10 % an hour"),
            (in_full(Verdict::Steady, -1e6, 1e6), "steady"),
            (estimated_bytes(&of(1.2e9, 1.104e9, 1.296e9), &look), "1.20 GB ±8 %"),
            (estimated_bytes(&of(1000.0, 999.0, 1001.0), &look), "1.00 kB ±1 %"),
            (estimated_bytes(&of(1e6, 4e5, 2.6e6), &look), "400 kB to 2.60 MB"),
            (estimated_bytes(&of(1e6, 1e5, 1.9e6), &look), "100 kB to 1.90 MB"),
            (estimated_bytes(&of(512.0, 512.0, 512.0), &look), "512 B"),
            (estimated_bytes(&of(0.0, 0.0, 0.0), &look), "0 B"),
            (estimated_bytes(&of(0.0, 0.0, 5e3), &look), "0 B to 5.00 kB"),
            (estimated_bytes(&few, &look), "not enough samples"),
            (estimated_count(&of(2e6, 1.8e6, 2.2e6), &look), "2.00 M ±10 %"),
            (period(Some(524_288), &look), "a sample in 524 kB on average"),
            (grows(Verdict::Growing), "+1.00 MB ±10 %"),
            (grows(Verdict::SoFar), "+1.00 MB ±10 %"),
            (grows(Verdict::Slowing), "slowing down, or pausing"),
            (grows(Verdict::Steady), "steady"),
            (grows(Verdict::Unknown), "not enough samples"),
            (estimated_bytes(&of(f64::NAN, f64::NAN, f64::NAN), &look), "0 B"),
        ] {
            assert_eq!(actual, expected);
        }
        let ascii = Look { ascii: true, ..look };
        assert_eq!(estimated_bytes(&of(1e6, 9e5, 1.1e6), &ascii), "1.00 MB +-10 %");
    }
}
