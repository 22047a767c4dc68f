//! What a table holds, and what it could not.

/// What a table holds, and what could not be put into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    pub functions: usize,
    /// Rows, after merging.
    pub rows: usize,
    pub rules: usize,
    /// Rows that the layout has no rule for: they get NONE.
    pub unrepresentable_rows: usize,
    /// Functions whose call frame instructions are damaged from some point on: NONE follows.
    pub unreadable_functions: usize,
    /// Functions outside of executable segments: dropped by the linker.
    pub functions_elsewhere: usize,
    /// Instructions without call frame information that have a rule all the same.
    pub analyzed_instructions: usize,
}
