//! The turns of a mallow that watches a fleet: looks, news, reports, answers to scrapers and signals.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use mallow_capture::watch::Turn;
use mallow_fleet::{FleetMeasurement, fleet_metrics};
use mallow_profile::Profile;
use mallow_report::analysis::{FleetLimits, FleetOptions, FleetReport, Merger, WatchLosses, Which, fleet};

use super::super::watch::endpoint::{Answer, Endpoint, ScrapeSubject};
use super::super::watch::headline::whole;
use super::super::watch::push::Push;
use super::super::watch::pushing;
use super::super::watch::report_stream::ReportStream;
use super::super::watch::signals::{Signal, Signals};
use super::choice::Choice;
use super::members::{Members, TURN};
use super::pushing::FleetPushing;
use super::text;
use crate::flags::WatchFlags;
use crate::output::text::Look;
use crate::output::text::units::of;
use crate::output::{exit, stdio};

/// Interval in which growth is looked for between reports, and the largest share of mallow's time for that, as a
/// divisor.
const NEWS: Duration = Duration::from_secs(5);
const NEWS_SHARE: u32 = 500;
/// Lines of news at one time. More are in the reports.
const NEWS_LINES: usize = 10;
/// Length of lists in a report, unless `--limit` says something else: in text, in JSON, and for scrapers, who choose
/// themselves.
const SHOWN: usize = 10;
const IN_JSON: usize = 100;

/// Destinations of reports and profiles.
pub struct Output {
    pub out: ReportStream,
    pub look: Look,
    pub endpoint: Option<Endpoint>,
    pub pushing: Option<FleetPushing>,
}

pub struct Watcher<'a> {
    flags: &'a WatchFlags,
    choice: Choice<'a>,
    members: Members<'a>,
    signals: Signals,
    output: Output,
    began: Instant,
    latest: Turn,
    said: Said,
    /// Why the latest report could not be written, as it was reported.
    trouble: Option<String>,
}

/// Messages so far on how many processes are watched.
#[derive(Default)]
struct Said {
    nobody: bool,
    watched: u64,
    unwatched: u64,
}

impl<'a> Watcher<'a> {
    pub fn new(
        flags: &'a WatchFlags,
        choice: Choice<'a>,
        members: Members<'a>,
        signals: Signals,
        output: Output,
    ) -> Self {
        let (began, latest) = (Instant::now(), Turn::now());
        Self { flags, choice, members, signals, output, began, latest, said: Said::default(), trouble: None }
    }

    pub fn work(mut self) -> Result<ExitCode> {
        let mut next_report = Instant::now() + self.flags.every;
        let mut next_news = Instant::now() + NEWS;
        loop {
            self.latest = Turn::now();
            let latest = self.latest;
            self.members.turn(&latest);
            self.say_who_is_watched();
            self.answer_scrapers();
            self.push_profiles();
            if self.follow_signals() {
                self.report("hup", Which::Live);
            }
            if self.signals.ends().0 > 0 {
                break;
            }
            let now = Instant::now();
            if now >= next_report {
                next_report = now + self.flags.every;
                self.report("every", self.which());
            }
            if now >= next_news && !self.flags.view.json {
                self.look_for_news();
                next_news = Instant::now() + NEWS.max(now.elapsed() * NEWS_SHARE);
            }
            std::thread::sleep(TURN);
        }
        // One that came with the signal to end.
        self.follow_signals();
        let written = self.write_report("end", self.which()).and(self.finish_push());
        let watched = self.members.len() as u64;
        self.members.leave().iter().for_each(|error| stdio::notify(&format!("{error:#}")));
        if watched > 0 {
            let (left, them) = match watched {
                1 => ("1 process, which continues".to_owned(), "it"),
                more => (format!("{}, which continue", of(more, "process")), "them"),
            };
            stdio::notify(&format!("left {left}; the next mallow watch --match joins {them} again"));
        }
        written.map(|()| exit::OK)
    }

    /// Whether signals ask for a report. HUP says, too, that the file of reports may be another one.
    fn follow_signals(&mut self) -> bool {
        let came = self.signals.take();
        if came.contains(&Signal::Live) {
            let opened = self.output.out.reopen();
            self.go_on(opened);
        }
        !came.is_empty()
    }

    fn which(&self) -> Which {
        if self.flags.older_than.is_some() { Which::Old } else { Which::Live }
    }

    /// The first time, and when it is more or others: at most once in a doubling.
    fn say_who_is_watched(&mut self) {
        if !self.members.is_settled() {
            return;
        }
        let seen = self.members.seen;
        let unwatched = self.members.unwatched();
        let all: u64 = unwatched.iter().map(|some| some.processes).sum();
        if seen == 0 && all == 0 && !self.said.nobody {
            self.said.nobody = true;
            self.say_that_nobody_matches();
        } else if seen >= 2 * self.said.watched.max(1) || seen == 1 && self.said.watched == 0 {
            self.said.watched = seen;
            let every = whole(self.flags.every.as_millis() as u64);
            let watched = match self.members.len() {
                1 => "1 process that matches".to_owned(),
                more => format!("{} that match", of(more as u64, "process")),
            };
            stdio::notify(&format!("watching {watched} {}; a report every {every}", self.choice));
        }
        if all > self.said.unwatched {
            self.said.unwatched = 2 * all;
            for some in unwatched.iter().take(NEWS_LINES) {
                stdio::notify(&format!("not watched: {}: {}", of(some.processes, "process"), some.reason));
            }
        }
    }

