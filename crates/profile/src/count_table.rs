//! The one list of what is counted. A count that is added here is in [`crate::Counts`], in [`crate::Quantity`], in
//! every JSON object and table of reports, in sums and in merged profiles. The recording has a column for each
//! (`docs/FORMAT.md`), the ledger counts them, and `docs/DEFINITIONS.md` defines each quantity.

/// Calls a macro with the quantities, their names as people read them, and under each quantity its counts.
macro_rules! count_table {
    ($define:ident) => {
        $define! {
            Allocations "allocations" {
                /// Successful calls of the allocating functions.
                allocations,
            }
            AllocatedBytes "allocated bytes" {
                /// Requested bytes of all allocations.
                allocated_bytes,
            }
            Frees "frees" {
                /// Frees of blocks allocated here.
                frees,
            }
            FreedBytes "freed bytes" {
                /// Requested bytes of the blocks freed.
                freed_bytes,
            }
            Temporary "temporary allocations" {
                /// Allocations freed before their own thread allocated again.
                temporary,
            }
            TemporaryBytes "temporary bytes" {
                /// Requested bytes of the temporary allocations.
                temporary_bytes,
            }
            Live "live blocks" {
                /// Blocks live when their process, or the recording, ended.
                live,
            }
            LiveBytes "live bytes" {
                /// Requested bytes of the live blocks.
                live_bytes,
            }
            Peak "blocks live at the peak" {
                /// Blocks live at the recording's peak.
                peak,
            }
            PeakBytes "bytes live at the peak" {
                /// Requested bytes of the blocks live at the peak.
                peak_bytes,
            }
            Reallocs "reallocs" {
                /// Successful reallocs of non-NULL that kept the address. They are allocations too.
                reallocs_in_place,
                /// Successful reallocs of non-NULL that moved the block. They are allocations too.
                reallocs_moved,
            }
        }
    };
}
