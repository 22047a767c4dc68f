//! What a watch begins with: a program, and where reports go.

use std::process::Child;

use mallow_capture::attach::Attachment;
use mallow_capture::guard::Keeper;
use mallow_capture::watch::Watch;
use mallow_report::analysis::Unseen;

use super::super::screen::Screen;
use super::endpoint::Endpoint;
use super::push::Push;
use super::report_stream::ReportStream;
use super::signals::Signals;
use super::snapshots::Snapshots;
use crate::output::text::Look;
use crate::page::live::LivePage;

/// A watch, and the signals that mallow takes.
pub(super) struct Started {
    pub watch: Watch,
    /// None for a process that mallow attached to.
    pub command: Option<Child>,
    pub signals: Signals,
    pub attached: Option<Attached>,
    /// The keeper of guarded processes; None without `--guard`.
    pub keeper: Option<Keeper>,
    /// Why nothing of the command's own program can be sampled, where that is known.
    pub unseen: Option<Unseen>,
}

pub(super) struct Attached {
    pub attachment: Attachment,
    /// Time that the process had run by then, in milliseconds.
    pub ran_ms: u64,
}

/// Destinations and form of reports.
pub(super) struct Output {
    pub out: ReportStream,
    pub look: Look,
    pub snapshots: Option<Snapshots>,
    pub screen: Option<Screen>,
    pub endpoint: Option<Endpoint>,
    /// The page; None without `mallow view --live`.
    pub page: Option<LivePage>,
    pub push: Option<Push>,
}
