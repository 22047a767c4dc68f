//! Flags of `tree`.

use std::str::FromStr;

use clap::Args;

use super::filters::{number, size};

use super::{By, SourceFlags, ViewFlags};

/// Flags of `tree`.
#[derive(Debug, Args)]
pub struct TreeFlags {
    /// Sort and measure by this [default: allocations, or the first that another tool's file tells]
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Begin with the functions that allocate; below each are those that called it
    #[arg(long)]
    pub callers: bool,
    /// Show at most N rows below one another [default: as many as there are; 60 in JSON]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub depth: Option<u16>,
    /// Leave out rows with less: 2% of the whole, or an amount as 1000 or 64k [default: 0.5%; nothing with --limit 0, in JSON]
    #[arg(long, value_name = "N")]
    pub min: Option<Least>,
    /// Show each call: of allocating functions and containers, of functions without a name, and of functions by themselves
    #[arg(long)]
    pub raw: bool,
    /// How to show it.
    #[command(flatten)]
    pub view: ViewFlags,
    /// What to show.
    #[command(flatten)]
    pub source: SourceFlags,
}

/// The least that is worth a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// A share of the whole, in percent.
    Percent(f64),
    /// An amount of what is measured.
    Amount(u64),
}

impl Least {
    /// As an amount.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            // Beyond any recording's numbers a few digits are lost.
            Self::Percent(percent) => (whole as f64 * percent / 100.0).ceil() as u64,
            Self::Amount(amount) => amount,
        }
    }
}

impl FromStr for Least {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_suffix('%').map(number) {
            Some(percent) => match percent? {
                percent if percent <= 100.0 => Ok(Self::Percent(percent)),
                _ => Err("the whole is 100%".to_owned()),
            },
            None => size(text).map(Self::Amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Least;

    #[test]
    fn a_least_amount_is_a_share_or_a_number() {
        let of = |text: &str, whole| text.parse::<Least>().expect("an amount").of(whole);
        assert_eq!([of("2%", 1000), of("0.5 %", 1001), of("0%", 9), of("100%", 9)], [20, 6, 0, 9]);
        assert_eq!([of("64", 9), of("1.5k", 9), of("1Mi", 9)], [64, 1500, 1 << 20]);
        for text in ["", "%", "101%", "-1", "x%", "5 apples"] {
            assert!(text.parse::<Least>().is_err(), "{text}");
        }
    }
}
