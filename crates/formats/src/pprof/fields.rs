//! The fields of a message, one after another, and what is wrong with them.

use prost::encoding::{WireType, decode_key, decode_varint};

use crate::{At, FormatError, InputFormat};

/// The fields of a message, in their order.
pub struct Fields<'a> {
    all: &'a [u8],
    at: usize,
}

pub struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
}

#[derive(Clone, Copy)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn bytes(self) -> Result<&'a [u8], FormatError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(misplaced()),
        }
    }

    pub fn number(self) -> Result<u64, FormatError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(misplaced()),
        }
    }

    /// The bytes of the value, for messages; empty for a number.
    pub fn start(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }
}

fn misplaced() -> FormatError {
    let what = "a field has another type than profiles have".to_owned();
    FormatError::Damaged { format: InputFormat::Pprof, at: At::Somewhere, what }
}

impl<'a> Fields<'a> {
    pub fn of(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// Whether the field that could not be read is longer than what is left.
    pub fn reaches_past_end(&self) -> bool {
        let mut rest = &self.all[self.at..];
        let Ok((_, wire)) = decode_key(&mut rest) else { return rest.len() < 10 };
        match (wire, decode_varint(&mut rest)) {
            (WireType::LengthDelimited, Ok(length)) => length > rest.len() as u64,
            (_, Err(_)) => rest.len() < 10,
            _ => false,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = &self.all[self.at..];
        if rest.is_empty() {
            return None;
        }
        let at = self.at as u64;
        let damaged = |what: &str| {
            Some(Err(FormatError::Damaged { format: InputFormat::Pprof, at: At::Byte(at), what: what.to_owned() }))
        };
        let Ok((number, wire)) = decode_key(&mut rest) else { return damaged("this is no field") };
        let value = match wire {
            WireType::Varint => match decode_varint(&mut rest) {
                Ok(number) => Value::Number(number),
                Err(_) => return damaged("this is no number"),
            },
            WireType::LengthDelimited => match decode_varint(&mut rest).ok().and_then(|n| usize::try_from(n).ok()) {
                Some(length) if length <= rest.len() => {
                    let (bytes, after) = rest.split_at(length);
                    rest = after;
                    Value::Bytes(bytes)
                }
                _ => return damaged("a field ends after the end of the file"),
            },
            WireType::SixtyFourBit | WireType::ThirtyTwoBit => {
                let width = if wire == WireType::SixtyFourBit { 8 } else { 4 };
                if rest.len() < width {
                    return damaged("a field ends after the end of the file");
                }
                rest = &rest[width..];
                Value::Number(0)
            }
            WireType::StartGroup | WireType::EndGroup => return damaged("profiles have no groups"),
        };
        self.at = self.all.len() - rest.len();
        Some(Ok(Field { number, value }))
    }
}
/// The error of a profile that is whole and cannot be used.
pub fn unusable(what: impl Into<String>) -> FormatError {
    FormatError::Unusable { format: InputFormat::Pprof, what: what.into() }
}

pub fn damaged(all: &[u8], at: &[u8], what: &str) -> FormatError {
    let offset = at.as_ptr() as usize - all.as_ptr() as usize;
    FormatError::Damaged { format: InputFormat::Pprof, at: At::Byte(offset as u64), what: what.to_owned() }
}
