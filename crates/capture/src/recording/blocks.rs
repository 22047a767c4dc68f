//! A file as a row of blocks.

use super::block::{HEAD, Head, Kind};
use super::bytes::Cursor;
use super::error::ReadError;
use super::{FIRST_VERSION, MAGIC, TRAILER_MAGIC, VERSION};
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Bytes of the file's head.
const BEGIN: u64 = 16;
/// Bytes of the file's trailer.
const TRAILER: u64 = 16;

/// How far a recording has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    /// Bytes of the file.
    pub all: u64,
}

impl Progress {
    /// This progress as a part of several passes, each of which reads as much.
    pub(super) fn part(self, pass: u64, passes: u64) -> Self {
        let all = self.all.saturating_mul(passes);
        Self { done: self.all.saturating_mul(pass).saturating_add(self.done).min(all), all }
    }
}

#[derive(Debug)]
pub struct Block {
    pub kind: Kind,
    /// Offset of the block in the file.
    pub at: u64,
    pub columns: Vec<Cursor>,
}

/// The blocks of a file, one after another.
#[derive(Debug)]
pub struct Blocks<R> {
    file: BufReader<R>,
    length: u64,
    at: u64,
    /// Offset of the index, as the trailer says. None: the file has no trailer, it was cut short.
    index_at: Option<u64>,
}

impl<R: Read + Seek> Blocks<R> {
    /// Checks the file's head, and stands at the first block.
    pub fn open(mut file: R) -> Result<Self, ReadError> {
        let length = file.seek(SeekFrom::End(0))?;
        let mut head = [0; BEGIN as usize];
        file.rewind()?;
        if let Err(error) = file.read_exact(&mut head) {
            return Err(match error.kind() {
                io::ErrorKind::UnexpectedEof => ReadError::NotARecording,
                _ => error.into(),
            });
        }
        if head[..8] != MAGIC {
            return Err(ReadError::NotARecording);
        }
        let found = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if found > VERSION {
            return Err(ReadError::NewerVersion { found, known: VERSION });
        }
        if found < FIRST_VERSION || head[12..] != [0; 4] {
            return Err(ReadError::Damaged { at: 8, what: "the file's head makes no sense" });
        }
        let mut trailer = [0; TRAILER as usize];
        if length >= BEGIN + TRAILER {
            file.seek(SeekFrom::Start(length - TRAILER))?;
            file.read_exact(&mut trailer)?;
            file.seek(SeekFrom::Start(BEGIN))?;
        }
        let [index_at @ .., _, _, _, _, _, _, _, _] = trailer;
        let index_at = (trailer[8..] == TRAILER_MAGIC).then_some(u64::from_le_bytes(index_at));
        let length = if index_at.is_some() { length - TRAILER } else { length };
        Ok(Self { file: BufReader::new(file), length, at: BEGIN, index_at })
    }

    /// Back to the first block.
    pub fn rewind(&mut self) -> Result<(), ReadError> {
        self.file.seek(SeekFrom::Start(BEGIN))?;
        self.at = BEGIN;
        Ok(())
    }

    /// Whether the file has its trailer; else it was cut short.
    pub fn whole(&self) -> bool {
        self.index_at.is_some()
    }

    /// Offset of the index, as the trailer says; None of a file that was cut short.
    pub fn index_at(&self) -> Option<u64> {
        self.index_at
    }

    /// Bytes of the file, without its trailer.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Offset of the next block.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn progress(&self) -> Progress {
        Progress { done: self.at, all: self.length }
    }

    /// The next block of a `wanted` kind; None at the end of the file, or of its last whole block.
    pub fn next(&mut self, wanted: impl Fn(Kind) -> bool) -> Result<Option<Block>, ReadError> {
        let Some((head, at)) = self.next_head(wanted, u64::MAX)? else { return Ok(None) };
        Ok(Some(Block { kind: head.kind, at, columns: head.unpack(&mut self.file, at)? }))
    }

    /// The head, the offset and the packed bytes, head and all, of the next block that [`Blocks::next`] would find
    /// before `until`.
    pub fn next_packed(
        &mut self,
        wanted: impl Fn(Kind) -> bool,
        until: u64,
    ) -> Result<Option<(Head, u64, Vec<u8>)>, ReadError> {
        let Some((head, at)) = self.next_head(wanted, until)? else { return Ok(None) };
        let mut bytes = head.bytes.to_vec();
        (&mut self.file).take(head.payload as u64).read_to_end(&mut bytes)?;
        match bytes.len() == HEAD + head.payload {
            true => Ok(Some((head, at, bytes))),
            false => Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// The head and the offset of the next block of a wanted kind before `until`. The file stands at the payload then.
    fn next_head(&mut self, wanted: impl Fn(Kind) -> bool, until: u64) -> Result<Option<(Head, u64)>, ReadError> {
        loop {
            let at = self.at;
            if at >= until {
                return Ok(None);
            }
            let cut = match self.whole() {
                true => Err(ReadError::Damaged { at, what: "a block's length makes no sense" }),
                false => Ok(None),
            };
            if self.length - at < HEAD as u64 {
                return if self.length == at { Ok(None) } else { cut };
            }
            let mut bytes = [0; HEAD];
            self.file.read_exact(&mut bytes)?;
            let head = Head::parse(bytes, at)?;
            let end = at + (HEAD + head.payload) as u64;
            if end > self.length {
                return cut;
            }
            self.at = end;
            if wanted(head.kind) {
                return Ok(Some((head, at)));
            }
            self.file.seek_relative(head.payload as i64)?;
        }
    }
}
