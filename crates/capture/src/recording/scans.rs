//! What scans of processes at their exit found.
//!
//! One column. For each scan: the number of its process; 0, or 1 and why there is none; the number of sites, and for each the
//! fields of a [`LostSite`]; the number of kinds of cycles, and for each its count, blocks, bytes, the number of its stacks, and
//! these.

use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::{LostCycle, LostSite, ProcessId, Scan, StackId};

/// Sites of one block: a column has room for them.
const SITES: usize = 1 << 16;

/// Blocks of scans, each with one column. A process with many sites goes on in the next one.
pub fn write(scans: &[Scan]) -> Vec<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    let (mut column, mut room) = (Vec::new(), SITES);
    for scan in scans {
        let mut rest = &scan.sites[..];
        let mut cycles = &scan.cycles[..];
        loop {
            let (now, later) = rest.split_at(rest.len().min(room));
            write_scan(&mut column, scan, now, cycles);
            (rest, cycles) = (later, &[]);
            room = room.saturating_sub(now.len() + 1);
            if room == 0 {
                blocks.push(vec![std::mem::take(&mut column)]);
                room = SITES;
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    if !column.is_empty() {
        blocks.push(vec![column]);
    }
    blocks
}

fn write_scan(column: &mut Vec<u8>, scan: &Scan, sites: &[LostSite], cycles: &[LostCycle]) {
    put(column, scan.process.0.into());
    put(column, scan.failure.is_some().into());
    if let Some(failure) = &scan.failure {
        put_bytes(column, failure.as_bytes());
    }
    put(column, sites.len() as u64);
    for site in sites {
        put(column, site.stack.0.into());
        for number in [site.heads, site.head_bytes, site.held, site.held_bytes, site.lost, site.lost_bytes] {
            put(column, number);
        }
    }
    put(column, cycles.len() as u64);
    for cycle in cycles {
        for number in [cycle.count, cycle.blocks, cycle.bytes, cycle.stacks.len() as u64] {
            put(column, number);
        }
        cycle.stacks.iter().for_each(|stack| put(column, stack.0.into()));
    }
}

/// Reads a block. `processes` and `stacks`: how many there are.
pub fn read(columns: &mut [Cursor], processes: usize, stacks: usize, scans: &mut Vec<Scan>) -> Result<(), Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of scans has another number of columns")) };
    let stack = |column: &mut Cursor| match column.small()? {
        number if (number as usize) < stacks => Ok(StackId(number)),
        _ => Err(Nonsense("a lost block of no stack")),
    };
    while !column.is_empty() {
        let process = column.small()?;
        if process as usize >= processes {
            return Err(Nonsense("a scan of no process"));
        }
        let failure = if column.number()? != 0 { Some(column.string()?) } else { None };
        let mut scan = Scan { process: ProcessId(process), failure, ..Scan::default() };
        for _ in 0..column.number()? {
            let stack = stack(column)?;
            let mut numbers = [0; 6];
            for number in &mut numbers {
                *number = column.number()?;
            }
            let [heads, head_bytes, held, held_bytes, lost, lost_bytes] = numbers;
            scan.sites.push(LostSite { stack, heads, head_bytes, held, held_bytes, lost, lost_bytes });
        }
        for _ in 0..column.number()? {
            let (count, blocks, bytes) = (column.number()?, column.number()?, column.number()?);
            let mut cycle = LostCycle { count, blocks, bytes, stacks: Vec::new() };
            for _ in 0..column.number()? {
                cycle.stacks.push(stack(column)?);
            }
            scan.cycles.push(cycle);
        }
        match scans.last_mut().filter(|last| last.process == scan.process) {
            Some(last) => last.sites.append(&mut scan.sites),
            None => scans.push(scan),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(process: u32, sites: u32) -> Scan {
        let site = |stack| LostSite { stack: StackId(stack), heads: 1, lost: 2, lost_bytes: 99, ..LostSite::default() };
        let cycle = LostCycle { count: 3, blocks: 6, bytes: 600, stacks: vec![StackId(1), StackId(0)] };
        Scan { process: ProcessId(process), failure: None, sites: (0..sites).map(site).collect(), cycles: vec![cycle] }
    }

    #[test]
    fn scans_come_back_from_as_many_blocks_as_they_need() {
        let failed = Scan { process: ProcessId(1), failure: Some("it is gone".into()), ..Scan::default() };
        let all = vec![scan(0, 3), failed, scan(2, 150_000)];
        let blocks = write(&all);
        assert_eq!(blocks.len(), 3);
        let mut back = Vec::new();
        for block in &blocks {
            let mut columns: Vec<Cursor> = block.iter().cloned().map(Cursor::new).collect();
            assert!(read(&mut columns, 3, 150_000, &mut back).is_ok());
        }
        assert_eq!(back, all);
        let read_of =
            |processes, stacks| read(&mut [Cursor::new(blocks[0][0].clone())], processes, stacks, &mut Vec::new());
        assert!(read_of(2, 150_000).is_err() && read_of(3, 3).is_err());
    }
}
