//! Numbers of blocks in buckets by powers of two.

use serde::Serialize;

/// Blocks with a value within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bucket {
    /// Smallest value of the bucket: bytes in `buckets`, milliseconds in `by_ms`, allocations in `by_allocations`.
    pub from: u64,
    /// Smallest value above the bucket; null: no end.
    pub to: Option<u64>,
    /// Blocks in the bucket.
    pub blocks: u64,
    /// Requested bytes of the blocks in the bucket.
    pub bytes: u64,
}

/// Buckets by powers of two: 0, 1, 2 to 3, 4 to 7, …, the last one from 2^63 on.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: [(u64, u64); 65],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [(0, 0); 65] }
    }
}

impl Histogram {
    /// Adds a block to the bucket of this value.
    #[inline]
    pub fn add(&mut self, value: u64, bytes: u64) {
        let (blocks, sum) = &mut self.buckets[64 - value.leading_zeros() as usize];
        *blocks = blocks.saturating_add(1);
        *sum = sum.saturating_add(bytes);
    }

    /// Returns the buckets from the first to the last one that has blocks, with the empty ones between them.
    pub fn buckets(&self) -> Vec<Bucket> {
        let filled = |(blocks, _): &(u64, u64)| *blocks > 0;
        let (Some(first), Some(last)) = (self.buckets.iter().position(filled), self.buckets.iter().rposition(filled))
        else {
            return Vec::new();
        };
        let bucket = |at: usize| {
            let (blocks, bytes) = self.buckets[at];
            Bucket { from: if at == 0 { 0 } else { 1 << (at - 1) }, to: 1u64.checked_shl(at as u32), blocks, bytes }
        };
        (first..=last).map(bucket).collect()
    }
}
