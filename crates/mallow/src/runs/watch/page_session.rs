//! `mallow view --live`: a watch whose numbers are shown by a page in the browser.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use mallow_capture::watch::Watch;

use super::exclusions::Exclusions;
use super::report_stream::ReportStream;
use super::session::Session;
use super::setup::Output;
use super::start;
use super::watcher::Watcher;
use crate::flags::{Command, Flags, PageFlags, WatchFlags};
use crate::output::stdio;
use crate::output::text::estimates::period;
use crate::output::text::{Look, Stream};
use crate::page::Door;
use crate::page::live::LivePage;
use crate::runs::attached::ForeignRoot;

/// The page shows what there is at any time: no report is made meanwhile.
const NO_REPORTS: &str = "100000h";

/// Watches the process that the flags name, until it ends, Ctrl-C, or nobody looks any more.
pub fn show_page(page_flags: &PageFlags) -> Result<ExitCode> {
    let Some(pid) = page_flags.live else { bail!("no process is named") };
    let flags = watch_flags(pid, page_flags)?;
    // An address that is taken is an error before mallow attaches; threads come after it.
    let door = Door::open(page_flags)?;
    let started = match start(&flags)? {
        Ok(started) => started,
        Err(status) => return Ok(status),
    };
    announce(pid, &started.watch, started.attached.is_some());
    let session = Session::new(Exclusions::read(&flags.known)?, flags.track_peak, ForeignRoot::of(pid));
    let look = flags.view.look(Stream::Err);
    let page = Some(LivePage::serve(door, page_flags, pid)?);
    let output =
        Output { out: ReportStream::Error, look, snapshots: None, screen: None, endpoint: None, page, push: None };
    Watcher::new(&flags, session, started, output).work()
}

/// Flags of the watch behind the page.
fn watch_flags(pid: u32, page: &PageFlags) -> Result<WatchFlags> {
    let pid = pid.to_string();
    let mut line: Vec<OsString> =
        ["mallow", "watch", "-p", &pid, "--lines", "--every", NO_REPORTS].map(OsString::from).into();
    if let Some(period) = page.period {
        line.extend(["--period".into(), period.to_string().into()]);
    }
    match Flags::of_line(line) {
        Ok(Flags { command: Command::Watch(flags) }) => Ok(*flags),
        Ok(_) => bail!("this is no watch"),
        Err(error) => Err(anyhow!(error)),
    }
}

fn announce(pid: u32, watch: &Watch, attached: bool) {
    let sampled = period(Some(watch.control().period()), &Look::default());
    stdio::notify(&format!("watching process {pid}, {sampled}"));
    stdio::notify(match attached {
        true => "blocks allocated before mallow attached are not included",
        false => "blocks from before are counted if they were sampled",
    });
}
