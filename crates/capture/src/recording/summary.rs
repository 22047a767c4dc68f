//! What is known at the end: counts and patterns of sites, what became of processes, how it ended.
//!
//! | block | columns |
//! | --- | --- |
//! | counts | 0: number of sites; 1…14: for each site, in their order, the fields of [`FIELDS`] |
//! | patterns | 0: number of sites; 1…13: for each site, in their order, the fields of [`PATTERNS`] |
//! | processes | 0: for each process end, threads, own peak and when, calls and bytes by family, frees, realloc frees, reallocs in place and moved, foreign frees, lost, wait at its exit, wait for unwind tables, how many came too late |
//! | ending | 0: duration, exit status + 1 folded or 0, cut short: 0 or 1 and why, lost, damaged, peak in ms, number of sites, CPU time + 1 or 0, when the command began and ended |

use super::bytes::{Cursor, Nonsense, fold, put, put_bytes, unfold};
use crate::accounts::Ledger;
use mallow_profile::{Count, Ending, Process, Profile, Site};
use std::ops::Range;

/// The fields of a site, one column each.
const FIELDS: [fn(&mut Site) -> &mut u64; 14] = [
    |s| &mut s.counts.allocations,
    |s| &mut s.counts.allocated_bytes,
    |s| &mut s.counts.frees,
    |s| &mut s.counts.freed_bytes,
    |s| &mut s.counts.temporary,
    |s| &mut s.counts.temporary_bytes,
    |s| &mut s.counts.live,
    |s| &mut s.counts.live_bytes,
    |s| &mut s.counts.peak,
    |s| &mut s.counts.peak_bytes,
    |s| &mut s.counts.reallocs_in_place,
    |s| &mut s.counts.reallocs_moved,
    |s| &mut s.live_oldest_ms,
    |s| &mut s.live_youngest_ms,
];

// A count more is a column more: a new version of the format.
const _: () = assert!(FIELDS.len() == Count::ALL.len() + 2);

/// What a site does with its blocks, one column each.
const PATTERNS: [fn(&mut Site) -> &mut u64; 13] = [
    |s| &mut s.patterns.smallest,
    |s| &mut s.patterns.largest,
    |s| &mut s.patterns.alternating,
    |s| &mut s.patterns.growth_steps,
    |s| &mut s.patterns.grown_buffers,
    |s| &mut s.patterns.copied_bytes,
    |s| &mut s.patterns.freed_by_others,
    |s| &mut s.patterns.freed_in_runs,
    |s| &mut s.patterns.runs,
    |s| &mut s.patterns.kept,
    |s| &mut s.patterns.kept_bytes,
    |s| &mut s.patterns.kept_slack,
    |s| &mut s.patterns.overhead_bytes,
];

/// Most sites of one block of counts or patterns.
pub const SITES: usize = 1 << 16;

pub fn write_counts(sites: &[Site]) -> Vec<Vec<u8>> {
    write_fields(sites, &FIELDS)
}

/// Sets the counts of the next sites; `done` is how many sites have theirs.
pub fn read_counts(columns: &mut [Cursor], ledger: &mut Ledger, done: &mut usize) -> Result<(), Nonsense> {
    read_fields(columns, &mut ledger.sites, &FIELDS, done)
}

pub fn write_patterns(sites: &[Site]) -> Vec<Vec<u8>> {
    write_fields(sites, &PATTERNS)
}

/// Sets what the next sites do with their blocks; `done` is how many sites are set.
pub fn read_patterns(columns: &mut [Cursor], ledger: &mut Ledger, done: &mut usize) -> Result<(), Nonsense> {
    read_fields(columns, &mut ledger.sites, &PATTERNS, done)
}

type Field = fn(&mut Site) -> &mut u64;

fn write_fields(sites: &[Site], fields: &[Field]) -> Vec<Vec<u8>> {
    let mut columns = vec![Vec::new(); 1 + fields.len()];
    put(&mut columns[0], sites.len() as u64);
    for site in sites {
        let mut site = site.clone();
        for (column, field) in columns[1..].iter_mut().zip(fields) {
            put(column, *field(&mut site));
        }
    }
    columns
}

