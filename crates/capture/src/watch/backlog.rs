//! Events from after a look's moment, which were read in it all the same.

use mallow_profile::{SampleEvent, SampleKey};
use rustc_hash::FxHashSet;

/// Events that wait for the next look, in the order in which they were read: few, as a target does them while it is
/// read.
#[derive(Default)]
pub struct Backlog {
    events: Vec<SampleEvent>,
    /// Samples whose beginning waits: their other events wait, too.
    begins: FxHashSet<SampleKey>,
}

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Reports the waiting events that happened before `until_ns`.
    pub fn report(&mut self, until_ns: u64, each: &mut dyn FnMut(SampleEvent)) {
        self.begins.clear();
        for event in std::mem::take(&mut self.events) {
            self.pass(event, until_ns, each);
        }
    }

    /// Reports an event that happened before `until_ns`, and keeps one that did not. Losses, and processes that begin
    /// or end, are reported at once.
    pub fn pass(&mut self, event: SampleEvent, until_ns: u64, each: &mut dyn FnMut(SampleEvent)) {
        let waits = match event {
            SampleEvent::Allocated { key, sample } => {
                let waits = sample.at_ns >= until_ns;
                if waits {
                    self.begins.insert(key);
                }
                waits
            }
            SampleEvent::Freed { key, release } | SampleEvent::Reallocated { key, release, .. } => {
                release.at_ns >= until_ns || self.begins.contains(&key)
            }
            SampleEvent::Gone { key, .. } => self.begins.contains(&key),
            SampleEvent::ProcessBegan { .. } | SampleEvent::ProcessEnded { .. } | SampleEvent::Lost { .. } => false,
        };
        if waits {
            self.events.push(event);
        } else {
            each(event);
        }
    }
}
