//! Why there is no table for a file.

use mallow_arch::machine::NAME;

/// Why there is no table for a file.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file does not begin as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// A machine for which there are no tables.
    #[error("unwind tables are made for {NAME} only, not for {0}")]
    OtherMachine(String),
    /// Neither `.eh_frame` nor `.debug_frame`.
    #[error("no call frame information (.eh_frame, .debug_frame)")]
    NoFrames,
    /// More than the layout, or any real program, has.
    #[error("call frame information too large")]
    TooLarge,
    /// The ELF structure is damaged.
    #[error("damaged ELF file: {0}")]
    Elf(#[from] object::Error),
    /// The call frame information is damaged.
    #[error("damaged call frame information: {0}")]
    Frames(#[from] gimli::Error),
    /// What should be a table file is none, or is of another version.
    #[error("not an unwind table of this version")]
    NotTable,
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
