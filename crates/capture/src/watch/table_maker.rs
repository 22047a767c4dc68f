//! Unwind tables for targets that wait for them.

use crate::drain::requests::{self, Request, TableWaits};
use std::sync::mpsc::{Sender, channel};

/// A thread that makes the unwind tables that targets wait for, until no copy of this is left to ask it.
#[derive(Clone)]
pub struct TableMaker(Sender<Request>);

impl TableMaker {
    pub fn start() -> Self {
        let (requests, wishes) = channel();
        std::thread::spawn(move || requests::serve(&wishes, &TableWaits::default()));
        Self(requests)
    }

    pub(super) fn sender(&self) -> Sender<Request> {
        self.0.clone()
    }
}
