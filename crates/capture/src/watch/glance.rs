//! Looks at many programs at one moment, which cost little where nothing happens: a few words of each are loaded.

use super::{Looked, Watch};
use crate::rundir::directory::monotonic_ns;
use crate::wire::control;
use mallow_profile::SampleEvent;

/// A moment that many looks share: its clocks are read once.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The moment on CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The moment up to which a ledger has all events, at the kernel's last tick.
    pub looked: Looked,
}

impl Turn {
    pub fn now() -> Self {
        Self { now_ns: monotonic_ns(), looked: Looked::now() }
    }
}

impl Watch {
    /// Whether a process rang since this was asked last: it began, waits for a table, or has ended many samples. Costs
    /// one load.
    pub fn rang(&mut self) -> bool {
        let rung = self.control.shared.get32(control::DOORBELL);
        std::mem::replace(&mut self.rung, rung) != rung
    }

    /// [`Watch::poll`] that passes over processes which seem to do nothing.
    pub fn poll_news(&mut self, each: &mut dyn FnMut(SampleEvent)) {
        self.look(Some(each), true);
    }

    /// Reports what was sampled since the last look, which must be before the turn, and lets targets know that somebody
    /// looks. Processes that began or ended are for [`Watch::poll_news`], which asks the kernel.
    pub fn glance(&mut self, turn: &Turn, each: &mut dyn FnMut(SampleEvent)) {
        self.give_sign(turn.now_ns);
        if !self.images.iter_mut().any(|image| image.has_news()) {
            self.looked = turn.looked;
            return;
        }
        self.exchange();
        self.looked = turn.looked;
        for image in &mut self.images {
            image.look(&mut self.common, turn.looked.at_ns, false, each);
        }
        self.exchange();
    }
}