fn read_fields(columns: &mut [Cursor], sites: &mut [Site], fields: &[Field], done: &mut usize) -> Result<(), Nonsense> {
    let [count, columns @ ..] = columns else { return Err(Nonsense("a block of sums has no columns")) };
    let count = usize::try_from(count.number()?).map_err(|_| Nonsense("more sums than sites"))?;
    let end = done.checked_add(count).ok_or(Nonsense("more sums than sites"))?;
    let sites = sites.get_mut(*done..end).ok_or(Nonsense("more sums than sites"))?;
    if columns.len() != fields.len() {
        return Err(Nonsense("a block of sums has another number of columns"));
    }
    for (column, field) in columns.iter_mut().zip(fields) {
        for site in sites.iter_mut() {
            *field(site) = column.number()?;
        }
    }
    *done = end;
    Ok(())
}

pub fn write_processes(processes: &[Process]) -> Vec<Vec<u8>> {
    let mut column = Vec::new();
    for process in processes {
        let mut process = process.clone();
        process_fields(&mut process, |field| {
            put(&mut column, *field);
            Ok(())
        })
        .unwrap_or_default();
    }
    vec![column]
}

pub fn read_processes(columns: &mut [Cursor], ledger: &mut Ledger) -> Result<(), Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of processes has another number of columns")) };
    for process in &mut ledger.processes {
        process_fields(process, |field| {
            *field = column.number()?;
            Ok(())
        })?;
    }
    Ok(())
}

fn process_fields(p: &mut Process, mut each: impl FnMut(&mut u64) -> Result<(), Nonsense>) -> Result<(), Nonsense> {
    let mut threads = u64::from(p.threads);
    let fields = [&mut p.end_ms, &mut threads, &mut p.own_peak_bytes, &mut p.own_peak_ms];
    fields.into_iter().try_for_each(&mut each)?;
    p.threads = u32::try_from(threads).map_err(|_| Nonsense("too many threads"))?;
    let families = &mut p.families;
    for calls in &mut families.calls {
        each(&mut calls.0)?;
        each(&mut calls.1)?;
    }
    for field in [
        &mut families.frees,
        &mut families.realloc_frees,
        &mut families.reallocs_in_place,
        &mut families.reallocs_moved,
        &mut p.foreign_frees,
        &mut p.lost,
        &mut p.exit_wait_ms,
        &mut p.table_wait_ms,
        &mut p.late_tables,
    ] {
        each(field)?;
    }
    Ok(())
}

/// The column of the last block with contents.
pub fn write_ending(profile: &Profile) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    put(&mut out, profile.duration_ms);
    put(&mut out, profile.ending.exit_status.map_or(0, |status| fold(status as i64 as u64, 0).saturating_add(1)));
    put(&mut out, profile.ending.cut_short.is_some().into());
    put_bytes(&mut out, profile.ending.cut_short.as_deref().unwrap_or("").as_bytes());
    for number in [profile.ending.lost, profile.ending.damaged, profile.peak_ms, profile.sites.len() as u64] {
        put(&mut out, number);
    }
    put(&mut out, profile.cpu_us.map_or(0, |cpu| cpu.saturating_add(1)));
    if let Some(run) = &profile.run_ms {
        put(&mut out, run.start);
        put(&mut out, run.end);
    }
    vec![out]
}

/// What [`write_ending`] wrote.
#[derive(Clone, Debug, Default)]
pub struct End {
    pub duration_ms: u64,
    pub ending: Ending,
    /// Milliseconds since the recording began at which the peak was.
    pub peak_ms: u64,
    /// How many sites have counts: the tables must have as many.
    pub sites: u64,
    /// CPU time in microseconds; None: it is not known.
    pub cpu_us: Option<u64>,
    /// Milliseconds since the recording began, from the start to the end of the command; None: it is not known.
    pub run_ms: Option<Range<u64>>,
}

pub fn read_ending(columns: &mut [Cursor]) -> Result<End, Nonsense> {
    let [column] = columns else { return Err(Nonsense("the ending has another number of columns")) };
    let mut end = End { duration_ms: column.number()?, ..End::default() };
    end.ending.exit_status = match column.number()? {
        0 => None,
        status => Some(unfold(status - 1, 0) as i32),
    };
    let cut = column.number()? != 0;
    let why = column.string()?;
    end.ending.cut_short = cut.then_some(why);
    end.ending.lost = column.number()?;
    end.ending.damaged = column.number()?;
    end.peak_ms = column.number()?;
    end.sites = column.number()?;
    // Recordings of earlier versions end here.
    end.cpu_us = if column.is_empty() { None } else { column.number()?.checked_sub(1) };
    if !column.is_empty() {
        let start = column.number()?;
        end.run_ms = Some(start..column.number()?);
        if end.run_ms.as_ref().is_some_and(|run| run.start > run.end || run.end > end.duration_ms) {
            return Err(Nonsense("the command ran at another time than it was recorded"));
        }
    }
    Ok(end)
}
