//! `mallow export`: recordings and profiles in other tools' formats.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_formats::{dhat, folded, heaptrack, pictured, pprof, table, write_dtrace, write_firefox, write_speedscope};
use mallow_profile::{Quantities, Quantity};

use crate::flags::{ExportFlags, ExportFormat, Table};
use crate::input::coverage;
use crate::input::recording::Recording;
use crate::output::destination;
use crate::output::text::units::of;
use crate::output::{exit, stdio};

const MALLOW: &str = concat!("mallow ", env!("CARGO_PKG_VERSION"));

pub fn run(flags: &ExportFlags) -> Result<ExitCode> {
    let mut recording = Recording::open(&flags.source)?;
    if flags.no_arguments {
        recording.profile.remove_arguments();
    }
    let format = flags.format;
    if flags.by.is_some() && format != ExportFormat::Folded {
        bail!("--by is for folded stacks alone: {} holds all measures that it knows", format.name());
    }
    if flags.table == Table::Events && !matches!(format, ExportFormat::Csv | ExportFormat::Parquet) {
        bail!("--table is for csv and parquet alone");
    }
    if flags.reasons.go_reasons.is_some() {
        bail!("--go-reasons is for html alone");
    }
    if flags.no_sources {
        bail!("--no-sources is for html alone: {} holds no source lines", format.name());
    }
    let loss = left_out(&recording, flags)?;
    let binary = format.is_binary().then(|| format.name());
    let lacking = recording.incomplete();
    // The one format with room for them.
    if format == ExportFormat::Pprof {
        recording.profile.unrecorded.clone_from(&lacking);
    }
    destination::stream(flags.output.as_deref(), binary.as_deref(), |out| write(&recording, flags, out))?;
    if let Some(loss) = loss {
        stdio::notify(&loss);
    }
    recording.warn_of(&lacking);
    Ok(exit::OK)
}

fn write(recording: &Recording, flags: &ExportFlags, out: impl Write + Send) -> Result<()> {
    let profile = &recording.profile;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    match (flags.format, flags.table) {
        (ExportFormat::Pprof, _) => pprof::write(profile, &mut out)?,
        (ExportFormat::Folded, _) => folded::write(profile, recording.measure(flags.by)?.quantity(), &mut out)?,
        (ExportFormat::Dhat, _) => dhat::write(profile, lives(recording)?.as_ref(), &mut out)?,
        (ExportFormat::Speedscope, _) => write_speedscope(profile, MALLOW, &mut out)?,
        (ExportFormat::Firefox, _) => write_firefox(profile, MALLOW, &mut out)?,
        (ExportFormat::Dtrace, _) => write_dtrace(profile, &mut out)?,
        (ExportFormat::Heaptrack, _) => {
            one_process(recording)?;
            let mut writer = heaptrack::Writer::new(profile, &mut out)?;
            recording.events(|at, event| writer.add(at, event))?;
            writer.finish()?;
        }
        // The page is above the views.
        (ExportFormat::Html, _) => bail!("html is written by the page"),
        (ExportFormat::Csv, Table::Sites) => {
            table::write_sites(profile, table::Csv::new(&table::SITES, &mut out)?)?;
        }
        (ExportFormat::Csv, Table::Events) => {
            write_events(recording, table::Csv::new(&table::EVENTS, &mut out)?)?;
        }
        (ExportFormat::Parquet, Table::Sites) => {
            table::write_sites(profile, table::Parquet::new("sites", &table::SITES, &mut out)?)?;
        }
        (ExportFormat::Parquet, Table::Events) => {
            write_events(recording, table::Parquet::new("events", &table::EVENTS, &mut out)?)?;
        }
    }
    Ok(out.flush()?)
}

fn write_events(recording: &Recording, rows: impl table::Rows) -> Result<()> {
    let mut events = table::Events::new(&recording.profile, rows);
    recording.events_numbered(|number, at, event| events.add(number, at, event))?;
    Ok(events.finish()?)
}

/// Times of blocks for DHAT; None where no events have them.
fn lives(recording: &Recording) -> Result<Option<dhat::Lives>> {
    if !recording.profile.has(Quantity::Events) {
        return Ok(None);
    }
    let mut lives = dhat::Lives::new(&recording.profile);
    recording.events(|at, event| lives.add(at, event))?;
    lives.finish();
    Ok(Some(lives))
}

fn one_process(recording: &Recording) -> Result<()> {
    let profile = &recording.profile;
    let mut processes: Vec<_> = profile.sites.iter().map(|site| site.process).collect();
    processes.sort_unstable();
    processes.dedup();
    if processes.len() > 1 {
        let there = of(processes.len() as u64, "process");
        bail!("a file of heaptrack's is of one process, and here are {there} that allocate; choose one with --process");
    }
    Ok(())
}

/// The quantities of the recording that the format does not carry, in one line.
fn left_out(recording: &Recording, flags: &ExportFlags) -> Result<Option<String>> {
    let profile = &recording.profile;
    let carried = match flags.format {
        ExportFormat::Pprof => pprof::carries(),
        ExportFormat::Folded => vec![recording.measure(flags.by)?.quantity()],
        ExportFormat::Dhat => dhat::carries(profile.has(Quantity::Events)),
        ExportFormat::Speedscope | ExportFormat::Firefox => pictured(),
        ExportFormat::Dtrace => {
            recording.require(Quantity::Allocations, "dtrace's stacks have numbers of allocations")?;
            return Ok(Some("dtrace's stacks carry allocations alone".to_owned()));
        }
        ExportFormat::Heaptrack => {
            recording.require(Quantity::Events, "heaptrack's files are made of them")?;
            heaptrack::CARRIES.to_vec()
        }
        ExportFormat::Csv | ExportFormat::Parquet if flags.table == Table::Events => {
            recording.require(Quantity::Events, "there is --table sites")?;
            return Ok(None);
        }
        ExportFormat::Html => return Ok(None),
        ExportFormat::Csv | ExportFormat::Parquet => table::site_quantities(),
    };
    if let ([only], ExportFormat::Folded) = (carried.as_slice(), flags.format) {
        return Ok(Some(format!("folded stacks carry {only} alone")));
    }
    let lost = coverage::lost(|quantity| profile.has(quantity), Quantities::of(&carried));
    Ok((!lost.is_empty()).then(|| format!("{} does not carry: {}", flags.format.name(), lost.join(", "))))
}
