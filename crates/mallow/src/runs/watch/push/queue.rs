//! Requests that wait for a store, and what became of the others.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mallow_fleet::push::{Fate, Request, Store};
use serde::Serialize;

/// Bytes that wait, at the most; one request more may be larger than that.
const MOST_BYTES: usize = 16 << 20;

/// Figures of one store. Each profile that was made is sent, rejected, unknown or unsent in the end.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StoreFigures {
    /// Kind of the store: `otlp`, `pyroscope` or `parca`.
    pub store: &'static str,
    /// URL of the store.
    pub url: String,
    /// Profiles that the store has.
    pub sent: u64,
    /// Profiles that the store does not want.
    pub rejected: u64,
    /// Profiles of which it is not known whether the store has them.
    pub unknown: u64,
    /// Profiles that wait, or are on their way.
    pub waiting: u64,
    /// Profiles that were left when mallow left, or could not be made.
    pub unsent: u64,
    /// Number of times that the queue had no room for a profile, so that the next one has its contents.
    pub merged: u64,
    /// Attempts after which a profile was kept for another one.
    pub failed_attempts: u64,
    /// Reason why the latest attempt failed; null: it did not.
    pub trouble: Option<String>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    bytes: usize,
    on_its_way: bool,
    /// Nothing more comes; what waits is tried once more.
    closed: bool,
    over: bool,
    /// Nothing counts any more: mallow leaves.
    left: bool,
    figures: StoreFigures,
}

/// The queue of one store. Whoever puts something in never waits for the store.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    pub fn of(store: &Store) -> Self {
        let figures = StoreFigures { store: store.kind.name(), url: store.url.clone(), ..StoreFigures::default() };
        Self { state: Mutex::new(State { figures, ..State::default() }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for a request; if not, that is counted.
    pub fn has_room(&self) -> bool {
        let mut state = self.state();
        let room = state.bytes < MOST_BYTES;
        state.figures.merged += u64::from(!room);
        room
    }

    pub fn put(&self, request: Request) {
        let mut state = self.state();
        state.bytes += request.body.len();
        state.waiting.push_back(request);
        self.changed.notify_all();
    }

    /// Profiles that could not be made, or had no room when there was no next one.
    pub fn count_unsent(&self, profiles: u64) {
        self.state().figures.unsent += profiles;
    }

    /// Takes the oldest request out, waiting for one; None: there will be none.
    pub fn take(&self) -> Option<Request> {
        let mut state = self.state();
        loop {
            if let Some(request) = state.waiting.pop_front() {
                state.bytes -= request.body.len();
                state.on_its_way = true;
                return Some(request);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes the fate of the request that was taken; `back`: the request, where it is to be tried again.
    pub fn settle(&self, fate: &Fate, back: Option<Request>) {
        let mut state = self.state();
        if state.left {
            return;
        }
        state.on_its_way = false;
        let figures = &mut state.figures;
        figures.trouble = match fate {
            Fate::Sent => None,
            Fate::Rejected(why) | Fate::Unknown(why) | Fate::Later { why, .. } => Some(why.clone()),
        };
        match fate {
            Fate::Sent => figures.sent += 1,
            Fate::Rejected(_) => figures.rejected += 1,
            Fate::Unknown(_) => figures.unknown += 1,
            Fate::Later { .. } => figures.failed_attempts += 1,
        }
        if let Some(request) = back {
            state.bytes += request.body.len();
            state.waiting.push_front(request);
        }
    }

    /// Waits, but not longer than until nothing more comes. Returns whether that is so.
    pub fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.state();
        while !state.closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.closed
    }

    /// Ends the supply: no request is put any more.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Notes that the sender has ended.
    pub fn end(&self) {
        self.state().over = true;
    }

    /// Whether the sender has ended.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Mallow leaves: what waits is not sent, and what is on its way may arrive or not.
    pub fn leave(&self) {
        let mut state = self.state();
        state.left = true;
        state.figures.unsent += state.waiting.len() as u64;
        state.figures.unknown += u64::from(state.on_its_way);
        state.waiting.clear();
        state.on_its_way = false;
    }

    pub fn figures(&self) -> StoreFigures {
        let state = self.state();
        StoreFigures { waiting: state.waiting.len() as u64 + u64::from(state.on_its_way), ..state.figures.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mallow_fleet::push::{Fate, Request, Store};

    use super::{MOST_BYTES, Queue};

    fn queue() -> Queue {
        Queue::of(&Store::parse("otlp=http://h").expect("a store"))
    }

    fn request(bytes: usize) -> Request {
        Request { path: bytes.to_string(), headers: Vec::new(), body: vec![0; bytes] }
    }

    #[test]
    fn each_profile_is_counted_once() {
        let queue = queue();
        (1..=6).for_each(|bytes| queue.put(request(bytes)));
        assert_eq!(queue.take().map(|one| one.path).as_deref(), Some("1"));
        queue.settle(&Fate::Sent, None);
        let failed = queue.take();
        queue.settle(&Fate::Later { after: None, why: "x".to_owned() }, failed);
        assert_eq!(queue.figures().trouble.as_deref(), Some("x"));
        // The same one again.
        assert_eq!(queue.take().map(|one| one.path).as_deref(), Some("2"));
        queue.settle(&Fate::Rejected(String::new()), None);
        queue.take();
        queue.settle(&Fate::Unknown(String::new()), None);
        queue.take();
        assert_eq!(queue.figures().waiting, 3);
        queue.close();
        queue.leave();
        // Too late: it is counted already.
        queue.settle(&Fate::Sent, None);
        let all = queue.figures();
        let [sent, rejected, unknown, unsent] = [all.sent, all.rejected, all.unknown, all.unsent];
        assert_eq!([sent, rejected, unknown, unsent, all.waiting, all.failed_attempts], [1, 1, 2, 2, 0, 1]);
    }

    #[test]
    fn a_full_queue_says_so_and_one_that_is_closed_does_not_wait() {
        let queue = queue();
        assert!(queue.has_room());
        queue.put(request(MOST_BYTES + 1));
        assert!(!queue.has_room());
        assert_eq!(queue.figures().merged, 1);
        assert!(!queue.pause(Duration::ZERO));
        queue.close();
        assert!(queue.pause(Duration::from_secs(3600)));
        assert!(queue.take().is_some() && queue.take().is_none());
    }
}
