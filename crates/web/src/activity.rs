//! When a server was last used.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts requests that are being answered, and notes when the last of them ended.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    running: usize,
    last: Instant,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { running: 0, last: Instant::now() }))
    }

    /// A request is being answered until the guard is dropped.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.state().running += 1;
        Running(self)
    }

    /// Time since the last answer; 0 while a request is being answered.
    pub(crate) fn idle(&self) -> Duration {
        let state = self.state();
        if state.running > 0 { Duration::ZERO } else { state.last.elapsed() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Two numbers: nothing panics while they are held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Running<'a>(&'a Activity);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        state.last = Instant::now();
    }
}
