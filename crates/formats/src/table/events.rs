//! The table of events.

use std::io;

use mallow_profile::{Block, Call, Event, FAMILIES, Moment, Profile};

use super::{Cell, Column, Kind, Rows};

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// The columns, in their order. `docs/guide/tables.md` says what they hold.
pub const COLUMNS: [Column; 14] = [
    column("event", Kind::Number),
    column("ms", Kind::Number),
    column("pid", Kind::Number),
    column("tid", Kind::Number),
    column("operation", Kind::Text),
    column("block", Kind::Number),
    column("size", Kind::Number),
    column("site", Kind::Number),
    column("moved", Kind::Truth),
    column("freed_block", Kind::Number),
    column("freed_size", Kind::Number),
    column("freed_site", Kind::Number),
    column("lifetime_ms", Kind::Number),
    column("region", Kind::Number),
];

/// Writes a row for each event that is added.
pub struct Events<'p, R> {
    profile: &'p Profile,
    rows: R,
    number: u64,
    failed: io::Result<()>,
}

impl<'p, R: Rows> Events<'p, R> {
    pub fn new(profile: &'p Profile, rows: R) -> Self {
        Self { profile, rows, number: 0, failed: Ok(()) }
    }

    /// Writes the next event. `block` is the number of the block that an allocation makes, as frees name it. A failure
    /// is reported by [`Self::finish`].
    pub fn add(&mut self, block: u64, at: Moment, event: Event) {
        if self.failed.is_ok() {
            let cells = self.cells(block, at, event);
            self.failed = self.rows.row(cells);
        }
    }

    /// Fails if an earlier write did.
    pub fn finish(self) -> io::Result<()> {
        self.failed?;
        self.rows.finish()
    }

    fn cells(&mut self, block: u64, at: Moment, event: Event) -> Vec<Cell> {
        let pid = self.profile.processes.get(at.process as usize).map(|process| u64::from(process.pid));
        let thread = self.profile.threads.get(at.thread as usize).map(|thread| u64::from(thread.tid));
        let of_thread = !matches!(event, Event::EndProcess);
        let tid = thread.filter(|tid| *tid > 0 && of_thread);
        let (operation, call, moved, freed, region) = match event {
            Event::Allocate(call) => (family(&call), Some(call), None, None, None),
            Event::Reallocate { call, old, moved } => (family(&call), Some(call), Some(moved), old, None),
            Event::Free(block) => ("free", None, None, block, None),
            Event::ReallocFree(block) => ("realloc_to_0", None, None, block, None),
            Event::UnseenFree(block) => ("unseen_free", None, None, Some(block), None),
            Event::Region { number, end: false, .. } => ("region_begins", None, None, None, Some(number)),
            Event::Region { number, end: true, .. } => ("region_ends", None, None, None, Some(number)),
            Event::EndProcess => ("process_ends", None, None, None, None),
        };
        let block = call.map(|_| block);
        let number = self.number;
        self.number += 1;
        let of_freed = |value: fn(&Block) -> u64| Cell::from(freed.as_ref().map(value));
        vec![
            Cell::Number(number),
            Cell::Number(at.ms),
            pid.into(),
            tid.into(),
            Cell::Text(operation.into()),
            block.into(),
            call.map(|call| call.size).into(),
            call.map(|call| u64::from(call.site)).into(),
            moved.map_or(Cell::Empty, Cell::Truth),
            of_freed(|block| block.sequence),
            of_freed(|block| block.size),
            of_freed(|block| block.site.into()),
            freed.as_ref().map(|block| at.ms.saturating_sub(block.ms)).into(),
            region.map(u64::from).into(),
        ]
    }
}

fn family(call: &Call) -> &'static str {
    FAMILIES.get(usize::from(call.family)).unwrap_or(&"malloc")
}
