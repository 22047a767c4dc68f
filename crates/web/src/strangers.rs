//! Connections that no allowed request came on yet: they give their room to new ones.
//!
//! Anybody who reaches the address can connect, and the server cannot know who until a request is here. Where all room
//! is taken and a connection waits, those that were silent for longest are closed: who holds connections and has no
//! token keeps nobody else out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// The connections, by the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// When the connection was accepted, and the handle that closes it.
    open: BTreeMap<u64, (Instant, AbortHandle)>,
}

impl Strangers {
    pub(crate) fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    pub(crate) fn add(&self, number: u64, closes: AbortHandle) {
        self.state().open.insert(number, (Instant::now(), closes));
    }

    /// A request on it was allowed, or it is over.
    pub(crate) fn remove(&self, number: u64) {
        self.state().open.remove(&number);
    }

    /// Closes connections that are older and sent no allowed request yet.
    pub(crate) fn close_older(&self, than: Duration) {
        self.state().open.retain(|_, (since, closes)| {
            let is_kept = since.elapsed() <= than;
            if !is_kept {
                closes.abort();
            }
            is_kept
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
