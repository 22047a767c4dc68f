//! Flags of `diff`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use mallow_report::analysis::diff::Rule;

use super::filters::FilterFlags;
use super::quantities::{amount, number};
use super::views::{By, ViewFlags};

/// Flags of `diff`.
#[derive(Debug, Args)]
#[command(after_long_help = RULES)]
pub struct DiffFlags {
    /// Measure to compare
    ///
    /// What numbers and order are of. Default: allocations, or the first measure that both files have; where that
    /// hardly changed and another did, text shows the places of the other. Example: --by live.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Show every place, and all names that changed
    ///
    /// Also stacks with equal numbers whose functions have other names. Default: what fits on one screen, without
    /// places that are less than 1 % of what changed; the rest is one line.
    #[arg(long)]
    pub all: bool,
    /// Show the changed stacks below the places
    ///
    /// The largest change first, each with its functions. Example: --stacks --depth 0.
    #[arg(long)]
    pub stacks: bool,
    /// Smallest change to show
    ///
    /// Places and stacks that changed by less are one sum. An amount of what is compared: allocations, or bytes; k,
    /// M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024. Default: 0, every change. Example: --min 64k.
    #[arg(long, value_name = "N")]
    pub min: Option<Amount>,
    /// Divide all numbers by this
    ///
    /// For figures per operation: runs × operations of a benchmark. Amounts of --min and --fail-above are divided ones
    /// then.
    /// Default: 1. Example: --per 11000 --min 1.
    #[arg(long, value_name = "N", value_parser = divisor)]
    pub per: Option<f64>,
    /// Functions to show of each stack
    ///
    /// For --stacks and --markdown. Innermost functions come first. Functions that differ between the two sides are
    /// shown in any case. 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub depth: usize,
    /// Match stacks without these rules
    ///
    /// For builds whose differences matter: each rule makes equal what compilers change from build to build. The
    /// rules are listed below. Default: all rules are on. Example: --no-rule lines,files.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub no_rule: Vec<Rule>,
    /// Fail if AFTER has more than this
    ///
    /// For CI: exits with status 3 if AFTER has more than N more than BEFORE, in total, of what is compared: an amount
    /// as for --min, or a share of what BEFORE has (5%). If it has not, and numbers of a file are incomplete, the
    /// status is 4. Default: no limit. Example: --fail-above 1k.
    #[arg(long, value_name = "N")]
    pub fail_above: Option<Limit>,
    /// Take incomplete numbers as they are
    ///
    /// With --fail-above: if numbers of a file are incomplete, the change that is seen decides. Default: the status
    /// is 4.
    #[arg(long, requires = "fail_above")]
    pub allow_incomplete: bool,
    /// Write Markdown
    ///
    /// For a comment on a pull request: the answer, and each list of stacks as a table. Default: text.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Accepted without effect
    ///
    /// Names are always demangled. The flag lets scripts that pass it to similar tools run unchanged.
    #[arg(long)]
    pub demangle: bool,
    /// How to show it.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Recording or profile to compare with
    ///
    /// A recording of mallow, or a file of another tool in any format that mallow reads.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Recording or profile to compare
    ///
    /// A recording of mallow, or a file of another tool in any format that mallow reads.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Which part of both.
    #[command(flatten)]
    pub filters: FilterFlags,
}

const RULES: &str = "\
Two stacks are the same by these rules; --no-rule switches each off:
  addresses  a function at any address: run+0x19, run+0x2c
  clones     copies and parts that compilers make: f.18, f(int) [clone .cold]
  hashes     of a crate, a file or a unit: a::f::h0123456789abcdef
  closures   closures of one function: f::{closure#2}, main.f.func1
  thunks     what adapts a call in Swift: thunk for …, partial apply for …
  start      what calls main, or a thread's first function
  lines      calls at any line of a function
  files      a function in any file
  inlining   a function that was put into its caller, and one that was not
  pairing    what is left, where it plainly is the same: renamed, split, merged
What is dropped when a file is read stays away: of symbols .cold, .constprop.0, .llvm.77
and Rust's hash, of stacks of dtrace, bpftrace and perf the offsets";

/// An amount of what is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount(pub f64);

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "it is an amount of what is compared, and no share: 1000, 0.5, 64k, 4Ki";
        amount(text, FORMS).map(Self)
    }
}

impl Amount {
    /// As an amount that was not divided, rounded up.
    pub fn times(self, per: Option<f64>) -> u64 {
        (self.0 * per.unwrap_or(1.0)).ceil() as u64
    }
}

/// The largest growth that is no failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So much of what is compared.
    Amount(Amount),
    /// So many percent of what BEFORE has.
    Percent(f64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "it is an amount of what is compared (1000, 0.5, 64k, 4Ki) or a share of BEFORE (5%)";
        match text.strip_suffix('%') {
            Some(percent) => number(percent, FORMS).map(Self::Percent),
            None => amount(text, FORMS).map(|amount| Self::Amount(Amount(amount))),
        }
    }
}

impl Limit {
    /// Whether a change from `before` is above the limit. `per` divides amounts.
    pub fn is_exceeded(self, before: u64, change: i64, per: f64) -> bool {
        let change = change as f64;
        match self {
            Self::Amount(Amount(most)) => change / per > most,
            Self::Percent(percent) => change > before as f64 * percent / 100.0,
        }
    }
}

fn divisor(text: &str) -> Result<f64, String> {
    const FORMS: &str = "it is a number above 0: 11000, 0.5";
    match number(text, FORMS)? {
        number if number > 0.0 => Ok(number),
        _ => Err(format!("nothing can be divided by 0; {FORMS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Limit, divisor};

    #[test]
    fn amounts_are_divided_ones() {
        let of = |text: &str| text.parse::<Amount>().expect("an amount");
        assert_eq!(
            [of("1000").times(None), of("1.5k").times(None), of("0.5").times(Some(11_000.0))],
            [1000, 1500, 5500]
        );
        for text in ["", "k", "-1", "5 apples", "nan"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert_eq!((divisor("11000"), divisor("0").is_err()), (Ok(11_000.0), true));
        assert_eq!((of("4Ki").times(None), of("4kB").times(None)), (4096, 4000));
    }

    #[test]
    fn a_limit_is_an_amount_or_a_share_of_before() {
        let of = |text: &str| text.parse::<Limit>().expect("a limit");
        let least = |text: &str, before, per| (0..2000).find(|&change| of(text).is_exceeded(before, change, per));
        assert_eq!([least("50", 1000, 1.0), least("5%", 1000, 1.0), least("0.5 %", 1000, 1.0)], [51, 51, 6].map(Some));
        assert_eq!([least("5", 1000, 10.0), least("5%", 1000, 10.0)], [51, 51].map(Some), "a share is not divided");
        assert_eq!([least("5%", 0, 1.0), least("0%", 1000, 1.0), least("150%", 1000, 1.0)], [1, 1, 1501].map(Some));
        assert!(!of("0%").is_exceeded(1000, -1, 1.0));
        for text in ["", "%", "-5%", "x%", "5 apples", "nan%", "5%%"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
