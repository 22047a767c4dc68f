//! The spool: what the drain saw, in a file, word for word. It decouples the rings, which must be emptied at once, from
//! the replay, which may take its time; and it outlives mallow.
//!
//! ```text
//! a chunk:  | "MALSPOOL" ^ kind | process | a | b | c | payload words | payload … |      8-byte little-endian words
//!
//! kind 1 Process     payload: the strings and numbers of ProcessStart, padded with zeros
//! kind 2 Module      payload: those of ModuleStart
//! kind 3 Words       a: ring, b: position in the ring after the last word, c: words before the ring's end, which may
//!                    close with PAD; payload: the words, as they lay in the ring
//! kind 4 Round       a: ms
//! kind 5 ProcessEnd  a: ms, b: lost
//! kind 6 Exit        a: ExitKind
//! kind 7 ThreadName  a: thread; payload: its name
//! kind 8 Memory      a: 1 for the last part of a reading; payload: its words
//! kind 9 Rss         a: ms, b: bytes; payload: the highest so far
//! kind 10 SizeClasses  payload: usable sizes
//! kind 11 FinalRss   a: ms, b: bytes
//! kind 12 Reading    a: its number, b: 1 at its end; payload: positions of rings
//! kind 13 ExitWait   a: ms
//! kind 14 TableWait  a: ms, b: tables that came too late
//! kind 15 Arguments  payload: how many, and each of them
//! ```

use crate::chunk::{Chunk, ExitKind, ModuleStart, ProcessStart};
use crate::wire::Segment;
use crate::wire::record::drop_pad;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const TAG: u64 = u64::from_le_bytes(*b"MALSPOOL");
const HEADER_WORDS: usize = 6;
/// Most words in a chunk's payload: those of the largest ring.
const PAYLOAD_MOST: u64 = 1 << 20;
/// What is left of the disk for the recording: this share of the spool, and so many bytes at the least.
const RECORDING_SHARE: u64 = 8;
const RECORDING_LEAST: u64 = 64 << 10;

/// Whether a file is empty, or begins as a spool does.
pub fn is_spool(file: &File) -> bool {
    let mut first = [0; 8];
    match file.read_at(&mut first, 0) {
        Ok(0) => true,
        Ok(8) => matches!(u64::from_le_bytes(first) ^ TAG, 1..=15),
        _ => false,
    }
}

pub struct SpoolWriter {
    file: File,
    written: u64,
    /// Bytes of spool up to which the disk is not asked again how much room it has.
    room: u64,
}

impl SpoolWriter {
    /// Begins a spool in an empty file.
    pub fn new(file: File) -> Self {
        Self { file, written: 0, room: 0 }
    }

    /// Bytes of whole chunks in the file.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends a chunk. On an error the file ends in a partial chunk, at which readers stop.
    pub fn append(&mut self, chunk: &Chunk) -> io::Result<()> {
        let mut payload = Payload::default();
        let (kind, process, a, b) = match chunk {
            Chunk::Process(p) => {
                payload.numbers(&[
                    p.pid.into(),
                    p.parent_pid.into(),
                    p.serial.into(),
                    u64::from(p.forked) | u64::from(p.attached) << 1,
                    p.start_ms,
                    p.settings.into(),
                ]);
                payload.bytes(p.executable.as_bytes());
                payload.words(&p.arguments);
                (1, p.process, 0, 0)
            }
            Chunk::Module(m) => {
                payload.numbers(&[m.start, m.end, m.base_svma, m.generation.into()]);
                payload.bytes(&m.build_id);
                payload.bytes(m.path.as_bytes());
                (2, m.process, 0, 0)
            }
            Chunk::Words { process, ring, end, words } => {
                return self.append_words(*process, *ring, *end, [Segment::of(words), Segment::of(&[])]);
            }
            Chunk::Round { ms } => (4, 0, *ms, 0),
            Chunk::ProcessEnd { process, ms, lost } => (5, *process, *ms, *lost),
            Chunk::ExitWait { process, ms } => (13, *process, *ms, 0),
            Chunk::TableWait { process, ms, late } => (14, *process, *ms, *late),
            Chunk::Arguments { process, words } => {
                payload.words(words);
                (15, *process, 0, 0)
            }
            Chunk::ThreadName { process, tid, name } => {
                payload.bytes(name.as_bytes());
                (7, *process, u64::from(*tid), 0)
            }
            Chunk::Exit { process, kind } => (6, *process, *kind as u64, 0),
            Chunk::Reading { process, number, is_end, heads } => {
                payload.numbers(heads);
                (12, *process, *number, u64::from(*is_end))
            }
            Chunk::Memory { process, is_last, words } => {
                payload.numbers(words);
                (8, *process, u64::from(*is_last), 0)
            }
            Chunk::SizeClasses { process, usable } => {
                payload.numbers(usable);
                (10, *process, 0, 0)
            }
            Chunk::Rss { process, ms, rss, peak, heads } => {
                payload.numbers(&[*peak]);
                payload.numbers(heads);
                (9, *process, *ms, *rss)
            }
            Chunk::FinalRss { process, ms, peak } => (11, *process, *ms, *peak),
        };
        let header = [TAG ^ kind, process.into(), a, b, 0, payload.0.len() as u64];
        self.write([Segment::of(&header), Segment::of(&payload.0), Segment::of(&[])])
    }

