//! From the lost blocks that a scan found to sums of sites.

use crate::accounts::{Ledger, Live};
use crate::scan::{Cycles, Failure, Found};
use mallow_profile::{LostCycle, LostSite, ProcessId, Scan, StackId};
use rustc_hash::FxHashMap;

/// Kinds of cycles that are kept, those with the most bytes.
const CYCLES: usize = 64;

/// What a scan of a process comes to when the process has ended. None: nothing is live.
pub fn close(process: u32, scan: Result<Found, Failure>, live: &Live, ledger: &Ledger) -> Option<Scan> {
    if live.is_empty() {
        return None;
    }
    let mut closed = Scan { process: ProcessId(process), ..Scan::default() };
    match scan {
        Ok(found) => {
            closed.sites = sites(&found, live, ledger);
            closed.cycles = cycles(found.cycles, ledger);
        }
        Err(failure) => closed.failure = Some(failure.why().to_owned()),
    }
    Some(closed)
}

fn stack(ledger: &Ledger, site: u32) -> Option<StackId> {
    ledger.sites.get(site as usize).map(|site| site.stack)
}

/// Blocks that were freed after the scan are not lost.
fn sites(found: &Found, live: &Live, ledger: &Ledger) -> Vec<LostSite> {
    let mut sums: FxHashMap<u32, LostSite> = FxHashMap::default();
    for lost in &found.lost {
        if live.get(lost.address).is_none_or(|block| block.sequence != lost.sequence) {
            continue;
        }
        let own = sums.entry(lost.site).or_default();
        own.lost += 1;
        own.lost_bytes = own.lost_bytes.saturating_add(lost.size);
        if lost.is_head {
            own.heads += 1;
            own.head_bytes = own.head_bytes.saturating_add(lost.size);
        } else {
            let head = sums.entry(lost.head).or_default();
            head.held += 1;
            head.held_bytes = head.held_bytes.saturating_add(lost.size);
        }
    }
    let mut sites: Vec<(u32, LostSite)> = sums.into_iter().collect();
    sites.sort_unstable_by_key(|&(site, _)| site);
    let with_stack = |(site, sums)| Some(LostSite { stack: stack(ledger, site)?, ..sums });
    sites.into_iter().filter_map(with_stack).collect()
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
