//! Why a recording cannot be read.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("this is not a recording of mallow")]
    NotARecording,
    #[error(
        "this recording has format version {found}, and this mallow reads versions up to {known}: use a newer mallow"
    )]
    NewerVersion {
        found: u32,
        /// Highest version that can be read.
        known: u32,
    },
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not those that were written.
    #[error("the recording is damaged at byte {at}: {what}")]
    Damaged {
        /// Offset in the file at which the bad block begins.
        at: u64,
        what: &'static str,
    },
}
