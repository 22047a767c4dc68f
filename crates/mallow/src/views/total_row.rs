//! A row of totals in words, as the report, its JSON and the page show it.

use mallow_report::analysis::Measure;
use serde::Serialize;

/// A row of totals in words.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TotalRow {
    /// Title of the row.
    pub name: &'static str,
    /// Measure that the row is the sum of; left out where it is that of no list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Measure>,
    /// Count with separators, for people; empty where it is not known.
    pub number: String,
    /// Margin of the 95 % interval of `number`, for people; empty where it was counted.
    pub number_margin: String,
    /// Bytes with a unit, for people; empty where they are not known.
    pub size: String,
    /// Margin of the 95 % interval of `size`, for people; empty where it was counted.
    pub size_margin: String,
    /// Remark behind the figures, for people; empty where there is none.
    pub remark: String,
}
