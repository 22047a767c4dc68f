//! `mallow import`: the report of `watch`, of what perf or bpftrace wrote of the probes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use mallow_capture::recording::Progress;
use mallow_report::analysis::Which;
use mallow_report::analysis::sampled::snapshot;

use mallow_formats::{self as formats, pprof, probes};

use super::watch::exclusions::Exclusions;
use super::watch::session::{ReportSubject, Session, WatchMoment};
use super::watch::text;
use crate::flags::ImportFlags;
use crate::output::progress::Bar;
use crate::output::text::Stream;
use crate::output::text::units::{count, of};
use crate::output::{destination, exit, json, stdio};

pub fn run(flags: &ImportFlags) -> Result<ExitCode> {
    let mut session = Session::new(Exclusions::read(&flags.known)?, false, None);
    let name = flags.file.display();
    let waiting = Bar::of("reading");
    let show = &mut |progress: formats::Progress| {
        if let Some(all) = progress.all {
            waiting.show(Progress { done: progress.done, all });
        }
    };
    let (file, length) = open(&flags.file).with_context(|| format!("cannot read {name}"))?;
    let ledger = &mut session.ledger;
    let read = probes::read(file, length, flags.period.into(), show, &mut |event| ledger.feed(&event));
    drop(waiting);
    let mut probes = read.with_context(|| format!("cannot read {name}"))?;
    session.ledger.advance(probes.end_ns);
    for remark in &probes.remarks {
        stdio::notify(remark);
    }
    stdio::notify(&format!(
        "{} read{}{}",
        of(probes.events, "event"),
        format_remark(probes.unseen, "freed what had been allocated before"),
        format_remark(probes.damaged, "made no sense"),
    ));
    if probes.profile.command.is_empty() {
        probes.profile.command = probes.profile.processes.first().map(|p| p.executable.clone()).into_iter().collect();
    }
    let moment = WatchMoment {
        now_ns: probes.end_ns,
        watched_ns: probes.profile.duration_ms.saturating_mul(1_000_000),
        // The events' clocks begin anywhere, often with the machine.
        unix_ms: 0,
        period_bytes: Some(flags.period.into()),
        attached_ms: None,
    };
    let older_than_ms = flags.older_than.as_millis() as u64;
    let which = if older_than_ms > 0 { Which::Old } else { Which::Live };
    let limit = flags.view.limit(if flags.view.json { usize::MAX } else { 10 });
    let subject = ReportSubject { occasion: "import", which, older_than_ms, limit };
    let report = session.report(&probes.profile, &moment, &|_| true, &subject);
    stdio::print(&match flags.view.json {
        true => json::line(&report)?,
        false => text::report(
            &report,
            None,
            &flags.view.look(Stream::Out),
            flags.stacks,
            report.places.places.len() == limit,
        ),
    })?;
    if let Some(path) = &flags.output {
        let profile = snapshot(&session.ledger, &probes.profile, moment.now_ns, moment.unix_ms);
        let file = destination::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        pprof::write(&profile, file).with_context(|| format!("cannot write {}", path.display()))?;
        stdio::notify(&format!("wrote what is live at the end to {}", path.display()));
    }
    Ok(exit::OK)
}

fn format_remark(n: u64, what: &str) -> String {
    if n > 0 { format!(", {} {what}", count(n)) } else { String::new() }
}

fn open(path: &Path) -> std::io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((Box::new(file), Some(length).filter(|&length| length > 0)))
}