    /// Appends the words of a ring that end at `position`, straight from the ring: the kernel copies them, once.
    pub fn append_words(&mut self, process: u32, ring: u32, position: u64, words: [Segment; 2]) -> io::Result<()> {
        let [first, second] = words;
        let before_end = first.bytes() as u64 / 8;
        let count = before_end + second.bytes() as u64 / 8;
        let header = [TAG ^ 3, process.into(), ring.into(), position, before_end, count];
        self.write([Segment::of(&header), first, second])
    }

    /// Whether the disk has room for so many words more: asked before what the recording can do without.
    pub fn fits(&mut self, words: usize) -> bool {
        let bytes = 8 * words as u64;
        self.written + bytes <= self.room || self.ask_for_room(bytes).is_ok()
    }

    fn write(&mut self, parts: [Segment; 3]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(Segment::bytes).sum();
        if self.written + bytes as u64 > self.room {
            self.ask_for_room(bytes as u64)?;
        }
        let mut done = 0;
        while done < bytes {
            let mut skip = done;
            let vectors = parts.map(|part| {
                let vector = part.iovec(skip);
                skip -= skip.min(part.bytes());
                vector
            });
            // SAFETY: each vector lies in memory that `parts` borrows; the kernel only reads it, and reports an error
            // where it cannot.
            let wrote = unsafe { libc::writev(self.file.as_raw_fd(), vectors.as_ptr(), vectors.len() as i32) };
            match wrote {
                0 => return Err(io::Error::from(io::ErrorKind::WriteZero)),
                1.. => done += wrote as usize,
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        self.written += bytes as u64;
        Ok(())
    }
}

impl SpoolWriter {
    /// Fails while there is still room for the recording, which may share the disk: a spool without one is of no use.
    fn ask_for_room(&mut self, bytes: u64) -> io::Result<()> {
        let Ok(disk) = rustix::fs::fstatvfs(&self.file) else {
            self.room = u64::MAX;
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let kept = ((self.written + bytes) / RECORDING_SHARE).max(RECORDING_LEAST);
        let Some(left) = free.checked_sub(kept).filter(|&left| left >= bytes) else {
            let what = "the disk is nearly full, and the rest is for the recording";
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        };
        // Others write to the disk, too.
        self.room = self.written + bytes.max(left / 4);
        Ok(())
    }
}

/// Words with counted bytes in between.
#[derive(Default)]
struct Payload(Vec<u64>);

impl Payload {
    fn numbers(&mut self, numbers: &[u64]) {
        self.0.extend_from_slice(numbers);
    }

    fn words(&mut self, words: &[String]) {
        self.0.push(words.len() as u64);
        words.iter().for_each(|word| self.bytes(word.as_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(bytes.len() as u64);
        self.0.extend(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
    }
}

/// Reads what [`Payload`] wrote. None: it is damaged.
struct Fields<'a>(&'a [u64]);

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (words, rest) = self.0.split_at_checked(length.div_ceil(8))?;
        self.0 = rest;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length);
        Some(bytes)
    }

    fn words(&mut self) -> Option<Vec<String>> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }
}

/// Reads a spool, also while it grows.
pub struct SpoolReader {
    file: File,
    at: u64,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl SpoolReader {
    /// Reads from the start of `file`.
    pub fn new(file: File) -> Self {
        Self { file, at: 0, words: Vec::new(), bytes: Vec::new() }
    }

    /// Bytes of whole chunks read.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Hands the next chunk below file offset `end` to `feed`, with its end in the ring if it is of Words, otherwise
    /// with 0. False: there is no whole chunk below `end`, or what is there is no chunk.
    pub fn next(&mut self, end: u64, feed: impl FnOnce(&Chunk, u64) -> io::Result<()>) -> io::Result<bool> {
        let mut header = [0u64; HEADER_WORDS];
        let header_bytes = 8 * HEADER_WORDS as u64;
        if self.at + header_bytes > end {
            return Ok(false);
        }
        let mut raw = [0u8; 8 * HEADER_WORDS];
        if !self.read(&mut raw, self.at)? {
            return Ok(false);
        }
        for (word, bytes) in header.iter_mut().zip(raw.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let [tag, process, a, b, c, count] = header;
        if count > PAYLOAD_MOST || self.at + header_bytes + 8 * count > end {
            return Ok(false);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(8 * count as usize, 0);
        let whole = self.read(&mut bytes, self.at + header_bytes);
        self.words.clear();
        self.words.extend(bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default())));
        self.bytes = bytes;
        if !whole? {
            return Ok(false);
        }
        if tag ^ TAG == 3 {
            drop_pad(&mut self.words, 0, usize::try_from(c).unwrap_or(usize::MAX).min(count as usize));
        }
        let Some(chunk) = decode(tag ^ TAG, process, a, b, &self.words) else { return Ok(false) };
        feed(&chunk, if matches!(chunk, Chunk::Words { .. }) { b } else { 0 })?;
        self.at += header_bytes + 8 * count;
        Ok(true)
    }

    fn read(&self, to: &mut [u8], at: u64) -> io::Result<bool> {
        match self.file.read_exact_at(to, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn decode(kind: u64, process: u64, a: u64, b: u64, words: &[u64]) -> Option<Chunk<'_>> {
    let process = u32::try_from(process).ok()?;
    let mut fields = Fields(words);
    Some(match kind {
        1 => Chunk::Process({
            let [pid, parent_pid, serial] = [fields.small()?, fields.small()?, fields.small()?];
            let origin = fields.number()?;
            ProcessStart {
                process,
                pid,
                parent_pid,
                serial,
                forked: origin & 1 != 0,
                attached: origin & 2 != 0,
                start_ms: fields.number()?,
                settings: fields.small()?,
                executable: fields.text()?,
                arguments: fields.words()?,
            }
        }),
        2 => Chunk::Module(ModuleStart {
            process,
            start: fields.number()?,
            end: fields.number()?,
            base_svma: fields.number()?,
            generation: fields.small()?,
            build_id: fields.bytes()?,
            path: fields.text()?,
        }),
        3 => Chunk::Words { process, ring: u32::try_from(a).ok()?, end: b, words },
        4 => Chunk::Round { ms: a },
        5 => Chunk::ProcessEnd { process, ms: a, lost: b },
        6 => Chunk::Exit { process, kind: *ExitKind::ALL.get(usize::try_from(a).ok()?)? },
        7 => Chunk::ThreadName { process, tid: u32::try_from(a).ok()?, name: fields.text()? },
        8 => Chunk::Memory { process, is_last: a != 0, words },
        10 => Chunk::SizeClasses { process, usable: words },
        9 => {
            let (&peak, heads) = words.split_first()?;
            Chunk::Rss { process, ms: a, rss: b, peak, heads }
        }
        11 => Chunk::FinalRss { process, ms: a, peak: b },
        12 => Chunk::Reading { process, number: a, is_end: b != 0, heads: words },
        13 => Chunk::ExitWait { process, ms: a },
        14 => Chunk::TableWait { process, ms: a, late: b },
        15 => Chunk::Arguments { process, words: fields.words()? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::record::{FLAG_SAME, OP_ALLOC, OP_FREE, OP_PAD, OP_THREAD, head};

    fn spool(chunks: &[Chunk]) -> File {
        let file = tempfile::tempfile().unwrap();
        let mut writer = SpoolWriter::new(file.try_clone().unwrap());
        for (i, chunk) in chunks.iter().enumerate() {
            match chunk {
                Chunk::Words { process, ring, words, .. } => {
                    // As they lie in a ring that ends after a PAD record and a word that is not used.
                    let before = [words[0], head(OP_PAD, 0, 0), 99];
                    let segments = [Segment::of(&before), Segment::of(&words[1..])];
                    writer.append_words(*process, *ring, i as u64, segments).unwrap();
                }
                other => writer.append(other).unwrap(),
            }
        }
        file
    }

    const WORDS: &[u64] = &[head(OP_ALLOC, FLAG_SAME, 4096), head(OP_FREE, 0, 8192), head(OP_THREAD, 0, 0)];

    fn sample() -> Vec<Chunk<'static>> {
        vec![
            Chunk::Process(ProcessStart {
                process: 3,
                pid: 42,
                parent_pid: 1,
                serial: 2,
                forked: true,
                attached: true,
                start_ms: 9,
                settings: 1,
                executable: "/bin/true".into(),
                arguments: vec!["true".into(), String::new(), "é".into()],
            }),
            Chunk::Module(ModuleStart {
                process: 3,
                start: 4096,
                end: 8192,
                base_svma: 0x40_0000,
                generation: 1,
                build_id: vec![1, 2, 3],
                path: "/lib/x.so".into(),
            }),
            Chunk::Words { process: 3, ring: 7, end: 2, words: WORDS },
            Chunk::Round { ms: 12 },
            Chunk::Exit { process: 3, kind: ExitKind::GaveUp },
            Chunk::Arguments { process: 3, words: vec!["true".into(), "é".into()] },
            Chunk::ThreadName { process: 3, tid: 44, name: "worker".into() },
            Chunk::Memory { process: 3, is_last: true, words: WORDS },
            Chunk::Rss { process: 3, ms: 12, rss: 1 << 40, peak: 1 << 41, heads: &[9, 1 << 50] },
            Chunk::FinalRss { process: 3, ms: 13, peak: 1 << 42 },
            Chunk::Reading { process: 3, number: 4, is_end: true, heads: &[5, 1 << 50] },
            Chunk::SizeClasses { process: 3, usable: &[8, 16] },
            Chunk::ExitWait { process: 3, ms: 12 },
            Chunk::TableWait { process: 3, ms: 7, late: 2 },
            Chunk::ProcessEnd { process: 3, ms: 13, lost: 5 },
        ]
    }

    #[test]
    fn chunks_come_back_as_they_were() {
        let chunks = sample();
        let file = spool(&chunks);
        let end = file.metadata().unwrap().len();
        let mut reader = SpoolReader::new(file);
        for (i, expected) in chunks.iter().enumerate() {
            let more = reader.next(end, |chunk, position| {
                assert_eq!(chunk, expected);
                assert_eq!(position, if matches!(chunk, Chunk::Words { .. }) { i as u64 } else { 0 });
                Ok(())
            });
            assert!(more.unwrap());
        }
        assert!(!reader.next(end, |_, _| Ok(())).unwrap());
    }

    #[test]
    fn a_spool_cut_anywhere_gives_the_chunks_before_the_cut() {
        let whole = spool(&sample());
        let end = whole.metadata().unwrap().len();
        let mut before = 0;
        for cut in 0..end {
            let file = spool(&sample());
            file.set_len(cut).unwrap();
            let mut reader = SpoolReader::new(file);
            let mut count = 0;
            while reader.next(end, |_, _| Ok(())).unwrap() {
                count += 1;
            }
            assert!(count == before || count == before + 1, "cut {cut}: {count} after {before}");
            before = count;
        }
        assert_eq!(before, sample().len() - 1);
    }
}
