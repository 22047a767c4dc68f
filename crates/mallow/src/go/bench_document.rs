//! What `mallow go bench` shows, as JSON and as text.

use serde::Serialize;

use super::bench_compare::BenchComparison;
use super::measurement::Measured;

/// Allocations of benchmarks, by line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GoBench {
    /// Version of Go that the benchmarks were compiled with.
    pub go: String,
    /// Packages with benchmarks, each with its results.
    pub packages: Vec<MeasuredPackage>,
    /// Comparison with an earlier run (`--base`); left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<BenchComparison>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredPackage {
    /// Import path of the package.
    pub package: String,
    /// Reason why the package could not be measured; left out where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Benchmarks of the package, in the order in which they ran.
    pub benchmarks: Vec<Measured>,
}
