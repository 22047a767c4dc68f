//! Bytes of a file, unpacked where it is packed, and its lines. Nothing is held but what was asked for.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use super::{At, FormatError, InputFormat};

/// Bytes that are read to find out the format.
const HEAD: usize = 256 << 10;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Longest line, in bytes; longer ones belong to no profile. Names of C++ functions reach some hundred kilobytes.
const LINE: usize = 4 << 20;
/// Longest name, in bytes; longer ones are cut, as those of symbol tables are.
const NAME: usize = 32 << 10;
/// Bytes that a file which is held as a whole may unpack to, beside [`WHOLE_RATIO`] times its packed length. Real
/// profiles are packed to a third or a tenth.
const WHOLE: u64 = 32 << 20;
const WHOLE_RATIO: u64 = 48;
/// Most bytes that a file which is held as a whole may unpack to: offsets end there.
const WHOLE_LIMIT: u64 = (2 << 30) - 1;

/// Bytes that a packed file which is read in lines may unpack to, beside [`STREAM_RATIO`] times the packed bytes that
/// were read. gzip reaches 1,032 to 1 at the most, zstd a hundred times that: a bomb of 100 KB would take half a
/// minute.
const STREAM: u64 = 512 << 20;
const STREAM_RATIO: u64 = 1032;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the packed file that were read.
    pub done: u64,
    /// Bytes of the packed file; None for a pipe.
    pub all: Option<u64>,
}

/// Counts what is taken out of a file, and reports it.
struct Watched<'a, R> {
    inner: R,
    done: Rc<Cell<u64>>,
    all: Option<u64>,
    progress: &'a mut dyn FnMut(Progress),
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        let done = self.done.get() + read as u64;
        self.done.set(done);
        (self.progress)(Progress { done, all: self.all });
        Ok(read)
    }
}

/// Ends a packed file that unpacks to more than its packed bytes could hold.
struct Bounded<R> {
    inner: R,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let limit = self.packed.get().saturating_mul(STREAM_RATIO).saturating_add(STREAM);
        if self.unpacked > limit {
            return Err(io::Error::other(TooLarge(limit)));
        }
        let read = self.inner.read(into)?;
        self.unpacked += read as u64;
        Ok(read)
    }
}

/// The error of a file that unpacks to more than this many bytes.
#[derive(Debug)]
struct TooLarge(u64);

impl fmt::Display for TooLarge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "unpacks to more than {} MB, too much for its length; if it is genuine, unpack it first",
            self.0 >> 20
        )
    }
}

impl std::error::Error for TooLarge {}

pub struct Input<'a> {
    reader: Box<dyn BufRead + 'a>,
    head: Vec<u8>,
    packed_length: Option<u64>,
}

impl<'a> Input<'a> {
    /// Unpacks the file if it is packed, up to twice. `packed_length` is None for a pipe.
    pub fn open(
        file: impl Read + 'a,
        packed_length: Option<u64>,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Self, FormatError> {
        let done = Rc::new(Cell::new(0));
        let watched = Watched { inner: file, done: Rc::clone(&done), all: packed_length, progress };
        let mut reader: Box<dyn BufRead + 'a> = Box::new(BufReader::with_capacity(PIECE, watched));
        // Somebody may have packed what was packed already; more often than twice is no accident.
        for _ in 0..2 {
            let mut magic = [0; 4];
            let length = fill(&mut reader, &mut magic).map_err(spoilt)?;
            let begin = Cursor::new(magic).take(length as u64);
            let whole = begin.chain(reader);
            reader = match &magic {
                [0x1f, 0x8b, ..] => unpacked(MultiGzDecoder::new(whole), &done),
                [0x28, 0xb5, 0x2f, 0xfd] => {
                    let mut decoder = zstd::Decoder::with_buffer(whole)?;
                    // 2^27 is what zstd itself grants without being asked.
                    decoder.window_log_max(27)?;
                    unpacked(decoder, &done)
                }
                _ => {
                    reader = Box::new(whole);
                    break;
                }
            };
        }
        Ok(Self { reader, head: Vec::new(), packed_length })
    }

    /// The first bytes, unpacked; reading goes on from the beginning.
    pub fn head(&mut self) -> Result<&[u8], FormatError> {
        let mut head = Vec::new();
        let read = self.reader.by_ref().take(HEAD as u64).read_to_end(&mut head);
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = match read {
            Ok(_) => Box::new(Cursor::new(head.clone()).chain(rest)),
            // A short file that was cut: what there is of it may be enough.
            Err(error) if !head.is_empty() => {
                Box::new(Cursor::new(head.clone()).chain(BufReader::new(Broken(error.kind(), error.to_string()))))
            }
            Err(error) => return Err(spoilt(error).into()),
        };
        self.head = head;
        Ok(&self.head)
    }

    pub fn whole(&mut self, format: InputFormat) -> Result<Vec<u8>, FormatError> {
        let limit = self.packed_length.unwrap_or(WHOLE).saturating_mul(WHOLE_RATIO).saturating_add(WHOLE);
        let limit = limit.min(WHOLE_LIMIT);
        let mut all = Vec::new();
        let mut part = self.reader.by_ref().take(limit + 1);
        part.read_to_end(&mut all).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Other => {
                FormatError::Damaged { format, at: At::Byte(all.len() as u64), what: error.to_string() }
            }
            _ => error.into(),
        })?;
        if all.len() as u64 > limit {
            let what = format!("unpacks to more than {} MB, too much for its length", limit >> 20);
            return Err(FormatError::Unusable { format, what });
        }
        Ok(all)
    }
}

