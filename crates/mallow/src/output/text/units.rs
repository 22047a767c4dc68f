//! Numbers for people. Units are decimal: 1 kB is 1000 bytes.

/// A count with commas: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count that may be below 0.
pub fn signed(n: i64) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}", count(n.unsigned_abs()))
}

/// A quotient: two decimals, and of less than these show, as many as its first digit needs.
pub fn ratio(n: f64) -> String {
    const MOST: f64 = 9.0;
    let decimals = match n.abs() {
        0.0 => 2,
        small if small < 0.005 => -small.log10().floor().max(-MOST) as usize,
        _ => 2,
    };
    fixed(n, decimals)
}

/// A number with so many decimals; what rounds to 0 is not below it.
pub fn fixed(n: f64, decimals: usize) -> String {
    let text = format!("{n:.decimals$}");
    match text.strip_prefix('-') {
        Some(nothing) if nothing.bytes().all(|digit| matches!(digit, b'0' | b'.')) => nothing.to_owned(),
        _ => text,
    }
}

/// Bytes with three digits that matter, `12.3 MB`; to the last digit where `exact`.
pub fn bytes(n: u64, exact: bool) -> String {
    if exact { format!("{} B", count(n)) } else { scaled(n as f64, "B") }
}

/// A count with three digits that matter: `12.3 M`.
pub fn roughly(n: u64) -> String {
    scaled(n as f64, "").trim_end().to_owned()
}

/// A rate such as `436 k/s`; None for no time.
pub fn rate(n: u64, ms: u64) -> Option<String> {
    (ms > 0).then(|| scaled(n as f64 * 1000.0 / ms as f64, "/s"))
}

fn scaled(mut value: f64, unit: &str) -> String {
    let mut prefix = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        // What would round to 1000 belongs to the next unit.
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    let decimals = match value {
        _ if prefix.is_empty() && value.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {prefix}{unit}")
}

/// A share of a whole: `12.5 %`. 0 % and 100 % are said of nothing and of all alone; nothing is said where there is no
/// whole.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => String::new(),
        (0, _) => "0 %".to_owned(),
        _ => {
            let percent = part as f64 * 100.0 / whole as f64;
            match format!("{percent:.1} %") {
                _ if percent < 0.05 => "<0.1 %".to_owned(),
                text if text == "100.0 %" && part < whole => ">99.9 %".to_owned(),
                text => text,
            }
        }
    }
}

/// A share from 0 to 1, as [`percent`] has it.
pub fn share(share: f64) -> String {
    const WHOLE: u64 = 1_000_000_000;
    percent((share.clamp(0.0, 1.0) * WHOLE as f64) as u64, WHOLE)
}

/// A time span: `12 ms`, `1.72 s`, `3 min 05 s`, `2 h 07 min`. Hundredths are rounded; as on a clock, seconds and
/// minutes are whole ones.
pub fn span(ms: u64) -> String {
    let ms = if (1000..60_000).contains(&ms) { (ms + 5) / 10 * 10 } else { ms };
    let s = ms / 1000;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{:02} s", s, ms % 1000 / 10),
        60_000..3_600_000 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// `5 ms to 9 ms`; `1.77 s` where both ends are the same to a reader.
pub fn range(from: String, to: &str) -> String {
    if from == to { from } else { format!("{from} to {to}") }
}

/// `1 block`, `2 blocks`.
pub fn of(n: u64, noun: &str) -> String {
    format!("{} {}", count(n), plural(n, noun))
}

/// A count that may be below 0, with its noun: `-1 block`.
pub fn of_signed(n: i64, noun: &str) -> String {
    format!("{} {}", signed(n), plural(n.unsigned_abs(), noun))
}

/// The noun behind so many; one that ends with s, x or ch gets an e too.
pub fn plural(n: u64, noun: &str) -> String {
    let plural = if ["s", "x", "ch"].iter().any(|end| noun.ends_with(end)) { "es" } else { "s" };
    format!("{noun}{}", if n == 1 { "" } else { plural })
}

/// `3 processes`, `1 process in 2 images (exec)`: exec begins a new image of the same process.
pub fn processes_in_images(processes: u64, images: usize) -> String {
    let text = of(processes, "process");
    if images as u64 > processes { format!("{text} in {} (exec)", of(images as u64, "image")) } else { text }
}

/// The text with its first letter as at the beginning of a sentence.
pub fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_one_number_is_that_number() {
        assert_eq!([range(span(1771), &span(1774)), range(span(5), &span(9))], ["1.77 s", "5 ms to 9 ms"]);
    }

    #[test]
    fn counts() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!((signed(-1000), signed(i64::MIN)), ("-1,000".into(), "-9,223,372,036,854,775,808".into()));
        assert_eq!((of(1, "block"), of(2, "process")), ("1 block".into(), "2 processes".into()));
        assert_eq!([-1, 0, 1, -2000].map(|n| of_signed(n, "byte")), ["-1 byte", "0 bytes", "1 byte", "-2,000 bytes"]);
        assert_eq!(processes_in_images(2, 2), "2 processes");
        assert_eq!(processes_in_images(1, 3), "1 process in 3 images (exec)");
    }

    #[test]
    fn divided_numbers_are_not_0_unless_they_are() {
        let all = [0.0, 1.0, -1.0, 0.5, 0.005, -0.001, 0.000_09, -1e-12].map(ratio);
        assert_eq!(all, ["0.00", "1.00", "-1.00", "0.50", "0.01", "-0.001", "0.00009", "0.000000000"]);
        assert_eq!([fixed(-0.3, 0), fixed(-0.6, 0), fixed(-0.004, 2)], ["0", "-1", "0.00"]);
    }

    #[test]
    fn bytes_keep_three_digits_that_matter() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (12_340, "12.3 kB"),
            (123_400, "123 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (1_500_000_000, "1.50 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(n, false), text);
        }
        assert_eq!(bytes(12_345_678, true), "12,345,678 B");
        assert_eq!((rate(5, 2000), rate(1_000_000, 1710)), (Some("2.50 /s".into()), Some("585 k/s".into())));
        assert_eq!(rate(5, 0), None);
        assert_eq!([roughly(0), roughly(999), roughly(12_345_678)], ["0", "999", "12.3 M"]);
    }

    #[test]
    fn shares_and_spans() {
        assert_eq!(
            [
                percent(1, 3),
                percent(0, 3),
                percent(1, 1_000_000),
                percent(3, 0),
                percent(7, 7),
                percent(999_999, 1_000_000)
            ],
            ["33.3 %", "0 %", "<0.1 %", "", "100.0 %", ">99.9 %"]
        );
        assert_eq!([share(0.125), share(1.0), share(7.0), share(f64::NAN)], ["12.5 %", "100.0 %", "100.0 %", "0 %"]);
        assert_eq!(
            [span(12), span(1718), span(1049), span(59_994), span(59_995), span(185_900), span(7_640_000)],
            ["12 ms", "1.72 s", "1.05 s", "59.99 s", "1 min 00 s", "3 min 05 s", "2 h 07 min"]
        );
    }
}
