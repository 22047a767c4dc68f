//! What a program held while it ran: at its end it may have freed all of it, in a moment or over seconds.

use mallow_report::analysis::Watched;

/// A report is kept for so long while less is live: the end of a program that frees what it has takes that at the most.
const LONGEST_END_MS: u64 = 15_000;
/// Less is live from this share of the kept report's bytes on.
const FALLEN: f64 = 0.9;

/// The latest report of a program that runs, or the one before it began to free what it had.
#[derive(Default)]
pub struct LastRunning {
    report: Option<Watched>,
    fell: bool,
}

impl LastRunning {
    /// Takes a report of all that is live, unless no process runs.
    pub fn look(&mut self, report: &Watched) {
        if !report.processes.iter().any(|process| process.running) {
            return;
        }
        self.fell = self.report.as_ref().is_some_and(|kept| {
            report.live_bytes.value < FALLEN * kept.live_bytes.value
                && report.watched_ms.saturating_sub(kept.watched_ms) < LONGEST_END_MS
        });
        if !self.fell {
            self.report = Some(report.clone());
        }
    }

    /// None: the program was never seen running.
    pub fn report(&self) -> Option<&Watched> {
        self.report.as_ref()
    }

    /// Whether less was live at later looks than in the report.
    pub fn fell(&self) -> bool {
        self.fell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::screen::tests::report;

    fn after(watched_ms: u64, live: f64) -> Watched {
        let mut report = report();
        (report.watched_ms, report.live_bytes.value) = (watched_ms, live);
        report
    }

    fn kept(looks: &[(u64, f64)]) -> (u64, bool) {
        let mut running = LastRunning::default();
        looks.iter().for_each(|(ms, live)| running.look(&after(*ms, *live)));
        (running.report().map_or(0, |kept| kept.watched_ms), running.fell())
    }

    #[test]
    fn what_a_program_frees_at_its_end_was_live_while_it_ran() {
        assert_eq!(kept(&[(8_000, 16.0), (9_000, 16.1), (10_000, 12.0), (11_000, 4.0)]), (9_000, true));
        assert_eq!(kept(&[(9_000, 16.0), (10_000, 15.0)]), (10_000, false));
        // A program that goes on with less has less.
        assert_eq!(kept(&[(9_000, 16.0), (10_000, 4.0), (24_000, 4.0)]), (24_000, false));
        assert_eq!(kept(&[(9_000, 16.0), (10_000, 4.0), (11_000, 17.0)]), (11_000, false));
    }
}
