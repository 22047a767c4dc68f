//! Reading a recording, whole or cut short.

use super::attachments::{self, Lines};
use super::block::Kind;
use super::blocks::{Block, Blocks, Progress};
use super::budget::{Budget, STRING};
use super::bytes::{Cursor, Nonsense};
use super::choice::Choice;
use super::decoder::{Decoder, Known};
use super::error::ReadError;
use super::index::{self, BlockSummary};
use super::live_blocks::LiveBlocks;
use super::summary;
use super::tables::{self, SiteSet};
use super::{allocators, arguments, programs, regions, scans};
use crate::accounts::{Ledger, Options};
use crate::footprint::columns;
use mallow_profile::{Event, Footprint, Mapping, Moment, Profile};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

pub fn read(path: &Path) -> Result<Profile, ReadError> {
    Ok(Reader::open(path, &mut |_| {})?.1)
}

/// A recording that has been read once, and can be asked for its events.
#[derive(Debug)]
pub struct Reader<R = File> {
    pub(super) blocks: Blocks<R>,
    pub(super) known: Known,
    /// Offset in the file up to which its blocks make sense.
    pub(super) end: u64,
    /// The recording's index of the blocks of events; empty where it has none.
    pub(super) index: Vec<BlockSummary>,
}

impl Reader {
    /// Opens a recording, and reads all but the events of a whole one. The events of one that was cut short are counted
    /// up to the cut, and the profile's ending says so.
    pub fn open(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(Self, Profile), ReadError> {
        Self::new(File::open(path)?, progress)
    }

    /// A second reader of the same recording, whose file is at this path, to read events while the first one is in use.
    /// What the first one knows is not read again.
    pub fn reopen(&self, path: &Path) -> Result<Self, ReadError> {
        let blocks = Blocks::open(File::open(path)?)?;
        if blocks.length() != self.blocks.length() || blocks.index_at() != self.blocks.index_at() {
            return Err(ReadError::Damaged { at: 0, what: "the file was replaced by another one" });
        }
        Ok(Self { blocks, known: self.known.clone(), end: self.end, index: self.index.clone() })
    }
}

impl<R: Read + Seek> Reader<R> {
    /// [`Reader::open`] from anything.
    pub fn new(file: R, progress: &mut dyn FnMut(Progress)) -> Result<(Self, Profile), ReadError> {
        let blocks = Blocks::open(file)?;
        let mut reader = Self { end: blocks.length(), blocks, known: Known::default(), index: Vec::new() };
        let profile = match reader.blocks.whole() {
            true => reader.read_whole()?,
            false => reader.read_cut(progress)?,
        };
        Ok((reader, profile))
    }

    /// Calls `each` with the chosen events in the order of the file, and `progress` now and then. Of a recording that
    /// was cut short, these are the events that its profile counts.
    pub fn visit(
        &mut self,
        chosen: &mut Choice,
        progress: &mut dyn FnMut(Progress),
        mut each: impl FnMut(Moment, Event),
    ) -> Result<(), ReadError> {
        self.visit_by_clock(chosen, progress, |_, at, event| each(at, event))
    }

    /// [`Reader::visit`] with the clock of the recording, in milliseconds: the latest time so far, of events that are
    /// not chosen, too. Peaks are dated by it.
    pub fn visit_by_clock(
        &mut self,
        chosen: &mut Choice,
        progress: &mut dyn FnMut(Progress),
        mut each: impl FnMut(u64, Moment, Event),
    ) -> Result<(), ReadError> {
        self.visit_numbered(chosen, progress, |clock, _, at, event| each(clock, at, event))
    }

    /// [`Reader::visit_by_clock`] with the number of allocations before the event, chosen or not: the number of the
    /// block that an allocation makes, as [`mallow_profile::Block::sequence`] has it.
    pub fn visit_numbered(
        &mut self,
        chosen: &mut Choice,
        progress: &mut dyn FnMut(Progress),
        each: impl FnMut(u64, u64, Moment, Event),
    ) -> Result<(), ReadError> {
        self.visit_until(chosen, progress, || false, each)
    }

    /// [`Reader::visit_numbered`] up to where `enough` says yes: it is asked before each block of events, which has
    /// 65,536 of them at most.
    pub fn visit_until(
        &mut self,
        chosen: &mut Choice,
        progress: &mut dyn FnMut(Progress),
        enough: impl Fn() -> bool,
        mut each: impl FnMut(u64, u64, Moment, Event),
    ) -> Result<(), ReadError> {
        let mut clock = 0;
        chosen.rewind();
        let mut decoder = Decoder::default();
        self.pass(
            &mut decoder,
            progress,
            |_, _| enough(),
            chosen,
            |chosen, _, at, event| {
                clock = at.ms.max(clock);
                let number = chosen.sequence();
                if let Some((at, event)) = chosen.event(at, event) {
                    each(clock, number, at, event);
                }
            },
        )?;
        Ok(())
    }

