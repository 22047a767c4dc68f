//! How far a recording is: one line on the terminal, and a few lines elsewhere if reading what is left takes long.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mallow_capture::session::{Stage, Tick};

use crate::output::stdio;
use crate::output::text::units::{bytes, of, span};

/// A wait at exit that is worth a line.
const LONG_SCAN: Duration = Duration::from_millis(500);
/// A wait for an unwind table that is worth a line.
const LONG_TABLE: Duration = Duration::from_millis(300);
/// A command that is over before this is not worth a line.
const SHORT: Duration = Duration::from_millis(500);
/// First wait that is worth a line where there is no terminal; the next line comes after twice that time.
const LONG: Duration = Duration::from_secs(10);
/// Number of recorded and unread events that is worth a word: some ten thousand allocations.
const BEHIND: u64 = 100_000;

pub enum StatusLine {
    /// One line on the terminal.
    Terminal(ProgressBar),
    /// Lines in a pipe or a file.
    Elsewhere {
        /// When reading of the rest began.
        since: Cell<Option<Instant>>,
        /// Time of the next line, after `since`.
        due: Cell<Duration>,
    },
}

impl StatusLine {
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Elsewhere { since: Cell::default(), due: Cell::new(LONG) };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self::Terminal(bar)
    }

    pub fn show(&self, tick: Tick) {
        match self {
            Self::Terminal(bar) if tick.elapsed >= SHORT => {
                bar.set_message(format!("mallow: {}", text(&tick)));
                bar.tick();
            }
            Self::Terminal(_) => {}
            Self::Elsewhere { since, due } => {
                let Stage::Reading { .. } = tick.stage else { return };
                let start = since.get().unwrap_or_else(Instant::now);
                since.set(Some(start));
                if start.elapsed() >= due.get() {
                    due.set(due.get() * 2);
                    stdio::notify(&text(&tick));
                }
            }
        }
    }

    /// Leaves an empty line on the terminal.
    pub fn clear(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn text(tick: &Tick) -> String {
    if let Some((pid, _)) = tick.exiting.filter(|(_, time)| *time >= LONG_SCAN) {
        return format!("process {pid} waits at its exit while it is scanned for lost blocks");
    }
    if tick.awaiting_table.is_some_and(|time| time >= LONG_TABLE) {
        return "the program waits while unwind tables of its libraries are made".to_owned();
    }
    let p = tick.progress;
    let elapsed = span(tick.elapsed.as_millis() as u64);
    let stage = match tick.stage {
        Stage::Running => elapsed,
        Stage::Detaching => format!("detaching after {elapsed}"),
        Stage::Reading { read, all } => {
            let percent = (u128::from(read) * 100).checked_div(all.into()).unwrap_or(100).min(100);
            format!("reading what was recorded, {percent} % of {}", bytes(all, false))
        }
    };
    let lost = if p.lost > 0 { format!("  {} lost", of(p.lost, "event")) } else { String::new() };
    // Reading leaves the processors to the command. Its sums are of what was read.
    let behind = match tick.stage {
        Stage::Running | Stage::Detaching if tick.unread >= BEHIND => bytes(tick.unread, false),
        _ => String::new(),
    };
    if p.allocations == 0 && !behind.is_empty() {
        return format!("{stage}  {behind} of events recorded, none read yet{lost}");
    }
    let behind = if behind.is_empty() { behind } else { format!("  {behind} more not read yet") };
    let (live, peak) = (bytes(p.live_bytes, false), bytes(p.peak_bytes, false));
    format!("{stage}  {}  live {live}  peak {peak}{behind}{lost}", of(p.allocations, "allocation"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_capture::replay::Progress;

    #[test]
    fn each_stage_reads_at_a_glance() {
        let progress =
            Progress { allocations: 1_234_567, live_bytes: 20_000, peak_bytes: 30_000, ..Progress::default() };
        let of = |stage| text(&Tick { elapsed: Duration::from_secs(12), progress, stage, ..Tick::default() });
        let numbers = "  1,234,567 allocations  live 20.0 kB  peak 30.0 kB";
        assert_eq!(of(Stage::Running), format!("12.00 s{numbers}"));
        assert_eq!(of(Stage::Detaching), format!("detaching after 12.00 s{numbers}"));
        let reading = of(Stage::Reading { read: 250_000_000, all: 1_000_000_000 });
        assert_eq!(reading, format!("reading what was recorded, 25 % of 1.00 GB{numbers}"));
        assert!(of(Stage::Reading { read: 0, all: 0 }).starts_with("reading what was recorded, 100 % of 0 B"));
        // The sums are of what was read: 0 allocations are none, or none that was read.
        let elapsed = Duration::from_secs(6);
        let behind = |progress| text(&Tick { elapsed, progress, unread: 3_100_000, ..Tick::default() });
        assert_eq!(behind(Progress::default()), "6.00 s  3.10 MB of events recorded, none read yet");
        assert_eq!(behind(progress), format!("6.00 s{numbers}  3.10 MB more not read yet"));
        assert!(text(&Tick::default()).ends_with("  0 allocations  live 0 B  peak 0 B"));
        let tick = Tick { exiting: Some((7, LONG_SCAN)), ..Tick::default() };
        assert_eq!(text(&tick), "process 7 waits at its exit while it is scanned for lost blocks");
        let tick = Tick { awaiting_table: Some(LONG_TABLE), ..Tick::default() };
        assert_eq!(text(&tick), "the program waits while unwind tables of its libraries are made");
    }
}
