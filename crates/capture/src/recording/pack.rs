//! Writing a recording again, with what it needs to be read on another machine.

use super::attachments::{SourceFile, read_sources};
use super::block::{Head, Kind};
use super::blocks::Block;
use super::budget::Budget;
use super::bytes::Nonsense;
use super::decoder::Decoder;
use super::error::ReadError;
use super::index::BlockSummary;
use super::reader::{Reader, decode};
use super::tables::without_arguments;
use super::writer::Blocks;
use crate::accounts::Options;
use mallow_profile::Profile;
use std::io::{self, Read, Seek, Write};

#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(io::Error),
}

impl<R: Read + Seek> Reader<R> {
    /// The sources that the recording carries; empty of one that was cut short, which has lost them.
    pub fn sources(&mut self) -> Result<Vec<SourceFile>, ReadError> {
        self.blocks.rewind()?;
        let (mut sources, mut budget) = (Vec::new(), Budget::of_file(self.blocks.length()));
        while self.blocks.whole()
            && let Some(Block { at, mut columns, .. }) = self.blocks.next(|kind| kind == Kind::Sources)?
        {
            let read = read_sources(&mut columns, &mut sources, &mut budget);
            read.map_err(|Nonsense(what)| ReadError::Damaged { at, what })?;
        }
        Ok(sources)
    }

    /// Copies the recording to `to`: its tables but for arguments, its events, footprints and lost blocks as they are,
    /// and everything else as `profile` has it, which came with this reader, with names filled in. A recording that was
    /// cut short becomes a whole file, which says that it was cut short.
    pub fn pack<W: Write>(
        &mut self,
        profile: &Profile,
        sources: &mut dyn Iterator<Item = SourceFile>,
        to: W,
    ) -> Result<W, PackError> {
        let whole = self.blocks.whole();
        let mut index = self.index.clone().into_iter();
        let mut decoder = Decoder::default();
        let mut out = Blocks::begin(to).map_err(PackError::Write)?;
        self.blocks.rewind().map_err(PackError::Read)?;
        let options = Options { command: profile.command.clone(), started_unix_ms: profile.started_unix_ms };
        let copied = |kind| {
            let is_event = matches!(kind, Kind::Opening | Kind::Tables | Kind::Events);
            is_event
                || matches!(kind, Kind::Footprint | Kind::Pages | Kind::Kept | Kind::PlacedBlocks | Kind::LostBlocks)
        };
        // Blocks that are passed over may be the last ones before what a cut has left.
        while let Some((head, at, bytes)) = self.blocks.next_packed(copied, self.end)? {
            let events = match (head.kind == Kind::Events, whole) {
                (false, _) => None,
                (true, true) => Some(index.next().ok_or(ReadError::Damaged { at, what: NOT_IN_INDEX })?),
                (true, false) => Some(self.measure(&mut decoder, head, at, &bytes)?),
            };
            match head.kind {
                // Files that an earlier mallow wrote have all arguments here.
                Kind::Opening => out.open(&options),
                Kind::Tables => {
                    let columns = head.unpack(&mut &bytes[super::block::HEAD..], at)?;
                    let columns = without_arguments(columns);
                    out.write(Kind::Tables, &columns.map_err(|Nonsense(what)| ReadError::Damaged { at, what })?)
                }
                _ => out.copy(&bytes, events),
            }
            .map_err(PackError::Write)?;
        }
        out.end(profile, sources).map_err(PackError::Write)
    }

    /// Describes a block of events as the index of a recording that was cut short would.
    fn measure(&self, decoder: &mut Decoder, head: Head, at: u64, bytes: &[u8]) -> Result<BlockSummary, ReadError> {
        let mut block = Block { kind: head.kind, at, columns: head.unpack(&mut &bytes[super::block::HEAD..], at)? };
        let mut measured = BlockSummary { first_ms: u64::MAX, ..BlockSummary::default() };
        let decoded = decode(decoder, &self.known, &mut block, |_, at, _| {
            measured.events += 1;
            measured.first_ms = measured.first_ms.min(at.ms);
            measured.last_ms = measured.last_ms.max(at.ms);
        });
        decoded?;
        measured.first_ms = measured.first_ms.min(measured.last_ms);
        Ok(measured)
    }
}

const NOT_IN_INDEX: &str = "a block of events is not in the index";
