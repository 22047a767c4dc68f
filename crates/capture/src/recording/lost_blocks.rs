//! Lost blocks one by one, for selections of blocks: sums of sites do not say which of a site's blocks are lost.
//!
//! Six columns: the number of the process; and for each block, by number, its number minus that of the block before it,
//! its site, its size, and 0 for a block that no other lost block holds, else 1 + the folded difference of its number
//! and that of the block that holds it; and what that one is, as sums of scans have it. Earlier recordings lack the
//! last column.

use super::bytes::{Cursor, Nonsense, fold, put, unfold};
use super::choice::Bits;
use super::scans::{number_of, read_kind};
use crate::scan::LostBlock;
use mallow_profile::{LostBlocks, LostKind, ProcessId, Scan, ScanOutcome, StackId, sum_lost};
use std::collections::BTreeMap;

/// Most blocks of one file block: a column has room for them.
const ROWS: usize = 1 << 16;
/// Most lost blocks that a reader keeps: a file of a few bytes can claim many.
const MOST: usize = 1 << 26;

/// The columns of each file block of a process's lost blocks, which must be sorted by sequence number.
pub fn write(process: u32, lost: &[LostBlock]) -> impl Iterator<Item = [Vec<u8>; 6]> {
    lost.chunks(ROWS).map(move |lost| {
        let mut columns: [Vec<u8>; 6] = Default::default();
        put(&mut columns[0], process.into());
        let mut before = 0;
        for lost in lost {
            put(&mut columns[1], lost.sequence.wrapping_sub(before));
            put(&mut columns[2], lost.site.into());
            put(&mut columns[3], lost.size);
            put(&mut columns[4], lost.head.map_or(0, |(head, _)| 1 + fold(head, lost.sequence)));
            put(&mut columns[5], number_of(lost.kind));
            before = lost.sequence;
        }
        columns
    })
}

#[derive(Clone, Copy, Debug)]
struct Row {
    sequence: u64,
    site: u32,
    size: u64,
    head: Option<u64>,
    kind: LostKind,
}

/// Lost blocks by process, sorted by sequence number.
#[derive(Debug, Default)]
pub struct LostList {
    processes: BTreeMap<u32, Vec<Row>>,
    count: usize,
}

impl LostList {
    /// Adds a file block. `sites` is their number: a block of another one is nonsense.
    pub fn read(&mut self, columns: &mut [Cursor], sites: usize) -> Result<(), Nonsense> {
        let [process, numbers, places, sizes, heads, kinds @ ..] = columns else {
            return Err(Nonsense("a block of lost blocks has another number of columns"));
        };
        let mut none = Cursor::new(Vec::new());
        let kinds = kinds.first_mut().unwrap_or(&mut none);
        let rows = self.processes.entry(process.small()?).or_default();
        let mut before = 0u64;
        while !numbers.is_empty() {
            let sequence = before.checked_add(numbers.number()?).ok_or(Nonsense("a number is too large"))?;
            let site = places.small()?;
            if rows.last().is_some_and(|last| last.sequence >= sequence) || site as usize >= sites {
                return Err(Nonsense("lost blocks are not in their order, or of no site"));
            }
            let head = heads.number()?.checked_sub(1).map(|folded| unfold(folded, sequence));
            rows.push(Row { sequence, site, size: sizes.number()?, head, kind: read_kind(kinds)? });
            before = sequence;
            self.count += 1;
            if self.count > MOST {
                return Err(Nonsense("more lost blocks than can be live"));
            }
        }
        Ok(())
    }

    /// The part of a scan that the chosen blocks have. `sites` are process and stack of each site of the recording. A
    /// block that holds another counts only if it is chosen, too.
    pub fn choose(&self, scan: Scan, chosen: &Bits, sites: &[(ProcessId, StackId)]) -> Scan {
        if scan.lost.is_empty() {
            return Scan { cycles: Vec::new(), ..scan };
        }
        let Some(rows) = self.processes.get(&scan.process.0) else {
            let why = "this recording does not name single lost blocks: an earlier version of mallow made it";
            return Scan { process: scan.process, outcome: ScanOutcome::Failed(why.to_owned()), ..Scan::default() };
        };
        let stack = |site: u32| sites.get(site as usize).filter(|site| site.0 == scan.process).map(|site| site.1);
        let head = |number: u64| {
            let at = rows.binary_search_by_key(&number, |row| row.sequence).ok()?;
            chosen.get(number).then(|| stack(rows[at].site)).flatten()
        };
        let row = |row: &Row| {
            let head = row.head.and_then(head);
            Some(LostBlocks { stack: stack(row.site)?, head, kind: row.kind, blocks: 1, bytes: row.size })
        };
        let lost = rows.iter().filter(|row| chosen.get(row.sequence)).filter_map(row).collect();
        Scan { process: scan.process, outcome: scan.outcome, lost: sum_lost(lost), cycles: Vec::new() }
    }
}
