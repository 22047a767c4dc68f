//! What a recording knows of its run before the first event.

/// What is known before the first chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The command line that is recorded.
    pub command: Vec<String>,
    /// Wall clock at the start, milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
}
