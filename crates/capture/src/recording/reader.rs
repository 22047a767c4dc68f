//! Reading a recording, whole or cut short.

use super::block::{HEAD, Head, Kind};
use super::bytes::{Cursor, Nonsense};
use super::codec::{Decoder, Known};
use super::error::ReadError;
use super::summary::{self, Lines};
use super::tables;
use super::{MAGIC, TRAILER_MAGIC, VERSION};
use crate::replay::Ledger;
use mallow_profile::{Block, Event, Moment, Profile};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Tables may unpack to this, and to so many times the file's length: far more than any real ones do.
const TABLES: u64 = 16 << 20;
const TABLES_RATIO: u64 = 64;

/// Reads a recording. Of a whole one, events are passed over; of one cut short, they are counted up to the cut, and
/// the profile's ending says so.
pub fn read(path: &Path) -> Result<Profile, ReadError> {
    read_from(BufReader::new(File::open(path)?))
}

/// The events of a recording, the first one first.
pub fn events(path: &Path) -> Result<Events<BufReader<File>>, ReadError> {
    Events::new(BufReader::new(File::open(path)?))
}

/// Calls `each` with the events of a recording, the first one first, and `progress` before each of its blocks. Of a
/// recording that was cut short, these are the events that [`read`] counts.
pub fn visit(
    path: &Path,
    progress: &mut dyn FnMut(Progress),
    mut each: impl FnMut(Moment, Event),
) -> Result<(), ReadError> {
    let mut events = events(path)?;
    loop {
        match events.block(progress, &mut each) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(ReadError::Damaged { .. }) if !events.blocks.whole => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// How far a recording has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes there are.
    pub all: u64,
}

/// As [`read`], from anything.
pub fn read_from(file: impl Read + Seek) -> Result<Profile, ReadError> {
    let mut blocks = Blocks::open(file)?;
    match blocks.whole {
        true => read_whole(&mut blocks),
        false => read_cut(blocks),
    }
}

/// The blocks of a file, and the tables that they have filled.
struct Blocks<R> {
    file: R,
    length: u64,
    /// Where the next block begins.
    at: u64,
    /// The file has its trailer.
    whole: bool,
    unpacked: u64,
    ledger: Ledger,
    command: Vec<String>,
    started_unix_ms: u64,
}

impl<R: Read + Seek> Blocks<R> {
    fn open(mut file: R) -> Result<Self, ReadError> {
        let length = file.seek(SeekFrom::End(0))?;
        let mut head = [0; 16];
        file.seek(SeekFrom::Start(0))?;
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
        if found != VERSION || head[12..] != [0; 4] {
            return Err(ReadError::Damaged { at: 8, what: "the file's head makes no sense" });
        }
        let mut trailer = [0; 16];
        if length >= 32 {
            file.seek(SeekFrom::Start(length - 16))?;
            file.read_exact(&mut trailer)?;
            file.seek(SeekFrom::Start(16))?;
        }
        let whole = trailer[8..] == TRAILER_MAGIC;
        let length = if whole { length - 16 } else { length };
        Ok(Self {
            file,
            length,
            at: 16,
            whole,
            unpacked: 0,
            ledger: Ledger::default(),
            command: Vec::new(),
            started_unix_ms: 0,
        })
    }

    /// The next block that `wanted` names, with its offset; None at the end of the file, or of its last whole block.
    /// Tables and the opening are taken in on the way.
    fn next(&mut self, wanted: impl Fn(Kind) -> bool) -> Result<Option<(Kind, u64, Vec<Cursor>)>, ReadError> {
        loop {
            let at = self.at;
            let cut = match self.whole {
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
            let own = matches!(head.kind, Kind::Opening | Kind::Tables);
            if !own && !wanted(head.kind) {
                self.file.seek_relative(head.payload as i64)?;
                continue;
            }
            let mut columns = head.unpack(&mut self.file, at)?;
            if !own {
                return Ok(Some((head.kind, at, columns)));
            }
            let read = match head.kind {
                Kind::Opening => self.read_opening(&mut columns),
                _ => self.read_tables(&mut columns),
            };
            read.map_err(|Nonsense(what)| ReadError::Damaged { at, what })?;
        }
    }

    fn read_opening(&mut self, columns: &mut [Cursor]) -> Result<(), Nonsense> {
        let [column] = columns else { return Err(Nonsense("the opening has another number of columns")) };
        self.started_unix_ms = column.number()?;
        self.command.clear();
        for _ in 0..column.number()? {
            self.command.push(column.string()?);
        }
        Ok(())
    }

    fn read_tables(&mut self, columns: &mut [Cursor]) -> Result<(), Nonsense> {
        self.unpacked += columns.iter().map(|column| column.left() as u64).sum::<u64>();
        if self.unpacked > TABLES + self.length.saturating_mul(TABLES_RATIO) {
            return Err(Nonsense("tables that are too large for their file"));
        }
        tables::read(columns, &mut self.ledger)
    }
}

fn read_whole<R: Read + Seek>(blocks: &mut Blocks<R>) -> Result<Profile, ReadError> {
    let (mut counted, mut ending, mut lines) = (0, None, Lines::default());
    while let Some((kind, at, mut columns)) = blocks.next(|kind| kind != Kind::Events)? {
        let ledger = &mut blocks.ledger;
        let read = match kind {
            Kind::Counts => summary::read_counts(&mut columns, ledger, &mut counted),
            Kind::Processes => summary::read_processes(&mut columns, ledger),
            Kind::Lines => lines.read(&mut columns, ledger),
            Kind::Ending => summary::read_ending(&mut columns).map(|end| ending = Some(end)),
            Kind::Opening | Kind::Tables | Kind::Events | Kind::Index => Ok(()),
        };
        read.map_err(|Nonsense(what)| ReadError::Damaged { at, what })?;
    }
    let at = blocks.at;
    let end = ending.ok_or(ReadError::Damaged { at, what: "the ending is missing" })?;
    let sites = blocks.ledger.sites.len();
    if counted != sites || end.sites != sites as u64 {
        return Err(ReadError::Damaged { at, what: "counts of some sites are missing" });
    }
    let mut profile = std::mem::take(&mut blocks.ledger).close();
    profile.command = std::mem::take(&mut blocks.command);
    profile.started_unix_ms = blocks.started_unix_ms;
    profile.strings = lines.into_strings();
    profile.duration_ms = end.duration_ms;
    profile.ending = end.ending;
    profile.peak_ms = end.peak_ms;
    Ok(profile)
}

fn read_cut<R: Read + Seek>(blocks: Blocks<R>) -> Result<Profile, ReadError> {
    let mut events = Events { blocks, decoder: Decoder::default(), at: None, done: false };
    let mut last_ms = 0;
    let mut why = "the file ends before the recording does".to_owned();
    loop {
        match events.step() {
            Ok(Some((at, event))) => {
                last_ms = last_ms.max(at.ms);
                events.post(at, event);
            }
            Ok(None) => break,
            // What comes before the damage is as good as what comes before a cut.
            Err(error @ ReadError::Damaged { .. }) => {
                why = error.to_string();
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let Events { mut blocks, mut decoder, .. } = events;
    let ledger = &mut blocks.ledger;
    last_ms = ledger.processes.iter().fold(last_ms, |ms, process| ms.max(process.start_ms));
    for process in 0..ledger.processes.len() as u32 {
        ledger.end_process(process, last_ms, decoder.drain(process).drain());
    }
    let mut profile = blocks.ledger.close();
    profile.command = blocks.command;
    profile.started_unix_ms = blocks.started_unix_ms;
    profile.duration_ms = last_ms;
    profile.ending.cut_short = Some(why);
    Ok(profile)
}

impl Known for Ledger {
    #[inline]
    fn thread(&self, thread: u32) -> Option<u32> {
        self.threads.get(thread as usize).map(|thread| thread.process)
    }

    #[inline]
    fn site(&self, site: u32) -> Option<u32> {
        self.sites.get(site as usize).map(|site| site.process.0)
    }

    fn processes(&self) -> u32 {
        self.processes.len() as u32
    }
}

/// See [`events`]. After an error or the end there is nothing more.
pub struct Events<R> {
    blocks: Blocks<R>,
    decoder: Decoder,
    /// Offset of the block that is being read.
    at: Option<u64>,
    done: bool,
}

impl<R: Read + Seek> Events<R> {
    /// As [`events`], from anything.
    pub fn new(file: R) -> Result<Self, ReadError> {
        Ok(Self { blocks: Blocks::open(file)?, decoder: Decoder::default(), at: None, done: false })
    }

    /// What the file has told so far about modules, frames, stacks, threads, processes and sites.
    pub fn tables(&self) -> &Ledger {
        &self.blocks.ledger
    }

    /// Visits the next block; false at the end.
    fn block(
        &mut self,
        progress: &mut dyn FnMut(Progress),
        each: &mut impl FnMut(Moment, Event),
    ) -> Result<bool, ReadError> {
        progress(Progress { done: self.blocks.at, all: self.blocks.length });
        let Some((_, at, columns)) = self.blocks.next(|kind| kind == Kind::Events)? else { return Ok(false) };
        let damaged = |Nonsense(what)| ReadError::Damaged { at, what };
        self.decoder.begin(columns).map_err(damaged)?;
        while let Some((at, event)) = self.decoder.next(&self.blocks.ledger).map_err(damaged)? {
            if event == Event::EndProcess {
                drop(self.decoder.drain(at.process));
            }
            each(at, event);
        }
        Ok(true)
    }

    fn step(&mut self) -> Result<Option<(Moment, Event)>, ReadError> {
        loop {
            if let Some(at) = self.at {
                let next = self.decoder.next(&self.blocks.ledger);
                if let Some(event) = next.map_err(|Nonsense(what)| ReadError::Damaged { at, what })? {
                    return Ok(Some(event));
                }
            }
            let Some((_, at, columns)) = self.blocks.next(|kind| kind == Kind::Events)? else { return Ok(None) };
            self.at = Some(at);
            self.decoder.begin(columns).map_err(|Nonsense(what)| ReadError::Damaged { at, what })?;
        }
    }

    /// Posts an event in the books.
    fn post(&mut self, at: Moment, event: Event) {
        let ledger = &mut self.blocks.ledger;
        match event {
            Event::Allocate(call) => {
                ledger.allocate(at, call);
            }
            Event::Reallocate { call, old, moved } => {
                ledger.reallocate(at, old.as_ref(), call, moved);
            }
            Event::Free(block) => ledger.free(at, block.as_ref()),
            Event::ReallocFree(block) => ledger.realloc_free(at, block.as_ref()),
            Event::UnseenFree(block) => ledger.unseen_free(at, &block),
            Event::EndProcess => {
                let live: Vec<Block> = self.decoder.drain(at.process).drain().collect();
                ledger.end_process(at.process, at.ms, live.into_iter());
            }
        }
    }
}

impl<R: Read + Seek> Iterator for Events<R> {
    type Item = Result<(Moment, Event), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.step().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}
