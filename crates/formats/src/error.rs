//! Why a file of another tool cannot be read.

use std::{fmt, io};

use super::input_format::InputFormat;

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has none of the formats; the text is a hint.
    #[error("this is neither a recording of mallow nor a profile that it reads ({formats}){0}", formats = all())]
    Unknown(&'static str),
    /// The file began as a format and went on as something else.
    #[error("this {format} profile is damaged at {at}: {what}")]
    Damaged {
        format: InputFormat,
        /// Line of a text, byte of any other file.
        at: At,
        what: String,
    },
    /// The file is whole, and says nothing about allocations, or not in a way that can be read.
    #[error("this {format} profile {what}")]
    Unusable {
        format: InputFormat,
        /// The reason, and what to do instead.
        what: String,
    },
}

fn all() -> String {
    InputFormat::ALL.map(InputFormat::name).join(", ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Line of the text, counted from 1.
    Line(u64),
    /// Byte of the unpacked file, counted from 0.
    Byte(u64),
    Somewhere,
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(out, "line {line}"),
            Self::Byte(byte) => write!(out, "byte {byte}"),
            Self::Somewhere => out.write_str("some place"),
        }
    }
}
