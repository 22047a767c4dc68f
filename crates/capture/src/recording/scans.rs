//! What scans of processes at their exit found.
//!
//! Two columns. Column 0, for each scan: the number of its process; 0 for one that was scanned, 1 and why it was not,
//! or 2 for one that ended by exec; the number of rows of lost blocks, and for each its stack, 0 or 1 + the stack of
//! the block that holds them, how many, and their bytes; the number of kinds of cycles, and for each its count, blocks,
//! bytes, the number of its stacks, and these. Column 1, for each row of lost blocks: what the block is that no other
//! lost block holds, 0 or 1 for an immortal string. Earlier recordings lack it.

use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::{LostBlocks, LostCycle, LostKind, ProcessId, Scan, ScanOutcome, StackId, sum_lost};

/// Most rows of one block: a column has room for them.
const ROWS: usize = 1 << 16;

const SCANNED: u64 = 0;
const FAILED: u64 = 1;
const EXEC: u64 = 2;

/// The number that stands for the kind of a lost block.
pub fn number_of(kind: LostKind) -> u64 {
    match kind {
        LostKind::Other => 0,
        LostKind::ImmortalString => 1,
    }
}

/// The next kind in a column, or `Other` of an earlier recording's empty one.
pub fn read_kind(column: &mut Cursor) -> Result<LostKind, Nonsense> {
    match if column.is_empty() { 0 } else { column.number()? } {
        0 => Ok(LostKind::Other),
        1 => Ok(LostKind::ImmortalString),
        _ => Err(Nonsense("a lost block of no known kind")),
    }
}

