//! What `mallow.toml` says of limits and of slack.

use std::collections::BTreeMap;
use std::ops::Range;

use mallow_report::analysis::gate::{Bounds, Limit, Metric, Slack};
use serde::Deserialize;
use toml::Spanned;

/// A mistake in the file: bytes of the place, and a sentence.
pub type Fault = (Range<usize>, String);

pub type LimitWords = BTreeMap<Spanned<String>, Spanned<LimitWord>>;
pub type SlackWords = BTreeMap<Spanned<String>, Spanned<SlackWord>>;

/// `75000` or `{ min = -4, max = 4 }`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum LimitWord {
    Most(i64),
    Range(RangeWord),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeWord {
    min: Option<i64>,
    max: Option<i64>,
}

/// `10`, `"5%"` or `{ up = 1, down = "50%" }`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum SlackWord {
    Number(u64),
    Percent(String),
    Both(SlackRange),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlackRange {
    #[serde(default)]
    up: Option<SlackAmount>,
    #[serde(default)]
    down: Option<SlackAmount>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum SlackAmount {
    Number(u64),
    Percent(String),
}

fn metric(key: &Spanned<String>) -> Result<Metric, Fault> {
    Metric::of_key(key.get_ref()).ok_or_else(|| {
        let all = Metric::ALL.map(Metric::key).join(", ");
        (key.span(), format!("{} is none of {all}", key.get_ref()))
    })
}

/// Bounds by metric. An unknown metric, or a limit that nothing can meet, is a fault.
pub fn bounds(words: &LimitWords) -> Result<Vec<(Metric, Bounds)>, Fault> {
    let one = |(key, word): (&Spanned<String>, &Spanned<LimitWord>)| {
        let bounds = match word.get_ref() {
            LimitWord::Most(max) => Bounds { min: None, max: Some(*max) },
            LimitWord::Range(RangeWord { min, max }) => Bounds { min: *min, max: *max },
        };
        match bounds {
            Bounds { min: None, max: None } => Err((word.span(), "a limit without min and max".to_owned())),
            Bounds { min: Some(min), max: Some(max) } if min > max => {
                Err((word.span(), format!("nothing is between {min} and {max}")))
            }
            bounds => Ok((metric(key)?, bounds)),
        }
    };
    words.iter().map(one).collect()
}

/// Sets what these words say of slack.
pub fn set_slack(of: &mut BTreeMap<Metric, Limit>, words: &SlackWords) -> Result<(), Fault> {
    for (key, word) in words {
        let limit = of.entry(metric(key)?).or_default();
        let fault = || (word.span(), "slack is a number or a share such as \"5%\"".to_owned());
        match word.get_ref() {
            SlackWord::Number(n) => (limit.up, limit.down) = (Some(Slack::Absolute(*n)), Some(Slack::Absolute(*n))),
            SlackWord::Percent(text) => {
                let slack = percent(text).ok_or_else(fault)?;
                (limit.up, limit.down) = (Some(slack), Some(slack));
            }
            SlackWord::Both(ways) => {
                for (way, side) in [(&ways.up, &mut limit.up), (&ways.down, &mut limit.down)] {
                    match way {
                        Some(SlackAmount::Number(n)) => *side = Some(Slack::Absolute(*n)),
                        Some(SlackAmount::Percent(text)) => *side = Some(percent(text).ok_or_else(fault)?),
                        None => {}
                    }
                }
            }
        }
    }
    Ok(())
}

fn percent(text: &str) -> Option<Slack> {
    let number: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(Slack::Percent(number))
}
