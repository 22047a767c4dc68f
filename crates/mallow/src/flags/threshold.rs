//! The flag that leaves out what is small.

use clap::Args;
use mallow_report::analysis::Least;

use super::quantities::{number, size};

/// What is worth a row, or a part of a picture. It changes no number: what is left out is shown as a sum.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct ThresholdFlags {
    /// Smallest amount to show
    ///
    /// A share of the whole (2%), or an amount of what is shown (1000, 64k). The rest is one sum, so that columns add
    /// up. Default: 0.5% for tree, else everything. Example: --min 2%.
    #[arg(long, value_name = "N", value_parser = least)]
    pub min: Option<Least>,
}

fn least(text: &str) -> Result<Least, String> {
    const FORMS: &str = "it is a share of the whole (2%) or an amount of what is shown (1000, 64k, 4Ki)";
    match text.strip_suffix('%') {
        Some(percent) => match number(percent, FORMS)? {
            percent if percent <= 100.0 => Ok(Least::Percent(percent)),
            _ => Err("the whole is 100%".to_owned()),
        },
        None => size(text, FORMS).map(Least::Amount),
    }
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn a_least_amount_is_a_share_or_a_number() {
        let of = |text: &str, whole| least(text).expect("an amount").of(whole);
        assert_eq!([of("2%", 1000), of("0.5 %", 1001), of("0%", 9), of("100%", 9)], [20, 6, 0, 9]);
        assert_eq!([of("64", 9), of("1.5k", 9), of("1Mi", 9)], [64, 1500, 1 << 20]);
        for text in ["", "%", "101%", "-1", "x%", "5 apples"] {
            assert!(least(text).is_err(), "{text}");
        }
    }
}
