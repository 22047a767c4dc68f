//! Why a recording cannot be read.

use std::io;

/// See [`super::read`].
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Something else, or nothing.
    #[error("this is not a recording of mallow")]
    NotARecording,
    /// A later mallow wrote it.
    #[error(
        "this recording has format version {found}, and this mallow reads versions up to {known}: use a newer mallow"
    )]
    NewerVersion {
        found: u32,
        /// The highest that can be read.
        known: u32,
    },
    /// It could not be read at all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its bytes are not those that were written.
    #[error("the recording is damaged at byte {at}: {what}")]
    Damaged {
        /// Where in the file the bad block begins.
        at: u64,
        what: &'static str,
    },
}
