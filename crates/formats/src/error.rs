//! Why a file of another tool cannot be read.

use std::{fmt, io};

use super::input_format::InputFormat;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It could not be read at all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none of the formats.
    #[error("this is neither a recording of mallow nor a profile that it reads ({formats}){0}", formats = all())]
    Unknown(&'static str),
    /// It began as a format and went on as something else.
    #[error("this {format} profile is damaged at {at}: {what}")]
    Damaged {
        format: InputFormat,
        /// `byte 12` or `line 3`.
        at: At,
        what: String,
    },
    /// It is whole, and says nothing about allocations, or not in a way that can be read.
    #[error("this {format} profile {what}")]
    Unusable {
        format: InputFormat,
        /// Why, and what to do instead.
        what: String,
    },
}

/// The names of all formats that views read.
fn all() -> String {
    InputFormat::ALL.map(InputFormat::name).join(", ")
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Counted from 1, of the text.
    Line(u64),
    /// Counted from 0, of what was packed.
    Byte(u64),
    /// Nowhere in particular.
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
