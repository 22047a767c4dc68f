//! `mallow watch --match`: many programs in production, as they come and go.

mod attacher;
mod choice;
mod last_profiles;
mod member;
pub mod members;
mod names;
mod pushing;
mod run;
mod text;
mod watcher;

use std::process::ExitCode;

use anyhow::{Context, Result};

use self::choice::Choice;
use self::members::Members;
use self::pushing::FleetPushing;
use self::watcher::{Output, Watcher};
use super::watch::endpoint::Doorway;
use super::watch::exclusions::Exclusions;
use super::watch::push::PushPlan;
use super::watch::report_stream::ReportStream;
use super::watch::signals::Signals;
use crate::flags::{SymbolsIn, WatchFlags};
use crate::output::stdio;
use crate::output::text::{Look, Stream};

/// Watches until it is asked to end.
pub fn run(flags: &WatchFlags) -> Result<ExitCode> {
    let choice = Choice::of(flags).context("nothing says which processes are to be watched")?;
    let known = Exclusions::read(&flags.known)?;
    let out = match &flags.output {
        Some(path) => ReportStream::file(path)?,
        None => ReportStream::Standard,
    };
    // Files are as wide as they are, whatever this terminal is.
    let look = match &flags.output {
        Some(_) => Look { exact: flags.view.exact, full_names: flags.view.full_names, ..Look::default() },
        None => flags.view.look(Stream::Out),
    };
    let doorway = Doorway::open(&flags.endpoint)?;
    let names = flags.endpoint.symbols == SymbolsIn::Profile;
    let plan = PushPlan::of(&flags.push, names)?;
    let signals = Signals::watch()?;
    let endpoint = doorway.map(|doorway| doorway.serve(names)).transpose()?;
    if let Some(endpoint) = &endpoint {
        stdio::notify(&format!("scrapers: {}/metrics and /debug/pprof/heap", endpoint.address));
    }
    let members = Members::new(flags, choice, known).context("cannot watch")?;
    let pushing = plan.map(PushPlan::start).transpose()?.map(FleetPushing::new);
    Watcher::new(flags, choice, members, signals, Output { out, look, endpoint, pushing }).work()
}
