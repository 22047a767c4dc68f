//! Estimates of a watched process in words: the page prints those of the terminal, and has none of its own.

use mallow_report::analysis::sampled::{Estimate, Verdict};
use mallow_report::analysis::{Watched, WatchedPlace};
use serde::Serialize;

use crate::output::text::Look;
use crate::output::text::estimates::{estimated_bytes, estimated_count, not_enough};

/// Sentences of the terminal about a look, but for its headline.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveSentences {
    /// The sentence that mallow attached, and when.
    pub attached: Option<String>,
    /// Gaps of the numbers, a sentence each.
    pub incomplete: Vec<String>,
    /// The part of RSS that is live heap, or is not; None where memory cannot be read.
    pub heap: Option<String>,
    /// The bytes of each part of RSS, in the order of the report.
    pub parts: Vec<String>,
}

/// The numbers of a look that are estimates.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct LiveWords {
    /// Bytes that are live: `1.20 GB ±8 %`, `not enough samples (3 of 8)`.
    live_bytes: String,
    /// Number of live blocks; None where an estimate of their bytes needs more samples.
    live: Option<String>,
    /// Words for each place of the report, in its order.
    places: Vec<PlaceWords>,
}

/// Words for the estimates of a place.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PlaceWords {
    live_bytes: String,
    /// Growth an hour; nothing where no growth was found.
    bytes_per_hour: Option<String>,
}

impl LiveWords {
    pub fn of(report: &Watched) -> Self {
        let is_known = report.live_bytes.enough() && report.live.enough();
        Self {
            live_bytes: live_bytes(&report.live_bytes, report.samples),
            live: is_known.then(|| format!("{} blocks", estimated_count(&report.live, &Look::default()))),
            places: report.places.places.iter().map(PlaceWords::of).collect(),
        }
    }
}

impl PlaceWords {
    fn of(place: &WatchedPlace) -> Self {
        let grows = place.growth.verdict >= Verdict::SoFar;
        Self {
            live_bytes: live_bytes(&place.live_bytes, place.samples),
            bytes_per_hour: grows.then(|| estimated_bytes(&place.growth.bytes_per_hour, &Look::default())),
        }
    }
}

fn live_bytes(estimate: &Estimate, samples: u64) -> String {
    if estimate.enough() { estimated_bytes(estimate, &Look::default()) } else { not_enough(samples) }
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::WatchedPlace;
    use mallow_report::analysis::sampled::{Estimate, Growth, Verdict};

    use super::PlaceWords;

    #[test]
    fn what_needs_more_samples_says_how_many() {
        let of = |low, high, samples, verdict| {
            let live_bytes = Estimate { value: 5e6, low, high, samples };
            let growth = Growth { verdict, bytes_per_hour: live_bytes, ..Growth::default() };
            let words = PlaceWords::of(&WatchedPlace { live_bytes, samples, growth, ..WatchedPlace::default() });
            (words.live_bytes, words.bytes_per_hour)
        };
        assert_eq!(of(None, None, 5, Verdict::Unknown), ("not enough samples (5 of 8)".to_owned(), None));
        let known = "5.00 MB ±20 %".to_owned();
        assert_eq!(of(Some(4e6), Some(6e6), 90, Verdict::Steady), (known.clone(), None));
        assert_eq!(of(Some(4e6), Some(6e6), 90, Verdict::Growing), (known.clone(), Some(known)));
        // The page has no words of its own for it.
        assert!(!include_str!("assets/units.js").contains("samples"));
    }
}
