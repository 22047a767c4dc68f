//! What tests of hostile files share.

use mallow_formats::{Foreign, FormatError, read};

/// Reads a file of another tool.
pub fn foreign(bytes: &[u8]) -> Result<Foreign, FormatError> {
    read(bytes, Some(bytes.len() as u64), &mut |_| {})
}

/// A field of a message, of bytes.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

/// A pprof profile whose strings are `inuse_space` and `bytes`, with these fields.
pub fn pprof(fields: &[Vec<u8>]) -> Vec<u8> {
    let head = [field(1, &[8, 1, 16, 2]), field(6, b""), field(6, b"inuse_space"), field(6, b"bytes")].concat();
    [head, fields.concat()].concat()
}
