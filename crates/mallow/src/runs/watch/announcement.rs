//! What mallow prints when it begins to watch, where there is no live view.

use std::io::IsTerminal;

use mallow_capture::watch::Watch;
use mallow_report::analysis::sampled::FIRST_VERDICT_NS;

use super::headline::whole;
use crate::flags::WatchFlags;
use crate::output::stdio;
use crate::output::text::Look;
use crate::output::text::estimates::period;

/// Prints the sampling period, the time of the first verdict and the address of the live view.
pub fn announce(watch: &Watch, flags: &WatchFlags, attached: bool) {
    let who = match flags.pid {
        Some(pid) => format!("process {pid}"),
        None => flags.command.first().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
    };
    let sampled = period(Some(watch.control().period()), &Look::default());
    stdio::notify(&format!("watching {who}, {sampled}; a report every {}", whole(flags.every.as_millis() as u64)));
    if flags.view.json {
        return;
    }
    let first = FIRST_VERDICT_NS / 1_000_000_000;
    let sure = whole(flags.warm_up.as_millis() as u64);
    stdio::notify(&format!("growth shows after {first} s and is significant after {sure}; news at once"));
    if attached {
        stdio::notify("blocks allocated before mallow attached are not included");
    } else if flags.pid.is_some() {
        stdio::notify("blocks from before are counted if they were sampled");
    } else if std::io::stdout().is_terminal() && !flags.lines {
        stdio::notify("live view: --log FILE for its output, or mallow watch -p PID elsewhere");
    }
}
