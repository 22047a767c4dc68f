//! What a person sees while something takes long.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mallow_capture::recording::Progress;

/// Time before which nothing is worth a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether nobody waits at the terminal.
static OFF: AtomicBool = AtomicBool::new(false);

/// Shows no bar from now on: who waits looks at something else.
pub fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

fn is_shown() -> bool {
    !OFF.load(Ordering::Relaxed) && std::io::stderr().is_terminal()
}

/// A bar on the terminal, once something takes longer than a second; nothing elsewhere. It vanishes when dropped.
#[derive(Debug)]
pub struct Bar {
    bar: Option<ProgressBar>,
    since: Instant,
    what: Cow<'static, str>,
}

impl Bar {
    pub fn of(what: impl Into<Cow<'static, str>>) -> Self {
        let terminal = is_shown();
        let hidden = || ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar: terminal.then(hidden), since: Instant::now(), what: what.into() }
    }

    /// Shows the part that is done, with the time left.
    pub fn show(&self, progress: Progress) {
        self.show_as(progress, "mallow: {msg} [{bar:30}] {percent} %, {eta} left");
    }

    fn show_as(&self, progress: Progress, template: &str) {
        let Some(bar) = &self.bar else { return };
        if bar.is_hidden() {
            if self.since.elapsed() < PATIENCE {
                return;
            }
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_message(self.what.clone());
        }
        bar.set_length(progress.all);
        bar.set_position(progress.done);
    }

    /// Shows the bytes that are here, of all, or of an unknown number where that is 0.
    pub fn show_bytes(&self, progress: Progress) {
        match progress.all {
            0 => self.show_as(progress, "mallow: {msg}, {bytes}, {elapsed}"),
            _ => self.show_as(progress, "mallow: {msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left"),
        }
    }

    /// Shows the part that is done, from 0 to 1, of something whose parts do not take equally long: no time is
    /// predicted.
    pub fn show_part(&self, part: f64) {
        const ALL: u64 = 1000;
        let progress = Progress { done: (part * ALL as f64) as u64, all: ALL };
        self.show_as(progress, "mallow: {msg} [{bar:30}] {percent} %, {elapsed}");
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Name of the current work, on the terminal, once it takes longer than a second; nothing elsewhere. It vanishes when
/// dropped.
#[derive(Debug)]
pub struct Spinner {
    bar: Option<ProgressBar>,
}

impl Spinner {
    pub fn new() -> Self {
        let terminal = is_shown();
        let hidden = || ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar: terminal.then(hidden) }
    }

    /// Shows `what` as the current work.
    pub fn at(&self, what: &str) {
        let Some(bar) = &self.bar else { return };
        if bar.is_hidden() {
            let style = ProgressStyle::with_template("mallow: {msg}, {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        bar.set_message(crate::output::text::clean(what).into_owned());
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
