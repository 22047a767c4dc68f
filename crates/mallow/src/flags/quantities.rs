//! Numbers, sizes and times of flags. Each function fails with `forms`, the sentence on what the flag allows: clap
//! names the flag and the value before it.

use std::time::Duration;

/// What a size may be.
pub(super) const SIZES: &str = "sizes are bytes, or have a unit: 64, 4k (4000), 4Ki (4096), 1M";
/// What a time may be.
pub(super) const TIMES: &str = "times have a unit: 200ms, 1.5s, 2m, 1h";

const TOO_LARGE: &str = "the number is too large";

/// Factors of units, in lower case and without the B of bytes.
const SIZE_UNITS: [(&str, f64); 9] = [
    ("", 1.0),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("t", 1e12),
    ("ki", 1024.0),
    ("mi", 1_048_576.0),
    ("gi", 1_073_741_824.0),
    ("ti", 1_099_511_627_776.0),
];

/// Milliseconds.
pub(super) fn duration(text: &str, forms: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1.0), ("s", 1e3), ("min", 6e4), ("h", 3.6e6)];
    if text == "0" {
        return Ok(0);
    }
    let (value, unit) = split(text);
    let unit = if unit == "m" { "min" } else { unit };
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(forms)?;
    whole(number(value, forms)? * factor)
}

/// A time with a unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    duration(text, TIMES).map(Duration::from_millis)
}

/// Bytes.
pub(super) fn size(text: &str, forms: &str) -> Result<u64, String> {
    let (value, factor) = value_and_factor(text).ok_or(forms)?;
    // Not through a floating point number, which has no room for all of them.
    match value.trim().parse() {
        Ok(bytes) if factor == 1.0 => Ok(bytes),
        _ => whole(number(value, forms)? * factor),
    }
}

/// A number with the units of sizes, which need not be whole.
pub(super) fn amount(text: &str, forms: &str) -> Result<f64, String> {
    let (value, factor) = value_and_factor(text).ok_or(forms)?;
    number(value, forms).map(|number| number * factor)
}

/// A number from 0 on.
pub(super) fn number(text: &str, forms: &str) -> Result<f64, String> {
    let digits = text.trim();
    match digits.parse::<f64>() {
        Ok(number) if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && number.is_finite() => Ok(number),
        _ => Err(forms.to_owned()),
    }
}

fn value_and_factor(text: &str) -> Option<(&str, f64)> {
    let (value, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    Some((value, *factor))
}

/// The text before the first letter, and the rest.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()))
}

fn whole(number: f64) -> Result<u64, String> {
    if number < 9e18 { Ok(number.round() as u64) } else { Err(TOO_LARGE.to_owned()) }
}
