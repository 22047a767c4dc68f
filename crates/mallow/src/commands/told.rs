//! What a recording tells: files of other tools leave some of Mallow's words out, and what is left out is not shown as 0.

use anyhow::{Result, bail};
use mallow_profile::{Origin, Profile, Word, Words};
use mallow_report::analysis::{Measure, keys};
use serde::Serialize;
use serde_json::Value;

use super::filtered::Filters;
use super::source::Recording;
use crate::flags::By;
use crate::output::{self, Report};
use crate::text::Line;
use crate::text::units::bytes;

/// The measures that a view offers, as it calls them.
pub const MEASURES: [By; 5] = [By::Allocations, By::Bytes, By::Peak, By::Leaked, By::Temporary];

impl Recording {
    /// What a view is to rank by: what was asked for, which must be told, or else the first that is told.
    pub fn measure(&self, by: Option<By>) -> Result<Measure> {
        let told: Vec<By> = MEASURES.into_iter().filter(|&by| self.profile.tells(Measure::from(by).word())).collect();
        match by {
            Some(by) => {
                let names: Vec<_> = told.iter().map(By::to_string).collect();
                let measure = Measure::from(by);
                self.must_tell(measure.word(), &format!("there is --by {}", names.join(", ")))?;
                Ok(measure)
            }
            None => match told.first() {
                Some(&by) => Ok(by.into()),
                None => bail!("this {} tells no measure that could be shown", self.kind()),
            },
        }
    }

    /// Fails where the word is not told, and says what can be done instead.
    pub fn must_tell(&self, word: Word, instead: &str) -> Result<()> {
        if !self.profile.tells(word) {
            bail!("this {} tells no {word}; {instead}", self.kind());
        }
        Ok(())
    }

    /// What the file is, to people.
    pub fn kind(&self) -> String {
        self.profile.origin.as_ref().map_or("recording".to_owned(), kind)
    }

    /// The report as JSON. Of a profile of another tool, it names the format and leaves out what is not told.
    /// Where filters are on, it tells them too.
    pub fn json(&self, report: &impl Report) -> Result<String> {
        let report = self.filtered(report);
        match self.told(&report)? {
            Some(told) => output::json_value(&told),
            None => output::json(&report),
        }
    }

    /// Prints the same without white space, which a report of any size has in little memory.
    pub fn print_json(&self, report: &impl Report) -> Result<()> {
        let report = self.filtered(report);
        match self.told(&report)? {
            Some(told) => output::print_json(&told),
            None => output::print_json(&report),
        }
    }

    fn filtered<'a, R: Report>(&'a self, report: &'a R) -> Filtered<'a, R> {
        Filtered { filters: Some(&self.filters).filter(|filters| !filters.is_none()), report }
    }

    /// Of a profile of another tool: what it tells.
    fn told(&self, report: &impl Report) -> Result<Option<Value>> {
        let Some(origin) = &self.profile.origin else { return Ok(None) };
        let untold: Vec<Word> = self.profile.untold().collect();
        let left_out: Vec<&str> = untold.iter().flat_map(|&word| keys(word)).collect();
        let mut value = serde_json::to_value(report)?;
        strip(&mut value, &left_out);
        let mut whole = serde_json::Map::new();
        whole.insert("format".to_owned(), origin.format.into());
        if let Some(period) = origin.sampled_bytes {
            whole.insert("sampled_bytes".to_owned(), period.into());
        }
        whole.insert("not_told".to_owned(), untold.iter().map(Word::to_string).collect());
        if let Value::Object(rest) = value {
            whole.extend(rest);
        }
        Ok(Some(Value::Object(whole)))
    }
}

#[derive(Serialize)]
struct Filtered<'a, R: Report> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<&'a Filters>,
    #[serde(flatten)]
    report: &'a R,
}

impl<R: Report> Report for Filtered<'_, R> {}

/// `heaptrack profile`.
pub fn kind(origin: &Origin) -> String {
    format!("{} profile", origin.format)
}

/// Whose profile it is, and whether its numbers are estimates.
pub fn provenance(origin: &Origin) -> Line {
    let line = Line::new().plain(kind(origin));
    match origin.sampled_bytes {
        None => line,
        Some(period) => line.warning(format!(", sampled: estimates from one allocation in {}", bytes(period, false))),
    }
}

