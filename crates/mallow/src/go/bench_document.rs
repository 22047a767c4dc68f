//! What `mallow go bench` shows, as JSON and as text.

use serde::Serialize;

use super::bench_compare::BenchComparison;
use super::measurement::Measured;

/// What the benchmarks allocate.
#[derive(Debug, Serialize)]
pub struct GoBench {
    /// The version of Go.
    pub go: String,
    /// Those that have benchmarks.
    pub packages: Vec<MeasuredPackage>,
    /// With an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<BenchComparison>,
}

#[derive(Debug, Serialize)]
pub struct MeasuredPackage {
    pub package: String,
    /// Why it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// In their order.
    pub benchmarks: Vec<Measured>,
}
