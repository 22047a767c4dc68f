//! Moments of a recording: a time, or a word that the view knows.

use std::str::FromStr;

use anyhow::{Result, bail};
use mallow_report::analysis::{HeapMoment, RssMoment};

use super::filters::{Time, time};
use crate::output::text::units::span;

/// What a view shows: a moment that has a word, or the one at a time.
pub trait ViewMoment: Copy + 'static {
    /// The words.
    const WORDS: [(&str, Self); 2];

    /// The moment so many milliseconds after the recording began.
    fn at(ms: u64) -> Self;
}

impl ViewMoment for HeapMoment {
    const WORDS: [(&str, Self); 2] = [("peak", Self::Peak), ("end", Self::End)];

    fn at(ms: u64) -> Self {
        Self::Ms(ms)
    }
}

impl ViewMoment for RssMoment {
    const WORDS: [(&str, Self); 2] = [("highest", Self::Highest), ("end", Self::End)];

    fn at(ms: u64) -> Self {
        Self::Ms(ms)
    }
}

/// `--at`, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct At<M> {
    /// As it was written.
    pub text: String,
    what: What<M>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What<M> {
    Word(M),
    Time(Time),
}

impl<M: ViewMoment> At<M> {
    /// Which moment that is of a recording of this duration. Fails for one after its end.
    pub fn of(&self, duration_ms: u64) -> Result<M> {
        match self.what {
            What::Word(moment) => Ok(moment),
            What::Time(time) if time.ms(duration_ms) <= duration_ms => Ok(M::at(time.ms(duration_ms))),
            What::Time(_) => bail!("--at {}: the recording took {}", self.text, span(duration_ms)),
        }
    }
}

impl<M: ViewMoment> FromStr for At<M> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let what = match M::WORDS.into_iter().find(|(word, _)| *word == trimmed) {
            Some((_, moment)) => What::Word(moment),
            None => {
                let [first, second] = M::WORDS.map(|(word, _)| word);
                let forms = format!("it is {first}, {second}, a time (1.5s, 200ms) or a share of the recording (40%)");
                What::Time(time(trimmed, &forms)?)
            }
        };
        Ok(Self { text: text.to_owned(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::{At, HeapMoment, RssMoment, ViewMoment};

    fn moment<M: ViewMoment>(text: &str) -> Option<M> {
        let at: At<M> = text.parse().unwrap();
        at.of(1000).ok()
    }

    #[test]
    fn moments_are_times_shares_and_two_words() {
        for (text, expected) in [
            ("950ms", Some(HeapMoment::Ms(950))),
            ("1.5s", None),
            ("1s", Some(HeapMoment::Ms(1000))),
            ("40%", Some(HeapMoment::Ms(400))),
            ("100%", Some(HeapMoment::Ms(1000))),
            ("0", Some(HeapMoment::Ms(0))),
            ("peak", Some(HeapMoment::Peak)),
            (" end ", Some(HeapMoment::End)),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
        for text in ["", "950", "now", "-1s", "101%", "1s..2s", "highest"] {
            assert!(text.parse::<At<HeapMoment>>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_view_has_words_of_its_own() {
        for (text, expected) in [
            ("highest", Some(RssMoment::Highest)),
            (" end ", Some(RssMoment::End)),
            ("950ms", Some(RssMoment::Ms(950))),
            ("40%", Some(RssMoment::Ms(400))),
            ("1.5s", None),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
        for text in ["", "950", "peak", "-1s", "101%"] {
            assert!(text.parse::<At<RssMoment>>().is_err(), "{text}");
        }
    }
}