/// The two columns of each block of scans. A process with many rows goes on in the next block.
pub fn write(scans: &[Scan]) -> Vec<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    let (mut columns, mut room): ([Vec<u8>; 2], usize) = (Default::default(), ROWS);
    for scan in scans {
        let mut rest = &scan.lost[..];
        let mut cycles = &scan.cycles[..];
        loop {
            let (now, later) = rest.split_at(rest.len().min(room));
            write_scan(&mut columns, scan, now, cycles);
            (rest, cycles) = (later, &[]);
            room = room.saturating_sub(now.len() + 1);
            if room == 0 {
                blocks.push(std::mem::take(&mut columns).into());
                room = ROWS;
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    if !columns[0].is_empty() {
        blocks.push(columns.into());
    }
    blocks
}

fn write_scan([column, kinds]: &mut [Vec<u8>; 2], scan: &Scan, lost: &[LostBlocks], cycles: &[LostCycle]) {
    put(column, scan.process.0.into());
    match &scan.outcome {
        ScanOutcome::Scanned => put(column, SCANNED),
        ScanOutcome::Exec => put(column, EXEC),
        ScanOutcome::Failed(why) => {
            put(column, FAILED);
            put_bytes(column, why.as_bytes());
        }
    }
    put(column, lost.len() as u64);
    for lost in lost {
        let head = lost.head.map_or(0, |stack| 1 + u64::from(stack.0));
        [lost.stack.0.into(), head, lost.blocks, lost.bytes].into_iter().for_each(|number| put(column, number));
        put(kinds, number_of(lost.kind));
    }
    put(column, cycles.len() as u64);
    for cycle in cycles {
        for number in [cycle.count, cycle.blocks, cycle.bytes, cycle.stacks.len() as u64] {
            put(column, number);
        }
        cycle.stacks.iter().for_each(|stack| put(column, stack.0.into()));
    }
}

/// Adds a block's scans. `processes` and `stacks` are their numbers: others are nonsense.
pub fn read(columns: &mut [Cursor], processes: usize, stacks: usize, scans: &mut Vec<Scan>) -> Result<(), Nonsense> {
    let (columns, kinds) = columns.split_at_mut(columns.len().min(1));
    let mut none = Cursor::new(Vec::new());
    let kinds = kinds.first_mut().unwrap_or(&mut none);
    read_with(columns, processes, stacks, scans, |column, scan| {
        for _ in 0..column.number()? {
            let stack = stack_of(column.number()?, stacks)?;
            let head = column.number()?.checked_sub(1).map(|head| stack_of(head, stacks)).transpose()?;
            let (blocks, bytes) = (column.number()?, column.number()?);
            scan.lost.push(LostBlocks { stack, head, kind: read_kind(kinds)?, blocks, bytes });
        }
        Ok(())
    })
}

/// Adds the scans of a block of versions 1 and 2. It has sums by site, and does not say which blocks hold others: each
/// held block counts as held by its own site.
pub fn read_sums(
    columns: &mut [Cursor],
    processes: usize,
    stacks: usize,
    scans: &mut Vec<Scan>,
) -> Result<(), Nonsense> {
    read_with(columns, processes, stacks, scans, |column, scan| {
        for _ in 0..column.number()? {
            let stack = stack_of(column.number()?, stacks)?;
            let mut numbers = [0; 6];
            for number in &mut numbers {
                *number = column.number()?;
            }
            let [heads, head_bytes, _, _, lost, lost_bytes] = numbers;
            let held = (lost.saturating_sub(heads), lost_bytes.saturating_sub(head_bytes));
            let rows = [(None, (heads, head_bytes)), (Some(stack), held)];
            let rows = rows.into_iter().filter(|(_, sums)| *sums != (0, 0));
            let lost = |(head, (blocks, bytes))| LostBlocks { stack, head, kind: LostKind::Other, blocks, bytes };
            scan.lost.extend(rows.map(lost));
        }
        Ok(())
    })
}

fn stack_of(number: u64, stacks: usize) -> Result<StackId, Nonsense> {
    match u32::try_from(number) {
        Ok(number) if (number as usize) < stacks => Ok(StackId(number)),
        _ => Err(Nonsense("a lost block of no stack")),
    }
}

fn read_with(
    columns: &mut [Cursor],
    processes: usize,
    stacks: usize,
    scans: &mut Vec<Scan>,
    mut rows: impl FnMut(&mut Cursor, &mut Scan) -> Result<(), Nonsense>,
) -> Result<(), Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of scans has another number of columns")) };
    while !column.is_empty() {
        let process = column.small()?;
        if process as usize >= processes {
            return Err(Nonsense("a scan of no process"));
        }
        let outcome = match column.number()? {
            SCANNED => ScanOutcome::Scanned,
            FAILED => ScanOutcome::Failed(column.string()?),
            EXEC => ScanOutcome::Exec,
            _ => return Err(Nonsense("a scan of no known outcome")),
        };
        let mut scan = Scan { process: ProcessId(process), outcome, ..Scan::default() };
        rows(column, &mut scan)?;
        for _ in 0..column.number()? {
            let (count, blocks, bytes) = (column.number()?, column.number()?, column.number()?);
            let mut cycle = LostCycle { count, blocks, bytes, stacks: Vec::new() };
            for _ in 0..column.number()? {
                cycle.stacks.push(stack_of(column.number()?, stacks)?);
            }
            scan.cycles.push(cycle);
        }
        match scans.last_mut().filter(|last| last.process == scan.process) {
            Some(last) => last.lost.append(&mut scan.lost),
            None => scans.push(scan),
        }
    }
    Ok(())
}

/// Sorts scans by process, and keeps each process and each pair of stacks once, whatever a file says.
pub fn in_order(mut scans: Vec<Scan>) -> Vec<Scan> {
    scans.sort_by_key(|scan| scan.process);
    scans.dedup_by_key(|scan| scan.process);
    for scan in &mut scans {
        scan.lost = sum_lost(std::mem::take(&mut scan.lost));
    }
    scans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(process: u32, rows: u32) -> Scan {
        let row = |stack| LostBlocks {
            stack: StackId(stack),
            head: (stack > 0).then_some(StackId(0)),
            kind: if stack % 3 == 1 { LostKind::ImmortalString } else { LostKind::Other },
            blocks: 2,
            bytes: 99,
        };
        let cycle = LostCycle { count: 3, blocks: 6, bytes: 600, stacks: vec![StackId(1), StackId(0)] };
        Scan { process: ProcessId(process), lost: (0..rows).map(row).collect(), cycles: vec![cycle], ..Scan::default() }
    }

    #[test]
    fn scans_come_back_from_as_many_blocks_as_they_need() {
        let outcome = |process, outcome| Scan { process: ProcessId(process), outcome, ..Scan::default() };
        let failed = outcome(1, ScanOutcome::Failed("it is gone".into()));
        let all = vec![scan(0, 3), failed, scan(2, 150_000), outcome(3, ScanOutcome::Exec)];
        let blocks = write(&all);
        assert_eq!(blocks.len(), 3);
        let mut back = Vec::new();
        for block in &blocks {
            let mut columns: Vec<Cursor> = block.iter().cloned().map(Cursor::new).collect();
            assert!(read(&mut columns, 4, 150_000, &mut back).is_ok());
        }
        assert_eq!(back, all);
        assert_eq!(in_order(back.clone()), all);
        // Without kinds, as earlier recordings are.
        let mut plain = Vec::new();
        assert!(read(&mut [Cursor::new(blocks[0][0].clone())], 4, 150_000, &mut plain).is_ok());
        assert!(plain[0].lost.iter().all(|lost| lost.kind == LostKind::Other) && plain[0].lost.len() == 3);
        let read_of =
            |processes, stacks| read(&mut [Cursor::new(blocks[0][0].clone())], processes, stacks, &mut Vec::new());
        assert!(read_of(2, 150_000).is_err() && read_of(4, 3).is_err());
    }

    #[test]
    fn sums_of_earlier_versions_keep_what_is_lost() {
        let mut column = Vec::new();
        // A site with 2 heads of 20 bytes that hold 5 of 50 bytes, and one whose 5 blocks they hold.
        [0, 0, 2, 0, 2, 20, 5, 50, 2, 20, 1, 0, 0, 0, 0, 5, 50, 0].into_iter().for_each(|n| put(&mut column, n));
        let mut scans = Vec::new();
        assert!(read_sums(&mut [Cursor::new(column)], 1, 2, &mut scans).is_ok());
        let lost = |stack, head: Option<u32>, blocks| LostBlocks {
            stack: StackId(stack),
            head: head.map(StackId),
            kind: LostKind::Other,
            blocks,
            bytes: 10 * blocks,
        };
        assert_eq!(scans[0].lost, [lost(0, None, 2), lost(1, Some(1), 5)]);
    }
}
