//! What a recording carries so that it can be read on another machine: functions and lines of frames, what was found
//! when they were looked up, and the sources that they are in.
//!
//! | block | columns |
//! | --- | --- |
//! | lines | 0: how many frames; 1: new strings; 2: for each frame its number − that of the one before, how many lines, and for each line function, file + 1 or 0, line; then names of functions with the same code + 1 or 0; where there are no lines, how far its function begins before it |
//! | names | 0: frames in no module, those with a name; for each module its number, what was found as a number and words, debug file, notes, frames, named, located, remedy |
//! | sources | 0: how many pieces; 1: for each piece 1 if it goes on with the one before, else 0, name, path, when written; 2: bytes |
//!
//! Blocks are split by size: one name may have 32 kB, and a generated source 10 MB.

use super::block::COLUMN;
use super::budget::{Budget, STRING};
use super::bytes::{Cursor, Nonsense, put, put_bytes};
use crate::accounts::Ledger;
use mallow_profile::{Frame, Line, ModuleId, ModuleSummary, NameSource, Note, Profile, StringId, Strings, Summary};
use std::path::{Path, PathBuf};

/// Most frames of one block of lines.
const FRAMES: u64 = 1 << 14;
/// Bytes of memory for each byte of lines: a frame of one line has 6 bytes, and a list with room for four.
const LINE: u64 = 12;
/// Bytes of memory for each byte of heads of sources: one with the shortest names has 6.
const SOURCE: u64 = 32;
/// A block is written once a column has more bytes than this.
const FULL: usize = COLUMN / 2;

/// Writes the columns of one block.
pub type Put<'a> = &'a mut dyn FnMut(&[Vec<u8>]) -> std::io::Result<()>;

/// Writes blocks of the lines of those frames that have any, or whose function's beginning is known. Strings are
/// numbered as they first appear in these blocks.
pub fn write_lines(profile: &Profile, write: Put) -> std::io::Result<()> {
    let mut numbers = rustc_hash::FxHashMap::default();
    let mut columns = vec![Vec::new(); 3];
    let (mut frames, mut before) = (0, 0);
    let mut entry = Vec::new();
    let is_known = |frame: &Frame| !frame.lines.is_empty() || frame.start.is_some();
    for (number, frame) in profile.frames.iter().enumerate().filter(|(_, frame)| is_known(frame)) {
        let mut reference = |id: StringId, columns: &mut Vec<Vec<u8>>, frames: &mut u64| {
            let next = numbers.len() as u64;
            if let Some(&known) = numbers.get(&id) {
                return Ok(known);
            }
            numbers.insert(id, next);
            let text = profile.strings.get(id).as_bytes();
            if columns[1].len() + text.len() > FULL {
                write_frames(columns, frames, write)?;
            }
            put_bytes(&mut columns[1], text);
            std::io::Result::Ok(next)
        };
        entry.clear();
        put(&mut entry, (number - before) as u64);
        before = number;
        put(&mut entry, frame.lines.len() as u64);
        for line in &frame.lines {
            put(&mut entry, reference(line.function, &mut columns, &mut frames)?);
            let file = line.file.map(|file| reference(file, &mut columns, &mut frames)).transpose()?;
            put(&mut entry, file.map_or(0, |file| file + 1));
            put(&mut entry, line.line.into());
        }
        if !frame.lines.is_empty() {
            let folded = frame.folded.map(|names| reference(names, &mut columns, &mut frames)).transpose()?;
            put(&mut entry, folded.map_or(0, |names| names + 1));
        } else {
            put(&mut entry, frame.address.wrapping_sub(frame.start.unwrap_or_default()));
        }
        columns[2].extend_from_slice(&entry);
        frames += 1;
        if frames == FRAMES || columns[2].len() > FULL {
            write_frames(&mut columns, &mut frames, write)?;
        }
    }
    if columns[1].is_empty() && frames == 0 { Ok(()) } else { write_frames(&mut columns, &mut frames, write) }
}

fn write_frames(columns: &mut [Vec<u8>], frames: &mut u64, write: Put) -> std::io::Result<()> {
    put(&mut columns[0], *frames);
    write(columns)?;
    *frames = 0;
    columns.iter_mut().for_each(Vec::clear);
    Ok(())
}

