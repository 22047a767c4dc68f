//! Why there is no table for a file.

use mallow_arch::machine::NAME;

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("not an ELF file")]
    NotElf,
    /// The file is for a machine for which there are no tables.
    #[error("unwind tables are made for {NAME} only, not for {0}")]
    OtherMachine(String),
    /// The file has neither `.eh_frame` nor `.debug_frame`.
    #[error("no call frame information (.eh_frame, .debug_frame)")]
    NoFrames,
    /// A number is larger than the layout, or any real program, has.
    #[error("call frame information too large")]
    TooLarge,
    #[error("damaged ELF file: {0}")]
    Elf(#[from] object::Error),
    #[error("damaged call frame information: {0}")]
    Frames(#[from] gimli::Error),
    #[error("not an unwind table of this version")]
    NotTable,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
