//! Pages and live blocks of a footprint, read where somebody asks for them.

use super::block::Kind;
use super::blocks::Block;
use super::error::ReadError;
use super::reader::Reader;
use crate::bytes::Nonsense;
use crate::footprint::columns::{read_blocks, read_footprint, read_kept, read_pages};
use mallow_profile::{HeapMap, Profile};
use std::cell::Cell;
use std::io::{Read, Seek};

/// Most rows of a map: a file of a few bytes can claim many.
const ROWS: usize = 1 << 26;

impl<R: Read + Seek> Reader<R> {
    /// Pages and live blocks of `profile.footprints[footprint]`, which came with this reader. None: the recording does
    /// not have them, and the footprint's `gap` says why, or the file was cut short before their end.
    pub fn heap_map(&mut self, profile: &Profile, footprint: usize) -> Result<Option<HeapMap>, ReadError> {
        let Some(wanted) = profile.footprints.get(footprint).filter(|wanted| wanted.gap.is_none()) else {
            return Ok(None);
        };
        self.blocks.rewind()?;
        let is_found = Cell::new(false);
        let of_interest = |kind| match kind {
            Kind::Footprint => true,
            Kind::Pages | Kind::Kept | Kind::PlacedBlocks => is_found.get(),
            _ => false,
        };
        let (mut map, mut has_kept) = (HeapMap::default(), false);
        while self.blocks.at() < self.end
            && let Some(Block { kind, at, mut columns }) = self.blocks.next(of_interest)?
        {
            let damaged = |Nonsense(what)| ReadError::Damaged { at, what };
            match kind {
                Kind::Footprint if is_found.get() => break,
                Kind::Footprint => {
                    let read = read_footprint(&mut columns, profile.processes.len()).map_err(damaged)?;
                    is_found.set((read.process, read.ms, read.is_last) == (wanted.process, wanted.ms, wanted.is_last));
                }
                Kind::Pages => read_pages(&mut columns, wanted.page_bytes, &mut map).map_err(damaged)?,
                Kind::Kept if std::mem::replace(&mut has_kept, true) => {
                    return Err(damaged(Nonsense("a footprint has two blocks of what its allocator keeps")));
                }
                Kind::Kept => read_kept(&mut columns, &mut map).map_err(damaged)?,
                _ => read_blocks(&mut columns, &mut map).map_err(damaged)?,
            }
            if map.pages.len().max(map.blocks.len()) > ROWS {
                return Err(damaged(Nonsense("more pages or blocks than a process can have")));
            }
        }
        if !is_found.get() || map.blocks.len() as u64 != wanted.live_blocks {
            return Ok(None);
        }
        let at = self.blocks.at();
        map.check(wanted, &profile.sites).map_err(|what| ReadError::Damaged { at, what })?;
        Ok(Some(map))
    }
}
