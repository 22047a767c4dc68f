//! What a file covers: profiles of other tools lack some of Mallow's quantities. What is missing is left out, never
//! shown as 0.

use anyhow::Result;
use mallow_profile::{Origin, Profile, Quantities, Quantity};
use mallow_report::analysis::keys;
use serde::Serialize;
use serde_json::Value;

use super::filters::Filters;
use crate::flags::By;
use crate::output::json::JsonDocument;
use crate::output::text::Line;
use crate::output::text::units::bytes;

/// The measures that a view offers, as it calls them.
pub const MEASURES: [By; 5] = [By::Allocations, By::Bytes, By::Peak, By::Live, By::Temporary];

/// A report as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Document<'a, R: Serialize> {
    /// The whole report, of a recording.
    Whole(FilteredReport<'a, R>),
    /// The report of a profile of another tool: with the format, and what the profile lacks.
    Covered(Value),
}

/// A report, and the filters where some are on.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FilteredReport<'a, R: Serialize> {
    /// Filters by which the document was made; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<&'a Filters>,
    #[serde(flatten)]
    report: &'a R,
}

impl<R: JsonDocument> JsonDocument for Document<'_, R> {
    const SCHEMA: &'static str = R::SCHEMA;
}

impl<'a, R: Serialize> Document<'a, R> {
    /// The document of a profile's report.
    pub fn of(report: &'a R, profile: &Profile, filters: &'a Filters) -> Result<Self> {
        let report = FilteredReport { filters: Some(filters).filter(|filters| !filters.is_none()), report };
        let Some(origin) = &profile.origin else { return Ok(Self::Whole(report)) };
        let missing: Vec<Quantity> = profile.missing().collect();
        let left_out: Vec<&str> = missing.iter().flat_map(|&quantity| keys(quantity)).collect();
        let mut value = serde_json::to_value(report)?;
        strip(&mut value, &left_out);
        let mut whole = serde_json::Map::new();
        whole.insert("format".to_owned(), origin.format.into());
        if let Some(period) = origin.sampled_bytes {
            whole.insert("sampled_bytes".to_owned(), period.into());
        }
        whole.insert("missing".to_owned(), missing.iter().map(Quantity::to_string).collect());
        if let Value::Object(rest) = value {
            whole.extend(rest);
        }
        Ok(Self::Covered(Value::Object(whole)))
    }
}

/// Kind of the file, such as `heaptrack profile`.
pub fn kind(origin: &Origin) -> String {
    format!("{} profile", origin.format)
}

/// Kind of the file, and whether its numbers are estimates.
pub fn provenance(origin: &Origin) -> Line {
    let line = Line::new().plain(kind(origin));
    match origin.sampled_bytes {
        None => line,
        Some(period) => line.warning(format!(", sampled: estimates from one allocation in {}", bytes(period, false))),
    }
}

/// Quantities that people look for. A quantity beside these goes with one of them, or is looked for by nobody.
const LOOKED_FOR: [Quantity; 8] = [
    Quantity::Allocations,
    Quantity::AllocatedBytes,
    Quantity::Frees,
    Quantity::Temporary,
    Quantity::PeakBytes,
    Quantity::LiveBytes,
    Quantity::Reallocs,
    Quantity::Times,
];

/// The quantities of [`LOOKED_FOR`] that are missing, as one line; None where there are none.
pub fn missing(origin: &Origin) -> Option<Line> {
    let quantities: Vec<_> = LOOKED_FOR
        .into_iter()
        .filter(|&quantity| !origin.quantities.has(quantity))
        .map(|quantity| quantity.to_string())
        .collect();
    (!quantities.is_empty())
        .then(|| Line::new().faint(format!("Missing in this {}: {}", kind(origin), quantities.join(", "))))
}

/// Removes from a part of JSON the quantities that are missing in the profile.
pub fn strip_missing(value: &mut Value, profile: &Profile) {
    let left_out: Vec<&str> = profile.missing().flat_map(keys).collect();
    strip(value, &left_out);
}

/// Removes missing quantities of two profiles: under `before` those of the first, under `after` those of the second.
pub fn strip_sides(value: &mut Value, profiles: [&Profile; 2]) {
    let left_out = profiles.map(|profile| profile.missing().flat_map(keys).collect::<Vec<_>>());
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

/// Quantities that people look for and a format loses: they are known, and not carried.
pub fn lost(known: impl Fn(Quantity) -> bool, carried: Quantities) -> Vec<String> {
    let more = [Quantity::Processes, Quantity::Threads, Quantity::Events];
    let quantities = LOOKED_FOR.into_iter().chain(more);
    quantities
        .filter(|&quantity| known(quantity) && !carried.has(quantity))
        .map(|quantity| quantity.to_string())
        .collect()
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