/// Lines as they are read: ids of strings by their number in the file, and the number of the last frame.
#[derive(Debug, Default)]
pub struct Lines {
    strings: Strings,
    numbers: Vec<StringId>,
    frame: u64,
}

impl Lines {
    /// Sets the lines of frames from one block.
    pub fn read(&mut self, columns: &mut [Cursor], ledger: &mut Ledger, budget: &mut Budget) -> Result<(), Nonsense> {
        let [count, strings, frames] = columns else {
            return Err(Nonsense("a block of lines has another number of columns"));
        };
        budget.take(frames.left() as u64 * LINE)?;
        while !strings.is_empty() {
            let (text, known) = (strings.string()?, self.strings.len());
            self.numbers.push(self.strings.intern(&text));
            // A new string is there twice: in the list, and as a key of the table that finds it.
            let is_new = self.strings.len() > known;
            budget.take(if is_new { 8 + 2 * (STRING + text.len() as u64) } else { 8 })?;
        }
        let known = |number: u64| self.numbers.get(number as usize).copied().ok_or(Nonsense("no such string"));
        for _ in 0..count.number()? {
            self.frame = self.frame.checked_add(frames.number()?).ok_or(Nonsense("no such frame"))?;
            let frame = usize::try_from(self.frame).ok().and_then(|frame| ledger.catalog.frames.get_mut(frame));
            let frame = frame.ok_or(Nonsense("no such frame"))?;
            let lines = frames.number()?;
            if lines == 0 {
                frame.start = Some(frame.address.wrapping_sub(frames.number()?));
            }
            for _ in 0..lines {
                let function = known(frames.number()?)?;
                let file = match frames.number()? {
                    0 => None,
                    file => Some(known(file - 1)?),
                };
                frame.lines.push(Line { function, file, line: frames.small()? });
            }
            if lines > 0 {
                frame.folded = match frames.number()? {
                    0 => None,
                    folded => Some(known(folded - 1)?),
                };
            }
        }
        Ok(())
    }

    pub fn into_strings(self) -> Strings {
        self.strings
    }
}

/// Writes blocks of what was found: one at least, which says that names were looked up.
pub fn write_names(names: &Summary, write: Put) -> std::io::Result<()> {
    let begin = || {
        let mut column = Vec::new();
        put(&mut column, names.without_module.into());
        put(&mut column, names.without_module_named.into());
        column
    };
    let mut column = begin();
    for (index, module) in names.modules.iter().enumerate() {
        write_module(&mut column, module);
        if column.len() > FULL && index + 1 < names.modules.len() {
            write(&[std::mem::replace(&mut column, begin())])?;
        }
    }
    write(&[column])
}

fn write_module(out: &mut Vec<u8>, module: &ModuleSummary) {
    let text = |out: &mut Vec<u8>, text: &str| put_bytes(out, clip(text).as_bytes());
    let path = |out: &mut Vec<u8>, path: &Path| text(out, &path.to_string_lossy());
    put(out, module.module.0.into());
    let (kind, words): (u8, &[u8]) = match &module.found {
        NameSource::DebugInformation => (0, b""),
        NameSource::SymbolTable => (1, b""),
        NameSource::DynamicSymbols => (2, b""),
        NameSource::Nothing => (3, b""),
        NameSource::FileGone(why) => (4, clip(why).as_bytes()),
        NameSource::BuildIdDiffers { now } => (5, now),
        NameSource::Unreadable(why) => (6, clip(why).as_bytes()),
        NameSource::WrittenSince => (7, b""),
    };
    put(out, kind.into());
    put_bytes(out, words);
    path(out, module.debug_file.as_deref().unwrap_or(Path::new("")));
    put(out, module.notes.len() as u64);
    for note in &module.notes {
        let (kind, of): (u8, &Path) = match note {
            Note::DebugFileMissing(of) => (0, of),
            Note::DebugFileDiffers(of) => (1, of),
            Note::SupplementaryMissing(of) => (2, of),
            Note::SplitMissing(of) => (3, of),
            Note::Damaged(why) => (4, Path::new(why)),
        };
        put(out, kind.into());
        path(out, of);
    }
    for number in [module.frames, module.named, module.located] {
        put(out, number.into());
    }
    text(out, module.remedy.as_deref().unwrap_or(""));
}

