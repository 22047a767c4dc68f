//! The map of the heap's pages as JSON: columns, because a page draws thousands of cells.

use std::collections::BTreeSet;

use mallow_report::analysis::{Frame, HeapCell, HeapRow, PageMap, TerritoryKind};
use serde::Serialize;

const PAGE: u64 = 4096;

#[derive(Debug, Serialize)]
pub struct RssMapDocument<'a> {
    cell_bytes: u64,
    rows: Vec<Row<'a>>,
    /// The places that cells name, by their numbers there.
    places: Vec<PlaceDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    kind: &'static str,
    start: String,
    used: Vec<u64>,
    holes: Vec<u64>,
    free: Vec<u64>,
    /// For each cell, numbers of places with their bytes.
    places: Vec<&'a [(u32, u64)]>,
}

#[derive(Debug, Serialize)]
struct PlaceDocument<'a> {
    number: u32,
    #[serde(flatten)]
    frame: Option<&'a Frame>,
}

impl<'a> RssMapDocument<'a> {
    pub fn of(map: &'a PageMap) -> Self {
        let cells = map.rows.iter().flat_map(|row| &row.cells);
        let named: BTreeSet<u32> = cells.flat_map(|cell| cell.places.iter().map(|(place, _)| *place)).collect();
        let place =
            |number: u32| PlaceDocument { number, frame: map.places.get(number as usize).and_then(Option::as_ref) };
        Self {
            cell_bytes: map.pages_per_cell * PAGE,
            rows: map.rows.iter().map(Row::of).collect(),
            places: named.into_iter().map(place).collect(),
        }
    }
}

impl<'a> Row<'a> {
    fn of(row: &'a HeapRow) -> Self {
        let column = |of: fn(&HeapCell) -> u64| row.cells.iter().map(of).collect();
        Self {
            kind: match row.kind {
                TerritoryKind::MainArena => "main arena",
                TerritoryKind::ThreadArena => "thread arena",
                TerritoryKind::OwnMappings => "blocks with their own mappings",
                TerritoryKind::Allocator => "mapping of the allocator",
            },
            start: format!("{:#x}", row.start),
            used: column(|cell| cell.used),
            holes: column(|cell| cell.holes),
            free: column(|cell| cell.free),
            places: row.cells.iter().map(|cell| &cell.places[..]).collect(),
        }
    }
}
