//! Blocks by their size.

use mallow_profile::{Call, Event};
use serde::Serialize;

use super::histogram::{Bucket, Histogram};

/// Allocations by requested size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sizes {
    /// Successful calls of the allocating functions, reallocs included.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Smallest requested size, in bytes; null without allocations.
    pub smallest: Option<u64>,
    /// Largest requested size, in bytes; null without allocations.
    pub largest: Option<u64>,
    /// Allocations by requested size, in ranges that end at powers of two.
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Debug, Default)]
pub struct SizesBuilder {
    allocations: u64,
    allocated_bytes: u64,
    range: Option<(u64, u64)>,
    histogram: Histogram,
}

impl SizesBuilder {
    pub fn event(&mut self, event: &Event) {
        if let Event::Allocate(Call { size, .. }) | Event::Reallocate { call: Call { size, .. }, .. } = *event {
            self.allocations += 1;
            self.allocated_bytes = self.allocated_bytes.saturating_add(size);
            self.range = Some(self.range.map_or((size, size), |(low, high)| (low.min(size), high.max(size))));
            self.histogram.add(size, size);
        }
    }

    pub fn finish(self) -> Sizes {
        Sizes {
            allocations: self.allocations,
            allocated_bytes: self.allocated_bytes,
            smallest: self.range.map(|range| range.0),
            largest: self.range.map(|range| range.1),
            buckets: self.histogram.buckets(),
        }
    }
}
