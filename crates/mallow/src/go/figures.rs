//! Figures of benchmarks for people.

use mallow_golang::statistics::Summary;

use crate::output::text::Look;
use crate::output::text::units::{bytes, count};

/// A number with two digits behind the point where it is no whole number.
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
    time(summary.median) + &interval(summary)
}

/// Form of all numbers of a heap profile.
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    /// The profile is sampled: more than two digits are not known of what it has.
    pub estimated: bool,
}

impl Amounts {
    pub fn whole(self, number: f64) -> u64 {
        if self.estimated { rounded(number) } else { number.round().max(0.0) as u64 }
    }

    pub fn size(self, number: f64, look: &Look) -> String {
        let text = bytes(self.whole(number), look.exact);
        if self.estimated { two_digits(&text) } else { text }
    }
}

fn rounded(number: f64) -> u64 {
    let whole = number.round().max(0.0);
    if whole < 100.0 {
        return whole as u64;
    }
    let unit = 10_f64.powf(whole.log10().floor() - 1.0);
    ((whole / unit).round() * unit).round() as u64
}

/// A size of three digits without the last of them, where that is a fraction: `4.70 MB` is `4.7 MB`, `54.0 MB` is `54
/// MB`.
fn two_digits(size: &str) -> String {
    let Some((number, unit)) = size.split_once(' ').filter(|(number, _)| number.contains('.')) else {
        return size.to_owned();
    };
    let shorter = number.get(..number.len() - 1).unwrap_or(number);
    format!("{} {unit}", shorter.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_have_two_digits() {
        let numbers = [0.0, 7.4, 99.6, 100.0, 104.0, 51_187.0, 995.0, 451_234_567.0, -3.0];
        assert_eq!(numbers.map(rounded), [0, 7, 100, 100, 100, 51_000, 1000, 450_000_000, 0]);
        let sizes = ["4.70 MB", "54.0 MB", "210 MB", "200 B", "1,200,000 B"];
        assert_eq!(sizes.map(two_digits), ["4.7 MB", "54 MB", "210 MB", "200 B", "1,200,000 B"]);
    }
}