/// The first 4 kB of a text: no path or message is longer, unless somebody made it so.
fn clip(text: &str) -> &str {
    let end = (0..=text.len().min(4096)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Adds the summaries of one block.
pub fn read_names(columns: &mut [Cursor], ledger: &Ledger, names: &mut Option<Summary>) -> Result<(), Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of names has another number of columns")) };
    let names = names.get_or_insert_default();
    names.without_module = column.small()?;
    names.without_module_named = column.small()?;
    while !column.is_empty() {
        names.modules.push(read_module(column, ledger.catalog.modules.len())?);
    }
    Ok(())
}

fn read_module(column: &mut Cursor, modules: usize) -> Result<ModuleSummary, Nonsense> {
    let some = |text: String| (!text.is_empty()).then_some(text);
    let module = ModuleId(column.small()?);
    if module.0 as usize >= modules {
        return Err(Nonsense("no such module"));
    }
    let kind = column.number()?;
    let words = column.bytes()?.to_vec();
    let text = |words: Vec<u8>| String::from_utf8_lossy(&words).into_owned();
    let found = match kind {
        0 => NameSource::DebugInformation,
        1 => NameSource::SymbolTable,
        2 => NameSource::DynamicSymbols,
        3 => NameSource::Nothing,
        4 => NameSource::FileGone(text(words)),
        5 => NameSource::BuildIdDiffers { now: words },
        6 => NameSource::Unreadable(text(words)),
        7 => NameSource::WrittenSince,
        _ => return Err(Nonsense("names were found in no known way")),
    };
    let debug_file = some(column.string()?).map(PathBuf::from);
    let mut notes = Vec::new();
    for _ in 0..column.number()? {
        let (kind, of) = (column.number()?, column.string()?);
        notes.push(match kind {
            0 => Note::DebugFileMissing(of.into()),
            1 => Note::DebugFileDiffers(of.into()),
            2 => Note::SupplementaryMissing(of.into()),
            3 => Note::SplitMissing(of.into()),
            4 => Note::Damaged(of),
            _ => return Err(Nonsense("a note of no known kind")),
        });
    }
    let [frames, named, located] = [column.small()?, column.small()?, column.small()?];
    Ok(ModuleSummary { module, found, debug_file, notes, frames, named, located, remedy: some(column.string()?) })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// The file's name in the lines of frames.
    pub name: String,
    /// Path of the file that the text was read from.
    pub path: String,
    /// When the file was written last, in milliseconds since 1970 UTC.
    pub written_unix_ms: u64,
    pub text: Vec<u8>,
}

pub fn write_sources(sources: &mut dyn Iterator<Item = SourceFile>, write: Put) -> std::io::Result<()> {
    let mut columns = vec![Vec::new(); 3];
    let mut pieces = 0;
    for source in sources {
        let mut rest = &source.text[..];
        let mut first = true;
        while first || !rest.is_empty() {
            put(&mut columns[1], u64::from(!first));
            if first {
                put_bytes(&mut columns[1], clip(&source.name).as_bytes());
                put_bytes(&mut columns[1], clip(&source.path).as_bytes());
                put(&mut columns[1], source.written_unix_ms);
            }
            let (piece, more) = rest.split_at(rest.len().min(FULL - columns[2].len().min(FULL)));
            put_bytes(&mut columns[2], piece);
            (rest, first) = (more, false);
            pieces += 1;
            if columns[1].len() > FULL || columns[2].len() >= FULL {
                write_frames(&mut columns, &mut pieces, write)?;
            }
        }
    }
    if pieces == 0 { Ok(()) } else { write_frames(&mut columns, &mut pieces, write) }
}

/// Adds the sources of a block; its first piece may go on with the last of `sources`.
pub fn read_sources(
    columns: &mut [Cursor],
    sources: &mut Vec<SourceFile>,
    budget: &mut Budget,
) -> Result<(), Nonsense> {
    let [count, heads, texts] = columns else {
        return Err(Nonsense("a block of sources has another number of columns"));
    };
    budget.take(heads.left() as u64 * SOURCE + texts.left() as u64)?;
    for _ in 0..count.number()? {
        if heads.number()? == 0 {
            let (name, path, written_unix_ms) = (heads.string()?, heads.string()?, heads.number()?);
            sources.push(SourceFile { name, path, written_unix_ms, text: Vec::new() });
        }
        let source = sources.last_mut().ok_or(Nonsense("a piece of no source"))?;
        source.text.extend_from_slice(texts.bytes()?);
    }
    Ok(())
}