/// What people look for. What is missing of the rest goes with one of these, or is looked for by nobody.
const LOOKED_FOR: [Word; 8] = [
    Word::Allocations,
    Word::AllocatedBytes,
    Word::Frees,
    Word::Temporary,
    Word::PeakBytes,
    Word::LeakedBytes,
    Word::Reallocs,
    Word::Times,
];

/// What a person would look for in it in vain, as one line; None where nothing of that is missing.
pub fn missing(origin: &Origin) -> Option<Line> {
    let words: Vec<_> =
        LOOKED_FOR.into_iter().filter(|&word| !origin.tells.has(word)).map(|word| word.to_string()).collect();
    (!words.is_empty()).then(|| Line::new().faint(format!("Not told by this {}: {}", kind(origin), words.join(", "))))
}

/// Takes out of a part of JSON what the profile does not tell.
pub fn strip_untold(value: &mut Value, profile: &Profile) {
    let left_out: Vec<&str> = profile.untold().flat_map(keys).collect();
    strip(value, &left_out);
}

/// The same of two profiles: under `before` what the first does not tell, under `after` the second.
pub fn strip_sides(value: &mut Value, profiles: [&Profile; 2]) {
    let left_out = profiles.map(|profile| profile.untold().flat_map(keys).collect::<Vec<_>>());
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(map) => {
                for (side, left_out) in ["before", "after"].into_iter().zip(&left_out) {
                    map.get_mut(side).into_iter().for_each(|numbers| strip(numbers, left_out));
                }
                waiting.extend(map.values_mut());
            }
            Value::Array(all) => waiting.extend(all),
            _ => {}
        }
    }
}

/// What a person would look for in vain in what is written: words that are known, and that are not carried.
pub fn lost(known: impl Fn(Word) -> bool, carried: Words) -> Vec<String> {
    let more = [Word::Processes, Word::Threads, Word::Events];
    let words = LOOKED_FOR.into_iter().chain(more);
    words.filter(|&word| known(word) && !carried.has(word)).map(|word| word.to_string()).collect()
}

fn strip(value: &mut Value, left_out: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !left_out.contains(&key.as_str()));
            map.values_mut().for_each(|value| strip(value, left_out));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| strip(value, left_out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Measure, overview};
    use mallow_report::testing::parser;

    use super::*;

    fn heap_profile() -> Recording {
        let mut profile = parser();
        let tells = Words::of(&[Word::AllocatedBytes, Word::Leaked, Word::LeakedBytes]);
        profile.origin = Some(Origin { format: "pprof", tells, sampled_bytes: Some(524_288) });
        Recording::of(profile)
    }

    #[test]
    fn the_first_measure_that_is_told_is_the_default() {
        let recording = heap_profile();
        assert_eq!(recording.measure(None).expect("a measure"), Measure::Bytes);
        assert_eq!(recording.measure(Some(By::Leaked)).expect("told"), Measure::Leaked);
        assert_eq!(Recording::of(parser()).measure(None).expect("a measure"), Measure::Allocations);
    }

    #[test]
    fn what_is_not_told_is_refused_with_what_is() {
        let error = heap_profile().measure(Some(By::Temporary)).expect_err("not told").to_string();
        assert_eq!(error, "this pprof profile tells no temporary allocations; there is --by bytes, leaked");
    }

    #[test]
    fn json_leaves_out_what_is_not_told() {
        let recording = heap_profile();
        let text = recording.json(&overview(&recording.profile, 3)).expect("JSON");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((json["format"].as_str(), json["sampled_bytes"].as_u64()), (Some("pprof"), Some(524_288)));
        assert!(json["not_told"].as_array().is_some_and(|words| words.contains(&"temporary allocations".into())));
        assert!(json["allocated_bytes"].is_u64() && json["leaked"].is_u64());
        for key in ["allocations", "remaining", "temporary", "peak_bytes", "duration_ms", "families", "exit_status"] {
            assert!(json.get(key).is_none(), "{key}");
        }
        let site = &json["largest"][0]["largest"][0];
        assert!(site["allocated_bytes"].is_u64() && site.get("allocations").is_none(), "{site}");
    }
}