    fn say_that_nobody_matches(&self) {
        let places: Vec<String> = self.members.places().map(|place| place.display().to_string()).collect();
        let others: Vec<String> = self.members.passed_over.keys().take(SHOWN).cloned().collect();
        let others = match others.is_empty() {
            true => "nothing runs under mallow run".to_owned(),
            false => format!("under mallow run: {}", others.join(", ")),
        };
        let attached = match self.flags.attach {
            true => "all other processes were looked at as well",
            false => "processes that were not started under mallow are looked at with --attach",
        };
        stdio::notify(&format!(
            "no process matches {}: {others}, looked for in {}; {attached}; waiting for one",
            self.choice,
            places.join(", ")
        ));
    }

    fn made(&mut self, occasion: &str, which: Which, limits: FleetLimits) -> FleetReport {
        let mut processes = self.members.reports(which);
        processes.extend(self.members.ended.iter().cloned());
        let pattern = self.choice.to_string();
        let mut report = fleet(
            processes,
            FleetOptions {
                occasion,
                at_unix_ms: Turn::now().looked.unix_ms,
                watched_ms: self.began.elapsed().as_millis() as u64,
                pattern: &pattern,
                ended_in_all: self.members.ended_in_all,
                former: &self.members.former,
                unwatched: self.members.unwatched(),
                lost: WatchLosses::of(self.members.lost),
                limits,
            },
        );
        report.sums.ended += self.members.more_ended;
        report
    }

    fn report(&mut self, occasion: &str, which: Which) {
        let written = self.write_report(occasion, which);
        self.go_on(written);
    }

    /// Reports a failure to write once and goes on: the next report may be written, when there is room on the disk
    /// again.
    fn go_on(&mut self, written: Result<()>) {
        let Err(error) = written else {
            self.trouble = None;
            return;
        };
        let message = format!("{error:#}");
        if self.trouble.as_ref() != Some(&message) {
            stdio::notify(&format!("{message}; watching continues"));
            self.trouble = Some(message);
        }
    }

    fn write_report(&mut self, occasion: &str, which: Which) -> Result<()> {
        let shown = self.flags.view.limit(if self.flags.view.json { IN_JSON } else { SHOWN });
        let limits = FleetLimits { programs: shown, processes: shown, places: shown };
        let report = self.made(occasion, which, limits);
        let text = match self.flags.view.json {
            true => pushing::line(&report, self.push())?,
            false => text::report(&report, &self.output.look, self.flags.stacks),
        };
        self.output.out.write(&text)?;
        // Last numbers are reported once.
        self.members.ended.clear();
        self.members.more_ended = 0;
        Ok(())
    }

    /// Reports in one line what grows, when it is found.
    fn look_for_news(&mut self) {
        let news = self.members.news();
        for process in news.iter().take(NEWS_LINES) {
            let watched_ms = self.began.elapsed().as_millis() as u64;
            stdio::notify(&text::news(process, watched_ms, &self.output.look));
        }
        if let Some(more) = news.len().checked_sub(NEWS_LINES).filter(|more| *more > 0) {
            stdio::notify(&format!(
                "and {} that grow; kill -HUP {} asks for a report",
                of(more as u64, "process"),
                std::process::id()
            ));
        }
    }

    fn answer_scrapers(&mut self) {
        let Some(endpoint) = self.output.endpoint.take() else { return };
        for question in endpoint.take() {
            let answer = match question.subject {
                ScrapeSubject::Profile => Answer::Profile(Box::new(self.profile())),
                ScrapeSubject::Moment => Answer::Moment(self.members.moment()),
                ScrapeSubject::Metrics => {
                    let all = FleetLimits { programs: usize::MAX, processes: usize::MAX, places: usize::MAX };
                    let report = self.made("metrics", Which::Live, all);
                    let numbers =
                        fleet_metrics(&FleetMeasurement { report: &report, version: env!("CARGO_PKG_VERSION") });
                    Answer::Metrics(numbers + &pushing::series(self.push()))
                }
            };
            question.answer(answer);
        }
        self.output.endpoint = Some(endpoint);
    }

    fn push(&self) -> Option<&Push> {
        self.output.pushing.as_ref().map(FleetPushing::push)
    }

    fn push_profiles(&mut self) {
        let Some(pushing) = &mut self.output.pushing else { return };
        pushing.look(&mut self.members).iter().for_each(|text| stdio::notify(text));
    }

    fn finish_push(&mut self) -> Result<()> {
        let Some(pushing) = self.output.pushing.take() else { return Ok(()) };
        let line = pushing.finish(&mut self.members, &self.signals)?;
        if self.flags.view.json { self.output.out.write(&line) } else { Ok(()) }
    }

    /// The profile of all processes together: samples have the label `pid`.
    fn profile(&mut self) -> Profile {
        let mut merger = Merger::default();
        for profile in self.members.moment().into_values() {
            // Hundreds of command lines: each process has its own.
            merger.add("", &Profile { command: Vec::new(), ..profile });
        }
        let command = [vec!["mallow".to_owned(), "watch".to_owned()], self.choice.arguments()].concat();
        Profile { command, ..merger.finish().profile }
    }
}
