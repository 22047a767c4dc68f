//! What the live view shows, and what keys do to it. Knows no terminal.

use mallow_report::analysis::{Watched, WatchedSite};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Those that grow beyond doubt first, then the largest: as reports have them.
    #[default]
    Found,
    /// Live bytes.
    Bytes,
    /// Growth.
    Growth,
    /// Age of the oldest.
    Age,
    /// Bytes times seconds.
    ByteSeconds,
    /// Frees by other threads.
    CrossThread,
}

impl Sort {
    const ALL: [Self; 6] = [Self::Found, Self::Bytes, Self::Growth, Self::Age, Self::ByteSeconds, Self::CrossThread];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// As the screen names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "growing first",
            Self::Bytes => "live bytes",
            Self::Growth => "growth",
            Self::Age => "age",
            Self::ByteSeconds => "byte·seconds",
            Self::CrossThread => "frees by other threads",
        }
    }
}

/// What a key asks of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing beyond the screen.
    Nothing,
    /// Mute this site.
    Mute(u64),
    /// Mute nothing any more.
    Unmute,
    /// Sample twice as much.
    More,
    /// Sample half as much.
    Less,
    /// Stop sampling, or begin again.
    Toggle,
    /// Report now.
    Report,
    /// Old samples alone, or all.
    Which,
    /// Leave.
    Leave,
    /// Ctrl-C, which would reach a command that mallow started.
    Interrupt,
}

/// The live view.
#[derive(Debug, Default)]
pub struct State {
    /// What there is to show.
    pub report: Option<Watched>,
    /// Live bytes over time, the oldest first.
    pub history: Vec<u64>,
    /// What happened last.
    pub message: Option<String>,
    /// Sorted by this.
    pub sort: Sort,
    /// Rows whose names have this, in whatever letters.
    pub search: String,
    /// Letters go into the search.
    pub searching: bool,
    /// The chosen site.
    pub chosen: Option<u64>,
    /// Its stack is shown.
    pub detail: bool,
    /// Lines of it that are scrolled past.
    pub scrolled: u16,
    /// Rows of the table that fit, as the last drawing found.
    pub page: usize,
    /// The first row that is shown.
    pub top: usize,
}

impl State {
    /// Takes a new report. What is chosen stays chosen as long as it is there.
    pub fn show(&mut self, report: Watched) {
        self.report = Some(report);
        self.keep_choice();
    }

    /// Rows in their order.
    pub fn rows(&self) -> Vec<&WatchedSite> {
        let Some(report) = &self.report else { return Vec::new() };
        let mut rows: Vec<&WatchedSite> = report.sites.iter().filter(|site| self.found(site)).collect();
        let by: fn(&WatchedSite) -> f64 = match self.sort {
            Sort::Found => return rows,
            Sort::Bytes => |site| site.live_bytes.value,
            Sort::Growth => |site| site.growth.bytes_per_hour.low.unwrap_or(f64::NEG_INFINITY),
            Sort::Age => |site| site.oldest_ms as f64,
            Sort::ByteSeconds => |site| site.byte_seconds.value,
            Sort::CrossThread => |site| site.freed_by_others.unwrap_or(-1.0),
        };
        rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
        rows
    }

    fn found(&self, site: &WatchedSite) -> bool {
        let wanted = self.search.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        wanted.is_empty()
            || site.stack.frames.iter().any(|frame| {
                has(&frame.function)
                    || frame.file.as_deref().is_some_and(has)
                    || frame.module.as_deref().is_some_and(has)
            })
    }

    /// The chosen site, and its place among the rows.
    pub fn choice(&self) -> Option<(usize, &WatchedSite)> {
        let rows = self.rows();
        rows.iter().position(|site| Some(site.id) == self.chosen).map(|at| (at, rows[at]))
    }

    fn keep_choice(&mut self) {
        if self.choice().is_none() {
            self.chosen = self.rows().first().map(|site| site.id);
            self.detail &= self.chosen.is_some();
        }
    }

    fn choose(&mut self, at: usize) {
        let rows = self.rows();
        self.chosen = rows.get(at.min(rows.len().saturating_sub(1))).map(|site| site.id);
        self.scrolled = 0;
    }

    fn step(&mut self, by: isize) {
        if self.detail {
            self.scrolled = self.scrolled.saturating_add_signed(by.clamp(-1000, 1000) as i16);
            return;
        }
        let at = self.choice().map_or(0, |(at, _)| at);
        self.choose(at.saturating_add_signed(by));
    }

    /// Does what a key says to the screen, and returns what it asks of the watch.
    pub fn key(&mut self, key: KeyEvent) -> Request {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Request::Interrupt } else { Request::Nothing };
        }
        if self.searching {
            match key.code {
                KeyCode::Enter => self.searching = false,
                KeyCode::Esc => {
                    self.searching = false;
                    self.search.clear();
                }
                KeyCode::Backspace => drop(self.search.pop()),
                // As long as a name is looked for, and not a book.
                KeyCode::Char(c) if self.search.len() < 200 => self.search.push(c),
                _ => {}
            }
            self.keep_choice();
            return Request::Nothing;
        }
        let page = isize::try_from(self.page.max(2) - 1).unwrap_or(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-page),
            KeyCode::PageDown => self.step(page),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN + 1),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Enter => {
                self.scrolled = 0;
                self.detail = !self.detail && self.chosen.is_some();
            }
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Esc => {
                self.search.clear();
                self.keep_choice();
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => {
                self.detail = false;
                self.searching = true;
            }
            KeyCode::Char('m') => {
                if let Some((at, site)) = self.choice() {
                    let id = site.id;
                    self.detail = false;
                    // The next one takes its place.
                    let rows = self.rows();
                    let next = rows.get(at + 1).or_else(|| rows.get(at.checked_sub(1)?)).map(|site| site.id);
                    self.chosen = next;
                    return Request::Mute(id);
                }
            }
            KeyCode::Char('u') => return Request::Unmute,
            KeyCode::Char('+' | '=') => return Request::More,
            KeyCode::Char('-') => return Request::Less,
            KeyCode::Char('d') => return Request::Toggle,
            KeyCode::Char('r') => return Request::Report,
            KeyCode::Char('o') => return Request::Which,
            KeyCode::Char('q') => return Request::Leave,
            _ => {}
        }
        Request::Nothing
    }
}
