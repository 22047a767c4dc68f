//! Writing a recording while it happens.

use super::attachments::{self, SourceFile};
use super::block::{Kind, Packer};
use super::bytes::{put, put_bytes};
use super::codec::{Encoded, Encoder};
use super::index::{self, BlockSummary};
use super::summary;
use super::tables::Mark;
use super::{MAGIC, TRAILER_MAGIC, VERSION};
use super::{allocators, arguments, lost_blocks, programs, regions, scans};
use crate::accounts::{EventSink, Ledger, Options};
use crate::footprint::Packed;
use crate::footprint::columns::{write_classes, write_footprint, write_series};
use crate::scan::LostBlock;
use mallow_profile::{Event, Moment, Profile};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most events of a block.
const EVENTS: u64 = 1 << 16;
/// The longest time that events wait for their block to fill.
const WAIT: Duration = Duration::from_secs(2);
/// Most processes whose RSS over time one block has.
const SERIES: usize = 256;
/// Bytes of pages and live blocks, before they are compressed, that any recording has room for.
const MAPS_LEAST: u64 = 128 << 20;

/// A sink of the replay that writes a recording. Blocks are written whole; when one cannot be, what was written before
/// stays readable and nothing more is written.
pub struct Writer<W: Write = File> {
    out: Blocks<W>,
    mark: Mark,
    encoder: Encoder,
    full: Vec<Encoded>,
    since: Instant,
    failed: bool,
    events: u64,
    /// Footprints that wait to be written.
    footprints: Vec<Packed>,
    /// Lost blocks that wait to be written, by process.
    lost: Vec<(u32, Vec<LostBlock>)>,
    /// Bytes of pages and live blocks that were written, before they were compressed.
    map_bytes: u64,
}

pub(super) struct Blocks<W> {
    file: W,
    written: u64,
    packer: Packer,
    index: Vec<BlockSummary>,
}

impl Writer<File> {
    /// Makes the file, or empties it; its owner alone can read it.
    pub fn create(path: &Path, options: &Options) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(true).mode(0o600).open(path);
        Self::new(file.map_err(named)?, options).map_err(named)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to anything: each block is one `write_all`.
    pub fn new(file: W, options: &Options) -> io::Result<Self> {
        let mut out = Blocks::begin(file)?;
        out.open(options)?;
        Ok(Self {
            out,
            mark: Mark::default(),
            encoder: Encoder::default(),
            full: Vec::new(),
            since: Instant::now(),
            failed: false,
            events: EVENTS,
            footprints: Vec::new(),
            lost: Vec::new(),
            map_bytes: 0,
        })
    }

    /// Makes small blocks, so that small files have many.
    #[cfg(test)]
    pub fn blocks_of(self, events: u64) -> Self {
        Self { events, ..self }
    }

    /// Writes what is known at the end. The profile is that of the replay, perhaps with lines of frames and what was
    /// found for them filled in.
    pub fn finish(self, profile: &Profile) -> io::Result<W> {
        self.finish_with(profile, &mut std::iter::empty())
    }

    /// [`Writer::finish`] with sources.
    pub fn finish_with(self, profile: &Profile, sources: &mut dyn Iterator<Item = SourceFile>) -> io::Result<W> {
        self.out.end(profile, sources)
    }

    pub fn written(&self) -> u64 {
        self.out.written
    }

    fn write_events(&mut self, ledger: &Ledger) -> io::Result<()> {
        while let Some(columns) = self.mark.write(ledger) {
            self.out.write(Kind::Tables, &columns)?;
        }
        for Encoded { columns, events, first_ms, last_ms } in std::mem::take(&mut self.full) {
            self.out.index.push(BlockSummary { at: self.out.written, events, first_ms, last_ms });
            self.out.write(Kind::Events, &columns)?;
        }
        for packed in std::mem::take(&mut self.footprints) {
            self.write_footprint(packed)?;
        }
        for (process, lost) in std::mem::take(&mut self.lost) {
            for columns in lost_blocks::write(process, &lost) {
                self.out.write(Kind::LostBlocks, &columns)?;
            }
        }
        self.since = Instant::now();
        Ok(())
    }

    /// Leaves pages and blocks out where a recording would consist of them: of thousands of processes, each has two
    /// footprints.
    fn write_footprint(&mut self, packed: Packed) -> io::Result<()> {
        let bytes = packed.map_bytes() as u64;
        let Packed { mut footprint, pages, kept, blocks } = packed;
        let is_first = footprint.process.0 == 0;
        if !is_first && self.map_bytes.saturating_add(bytes) > self.out.written.saturating_add(MAPS_LEAST) {
            footprint.gap = Some("maps of other processes take the room that a recording has for them".to_owned());
            return self.out.write(Kind::Footprint, &write_footprint(&footprint));
        }
        self.map_bytes += bytes;
        self.out.write(Kind::Footprint, &write_footprint(&footprint))?;
        for columns in &pages {
            self.out.write(Kind::Pages, columns)?;
        }
        if let Some(columns) = &kept {
            self.out.write(Kind::Kept, columns)?;
        }
        for columns in &blocks {
            self.out.write(Kind::PlacedBlocks, columns)?;
        }
        Ok(())
    }