/// Reads what a decoder unpacks, as far as the `packed` bytes that were read allow.
fn unpacked<'a>(decoder: impl Read + 'a, packed: &Rc<Cell<u64>>) -> Box<dyn BufRead + 'a> {
    let bounded = Bounded { inner: decoder, packed: Rc::clone(packed), unpacked: 0 };
    Box::new(BufReader::with_capacity(PIECE, bounded))
}

/// Adds to an error that does not come from the file system that the packed file is damaged.
fn spoilt(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => error,
        None => io::Error::new(error.kind(), format!("what is packed in it is damaged: {error}")),
    }
}

/// A reader that fails as the packed file did.
struct Broken(io::ErrorKind, String);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0, self.1.clone()))
    }
}

impl Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match from.read(&mut into[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

pub struct Lines<'a> {
    input: Input<'a>,
    line: Vec<u8>,
    number: u64,
    format: InputFormat,
    /// Whether the text ends in the middle of a line, or of what was packed.
    cut: bool,
}

impl<'a> Lines<'a> {
    pub fn new(input: Input<'a>, format: InputFormat) -> Self {
        Self { input, line: Vec::new(), number: 0, format, cut: false }
    }

    pub fn format(&self) -> InputFormat {
        self.format
    }

    /// Corrects the format that errors name.
    pub fn set_format(&mut self, format: InputFormat) {
        self.format = format;
    }

    /// The next line, without its end; None at the end of the text.
    pub fn next(&mut self) -> Result<Option<&[u8]>, FormatError> {
        self.line.clear();
        let mut part = self.input.reader.by_ref().take(LINE as u64 + 1);
        match part.read_until(b'\n', &mut self.line) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) => {
                self.cut = error.kind() == io::ErrorKind::UnexpectedEof;
                return Err(self.unreadable(error));
            }
        }
        self.number += 1;
        if self.line.len() > LINE {
            return Err(self.damaged("the line is too long"));
        }
        self.cut = self.line.last() != Some(&b'\n');
        while self.line.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(Some(&self.line))
    }

    /// The next line of a file whose writer may have been killed: a line without an end is none.
    pub fn next_whole(&mut self) -> Result<Option<&[u8]>, FormatError> {
        let there = self.next().map(|line| line.is_some());
        match there {
            Err(error) if !self.cut => Err(error),
            Ok(true) if !self.cut => Ok(Some(&self.line)),
            _ => Ok(None),
        }
    }

    /// Reads all that follows the current line, text or not.
    pub fn rest(&mut self) -> Result<Vec<u8>, FormatError> {
        self.input.whole(self.format)
    }

    /// Whether the text ended in the middle of a line, or of what was packed.
    pub fn cut(&self) -> bool {
        self.cut
    }

    /// An error at the current line.
    pub fn damaged(&self, what: impl Into<String>) -> FormatError {
        FormatError::Damaged { format: self.format, at: At::Line(self.number), what: what.into() }
    }

    /// An error of the file as a whole.
    pub fn unusable(&self, what: impl Into<String>) -> FormatError {
        FormatError::Unusable { format: self.format, what: what.into() }
    }

    /// The error of a file that cannot be unpacked: it was cut short or spoilt, or is too large.
    fn unreadable(&self, error: io::Error) -> FormatError {
        if error.get_ref().is_some_and(|inner| inner.is::<TooLarge>()) {
            return self.unusable(error.to_string());
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Other => {
                FormatError::Damaged { format: self.format, at: At::Line(self.number + 1), what: error.to_string() }
            }
            _ => error.into(),
        }
    }
}

/// The bytes as text, cut to a length that is within reason.
pub fn name(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(NAME)])
}

/// A number in decimal digits without a sign; None for other text.
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// A number in hexadecimal digits, with `0x` in front or without; None for other text.
pub fn hexadecimal(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.strip_prefix(b"0x").unwrap_or(bytes);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| Some(value << 4 | u64::from((*digit as char).to_digit(16)?)))
}
