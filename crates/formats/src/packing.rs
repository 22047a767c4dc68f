//! Packs what is written, where its name asks for it.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// Goes by the end of the file's name: `.gz`, `.zst` or any other.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// Packs what is written. [`Packed::finish`] must be called at the end.
pub enum Packed<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Packed<W> {
    pub fn new(out: W, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Plain(out),
            Packing::Gzip => Self::Gzip(GzEncoder::new(out, Compression::default())),
            Packing::Zstd => Self::Zstd(zstd::Encoder::new(out, 3)?),
        })
    }

    /// Writes the rest, without which the packed file is damaged.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Gzip(out) => out.finish()?.flush(),
            Self::Zstd(out) => out.finish()?.flush(),
        }
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    /// Passes on nothing that is packed before the end: small pieces pack badly.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(_) | Self::Zstd(_) => Ok(()),
        }
    }
}