    fn take(&mut self) {
        if self.encoder.events() > 0 {
            self.full.push(self.encoder.take());
        }
    }
}

impl<W: Write> Blocks<W> {
    pub fn begin(mut file: W) -> io::Result<Self> {
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend([0; 4]);
        file.write_all(&head)?;
        Ok(Self { file, written: head.len() as u64, packer: Packer::new()?, index: Vec::new() })
    }

    pub fn open(&mut self, options: &Options) -> io::Result<()> {
        let mut column = Vec::new();
        put(&mut column, options.started_unix_ms);
        let Options { command, started_unix_ms: _ } = options.opening();
        put(&mut column, command.len() as u64);
        command.iter().for_each(|word| put_bytes(&mut column, word.as_bytes()));
        self.write(Kind::Opening, &[column])
    }

    /// Writes a block that was packed before. One of events is described by `events`, but for its offset.
    pub fn copy(&mut self, block: &[u8], events: Option<BlockSummary>) -> io::Result<()> {
        self.index.extend(events.map(|events| BlockSummary { at: self.written, ..events }));
        self.file.write_all(block)?;
        self.written += block.len() as u64;
        Ok(())
    }

    /// Writes all that comes after events, and the trailer.
    pub fn end(mut self, profile: &Profile, sources: &mut dyn Iterator<Item = SourceFile>) -> io::Result<W> {
        for sites in profile.sites.chunks(summary::SITES) {
            self.write(Kind::Counts, &summary::write_counts(sites))?;
        }
        for sites in profile.sites.chunks(summary::SITES) {
            self.write(Kind::Patterns, &summary::write_patterns(sites))?;
        }
        self.write(Kind::Processes, &summary::write_processes(&profile.processes))?;
        for columns in arguments::write(profile) {
            self.write(Kind::Arguments, &columns)?;
        }
        if !profile.regions.is_empty() {
            self.write(Kind::Regions, &regions::write(&profile.regions))?;
        }
        if !profile.custom_allocators.is_empty() {
            self.write(Kind::Allocators, &allocators::write(&profile.custom_allocators))?;
        }
        for block in scans::write(&profile.scans) {
            self.write(Kind::Scans, &block)?;
        }
        if let Some(columns) = programs::write_names(&profile.processes) {
            self.write(Kind::ExecutedNames, &columns)?;
        }
        if let Some(columns) = programs::write_unrecorded(&profile.unrecorded) {
            self.write(Kind::Unrecorded, &columns)?;
        }
        if let Some(columns) = programs::write_thread_names(&profile.thread_names) {
            self.write(Kind::ThreadNames, &columns)?;
        }
        if let Some(columns) = allocators::write_inside(&profile.allocators_inside) {
            self.write(Kind::AllocatorsInside, &columns)?;
        }
        if !profile.rss.is_empty() {
            for series in profile.rss.chunks(SERIES) {
                self.write(Kind::Rss, &write_series(series))?;
            }
        }
        if !profile.size_classes.is_empty() {
            self.write(Kind::SizeClasses, &[write_classes(&profile.size_classes)])?;
        }
        attachments::write_lines(profile, &mut |columns| self.write(Kind::Lines, columns))?;
        if let Some(names) = &profile.names {
            attachments::write_names(names, &mut |columns| self.write(Kind::Names, columns))?;
        }
        attachments::write_sources(sources, &mut |columns| self.write(Kind::Sources, columns))?;
        self.write(Kind::Ending, &summary::write_ending(profile))?;
        let at = self.written;
        self.write(Kind::Index, &index::write(&self.index))?;
        let mut trailer = at.to_le_bytes().to_vec();
        trailer.extend(TRAILER_MAGIC);
        self.file.write_all(&trailer)?;
        self.file.flush()?;
        Ok(self.file)
    }

    pub fn write(&mut self, kind: Kind, columns: &[Vec<u8>]) -> io::Result<()> {
        let block = self.packer.pack(kind, columns)?;
        self.file.write_all(block)?;
        self.written += block.len() as u64;
        Ok(())
    }
}

impl<W: Write> EventSink for Writer<W> {
    #[inline]
    fn event(&mut self, at: Moment, event: Event) {
        if self.failed {
            return;
        }
        self.encoder.event(at, event);
        if self.encoder.events() >= self.events {
            self.take();
        }
    }

    fn footprint(&mut self, packed: Packed) {
        if !self.failed {
            self.footprints.push(packed);
        }
    }

    fn lost_blocks(&mut self, process: u32, blocks: Vec<LostBlock>) {
        if !self.failed && !blocks.is_empty() {
            self.lost.push((process, blocks));
        }
    }

    fn settle(&mut self, ledger: &Ledger) -> io::Result<()> {
        if self.encoder.events() > 0 && self.since.elapsed() > WAIT {
            self.take();
        }
        if (self.full.is_empty() && self.footprints.is_empty() && self.lost.is_empty()) || self.failed {
            return Ok(());
        }
        let written = self.write_events(ledger);
        self.failed = written.is_err();
        written
    }

    fn close(&mut self, ledger: &Ledger) -> io::Result<()> {
        self.take();
        self.write_events(ledger)
    }
}