    /// Calls `each` with all events. Before each block of these, `enough` is asked with the earliest time from there
    /// on, None where it is not known; where it says yes, that time is returned.
    pub(super) fn pass<T>(
        &mut self,
        decoder: &mut Decoder,
        progress: &mut dyn FnMut(Progress),
        enough: impl Fn(&T, Option<u64>) -> bool,
        with: &mut T,
        mut each: impl FnMut(&mut T, &mut LiveBlocks, Moment, Event),
    ) -> Result<Option<u64>, ReadError> {
        self.blocks.rewind()?;
        let earliest = index::earliest(&self.index);
        let mut number = 0;
        while let Some(mut block) = self.events(progress)? {
            let from = earliest.get(number).filter(|&&(at, _)| at == block.at).map(|&(_, from)| from);
            number += 1;
            if enough(with, from) {
                return Ok(from);
            }
            let decoded = decode(decoder, &self.known, &mut block, |living, at, event| each(with, living, at, event));
            if !self.readable(decoded)? {
                break;
            }
        }
        Ok(None)
    }

    /// The next block of events; None at the end, or at the damage of a recording that was cut short.
    fn events(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Option<Block>, ReadError> {
        progress(self.blocks.progress());
        let next = self.blocks.next(|kind| kind == Kind::Events);
        match next {
            Err(ReadError::Damaged { .. }) if !self.blocks.whole() => Ok(None),
            next => next,
        }
    }

    /// Whether to read on; false at the damage in a recording that was cut short: what comes before it is as good as
    /// what comes before a cut.
    fn readable(&self, decoded: Result<(), ReadError>) -> Result<bool, ReadError> {
        match decoded {
            Err(ReadError::Damaged { .. }) if !self.blocks.whole() => Ok(false),
            decoded => decoded.map(|()| true),
        }
    }

    fn read_whole(&mut self) -> Result<Profile, ReadError> {
        let mut contents = Contents::new(self.blocks.length());
        let (mut counted, mut watched, mut ending, mut lines, mut names) = (0, 0, None, Lines::default(), None);
        let (mut runs, mut custom_allocators, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let (mut unrecorded, mut thread_names, mut inside) = (Vec::new(), Vec::new(), Vec::new());
        let (mut series, mut classes) = (Vec::new(), Vec::new());
        let wanted = |kind| {
            let of_footprints = matches!(kind, Kind::Pages | Kind::Kept | Kind::PlacedBlocks);
            !of_footprints && !matches!(kind, Kind::Events | Kind::Sources | Kind::LostBlocks)
        };
        while let Some(Block { kind, at, mut columns }) = self.blocks.next(wanted)? {
            let damaged = |Nonsense(what)| ReadError::Damaged { at, what };
            contents.admit(kind, &columns).map_err(damaged)?;
            let ledger = &mut contents.ledger;
            let read = match kind {
                Kind::Opening | Kind::Tables => contents.read(kind, &mut columns, &mut self.known),
                Kind::Counts => summary::read_counts(&mut columns, ledger, &mut counted),
                Kind::Patterns => summary::read_patterns(&mut columns, ledger, &mut watched),
                Kind::Processes => summary::read_processes(&mut columns, ledger),
                Kind::Lines => lines.read(&mut columns, ledger, &mut contents.budget),
                Kind::Regions => regions::read(&mut columns).map(|read| runs.extend(read)),
                Kind::Allocators => {
                    let read = allocators::read(&mut columns, ledger.processes.len());
                    read.map(|read| custom_allocators.extend(read))
                }
                Kind::Scans | Kind::ScanSums => {
                    let (processes, stacks) = (ledger.processes.len(), ledger.catalog.stacks.len());
                    let read = if kind == Kind::Scans { scans::read } else { scans::read_sums };
                    read(&mut columns, processes, stacks, &mut found)
                }
                Kind::AllocatorsInside => allocators::read_inside(&mut columns).map(|read| inside.extend(read)),
                Kind::ExecutedNames => programs::read_names(&mut columns, &mut ledger.processes),
                Kind::Unrecorded => programs::read_unrecorded(&mut columns).map(|read| unrecorded.extend(read)),
                Kind::ThreadNames => programs::read_thread_names(&mut columns, ledger.threads.len(), &mut thread_names),
                Kind::Arguments => contents.arguments(&mut columns),
                Kind::Ending => summary::read_ending(&mut columns).map(|end| ending = Some(end)),
                Kind::Names => attachments::read_names(&mut columns, ledger, &mut names),
                Kind::Index if self.blocks.index_at() != Some(at) => {
                    Err(Nonsense("the file's end names another index"))
                }
                Kind::Index => index::read(&mut columns).map(|index| self.index = index),
                Kind::Footprint => contents.footprint(&mut columns),
                Kind::Rss => columns::read_series(&mut columns, ledger.processes.len()).map(|read| series.extend(read)),
                Kind::SizeClasses => {
                    columns::read_classes(&mut columns, ledger.processes.len()).map(|read| classes.extend(read))
                }
                Kind::Events | Kind::Sources | Kind::LostBlocks => Ok(()),
                Kind::Pages | Kind::Kept | Kind::PlacedBlocks => Ok(()),
            };
            read.map_err(damaged)?;
        }
        let at = self.blocks.at();
        let end = ending.ok_or(ReadError::Damaged { at, what: "the ending is missing" })?;
        let sites = contents.ledger.sites.len();
        if [counted, watched] != [sites; 2] || end.sites != sites as u64 {
            return Err(ReadError::Damaged { at, what: "counts or patterns of some sites are missing" });
        }
        let mut profile = contents.into_profile();
        profile.strings = lines.into_strings();
        profile.names = names;
        profile.duration_ms = end.duration_ms;
        profile.ending = end.ending;
        profile.peak_ms = end.peak_ms;
        profile.cpu_us = end.cpu_us;
        profile.run_ms = end.run_ms;
        profile.regions = runs;
        profile.custom_allocators = custom_allocators;
        profile.scans = scans::in_order(found);
        profile.unrecorded = unrecorded;
        profile.thread_names = thread_names;
        profile.allocators_inside = inside;
        profile.rss = series;
        profile.size_classes = classes;
        let ordered = profile.check_orders();
        ordered.map_err(|_| ReadError::Damaged { at, what: "the memory of processes is not in its order" })?;
        Ok(profile)
    }

    fn read_cut(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Profile, ReadError> {
        let mut contents = Contents::new(self.blocks.length());
        let mut decoder = Decoder::default();
        let mut last_ms = 0;
        let why = loop {
            progress(self.blocks.progress());
            let wanted =
                |kind| matches!(kind, Kind::Opening | Kind::Tables | Kind::Events | Kind::Footprint | Kind::Arguments);
            let read = match self.blocks.next(wanted) {
                Ok(None) => {
                    self.end = self.blocks.at();
                    break "the file ends before the recording does".to_owned();
                }
                Ok(Some(mut block)) if block.kind == Kind::Events => {
                    decode(&mut decoder, &self.known, &mut block, |living, at, event| {
                        last_ms = last_ms.max(at.ms);
                        contents.post(living, at, event);
                    })
                }
                Ok(Some(Block { kind, at, mut columns })) => {
                    let read = contents.admit(kind, &columns);
                    let read = read.and_then(|()| contents.read(kind, &mut columns, &mut self.known));
                    read.map_err(|Nonsense(what)| ReadError::Damaged { at, what })
                }
                Err(error) => Err(error),
            };
            match read {
                Ok(()) => {}
                // What comes before the damage is as good as what comes before a cut.
                Err(error @ ReadError::Damaged { at, .. }) => {
                    self.end = at;
                    break error.to_string();
                }
                Err(error) => return Err(error),
            }
        };
        let ledger = &mut contents.ledger;
        last_ms = ledger.processes.iter().fold(last_ms, |ms, process| ms.max(process.start_ms));
        for process in 0..ledger.processes.len() as u32 {
            ledger.end_process(process, last_ms, decoder.living().drain(process));
        }
        let mut profile = contents.into_profile();
        profile.duration_ms = last_ms;
        profile.ending.cut_short = Some(why);
        Ok(profile)
    }
}

/// Calls `each` with the events of a block; at the end of a process, its live blocks are drained once `each` returns.
pub(super) fn decode(
    decoder: &mut Decoder,
    known: &Known,
    block: &mut Block,
    each: impl FnMut(&mut LiveBlocks, Moment, Event),
) -> Result<(), ReadError> {
    let decoded = decoder.block(std::mem::take(&mut block.columns), known, each);
    decoded.map_err(|Nonsense(what)| ReadError::Damaged { at: block.at, what })
}

struct Contents {
    ledger: Ledger,
    sites: SiteSet,
    command: Vec<String>,
    started_unix_ms: u64,
    budget: Budget,
    /// Kinds that come once, of the blocks read so far.
    seen: Vec<Kind>,
    footprints: Vec<Footprint>,
}

impl Contents {
    fn new(length: u64) -> Self {
        Self {
            ledger: Ledger::default(),
            sites: SiteSet::default(),
            command: Vec::new(),
            started_unix_ms: 0,
            budget: Budget::of_file(length),
            seen: Vec::new(),
            footprints: Vec::new(),
        }
    }

    /// Fails where a block comes a second time that comes once, or is too large for its file.
    fn admit(&mut self, kind: Kind, columns: &[Cursor]) -> Result<(), Nonsense> {
        if kind.is_once() {
            if self.seen.contains(&kind) {
                return Err(Nonsense("a second block of a kind that comes once"));
            }
            self.seen.push(kind);
        }
        self.budget.take_block(kind, columns)
    }

    /// Takes in the opening, a block of tables, a footprint, or arguments.
    fn read(&mut self, kind: Kind, columns: &mut [Cursor], known: &mut Known) -> Result<(), Nonsense> {
        if kind == Kind::Opening {
            let opening = read_opening(columns)?;
            (self.command, self.started_unix_ms) = (opening.command, opening.started_unix_ms);
            return Ok(());
        }
        match kind {
            Kind::Footprint => return self.footprint(columns),
            Kind::Arguments => return self.arguments(columns),
            _ => {}
        }
        let read = tables::read(columns, &mut self.ledger, &mut self.sites, &mut self.budget);
        known.processes = self.ledger.processes.len() as u32;
        known.threads.extend(self.ledger.threads[known.threads.len()..].iter().map(|thread| thread.process.0));
        known.sites.extend(self.ledger.sites[known.sites.len()..].iter().map(|site| site.process.0));
        read
    }

    fn arguments(&mut self, columns: &mut [Cursor]) -> Result<(), Nonsense> {
        arguments::read(columns, &mut self.ledger.processes, &mut self.command, &mut self.budget)
    }

    fn footprint(&mut self, columns: &mut [Cursor]) -> Result<(), Nonsense> {
        let footprint = columns::read_footprint(columns, self.ledger.processes.len())?;
        let names: usize = footprint.mappings.iter().map(|mapping| mapping.name.len()).sum();
        self.budget.take_entries::<Mapping>(footprint.mappings.len() as u64, STRING)?;
        self.budget.take(names as u64 + size_of::<Footprint>() as u64)?;
        self.footprints.push(footprint);
        Ok(())
    }

    fn post(&mut self, living: &mut LiveBlocks, at: Moment, event: Event) {
        let ledger = &mut self.ledger;
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
            Event::Region { .. } => ledger.advance(at.ms),
            Event::EndProcess => ledger.end_process(at.process, at.ms, living.drain(at.process)),
        }
    }

    fn into_profile(self) -> Profile {
        let mut profile = self.ledger.close();
        profile.command = self.command;
        profile.started_unix_ms = self.started_unix_ms;
        profile.footprints = self.footprints;
        profile.footprints.sort_by_key(|footprint| (footprint.process, footprint.ms));
        profile
    }
}

/// The first word of a recording's command, and its start, from its first block: a recording that was cut short has
/// them, too.
pub fn opening<R: Read + Seek>(file: R) -> Result<Options, ReadError> {
    let first = Blocks::open(file)?.next(|kind| kind == Kind::Opening)?;
    let Block { at, mut columns, .. } = first.ok_or(ReadError::NotARecording)?;
    read_opening(&mut columns).map_err(|Nonsense(what)| ReadError::Damaged { at, what })
}

/// Whether a recording, whole or not, has a block of events.
pub fn has_events<R: Read + Seek>(file: R) -> Result<bool, ReadError> {
    Ok(Blocks::open(file)?.next_packed(|kind| kind == Kind::Events, u64::MAX)?.is_some())
}

fn read_opening(columns: &mut [Cursor]) -> Result<Options, Nonsense> {
    let [column] = columns else { return Err(Nonsense("the opening has another number of columns")) };
    let started_unix_ms = column.number()?;
    let mut command = Vec::new();
    for _ in 0..column.number()? {
        command.push(column.string()?);
    }
    Ok(Options { command, started_unix_ms })
}
