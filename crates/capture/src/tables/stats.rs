//! What a table holds, and what it could not.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    pub functions: usize,
    /// Rows of the file, after neighbours with the same rule were merged.
    pub rows: usize,
    pub rules: usize,
    /// Rows that the layout has no rule for: their rule is NONE.
    pub unrepresentable_rows: usize,
    /// Functions whose call frame instructions are damaged from some point on: NONE follows.
    pub unreadable_functions: usize,
    /// Functions outside of executable segments, which the linker dropped.
    pub functions_elsewhere: usize,
    /// Instructions without call frame information that have a rule all the same.
    pub analyzed_instructions: usize,
}
