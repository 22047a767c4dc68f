//! What `mallow go bench` shows, as JSON and as text.

use serde::Serialize;

use super::bench_compare::BenchComparison;
use super::measurement::Measured;

/// What the benchmarks allocate.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GoBench {
    /// The version of Go.
    pub go: String,
    /// Packages with benchmarks.
    pub packages: Vec<MeasuredPackage>,
    /// With an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<BenchComparison>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredPackage {
    /// Import path of the package.
    pub package: String,
    /// Why it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Benchmarks of the package, in the order in which they ran.
    pub benchmarks: Vec<Measured>,
}
