//! From the lost blocks that a scan found to sums of sites.

use crate::accounts::{Ledger, Live};
use crate::scan::{Cycles, Failure, Found, LostBlock};
use mallow_profile::{LostBlocks, LostCycle, ProcessId, Scan, ScanOutcome, StackId, sum_lost};

/// Most kinds of cycles that are kept: those with the most bytes.
const CYCLES: usize = 64;

/// The scan of a process that has ended, and its lost blocks by sequence number. None: nothing is live.
pub fn close(
    process: u32,
    scan: Result<Found, Failure>,
    live: &Live,
    ledger: &Ledger,
) -> Option<(Scan, Vec<LostBlock>)> {
    if live.is_empty() {
        return None;
    }
    let mut closed = Scan { process: ProcessId(process), ..Scan::default() };
    let mut lost = Vec::new();
    match scan {
        Ok(found) => {
            lost = still_live(found.lost, live);
            closed.lost = sums(&lost, ledger);
            closed.cycles = cycles(found.cycles, ledger);
        }
        Err(Failure::Exec) => closed.outcome = ScanOutcome::Exec,
        Err(failure) => closed.outcome = ScanOutcome::Failed(failure.why().to_owned()),
    }
    Some((closed, lost))
}

fn stack(ledger: &Ledger, site: u32) -> Option<StackId> {
    ledger.sites.get(site as usize).map(|site| site.stack)
}

/// Lost blocks by sequence number, without those that were freed after the scan, which hold nothing.
fn still_live(mut lost: Vec<LostBlock>, live: &Live) -> Vec<LostBlock> {
    lost.retain(|lost| live.get(lost.address).is_some_and(|block| block.sequence == lost.sequence));
    lost.sort_unstable_by_key(|lost| lost.sequence);
    let heads: Vec<u64> = lost.iter().filter(|lost| lost.head.is_none()).map(|lost| lost.sequence).collect();
    for lost in &mut lost {
        lost.head = lost.head.filter(|(head, _)| heads.binary_search(head).is_ok());
    }
    lost
}

fn sums(lost: &[LostBlock], ledger: &Ledger) -> Vec<LostBlocks> {
    let of = |lost: &LostBlock| {
        let head = lost.head.map(|(_, site)| stack(ledger, site)).unwrap_or_default();
        Some(LostBlocks { stack: stack(ledger, lost.site)?, head, kind: lost.kind, blocks: 1, bytes: lost.size })
    };
    sum_lost(lost.iter().filter_map(of).collect())
}

fn cycles(found: std::collections::BTreeMap<Vec<u32>, Cycles>, ledger: &Ledger) -> Vec<LostCycle> {
    let mut all: Vec<LostCycle> = (found.into_iter())
        .map(|(sites, Cycles { count, blocks, bytes })| {
            let stacks = sites.into_iter().filter_map(|site| stack(ledger, site)).collect();
            LostCycle { count, blocks, bytes, stacks }
        })
        .collect();
    all.sort_by_key(|cycle| std::cmp::Reverse(cycle.bytes));
    all.truncate(CYCLES);
    all
}
