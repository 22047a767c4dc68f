//! What the live view shows, and what keys do to it. Knows no terminal.

use std::collections::HashMap;

use mallow_report::analysis::sampled::Verdict;
use mallow_report::analysis::{Stack, Watched, WatchedPlace};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::runs::watch::headline::Headline;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Places that grow significantly first, then the largest: the order of reports.
    #[default]
    Found,
    Bytes,
    Growth,
    /// Age of the oldest block.
    Age,
    ByteSeconds,
    CrossThread,
}

impl Sort {
    const ALL: [Self; 6] = [Self::Found, Self::Bytes, Self::Growth, Self::Age, Self::ByteSeconds, Self::CrossThread];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Name of the order on the screen.
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

/// Action that a key asks of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The key changed the screen alone.
    Nothing,
    /// Mute the place with this id.
    Mute(u64),
    /// Mute nothing any more.
    Unmute,
    /// Sample twice as much.
    More,
    /// Sample half as much.
    Less,
    /// Stop sampling, or begin again.
    Toggle,
    Report,
    /// Switch between old samples and all.
    Which,
    Leave,
    /// Ctrl-C, which would reach a command that mallow started.
    Interrupt,
}

#[derive(Debug, Default)]
pub struct State {
    pub report: Option<Watched>,
    /// Live bytes over time, the oldest first, with milliseconds since the watching began.
    pub history: Vec<(u64, u64)>,
    pub headline: Headline,
    /// The sampling period, in words.
    pub period: String,
    /// Growth of less than that is growth so far.
    pub warm_up_ms: u64,
    /// The program ran before it was watched.
    pub joined: bool,
    /// Whether the explanation of keys and words is shown.
    pub help: bool,
    /// The last event, in words, in place of the keys.
    pub message: Option<String>,
    pub sort: Sort,
    /// Rows whose names have this, in whatever letters.
    pub search: String,
    /// Whether letters go into the search.
    pub searching: bool,
    /// The chosen place: the first one, as long as nobody chose.
    pub chosen: Option<u64>,
    /// Whether the user chose `chosen`.
    pub held: bool,
    /// Ids of all places in the order of `sort`.
    pub order: Vec<u64>,
    /// Whether the call paths of the chosen place are shown.
    pub detail: bool,
    /// Lines of the detail that are scrolled past.
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
        self.sort_places(false);
        self.keep_choice();
    }

    /// Orders the places; `anew`: without regard to the order before. Otherwise places that are nearly equal stay where
    /// they are: they would change places with every look.
    fn sort_places(&mut self, anew: bool) {
        const CLEARLY: f64 = 1.1;
        let Some(report) = &self.report else { return };
        let by: fn(&WatchedPlace) -> (Verdict, f64) = match self.sort {
            Sort::Found => |place| match place.growth.rank() {
                (Verdict::Unknown, _) => (Verdict::Unknown, place.live_bytes.value),
                grows => grows,
            },
            Sort::Bytes => |place| (Verdict::Unknown, place.live_bytes.value),
            Sort::Growth => |place| (Verdict::Unknown, place.growth.bytes_per_hour.low.unwrap_or(f64::NEG_INFINITY)),
            Sort::Age => |place| (Verdict::Unknown, place.oldest_ms as f64),
            Sort::ByteSeconds => |place| (Verdict::Unknown, place.byte_seconds.value),
            Sort::CrossThread => |place| (Verdict::Unknown, place.freed_by_others.unwrap_or(-1.0)),
        };
        let mut places: Vec<(u64, (Verdict, f64))> =
            report.places.places.iter().map(|place| (place.id, by(place))).collect();
        places.sort_by(|(_, a), (_, b)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        if !anew {
            let before: HashMap<u64, usize> = self.order.iter().enumerate().map(|(at, id)| (*id, at)).collect();
            let (mut known, new): (Vec<_>, Vec<_>) = places.into_iter().partition(|(id, _)| before.contains_key(id));
            known.sort_by_key(|(id, _)| before.get(id));
            known.extend(new);
            places = known;
            for at in 1..places.len() {
                let mut at = at;
                while at > 0 {
                    let ((_, above), (_, below)) = (places[at - 1], places[at]);
                    let clearly = below.1 > above.1 && below.1 - above.1 > (CLEARLY - 1.0) * above.1.abs();
                    if below.0 < above.0 || below.0 == above.0 && !clearly {
                        break;
                    }
                    places.swap(at - 1, at);
                    at -= 1;
                }
            }
        }
        self.order = places.into_iter().map(|(id, _)| id).collect();
    }

    /// Places that the search finds, in their order.
    pub fn rows(&self) -> Vec<&WatchedPlace> {
        let Some(report) = &self.report else { return Vec::new() };
        let by_id: HashMap<u64, &WatchedPlace> = report.places.places.iter().map(|place| (place.id, place)).collect();
        self.order.iter().filter_map(|id| by_id.get(id).copied()).filter(|place| self.found(place)).collect()
    }

    fn found(&self, place: &WatchedPlace) -> bool {
        let wanted = self.search.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let in_stack = |stack: &Stack| {
            stack.frames.iter().any(|frame| {
                has(&frame.function)
                    || frame.file.as_deref().is_some_and(has)
                    || frame.module.as_deref().is_some_and(has)
            })
        };
        let sites = self.report.iter().flat_map(|report| &report.sites);
        wanted.is_empty()
            || in_stack(&place.largest_site)
            || sites.filter(|site| site.place == place.id).any(|site| in_stack(&site.stack))
    }

    /// The chosen place, and its number among the rows.
    pub fn choice(&self) -> Option<(usize, &WatchedPlace)> {
        let rows = self.rows();
        rows.iter().position(|site| Some(site.id) == self.chosen).map(|at| (at, rows[at]))
    }

    fn keep_choice(&mut self) {
        if !self.held || self.choice().is_none() {
            self.held = false;
            self.chosen = self.rows().first().map(|site| site.id);
            self.detail &= self.chosen.is_some();
        }
    }

    fn choose(&mut self, at: usize) {
        let rows = self.rows();
        self.chosen = rows.get(at.min(rows.len().saturating_sub(1))).map(|site| site.id);
        self.held = true;
        self.scrolled = 0;
    }

    fn step(&mut self, by: isize) {
        if self.detail || self.help {
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
                // A longer pattern matches no name.
                KeyCode::Char(c) if self.search.len() < 200 => self.search.push(c),
                _ => {}
            }
            self.keep_choice();
            return Request::Nothing;
        }
        if self.help && matches!(key.code, KeyCode::Char('?') | KeyCode::Esc | KeyCode::Enter) {
            (self.help, self.scrolled) = (false, 0);
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
            KeyCode::Char('?') => (self.help, self.scrolled) = (true, 0),
            KeyCode::Enter => {
                self.scrolled = 0;
                self.held = true;
                self.detail = !self.detail && self.chosen.is_some();
            }
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Esc => {
                self.search.clear();
                self.keep_choice();
            }
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.sort_places(true);
                self.keep_choice();
            }
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
                    self.held = true;
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
